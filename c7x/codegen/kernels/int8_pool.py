"""Quantised average pooling on [N,H,W,C] by the contract of ``int8_common``: the ratio depends on how many elements the
window covers, and each count that occurs has a multiplier of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from c7x.codegen.kernels.base import GeneratedKernel, KernelOptions, Operand, align64
from c7x.codegen.kernels.int8_common import LIMITS, fill, loops, requantized, require_integer
from c7x.codegen.program import TensorType


def supports_avg_pool(attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType]) -> str | None:
    """See ``c7x.codegen.kernels.supports``."""
    if len(inputs) != 1 or len(outputs) != 1:
        return f"{len(inputs)} inputs and {len(outputs)} outputs (expected 1 and 1)"
    if len(inputs[0].type.shape) != 4 or len(outputs[0].shape) != 4:
        return "data and output must be of rank 4"
    if inputs[0].type.shape[3] != outputs[0].shape[3] or inputs[0].type.shape[0] != outputs[0].shape[0]:
        return "the shapes do not fit together"
    if any(not 17 <= shift <= 62 for _, _, shift in attrs["ratios"]):
        return "a ratio is too large"
    return require_integer([inputs[0].type, outputs[0]])


_AVG = """\
  int32_t* const sums = (int32_t*)(void*)workspace;
  for (int32_t n = 0; n < @N@; ++n) {
    for (int32_t oy = 0; oy < @OH@; ++oy) {
@ROWS@      for (int32_t ox = 0; ox < @OW@; ++ox) {
@COLUMNS@        const int32_t taps = (y1 - y0) * (x1 - x0);
        const int32_t count = @COUNT@;
        @TYPE@* const dst = out0 + ((n * @OH@ + oy) * @OW@ + ox) * @C@;
        int32_t multiplier = @MUL@;
        int32_t shift = @SHIFT@;
@CASES@\
        for (int32_t c = 0; c < @C@; ++c) sums[c] = 0;
        for (int32_t i = y0; i < y1; ++i) {
          for (int32_t j = x0; j < x1; ++j) {
            const @TYPE@* const src = in0 + ((n * @H@ + i) * @W@ + j) * @C@;
            for (int32_t c = 0; c < @C@; ++c) sums[c] += src[c];
          }
        }
        for (int32_t c = 0; c < @C@; ++c) {
          const int64_t sum = (int64_t)sums[c] - (int64_t)taps * @X_ZERO@;
          dst[c] = @RESULT@;
        }
      }
    }
  }
"""


#: Where a window begins and ends; the first operand names the axis.
_WINDOW = """\
      const int32_t @A@ = o@A@ * @STEP@ - @BEFORE@;
      const int32_t @A@0 = @A@ < 0 ? 0 : @A@;
      const int32_t @A@1 = @A@ + @LENGTH@ < @SIZE@ ? @A@ + @LENGTH@ : @SIZE@;
"""
_UNEVEN = """\
      const int32_t @A@0 = o@A@ * @SIZE@ / @OUT@;
      const int32_t @A@1 = ((o@A@ + 1) * @SIZE@ + @OUT@ - 1) / @OUT@;
