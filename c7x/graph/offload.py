"""Rewriting to our kernels: convolution, linear, batch matmul, softmax, layer norm, top-k and argmax.

An epilogue (bias, residual, relu or relu6) is pulled into a convolution or linear layer operator by operator: each
step rewrites the kernel's call where the epilogue's operator stood, so everything it reads is computed before.
What does not meet a kernel's conditions stays a Relax operator and becomes loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

from c7x.graph.line import (
    KernelCall,
    Line,
    const_numpy,
    dtype_of,
    has_static_shape,
    is_const,
    make_const,
    make_kernel,
    op_name,
    scalar_value,
    shape_of,
    tensor_type,
)
from c7x.graph.simplify import RESHAPES, axes_of

Rule = Callable[[Line, Any], Any]

#: Kernels with an epilogue.
_WITH_EPILOGUE = ("conv2d", "matmul")


def _is_f32(*exprs: Any) -> bool:
    return all(isinstance(e.ty, relax.TensorType) and has_static_shape(e) and dtype_of(e) == "float32" for e in exprs)


def _numel(expr: Any) -> int:
    return math.prod(shape_of(expr))


def _f32(shape: tuple[int, ...]) -> Any:
    return tensor_type(shape, "float32")


# --- convolution ------------------------------------------------------------------------------------------------


def _conv2d(line: Line, call: Any) -> Any:
    del line
    a = call.attrs
    if (str(a.data_layout), str(a.kernel_layout), str(a.out_layout)) != ("NHWC", "OIHW", "NHWC"):
        return None
    if not is_const(call.args[1]) or not _is_f32(call, *call.args):
        return None
    attrs = {
        "strides": [int(s) for s in a.strides],
        "padding": [int(p) for p in a.padding],
        "dilation": [int(d) for d in a.dilation],
        "groups": int(a.groups),
        "has_bias": False,
        "has_residual": False,
        "activation": None,
    }
    return make_kernel("conv2d", call.args, attrs, call.ty)


# --- matmul -----------------------------------------------------------------------------------------------------


def _matmul(line: Line, call: Any) -> Any:
    a, b = call.args
    if not _is_f32(call, a, b) or _numel(call) == 0 or _numel(a) == 0:
        return None
    if is_const(b) and len(shape_of(b)) == 2:
        return _linear(line, call, a, b)
    if is_const(a) and is_const(b):
        return None
    return _batch_matmul(line, call, a, b)


def _linear(line: Line, call: Any, a: Any, b: Any) -> Any:
    k, n = shape_of(b)
    m = _numel(call) // n
    weight, transpose_b = b, False
    attrs = {"transpose_b": transpose_b, "has_bias": False, "has_residual": False, "activation": None}
    flat = _reshaped(line, a, (m, k))
    if shape_of(call) == (m, n):
        return make_kernel("matmul", (flat, weight), attrs, call.ty)
    result = line.main(make_kernel("matmul", (flat, weight), attrs, _f32((m, n))))
    return relax.op.reshape(result, shape_of(call))


def _reshaped(line: Line, expr: Any, shape: tuple[int, ...]) -> Any:
    """The expression under another shape, from the first source of its bytes."""
    inner = line.value(expr)
    if op_name(inner) in RESHAPES:
        expr = inner.args[0]
    if is_const(expr):
        return make_const(const_numpy(expr).reshape(shape))
    return expr if shape_of(expr) == shape else line.emit(relax.op.reshape(expr, shape), "_rows")


def last_two_swapped(line: Line, expr: Any) -> Any:
    """The expression with its last two dimensions swapped, where that undoes a transpose; None where it would be a
    transpose more. Looks through a reshape of the leading dimensions."""
    shape = shape_of(expr)
    value = line.value(expr)
    if op_name(value) in RESHAPES and shape_of(value.args[0])[-2:] == shape[-2:]:
        value = line.value(value.args[0])
    if op_name(value) != "permute_dims":
        return None
    axes = axes_of(value)
    rank = len(axes)
    # The source's last dimension is second to last: swapped, the copy runs along memory, or is none at all.
    if rank < 2 or axes[-2] != rank - 1:
        return None
    swapped = [*axes[:-2], axes[-1], axes[-2]]
    source = value.args[0]
    if swapped != list(range(rank)):
        source = line.emit(relax.op.permute_dims(source, swapped), "_rows")
    full = (*shape[:-2], shape[-1], shape[-2])
    return source if shape_of(source) == full else line.emit(relax.op.reshape(source, full), "_rows")


def _batch_matmul(line: Line, call: Any, a: Any, b: Any) -> Any:
    """Every leading dimension as one batch; b may be shared by the whole batch, or is spread when it is shared by
    a part of it."""
    if len(shape_of(a)) < 2 or len(shape_of(b)) < 2:
        return None
    source = last_two_swapped(line, b)
    transpose_b = source is not None
    b = source if transpose_b else b
    (*lead_a, m, k), (*lead_b, b1, b2) = shape_of(a), shape_of(b)
    n = b1 if transpose_b else b2
    lead = shape_of(call)[:-2]
    batch = math.prod(lead)
    a = spread(line, a, tuple(lead_a), lead, (m, k))
    b = spread(line, b, tuple(lead_b), lead, (b1, b2), may_share=True)
    kernel = make_kernel("batch_matmul", (a, b), {"transpose_b": transpose_b}, _f32((batch, m, n)))
    if shape_of(call) == (batch, m, n):
        return kernel
    return relax.op.reshape(line.main(kernel), shape_of(call))


def spread(
    line: Line,
    expr: Any,
    own: tuple[int, ...],
    lead: tuple[int, ...],
    matrix: tuple[int, int],
    *,
    may_share: bool = False,
) -> Any:
    """A stack of matrices as [batch, rows, columns]."""
    batch = math.prod(lead)
    if math.prod(own) == batch:
        return _reshaped(line, expr, (batch, *matrix))
    if may_share and math.prod(own) == 1:
        return _reshaped(line, expr, (1, *matrix))
    full = (*lead, *matrix)
    if is_const(expr):
        return make_const(np.broadcast_to(const_numpy(expr), full).reshape(batch, *matrix))
    whole = line.emit(relax.op.broadcast_to(expr, full), "_spread")
    return line.emit(relax.op.reshape(whole, (batch, *matrix)), "_rows")


# --- epilogues --------------------------------------------------------------------------------------------------


class _Producer:
    """A kernel call behind a variable, looking through one reshape.

    Attributes:
        kernel: the call.
        exprs: the variables that disappear when the call is rewritten.
        out: the kernel's output type (before the reshape).
    """

    def __init__(self, line: Line, expr: Any) -> None:
        self.exprs = [expr]
        self.kernel: KernelCall | None = None
        value = line.value(expr)
        if value is None or not line.single_use(expr):
            return
        if op_name(value) == "reshape":
            expr = value.args[0]
            self.exprs.insert(0, expr)
            if not line.single_use(expr):
                return
        found = line.kernel(expr, *_WITH_EPILOGUE)
        if found is not None and found.attrs["activation"] is None:
            self.kernel = found
            self.out = expr.ty
            self.shape = shape_of(expr)


def _rewritten(line: Line, producer: _Producer, tensors: list[Any], changed: dict[str, Any], call: Any) -> Any:
    kernel = producer.kernel
    assert kernel is not None
    line.absorb(*producer.exprs)
    new = make_kernel(kernel.op, [*kernel.tensors, *tensors], {**kernel.attrs, **changed}, producer.out)
    if shape_of(call) == producer.shape:
        return new
    return relax.op.reshape(line.main(new), shape_of(call))


def _bias(producer: _Producer, other: Any, call: Any) -> Any:
    """The constant as the kernel's bias [O]; None when it varies along more than the last dimension."""
    channels = producer.shape[-1]
    shape = shape_of(call)
    if not is_const(other) or shape[-1] != channels:
        return None
    value = const_numpy(other)
    if value.size not in (1, channels) or (value.size != 1 and value.shape[-1] != channels):
        return None
    return make_const(np.broadcast_to(value.reshape(-1), (channels,)))


