"""Channels last: convolutions and what stands between them on [N, ..., C], transposes only where the graph asks.

An operator that wants its channels last is written as such, followed by the transpose back; an operator that can work
on either order looks behind that transpose and is written channels last in turn. What nobody looks at is dead, so the
only transposes left are at borders: the input of the first convolution, and what really needs channels first.
Moves of dimensions of one element are reshapes, which cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from c7x.graph.line import (
    Line,
    const_numpy,
    dtype_of,
    has_static_shape,
    is_const,
    make_const,
    op_name,
    shape_of,
)
from c7x.graph.simplify import ELEMENTWISE, RESHAPES, axes_of

#: By rank: position in channels-first order of every channels-last dimension.
LAST: dict[int, list[int]] = {3: [0, 2, 1], 4: [0, 2, 3, 1]}
#: By rank: the way back.
FIRST: dict[int, list[int]] = {3: [0, 2, 1], 4: [0, 3, 1, 2]}

_LAYOUT_LAST = {3: "NWC", 4: "NHWC"}


def _is_tensor(expr: Any) -> bool:
    return isinstance(expr.ty, relax.TensorType)


def _trivial(shape: Sequence[int], axes: Sequence[int]) -> bool:
    """Whether the permutation moves only dimensions of one element."""
    moved = [a for a in axes if shape[a] != 1]
    return moved == sorted(moved)


def _permuted(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(shape[a] for a in axes)


class Layout:
    """The state of one layout pass: channels-last versions made so far."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def peek(self, line: Line, expr: Any) -> Any:
        """The channels-last version of ``expr`` if it exists already; else None."""
        if not isinstance(expr, relax.Var) or not has_static_shape(expr):
            return None
        shape = shape_of(expr)
        rank = len(shape)
        if rank not in LAST:
            return None
        made = self._made.get(str(expr.name))
        if made is not None:
            return made
        value = line.value(expr)
        if op_name(value) == "permute_dims" and axes_of(value) == FIRST[rank]:
            return value.args[0]
        if op_name(value) in RESHAPES:
            source = value.args[0]
            if shape_of(source) == _permuted(shape, LAST[rank]) and _trivial(shape, LAST[rank]):
                return source
        return None

    def last(self, line: Line, expr: Any) -> Any:
        """The channels-last version of ``expr``, made if need be."""
        if is_const(expr):
            return make_const(np.transpose(const_numpy(expr), LAST[len(shape_of(expr))]))
        found = self.peek(line, expr)
        if found is None:
            found = line.emit(move(expr, LAST[len(shape_of(expr))]), "_last")
            if isinstance(expr, relax.Var):
                self._made[str(expr.name)] = found
        return found


def move(expr: Any, axes: Sequence[int]) -> Any:
    """The transposed expression: a reshape when only dimensions of one element move."""
    shape = shape_of(expr)
    if list(axes) == list(range(len(axes))):
        return expr
    if _trivial(shape, axes):
        return relax.op.reshape(expr, _permuted(shape, axes))
    return relax.op.permute_dims(expr, list(axes))


def first(expr: Any) -> Any:
    """The channels-first expression of a channels-last one."""
    return move(expr, FIRST[len(shape_of(expr))])


Rule = Callable[[Layout, Line, Any], Any]


# --- convolutions -----------------------------------------------------------------------------------------------


def conv_fits(call: Any) -> bool:
    """Whether our convolution kernel takes the call: float32, channels first, constant weight."""
    layouts = {"nn.conv1d": ("NCW", "OIW"), "nn.conv2d": ("NCHW", "OIHW")}
    op = op_name(call)
    return (
        op in layouts
        and (str(call.attrs.data_layout), str(call.attrs.kernel_layout)) == layouts[op]
        and str(call.attrs.out_layout) == layouts[op][0]
        and _float_with_constant_weight(call)
    )


def _float_with_constant_weight(call: Any) -> bool:
    return (
        is_const(call.args[1])
        and has_static_shape(call)
        and has_static_shape(call.args[0])
        and {dtype_of(call), dtype_of(call.args[0]), dtype_of(call.args[1])} == {"float32"}
        and math.prod(shape_of(call)) > 0
    )


def conv_last(
    data: Any, weight: np.ndarray, strides: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
) -> Any:
    """A convolution on [N,H,W,C] with an OIHW weight."""
    return relax.op.nn.conv2d(
        data,
        make_const(weight),
        strides=list(strides),
        padding=list(padding),
        dilation=list(dilation),
        groups=groups,
        data_layout="NHWC",
        kernel_layout="OIHW",
        out_layout="NHWC",
        out_dtype="float32",
    )


