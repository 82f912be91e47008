"""What every firmware kernel computes, in numpy, written from kernels.md and not from the C.

One function per kernel, named after it; each takes the kernel's inputs as arrays and its scalars by name, and returns
the outputs. Integers are Python's, or int64 where that cannot overflow; float32 expressions go operation by operation
from the left. ``vector=True`` is the board's rule for whole vectors of eight where kernels.md marks a kernel V.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray
F = np.float32

# --- section 1.1 ------------------------------------------------------------------------------------------------------


def sat(v: Array, bits: int) -> Array:
    limit = 1 << (bits - 1)
    out: Array = np.clip(v, -limit, limit - 1).astype(f"int{bits}")
    return out


def trunc(v: Array | np.float32) -> Array:
    """C's float to int32, saturating; NaN is 0."""
    wide = np.nan_to_num(np.asarray(v, np.float64), nan=0.0, posinf=2.0**31, neginf=-(2.0**31))
    return np.clip(np.trunc(wide), -(2.0**31), 2.0**31 - 1).astype(np.int64)


def asr(v: Array | int, n: int) -> Array:
    """Floor of v / 2^n, for integers of any size."""
    exact = np.asarray(v, dtype=object)
    return np.asarray(np.vectorize(lambda x: int(x) >> n, otypes=[object])(exact) if exact.size else exact)


def clamp_integers(v: Array, bits: int) -> Array:
    """``sat`` for arrays of Python integers."""
    limit = 1 << (bits - 1)
    out = np.array([max(-limit, min(limit - 1, int(x))) for x in np.ravel(v)], dtype=f"int{bits}")
    return out.reshape(np.shape(v))


def dq(x: Array, zx: int, sx: float) -> Array:
    out: Array = (x.astype(np.int64) - zx).astype(F) * F(sx)
    return out


def rq(y: Array, zy: int, sy: float) -> Array:
    return sat(trunc(y / F(sy) + F(0.5)) + zy, 8)


def rq_vector(y: Array, zy: int, sy: float) -> Array:
    scaled = y * (F(1) / F(sy)) + F(zy)
    return sat(np.rint(np.nan_to_num(np.clip(scaled, -128, 127), nan=0.0)).astype(np.int64), 8)


def q13(ratio: np.float32) -> int:
    return int(trunc(F(ratio) * F(8192) + F(0.5)))


def exp(x: Array) -> Array:
    return np.exp(x.astype(np.float64)).astype(F)


def exp_vector(x: Array) -> Array:
    t = x * F(1.44269504090)
    k = np.rint(t)
    with np.errstate(invalid="ignore"):
        f = (t - k) * F(math.log(2.0))
    f2 = f * f
    poly = F(1) + f + f2 * F(0.5) + F(0.1666667) * (f2 * f) + F(0.0416667) * (f2 * f2)
    value = np.ldexp(poly, np.clip(np.nan_to_num(k), -28, 28).astype(np.int32))
    return np.where(k < -28, F(0), np.where(k > 28, np.finfo(F).max, value)).astype(F)


def reciprocal_vector(x: Array) -> Array:
    """Two Newton steps from a seed with eight bits of mantissa."""
    seed = ((F(1) / x).view(np.uint32) & np.uint32(0xFFFF8000)).view(F)
    for _ in range(2):
        seed = seed * (F(2) - x * seed)
    return seed


def by_rule(x: Array, vector: bool, whole: Callable[[Array], Array], rest: Callable[[Array], Array]) -> Array:
    """The last axis: whole vectors of eight by ``whole`` under the vector rule, the others by ``rest``."""
    head = x.shape[-1] // 8 * 8 if vector else 0
    return np.concatenate([whole(x[..., :head]), rest(x[..., head:])], axis=-1)


# --- section 2 --------------------------------------------------------------------------------------------------------


