"""Convolutions: plain, grouped and depthwise, with bias and clip, 1-D as one row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from c7x.graph.layout import first
from c7x.graph.line import Line, make_const, make_kernel, op_name, shape_of, tensor_type
from c7x.graph.qdq.fusion import Fusion
from c7x.graph.qdq.scales import MMALIB_ERROR, mmalib_scale_shift, multiplier_shift
from c7x.graph.qdq.values import Clipped, Params, Quantized, Weight, bias_of, quantized, weight

#: Depthwise windows that the wrappers take: kernels.md 6 and 8.
DEPTHWISE_WINDOWS = {"int8": (3, 5, 7), "int16": (3,)}
#: Sums of more products than this might not fit the int32 of our int8 kernels.
MAX_DEPTH_INT8 = 16384


@dataclass(frozen=True)
class Sums:
    """What a convolution or matrix product adds up, and how the sums become the result.

    Attributes:
        data: the quantised operand.
        weights: int8 or int16, [O, C/g, KH, KW].
        scales: real value of a weight of 1, float64 [O].
        bias: int64 [O] in units of data scale * weight scale.
        out: quantisation of the result.
        low, high: clip of the result.
    """

    data: Quantized
    weights: np.ndarray
    scales: np.ndarray
    bias: np.ndarray
    out: Params
    low: int
    high: int

    @property
    def ratios(self) -> np.ndarray:
        return self.data.params.scale * self.scales / self.out.scale


@dataclass(frozen=True)
class Geometry:
    """Strides, padding (top, left, bottom, right), dilation and groups."""

    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    groups: int


def with_bias(line: Line, expr: Any, *ops: str) -> tuple[Any, Any, list[Any]] | None:
    """(the call of one of ``ops``, its bias or None, variables on the way) behind a value; None when there is none."""
    call = line.value(expr)
    if op_name(call) in ops:
        return call, None, [expr]
    if op_name(call) != "add":
        return None
    for operand, other in (call.args, tuple(call.args)[::-1]):
        inner = line.value(operand)
        if op_name(inner) in ops and shape_of(operand) == shape_of(expr):
            return inner, other, [operand, expr]
    return None


def channel_scales(w: Weight, channels: int) -> np.ndarray | None:
    """One scale per output channel; None when the scales run along another axis."""
    if w.scales.size == 1:
        return np.full(channels, w.scales[0])
    return w.scales if w.axis == 0 and w.scales.size == channels else None


def fuse(fusion: Fusion, line: Line, clip: Clipped, out: Params) -> Any:
    """``quantize(clip(conv(dequantize, dequantize) + bias))``."""
    found = with_bias(line, clip.source, "nn.conv2d", "nn.conv1d")
    if found is None:
        return None
    call, bias, via = found
    data, w = quantized(line, call.args[0]), weight(line, call.args[1])
    if data is None or w is None or data.params.dtype != out.dtype or w.values.dtype.name != out.dtype:
        fusion.refuse(line, "data, weight and result are not all int8 or all int16 per tensor")
        return None
    rank = len(shape_of(call))
    a = call.attrs
    layouts = {3: ("NCW", "OIW", "NCW"), 4: ("NCHW", "OIHW", "NCHW")}[rank]
    if (str(a.data_layout), str(a.kernel_layout), str(a.out_layout)) != layouts:
        return None
    strides, padding, dilation = ([int(v) for v in values] for values in (a.strides, a.padding, a.dilation))
    weights = w.values
    if rank == 3:
        strides, dilation, padding = [1, *strides], [1, *dilation], [0, padding[0], 0, padding[1]]
        weights = weights[:, :, None, :]
    scales = channel_scales(w, weights.shape[0])
    if scales is None:
        return None
    integers = _bias(line, bias, data.params.scale * scales)
    if integers is None:
        fusion.refuse(line, "its bias is not a constant per output channel")
        return None
    low, high = fusion.bounds(out, clip)
    sums = Sums(data, weights, scales, integers, out, low, high)
    geometry = Geometry(tuple(strides), tuple(padding), tuple(dilation), int(a.groups))  # type: ignore[arg-type]
    constant = line.value(bias).args[0] if op_name(line.value(bias)) == "reshape" else bias
    constants = [constant] if isinstance(constant, relax.Var) else []
    line.absorb(data.via, call.args[1], *constants, *via, *clip.via[::-1])
    if fusion.mmalib and rank == 4:
        reason = mmalib_reason(sums, geometry)
        if reason is None:
            return _mmalib(fusion, line, sums, geometry, shape_of(call))
        fusion.detour(line, f"not on MMALIB: {reason}")
    return own(fusion, line, sums, geometry, shape_of(call))


def _bias(line: Line, bias: Any, units: np.ndarray) -> np.ndarray | None:
    if bias is None:
        return np.zeros(len(units), np.int64)
    return bias_of(line, bias, np.where(units > 0, units, 1.0))


# --- our kernel -------------------------------------------------------------------------------------------------


def own(fusion: Fusion, line: Line, sums: Sums, g: Geometry, shape: tuple[int, ...]) -> Any:
    """Our kernel, on channels last; ``shape`` is that of the result, channels second."""
    if not fits(sums):
        fusion.refuse(line, "the sums might not fit 32 bits, or a scale is out of all proportion")
        return None
    data = fusion.last(line, sums.data.tensor)
    if len(shape) == 4:
        return first(own_last(fusion, line, sums, g, data, (shape[0], shape[2], shape[3], shape[1])))
    n, w, c = shape_of(data)
    row = line.emit(relax.op.reshape(data, (n, 1, w, c)), "_row")
    result = own_last(fusion, line, sums, g, row, (shape[0], 1, shape[2], shape[1]))
    return first(line.emit(relax.op.reshape(result, (shape[0], shape[2], shape[1])), "_row"))


def own_last(fusion: Fusion, line: Line, sums: Sums, g: Geometry, data: Any, shape: tuple[int, ...]) -> Any:
    """The call of our kernel on data [N,H,W,C], result [N,OH,OW,O]; the numbers must fit."""
    fitted = _integers(sums)
    assert fitted is not None
    attrs = {
        "strides": list(g.strides),
        "padding": list(g.padding),
        "dilation": list(g.dilation),
        "groups": g.groups,
        "x_zero": sums.data.params.zero,
        "y_zero": sums.out.zero,
        "low": sums.low,
        "high": sums.high,
    }
    constants = [make_const(np.ascontiguousarray(v)) for v in (sums.weights, *fitted)]
    return fusion.own(line, "qconv2d", (data, *constants), attrs, shape, sums.out.dtype)


def fits(sums: Sums) -> bool:
    """Whether our kernel's integers hold every sum and ratio."""
    return _integers(sums) is not None


