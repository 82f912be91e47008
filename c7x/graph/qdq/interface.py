"""How a model's own inputs and outputs are quantised: what a caller needs who gives it integers."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from c7x.graph.line import op_name, straight_line
from c7x.graph.qdq.values import Params, params_of


def interface_params(mod: tvm.IRModule) -> dict[str, list[dict[str, Any] | None]]:
    """``inputs`` and ``outputs`` of ``main`` before its operators are fused, each with ``scale`` and ``zero_point``.

    None stands for a tensor that is not quantised: an input that something else than ``dequantize`` reads, or reads
    with two different scales, and an output that no ``quantize`` wrote. Scales per channel count as none.
    """
    main = mod["main"]
    bindings = list(straight_line(main))
    value_of = {str(var.name): value for var, value in bindings}
    readers: dict[str, list[Params | None]] = {}
    for _, value in bindings:
        for operand in getattr(value, "args", ()):
            if isinstance(operand, relax.Var):
                found = params_of(value) if op_name(value) == "dequantize" else None
                readers.setdefault(str(operand.name), []).append(found)

    def of_input(param: relax.Var) -> Params | None:
        seen = readers.get(str(param.name), [None])
        return seen[0] if all(params == seen[0] for params in seen) else None

    def behind(expr: Any) -> Any:
        while isinstance(expr, relax.Var) and str(expr.name) in value_of:
            expr = value_of[str(expr.name)]
        return expr

    def of_result(expr: Any) -> list[Params | None]:
        value = behind(expr)
        if isinstance(value, relax.Tuple):
            return [params for field in value.fields for params in of_result(field)]
        return [params_of(value) if op_name(value) == "quantize" else None]

    return {
        "inputs": [_record(of_input(param)) for param in main.params],
        "outputs": [_record(params) for params in of_result(main.body.body)],
    }


def _record(params: Params | None) -> dict[str, Any] | None:
    return None if params is None else {"scale": params.scale, "zero_point": params.zero}
