"""Pools: averages have a quantisation of their own, maxima keep that of their data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from c7x.graph.layout import first
from c7x.graph.line import Line, op_name, shape_of, tensor_type
from c7x.graph.qdq.fusion import Fusion
from c7x.graph.qdq.scales import multiplier_shift
from c7x.graph.qdq.values import Clipped, Params, Quantized, quantized


@dataclass(frozen=True)
class Window:
    """A pooling window over [N,C,H,W]: sizes, strides, padding (top, left, bottom, right), size of the result."""

    pool: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    out: tuple[int, int]
    include_pad: bool


def _ints(values: Any) -> list[int]:
    return [int(v) for v in values]


def _average(call: Any) -> Window | None:
    """The window of an operator that averages; None for any other."""
    shape = shape_of(call.args[0])
    if len(shape) != 4:
        return None
    h, w = shape[2:]
    a = call.attrs
    match op_name(call):
        case "mean":
            axes = sorted(int(x) % 4 for x in a.axis) if a.axis is not None else [0, 1, 2, 3]
            return Window((h, w), (h, w), (0, 0, 0, 0), (1, 1), False) if axes == [2, 3] else None
        case "nn.adaptive_avg_pool2d":
            oh, ow = shape_of(call)[2:]
            if str(a.layout) != "NCHW" or h % oh or w % ow:
                return None
            return Window((h // oh, w // ow), (h // oh, w // ow), (0, 0, 0, 0), (oh, ow), False)
        case "nn.avg_pool2d":
            if str(a.layout) != "NCHW" or any(d != 1 for d in _ints(a.dilation)):
                return None
            pool, strides, padding = _ints(a.pool_size), _ints(a.strides), _ints(a.padding)
            return Window(
                (pool[0], pool[1]),
                (strides[0], strides[1]),
                (padding[0], padding[1], padding[2], padding[3]),
                (shape_of(call)[2], shape_of(call)[3]),
                bool(a.count_include_pad),
            )
    return None


def fuse(fusion: Fusion, line: Line, clip: Clipped, out: Params) -> Any:
    """``quantize(clip(average(dequantize)))``: mean over H and W, adaptive and plain average pools."""
    source, via = clip.source, [clip.source]
    call = line.value(source)
    if op_name(call) == "reshape":
        source = call.args[0]
        via.insert(0, source)
        call = line.value(source)
    if op_name(call) not in ("mean", "nn.adaptive_avg_pool2d", "nn.avg_pool2d"):
        return None
    data = quantized(line, call.args[0])
    window = _average(call)
    if data is None or window is None or data.params.dtype != out.dtype:
        fusion.refuse(line, "an average over other axes than height and width, or of windows of several sizes")
        return None
    ratios = _ratios(window, data, out)
    if ratios is None:
        fusion.refuse(line, "its scales are out of all proportion to the result's")
        return None
    low, high = fusion.bounds(out, clip)
    n, c, h, w = data.shape
    oh, ow = window.out
    shape = shape_of(clip.source)
    line.absorb(data.via, *via, *clip.via[::-1])
    quant = [data.params.zero, data.params.scale, out.zero, out.scale]
    top, left, _bottom, _right = window.padding
    if fusion.on_firmware(line, data.tensor) and out.dtype == "int8":
        ty = tensor_type((n, c, oh, ow), "int8")
        if window.pool == (h, w) and (oh, ow) == (1, 1) and not any(window.padding):
            call = fusion.firmware("c7x_int8_global_avg_pool", [data.tensor], [n, c, h, w, *quant], ty)
        elif len(ratios) == 1 and ratios[0][0] == window.pool[0] * window.pool[1]:
            sizes = [n, c, h, w, oh, ow, *window.pool, *window.strides, top, left]
            call = fusion.firmware("c7x_int8_avg_pool", [data.tensor], [*sizes, *quant], ty)
        else:
            call = None
            fusion.detour(line, "not the firmware's kernel: it divides by the whole window everywhere")
        if call is not None:
            result = fusion.clamp8(line.main(call), out, low, high)
            return _shaped(line, result, shape)
    attrs = {
        "pool": list(window.pool),
        "strides": list(window.strides),
        "padding": list(window.padding),
        "include_pad": window.include_pad,
        "ratios": ratios,
        "x_zero": data.params.zero,
        "y_zero": out.zero,
        "low": low,
        "high": high,
    }
    result = fusion.own(line, "qavg_pool2d", [fusion.last(line, data.tensor)], attrs, (n, oh, ow, c), out.dtype)
    return _shaped(line, first(result), shape)


def _shaped(line: Line, result: Any, shape: tuple[int, ...]) -> Any:
    result = line.normalize(result)
    if shape_of(result) == shape:
        return result
    if not isinstance(result, relax.Var):
        result = line.emit(result, "_pooled")
    return relax.op.reshape(result, shape)


def _counts(window: Window, size: tuple[int, int]) -> list[int]:
    """How many elements the windows divide by, largest first; what is cut off follows ``include_pad``."""
    lengths = []
    for axis in range(2):
        before, after = window.padding[axis], window.padding[axis + 2]
        found = set()
        for index in range(window.out[axis]):
            begin = index * window.strides[axis] - before
            end = begin + window.pool[axis]
            if window.include_pad:
                found.add(min(end, size[axis] + after) - begin)
            else:
                found.add(min(end, size[axis]) - max(begin, 0))
        lengths.append(found)
    return sorted({a * b for a in lengths[0] for b in lengths[1]}, reverse=True)


def _ratios(window: Window, data: Quantized, out: Params) -> list[list[int]] | None:
    counts = _counts(window, (data.shape[2], data.shape[3]))
    if counts[-1] <= 0:
        return None
    fitted = multiplier_shift(data.params.scale / out.scale / np.array(counts, np.float64))
    if fitted is None:
        return None
    return [[count, int(m), int(s)] for count, m, s in zip(counts, *fitted, strict=True)]


def maximum(fusion: Fusion, line: Line, call: Any, data: Quantized) -> Any:
    """The integers of ``max_pool2d(dequantize)``; None when no kernel takes it."""
    a = call.attrs
    if op_name(call) == "nn.max_pool1d":
        return _maximum_of_rows(fusion, line, call, data)
    if str(a.layout) != "NCHW" or len(shape_of(call)) != 4:
        return None
    pool, strides, padding, dilation = (_ints(v) for v in (a.pool_size, a.strides, a.padding, a.dilation))
    n, c, h, w = data.shape
    oh, ow = shape_of(call)[2:]
    if fusion.on_firmware(line, data.tensor) and data.params.dtype == "int8" and dilation == [1, 1]:
        scalars = [n, c, h, w, oh, ow, *pool, *strides, padding[0], padding[1]]
        return line.main(
            fusion.firmware("c7x_int8_max_pool", [data.tensor], scalars, tensor_type(shape_of(call), "int8"))
        )
    attrs = {"pool": pool, "strides": strides, "padding": padding, "dilation": dilation, "x_zero": 0}
    last = fusion.last(line, data.tensor)
    return first(fusion.own(line, "qmax_pool2d", [last], attrs, (n, oh, ow, c), data.params.dtype))


def _maximum_of_rows(fusion: Fusion, line: Line, call: Any, data: Quantized) -> Any:
    """A 1-D pool as one row of an image."""
    a = call.attrs
    if str(a.layout) != "NCW":
        return None
    (pool,), (stride,), (before, after), (dilation,) = (
        _ints(v) for v in (a.pool_size, a.strides, a.padding, a.dilation)
    )
    n, c, w = data.shape
    row = line.emit(relax.op.reshape(fusion.last(line, data.tensor), (n, 1, w, c)), "_row")
    attrs = {
        "pool": [1, pool],
        "strides": [1, stride],
        "padding": [0, before, 0, after],
        "dilation": [1, dilation],
        "x_zero": 0,
    }
    width = shape_of(call)[2]
    result = fusion.own(line, "qmax_pool2d", [row], attrs, (n, 1, width, c), data.params.dtype)
    return first(line.emit(relax.op.reshape(result, (n, width, c)), "_row"))
