"""Small rewrites that remove what computes nothing, and merge what is done twice.

Dead code goes by itself: a pass over the line keeps only what the outputs depend on. That is also what removes the
leftovers of max_pool's decomposition (a zeros_like and a tuple).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

from c7x.graph.line import Line, const_numpy, dtype_of, has_static_shape, is_const, make_const, op_name, shape_of

Rule = Callable[[Line, Any], Any]

#: Operators that only give the same bytes another shape.
RESHAPES = ("reshape", "expand_dims", "squeeze", "flatten", "nn.batch_flatten")


def _reshape(line: Line, call: Any) -> Any:
    """Every reshaping operator as one reshape from the first source; none when the shape stays."""
    source = call.args[0]
    if not has_static_shape(call) or not has_static_shape(source):
        return None
    inner = line.value(source)
    if op_name(inner) in RESHAPES:
        line.absorb(source)
        source = inner.args[0]
    if shape_of(source) == shape_of(call):
        return source
    return relax.op.reshape(source, shape_of(call))


def axes_of(call: Any) -> list[int]:
    """The permutation of a ``permute_dims`` call (None means reversed)."""
    rank = len(shape_of(call))
    axes = call.attrs.axes
    return [int(a) % rank for a in axes] if axes is not None else list(range(rank))[::-1]


def _permute(line: Line, call: Any) -> Any:
    axes, source = axes_of(call), call.args[0]
    inner = line.value(source)
    if op_name(inner) == "permute_dims":
        line.absorb(source)
        first = axes_of(inner)
        axes, source = [first[a] for a in axes], inner.args[0]
    if axes == list(range(len(axes))):
        return source
    moved = [a for a in axes if shape_of(source)[a] != 1]
    if moved == sorted(moved):
        # Only dimensions of one element move: the bytes stay where they are.
        return relax.op.reshape(source, shape_of(call))
    return None if source is call.args[0] else relax.op.permute_dims(source, axes)


def _same(line: Line, call: Any) -> Any:
    """An operator that is the identity when its result has the type of its operand."""
    del line
    source = call.args[0]
    same = shape_of(source) == shape_of(call) and dtype_of(source) == dtype_of(call)
    return source if same else None


def _dropout(line: Line, call: Any) -> Any:
    del line
    return relax.Tuple([call.args[0], call.args[0]])


def _concat(line: Line, call: Any) -> Any:
    del line
    fields = call.args[0].fields if isinstance(call.args[0], relax.Tuple) else ()
    return fields[0] if len(fields) == 1 else None


def _strided_slice(line: Line, call: Any) -> Any:
    """A slice that keeps everything."""
    if len(call.args) > 4 and any(int(s) != 1 for s in call.args[4].fields):
        return None
    return _same(line, call)


def _take(line: Line, call: Any) -> Any:
    """A constant scalar index is a slice: contiguous, and no index to load.

    PyTorch's negative indices count from the end.
    """
    data, indices = call.args
    if not is_const(indices) or call.attrs.axis is None:
        return None
    found = const_numpy(indices)
    shape = shape_of(data)
    axis = int(call.attrs.axis) % len(shape)
    flat = found.reshape(-1)
    if flat.size == 0 or flat.min() < -shape[axis] or flat.max() >= shape[axis]:
        return None
    flat = np.where(flat < 0, flat + shape[axis], flat)
    if flat.size > 1 and np.any(np.diff(flat) != 1):
        return None
    begin, end = int(flat[0]), int(flat[-1]) + 1
    part = data
    if (begin, end) != (0, shape[axis]):
        part = line.emit(relax.op.strided_slice(data, [axis], [begin], [end]), "_slice")
    return relax.op.reshape(part, shape_of(call))


def _arithmetic(line: Line, call: Any) -> Any:
    """(x + c) + d = x + (c + d) and (x * c) * d for constants of one element of a floating type are left alone: they
    would round differently. Only an operand that changes nothing is dropped."""
    op = op_name(call)
    left, right = call.args
    neutral = {"add": 0, "subtract": 0, "multiply": 1, "divide": 1}[op or ""]
    for kept, other in ((left, right), (right, left)):
        if op in ("subtract", "divide") and kept is right:
            continue
        if not is_const(other) or is_const(kept):
            continue
        if shape_of(kept) != shape_of(call) or dtype_of(kept) != dtype_of(call):
            continue
        value = const_numpy(other)
        # Adding +0 turns -0 into +0; adding -0 and subtracting +0 change nothing.
        if np.issubdtype(value.dtype, np.floating) and neutral == 0 and not _keeps_sign(op or "", value):
            continue
        if np.all(value == neutral):
            return kept
    return None


def _keeps_sign(op: str, zero: np.ndarray) -> bool:
    return bool(np.all(np.signbit(zero))) if op == "add" else not bool(np.any(np.signbit(zero)))


def _where(line: Line, call: Any) -> Any:
    """A constant condition that is true or false throughout."""
    del line
    condition = call.args[0]
    if not is_const(condition):
        return None
    value = const_numpy(condition)
    if not (value.all() or not value.any()):
        return None
    chosen = call.args[1] if value.all() else call.args[2]
    return chosen if shape_of(chosen) == shape_of(call) else None


def _layer_norm_defaults(line: Line, call: Any) -> Any:
    """Scale and shift spelled out, so that what follows sees one form."""
    del line
    attrs, (data, gamma, beta) = call.attrs, call.args
    if (attrs.scale and attrs.center) or not (is_const(gamma) and is_const(beta)):
        return None
    if not attrs.scale:
        gamma = make_const(np.ones_like(const_numpy(gamma)))
    if not attrs.center:
        beta = make_const(np.zeros_like(const_numpy(beta)))
    return relax.op.nn.layer_norm(data, gamma, beta, [int(a) for a in attrs.axes], float(attrs.epsilon))


RULES: dict[str, Rule] = {
    **dict.fromkeys(RESHAPES, _reshape),
    "permute_dims": _permute,
    "astype": _same,
    "broadcast_to": _same,
    "nn.dropout": _dropout,
    "concat": _concat,
    "strided_slice": _strided_slice,
    "take": _take,
    "add": _arithmetic,
    "subtract": _arithmetic,
    "multiply": _arithmetic,
    "divide": _arithmetic,
    "where": _where,
    "nn.layer_norm": _layer_norm_defaults,
}


def _rule(line: Line, value: Any) -> Any:
    rule = RULES.get(op_name(value) or "")
    return rule(line, value) if rule is not None else None


def simplify(mod: tvm.IRModule) -> tvm.IRModule:
    """One pass of small rewrites; dead code is dropped."""
    return Line(mod).run(_rule)
