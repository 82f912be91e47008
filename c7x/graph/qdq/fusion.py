"""``Fusion``: what every family of quantised operators needs to write its kernels.

Two routes. With ``-mmalib=1`` the firmware's kernels (``mmalib_*`` and ``c7x_int8_*``) work on channels-first tensors
of batch 1; what they do not take goes the other way. Without it, and for the rest, our own integer kernels (``c7x.q*``)
work on channels last: a family asks for its operand channels last, writes the kernel, and hands back the transpose,
behind which the next family looks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from c7x.graph.layout import LAST, Layout, first
from c7x.graph.line import Line, is_const, make_const, make_kernel, shape_of, tensor_type
from c7x.graph.qdq.scales import bounds
from c7x.graph.qdq.values import Clipped, Params, Quantized


class Fusion:
    """One pass of fusion over a module.

    Attributes:
        mmalib: whether the firmware's kernels may be used.
        reasons: node of the exported graph -> why it computes in float.
    """

    def __init__(self, *, mmalib: bool) -> None:
        self.mmalib = mmalib
        self.reasons: dict[str, str] = {}
        self._detours: dict[str, str] = {}
        self._layout = Layout()
        self._same: dict[tuple[str, Params], Any] = {}

    # -- order of dimensions

    def last(self, line: Line, expr: Any) -> Any:
        """The tensor (rank 3 or 4, channels second) channels last."""
        return self._layout.last(line, expr)

    def is_last(self, line: Line, expr: Any) -> bool:
        """Whether the tensor exists channels last."""
        return self._layout.peek(line, expr) is not None

    def elementwise(self, line: Line, tensors: Sequence[Any], rank: int) -> tuple[list[Any], bool]:
        """Operands of one shape in a common order, and whether that order is channels last."""
        if rank in LAST and any(self.is_last(line, t) for t in tensors):
            return [self.last(line, t) for t in tensors], True
        return list(tensors), False

    # -- kernels

    def own(
        self, line: Line, op: str, tensors: Sequence[Any], attrs: dict[str, Any], shape: Sequence[int], dtype: str
    ) -> Any:
        """The call of our kernel ``c7x.<op>``, bound under the current name."""
        reason = self._detours.get(line.current)
        noted = {**attrs, "reason": reason} if reason else attrs
        return line.main(make_kernel(op, tensors, noted, tensor_type(shape, dtype)))

    def firmware(
        self, symbol: str, tensors: Sequence[Any], scalars: Sequence[int | float], out: Any, *, macs: int = 0
    ) -> Any:
        """A call of a kernel that the firmware exports; ``scalars`` in the order of its signature."""
        attrs = json.dumps({"macs": macs, "scalars": list(scalars)}, sort_keys=True)
        return relax.call_dps_packed(symbol, (*tensors, tvm.ir.StringImm(attrs)), out_ty=out)

    def clamp8(self, tensor: Any, params: Params, low: int, high: int) -> Any:
        """The firmware's clip of an int8 tensor; nothing when the bounds are those of the dtype."""
        n = int(np.prod(shape_of(tensor)))
        if high < 127:
            return self.firmware("c7x_int8_clamp", [tensor], [n, low, high], tensor.ty)
        if low > -128:
            return self.firmware("c7x_int8_relu", [tensor], [n, low], tensor.ty)
        return tensor

    # -- what a family decides

    def bounds(self, out: Params, clip: Clipped) -> tuple[int, int]:
        """The clip in quantised values: relu cuts at the zero point, not at the integer 0."""
        return bounds(out.dtype, out.scale, out.zero, clip.low, clip.high)

    def refuse(self, line: Line, reason: str) -> None:
        """Note why the operator at hand gets no integer kernel at all."""
        self.reasons.setdefault(line.current, reason)

    def detour(self, line: Line, reason: str) -> None:
        """Note why the operator at hand gets a kernel of ours and not the firmware's."""
        self._detours.setdefault(line.current, reason)

    def on_firmware(self, line: Line, *tensors: Any) -> bool:
        """Whether the firmware's kernels are asked first: not where kernels of ours left all operands channels last,
        since moving them there and back would cost more than either kernel."""
        return self.mmalib and not all(self.is_last(line, t) for t in tensors)

    def requantize(self, line: Line, value: Quantized, out: Params) -> Any:
        """The tensor under another quantisation of the same dtype; None when there is no kernel for that."""
        if value.params == out:
            return value.tensor
        if (value.params.dtype, out.dtype) != ("int8", "int8"):
            return None
        key = (str(getattr(value.tensor, "name", id(value.tensor))), out)
        if key not in self._same:
            if is_const(value.tensor):
                integers = dequantize_table(value.params)
                entries = quantize_array(integers, out)
                table = entries[value.tensor.value.numpy().view(np.uint8)]
                return make_const(table)
            self._same[key] = self.table(line, value, quantize_array(dequantize_table(value.params), out))
        return self._same[key]

    def table(self, line: Line, value: Quantized, entries: np.ndarray, *, main: bool = False) -> Any:
        """A function of one byte, as a table indexed by the byte without its sign."""
        shape = value.shape
        (tensor,), last = self.elementwise(line, [value.tensor], len(shape))
        kernel = make_kernel("qtable", (tensor, make_const(entries)), {}, tensor_type(shape_of(tensor), "int8"))
        result = line.main(kernel) if main else line.emit(kernel, "_rescale")
        if not last:
            return result
        back = first(result)
        return back if main else line.emit(back, "_rescale_first")

    def channel_tables(self, line: Line, value: Quantized, entries: np.ndarray) -> Any:
        """A function of one byte for each channel (dimension 1), as tables [channels, 256]."""
        shape = value.shape
        (tensor,), last = self.elementwise(line, [value.tensor], len(shape))
        inner = 1 if last else int(np.prod(shape[2:]))
        attrs = {"channels": shape[1], "inner": inner}
        result = line.main(
            make_kernel("qtable", (tensor, make_const(entries)), attrs, tensor_type(shape_of(tensor), "int8"))
        )
        return first(result) if last else result


def dequantize_table(params: Params) -> np.ndarray:
    """The 256 real values of an int8 tensor (float32), in the order of a table."""
    integers = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.float32)
    return (integers - np.float32(params.zero)) * np.float32(params.scale)


def quantize_array(values: np.ndarray, params: Params) -> np.ndarray:
    """Real values quantised as PT2E does: rint(x * (1 / scale)) + zero, clipped. A division would break ties otherwise:
    a PReLU with a slope of 1/4 and one scale on both sides has one for every fourth negative value."""
    limits = np.iinfo(params.dtype)
    inverse = np.float32(1.0 / np.float64(params.scale))
    scaled = np.rint(values.astype(np.float32) * inverse).astype(np.float64) + params.zero
    return np.asarray(np.clip(scaled, limits.min, limits.max)).astype(params.dtype)
