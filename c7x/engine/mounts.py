"""Which folders and files a container is given for a command, and what to say when the command looked elsewhere.

Everything appears inside under the path it has outside, so that messages, source lines and debuggers name paths that
exist. The container is given: the build directory (writable); files that options name (read-only); with a model.py or
another source file the folder it lies in (read-only), because code imports and reads what lies beside it; the folder
of an output file (writable); and what the user asks for with ``--mount`` (read-only). Nothing else.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from c7x.errors import C7xError, ModelError, MountError, UsageError
from c7x.stages import PathKind, Stage, StageRequest

#: A mount there would hide what the image runs from.
_OCCUPIED = frozenset(
    Path(text)
    for text in (
        *("/", "/bin", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr", "/var"),
        *("/usr/bin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/local", "/usr/sbin", "/usr/share"),
        *("/usr/local/bin", "/usr/local/lib", "/usr/local/share"),
    )
)
_KERNEL = (Path("/dev"), Path("/proc"), Path("/sys"))
#: As many as the kernel follows.
_LINKS = 40
#: Of files that read what lies beside them.
_CODE_SUFFIXES = frozenset({".py", ".c", ".cc", ".cpp", ".cxx", ".h"})


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A file or folder of this machine (``source``, without symbolic links) at the path ``target`` in the container."""

    target: Path
    source: Path
    writable: bool = False


def absolute(path: str | os.PathLike[str]) -> Path:
    """An absolute path without ``..`` that names the same file here and in a container that lacks some of the links."""
    plain = _plain(path)
    try:
        real = Path(path).resolve()
        # `link/..` is not the folder that holds the link.
        return plain if plain.resolve() == real else real
    except (OSError, RuntimeError):
        return plain  # links in a circle, and then it does not matter


def _plain(path: str | os.PathLike[str]) -> Path:
    """The absolute path with every ``..`` taken off together with the name before it."""
    return Path(os.path.normpath(Path(path).absolute()))


def _hops(path: Path) -> Iterator[tuple[Path, Path]]:
    """A file, then what its symbolic links lead to, one after the other: path in the container, path here."""
    target, source = path, path.parent.resolve() / path.name
    for _ in range(_LINKS):
        yield target, source
        if not source.is_symlink():
            return
        link = source.readlink()
        target = Path(os.path.normpath(target.parent / link))
        # Joined to a path without links, so that `..` means here what the kernel makes of it.
        step = source.parent / link
        source = step.parent.resolve() / step.name


def _mounts_of(path: Path, kind: PathKind) -> list[Mount]:
    if kind == "output":
        return [Mount(target=path.parent, source=path.parent.resolve(), writable=True)]
    if kind == "code" and path.suffix in _CODE_SUFFIXES:
        return [Mount(target=target.parent, source=source.parent) for target, source in _hops(path)]
    first, *rest = _hops(path)
    real = path.resolve()
    return [Mount(target=target, source=real) for target, _ in ([first, rest[-1]] if rest else [first])]


def _texts(value: object) -> Sequence[str]:
    return [value] if isinstance(value, str) else list(value) if isinstance(value, list) else []


def inside(path: str) -> str:
    """The path as the container understands it: the same, unless a ``..`` stands behind a name, which may be a link."""
    names = itertools.dropwhile(lambda part: part == "..", Path(path).parts)
    return str(absolute(path)) if ".." in names else path


def mirrored(table: Mapping[str, Stage], request: StageRequest) -> StageRequest:
    """The request with its paths as the container understands them."""
    options = dict(request.options)
    for name in sorted(table[request.name].paths.keys() & options.keys()):
        texts = [inside(text) for text in _texts(options[name])]
        options[name] = texts[0] if isinstance(options[name], str) else texts
    return replace(request, options=options)


