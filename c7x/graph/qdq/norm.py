"""Softmax and layer normalisation: real numbers inside a row, integers on either side."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from c7x.graph.line import Line, const_numpy, is_const, make_const, op_name, shape_of, tensor_type
from c7x.graph.qdq.fusion import Fusion
from c7x.graph.qdq.values import Clipped, Params, Quantized, quantized, scaled
from c7x.graph.simplify import axes_of


def fuse(fusion: Fusion, line: Line, clip: Clipped, out: Params) -> Any:
    """``quantize(softmax(dequantize))`` and ``quantize(layer_norm(dequantize))``."""
    call = line.value(clip.source)
    name = op_name(call)
    if name not in ("nn.softmax", "nn.layer_norm"):
        return None
    operand, factor, via = scaled(line, call.args[0]) if name == "nn.softmax" else (call.args[0], 1.0, [])
    data = quantized(line, operand)
    if data is None or data.params.dtype != out.dtype:
        return None
    low, high = fusion.bounds(out, clip)
    line.absorb(*via)
    attrs = {
        "x_scale": data.params.scale * factor,
        "x_zero": data.params.zero,
        "y_scale": out.scale,
        "y_zero": out.zero,
        "low": low,
        "high": high,
    }
    return (_softmax if name == "nn.softmax" else _layer_norm)(fusion, line, call, data, out, attrs, clip)


def _softmax(
    fusion: Fusion, line: Line, call: Any, data: Quantized, out: Params, attrs: dict[str, Any], clip: Clipped
) -> Any:
    shape = data.shape
    axis = int(call.attrs.axis) % len(shape)
    line.absorb(data.via, clip.source, *clip.via[::-1])
    distances = line.call(data.tensor, "permute_dims") if fusion.mmalib and out.dtype == "int8" else None
    if distances is not None and len(shape) == 4 and axis == 1 and axes_of(distances) == [0, 2, 1, 3]:
        # [N, sides, bins, places] -> [N, bins, sides, places], as a box head with distributions over distances has it.
        b, k, a, n = shape
        line.absorb(data.tensor)
        scalars = [b, a, k, n, data.params.zero, attrs["x_scale"], out.zero, out.scale]
        result = line.main(
            fusion.firmware("c7x_int8_dfl_softmax", [distances.args[0]], scalars, tensor_type(shape, "int8"))
        )
        return fusion.clamp8(result, out, attrs["low"], attrs["high"])
    view = {"outer": math.prod(shape[:axis]), "axis": shape[axis], "inner": math.prod(shape[axis + 1 :])}
    return fusion.own(line, "qsoftmax", [data.tensor], {**attrs, **view}, shape, out.dtype)


def _layer_norm(
    fusion: Fusion, line: Line, call: Any, data: Quantized, out: Params, attrs: dict[str, Any], clip: Clipped
) -> Any:
    shape = data.shape
    axes = sorted(int(a) % len(shape) for a in call.attrs.axes)
    norm = math.prod(shape[a] for a in axes)
    if axes != list(range(len(shape) - len(axes), len(shape))) or not all(is_const(a) for a in call.args[1:]):
        fusion.refuse(line, "a layer norm over other axes than the last ones, or with computed weights")
        return None
    gamma, beta = (const_numpy(a).astype(np.float32).reshape(-1) for a in call.args[1:])
    gamma = gamma if call.attrs.scale else np.ones(norm, np.float32)
    beta = beta if call.attrs.center else np.zeros(norm, np.float32)
    line.absorb(data.via, clip.source, *clip.via[::-1])
    tensors = [data.tensor, make_const(gamma), make_const(beta)]
    outer, epsilon = math.prod(shape) // norm, float(call.attrs.epsilon)
    if fusion.mmalib and out.dtype == "int8":
        scalars = [outer, norm, epsilon, data.params.zero, data.params.scale, out.zero, out.scale]
        result = line.main(fusion.firmware("c7x_int8_layer_norm", tensors, scalars, tensor_type(shape, "int8")))
        return fusion.clamp8(result, out, attrs["low"], attrs["high"])
    view = {"outer": outer, "norm": norm, "epsilon": epsilon}
    return fusion.own(line, "qlayer_norm", tensors, {**attrs, **view}, shape_of(data.tensor), out.dtype)
