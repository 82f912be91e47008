"""From one ATen operator to Relax: a table of small functions over the operators that are left after the repairs.

The dtype of every operation is taken from what PyTorch's tracer recorded for the node, never guessed from the
operands: that is where importers go silently wrong (an integer tensor times 0.5 stays an integer, ...). A node without
an entry here is refused with its name; there is no fallback.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import fx
from tvm import relax

from c7x.frontend.support import NotCompiled

aten = torch.ops.aten

DTYPE_NAMES: Mapping[torch.dtype, str] = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.uint16: "uint16",
    torch.uint32: "uint32",
    torch.uint64: "uint64",
    torch.bool: "bool",
}

Arguments = Mapping[str, Any]


class Context(Protocol):
    """What a converter sees of the import: the node at hand, its operands as Relax expressions, and ``emit``."""

    node: fx.Node
    env: dict[fx.Node, Any]

    def emit(self, expr: relax.Expr, part: str = "") -> relax.Var:
        """Bind ``expr`` to a variable named after the node, or ``<node>__<part>`` for a step on the way."""

    def tensor(self, argument: Any, dtype: torch.dtype | None = None, part: str = "cast") -> relax.Expr:
        """The operand (a node or a Python number) as a tensor of ``dtype`` (default: its own)."""


Converter = Callable[[Context, Arguments], Any]
CONVERTERS: dict[Any, Converter] = {}


def _convert(*ops: Any) -> Callable[[Converter], Converter]:
    def register(function: Converter) -> Converter:
        for op in ops:
            CONVERTERS[op] = function
        return function

    return register


def _out(c: Context, index: int | None = None) -> torch.Tensor:
    value = c.node.meta["val"]
    return value if index is None else value[index]


def _meta(argument: Any) -> Any:
    return argument.meta["val"] if isinstance(argument, fx.Node) else argument


def _rank(argument: fx.Node) -> int:
    return int(argument.meta["val"].dim())


def _dims(argument: fx.Node, dims: Any) -> list[int]:
    rank = _rank(argument)
    if dims is None or (isinstance(dims, Sequence) and not dims):
        return list(range(rank))
    listed = dims if isinstance(dims, Sequence) else [dims]
    return sorted(d % rank for d in listed) if rank else []


# --- elementwise ----------------------------------------------------------------------------------------------


def _unary(function: Callable[[relax.Expr], relax.Expr]) -> Converter:
    """An operator on floats: integer operands take the result's dtype first."""
    return lambda c, a: c.emit(function(c.tensor(c.node.args[0], _out(c).dtype)))


def _rounding(function: Callable[[relax.Expr], relax.Expr]) -> Converter:
    """Rounding, which integers pass through unchanged."""

    def convert(c: Context, a: Arguments) -> Any:
        x = c.tensor(c.node.args[0])
        return c.emit(function(x)) if _out(c).dtype.is_floating_point else x

    return convert


for _name, _function in {
    "acos": relax.op.acos, "acosh": relax.op.acosh, "asin": relax.op.asin, "asinh": relax.op.asinh,
    "atan": relax.op.atan,
    "atanh": relax.op.atanh, "cos": relax.op.cos, "cosh": relax.op.cosh, "erf": relax.op.erf, "exp": relax.op.exp,
    "log": relax.op.log, "sigmoid": relax.op.sigmoid, "silu": relax.op.nn.silu, "sin": relax.op.sin,
    "sinh": relax.op.sinh,
    "sqrt": relax.op.sqrt, "rsqrt": relax.op.rsqrt, "tan": relax.op.tan, "tanh": relax.op.tanh, "abs": relax.op.abs,
    "neg": relax.op.negative, "sign": relax.op.sign,
}.items():  # fmt: skip
    CONVERTERS[getattr(aten, _name).default] = _unary(_function)
for _name, _function in {
    "ceil": relax.op.ceil, "floor": relax.op.floor, "round": relax.op.round, "trunc": relax.op.trunc,
}.items():  # fmt: skip
    CONVERTERS[getattr(aten, _name).default] = _rounding(_function)


@_convert(aten.log2.default)
def _log2(c: Context, a: Arguments) -> Any:
    dtype = _out(c).dtype
    log = c.emit(relax.op.log(c.tensor(a["self"], dtype)), "log")
    return c.emit(relax.op.multiply(log, c.tensor(1 / math.log(2), dtype)))


@_convert(aten.log10.default)
def _log10(c: Context, a: Arguments) -> Any:
    dtype = _out(c).dtype
    log = c.emit(relax.op.log(c.tensor(a["self"], dtype)), "log")
    return c.emit(relax.op.multiply(log, c.tensor(1 / math.log(10), dtype)))


@_convert(aten.reciprocal.default)
def _reciprocal(c: Context, a: Arguments) -> Any:
    dtype = _out(c).dtype
    return c.emit(relax.op.divide(c.tensor(1, dtype), c.tensor(a["self"], dtype)))


@_convert(aten.round.decimals)
def _round_decimals(c: Context, a: Arguments) -> Any:
    x = c.tensor(a["self"])
    dtype = _out(c).dtype
    if not dtype.is_floating_point:
        return x
    factor = c.tensor(10 ** abs(a["decimals"]), dtype)
    into, back = (relax.op.multiply, relax.op.divide) if a["decimals"] >= 0 else (relax.op.divide, relax.op.multiply)
    scaled = c.emit(into(x, factor), "scaled")
    return c.emit(back(c.emit(relax.op.round(scaled), "rounded"), factor))


