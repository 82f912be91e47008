"""The arena planner: buffers alive together never share a byte, and the size equals the largest live set."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from c7x.codegen.plan import ARENA_ALIGNMENT, LiveRange, largest_live_set, live_ranges, plan_arena
from c7x.codegen.program import Buffer, Call, Kernel, Port, Program, TensorType


def f32(*shape: int) -> TensorType:
    return TensorType(dtype="float32", shape=shape)


def chain(sizes: list[int], skips: list[int]) -> Program:
    """A program whose call i reads the buffer before it and the one ``skips[i]`` calls back."""
    buffers = [Buffer(name="x", type=f32(4), role="input")]
    calls = []
    for i, size in enumerate(sizes):
        buffers.append(Buffer(name=f"b{i}", type=f32(size), role="intermediate"))
        before = f"b{i - 1}" if i else "x"
        back = i - 1 - skips[i]
        read = (before,) if back < 0 else (before, f"b{back}")
        calls.append(Call(kernel="k", inputs=read, outputs=(f"b{i}",)))
    last = f"b{len(sizes) - 1}"
    return Program(
        name="m",
        inputs=(Port(name="x", buffer="x", type=f32(4)),),
        outputs=(Port(name="y", buffer=last, type=f32(sizes[-1])),),
        buffers=tuple(buffers),
        constants=(),
        kernels=(Kernel(symbol="k", source="", params=(), num_outputs=1, backend="tvm"),),
        calls=tuple(calls),
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 4)), min_size=1, max_size=30))
def test_no_two_live_buffers_share_bytes(steps: list[tuple[int, int]]) -> None:
    program = chain([s for s, _ in steps], [k for _, k in steps])
    plan = plan_arena(program)
    for i, a in enumerate(plan.ranges):
        assert plan.offsets[a.name] % ARENA_ALIGNMENT == 0
        assert plan.offsets[a.name] + a.size <= plan.arena_bytes
        for b in plan.ranges[i + 1 :]:
            if a.overlaps(b):
                low, high = sorted((a, b), key=lambda r: plan.offsets[r.name])
                assert plan.offsets[low.name] + low.size <= plan.offsets[high.name]
    assert plan.arena_bytes >= plan.lower_bound


def test_a_plain_chain_needs_two_buffers() -> None:
    plan = plan_arena(chain([32] * 10, [0] * 10))
    assert plan.arena_bytes == plan.lower_bound


def test_the_search_reaches_the_bound_where_first_fit_by_size_does_not() -> None:
    # Ranges (first, last, size) on which placing the large ones first leaves a hole no later range fits into.
    ranges = (
        LiveRange(name="a", size=3, first=0, last=1),
        LiveRange(name="b", size=2, first=0, last=3),
        LiveRange(name="c", size=3, first=2, last=4),
        LiveRange(name="d", size=2, first=4, last=5),
        LiveRange(name="e", size=1, first=1, last=1),
        LiveRange(name="f", size=4, first=5, last=6),
    )
    from c7x.codegen.plan import _pack

    bound = largest_live_set(ranges)
    _, size = _pack(ranges, bound)
    assert size == bound == 6


def test_two_plans_are_the_same() -> None:
    program = chain([100, 7, 300, 5, 900, 2, 64] * 3, [2, 0, 3, 1, 4, 0, 2] * 3)
    assert plan_arena(program) == plan_arena(program)


def test_an_alias_keeps_its_storage_alive_and_an_output_lives_to_the_end() -> None:
    program = Program(
        name="m",
        inputs=(),
        outputs=(Port(name="y", buffer="view", type=f32(8)),),
        buffers=(
            Buffer(name="a", type=f32(2, 4), role="intermediate"),
            Buffer(name="view", type=f32(8), role="intermediate", alias_of="a"),
            Buffer(name="b", type=f32(4), role="intermediate"),
            Buffer(name="w", type=f32(64), role="workspace"),
        ),
        constants=(),
        kernels=(),
        calls=(
            Call(kernel="k", inputs=(), outputs=("a",)),
            Call(kernel="k", inputs=("view",), outputs=("b",), workspace="w"),
            Call(kernel="k", inputs=("b",), outputs=("b",)),
        ),
    )
    ranges = {r.name: (r.first, r.last) for r in live_ranges(program)}
    assert ranges == {"a": (0, 2), "b": (1, 2), "w": (1, 1)}


def test_a_model_without_calls_needs_no_arena() -> None:
    program = Program(
        name="m",
        inputs=(Port(name="x", buffer="x", type=f32(1)),),
        outputs=(Port(name="y", buffer="x", type=f32(1)),),
        buffers=(Buffer(name="x", type=f32(1), role="input"),),
        constants=(),
        kernels=(),
        calls=(),
    )
    assert plan_arena(program).arena_bytes == 0
