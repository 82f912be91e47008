"""Quantised operators that work element by element: functions of one byte as a table, sums and products of two tensors.

Sums: y = clamp(floor(((a - a_zero) * a_mul + (b - b_zero) * b_mul + half) / 2^shift) + y_zero), half = 2^(shift - 1).
Products: y = clamp(floor(((a - a_zero) * (b - b_zero) * mul + half) / 2^shift) + y_zero).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from c7x.codegen.kernels.base import GeneratedKernel, KernelOptions, Operand
from c7x.codegen.kernels.int8_common import finish, loops, requantized, require_integer
from c7x.codegen.program import TensorType


def supports_table(attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType]) -> str | None:
    """See ``c7x.codegen.kernels.supports``."""
    if len(inputs) != 2 or len(outputs) != 1:
        return f"{len(inputs)} inputs and {len(outputs)} outputs (expected 2 and 1)"
    channels = attrs.get("channels", 1)
    if inputs[1].value is None or inputs[1].type.numel != 256 * channels or inputs[1].type.dtype != outputs[0].dtype:
        return "the table must be a constant of 256 results for every channel"
    if inputs[0].type.dtype != "int8" or outputs[0].dtype != "int8":
        return f"{inputs[0].type.dtype} to {outputs[0].dtype} (only int8 to int8)"
    if inputs[0].type.numel % (channels * attrs.get("inner", 1)):
        return "the channels do not fit the shape"
    if inputs[0].type.numel != outputs[0].numel or inputs[0].type.numel == 0:
        return "the shapes do not fit together"
    return None


def generate_table(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], _options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.qtable`` call; the table is indexed by the byte without its sign.

    Attributes ``channels`` and ``inner``, if given: data is [outer, channels, inner] and every channel has a table.
    """
    n = outputs[0].numel
    channels, inner = attrs.get("channels", 1), attrs.get("inner", 1)
    if channels == 1:
        body = [f"for (int32_t i = 0; i < {n}; ++i) out0[i] = in1[(uint8_t)in0[i]];"]
    else:
        body = [
            f"for (int32_t o = 0; o < {n // inner}; ++o) {{",
            f"  const int8_t* const table = in1 + (o % {channels}) * 256;",
            f"  for (int32_t i = o * {inner}; i < (o + 1) * {inner}; ++i) out0[i] = table[(uint8_t)in0[i]];",
            "}",
        ]
    return finish(functions="", body=body, inputs=inputs, outputs=outputs, packed={}, name_hint="qtable")


def supports_pair(attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType]) -> str | None:
    """See ``c7x.codegen.kernels.supports``; for sums and products."""
    if len(inputs) != 2 or len(outputs) != 1:
        return f"{len(inputs)} inputs and {len(outputs)} outputs (expected 2 and 1)"
    reason = require_integer([inputs[0].type, inputs[1].type, outputs[0]])
    if reason is not None:
        return reason
    outer, inner, channels = _view(attrs, inputs, outputs)
    if inputs[0].type.numel != outputs[0].numel or outer * inner * channels != outputs[0].numel:
        return "the shapes do not fit together"
    return None


def _view(attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType]) -> tuple[int, int, int]:
    """[outer, inner, channels]: the second operand is [outer, channels], repeated along the middle."""
    if "inner" not in attrs:
        return 1, 1, outputs[0].numel
    inner, channels = attrs["inner"], attrs["channels"]
    return inputs[1].type.numel // channels, inner, channels


_ADD8 = """\
  for (int32_t i = 0; i < @N@; ++i) {
    const int32_t sum = (in0[i] - @A_ZERO@) * @A_MUL@ + (in1[i] - @B_ZERO@) * @B_MUL@ + @HALF@;
    const int32_t v = (sum >> @SHIFT@) + @Y_ZERO@;
    out0[i] = (int8_t)(v < @LOW@ ? @LOW@ : (v > @HIGH@ ? @HIGH@ : v));
  }
"""

