"""Numpy models of the generated integer kernels, from their contract (c7x/codegen/kernels/int8_common.py) and not from
their text: sums in int64, ratios in Python's integers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def ratio(sums: np.ndarray, multiplier: Any, shift: Any) -> np.ndarray:
    """floor((sum * multiplier + 2^(shift - 1)) / 2^shift) without any limit on the size of numbers."""
    largest = int(np.abs(sums).max(initial=0)) * int(np.max(multiplier)) + (1 << (int(np.max(shift)) - 1))
    if largest < 2**63:
        s64 = np.asarray(shift).astype(np.int64)
        return np.asarray((sums * np.asarray(multiplier).astype(np.int64) + (np.int64(1) << (s64 - 1))) >> s64)
    m = np.asarray(multiplier).astype(object)
    s = np.asarray(shift).astype(object)
    half = np.vectorize(lambda k: 1 << (int(k) - 1), otypes=[object])(s)
    whole = np.vectorize(lambda k: 1 << int(k), otypes=[object])(s)
    return np.asarray((sums.astype(object) * m + half) // whole)


def clamp(values: np.ndarray, attrs: Mapping[str, Any], dtype: Any) -> np.ndarray:
    shifted = values + attrs["y_zero"]
    return np.asarray(np.minimum(np.maximum(shifted, attrs["low"]), attrs["high"])).astype(dtype)


def conv2d(attrs: Mapping[str, Any], inputs: Sequence[np.ndarray], out_shape: Sequence[int]) -> np.ndarray:
    """[N,H,W,C] data, [O,C/g,KH,KW] weight, and per output channel bias, multiplier, shift."""
    data, weight, bias, multiplier, shift = inputs
    top, left, bottom, right = attrs["padding"]
    (sh, sw), (dh, dw), groups = attrs["strides"], attrs["dilation"], attrs["groups"]
    x = np.pad(data.astype(np.int64) - attrs["x_zero"], ((0, 0), (top, bottom), (left, right), (0, 0)))
    o, cg, kh, kw = weight.shape
    n, oh, ow, _ = out_shape
    sums = np.zeros((n, oh, ow, o), np.int64)
    og = o // groups
    for g in range(groups):
        w = weight[g * og : (g + 1) * og].astype(np.int64)
        for r in range(kh):
            for q in range(kw):
                view = x[:, r * dh :, q * dw :, g * cg : (g + 1) * cg]
                view = view[:, : (oh - 1) * sh + 1 : sh, : (ow - 1) * sw + 1 : sw]
                sums[..., g * og : (g + 1) * og] += view @ w[:, :, r, q].T
    return clamp(ratio(sums + bias, multiplier, shift), attrs, data.dtype)


def add(attrs: Mapping[str, Any], inputs: Sequence[np.ndarray], _shape: Sequence[int]) -> np.ndarray:
    a, b = (t.astype(np.int64) for t in inputs)
    sums = (a - attrs["a_zero"]) * attrs["a_mul"] + (b - attrs["b_zero"]) * attrs["b_mul"]
    return clamp(ratio(sums, 1, attrs["shift"]), attrs, inputs[0].dtype)


def mul(attrs: Mapping[str, Any], inputs: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
    a, b = (t.astype(np.int64) for t in inputs)
    if "inner" in attrs:
        a = a.reshape(-1, attrs["inner"], attrs["channels"])
        b = b.reshape(-1, 1, attrs["channels"])
    sums = (a - attrs["a_zero"]) * (b - attrs["b_zero"])
    return clamp(ratio(sums, attrs["mul"], attrs["shift"]), attrs, inputs[0].dtype).reshape(shape)


def _windows(attrs: Mapping[str, Any], size: tuple[int, int], out: tuple[int, int]) -> Any:
    if attrs.get("uneven"):
        for oy, ox in itertools.product(range(out[0]), range(out[1])):
            ys, xs = (
                list(range(math.floor(o * n / k), math.ceil((o + 1) * n / k)))
                for o, n, k in ((oy, size[0], out[0]), (ox, size[1], out[1]))
            )
            yield oy, ox, ys, xs, ys, xs
        return
    (kh, kw), (sh, sw) = attrs["pool"], attrs["strides"]
    dh, dw = attrs.get("dilation", (1, 1))
    top, left = attrs["padding"][:2]
    for oy in range(out[0]):
        ys = [oy * sh - top + r * dh for r in range(kh)]
        for ox in range(out[1]):
            xs = [ox * sw - left + q * dw for q in range(kw)]
            yield oy, ox, [y for y in ys if 0 <= y < size[0]], [x for x in xs if 0 <= x < size[1]], ys, xs


def avg_pool2d(attrs: Mapping[str, Any], inputs: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
    (data,) = inputs
    _, h, w, _ = data.shape
    _, _, bottom, right = attrs["padding"]
    x = data.astype(np.int64) - attrs["x_zero"]
    ratios = {count: (m, s) for count, m, s in attrs["ratios"]}
    result = np.zeros(shape, data.dtype)
    for oy, ox, ys, xs, all_ys, all_xs in _windows(attrs, (h, w), (shape[1], shape[2])):
        sums = x[:, ys][:, :, xs].sum(axis=(1, 2))
        count = len(ys) * len(xs)
        if attrs["include_pad"]:
            count = sum(y < h + bottom for y in all_ys) * sum(v < w + right for v in all_xs)
        result[:, oy, ox] = clamp(ratio(sums, *ratios[count]), attrs, data.dtype)
    return result


def max_pool2d(attrs: Mapping[str, Any], inputs: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
    (data,) = inputs
    lowest = np.iinfo(data.dtype).min
    result = np.full(shape, lowest, data.dtype)
    for oy, ox, ys, xs, _, _ in _windows(attrs, data.shape[1:3], (shape[1], shape[2])):
        if ys and xs:
            result[:, oy, ox] = data[:, ys][:, :, xs].max(axis=(1, 2))
    return result


def pad(attrs: Mapping[str, Any], inputs: Sequence[np.ndarray], _shape: Sequence[int]) -> np.ndarray:
    top, left, bottom, right = attrs["padding"]
    return np.pad(inputs[0], ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=attrs["value"])


def table(attrs: Mapping[str, Any], inputs: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
    data, entries = inputs
    channels, inner = attrs.get("channels", 1), attrs.get("inner", 1)
    view = data.reshape(-1, channels, inner).view(np.uint8)
    tables = entries.reshape(channels, 256)
    return np.asarray(tables[np.arange(channels)[None, :, None], view]).reshape(shape)


def batch_matmul(attrs: Mapping[str, Any], inputs: Sequence[np.ndarray], _shape: Sequence[int]) -> np.ndarray:
    a, b = (t.astype(np.int64) for t in inputs)
    b = b.transpose(0, 2, 1) if attrs["transpose_b"] else b
    sums = (a - attrs["a_zero"]) @ (b - attrs["b_zero"])
    return clamp(ratio(sums, attrs["mul"], attrs["shift"]), attrs, inputs[0].dtype)


MODELS = {
    "c7x.qadd": add,
    "c7x.qavg_pool2d": avg_pool2d,
    "c7x.qbatch_matmul": batch_matmul,
    "c7x.qconv2d": conv2d,
    "c7x.qmax_pool2d": max_pool2d,
    "c7x.qmul": mul,
    "c7x.qpad": pad,
    "c7x.qtable": table,
}


def multiplier_and_shift(value: float) -> tuple[int, int]:
    """A ratio as a 31-bit multiplier and a shift."""
    mantissa, exponent = math.frexp(value)
    multiplier = round(mantissa * 2**31)
    if multiplier == 2**31:
        multiplier, exponent = 2**30, exponent + 1
    return multiplier, 31 - exponent