@_convert(aten.relu.default)
def _relu(c: Context, a: Arguments) -> Any:
    dtype = _out(c).dtype
    x = c.tensor(a["self"])
    return c.emit(relax.op.nn.relu(x) if dtype.is_floating_point else relax.op.maximum(x, c.tensor(0, dtype)))


@_convert(aten.gelu.default)
def _gelu(c: Context, a: Arguments) -> Any:
    x = c.tensor(a["self"])
    return c.emit(relax.op.nn.gelu_tanh(x) if a["approximate"] == "tanh" else relax.op.nn.gelu(x))


@_convert(aten.leaky_relu.default)
def _leaky_relu(c: Context, a: Arguments) -> Any:
    return c.emit(relax.op.nn.leakyrelu(c.tensor(a["self"]), float(a["negative_slope"])))


@_convert(aten.prelu.default, aten._prelu_kernel.default)
def _prelu(c: Context, a: Arguments) -> Any:
    x, weight = c.tensor(a["self"]), c.tensor(a["weight"])
    rank = _rank(a["self"])
    if _rank(a["weight"]) == 1:
        shape = [1] * rank
        if rank > 1:
            shape[1] = int(_meta(a["weight"]).shape[0])
        weight = c.emit(relax.op.reshape(weight, shape), "slope")
    scaled = c.emit(relax.op.multiply(x, weight), "scaled")
    positive = c.emit(relax.op.greater(x, c.tensor(0, _out(c).dtype)), "positive")
    return c.emit(relax.op.where(positive, x, scaled))


@_convert(aten.isnan.default)
def _isnan(c: Context, a: Arguments) -> Any:
    if not _meta(a["self"]).dtype.is_floating_point:
        return c.emit(relax.op.full(list(_out(c).shape), c.tensor(False, torch.bool), "bool"))
    return c.emit(relax.op.isnan(c.tensor(a["self"])))


def _clip(c: Context, x: relax.Expr, low: Any, high: Any) -> Any:
    dtype = _out(c).dtype
    if dtype.is_floating_point and low is not None and high is not None and math.isfinite(low) and math.isfinite(high):
        return c.emit(relax.op.clip(x, float(low), float(high)))
    if low is not None:
        x = c.emit(relax.op.maximum(x, c.tensor(low, dtype)), "" if high is None else "low")
    return x if high is None else c.emit(relax.op.minimum(x, c.tensor(high, dtype)))


@_convert(aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default)
def _clamp(c: Context, a: Arguments) -> Any:
    return _clip(c, c.tensor(a["self"], _out(c).dtype), a.get("min"), a.get("max"))


@_convert(aten.hardtanh.default)
def _hardtanh(c: Context, a: Arguments) -> Any:
    return _clip(c, c.tensor(a["self"]), a["min_val"], a["max_val"])


@_convert(aten.clamp.Tensor, aten.clamp_min.Tensor, aten.clamp_max.Tensor)
def _clamp_tensor(c: Context, a: Arguments) -> Any:
    dtype = _out(c).dtype
    x = c.tensor(a["self"], dtype)
    low, high = a.get("min"), a.get("max")
    if low is not None:
        x = c.emit(relax.op.maximum(x, c.tensor(low, dtype, "min")), "" if high is None else "low")
    return x if high is None else c.emit(relax.op.minimum(x, c.tensor(high, dtype, "max")))


def _binary(function: Callable[[relax.Expr, relax.Expr], relax.Expr], on_bool: Any = None) -> Converter:
    """Arithmetic in the result's dtype; ``on_bool`` replaces the operation when that is bool."""

    def convert(c: Context, a: Arguments) -> Any:
        dtype = _out(c).dtype
        left, right = c.node.args[0], c.node.args[1]
        alpha = a.get("alpha", 1)
        x, y = c.tensor(left, dtype, "lhs"), c.tensor(right, dtype, "rhs")
        if alpha != 1:
            y = c.emit(relax.op.multiply(y, c.tensor(alpha, dtype)), "scaled")
        if dtype == torch.bool:
            if on_bool is None:
                raise NotCompiled("arithmetic on booleans", "convert to int or float first")
            return c.emit(on_bool(x, y))
        return c.emit(function(x, y))

    return convert


def _binaries(table: Mapping[str, tuple[Any, Any]]) -> None:
    for names, (function, on_bool) in table.items():
        for name in names.split():
            packet, overload = name.rsplit(".", 1)
            op = getattr(getattr(aten, packet), overload, None)
            if op is not None:
                CONVERTERS[op] = _binary(function, on_bool)


_binaries(
    {
        "add.Tensor add.Scalar": (relax.op.add, relax.op.logical_or),
        "sub.Tensor sub.Scalar": (relax.op.subtract, None),
        "mul.Tensor mul.Scalar": (relax.op.multiply, relax.op.logical_and),
        "div.Tensor div.Scalar div.Tensor_mode div.Scalar_mode": (relax.op.divide, None),
        "floor_divide.default floor_divide.Scalar": (relax.op.floor_divide, None),
        "remainder.Tensor remainder.Scalar": (relax.op.floor_mod, None),
        "fmod.Tensor fmod.Scalar": (relax.op.mod, None),
        "maximum.default": (relax.op.maximum, relax.op.logical_or),
        "minimum.default": (relax.op.minimum, relax.op.logical_and),
        "atan2.default": (relax.op.atan2, None),
        "bitwise_and.Tensor bitwise_and.Scalar __and__.Tensor __and__.Scalar": (
            relax.op.bitwise_and,
            relax.op.logical_and,
        ),
        "bitwise_or.Tensor bitwise_or.Scalar __or__.Tensor __or__.Scalar": (relax.op.bitwise_or, relax.op.logical_or),
        "bitwise_xor.Tensor bitwise_xor.Scalar __xor__.Tensor __xor__.Scalar": (
            relax.op.bitwise_xor,
            relax.op.logical_xor,
        ),
        "__lshift__.Tensor __lshift__.Scalar bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar": (
            relax.op.left_shift,
            None,
        ),
        "__rshift__.Tensor __rshift__.Scalar bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar": (
            relax.op.right_shift,
            None,
        ),
    }
)


