"""Builds of the Arm side, modules and virtual DSPs for its tests, and a server that answers whatever a test wants."""

from __future__ import annotations

import atexit
import ctypes
import functools
import mmap
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from c7x.run import protocol
from c7x.run.protocol import Header, Message
from c7x.toolchain.gnu import BuildOptions, find_compiler
from c7x.toolchain.vdsp import build_module

ROOT = Path(__file__).resolve().parents[2]
ARM = ROOT / "native" / "arm"


@functools.cache
def scratch() -> Path:
    """A folder for what is built once a process."""
    folder = Path(tempfile.mkdtemp(prefix="c7x-arm-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    """A program's run to its end, with its output as text."""
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)  # type: ignore[call-overload]


def call(command: list[str], **options: object) -> str:
    """As ``run``; the program must succeed. Its standard output."""
    done = run(command, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@functools.cache
def arm_build(*flags: str) -> Path:
    """The build folder of native/arm, configured with ``flags``."""
    folder = scratch() / f"arm-{len(list(scratch().iterdir()))}"
    call(["cmake", "-S", str(ARM), "-B", str(folder), *flags])
    call(["cmake", "--build", str(folder), "--parallel", "2"])
    return folder


@functools.cache
def module(*flags: str) -> Path:
    """``lib0.out`` of arm_module.c, compiled with ``flags``."""
    folder = Path(tempfile.mkdtemp(dir=scratch(), prefix="module-"))
    source = ROOT / "tests" / "integration" / "arm_module.c"
    options = BuildOptions(cflags=flags)
    path, _ = build_module(
        [source], weights=None, folder=folder, board="j722s-evm", options=options, compiler=find_compiler(None)
    )
    return path


@functools.cache
def wheel() -> Path:
    """The inference wheel of this machine."""
    out = call(
        [
            sys.executable,
            str(ARM / "python" / "build_wheel.py"),
            "--build", str(arm_build()),
            "--output", str(scratch() / "wheel"),
            "--license", str(ROOT / "LICENSE"),
        ]
    )  # fmt: skip
    return Path(out.strip())


@functools.cache
def site(*, with_tvm: bool) -> Path:
    """A folder for PYTHONPATH with the wheel unpacked and the packages of this environment, TVM among them or not."""
    packages = Path(sysconfig.get_paths()["purelib"])
    folder = scratch() / f"site-{'tvm' if with_tvm else 'alone'}"
    folder.mkdir()
    for path in packages.iterdir():
        if path.name not in ("tvm", "__pycache__") and not path.name.startswith(("tvm_ti", "_c7x", "c7x")):
            (folder / path.name).symlink_to(path)
    if with_tvm:
        for source, target in (("tvm", folder / "tvm"), ("tvm/contrib", folder / "tvm" / "contrib")):
            target.unlink(missing_ok=True)
            target.mkdir()
            for path in (packages / source).iterdir():
                (target / path.name).symlink_to(path)
    shutil.unpack_archive(wheel(), folder, "zip")
    return folder


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Variables of this process's environment, for the block; the C library reads them through getenv."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


Answer = bytes | None
Reply = Callable[["FakeDsp", Header, bytes], "Answer | list[bytes]"]


class FakeDsp:
    """A server at a socket with a shared file beside it, whose answers a test makes.

    ``reply`` gets the request's header and the whole message and returns the answer, a list of messages, or None for
    silence; closing the connection is ``fake.hang_up()``.
    """

    def __init__(self, folder: Path, reply: Reply) -> None:
        self.socket = folder / "fake.sock"
        self.shm = folder / "fake.shm"
        with self.shm.open("w+b") as file:
            file.truncate(protocol.CARVEOUT_SIZE)
            self.memory = mmap.mmap(file.fileno(), protocol.CARVEOUT_SIZE)
        self._reply = reply
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(self.socket))
        self._listener.listen()
        self._connection: socket.socket | None = None
        self.requests: list[Header] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                self._connection, _ = self._listener.accept()
            except OSError:
                return
            with self._connection:
                self._talk(self._connection)

    def _talk(self, connection: socket.socket) -> None:
        try:
            while message := connection.recv(1 << 16):
                header = Header.unpack(message)
                self.requests.append(header)
                answers = self._reply(self, header, message)
                for answer in answers if isinstance(answers, list) else [answers]:
                    if answer is not None:
                        connection.send(answer)
        except OSError:
            return

    def send(self, message: bytes) -> None:
        """Sends a message that nobody asked for."""
        assert self._connection is not None
        self._connection.send(message)

    def hang_up(self) -> None:
        """Ends the connection."""
        assert self._connection is not None
        self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        if self._connection is not None:
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)


def answer(
    request: Header, body: bytes = b"", *, status: int = 0, kind: int | None = None, seq: int | None = None
) -> bytes:
    """A well-formed answer, but for what is given."""
    kind = request.type | protocol.RESPONSE if kind is None else kind
    if request.type == Message.INFER_LARGE and kind == request.type | protocol.RESPONSE:
        kind = protocol.INFER_RESPONSE
    return Header(kind, request.seq if seq is None else seq, Header.size() + len(body), status).pack() + body


# ------------------------------------------------------------------------------------------------ the C API by ctypes