def _gelu(x: Array) -> Array:
    erf = np.array([math.erf(float(v)) for v in np.ravel(x / F(math.sqrt(2.0)))], F).reshape(x.shape)
    out: Array = F(0.5) * x * (F(1) + erf)
    return out


def _silu(x: Array) -> Array:
    out: Array = x / (F(1) + exp(-x))
    return out


def _silu_vector(x: Array) -> Array:
    out: Array = x * reciprocal_vector(F(1) + exp_vector(-x))
    return out


def _hardswish(x: Array) -> Array:
    out: Array = x * np.clip(x + F(3), F(0), F(6)) / F(6)
    return out


def _hardsigmoid(x: Array) -> Array:
    return np.clip(x / F(6) + F(0.5), F(0), F(1))


def c7x_int8_gelu(x: Array, *, zx: int, sx: float, zy: int, sy: float, vector: bool = False) -> Array:
    return rq(_gelu(dq(x, zx, sx)), zy, sy)


def c7x_int8_silu(x: Array, *, zx: int, sx: float, zy: int, sy: float, vector: bool = False) -> Array:
    return by_rule(dq(x, zx, sx), vector, lambda v: rq_vector(_silu_vector(v), zy, sy), lambda v: rq(_silu(v), zy, sy))


def c7x_int8_hardswish(x: Array, *, zx: int, sx: float, zy: int, sy: float, vector: bool = False) -> Array:
    return by_rule(
        dq(x, zx, sx), vector, lambda v: rq_vector(_hardswish(v), zy, sy), lambda v: rq(_hardswish(v), zy, sy)
    )


def c7x_int8_hardsigmoid(x: Array, *, zx: int, sx: float, zy: int, sy: float, vector: bool = False) -> Array:
    return rq(_hardsigmoid(dq(x, zx, sx)), zy, sy)


def c7x_int8_silu_f32out(x: Array, *, zx: int, sx: float, vector: bool = False) -> Array:
    return by_rule(dq(x, zx, sx), vector, _silu_vector, _silu)


def c7x_int8_relu(x: Array, *, clip_lo: int) -> Array:
    return sat(np.maximum(x.astype(np.int64), clip_lo), 8)


def c7x_int8_clamp(x: Array, *, lo: int, hi: int) -> Array:
    return sat(np.minimum(np.maximum(x.astype(np.int64), lo), hi), 8)


def c7x_int8_requantize_clamp(x: Array, *, combined_scale: float, lo: int, hi: int) -> Array:
    scaled = (x.astype(np.int64) * q13(F(combined_scale))) >> 13
    return sat(np.minimum(np.maximum(scaled, lo), hi), 8)


def c7x_int8_rescale(x: Array, *, zx: int, sx: float, zy: int, sy: float) -> Array:
    if zx == zy and F(sx) == F(sy):
        return x.copy()
    with np.errstate(all="ignore"):
        q = q13(F(sx) / F(sy))
    return clamp_integers(asr(x.astype(object) * q, 13) + (zy - ((zx * q) >> 13)), 8)


def _quantize(x: Array, inv_scale: float, offset: float, vector: bool) -> Array:
    def away(v: Array) -> Array:
        wide = np.clip(np.nan_to_num(v.astype(np.float64)), -1000, 1000)
        return sat(np.trunc(wide + np.copysign(0.5, wide)).astype(np.int64), 8)

    def even(v: Array) -> Array:
        return sat(np.rint(np.clip(np.nan_to_num(v), -1000, 1000)).astype(np.int64), 8)

    return by_rule(x * F(inv_scale) + F(offset), vector, even, away)


def c7x_int8_quantize(x: Array, *, inv_scale: float, zp: int, vector: bool = False) -> Array:
    return _quantize(x, inv_scale, zp, vector)


def c7x_int8_quantize_rgb(
    x: Array, *, inv_scales: Sequence[float], offsets: Sequence[float], vector: bool = False
) -> Array:
    """x [N, 3, HW]."""
    planes = [_quantize(x[:, c], inv_scales[c], offsets[c], vector) for c in range(3)]
    return np.stack(planes, axis=1)