@_convert(aten.rsub.Tensor, aten.rsub.Scalar)
def _rsub(c: Context, a: Arguments) -> Any:
    dtype = _out(c).dtype
    x = c.tensor(a["self"], dtype, "lhs")
    if a["alpha"] != 1:
        x = c.emit(relax.op.multiply(x, c.tensor(a["alpha"], dtype)), "scaled")
    return c.emit(relax.op.subtract(c.tensor(a["other"], dtype, "rhs"), x))


@_convert(aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar)
def _pow(c: Context, a: Arguments) -> Any:
    dtype = _out(c).dtype
    base, exponent = a["self"], a["exponent"]
    if dtype.is_floating_point:
        x = c.tensor(base, dtype, "base")
        whole = isinstance(exponent, int | float) and float(exponent).is_integer() and 2 <= exponent <= 4
        if not whole:
            return c.emit(relax.op.power(x, c.tensor(exponent, dtype, "exponent")))
        square = c.emit(relax.op.multiply(x, x), "" if exponent == 2 else "square")
        return square if exponent == 2 else c.emit(relax.op.multiply(square, x if exponent == 3 else square))
    if not isinstance(exponent, int) or exponent < 0:
        raise NotCompiled("an integer power with an exponent that is a tensor or negative", "convert the base to float")
    if exponent == 0:
        return c.emit(relax.op.full(list(_out(c).shape), c.tensor(1, dtype), DTYPE_NAMES[dtype]))
    x = c.tensor(base, dtype, "base")
    result = x
    for step in range(2, exponent + 1):
        result = c.emit(relax.op.multiply(result, x), "" if step == exponent else f"power{step}")
    return result


