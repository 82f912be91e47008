"""Quantised depthwise convolution: lanes run over channels, each product of a pixel and a weight fits 16 by 16 bits.

int8 data is read where it lies when the window never leaves the image, and from a padded copy of a strip otherwise;
int16 sums need 64 bits and are computed channel by channel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from c7x.codegen.kernels.base import LANES, GeneratedKernel, KernelOptions, Operand, align64, ceil_div
from c7x.codegen.kernels.conv_common import conv_shape
from c7x.codegen.kernels.int8_common import fill, finish, hot, requantized
from c7x.codegen.kernels.tile import Epilogue
from c7x.codegen.program import TensorType

#: Neighbouring outputs of a row in a tile; they share the pixels they both read.
TILE_OUTPUTS = 4
#: Widest window whose columns are written out.
MAX_UNROLLED = 7
STRIP_BYTES = 196608

_WIDE = """\
@HEAD@ {
  for (int32_t n = 0; n < @N@; ++n) {
    for (int32_t oy = 0; oy < @OH@; ++oy) {
      for (int32_t ox = 0; ox < @OW@; ++ox) {
        @TYPE@* const dst = out0 + ((n * @OH@ + oy) * @OW@ + ox) * @C@;
        for (int32_t c = 0; c < @C@; ++c) {
          int64_t sum = in2[c];
          for (int32_t r = 0; r < @KH@; ++r) {
            const int32_t y = oy * @SH@ + r * @DH@ - @TOP@;
            if (y < 0 || y >= @H@) continue;
            for (int32_t q = 0; q < @KW@; ++q) {
              const int32_t x = ox * @SW@ + q * @DW@ - @LEFT@;
              if (x < 0 || x >= @W@) continue;
              sum += (int64_t)(in0[((n * @H@ + y) * @W@ + x) * @C@ + c] - @X_ZERO@) * in1[(r * @KW@ + q) * @C@ + c];
            }
          }
          dst[c] = @RESULT@;
        }
      }
    }
  }
  return 0;
}
"""

_PAD = """\
/* Rows first .. first + @ROWS@ - 1 of the padded image. */
static void @SYMBOL@_pad(const int8_t* C7X_RESTRICT image, int8_t* C7X_RESTRICT dst, int32_t first) {
  for (int32_t i = 0; i < @ROWS@; ++i) {
    const int32_t y = first + i - @TOP@;
    int8_t* const d = dst + i * @ROW@;
    memset(d, @ZERO@, @ROW@);
    if (y >= 0 && y < @H@) memcpy(d + @LEFT@, image + y * @IMAGE_ROW@, @COLS@);
  }
}
"""


def _geometry(attrs: Mapping[str, Any], inputs: Sequence[Operand], output: TensorType) -> dict[str, int]:
    s = conv_shape(attrs, inputs, output, Epilogue())
    return {
        "N": s.n,
        "H": s.h,
        "W": s.w,
        "C": s.c,
        "KH": s.kh,
        "KW": s.kw,
        "OH": s.oh,
        "OW": s.ow,
        "SH": s.stride[0],
        "SW": s.stride[1],
        "DH": s.dilation[0],
        "DW": s.dilation[1],
        "TOP": s.padding[0],
        "LEFT": s.padding[1],
        "X_ZERO": attrs["x_zero"],
        "Y_ZERO": attrs["y_zero"],
        "LOW": attrs["low"],
        "HIGH": attrs["high"],
    }


def _name(g: Mapping[str, int], wide: bool) -> str:
    stride = f"_s{max(g['SH'], g['SW'])}" if (g["SH"], g["SW"]) != (1, 1) else ""
    return f"qdepthwise_{g['KH']}x{g['KW']}{stride}" + ("_i16" if wide else "")


def generate(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], _options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.qconv2d`` call with one input and one output channel a group."""
    g = _geometry(attrs, inputs, outputs[0])
    weights, bias, multiplier, shift = (np.asarray(operand.value) for operand in inputs[1:])
    packed = {
        1: np.ascontiguousarray(weights[:, 0].transpose(1, 2, 0)),
        2: bias,
        3: multiplier.astype(np.int32),
        4: shift.astype(np.int32),
    }
    macs = outputs[0].numel * g["KH"] * g["KW"]
    wide = inputs[0].type.dtype == "int16"
    if wide or g["C"] < LANES or g["KW"] > MAX_UNROLLED or bool((shift < 31).any()):
        packed[2] = bias.astype(np.int64)
        kernel = finish(
            functions="", body=[], inputs=inputs, outputs=outputs, packed=packed, macs=macs, name_hint=_name(g, wide)
        )
        head = kernel.source_template.split(" {")[0]
        source = fill(
            _WIDE, {"RESULT": requantized("sum", "in3[c]", "in4[c]"), **g, "HEAD": head, "TYPE": outputs[0].c_type}
        )
        return GeneratedKernel(**{**kernel.__dict__, "source_template": source})
    packed[2] = (bias.astype(np.int64) - g["X_ZERO"] * weights.astype(np.int64).sum(axis=(1, 2, 3))).astype(np.int32)
    return _lanes(g, inputs, outputs, packed, macs)


