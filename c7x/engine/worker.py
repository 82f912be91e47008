"""The child process that stages run in: ``python -m c7x.engine.worker EVENTS_FD FAULTS_FD``.

It reads one JSON request from the events descriptor, runs the stages in order and answers with the events of
``c7x.engine.events``. Its standard output and standard error belong to the user's code and the tools. When user code or
a native library takes the process down, only this process dies, and the parent can say in which stage.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import io
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from c7x.engine.crash import write_crash_report
from c7x.engine.events import Channel, ChannelReporter
from c7x.errors import EXIT_INTERRUPTED, C7xError, DependencyError, InternalError, ModelError
from c7x.stages import Stage
from c7x.workspace import EDITABLE_SUFFIXES, KEPT_SUFFIX, Workspace

_PR_SET_PDEATHSIG = 1

#: How packages are called in "loading torch and TVM", and the distribution that brings them.
_TITLES: Mapping[str, str] = {"tvm": "TVM", "numpy": "NumPy", "onnxruntime": "ONNX Runtime"}


def _die_with_parent(parent: int) -> None:
    """Lets the kernel kill this process when its parent dies, however that happens (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT_INTERRUPTED)


def join_words(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _load(modules: Sequence[str], channel: Channel) -> None:
    missing = [name for name in modules if name not in sys.modules]
    if not missing:
        return
    what = join_words([_TITLES.get(name, name) for name in missing])
    channel.send("loading", what=what)
    start = time.perf_counter()
    for name in missing:
        try:
            importlib.import_module(name)
        except (ImportError, OSError) as error:
            raise DependencyError(
                f"cannot import {name}",
                cause=str(error),
                hint="install what compiling needs with: pip install 'c7x[compile]'; c7x doctor shows what is missing",
            ) from error
    channel.send("loaded", what=what, seconds=time.perf_counter() - start)


def _run(
    table: Mapping[str, Stage], request: Mapping[str, Any], channel: Channel, current: list[str], faults_fd: int
) -> None:
    workspace = Workspace(request["workspace"])
    wanted = [(table[item["name"]], item["options"]) for item in request["stages"]]
    modules = sorted({name for stage, options in wanted for name in stage.modules(options)}, key=_loading_order)
    _load(modules, channel)
    # TVM puts a handler of its own in place, which dumps C++ frames only.
    faulthandler.disable()
    faulthandler.enable(file=faults_fd)
    reporter = ChannelReporter(channel)
    for stage, options in wanted:
        current[:] = [stage.name]
        channel.send("stage", name=stage.name)
        for name in stage.reads:
            if workspace.edited(name):
                reporter.info(f"{name} was edited since it was written; the edited file is used")
        sources = [name for name in stage.writes if Path(name).suffix in EDITABLE_SUFFIXES]
        edited = [name for name in sources if workspace.edited(name)]
        start = time.perf_counter()
        try:
            result = stage.run(workspace, options, reporter)
        except C7xError as error:
            error.stage = error.stage or stage.name
            raise
        seconds = time.perf_counter() - start
        for name in edited:
            if workspace.has(name + KEPT_SUFFIX):
                reporter.warn(f"{name} was edited by hand and is written anew; yours is now {name}{KEPT_SUFFIX}")
        channel.send("finished", name=stage.name, seconds=seconds, result=result)


def _loading_order(name: str) -> tuple[bool, str]:
    # torch before TVM: both bring an OpenMP runtime, and torch is the pickier one about being second.
    return (name != "torch", name)


def _internal(error: BaseException, root: Path, stage: str | None) -> C7xError:
    path = write_crash_report(root, "".join(traceback.format_exception(error)))
    summary = traceback.format_exception_only(error)[-1].strip()
    what = f"the {stage} stage" if stage else "the worker process"
    return InternalError(
        f"{what} failed inside c7x",
        cause=summary,
        hint=f"this is a defect of c7x: please report it with {path}",
        stage=stage,
    )


def serve(table: Mapping[str, Stage], arguments: Sequence[str]) -> int:
    """Runs one request with the stages of ``table``; returns the exit code of the process.

    Args:
        table: name -> stage; ``c7x.stages.STAGES``, or another one in tests.
        arguments: the two file descriptors, as in ``sys.argv[1:]``.
    """
    events_fd, faults_fd = (int(text) for text in arguments)
    for descriptor in (events_fd, faults_fd):
        os.set_inheritable(descriptor, False)
    faulthandler.enable(file=faults_fd)
    # Meant for whoever maintains the calling code, and torch and TVM cause them in each other; UserWarning stays.
    for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
        warnings.simplefilter("ignore", category)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    current: list[str] = []
    root = Path()
    with socket.socket(fileno=events_fd) as connection:
        channel = Channel(connection)
        try:
            request = channel.read_request()
            root = Path(request["workspace"])
            _die_with_parent(request["parent"])
            _run(table, request, channel, current, faults_fd)
            channel.send("done")
            return 0
        except KeyboardInterrupt:
            channel.send("interrupted")
            return EXIT_INTERRUPTED
        except BrokenPipeError:
            return EXIT_INTERRUPTED
        except C7xError as error:
            failure = error
        except SystemExit as error:
            # Nothing of c7x ends a process, so it was the user's code; it must not pass for success.
            failure = ModelError(
                f"the model's code ended the process with exit code {error.code!r}",
                cause="it calls sys.exit() or exit() when it is imported or run",
                hint="remove the call, or put it under: if __name__ == '__main__':",
                stage=current[0] if current else None,
            )
        except BaseException as error:
            failure = _internal(error, root, current[0] if current else None)
        channel.send("error", error=failure.to_json(), exit_code=failure.exit_code)
        return failure.exit_code


if __name__ == "__main__":
    from c7x.stages import STAGES

    code = serve(STAGES, sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Native libraries' exit handlers have nothing left to do for us and have been seen to crash.
    os._exit(code)
