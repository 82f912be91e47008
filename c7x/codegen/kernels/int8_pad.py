"""Quantised tensors with a margin: rows are copied whole, where loops would ask for every element where it lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from c7x.codegen.kernels.base import GeneratedKernel, KernelOptions, Operand
from c7x.codegen.kernels.int8_common import LIMITS, loops, require_integer
from c7x.codegen.program import TensorType


def supports(attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType]) -> str | None:
    """See ``c7x.codegen.kernels.supports``."""
    if len(inputs) != 1 or len(outputs) != 1:
        return f"{len(inputs)} inputs and {len(outputs)} outputs (expected 1 and 1)"
    shape = inputs[0].type.shape
    if len(shape) != 4:
        return "data must be of rank 4"
    top, left, bottom, right = attrs["padding"]
    if min(attrs["padding"]) < 0 or outputs[0].shape != (*shape[:2], shape[2] + top + bottom, shape[3] + left + right):
        return "the shapes do not fit together"
    low, high = LIMITS.get(outputs[0].dtype, (0, 0))
    if not low <= attrs["value"] <= high:
        return f"a margin of {attrs['value']} in {outputs[0].dtype}"
    return require_integer([inputs[0].type, outputs[0]])


_PAD = """\
  for (int32_t plane = 0; plane < @PLANES@; ++plane) {
    const @TYPE@* const src = in0 + plane * @IMAGE@;
    @TYPE@* const dst = out0 + plane * @PADDED@;
    for (int32_t i = 0; i < @PADDED@; ++i) dst[i] = @VALUE@;
    for (int32_t y = 0; y < @H@; ++y) memcpy(dst + @START@ + y * @ROW@, src + y * @W@, @W@ * sizeof(@TYPE@));
  }
"""


def generate(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], _options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.qpad`` call: [N,C,H,W] with ``padding`` [top, left, bottom, right] of ``value``."""
    n, c, h, w = inputs[0].type.shape
    top, left, _, _ = attrs["padding"]
    _, _, padded_h, row = outputs[0].shape
    values = {
        "PLANES": n * c,
        "IMAGE": h * w,
        "PADDED": padded_h * row,
        "VALUE": attrs["value"],
        "H": h,
        "W": w,
        "ROW": row,
        "START": top * row + left,
    }
    return loops(_PAD, values, inputs, outputs, "qpad")
