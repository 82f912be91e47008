"""Runs stages in a container, through the Docker SDK: files, progress and errors are as if they ran here.

One container a command. Inside, ``c7x.engine.relay`` runs the stages as ``LocalEngine`` does here; its events come back
over the container's standard output. The container has no network, no capability, a read-only root and the user's own
identity, and sees only what ``c7x.engine.mounts`` lists.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import struct
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from c7x.engine.daemon import Daemon, Image, connect, explained, find_image, refusal
from c7x.engine.events import Listener, StageOutcome, Transcript
from c7x.engine.local import GRACE_SECONDS
from c7x.engine.mounts import Mount, explain, inside, mirrored, plan_mounts
from c7x.errors import C7xError, CrashError, EngineError, LimitError, ToolError, UsageError
from c7x.stages import STAGES, Stage, StageRequest, check_requests
from c7x.version import __version__
from c7x.workspace import Workspace, existing_folder, uninterrupted

RELAY = ("python3", "-P", "-m", "c7x.engine.relay")
#: Marks our containers, so that one whose c7x was killed can be told and removed.
LABEL = "c7x.engine"
#: The c7x that owns a container, for people who look at `docker ps`.
PID_LABEL = "c7x.pid"
#: After so many seconds nobody waits any more for what a stopped container has to say.
STALE_SECONDS = 60.0
_SIGKILL_CODE = 128 + signal.SIGKILL
_KEPT_LINES = 20
#: Variables that a stage's results depend on.
_PASSED_ON = ("SOURCE_DATE_EPOCH",)


@dataclass(frozen=True, kw_only=True)
class ContainerOptions:
    """What a user may say about the container.

    Attributes:
        image: its image; None for the one of this version.
        memory: bytes it may use, swap included; None for no limit.
        cpus: processors it may use; None for no limit.
        mounts: files and folders it sees besides, read-only.
    """

    image: str | None = None
    memory: int | None = None
    cpus: float | None = None
    mounts: tuple[Path, ...] = ()


class DockerEngine:
    """Runs stages in a container.

    Args:
        options: what the user says about it.
        table: the stages there are.
    """

    def __init__(self, options: ContainerOptions | None = None, *, table: Mapping[str, Stage] = STAGES) -> None:
        self.options = options or ContainerOptions()
        self.table = table

    def run(
        self, workspace: Workspace, requests: Sequence[StageRequest], listener: Listener | None = None
    ) -> list[StageOutcome]:
        """Runs the stages in order and returns what they did; the container is gone afterwards, however it ends.

        Raises:
            C7xError: the error of the stage that failed, as it was raised there.
            EngineError, ImageError, MountError, LimitError: the container could not be had, or was the reason.
            KeyboardInterrupt: Ctrl-C; the worker has cleaned up by then.
        """
        check_requests(self.table, workspace, requests, here=False)
        self._check_places(requests)
        requests = [mirrored(self.table, _with_tools(request)) for request in requests]
        with connect() as daemon:
            image = find_image(daemon, self.options.image)
            with existing_folder(workspace.root):
                mounts = plan_mounts(self.table, workspace.root, requests, self.options.mounts)
                container = _Container(daemon, image, mounts, self.options)
                try:
                    with container:
                        return container.follow(workspace, requests, listener or Listener())
                except C7xError as error:
                    raise explain(error, mounts, image.name) from error.__cause__

    def _check_places(self, requests: Sequence[StageRequest]) -> None:
        for request in requests:
            if self.table[request.name].needs_host(request.options):
                raise UsageError(
                    f"c7x {request.name} reaches a board over ssh, which a container without a network cannot",
                    cause="--engine docker was given",
                    hint="leave --engine docker out",
                )


def _with_tools(request: StageRequest) -> StageRequest:
    """The request with TI's tools of this machine named, when they are needed and here; the image may have its own."""
    options = request.options
    if request.name != "build" or options.get("mode") != "c7x_dload" or options.get("cgt") or options.get("dry_run"):
        return request
    from c7x.toolchain.ticgt import choose_tools

    try:
        _, folder = choose_tools(None)
    except ToolError:
        return request
    return replace(request, options={**options, "cgt": str(folder)})