def c7x_int8_channel_scale_multiply(
    excitation: Array, x: Array, *, s_exc: float, z_exc: int, s_feat: float, z_feat: int, s_out: float, z_out: int
) -> Array:
    """excitation [C], x [C, HW]."""
    out = np.empty_like(x)
    for c in range(x.shape[0]):
        q = q13(F(int(excitation[c]) - z_exc) * F(s_exc) * F(s_feat) / F(s_out))
        out[c] = clamp_integers(asr(x[c].astype(object) * q, 13) + z_out - ((z_feat * q) >> 13), 8)
    return out


# --- section 3 --------------------------------------------------------------------------------------------------------


def _windows(
    x: Array, out_hw: tuple[int, int], k: tuple[int, int], s: tuple[int, int], p: tuple[int, int], fill: int
) -> Array:
    """int64 [N, C, H_out, W_out, kH * kW], taps outside the plane being ``fill``."""
    n, c, h, w = x.shape
    below = max(0, (out_hw[0] - 1) * s[0] + k[0] - p[0] - h)
    right = max(0, (out_hw[1] - 1) * s[1] + k[1] - p[1] - w)
    padded = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (p[0], below), (p[1], right)), constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(padded, k, axis=(2, 3))
    view = view[:, :, : (out_hw[0] - 1) * s[0] + 1 : s[0], : (out_hw[1] - 1) * s[1] + 1 : s[1]]
    return view.reshape(n, c, *out_hw, k[0] * k[1])


def c7x_int8_max_pool(
    x: Array, *, out_hw: tuple[int, int], k: tuple[int, int], s: tuple[int, int], p: tuple[int, int], fill: int = -128
) -> Array:
    out: Array = _windows(x, out_hw, k, s, p, fill).max(axis=-1).astype(np.int8)
    return out


def c7x_int8_max_pool_tidl(
    x: Array, *, out_hw: tuple[int, int], k: tuple[int, int], s: tuple[int, int], p: tuple[int, int]
) -> Array:
    return c7x_int8_max_pool(x, out_hw=out_hw, k=k, s=s, p=p, fill=0)


def c7x_int8_global_avg_pool(x: Array, *, zx: int, sx: float, zy: int, sy: float) -> Array:
    n, c, h, w = x.shape
    total = (x.astype(np.int64) - zx).reshape(n, c, h * w).sum(axis=-1)
    return rq(total.astype(F) * (F(sx) / F(h * w)), zy, sy)


def c7x_int8_avg_pool(
    x: Array, *, out_hw: tuple[int, int], k: tuple[int, int], s: tuple[int, int], p: tuple[int, int],
    zx: int, sx: float, zy: int, sy: float,
) -> Array:  # fmt: skip
    total = _windows(x.astype(np.int64) - zx, out_hw, k, s, p, 0).sum(axis=-1)
    out = rq(total.astype(F) * (F(sx) / F(k[0] * k[1])), zy, sy)
    shape_of_fast_path = (k, s, p, out_hw) == ((3, 3), (1, 1), (1, 1), x.shape[2:])
    if shape_of_fast_path and all(3 <= d <= 40 for d in out_hw):
        q = q13(F(sx) / F(9) / F(sy))
        inner = asr(total[:, :, 1:-1, 1:-1].astype(object) * q, 13) + zy
        out[:, :, 1:-1, 1:-1] = clamp_integers(inner, 8)
    return out


def _running_sum(x: Array) -> Array:
    """Sum of the last axis in index order, one rounding a step."""
    total = np.zeros(x.shape[:-1], F)
    for i in range(x.shape[-1]):
        total = total + x[..., i]
    return total[..., None]


