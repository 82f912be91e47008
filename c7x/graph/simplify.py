"""Small rewrites that remove what computes nothing, and merge what is done twice.

Dead code goes by itself: a pass over the line keeps only what the outputs depend on. That is also what removes the
leftovers of max_pool's decomposition (a zeros_like and a tuple).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    nested = op_name(inner) == "permute_dims"
    if nested:
        line.absorb(source)
        first = axes_of(inner)
        axes, source = [first[a] for a in axes], inner.args[0]
    if axes == list(range(len(axes))):
        return source
    moved = [a for a in axes if shape_of(source)[a] != 1]
    if moved == sorted(moved):
        # Only dimensions of one element move: the bytes stay where they are.
        return relax.op.reshape(source, shape_of(call))
    return relax.op.permute_dims(source, axes) if nested else None


def _permute_squeezed(line: Line, call: Any) -> Any:
    """A transpose without its dimensions of one element: fewer loops, and reshapes around it that merge with others."""
    simpler = _permute(line, call)
    if simpler is not None:
        return simpler
    source, axes = call.args[0], axes_of(call)
    shape = shape_of(source)
    if 1 not in shape:
        return None
    kept = [a for a in range(len(shape)) if shape[a] != 1]
    squeezed = line.emit(relax.op.reshape(source, [shape[a] for a in kept]), "_squeezed")
    moved = line.main(relax.op.permute_dims(squeezed, [kept.index(a) for a in axes if a in kept]))
    return relax.op.reshape(moved, shape_of(call))


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
    fields = list(call.args[0].fields) if isinstance(call.args[0], relax.Tuple) else []
    return fields[0] if len(fields) == 1 else None


def _strided_slice(line: Line, call: Any) -> Any:
    """A slice that keeps everything is nothing; a slice of a transpose is the transpose of a slice, so that nobody
    moves what nobody reads."""
    strides = [int(s) for s in call.args[4].fields] if len(call.args) > 4 else []
    if all(s == 1 for s in strides):
        whole = _same(line, call)
        if whole is not None:
            return whole
    inner = line.value(call.args[0])
    if op_name(inner) != "permute_dims":
        return None
    axes = axes_of(inner)
    where = [axes[int(a) % len(axes)] for a in call.args[1].fields]
    bounds = [[int(v) for v in a.fields] for a in call.args[2:4]]
    part = line.emit(relax.op.strided_slice(inner.args[0], where, *bounds, strides or None), "_slice")
    moved = _permute(line, line.normalize(relax.op.permute_dims(part, axes)))
    return relax.op.permute_dims(part, axes) if moved is None else moved


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
    factor = _repetition(flat, shape[axis])
    if factor is not None and found.ndim == 1:
        return relax.op.repeat(data, factor, axis)
    wrapped = np.where(flat < 0, flat + shape[axis], flat)
    if flat.size > 1 and np.any(np.diff(wrapped) != 1):
        if np.array_equal(wrapped, flat):
            return None
        return relax.op.take(data, make_const(wrapped.reshape(found.shape)), axis, str(call.attrs.mode))
    flat = wrapped
    begin, end = int(flat[0]), int(flat[-1]) + 1
    part = data
    if (begin, end) != (0, shape[axis]):
        part = line.emit(relax.op.strided_slice(data, [axis], [begin], [end]), "_slice")
    return relax.op.reshape(part, shape_of(call))


def _repetition(indices: np.ndarray, length: int) -> int | None:
    """f > 1 when the indices are 0..length-1, each f times: nearest-neighbour upsampling, which needs no table."""
    factor = indices.size // length if length else 0
    if factor > 1 and np.array_equal(indices, np.repeat(np.arange(length), factor)):
        return factor
    return None


def _stays(call: Any, position: int, operand: Any, line: Line) -> Any:
    """The call with another operand, if its result keeps its type; else None."""
    args = list(call.args)
    args[position] = operand
    changed = line.normalize(tvm.ir.Call(call.op, args, call.attrs, call.ty_args))
    same = shape_of(changed) == shape_of(call) and dtype_of(changed) == dtype_of(call)
    return changed if same else None


def _broadcasting(line: Line, call: Any) -> Any:
    """Operands as small as broadcasting allows: no broadcast_to before it, and one element for a uniform constant."""
    matrices = op_name(call) == "matmul"
    if not has_static_shape(call):
        return None
    result = None
    for i, operand in enumerate(call.args):
        smaller = None
        inner = line.value(operand)
        if op_name(inner) == "broadcast_to":
            source = inner.args[0]
            kept = not matrices or shape_of(source)[-2:] == shape_of(operand)[-2:]
            smaller = source if kept else None
        elif matrices:
            continue
        elif op_name(inner) in ("full", "full_like", "zeros", "ones", "zeros_like", "ones_like"):
            smaller = _fill_value(inner)
        elif is_const(operand) and shape_of(operand):
            value = const_numpy(operand).reshape(-1)
            if value.size and np.array_equal(value, np.full_like(value, value[0]), equal_nan=value.dtype.kind == "f"):
                smaller = make_const(value[:1].reshape(()))
        if smaller is not None:
            changed = _stays(call if result is None else result, i, smaller, line)
            result = changed if changed is not None else result
    return result


def _fill_value(call: Any) -> Any:
    op = op_name(call) or ""
    if op.startswith("full"):
        value = call.args[1]
        if not is_const(value):
            return None
        return make_const(const_numpy(value).reshape(()).astype(dtype_of(call)))
    return make_const(np.asarray(0 if op.startswith("zeros") else 1, dtype_of(call)))


def _elementwise(line: Line, call: Any) -> Any:
    """Element by element with scalars only: works before a transpose as well as after it."""
    smaller = _broadcasting(line, call)
    if smaller is not None:
        return smaller
    tensors = [a for a in call.args if isinstance(a, relax.Var)]
    if len(tensors) != 1 or not has_static_shape(call):
        return None
    inner = line.value(tensors[0])
    others = [a for a in call.args if is_const(a)]
    if op_name(inner) != "permute_dims" or not line.single_use(tensors[0]) or any(shape_of(o) for o in others):
        return None
    if shape_of(call) != shape_of(tensors[0]):
        return None
    args = [inner.args[0] if a.same_as(tensors[0]) else a for a in call.args]
    return relax.op.permute_dims(line.main(tvm.ir.Call(call.op, args, call.attrs, call.ty_args)), axes_of(inner))


def _astype(line: Line, call: Any) -> Any:
    same = _same(line, call)
    return same if same is not None else _elementwise(line, call)


def _arithmetic(line: Line, call: Any) -> Any:
    """(x + c) + d = x + (c + d) and (x * c) * d for constants of one element of a floating type are left alone: they
    would round differently. Only an operand that changes nothing is dropped."""
    smaller = _elementwise(line, call)
    if smaller is not None:
        return smaller
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
        if np.all(value == neutral):
            return kept
    return None


def _where(line: Line, call: Any) -> Any:
    """A constant condition that is true or false throughout."""
    smaller = _broadcasting(line, call)
    if smaller is not None:
        return smaller
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


#: Operators that work element by element, with broadcasting.
ELEMENTWISE = frozenset(
    {
        *"abs acos acosh asin asinh atan atanh bitwise_not ceil clip cos cosh erf exp floor".split(),
        *"isfinite isinf isnan log logical_not negative round rsqrt sigmoid sign sin sinh sqrt".split(),
        *"square tan tanh trunc astype".split(),
        *"nn.relu nn.relu6 nn.leakyrelu nn.gelu nn.gelu_tanh nn.selu nn.silu nn.softplus".split(),
        *"add subtract multiply divide floor_divide floor_mod mod power maximum minimum atan2 log_add_exp".split(),
        *"equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor".split(),
        *"bitwise_and bitwise_or bitwise_xor left_shift right_shift where".split(),
    }
)

RULES: dict[str, Rule] = {
    **dict.fromkeys(sorted(ELEMENTWISE), _elementwise),
    "matmul": _broadcasting,
    **dict.fromkeys(RESHAPES, _reshape),
    "permute_dims": _permute,
    "astype": _astype,
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


def _elementwise_before_reshape(line: Line, call: Any) -> Any:
    """Element by element works on any shape: a reshape goes behind it, where it meets others or becomes an alias."""
    simpler = RULES[op_name(call) or ""](line, call)
    if simpler is not None or not has_static_shape(call):
        return simpler
    tensors = [a for a in call.args if isinstance(a, relax.Var)]
    inner = [line.value(t) for t in tensors]
    if not tensors or any(op_name(i) != "reshape" or shape_of(i) != shape_of(call) for i in inner):
        return None
    sources = [i.args[0] for i in inner]
    shape = shape_of(sources[0])
    if any(shape_of(s) != shape for s in sources):
        return None
    for other in call.args:
        along_last = is_const(other) and len(shape_of(other)) == 1 and shape[-1:] == shape_of(call)[-1:]
        if is_const(other) and shape_of(other) and not along_last:
            return None
    left = iter(sources)
    args = [next(left) if isinstance(a, relax.Var) else a for a in call.args]
    return relax.op.reshape(line.main(tvm.ir.Call(call.op, args, call.attrs, call.ty_args)), shape_of(call))


def _apply(rules: Mapping[str, Rule], mod: tvm.IRModule) -> tvm.IRModule:
    def rule(line: Line, value: Any) -> Any:
        found = rules.get(op_name(value) or "")
        return found(line, value) if found is not None else None

    return Line(mod).run(rule)


def simplify(mod: tvm.IRModule) -> tvm.IRModule:
    """One pass of small rewrites; dead code is dropped."""
    return _apply(RULES, mod)


def simplify_moves(mod: tvm.IRModule) -> tvm.IRModule:
    """``simplify``, transposes without dimensions of one element, and reshapes behind what works element by element:
    for after the layout pass, which looks for transposes in their full rank."""
    rules = {**RULES, **dict.fromkeys(sorted(ELEMENTWISE), _elementwise_before_reshape)}
    return _apply({**rules, "permute_dims": _permute_squeezed}, mod)
