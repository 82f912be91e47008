"""memory.json: operands and their places, on a small program made by hand."""

from __future__ import annotations

from c7x.codegen.memory import memory_map
from c7x.codegen.plan import plan_arena
from c7x.codegen.program import Buffer, Call, Port, Program, TensorType


def _tensor(*shape: int) -> TensorType:
    return TensorType(dtype="float32", shape=shape)


def _program() -> Program:
    """x -> a -> (seen as b) -> y, with a constant beside it and a workspace in the second call."""
    return Program(
        name="m",
        inputs=(Port(name="x", buffer="x", type=_tensor(4)),),
        outputs=(Port(name="y", buffer="y", type=_tensor(2, 2)),),
        buffers=(
            Buffer(name="x", type=_tensor(4), role="input"),
            Buffer(name="c", type=_tensor(4), role="constant"),
            Buffer(name="a", type=_tensor(4), role="intermediate"),
            Buffer(name="b", type=_tensor(2, 2), role="intermediate", alias_of="a"),
            Buffer(name="w", type=TensorType(dtype="uint8", shape=(100,)), role="workspace"),
            Buffer(name="y", type=_tensor(2, 2), role="output"),
        ),
        constants=(),
        kernels=(),
        calls=(
            Call(kernel="k", inputs=("x", "c"), outputs=("a",)),
            Call(kernel="l", inputs=("b",), outputs=("y",), workspace="w"),
        ),
    )


def test_operands_name_their_storage_and_keep_their_own_shape() -> None:
    program = _program()
    content = memory_map(program, plan_arena(program))
    first, second = content["calls"]
    assert [(t["buffer"], t["place"], t["offset"]) for t in first["inputs"]] == [
        ("x", "input", 0),
        ("c", "constant", None),
    ]
    assert first["outputs"][0]["buffer"] == second["inputs"][0]["buffer"] == "a"
    assert (first["outputs"][0]["shape"], second["inputs"][0]["shape"]) == ([4], [2, 2])
    assert second["outputs"] == [
        {"buffer": "y", "dtype": "float32", "shape": [2, 2], "bytes": 16, "place": "output", "offset": 0}
    ]


def test_the_arena_over_time() -> None:
    program = _program()
    content = memory_map(program, plan_arena(program))
    assert content["arena_bytes"] == 256
    assert [(b["name"], b["bytes"], b["first"], b["last"]) for b in content["buffers"]] == [
        ("a", 128, 0, 1),
        ("w", 128, 1, 1),
    ]
    assert sorted(b["offset"] for b in content["buffers"]) == [0, 128]
