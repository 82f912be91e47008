"""Linear layers: a quantised matrix by a constant quantised matrix, with bias and clip."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relax

from c7x.graph.line import Line, make_const, op_name, shape_of, tensor_type
from c7x.graph.qdq.conv import (
    Geometry,
    Sums,
    clipped_result,
    fits,
    mmalib_constants,
    mmalib_numbers_reason,
    own_last,
    with_bias,
)
from c7x.graph.qdq.fusion import Fusion
from c7x.graph.qdq.values import Clipped, Params, bias_of, quantized, weight

#: K and N of the wrappers are multiples of these (kernels.md 8); N is filled up with columns of zeros.
MULTIPLES = {"int8": 32, "int16": 16}


def fuse(fusion: Fusion, line: Line, clip: Clipped, out: Params) -> Any:
    """``quantize(clip(matmul(dequantize, dequantize(constant)) + bias))``; the product may be reshaped in between."""
    source, reshaped = clip.source, []
    found = with_bias(line, source, "matmul")
    if found is None and op_name(line.value(source)) == "reshape":
        reshaped = [source]
        found = with_bias(line, line.value(source).args[0], "matmul")
    if found is None:
        return None
    call, bias, via = found
    data, w = quantized(line, call.args[0]), weight(line, call.args[1])
    if data is None or w is None:
        return None
    if data.params.dtype != out.dtype or w.values.dtype.name != out.dtype or w.values.ndim != 2:
        fusion.refuse(line, "data, weight and result are not all int8 or all int16")
        return None
    k, n = w.values.shape
    if w.scales.size not in (1, n) or (w.scales.size > 1 and w.axis != 1):
        fusion.refuse(line, "its weight is quantised along the axis that is summed over")
        return None
    scales = np.broadcast_to(w.scales, (n,)).astype(np.float64)
    units = data.params.scale * scales
    integers = np.zeros(n, np.int64) if bias is None else bias_of(line, bias, np.where(units > 0, units, 1.0))
    if integers is None:
        fusion.refuse(line, "its bias is not a constant per output")
        return None
    low, high = fusion.bounds(out, clip)
    m = math.prod(shape_of(call)) // n
    sums = Sums(data, np.ascontiguousarray(w.values.T)[:, :, None, None], scales, integers, out, low, high)
    dequantized = [bias] if isinstance(bias, relax.Var) else []
    line.absorb(data.via, call.args[1], *dequantized, *via, *reshaped, *clip.via[::-1])
    shape = shape_of(clip.source)
    if fusion.mmalib:
        reason = mmalib_numbers_reason(sums)
        if k % MULTIPLES[out.dtype]:
            reason = f"{k} inputs (the wrapper takes multiples of {MULTIPLES[out.dtype]})"
        if reason is None:
            return _mmalib(fusion, line, sums, m, shape)
        fusion.detour(line, f"not on MMALIB: {reason}")
    return _own(fusion, line, sums, m, shape)


def _rows(line: Line, tensor: Any, shape: tuple[int, ...]) -> Any:
    return tensor if shape_of(tensor) == shape else line.emit(relax.op.reshape(tensor, shape), "_rows")


def _own(fusion: Fusion, line: Line, sums: Sums, m: int, shape: tuple[int, ...]) -> Any:
    """A 1x1 convolution over a row of M pixels."""
    n, k = sums.weights.shape[:2]
    if not fits(sums):
        fusion.refuse(line, "the sums might not fit 32 bits, or a scale is out of all proportion")
        return None
    rows = _rows(line, sums.data.tensor, (1, 1, m, k))
    geometry = Geometry((1, 1), (0, 0, 0, 0), (1, 1), 1)
    return relax.op.reshape(own_last(fusion, line, sums, geometry, rows, (1, 1, m, n)), shape)


def _mmalib(fusion: Fusion, line: Line, sums: Sums, m: int, shape: tuple[int, ...]) -> Any:
    n, k = sums.weights.shape[:2]
    dtype = sums.out.dtype
    padded = -(-n // MULTIPLES[dtype]) * MULTIPLES[dtype]
    constants = [np.asarray(c.value.numpy()) for c in mmalib_constants(sums)]
    constants[0] = constants[0].reshape(n, k)
    filled = [np.pad(c, [(0, padded - n)] + [(0, 0)] * (c.ndim - 1)) for c in constants]
    rows = _rows(line, sums.data.tensor, (m, k))
    symbol = f"mmalib_matmul_bias_{'i8' if dtype == 'int8' else 'i16'}"
    tensors = [rows, *(make_const(np.ascontiguousarray(c)) for c in filled)]
    result = line.main(
        fusion.firmware(symbol, tensors, [m, k, padded], tensor_type((m, padded), dtype), macs=m * k * n)
    )
    if padded != n:
        result = line.emit(relax.op.strided_slice(result, [1], [0], [n]), "_columns")
    result = clipped_result(fusion, line, result, sums)
    if not isinstance(result, relax.Var):
        result = line.emit(result, "_clip")
    return relax.op.reshape(result, shape) if shape != (m, n) else result
