"""Running modules on a board over the system's ssh and scp, or on the board itself.

Never asks for a password or a host key: a board that ssh cannot reach by itself is an error that says what to type. One
run a board at a time. What runs on the board is ``c7x_compute``; its JSON says what it did.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import re
import shlex
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, Protocol

from c7x.errors import FormatError, RunError, UsageError
from c7x.reporter import SILENT, Reporter
from c7x.run.tensors import as_specified, check_inputs, check_output_path, load_inputs, read_specs, save_outputs
from c7x.run.vdsp import runtime_dir
from c7x.subprocesses import Completed, run
from c7x.target import find_board
from c7x.tensorfile import write_tensors
from c7x.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np

#: Over the host name of the selected board (target-attributes.md section 6).
HOST_VARIABLE = "BOARD_HOSTNAME"
DEFAULT_USER = "root"
#: Defaults of the test harness (target-attributes.md section 7).
REMOTE_FOLDER = "/tmp/c7x_compute"  # noqa: S108 - a folder on the board, part of the interface
LOCAL_FOLDER = "/tmp/c7x_local"  # noqa: S108 - the same
REMOTE_CLI = "/usr/local/bin/c7x_compute"
#: Seconds for one run on the board itself; the same is plenty over ssh.
RUN_SECONDS = 300.0
_COPY_SECONDS = 600.0

_MODULE_NAME = "lib0.out"
_WEIGHTS_SYMBOL = "_binary_weights_bin_start"
#: BatchMode: no question is asked, so a missing key is an error instead of a prompt that nobody sees.
_SSH_OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10")

# (DLPack code, bits) as c7x_compute tells them -> dtype.
_DTYPES = {
    **{(0, bits): f"int{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)},
    (6, 8): "bool",
}
#: What c7x_compute calls the dtypes of inputs; a bool is a byte.
_INPUT_NAMES = {name: name for name in _DTYPES.values()} | {"bool": "uint8"}

Command = Literal["run", "profile"]


# -------------------------------------------------------------------------------------------------------- where to run


class Machine(Protocol):
    """Where ``c7x_compute`` runs."""

    @property
    def name(self) -> str:
        """For messages and the lock."""

    def call(self, words: Sequence[str], *, what: str, check: bool = True, timeout: float = RUN_SECONDS) -> Completed:
        """Runs a program there (RunError)."""

    def put(self, source: Path, target: str) -> None:
        """Copies a file there."""

    def get(self, source: str, target: Path) -> None:
        """Copies a file from there."""


@dataclass(frozen=True, kw_only=True)
class SshMachine:
    """A board that ssh reaches as ``user@host``; ssh's own configuration applies."""

    host: str
    user: str = DEFAULT_USER
    reporter: Reporter = SILENT

    def __post_init__(self) -> None:
        for text in (self.host, self.user):
            # A leading dash would be an option of ssh; a colon would end the host in scp's file names.
            if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", text):
                raise UsageError(f"{text!r} is neither a host nor a user name", hint="--host beagley-ai")

    @property
    def name(self) -> str:
        return f"{self.user}@{self.host}"

    @property
    def _hint(self) -> str:
        return f"ssh {self.name} true must work without a question: connect once by hand, and ssh-copy-id {self.name}"

    def call(self, words: Sequence[str], *, what: str, check: bool = True, timeout: float = RUN_SECONDS) -> Completed:
        # ssh joins its arguments for the shell of the other side.
        command = ["ssh", *_SSH_OPTIONS, self.name, shlex.join(words)]
        done = run(
            command, reporter=self.reporter, timeout=timeout, check=False, error=RunError, what=what, hint=self._hint
        )
        # ssh's own failures; programs of ours end with 0 or 1.
        if done.returncode == 255:
            raise RunError(
                f"cannot {what}: no connection to {self.name}\n{done.stderr.strip()}".rstrip(),
                cause="the board is off or has another address, or its key or yours is not known",
                hint=self._hint,
            )
        if check and done.returncode != 0:
            raise _failed(what, self.name, done)
        return done

    def put(self, source: Path, target: str) -> None:
        self._copy(str(source.resolve()), f"{self.name}:{target}", f"copy {source.name} to {self.name}")

    def get(self, source: str, target: Path) -> None:
        self._copy(f"{self.name}:{source}", str(target.resolve()), f"copy {source} from {self.name}")

    def _copy(self, source: str, target: str, what: str) -> None:
        command = ["scp", "-q", *_SSH_OPTIONS, source, target]
        run(command, reporter=self.reporter, timeout=_COPY_SECONDS, error=RunError, what=what, hint=self._hint)


