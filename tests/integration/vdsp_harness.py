"""The virtual DSP from raw bytes: messages are packed here from the protocol's tables, without c7x's own client."""

from __future__ import annotations

import json
import mmap
import socket
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from c7x.toolchain.gnu import BuildOptions, find_compiler
from c7x.toolchain.vdsp import build_module

MODULES = Path(__file__).resolve().parents[1] / "native" / "modules"

BASE, SIZE = 0xC0000000, 0x20000000
STAGING_SIZE = 0x1D400000
KV, KV_SLOT = 0x1D400000, 196608
RESULT = 0x1E000000
PRINTF = 0x1FFF0000

PING, GET_STATUS, DYN_LOAD, DYN_UNLOAD = 0x01, 0x03, 0x10, 0x12
MODEL_LOAD, INFER, MODEL_UNLOAD, INFER_LARGE = 0x20, 0x21, 0x22, 0x23
ANSWER = 0x1000

SUCCESS, INVALID, NOMEM, ADDR, SIZE_ERROR, LOAD, SYMBOL, CALL, HANDLE, WEIGHTS, TENSOR = (
    0, -2, -3, -6, -7, -9, -10, -11, -12, -13, -14,
)  # fmt: skip

#: Commands of tests/native/modules/probe.c.
(
    OUTPUTS, INPUTS, PRINT, RETURN, ALLOCATE, CRASH, READ_BSS, KEEP_POINTER, OVERRUN, FREE_TWICE, FREE_MEMORY, DMA,
    BAD_OUTPUT, KERNEL, CONSTANTS, RETURN_INPUT, REGISTERS, MATH, PACKED,
) = range(19)  # fmt: skip


def make_module(
    folder: Path,
    *,
    defines: Sequence[str] = (),
    weights: bytes | None = None,
    board: str = "j722s-evm",
    compiler: str = "gcc",
) -> bytes:
    """probe.c as a module for the virtual DSP."""
    folder.mkdir(parents=True)
    path = None
    if weights is not None:
        path = folder / "given.bin"
        path.write_bytes(weights)
    scratch = folder / "scratch"
    scratch.mkdir()
    options = BuildOptions(cflags=("-O1", "-fno-delete-null-pointer-checks", *(f"-D{name}" for name in defines)))
    module, _ = build_module(
        [MODULES / "probe.c"],
        weights=path,
        folder=scratch,
        board=board,
        options=options,
        compiler=find_compiler(compiler),
    )
    return module.read_bytes()


def header(kind: int, seq: int, length: int, status: int = 0) -> bytes:
    return struct.pack("<IIIi", kind, seq, length, status)


def desc(address: int, size: int, shape: Sequence[int], code: int = 0, bits: int = 8, ndim: int | None = None) -> bytes:
    dims = [*shape, *[0] * (6 - len(shape))]
    return struct.pack("<QQiiii6q", address, size, len(shape) if ndim is None else ndim, code, bits, 0, *dims)


@dataclass(frozen=True)
class Desc:
    address: int
    size: int
    ndim: int
    code: int
    bits: int
    reserved: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Infer:
    """An INFER response, read by the offsets of the tables."""

    type: int
    length: int
    status: int
    value: int
    cycles: int
    outputs: tuple[Desc, ...]
    num_outputs: int
    printf_size: int
    descs_address: int
    oom: tuple[int, int, int]
    data: tuple[bytes, ...]
    text: str


