"""compare and bench against a real exported program; the executable is a script that computes the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from c7x.errors import CheckFailed, FormatError, RunError
from c7x.report.bench import bench_stage
from c7x.report.compare import compare_stage
from c7x.report.reference import Reference
from c7x.workspace import Workspace
from tests.unit.test_compare import fake_build


class Model(torch.nn.Module):
    def forward(self, x, scale: int = 2, *, flag=None):  # type: ignore[no-untyped-def]
        return {"y": x * scale, "none": None, "positive": x > 0}


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    ws = fake_build(tmp_path)
    program = torch.export.export(Model().eval(), (torch.tensor([1.0, -2.0, 3.0]),))
    torch.export.save(program, ws.path("model.pt2"))
    return ws


def save(path: Path, *values: float, dtype: str = "float32") -> Path:
    np.save(path, np.array(values, dtype))
    return path


def test_given_inputs_go_through_the_exported_program(ws: Workspace, tmp_path: Path) -> None:
    result = compare_stage(ws, inputs=[save(tmp_path / "x.npy", -5, 0, 7)])
    assert result["passed"]
    assert [o["mismatches"] for o in result["outputs"]] == [0, 0]


def test_a_difference_on_given_inputs_is_found(ws: Workspace, tmp_path: Path) -> None:
    other = torch.export.export(torch.nn.Sequential(torch.nn.ReLU(), Model()).eval(), (torch.zeros(3),))
    torch.export.save(other, ws.path("model.pt2"))
    assert compare_stage(ws, inputs=[save(tmp_path / "x.npy", 1, 2, 3)])["passed"]
    with pytest.raises(CheckFailed, match="output y"):
        compare_stage(ws, inputs=[save(tmp_path / "x.npy", 1, -2, 3)])


def test_wrong_input_is_refused_before_anything_runs(ws: Workspace, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="float64"):
        compare_stage(ws, inputs=[save(tmp_path / "x.npy", 1, 2, 3, dtype="float64")])


def test_damaged_program(ws: Workspace) -> None:
    data = ws.path("model.pt2").read_bytes()
    ws.path("model.pt2").write_bytes(data[: len(data) // 2])
    with pytest.raises(FormatError, match=r"model\.pt2"):
        Reference(ws)


def test_peers_are_timed_in_the_same_run(ws: Workspace) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    threads = torch.get_num_threads()
    try:
        result = bench_stage(ws, peers=["torch", "onnxruntime"], repeat=3, warmup=1)
    finally:
        torch.set_num_threads(threads)
    assert [c["name"] for c in result["contenders"]] == ["cg_dsp", "torch", "onnxruntime"]
    for contender in result["contenders"][1:]:
        assert 0 < contender["min_seconds"] <= contender["median_seconds"] < 1
        assert contender["ratio"] == pytest.approx(0.002 / contender["median_seconds"])
