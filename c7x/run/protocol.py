"""The wire protocol in Python: the values of native/include/c7x_protocol.h and the messages as structures.

Numbers and fields are those of the header; tests/integration/test_protocol_mirror.py compiles it and compares them all.
All integers are little endian and nothing is padded.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from typing_extensions import Buffer  # collections.abc has it from Python 3.12 on

SERVICE_VERSION = 0x020000
SERVICE_ENDPOINT = 20
MAX_MESSAGE = 512
MAX_RPMSG_PAYLOAD = 496
MIN_MESSAGE = 16


class Message(enum.IntEnum):
    """Types of requests; an answer has ``RESPONSE`` set, and INFER_LARGE is answered with that of INFER."""

    PING = 0x0001
    GET_STATUS = 0x0003
    DYN_LOAD = 0x0010
    DYN_UNLOAD = 0x0012
    MODEL_LOAD = 0x0020
    INFER = 0x0021
    MODEL_UNLOAD = 0x0022
    INFER_LARGE = 0x0023


RESPONSE = 0x1000
INFER_RESPONSE = 0x1021


class Status(enum.IntEnum):
    """Status codes of answers."""

    SUCCESS = 0
    ERR_GENERIC = -1
    ERR_INVALID = -2
    ERR_NOMEM = -3
    ERR_BUSY = -4
    ERR_TIMEOUT = -5
    ERR_ADDR = -6
    ERR_SIZE = -7
    ERR_OP = -8
    ERR_LOAD = -9
    ERR_SYMBOL = -10
    ERR_CALL = -11
    ERR_HANDLE = -12
    ERR_WEIGHTS = -13
    ERR_TENSOR = -14


WIRE_MAX_RANK = 6
INFER_MAX_INPUTS = 4
INFER_LARGE_MAX_INPUTS = 128
MAX_INLINE_DESCS = 5
MAX_MODULES = 4
MAX_MODELS = 4
FLAG_REPEAT_MASK = 0xFFFF
FLAG_KV_RESIDENT = 0x10000

CARVEOUT_ADDR, CARVEOUT_SIZE = 0xC0000000, 0x20000000
STAGING_ADDR, STAGING_SIZE, STAGING_OFFSET = 0xC0000000, 0x1D400000, 0
KV_ADDR, KV_SIZE, KV_OFFSET = 0xDD400000, 0x00C00000, 0x1D400000
KV_SLOT_SIZE, KV_SLOTS = 196608, 60
RESULT_ADDR, RESULT_SIZE, RESULT_OFFSET = 0xDE000000, 0x02000000, 0x1E000000
RESULT_ALIGNMENT = 64
PRINTF_ADDR, PRINTF_SIZE, PRINTF_OFFSET = 0xDFFF0000, 0x10000, 0x1FFF0000
MAIN_POOL_ADDR, MAIN_POOL_SIZE = 0x102000000, 0x16000000
L2_ADDR, L2_SIZE = 0x7E000000, 0x140000
L2_AUX_ADDR, L2_AUX_SIZE = 0x7F000000, 0x3C000
FAST_POOL_ADDR, FAST_POOL_SIZE = 0x7F000000, 0x20000
L1_AUX_ADDR, L1_AUX_SIZE = 0x7F03C000, 0x4000
CARVEOUT_PHYS_J722S_EVM, CARVEOUT_PHYS_BEAGLEY_AI = 0x900000000, 0x8A0000000
STAGING_ALIGNMENT = 128

PRINTF_MAGIC = 0x50524E54
PRINTF_CAPACITY = 65520
PRINTF_MAX_CALL = 511


class _Struct:
    """A packed structure: a dataclass whose fields are packed in order by ``layout``."""

    layout: ClassVar[struct.Struct]

    @classmethod
    def size(cls) -> int:
        """Bytes of the structure."""
        return cls.layout.size

    def pack(self) -> bytes:
        return self.layout.pack(*vars(self).values())

    @classmethod
    def unpack(cls, data: Buffer, offset: int = 0) -> Self:
        """Reads the structure at ``offset`` (struct.error when the bytes do not reach)."""
        return cls(*cls.layout.unpack_from(data, offset))


@dataclass(frozen=True)
class Header(_Struct):
    """First in every message; ``len`` counts the whole message."""

    layout: ClassVar[struct.Struct] = struct.Struct("<IIIi")
    type: int
    seq: int
    len: int
    status: int = 0


@dataclass(frozen=True)
class WireDesc(_Struct):
    """A tensor in a message. ``shape`` has six entries of which ``ndim`` count; ``data_addr`` is a DSP address."""

    layout: ClassVar[struct.Struct] = struct.Struct("<QQiiii6q")
    data_addr: int
    data_size: int
    ndim: int
    dtype_code: int
    dtype_bits: int
    reserved: int
    shape: tuple[int, ...]

    def pack(self) -> bytes:
        shape = (*self.shape, *[0] * (WIRE_MAX_RANK - len(self.shape)))
        *fields, _ = vars(self).values()
        return self.layout.pack(*fields, *shape)

    @classmethod
    def unpack(cls, data: Buffer, offset: int = 0) -> Self:
        address, size, ndim, code, bits, reserved, *shape = cls.layout.unpack_from(data, offset)
        return cls(address, size, ndim, code, bits, reserved, tuple(shape))

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions that count."""
        return self.shape[: max(0, min(self.ndim, WIRE_MAX_RANK))]