class RawDsp:
    """A virtual DSP of its own and one connection to it."""

    def __init__(self, program: Path, folder: Path, *options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.socket_path, self.shm, self.log = folder / "v.sock", folder / "v.shm", folder / "v.log"
        command = [str(program), "--socket", str(self.socket_path), "--shm", str(self.shm), *options]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        assert self.process.stdout is not None
        with self.process.stdout as stdout:
            self.ready = json.loads(stdout.readline())
        self.base = int(self.ready["base"], 16)
        with self.shm.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), SIZE)
        self.connection = self.connect()
        self.seq = 0
        self.free = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()
        self.memory.close()
        self.process.terminate()
        code = self.process.wait(10)
        if kind is None:
            assert code == 0, self.log.read_text()
            assert not self.socket_path.exists()
            assert not self.shm.exists()

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(20)
        connection.connect(str(self.socket_path))
        return connection

    def raw(self, message: bytes) -> bytes:
        self.connection.send(message)
        return self.connection.recv(1 << 16)

    def ask(self, kind: int, body: bytes = b"") -> bytes:
        """Sends a request; checks what every answer has in common."""
        self.seq += 1
        answer = self.raw(header(kind, self.seq, 16 + len(body)) + body)
        _, seq, length, _ = struct.unpack_from("<IIIi", answer)
        assert (seq, length) == (self.seq, len(answer))
        return answer

    @staticmethod
    def status(answer: bytes) -> int:
        value: int = struct.unpack_from("<i", answer, 12)[0]
        return value

    def load(self, module: bytes) -> tuple[int, int, tuple[int, int, int]]:
        """Status, handle and oom fields."""
        self.memory[: len(module)] = module
        answer = self.ask(DYN_LOAD, struct.pack("<IIII", len(module), 0, 0, 0))
        assert len(answer) == 40
        assert struct.unpack_from("<I", answer)[0] == 0x1010
        handle, text, data, *oom = struct.unpack_from("<IIIIII", answer, 16)
        assert (text, data) == (0, 0)
        self.free = len(module)
        return self.status(answer), handle, (oom[0], oom[1], oom[2])

    def must_load(self, module: bytes) -> int:
        status, handle, _ = self.load(module)
        assert status == SUCCESS, self.text() + self.log.read_text()
        return handle

    def unload(self, handle: int) -> int:
        answer = self.ask(DYN_UNLOAD, struct.pack("<I", handle))
        assert len(answer) == 16
        return self.status(answer)

    def stage(self, data: bytes, after: int | None = None) -> int:
        """Puts bytes into staging; returns their DSP address."""
        at = ((self.free if after is None else after) + 127) // 128 * 128
        self.memory[at : at + len(data)] = data
        self.free = at + len(data)
        return self.base + at

    def text(self) -> str:
        magic, size, capacity, reserved = struct.unpack_from("<IIII", self.memory, PRINTF)
        assert (magic, capacity, reserved) == (0x50524E54, 65520, 0)
        return self.memory[PRINTF + 16 : PRINTF + 16 + size].decode()

    def read(self, address: int, size: int) -> bytes:
        at = address - self.base
        assert at >= RESULT and at + size <= SIZE, hex(address)
        return self.memory[at : at + size]

    def parse(self, answer: bytes) -> Infer:
        kind, _, length, status = struct.unpack_from("<IIIi", answer)
        value, cycles, count, printf_size, where, size, *oom = struct.unpack_from("<iQIIQIIII", answer, 16)
        source, at = (answer, 60) if where == 0 else (self.read(where, size), 0)
        outputs = []
        for i in range(count):
            address, nbytes, ndim, code, bits, reserved, *dims = struct.unpack_from("<QQiiii6q", source, at + 80 * i)
            outputs.append(Desc(address, nbytes, ndim, code, bits, reserved, tuple(dims)))
        return Infer(
            type=kind,
            length=length,
            status=status,
            value=value,
            cycles=cycles,
            outputs=tuple(outputs),
            num_outputs=count,
            printf_size=printf_size,
            descs_address=where,
            oom=(oom[0], oom[1], oom[2]),
            data=tuple(self.read(d.address, d.size) for d in outputs),
            text=self.text(),
        )

    def infer(self, handle: int, inputs: Sequence[bytes], *, flags: int = 0, model: int = 0) -> Infer:
        """INFER with packed descriptors."""
        body = struct.pack("<IIII", handle, model, len(inputs), flags) + (b"".join(inputs) or bytes(80))
        return self.parse(self.ask(INFER, body))

    def infer_large(self, handle: int, inputs: Sequence[bytes], *, flags: int = 0, model: int = 0) -> Infer:
        keep = self.free
        address = self.stage(b"".join(inputs))
        self.free = keep
        body = struct.pack("<IIIIQII", handle, model, len(inputs), flags, address, 80 * len(inputs), 0)
        return self.parse(self.ask(INFER_LARGE, body))

    def command(self, command: int, argument: int = 0) -> bytes:
        """The descriptor of a first input for probe.c."""
        keep = self.free
        address = self.stage(struct.pack("<ii", command, argument))
        self.free = keep + 256
        return desc(address, 8, [2], 0, 32)

    def do(self, handle: int, command: int, argument: int = 0, *, large: bool = True, flags: int = 0) -> Infer:
        keep = self.free
        inputs = [self.command(command, argument)]
        result = (self.infer_large if large else self.infer)(handle, inputs, flags=flags)
        self.free = keep
        return result


def children(pid: int) -> list[int]:
    """Processes whose parent is ``pid``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