def _ints(values: Any) -> list[int]:
    return [int(v) for v in values]


def _conv2d(state: Layout, line: Line, call: Any) -> Any:
    if not conv_fits(call):
        return None
    a = call.attrs
    weight = const_numpy(call.args[1])
    data = state.last(line, call.args[0])
    return first(
        line.main(conv_last(data, weight, _ints(a.strides), _ints(a.padding), _ints(a.dilation), int(a.groups)))
    )


def _conv1d(state: Layout, line: Line, call: Any) -> Any:
    """One row of a 2-D convolution."""
    if not conv_fits(call):
        return None
    a = call.attrs
    weight = const_numpy(call.args[1])[:, :, None, :]
    n, c, w = shape_of(call.args[0])
    row = line.emit(relax.op.reshape(state.last(line, call.args[0]), (n, 1, w, c)), "_row")
    (stride,), (left, right), (dilation,) = _ints(a.strides), _ints(a.padding), _ints(a.dilation)
    conv = line.main(conv_last(row, weight, [1, stride], [0, left, 0, right], [1, dilation], int(a.groups)))
    return _from_row(line, conv)


def _from_row(line: Line, conv: Any) -> Any:
    n, _, w, c = shape_of(conv)
    return first(line.emit(relax.op.reshape(conv, (n, w, c)), "_row"))


