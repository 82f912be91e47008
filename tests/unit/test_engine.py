from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from c7x.engine.events import Listener, StageOutcome
from c7x.engine.local import LocalEngine
from c7x.errors import (
    C7xError,
    CrashError,
    DependencyError,
    InternalError,
    ModelError,
    UsageError,
    WorkspaceError,
)
from c7x.stages import StageRequest
from c7x.workspace import Workspace
from tests.unit.engine_stages import TABLE

WORKER = Path(__file__).with_name("engine_stages.py")


class Recorder(Listener):
    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.lines: list[str] = []

    def loading(self, what: str) -> None:
        self.events.append(("loading", what))

    def loaded(self, what: str, seconds: float) -> None:
        self.events.append(("loaded", what))

    def stage(self, name: str) -> None:
        self.events.append(("stage", name))

    def finished(self, name: str, seconds: float) -> None:
        self.events.append(("finished", name))

    def info(self, text: str) -> None:
        self.events.append(("info", text))

    def warn(self, text: str) -> None:
        self.events.append(("warn", text))

    def output(self, text: str) -> None:
        self.lines.append(text)


def engine() -> LocalEngine:
    return LocalEngine(table=TABLE, command=[sys.executable, str(WORKER)])


def run(tmp_path: Path, *stages: str, listener: Listener | None = None, **options: str) -> list[StageOutcome]:
    requests = [
        StageRequest(name=name, options={k: v for k, v in options.items() if k in TABLE[name].options})
        for name in stages
    ]
    return engine().run(Workspace(tmp_path / "build"), requests, listener)


def leftovers(tmp_path: Path) -> set[str]:
    build = tmp_path / "build"
    return {p.name for p in build.iterdir()} if build.exists() else set()


def test_stages_run_in_order_and_return_their_results(tmp_path: Path) -> None:
    recorder = Recorder()
    first, second = run(tmp_path, "write", "read", listener=recorder, text="hello")
    assert (first.name, first.result) == ("write", {"length": 5})
    assert (second.name, second.result) == ("read", {"text": "hello"})
    assert 0 <= first.seconds < 30
    assert recorder.events == [
        ("stage", "write"),
        ("info", "wrote it"),
        ("warn", "mind the gap"),
        ("finished", "write"),
        ("stage", "read"),
        ("finished", "read"),
    ]
    assert recorder.lines == []


def test_user_code_may_print_and_cannot_forge_events(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    recorder = Recorder()
    (outcome,) = run(tmp_path, "chatter", listener=recorder)
    assert outcome.name == "chatter"
    assert recorder.lines == ['{"event": "done"}', "to stdout", "to stderr", "from a child", "\\xff\\xfe no newline"]
    assert capfd.readouterr() == ("", "")


def test_much_output_does_not_deadlock(tmp_path: Path) -> None:
    recorder = Recorder()
    run(tmp_path, "flood", listener=recorder)
    assert len(recorder.lines) == 20000


def test_a_grandchild_that_keeps_the_pipes_does_not_hold_us_up(tmp_path: Path) -> None:
    start = time.monotonic()
    run(tmp_path, "leave")
    assert time.monotonic() - start < 15


def test_packages_are_loaded_before_the_stages_and_reported_apart(tmp_path: Path) -> None:
    recorder = Recorder()
    run(tmp_path, "loads", listener=recorder)
    assert recorder.events[:3] == [("loading", "colorsys"), ("loaded", "colorsys"), ("stage", "loads")]


def test_missing_package_is_refused_before_a_process_starts(tmp_path: Path) -> None:
    nobody = LocalEngine(table=TABLE, command=["/nonexistent"])
    with pytest.raises(DependencyError, match="c7x_no_such_package") as caught:
        nobody.run(Workspace(tmp_path), [StageRequest(name="needy")])
    assert "pip install 'c7x[compile]'" in str(caught.value)


def test_missing_file_is_refused_before_a_process_starts(tmp_path: Path) -> None:
    nobody = LocalEngine(table=TABLE, command=["/nonexistent"])
    with pytest.raises(WorkspaceError, match="no build directory"):
        nobody.run(Workspace(tmp_path / "no"), [StageRequest(name="read")])


def test_edited_files_are_used_as_input_and_kept_when_written_anew(tmp_path: Path) -> None:
    run(tmp_path, "source", text="int x;")
    source = tmp_path / "build" / "lib0.c"
    source.write_text("int y;")
    recorder = Recorder()
    (outcome,) = run(tmp_path, "use", listener=recorder)
    assert outcome.result == {"text": "int y;"}
    assert ("info", "lib0.c was edited since it was written; the edited file is used") in recorder.events
    recorder = Recorder()
    run(tmp_path, "source", listener=recorder, text="int z;")
    assert source.read_text() == "int z;"
    assert source.with_name("lib0.c.edited").read_text() == "int y;"
    assert [text for kind, text, *_ in recorder.events if kind == "warn"] == [
        "lib0.c was edited by hand and is written anew; yours is now lib0.c.edited"
    ]


def test_unknown_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="colour"):
        engine().run(Workspace(tmp_path), [StageRequest(name="write", options={"colour": "red"})])