@dataclass(frozen=True, kw_only=True)
class LocalMachine:
    """The machine c7x itself runs on: the board."""

    reporter: Reporter = SILENT

    @property
    def name(self) -> str:
        return "this machine"

    def call(self, words: Sequence[str], *, what: str, check: bool = True, timeout: float = RUN_SECONDS) -> Completed:
        done = run(words, reporter=self.reporter, timeout=timeout, check=False, error=RunError, what=what)
        if check and done.returncode != 0:
            raise _failed(what, self.name, done)
        return done

    def put(self, source: Path, target: str) -> None:
        shutil.copyfile(source, target)

    def get(self, source: str, target: Path) -> None:
        shutil.copyfile(source, target)


def _failed(what: str, where: str, done: Completed) -> RunError:
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-5:]
    return RunError("\n".join([f"cannot {what} on {where} (exit code {done.returncode})", *said]))


def machine_for(
    board: str | None, *, host: str | None = None, user: str | None = None, reporter: Reporter = SILENT
) -> SshMachine:
    """The machine of a board.

    Args:
        board: ``beagley-ai`` or ``j722s-evm``; may be None when a host is given.
        host: its host name, or ``user@host``; by default ``$BOARD_HOSTNAME``, else the board's.

    Raises:
        TargetError: there is no such board.
        UsageError: neither board nor host is given.
    """
    found = find_board(board).host_name if board else None
    chosen = host or os.environ.get(HOST_VARIABLE) or found
    if not chosen:
        raise UsageError(
            "running on a board needs to know which",
            cause="neither --board nor --host is given, and the code was not generated for one",
            hint="--board beagley-ai, and --host NAME when ssh knows the board by another name",
        )
    before, at, after = chosen.rpartition("@")
    return SshMachine(host=after, user=user or (before if at else DEFAULT_USER), reporter=reporter)


@contextmanager
def board_lock(machine: Machine) -> Iterator[None]:
    """Holds the board for this user of this machine (RunError when another run holds it)."""
    folder = runtime_dir()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"board-{re.sub(r'[^A-Za-z0-9_.-]', '_', machine.name)}.lock"
    with path.open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(
                f"{machine.name} is busy",
                cause="another c7x uses it; a DSP runs one module at a time",
                hint="wait for it to end",
            ) from error
        yield


# ------------------------------------------------------------------------------------------------------------- running


@dataclass(frozen=True, kw_only=True)
class BoardResult:
    """What a run on a board gave: arrays, cycles of the DSP, and everything that was printed."""

    outputs: list[np.ndarray]
    cycles: int
    stdout: str


