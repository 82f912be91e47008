"""Softmax and layer normalisation between quantised tensors: a row becomes real numbers in the workspace, the float
kernel of the operator computes it, and its result is quantised as PT2E does (rint(y / scale) + zero, clipped)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from c7x.codegen.kernels import norm, softmax
from c7x.codegen.kernels.base import GeneratedKernel, KernelOptions, Operand, align64
from c7x.codegen.kernels.int8_common import loops, require_integer
from c7x.codegen.literals import literal
from c7x.codegen.program import TensorType


def supports_softmax(attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType]) -> str | None:
    """See ``c7x.codegen.kernels.supports``."""
    if len(inputs) != 1 or len(outputs) != 1:
        return f"{len(inputs)} inputs and {len(outputs)} outputs (expected 1 and 1)"
    size = attrs["outer"] * attrs["axis"] * attrs["inner"]
    if size != inputs[0].type.numel or size != outputs[0].numel:
        return "the shapes do not fit together"
    return require_integer([inputs[0].type, outputs[0]])


def supports_layer_norm(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType]
) -> str | None:
    """See ``c7x.codegen.kernels.supports``."""
    if len(inputs) != 3 or len(outputs) != 1:
        return f"{len(inputs)} inputs and {len(outputs)} outputs (expected 3 and 1)"
    size = attrs["outer"] * attrs["norm"]
    if size != inputs[0].type.numel or size != outputs[0].numel:
        return "the shapes do not fit together"
    if any(o.type.dtype != "float32" or o.type.numel != attrs["norm"] for o in inputs[1:]):
        return "weight and bias must be float32, one number per element of a row"
    return require_integer([inputs[0].type, outputs[0]])


def generate_softmax(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.qsoftmax`` call over the middle of [outer, axis, inner]."""
    size = attrs["axis"] * attrs["inner"]
    row = TensorType(dtype="float32", shape=(1, attrs["axis"], attrs["inner"]))
    kernel = softmax.generate({**attrs, "outer": 1}, [Operand(type=row)], [row], options)
    return _rows(attrs, kernel, attrs["outer"], size, inputs, outputs, "qsoftmax")


def generate_layer_norm(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.qlayer_norm`` call over the rows of [outer, norm]."""
    row = TensorType(dtype="float32", shape=(1, attrs["norm"]))
    operands = [Operand(type=row), *inputs[1:]]
    kernel = norm.generate({**attrs, "outer": 1}, operands, [row], options)
    return _rows(attrs, kernel, attrs["outer"], attrs["norm"], inputs, outputs, "qlayer_norm")


_ROWS = """\
  float* const row = (float*)(void*)workspace;
  float* const result = (float*)(void*)(workspace + @RESULT@);
  for (int32_t o = 0; o < @OUTER@; ++o) {
    for (int32_t i = 0; i < @N@; ++i) row[i] = (float)(in0[o * @N@ + i] - @X_ZERO@) * @X_SCALE@;
    (void)@SYMBOL@_row(@ARGS@);
    for (int32_t i = 0; i < @N@; ++i) {
      float v = result[i] / @Y_SCALE@;
      v = v > @LEAST@ ? v : @LEAST@;
      v = v < @MOST@ ? v : @MOST@;
      /* Adding 1.5 * 2^23 leaves no bits for a fraction: the nearest integer, halves to even. */
      out0[o * @N@ + i] = (@TYPE@)((int32_t)((v + 12582912.0f) - 12582912.0f) + @Y_ZERO@);
    }
  }
"""


def _rows(
    attrs: Mapping[str, Any],
    kernel: GeneratedKernel,
    outer: int,
    size: int,
    inputs: Sequence[Operand],
    outputs: Sequence[TensorType],
    name: str,
) -> GeneratedKernel:
    row = align64(4 * size)
    args = ["row", *(f"in{i}" for i in range(1, len(inputs))), "result"]
    if kernel.workspace_bytes:
        args.append(f"workspace + {2 * row}")
    values = {
        "RESULT": row,
        "OUTER": outer,
        "N": size,
        "X_ZERO": attrs["x_zero"],
        "Y_ZERO": attrs["y_zero"],
        "X_SCALE": literal(attrs["x_scale"], "float32"),
        "Y_SCALE": literal(attrs["y_scale"], "float32"),
        "LEAST": literal(float(attrs["low"] - attrs["y_zero"]), "float32"),
        "MOST": literal(float(attrs["high"] - attrs["y_zero"]), "float32"),
        "ARGS": ", ".join(args),
    }
    return loops(
        _ROWS,
        values,
        inputs,
        outputs,
        name,
        functions=kernel.source_template.replace("@SYMBOL@", "@SYMBOL@_row"),
        workspace_bytes=2 * row + kernel.workspace_bytes,
    )