class _Container:
    """One container, gone when the ``with`` block ends, whatever happens in it."""

    def __init__(self, daemon: Daemon, image: Image, mounts: Sequence[Mount], options: ContainerOptions) -> None:
        self._daemon = daemon
        self._client = daemon.client
        self._image = image
        self._mounts = mounts
        self._options = options
        self._name = f"c7x-{secrets.token_hex(6)}"
        self._stream: _Stream | None = None
        self._ended = False
        self._complaints: deque[str] = deque(maxlen=_KEPT_LINES)

    def __enter__(self) -> _Container:
        _remove_stale(self._client)
        try:
            with _sdk_errors("make the container"), uninterrupted():
                self._client.create_container(
                    **container_config(self._image, self._options, self._name),
                    user=_user(self._daemon),
                    working_dir=str(Path.cwd()),
                    environment=_environment(self._mounts),
                    host_config=self._client.create_host_config(
                        **host_config(self._daemon, self._mounts, self._options)
                    ),
                )
            with _sdk_errors("attach to the container"):
                self._stream = _Stream(
                    self._client.attach_socket(
                        self._name, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1, "logs": 0}
                    )
                )
            with _sdk_errors("start the container"):
                self._client.start(self._name)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            if not self._ended:
                self._interrupt()
        finally:
            self._remove()

    def _interrupt(self) -> None:
        """Lets the relay clean up; a second Ctrl-C means: now."""
        with contextlib.suppress(KeyboardInterrupt, Exception):
            self._client.kill(self._name, signal=int(signal.SIGINT))
            assert self._stream is not None
            self._stream.drain(time.monotonic() + GRACE_SECONDS)

    def _remove(self) -> None:
        with uninterrupted(), contextlib.suppress(Exception):
            if self._stream is not None:
                self._stream.close()
            # Without a daemon nothing can be removed; the next run does it.
            self._client.remove_container(self._name, v=True, force=True)

    def follow(self, workspace: Workspace, requests: Sequence[StageRequest], listener: Listener) -> list[StageOutcome]:
        """Passes events on until the container ends; returns the stages' outcomes or raises what went wrong."""
        assert self._stream is not None
        message = {
            "version": __version__,
            "workspace": inside(str(workspace.root)),
            "umask": _umask(),
            "stages": [{"name": request.name, "options": dict(request.options)} for request in requests],
        }
        transcript = Transcript(listener)
        rest = b""
        try:
            self._stream.send(json.dumps(message).encode() + b"\n")
            for number, data in self._stream.frames():
                if number == _Stream.STDERR:
                    self._complaints.extend(data.decode("utf-8", "backslashreplace").splitlines())
                    continue
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    if line.startswith(b"{"):
                        transcript.hear(line)
                    else:  # an entry point of the user's own image may talk, too
                        self._complaints.append(line.decode("utf-8", "backslashreplace"))
        except OSError as error:
            raise _stopped(transcript) from error
        self._ended = True
        state = self._state(transcript)
        try:
            outcomes = transcript.result()
        except C7xError as error:
            if state["OOMKilled"] or transcript.out_of_memory:
                raise self._out_of_memory(error.stage) from error
            raise
        if outcomes is None:
            raise self._death(state, transcript)
        return outcomes

    def _state(self, transcript: Transcript) -> dict[str, Any]:
        """How the container ended: ``ExitCode``, ``OOMKilled``, ``Error``."""
        try:
            self._client.wait(self._name, timeout=GRACE_SECONDS)
            state = self._client.inspect_container(self._name)["State"]
        except Exception as error:
            raise _stopped(transcript) from error
        return {"OOMKilled": False, "Error": "", **state}

    def _out_of_memory(self, stage: str | None) -> LimitError:
        limit = self._options.memory
        return LimitError(
            f"{f'the {stage} stage' if stage else 'the worker process'} ran out of memory",
            cause=f"the container may use {limit / (1 << 20):.0f} MiB" if limit else "the machine's memory is used up",
            hint="give it more with --memory, or leave --memory out" if limit else "close other programs",
            stage=stage,
        )

    def _death(self, state: Mapping[str, Any], transcript: Transcript) -> C7xError | KeyboardInterrupt:
        code, stage = state["ExitCode"], transcript.stage
        if state["OOMKilled"]:
            return self._out_of_memory(stage)
        said = "\n".join([*self._complaints, str(state["Error"])]).strip()
        if known := explained(said, "start the container"):
            return known
        where = f"the {stage} stage" if stage else "the worker process"
        if code == _SIGKILL_CODE:
            return EngineError(
                f"the container was killed while {where} ran",
                cause="somebody removed it, the daemon was stopped, or the machine ran out of memory",
                hint="run the command again",
                stage=stage,
            )
        return CrashError(
            f"the container ended with exit code {code} and no result" + (f"\n{said}" if said else ""),
            cause=f"{self._image.name} is damaged, or {where} crashed",
            hint=f"docker run --rm {self._image.name} doctor checks the image",
            stage=stage,
        )


