"""A Docker daemon for tests of the engine: what ``docker.APIClient`` answers, with a process in place of a container.

Run as a script this file is what runs in the container: the real relay, with the stages of ``engine_stages``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import docker.errors
import requests

from c7x.version import __version__

IMAGE: Mapping[str, Any] = {
    "Id": "sha256:0123",
    "Architecture": "amd64",
    "Size": 1_500_000_000,
    "Config": {"Labels": {"org.opencontainers.image.version": __version__}},
}


def api_error(status: int, text: str) -> docker.errors.APIError:
    """What the SDK raises when the daemon answers with ``status`` and this explanation."""
    response = requests.Response()
    response.status_code = status
    kind = docker.errors.NotFound if status == 404 else docker.errors.APIError
    return kind(text, response=response, explanation=text)


class FakeClient:
    """One daemon; put ``lambda **kwargs: client`` in place of ``docker.APIClient``.

    Attributes:
        images: by name, as ``inspect_image`` shows them.
        fails: what a method raises instead of working, by its name.
        state: what ``inspect_container`` shows beside the exit code.
        calls: names of the methods called, in order, with their interesting argument.
        created: the arguments of ``create_container``, with ``host_config`` as it was asked for.
        command: what runs in place of the container's program.
    """

    def __init__(self) -> None:
        self.images: dict[str, Any] = {f"c7x:{__version__}": IMAGE}
        self.fails: dict[str, Exception] = {}
        self.state: dict[str, Any] = {}
        self.calls: list[tuple[str, Any]] = []
        self.created: dict[str, Any] = {}
        self.command = [sys.executable, __file__]
        self.security: list[str] = []
        self.components = [{"Name": "Engine"}]
        self.old: list[dict[str, Any]] = []
        self.on_start: Callable[[], None] = lambda: None
        self._process: subprocess.Popen[bytes] | None = None
        self._ours: socket.socket | None = None
        self._threads: list[threading.Thread] = []

    def shut_down(self) -> None:
        """Ends what a test left."""
        if self._ours is not None:
            with contextlib.suppress(OSError):
                self._ours.shutdown(socket.SHUT_RDWR)
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for thread in self._threads:
            thread.join(10)
        if self._process is not None:
            for stream in (self._process.stdout, self._process.stderr):
                assert stream is not None
                stream.close()
        if self._ours is not None:
            self._ours.close()

    def _call(self, name: str, value: Any = None) -> None:
        self.calls.append((name, value))
        if error := self.fails.get(name):
            raise error

    # --- what the SDK has

    def version(self) -> dict[str, Any]:
        self._call("version")
        return {"Version": "26.1.5", "Arch": "amd64", "Components": self.components}

    def info(self) -> dict[str, Any]:
        return {"SecurityOptions": self.security}

    def close(self) -> None:
        self.calls.append(("close", None))

    def inspect_image(self, name: str) -> Any:
        self._call("inspect_image", name)
        if name not in self.images:
            raise api_error(404, f"No such image: {name}")
        return self.images[name]

    def containers(self, **filters: Any) -> list[dict[str, Any]]:
        self._call("containers")
        return self.old

    def create_host_config(self, **options: Any) -> dict[str, Any]:
        return options

    def create_container(self, **options: Any) -> dict[str, Any]:
        self._call("create_container", options["name"])
        self.created = options
        return {"Id": "4567"}

    def attach_socket(self, name: str, params: Mapping[str, int]) -> socket.socket:
        self._call("attach_socket", name)
        self._ours, theirs = socket.socketpair()
        return theirs

    def start(self, name: str) -> None:
        self._call("start", name)
        self.on_start()
        self._process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            cwd=self.created["working_dir"],
        )
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._feed, self._carry)]
        for thread in self._threads:
            thread.start()

    def kill(self, name: str, signal: int) -> None:
        self._call("kill", signal)
        if self._process is not None:
            self._process.send_signal(signal)

    def wait(self, name: str, timeout: float) -> dict[str, int]:
        self._call("wait", name)
        assert self._process is not None
        code = self._process.wait(timeout)
        return {"StatusCode": code if code >= 0 else 128 - code}

    def inspect_container(self, name: str) -> dict[str, Any]:
        self._call("inspect_container", name)
        for item in self.old:
            if item["Id"] == name:
                return item
        return {"State": {"ExitCode": self.wait(name, 5)["StatusCode"], **self.state}}

    def remove_container(self, name: str, v: bool, force: bool = False) -> None:
        self._call("remove_container", name)
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    # --- the container

    def break_off(self) -> None:
        """The daemon goes, and the container with it."""
        assert self._process is not None and self._ours is not None
        for name in ("wait", "inspect_container", "kill", "remove_container"):
            self.fails[name] = requests.exceptions.ConnectionError("Connection aborted.")
        self._process.kill()
        self._ours.shutdown(socket.SHUT_RDWR)

    def _feed(self) -> None:
        assert self._ours is not None and self._process is not None and self._process.stdin is not None
        with contextlib.suppress(OSError), self._process.stdin as stdin:
            while data := self._ours.recv(1 << 16):
                stdin.write(data)
                stdin.flush()

    def _carry(self) -> None:
        process, ours = self._process, self._ours
        assert process is not None and ours is not None and process.stdout is not None and process.stderr is not None
        lock = threading.Lock()

        def carry(number: int, source: Any) -> None:
            # Small pieces, so that frames and lines do not end together.
            while data := source.read1(100):
                with lock, contextlib.suppress(OSError):
                    ours.sendall(struct.pack(">BxxxL", number, len(data)) + data)

        errors = threading.Thread(target=carry, args=[2, process.stderr], daemon=True)
        errors.start()
        carry(1, process.stdout)
        errors.join()
        process.wait()
        with contextlib.suppress(OSError):
            ours.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    from c7x.engine.local import LocalEngine
    from c7x.engine.relay import main
    from tests.unit.engine_stages import TABLE

    signal.signal(signal.SIGINT, signal.default_int_handler)
    main(LocalEngine(table=TABLE, command=[sys.executable, str(Path(__file__).with_name("engine_stages.py"))]))
