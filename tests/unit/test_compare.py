from __future__ import annotations

import json
import math
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from c7x.errors import CheckFailed, CrashError, DisagreementError, FormatError, RunError, WorkspaceError
from c7x.report.bench import HostExecutable, InProcess, bench_stage, measure
from c7x.report.compare import (
    Tolerance,
    check_stage,
    compare_arrays,
    compare_outputs,
    compare_stage,
    why_it_disagrees,
)
from c7x.workspace import Workspace

F = np.float32


def f32(*values: float) -> np.ndarray:
    return np.array(values, F)


# ----------------------------------------------------------------------------------------------------------- figures


def test_equal_arrays() -> None:
    m = compare_arrays(f32(1, -2, 3), f32(1, -2, 3))
    assert (m.max_abs, m.max_rel, m.mismatches, m.non_finite, m.count) == (0, 0, 0, 0, 3)
    assert m.sqnr_db is None
    assert m.cosine == pytest.approx(1)


def test_figures_of_a_small_error() -> None:
    m = compare_arrays(f32(1, 2, 4.5), f32(1, 2, 4))
    assert m.max_abs == 0.5
    assert m.max_rel == 0.125
    assert m.mismatches == 1
    assert m.sqnr_db == pytest.approx(10 * math.log10(21 / 0.25))
    assert m.cosine == pytest.approx(23 / math.sqrt(25.25 * 21))


def test_relative_error_is_to_the_references_maximum() -> None:
    assert compare_arrays(f32(100, 0), f32(50, 0)).max_rel == 1.0
    assert compare_arrays(f32(50, 0), f32(100, 0)).max_rel == 0.5


def test_reference_of_zeros() -> None:
    m = compare_arrays(f32(0, 1e-3), f32(0, 0))
    assert m.max_rel == pytest.approx(1e-3)
    assert m.cosine is None
    assert m.sqnr_db == -math.inf
    assert compare_arrays(f32(0, 0), f32(0, 0)).sqnr_db is None


def test_nan_and_infinities() -> None:
    same = f32(np.nan, np.inf, -np.inf, 1)
    m = compare_arrays(same, same)
    assert (m.mismatches, m.non_finite, m.max_abs) == (0, 0, 0)
    m = compare_arrays(f32(np.nan, np.inf, np.inf, 1), f32(0, -np.inf, np.inf, 1.5))
    assert (m.mismatches, m.non_finite, m.max_abs) == (3, 2, 0.5)


def test_all_nan() -> None:
    m = compare_arrays(f32(np.nan), f32(np.nan))
    assert (m.mismatches, m.max_rel, m.sqnr_db, m.cosine) == (0, 0, None, None)


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)])
def test_empty(shape: tuple[int, ...]) -> None:
    m = compare_arrays(np.zeros(shape, F), np.zeros(shape, F))
    assert (m.count, m.mismatches, m.max_abs, m.cosine) == (0, 0, 0, None)


def test_zero_dimensional() -> None:
    m = compare_arrays(np.array(2.5, F), np.array(2.0, F))
    assert (m.count, m.max_abs, m.max_rel, m.mismatches) == (1, 0.5, 0.25, 1)


def test_integers_beyond_the_precision_of_float64() -> None:
    big = 2**60
    m = compare_arrays(np.array([big + 1]), np.array([big]))
    assert m.mismatches == 1
    assert not Tolerance().accepts(np.array([big + 1]), np.array([big]), m)


def test_unsigned_and_bool() -> None:
    assert compare_arrays(np.array([0], np.uint8), np.array([255], np.uint8)).max_abs == 255
    assert compare_arrays(np.array([True, False]), np.array([True, True])).mismatches == 1


def test_extremes_do_not_overflow() -> None:
    top = np.finfo(np.float64).max
    m = compare_arrays(np.array([top, 1.0]), np.array([top / 2, 1.0]))
    assert m.sqnr_db is not None
    assert math.isfinite(m.sqnr_db)
    assert m.cosine == pytest.approx(1)


def test_shapes_must_be_equal() -> None:
    with pytest.raises(ValueError, match="shapes differ"):
        compare_arrays(np.zeros((2, 1)), np.zeros((2,)))


# ---------------------------------------------------------------------------------------------------------- tolerance


def accepts(result: np.ndarray, reference: np.ndarray, **tolerance: float) -> bool:
    return Tolerance(**tolerance).accepts(result, reference, compare_arrays(result, reference))


def test_default_tolerance_by_dtype() -> None:
    assert accepts(f32(1 + 9e-5), f32(1))
    assert not accepts(f32(1 + 2e-4), f32(1))
    assert accepts(np.array([1 + 9e-10]), np.array([1.0]))
    assert not accepts(np.array([1 + 2e-9]), np.array([1.0]))
    assert not accepts(np.array([1]), np.array([2]))