def c7x_int8_layer_norm(
    x: Array, weight: Array, bias: Array, *, eps: float, zx: int, sx: float, zy: int, sy: float
) -> Array:
    """x [outer, norm]."""
    v = dq(x, zx, sx)
    n = F(x.shape[-1])
    d = v - _running_sum(v) / n
    var = _running_sum(d * d) / n
    return rq(d / np.sqrt(var + F(eps)) * weight + bias, zy, sy)


def c7x_int8_resize2d_nearest2x(x: Array) -> Array:
    return x.repeat(2, axis=-1).repeat(2, axis=-2)


def c7x_int8_fpn_upsample_concat(
    in1: Array, in2: Array, *, z1: int, s1: float, z2: int, s2: float, s_out: float, z_out: int
) -> Array:
    first = c7x_int8_resize2d_nearest2x(rq(_silu(dq(in1, z1, s1)), z_out, s_out))
    return np.concatenate([first, rq(dq(in2, z2, s2), z_out, s_out)])


def c7x_int8_fpn_upsample_concat_ex(in1: Array, in2: Array, *, z1: int, s1: float, **rest: Any) -> tuple[Array, Array]:
    return c7x_int8_fpn_upsample_concat(in1, in2, z1=z1, s1=s1, **rest), _silu(dq(in1, z1, s1))


def c7x_int8_concat_rescale(sources: Sequence[tuple[Array, float, int]], *, s_out: float, z_out: int) -> Array:
    """Sources (x [C, HW], scale, zero point)."""
    return np.concatenate([c7x_int8_rescale(x, zx=z, sx=s, zy=z_out, sy=s_out) for x, s, z in sources])


def c7x_int8_concat_sigmoid(sources: Sequence[tuple[Array, float, int]]) -> Array:
    """Sources (x [C, n], scale, zero point)."""
    return np.concatenate([F(1) / (F(1) + exp(-dq(x, z, s))) for x, s, z in sources], axis=-1)


def c7x_int8_dfl_softmax(x: Array, *, zx: int, sx: float, zy: int, sy: float) -> Array:
    """x [B, A, K, N] -> [B, K, A, N]."""
    v = dq(x, zx, sx)
    e = exp(v - v.max(axis=2, keepdims=True))
    total = np.moveaxis(_running_sum(np.moveaxis(e, 2, -1)), -1, 2)
    return rq(np.ascontiguousarray((e / total).transpose(0, 2, 1, 3)), zy, sy)


# --- section 4 --------------------------------------------------------------------------------------------------------


def _residual_add(
    x: Array, skip: Array, m: tuple[int, int], shift: int, zp: tuple[int, int, int], relu: bool, bits: int
) -> Array:
    total = (x.astype(object) - zp[0]) * m[0] + (skip.astype(object) - zp[1]) * m[1]
    v = asr(total, shift) + zp[2]
    return clamp_integers(np.maximum(v, 0) if relu and v.size else v, bits)


def c7x_int8_residual_add_relu(
    x: Array, skip: Array, *, m: tuple[int, int], shift: int, zp: tuple[int, int, int], relu: bool
) -> Array:
    return _residual_add(x, skip, m, shift, zp, relu, 8)


def c7x_int16_residual_add_relu(
    x: Array, skip: Array, *, m: tuple[int, int], shift: int, zp: tuple[int, int, int], relu: bool
) -> Array:
    return _residual_add(x, skip, m, shift, zp, relu, 16)


# --- section 5 --------------------------------------------------------------------------------------------------------


def c7x_dequantize_vecmatmul(activation: Array, weights: Array, scale: Array) -> Array:
    total = np.zeros((activation.shape[0], weights.shape[0]), F)
    for k in range(activation.shape[1]):
        total = total + activation[:, k, None] * weights[:, k].astype(F)
    return scale * total