def _integers(sums: Sums) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Bias (int32 for int8, else int64), multiplier and shift; None when a sum might overflow."""
    depth = int(np.prod(sums.weights.shape[1:]))
    # A channel of zeros may have any scale; its ratio only matters for a bias, which is then zero too.
    fitted = multiplier_shift(np.where(sums.ratios > 0, sums.ratios, 2.0**-31))
    if fitted is None:
        return None
    if sums.out.dtype == "int16":
        if np.abs(sums.bias).max(initial=0) >= 1 << 45 or depth > 1 << 14 or sums.data.params.zero != 0:
            return None
        return sums.bias.astype(np.int64), *fitted
    if depth > MAX_DEPTH_INT8 or np.abs(sums.bias).max(initial=0) > 1 << 30:
        return None
    return sums.bias.astype(np.int32), *fitted


# --- MMALIB -----------------------------------------------------------------------------------------------------


def mmalib_reason(sums: Sums, g: Geometry) -> str | None:
    """Why the wrappers of kernels.md 6 do not take the convolution; None when they do (constraints: section 8)."""
    n, c = sums.data.shape[:2]
    o, _cg, kh, kw = sums.weights.shape
    dtype = sums.out.dtype
    if n != 1:
        return f"a batch of {n} (the wrappers take 1)"
    if g.dilation != (1, 1):
        return f"dilation {max(g.dilation)}"
    if g.strides[0] != g.strides[1]:
        return f"strides {g.strides[0]} and {g.strides[1]}"
    if g.groups == c > 1:
        if o != c:
            return f"depthwise with {o // c} results a channel"
        windows = DEPTHWISE_WINDOWS[dtype]
        if kh != kw or kh not in windows:
            taken = ", ".join(f"{k}x{k}" for k in windows)
            return f"a depthwise window of {kh}x{kw} (the {dtype} wrapper takes {taken})"
        if g.strides[0] > 2 or (g.strides[0] == 2 and kh > 5):
            return f"depthwise stride {g.strides[0]} with a window of {kh}x{kw}"
    elif g.groups > 1 and dtype == "int16":
        return f"{g.groups} groups (only the int8 wrapper takes groups)"
    return mmalib_numbers_reason(sums)


def mmalib_numbers_reason(sums: Sums) -> str | None:
    """Why eight bits of scale, and MMALIB's bias, cannot express the requantisation; None when they can."""
    dtype = sums.out.dtype
    ratios = sums.ratios
    if dtype == "int16" and (sums.data.params.zero != 0 or sums.out.zero != 0):
        return "int16 with a zero point"
    if not (ratios > 0).all() or not np.isfinite(ratios).all():
        return "a scale of zero"
    scale, shift, error = mmalib_scale_shift(ratios)
    if error.max(initial=0) > MMALIB_ERROR[dtype]:
        if dtype == "int16":
            return "its scales do not fit MMALIB's 8 bits without loss (quantise with power-of-two scales)"
        return "a ratio of scales is outside what MMALIB's 8 bits and shift reach"
    bias = folded_bias(sums, scale, shift)
    limit = (1 << 31) - 1 if dtype == "int8" else (1 << 62)
    depth = int(np.prod(sums.weights.shape[1:]))
    room = depth * (1 << (14 if dtype == "int8" else 30))
    if np.abs(bias).max(initial=0) + room > limit:
        return "its bias does not fit together with the sums"
    return None


