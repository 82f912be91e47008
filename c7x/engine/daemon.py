"""The container engine: finding it, finding the image, and saying in plain words what it refuses.

Docker and podman speak the same protocol; podman needs its socket, and ``DOCKER_HOST`` to name it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from c7x.errors import C7xError, DependencyError, EngineError, ImageError, MountError, UsageError
from c7x.version import __version__

VERSION_LABEL = "org.opencontainers.image.version"
DEFAULT_IMAGES = (f"c7x:{__version__}", "c7x:latest")
#: Seconds for an answer; making a container on a busy machine takes some.
TIMEOUT = 120

_LOCAL = "or use --engine local"
_GET_IMAGE = f"make images in a checkout of c7x {__version__}, or docker load -i FILE with an archive of the image"


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image of c7x; ``size`` in bytes, unpacked."""

    name: str
    id: str
    version: str
    architecture: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """A container engine that answers.

    Attributes:
        client: a ``docker.APIClient``.
        name: ``Docker`` or ``Podman``.
        version: its version.
        architecture: what it runs, such as ``amd64``.
        rootless: whether root inside a container is the user who runs the engine.
        selinux: whether SELinux keeps containers from files that are not labelled for them.
    """

    client: Any
    name: str
    version: str
    architecture: str
    rootless: bool
    selinux: bool


def _api() -> Any:
    try:
        import docker
        import docker.context

        docker.APIClient  # noqa: B018 - a folder called docker beside the user's files imports, too
    except (ImportError, AttributeError) as error:
        raise DependencyError(
            "the Python package docker is not installed, or something else of that name is in its place",
            cause=str(error),
            hint="pip install 'docker>=7.1', or use --engine local",
        ) from error
    return docker


def _address(docker: Any) -> dict[str, Any]:
    """Where the engine listens: ``DOCKER_HOST``, else the context that the docker command uses."""
    if os.environ.get("DOCKER_HOST"):
        return dict(docker.utils.kwargs_from_env())
    # An unreadable configuration of the docker command is its own business.
    with contextlib.suppress(Exception):
        context = docker.context.ContextAPI.get_current_context()
        if context is not None and context.name != "default" and context.Host:
            return {"base_url": context.Host, "tls": context.TLSConfig or False}
    return {}


def _errnos(error: BaseException | None) -> Iterator[int]:
    """The errno of every OSError behind an exception; the SDK hides them in arguments and contexts."""
    pending, seen = [error], set()
    while pending:
        item = pending.pop()
        if item is None or id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, OSError) and item.errno is not None:
            yield item.errno
        pending += [item.__cause__, item.__context__, getattr(item, "reason", None)]
        pending += [argument for argument in item.args if isinstance(argument, BaseException)]
        pending += [a for args in item.args if isinstance(args, tuple) for a in args if isinstance(a, BaseException)]


def _unreachable(error: Exception, where: str) -> EngineError:
    found = set(_errnos(error))
    if found & {errno.EACCES, errno.EPERM}:
        return EngineError(
            f"you may not talk to the container engine at {where}",
            cause="its socket belongs to root and the group docker",
            hint=f"sudo usermod -aG docker $USER, then log in again; {_LOCAL}",
        )
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folders = [Path("/run/podman"), *([Path(runtime) / "podman"] if runtime else [])]
    podman = next((folder / "podman.sock" for folder in folders if (folder / "podman.sock").exists()), None)
    if podman is not None and not os.environ.get("DOCKER_HOST"):
        hint = f"podman is there: export DOCKER_HOST=unix://{podman}"
    else:
        hint = "start it: sudo systemctl start docker, or for podman: systemctl --user start podman.socket"
    return EngineError(
        f"no container engine answers at {where}",
        cause="the Docker daemon does not run, or is not installed" if found else str(error),
        hint=f"{hint}; {_LOCAL}",
    )


@contextlib.contextmanager
def connect(timeout: float = TIMEOUT) -> Iterator[Daemon]:
    """The engine that ``DOCKER_HOST`` or docker's context names, else the one at the usual socket.

    Raises:
        DependencyError: there is no Python package docker.
        EngineError: no engine answers, or it is not the user's to use.
    """
    docker = _api()
    address = _address(docker)
    where = address.get("base_url") or "/var/run/docker.sock"
    client = None
    try:
        try:
            client = docker.APIClient(**address, version="auto", timeout=timeout)
            told, info = client.version(), client.info()
        except (docker.errors.DockerException, OSError, ValueError) as error:
            raise _unreachable(error, where) from error
        names = [str(part.get("Name")) for part in told.get("Components") or ()]
        security = " ".join(info.get("SecurityOptions") or ())
        yield Daemon(
            client=client,
            name="Podman" if any("podman" in name.lower() for name in names) else "Docker",
            version=str(told.get("Version")),
            architecture=str(told.get("Arch")),
            rootless="name=rootless" in security,
            selinux="name=selinux" in security,
        )
    finally:
        if client is not None:
            client.close()