def test_tolerances_given() -> None:
    assert accepts(f32(1.5), f32(1), relative=0.5)
    assert accepts(f32(1.5, 1e-3), f32(1, 0), atol=0.5)
    assert not accepts(f32(1.5, 1e-3), f32(1, 0), rtol=0.5)
    assert not accepts(np.array([1]), np.array([2]), relative=9, atol=9, rtol=9)


@pytest.mark.parametrize("tolerance", [{}, {"relative": 1e9}, {"atol": 1e9, "rtol": 1e9}])
def test_no_tolerance_forgives_a_nan(tolerance: dict[str, float]) -> None:
    assert not accepts(f32(np.nan, 1), f32(1, 1), **tolerance)
    assert not accepts(f32(np.inf), f32(-np.inf), **tolerance)
    assert accepts(f32(np.nan, np.inf), f32(np.nan, np.inf), **tolerance)


def test_outputs_of_wrong_shape_dtype_and_number() -> None:
    shape, dtype = compare_outputs(
        ["a", "b"], [np.zeros((2, 1), F), np.zeros(2, np.float64)], [np.zeros(2, F), np.zeros(2, F)], Tolerance()
    )
    assert not shape.passed
    assert "shape [2, 1] instead of [2]" in str(shape.reason)
    assert not dtype.passed
    assert "dtype float64 instead of float32" in str(dtype.reason)
    with pytest.raises(FormatError, match="2 outputs"):
        compare_outputs(["a", "b"], [np.zeros(1)], [np.zeros(1)], Tolerance())


def test_json_has_no_infinities() -> None:
    (output,) = compare_outputs(["a"], [f32(1, np.nan)], [f32(0, np.inf)], Tolerance())
    json.dumps(output.to_json(), allow_nan=False)


# ----------------------------------------------------------------------------------------- a build directory, faked

CG_DSP = """
#!{python}
import sys
sys.path.insert(0, {root!r})
import numpy as np
from c7x.tensorfile import read_tensors, write_tensors
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
(x,) = read_tensors(options["--input"])
{action}
write_tensors(options["--output"], [x * np.float32(2), x > 0])
for index in range(int(options["--repeat"])):
    print(f"Host time[{{index}}]: 0.00{{index + 1}}000000 s")
print("Cycles: 7")
print("Host memory: peak RSS=4096")
print("Memory: L2 peak=0, L3 peak=9")
"""


def fake_build(tmp_path: Path, *, action: str = "", expected: np.ndarray | None = None) -> Workspace:
    ws = Workspace(tmp_path / "build")
    x = f32(1, -2, 3)
    with ws.stage("export") as run:
        np.save(run.path("inputs/input_0.npy"), x)
        np.save(run.path("expected/output_0.npy"), x * 2 if expected is None else expected)
        np.save(run.path("expected/output_1.npy"), x > 0)
    with ws.stage("codegen") as run:
        run.write_json(
            "io.json",
            {
                "inputs": [{"name": "x", "dtype": "float32", "shape": [3]}],
                "outputs": [
                    {"name": "y", "dtype": "float32", "shape": [3]},
                    {"name": "positive", "dtype": "bool", "shape": [3]},
                ],
            },
        )
        run.write_bytes("weights.bin", b"")
    with ws.stage("build") as run:
        root = str(Path(__file__).parents[2])
        text = textwrap.dedent(CG_DSP).lstrip().format(python=sys.executable, root=root, action=action)
        run.write_text("cg_dsp", text)
        run.path("cg_dsp").chmod(0o755)
    return ws


def test_compare_stage_on_the_example_inputs(tmp_path: Path) -> None:
    result = compare_stage(fake_build(tmp_path))
    assert result["passed"]
    first, second = result["outputs"]
    assert (first["name"], first["dtype"], first["shape"], first["max_abs"]) == ("y", "float32", [3], 0)
    assert (second["name"], second["dtype"], second["mismatches"]) == ("positive", "bool", 0)
    json.dumps(result, allow_nan=False)


def test_compare_stage_beyond_the_tolerance(tmp_path: Path) -> None:
    ws = fake_build(tmp_path, expected=f32(2, -4, 6.1))
    with pytest.raises(CheckFailed, match=r"output y: max error 0\.1") as caught:
        compare_stage(ws)
    assert caught.value.details is not None
    assert [o["passed"] for o in caught.value.details["outputs"]] == [False, True]
    assert compare_stage(ws, tolerance=Tolerance(relative=0.05))["passed"]


def test_check_stage_disagrees(tmp_path: Path) -> None:
    check_stage(fake_build(tmp_path / "a"))
    with pytest.raises(DisagreementError, match="output y") as caught:
        check_stage(fake_build(tmp_path / "b", expected=f32(2, -4, np.nan)))
    assert "--no-check" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("dtype", "error", "passes"), [("int8", 0.1, True), ("int8", 0.5, False), ("int16", 0.1, False)]
)
def test_a_program_that_came_quantised_is_its_own_simulation(
    tmp_path: Path, dtype: str, error: float, passes: bool
) -> None:
    """Its rounding may differ in the last place, as that of a model which c7x has quantised."""
    ws = fake_build(tmp_path, expected=f32(2, -4, 6 + error))
    layers = [{"dtype": dtype, "relax_ops": ["quantize"]}, {"dtype": "float32", "relax_ops": ["dequantize"]}]
    ws.path("layers.json").write_text(json.dumps(layers))
    if passes:
        assert "float_outputs" not in check_stage(ws)
        return
    with pytest.raises(DisagreementError, match=f"simulation of the {dtype} model"):
        check_stage(ws)


