"""The commands one after the other on a real model, as a user and as a script would call them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.integration.commands import c7x, ok

MODEL = """
import sys
import torch

def make_model():
    print('{"this is": "not the answer"}')
    print("nor this", file=sys.stderr)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    return model.eval(), (torch.linspace(-1, 1, 6).reshape(1, 6),)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chain")
    (folder / "model.py").write_text(MODEL)
    value = ok(folder, "compile", "model.py")
    assert [stage["name"] for stage in value["stages"]] == ["export", "import", "codegen", "build", "check"]
    assert value["artefact"] == "cg_dsp"
    assert value["arena_bytes"] == value["arena_lower_bound"]
    return folder


def test_run_compare_bench_inspect(folder: Path) -> None:
    x = np.array([[3, -1, 4, -1, 5, -9]], np.float32)
    np.save(folder / "x.npy", x)
    value = ok(folder, "run", "build", "--input", "x.npy", "--output", "y.npz")
    (output,) = value["outputs"]
    with np.load(folder / "y.npz") as archive:
        assert archive[output["name"]].shape == (1, 3)
    for more in ([], ["--input", "x.npy"]):
        value = ok(folder, "compare", "build", "--tolerance", "1e-5", *more)
        assert value["outputs"][0]["max_rel"] <= 1e-5
    assert ok(folder, "bench", "build", "--repeat", "2", "--warmup", "0")["clock"] == "host"
    files = {item["name"]: item["state"] for item in ok(folder, "inspect", "build")["files"]}
    assert files["lib0.c"] == files["cg_dsp"] == "as written"


def test_people_get_stages_with_times(folder: Path) -> None:
    done = c7x(folder, "compile", "model.py", "-o", "people")
    assert done.returncode == 0, done.stderr
    first_words = [line.split()[0] for line in done.stderr.splitlines() if line.split()]
    chain = [word for word in first_words if word in {"loading", "export", "import", "codegen", "build", "check"}]
    assert chain == ["loading", "export", "import", "codegen", "build", "check"]
    assert "nor this" in done.stderr
    assert "c7x run people" in done.stdout


def test_stop_look_edit_and_go_on(folder: Path) -> None:
    for command in (
        ["export", "model.py", "-o", "steps"],
        ["import", "steps"],
        ["codegen", "steps"],
        ["build", "steps"],
    ):
        ok(folder, *command)
    assert (folder / "steps/lib0.c").read_bytes() == (folder / "build/lib0.c").read_bytes()
    with (folder / "steps/lib0.c").open("a") as file:
        file.write("\n/* by hand */\n")
    done = c7x(folder, "build", "steps")
    assert done.returncode == 0, done.stderr
    assert "lib0.c was edited" in done.stderr
    assert ok(folder, "compare", "steps")["passed"]
    done = c7x(folder, "codegen", "steps")
    assert "lib0.c.edited" in done.stderr
    assert "by hand" in (folder / "steps/lib0.c.edited").read_text()
    assert not (folder / "steps/cg_dsp").exists()


def test_a_model_that_takes_the_process_down(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import ctypes\n\ndef make_model():\n    ctypes.string_at(0)\n")
    done = c7x(tmp_path, "compile", "model.py", "--json")
    assert done.returncode == 12
    error = json.loads(done.stdout)
    assert (error["error"], error["stage"]) == ("CrashError", "export")
    assert "SIGSEGV" in error["message"]
    assert {path.name for path in (tmp_path / "build").iterdir() if not path.name.startswith(".")} == {"c7x-crash.txt"}
    assert "make_model" in (tmp_path / "build/c7x-crash.txt").read_text()


@pytest.mark.parametrize("action", ["raise SystemExit(0)", "1 / 0"])
def test_a_model_that_raises(tmp_path: Path, action: str) -> None:
    (tmp_path / "model.py").write_text(f"def make_model():\n    {action}\n")
    done = c7x(tmp_path, "compile", "model.py", "--json")
    assert done.returncode == 4, done.stderr
    assert json.loads(done.stdout)["error"] == "ModelError"
    assert not (tmp_path / "build").exists()