class Desc(ctypes.Structure):
    """c7x_tensor_desc_t."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("data_size", ctypes.c_size_t),
        ("ndim", ctypes.c_int32),
        ("dtype_code", ctypes.c_int32),
        ("dtype_bits", ctypes.c_int32),
        ("shape", ctypes.c_int64 * 6),
    )


class ErrorStruct(ctypes.Structure):
    """c7x_error_t."""

    _fields_ = (("domain", ctypes.c_int32), ("code", ctypes.c_int32), ("text", ctypes.c_char * 248))


DSP, CLIENT, ERRNO = 2, 3, 1


@functools.cache
def library() -> ctypes.CDLL:
    lib = ctypes.CDLL(str(arm_build() / "libc7x_arm_runtime.so"))
    for name in ("open", "get_input_buffer", "get_output_buffer", "get_staging_buffer", "get_result_buffer"):
        getattr(lib, f"c7x_client_{name}").restype = ctypes.c_void_p
    lib.c7x_client_get_input_data_offset.restype = ctypes.c_size_t
    lib.c7x_strerror.restype = ctypes.c_char_p
    return lib


class Client:
    """The C API. Functions return what C returns; ``error()`` is what c7x_client_last_error says."""

    def __init__(self, handle: int | None) -> None:
        self.lib = library()
        self.handle = handle
        self.pointer = ctypes.c_void_p(handle)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        if self.handle:
            self.lib.c7x_client_close(self.pointer)
        self.handle = None

    def error(self) -> tuple[int, int, str]:
        """Domain, code, text."""
        error = ErrorStruct()
        self.lib.c7x_client_last_error(self.pointer, ctypes.byref(error))
        return error.domain, error.code, error.text.decode()

    def ping(self) -> int:
        return int(self.lib.c7x_client_ping(self.pointer, None, None))

    def set_timeout(self, milliseconds: int) -> int:
        return int(self.lib.c7x_client_set_timeout(self.pointer, milliseconds))

    def load(self, path: Path) -> tuple[int, int]:
        """The return value and the handle."""
        handle = ctypes.c_uint32()
        rc = self.lib.c7x_client_dyn_load(self.pointer, os.fsencode(path), ctypes.byref(handle))
        return int(rc), handle.value

    def unload(self, handle: int) -> int:
        return int(self.lib.c7x_client_dyn_unload(self.pointer, handle))

    def offset(self) -> int:
        return int(self.lib.c7x_client_get_input_data_offset(self.pointer))

    def buffer(self, which: str) -> tuple[int, int]:
        """Address and size."""
        size = ctypes.c_size_t()
        address = getattr(self.lib, f"c7x_client_get_{which}_buffer")(self.pointer, ctypes.byref(size))
        return int(address), size.value

    def stage_alloc(self, size: int) -> tuple[int, int | None]:
        data = ctypes.c_void_p()
        rc = self.lib.c7x_client_stage_alloc(self.pointer, ctypes.c_size_t(size), ctypes.byref(data))
        return int(rc), data.value

    def oom(self) -> tuple[int, int, int, int]:
        figures = [ctypes.c_uint32() for _ in range(3)]
        known = self.lib.c7x_client_get_last_oom(self.pointer, *map(ctypes.byref, figures))
        return int(known), *(figure.value for figure in figures)  # type: ignore[return-value]

    def infer(
        self, handle: int, inputs: Sequence[np.ndarray | Desc], *, flags: int = 0, model_id: int = 0, room: int = 128
    ) -> tuple[int, list[np.ndarray], int]:
        """The return value, copies of the outputs, cycles."""
        ins = (Desc * max(len(inputs), 1))(*[x if isinstance(x, Desc) else describe(x) for x in inputs])
        outs = (Desc * max(room, 1))()
        count, cycles = ctypes.c_int(-1), ctypes.c_uint64()
        results = (outs, room, ctypes.byref(count), ctypes.byref(cycles))
        rc = self.lib.c7x_client_infer_bounded(
            self.pointer, handle, model_id, ins, len(inputs), *results, ctypes.c_uint32(flags)
        )
        outputs = []
        for desc in outs[: max(count.value, 0)] if rc == 0 else []:
            data = ctypes.string_at(desc.data, desc.data_size)
            outputs.append(np.frombuffer(data, np.float32).reshape(desc.shape[: desc.ndim]))
        return int(rc), outputs, cycles.value


def describe(array: np.ndarray) -> Desc:
    """A descriptor of a compact array, which the caller keeps alive."""
    code = {"i": 0, "u": 1, "f": 2}[array.dtype.kind]
    shape = (ctypes.c_int64 * 6)(*array.shape)
    return Desc(array.ctypes.data, array.nbytes, array.ndim, code, array.itemsize * 8, shape)


@contextmanager
def connected(place: Path, *, timeout_ms: int = 2000) -> Iterator[Client]:
    """A client of the server at the socket ``place``."""
    with environment(C7X_TRANSPORT="vdsp", C7X_VDSP_SOCKET=str(place), C7X_TIMEOUT_MS=str(timeout_ms)):
        client = Client(library().c7x_client_open())
    assert client.handle, client.error()
    with client:
        yield client
