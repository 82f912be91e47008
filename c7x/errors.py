"""Every error c7x reports on purpose: what happened, the likely cause, the next step, one exit code a class.

``cli.py`` is the only place that turns these into text and an exit code; everything else raises.
The list of classes and codes is kept in docs/errors.md, and a unit test holds the two together.
"""

from __future__ import annotations

from typing import ClassVar


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

    def __str__(self) -> str:
        parts = [self.message]
        if self.cause:
            parts.append(f"cause: {self.cause}")
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)

    def to_json(self) -> dict[str, str | None]:
        """The error object of the ``--json`` contract."""
        return {
            "status": "error",
            "error": type(self).__name__,
            "message": self.message,
            "cause": self.cause,
            "hint": self.hint,
            "stage": self.stage,
        }


class CheckFailed(C7xError):
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