def find_image(daemon: Daemon, name: str | None = None) -> Image:
    """The image to run stages in: ``name``, else ``c7x:VERSION``, else ``c7x:latest``. Nothing is ever pulled.

    Raises:
        ImageError: it is missing, no image of c7x, of another version, or for another architecture.
    """
    docker = _api()
    names = (name,) if name else DEFAULT_IMAGES
    for candidate in names:
        try:
            found = daemon.client.inspect_image(candidate)
        except docker.errors.NotFound:
            continue
        except (docker.errors.DockerException, OSError) as error:
            raise refusal(error, f"look for the image {candidate}") from error
        return _checked(daemon, candidate, found)
    raise ImageError(
        f"there is no image {' or '.join(names)}",
        cause=f"it was neither built nor loaded into {daemon.name}; c7x pulls nothing by itself",
        hint=f"{'docker image ls lists what is there' if name else _GET_IMAGE}; {_LOCAL}",
    )


def _checked(daemon: Daemon, name: str, found: dict[str, Any]) -> Image:
    version = ((found.get("Config") or {}).get("Labels") or {}).get(VERSION_LABEL)
    if version is None:
        raise ImageError(
            f"the image {name} is not one of c7x",
            cause=f"it has no label {VERSION_LABEL}",
            hint=f"{_GET_IMAGE}; {_LOCAL}",
        )
    if version != __version__:
        raise ImageError(
            f"the image {name} has version {version}, and this c7x is {__version__}",
            cause="one of the two was updated and the other was not",
            hint=f"{_GET_IMAGE}; or pip install c7x=={version}",
        )
    architecture = str(found.get("Architecture"))
    if architecture != daemon.architecture:
        raise ImageError(
            f"the image {name} is for {architecture}, and this machine is {daemon.architecture}",
            cause="it was built or loaded for another machine",
            hint=f"make images PLATFORM=linux/{daemon.architecture}; {_LOCAL}",
        )
    return Image(
        name=name,
        id=str(found["Id"]),
        version=version,
        architecture=architecture,
        size=int(found.get("Size") or 0),
    )


@dataclass(frozen=True, kw_only=True)
class EngineState:
    """What ``--engine docker`` would find: the engine and the image, or the errors it would report."""

    engine: str | C7xError
    image: Image | C7xError


def look(image: str | None = None, timeout: float = 10.0) -> EngineState:
    """The state of the engine and of the image ``image`` (default: as ``find_image``), for ``c7x doctor``."""
    try:
        with connect(timeout) as daemon:
            engine = f"{daemon.name} {daemon.version}, {daemon.architecture}{', rootless' if daemon.rootless else ''}"
            try:
                return EngineState(engine=engine, image=find_image(daemon, image))
            except C7xError as error:
                return EngineState(engine=engine, image=error)
    except C7xError as error:
        return EngineState(engine=error, image=error)


_NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_NO_SOURCE = re.compile(r"bind source path does not exist: (?P<path>.+)|statfs (?P<statfs>.+): no such file", re.I)
_NOT_SHARED = re.compile(r"mounts? denied|not shared", re.IGNORECASE)
_FOREIGN = re.compile(r"exec format error", re.IGNORECASE)
_NO_PROGRAM = re.compile(r"executable file .*not found|no such file or directory: OCI", re.IGNORECASE)
_BAD_LIMIT = re.compile(r"memory limit|range of cpus|nanocpus", re.IGNORECASE)


def refusal(error: BaseException, doing: str) -> C7xError:
    """What an exception of the SDK means, said of the task ``doing`` ("start the container")."""
    text = str(getattr(error, "explanation", None) or error)
    if not hasattr(error, "explanation"):
        return EngineError(
            f"the container engine stopped answering while c7x tried to {doing}",
            cause="the daemon was stopped or restarted, or hangs",
            hint=f"start it and run the command again; {_LOCAL}",
        )
    return explained(text, doing) or EngineError(
        f"the container engine refused to {doing}: {text}", cause="see its words above", hint=f"c7x doctor; {_LOCAL}"
    )


def explained(text: str, doing: str) -> C7xError | None:
    """The error for words of the engine, or of what it started, that have one meaning; else None."""
    if _NO_SPACE.search(text):
        return EngineError(
            f"the container engine could not {doing}: no space left on its device",
            cause="the disk of the engine's storage is full",
            hint="docker system df shows what takes the space, docker system prune frees some",
        )
    if match := _NO_SOURCE.search(text):
        path = match["path"] or match["statfs"]
        return MountError(
            f"the container engine does not see {path}",
            cause="it runs on another machine, or in a virtual machine that does not share this folder",
            hint=f"use an engine on this machine (DOCKER_HOST), or share the folder with it; {_LOCAL}",
        )
    if _NOT_SHARED.search(text):
        return MountError(
            f"the container engine may not use a folder: {text}",
            cause="its settings share only some folders with containers",
            hint=f"share the folder in the engine's settings; {_LOCAL}",
        )
    if _FOREIGN.search(text):
        return ImageError(
            f"the container engine could not {doing}: the image's programs are for another architecture",
            cause="the image was built for another machine, and no emulator is set up",
            hint=f"make images; {_LOCAL}",
        )
    if _NO_PROGRAM.search(text):
        return ImageError(
            f"the container engine could not {doing}: {text}",
            cause="the image lacks a program that every image of c7x has",
            hint=_GET_IMAGE,
        )
    if _BAD_LIMIT.search(text):
        return UsageError(f"the container engine refuses the limits: {text}", hint="change --memory or --cpus")
    return None