def container_config(image: Image, options: ContainerOptions, name: str) -> dict[str, Any]:
    """What does not depend on who calls, as ``create_container`` takes it."""
    return {
        "image": image.id,
        "command": list(RELAY),
        "name": name,
        "labels": {LABEL: __version__, PID_LABEL: str(os.getpid())},
        # Closed when this process goes, and then the relay goes, too.
        "stdin_open": True,
    }


def host_config(daemon: Daemon, mounts: Sequence[Mount], options: ContainerOptions) -> dict[str, Any]:
    """What the container may do and see, as ``create_host_config`` takes it."""
    limits: dict[str, Any] = {}
    if options.memory is not None:
        limits |= {"mem_limit": options.memory, "memswap_limit": options.memory}
    if options.cpus is not None:
        limits |= {"nano_cpus": round(options.cpus * 1e9)}
    return {
        "mounts": [
            {
                "Type": "bind",
                "Source": str(mount.source),
                "Target": str(mount.target),
                "ReadOnly": not mount.writable,
            }
            for mount in mounts
        ],
        "network_mode": "none",
        "read_only": True,
        "cap_drop": ["ALL"],
        # Files of the user's own folders bear no label for containers, and shall not get one.
        "security_opt": ["no-new-privileges", *(["label=disable"] if daemon.selinux else [])],
        "tmpfs": {str(scratch_folder(mounts)): "exec,mode=1777"},
        "group_add": [] if daemon.rootless else [str(group) for group in sorted(set(os.getgroups()))],
        **limits,
    }


def scratch_folder(mounts: Sequence[Mount]) -> Path:
    """Where the container's temporary files go: /tmp, unless the user's /tmp is mounted there."""
    tmp = Path("/tmp")  # noqa: S108 - in the container, which has it for itself
    return Path("/var/tmp") if any(mount.target == tmp for mount in mounts) else tmp  # noqa: S108


def _user(daemon: Daemon) -> str:
    """Who the container's processes are: the caller, which is root inside a rootless engine."""
    return "0:0" if daemon.rootless else f"{os.getuid()}:{os.getgid()}"


def _environment(mounts: Sequence[Mount]) -> dict[str, str]:
    scratch = str(scratch_folder(mounts))
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {"HOME": scratch, "TMPDIR": scratch, **kept}


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _stopped(transcript: Transcript) -> EngineError:
    where = f"the {transcript.stage} stage" if transcript.stage else "the command"
    return EngineError(
        f"the container engine stopped while {where} ran",
        cause="the daemon was stopped or restarted",
        hint="start it and run the command again, or use --engine local",
        stage=transcript.stage,
    )


@contextlib.contextmanager
def _sdk_errors(doing: str) -> Iterator[None]:
    """Turns exceptions of the SDK and of its connection into ours."""
    try:
        yield
    except C7xError:
        raise
    except Exception as error:
        raise refusal(error, doing) from error


def _remove_stale(client: Any) -> None:
    """Removes containers of ours whose c7x was killed before it could; they have stopped by themselves."""
    with contextlib.suppress(Exception):
        for item in client.containers(all=True, filters={"label": LABEL, "status": ["created", "exited"]}):
            inspected = client.inspect_container(item["Id"])
            times = map(datetime.fromisoformat, (inspected["Created"], inspected["State"]["FinishedAt"]))
            if (datetime.now(UTC) - max(times)).total_seconds() > STALE_SECONDS:
                client.remove_container(item["Id"], v=True)


class _Stream:
    """The attached connection: our bytes go to standard input, frames of the two outputs come back."""

    STDOUT, STDERR = 1, 2
    _HEADER = struct.Struct(">BxxxL")

    def __init__(self, connection: Any) -> None:
        # The SDK gives a reader around the socket (or, over ssh, a channel); it keeps the response alive.
        self._connection = connection
        self._socket = getattr(connection, "_sock", connection)
        self._socket.settimeout(None)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Number of the stream and content, until the container has ended (OSError when the connection breaks)."""
        buffer = b""
        while data := self._socket.recv(1 << 16):
            buffer += data
            while len(buffer) >= self._HEADER.size:
                number, length = self._HEADER.unpack_from(buffer)
                end = self._HEADER.size + length
                if len(buffer) < end:
                    break
                yield number, buffer[self._HEADER.size : end]
                buffer = buffer[end:]

    def drain(self, deadline: float) -> None:
        """Reads and forgets until the container has ended, so that it never blocks on a full pipe (OSError late)."""
        while (left := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left)
            if not self._socket.recv(1 << 16):
                return

    def close(self) -> None:
        self._socket.close()
        self._connection.close()
