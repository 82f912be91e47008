"""L2 staging: the plan of a layer, what it makes of a program, and the C it becomes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from c7x.codegen.emit import emit
from c7x.codegen.layers import layer_records, offload_report
from c7x.codegen.program import Kernel, Program, Staging, TensorType
from c7x.codegen.staging import IMPORTS, L2_ALIGNMENT, MIN_GUARD, SLICED, Operands, plan_staging, stage_operands
from c7x.native import native_dir
from c7x.report.inspect import staged_layers
from c7x.target import BOARDS, L2_BYTES, Target
from c7x.toolchain.exports import firmware_exports
from c7x.workspace import Workspace
from tests.staging_harness import Conv, Linear, chain


def target(size: int | None = None) -> Target:
    return Target.parse("c_static -mcpu=c7x -mmalib=1" + ("" if size is None else f" -l2-sram-size={size}"))


def staged(program: Program, size: int | None = None) -> Program:
    return stage_operands(program, target(size))


def kinds(program: Program) -> list[str]:
    return [call.staging.staged if call.staging else "-" for call in program.calls]


#: 64 channels of 14 x 14 in, 128 out by 3 x 3: guard 128, input 12544, 576 bytes of weights a channel, 73728 in all.
CONV = Operands(
    input_shape=(1, 64, 14, 14),
    weight_shape=(128, 64, 3, 3),
    element_bytes=1,
    pad_top=1,
    pad_left=1,
    can_slice=True,
)
FRONT = 128 + 12544


@pytest.mark.parametrize(
    ("budget", "kind", "tile", "calls", "used"),
    [
        (L2_BYTES, "input and weights", 0, 1, FRONT + 73728),
        (FRONT + 73728, "input and weights", 0, 1, FRONT + 73728),
        # One byte less: two tiles of 64, not one of 96 and one of 32.
        (FRONT + 73727, "output-channel tiles", 64, 2, FRONT + 64 * 576),
        (FRONT + 64 * 576, "output-channel tiles", 64, 2, FRONT + 64 * 576),
        (FRONT + 64 * 576 - 1, "output-channel tiles", 32, 4, FRONT + 32 * 576),
        (FRONT + 32 * 576, "output-channel tiles", 32, 4, FRONT + 32 * 576),
        (FRONT + 32 * 576 - 1, "input", 0, 1, FRONT),
        (FRONT, "input", 0, 1, FRONT),
        (FRONT - 1, "nothing", 0, 1, 0),
        (1, "nothing", 0, 1, 0),
    ],
)
def test_rule_at_its_edges(budget: int, kind: str, tile: int, calls: int, used: int) -> None:
    plan = plan_staging(CONV, budget)
    assert (plan.staged, plan.tile, plan.kernel_calls, plan.l2_bytes) == (kind, tile, calls, used)
    assert bool(plan.reason) == (kind != "input and weights")


def test_only_what_can_be_sliced_is_tiled() -> None:
    plan = plan_staging(replace(CONV, can_slice=False), FRONT + 40000)
    assert (plan.staged, plan.weight_bytes, plan.tile) == ("input", 0, 0)
    assert "40000 beside the input, and the kernel takes no tiles" in plan.reason
    assert "room for 128 beside the input, not even for 32 output channels" in plan_staging(CONV, FRONT + 128).reason
    assert plan_staging(CONV, 100).reason == "12544 bytes of input and 128 of guard, room for 100"


def test_the_last_tile_may_be_smaller() -> None:
    odd = replace(CONV, weight_shape=(100, 64, 3, 3))
    plan = plan_staging(odd, FRONT + 64 * 576)
    assert (plan.tile, plan.channels, plan.kernel_calls) == (64, 100, 2)


@pytest.mark.parametrize(
    ("change", "guard"),
    [
        ({"pad_top": 0, "pad_left": 0}, 128),
        ({"pad_top": 1, "pad_left": 1}, 128),
        ({"pad_top": 9, "pad_left": 2}, 128),  # exactly 9 * 14 + 2
        ({"pad_top": 9, "pad_left": 3}, 256),
        ({"pad_top": 9, "pad_left": 0, "element_bytes": 2}, 256),
    ],
)
def test_guard(change: dict[str, Any], guard: int) -> None:
    assert plan_staging(replace(CONV, **change), L2_BYTES).guard_bytes == guard


sizes = st.integers(1, 40)
operands = st.builds(
    Operands,
    input_shape=st.tuples(st.just(1), st.integers(1, 600), sizes, sizes),
    weight_shape=st.tuples(st.integers(1, 2000), st.integers(1, 300), st.integers(1, 7), st.integers(1, 7)),
    element_bytes=st.sampled_from([1, 2]),
    pad_top=st.integers(0, 5),
    pad_left=st.integers(0, 5),
    can_slice=st.booleans(),
)


@given(operands, st.integers(1, L2_BYTES))
def test_properties(layer: Operands, budget: int) -> None:
    plan = plan_staging(layer, budget)
    blocks = [plan.guard_bytes, plan.input_bytes, plan.weight_bytes]
    # Never more than the budget, as the allocator counts.
    assert sum(-(-b // L2_ALIGNMENT) * L2_ALIGNMENT for b in blocks) == plan.l2_bytes <= budget
    assert (plan.staged == "nothing") == (plan.l2_bytes == 0)
    if plan.staged == "nothing":
        return
    assert plan.input_bytes == layer.input_bytes
    assert plan.guard_bytes % L2_ALIGNMENT == 0
    reach = (layer.pad_top * layer.input_shape[-1] + layer.pad_left) * layer.element_bytes
    assert plan.guard_bytes >= max(MIN_GUARD, reach)
    if plan.staged == "input and weights":
        assert plan.weight_bytes == layer.weight_bytes
    if plan.staged == "output-channel tiles":
        assert layer.can_slice
        assert plan.tile % 32 == 0
        assert plan.tile > 0
        starts = range(0, layer.weight_shape[0], plan.tile)
        covered = [c for s in starts for c in range(s, min(s + plan.tile, layer.weight_shape[0]))]
        assert covered == list(range(layer.weight_shape[0]))
        assert len(starts) == plan.kernel_calls > 1
        assert plan.weight_bytes * layer.weight_shape[0] == plan.tile * layer.weight_bytes
    else:
        assert plan.tile == plan.channels == 0


@given(operands, st.integers(1, L2_BYTES), st.integers(0, 100000))
def test_more_l2_never_stages_less(layer: Operands, budget: int, more: int) -> None:
    order = ["nothing", "input", "output-channel tiles", "input and weights"]
    less, better = plan_staging(layer, budget), plan_staging(layer, budget + more)
    assert order.index(better.staged) >= order.index(less.staged)
    if better.staged == less.staged:
        assert better.kernel_calls <= less.kernel_calls


# --- programs ---------------------------------------------------------------------------------------------------------

NET = chain([Conv(out=64), Conv(out=64, groups=-1, stride=2), Conv(out=96, kernel=1, pad=0)], (1, 8, 12, 10))


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (None, ["input and weights"] * 3),
        (8447, ["input and weights", "input", "input and weights"]),
        (8000, ["input and weights", "input", "output-channel tiles"]),
        (5000, ["output-channel tiles", "nothing", "output-channel tiles"]),
        (2500, ["input", "nothing", "input"]),
        (1, ["nothing"] * 3),
    ],
)
def test_program(size: int | None, expected: list[str]) -> None:
    assert kinds(staged(NET, size)) == expected


def test_kernels_are_those_that_are_called() -> None:
    assert [k.symbol for k in staged(NET).kernels] == [k.symbol for k in NET.kernels]
    tiled = staged(NET, 5000)
    assert [k.symbol for k in tiled.kernels] == ["mmalib_depthwise_conv2d_i8", SLICED]
    assert [c.kernel for c in tiled.calls] == [SLICED, "mmalib_depthwise_conv2d_i8", SLICED]
    assert [k.symbol for k in staged(NET, 8000).kernels] == [*[k.symbol for k in NET.kernels], SLICED]


@pytest.mark.parametrize(
    ("layers", "shape", "dtype"),
    [
        ([Conv(out=64)], (1, 16, 9, 7), "int16"),
        ([Conv(out=64, groups=4)], (1, 16, 9, 7), "int8"),
        ([Linear(out=128)], (2, 64), "int8"),
        ([Linear(out=128)], (2, 64), "int16"),
    ],
)
def test_no_other_kernel_runs_in_tiles(layers: list[Conv | Linear], shape: tuple[int, ...], dtype: str) -> None:
    program = chain(layers, shape, dtype)
    assert {staged(program, size).calls[0].kernel for size in range(128, 30000, 128)} == {program.calls[0].kernel}
    found = {kinds(staged(program, size))[0] for size in range(128, 30000, 128)}
    assert found == {"nothing", "input", "input and weights"}


def test_other_kernels_are_left_alone() -> None:
    relu = Kernel(
        symbol="c7x_int8_relu",
        source="",
        params=(TensorType(dtype="int8", shape=(8,)),) * 2,
        num_outputs=1,
        backend="c7x",
    )
    call = replace(NET.calls[0], kernel=relu.symbol, scalars=("7680", "0"))
    program = replace(NET, kernels=(*NET.kernels, relu), calls=(*NET.calls, call))
    assert staged(program).calls[3] == call
    record = layer_records(staged(program))[3]
    assert record["backend"] == "c7x"
    assert record["l2"] is None


def test_no_more_than_the_l2_of_the_board() -> None:
    big = chain([Conv(out=32)], (1, 64, 150, 150))
    assert big.buffer("x").type.nbytes > L2_BYTES
    assert kinds(staged(big, 2**31 - 1)) == ["nothing"]
    assert target(2**31 - 1).warnings == (
        f"-l2-sram-size={2**31 - 1} is more than the L2 of the C7x; 1310720 are used",
    )
    assert target(L2_BYTES).warnings == ()
    assert Target.parse("c_static -mcpu=c7x -mmalib=1 -device=awrl6844").l2_sram_size == 262144


def test_imports_are_exported_by_every_board() -> None:
    header = (native_dir() / "include" / "c7x_l2.h").read_text(encoding="utf-8")
    assert set(re.findall(r"\btvm_dsp_\w+", header)) == set(IMPORTS)
    for board in BOARDS:
        assert set(IMPORTS) <= set(firmware_exports(board)), board


def test_records_tell_the_staging() -> None:
    program = staged(NET, 8000)
    records = layer_records(program)
    assert [r["l2"]["staged"] for r in records] == kinds(program)
    assert records[2]["kernel"] == SLICED
    assert records[2]["l2"] == {
        "staged": "output-channel tiles",
        "bytes": 128 + 1920 + 64 * 64,
        "guard_bytes": 128,
        "input_bytes": 1920,
        "weight_bytes": 64 * 64,
        "tile": 64,
        "kernel_calls": 2,
        "reason": records[2]["l2"]["reason"],
    }
    assert "6144 bytes" in records[2]["l2"]["reason"]
    assert records[0]["l2"]["reason"] is None
    assert [r["l2"] for r in offload_report(program)["layers"]] == [r["l2"] for r in records]


# --- C ----------------------------------------------------------------------------------------------------------------


def cg_main(program: Program, size: int | None = None) -> str:
    text = emit(staged(program, size), target(size)).files["lib0.c"].decode()
    return text[text.index("\nint32_t cg_main(") : text.index("\n}\n", text.index("\nint32_t cg_main("))]


TILED = """\
  /* 2: layer2 */
  /* in L2: the input, and the weights by 64 of 96 output channels */
  {
    int32_t first;
    for (first = 0; first < 96 && status == 0; first += 64) {
      const int32_t rest = 96 - first;
      const int32_t channels = rest < 64 ? rest : 64;
      uint8_t *const mark = c7x_l2_enter(&l2, "2 (layer2)", 128);
      void *const input = c7x_l2_copy(&l2, (a + 7680), 1920);
      void *const weights = c7x_l2_copy(&l2, (const uint8_t *)(w + 6208) + first * 64, channels * 64);
      status = input == NULL || weights == NULL ? -1 : mmalib_conv2d_i8_sliced(input, weights, (void *)(w + 12416), \
(void *)(w + 12864), (void *)(w + 13056), (void *)outputs[0], 64, 6, 5, channels, 1, 1, 1, 1, 0, 0, 0, 0, first);
      c7x_l2_leave(&l2, mark);
    }
  }
  if (status != 0) return status;
  c7x_l2_close(&l2);