def test_missing_and_damaged_expected_output(tmp_path: Path) -> None:
    ws = fake_build(tmp_path)
    ws.path("expected/output_1.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(FormatError, match="output_1"):
        compare_stage(ws)
    ws.path("expected/output_1.npy").unlink()
    with pytest.raises(WorkspaceError, match="output_1"):
        compare_stage(ws)


def test_cg_dsp_that_fails_or_dies(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="bad weights"):
        compare_stage(fake_build(tmp_path / "a", action="sys.exit('bad weights')"))
    with pytest.raises(CrashError, match="SIGSEGV"):
        compare_stage(fake_build(tmp_path / "b", action="import os; os.kill(os.getpid(), 11)"))


# -------------------------------------------------------------------------------------------------------------- bench


class Scripted:
    peak_rss_bytes: int | None = None

    def __init__(self, name: str, order: list[str], *rounds: list[float]) -> None:
        self.name, self.order, self.rounds = name, order, list(rounds)

    def round(self, repeat: int, warmup: int) -> list[float]:
        self.order.append(self.name)
        return self.rounds.pop(0)


def test_contenders_take_turns_and_medians_are_of_medians() -> None:
    order: list[str] = []
    ours = Scripted("cg_dsp", order, [1.0, 1.0, 9.0], [2.0], [1.5])
    peer = Scripted("torch", order, [3.0], [3.0, 0.5, 3.0], [100.0])
    first, second = measure({"cg_dsp": ours, "torch": peer}, rounds=3, repeat=3, warmup=0)
    assert order == ["cg_dsp", "torch"] * 3
    assert (first["median_seconds"], first["min_seconds"], first["ratio"]) == (1.5, 1.0, 1.0)
    assert (second["median_seconds"], second["min_seconds"], second["ratio"]) == (3.0, 0.5, 0.5)


def test_in_process_contender_counts_calls() -> None:
    calls: list[int] = []
    times = InProcess(lambda: calls.append(1)).round(repeat=4, warmup=2)
    assert len(calls) == 6
    assert len(times) == 4
    assert min(times) >= 0


def test_bench_stage_is_labelled_as_host_time(tmp_path: Path) -> None:
    ws = fake_build(tmp_path)
    result = bench_stage(ws, repeat=3, warmup=1)
    (entry,) = result["contenders"]
    assert (entry["name"], entry["median_seconds"], entry["min_seconds"]) == ("cg_dsp", 0.002, 0.001)
    assert entry["peak_rss_bytes"] == 4096
    assert result["clock"] == "host"
    assert "not the DSP's time" in result["note"]
    json.dumps(result, allow_nan=False)
    assert isinstance(HostExecutable(ws, [f32(1, 2, 3)]).round(1, 0), list)


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [({}, None), ({"tolerance": 1e-3}, Tolerance(relative=1e-3)), ({"atol": 0.0}, Tolerance(atol=0.0))],
)
def test_the_stage_leaves_the_tolerance_to_the_kind_of_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: dict[str, float], tolerance: Tolerance | None
) -> None:
    """A quantised model has a limit of its own, which only a wish of the user replaces."""
    from c7x import stages
    from c7x.report import compare
    from c7x.reporter import SILENT

    seen: list[object] = []

    def record(ws: Workspace, **given: object) -> dict[str, object]:
        seen.append(given["tolerance"])
        return {}

    monkeypatch.setattr(compare, "compare_stage", record)
    stages._compare(Workspace(tmp_path), options, SILENT)
    assert seen == [tolerance]


@pytest.mark.parametrize(
    ("dtype", "target", "words"),
    [
        ("int8", "c_static -mcpu=c7x -mmalib=1", ("coarser than PyTorch", "--quantize-scale pow2")),
        ("int8", "c_static -mcpu=c7x", ("a defect of c7x", "report the model")),
        (None, "c_static -mcpu=c7x -mmalib=1", ("a defect of c7x", "report the model")),
    ],
)
def test_a_disagreement_is_blamed_on_the_firmware_only_where_it_computes(
    tmp_path: Path, dtype: str | None, target: str, words: tuple[str, str]
) -> None:
    ws = Workspace(tmp_path / "build")
    with ws.stage("codegen", inputs=[]) as run:
        run.facts["target"] = target
    cause, hint = why_it_disagrees(ws, dtype)
    assert words[0] in cause
    assert words[1] in hint
