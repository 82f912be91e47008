"""Functions of one quantised tensor: any chain of element-by-element operators between a dequantize and a quantize.

An int8 has 256 values, so the chain is computed at compile time, in float32 as PT2E would, and becomes a table: no
float is left, and nothing is approximated. The firmware's kernels for GELU, SiLU, hardswish and hardsigmoid are
recognised by what the chain computes, in whatever order its operators stand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import relax

from c7x.graph.fold import EVALUATORS
from c7x.graph.line import Line, const_numpy, is_const, make_const, op_name, shape_of, tensor_type
from c7x.graph.qdq.fusion import Fusion, dequantize_table, quantize_array
from c7x.graph.qdq.values import Clipped, Params, Quantized, along_channels, quantized

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + np.exp(-x.astype(np.float64))))


def _gelu(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * x * (1.0 + _erf(x / math.sqrt(2.0))))


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))))


def _silu(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * _sigmoid(x))


def _selu(x: np.ndarray) -> np.ndarray:
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    return np.asarray(scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))))


def _in_double(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any, list[Any]], np.ndarray]:
    return lambda call, args: function(args[0].astype(np.float64)).astype(np.float32)


_FOLDED = (
    "abs add astype atan ceil clip cos divide equal erf exp floor greater greater_equal less less_equal log "
    "logical_and logical_not logical_or maximum minimum multiply negative nn.relu not_equal power round rsqrt sigmoid "
    "sign sin sqrt square subtract tan tanh trunc where"
).split()

#: Operators of a chain: numpy's answer from the call and its operands.
CHAIN: dict[str, Callable[[Any, list[Any]], Any]] = {
    **{name: EVALUATORS[name] for name in _FOLDED},
    "nn.gelu": _in_double(_gelu),
    "nn.gelu_tanh": _in_double(_gelu_tanh),
    "nn.silu": _in_double(_silu),
    "nn.selu": _in_double(_selu),
    "nn.relu6": lambda call, args: np.clip(args[0], 0, 6),
    "nn.leakyrelu": lambda call, args: np.where(args[0] > 0, args[0], args[0] * np.float32(call.attrs.alpha)),
    "nn.softplus": _in_double(lambda x: np.logaddexp(0.0, x)),
}

#: The firmware's functions (kernels.md 2).
FIRMWARE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "c7x_int8_gelu": _gelu,
    "c7x_int8_silu": _silu,
    "c7x_int8_hardswish": lambda x: np.asarray(x * np.clip(x + 3.0, 0.0, 6.0) / 6.0),
    "c7x_int8_hardsigmoid": lambda x: np.clip(x / 6.0 + 0.5, 0.0, 1.0),
}


@dataclass
class _Chain:
    """A chain under evaluation: its one quantised tensor, and the variables it goes through."""

    line: Line
    shape: tuple[int, ...]
    source: Quantized | None = None
    via: list[Any] = field(default_factory=list)
    values: dict[str, np.ndarray] = field(default_factory=dict)

    def evaluate(self, expr: Any) -> np.ndarray | None:
        """What the expression is for each of the 256 values, [256] or [channels, 256]; None when it depends on
        anything else."""
        if is_const(expr):
            return self._constant(expr)
        if not isinstance(expr, relax.Var):
            return None
        name = str(expr.name)
        if name in self.values:
            return self.values[name]
        found = quantized(self.line, expr)
        result: np.ndarray | None
        result = self._leaf(found) if found is not None else self._operator(expr)
        if result is not None:
            self.values[name] = result
            self.via.append(expr)
        return result

    def _constant(self, expr: Any) -> np.ndarray | None:
        value = const_numpy(expr)
        if value.size == 1:
            return value.reshape(())
        if len(self.shape) >= 2 and along_channels(expr, len(self.shape), 1, self.shape[1]):
            return value.reshape(self.shape[1], 1)
        return None

    def _leaf(self, found: Quantized) -> np.ndarray | None:
        if found.params.dtype != "int8" or found.shape != self.shape:
            return None
        if self.source is not None and not (
            self.source.params == found.params and self.source.tensor.same_as(found.tensor)
        ):
            return None
        self.source = found
        return dequantize_table(found.params)

    def _operator(self, expr: Any) -> np.ndarray | None:
        call = self.line.value(expr)
        if isinstance(call, relax.TupleGetItem):
            return self._batch_norm(call)
        evaluate = CHAIN.get(op_name(call) or "")
        if evaluate is None or shape_of(expr) != self.shape:
            return None
        tensors = [a for a in call.args if isinstance(a, relax.Var) or is_const(a)]
        operands = [self.evaluate(a) for a in tensors]
        if any(o is None for o in operands):
            return None
        with np.errstate(all="ignore"):
            return np.asarray(evaluate(call, operands))

    def _batch_norm(self, item: Any) -> np.ndarray | None:
        """The first result of a batch normalisation over the channels, as an export leaves it."""
        call = self.line.call(item.tuple_value, "nn.batch_norm")
        if call is None or item.index != 0 or int(call.attrs.axis) != 1:
            return None
        x = self.evaluate(call.args[0])
        if x is None or not all(is_const(a) for a in call.args[1:]):
            return None
        gamma, beta, mean, variance = (const_numpy(a).astype(np.float64).reshape(-1, 1) for a in call.args[1:5])
        factor = 1.0 / np.sqrt(variance + float(call.attrs.epsilon))
        factor = factor * gamma if call.attrs.scale else factor
        shifted = (x - mean) * factor + (beta if call.attrs.center else 0.0)
        self.via.append(item.tuple_value)
        return np.asarray(shifted, np.float32)


def fuse(fusion: Fusion, line: Line, clip: Clipped, out: Params, expr: Any) -> Any:
    """``quantize(chain(dequantize))`` with a chain that has one quantised tensor; its other operands are numbers, or
    one number per channel (PReLU, a batch norm that no convolution took)."""
    if out.dtype != "int8":
        return None
    chain = _Chain(line, shape_of(expr))
    values = chain.evaluate(expr)
    if values is None or chain.source is None:
        return None
    data = chain.source
    # A NaN has no integer; PT2E's conversion gives the smallest or anything, a table gives real zero.
    real = np.where(np.isnan(values), 0.0, values)
    line.absorb(*chain.via)
    if real.ndim == 2:
        entries = quantize_array(np.broadcast_to(real, (data.shape[1], 256)), out)
        return fusion.channel_tables(line, data, entries)
    if fusion.on_firmware(line, data.tensor) and (call := _firmware(fusion, line, data, real, out, clip)) is not None:
        return call
    return fusion.table(line, data, quantize_array(np.broadcast_to(real, (256,)), out), main=True)


def _firmware(fusion: Fusion, line: Line, data: Quantized, real: np.ndarray, out: Params, clip: Clipped) -> Any:
    """The firmware's kernel for the chain; None when it has none."""
    n = math.prod(data.shape)
    ty = tensor_type(data.shape, "int8")
    x = dequantize_table(data.params).astype(np.float64)
    for symbol, function in FIRMWARE.items():
        want = function(x)
        if np.allclose(real, want, rtol=1e-5, atol=1e-6 * max(1.0, float(np.abs(want).max()))):
            scalars = [n, data.params.zero, data.params.scale, out.zero, out.scale]
            return line.main(fusion.firmware(symbol, [data.tensor], scalars, ty))
    behind = quantized(line, clip.source)
    if behind is None:
        return None
    low, high = fusion.bounds(out, clip)
    if behind.params == out:
        return line.main(fusion.clamp8(data.tensor, out, low, high)) if (low, high) != (-128, 127) else None
    scalars = [n, data.params.zero, data.params.scale, out.zero, out.scale]
    result = line.main(fusion.firmware("c7x_int8_rescale", [data.tensor], scalars, ty))
    return fusion.clamp8(result, out, low, high)


def clip_int16(fusion: Fusion, line: Line, clip: Clipped, out: Params) -> Any:
    """``quantize(clip(dequantize))`` of int16 under one quantisation: a clip of integers."""
    data = quantized(line, clip.source)
    if data is None or out.dtype != "int16" or data.params != out or not clip.via:
        return None
    low, high = fusion.bounds(out, clip)
    line.absorb(data.via, *clip.via[::-1])
    result = data.tensor
    if low > -32768:
        result = relax.op.maximum(result, make_const(np.array(low, np.int16)))
    if high < 32767:
        if not isinstance(result, relax.Var):
            result = line.emit(result, "_low")
        result = relax.op.minimum(result, make_const(np.array(high, np.int16)))
    return result
