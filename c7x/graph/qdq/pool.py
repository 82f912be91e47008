"""Pools: averages have a quantisation of their own, maxima keep that of their data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from c7x.graph.layout import first
from c7x.graph.line import Line, op_name, shape_of, tensor_type
from c7x.graph.qdq.fusion import Fusion
from c7x.graph.qdq.scales import multiplier_shift
from c7x.graph.qdq.values import Clipped, Params, Quantized, quantized
from c7x.graph.simplify import RESHAPES


@dataclass(frozen=True)
class Window:
    """A pooling window over [N,C,H,W]: sizes, strides, padding (top, left, bottom, right), size of the result.

    ``uneven`` windows part an axis of size n into ``out`` pieces that may overlap by one, piece i from floor(i n / out)
    to ceil((i + 1) n / out), as PyTorch's adaptive pools do; ``pool`` is then the largest, and strides have no meaning.
    """

    pool: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    out: tuple[int, int]
    include_pad: bool
    uneven: bool = False


def _ints(values: Any) -> list[int]:
    return [int(v) for v in values]


def _average(call: Any) -> Window | None:
    """The window of an operator that averages over an image or a row; None for any other."""
    shape = shape_of(call.args[0])
    a = call.attrs
    match op_name(call):
        case "mean":
            axes = _mean_axes(call)
            if axes == list(range(2, len(shape))) and len(shape) in (3, 4):
                return _even(shape[2:], (1,) * (len(shape) - 2))
        case "nn.adaptive_avg_pool1d" | "nn.adaptive_avg_pool2d":
            if str(a.layout) in ("NCW", "NCHW"):
                return _adaptive(shape[2:], shape_of(call)[2:])
        case "nn.avg_pool1d" | "nn.avg_pool2d":
            if str(a.layout) not in ("NCW", "NCHW") or any(d != 1 for d in _ints(a.dilation)):
                return None
            pool, strides, padding, out = _ints(a.pool_size), _ints(a.strides), _ints(a.padding), shape_of(call)[2:]
            if len(pool) == 1:
                (before, after) = padding
                pool, strides, padding, out = [1, *pool], [1, *strides], [0, before, 0, after], (1, *out)
            return Window(
                (pool[0], pool[1]),
                (strides[0], strides[1]),
                (padding[0], padding[1], padding[2], padding[3]),
                (out[0], out[1]),
                bool(a.count_include_pad),
            )
    return None


def _mean_axes(call: Any) -> list[int]:
    rank = len(shape_of(call.args[0]))
    return sorted(int(x) % rank for x in call.attrs.axis) if call.attrs.axis is not None else list(range(rank))


def _even(sizes: tuple[int, ...], out: tuple[int, ...]) -> Window:
    """Windows that part an image, or a row, into ``out`` equal pieces."""
    (h, w), (oh, ow) = ((1, *v)[-2:] for v in (sizes, out))
    return Window((h // oh, w // ow), (h // oh, w // ow), (0, 0, 0, 0), (oh, ow), False)


def _adaptive(sizes: tuple[int, ...], out: tuple[int, ...]) -> Window:
    if not any(d % o for d, o in zip(sizes, out, strict=True)):
        return _even(sizes, out)
    (h, w), (oh, ow) = ((1, *v)[-2:] for v in (sizes, out))
    largest = (max(_pieces(h, oh)), max(_pieces(w, ow)))
    return Window(largest, (1, 1), (0, 0, 0, 0), (oh, ow), False, uneven=True)


def _pieces(size: int, out: int) -> set[int]:
    """Lengths of the windows of an uneven pool."""
    return {-(-(i + 1) * size // out) - i * size // out for i in range(out)}


#: Operators that average.
AVERAGES = ("mean", "nn.adaptive_avg_pool1d", "nn.adaptive_avg_pool2d", "nn.avg_pool1d", "nn.avg_pool2d")


def fuse(fusion: Fusion, line: Line, clip: Clipped, out: Params) -> Any:
    """``quantize(clip(average(dequantize)))``: means over neighbouring axes, adaptive and plain average pools."""
    source, via = clip.source, [clip.source]
    call = line.value(source)
    if op_name(call) in RESHAPES:
        source = call.args[0]
        via.insert(0, source)
        call = line.value(source)
    if op_name(call) not in AVERAGES:
        return None
    data = quantized(line, call.args[0])
    if data is None or data.params.dtype != out.dtype:
        fusion.refuse(line, f"an average of what is not {out.dtype} per tensor")
        return None
    low, high = fusion.bounds(out, clip)
    shape = shape_of(clip.source)
    absorbed = (data.via, *via, *clip.via[::-1])
    window = _average(call)
    if window is None:
        flat = _flat_mean(call)
        if flat is None:
            fusion.refuse(line, "an average over axes that are no neighbours")
            return None
        window, view = flat
        ratios = _ratios(window, view[1:3], data, out)
        if ratios is not None:
            line.absorb(*absorbed)
            rows = line.emit(relax.op.reshape(data.tensor, view), "_rows")
            attrs = _attrs(window, ratios, data, out, low, high)
            result = fusion.own(line, "qavg_pool2d", [rows], attrs, (view[0], 1, 1, view[3]), out.dtype)
            return _shaped(line, result, shape)
    else:
        n, c, *sizes = data.shape
        h, w = (1, *sizes)[-2:]
        ratios = _ratios(window, (h, w), data, out)
        if ratios is not None:
            line.absorb(*absorbed)
            call = _firmware(fusion, line, window, ratios, data, out)
            if call is not None:
                return _shaped(line, fusion.clamp8(line.main(call), out, low, high), shape)
            attrs = _attrs(window, ratios, data, out, low, high)
            result_shape = (n, *window.out, c)
            image = _last(fusion, line, data.tensor)
            result = fusion.own(line, "qavg_pool2d", [image], attrs, result_shape, out.dtype)
            return _shaped(line, _first(line, result, len(data.shape)), shape)
    fusion.refuse(line, "its scales are out of all proportion to the result's")
    return None


def _flat_mean(call: Any) -> tuple[Window, tuple[int, int, int, int]] | None:
    """A mean over neighbouring axes as a pool over the rows of [outer, 1, axes, inner]; None when there are others in
    between."""
    if op_name(call) != "mean":
        return None
    shape, axes = shape_of(call.args[0]), _mean_axes(call)
    if not axes or axes != list(range(axes[0], axes[-1] + 1)):
        return None
    outer, run, inner = (
        math.prod(part) for part in (shape[: axes[0]], shape[axes[0] : axes[-1] + 1], shape[axes[-1] + 1 :])
    )
    return _even((run,), (1,)), (outer, 1, run, inner)


def _firmware(fusion: Fusion, line: Line, window: Window, ratios: list[list[int]], data: Quantized, out: Params) -> Any:
    """The call of the firmware's kernel; None when it is not asked, or does not take the window."""
    if not fusion.on_firmware(line, data.tensor) or out.dtype != "int8":
        return None
    if window.uneven:
        fusion.detour(line, "not the firmware's kernel: its windows have several sizes")
        return None
    n, c, *sizes = data.shape
    h, w = (1, *sizes)[-2:]
    top, left, _bottom, _right = window.padding
    quant = [data.params.zero, data.params.scale, out.zero, out.scale]
    ty = tensor_type((n, c, *window.out), "int8")
    if window.pool == (h, w) and window.out == (1, 1) and not any(window.padding):
        return fusion.firmware("c7x_int8_global_avg_pool", [data.tensor], [n, c, h, w, *quant], ty)
    if len(ratios) == 1 and ratios[0][0] == window.pool[0] * window.pool[1]:
        scalars = [n, c, h, w, *window.out, *window.pool, *window.strides, top, left, *quant]
        return fusion.firmware("c7x_int8_avg_pool", [data.tensor], scalars, ty)
    fusion.detour(line, "not the firmware's kernel: it divides by the whole window everywhere")
    return None