def c7x_sdpa_decode(q: Array, k_cache: Array, v_cache: Array, mask: Array) -> Array:
    """q [q_heads, dim], caches [kv_heads, len, dim], mask [len]."""
    share = q.shape[0] // k_cache.shape[0]
    k, v = (np.repeat(t, share, axis=0) for t in (k_cache, v_cache))
    with np.errstate(invalid="ignore"):
        score = _running_sum(q[:, None, :] * k)[..., 0] * (F(1) / np.sqrt(F(q.shape[1]))) + mask
        e = exp(score - score.max(axis=1, keepdims=True))
        weight = e / _running_sum(e)
    return _running_sum((weight[..., None] * v).transpose(0, 2, 1))[..., 0]


def c7x_topk(x: Array, k: int) -> tuple[Array, Array]:
    """x [batch, n]; equal values by index, NaN first."""

    def first(row: Array) -> list[int]:
        return sorted(range(row.size), key=lambda i: (not math.isnan(row[i]), -row[i], i))[:k]

    order = [first(row) for row in x]
    indices = np.array(order, np.int64).reshape(x.shape[0], k)
    return np.take_along_axis(x, indices, axis=1), indices


# --- section 6 --------------------------------------------------------------------------------------------------------


def _saturate64(v: int) -> int:
    return max(-(1 << 63), min((1 << 63) - 1, v))


def quantised_output(
    a: Array, bias: Array | None, scale: Array | None, shift: Array | None, bits: int, *, signed_scale: bool = False
) -> Array:
    """QR on sums a [channels, ...]; the sum of int8 data is an int32."""
    rows = []
    for c in range(a.shape[0]):
        b = 0 if bias is None else int(bias[c])
        factor = 1 if scale is None else int(scale[c].astype(np.int8) if signed_scale else scale[c])
        n = 0 if shift is None else int(shift[c])
        half = 1 << (n - 1) if n else 0
        row = []
        for value in np.ravel(a[c]):
            total = int(value)
            if bits == 8:
                total = (total + (1 << 31)) % (1 << 32) - (1 << 31)
            p = _saturate64(_saturate64(total + b) * factor)
            r = 0 if n > 63 else _saturate64(p + half) >> n
            row.append(r)
        rows.append(clamp_integers(np.array(row, dtype=object), bits).reshape(a.shape[1:]))
    return np.stack(rows)


def _conv_sums(x: Array, w: Array, s: tuple[int, int], pads: tuple[int, int, int, int]) -> Array:
    """Exact sums of x [C, H, W] with w [O, C, KH, KW]; pads top, bottom, left, right."""
    padded = np.pad(x.astype(np.int64), ((0, 0), pads[:2], pads[2:]))
    view = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(1, 2))[:, :: s[0], :: s[1]]
    out: Array = np.einsum("chwij,ocij->ohw", view, w.astype(np.int64))
    return out


def mmalib_conv2d(
    x: Array, w: Array, bias: Array | None, scale: Array | None, shift: Array | None, *, s: tuple[int, int],
    pads: tuple[int, int, int, int], groups: int = 1,
) -> Array:  # fmt: skip
    """conv2d_i8, conv2d_i16, grouped_loop and, with groups = C, depthwise; the width is that of the data."""
    sums = [_conv_sums(xs, ws, s, pads) for xs, ws in zip(np.split(x, groups), np.split(w, groups), strict=True)]
    return quantised_output(np.concatenate(sums), bias, scale, shift, 8 * x.itemsize)


def mmalib_matmul(a: Array, b: Array, shift: int) -> Array:
    total = a.astype(np.int64) @ b.astype(np.int64)
    if a.dtype == np.int8:
        total = total.astype(np.int32)
    return clamp_integers(asr(total, shift), 8 * a.itemsize)


def mmalib_matmul_bias(x: Array, w: Array, bias: Array | None, scale: Array | None, shift: Array | None) -> Array:
    total = w.astype(np.int64) @ x.astype(np.int64).T
    return quantised_output(total, bias, scale, shift, 8 * x.itemsize, signed_scale=True).T