def has_weights(module: Path) -> bool:
    """Whether a module brings its weights (FormatError when it is no ELF file)."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with module.open("rb") as file:
            table = ELFFile(file).get_section_by_name(".dynsym")
            return table is not None and bool(table.get_symbol_by_name(_WEIGHTS_SYMBOL))
    except (ELFError, AttributeError) as error:
        raise FormatError(
            f"{module} is no module", cause="it is not an ELF file", hint="c7x build --mode c7x_dload makes lib0.out"
        ) from error


def _require_folder(machine: Machine, folder: str) -> None:
    machine.call(["mkdir", "-p", folder], what=f"make the folder {folder}")


def _deployed(machine: Machine, module: Path, target: str) -> bool:
    """Whether the module lies there already."""
    done = machine.call(["sha256sum", target], what=f"look at {target}", check=False)
    return done.returncode == 0 and done.stdout.split()[:1] == [_digest(module)]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _module_place(folder: str) -> str:
    return str(PurePosixPath(folder) / _MODULE_NAME)


def describe_inputs(arrays: Sequence[np.ndarray]) -> list[str]:
    """The options of ``c7x_compute`` for inputs (RunError for a dtype it does not know)."""
    unknown = sorted({array.dtype.name for array in arrays} - set(_INPUT_NAMES))
    if unknown:
        raise RunError(f"c7x_compute has no dtype {', '.join(unknown)}", hint="convert the inputs to float32")
    if not arrays:
        return []
    # The text of a single scalar would be empty, which means one dimension over the whole file.
    shapes = ";".join(",".join(map(str, array.shape)) for array in arrays) or "1"
    return ["--shape", shapes, "--dtype", ";".join(_INPUT_NAMES[array.dtype.name] for array in arrays)]


def parse_answer(text: str, *, what: str) -> dict[str, Any]:
    """The JSON object in the output of ``c7x_compute``, which may print lines before it.

    Raises:
        RunError: there is none, or it tells of an error; the message has the text and ``details`` the ``step``.
    """
    start = text.find("{")
    try:
        answer, _ = json.JSONDecoder().raw_decode(text[max(start, 0) :])
    except ValueError as error:
        raise RunError(
            f"cannot {what}: c7x_compute gave no result\n{text.strip()}".rstrip(),
            cause="it is another version, or it was killed",
            hint="run it on the board by hand: c7x_compute ping",
        ) from error
    if not isinstance(answer, dict) or answer.get("status") != "ok":
        fields = answer if isinstance(answer, dict) else {}
        step = str(fields.get("stage", "unknown"))
        failure = RunError(
            f"cannot {what}: {fields.get('error', 'c7x_compute gave no reason')}",
            cause=f"it failed in the step {step}",
            hint=_STEP_HINTS.get(step, "c7x_compute status, on the board, says whether the DSP works"),
        )
        failure.details = {"step": step}
        raise failure
    return answer


_STEP_HINTS = {
    "open": "the DSP's firmware must run and no other program may use it: c7x_compute ping, on the board",
    "load": "c7x inspect lib0.out says whether the module fits the board's firmware",
}


def split_outputs(answer: dict[str, Any], data: bytes) -> list[np.ndarray]:
    """The arrays that ``data`` holds one after the other, as ``answer`` describes them (RunError: it does not fit)."""
    import numpy as np

    arrays, at = [], 0
    try:
        for item in sorted(answer["outputs"], key=lambda item: item["index"]):
            dtype = np.dtype(_DTYPES[item["dtype_code"], item["dtype_bits"]])
            shape = [int(size) for size in item["shape"]]
            if math.prod(shape) * dtype.itemsize != item["data_size"]:
                raise ValueError("sizes and shapes differ")
            part = data[at : at + item["data_size"]]
            arrays.append(np.frombuffer(part, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape))
            at += item["data_size"]
        if at != len(data):
            raise ValueError("there are more bytes")
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(
            "the outputs from the board do not match their description",
            cause=f"{len(data)} bytes for {answer.get('outputs')}",
            hint="run it again; if it stays, c7x_compute on the board is of another version",
        ) from error
    return arrays


def run_module(
    machine: Machine,
    module: Path,
    inputs: Sequence[np.ndarray],
    *,
    folder: str = REMOTE_FOLDER,
    cli: str = REMOTE_CLI,
    command: Command = "run",
    timeout: float = RUN_SECONDS,
) -> BoardResult:
    """Run a module once: copy it unless it is there, load, infer, unload.

    Args:
        module: with its weights inside.
        folder: on the board; the module stays there, everything else is removed.
        cli: path of ``c7x_compute`` on the board.
        command: ``profile`` infers twice, so that the cycles are those of warm caches.

    Raises:
        RunError: the board is busy or not reachable, or a step failed.
    """
    import numpy as np

    options = describe_inputs(inputs)
    here = f"{folder}/run-{uuid.uuid4().hex[:12]}"
    with board_lock(machine), tempfile.TemporaryDirectory(prefix="c7x-board-") as scratch:
        _require_folder(machine, here)
        try:
            place = _module_place(folder)
            if not _deployed(machine, module, place):
                machine.put(module, place)
            words = [cli, command, "--module", place, "--output", f"{here}/output.bin"]
            if inputs:
                data = Path(scratch) / "input.bin"
                # ravel of an array in another memory order copies it; tobytes is always row-major.
                data.write_bytes(b"".join(np.asarray(a, a.dtype.newbyteorder("<")).tobytes() for a in inputs))
                machine.put(data, f"{here}/input.bin")
                words += ["--input", f"{here}/input.bin", *options]
            done = machine.call(words, what="run the module", check=False, timeout=timeout)
            if done.returncode not in (0, 1):
                raise _failed("run the module", machine.name, done)
            try:
                answer = parse_answer(done.stdout, what=f"run the module on {machine.name}")
            except RunError as error:
                # What the module printed tells more than a status code.
                if done.stderr.strip():
                    error.message += f"\n{done.stderr.strip()}"
                raise
            machine.get(f"{here}/output.bin", Path(scratch) / "output.bin")
        finally:
            machine.call(["rm", "-r", "-f", here], what=f"remove {here}", check=False)
        outputs = split_outputs(answer, (Path(scratch) / "output.bin").read_bytes())
    return BoardResult(outputs=outputs, cycles=int(answer.get("cycles", 0)), stdout=done.stdout + done.stderr)


# -------------------------------------------------------------------------------------------------------------- stages


def _module_of(ws: Workspace) -> Path:
    module = ws.require(_MODULE_NAME)
    if ws.manifest.get("mode") != "c7x_dload":
        raise RunError(
            f"the lib0.out of {ws.root} was not built for a board",
            cause=f"its mode is {ws.manifest.get('mode')}",
            hint=f"c7x build {ws.root} --mode c7x_dload",
        )
    return module


def deploy_stage(
    ws: Workspace,
    *,
    board: str | None,
    host: str | None = None,
    folder: str = REMOTE_FOLDER,
    cli: str = REMOTE_CLI,
    reporter: Reporter = SILENT,
) -> dict[str, Any]:
    """Copy ``lib0.out`` to a board and ask its DSP whether it is there.

    Returns:
        ``board``, ``host``, ``module`` (its path on the board), ``bytes``, ``copied`` (false: it lay there already)
        and ``service``, what ``c7x_compute ping`` said.

    Raises:
        WorkspaceError: there is no module.
        RunError: the board is not reachable, or has no ``c7x_compute``, or its DSP does not answer.
    """
    module = _module_of(ws)
    board = board or ws.manifest.get("board")
    machine = machine_for(board, host=host, reporter=reporter)
    place = _module_place(folder)
    with board_lock(machine):
        _require_folder(machine, folder)
        copied = not _deployed(machine, module, place)
        if copied:
            reporter.info(f"copying {_MODULE_NAME} to {machine.name}")
            machine.put(module, place)
        done = machine.call([cli, "ping"], what="ask the DSP", check=False)
    if done.returncode != 0:
        said = (done.stdout.strip() or done.stderr.strip()).splitlines()[-1:]
        raise RunError(
            "\n".join([f"the module is on {machine.name}, but its DSP does not answer", *said]),
            cause=f"{cli} is not installed there, or the DSP's firmware does not run",
            hint="install the tvm-ti-c7x-inference wheel there and run python3 -m tvm.data.ti_dsp.deploy as root",
        )
    return {
        "board": board,
        "host": machine.name,
        "module": place,
        "bytes": module.stat().st_size,
        "copied": copied,
        "service": done.stdout.strip(),
    }


def board_run_stage(
    ws: Workspace,
    *,
    board: str | None,
    host: str | None = None,
    inputs: Sequence[Path] = (),
    output: Path | None = None,
    repeat: int = 1,
    reporter: Reporter = SILENT,
) -> dict[str, Any]:
    """Run the module of a build directory on a board; writes input.bin and output.bin, and ``output``.

    Args:
        board: by default the one the code was generated for.
        host: as in ``machine_for``.
        inputs, output: as in ``run_stage``.
        repeat: 1, or 2 to infer twice and take the cycles of warm caches.

    Returns:
        As ``run_stage``, with ``cycles`` of the DSP and None for everything of this machine, and ``board``, ``host``.

    Raises:
        As ``run_module``, ``load_inputs`` and ``save_outputs``.
    """
    if repeat not in (1, 2):
        raise UsageError("a board runs a module once, or twice to measure it", hint="--repeat 1 or --repeat 2")
    module = _module_of(ws)
    board = board or ws.manifest.get("board")
    machine = machine_for(board, host=host, reporter=reporter)
    input_specs, output_specs = read_specs(ws)
    if output is not None:
        check_output_path(output, output_specs)
    with ws.stage("run", inputs=[_MODULE_NAME, "io.json", *inputs]) as stage:
        arrays = check_inputs(input_specs, load_inputs(ws, input_specs, inputs))
        stage.options = {"mode": "c7x_dload", "repeat": repeat}
        result = run_module(machine, module, arrays, command="run" if repeat == 1 else "profile")
        outputs = as_specified("the module on the board", output_specs, result.outputs)
        write_tensors(stage.path("input.bin"), arrays)
        write_tensors(stage.path("output.bin"), outputs)
        if output is not None:
            save_outputs(output, output_specs, outputs)
    nothing = ("host_seconds_min", "host_seconds_median", "l2_peak", "l3_peak", "peak_rss")
    return {
        "outputs": [{"name": s.name, "dtype": s.dtype, "shape": list(s.shape)} for s in output_specs],
        "output": None if output is None else str(output),
        "repeat": repeat,
        **dict.fromkeys(nothing),
        "cycles": result.cycles,
        "stdout": result.stdout,
        "board": board,
        "host": machine.name,
    }
