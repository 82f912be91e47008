"""Reading the quantised graph: what stands behind a float value, in integers.

PT2E leaves ``dequantize(int) -> float operators -> quantize``. These helpers look from a ``quantize`` backwards: which
quantised tensors the float operators read, with which scales, which clips stand before the rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from c7x.graph.line import Line, const_numpy, dtype_of, has_static_shape, is_const, op_name, scalar_value, shape_of
from c7x.graph.simplify import RESHAPES, axes_of

#: dtypes of quantised tensors, with the smallest and the largest value.
LIMITS: Mapping[str, tuple[int, int]] = {"int8": (-128, 127), "int16": (-32768, 32767)}


@dataclass(frozen=True)
class Params:
    """How a tensor is quantised: real = (integer - zero) * scale."""

    dtype: str
    scale: float
    zero: int


@dataclass(frozen=True)
class Quantized:
    """A quantised tensor behind a float value.

    Attributes:
        tensor: the integer expression.
        params: its quantisation.
        via: the variable of its ``dequantize``.
    """

    tensor: Any
    params: Params
    via: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.tensor)


@dataclass(frozen=True)
class Weight:
    """A constant weight: integers and one scale per channel of ``axis`` (one for all: scales of one element)."""

    values: np.ndarray
    scales: np.ndarray
    axis: int


@dataclass(frozen=True)
class Clipped:
    """A float value before its clips: ``low`` and ``high`` are None where nothing is cut off; ``via`` are the clips'
    variables."""

    source: Any
    low: float | None
    high: float | None
    via: tuple[Any, ...]


def params_of(call: Any) -> Params | None:
    """The quantisation of a ``quantize`` or ``dequantize`` call per tensor; None for any other."""
    integer = call if op_name(call) == "quantize" else call.args[0]
    if dtype_of(integer) not in LIMITS:
        return None
    scale, zero = scalar_value(call.args[1]), scalar_value(call.args[2])
    if scale is None or zero is None or not np.isfinite(scale) or scale <= 0:
        return None
    return Params(dtype_of(integer), float(scale), int(zero))


def quantized(line: Line, expr: Any) -> Quantized | None:
    """The integers behind a float value that is a ``dequantize`` per tensor of int8 or int16."""
    call = line.call(expr, "dequantize")
    if call is None or not has_static_shape(call):
        return None
    params = params_of(call)
    return Quantized(call.args[0], params, expr) if params is not None else None


def weight(line: Line, expr: Any) -> Weight | None:
    """The integers behind a float value that is a ``dequantize`` of an int8 or int16 constant with zero point 0; a
    transpose in between is carried out."""
    call = line.value(expr)
    if op_name(call) == "permute_dims":
        inner = weight(line, call.args[0])
        if inner is None:
            return None
        axes = axes_of(call)
        return Weight(inner.values.transpose(axes), inner.scales, axes.index(inner.axis))
    if op_name(call) != "dequantize" or not all(is_const(a) for a in call.args) or dtype_of(call.args[0]) not in LIMITS:
        return None
    values, scales, zeros = (const_numpy(a) for a in call.args)
    if np.any(zeros != 0) or not np.all(np.isfinite(scales)) or np.any(scales < 0):
        return None
    return Weight(values, scales.reshape(-1).astype(np.float64), int(call.attrs.axis) % max(values.ndim, 1))


def _number(expr: Any) -> float | None:
    value = scalar_value(expr) if is_const(expr) else getattr(expr, "value", None)
    value = getattr(value, "value", value)
    return float(value) if isinstance(value, int | float) else None


def _bounds(call: Any) -> tuple[Any, float | None, float | None] | None:
    """(operand, low, high) of an operator that clips; None for any other."""
    match op_name(call):
        case "nn.relu":
            return call.args[0], 0.0, None
        case "nn.relu6":
            return call.args[0], 0.0, 6.0
        case "clip":
            low, high = _number(call.args[1]), _number(call.args[2])
            return None if low is None or high is None else (call.args[0], low, high)
        case "maximum" | "minimum":
            for operand, other in (call.args, tuple(call.args)[::-1]):
                bound = _number(other) if is_const(other) else None
                if bound is not None and isinstance(operand, relax.Var):
                    return (operand, bound, None) if op_name(call) == "maximum" else (operand, None, bound)
    return None


def clipped(line: Line, expr: Any) -> Clipped:
    """The value behind the clips (relu, relu6, clip, maximum and minimum with a number) that lead to ``expr``."""
    source, low, high = expr, None, None
    via: list[Any] = []
    while True:
        found = _bounds(line.value(source))
        if found is None:
            return Clipped(source, low, high, tuple(via))
        via.append(source)
        source, least, most = found
        # The outer clip has the last word: an inner bound beyond an outer one is moved to it.
        if least is not None:
            low = least if low is None else max(low, least)
            if high is not None:
                low = min(low, high)
        if most is not None:
            high = most if high is None else min(high, most)
            if low is not None:
                high = max(high, low)


def bias_of(line: Line, expr: Any, units: np.ndarray) -> np.ndarray | None:
    """A bias per channel as integers in ``units`` (float64 [channels], real value of 1): a constant, or a
    ``dequantize`` of one, reshaped or not. None when it is not a vector over the channels.

    An int32 bias in the same units is taken as it is; any other is rounded once.
    """
    call = line.value(expr)
    while op_name(call) in RESHAPES:
        expr = call.args[0]
        call = line.value(expr)
    channels = len(units)
    if is_const(expr):
        value = const_numpy(expr).astype(np.float64).reshape(-1)
    elif op_name(call) == "dequantize" and all(is_const(a) for a in call.args):
        integers, scales, zeros = (const_numpy(a) for a in call.args)
        if integers.size != channels or scales.size not in (1, channels):
            return None
        integers = integers.astype(np.int64) - zeros.astype(np.int64).reshape(-1)
        scales = np.broadcast_to(scales.astype(np.float64).reshape(-1), (channels,))
        if np.allclose(scales, units, rtol=1e-6, atol=0):
            return np.asarray(integers.reshape(-1))
        value = integers.reshape(-1) * scales
    else:
        return None
    if value.size == 1:
        value = np.broadcast_to(value, (channels,))
    if value.size != channels or not np.all(np.isfinite(value)):
        return None
    scaled = np.rint(value / units)
    return scaled.astype(np.int64) if np.all(np.abs(scaled) < 2.0**62) else None


def scaled(line: Line, expr: Any) -> tuple[Any, float, list[Any]]:
    """(operand, factor, variables) behind a multiplication or division by a positive number, as of attention scores."""
    call = line.value(expr)
    if op_name(call) in ("multiply", "divide"):
        operand, other = call.args
        if op_name(call) == "multiply" and is_const(operand):
            operand, other = other, operand
        number = scalar_value(other)
        if isinstance(number, float) and number > 0 and math.isfinite(number):
            return operand, number if op_name(call) == "multiply" else 1.0 / number, [expr]
    return expr, 1.0, []


def along_channels(expr: Any, rank: int, axis: int, channels: int) -> bool:
    """Whether a constant operand of a broadcast varies along one axis only."""
    shape = shape_of(expr)
    full = (1,) * (rank - len(shape)) + shape
    return all(d == 1 or (i == axis and d == channels) for i, d in enumerate(full))