def folded_bias(sums: Sums, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """The bias of kernels.md 6.1: what the zero points of data and result add is put into it, int64 [O].

    The zero point of the result goes through the ratio that the wrapper really applies, so that it comes out exact.
    """
    taps = sums.weights.astype(np.int64).reshape(len(scale), -1).sum(axis=1)
    lifted = np.rint(sums.out.zero * 2.0 ** shift.astype(np.float64) / scale.astype(np.float64))
    return np.asarray(sums.bias - sums.data.params.zero * taps + lifted.astype(np.int64))


def mmalib_constants(sums: Sums) -> list[Any]:
    """Weights, bias, scale and shift for a wrapper."""
    scale, shift, _ = mmalib_scale_shift(sums.ratios)
    bias = folded_bias(sums, scale, shift).astype(np.int32 if sums.out.dtype == "int8" else np.int64)
    return [make_const(np.ascontiguousarray(v)) for v in (sums.weights, bias, scale, shift)]


def clipped_result(fusion: Fusion, line: Line, result: Any, sums: Sums) -> Any:
    """The wrapper's result, clipped: the firmware clips int8, a loop clips int16."""
    if sums.out.dtype == "int8":
        return fusion.clamp8(result, sums.out, sums.low, sums.high)
    least, most = -32768, 32767
    if sums.low > least:
        result = relax.op.maximum(result, make_const(np.array(sums.low, np.int16)))
    if sums.high < most:
        if not isinstance(result, relax.Var):
            result = line.emit(result, "_low")
        result = relax.op.minimum(result, make_const(np.array(sums.high, np.int16)))
    return result


def _mmalib(fusion: Fusion, line: Line, sums: Sums, g: Geometry, shape: tuple[int, ...]) -> Any:
    bits = "i8" if sums.out.dtype == "int8" else "i16"
    data, (_, c, h, w) = sums.data.tensor, sums.data.shape
    o, _, kh, kw = sums.weights.shape
    top, left, bottom, right = g.padding
    if sums.data.params.zero != 0 and any(g.padding):
        # The wrapper pads with the integer 0; real zero is the zero point.
        attrs = {"padding": [top, left, bottom, right], "value": sums.data.params.zero}
        h, w = h + top + bottom, w + left + right
        margin = make_kernel("qpad", (data,), attrs, tensor_type((sums.data.shape[0], c, h, w), sums.out.dtype))
        data = line.emit(margin, "_padded")
        top, left, bottom, right = 0, 0, 0, 0
    window = [kh, kw, *g.strides, top, bottom, left, right]
    if g.groups == c > 1:
        symbol, scalars = f"mmalib_depthwise_conv2d_{bits}", [c, h, w, *window, c]
    elif g.groups > 1:
        symbol, scalars = "mmalib_conv2d_i8_grouped_loop", [c, h, w, o, *window, g.groups]
    else:
        symbol, scalars = f"mmalib_conv2d_{bits}", [c, h, w, o, *window]
    macs = int(np.prod(shape)) * int(np.prod(sums.weights.shape[1:]))
    call = fusion.firmware(
        symbol, [data, *mmalib_constants(sums)], scalars, tensor_type(shape, sums.out.dtype), macs=macs
    )
    return clipped_result(fusion, line, line.main(call), sums)
