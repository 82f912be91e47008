"""Where real numbers begin and end: what is left of quantize and dequantize once every family had its turn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relax

from c7x.graph.line import Line, const_numpy, dtype_of, is_const, make_const, op_name, shape_of, tensor_type
from c7x.graph.qdq.fusion import Fusion
from c7x.graph.qdq.values import params_of


def settle(fusion: Fusion, line: Line, call: Any) -> Any:
    """A dequantised constant is a constant; a quantised input of the model is the firmware's business."""
    match op_name(call):
        case "dequantize" if all(is_const(a) for a in call.args):
            return make_const(dequantized_constant(call))
        case "quantize" if fusion.mmalib and _is_input(line, call.args[0]):
            params = params_of(call)
            if params is None or params.dtype != "int8" or dtype_of(call.args[0]) != "float32":
                return None
            shape = shape_of(call)
            inverse = float(np.float32(1.0) / np.float32(params.scale))
            scalars = [math.prod(shape), inverse, params.zero]
            return line.main(fusion.firmware("c7x_int8_quantize", [call.args[0]], scalars, tensor_type(shape, "int8")))
    return None


def _is_input(line: Line, expr: Any) -> bool:
    return isinstance(expr, relax.Var) and any(expr.same_as(p) for p in line.func.params)


def dequantized_constant(call: Any) -> np.ndarray:
    """(q - zero) * scale in float32, per tensor or along the axis."""
    values, scale, zero = (const_numpy(a) for a in call.args)
    if scale.size > 1:
        along = [1] * values.ndim
        along[int(call.attrs.axis) % values.ndim] = -1
        scale, zero = scale.reshape(along), zero.reshape(along) if zero.size > 1 else zero
    return np.asarray((values.astype(np.float32) - zero.astype(np.float32)) * scale.astype(np.float32), np.float32)
