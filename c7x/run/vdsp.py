"""The virtual DSP from Python: starting and stopping it, a small client of the wire protocol, running ``lib0.out``.

Times and "cycles" that a virtual DSP tells are host nanoseconds. None of it says anything about a DSP.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from c7x.errors import CheckFailed, CrashError, RunError, WorkspaceError
from c7x.reporter import SILENT, Reporter
from c7x.run import protocol
from c7x.run.host import HostResult
from c7x.run.protocol import Message, Status, WireDesc
from c7x.run.tensors import as_specified, prepare
from c7x.subprocesses import tail
from c7x.toolchain.vdsp import DEFAULT_BOARD, server_program
from c7x.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np

SOCKET_ENV = "C7X_VDSP_SOCKET"
SHM_ENV = "C7X_VDSP_SHM"
START_SECONDS = 10.0
STOP_SECONDS = 5.0
#: As long as the Arm library waits for an answer by default.
ANSWER_SECONDS = 600.0

_DTYPE_CODES = {"i": 0, "u": 1, "f": 2, "b": 1}
_KINDS = {0: "int", 1: "uint", 2: "float"}
_CRASHED = "the module crashed"


# ------------------------------------------------------------------------------------------------------------ endpoint


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where a virtual DSP listens, and the file that is the shared buffer."""

    socket: Path
    shm: Path


def runtime_dir() -> Path:
    """The user's run-time folder for c7x: ``$XDG_RUNTIME_DIR/c7x``, else ``/tmp/c7x-<uid>``."""
    folder = os.environ.get("XDG_RUNTIME_DIR")
    return Path(folder) / "c7x" if folder else Path(f"/tmp/c7x-{os.getuid()}")  # noqa: S108 - checked for its owner


def endpoint(socket_path: Path | None = None, shm: Path | None = None) -> Endpoint:
    """The endpoint that options, environment and defaults give, in this order (docs/virtual-dsp.md)."""
    if socket_path is None:
        socket_path = Path(os.environ.get(SOCKET_ENV) or runtime_dir() / "vdsp.sock")
        shm = shm or (Path(os.environ[SHM_ENV]) if os.environ.get(SHM_ENV) else None)
    return Endpoint(socket=socket_path, shm=shm or socket_path.with_suffix(".shm"))


def _prepare_folder(folder: Path) -> None:
    """Makes a run-time folder, for this user alone (RunError when it is somebody else's)."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = folder.stat().st_uid
    except OSError as error:
        raise RunError(
            f"cannot make the folder {folder}", cause=error.strerror, hint="choose another place with --socket"
        ) from error
    if folder == runtime_dir() and owner != os.getuid():
        raise RunError(
            f"{folder} belongs to another user",
            cause="somebody else made it",
            hint="set XDG_RUNTIME_DIR, or choose another place with --socket",
        )


def _connect(path: Path) -> socket.socket | None:
    """A connection, or None when nobody listens there."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    return connection


# ---------------------------------------------------------------------------------------------------- start and stop


def server_command(
    place: Endpoint,
    *,
    board: str | None = None,
    strict: bool = True,
    shm_file: bool = False,
    base: int | None = None,
    call_timeout: float | None = None,
    faults: Sequence[str] = (),
    reporter: Reporter = SILENT,
) -> list[str]:
    """The command line of a virtual DSP, whose program is built if need be.

    Args:
        board: whose firmware it has; by default the one with every symbol.
        strict: fail on what a board leaves undefined.
        shm_file: share a file instead of memory that cannot be shortened, for clients in another container.
        base: DSP address of the shared buffer.
        call_timeout: seconds after which a module is ended.
        faults: as ``c7x-vdsp --fault`` takes them.

    Raises:
        ToolError: the program cannot be built.
        RunError: the folder of the socket cannot be made.
    """
    program = server_program(reporter=reporter)
    for folder in {place.socket.parent, place.shm.parent}:
        _prepare_folder(folder)
    command = [str(program), "--socket", str(place.socket), "--shm", str(place.shm)]
    command += ["--board", board or DEFAULT_BOARD]
    if not strict:
        command.append("--no-strict")
    if shm_file:
        command.append("--shm-file")
    if base is not None:
        command += ["--base", hex(base)]
    if call_timeout is not None:
        command += ["--call-timeout", str(int(call_timeout * 1000))]
    for fault in faults:
        command += ["--fault", fault]
    return command