def _comparison(function: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Converter:
    def convert(c: Context, a: Arguments) -> Any:
        left, right = c.node.args[0], c.node.args[1]
        dtype = torch.result_type(_meta(left), _meta(right))
        # Code generators stumble over comparisons of one-bit values.
        dtype = torch.int32 if dtype == torch.bool else dtype
        return c.emit(function(c.tensor(left, dtype, "lhs"), c.tensor(right, dtype, "rhs")))

    return convert


for _name, _compare in {
    "eq": relax.op.equal, "ne": relax.op.not_equal, "lt": relax.op.less, "le": relax.op.less_equal,
    "gt": relax.op.greater, "ge": relax.op.greater_equal,
}.items():  # fmt: skip
    CONVERTERS[getattr(aten, _name).Tensor] = _comparison(_compare)
    CONVERTERS[getattr(aten, _name).Scalar] = _comparison(_compare)


def _logical(function: Callable[..., relax.Expr]) -> Converter:
    def convert(c: Context, a: Arguments) -> Any:
        parts = ("lhs", "rhs")
        return c.emit(function(*(c.tensor(x, torch.bool, p) for x, p in zip(c.node.args, parts, strict=False))))

    return convert


CONVERTERS[aten.logical_and.default] = _logical(relax.op.logical_and)
CONVERTERS[aten.logical_or.default] = _logical(relax.op.logical_or)
CONVERTERS[aten.logical_xor.default] = _logical(relax.op.logical_xor)
CONVERTERS[aten.logical_not.default] = _logical(relax.op.logical_not)


@_convert(aten.bitwise_not.default)
def _bitwise_not(c: Context, a: Arguments) -> Any:
    x = c.tensor(a["self"])
    return c.emit(relax.op.logical_not(x) if _out(c).dtype == torch.bool else relax.op.bitwise_not(x))


@_convert(aten.where.self)
def _where(c: Context, a: Arguments) -> Any:
    dtype = _out(c).dtype
    return c.emit(
        relax.op.where(
            c.tensor(a["condition"], torch.bool, "condition"),
            c.tensor(a["self"], dtype, "lhs"),
            c.tensor(a["other"], dtype, "rhs"),
        )
    )


@_convert(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def _masked_fill(c: Context, a: Arguments) -> Any:
    dtype = _out(c).dtype
    value = c.tensor(a["value"], dtype, "value")
    return c.emit(relax.op.where(c.tensor(a["mask"], torch.bool, "mask"), value, c.tensor(a["self"], dtype)))


@_convert(aten._to_copy.default, aten.to.dtype, torch.ops.prims.convert_element_type.default)
def _to_copy(c: Context, a: Arguments) -> Any:
    return c.tensor(c.node.args[0], _out(c).dtype, "")


@_convert(
    aten.clone.default,
    aten.alias.default,
    aten.detach.default,
    aten.lift_fresh_copy.default,
    aten.lift_fresh.default,
    aten.contiguous.default,
)
def _same(c: Context, a: Arguments) -> Any:
    return c.tensor(c.node.args[0])


@_convert(aten.copy.default)
def _copy(c: Context, a: Arguments) -> Any:
    source = c.tensor(a["src"], _out(c).dtype)
    if tuple(_meta(a["src"]).shape) == tuple(_out(c).shape):
        return source
    return c.emit(relax.op.broadcast_to(source, list(_out(c).shape)))


# --- shape ----------------------------------------------------------------------------------------------------


@_convert(
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.unsqueeze.default,
    aten.flatten.using_ints,
    aten.unflatten.int,
)
def _reshape(c: Context, a: Arguments) -> Any:
    shape = list(_out(c).shape)
    x = c.tensor(c.node.args[0])
    if list(_meta(c.node.args[0]).shape) == shape:
        return x
    return c.emit(relax.op.reshape(x, shape))


@_convert(aten.permute.default)
def _permute(c: Context, a: Arguments) -> Any:
    rank = _rank(a["self"])
    return c.emit(relax.op.permute_dims(c.tensor(a["self"]), [d % rank for d in a["dims"]])) if rank else _same(c, a)


@_convert(aten.transpose.int)
def _transpose(c: Context, a: Arguments) -> Any:
    rank = _rank(a["self"])
    order = list(range(rank))
    first, second = a["dim0"] % rank, a["dim1"] % rank
    order[first], order[second] = order[second], order[first]
    return c.emit(relax.op.permute_dims(c.tensor(a["self"]), order))


@_convert(aten.expand.default)
def _expand(c: Context, a: Arguments) -> Any:
    shape = list(_out(c).shape)
    x = c.tensor(a["self"])
    return x if list(_meta(a["self"]).shape) == shape else c.emit(relax.op.broadcast_to(x, shape))


@_convert(aten.repeat.default)
def _repeat(c: Context, a: Arguments) -> Any:
    return c.emit(relax.op.tile(c.tensor(a["self"]), list(a["repeats"])))


@_convert(aten.flip.default)
def _flip(c: Context, a: Arguments) -> Any:
    x = c.tensor(a["self"])
    dims = _dims(a["self"], a["dims"]) if a["dims"] else []
    for step, dim in enumerate(dims):
        x = c.emit(relax.op.flip(x, dim), "" if step == len(dims) - 1 else f"axis{dim}")
    return x


@_convert(aten.cat.default)
def _cat(c: Context, a: Arguments) -> Any:
    dtype = _out(c).dtype
    # PyTorch skips one-dimensional empty tensors, whatever the other shapes.
    kept = [t for t in a["tensors"] if tuple(_meta(t).shape) != (0,)]
    parts = [c.tensor(t, dtype, f"part{i}") for i, t in enumerate(kept)]
    return c.emit(relax.op.concat(parts, a["dim"] % _out(c).dim())) if len(parts) > 1 else parts[0]


@_convert(aten.stack.default)
def _stack(c: Context, a: Arguments) -> Any:
    dtype = _out(c).dtype
    parts = [c.tensor(t, dtype, f"part{i}") for i, t in enumerate(a["tensors"])]
    return c.emit(relax.op.stack(parts, a["dim"] % _out(c).dim()))


@_convert(aten.split_with_sizes.default, aten.split.Tensor)
def _split(c: Context, a: Arguments) -> Any:
    dim = a["dim"] % _rank(a["self"])
    x = c.tensor(a["self"])
    parts, start = [], 0
    for index, part in enumerate(c.node.meta["val"]):
        end = start + int(part.shape[dim])
        parts.append(c.emit(relax.op.strided_slice(x, [dim], [start], [end]), f"part{index}"))
        start = end
    return tuple(parts)


@_convert(aten.select.int)
def _select(c: Context, a: Arguments) -> Any:
    dim = a["dim"] % _rank(a["self"])
    extent = int(_meta(a["self"]).shape[dim])
    index = a["index"] % extent
    x = c.tensor(a["self"])
    if extent > 1:
        x = c.emit(relax.op.strided_slice(x, [dim], [index], [index + 1]), "slice")
    return c.emit(relax.op.reshape(x, list(_out(c).shape)))


def _bounds(extent: int, start: Any, end: Any) -> tuple[int, int]:
    first = 0 if start is None else start
    last = extent if end is None else end
    first = min(max(first + extent if first < 0 else first, 0), extent)
    last = min(max(last + extent if last < 0 else last, first), extent)
    return first, last


@_convert(aten.slice.Tensor)
def _slice(c: Context, a: Arguments) -> Any:
    dim = a["dim"] % _rank(a["self"])
    extent = int(_meta(a["self"]).shape[dim])
    first, last = _bounds(extent, a["start"], a["end"])
    x = c.tensor(a["self"])
    if (first, last, a["step"]) == (0, extent, 1):
        return x
    return c.emit(relax.op.strided_slice(x, [dim], [first], [last], [a["step"]]))


@_convert(aten.constant_pad_nd.default)
def _pad(c: Context, a: Arguments) -> Any:
    rank, dtype = _rank(a["self"]), _out(c).dtype
    pads = [(0, 0)] * rank
    for position in range(len(a["pad"]) // 2):
        pads[rank - 1 - position] = (a["pad"][2 * position], a["pad"][2 * position + 1])
    x = c.tensor(a["self"])
    shape = [int(s) for s in _meta(a["self"]).shape]
    if any(before < 0 or after < 0 for before, after in pads):
        begin = [max(-before, 0) for before, _ in pads]
        end = [size - max(-after, 0) for size, (_, after) in zip(shape, pads, strict=True)]
        x = c.emit(relax.op.strided_slice(x, list(range(rank)), begin, end), "cropped")
        pads = [(max(before, 0), max(after, 0)) for before, after in pads]
        shape = [e - b for b, e in zip(begin, end, strict=True)]
    value = float(a["value"]) if a["value"] is not None else 0.0
    if dtype.is_floating_point and math.isfinite(value):
        flat = [p for pair in pads for p in pair]
        return c.emit(relax.op.nn.pad(x, flat, "constant", value)) if any(flat) else x
    # relax.op.nn.pad has a float fill value: integers and infinities are joined on instead.
    for dim, (before, after) in enumerate(pads):
        for amount, first in ((before, True), (after, False)):
            if amount:
                filled = [*shape[:dim], amount, *shape[dim + 1 :]]
                border = c.tensor(torch.full(filled, a["value"] or 0, dtype=dtype))
                x = c.emit(relax.op.concat([border, x] if first else [x, border], dim), f"pad{dim}{int(first)}")
                shape[dim] += amount
    return x


# --- gather and scatter ---------------------------------------------------------------------------------------


@_convert(aten.index_select.default)
def _index_select(c: Context, a: Arguments) -> Any:
    x = c.tensor(a["self"])
    index = c.tensor(a["index"])
    if _rank(a["index"]) == 0:
        index = c.emit(relax.op.reshape(index, [1]), "index")
    return c.emit(relax.op.take(x, index, a["dim"] % max(_rank(a["self"]), 1)))


@_convert(aten.embedding.default)
def _embedding(c: Context, a: Arguments) -> Any:
    return c.emit(relax.op.take(c.tensor(a["weight"]), c.tensor(a["indices"]), 0))


@_convert(aten.gather.default)
def _gather(c: Context, a: Arguments) -> Any:
    dim = a["dim"] % max(_rank(a["self"]), 1)
    x = c.tensor(a["self"])
    # relax.op.gather_elements wants equal extents off the axis; PyTorch lets the index be smaller.
    x = _cropped(c, x, _meta(a["self"]).shape, _meta(a["index"]).shape, dim, "data")
    return c.emit(relax.op.gather_elements(x, c.tensor(a["index"]), dim))


def _cropped(
    c: Context, x: relax.Expr, shape: Sequence[int], wanted: Sequence[int], axis: int | None, part: str
) -> relax.Expr:
    axes = [d for d in range(len(shape)) if d != axis and shape[d] > wanted[d]]
    if not axes:
        return x
    return c.emit(relax.op.strided_slice(x, axes, [0] * len(axes), [int(wanted[d]) for d in axes]), part)


@_convert(aten.scatter.src, aten.scatter.value, aten.scatter_add.default, aten.scatter_reduce.two)
def _scatter(c: Context, a: Arguments) -> Any:
    reductions = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
    reduction = "add" if c.node.target is aten.scatter_add.default else "update"
    if "reduce" in a:
        if a["reduce"] not in reductions or not a["include_self"]:
            raise NotCompiled("scatter_reduce with reduce='mean' or include_self=False", "use sum, prod, amax or amin")
        reduction = reductions[a["reduce"]]
    dtype, index_shape = _out(c).dtype, [int(s) for s in _meta(a["index"]).shape]
    index = c.tensor(a["index"])
    if isinstance(a.get("src"), fx.Node):
        source = _cropped(c, c.tensor(a["src"], dtype), _meta(a["src"]).shape, index_shape, None, "src")
    else:
        source = c.tensor(torch.full(index_shape, a["value"], dtype=dtype))
    dim = a["dim"] % max(_rank(a["self"]), 1)
    return c.emit(relax.op.scatter_elements(c.tensor(a["self"]), index, source, dim, reduction))


@_convert(aten.slice_scatter.default)
def _slice_scatter(c: Context, a: Arguments) -> Any:
    dim = a["dim"] % _rank(a["self"])
    shape = [int(s) for s in _meta(a["self"]).shape]
    first, last = _bounds(shape[dim], a["start"], a["end"])
    x, source = c.tensor(a["self"]), c.tensor(a["src"], _out(c).dtype)
    if a["step"] == 1:
        parts = [source]
        if first:
            parts.insert(0, c.emit(relax.op.strided_slice(x, [dim], [0], [first]), "before"))
        if last < shape[dim]:
            parts.append(c.emit(relax.op.strided_slice(x, [dim], [last], [shape[dim]]), "after"))
        return c.emit(relax.op.concat(parts, dim)) if len(parts) > 1 else source
    view = [1] * len(shape)
    view[dim] = -1
    index = torch.arange(first, last, a["step"]).reshape(view).expand(list(_meta(a["src"]).shape)).contiguous()
    return c.emit(relax.op.scatter_elements(x, c.tensor(index), source, dim, "update"))


# --- reductions and order -------------------------------------------------------------------------------------


def _reduction(function: Callable[..., relax.Expr]) -> Converter:
    def convert(c: Context, a: Arguments) -> Any:
        x = c.tensor(a["self"], _out(c).dtype)
        dims = _dims(a["self"], a.get("dim"))
        return c.emit(function(x, dims, bool(a.get("keepdim", False)))) if _rank(a["self"]) else x

    return convert


for _op in (aten.sum.default, aten.sum.dim_IntList):
    CONVERTERS[_op] = _reduction(relax.op.sum)
for _op in (aten.mean.default, aten.mean.dim):
    CONVERTERS[_op] = _reduction(relax.op.mean)
for _op in (aten.amax.default, aten.max.default):
    CONVERTERS[_op] = _reduction(relax.op.max)
for _op in (aten.amin.default, aten.min.default):
    CONVERTERS[_op] = _reduction(relax.op.min)
for _op in (aten.prod.default, aten.prod.dim_int):
    CONVERTERS[_op] = _reduction(relax.op.prod)


@_convert(aten.any.default, aten.any.dim, aten.any.dims)
def _any(c: Context, a: Arguments) -> Any:
    if not _rank(a["self"]):
        return c.tensor(a["self"], torch.bool, "")
    mask = c.tensor(a["self"], torch.bool, "mask")
    flags = c.emit(relax.op.astype(mask, "int32"), "flags")
    dims = _dims(a["self"], a.get("dim"))
    largest = c.emit(relax.op.max(flags, dims, bool(a.get("keepdim", False))), "max")
    return c.emit(relax.op.not_equal(largest, c.tensor(0, torch.int32)))


@_convert(aten.argmax.default, aten.argmin.default)
def _argmax(c: Context, a: Arguments) -> Any:
    function = relax.op.argmax if c.node.target is aten.argmax.default else relax.op.argmin
    if not _rank(a["self"]):
        return c.tensor(torch.zeros((), dtype=torch.int64))
    if a["dim"] is None and _rank(a["self"]) > 1:
        flat = c.emit(relax.op.reshape(c.tensor(a["self"]), [_meta(a["self"]).numel()]), "flat")
        index = c.emit(function(flat, 0, False), "" if not a["keepdim"] else "index")
        return c.emit(relax.op.reshape(index, list(_out(c).shape))) if a["keepdim"] else index
    dim = 0 if a["dim"] is None else a["dim"] % _rank(a["self"])
    return c.emit(function(c.tensor(a["self"]), dim, bool(a["keepdim"])))


@_convert(aten.max.dim, aten.min.dim)
def _max_dim(c: Context, a: Arguments) -> Any:
    largest = c.node.target is aten.max.dim
    x = c.tensor(a["self"])
    if not _rank(a["self"]):
        return x, c.tensor(torch.zeros((), dtype=torch.int64))
    dim = a["dim"] % _rank(a["self"])
    values = (relax.op.max if largest else relax.op.min)(x, [dim], bool(a["keepdim"]))
    indices = (relax.op.argmax if largest else relax.op.argmin)(x, dim, bool(a["keepdim"]))
    return c.emit(values, "values"), c.emit(indices, "indices")


@_convert(aten.cumsum.default, aten.cumprod.default)
def _cumulative(c: Context, a: Arguments) -> Any:
    function = relax.op.cumsum if c.node.target is aten.cumsum.default else relax.op.cumprod
    dtype = _out(c).dtype
    x = c.tensor(a["self"], dtype)
    return c.emit(function(x, a["dim"] % _rank(a["self"]), DTYPE_NAMES[dtype])) if _rank(a["self"]) else x


def _ordered(c: Context, argument: fx.Node, k: int, dim: int, largest: bool) -> tuple[relax.Expr, relax.Expr]:
    x = c.tensor(argument)
    if not _rank(argument):
        return x, c.tensor(torch.zeros((), dtype=torch.int64))
    axis = dim % _rank(argument)
    pair = c.emit(relax.op.topk(x, k, axis, "both", largest, "int64"), "pair")
    return c.emit(relax.TupleGetItem(pair, 0), "values"), c.emit(relax.TupleGetItem(pair, 1), "indices")


@_convert(aten.topk.default)
def _topk(c: Context, a: Arguments) -> Any:
    return _ordered(c, a["self"], a["k"], a["dim"], a["largest"])


@_convert(aten.sort.default, aten.sort.stable, aten.argsort.default, aten.argsort.stable)
def _sort(c: Context, a: Arguments) -> Any:
    # A full sort is a topk of everything: one kernel for the back end, and ties keep their order (stable).
    rank = _rank(a["self"])
    extent = int(_meta(a["self"]).shape[a["dim"] % rank]) if rank else 1
    pair = _ordered(c, a["self"], extent, a["dim"], bool(a["descending"]))
    return pair[1] if "argsort" in str(c.node.target) else pair


# --- linear algebra and convolution ---------------------------------------------------------------------------


def _matmul(c: Context, left: relax.Expr, right: relax.Expr, part: str = "") -> relax.Var:
    return c.emit(relax.op.matmul(left, right, DTYPE_NAMES[_out(c).dtype]), part)


@_convert(aten.mm.default, aten.bmm.default, aten.matmul.default, aten.mv.default, aten.dot.default)
def _mm(c: Context, a: Arguments) -> Any:
    return _matmul(c, c.tensor(c.node.args[0]), c.tensor(c.node.args[1]))


@_convert(aten.linear.default)
def _linear(c: Context, a: Arguments) -> Any:
    weight = c.tensor(a["weight"])
    if _rank(a["weight"]) == 2:
        weight = c.emit(relax.op.permute_dims(weight, [1, 0]), "weight")
    product = _matmul(c, c.tensor(a["input"]), weight, "" if a["bias"] is None else "matmul")
    return product if a["bias"] is None else c.emit(relax.op.add(product, c.tensor(a["bias"])))


_CONVOLUTIONS: Mapping[tuple[int, bool], tuple[Any, str, str]] = {
    (1, False): (relax.op.nn.conv1d, "NCW", "OIW"),
    (2, False): (relax.op.nn.conv2d, "NCHW", "OIHW"),
    (3, False): (relax.op.nn.conv3d, "NCDHW", "OIDHW"),
    (1, True): (relax.op.nn.conv1d_transpose, "NCW", "IOW"),
    (2, True): (relax.op.nn.conv2d_transpose, "NCHW", "IOHW"),
}


@_convert(aten.convolution.default)
def _convolution(c: Context, a: Arguments) -> Any:
    rank = _rank(a["input"]) - 2
    entry = _CONVOLUTIONS.get((rank, bool(a["transposed"])))
    if entry is None:
        raise NotCompiled("a three-dimensional transposed convolution", "use ConvTranspose2d, or upsample and convolve")
    function, layout, kernel_layout = entry
    options: dict[str, Any] = {
        "strides": list(a["stride"]),
        "padding": [*a["padding"], *a["padding"]],
        "dilation": list(a["dilation"]),
        "groups": a["groups"],
        "data_layout": layout,
        "kernel_layout": kernel_layout,
        "out_dtype": DTYPE_NAMES[_out(c).dtype],
    }
    if a["transposed"]:
        options["output_padding"] = list(a["output_padding"])
    product = c.emit(function(c.tensor(a["input"]), c.tensor(a["weight"]), **options), "conv" if a["bias"] else "")
    if a["bias"] is None:
        return product
    bias = c.emit(relax.op.reshape(c.tensor(a["bias"]), [1, int(_meta(a["bias"]).shape[0]), *[1] * rank]), "bias")
    return c.emit(relax.op.add(product, bias))


# --- pooling and resizing -------------------------------------------------------------------------------------

_POOLS: Mapping[Any, tuple[Any, int, str]] = {
    aten.max_pool1d.default: (relax.op.nn.max_pool1d, 1, "NCW"),
    aten.max_pool2d.default: (relax.op.nn.max_pool2d, 2, "NCHW"),
    aten.max_pool3d.default: (relax.op.nn.max_pool3d, 3, "NCDHW"),
    aten.max_pool2d_with_indices.default: (relax.op.nn.max_pool2d, 2, "NCHW"),
    aten.max_pool3d_with_indices.default: (relax.op.nn.max_pool3d, 3, "NCDHW"),
    aten.avg_pool1d.default: (relax.op.nn.avg_pool1d, 1, "NCW"),
    aten.avg_pool2d.default: (relax.op.nn.avg_pool2d, 2, "NCHW"),
    aten.avg_pool3d.default: (relax.op.nn.avg_pool3d, 3, "NCDHW"),
}


def _spread(value: Any, rank: int) -> list[int]:
    listed = list(value) if isinstance(value, Sequence) else [value]
    return listed * rank if len(listed) == 1 else listed


@_convert(*_POOLS)
def _pool(c: Context, a: Arguments) -> Any:
    function, rank, layout = _POOLS[c.node.target]
    pair = isinstance(c.node.meta["val"], tuple | list)
    out = _out(c, 0) if pair else _out(c)
    if pair and any(user.args[1] == 1 and user.users for user in c.node.users):
        raise NotCompiled("max pooling with return_indices", "drop return_indices; for upsampling use F.interpolate")
    x = c.tensor(a["self"])
    kernel = _spread(a["kernel_size"], rank)
    padding = _spread(a["padding"] or [0], rank)
    options: dict[str, Any] = {
        "pool_size": kernel,
        "strides": _spread(a["stride"] or kernel, rank),
        "padding": [*padding, *padding],
        "ceil_mode": bool(a["ceil_mode"]),
        "layout": layout,
    }
    if "dilation" in a:
        options["dilation"] = _spread(a["dilation"], rank)
    if "count_include_pad" in a:
        options["count_include_pad"] = bool(a["count_include_pad"])
    batched = _rank(a["self"]) == rank + 2
    if not batched:
        x = c.emit(relax.op.reshape(x, [1, *_meta(a["self"]).shape]), "batched")
    pooled = c.emit(function(x, **options), "" if batched else "pooled")
    result = pooled if batched else c.emit(relax.op.reshape(pooled, list(out.shape)))
    return (result, None) if pair else result


@_convert(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default, aten.adaptive_avg_pool1d.default)
def _adaptive_avg(c: Context, a: Arguments) -> Any:
    rank = len(a["output_size"])
    function = {
        1: relax.op.nn.adaptive_avg_pool1d,
        2: relax.op.nn.adaptive_avg_pool2d,
        3: relax.op.nn.adaptive_avg_pool3d,
    }
    x = c.tensor(a["self"])
    shape = list(_out(c).shape)
    if _rank(a["self"]) == rank + 2:
        return c.emit(function[rank](x, shape[2:]))
    x = c.emit(relax.op.reshape(x, [1, *_meta(a["self"]).shape]), "batched")
    return c.emit(relax.op.reshape(c.emit(function[rank](x, shape[1:]), "pooled"), shape))


@_convert(aten.upsample_nearest1d.vec, aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec)
def _nearest(c: Context, a: Arguments) -> Any:
    # Only whole factors arrive here (repairs.py takes the rest): every sample is repeated.
    x = c.tensor(a["input"])
    before, after = _meta(a["input"]).shape, _out(c).shape
    dims = [d for d in range(2, len(after)) if after[d] != before[d]]
    for dim in dims:
        factor = int(after[dim] // before[dim])
        x = c.emit(relax.op.repeat(x, factor, dim), "" if dim == dims[-1] else f"axis{dim}")
    return x


# --- normalisation --------------------------------------------------------------------------------------------


def _affine(c: Context, a: Arguments, shape: Sequence[int], dtype: torch.dtype) -> tuple[relax.Expr, relax.Expr]:
    weight = c.tensor(torch.ones(list(shape), dtype=dtype) if a["weight"] is None else a["weight"])
    bias = c.tensor(torch.zeros(list(shape), dtype=dtype) if a["bias"] is None else a["bias"])
    return weight, bias


@_convert(aten._softmax.default, aten._log_softmax.default)
def _softmax(c: Context, a: Arguments) -> Any:
    function = relax.op.nn.softmax if c.node.target is aten._softmax.default else relax.op.nn.log_softmax
    rank = _rank(a["self"])
    x = c.tensor(a["self"], _out(c).dtype)
    if rank == 0:
        flat = c.emit(relax.op.reshape(x, [1]), "flat")
        return c.emit(relax.op.reshape(c.emit(function(flat, 0), "softmax"), []))
    return c.emit(function(x, a["dim"] % rank))


@_convert(aten.native_layer_norm.default)
def _layer_norm(c: Context, a: Arguments) -> Any:
    shape = list(a["normalized_shape"])
    weight, bias = _affine(c, a, shape, _out(c, 0).dtype)
    axes = list(range(-len(shape), 0))
    return c.emit(relax.op.nn.layer_norm(c.tensor(a["input"]), weight, bias, axes, float(a["eps"]))), None, None


@_convert(aten.native_group_norm.default)
def _group_norm(c: Context, a: Arguments) -> Any:
    out = _out(c, 0)
    weight, bias = _affine(c, a, [a["C"]], out.dtype)
    axes = list(range(2, out.dim()))
    norm = relax.op.nn.group_norm(c.tensor(a["input"]), weight, bias, a["group"], 1, axes, float(a["eps"]))
    return c.emit(norm), None, None


@_convert(aten._native_batch_norm_legit_no_training.default)
def _batch_norm(c: Context, a: Arguments) -> Any:
    out = _out(c, 0)
    weight, bias = _affine(c, a, [out.shape[1]], out.dtype)
    mean, variance = c.tensor(a["running_mean"]), c.tensor(a["running_var"])
    norm = relax.op.nn.batch_norm(
        c.tensor(a["input"]), weight, bias, mean, variance, 1, float(a["eps"]), training=False
    )
    return c.emit(relax.TupleGetItem(c.emit(norm, "norm"), 0)), None, None


@_convert(aten._native_batch_norm_legit.no_stats)
def _batch_norm_own_stats(c: Context, a: Arguments) -> Any:
    out = _out(c, 0)
    weight, bias = _affine(c, a, [out.shape[1]], out.dtype)
    axes = [0, *range(2, out.dim())]
    return c.emit(relax.op.nn.instance_norm(c.tensor(a["input"]), weight, bias, 1, axes, float(a["eps"]))), None, None


# --- quantisation ---------------------------------------------------------------------------------------------


def _check_scale(c: Context, scale: Any) -> None:
    """Refuse a constant scale that no integer can be divided by."""
    known = c.env.get(scale) if isinstance(scale, fx.Node) else scale
    known = getattr(known, "value", known)
    if isinstance(known, float | int | torch.Tensor):
        values = torch.as_tensor(known, dtype=torch.float64)
        if not bool(((values > 0) & torch.isfinite(values)).all()):
            raise NotCompiled(
                "a quantization scale that is zero, negative or not finite",
                "calibrate again: an observer saw no data, or nothing but zeros",
            )


def _quantisation() -> None:
    import torch.ao.quantization.fx._decomposed

    quantized = torch.ops.quantized_decomposed

    def scale_and_zero(c: Context, a: Arguments) -> tuple[relax.Expr, relax.Expr]:
        scale = a.get("scale", a.get("scales"))
        zero = a.get("zero_point", a.get("zero_points"))
        _check_scale(c, scale)
        # A per-channel quantisation without zero points is symmetric.
        if zero is None:
            zero = torch.zeros(_meta(scale).shape, dtype=torch.int32)
        zero_dtype = a["dtype"] if not isinstance(zero, int | float) else torch.int32
        pair = c.tensor(scale, torch.float32, "scale"), c.tensor(zero, zero_dtype, "zero")
        if "axis" in a:
            return pair
        # One scale for the tensor may come as a tensor of one element and any rank.
        whole = [
            c.emit(relax.op.reshape(value, []), f"{part}0") if len(value.ty.shape) else value
            for value, part in zip(pair, ("scale", "zero"), strict=True)
        ]
        return whole[0], whole[1]

    def quantize(c: Context, a: Arguments) -> Any:
        scale, zero = scale_and_zero(c, a)
        limits = torch.iinfo(a["dtype"])
        axis = a.get("axis", -1)
        whole = (limits.min, limits.max) == (a["quant_min"], a["quant_max"])
        q = relax.op.quantize(c.tensor(a["input"]), scale, zero, axis, DTYPE_NAMES[a["dtype"]])
        if whole:
            return c.emit(q)
        wide = c.emit(q, "wide")
        low = c.emit(relax.op.maximum(wide, c.tensor(a["quant_min"], a["dtype"])), "low")
        return c.emit(relax.op.minimum(low, c.tensor(a["quant_max"], a["dtype"])))

    def dequantize(c: Context, a: Arguments) -> Any:
        scale, zero = scale_and_zero(c, a)
        return c.emit(relax.op.dequantize(c.tensor(a["input"]), scale, zero, a.get("axis", -1), "float32"))

    per_tensor, per_channel = quantized.quantize_per_tensor, quantized.quantize_per_channel
    for op in (per_tensor.default, per_tensor.tensor, per_channel.default):
        CONVERTERS[op] = quantize
    per_tensor, per_channel = quantized.dequantize_per_tensor, quantized.dequantize_per_channel
    for op in (per_tensor.default, per_tensor.tensor, per_channel.default):
        CONVERTERS[op] = dequantize


_quantisation()


@_convert(operator.getitem)
def _getitem(c: Context, a: Arguments) -> Any:
    raise AssertionError("the importer resolves getitem itself")