def plan_mounts(
    table: Mapping[str, Stage], root: Path, requests: Iterable[StageRequest], more: Iterable[Path] = ()
) -> list[Mount]:
    """The mounts for a chain of stages, sorted by where they appear.

    Args:
        table: the stages there are.
        root: the build directory, which exists.
        requests: what is to run; a path that does not exist is left out, and the stage will say so.
        more: what the user wants to be visible besides.

    Raises:
        UsageError: one of ``more`` does not exist.
        MountError: a folder would hide what the container runs from.
    """
    wanted = [Mount(target=absolute(root), source=root.resolve(), writable=True)]
    for request in requests:
        for name, kind in table[request.name].paths.items():
            for path in map(absolute, _texts(request.options.get(name))):
                if (path.parent if kind == "output" else path).exists():
                    wanted += _mounts_of(path, kind)
    for path in more:
        if not path.exists():
            raise UsageError(
                f"--mount {path}: there is no such file or folder",
                cause="the path is misspelt, or relative to another folder",
                hint="--mount DIR shows a folder to the container, read-only",
            )
        wanted += _mounts_of(absolute(path), "input")
    for mount in wanted:
        _check_target(mount.target)
    return _merged(wanted)


def _check_target(target: Path) -> None:
    if target in _OCCUPIED or any(target.is_relative_to(folder) for folder in _KERNEL):
        raise MountError(
            f"the folder {target} cannot be given to a container",
            cause="the container has its own files there; a model.py is taken along with the folder it lies in",
            hint="move the files into a folder of their own, or use --engine local",
        )


def _merged(mounts: Iterable[Mount]) -> list[Mount]:
    """One mount for a target, writable when anybody writes there, and none inside another that shows the same."""
    by_target: dict[Path, Mount] = {}
    for mount in mounts:
        known = by_target.get(mount.target)
        by_target[mount.target] = mount if known is None or mount.writable else known
    kept: list[Mount] = []
    for mount in sorted(by_target.values(), key=lambda mount: mount.target.parts):
        above = [other for other in kept if mount.target.is_relative_to(other.target)]
        if above and not mount.writable and mount.target.is_symlink():
            continue  # the link is there with its folder, and where it leads to has a mount of its own
        if above and above[-1].writable == mount.writable and mount.source == _seen(mount.target, above[-1]):
            continue
        kept.append(mount)
    return kept


def _seen(target: Path, mount: Mount) -> Path:
    """The file of this machine that a path below ``mount`` shows in the container."""
    return mount.source / target.relative_to(mount.target)


def is_visible(path: Path, mounts: Iterable[Mount]) -> bool:
    """Whether a path of this machine can be seen in the container."""
    return any(path.is_relative_to(mount.target) for mount in mounts)


_MISSING = re.compile(r"No such file or directory: '(?P<path>[^'\n]+)'")
_READ_ONLY = re.compile(r"Read-only file system: '(?P<path>[^'\n]+)'")
_NO_PACKAGE = re.compile(r"the package (?P<name>[\w.]+) is not installed here")


def explain(error: C7xError, mounts: Sequence[Mount], image: str) -> C7xError:
    """A better error for one that came out of the container, if the container is the reason; else the same.

    Args:
        error: as the stage raised it.
        mounts: what the container was given.
        image: its name, for the cure.
    """
    if match := _MISSING.search(error.message):
        path = absolute(match["path"])
        if path.exists() and not is_visible(path, mounts):
            folder = path if path.is_dir() else path.parent
            return MountError(
                f"{path} is here, but not in the container\n{error.message}",
                cause="a container is given the model's folder, the files that options name, and the build directory",
                hint=f"add --mount {folder}, or use --engine local",
                stage=error.stage,
            )
    if match := _READ_ONLY.search(error.message):
        return MountError(
            f"{match['path']} cannot be written in the container\n{error.message}",
            cause="only the build directory and the temporary folder can be written there",
            hint="let the model's code write into tempfile.gettempdir(), or use --engine local",
            stage=error.stage,
        )
    if isinstance(error, ModelError) and (match := _NO_PACKAGE.search(error.cause or "")):
        error.cause = f"the image {image} has no package {match['name']}"
        error.hint = (
            f"build an image from it (FROM {image}, USER 0, RUN pip install {match['name']}, USER 1000) and name it "
            "with --image, or use --engine local"
        )
    return error
