"""Products of two quantised matrices that are both known at run time only (attention), by the contract of
``int8_common``: sum over k of (a - a_zero) * (b - b_zero).

int8: both are copied into the order of the instructions for four products, a as a + 128 without a sign; what the
offsets add is taken out per row and per column, whose sums are made while copying. int16 sums are 64 bits wide, in
plain loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from c7x.codegen.kernels.base import LANES, GeneratedKernel, KernelOptions, Operand, align64, ceil_div
from c7x.codegen.kernels.int8_common import MAX_DEPTH_INT8, fill, hot, loops, requantized, require_integer
from c7x.codegen.program import TensorType

#: Rows of a in a tile.
TILE_ROWS = 4


def supports(attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType]) -> str | None:
    """See ``c7x.codegen.kernels.supports``."""
    if len(inputs) != 2 or len(outputs) != 1:
        return f"{len(inputs)} inputs and {len(outputs)} outputs (expected 2 and 1)"
    shapes = [inputs[0].type.shape, inputs[1].type.shape, outputs[0].shape]
    if any(len(shape) != 3 for shape in shapes):
        return "both matrices and the result must be of rank 3"
    (batch, m, k), b, (out_batch, out_m, n) = shapes
    rows = (n, k) if attrs["transpose_b"] else (k, n)
    if (out_batch, out_m) != (batch, m) or b[1:] != rows or b[0] not in (1, batch):
        return "the shapes do not fit together"
    if inputs[0].type.dtype == "int8" and k > MAX_DEPTH_INT8:
        return f"a sum of {k} products (at most {MAX_DEPTH_INT8})"
    if inputs[0].type.dtype == "int16" and (attrs["a_zero"], attrs["b_zero"]) != (0, 0):
        return "int16 data with a zero point"
    if attrs["shift"] < 31:
        return "a ratio of one or more"
    return require_integer([inputs[0].type, inputs[1].type, outputs[0]])


_PARAMS = (
    "const uint8_t* C7X_RESTRICT a, const int8_t* C7X_RESTRICT w, const int32_t* C7X_RESTRICT rows, "
    "const int32_t* C7X_RESTRICT columns, int8_t* C7X_RESTRICT dst, int32_t count"
)

_TILE = """\
  static const int32_t multiplier[8] = {@MULS@};
  static const int32_t shift[8] = {@SHIFTS@};
  const c7x_i32x8 start = c7x_load8i(columns);
  c7x_i32x8 @STARTS@;
  int8_t lanes[8];
  for (int32_t k = 0; k < @STEPS@; ++k) {
    const c7x_i32x8 b = c7x_load32b(w + 32 * k);
@DOTS@\
  }
@STORES@"""

_BODY = """\
  uint8_t* const rows_of_a = workspace;
  int8_t* const panels = (int8_t*)(void*)(workspace + @AT_PANELS@);
  int32_t* const rows = (int32_t*)(void*)(workspace + @AT_ROWS@);
  int32_t* const columns = (int32_t*)(void*)(workspace + @AT_COLUMNS@);
  for (int32_t batch = 0; batch < @BATCH@; ++batch) {
    const int8_t* const a = in0 + batch * @A_SIZE@;
    const int8_t* const b = in1 + batch * @B_STEP@;
    int8_t* const y = out0 + batch * @Y_SIZE@;
    for (int32_t m = 0; m < @M@; ++m) {
      int32_t sum = 0;
      uint8_t* const row = rows_of_a + m * @DEPTH@;
      for (int32_t k = 0; k < @K@; ++k) {
        row[k] = (uint8_t)(a[m * @K@ + k] ^ 0x80);
        sum += a[m * @K@ + k];
      }
      for (int32_t k = @K@; k < @DEPTH@; ++k) row[k] = 0;
      rows[m] = -(@B_ZERO@) * (sum - @K@ * (@A_ZERO@));
    }
    memset(panels, 0, @PANEL_BYTES@);
    for (int32_t n = 0; n < @COLUMNS@; ++n) columns[n] = 0;
    for (int32_t k = 0; k < @K@; ++k) {
      for (int32_t n = 0; n < @N@; ++n) {
        const int8_t v = b[@B_INDEX@];
        panels[(n / 8) * @PANEL@ + (k / 4) * 32 + (n % 8) * 4 + k % 4] = v;
        columns[n] -= (128 + (@A_ZERO@)) * v;
      }
    }
    for (int32_t n = 0; n < @N@; n += 8) {
      const int32_t count = n < @N@ - 8 ? 8 : @N@ - n;
      for (int32_t tile = 0; tile < @M@; tile += @ROWS@) {
        const int32_t m = tile < @LAST@ ? tile : @LAST@;
        @SYMBOL@_tile(rows_of_a + m * @DEPTH@, panels + (n / 8) * @PANEL@, rows + m, columns + n, y + m * @N@ + n,
                      count);
      }
    }
  }
