"""Products of two quantised matrices that are both computed (attention)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relax

from c7x.graph.line import Line, is_const, op_name, shape_of
from c7x.graph.offload import last_two_swapped, spread
from c7x.graph.qdq.conv import MAX_DEPTH_INT8
from c7x.graph.qdq.fusion import Fusion
from c7x.graph.qdq.scales import multiplier_shift
from c7x.graph.qdq.values import Clipped, Params, quantized, scaled


def fuse(fusion: Fusion, line: Line, clip: Clipped, out: Params) -> Any:
    """``quantize(clip(matmul(dequantize, dequantize)))``: every leading dimension is one batch."""
    call = line.value(clip.source)
    if op_name(call) != "matmul":
        return None
    (x, x_factor, x_via), (y, y_factor, y_via) = (scaled(line, operand) for operand in call.args)
    a, b = quantized(line, x), quantized(line, y)
    if a is None or b is None or {a.params.dtype, b.params.dtype} != {out.dtype}:
        return None
    if len(a.shape) < 2 or len(b.shape) < 2 or is_const(b.tensor) or is_const(a.tensor):
        return None
    fitted = multiplier_shift(np.array([a.params.scale * x_factor * b.params.scale * y_factor / out.scale]))
    deep = a.shape[-1] > MAX_DEPTH_INT8 and out.dtype == "int8"
    offset = out.dtype == "int16" and (a.params.zero, b.params.zero) != (0, 0)
    if fitted is None or int(fitted[1][0]) < 31 or deep or offset:
        fusion.refuse(line, "its scales are out of all proportion to the result's, or its sums too long")
        return None
    shape = shape_of(call)
    low, high = fusion.bounds(out, clip)
    line.absorb(a.via, b.via, *x_via, *y_via, clip.source, *clip.via[::-1])
    swapped = last_two_swapped(line, b.tensor)
    right = b.tensor if swapped is None else swapped
    (*lead_a, m, k), (*lead_b, b1, b2) = a.shape, shape_of(right)
    n = b2 if swapped is None else b1
    lead = shape[:-2]
    left = spread(line, a.tensor, tuple(lead_a), lead, (m, k))
    right = spread(line, right, tuple(lead_b), lead, (b1, b2), may_share=True)
    attrs = {
        "transpose_b": swapped is not None,
        "a_zero": a.params.zero,
        "b_zero": b.params.zero,
        "y_zero": out.zero,
        "mul": int(fitted[0][0]),
        "shift": int(fitted[1][0]),
        "low": low,
        "high": high,
    }
    if fusion.mmalib:
        fusion.detour(line, "not on MMALIB: its products take a constant matrix, or no scale")
    result = fusion.own(line, "qbatch_matmul", [left, right], attrs, (math.prod(lead), m, n), out.dtype)
    return relax.op.reshape(result, shape) if shape_of(result) != shape else result