_ADD16 = """\
  for (int32_t i = 0; i < @N@; ++i) {
    const int64_t sum = (int64_t)(in0[i] - @A_ZERO@) * @A_MUL@ + (int64_t)(in1[i] - @B_ZERO@) * @B_MUL@ + @HALF@;
    const int64_t v = (sum >> @SHIFT@) + @Y_ZERO@;
    out0[i] = (int16_t)c7x_clamp_i64(v, @LOW@, @HIGH@);
  }
"""


def generate_add(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], _options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.qadd`` call: two tensors of one shape."""
    dtype = outputs[0].dtype
    half = 1 << (attrs["shift"] - 1)
    values = {
        key.upper(): attrs[key] for key in ("a_zero", "b_zero", "a_mul", "b_mul", "y_zero", "low", "high", "shift")
    }
    template = _ADD8 if dtype == "int8" else _ADD16
    values |= {"N": outputs[0].numel, "HALF": half if dtype == "int8" else f"INT64_C({half})"}
    return loops(template, values, inputs, outputs, "qadd")


_MUL = """\
  for (int32_t o = 0; o < @OUTER@; ++o) {
    for (int32_t i = 0; i < @INNER@; ++i) {
      const @TYPE@* const a = in0 + (o * @INNER@ + i) * @C@;
      const @TYPE@* const b = in1 + o * @C@;
      @TYPE@* const y = out0 + (o * @INNER@ + i) * @C@;
      for (int32_t c = 0; c < @C@; ++c) {
        const int64_t product = (int64_t)(a[c] - (@A_ZERO@)) * (b[c] - (@B_ZERO@));
        y[c] = @RESULT@;
      }
    }
  }
"""

_MUL_LANES = """\
  static const int32_t multiplier[8] = {@MULS@};
  static const int32_t shift[8] = {@SHIFTS@};
  for (int32_t o = 0; o < @OUTER@; ++o) {
    for (int32_t i = 0; i < @INNER@; ++i) {
      const int8_t* const a = in0 + (o * @INNER@ + i) * @C@;
      const int8_t* const b = in1 + o * @C@;
      int8_t* const y = out0 + (o * @INNER@ + i) * @C@;
      for (int32_t v = 0; v < @C@; v += 8) {
        const int32_t c = v < @LAST@ ? v : @LAST@;
        const c7x_i32x8 left = c7x_widen8(a + c) - c7x_splat8i(@A_ZERO@);
        const c7x_i32x8 right = c7x_widen8(b + c) - c7x_splat8i(@B_ZERO@);
        const c7x_i32x8 ratio = c7x_requantize8(c7x_mul16(c7x_splat8i(0), left, right), multiplier, shift);
        c7x_narrow8(y + c, c7x_clamp8i(ratio + c7x_splat8i(@Y_ZERO@), @LOW@, @HIGH@));
      }
    }
  }
"""


def generate_mul(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], _options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.qmul`` call: two tensors of one shape, or [outer, inner, channels] by
    [outer, channels] (attributes ``inner`` and ``channels``)."""
    dtype = outputs[0].dtype
    outer, inner, channels = _view(attrs, inputs, outputs)
    multiplier, shift = attrs["mul"], attrs["shift"]
    values: dict[str, Any] = {key.upper(): attrs[key] for key in ("a_zero", "b_zero", "y_zero", "low", "high")}
    values |= {"OUTER": outer, "INNER": inner, "C": channels}
    template = _MUL
    if dtype == "int8" and channels >= 8 and shift >= 31:
        template = _MUL_LANES
        values |= {
            "LAST": channels - 8,
            "MULS": ", ".join([str(multiplier)] * 8),
            "SHIFTS": ", ".join([str(shift)] * 8),
        }
    return loops(
        template,
        {"RESULT": requantized("product", multiplier, shift), **values},
        inputs,
        outputs,
        "qmul" if inner == 1 else "qscale",
    )


def table_of(function: Any, dtype: type = np.int8) -> np.ndarray:
    """The table of a function of the 256 values of an int8, in the order the kernel reads: by the unsigned byte."""
    values = np.arange(256, dtype=np.uint8).view(np.int8)
    return np.asarray(function(values)).astype(dtype)
