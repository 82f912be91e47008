from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from c7x.errors import CrashError, RunError, ToolError
from c7x.reporter import Reporter
from c7x.subprocesses import find_program, run, signal_name, tail

PYTHON = [sys.executable, "-c"]


class Recorder(Reporter):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def progress(self, text: str) -> None:
        self.lines.append(text)


def test_output_is_captured_and_the_command_reported() -> None:
    recorder = Recorder()
    done = run([*PYTHON, "import sys; print('out'); print('err', file=sys.stderr)"], reporter=recorder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "err\n")
    assert len(recorder.lines) == 1
    assert recorder.lines[0].startswith(f"+ {sys.executable} -c ")
    assert "'import sys;" in recorder.lines[0]  # quoted: it can be pasted into a shell


def test_undecodable_output_does_not_break() -> None:
    assert "\ufffd" in run([*PYTHON, r"import os; os.write(1, b'\xff')"]).stdout


def test_standard_input_is_empty() -> None:
    assert run([*PYTHON, "import sys; print(repr(sys.stdin.read()))"], timeout=30).stdout == "''\n"


def test_env_is_added_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("C7X_TEST_A", "a")
    code = "import os; print(os.environ['C7X_TEST_A'], os.environ['C7X_TEST_B'])"
    assert run([*PYTHON, code], env={"C7X_TEST_B": "b"}).stdout == "a b\n"
    assert "C7X_TEST_B" not in os.environ


def test_failure_carries_the_last_lines_of_stderr() -> None:
    code = "import sys\nfor i in range(50): print('line', i, file=sys.stderr)\nsys.exit(3)"
    with pytest.raises(ToolError, match="code 3") as caught:
        run([*PYTHON, code], what="do the thing", hint="try again")
    assert caught.value.message.startswith("cannot do the thing: ")
    assert "line 49" in caught.value.message
    assert "line 30" in caught.value.message
    assert "line 29" not in caught.value.message
    assert caught.value.hint == "try again"


def test_failure_without_stderr_shows_stdout() -> None:
    with pytest.raises(ToolError, match="said here"):
        run([*PYTHON, "import sys; print('said here'); sys.exit(1)"])


def test_class_of_error_and_check_are_the_callers_choice() -> None:
    with pytest.raises(RunError):
        run([*PYTHON, "raise SystemExit(1)"], error=RunError)
    assert run([*PYTHON, "raise SystemExit(7)"], check=False).returncode == 7


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL"])
@pytest.mark.parametrize("check", [True, False])
def test_death_by_signal_is_a_crash(name: str, check: bool) -> None:
    code = (
        f"import os, signal, sys; print('last words', file=sys.stderr, flush=True); os.kill(os.getpid(), signal.{name})"
    )
    with pytest.raises(CrashError, match=name) as caught:
        run([*PYTHON, code], check=check)
    assert "last words" in caught.value.message
    assert ("memory" in (caught.value.cause or "")) == (name == "SIGKILL")


def test_missing_program_is_named_with_a_hint() -> None:
    with pytest.raises(ToolError, match="c7x-no-such-tool") as caught:
        run(["c7x-no-such-tool", "x"], missing_hint="apt install it")
    assert "PATH" in (caught.value.cause or "")
    assert caught.value.hint == "apt install it"


def test_file_that_is_no_program(tmp_path: Path) -> None:
    path = tmp_path / "tool"
    path.write_bytes(b"\x7fELF nonsense")
    with pytest.raises(ToolError, match="cannot be started") as caught:
        run([path])
    assert "Permission" in (caught.value.cause or "")
    path.chmod(0o755)
    with pytest.raises(ToolError, match="cannot be started") as caught:
        run([path])
    assert "format" in (caught.value.cause or "")


def test_missing_folder_is_not_taken_for_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no folder"):
        run([*PYTHON, ""], cwd=tmp_path / "gone")


def test_timeout_kills_the_child() -> None:
    start = time.monotonic()
    with pytest.raises(RunError, match=r"within 0\.5 s"):
        run([*PYTHON, "import time; time.sleep(60)"], timeout=0.5, error=RunError)
    assert time.monotonic() - start < 20


def test_find_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "mytool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("absent", "mytool") == tool
    assert find_program(str(tool)) == tool
    assert find_program("absent") is None


def test_signal_name() -> None:
    assert signal_name(11) == "SIGSEGV"
    assert signal_name(4711) == "signal 4711"


def test_tail() -> None:
    assert tail("\n\na\nb\nc\n\n", 2) == "b\nc"
    assert tail("") == ""
