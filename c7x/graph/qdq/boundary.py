"""Where real numbers begin and end: what is left of quantize and dequantize once every family had its turn.

On the firmware's route the operators there have kernels of their own (kernels.md 2 and 3): a quantised input, an image
whose channels are normalised before, SiLU and the sigmoid of joined tensors with a float result.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relax

from c7x.graph.line import Line, const_numpy, dtype_of, is_const, make_const, op_name, shape_of, tensor_type
from c7x.graph.qdq.fusion import Fusion
from c7x.graph.qdq.values import Quantized, along_channels, params_of, quantized


def settle(fusion: Fusion, line: Line, call: Any) -> Any:
    """A dequantised constant is a constant; on the firmware's route its kernels take what they can."""
    name = op_name(call)
    if name == "dequantize" and all(is_const(a) for a in call.args):
        return make_const(dequantized_constant(call))
    if not fusion.mmalib:
        return None
    match name:
        case "quantize":
            return _input(fusion, line, call)
        case "nn.silu":
            return _silu(fusion, line, call)
        case "sigmoid":
            return _sigmoid(fusion, line, call)
    return None


def _is_input(line: Line, expr: Any) -> bool:
    return isinstance(expr, relax.Var) and any(expr.same_as(p) for p in line.func.params)


def _input(fusion: Fusion, line: Line, call: Any) -> Any:
    """``quantize`` of a float32 input of the model, normalised by channel or not."""
    params = params_of(call)
    if params is None or params.dtype != "int8" or dtype_of(call.args[0]) != "float32":
        return None
    shape = shape_of(call)
    ty = tensor_type(shape, "int8")
    if _is_input(line, call.args[0]):
        inverse = float(np.float32(1.0) / np.float32(params.scale))
        scalars = [math.prod(shape), inverse, params.zero]
        return line.main(fusion.firmware("c7x_int8_quantize", [call.args[0]], scalars, ty))
    if len(shape) != 4 or shape[1] != 3 or (found := _normalised(line, call.args[0], shape)) is None:
        return None
    image, gain, offset, via = found
    line.absorb(*via)
    planes = zip(gain / params.scale, offset / params.scale + params.zero, strict=True)
    scalars = [shape[0], shape[2] * shape[3], *(float(v) for plane in planes for v in plane)]
    return line.main(fusion.firmware("c7x_int8_quantize_rgb", [image], scalars, ty))


def _normalised(line: Line, expr: Any, shape: tuple[int, ...]) -> tuple[Any, np.ndarray, np.ndarray, list[Any]] | None:
    """(input, factor and summand of each of its channels in float64 [C], variables) behind a chain of sums,
    differences, products and quotients with constants by channel; None for anything else."""
    if _is_input(line, expr):
        return (expr, np.ones(shape[1]), np.zeros(shape[1]), []) if shape_of(expr) == shape else None
    call = line.value(expr)
    name = op_name(call)
    if name not in ("add", "subtract", "multiply", "divide") or not isinstance(expr, relax.Var):
        return None
    left, right = call.args
    if name in ("add", "multiply") and is_const(left):
        left, right = right, left
    if not is_const(right) or not along_channels(right, 4, 1, shape[1]):
        return None
    inner = _normalised(line, left, shape)
    if inner is None:
        return None
    image, gain, offset, via = inner
    number = np.broadcast_to(const_numpy(right).astype(np.float64).reshape(-1), (shape[1],))
    with np.errstate(all="ignore"):
        match name:
            case "add":
                offset = offset + number
            case "subtract":
                offset = offset - number
            case "multiply":
                gain, offset = gain * number, offset * number
            case _:
                gain, offset = gain / number, offset / number
    if not (np.isfinite(gain).all() and np.isfinite(offset).all()):
        return None
    return image, gain, offset, [*via, expr]


def _silu(fusion: Fusion, line: Line, call: Any) -> Any:
    """SiLU of a quantised tensor that no quantize follows."""
    data = quantized(line, call.args[0])
    if data is None or data.params.dtype != "int8":
        return None
    line.absorb(data.via)
    scalars = [math.prod(data.shape), data.params.zero, data.params.scale]
    ty = tensor_type(data.shape, "float32")
    return line.main(fusion.firmware("c7x_int8_silu_f32out", [data.tensor], scalars, ty))


def _sigmoid(fusion: Fusion, line: Line, call: Any) -> Any:
    """The sigmoid of two to four tensors [1, C, n] joined along the last axis."""
    shape = shape_of(call)
    sources = _joined(line, call.args[0])
    if len(shape) != 3 or shape[0] != 1 or sources is None or not 2 <= len(sources) <= 4:
        return None
    line.absorb(*(s.via for s in sources))
    scalars: list[int | float] = []
    for s in sources:
        scalars += [s.shape[2], s.params.scale, s.params.zero]
    # A slot that is not used has no columns; its pointer is not looked at.
    scalars += [0, 1.0, 0] * (4 - len(sources))
    tensors = [s.tensor for s in sources] + [sources[0].tensor] * (4 - len(sources))
    ty = tensor_type(shape, "float32")
    return line.main(fusion.firmware("c7x_int8_concat_sigmoid", tensors, [*scalars, shape[1]], ty))


def _joined(line: Line, expr: Any) -> list[Quantized] | None:
    """The int8 tensors that are joined along the last axis: before or after they are dequantised."""
    call, data = line.call(expr, "concat"), quantized(line, expr)
    inner = None if data is None else line.call(data.tensor, "concat")
    found: list[Quantized | None]
    if call is not None:
        found = [quantized(line, f) for f in call.args[0].fields] if isinstance(call.args[0], relax.Tuple) else [None]
    elif inner is not None and data is not None and isinstance(inner.args[0], relax.Tuple):
        call = inner
        found = [Quantized(f, data.params, data.via) for f in inner.args[0].fields]
    else:
        return None
    if call.attrs.axis is None or int(call.attrs.axis) % len(shape_of(call)) != len(shape_of(call)) - 1:
        return None
    sources = [s for s in found if s is not None and s.params.dtype == "int8"]
    return sources if len(sources) == len(found) else None


def dequantized_constant(call: Any) -> np.ndarray:
    """(q - zero) * scale in float32, per tensor or along the axis."""
    values, scale, zero = (const_numpy(a) for a in call.args)
    if scale.size > 1:
        along = [1] * values.ndim
        along[int(call.attrs.axis) % values.ndim] = -1
        scale, zero = scale.reshape(along), zero.reshape(along) if zero.size > 1 else zero
    return np.asarray((values.astype(np.float32) - zero.astype(np.float32)) * scale.astype(np.float32), np.float32)