def test_error_of_a_stage_keeps_class_text_and_details(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        run(tmp_path, "half", how="error")
    error = caught.value
    assert (error.message, error.cause, error.hint, error.stage) == ("no", "because", "do that", "import")
    assert error.details == {"n": 1}
    assert leftovers(tmp_path) == set()


def test_exception_is_an_internal_error_with_a_traceback_file(tmp_path: Path) -> None:
    with pytest.raises(InternalError, match="half stage failed inside c7x") as caught:
        run(tmp_path, "half", how="exception")
    assert caught.value.cause == "ZeroDivisionError: seven by nothing"
    report = (tmp_path / "build" / "c7x-crash.txt").read_text()
    assert "seven by nothing" in report
    assert "in fail" in report
    assert leftovers(tmp_path) == {"c7x-crash.txt"}


def test_crash_file_goes_with_the_next_run(tmp_path: Path) -> None:
    with pytest.raises(InternalError):
        run(tmp_path, "half", how="exception")
    run(tmp_path, "write", text="x")
    assert leftovers(tmp_path) == {"manifest.json", "model.txt"}


def test_result_that_is_not_json_is_an_internal_error(tmp_path: Path) -> None:
    with pytest.raises(InternalError, match="not_json"):
        run(tmp_path, "not_json")


def test_sys_exit_in_a_stage_is_no_success(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="exit code 0") as caught:
        run(tmp_path, "half", how="sys.exit")
    assert caught.value.stage == "half"
    assert leftovers(tmp_path) == set()


def test_worker_that_leaves_without_a_word(tmp_path: Path) -> None:
    with pytest.raises(CrashError, match="half stage ended with exit code 0 and no result") as caught:
        run(tmp_path, "half", how="os._exit")
    assert caught.value.cause is not None
    assert "last words" in caught.value.cause


def test_segmentation_fault_names_stage_signal_and_place(tmp_path: Path) -> None:
    with pytest.raises(CrashError, match=r"half stage was killed by SIGSEGV \(segmentation fault\)") as caught:
        run(tmp_path, "half", how="segfault")
    assert caught.value.stage == "half"
    assert caught.value.cause is not None
    assert "parsing node 7" in caught.value.cause
    assert "string_at" in caught.value.cause
    assert "engine_stages.py" in (tmp_path / "build" / "c7x-crash.txt").read_text()
    assert not (tmp_path / "build" / "half.txt").exists()


def test_what_a_killed_worker_left_goes_with_the_next_run(tmp_path: Path) -> None:
    with pytest.raises(CrashError, match="SIGKILL") as caught:
        run(tmp_path, "half", how="kill")
    assert caught.value.cause is not None
    assert "out of memory" in caught.value.cause
    assert any(name.startswith(".c7x-import-") for name in leftovers(tmp_path))
    run(tmp_path, "write", text="x")
    assert leftovers(tmp_path) == {"manifest.json", "model.txt"}


PARENT = """
import sys
from pathlib import Path
from tests.unit.test_engine import Listener, Workspace, StageRequest, engine

class Echo(Listener):
    def output(self, text):
        print(text, flush=True)

try:
    engine().run(Workspace(Path(sys.argv[1])), [StageRequest(name="half", options={"how": sys.argv[2]})], Echo())
except KeyboardInterrupt:
    print("interrupted")
    sys.exit(130)
"""


def start_parent(tmp_path: Path, how: str) -> subprocess.Popen[str]:
    root = str(Path(__file__).parents[2])
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT), str(tmp_path / "build"), how],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
        cwd=root,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "sleeping\n"
    return parent


def children_of(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")
class TestInterruption:
    def test_ctrl_c_reaches_the_worker_which_cleans_up(self, tmp_path: Path) -> None:
        parent = start_parent(tmp_path, "sleep")
        (worker,) = children_of(parent.pid)
        parent.send_signal(signal.SIGINT)
        assert parent.communicate(timeout=20)[0] == "interrupted\n"
        assert parent.returncode == 130
        assert wait_gone(worker)
        assert leftovers(tmp_path) == set()

    def test_second_ctrl_c_kills_a_worker_that_does_not_listen(self, tmp_path: Path) -> None:
        parent = start_parent(tmp_path, "sleep deaf")
        (worker,) = children_of(parent.pid)
        start = time.monotonic()
        parent.send_signal(signal.SIGINT)
        timer = threading.Timer(1.0, parent.send_signal, [signal.SIGINT])
        timer.start()
        assert parent.communicate(timeout=20)[0] == "interrupted\n"
        assert parent.returncode == 130
        assert time.monotonic() - start < 4.5
        assert wait_gone(worker)
        timer.join()

    def test_worker_dies_with_its_parent(self, tmp_path: Path) -> None:
        parent = start_parent(tmp_path, "sleep")
        (worker,) = children_of(parent.pid)
        parent.kill()
        parent.communicate(timeout=20)
        assert wait_gone(worker)

    def test_interrupt_of_the_worker_alone_counts_as_ctrl_c(self, tmp_path: Path) -> None:
        parent = start_parent(tmp_path, "sleep")
        (worker,) = children_of(parent.pid)
        os.kill(worker, signal.SIGINT)
        assert parent.communicate(timeout=20)[0] == "interrupted\n"
        assert parent.returncode == 130


def test_worker_that_cannot_start_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises((OSError, C7xError)):
        LocalEngine(table=TABLE, command=["/nonexistent"]).run(
            Workspace(tmp_path), [StageRequest(name="write", options={"text": ""})]
        )
