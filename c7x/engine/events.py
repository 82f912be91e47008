"""What a running chain of stages tells its caller, and the JSON lines that carry it out of the worker process.

One JSON object a line. ``event`` is one of: ``loading`` and ``loaded`` (Python packages, apart from the stages so that
stage times are honest), ``stage``, ``finished``, ``info``, ``warn``, ``progress``, and last ``error``, ``interrupted``
or ``done``. Out of a container ``output`` comes the same way: what user code and tools print, which a worker on this
machine prints to a pipe.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from c7x.errors import error_from_json
from c7x.reporter import Reporter


@dataclass(frozen=True, kw_only=True)
class StageOutcome:
    """A stage that succeeded: what its function returned, and how long it took in seconds."""

    name: str
    seconds: float
    result: dict[str, Any]


class Listener(Reporter):
    """A reporter that also hears of times, and of what the user's code and the tools print. This base says nothing."""

    def hear(self, event: Mapping[str, Any]) -> None:
        """One event; those that carry results are the engine's own business."""
        match event["event"]:
            case "loading":
                self.loading(event["what"])
            case "loaded":
                self.loaded(event["what"], event["seconds"])
            case "stage":
                self.stage(event["name"])
            case "finished":
                self.finished(event["name"], event["seconds"])
            case "info":
                self.info(event["text"])
            case "warn":
                self.warn(event["text"])
            case "progress":
                self.progress(event["text"])
            case "output":
                self.output(event["text"])

    def loading(self, what: str) -> None:
        """Python packages are being imported."""

    def loaded(self, what: str, seconds: float) -> None:
        """They are there."""

    def finished(self, name: str, seconds: float) -> None:
        """A stage has succeeded."""

    def output(self, text: str) -> None:
        """A line that user code or a tool printed; never part of a result."""


class Channel:
    """The worker's end of the pipe to its parent; lines are written whole, from any thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def read_request(self) -> dict[str, Any]:
        """The one JSON object that the parent sends before it closes its sending side."""
        parts = []
        while part := self._connection.recv(1 << 16):
            parts.append(part)
        request = json.loads(b"".join(parts))
        assert isinstance(request, dict)
        return request

    def send(self, event: str, **fields: Any) -> None:
        line = json.dumps({"event": event, **fields}) + "\n"
        with self._lock:
            self._connection.sendall(line.encode())


class ChannelReporter(Reporter):
    """The reporter that stages get inside the worker."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def stage(self, name: str) -> None:
        # The worker itself announces stages; a stage that announces a part of itself is shown as progress.
        self.progress(name)

    def info(self, text: str) -> None:
        self._channel.send("info", text=str(text))

    def warn(self, text: str) -> None:
        self._channel.send("warn", text=str(text))

    def progress(self, text: str) -> None:
        self._channel.send("progress", text=str(text))


class Transcript:
    """Follows the events of one chain of stages, and passes them on.

    Attributes:
        outcomes: of the stages that have finished.
        stage: the stage that runs; None between stages.
        doing: what it does right now, as it said itself.
    """

    def __init__(self, listener: Listener) -> None:
        self.outcomes: list[StageOutcome] = []
        self.stage: str | None = None
        self.doing: str | None = None
        self._listener = listener
        self._last: Mapping[str, Any] = {"event": "nothing"}

    @property
    def out_of_memory(self) -> bool:
        """Whether the last word says that the container's memory was used up."""
        return bool(self._last.get("out_of_memory"))

    def hear(self, line: bytes) -> None:
        """Takes one line of JSON."""
        event = json.loads(line)
        self._last = event
        match event["event"]:
            case "stage":
                self.stage, self.doing = event["name"], None
            case "loading":
                self.doing = f"loading {event['what']}"
            case "progress":
                self.doing = event["text"]
            case "finished":
                self.stage, self.doing = None, None
                self.outcomes.append(
                    StageOutcome(name=event["name"], seconds=event["seconds"], result=event["result"] or {})
                )
        self._listener.hear(event)

    def result(self) -> list[StageOutcome] | None:
        """The outcomes when the last word was ``done``; None when there was no last word.

        Raises:
            C7xError: it was ``error``.
            KeyboardInterrupt: it was ``interrupted``.
        """
        match self._last["event"]:
            case "done":
                return self.outcomes
            case "error":
                raise error_from_json(self._last["error"])
            case "interrupted":
                raise KeyboardInterrupt
            case _:
                return None
