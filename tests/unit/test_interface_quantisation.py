"""io.json says what the integers of a model's own inputs and outputs stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")

from tvm import relax  # noqa: E402

from c7x.codegen.emit import io_description  # noqa: E402
from c7x.codegen.plan import plan_arena  # noqa: E402
from c7x.codegen.walk import program_from_relax  # noqa: E402
from c7x.graph.pipeline import lower_graph  # noqa: E402

INT8 = relax.TensorType([1, 8], "int8")


def scale_of(value: float, zero: int) -> tuple[Any, Any]:
    return relax.const(np.float32(value), "float32"), relax.const(np.int32(zero), "int32")


def described(body: Any) -> dict[str, Any]:
    """io.json of the function whose results ``body(builder, x)`` emits; ``x`` is int8."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", INT8)
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(body(builder, x))
        builder.emit_func_output(result)
    program = program_from_relax(lower_graph(builder.get()), "model")
    return io_description(program, plan_arena(program), 0)


def test_integers_in_and_out() -> None:
    def body(builder: Any, x: Any) -> Any:
        real = builder.emit(relax.op.nn.relu(builder.emit(relax.op.dequantize(x, *scale_of(0.5, 3)))))
        return relax.Tuple([builder.emit(relax.op.quantize(real, *scale_of(0.25, -5), out_dtype="int8")), real])

    io = described(body)
    assert io["inputs"] == [
        {"name": "x", "dtype": "int8", "shape": [1, 8], "quantisation": {"scale": 0.5, "zero_point": 3}}
    ]
    integers, real = io["outputs"]
    assert integers["quantisation"] == {"scale": 0.25, "zero_point": -5}
    assert "quantisation" not in real


def test_an_input_with_two_meanings_has_none() -> None:
    def body(builder: Any, x: Any) -> Any:
        once, again = (builder.emit(relax.op.dequantize(x, *scale_of(s, 0))) for s in (0.5, 0.25))
        return builder.emit(relax.op.add(once, again))

    assert "quantisation" not in described(body)["inputs"][0]


def test_an_input_that_is_also_read_as_an_integer_has_none() -> None:
    def body(builder: Any, x: Any) -> Any:
        real = builder.emit(relax.op.dequantize(x, *scale_of(0.5, 0)))
        return relax.Tuple([real, builder.emit(relax.op.add(x, x))])

    assert "quantisation" not in described(body)["inputs"][0]
