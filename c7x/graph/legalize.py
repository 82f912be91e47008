"""Operators to TIR loops: TVM's legalisation, with our own where TVM's computes something else than PyTorch.

The node for a floating maximum or minimum in what leaves here is always ``tirx.Max``/``tirx.Min``, never a select on
a comparison, and the printer writes both as helpers that propagate NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax, te, tirx, topi
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from c7x.errors import UnsupportedError
from c7x.graph.line import (
    FIRMWARE_PREFIXES,
    KERNEL_PREFIX,
    dtype_of,
    load_origins,
    op_name,
    scalar_value,
    shape_of,
    straight_line,
)

#: TVM's operator pattern kOpaque.
_OPAQUE = 8

LegalizeFunc = Callable[[relax.BlockBuilder, Any], Any]


def _pairs(values: Any, n: int) -> list[int]:
    found = [int(v) for v in values]
    return found * n if len(found) == 1 else found


def _lowest(dtype: str) -> Any:
    """The identity of a maximum: minus infinity, so that a window of minus infinities stays one."""
    if dtype.startswith("float"):
        return tirx.const(float("-inf"), dtype)
    return te.min_value(dtype)


def _highest(dtype: str) -> Any:
    return tirx.const(float("inf"), dtype) if dtype.startswith("float") else te.max_value(dtype)


def _max_reducer(dtype: str) -> Any:
    return te.comm_reducer(lambda a, b: te.max(a, b), lambda _: _lowest(dtype), name="maximum")


def _min_reducer(dtype: str) -> Any:
    return te.comm_reducer(lambda a, b: te.min(a, b), lambda _: _highest(dtype), name="minimum")


# --- pooling ----------------------------------------------------------------------------------------------------


def _window_axes(layout: str) -> list[int]:
    return [i for i, c in enumerate(layout) if c in "DHW"]


def _max_pool(bb: relax.BlockBuilder, call: Any) -> Any:
    """Maximum over windows; padding is the identity, NaN in a window wins (PyTorch's max_pool)."""
    attrs = call.attrs
    axes = _window_axes(str(attrs.layout))
    n = len(axes)
    kernel, strides = _pairs(attrs.pool_size, n), _pairs(attrs.strides, n)
    dilation, padding = _pairs(attrs.dilation, n), _pairs(attrs.padding, 2 * n)
    out_shape, dtype = shape_of(call), dtype_of(call)
    size = shape_of(call.args[0])

    def compute(data: te.Tensor) -> te.Tensor:
        window = [te.reduce_axis((0, k), name=f"k{i}") for i, k in enumerate(kernel)]

        def element(*index: Any) -> Any:
            where = list(index)
            inside = []
            for i, axis in enumerate(axes):
                reach = (out_shape[axis] - 1) * strides[i] + (kernel[i] - 1) * dilation[i] - padding[i]
                position = index[axis] * strides[i] + window[i] * dilation[i] - padding[i]
                if padding[i] > 0:
                    inside.append(position >= 0)
                if reach >= size[axis]:
                    inside.append(position < size[axis])
                where[axis] = position
            value = data(*where)
            if inside:
                value = tirx.if_then_else(tirx.all(*inside), value, _lowest(dtype))
            return _max_reducer(dtype)(value, axis=window)

        return te.compute(out_shape, element, name="max_pool", tag="pool_max")

    return bb.call_te(compute, call.args[0], primfunc_name_hint="max_pool")


def _avg_pool(bb: relax.BlockBuilder, call: Any) -> Any:
    """Mean over windows with PyTorch's divisor: the window cut to the padded input (count_include_pad), or to the
    input itself."""
    attrs = call.attrs
    axes = _window_axes(str(attrs.layout))
    n = len(axes)
    kernel, strides = _pairs(attrs.pool_size, n), _pairs(attrs.strides, n)
    padding = _pairs(attrs.padding, 2 * n)
    out_shape, dtype = shape_of(call), dtype_of(call)
    size = shape_of(call.args[0])
    include_pad = bool(attrs.count_include_pad)

    def cut(index: Any, i: int, low: int, high: int) -> Any:
        """Length of window ``index`` along window axis ``i`` inside [low, high)."""
        begin = index * strides[i] - padding[i]
        return tirx.min(begin + kernel[i], high) - tirx.max(begin, low)

    def compute(data: te.Tensor) -> te.Tensor:
        window = [te.reduce_axis((0, k), name=f"k{i}") for i, k in enumerate(kernel)]

        def total(*index: Any) -> Any:
            where = list(index)
            inside = []
            for i, axis in enumerate(axes):
                position = index[axis] * strides[i] + window[i] - padding[i]
                if padding[i] > 0:
                    inside.append(position >= 0)
                if (out_shape[axis] - 1) * strides[i] + kernel[i] - 1 - padding[i] >= size[axis]:
                    inside.append(position < size[axis])
                where[axis] = position
            value = data(*where)
            if inside:
                value = tirx.if_then_else(tirx.all(*inside), value, tirx.const(0, dtype))
            return te.sum(value, axis=window)

        sums = te.compute(out_shape, total, name="pool_sum", tag="pool_sum")

        def mean(*index: Any) -> Any:
            count: Any = tirx.const(1, "int32")
            constant = 1
            for i, axis in enumerate(axes):
                pad_after = padding[n + i]
                last_end = (out_shape[axis] - 1) * strides[i] - padding[i] + kernel[i]
                low, high = (-padding[i], size[axis] + pad_after) if include_pad else (0, size[axis])
                if last_end <= high and low <= -padding[i]:
                    constant *= kernel[i]
                else:
                    count = count * cut(index[axis], i, low, high).astype("int32")
            return sums(*index) / (count * constant).astype(dtype)

        return te.compute(out_shape, mean, name="avg_pool", tag=topi.tag.ELEMWISE)

    return bb.call_te(compute, call.args[0], primfunc_name_hint="avg_pool")


# --- element by element -----------------------------------------------------------------------------------------


def _relu6(bb: relax.BlockBuilder, call: Any) -> Any:
    return bb.call_te(lambda x: topi.clip(x, 0.0, 6.0), call.args[0], primfunc_name_hint="relu6")


def _round(bb: relax.BlockBuilder, call: Any) -> Any:
    """Half to even, as PyTorch rounds."""
    return bb.call_te(
        lambda x: te.compute(x.shape, lambda *i: tirx.nearbyint(x(*i)), name="round", tag=topi.tag.ELEMWISE),
        call.args[0],
        primfunc_name_hint="round",
    )


# --- quantisation -----------------------------------------------------------------------------------------------


def _quantize(bb: relax.BlockBuilder, call: Any) -> Any:
    """clip(rint(x / scale) + zero): halves to even, as PyTorch rounds; TVM's own loops round them away from zero."""
    data, *params = call.args
    axis = int(call.attrs.axis) % max(len(shape_of(data)), 1)
    dtype = dtype_of(call)
    numbers = [scalar_value(p) for p in params]
    tensors = [p for p, number in zip(params, numbers, strict=True) if number is None]

    def compute(x: te.Tensor, *given: te.Tensor) -> te.Tensor:
        def element(*index: Any) -> Any:
            left = iter(given)
            scale, zero = (
                tirx.const(float(number), x.dtype) if number is not None else next(left)(index[axis]).astype(x.dtype)
                for number in numbers
            )
            whole = tirx.nearbyint(x(*index) / scale) + zero
            low, high = (tirx.const(float(f(dtype).value), x.dtype) for f in (te.min_value, te.max_value))
            return te.max(te.min(whole, high), low).astype(dtype)

        return te.compute(x.shape, element, name="quantize", tag=topi.tag.ELEMWISE)

    return bb.call_te(compute, data, *tensors, primfunc_name_hint="quantize")


# --- arithmetic -------------------------------------------------------------------------------------------------


def _multiply(bb: relax.BlockBuilder, call: Any) -> Any:
    """TVM folds ``x * 0`` to 0 where the zero is a literal, which loses NaN, infinity and the sign of zero: there the
    constant stays a tensor."""
    if dtype_of(call).startswith("float") and 0.0 in (scalar_value(a) for a in call.args):
        return bb.call_te(topi.multiply, *call.args, primfunc_name_hint="multiply")
    return _usual_multiply(bb, call)


_usual_multiply = tvm.ir.Op.get("relax.multiply").get_attr("FLegalize")


# --- reductions -------------------------------------------------------------------------------------------------


def _extreme(reducer: Callable[[str], Any], hint: str) -> LegalizeFunc:
    def legalize(bb: relax.BlockBuilder, call: Any) -> Any:
        dtype = dtype_of(call)
        shape = shape_of(call.args[0])
        given = call.attrs.axis
        axes = sorted({int(a) % len(shape) for a in given}) if given is not None else list(range(len(shape)))
        keepdims = bool(call.attrs.keepdims)
        out_shape = shape_of(call)

        def compute(data: te.Tensor) -> te.Tensor:
            reduced = {a: te.reduce_axis((0, shape[a]), name=f"k{a}") for a in axes}

            def element(*index: Any) -> Any:
                rest = list(index)
                if not keepdims:
                    for a in axes:
                        rest.insert(a, None)
                where = [reduced[a] if a in reduced else rest[a] for a in range(len(shape))]
                return reducer(dtype)(data(*where), axis=list(reduced.values()))

            return te.compute(out_shape, element, name=hint, tag=topi.tag.COMM_REDUCE)

        if not axes or dtype == "bool":
            f = topi.max if hint == "max" else topi.min
            return bb.call_te(f, call.args[0], call.attrs.axis, keepdims, primfunc_name_hint=hint)
        return bb.call_te(compute, call.args[0], primfunc_name_hint=hint)

    return legalize


# --- running sums and sorting -----------------------------------------------------------------------------------


def _view(shape: tuple[int, ...], axis: int | None) -> tuple[int, int, int]:
    """A shape as [outer, axis, inner]; without an axis everything is one row."""
    if axis is None:
        return 1, math.prod(shape), 1
    axis %= max(len(shape), 1)
    return math.prod(shape[:axis]), math.prod(shape[axis : axis + 1]), math.prod(shape[axis + 1 :])


def _scan(combine: Callable[[Any, Any], Any], identity: int, hint: str) -> LegalizeFunc:
    """A running sum or product: one sequential loop along the axis."""

    def legalize(bb: relax.BlockBuilder, call: Any) -> Any:
        axis = call.attrs.axis
        outer, length, inner = _view(shape_of(call.args[0]), None if axis is None else int(axis))
        dtype, out_shape = dtype_of(call), shape_of(call)
        exclusive = bool(call.attrs.exclusive)

        def generate(source: Any, target: Any) -> Any:
            with IRBuilder() as ib:
                source, target = T.buffer_proxy(source), T.buffer_proxy(target)
                with T.serial(0, outer) as o, T.serial(0, inner) as i:
                    base = o * (length * inner) + i
                    first = tirx.const(identity, dtype) if exclusive else source[base].astype(dtype)
                    target[base] = first
                    with T.serial(0, length - 1) as k:
                        before = base + k * inner
                        read = source[before if exclusive else before + inner].astype(dtype)
                        target[before + inner] = combine(target[before], read)
                return ib.get()

        def compute(data: te.Tensor) -> te.Tensor:
            flat = topi.reshape(data, (outer * length * inner,))
            result = te.extern(
                [flat.shape],
                [flat],
                lambda ins, outs: generate(ins[0], outs[0]),
                dtype=dtype,
                in_buffers=[tirx.decl_buffer(flat.shape, data.dtype, "source", layout=None)],
                out_buffers=[tirx.decl_buffer(flat.shape, dtype, "target", layout=None)],
                name=hint,
            )
            return topi.reshape(result, out_shape)

        return bb.call_te(compute, call.args[0], primfunc_name_hint=hint)

    return legalize


#: A sort by ranks compares every pair; longer rows are refused rather than made to take minutes.
_MAX_RANKED = 4096


def _argsort(bb: relax.BlockBuilder, call: Any) -> Any:
    """Indices of a stable sort by counting, for every element, the elements that come before it.

    Floating-point rows are sorted by the top-k kernel; this is for integers.
    """
    return bb.call_te(_sorted(call, indices=True), call.args[0], primfunc_name_hint="argsort")


def _sort(bb: relax.BlockBuilder, call: Any) -> Any:
    return bb.call_te(_sorted(call, indices=False), call.args[0], primfunc_name_hint="sort")


def _sorted(call: Any, *, indices: bool) -> Callable[[te.Tensor], te.Tensor]:
    shape = shape_of(call.args[0])
    axis = int(call.attrs.axis) % len(shape)
    descending, dtype, length = bool(call.attrs.descending), dtype_of(call), shape[axis]
    if length > _MAX_RANKED:
        raise UnsupportedError(
            f"sorting {length} elements of type {dtype_of(call.args[0])} along one axis",
            cause=f"rows of integers are sorted by comparing every pair, up to {_MAX_RANKED} elements",
            hint="convert to float32 before sorting, or use topk",
        )

    def at(index: Any, position: Any) -> list[Any]:
        where = list(index)
        where[axis] = position
        return where

    def compute(data: te.Tensor) -> te.Tensor:
        other = te.reduce_axis((0, length), name="other")

        def rank(*index: Any) -> Any:
            mine, theirs = data(*index), data(*at(index, other))
            before = theirs > mine if descending else theirs < mine
            earlier = tirx.all(theirs == mine, other < index[axis])
            return te.sum(tirx.any(before, earlier).astype("int32"), axis=other)

        ranks = te.compute(shape, rank, name="rank")
        source = te.reduce_axis((0, length), name="source")

        def pick(*index: Any) -> Any:
            value = source.astype(dtype) if indices else data(*at(index, source))
            chosen = ranks(*at(index, source)) == index[axis].astype("int32")
            return te.sum(tirx.Select(chosen, value, tirx.const(0, dtype)), axis=source)

        return te.compute(shape, pick, name="sorted")

    return compute


LEGALIZE: dict[str, LegalizeFunc] = {
    "relax.nn.max_pool1d": _max_pool,
    "relax.nn.max_pool2d": _max_pool,
    "relax.nn.max_pool3d": _max_pool,
    "relax.nn.avg_pool1d": _avg_pool,
    "relax.nn.avg_pool2d": _avg_pool,
    "relax.nn.avg_pool3d": _avg_pool,
    "relax.nn.relu6": _relu6,
    "relax.quantize": _quantize,
    "relax.round": _round,
    "relax.multiply": _multiply,
    "relax.cumsum": _scan(lambda a, b: a + b, 0, "cumsum"),
    "relax.cumprod": _scan(lambda a, b: a * b, 1, "cumprod"),
    "relax.argsort": _argsort,
    "relax.sort": _sort,
    "relax.max": _extreme(_max_reducer, "max"),
    "relax.min": _extreme(_min_reducer, "min"),
}


def check_lowered(mod: tvm.IRModule) -> None:
    """Refuse, by name, every operator that is left without loops.

    Raises:
        UnsupportedError: naming the operators, and the nodes of the exported graph that they come from.
    """
    origins = load_origins(mod["main"])
    left: dict[str, list[str]] = {}
    for var, value in straight_line(mod["main"]):
        op = op_name(value)
        if op is None or op == "call_tir":
            continue
        if op == "call_dps_packed" and str(value.args[0].global_symbol).startswith((KERNEL_PREFIX, *FIRMWARE_PREFIXES)):
            continue
        name = str(var.name)
        nodes = origins[name].nodes if name in origins else (name,)
        left.setdefault(op, []).extend(nodes)
    if left:
        listed = "; ".join(f"{op} ({', '.join(nodes)})" for op, nodes in sorted(left.items()))
        raise UnsupportedError(
            f"no loops are known for: {listed}",
            cause="neither TVM nor c7x lowers these operators to C",
            hint="replace the operation in the model by simpler ones, or move it out of the exported part",
        )


def check_loops(mod: tvm.IRModule) -> None:
    """Refuse PrimFuncs that call a packed function: there is nobody to answer on the DSP.

    Raises:
        UnsupportedError: naming the operators and nodes whose loops call one.
    """
    origins = load_origins(mod["main"])
    found = []
    for var, value in straight_line(mod["main"]):
        if op_name(value) != "call_tir":
            continue
        func = mod[value.args[0]]
        opaque = int(func.attrs["op_pattern"]) == _OPAQUE if "op_pattern" in func.attrs else True
        if opaque and "call_packed" in func.script():
            origin = origins.get(str(var.name))
            found.append(f"{', '.join(origin.relax_ops)} ({', '.join(origin.nodes)})" if origin else str(var.name))
    if found:
        raise UnsupportedError(
            f"no plain loops are known for: {'; '.join(found)}",
            cause="TVM lowers these operators to a call of its run-time library, which a DSP does not have",
            hint="replace the operation in the model by simpler ones, or move it out of the exported part",
        )


def legalize(mod: tvm.IRModule) -> tvm.IRModule:
    """Every operator as a call of a PrimFunc; kernels of ours stay."""
    mod = relax.transform.LegalizeOps(LEGALIZE)(mod)
    check_lowered(mod)
    return mod
