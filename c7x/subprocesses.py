"""The one helper through which every child process goes: it says what it runs and names what went wrong."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from c7x.errors import C7xError, CrashError, ToolError
from c7x.reporter import SILENT, Reporter

#: Of a failed tool's standard error, in lines: enough for a compiler's first complaint with its context.
_TAIL_LINES = 20


@dataclass(frozen=True, kw_only=True)
class Completed:
    """A child that ended by itself. ``stdout`` and ``stderr`` are text, undecodable bytes replaced."""

    command: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11; ``signal 99`` for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def find_program(*names: str) -> Path | None:
    """The first of ``names`` that is an executable on PATH (or a path to one); None when there is none."""
    for name in names:
        if found := shutil.which(name):
            return Path(found)
    return None


def tail(text: str, lines: int = _TAIL_LINES) -> str:
    """The last lines of a text, without blank lines at the ends."""
    return "\n".join(text.strip().splitlines()[-lines:])


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    reporter: Reporter = SILENT,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    check: bool = True,
    error: type[C7xError] = ToolError,
    what: str | None = None,
    hint: str | None = None,
    missing_hint: str | None = None,
) -> Completed:
    """Run a program to its end, with its output captured and nothing on its standard input.

    Args:
        command: program and arguments; never a shell line.
        reporter: is told ``+ command``.
        env: variables to set beside those of this process.
        timeout: seconds after which the child is killed.
        check: whether a non-zero exit code is an error.
        error: the class of error for a missing program, a non-zero exit code or a timeout.
        what: what the command was for, as in "cannot <what>"; by default the program's name says it.
        hint: the next step when the command failed.
        missing_hint: the next step when there is no such program.

    Raises:
        CrashError: the child died by a signal.
        C7xError: of class ``error``; the message ends with the last lines of the child's standard error.
    """
    words = tuple(os.fspath(word) for word in command)
    program = Path(words[0]).name
    task = what or f"run {program}"
    reporter.progress(f"+ {shlex.join(words)}")
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env=None if env is None else {**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        raise error(
            f"cannot {task}: {program} did not end within {expired.timeout:g} s",
            cause="it hangs, or the machine is very slow",
            hint=hint or "allow more time",
        ) from expired
    except OSError as failure:
        if cwd is not None and not cwd.is_dir():
            raise error(f"cannot {task}: there is no folder {cwd}", hint=hint) from failure
        # ENOEXEC and ENOENT also mean a foreign binary or a missing interpreter; strerror tells them apart.
        raise error(
            f"cannot {task}: {words[0]} cannot be started",
            cause="it is not installed or not on PATH" if isinstance(failure, FileNotFoundError) else failure.strerror,
            hint=missing_hint or hint or f"install {program}, or put it on PATH",
        ) from failure
    completed = Completed(command=words, returncode=done.returncode, stdout=done.stdout, stderr=done.stderr)
    if completed.returncode < 0:
        name = signal_name(-completed.returncode)
        last = tail(completed.stderr)
        killed = "the kernel or another program killed it, most often because memory ran out"
        raise CrashError(
            f"cannot {task}: {program} was killed by {name}" + (f"\n{last}" if last else ""),
            cause=killed if name == "SIGKILL" else f"{program} has a defect, or its input makes it fail",
            hint=hint or f"run it by hand: {shlex.join(words)}",
        )
    if check and completed.returncode != 0:
        last = tail(completed.stderr) or tail(completed.stdout)
        raise error(
            f"cannot {task}: {program} ended with code {completed.returncode}" + (f"\n{last}" if last else ""),
            cause=f"see the last lines of {program}'s output above" if last else f"{program} gave no reason",
            hint=hint or f"run it by hand: {shlex.join(words)}",
        )
    return completed
