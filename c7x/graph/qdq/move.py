"""Operators that only move data, or pick among it: they work on the integers as on the real numbers.

``op(dequantize(q))`` becomes ``dequantize(op(q))``: the dequantisation moves down until a quantize takes it up, or an
operator that needs real numbers, or the end. Padding with zeros becomes padding with the zero point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

from c7x.graph.line import Line, const_numpy, is_const, make_const, op_name, shape_of, tensor_type
from c7x.graph.qdq import pool
from c7x.graph.qdq.fusion import Fusion
from c7x.graph.qdq.values import Params, Quantized, quantized

Move = Callable[[Fusion, Line, Any, Quantized], Any]

#: Operators whose first operand is moved, whatever the others say.
PLAIN = (
    "reshape expand_dims squeeze flatten nn.batch_flatten permute_dims strided_slice take tile flip broadcast_to "
    "nn.pixel_shuffle roll"
).split()


def real(tensor: Any, params: Params) -> Any:
    """The tensor as real numbers."""
    return relax.op.dequantize(
        tensor,
        make_const(np.array(params.scale, np.float32)),
        make_const(np.array(params.zero, np.int8 if params.dtype == "int8" else np.int16)),
        -1,
        "float32",
    )


def _plain(fusion: Fusion, line: Line, call: Any, data: Quantized) -> Any:
    del fusion
    return line.main(tvm.ir.Call(call.op, [data.tensor, *list(call.args)[1:]], call.attrs, call.ty_args))


def _pad(fusion: Fusion, line: Line, call: Any, data: Quantized) -> Any:
    """Padding with a number that the quantisation holds exactly."""
    del fusion
    mode, value = str(call.attrs.pad_mode), float(call.attrs.pad_value)
    if len(call.args) > 1:
        return None
    integer = value / data.params.scale + data.params.zero
    limits = np.iinfo(data.params.dtype)
    if mode == "constant" and (integer != round(integer) or not limits.min <= integer <= limits.max):
        return None
    return line.main(relax.op.nn.pad(data.tensor, [int(v) for v in call.attrs.pad_width], mode, integer))


def _repeat(fusion: Fusion, line: Line, call: Any, data: Quantized) -> Any:
    """Rows, then columns of an image doubled: the firmware's nearest-neighbour resize."""
    if call.attrs.axis is None:
        return None
    axis, factor, shape = int(call.attrs.axis) % len(data.shape), int(call.attrs.repeats), shape_of(call)
    before = line.call(data.tensor, "repeat")
    doubled = (
        fusion.on_firmware(line, data.tensor)
        and data.params.dtype == "int8"
        and len(shape) == 4
        and shape[0] == 1
        and before is not None
        and (axis, factor) == (3, 2)
        and (int(before.attrs.axis) % 4, int(before.attrs.repeats)) == (2, 2)
    )
    if not doubled:
        return line.main(relax.op.repeat(data.tensor, factor, axis))
    source = before.args[0]
    line.absorb(data.tensor)
    scalars = list(shape_of(source)[1:])
    return line.main(fusion.firmware("c7x_int8_resize2d_nearest2x", [source], scalars, tensor_type(shape, "int8")))


def _resize(fusion: Fusion, line: Line, call: Any, data: Quantized) -> Any:
    """Nearest-neighbour resizing picks elements."""
    a = call.attrs
    if str(a.method) != "nearest_neighbor":
        return None
    shape = shape_of(call)
    twice = shape[2:] == tuple(2 * d for d in data.shape[2:]) and str(a.layout) == "NCHW"
    floor = (str(a.coordinate_transformation_mode), str(a.rounding_method)) in (
        ("asymmetric", "floor"),
        ("half_pixel", "round"),
    )
    if fusion.on_firmware(line, data.tensor) and twice and floor and shape[0] == 1 and data.params.dtype == "int8":
        return line.main(
            fusion.firmware(
                "c7x_int8_resize2d_nearest2x", [data.tensor], list(data.shape[1:]), tensor_type(shape, "int8")
            )
        )
    return line.main(
        relax.op.image.resize2d(
            data.tensor,
            call.args[1],
            layout=str(a.layout),
            method=str(a.method),
            coordinate_transformation_mode=str(a.coordinate_transformation_mode),
            rounding_method=str(a.rounding_method),
            out_dtype=data.params.dtype,
        )
    )


MOVES: dict[str, Move] = {
    **dict.fromkeys(PLAIN, _plain),
    "nn.pad": _pad,
    "repeat": _repeat,
    "image.resize2d": _resize,
    "nn.max_pool1d": pool.maximum,
    "nn.max_pool2d": pool.maximum,
}