def _add(line: Line, call: Any) -> Any:
    if not _is_f32(call, *call.args):
        return None
    for one, other in (call.args, tuple(call.args)[::-1]):
        if shape_of(one) != shape_of(call):
            continue
        producer = _Producer(line, one)
        kernel = producer.kernel
        if kernel is None:
            continue
        free = not kernel.attrs["has_residual"]
        bias = _bias(producer, other, call)
        if bias is not None and free and not kernel.attrs["has_bias"]:
            return _rewritten(line, producer, [bias], {"has_bias": True}, call)
        if free and isinstance(other, relax.Var) and shape_of(other) == shape_of(call) and not other.same_as(one):
            residual = _reshaped(line, other, producer.shape)
            return _rewritten(line, producer, [residual], {"has_residual": True}, call)
    return None


def _activation(line: Line, call: Any, activation: str) -> Any:
    producer = _Producer(line, call.args[0])
    if producer.kernel is None:
        return None
    return _rewritten(line, producer, [], {"activation": activation}, call)


def _relu(line: Line, call: Any) -> Any:
    return _activation(line, call, "relu")


def _relu6(line: Line, call: Any) -> Any:
    return _activation(line, call, "relu6")


def _number(expr: Any) -> float | None:
    value = scalar_value(expr) if isinstance(expr, relax.Expr) and is_const(expr) else getattr(expr, "value", expr)
    value = getattr(value, "value", value)
    return float(value) if isinstance(value, int | float) else None