def _tile(g: Mapping[str, int], outputs: int, row: int) -> str:
    """A static function: ``outputs`` neighbouring outputs of a row, all channels."""
    c = g["C"]
    lines = [
        f"  for (int32_t v = 0; v < {c}; v += {LANES}) {{",
        # The last vector is moved back to end at the last channel; what it computes again comes out the same.
        f"    const int32_t c = v < {c - LANES} ? v : {c - LANES};",
        "    const c7x_i32x8 b = c7x_load8i(bias + c);",
        "    c7x_i32x8 x, " + ", ".join(f"a{p} = b" for p in range(outputs)) + ";",
        f"    for (int32_t r = 0; r < {g['KH']}; ++r) {{",
        f"      const int8_t* const t = src + r * {g['DH'] * row} + c;",
        f"      const int8_t* const w = weights + r * {g['KW'] * c} + c;",
    ]
    lines += [f"      const c7x_i32x8 w{q} = c7x_widen8(w + {q * c});" for q in range(g["KW"])]
    uses: dict[int, list[tuple[int, int]]] = {}
    for p in range(outputs):
        for q in range(g["KW"]):
            uses.setdefault(p * g["SW"] + q * g["DW"], []).append((p, q))
    for column, pairs in sorted(uses.items()):
        lines.append(f"      x = c7x_widen8(t + {column * c});")
        lines += [f"      a{p} = c7x_mul16(a{p}, x, w{q});" for p, q in pairs]
    lines.append("    }")
    zero = f" + c7x_splat8i({g['Y_ZERO']})" if g["Y_ZERO"] else ""
    for p in range(outputs):
        value = f"c7x_requantize8(a{p}, multiplier + c, shift + c){zero}"
        lines.append(f"    c7x_narrow8(dst + {p * c} + c, c7x_clamp8i({value}, {g['LOW']}, {g['HIGH']}));")
    params = (
        "const int8_t* C7X_RESTRICT src, const int8_t* C7X_RESTRICT weights, const int32_t* C7X_RESTRICT bias, "
        "const int32_t* C7X_RESTRICT multiplier, const int32_t* C7X_RESTRICT shift, int8_t* C7X_RESTRICT dst"
    )
    return hot("tile", params, [*lines, "  }"])


def _lanes(
    g: Mapping[str, int],
    inputs: Sequence[Operand],
    outputs: Sequence[TensorType],
    packed: Mapping[int, np.ndarray],
    macs: int,
) -> GeneratedKernel:
    padded_w = (g["OW"] - 1) * g["SW"] + (g["KW"] - 1) * g["DW"] + 1

    def strip_h(rows: int) -> int:
        return (rows - 1) * g["SH"] + (g["KH"] - 1) * g["DH"] + 1

    needs_padding = g["TOP"] > 0 or g["LEFT"] > 0 or strip_h(g["OH"]) > g["H"] or padded_w > g["W"]
    row = (padded_w if needs_padding else g["W"]) * g["C"]
    tile = min(TILE_OUTPUTS, g["OW"])
    functions, rows, workspace = _tile(g, tile, row), g["OH"], 0
    if needs_padding:
        sizes = sorted({ceil_div(rows, k) for k in range(1, rows + 1)}, reverse=True)
        rows = next((size for size in sizes if strip_h(size) * row <= STRIP_BYTES), 1)
        workspace = align64(strip_h(rows) * row)
        left = min(g["LEFT"], padded_w)
        cols = min(g["W"], padded_w - left)
        functions += fill(
            _PAD,
            {
                **g,
                "ROWS": strip_h(rows),
                "ROW": row,
                "ZERO": g["X_ZERO"],
                "IMAGE_ROW": g["W"] * g["C"],
                "LEFT": left * g["C"],
                "COLS": cols * g["C"],
            },
        )
    image = f"in0 + n * {g['H'] * g['W'] * g['C']}"
    body = [
        f"for (int32_t n = 0; n < {g['N']}; ++n) {{",
        f"for (int32_t strip = 0; strip < {g['OH']}; strip += {rows}) {{",
        f"  const int32_t first = strip < {g['OH'] - rows} ? strip : {g['OH'] - rows};",
    ]
    if needs_padding:
        body += [
            "  int8_t* const source = (int8_t*)(void*)workspace;",
            f"  @SYMBOL@_pad({image}, source, first * {g['SH']});",
        ]
    else:
        body.append(f"  const int8_t* const source = {image};")
    body += [
        f"  for (int32_t y = 0; y < {rows}; ++y) {{",
        f"    for (int32_t tile = 0; tile < {g['OW']}; tile += {tile}) {{",
        f"      const int32_t x = tile < {g['OW'] - tile} ? tile : {g['OW'] - tile};",
        f"      const int32_t at = ((n * {g['OH']} + first + y) * {g['OW']} + x) * {g['C']};",
        f"      @SYMBOL@_tile(source + y * {g['SH'] * row} + x * {g['SW'] * g['C']}, in1, in2, in3, in4, out0 + at);",
        "    }",
        "  }",
        "}",
        "}",
    ]
    return finish(
        functions=functions,
        body=body,
        inputs=inputs,
        outputs=outputs,
        packed=packed,
        workspace_bytes=workspace,
        macs=macs,
        name_hint=_name(g, False),
    )
