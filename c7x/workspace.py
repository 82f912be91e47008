"""The build directory: the names of its files, its manifest, and how a stage writes into it.

A stage writes every file under a private temporary folder inside the build directory. Only when the whole stage
has succeeded do the files move to their final names and does the manifest record them, so a failure, a full disk
or Ctrl-C never leaves a half-written artefact under a name that a later stage would read.

One stage at a time writes into a build directory: the folder itself is locked (flock), and the kernel drops the lock
with the process. So a temporary folder found while holding the lock belongs to a process that was killed, and goes.

Nothing here writes a time, a host name or an absolute path (docs/reproducibility in docs/how-it-works.md).
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import FrameType
from typing import Any

from c7x.errors import C7xError, WorkspaceError
from c7x.version import __version__

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1

#: Stages in the order of the walk; a stage that runs again removes what later stages made from its old output.
STAGES: tuple[str, ...] = ("export", "quantize", "import", "codegen", "build", "run", "profile", "compare", "visualize")
#: Stages that look at what was built, each for itself: one that runs again leaves the others' files alone.
_OBSERVERS = frozenset({"run", "profile", "compare"})

#: Written by hand as often as by a stage: an edited one is set aside under this suffix, never lost.
KEPT_SUFFIX = ".edited"
EDITABLE_SUFFIXES = frozenset({".c", ".h", ".relax"})

_TEMPORARY = ".c7x-"
#: Below this much free space a failed write is put down to a full disk (torch and NumPy drop the errno).
_FULL_BYTES = 64 * 1024
#: How long to wait for another c7x process in the same build directory.
LOCK_SECONDS = 10.0

#: Which command writes a file, for "run ... first" hints.
PRODUCERS: Mapping[str, str] = {
    "model.pt2": "c7x export",
    "model.int8.pt2": "c7x quantize",
    "model.int16.pt2": "c7x quantize",
    "quantize.json": "c7x quantize",
    "model.relax": "c7x import",
    "model.params.npz": "c7x import",
    "lib0.c": "c7x codegen",
    "devc.c": "c7x codegen",
    "weights.bin": "c7x codegen",
    "io.json": "c7x codegen",
    "layers.json": "c7x codegen",
    "memory.json": "c7x codegen",
    "cg_dsp": "c7x build",
    "lib0.out": "c7x build",
    "input.bin": "c7x run",
    "output.bin": "c7x run",
    "profile.json": "c7x profile",
}


def sha256_file(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def dump_json(value: Any) -> str:
    """The one way this project writes JSON to a file: sorted keys, two spaces, a final newline."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _os_error(action: str, path: Path, error: OSError) -> WorkspaceError:
    hint = "choose another folder with -o"
    cause: str | None = error.strerror or str(error) or None
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        cause = "no space is left on the device"
        hint = "free some space, or choose a folder on another device with -o"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = "choose a folder you may write to with -o"
    return WorkspaceError(f"cannot {action} {path}", cause=cause, hint=hint)


def _disk_error(error: Exception, folder: Path) -> OSError | None:
    """The disk's refusal behind ``error``, if that is what it is."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        return error
    if isinstance(error, OSError) and error.errno is not None:
        return None
    try:
        full = shutil.disk_usage(folder).free < _FULL_BYTES
    except OSError:
        return None
    return OSError(errno.ENOSPC, str(error)) if full else None


def _inside(name: str) -> bool:
    """Whether ``name`` stays inside the build directory (a manifest may be damaged or foreign)."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def _epoch() -> int | None:
    text = os.environ.get("SOURCE_DATE_EPOCH")
    if not text:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise WorkspaceError(
            f"SOURCE_DATE_EPOCH is {text!r}, not a number of seconds",
            cause="the environment variable is set to something else",
            hint="unset SOURCE_DATE_EPOCH, or set it to e.g. 1700000000",
        ) from error


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Holds Ctrl-C back while the block runs; only Python's main thread ever sees it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[tuple[int, FrameType | None]] = []
    previous = signal.signal(signal.SIGINT, lambda number, frame: pending.append((number, frame)))
    try:
        yield
    finally:
        # A handler that was not installed from Python reads as None and cannot be put back through Python.
        signal.signal(signal.SIGINT, signal.default_int_handler if previous is None else previous)
        if pending and callable(previous):
            previous(*pending[0])


