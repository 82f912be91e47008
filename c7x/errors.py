"""Every error c7x reports on purpose: what happened, the likely cause, the next step, one exit code a class.

``cli.py`` is the only place that turns these into text and an exit code; everything else raises.
The list of classes and codes is kept in docs/errors.md, and a unit test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar


class C7xError(Exception):
    """Base of every error with a message for the user.

    Args:
        message: the fact, one sentence: what could not be done or what was found.
        cause: the likely cause, when it is known.
        hint: the next step for the user, as something they can type or change.
        stage: the stage of the build (``export``, ``import``, ``codegen``, ``build``, ``run``, ...);
            filled in by ``Workspace.stage`` when the raiser does not know it.
    """

    exit_code: ClassVar[int] = 3

    def __init__(
        self, message: str, *, cause: str | None = None, hint: str | None = None, stage: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.hint = hint
        self.stage = stage
        #: What a script may want beside the sentence, as JSON values (the figures of a failed comparison, say).
        self.details: dict[str, Any] | None = None

    def __str__(self) -> str:
        parts = [self.message]
        if self.cause:
            parts.append(f"cause: {self.cause}")
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)

    def to_json(self) -> dict[str, Any]:
        """The error object of the ``--json`` contract; ``details`` is there only when the error has some.

        ``error`` names the class of this module: a subclass elsewhere adds data, never a meaning of its own.
        """
        fields: dict[str, Any] = {
            "status": "error",
            "error": next(c.__name__ for c in type(self).__mro__ if c.__module__ == __name__),
            "message": self.message,
            "cause": self.cause,
            "hint": self.hint,
            "stage": self.stage,
        }
        if self.details is not None:
            fields["details"] = self.details
        return fields


class CheckFailed(C7xError):  # noqa: N818 - the check did its work; only its answer is no
    """A comparison or check was carried out and its answer is no."""

    exit_code = 1


class UsageError(C7xError):
    """The command or function was called in a way that has no meaning."""

    exit_code = 2


class ModelError(C7xError):
    """The user's model file cannot be loaded, run or exported."""

    exit_code = 4


class UnsupportedError(C7xError):
    """The model is sound, but holds an operator, dtype or dynamic shape that c7x does not compile."""

    exit_code = 5


class TargetError(C7xError):
    """The target string, an attribute of it or the board is not valid."""

    exit_code = 6


class WorkspaceError(C7xError):
    """The build directory lacks a file, holds a stale one, or cannot be written."""

    exit_code = 7


class FormatError(C7xError):
    """A file (TVMT, weights.bin, .pt2, .npy) is truncated, foreign or inconsistent."""

    exit_code = 8


class ToolError(C7xError):
    """A tool (C compiler, CMake, strip, ...) is missing or failed."""

    exit_code = 9


class DependencyError(C7xError):
    """A Python package that the command needs is not installed or has the wrong version."""

    exit_code = 10


class RunError(C7xError):
    """The built artefact could not run on the given inputs."""

    exit_code = 11


class CrashError(C7xError):
    """A child process died by a signal; the stage and the signal are named."""

    exit_code = 12


class DisagreementError(C7xError):
    """c7x's own check found that a lowered model computes something else than PyTorch."""

    exit_code = 13


class InternalError(C7xError):
    """c7x itself failed in a way nobody foresaw; the traceback is kept for a bug report."""

    exit_code = 14


class EngineError(C7xError):
    """The container engine cannot be reached, stopped at work, or refused to run the container."""

    exit_code = 15


class ImageError(C7xError):
    """The container image is missing, of another version, for another architecture, or not one of c7x."""

    exit_code = 16


class MountError(C7xError):
    """A file is not to be had inside the container, or a folder cannot be given to it."""

    exit_code = 17


class LimitError(C7xError):
    """The stages needed more memory than the container may have."""

    exit_code = 18


#: Ctrl-C; not a class of error, but every command may end with it.
EXIT_INTERRUPTED = 130


def error_classes() -> tuple[type[C7xError], ...]:
    """Every class of error, ``C7xError`` first, then in the order of their exit codes."""

    def walk(cls: type[C7xError]) -> Iterator[type[C7xError]]:
        yield cls
        for child in cls.__subclasses__():
            if child.__module__ == __name__:
                yield from walk(child)

    return tuple(sorted(walk(C7xError), key=lambda cls: (cls is not C7xError, cls.exit_code)))


def error_from_json(value: Mapping[str, Any]) -> C7xError:
    """The error that ``C7xError.to_json`` described, of the same class; an unknown class gives an ``InternalError``."""
    by_name = {cls.__name__: cls for cls in error_classes()}
    cls = by_name.get(str(value.get("error")), InternalError)

    def text(key: str) -> str | None:
        item = value.get(key)
        return None if item is None else str(item)

    error = cls(
        text("message") or "an error without a message", cause=text("cause"), hint=text("hint"), stage=text("stage")
    )
    error.details = value.get("details")
    return error
