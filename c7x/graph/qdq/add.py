"""Sums of two quantised tensors of one shape (residual connections), and products element by element."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from c7x.graph.layout import first
from c7x.graph.line import Line, make_const, op_name, shape_of, tensor_type
from c7x.graph.qdq.fusion import Fusion
from c7x.graph.qdq.scales import add_multipliers, multiplier_shift
from c7x.graph.qdq.values import Clipped, Params, Quantized, quantized

#: The firmware shifts sums by this (kernels.md 4). int16 gets the bits that its 64-bit sums have room for: with 15, the
#: rounding of the ratio alone could move a result by one.
FIRMWARE_SHIFT = {"int8": 15, "int16": 20}


def operands(line: Line, call: Any, out: Params) -> tuple[Quantized, Quantized] | None:
    """Both operands of a binary operator, when both are quantised as the result is."""
    pair = [quantized(line, a) for a in call.args]
    if len(pair) != 2 or any(q is None or q.params.dtype != out.dtype for q in pair):
        return None
    return pair[0], pair[1]  # type: ignore[return-value]


def fuse(fusion: Fusion, line: Line, clip: Clipped, out: Params) -> Any:
    """``quantize(clip(add(dequantize, dequantize)))``."""
    call = line.value(clip.source)
    if op_name(call) != "add" or (pair := operands(line, call, out)) is None:
        return None
    a, b = pair
    shape = shape_of(call)
    if a.shape != shape or b.shape != shape:
        fusion.refuse(line, f"a sum of shapes {list(a.shape)} and {list(b.shape)}")
        return None
    low, high = fusion.bounds(out, clip)
    absorbed = (a.via, b.via, clip.source, *clip.via[::-1])
    if fusion.on_firmware(line, a.tensor, b.tensor):
        params = _firmware_params(a.params, b.params, out)
        if params is not None:
            line.absorb(*absorbed)
            return _firmware(fusion, line, a, b, params, out, low, high)
        fusion.detour(line, "not the firmware's kernel: its scales differ too much from the result's")
    fitted = add_multipliers(a.params.scale / out.scale, b.params.scale / out.scale, out.dtype)
    if fitted is None:
        fusion.refuse(line, "its scales are out of all proportion to the result's")
        return None
    line.absorb(*absorbed)
    (x, y), last = fusion.elementwise(line, [a.tensor, b.tensor], len(shape))
    attrs = {
        "a_zero": a.params.zero,
        "b_zero": b.params.zero,
        "y_zero": out.zero,
        "a_mul": fitted[0],
        "b_mul": fitted[1],
        "shift": fitted[2],
        "low": low,
        "high": high,
    }
    result = fusion.own(line, "qadd", [x, y], attrs, shape_of(x), out.dtype)
    return first(result) if last else result


def _firmware_params(a: Params, b: Params, out: Params) -> np.ndarray | None:
    """The 16 bytes of kernels.md 4; None when a factor does not fit, or is too small to mean anything.

    The kernel cuts off where it should round. Moving the operands' zero points by (i, j) adds i * M_x + j * M_skip to
    the sum: where that is half a unit, give or take whole units that the result's zero point takes back, the result is
    rounded after all.
    """
    shift = FIRMWARE_SHIFT[out.dtype]
    factors = [round(p.scale / out.scale * 2.0**shift) for p in (a, b)]
    zeros = [a.zero, b.zero, out.zero]
    limit = 1 << (22 if out.dtype == "int8" else 31)
    if not all(0 < f < limit for f in factors) or (out.dtype == "int16" and any(zeros)):
        return None
    zeros = _rounding_zeros(factors, shift, zeros)
    return np.frombuffer(struct.pack("<iiibbbx", *factors, shift, *zeros), np.uint8)


#: How far zero points may be moved; small, so that an operand minus its zero point stays near nine bits.
_MOVES = 24


def _rounding_zeros(factors: list[int], shift: int, zeros: list[int]) -> list[int]:
    """Zero points of both operands and the result that make the kernel round: the nearest moves whose sum is within
    1/64 of half a unit, or else the closest there are; unchanged when none is closer than cutting off."""
    unit = 1 << shift
    moves = np.arange(-_MOVES, _MOVES + 1)
    i, j = np.meshgrid(moves, moves, indexing="ij")
    added = i * factors[0] + j * factors[1]
    whole = np.floor_divide(added, unit)
    error = np.abs(added - whole * unit - unit // 2)
    moved = (zeros[0] - i, zeros[1] - j, zeros[2] - whole)
    allowed = np.logical_and.reduce([(z >= -128) & (z <= 127) for z in moved])
    cost = np.where(allowed, np.maximum(error, unit // 64) * 4096.0 + np.abs(i) + np.abs(j), np.inf)
    best = np.unravel_index(int(np.argmin(cost)), cost.shape)
    if not allowed[best] or error[best] >= unit // 2:
        return zeros
    return [int(z[best]) for z in moved]


def _firmware(
    fusion: Fusion, line: Line, a: Quantized, b: Quantized, params: np.ndarray, out: Params, low: int, high: int
) -> Any:
    # Its relu cuts at the integer 0, which is real zero only without a zero point.
    relu = low == 0 and out.zero == 0
    symbol = f"c7x_{out.dtype}_residual_add_relu"
    n = math.prod(a.shape)
    call = fusion.firmware(
        symbol, [a.tensor, b.tensor, make_const(params)], [n, int(relu)], tensor_type(a.shape, out.dtype)
    )
    result = line.main(call)
    return clip_after(fusion, line, result, out, -(2**31) if relu else low, high)


def clip_after(fusion: Fusion, line: Line, result: Any, out: Params, low: int, high: int) -> Any:
    """What is left of a clip behind a firmware kernel."""
    from tvm import relax

    limits = np.iinfo(out.dtype)
    low = max(low, int(limits.min))
    if out.dtype == "int8":
        return fusion.clamp8(result, out, low, high)
    if low > limits.min:
        result = line.emit(relax.op.maximum(result, make_const(np.array(low, np.int16))), "_low")
    return relax.op.minimum(result, make_const(np.array(high, np.int16))) if high < limits.max else result


def fuse_product(fusion: Fusion, line: Line, clip: Clipped, out: Params) -> Any:
    """``quantize(clip(multiply(dequantize, dequantize)))``: one shape, or a feature map [N,C,H,W] times one value per
    channel [N,C,1,1]."""
    call = line.value(clip.source)
    if op_name(call) != "multiply" or (pair := operands(line, call, out)) is None:
        return None
    shape = shape_of(call)
    a, b = pair if pair[0].shape == shape else pair[::-1]
    per_channel = len(shape) == 4 and b.shape == (*shape[:2], 1, 1) and a.shape == shape
    if a.shape != shape or not (b.shape == shape or per_channel):
        fusion.refuse(line, f"a product of shapes {list(a.shape)} and {list(b.shape)}")
        return None
    fitted = multiplier_shift(np.array([a.params.scale * b.params.scale / out.scale]))
    if fitted is None:
        fusion.refuse(line, "its scales are out of all proportion to the result's")
        return None
    low, high = fusion.bounds(out, clip)
    line.absorb(a.via, b.via, clip.source, *clip.via[::-1])
    if (
        fusion.on_firmware(line, a.tensor)
        and per_channel
        and b.shape != shape
        and out.dtype == "int8"
        and shape[0] == 1
    ):
        scalars = [shape[1], shape[2] * shape[3]]
        for p in (b.params, a.params, out):
            scalars += [p.scale, p.zero]  # type: ignore[list-item]
        symbol = "c7x_int8_channel_scale_multiply"
        result = line.main(fusion.firmware(symbol, [b.tensor, a.tensor], scalars, tensor_type(shape, "int8")))
        return fusion.clamp8(result, out, low, high)
    attrs = {
        "a_zero": a.params.zero,
        "b_zero": b.params.zero,
        "y_zero": out.zero,
        "mul": int(fitted[0][0]),
        "shift": int(fitted[1][0]),
        "low": low,
        "high": high,
    }
    if b.shape != shape:
        x, y = fusion.last(line, a.tensor), fusion.last(line, b.tensor)
        attrs |= {"inner": shape[2] * shape[3], "channels": shape[1]}
        return first(fusion.own(line, "qmul", [x, y], attrs, shape_of(x), out.dtype))
    (x, y), last = fusion.elementwise(line, [a.tensor, b.tensor], len(shape))
    result = fusion.own(line, "qmul", [x, y], attrs, shape_of(x), out.dtype)
    return first(result) if last else result