# Bodies: what follows the header. Requests first.


@dataclass(frozen=True)
class DynLoadRequest(_Struct):
    layout: ClassVar[struct.Struct] = struct.Struct("<IIII")
    elf_size: int
    flags: int = 0
    reserved0: int = 0
    reserved1: int = 0


@dataclass(frozen=True)
class DynUnloadRequest(_Struct):
    layout: ClassVar[struct.Struct] = struct.Struct("<I")
    module_handle: int


@dataclass(frozen=True)
class ModelLoadRequest(_Struct):
    layout: ClassVar[struct.Struct] = struct.Struct("<IIII")
    weights_size: int
    flags: int = 0
    reserved0: int = 0
    reserved1: int = 0


@dataclass(frozen=True)
class ModelUnloadRequest(_Struct):
    layout: ClassVar[struct.Struct] = struct.Struct("<I")
    model_id: int


@dataclass(frozen=True)
class InferRequest(_Struct):
    """Followed by the descriptors; one slot is always there (``infer_body``)."""

    layout: ClassVar[struct.Struct] = struct.Struct("<IIII")
    module_handle: int
    model_id: int
    num_inputs: int
    flags: int = 0


@dataclass(frozen=True)
class InferLargeRequest(_Struct):
    layout: ClassVar[struct.Struct] = struct.Struct("<IIIIQII")
    module_handle: int
    model_id: int
    num_inputs: int
    flags: int
    descs_addr: int
    descs_size: int
    reserved: int = 0


@dataclass(frozen=True)
class PingResponse(_Struct):
    layout: ClassVar[struct.Struct] = struct.Struct("<II")
    version: int
    uptime_ms: int


@dataclass(frozen=True)
class StatusResponse(_Struct):
    layout: ClassVar[struct.Struct] = struct.Struct("<IIII")
    version: int
    uptime_ms: int
    jobs_completed: int
    jobs_failed: int


@dataclass(frozen=True)
class DynLoadResponse(_Struct):
    layout: ClassVar[struct.Struct] = struct.Struct("<IIIIII")
    module_handle: int
    text_size: int
    data_size: int
    oom_requested: int
    oom_free: int
    oom_total: int


@dataclass(frozen=True)
class ModelLoadResponse(_Struct):
    layout: ClassVar[struct.Struct] = struct.Struct("<IIIII")
    model_id: int
    num_constants: int
    oom_requested: int
    oom_free: int
    oom_total: int


@dataclass(frozen=True)
class InferResponse(_Struct):
    """Followed by descriptors when ``descs_addr`` is 0; one slot is always there."""

    layout: ClassVar[struct.Struct] = struct.Struct("<iQIIQIIII")
    return_value: int
    cycles: int
    num_outputs: int
    printf_size: int
    descs_addr: int
    descs_size: int
    oom_requested: int
    oom_free: int
    oom_total: int


@dataclass(frozen=True)
class PrintfHeader(_Struct):
    layout: ClassVar[struct.Struct] = struct.Struct("<IIII")
    magic: int
    write_index: int
    capacity: int
    reserved: int


def infer_body(request: InferRequest, inputs: Sequence[WireDesc]) -> bytes:
    """The body of an INFER request with its descriptors, at least one slot of them."""
    descs = b"".join(desc.pack() for desc in inputs) or bytes(WireDesc.size())
    return request.pack() + descs


def message(kind: int, seq: int, body: bytes = b"") -> bytes:
    """A request: header and body."""
    return Header(kind, seq, Header.size() + len(body)).pack() + body