def _clip(line: Line, call: Any) -> Any:
    bounds = (_number(call.args[1]), _number(call.args[2]))
    if bounds == (0.0, 6.0):
        return _activation(line, call, "relu6")
    return None


# --- rows -------------------------------------------------------------------------------------------------------


def _view(shape: tuple[int, ...], axis: int) -> dict[str, int]:
    return {"outer": math.prod(shape[:axis]), "axis": shape[axis], "inner": math.prod(shape[axis + 1 :])}


def _softmax(kernel: str) -> Rule:
    def rule(line: Line, call: Any) -> Any:
        del line
        data = call.args[0]
        if not _is_f32(call, data) or _numel(data) == 0 or not shape_of(data):
            return None
        axis = int(call.attrs.axis) % len(shape_of(data))
        return make_kernel(kernel, (data,), _view(shape_of(data), axis), call.ty)

    return rule


def _layer_norm(line: Line, call: Any) -> Any:
    del line
    data, gamma, beta = call.args
    if not _is_f32(call, data, gamma, beta) or _numel(data) == 0:
        return None
    shape = shape_of(data)
    axes = sorted(int(a) % len(shape) for a in call.attrs.axes)
    if axes != list(range(len(shape) - len(axes), len(shape))):
        return None
    norm = math.prod(shape[a] for a in axes)
    if not (is_const(gamma) and is_const(beta)) or _numel(gamma) != norm or _numel(beta) != norm:
        return None
    flat = [make_const(const_numpy(v).reshape(norm)) for v in (gamma, beta)]
    attrs = {"outer": math.prod(shape) // norm, "norm": norm, "epsilon": float(call.attrs.epsilon)}
    return make_kernel("layer_norm", (data, *flat), attrs, call.ty)


def _argmax(line: Line, call: Any) -> Any:
    data = call.args[0]
    if not has_static_shape(data) or _numel(data) == 0 or dtype_of(call) != "int64":
        return None
    shape = shape_of(data)
    axis = call.attrs.axis
    view = {"outer": 1, "axis": _numel(data), "inner": 1} if axis is None else _view(shape, int(axis) % len(shape))
    return _argmax_kernel(line, data, view, select_min=op_name(call) == "argmin", out=call.ty)


def _argmax_kernel(line: Line, data: Any, view: dict[str, int], *, select_min: bool, out: Any) -> Any:
    del line
    return make_kernel("argmax", (data,), {**view, "select_min": select_min, "dtype_in": dtype_of(data)}, out)


def _topk(line: Line, call: Any) -> Any:
    """Values and indices, sorted; along another axis than the last one between two transposes.

    The first element alone (``max(dim)``) is a reduction and an argmax, which need no sorting.
    """
    data, a = call.args[0], call.attrs
    if not has_static_shape(data) or _numel(data) == 0 or not shape_of(data):
        return None
    shape, dtype = shape_of(data), dtype_of(data)
    rank = len(shape)
    axis, largest, kind = int(a.axis) % rank, bool(a.largest), str(a.ret_type)
    k = int(a.k) if int(a.k) > 0 else shape[axis]
    index_dtype = str(a.dtype)
    if k == 1 and dtype != "bool":
        values, indices = _first_of_axis(line, data, axis, largest=largest)
    elif dtype == "float32":
        values, indices = _sorted_rows(line, data, axis, k, largest=largest)
    else:
        return None
    if index_dtype != "int64" and kind != "values":
        indices = line.emit(relax.op.astype(indices, index_dtype), "_index")
    return {"both": relax.Tuple([values, indices]), "values": values, "indices": indices}[kind]


def _argsort(line: Line, call: Any) -> Any:
    """A stable sort is a top-k of all elements."""
    data, a = call.args[0], call.attrs
    if not _is_f32(data) or _numel(data) == 0 or not shape_of(data):
        return None
    axis = int(a.axis) % len(shape_of(data))
    values, indices = _sorted_rows(line, data, axis, shape_of(data)[axis], largest=bool(a.descending))
    if op_name(call) == "sort":
        return values
    return indices if dtype_of(call) == "int64" else line.emit(relax.op.astype(indices, dtype_of(call)), "_index")


def _first_of_axis(line: Line, data: Any, axis: int, *, largest: bool) -> tuple[Any, Any]:
    shape = shape_of(data)
    reduced = (*shape[:axis], 1, *shape[axis + 1 :])
    reduce = relax.op.max if largest else relax.op.min
    values = line.emit(reduce(data, axis=axis, keepdims=True), "_value")
    kernel = _argmax_kernel(line, data, _view(shape, axis), select_min=not largest, out=tensor_type(reduced, "int64"))
    return values, line.main(kernel)


def _sorted_rows(line: Line, data: Any, axis: int, k: int, *, largest: bool) -> tuple[Any, Any]:
    shape = shape_of(data)
    rank = len(shape)
    to_last = [*(i for i in range(rank) if i != axis), axis]
    back = [to_last.index(i) for i in range(rank)]
    if axis != rank - 1:
        data = line.emit(relax.op.permute_dims(data, to_last), "_last")
    lead = shape_of(data)[:-1]
    attrs = {"outer": math.prod(lead), "n": shape[axis], "k": k, "largest": largest}
    types = [tensor_type((*lead, k), "float32"), tensor_type((*lead, k), "int64")]
    both = line.main(make_kernel("topk", (data,), attrs, types))
    found = [line.emit(relax.TupleGetItem(both, i), suffix) for i, suffix in enumerate(("_values", "_indices"))]
    if axis != rank - 1:
        found = [line.emit(relax.op.permute_dims(f, back), "_first") for f in found]
    return found[0], found[1]


RULES: dict[str, Rule] = {
    "nn.conv2d": _conv2d,
    "matmul": _matmul,
    "add": _add,
    "nn.relu": _relu,
    "nn.relu6": _relu6,
    "clip": _clip,
    "nn.softmax": _softmax("softmax"),
    "nn.log_softmax": _softmax("log_softmax"),
    "nn.layer_norm": _layer_norm,
    "topk": _topk,
    "argmax": _argmax,
    "argmin": _argmax,
    "argsort": _argsort,
    "sort": _argsort,
}


def _rule(line: Line, value: Any) -> Any:
    rule = RULES.get(op_name(value) or "")
    return rule(line, value) if rule is not None else None


def offload(mod: tvm.IRModule) -> tvm.IRModule:
    """Rewrite to our kernels, with their epilogues."""
    return Line(mod).run(_rule)