@contextmanager
def existing_folder(root: Path) -> Iterator[None]:
    """Makes a folder, with those above it, and takes away again what is empty when the block ends (WorkspaceError)."""
    missing = [p for p in (root, *root.parents) if not p.exists()]
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _os_error("write into", root, error) from error
    try:
        yield
    finally:
        for folder in missing:
            try:
                folder.rmdir()
            except OSError:
                break


@dataclass
class StageRun:
    """What a running stage writes to; made by ``Workspace.stage``."""

    name: str
    folder: Path
    tools: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    #: Manifest keys outside the stage's record that this stage sets (``target``, ``board``, ``mode``, ``model``).
    facts: dict[str, Any] = field(default_factory=dict)
    #: Files the user had edited that this stage replaced: kept beside the new ones as ``<name>.edited``.
    kept: list[str] = field(default_factory=list)

    def path(self, name: str) -> Path:
        """Where to write the file ``name`` (a relative path); its folder exists."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write_text(self, name: str, text: str) -> None:
        self.path(name).write_text(text, encoding="utf-8", newline="\n")

    def write_bytes(self, name: str, data: bytes) -> None:
        self.path(name).write_bytes(data)

    def write_json(self, name: str, value: Any) -> None:
        self.write_text(name, dump_json(value))


class Workspace:
    """A build directory.

    Args:
        root: the folder; it is created by the first stage that succeeds in writing.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)

    def __repr__(self) -> str:
        return f"Workspace({str(self.root)!r})"

    def path(self, name: str) -> Path:
        return self.root / name

    def has(self, name: str) -> bool:
        return self.path(name).is_file()

    def require(self, name: str) -> Path:
        """The path of an existing file.

        Raises:
            WorkspaceError: the folder or the file is missing; the hint names the command that makes it.
        """
        path = self.path(name)
        if path.is_file():
            return path
        producer = PRODUCERS.get(name, "c7x compile")
        if not self.root.is_dir():
            raise WorkspaceError(
                f"there is no build directory {self.root}",
                cause="nothing was compiled into it, or the path is misspelt",
                hint=f"c7x compile model.py -o {self.root}",
            )
        raise WorkspaceError(
            f"{self.root} holds no {name}",
            cause=f"the stage that writes it ({producer}) has not run here, or the file was removed",
            hint=f"run {producer} for this build directory, or c7x compile for all stages",
        )

    def read_json(self, name: str) -> Any:
        """The parsed content of a JSON file of the build directory (WorkspaceError when missing or damaged)."""
        path = self.require(name)
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise _os_error("read", path, error) from error
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise WorkspaceError(
                f"{path} is not valid JSON",
                cause=str(error),
                hint=f"run {PRODUCERS.get(name, 'c7x compile')} again",
            ) from error

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest; an empty one when no stage has run yet."""
        if not self.has(MANIFEST):
            return {"version": MANIFEST_VERSION, "c7x": __version__, "stages": []}
        manifest = self.read_json(MANIFEST)
        if (
            not isinstance(manifest, dict)
            or manifest.get("version") != MANIFEST_VERSION
            or not isinstance(manifest.get("stages"), list)
            or not all(
                isinstance(record, dict) and isinstance(record.get("outputs"), dict) and "name" in record
                for record in manifest["stages"]
            )
        ):
            raise WorkspaceError(
                f"{self.path(MANIFEST)} is not a manifest of this version of c7x",
                cause="the folder was made by another version, or is not a build directory",
                hint="compile into an empty folder with -o",
            )
        return manifest

    def edited(self, name: str) -> bool:
        """Whether the file differs from what the stage that wrote it recorded (users may edit between stages)."""
        for record in self.manifest["stages"]:
            if name in record["outputs"] and self.has(name):
                return bool(sha256_file(self.path(name)) != record["outputs"][name])
        return False

    @contextmanager
    def stage(self, name: str, *, inputs: Sequence[str | Path] = ()) -> Iterator[StageRun]:
        """Run one stage: write through the ``StageRun``, and all files appear at once when the block ends.

        Args:
            name: one of ``STAGES``.
            inputs: files the stage reads: names inside the build directory, or paths outside it
                (recorded by file name only).

        Raises:
            WorkspaceError: an input is missing, the folder cannot be written, the disk is full, or another c7x process
                works in it; any ``C7xError`` from the block passes with its stage set.
        """
        if name not in STAGES:
            raise ValueError(f"no stage is called {name!r}")
        try:
            records = self._hashes(inputs)
            epoch = _epoch()
            with self._locked():
                try:
                    folder = Path(tempfile.mkdtemp(prefix=f"{_TEMPORARY}{name}-", dir=self.root))
                except OSError as error:
                    raise _os_error("write into", self.root, error) from error
                run = StageRun(name=name, folder=folder)
                try:
                    yield run
                    self._commit(run, records, epoch)
                except (OSError, RuntimeError) as error:
                    if (disk := _disk_error(error, folder)) is not None:
                        raise _os_error("write into", self.root, disk) from error
                    raise
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
        except C7xError as error:
            error.stage = error.stage or name
            raise

    def _hashes(self, inputs: Sequence[str | Path]) -> dict[str, str]:
        records: dict[str, str] = {}
        for item in inputs:
            path = item if isinstance(item, Path) else self.require(item)
            try:
                if path.is_file():
                    records[path.name if isinstance(item, Path) else item] = sha256_file(path)
            except OSError as error:
                raise _os_error("read", path, error) from error
        return records

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Makes the folder and holds it for this process; takes away again what stays empty."""
        with existing_folder(self.root):
            try:
                handle = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
            except OSError as error:
                raise _os_error("write into", self.root, error) from error
            try:
                self._lock(handle)
                for leftover in self.root.glob(f"{_TEMPORARY}*-*"):
                    shutil.rmtree(leftover, ignore_errors=True)
                yield
            finally:
                os.close(handle)

    def _lock(self, handle: int) -> None:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise WorkspaceError(
                        f"another c7x process is working in {self.root}",
                        cause="two commands were started for the same build directory",
                        hint="wait for the other one, or choose another folder with -o",
                    ) from error
                time.sleep(0.05)
            except OSError:
                return  # Some network file systems have no flock; the rename at the end is atomic all the same.

    def _commit(self, run: StageRun, inputs: dict[str, str], epoch: int | None) -> None:
        manifest = self.manifest
        later = {*STAGES[STAGES.index(run.name) :]} - (_OBSERVERS - {run.name} if run.name in _OBSERVERS else set())
        kept: list[dict[str, Any]] = []
        dropped: list[dict[str, Any]] = []
        for record in manifest["stages"]:
            (dropped if record["name"] in later else kept).append(record)
        written = sorted(p.relative_to(run.folder).as_posix() for p in run.folder.rglob("*") if p.is_file())
        outputs = {name: sha256_file(run.folder / name) for name in written}
        stale = {name for record in dropped for name in record["outputs"] if _inside(name)} - outputs.keys()
        run.kept = [
            name
            for name in sorted(stale | outputs.keys())
            if Path(name).suffix in EDITABLE_SUFFIXES and self.edited(name)
        ]
        kept.append(
            {
                "name": run.name,
                "inputs": dict(sorted(inputs.items())),
                "outputs": outputs,
                "tools": dict(sorted(run.tools.items())),
                "options": dict(sorted(run.options.items())),
            }
        )
        manifest["stages"] = kept
        manifest["c7x"] = __version__
        manifest.update(run.facts)
        if epoch is not None:
            manifest["source_date_epoch"] = epoch
        temporary = run.folder / MANIFEST
        temporary.write_text(dump_json(manifest), encoding="utf-8")
        for name in (*written, *stale, MANIFEST):
            if self.path(name).is_dir():
                raise WorkspaceError(
                    f"cannot write {self.path(name)}",
                    cause="a folder of that name is in the way",
                    hint="move it away, or choose another folder with -o",
                )
        # Everything that needs space is on the disk by now; what follows is renames only.
        try:
            with uninterrupted():
                for name in run.kept:
                    self.path(name).replace(self.path(name + KEPT_SUFFIX))
                for name in sorted(stale):
                    self.path(name).unlink(missing_ok=True)
                for name in written:
                    target = self.path(name)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    (run.folder / name).replace(target)
                temporary.replace(self.path(MANIFEST))
        except OSError as error:
            raise _os_error("write into", self.root, error) from error
