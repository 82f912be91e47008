"""Runs stages inside a container for a c7x outside: ``python -m c7x.engine.relay``.

One JSON line on standard input says what to run; the events of ``c7x.engine.events`` come back on standard output,
those of the worker unchanged. Standard error is left to whatever goes wrong before that. When standard input ends, the
c7x outside is gone, and so are we.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NoReturn

from c7x.engine.events import Listener
from c7x.engine.local import LocalEngine
from c7x.errors import EXIT_INTERRUPTED, C7xError, ImageError
from c7x.stages import StageRequest
from c7x.version import __version__
from c7x.workspace import Workspace

#: Where the two versions of the kernel's control groups count, as a container sees them.
_OOM_FILES = (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control"))
_LAST_WORDS = ("done", "error", "interrupted")


class Forwarder(Listener):
    """Writes everything it hears as JSON lines; the last word is the relay's own."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def send(self, event: Mapping[str, Any]) -> None:
        self._stream.write(json.dumps(event).encode() + b"\n")
        self._stream.flush()

    def hear(self, event: Mapping[str, Any]) -> None:
        if event["event"] not in _LAST_WORDS:
            self.send(event)

    def output(self, text: str) -> None:
        self.send({"event": "output", "text": text})


def _leave_with(stream: IO[bytes]) -> None:
    """Interrupts this process when ``stream`` ends."""
    stream.read()
    os.kill(os.getpid(), signal.SIGINT)


def _killed_for_memory() -> bool:
    """Whether the kernel killed a process of this container because it had used up its memory.

    The engine knows, too, but podman does not tell.
    """
    for path in _OOM_FILES:
        with contextlib.suppress(OSError):
            match = re.search(r"^oom_kill (\d+)$", path.read_text(encoding="ascii"), re.MULTILINE)
            return match is not None and match[1] != "0"
    return False


def serve(engine: LocalEngine, requests: IO[bytes], answers: IO[bytes]) -> int:
    """Runs one request; returns the exit code of the process."""
    forwarder = Forwarder(answers)
    try:
        request = json.loads(requests.readline())
        if request["version"] != __version__:
            raise ImageError(
                f"the image holds c7x {__version__}, and this c7x is {request['version']}",
                cause="one of the two was updated and the other was not",
                hint=f"make images in a checkout of c7x {request['version']}; or pip install c7x=={__version__}",
            )
        threading.Thread(target=_leave_with, args=[requests], daemon=True).start()
        os.umask(request["umask"])
        stages = [StageRequest(name=item["name"], options=item["options"]) for item in request["stages"]]
        engine.run(Workspace(request["workspace"]), stages, forwarder)
    except KeyboardInterrupt:
        forwarder.send({"event": "interrupted"})
        return EXIT_INTERRUPTED
    except C7xError as error:
        told = {"event": "error", "error": error.to_json(), "exit_code": error.exit_code}
        forwarder.send({**told, "out_of_memory": _killed_for_memory()})
        return error.exit_code
    forwarder.send({"event": "done"})
    return 0


def main(engine: LocalEngine) -> NoReturn:
    """The process: one request, then its exit code."""
    # As the first process of a container it would otherwise ignore what has no handler.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    code = serve(engine, sys.stdin.buffer, sys.stdout.buffer)
    # The thread may hold standard input's lock, which an orderly exit waits for.
    os._exit(code)


if __name__ == "__main__":
    main(LocalEngine())
