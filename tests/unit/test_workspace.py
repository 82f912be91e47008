from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from c7x import workspace as workspace_module
from c7x.errors import ModelError, WorkspaceError
from c7x.workspace import PRODUCERS, STAGES, Workspace, dump_json, sha256_file


def write(ws: Workspace, stage: str, inputs: tuple[str | Path, ...] = (), **files: str) -> None:
    with ws.stage(stage, inputs=inputs) as run:
        for name, text in files.items():
            run.write_text(name.replace("__", "."), text)


def names(ws: Workspace) -> set[str]:
    return {p.relative_to(ws.root).as_posix() for p in ws.root.rglob("*") if p.is_file()}


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "build")


# ------------------------------------------------------------------------------------------------------- happy path


def test_files_appear_with_a_record(ws: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "model.py"
    source.write_text("x = 1\n")
    with ws.stage("export", inputs=[source]) as run:
        run.write_bytes("model.pt2", b"program")
        run.write_json("inputs/input_0.json", {"b": 1, "a": 2})
        run.tools["torch"] = "2.13"
        run.options["bind"] = {}
        run.facts["model"] = "model"
        assert not ws.has("model.pt2")
    assert names(ws) == {"manifest.json", "model.pt2", "inputs/input_0.json"}
    manifest = ws.manifest
    assert manifest["model"] == "model"
    assert manifest["stages"] == [
        {
            "name": "export",
            "inputs": {"model.py": sha256_file(source)},
            "outputs": {
                "inputs/input_0.json": sha256_file(ws.path("inputs/input_0.json")),
                "model.pt2": sha256_file(ws.path("model.pt2")),
            },
            "tools": {"torch": "2.13"},
            "options": {"bind": {}},
        }
    ]
    assert str(tmp_path) not in ws.path("manifest.json").read_text()


def test_same_work_in_two_folders_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        ws = Workspace(tmp_path / name)
        write(ws, "export", model__pt2="m")
        write(ws, "import", ("model.pt2",), model__relax="r")
    assert (tmp_path / "one/manifest.json").read_bytes() == (tmp_path / "two/manifest.json").read_bytes()


def test_stage_removes_what_later_stages_made(ws: Workspace) -> None:
    write(ws, "export", model__pt2="m")
    write(ws, "codegen", lib0__c="c", layers__json="[]")
    write(ws, "build", cg_dsp="elf")
    write(ws, "codegen", lib0__c="c2")
    assert names(ws) == {"manifest.json", "model.pt2", "lib0.c"}
    assert [record["name"] for record in ws.manifest["stages"]] == ["export", "codegen"]


def test_stage_leaves_the_users_own_files_alone(ws: Workspace) -> None:
    ws.root.mkdir()
    ws.path("notes.txt").write_text("mine")
    write(ws, "export", model__pt2="m")
    write(ws, "export", model__pt2="n")
    assert ws.path("notes.txt").read_text() == "mine"


def test_edited(ws: Workspace) -> None:
    write(ws, "codegen", lib0__c="c")
    assert not ws.edited("lib0.c")
    ws.path("lib0.c").write_text("c, by hand")
    assert ws.edited("lib0.c")
    assert not ws.edited("unknown.c")
    ws.path("lib0.c").unlink()
    assert not ws.edited("lib0.c")


@pytest.mark.parametrize("again", ["codegen", "import"], ids=["replaced", "stale"])
def test_edited_source_is_set_aside_not_lost(ws: Workspace, again: str) -> None:
    write(ws, "codegen", lib0__c="c", io__json="{}")
    ws.path("lib0.c").write_text("by hand")
    ws.path("io.json").write_text("{ }")
    with ws.stage(again) as run:
        run.write_text("lib0.c" if again == "codegen" else "model.relax", "new")
    assert run.kept == ["lib0.c"]
    assert ws.path("lib0.c.edited").read_text() == "by hand"
    assert ws.has("lib0.c") == (again == "codegen")
    assert not ws.has("io.json")


def test_source_date_epoch_is_recorded(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    write(ws, "export", model__pt2="m")
    assert ws.manifest["source_date_epoch"] == 1700000000


def test_dump_json_is_canonical() -> None:
    assert dump_json({"b": "é", "a": [1]}) == '{\n  "a": [\n    1\n  ],\n  "b": "é"\n}\n'


# ---------------------------------------------------------------------------------------------------------- failure


def test_failure_leaves_nothing_and_the_stage_is_named(ws: Workspace) -> None:
    with pytest.raises(ModelError) as caught, ws.stage("export") as run:
        run.write_text("model.pt2", "half")
        raise ModelError("no")
    assert caught.value.stage == "export"
    assert not ws.root.exists()


def test_failure_removes_folders_it_made_above_too(tmp_path: Path) -> None:
    with pytest.raises(ModelError), Workspace(tmp_path / "a" / "b").stage("export"):
        raise ModelError("no")
    assert list(tmp_path.iterdir()) == []


def test_failure_keeps_the_previous_result(ws: Workspace) -> None:
    write(ws, "export", model__pt2="first")
    before = ws.path("manifest.json").read_bytes()
    with pytest.raises(ZeroDivisionError), ws.stage("export") as run:
        run.write_text("model.pt2", "second")
        raise ZeroDivisionError
    assert ws.path("model.pt2").read_text() == "first"
    assert ws.path("manifest.json").read_bytes() == before
    assert names(ws) == {"manifest.json", "model.pt2"}


def test_ctrl_c_leaves_nothing(ws: Workspace) -> None:
    with pytest.raises(KeyboardInterrupt), ws.stage("export") as run:
        run.write_text("model.pt2", "half")
        raise KeyboardInterrupt
    assert not ws.root.exists()


def test_ctrl_c_during_the_renames_waits_for_them(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = Path.replace
    done: list[str] = []

    def interrupted(self: Path, target: Path) -> Path:
        os.kill(os.getpid(), signal.SIGINT)
        done.append(target.name)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(ws, "export", a="1", b="2")
    assert done == ["a", "b", "manifest.json"]
    assert names(ws) == {"manifest.json", "a", "b"}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_stage_in_a_thread_needs_no_signal_handler(ws: Workspace) -> None:
    import threading

    thread = threading.Thread(target=write, args=(ws, "export"), kwargs={"a": "1"})
    thread.start()
    thread.join()
    assert names(ws) == {"manifest.json", "a"}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk(ws: Workspace, code: int) -> None:
    with pytest.raises(WorkspaceError, match="cannot write into") as caught, ws.stage("codegen"):
        raise OSError(code, "whatever")
    assert caught.value.cause == "no space is left on the device"
    assert "free some space" in str(caught.value.hint)
    assert caught.value.stage == "codegen"
    assert not ws.root.exists()


@pytest.mark.parametrize("error", [OSError("100 requested and 0 written"), RuntimeError("failed writing file")])
def test_full_disk_behind_an_error_without_errno(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    class Usage:
        free = 0

    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage)
    with pytest.raises(WorkspaceError) as caught, ws.stage("export"):
        raise error
    assert caught.value.cause == "no space is left on the device"


@pytest.mark.parametrize(
    "error", [FileNotFoundError(errno.ENOENT, "gone", "x"), RuntimeError("other"), ValueError("v")]
)
def test_other_errors_pass_unchanged(ws: Workspace, error: Exception) -> None:
    with pytest.raises(type(error)) as caught, ws.stage("export"):
        raise error
    assert caught.value is error


def test_rename_that_fails_is_reported(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(WorkspaceError, match="cannot write into") as caught:
        write(ws, "export", a="1")
    assert "may write to" in str(caught.value.hint)


def test_folder_in_the_way_is_found_before_anything_moves(ws: Workspace) -> None:
    ws.path("model.pt2").mkdir(parents=True)
    with pytest.raises(WorkspaceError, match=r"model\.pt2") as caught:
        write(ws, "export", a="1", model__pt2="m")
    assert "folder of that name" in str(caught.value.cause)
    assert names(ws) == set()


def test_root_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "build").write_text("")
    with pytest.raises(WorkspaceError, match="cannot write into") as caught:
        write(Workspace(tmp_path / "build"), "export", a="1")
    assert "-o" in str(caught.value.hint)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(WorkspaceError, match="cannot write into"):
        write(Workspace(tmp_path / "build"), "export", a="1")


def test_bad_source_date_epoch_is_refused_before_the_work(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(WorkspaceError, match="SOURCE_DATE_EPOCH"), ws.stage("export"):
        pytest.fail("the block must not run")


def test_unknown_stage_is_a_programming_error(ws: Workspace) -> None:
    with pytest.raises(ValueError, match="frobnicate"), ws.stage("frobnicate"):
        pass


# ---------------------------------------------------------------------------------------------- missing and damaged


def test_require_names_the_command(ws: Workspace) -> None:
    with pytest.raises(WorkspaceError, match="no build directory") as caught:
        ws.require("lib0.c")
    assert "c7x compile" in str(caught.value.hint)
    write(ws, "export", model__pt2="m")
    with pytest.raises(WorkspaceError, match=r"holds no lib0\.c") as caught:
        ws.require("lib0.c")
    assert "c7x codegen" in str(caught.value.hint)


def test_missing_input_of_a_stage_names_the_stage(ws: Workspace) -> None:
    write(ws, "export", model__pt2="m")
    with pytest.raises(WorkspaceError) as caught:
        write(ws, "build", ("lib0.c",), cg_dsp="elf")
    assert caught.value.stage == "build"


def test_producers_are_commands_of_stages() -> None:
    assert {text.removeprefix("c7x ") for text in PRODUCERS.values()} <= set(STAGES)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"version": 99, "stages": []}',
        '{"version": 1}',
        '{"version": 1, "stages": {}}',
        '{"version": 1, "stages": [{"name": "export"}]}',
        '{"version": 1, "stages": [7]}',
    ],
)
def test_foreign_manifest(ws: Workspace, text: str) -> None:
    ws.root.mkdir()
    ws.path("manifest.json").write_text(text)
    with pytest.raises(WorkspaceError, match="not a manifest"):
        _ = ws.manifest


@pytest.mark.parametrize("data", [b"{", b"\xff\xfe", b""])
def test_damaged_json(ws: Workspace, data: bytes) -> None:
    ws.root.mkdir()
    ws.path("io.json").write_bytes(data)
    with pytest.raises(WorkspaceError, match="not valid JSON") as caught:
        ws.read_json("io.json")
    assert "c7x codegen" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["../outside.txt", "/etc/c7x-test", "a/../../outside.txt"])