"""


def test_c_of_tiles() -> None:
    text = cg_main(NET, 8000)
    assert TILED in text
    assert text.count("c7x_l2_enter") == text.count("c7x_l2_leave") == 3


def test_c_of_input_alone() -> None:
    text = cg_main(NET, 2500)
    assert '  /* in L2: the input */\n  {\n    uint8_t *const mark = c7x_l2_enter(&l2, "0 (layer0)", 128);\n' in text
    assert "status = input == NULL ? -1 : mmalib_conv2d_i8(input, (void *)(w + " in text
    assert "weights ==" not in text


def test_c_without_staging() -> None:
    unstaged = replace(NET, calls=tuple(replace(c, staging=Staging(staged="nothing")) for c in NET.calls))
    for text in (emit(unstaged, target()).files["lib0.c"].decode(), emit(NET, target()).files["lib0.c"].decode()):
        assert "c7x_l2" not in text
        assert "tvm_dsp_dma" not in text
    assert "c7x_l2" not in emit(staged(NET, 1), target(1)).files["lib0.c"].decode()


def test_layer_names_cannot_break_the_c_text() -> None:
    odd = replace(NET, calls=tuple(replace(c, name='a"b\\n*/') for c in NET.calls))
    assert 'c7x_l2_enter(&l2, "0 (a\\"b\\\\n*/)", 128)' in cg_main(odd)


def test_inspect_lists_staged_layers(tmp_path: Path) -> None:
    assert staged_layers(Workspace(tmp_path)) == []
    (tmp_path / "layers.json").write_text(json.dumps(layer_records(staged(NET, 5000))))
    rows = staged_layers(Workspace(tmp_path))
    assert [(r["index"], r["kernel"], r["staged"], r["kernel_calls"]) for r in rows] == [
        (0, SLICED, "output-channel tiles", 2),
        (1, "mmalib_depthwise_conv2d_i8", "nothing", 1),
        (2, SLICED, "output-channel tiles", 3),
    ]