"""


def _bounds(uneven: bool, axis: str, step: int, before: int, length: int, size: int, out: int) -> str:
    values = {"A": axis, "STEP": step, "BEFORE": before, "LENGTH": length, "SIZE": size, "OUT": out}
    return fill(_UNEVEN if uneven else _WINDOW, values)


def generate_avg_pool(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], _options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.qavg_pool2d`` call.

    Attributes: ``pool``, ``strides``, ``padding`` [top, left, bottom, right], ``include_pad`` (the window is cut to the
    padded image, else to the image), ``ratios`` [[count, multiplier, shift], ...] for every count that occurs. With
    ``uneven`` the windows are those of an adaptive pool, and size, stride and padding have no meaning.
    """
    n, h, w, c = inputs[0].type.shape
    _, oh, ow, _ = outputs[0].shape
    top, left, bottom, right = attrs["padding"]
    (kh, kw), (sh, sw) = attrs["pool"], attrs["strides"]
    uneven = attrs.get("uneven", False)
    count = "taps"
    if attrs["include_pad"]:
        count = (
            f"((y + {kh} < {h + bottom} ? y + {kh} : {h + bottom}) - y) * "
            f"((x + {kw} < {w + right} ? x + {kw} : {w + right}) - x)"
        )
    (_, multiplier, shift), *others = attrs["ratios"]
    cases = "".join(
        f"        if (count == {k}) {{\n          multiplier = {m};\n          shift = {s};\n        }}\n"
        for k, m, s in others
    )
    if not others:
        cases = "        (void)count;\n"
    values = {
        "N": n,
        "H": h,
        "W": w,
        "C": c,
        "OH": oh,
        "OW": ow,
        "ROWS": _bounds(uneven, "y", sh, top, kh, h, oh),
        "COLUMNS": _bounds(uneven, "x", sw, left, kw, w, ow),
        "COUNT": count,
        "MUL": multiplier,
        "SHIFT": shift,
        "RESULT": requantized("sum", "multiplier", "shift"),
        "X_ZERO": attrs["x_zero"],
        "Y_ZERO": attrs["y_zero"],
        "LOW": attrs["low"],
        "HIGH": attrs["high"],
        "CASES": cases,
    }
    name = f"qavg_pool_to_{oh}x{ow}" if uneven else f"qavg_pool_{kh}x{kw}"
    return loops(_AVG, values, inputs, outputs, name, workspace_bytes=align64(4 * c))


_MAX = """\
  for (int32_t n = 0; n < @N@; ++n) {
    for (int32_t oy = 0; oy < @OH@; ++oy) {
      for (int32_t ox = 0; ox < @OW@; ++ox) {
        @TYPE@* const dst = out0 + ((n * @OH@ + oy) * @OW@ + ox) * @C@;
        for (int32_t c = 0; c < @C@; ++c) dst[c] = @LOWEST@;
        for (int32_t r = 0; r < @KH@; ++r) {
          const int32_t y = oy * @SH@ + r * @DH@ - @TOP@;
          if (y < 0 || y >= @H@) continue;
          for (int32_t q = 0; q < @KW@; ++q) {
            const int32_t x = ox * @SW@ + q * @DW@ - @LEFT@;
            const @TYPE@* src;
            if (x < 0 || x >= @W@) continue;
            src = in0 + ((n * @H@ + y) * @W@ + x) * @C@;
            for (int32_t c = 0; c < @C@; ++c) dst[c] = src[c] > dst[c] ? src[c] : dst[c];
          }
        }
      }
    }
  }
"""


def supports_max_pool(attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType]) -> str | None:
    """See ``c7x.codegen.kernels.supports``."""
    return supports_avg_pool({**attrs, "ratios": []}, inputs, outputs)


def generate_max_pool(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], _options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.qmax_pool2d`` call: ``pool``, ``strides``, ``padding``, ``dilation``; padding is the
    smallest value of the dtype."""
    n, h, w, c = inputs[0].type.shape
    _, oh, ow, _ = outputs[0].shape
    (kh, kw), (sh, sw), (dh, dw) = attrs["pool"], attrs["strides"], attrs["dilation"]
    values = {
        "N": n,
        "H": h,
        "W": w,
        "C": c,
        "OH": oh,
        "OW": ow,
        "KH": kh,
        "KW": kw,
        "SH": sh,
        "SW": sw,
        "DH": dh,
        "DW": dw,
        "TOP": attrs["padding"][0],
        "LEFT": attrs["padding"][1],
        "LOWEST": LIMITS[outputs[0].dtype][0],
    }
    return loops(_MAX, values, inputs, outputs, f"qmax_pool_{kh}x{kw}")
