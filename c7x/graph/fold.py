"""Constant folding with numpy over the constant part of the graph.

TVM's own folding compiles and runs a function for every constant operator, which takes tens of seconds; a numpy
evaluator over the operators that real exports leave on constants takes milliseconds. What is not in the table stays
as it is. ``quantize`` and ``dequantize`` are left out on purpose: folding the dequantisation of an int8 weight would
destroy the pattern that the quantised kernels are made from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

from c7x.graph.line import Line, const_numpy, dtype_of, has_static_shape, is_const, make_const, op_name, shape_of

#: A folded result may be this large even when its operands are smaller (a causal mask, a position grid); above it
#: the loop is cheaper than the bytes.
GROWTH_LIMIT = 1 << 20

Evaluator = Callable[[Any, list[Any]], np.ndarray | list[np.ndarray]]


def _shape_arg(arg: Any) -> list[int]:
    return [int(v) for v in arg.values]


def _ints(values: Any) -> list[int]:
    return [int(v) for v in values]


def _axis(value: Any) -> int | None:
    return None if value is None else int(value)


def _axes(value: Any) -> tuple[int, ...] | None:
    return None if value is None else tuple(_ints(value))


def _number(expr: Any) -> int | float:
    """A scalar operand: a prim value or a constant of one element."""
    if is_const(expr):
        return const_numpy(expr).reshape(()).item()  # type: ignore[no-any-return]
    value = getattr(expr, "value", expr)
    value = getattr(value, "value", value)
    if not isinstance(value, int | float):
        raise TypeError(f"not a number: {expr}")
    return value


def _unary(f: Callable[[np.ndarray], Any]) -> Evaluator:
    return lambda call, args: np.asarray(f(args[0]))


def _binary(f: Callable[[np.ndarray, np.ndarray], Any]) -> Evaluator:
    return lambda call, args: np.asarray(f(args[0], args[1]))


def _reduce(f: Callable[..., Any]) -> Evaluator:
    return lambda call, args: np.asarray(f(args[0], axis=_axes(call.attrs.axis), keepdims=bool(call.attrs.keepdims)))


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if np.issubdtype(a.dtype, np.integer):
        raise TypeError("integer division has no single meaning; leave it to the loops")
    return np.asarray(np.divide(a, b))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return (1.0 / (1.0 + np.exp(-x.astype(np.float64)))).astype(x.dtype)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype) if x.size else x


def _full(call: Any, args: list[Any]) -> np.ndarray:
    return np.full(shape_of(call), _number(call.args[1]), dtype=dtype_of(call))


def _filled(value: int) -> Evaluator:
    return lambda call, args: np.full(shape_of(call), value, dtype=dtype_of(call))


def _arange(call: Any, args: list[Any]) -> np.ndarray:
    start, _, step = (_number(a) for a in call.args[:3])
    count, dtype = shape_of(call)[0], np.dtype(dtype_of(call))
    if np.issubdtype(dtype, np.integer):
        return np.array([int(start) + i * int(step) for i in range(count)], dtype)
    return np.asarray(start + np.arange(count, dtype=np.float64) * step).astype(dtype)


def _strided_slice(call: Any, args: list[Any]) -> np.ndarray:
    data = args[0]
    axes, begin, end = ([int(_number(v)) for v in call.args[i].fields] for i in (1, 2, 3))
    strides = [int(_number(v)) for v in call.args[4].fields] if len(call.args) > 4 else [1] * len(axes)
    if any(s <= 0 for s in strides):
        raise ValueError("a negative stride is left to the loops")
    index: list[slice] = [slice(None)] * data.ndim
    for axis, b, e, s in zip(axes, begin, end, strides, strict=True):
        index[axis] = slice(b, e, s)
    return np.asarray(data[tuple(index)])


def _take(call: Any, args: list[Any]) -> np.ndarray:
    data, indices = args[0], args[1]
    axis = _axis(call.attrs.axis)
    size = data.size if axis is None else data.shape[axis]
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        raise IndexError("an index outside the axis is left to the loops")
    return np.asarray(np.take(data, indices.astype(np.int64), axis=axis))


def _split(call: Any, args: list[Any]) -> list[np.ndarray]:
    sections = call.attrs.indices_or_sections
    parts = int(sections) if isinstance(sections, int | tvm.tirx.IntImm) else _ints(sections)
    return [np.ascontiguousarray(p) for p in np.split(args[0], parts, axis=int(call.attrs.axis))]


def _tri(f: Callable[..., np.ndarray]) -> Evaluator:
    return lambda call, args: f(args[0], k=int(_number(call.args[1])) if len(call.args) > 1 else 0)


def _pad(call: Any, args: list[Any]) -> np.ndarray:
    if str(call.attrs.pad_mode) != "constant":
        raise ValueError("only constant padding is folded")
    widths = _ints(call.attrs.pad_width)
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    value = _number(call.args[1]) if len(call.args) > 1 else float(call.attrs.pad_value)
    return np.pad(args[0], pairs, constant_values=value)


def _where(call: Any, args: list[Any]) -> np.ndarray:
    condition, then, otherwise = args
    return np.asarray(np.where(condition, then, otherwise))


def _reshape(call: Any, args: list[Any]) -> np.ndarray:
    return np.asarray(args[0].reshape(shape_of(call)))


EVALUATORS: dict[str, Evaluator] = {
    # shape
    "reshape": _reshape,
    "expand_dims": _reshape,
    "squeeze": _reshape,
    "flatten": _reshape,
    "permute_dims": lambda c, a: np.transpose(a[0], _axes(c.attrs.axes)),
    "broadcast_to": lambda c, a: np.broadcast_to(a[0], shape_of(c)),
    "concat": lambda c, a: np.concatenate(a[0], axis=0 if c.attrs.axis is None else int(c.attrs.axis)),
    "stack": lambda c, a: np.stack(a[0], axis=int(c.attrs.axis or 0)),
    "split": _split,
    "strided_slice": _strided_slice,
    "take": _take,
    "tile": lambda c, a: np.tile(a[0], _ints(c.attrs.repeats)),
    "repeat": lambda c, a: np.repeat(a[0], int(c.attrs.repeats), axis=_axis(c.attrs.axis)),
    "flip": lambda c, a: np.flip(a[0], axis=int(c.attrs.axis)),
    "tril": _tri(np.tril),
    "triu": _tri(np.triu),
    "nn.pad": _pad,
    # creation
    "full": _full,
    "full_like": _full,
    "zeros": _filled(0),
    "zeros_like": _filled(0),
    "ones": _filled(1),
    "ones_like": _filled(1),
    "arange": _arange,
    "astype": lambda c, a: a[0].astype(dtype_of(c)),
    # element by element
    "abs": _unary(np.abs),
    "negative": _unary(np.negative),
    "exp": _unary(np.exp),
    "log": _unary(np.log),
    "sqrt": _unary(np.sqrt),
    "rsqrt": _unary(lambda x: (1.0 / np.sqrt(x.astype(np.float64))).astype(x.dtype)),
    "square": _unary(np.square),
    "sin": _unary(np.sin),
    "cos": _unary(np.cos),
    "tan": _unary(np.tan),
    "asin": _unary(np.arcsin),
    "acos": _unary(np.arccos),
    "atan": _unary(np.arctan),
    "sinh": _unary(np.sinh),
    "cosh": _unary(np.cosh),
    "tanh": _unary(np.tanh),
    "sigmoid": _unary(_sigmoid),
    "erf": _unary(_erf),
    "floor": _unary(np.floor),
    "ceil": _unary(np.ceil),
    "round": _unary(np.round),
    "trunc": _unary(np.trunc),
    "sign": _unary(np.sign),
    "isnan": _unary(np.isnan),
    "isinf": _unary(np.isinf),
    "isfinite": _unary(np.isfinite),
    "logical_not": _unary(np.logical_not),
    "bitwise_not": _unary(np.bitwise_not),
    "nn.relu": _unary(lambda x: np.maximum(x, 0)),
    "clip": lambda c, a: np.clip(a[0], _number(c.args[1]), _number(c.args[2])).astype(a[0].dtype),
    "add": _binary(np.add),
    "subtract": _binary(np.subtract),
    "multiply": _binary(np.multiply),
    "divide": _binary(_divide),
    "floor_divide": _binary(np.floor_divide),
    "floor_mod": _binary(np.mod),
    "mod": _binary(np.fmod),
    "power": _binary(np.power),
    "maximum": _binary(np.maximum),
    "minimum": _binary(np.minimum),
    "equal": _binary(np.equal),
    "not_equal": _binary(np.not_equal),
    "less": _binary(np.less),
    "less_equal": _binary(np.less_equal),
    "greater": _binary(np.greater),
    "greater_equal": _binary(np.greater_equal),
    "logical_and": _binary(np.logical_and),
    "logical_or": _binary(np.logical_or),
    "logical_xor": _binary(np.logical_xor),
    "bitwise_and": _binary(np.bitwise_and),
    "bitwise_or": _binary(np.bitwise_or),
    "bitwise_xor": _binary(np.bitwise_xor),
    "where": _where,
    # reductions
    "sum": _reduce(np.sum),
    "mean": _reduce(np.mean),
    "max": _reduce(np.max),
    "min": _reduce(np.min),
    "prod": _reduce(np.prod),
}

#: Operators whose first operand gives only a shape: a value need not be known.
_SHAPE_ONLY = {"zeros_like", "ones_like", "full_like"}

#: Operators that read scalars from their operand list by themselves.
_SCALARS_FROM_CALL = {"full", "arange", "strided_slice", "clip", "full_like", "tril", "triu", "nn.pad"}


def _operand(expr: Any) -> Any:
    """The numpy value of an operand; None for shapes and scalars; KeyError when it is not constant."""
    if is_const(expr):
        return const_numpy(expr)
    if isinstance(expr, relax.Tuple):
        return [_operand(f) for f in expr.fields]
    if isinstance(expr, relax.Var | relax.TupleGetItem):
        raise KeyError(expr)
    return None


def _operand_bytes(args: list[Any]) -> int:
    return sum(_operand_bytes(a) if isinstance(a, list) else getattr(a, "nbytes", 0) for a in args)


def _all_known(expr: Any) -> bool:
    if isinstance(expr, relax.Tuple):
        return all(_all_known(f) for f in expr.fields)
    return not isinstance(expr, relax.Var | relax.TupleGetItem)


def _result_bytes(call: Any) -> int | None:
    types = call.ty.fields if isinstance(call.ty, relax.TupleType) else [call.ty]
    total = 0
    for ty in types:
        holder = relax.Var("t", ty)
        if not has_static_shape(holder):
            return None
        try:
            total += math.prod(shape_of(holder)) * np.dtype(dtype_of(holder)).itemsize
        except TypeError:
            return None
    return total


def _matches(value: np.ndarray, ty: Any) -> bool:
    holder = relax.Var("t", ty)
    return value.shape == shape_of(holder) and value.dtype == np.dtype(dtype_of(holder))


def fold_call(call: Any) -> Any:
    """The constant (or tuple of constants) a call evaluates to; None when it is not known or not wanted."""
    name = op_name(call)
    evaluate = EVALUATORS.get(name or "")
    if evaluate is None or name is None:
        return None
    considered = list(call.args)[1:] if name in _SHAPE_ONLY else list(call.args)
    if not all(_all_known(a) for a in considered):
        return None
    size = _result_bytes(call)
    if size is None:
        return None
    args = [None if name in _SHAPE_ONLY else _operand(a) for a in call.args]
    if name not in _SCALARS_FROM_CALL and name not in _SHAPE_ONLY and name not in {"zeros", "ones"}:
        args = [a for a in args if a is not None]
    if size > max(GROWTH_LIMIT, _operand_bytes(args)):
        return None
    try:
        with np.errstate(all="ignore"):
            result = evaluate(call, args)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    if isinstance(result, list):
        if len(result) != len(call.ty.fields) or not all(map(_matches, result, call.ty.fields)):
            return None
        return relax.Tuple([make_const(r) for r in result])
    return make_const(result) if _matches(result, call.ty) else None


def _rule(line: Line, value: Any) -> Any:
    return fold_call(value) if isinstance(value, tvm.ir.Call) else None


def fold_constants(mod: tvm.IRModule) -> tvm.IRModule:
    """Evaluate every operator whose operands are all constant."""
    return Line(mod).run(_rule)
