"""The ``c7x`` command: one line of arguments to an exit code.

``main`` turns errors into text on standard error (and with ``--json`` into one object on standard output) and an exit
code; ``main_inner`` raises them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from c7x import ui
from c7x.cli.app import Passed, app
from c7x.errors import EXIT_INTERRUPTED, C7xError, InternalError, UsageError

#: Shells report a program ended by signal N as 128 + N.
EXIT_TERMINATED = 128 + signal.SIGTERM
EXIT_BROKEN_PIPE = 128 + signal.SIGPIPE


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which cleans up exactly as Ctrl-C does."""


def _on_sigterm(number: int, frame: FrameType | None) -> NoReturn:
    raise _Terminated


def _usage_error(error: Exception) -> UsageError | None:
    """What the argument parser complains about as an error of ours; None for any other exception.

    Typer brings its own copy of Click, or uses the installed one, depending on its version: so no class is named here.
    """
    format_message = getattr(error, "format_message", None)
    if format_message is None:
        return None
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "c7x"
    return UsageError(str(format_message()), hint=f"{command} --help")


def main_inner(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code.

    Raises:
        C7xError: the command failed; wrong usage is a ``UsageError``.
        KeyboardInterrupt: Ctrl-C.
    """
    try:
        code = app(args=list(arguments), prog_name="c7x", standalone_mode=False)
    except C7xError:
        raise
    except Passed as passed:
        raise passed.original from None
    except Exception as error:
        usage = _usage_error(error)
        if usage is None:
            raise
        raise usage from error
    return code if isinstance(code, int) else 0


#: With the keys of every other error object.
_INTERRUPTED = {
    "status": "error", "error": "Interrupted", "message": "interrupted", "cause": None, "hint": None, "stage": None,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """The ``c7x`` command; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    verbose, no_color, as_json = (flag in arguments for flag in ("--verbose", "--no-color", "--json"))
    if no_color:
        os.environ["NO_COLOR"] = "1"  # the help texts are Typer's to print
    signal.signal(signal.SIGTERM, _on_sigterm)
    try:
        code = main_inner(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # What is still buffered must not raise again while Python shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt as error:
        sys.stderr.write("interrupted\n")
        if as_json:
            ui.print_json(_INTERRUPTED)
        return EXIT_TERMINATED if isinstance(error, _Terminated) else EXIT_INTERRUPTED
    except C7xError as error:
        failure = error
    except Exception as error:
        failure = _internal(error)
    ui.print_error(failure, no_color=no_color, with_traceback=verbose)
    if as_json:
        ui.print_json(failure.to_json())
    return failure.exit_code


def _internal(error: Exception) -> InternalError:
    failure = InternalError(
        "the c7x command failed",
        cause=f"{type(error).__name__}: {error}",
        hint="this is a defect of c7x: please report it with the output of the same command with --verbose",
    )
    failure.__cause__ = error
    return failure