def _transposed_weight(weight: np.ndarray, groups: int) -> np.ndarray:
    """[C, O/g, KH, KW] of a transposed convolution as the [O, C/g, KH, KW] of the convolution that computes it."""
    c, og, kh, kw = weight.shape
    split = weight.reshape(groups, c // groups, og, kh, kw).transpose(0, 2, 1, 3, 4)
    return np.ascontiguousarray(split.reshape(groups * og, c // groups, kh, kw)[:, :, ::-1, ::-1])


def _conv_transpose(state: Layout, line: Line, call: Any) -> Any:
    """A transposed convolution as a convolution over the input with zeros between its elements.

    When windows do not overlap (kernel = stride, no padding) it is a 1x1 convolution followed by a shuffle, and no
    multiplication by zero is left.
    """
    a = call.attrs
    rank = len(shape_of(call))
    kernel_layout = {3: "IOW", 4: "IOHW"}.get(rank)
    if str(a.kernel_layout) != kernel_layout or not _float_with_constant_weight(call):
        return None
    if str(a.data_layout) != str(a.out_layout) or not str(a.data_layout).startswith("NC"):
        return None
    strides, dilation, extra = _ints(a.strides), _ints(a.dilation), _ints(a.output_padding)
    before, after = _ints(a.padding)[: rank - 2], _ints(a.padding)[rank - 2 :]
    weight, groups = const_numpy(call.args[1]), int(a.groups)
    if rank == 3:
        strides, dilation, extra = [1, *strides], [1, *dilation], [0, *extra]
        before, after, weight = [0, *before], [0, *after], weight[:, :, None, :]
    kernel = list(weight.shape[2:])
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    head = [r - p for r, p in zip(reach, before, strict=True)]
    tail = [r - p + e - (s - 1) for r, p, e, s in zip(reach, after, extra, strides, strict=True)]
    if min(head) < 0:
        return None
    data = state.last(line, call.args[0])
    if rank == 3:
        n, w, c = shape_of(data)
        data = line.emit(relax.op.reshape(data, (n, 1, w, c)), "_row")
    if kernel == strides and groups == 1 and before == after == extra == [0, 0] and dilation == [1, 1]:
        result = _shuffled(line, data, weight)
    else:
        spread = _with_zeros(line, data, strides)
        cut = [min(t, 0) for t in tail]
        if any(cut):
            h, w = shape_of(spread)[1:3]
            spread = line.emit(relax.op.strided_slice(spread, [1, 2], [0, 0], [h + cut[0], w + cut[1]]), "_cut")
        padding = [*head, *[max(t, 0) for t in tail]]
        result = line.main(conv_last(spread, _transposed_weight(weight, groups), [1, 1], padding, dilation, groups))
    return _from_row(line, result) if rank == 3 else first(result)


def _with_zeros(line: Line, data: Any, strides: Sequence[int]) -> Any:
    """[N,H,W,C] -> [N,H*sh,W*sw,C], every element followed by zeros."""
    if list(strides) == [1, 1]:
        return data
    n, h, w, c = shape_of(data)
    spread = line.emit(relax.op.reshape(data, (n, h, 1, w, 1, c)), "_spread")
    pads = [0, 0, 0, 0, 0, strides[0] - 1, 0, 0, 0, strides[1] - 1, 0, 0]
    spread = line.emit(relax.op.nn.pad(spread, pads), "_zeros")
    return line.emit(relax.op.reshape(spread, (n, h * strides[0], w * strides[1], c)), "_spread")


def _shuffled(line: Line, data: Any, weight: np.ndarray) -> Any:
    n, h, w, _ = shape_of(data)
    c, o, kh, kw = weight.shape
    taps = np.ascontiguousarray(weight.transpose(2, 3, 1, 0).reshape(kh * kw * o, c, 1, 1))
    points = line.main(conv_last(data, taps, [1, 1], [0, 0, 0, 0], [1, 1], 1))
    points = line.emit(relax.op.reshape(points, (n, h, w, kh, kw, o)), "_taps")
    points = line.emit(move(points, [0, 1, 3, 2, 4, 5]), "_woven")
    return line.emit(relax.op.reshape(points, (n, h * kh, w * kw, o)), "_woven")


# --- operators with a layout attribute or axes -------------------------------------------------------------------


def _with_layout(make: Callable[[Any, Any, str], Any]) -> Rule:
    """An operator that takes a layout: written channels last when its input is there already."""

    def rule(state: Layout, line: Line, call: Any) -> Any:
        data = state.peek(line, call.args[0])
        layout = str(call.attrs.layout)
        if data is None or not layout.startswith("NC"):
            return None
        return first(line.main(make(data, call, _LAYOUT_LAST[len(layout)])))

    return rule


def _pool(f: Callable[..., Any]) -> Rule:
    def make(data: Any, call: Any, layout: str) -> Any:
        a = call.attrs
        return f(
            data,
            _ints(a.pool_size),
            strides=_ints(a.strides),
            padding=_ints(a.padding),
            dilation=_ints(a.dilation),
            ceil_mode=bool(a.ceil_mode),
            count_include_pad=bool(a.count_include_pad),
            layout=layout,
            out_layout=layout,
        )

    return _with_layout(make)


def _adaptive(f: Callable[..., Any]) -> Rule:
    def make(data: Any, call: Any, layout: str) -> Any:
        size = call.attrs.output_size
        return f(data, None if size is None else _ints(size), layout=layout, out_layout=layout)

    return _with_layout(make)


def _resize(data: Any, call: Any, layout: str) -> Any:
    a = call.attrs
    return relax.op.image.resize2d(
        data,
        call.args[1],
        roi=tuple(float(r) for r in a.roi),
        layout=layout,
        method=str(a.method),
        coordinate_transformation_mode=str(a.coordinate_transformation_mode),
        rounding_method=str(a.rounding_method),
        cubic_alpha=float(a.cubic_alpha),
        cubic_exclude=int(a.cubic_exclude),
        extrapolation_value=float(a.extrapolation_value),
        out_dtype=None,
    )


def _elementwise(state: Layout, line: Line, call: Any) -> Any:
    """Operators that work element by element, with broadcasting: on the order that needs fewer bytes moved."""
    if not _is_tensor(call) or not has_static_shape(call) or len(shape_of(call)) not in LAST:
        return None
    rank = len(shape_of(call))
    tensors = [a for a in call.args if isinstance(a, relax.Var) and _is_tensor(a)]
    if not all(has_static_shape(a) for a in tensors):
        return None
    move_last = move_first = known = 0
    for tensor in tensors:
        shape = shape_of(tensor)
        if _trivial((1,) * (rank - len(shape)) + shape, LAST[rank]):
            known += state.peek(line, tensor) is not None
        elif len(shape) == rank and state.peek(line, tensor) is not None:
            move_first += math.prod(shape)
            known += 1
        else:
            move_last += math.prod(shape)
    if not known or move_last > move_first:
        return None
    args = [_aligned(state, line, a, rank) for a in call.args]
    return first(line.main(tvm.ir.Call(call.op, args, call.attrs, call.ty_args)))


def _aligned(state: Layout, line: Line, arg: Any, rank: int) -> Any:
    """An operand channels last; scalars and constants of one element stay as they are."""
    if not _is_tensor(arg):
        return arg
    shape = shape_of(arg)
    if math.prod(shape) == 1 and is_const(arg):
        return make_const(const_numpy(arg).reshape(()))
    if len(shape) == 0:
        return arg
    if len(shape) < rank:
        full = (1,) * (rank - len(shape)) + shape
        arg = make_const(const_numpy(arg).reshape(full)) if is_const(arg) else line.emit(relax.op.reshape(arg, full))
    return state.last(line, arg)


def _new_axis(axis: Any, rank: int) -> int:
    """Where a channels-first axis is in channels-last order."""
    return LAST[rank].index(int(axis) % rank)


def _softmax(f: Callable[..., Any]) -> Rule:
    def rule(state: Layout, line: Line, call: Any) -> Any:
        data = state.peek(line, call.args[0])
        if data is None:
            return None
        return first(line.main(f(data, axis=_new_axis(call.attrs.axis, len(shape_of(data))))))

    return rule


def _concat(state: Layout, line: Line, call: Any) -> Any:
    fields = list(call.args[0].fields) if isinstance(call.args[0], relax.Tuple) else []
    rank = len(shape_of(call))
    if rank not in LAST or call.attrs.axis is None:
        return None
    size = {id(f): math.prod(shape_of(f)) for f in fields if not is_const(f)}
    known = sum(size.get(id(f), 0) for f in fields if state.peek(line, f) is not None)
    if known == 0 or 2 * known < sum(size.values()):
        return None
    parts = [state.last(line, f) for f in fields]
    return first(line.main(relax.op.concat(parts, axis=_new_axis(call.attrs.axis, rank))))


def _split(state: Layout, line: Line, call: Any) -> Any:
    data = state.peek(line, call.args[0])
    if data is None:
        return None
    sections = call.attrs.indices_or_sections
    parts = int(sections) if isinstance(sections, int | tvm.tirx.IntImm) else _ints(sections)
    split = line.main(relax.op.split(data, parts, axis=_new_axis(call.attrs.axis, len(shape_of(data)))))
    found = [line.emit(relax.TupleGetItem(split, i), "_part") for i in range(len(call.ty.fields))]
    return relax.Tuple([line.emit(first(part), "_first") for part in found])


def _strided_slice(state: Layout, line: Line, call: Any) -> Any:
    data = state.peek(line, call.args[0])
    if data is None:
        return None
    rank = len(shape_of(data))
    axes = [_new_axis(int(a), rank) for a in call.args[1].fields]
    rest = [[int(v) for v in a.fields] for a in call.args[2:]]
    return first(line.main(relax.op.strided_slice(data, axes, *rest)))


def _pad(state: Layout, line: Line, call: Any) -> Any:
    data = state.peek(line, call.args[0])
    if data is None:
        return None
    widths = _ints(call.attrs.pad_width)
    pairs = [widths[2 * a : 2 * a + 2] for a in LAST[len(shape_of(data))]]
    value = float(call.attrs.pad_value)
    return first(line.main(relax.op.nn.pad(data, [w for p in pairs for w in p], str(call.attrs.pad_mode), value)))


def _reduction(state: Layout, line: Line, call: Any) -> Any:
    """A reduction over some axes; the axes that remain decide which order the result is in."""
    data = state.peek(line, call.args[0])
    if data is None:
        return None
    rank, given = len(shape_of(data)), call.attrs.axis
    single = isinstance(given, int | tvm.tirx.IntImm)
    reduced = list(range(rank)) if given is None else [int(a) % rank for a in ([given] if single else given)]
    axes = sorted(_new_axis(a, rank) for a in reduced)
    keepdims = bool(call.attrs.keepdims)
    f = getattr(relax.op, op_name(call) or "")
    if keepdims:
        return first(line.main(f(data, axis=axes[0] if single else axes, keepdims=True)))
    rest = [a for a in LAST[rank] if a not in reduced]
    result = line.main(f(data, axis=axes[0] if single else axes, keepdims=False))
    return move(result, [rest.index(a) for a in sorted(rest)])


def _reshape(state: Layout, line: Line, call: Any) -> Any:
    """[N,C,H,W] <-> [N,C,H*W]: the channels stay a dimension of their own."""
    if not has_static_shape(call) or not has_static_shape(call.args[0]):
        return None
    old, new = shape_of(call.args[0]), shape_of(call)
    data = state.peek(line, call.args[0])
    if data is None or len(new) not in LAST or old[:2] != new[:2] or math.prod(new) == 0:
        return None
    return first(line.main(relax.op.reshape(data, _permuted(new, LAST[len(new)]))))


def _take(state: Layout, line: Line, call: Any) -> Any:
    """A row of indices along one axis."""
    data = state.peek(line, call.args[0])
    if data is None or call.attrs.axis is None or len(shape_of(call.args[1])) != 1:
        return None
    axis = _new_axis(call.attrs.axis, len(shape_of(data)))
    return first(line.main(relax.op.take(data, call.args[1], axis, str(call.attrs.mode))))


def _repeat(state: Layout, line: Line, call: Any) -> Any:
    data = state.peek(line, call.args[0])
    if data is None or call.attrs.axis is None:
        return None
    axis = _new_axis(call.attrs.axis, len(shape_of(data)))
    return first(line.main(relax.op.repeat(data, int(call.attrs.repeats), axis)))


def _pixel_shuffle(state: Layout, line: Line, call: Any) -> Any:
    data = state.peek(line, call.args[0])
    if data is None or len(shape_of(data)) != 4:
        return None
    n, h, w, c = shape_of(data)
    r = int(call.attrs.upscale_factor)
    parts = line.emit(relax.op.reshape(data, (n, h, w, c // (r * r), r, r)), "_parts")
    woven = line.main(move(parts, [0, 1, 4, 2, 5, 3]))
    return first(line.emit(relax.op.reshape(woven, (n, h * r, w * r, c // (r * r))), "_woven"))


def _group_norm(state: Layout, line: Line, call: Any) -> Any:
    data = state.peek(line, call.args[0])
    a = call.attrs
    rank = len(shape_of(call))
    if data is None or int(a.channel_axis) % rank != 1:
        return None
    if sorted(int(x) % rank for x in a.axes) != list(range(2, rank)):
        return None
    return first(
        line.main(
            relax.op.nn.group_norm(
                data,
                call.args[1],
                call.args[2],
                num_groups=int(a.num_groups),
                channel_axis=rank - 1,
                axes=list(range(1, rank - 1)),
                epsilon=float(a.epsilon),
                center=bool(a.center),
                scale=bool(a.scale),
            )
        )
    )


def _prelu(state: Layout, line: Line, call: Any) -> Any:
    data = state.peek(line, call.args[0])
    if data is None:
        return None
    axis = _new_axis(call.attrs.axis, len(shape_of(data)))
    return first(line.main(relax.op.nn.prelu(data, call.args[1], axis=axis)))


def _matmul(state: Layout, line: Line, call: Any) -> Any:
    """A linear layer on flattened channels: its weight's rows are put in channels-last order at compile time."""
    data, weight = call.args
    flat = line.value(data)
    if not is_const(weight) or len(shape_of(weight)) != 2 or op_name(flat) not in RESHAPES:
        return None
    source = flat.args[0]
    last = state.peek(line, source)
    if last is None:
        return None
    n, c, *space = shape_of(source)
    size = math.prod(space)
    if shape_of(data) != (n, c * size) or size == 1:
        return None
    rows = const_numpy(weight).reshape(c, size, -1).transpose(1, 0, 2).reshape(c * size, -1)
    flat_last = line.emit(relax.op.reshape(last, (n, c * size)), "_flat")
    return relax.op.matmul(flat_last, make_const(np.ascontiguousarray(rows)), out_dtype=dtype_of(call))


RULES: dict[str, Rule] = {
    **dict.fromkeys(sorted(ELEMENTWISE), _elementwise),
    "nn.conv2d": _conv2d,
    "nn.conv1d": _conv1d,
    "nn.conv1d_transpose": _conv_transpose,
    "nn.conv2d_transpose": _conv_transpose,
    "nn.max_pool1d": _pool(relax.op.nn.max_pool1d),
    "nn.max_pool2d": _pool(relax.op.nn.max_pool2d),
    "nn.avg_pool1d": _pool(relax.op.nn.avg_pool1d),
    "nn.avg_pool2d": _pool(relax.op.nn.avg_pool2d),
    "nn.adaptive_avg_pool1d": _adaptive(relax.op.nn.adaptive_avg_pool1d),
    "nn.adaptive_avg_pool2d": _adaptive(relax.op.nn.adaptive_avg_pool2d),
    "image.resize2d": _with_layout(_resize),
    "nn.softmax": _softmax(relax.op.nn.softmax),
    "nn.log_softmax": _softmax(relax.op.nn.log_softmax),
    "concat": _concat,
    "split": _split,
    "strided_slice": _strided_slice,
    "nn.pad": _pad,
    **dict.fromkeys(("mean", "sum", "max", "min", "prod", "argmax", "argmin", "variance", "std"), _reduction),
    **dict.fromkeys(RESHAPES, _reshape),
    "take": _take,
    "repeat": _repeat,
    "nn.pixel_shuffle": _pixel_shuffle,
    "nn.group_norm": _group_norm,
    "nn.prelu": _prelu,
    "matmul": _matmul,
}


def channels_last(mod: tvm.IRModule) -> tvm.IRModule:
    """Rewrite convolutions, and what can follow them, to channels-last order."""
    state = Layout()

    def rule(line: Line, value: Any) -> Any:
        found = RULES.get(op_name(value) or "")
        return found(state, line, value) if found is not None else None

    return Line(mod).run(rule)
