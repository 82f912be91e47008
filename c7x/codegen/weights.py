"""weights.bin: the constants of a model in the format of the firmware's loader (shared spec "weights.bin format").

The format aligns tensor data to 4 bytes only, and its readers break on more padding than that. Where a tensor needs
a stronger alignment (vectors, 64-bit data) an unused string entry in front of it takes up the distance; it costs one
index and at least 12 bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from c7x.codegen.program import DTYPES
from c7x.errors import FormatError, UnsupportedError

#: Of a tensor's data, in bytes from the start of the file.
DATA_ALIGNMENT = 64
#: The firmware's loader rejects more entries (error -3).
MAX_CONSTANTS = 4096

_TENSOR, _SHAPE, _STRING, _INT, _FLOAT, _DTYPE = 70, 69, 65, 1, 3, 5
_TENSOR_MAGIC = 0xDD5E40F096B4A13F
_MAX_NDIM = 16
_FILL = b"-"
_FILLER_BYTES = len(struct.pack("<iq", _STRING, 0))


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry of weights.bin: its index in the constants array, the offset of its data from the file's start
    (tensors only, else -1), and its value (array for a tensor, tuple for a shape, str, int, float)."""

    index: int
    kind: int
    data_offset: int
    value: np.ndarray | tuple[int, ...] | str | int | float


def _string_entry(length: int) -> bytes:
    return struct.pack("<iq", _STRING, length) + _FILL * length


def _tensor_header(array: np.ndarray) -> bytes:
    dtype = array.dtype.name
    if dtype not in DTYPES:
        raise UnsupportedError(
            f"a constant has dtype {dtype}, which weights.bin cannot hold",
            cause="the format knows signed, unsigned and boolean integers, float32 and float64",
            hint="convert the parameter in the model, for example model.float()",
        )
    code, bits, _, _ = DTYPES[dtype]
    header = struct.pack("<iQQiiiBBH", _TENSOR, _TENSOR_MAGIC, 0, 1, 0, array.ndim, code, bits, 1)
    return header + struct.pack(f"<{array.ndim}q", *array.shape) + struct.pack("<q", array.nbytes)


def pack_weights(arrays: Sequence[np.ndarray]) -> tuple[bytes, list[Entry]]:
    """The bytes of weights.bin for ``arrays``, in their order, and the entry of each array.

    Args:
        arrays: C-contiguous arrays whose dtypes are keys of ``DTYPES``.

    Raises:
        UnsupportedError: more entries than the firmware's loader takes, or a dtype the format lacks.
    """
    body = bytearray(8)
    entries: list[Entry] = []
    count = 0
    for array in arrays:
        header = _tensor_header(array)
        gap = -(len(body) + len(header)) % DATA_ALIGNMENT
        if 0 < gap < 4:
            # The producer's rule of the format: a tensor entry starts at a multiple of 4. A header is a multiple of 4
            # long, so this gap ends at one.
            body += b"\0" * gap
        elif gap:
            # A filler is at least 12 bytes, so a smaller gap takes one whole alignment step more. Its first byte is
            # not zero, so readers that skip zeros find it at any offset.
            if gap < _FILLER_BYTES:
                gap += DATA_ALIGNMENT
            body += _string_entry(gap - _FILLER_BYTES)
            count += 1
        body += header
        entries.append(Entry(index=count, kind=_TENSOR, data_offset=len(body), value=array))
        body += array.tobytes()
        count += 1
    if count > MAX_CONSTANTS:
        raise UnsupportedError(
            f"the model needs {count} entries in weights.bin and the firmware's loader takes {MAX_CONSTANTS}",
            cause="the model has very many separate parameters",
            hint="stack small parameters into fewer tensors",
        )
    struct.pack_into("<Q", body, 0, count)
    return bytes(body), entries


def unpack_weights(data: bytes) -> list[Entry]:
    """Reads weights.bin as the firmware does (leading zero bytes before an entry are skipped).

    Raises:
        FormatError: the bytes are truncated or not this format; the message gives the offset.
    """
    position = 0

    def take(size: int, what: str) -> bytes:
        nonlocal position
        if size < 0 or size > len(data) - position:
            raise FormatError(
                f"weights.bin ends inside {what} at byte {position}",
                cause=f"{size} bytes are announced and {len(data) - position} are left: truncated or not a weights.bin",
                hint="run c7x codegen again",
            )
        piece = data[position : position + size]
        position += size
        return piece

    if not data:
        return []
    (count,) = struct.unpack("<Q", take(8, "the header"))
    if count > MAX_CONSTANTS:
        raise FormatError(
            f"weights.bin announces {count} constants, more than {MAX_CONSTANTS}",
            cause="the file is not a weights.bin, or is damaged",
            hint="run c7x codegen again",
        )
    entries: list[Entry] = []
    for index in range(count):
        while position < len(data) and data[position] == 0:
            position += 1
        (kind,) = struct.unpack("<i", take(4, f"entry {index}"))
        what = f"entry {index} (type {kind})"
        offset = -1
        value: np.ndarray | tuple[int, ...] | str | int | float
        if kind == _TENSOR:
            magic, _, _, _, ndim, code, bits, lanes = struct.unpack("<QQiiiBBH", take(32, what))
            if magic != _TENSOR_MAGIC or not 0 <= ndim <= _MAX_NDIM or lanes != 1:
                raise FormatError(
                    f"{what} has no valid tensor header at byte {position - 32}",
                    cause="the file is damaged",
                    hint="run c7x codegen again",
                )
            shape = struct.unpack(f"<{ndim}q", take(8 * ndim, what))
            (nbytes,) = struct.unpack("<q", take(8, what))
            dtype = next((n for n, d in DTYPES.items() if d[:2] == (code, bits)), None)
            offset = position
            raw = take(nbytes, what)
            numel = math.prod(shape)
            if dtype is None or min(shape, default=0) < 0 or nbytes != numel * DTYPES[dtype][2]:
                raise FormatError(
                    f"{what} announces {nbytes} bytes for shape {list(shape)} with dtype code {code}, {bits} bits",
                    cause="the file is damaged",
                    hint="run c7x codegen again",
                )
            value = np.frombuffer(raw, dtype=dtype).reshape(shape)
        elif kind == _SHAPE:
            (n,) = struct.unpack("<Q", take(8, what))
            value = struct.unpack(f"<{n}q", take(8 * n, what))
        elif kind == _STRING:
            (n,) = struct.unpack("<Q", take(8, what))
            value = take(n, what).decode("utf-8", "replace")
        elif kind == _INT:
            (value,) = struct.unpack("<q", take(8, what))
        elif kind == _FLOAT:
            (value,) = struct.unpack("<d", take(8, what))
        elif kind == _DTYPE:
            value = tuple(struct.unpack("<BBH", take(4, what)))
        else:
            raise FormatError(
                f"entry {index} of weights.bin has the unknown type {kind} at byte {position - 4}",
                cause="the file is not a weights.bin, or is damaged",
                hint="run c7x codegen again",
            )
        entries.append(Entry(index=index, kind=kind, data_offset=offset, value=value))
    return entries
