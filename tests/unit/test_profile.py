"""Joining a layer profile with the layers of a build, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from c7x.errors import FormatError, RunError, UsageError, WorkspaceError
from c7x.report.layers import Layer, Tensor, read_layers
from c7x.report.profile import Measurement, check_profiled, describe, profile_stage, read_log
from c7x.report.profile_text import ProfileText, format_profile
from c7x.report.roofline import LIMITS, MMA_INT8, STREAMS, VECTOR_FLOAT32, mac_limit, roofline
from c7x.run import board
from c7x.ui_reports import format_count, profile_tables
from c7x.workspace import Workspace


def layer(index: int, kernel: str, *, macs: int = 0, backend: str = "c7x", dtype: str = "float32") -> Layer:
    tensor = Tensor(buffer=f"b{index}", dtype=dtype, shape=(16,), bytes=64, place="arena", offset=0)
    return Layer(
        index=index,
        kernel=kernel,
        name=f"node_{index}",
        backend=backend,
        relax_ops=("nn.conv2d", "nn.relu"),
        nodes=(f"node_{index}",),
        source=(f"model.py:{index + 10}",),
        modules=(f"block.{index}",),
        macs=macs,
        bytes_in=64,
        bytes_out=64,
        dtype=dtype,
        inputs=(tensor,),
        outputs=(tensor,),
    )


LAYERS = [layer(0, "k_a", macs=1600), layer(1, "k_b"), layer(2, "k_a")]
FIRST = ProfileText(layers=(("k_a", 500), ("k_b", 40), ("k_a", 60)))
STEADY = ProfileText(layers=(("k_a", 200), ("k_b", 30), ("k_a", 20)))


def measurement(**changes: Any) -> Measurement:
    fields: dict[str, Any] = {"place": "board", "on_host": False, "first": FIRST, "steady": STEADY}
    return Measurement(**{**fields, **changes})


def test_cycles_of_a_dsp() -> None:
    result = describe(LAYERS, measurement())
    assert [(r["cycles_first"], r["cycles"]) for r in result["layers"]] == [(500, 200), (40, 30), (60, 20)]
    assert result["totals"]["cycles"] == sum(r["cycles"] for r in result["layers"]) == STEADY.total
    assert result["totals"]["cycles_first"] == FIRST.total
    assert [r["share"] for r in result["layers"]] == [0.8, 0.12, 0.08]
    assert (result["clock"], result["note"]) == ("dsp", "cycles of the DSP")
    assert result["totals"]["macs"] == 1600
    assert "host_seconds" not in json.dumps(result)


@pytest.mark.parametrize("place", ["host", "vdsp", "log"])
def test_a_host_time_is_never_called_cycles(place: Any) -> None:
    result = describe(LAYERS, measurement(place=place, on_host=True))
    assert result["layers"][0]["host_seconds"] == 200e-9
    assert round(sum(r["host_seconds"] for r in result["layers"]) * 1e9) == STEADY.total
    assert result["totals"]["host_seconds_first"] == 600e-9
    assert "host time" in result["note"]
    assert "not the DSP's" in result["note"]
    assert '"cycles' not in json.dumps(result)


def test_without_a_first_profile() -> None:
    result = describe(LAYERS, measurement(first=None))
    assert result["totals"]["cycles_first"] is None
    assert result["layers"][0]["cycles_first"] is None


@pytest.mark.parametrize(
    ("steady", "words"),
    [
        (ProfileText(layers=STEADY.layers[:2]), "it has 2 layers, and the build has 3"),
        (ProfileText(layers=(("k_a", 1), ("k_c", 1), ("k_a", 1))), "its layer 1 is k_c, and the build's is k_b"),
    ],
)
def test_a_profile_of_another_build(steady: ProfileText, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        describe(LAYERS, measurement(steady=steady))


def test_a_kernel_that_gave_up_is_named_with_its_place() -> None:
    failed = ProfileText(layers=STEADY.layers[:1], in_flight="k_b")
    with pytest.raises(RunError, match=r"layer 1 \(node_1 at model.py:11\) did not end with success: k_b"):
        describe(LAYERS, measurement(steady=failed))


# ---------------------------------------------------------------------------------------------------------- roofline


def test_roofline_of_a_dsp() -> None:
    figures = roofline(LAYERS[0], 200)
    assert (figures["macs_per_cycle"], figures["macs_per_cycle_limit"]) == (8.0, VECTOR_FLOAT32.per_cycle)
    assert figures["bytes_per_cycle"] == 0.64
    assert figures["macs_per_byte"] == 12.5
    assert (figures["least_cycles"], figures["bound"]) == (100, "compute")


def test_roofline_of_a_host_has_no_rate() -> None:
    figures = roofline(LAYERS[0], None)
    assert figures["macs_per_cycle"] is None
    assert figures["bytes_per_cycle"] is None
    assert figures["least_cycles"] == 100


def test_roofline_of_a_layer_that_only_moves_data() -> None:
    figures = roofline(LAYERS[1], 2)
    assert (figures["macs_per_cycle"], figures["macs_per_cycle_limit"]) == (None, None)
    assert (figures["least_cycles"], figures["bound"]) == (1, "memory")


@pytest.mark.parametrize(
    ("backend", "dtype", "limit"),
    [
        ("mmalib", "int8", MMA_INT8),
        ("mmalib", "int16", None),
        ("c7x", "int8", None),
        ("tvm", "float32", VECTOR_FLOAT32),
    ],
)
def test_only_published_limits(backend: str, dtype: str, limit: Any) -> None:
    assert mac_limit(layer(0, "k", macs=1, backend=backend, dtype=dtype)) is limit


def test_every_limit_has_a_source() -> None:
    assert STREAMS in LIMITS
    assert all("TI SPR" in limit.source for limit in LIMITS)
    result = describe(LAYERS, measurement(), with_roofline=True)
    assert [limit["per_cycle"] for limit in result["limits"]] == [limit.per_cycle for limit in LIMITS]


# -------------------------------------------------------------------------------------------------------- files


def write_build(folder: Path, target: str = "c_static -mcpu=c7x -profile-layers", mode: str = "c7x_host") -> Workspace:
    ws = Workspace(folder / "build")
    tensor = {"buffer": "b", "dtype": "float32", "shape": [16], "bytes": 64, "place": "arena", "offset": 0}
    with ws.stage("codegen") as run:
        run.write_json("layers.json", [la.to_json() for la in LAYERS])
        calls = [{"inputs": [tensor], "outputs": [tensor]} for _ in LAYERS]
        run.write_json("memory.json", {"arena_bytes": 0, "buffers": [], "calls": calls})
        run.facts.update(target=target, mode=mode)
    return ws


def test_layers_are_read_back(tmp_path: Path) -> None:
    layers = read_layers(write_build(tmp_path))
    assert [la.to_json() for la in layers] == [la.to_json() for la in LAYERS]
    assert layers[0].outputs[0].shape == (16,)
    assert layers[0].where == "model.py:10"


@pytest.mark.parametrize("damage", ["[]", '{"calls": []}', '{"calls": [{"inputs": []}, {}, {}]}'])
def test_damaged_layer_files(tmp_path: Path, damage: str) -> None:
    ws = write_build(tmp_path)
    ws.path("memory.json").write_text(damage)
    with pytest.raises(WorkspaceError, match=r"layers.json and memory.json .* do not describe"):
        read_layers(ws)


def test_a_log_with_two_inferences(tmp_path: Path) -> None:
    log = tmp_path / "board.log"
    log.write_text(f"{format_profile(FIRST)}\n[Iteration 2/2] 250 cycles (0.00 ms)\n{format_profile(STEADY)}")
    result = profile_stage(write_build(tmp_path), log=log)
    assert result["totals"]["cycles_first"] == FIRST.total
    assert result["totals"]["cycles"] == STEADY.total
    assert (result["place"], result["clock"]) == ("log", "dsp")
    assert json.loads((tmp_path / "build/profile.json").read_text()) == result


@pytest.mark.parametrize("line", ["Host time[0]: 0.001 s", "host time 1.5 ms"])
def test_a_log_of_a_host_is_known_as_one(tmp_path: Path, line: str) -> None:
    log = tmp_path / "host.log"
    log.write_text(f"{line}\n{format_profile(STEADY)}")
    assert read_log(log).on_host
    assert describe(LAYERS, read_log(log))["clock"] == "host"


def test_logs_without_a_profile(tmp_path: Path) -> None:
    log = tmp_path / "board.log"
    log.write_text("nothing here\n")
    with pytest.raises(FormatError, match="holds no layer profile") as caught:
        read_log(log)
    assert "--profile-layers" in str(caught.value.hint)
    with pytest.raises(UsageError, match="cannot read the log"):
        read_log(tmp_path / "none.log")


def test_a_build_without_counters(tmp_path: Path) -> None:
    ws = write_build(tmp_path, target="c_static -mcpu=c7x -mmalib=1", mode="c7x_vdsp")
    with pytest.raises(UsageError, match="was compiled without --profile-layers") as caught:
        check_profiled(ws)
    root = ws.root
    assert caught.value.hint == (
        f"c7x codegen {root} --target 'c_static -mcpu=c7x -mmalib=1 -profile-layers' "
        f"&& c7x build {root} --mode c7x_vdsp"
    )


def test_tables() -> None:
    result = describe(LAYERS, measurement(), with_roofline=True)
    assert len(profile_tables(result)) == 6
    assert len(profile_tables(describe(LAYERS, measurement(place="host", on_host=True)))) == 2


@pytest.mark.parametrize(("count", "text"), [(0, "-"), (None, "-"), (320, "320"), (1500, "1.5 k"), (2e9, "2.0 G")])
def test_counts(count: Any, text: str) -> None:
    assert format_count(count) == text


# ------------------------------------------------------------------------------------------------------- on a board


def test_a_board_runs_once_and_then_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``c7x_compute profile`` may print the profile of both inferences: the last one counts."""
    asked: list[tuple[str, str]] = []

    def run_module(machine: Any, module: Path, inputs: Any, *, command: str) -> board.BoardResult:
        asked.append((command, machine.name))
        texts = {"run": format_profile(FIRST), "profile": format_profile(FIRST) + format_profile(STEADY)}
        return board.BoardResult(outputs=[], cycles=0, stdout=f'{{"status": "ok"}}\n{texts[command]}')

    monkeypatch.setattr(board, "run_module", run_module)
    ws = write_build(tmp_path, mode="c7x_dload")
    with ws.stage("build") as run:
        run.write_bytes("lib0.out", b"")
        run.write_json("io.json", {"inputs": [], "outputs": []})
    result = profile_stage(ws, host="user@somewhere")
    assert asked == [("run", "user@somewhere"), ("profile", "user@somewhere")]
    assert (result["place"], result["clock"], result["note"]) == ("board", "dsp", "cycles of the DSP")
    assert (result["totals"]["cycles_first"], result["totals"]["cycles"]) == (FIRST.total, STEADY.total)


def test_a_module_that_prints_no_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "run_module", lambda *a, **k: board.BoardResult(outputs=[], cycles=0, stdout="{}"))
    ws = write_build(tmp_path, mode="c7x_dload")
    with ws.stage("build") as run:
        run.write_bytes("lib0.out", b"")
        run.write_json("io.json", {"inputs": [], "outputs": []})
    with pytest.raises(RunError, match="the module on root@beagley-ai printed no layer profile"):
        profile_stage(ws, board="beagley-ai")