def start(command: Sequence[str], log: Path) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """Starts a virtual DSP in the background; returns its process and the object of its first line.

    Args:
        command: of ``server_command``.
        log: where its standard error goes.

    Raises:
        RunError: it did not become ready; the message has what it said.
    """
    with log.open("wb") as log_file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log_file, start_new_session=True
        )
    assert process.stdout is not None
    with process.stdout as stdout:
        os.set_blocking(stdout.fileno(), True)
        line = stdout.readline()
    if not line.endswith(b"\n"):
        code = process.wait(timeout=START_SECONDS)
        said = tail(log.read_text(encoding="utf-8", errors="replace"))
        raise RunError(
            f"the virtual DSP did not start (exit code {code})" + (f"\n{said}" if said else ""),
            cause="see its words above",
            hint="c7x vdsp status shows one that runs already; c7x vdsp stop ends it",
        )
    ready: dict[str, Any] = json.loads(line)
    return process, ready


def _peer_pid(connection: socket.socket) -> int:
    """The process that listens at the other end."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid: int = struct.unpack("3i", credentials)[0]
    return pid


def _shared_file(pid: int, place: Endpoint) -> Path:
    """The shared buffer of the running virtual DSP: what it was started with, where that can be read."""
    try:
        words = [os.fsdecode(word) for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
        shm = Path(words[words.index("--shm") + 1])
        folder = Path(f"/proc/{pid}/cwd").readlink()
        return shm if folder == Path.cwd() else folder / shm
    except (OSError, ValueError, IndexError):
        return place.shm


def _not_running(place: Endpoint) -> CheckFailed:
    error = CheckFailed(
        f"no virtual DSP runs at {place.socket}",
        cause="it was not started, or it was started with another --socket",
        hint="c7x vdsp start",
    )
    error.details = {"running": False, "socket": str(place.socket)}
    return error


def stop(place: Endpoint) -> dict[str, Any]:
    """Ends the virtual DSP at ``place`` and waits until it is gone (CheckFailed when none runs)."""
    connection = _connect(place.socket)
    if connection is None:
        raise _not_running(place)
    with connection:
        pid = _peer_pid(connection)
        if pid <= 0:
            raise RunError(
                f"the virtual DSP at {place.socket} runs where its process number is not visible",
                cause="it runs in another container",
                hint="end it there",
            )
        shm = _shared_file(pid, place)
        os.kill(pid, signal.SIGTERM)
        connection.settimeout(STOP_SECONDS)
        try:
            gone = connection.recv(1) == b""
        except OSError:
            gone = False
    if not gone:
        os.kill(pid, signal.SIGKILL)
        place.socket.unlink(missing_ok=True)
        shm.unlink(missing_ok=True)
    return {"socket": str(place.socket), "pid": pid}


def status(place: Endpoint) -> dict[str, Any]:
    """What the virtual DSP at ``place`` says about itself (CheckFailed when none runs)."""
    connection = _connect(place.socket)
    if connection is None:
        raise _not_running(place)
    with connection:
        connection.settimeout(STOP_SECONDS)
        connection.send(protocol.message(Message.GET_STATUS, 1))
        try:
            data = connection.recv(protocol.MAX_MESSAGE)
            answer = protocol.StatusResponse.unpack(data, protocol.Header.size())
        except (OSError, struct.error) as error:
            raise RunError(
                f"the virtual DSP at {place.socket} does not answer",
                cause="a module runs, or hangs",
                hint="wait, or end it with c7x vdsp stop",
            ) from error
        pid = _peer_pid(connection)
    version = answer.version
    return {
        "running": True,
        "socket": str(place.socket),
        "shm": str(_shared_file(pid, place)),
        "pid": pid,
        "version": f"{version >> 16 & 0xFF}.{version >> 8 & 0xFF}.{version & 0xFF}",
        "uptime_ms": answer.uptime_ms,
        "jobs_completed": answer.jobs_completed,
        "jobs_failed": answer.jobs_failed,
    }


@contextmanager
def private_server(
    *, board: str = DEFAULT_BOARD, strict: bool = True, faults: Sequence[str] = (), reporter: Reporter = SILENT
) -> Iterator[Endpoint]:
    """A virtual DSP of its own in a temporary folder, ended with the block."""
    with tempfile.TemporaryDirectory(prefix="c7x-vdsp-") as folder:
        place = Endpoint(socket=Path(folder) / "vdsp.sock", shm=Path(folder) / "vdsp.shm")
        command = server_command(place, board=board, strict=strict, faults=faults, reporter=reporter)
        process, _ = start(command, Path(folder) / "vdsp.log")
        try:
            yield place
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


# --------------------------------------------------------------------------------------------------------------- client


@dataclass(frozen=True, kw_only=True)
class Inference:
    """What one inference gave: arrays, host nanoseconds the virtual DSP counted, and what the module printed."""

    outputs: list[np.ndarray]
    cycles: int
    text: str


class VdspClient(AbstractContextManager["VdspClient"]):
    """One session with a virtual DSP; it holds the endpoint's lock, so there is one at a time.

    Args:
        place: where the virtual DSP listens.
        timeout: seconds to wait for each answer.

    Raises:
        RunError: none listens there, it is busy, or its shared buffer cannot be mapped.
    """

    def __init__(self, place: Endpoint, *, timeout: float = ANSWER_SECONDS) -> None:
        self._place = place
        self._seq = 0
        self._free = 0
        with ExitStack() as stack:
            lock = stack.enter_context(Path(f"{place.socket}.lock").open("wb"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RunError(
                    f"the virtual DSP at {place.socket} is busy",
                    cause="another client uses it, and there is one session at a time as on a board",
                    hint="wait for it to end, or start another with c7x vdsp start --socket PATH",
                ) from error
            connection = _connect(place.socket)
            if connection is None:
                raise RunError(f"no virtual DSP answers at {place.socket}", cause="it has ended", hint="c7x vdsp start")
            self._connection = stack.enter_context(connection)
            self._connection.settimeout(timeout)
            try:
                self._shm = stack.enter_context(place.shm.open("r+b"))
                self._memory = stack.enter_context(mmap.mmap(self._shm.fileno(), protocol.CARVEOUT_SIZE))
            except (OSError, ValueError) as error:
                raise RunError(
                    f"cannot map the shared buffer {place.shm}",
                    cause=str(error),
                    hint=f"name the file the virtual DSP was started with in {SHM_ENV}",
                ) from error
            self._stack = stack.pop_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def _check_memory(self) -> None:
        """Touching what another process cut off a mapped file ends this one by a signal (RunError instead)."""
        if os.fstat(self._shm.fileno()).st_size < protocol.CARVEOUT_SIZE:
            raise RunError(
                f"the shared buffer {self._place.shm} has become shorter",
                cause="another process truncated the file",
                hint="start the virtual DSP again with c7x vdsp start, without --shm-file",
            )

    def _request(self, kind: Message, body: bytes, response: int | None = None) -> tuple[int, bytes]:
        """Sends a request; returns the status and the body of its answer."""
        self._seq += 1
        try:
            self._connection.send(protocol.message(kind, self._seq, body))
            data = self._connection.recv(1 << 16)
        except TimeoutError as error:
            raise RunError(
                f"the virtual DSP did not answer {kind.name} in time",
                cause="the module runs long, or hangs",
                hint="c7x vdsp stop ends it",
            ) from error
        except OSError as error:
            raise self._gone(kind) from error
        if not data:
            raise self._gone(kind)
        header = protocol.Header.unpack(data) if len(data) >= protocol.Header.size() else None
        expected = response or kind | protocol.RESPONSE
        if header is None or header.seq != self._seq or header.len != len(data) or header.type != expected:
            raise RunError(
                f"the virtual DSP's answer to {kind.name} is not one",
                cause="it is another program, or injects faults",
                hint="start it again with c7x vdsp start",
            )
        self._check_memory()
        return header.status, data[protocol.Header.size() :]

    def _gone(self, kind: Message) -> CrashError:
        return CrashError(
            f"the virtual DSP ended during {kind.name}",
            cause="it was stopped, or it crashed",
            hint="its log lies beside its socket; start it again with c7x vdsp start",
        )

    def text(self) -> str:
        """The printf buffer: what the module printed, or why a load failed."""
        header = protocol.PrintfHeader.unpack(self._memory, protocol.PRINTF_OFFSET)
        start = protocol.PRINTF_OFFSET + protocol.PrintfHeader.size()
        return self._memory[start : start + min(header.write_index, protocol.PRINTF_CAPACITY)].decode(errors="replace")

    def load(self, module: bytes) -> int:
        """Stages and loads a module; returns its handle (RunError with the loader's reason)."""
        if len(module) > protocol.STAGING_SIZE:
            raise RunError(
                f"the module has {len(module)} bytes, more than the staging region's {protocol.STAGING_SIZE}",
                hint="use a smaller model",
            )
        self._check_memory()
        self._memory[: len(module)] = module
        code, body = self._request(Message.DYN_LOAD, protocol.DynLoadRequest(len(module)).pack())
        if code != Status.SUCCESS:
            raise self._failure("load the module", code, "build it again with c7x build --mode c7x_vdsp")
        self._free = len(module)
        return protocol.DynLoadResponse.unpack(body).module_handle

    def unload(self, handle: int) -> None:
        """Unloads a module (RunError when it is not loaded, or its clean-up failed)."""
        code, _ = self._request(Message.DYN_UNLOAD, protocol.DynUnloadRequest(handle).pack())
        self._free = 0
        if code != Status.SUCCESS:
            raise self._failure("unload the module", code, "stop the virtual DSP with c7x vdsp stop")

    def infer(self, handle: int, inputs: Sequence[np.ndarray], *, repeat: int = 1) -> Inference:
        """Runs the module once, or ``repeat`` times within one request.

        INFER_LARGE is used for any input: it starts from clean pools and has room for every output. A model without
        inputs leaves only INFER, which a board cannot answer when there are more than 5 outputs.

        Raises:
            RunError: the module failed, or the inputs do not fit the staging region.
            CrashError: the module crashed; the message says where.
        """
        descs = self._stage(inputs)
        if inputs:
            packed = b"".join(desc.pack() for desc in descs)
            at = self._place_bytes(packed, self._end)
            body = protocol.InferLargeRequest(
                handle, 0, len(descs), repeat, protocol.STAGING_ADDR + at, len(packed)
            ).pack()
            code, answer = self._request(Message.INFER_LARGE, body, protocol.INFER_RESPONSE)
        else:
            body = protocol.infer_body(protocol.InferRequest(handle, 0, 0, repeat), ())
            code, answer = self._request(Message.INFER, body)
        text = self.text()
        if code != Status.SUCCESS:
            raise self._failure("run the model", code, "run it with --mode c7x_host to see whether it is the model")
        response = protocol.InferResponse.unpack(answer)
        return Inference(outputs=self._outputs(response, answer), cycles=response.cycles, text=text)

    def _failure(self, what: str, code: int, hint: str) -> RunError | CrashError:
        name = Status(code).name if code in list(Status) else f"status {code}"
        text = self.text().strip()
        cause = text.splitlines()[-1] if text else None
        error = CrashError if _CRASHED in text else RunError
        return error(
            f"cannot {what} on the virtual DSP: {name}" + (f"\n{tail(text)}" if text else ""), cause=cause, hint=hint
        )

    def _place_bytes(self, data: bytes | memoryview, at: int) -> int:
        """Copies bytes to the next line of the staging region; returns their offset."""
        start = -(-at // protocol.STAGING_ALIGNMENT) * protocol.STAGING_ALIGNMENT
        if start + len(data) > protocol.STAGING_SIZE:
            raise RunError(
                "the module and its inputs do not fit the staging region",
                cause=f"it has {protocol.STAGING_SIZE} bytes",
                hint="use smaller inputs",
            )
        self._memory[start : start + len(data)] = data
        return start

    def _stage(self, inputs: Sequence[np.ndarray]) -> list[WireDesc]:
        import numpy as np

        self._check_memory()
        descs = []
        self._end = self._free
        for index, value in enumerate(inputs):
            array = np.ascontiguousarray(value)
            if value.ndim > protocol.WIRE_MAX_RANK:
                raise RunError(
                    f"input {index} has rank {value.ndim}, a message has room for {protocol.WIRE_MAX_RANK} dimensions",
                    cause="c7x_host has no such limit",
                    hint="reshape the input in the model",
                )
            data = array.tobytes()
            at = self._place_bytes(data, self._end)
            self._end = at + len(data)
            code = _DTYPE_CODES[array.dtype.kind]
            descs.append(
                WireDesc(
                    protocol.STAGING_ADDR + at, len(data), value.ndim, code, array.itemsize * 8, 0, tuple(value.shape)
                )
            )
        return descs

    def _outputs(self, response: protocol.InferResponse, answer: bytes) -> list[np.ndarray]:
        import numpy as np

        source: bytes = answer[protocol.InferResponse.size() :]
        if response.descs_addr:
            source = self._result(response.descs_addr, response.descs_size)
        outputs = []
        for index in range(response.num_outputs):
            desc = WireDesc.unpack(source, index * WireDesc.size())
            dtype = np.dtype(f"{_KINDS[desc.dtype_code]}{desc.dtype_bits}")
            outputs.append(np.frombuffer(self._result(desc.data_addr, desc.data_size), dtype).reshape(desc.dims).copy())
        return outputs

    def _result(self, address: int, size: int) -> bytes:
        offset = address - protocol.CARVEOUT_ADDR
        if offset < protocol.RESULT_OFFSET or offset + size > protocol.CARVEOUT_SIZE:
            raise RunError(
                f"an output lies at {address:#x}, outside the result region",
                cause="the outputs together are larger than it",
                hint="use a model with smaller outputs, or --mode c7x_host",
            )
        return self._memory[offset : offset + size]


# -------------------------------------------------------------------------------------------------------------- running


def _read_module(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WorkspaceError(f"cannot read {path}", cause=error.strerror, hint="run c7x build again") from error


@contextmanager
def _session(board: str, timeout: float | None, reporter: Reporter) -> Iterator[VdspClient]:
    """A client of the virtual DSP that runs, or of one that lives as long as the block."""
    place = endpoint()
    asked = bool(os.environ.get(SOCKET_ENV))
    limit = ANSWER_SECONDS if timeout is None else timeout
    with ExitStack() as stack:
        running = _connect(place.socket)
        client = None
        if running is not None or asked:
            if running is not None:
                running.close()
            try:
                client = stack.enter_context(VdspClient(place, timeout=limit))
                reporter.progress(f"using the virtual DSP at {place.socket}")
            except RunError:
                if asked:
                    raise
        if client is None:
            place = stack.enter_context(private_server(board=board, reporter=reporter))
            client = stack.enter_context(VdspClient(place, timeout=limit))
        yield client


def run_vdsp(
    where: Workspace | str | os.PathLike[str],
    inputs: Sequence[np.ndarray],
    *,
    repeat: int = 1,
    warmup: int = 0,
    timeout: float | None = None,
    reporter: Reporter = SILENT,
) -> HostResult:
    """Run ``lib0.out`` of a build directory on a virtual DSP: the one that runs, else one of its own for this call.

    Args:
        where: a build directory with lib0.out and io.json.
        inputs: one array for each input of io.json, with its dtype and shape.
        repeat: timed inferences (at least 1); all must give the same bits.
        warmup: inferences before those.
        timeout: seconds for each inference.

    Returns:
        As ``run_host``; ``stdout`` is what the module printed in the last inference, host times are those of a request
        and its answer, and the memory figures are 0 and None: a virtual DSP does not tell them.

    Raises:
        RunError: an input does not fit, or the module could not be loaded or failed.
        CrashError: the module crashed, or the virtual DSP ended.
        WorkspaceError: a file is missing.
    """
    prepared = prepare(where, "lib0.out", inputs, repeat=repeat, warmup=warmup)
    module = _read_module(prepared.artefact)
    seconds = []
    first: list[bytes] | None = None
    with _session(prepared.ws.manifest.get("board") or DEFAULT_BOARD, timeout, reporter) as client:
        handle = client.load(module)
        for index in range(warmup + repeat):
            begin = time.perf_counter()
            result = client.infer(handle, prepared.inputs)
            if index >= warmup:
                seconds.append(time.perf_counter() - begin)
            bits = [output.tobytes() for output in result.outputs]
            if first is not None and bits != first:
                raise RunError(
                    f"inference {index} gave other bits than the first",
                    cause="the module reads memory that it did not write, or keeps something between calls",
                    hint="compile the model again; if it stays, report it with the model",
                )
            first = bits
        client.unload(handle)
    return HostResult(
        outputs=as_specified("lib0.out", prepared.output_specs, result.outputs),
        stdout=result.text,
        host_seconds=seconds,
        cycles=result.cycles,
        l2_peak=0,
        l3_peak=0,
        peak_rss=None,
    )