def move(fusion: Fusion, line: Line, call: Any) -> Any:
    """``dequantize(op(q))`` for ``op(dequantize(q))``; None when the operator does more than moving."""
    name = op_name(call) or ""
    if name == "split":
        return _split(line, call)
    if name == "concat":
        return _concat(fusion, line, call)
    if name not in MOVES:
        return None
    data = quantized(line, call.args[0])
    if data is None or is_const(data.tensor) or not _known(call):
        return None
    result = MOVES[name](fusion, line, call, data)
    if result is None:
        return None
    line.absorb(data.via)
    return real(_bound(line, result), data.params)


def _bound(line: Line, expr: Any) -> Any:
    return expr if isinstance(expr, relax.Var) else line.emit(expr, "_moved")


def _known(call: Any) -> bool:
    """Whether what the operator moves by is known: an index must be a constant."""
    return op_name(call) != "take" or (is_const(call.args[1]) and _inside(call))


def _inside(call: Any) -> bool:
    """TVM's take of an index outside the axis is anything; real numbers may keep that, integers need not copy it."""
    if call.attrs.axis is None:
        return False
    index = const_numpy(call.args[1])
    size = shape_of(call.args[0])[int(call.attrs.axis)]
    return bool(index.size == 0 or (index.min() >= 0 and index.max() < size))


def _split(line: Line, call: Any) -> Any:
    data = quantized(line, call.args[0])
    if data is None:
        return None
    split = line.main(tvm.ir.Call(call.op, [data.tensor], call.attrs, call.ty_args))
    parts = [line.emit(relax.TupleGetItem(split, i), "_part") for i in range(len(call.ty.fields))]
    return relax.Tuple([line.emit(real(part, data.params), "_real") for part in parts])


# --- concatenation ----------------------------------------------------------------------------------------------


def _sources(line: Line, call: Any) -> list[Quantized] | None:
    if not isinstance(call.args[0], relax.Tuple) or call.attrs.axis is None:
        return None
    found = [quantized(line, f) for f in call.args[0].fields]
    if any(f is None or f.params.dtype != found[0].params.dtype for f in found):  # type: ignore[union-attr]
        return None
    return found  # type: ignore[return-value]


def _concat(fusion: Fusion, line: Line, call: Any) -> Any:
    """Sources of one quantisation; of several, the quantize behind decides (``fuse_concat``)."""
    sources = _sources(line, call)
    if not sources or any(s.params != sources[0].params for s in sources):
        return None
    line.absorb(*[s.via for s in sources])
    return real(_bound(line, _joined(fusion, line, call, sources, sources[0].params)), sources[0].params)


def fuse_concat(fusion: Fusion, line: Line, source: Any, out: Params) -> Any:
    """``quantize(concat(dequantize, ...))`` of sources under several quantisations."""
    call = line.value(source)
    if op_name(call) != "concat":
        return None
    sources = _sources(line, call)
    if not sources or sources[0].params.dtype != "int8" or out.dtype != "int8":
        return None
    line.absorb(*[s.via for s in sources], source)
    return _joined(fusion, line, call, sources, out)


def _joined(fusion: Fusion, line: Line, call: Any, sources: list[Quantized], out: Params) -> Any:
    shape = shape_of(call)
    axis = int(call.attrs.axis) % len(shape)
    channels = (
        fusion.on_firmware(line, *[s.tensor for s in sources]) and out.dtype == "int8" and axis == 1 and shape[0] == 1
    )
    if channels and 2 <= len(sources) <= 4:
        return _firmware(fusion, line, shape, sources, out)
    if channels:
        fusion.detour(line, f"not the firmware's kernel: it joins 2 to 4 tensors, not {len(sources)}")
    parts = [fusion.requantize(line, s, out) for s in sources]
    return line.main(relax.op.concat(parts, axis=axis))


def _firmware(fusion: Fusion, line: Line, shape: tuple[int, ...], sources: list[Quantized], out: Params) -> Any:
    scalars: list[int | float] = []
    for s in sources:
        scalars += [s.shape[1], s.params.scale, s.params.zero]
    # A slot that is not used has no channels; its pointer is not looked at.
    scalars += [0, 1.0, 0] * (4 - len(sources))
    scalars += [math.prod(shape[2:]), out.scale, out.zero]
    tensors = [s.tensor for s in sources] + [sources[0].tensor] * (4 - len(sources))
    return line.main(fusion.firmware("c7x_int8_concat_rescale", tensors, scalars, tensor_type(shape, "int8")))
