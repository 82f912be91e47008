"""Batch normalisation at inference, folded into the convolution or linear layer before it.

    y = (conv(x, W) + b - mean) * s + beta,  s = gamma / sqrt(variance + epsilon)
      = conv(x, W * s) + ((b - mean) * s + beta)

All of it is computed in float64 and rounded once. A batch norm without such a producer becomes one multiply and one
add with constants of the channel's shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

from c7x.graph.line import Line, const_numpy, dtype_of, is_const, make_const, op_name, shape_of


def _scale_conv(weight: np.ndarray, scale: np.ndarray, call: Any) -> np.ndarray:
    """OI*: the output channel comes first."""
    del call
    return np.asarray(weight * scale.reshape(-1, *([1] * (weight.ndim - 1))))


def _scale_conv_transpose(weight: np.ndarray, scale: np.ndarray, call: Any) -> np.ndarray:
    """IO*: [C, O/g, ...]; group g of the input channels makes group g of the output channels."""
    groups = int(call.attrs.groups)
    split = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    factor = scale.reshape(groups, 1, -1, *([1] * (weight.ndim - 2)))
    return np.asarray(split * factor).reshape(weight.shape)


def _scale_matmul(weight: np.ndarray, scale: np.ndarray, call: Any) -> np.ndarray:
    """[K, N]: the output channel comes last."""
    del call
    return np.asarray(weight * scale)


_SCALE: dict[str, Callable[[np.ndarray, np.ndarray, Any], np.ndarray]] = {
    "nn.conv1d": _scale_conv,
    "nn.conv2d": _scale_conv,
    "nn.conv3d": _scale_conv,
    "nn.conv1d_transpose": _scale_conv_transpose,
    "nn.conv2d_transpose": _scale_conv_transpose,
    "nn.conv3d_transpose": _scale_conv_transpose,
    "matmul": _scale_matmul,
}

_KERNEL_LAYOUTS = {"OIW", "OIHW", "OIDHW", "IOW", "IOHW", "IODHW"}


def _foldable(call: Any, channels: int, axis: int) -> bool:
    """Whether the call makes its channels along ``axis`` by a constant weight."""
    op = op_name(call)
    if op not in _SCALE or not is_const(call.args[1]):
        return False
    shape = shape_of(call)
    if op == "matmul":
        return len(shape_of(call.args[1])) == 2 and axis == len(shape) - 1
    layout, kernel = str(call.attrs.data_layout), str(call.attrs.kernel_layout)
    return layout.startswith("NC") and kernel in _KERNEL_LAYOUTS and axis == 1 and shape[1] == channels


def channel_vector(expr: Any, rank: int, axis: int, channels: int) -> np.ndarray | None:
    """A constant that varies along the channel axis only, as [channels] float64; None for anything else."""
    if not is_const(expr):
        return None
    shape = shape_of(expr)
    if len(shape) > rank:
        return None
    full = (1,) * (rank - len(shape)) + shape
    if any(d != 1 for i, d in enumerate(full) if i != axis) or full[axis] not in (1, channels):
        return None
    return np.broadcast_to(const_numpy(expr).reshape(-1).astype(np.float64), (channels,))


def _along(vector: np.ndarray, rank: int, axis: int, dtype: str) -> Any:
    shape = [1] * rank
    shape[axis] = -1
    return make_const(vector.reshape(shape).astype(dtype))


def _rule(line: Line, value: Any) -> Any:
    if op_name(value) != "nn.batch_norm" or bool(value.attrs.training):
        return None
    if not all(is_const(a) for a in value.args[1:5]):
        return None
    data = value.args[0]
    gamma, beta, mean, variance = (const_numpy(a).astype(np.float64) for a in value.args[1:5])
    if not value.attrs.scale:
        gamma = np.ones_like(gamma)
    if not value.attrs.center:
        beta = np.zeros_like(beta)
    scale = gamma / np.sqrt(variance + float(value.attrs.epsilon))
    shift = beta - mean * scale
    shape, dtype = shape_of(data), dtype_of(data)
    rank, axis = len(shape), int(value.attrs.axis) % len(shape)
    result = _fold(line, data, scale, shift, axis)
    if result is None:
        scaled = line.emit(relax.op.multiply(data, _along(scale, rank, axis, dtype)), "_scale")
        result = line.main(relax.op.add(scaled, _along(shift, rank, axis, dtype)))
    return relax.Tuple([result, value.args[3], value.args[4]])


def _fold(line: Line, data: Any, scale: np.ndarray, shift: np.ndarray, axis: int) -> Any:
    """The producer of ``data`` with scale and shift in its weight and bias; None when there is no such producer."""
    if not line.single_use(data):
        return None
    shape, dtype = shape_of(data), dtype_of(data)
    rank, channels = len(shape), shape[axis]
    conv, bias = data, np.zeros(channels)
    producer = line.value(conv)
    if op_name(producer) == "add":
        left, right = producer.args
        found = channel_vector(right, rank, axis, channels)
        inner = left
        if found is None:
            found, inner = channel_vector(left, rank, axis, channels), right
        if found is None or not line.single_use(inner) or shape_of(inner) != shape:
            return None
        conv, bias = inner, found
        producer = line.value(conv)
    if not _foldable(producer, channels, axis):
        return None
    op = op_name(producer)
    weight = const_numpy(producer.args[1])
    scaled = _SCALE[op or ""](weight.astype(np.float64), scale, producer).astype(weight.dtype)
    args = [producer.args[0], make_const(scaled)]
    folded = tvm.ir.Call(producer.op, args, producer.attrs, producer.ty_args)
    folded = line.emit(folded, "_conv", origin_of=conv)
    if conv is not data:
        line.absorb(data)
    return line.main(relax.op.add(folded, _along(bias * scale + shift, rank, axis, dtype)))


def fold_batch_norms(mod: tvm.IRModule) -> tvm.IRModule:
    """Remove every batch norm of inference with constant statistics."""
    return Line(mod).run(_rule)
