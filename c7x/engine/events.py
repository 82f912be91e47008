"""What a running chain of stages tells its caller, and the JSON lines that carry it out of the worker process.

One JSON object a line. ``event`` is one of: ``loading`` and ``loaded`` (Python packages, apart from the stages so that
stage times are honest), ``stage``, ``finished``, ``info``, ``warn``, ``progress``, and last ``error``, ``interrupted``
or ``done``.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from typing import Any

from c7x.reporter import Reporter


class Listener(Reporter):
    """A reporter that also hears of times, and of what the user's code and the tools print. This base says nothing."""

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


def dispatch(event: Mapping[str, Any], listener: Listener) -> None:
    """Tells ``listener`` of one event; events that carry results are the engine's own business."""
    match event["event"]:
        case "loading":
            listener.loading(event["what"])
        case "loaded":
            listener.loaded(event["what"], event["seconds"])
        case "stage":
            listener.stage(event["name"])
        case "finished":
            listener.finished(event["name"], event["seconds"])
        case "info":
            listener.info(event["text"])
        case "warn":
            listener.warn(event["text"])
        case "progress":
            listener.progress(event["text"])
