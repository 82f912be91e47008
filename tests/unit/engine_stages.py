"""A worker with stages of its own, for the tests of the engine; run as a script by ``LocalEngine(command=...)``."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from typing import Any

from c7x.engine.worker import serve
from c7x.errors import ModelError
from c7x.reporter import Reporter
from c7x.stages import Options, Result, Stage
from c7x.workspace import Workspace


def write(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    with workspace.stage("export") as run:
        run.write_text("model.txt", options["text"])
    reporter.info("wrote it")
    reporter.warn("mind the gap")
    return {"length": len(options["text"])}


def source(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    with workspace.stage("codegen") as run:
        run.write_text("lib0.c", options["text"])
    return {}


def half_written(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    """Fails in the way the options say, with a file half written."""
    with workspace.stage("import") as run:
        run.write_text("half.txt", "half")
        reporter.progress("parsing node 7")
        fail(options["how"])
    return {}


def fail(how: str) -> None:
    match how:
        case "error":
            error = ModelError("no", cause="because", hint="do that")
            error.details = {"n": 1}
            raise error
        case "exception":
            raise ZeroDivisionError("seven by nothing")
        case "sys.exit":
            sys.exit(0)
        case "os._exit":
            print("last words")
            sys.stdout.flush()
            os._exit(0)
        case "segfault":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "sleep":
            print("sleeping", flush=True)
            time.sleep(60)
        case "sleep deaf":
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            print("sleeping", flush=True)
            time.sleep(60)
        case _:
            raise AssertionError(how)


def chatter(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    print('{"event": "done"}')
    print("to stdout")
    print("to stderr", file=sys.stderr)
    os.system("echo from a child")
    os.write(1, b"\xff\xfe no newline")
    return {}


def flood(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    for number in range(20000):
        print("x" * 50)
        reporter.progress(str(number))
    return {}


def leave_child(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    os.system("sleep 30 &")
    return {}


def not_json(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    return {"path": workspace.root}


def _stage(name: str, run: Any, *options: str, **more: Any) -> Stage:
    return Stage(name=name, run=run, options=frozenset(options), **more)


TABLE = {
    stage.name: stage
    for stage in (
        _stage("write", write, "text", writes=("model.txt",)),
        _stage("read", lambda w, o, r: {"text": w.require("model.txt").read_text()}, reads=("model.txt",)),
        _stage("source", source, "text", writes=("lib0.c",)),
        _stage("use", lambda w, o, r: {"text": w.require("lib0.c").read_text()}, reads=("lib0.c",)),
        _stage("half", half_written, "how"),
        _stage("chatter", chatter),
        _stage("flood", flood),
        _stage("leave", leave_child),
        _stage("not_json", not_json),
        _stage("needy", lambda w, o, r: {}, modules=lambda options: ("c7x_no_such_package",)),
        _stage("loads", lambda w, o, r: {}, modules=lambda options: ("colorsys",)),
    )
}

if __name__ == "__main__":
    sys.exit(serve(TABLE, sys.argv[1:]))
