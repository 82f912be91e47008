"""Numbers of requantisation: ratios as integers, for our own kernels and for the firmware's."""

from __future__ import annotations

import math

import numpy as np

from c7x.graph.qdq.values import LIMITS

#: Own kernels: a multiplier has 31 bits, and the rounding term of a shift must fit 63.
MULTIPLIER_BITS = 31
MAX_SHIFT = 62

#: Sums of two int8 operands: 255 * 2^21 * 2 fits an int32 together with the rounding term.
ADD_BITS = {"int8": 21, "int16": 31}

#: MMALIB: scale 1..127 (the matrix product reads it with a sign), shift 0..31 (kernels.md 6.1).
MMALIB_SCALES = np.arange(1, 128, dtype=np.float64)
MMALIB_SHIFTS = np.arange(32, dtype=np.float64)

#: Largest relative error of a ratio that MMALIB's eight bits may have. int8 results can be off by one for it; an int16
#: result would be off by a hundred, so there only ratios that eight bits hold are taken (power-of-two scales).
MMALIB_ERROR = {"int8": 2.0**-7, "int16": 2.0**-16}


def multiplier_shift(ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Positive ratios as multiplier / 2^shift: int32 of 31 bits, and int32 shifts of at most 62; None when a ratio is
    so large that a shift of less than 17 would be needed, or not positive and finite."""
    ratios = np.asarray(ratios, np.float64)
    if not (np.isfinite(ratios).all() and (ratios > 0).all()):
        return None
    mantissa, exponent = np.frexp(ratios)
    multiplier = np.rint(mantissa * 2.0**MULTIPLIER_BITS).astype(np.int64)
    carried = multiplier == 1 << MULTIPLIER_BITS
    multiplier = np.where(carried, multiplier >> 1, multiplier)
    shift = MULTIPLIER_BITS - exponent - carried
    if (shift < 17).any():
        return None
    excess = np.maximum(shift - MAX_SHIFT, 0)
    multiplier = np.where(excess < 32, multiplier >> np.minimum(excess, 31), 0)
    return multiplier.astype(np.int32), np.minimum(shift, MAX_SHIFT).astype(np.int32)


def add_multipliers(a: float, b: float, dtype: str) -> tuple[int, int, int] | None:
    """Two ratios over one shift: the larger one gets all the bits there are. None when the shift would not fit."""
    largest = max(a, b)
    if not (math.isfinite(largest) and min(a, b) > 0):
        return None
    _, exponent = math.frexp(largest)
    shift = min(ADD_BITS[dtype] - exponent - 1, 30 if dtype == "int8" else 44)
    if shift < 1:
        return None
    return round(a * 2.0**shift), round(b * 2.0**shift), shift


def mmalib_scale_shift(ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The scale in 1..127 and shift in 0..31 nearest to each ratio, and the relative error; among equals the smaller
    shift wins."""
    ratios = np.asarray(ratios, np.float64)
    # For each shift the best scale is the nearest integer; 32 candidates a channel instead of 4064.
    exact = ratios[:, None] * 2.0 ** MMALIB_SHIFTS[None, :]
    scale = np.clip(np.rint(exact), MMALIB_SCALES[0], MMALIB_SCALES[-1])
    error = np.abs(scale - exact) / exact
    best = np.argmin(error, axis=1)
    rows = np.arange(len(ratios))
    return scale[rows, best].astype(np.uint8), best.astype(np.uint8), error[rows, best]


def bounds(dtype: str, scale: float, zero: int, low: float | None, high: float | None) -> tuple[int, int]:
    """A clip in real numbers as a clip of quantised values: rounding keeps order, so clipping may come after it."""
    least, most = LIMITS[dtype]

    def quantised(value: float) -> int:
        return min(max(round(float(np.float32(value) / np.float32(scale))) + zero, least), most)

    return (least if low is None else quantised(low)), (most if high is None else quantised(high))