def test_manifest_cannot_make_us_delete_outside_files(ws: Workspace, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("precious")
    write(ws, "export", a="1")
    manifest: dict[str, Any] = ws.manifest
    manifest["stages"][0]["outputs"][name] = "0"
    ws.path("manifest.json").write_text(json.dumps(manifest))
    write(ws, "export", a="2")
    assert outside.read_text() == "precious"


# --------------------------------------------------------------------------------------------------- other processes


def test_leftovers_of_a_killed_process_go(ws: Workspace) -> None:
    (ws.root / ".c7x-export-dead" / "inputs").mkdir(parents=True)
    write(ws, "export", a="1")
    assert {p.name for p in ws.root.iterdir()} == {"a", "manifest.json"}


HOLDER = """
import sys
from c7x.workspace import Workspace
with Workspace(sys.argv[1]).stage("export") as run:
    run.write_text("slow", "x")
    print("holding", flush=True)
    sys.stdin.read()
"""


def test_second_process_in_the_same_folder_is_refused(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(Path(__file__).parents[2])
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), str(ws.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "holding\n"
    monkeypatch.setattr(workspace_module, "LOCK_SECONDS", 0.2)
    with pytest.raises(WorkspaceError, match="another c7x process"):
        write(ws, "export", a="1")
    holder.communicate(timeout=20)
    assert holder.returncode == 0
    assert names(ws) == {"manifest.json", "slow"}
    write(ws, "export", a="1")
    assert names(ws) == {"manifest.json", "a"}


def test_stages_that_look_at_a_build_leave_each_other_alone(ws: Workspace) -> None:
    for name in ("build", "run", "profile", "compare", "visualize"):
        with ws.stage(name) as run:
            run.write_text(f"{name}.txt", name)
    with ws.stage("profile") as run:
        run.write_text("profile.txt", "again")
    assert [record["name"] for record in ws.manifest["stages"]] == ["build", "run", "compare", "profile"]
    assert ws.has("run.txt")
    assert ws.has("compare.txt")
    assert not ws.has("visualize.txt")
    with ws.stage("build") as run:
        run.write_text("build.txt", "again")
    assert not any(ws.has(f"{name}.txt") for name in ("run", "profile", "compare"))