def _attrs(
    window: Window, ratios: list[list[int]], data: Quantized, out: Params, low: int, high: int
) -> dict[str, Any]:
    return {
        "pool": list(window.pool),
        "strides": list(window.strides),
        "padding": list(window.padding),
        "include_pad": window.include_pad,
        "uneven": window.uneven,
        "ratios": ratios,
        "x_zero": data.params.zero,
        "y_zero": out.zero,
        "low": low,
        "high": high,
    }


def _last(fusion: Fusion, line: Line, tensor: Any) -> Any:
    """[N,C,H,W] channels last; [N,C,W] as an image of one row."""
    last = fusion.last(line, tensor)
    shape = shape_of(last)
    return last if len(shape) == 4 else line.emit(relax.op.reshape(last, (shape[0], 1, *shape[1:])), "_row")


def _first(line: Line, result: Any, rank: int) -> Any:
    """What ``_last`` did, taken back."""
    if rank == 4:
        return first(result)
    n, _, w, c = shape_of(result)
    return first(line.emit(relax.op.reshape(result, (n, w, c)), "_row"))


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
        if window.uneven:
            lengths.append(_pieces(size[axis], window.out[axis]))
            continue
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


def _ratios(window: Window, size: tuple[int, int], data: Quantized, out: Params) -> list[list[int]] | None:
    counts = _counts(window, size)
    if counts[-1] <= 0:
        return None
    fitted = multiplier_shift(data.params.scale / out.scale / np.array(counts, np.float64))
    if fitted is None:
        return None
    return [[count, int(m), int(s)] for count, m, s in zip(counts, *fitted, strict=True)]


def maximum(fusion: Fusion, line: Line, call: Any, data: Quantized) -> Any:
    """The integers of a maximum pool over ``dequantize``, an image or a row; None when no kernel takes it."""
    a = call.attrs
    if str(a.layout) not in ("NCW", "NCHW"):
        return None
    pool, strides, padding, dilation = (_ints(v) for v in (a.pool_size, a.strides, a.padding, a.dilation))
    out = list(shape_of(call)[2:])
    n, c, *sizes = data.shape
    if len(sizes) == 1:
        pool, strides, dilation, out, sizes = ([1, *v] for v in (pool, strides, dilation, out, sizes))
        padding = [0, padding[0], 0, padding[1]]
    elif fusion.on_firmware(line, data.tensor) and data.params.dtype == "int8" and dilation == [1, 1]:
        scalars = [n, c, *sizes, *out, *pool, *strides, padding[0], padding[1]]
        return line.main(
            fusion.firmware("c7x_int8_max_pool", [data.tensor], scalars, tensor_type(shape_of(call), "int8"))
        )
    attrs = {"pool": pool, "strides": strides, "padding": padding, "dilation": dilation, "x_zero": 0}
    image = _last(fusion, line, data.tensor)
    result = fusion.own(line, "qmax_pool2d", [image], attrs, (n, *out, c), data.params.dtype)
    return _first(line, result, len(data.shape))