"""

_WIDE = """\
  for (int32_t batch = 0; batch < @BATCH@; ++batch) {
    const int16_t* const a = in0 + batch * @A_SIZE@;
    const int16_t* const b = in1 + batch * @B_STEP@;
    for (int32_t m = 0; m < @M@; ++m) {
      for (int32_t n = 0; n < @N@; ++n) {
        int64_t sum = 0;
        for (int32_t k = 0; k < @K@; ++k) sum += (int64_t)a[m * @K@ + k] * b[@B_INDEX@];
        out0[batch * @Y_SIZE@ + m * @N@ + n] = @RESULT@;
      }
    }
  }
"""


def generate(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], _options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.qbatch_matmul`` call."""
    batch, m, k = inputs[0].type.shape
    n = outputs[0].shape[2]
    rows = min(TILE_ROWS, m)
    steps = ceil_div(k, 4)
    panels = ceil_div(n, LANES)
    at_panels = align64(m * steps * 4)
    at_rows = at_panels + align64(panels * steps * 32)
    at_columns = at_rows + align64(4 * m)
    values: dict[str, Any] = {
        "BATCH": batch,
        "M": m,
        "N": n,
        "K": k,
        "DEPTH": 4 * steps,
        "STEPS": steps,
        "PANEL": steps * 32,
        "PANEL_BYTES": panels * steps * 32,
        "COLUMNS": panels * LANES,
        "ROWS": rows,
        "LAST": m - rows,
        "A_SIZE": m * k,
        "B_STEP": 0 if inputs[1].type.shape[0] == 1 else n * k,
        "Y_SIZE": m * n,
        "B_INDEX": f"n * {k} + k" if attrs["transpose_b"] else f"k * {n} + n",
        "A_ZERO": attrs["a_zero"],
        "B_ZERO": attrs["b_zero"],
        "Y_ZERO": attrs["y_zero"],
        "LOW": attrs["low"],
        "HIGH": attrs["high"],
        "MUL": attrs["mul"],
        "SHIFT": attrs["shift"],
        "AT_PANELS": at_panels,
        "AT_ROWS": at_rows,
        "AT_COLUMNS": at_columns,
    }
    macs = batch * m * n * k
    if outputs[0].dtype == "int16":
        result = requantized("sum", attrs["mul"], attrs["shift"])
        return loops(_WIDE, {"RESULT": result, **values}, inputs, outputs, "qbatch_matmul", macs=macs)
    dots = "".join(f"    s{r} = c7x_dot4(s{r}, c7x_splat4b(a + {r * 4 * steps} + 4 * k), b);\n" for r in range(rows))
    zero = f" + c7x_splat8i({attrs['y_zero']})" if attrs["y_zero"] else ""
    stores = "".join(
        f"  c7x_narrow8(lanes, c7x_clamp8i(c7x_requantize8(s{r} + c7x_splat8i(rows[{r}]), multiplier, shift){zero}, "
        f"{attrs['low']}, {attrs['high']}));\n  memcpy(dst + {r * n}, lanes, (size_t)count);\n"
        for r in range(rows)
    )
    tile = fill(
        _TILE,
        {
            **values,
            "MULS": ", ".join([str(attrs["mul"])] * 8),
            "SHIFTS": ", ".join([str(attrs["shift"])] * 8),
            "STARTS": ", ".join(f"s{r} = start" for r in range(rows)),
            "DOTS": dots,
            "STORES": stores,
        },
    )
    return loops(
        _BODY,
        values,
        inputs,
        outputs,
        "qbatch_matmul",
        functions=hot("tile", _PARAMS, tile.splitlines()),
        workspace_bytes=at_columns + align64(4 * panels * LANES),
        macs=macs,
    )
