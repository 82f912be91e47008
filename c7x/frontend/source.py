"""Where a node of an exported graph comes from: the user's line, the module path, the operator's name."""

from __future__ import annotations

import os
import re
import sysconfig
from pathlib import Path, PurePath
from typing import Any

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
#: Folders whose frames are PyTorch's or Python's own, never the user's.
_OWN_FOLDERS = ("torch", "torchao", "functorch")


def _site_packages() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(sorted({paths["purelib"], paths["platlib"]}, key=len, reverse=True))


def shown_path(file: str, root: Path | None) -> str:
    """A source file as c7x writes it down: relative to the model's folder, else from its package, never absolute."""
    path = PurePath(file)
    if root is not None and path.is_absolute():
        for candidate in (path, PurePath(os.path.realpath(path))):
            if candidate.is_relative_to(root):
                return candidate.relative_to(root).as_posix()
    for folder in ("site-packages", "dist-packages"):
        if folder in path.parts:
            return PurePath(*path.parts[len(path.parts) - path.parts[::-1].index(folder) :]).as_posix()
    return path.as_posix() if not path.is_absolute() else path.name


def is_library(file: str) -> bool:
    """Whether a frame is PyTorch's or the standard library's, or no file at all (``<string>``, ``<eval_with_key>``)."""
    if file.startswith("<"):
        return True
    parts = PurePath(file).parts
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            package = parts[len(parts) - parts[::-1].index(folder) :][0]
            return package.split(".")[0] in _OWN_FOLDERS
    return parts[0] in _OWN_FOLDERS or file.startswith(sysconfig.get_paths()["stdlib"])


def innermost_user_frame(stack_trace: str) -> tuple[str, int] | None:
    """The last frame of a formatted stack that is the user's: (file, line); None when there is none."""
    frames = [(m["file"], int(m["line"])) for m in _FRAME.finditer(stack_trace)]
    users = [f for f in frames if not is_library(f[0])]
    return users[-1] if users else None


def shorten(stack_trace: str | None, root: Path | None) -> str | None:
    """A stack reduced to the user's innermost frame with its path made relative (the form kept in ``model.pt2``)."""
    if not stack_trace:
        return None
    frame = innermost_user_frame(stack_trace)
    return None if frame is None else f'  File "{shown_path(frame[0], root)}", line {frame[1]}'


def node_source(node: Any) -> str:
    """``file:line`` of the user's line behind a node, or an empty text."""
    trace = node.meta.get("stack_trace")
    frame = innermost_user_frame(trace) if trace else None
    return "" if frame is None else f"{shown_path(frame[0], None)}:{frame[1]}"


def node_module(node: Any) -> str:
    """The path of the innermost module a node belongs to, such as ``layer1.0.conv1`` (empty: the model itself)."""
    stack = node.meta.get("nn_module_stack") or {}
    return str(list(stack.values())[-1][0]) if stack else ""


def operator_name(node: Any) -> str:
    """``aten.conv2d.default``, ``my_library.my_op.default``, ``higher_order.cond``, ..."""
    target = node.target
    name = str(target)
    if hasattr(target, "_schema"):
        return name
    if type(target).__name__.endswith("HigherOrderOperator") or "HigherOrderOperator" in [
        base.__name__ for base in type(target).__mro__
    ]:
        return f"higher_order.{getattr(target, '__name__', name)}"
    module = getattr(target, "__module__", "")
    return f"{module}.{getattr(target, '__name__', name)}" if module else name
