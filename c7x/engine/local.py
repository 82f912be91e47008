"""Runs stages on this machine, in one child process (``c7x.engine.worker``)."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import c7x
from c7x.engine.crash import CRASH_FILE, write_crash_report
from c7x.engine.events import Listener, StageOutcome, Transcript
from c7x.errors import EXIT_INTERRUPTED, CrashError, DependencyError
from c7x.stages import STAGES, Stage, StageRequest, check_requests
from c7x.workspace import Workspace

#: How long an interrupted worker may clean up before it is killed.
GRACE_SECONDS = 5.0
_KEPT_LINES = 200
_SHOWN_LINES = 5


class LocalEngine:
    """Runs stages in a child process of this one.

    Args:
        table: the stages there are.
        command: how to start the worker; file descriptors are appended. Tests put a worker with other stages here.
    """

    def __init__(
        self,
        *,
        table: Mapping[str, Stage] = STAGES,
        command: Sequence[str] = (sys.executable, "-P", "-m", "c7x.engine.worker"),
    ) -> None:
        self.table = table
        self.command = tuple(command)

    def run(
        self, workspace: Workspace, requests: Sequence[StageRequest], listener: Listener | None = None
    ) -> list[StageOutcome]:
        """Runs the stages in order and returns what they did.

        Raises:
            C7xError: the error of the stage that failed, as it was raised there.
            CrashError: the worker died by a signal, or without a word.
            KeyboardInterrupt: Ctrl-C; the worker has cleaned up by then.
        """
        listener = listener if listener is not None else Listener()
        check_requests(self.table, workspace, requests)
        self._check_packages(requests)
        with contextlib.suppress(OSError):
            workspace.path(CRASH_FILE).unlink(missing_ok=True)
        message = {
            "workspace": str(workspace.root),
            "parent": os.getpid(),
            "stages": [{"name": r.name, "options": dict(r.options)} for r in requests],
        }
        with _Worker(self.command, message) as worker:
            return worker.follow(workspace.root, listener)

    def _check_packages(self, requests: Sequence[StageRequest]) -> None:
        modules = sorted({m for r in requests for m in self.table[r.name].modules(r.options)})
        missing = [m for m in modules if importlib.util.find_spec(m) is None]
        if missing:
            extra = "run" if missing == ["numpy"] else "compile"
            raise DependencyError(
                f"this command needs {', '.join(missing)}, which is not installed",
                cause="c7x was installed without the packages that compile and run models",
                hint=f"pip install 'c7x[{extra}]'; or run it in a container: --engine docker",
            )


class _Worker:
    """One worker process, gone when the ``with`` block ends, whatever happens in it."""

    def __init__(self, command: Sequence[str], message: Mapping[str, Any]) -> None:
        self._command = command
        self._message = message
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)

    def __enter__(self) -> _Worker:
        self._events, theirs = socket.socketpair()
        self._faults = tempfile.TemporaryFile()
        try:
            # A process group of its own: Ctrl-C then arrives once, from here, and everything the worker started
            # (a compiler, cg_dsp) is reached along with it.
            self._process = subprocess.Popen(
                [*self._command, str(theirs.fileno()), str(self._faults.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(), self._faults.fileno()),
                process_group=0,
                env=_environment(),
            )
        except BaseException:
            self._events.close()
            self._faults.close()
            raise
        finally:
            theirs.close()
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            if self._process.poll() is None:
                self._signal(signal.SIGINT)
                with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C means: now
                    self._drain(time.monotonic() + GRACE_SECONDS)
        finally:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._output.close()
            self._events.close()
            self._faults.close()

    @property
    def _output(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _drain(self, deadline: float) -> None:
        """Reads and forgets until the worker is gone, so that it never blocks on a full pipe."""
        while self._process.poll() is None and time.monotonic() < deadline:
            for _ in self._chunks(0.05):
                pass

    def _chunks(self, timeout: float) -> Iterator[tuple[str, bytes]]:
        with selectors.DefaultSelector() as selector:
            for name, source in self._open.items():
                selector.register(source, selectors.EVENT_READ, name)
            if not self._open:
                time.sleep(timeout)
                return
            for key, _ in selector.select(timeout):
                data = os.read(key.fd, 1 << 16) if key.data == "output" else self._receive()
                if not data:
                    del self._open[key.data]
                yield key.data, data

    def _receive(self) -> bytes:
        try:
            return self._events.recv(1 << 16)
        except ConnectionResetError:
            return b""

    @property
    def _open(self) -> dict[str, Any]:
        if not hasattr(self, "_sources"):
            self._sources: dict[str, Any] = {"events": self._events, "output": self._output}
        return self._sources

    def follow(self, root: Path, listener: Listener) -> list[StageOutcome]:
        """Passes events on until the worker is gone; returns the stages' outcomes or raises what went wrong."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._events.sendall(json.dumps(self._message).encode())
            self._events.shutdown(socket.SHUT_WR)
        transcript = Transcript(listener)
        rest = {"events": b"", "output": b""}
        while True:
            gone = self._process.poll() is not None
            heard = False
            for source, data in self._chunks(0.0 if gone else 0.1):
                heard = heard or bool(data)
                *lines, rest[source] = (rest[source] + data).split(b"\n")
                if source == "output":
                    for line in lines:
                        self._print(line, listener)
                    continue
                for line in lines:
                    transcript.hear(line)
            # A grandchild may hold the pipes open for ever, so the worker's death ends the talk, not end-of-file.
            if gone and not heard:
                break
        if rest["output"]:
            self._print(rest["output"], listener)
        outcomes = transcript.result()
        if outcomes is None:
            raise self._death(root, transcript)
        return outcomes

    def _print(self, line: bytes, listener: Listener) -> None:
        text = line.decode("utf-8", "backslashreplace").rstrip("\r")
        self._lines.append(text)
        listener.output(text)

    def _death(self, root: Path, transcript: Transcript) -> CrashError | KeyboardInterrupt:
        code = self._process.returncode
        if code in (EXIT_INTERRUPTED, -signal.SIGINT):
            return KeyboardInterrupt()
        self._faults.seek(0)
        trace = self._faults.read().decode("utf-8", "backslashreplace")
        where = f"the {transcript.stage} stage" if transcript.stage else "the worker process"
        doing = [transcript.doing] if transcript.doing else []
        if frame := _innermost_frame(trace):
            doing.append(frame)
        printed = list(self._lines)
        if code < 0:
            message = f"{where} was killed by {_signal_name(-code)}"
        else:
            message = f"{where} ended with exit code {code} and no result"
            doing.extend(line for line in printed[-_SHOWN_LINES:] if line.strip())
        if code == -signal.SIGKILL:
            doing.append("often the system ran out of memory")
        report = "\n".join([message, *(f"doing: {text}" for text in doing), "", trace, "printed:", *printed])
        path = write_crash_report(root, report)
        return CrashError(
            message,
            cause="; ".join(doing) or "a crash inside the model's code or a native library",
            hint=f"details are in {path}; c7x doctor checks the installation",
            stage=transcript.stage,
        )


def _environment() -> dict[str, str]:
    """Ours, such that the worker finds this very c7x; the working folder is not on its path (-P), so that a user's
    file called torch.py or queue.py takes nobody's place."""
    own = str(Path(c7x.__file__).parent.parent)
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{own}" if path else own}


def _innermost_frame(trace: str) -> str | None:
    """``in f, file.py line 3`` from the dump of Python's faulthandler, or None."""
    match = re.search(
        r'\(most recent call first\):\n\s+File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<name>\S+)', trace
    )
    return f"in {match['name']}, {match['file']} line {match['line']}" if match else None


def _signal_name(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    description = signal.strsignal(number)
    return f"{name} ({description.lower()})" if description else name
