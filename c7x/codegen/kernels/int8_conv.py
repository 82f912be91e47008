"""Quantised convolution on [N,H,W,C]: int8 by groups of four products, int16 by pairs.

A strip of the image is copied with its padding into the workspace: bytes as x + 128, without a sign, since that is what
the instructions for four products take, and the 128 is taken out of the bias at compile time. A tile is a few pixels of
the output by one or two vectors of eight channels; the weights of a panel of channels stand in the order in which a
tile reads them. Pixels of a tile need not be neighbours: a table holds where the window of each output pixel starts, so
no width of image leaves part of a tile empty.

int16 weights are split, w = 256 * high + low with both in -128..128, so that up to 256 products fit an int32; every
such run is added to sums of 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from c7x.codegen.kernels import int8_depthwise
from c7x.codegen.kernels.base import LANES, GeneratedKernel, KernelOptions, Operand, align64, ceil_div
from c7x.codegen.kernels.conv_common import ConvShape, conv_shape
from c7x.codegen.kernels.int8_common import MAX_DEPTH_INT8, fill, finish, hot, requantized, require_integer
from c7x.codegen.kernels.tile import Epilogue
from c7x.codegen.program import TensorType

#: Output pixels in a tile.
TILE_PIXELS = {"int8": 6, "int16": 4}
#: Vectors of channels in a tile, at most.
TILE_VECTORS = {"int8": 2, "int16": 1}
#: Elements that one lane multiplies at a time.
GROUP = {"int8": 4, "int16": 2}
#: Bytes of a strip: it stays in a second-level cache together with a panel of weights.
STRIP_BYTES = 196608
#: int16 products that fit an int32: 2^15 * 2^7 * 2^8 = 2^30.
RUN = 256
#: A tile may read this far behind the last pixel of a strip, up to a whole group.
SLACK = 64


@dataclass(frozen=True, kw_only=True)
class QConv:
    """A quantised convolution but for the values of its constants.

    Attributes:
        shape: sizes, strides, padding.
        dtype: of data, weight and result.
        x_zero, y_zero: zero points of data and result.
        low, high: clip of the result.
    """

    shape: ConvShape
    dtype: str
    x_zero: int
    y_zero: int
    low: int
    high: int

    @property
    def cg(self) -> int:
        """Input channels of a group."""
        return self.shape.c // self.shape.groups

    @property
    def og(self) -> int:
        """Output channels of a group."""
        return self.shape.o // self.shape.groups

    @property
    def group(self) -> int:
        return GROUP[self.dtype]

    @property
    def taps(self) -> int:
        """Runs of neighbouring elements in one row of a window: the whole row, or one a tap."""
        return 1 if self.shape.dilation[1] == 1 and self.shape.groups == 1 else self.shape.kw

    @property
    def run(self) -> int:
        """Elements of a run."""
        return self.shape.kw * self.cg // self.taps

    @property
    def steps(self) -> int:
        """Groups of a run; the last one is filled up with weights of zero."""
        return ceil_div(self.run, self.group)

    @property
    def vectors(self) -> int:
        return min(TILE_VECTORS[self.dtype], ceil_div(self.og, LANES))

    @property
    def panel(self) -> int:
        """Channels of a panel."""
        return self.vectors * LANES

    @property
    def panels(self) -> int:
        """Panels of one group of channels."""
        return ceil_div(self.og, self.panel)

    @property
    def itemsize(self) -> int:
        return 1 if self.dtype == "int8" else 2


def supports(attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType]) -> str | None:
    """See ``c7x.codegen.kernels.supports``."""
    if len(inputs) != 5 or len(outputs) != 1:
        return f"{len(inputs)} inputs and {len(outputs)} outputs (expected 5 and 1)"
    if any(operand.value is None for operand in inputs[1:]):
        return "weight, bias, multiplier and shift must be constants"
    if len(inputs[0].type.shape) != 4 or len(inputs[1].type.shape) != 4 or len(outputs[0].shape) != 4:
        return "data, weight and output must be of rank 4"
    reason = require_integer([inputs[0].type, inputs[1].type, outputs[0]])
    if reason is not None:
        return reason
    if any(operand.type.shape != (outputs[0].shape[3],) for operand in inputs[2:]):
        return "bias, multiplier and shift must hold one number per output channel"
    s = _shape(attrs, inputs, outputs[0])
    if s.shape.c != s.shape.groups * s.cg or s.shape.o != s.shape.groups * s.og or inputs[1].type.shape[1] != s.cg:
        return "channels and groups do not fit together"
    if s.dtype == "int16" and s.x_zero != 0:
        return f"int16 data with the zero point {s.x_zero} (only 0)"
    if s.dtype == "int8" and s.cg * s.shape.kh * s.shape.kw > MAX_DEPTH_INT8:
        return f"a sum of {s.cg * s.shape.kh * s.shape.kw} products (at most {MAX_DEPTH_INT8})"
    return None


def _shape(attrs: Mapping[str, Any], inputs: Sequence[Operand], output: TensorType) -> QConv:
    return QConv(
        shape=conv_shape(attrs, inputs, output, Epilogue()),
        dtype=inputs[0].type.dtype,
        x_zero=attrs["x_zero"],
        y_zero=attrs["y_zero"],
        low=attrs["low"],
        high=attrs["high"],
    )


def pack_weights(s: QConv, weights: np.ndarray) -> np.ndarray:
    """Weights [O, C/g, KH, KW] in a tile's order: [g, panel, KH, tap, step, plane, lane, element]; the plane is the
    vector for int8, and low or high for int16."""
    taps, run = s.taps, s.run
    # [g, og, KH, taps, run] with a run in the image's order: tap, then channel.
    rows = weights.reshape(s.shape.groups, s.og, s.cg, s.shape.kh, s.shape.kw).transpose(0, 1, 3, 4, 2)
    rows = rows.reshape(s.shape.groups, s.og, s.shape.kh, taps, run)
    channels = s.panels * s.panel - s.og
    rows = np.pad(rows, ((0, 0), (0, channels), (0, 0), (0, 0), (0, s.steps * s.group - run)))
    split = rows.reshape(s.shape.groups, s.panels, s.vectors, LANES, s.shape.kh, taps, s.steps, s.group)
    packed = split.transpose(0, 1, 4, 5, 6, 2, 3, 7)
    if s.dtype == "int16":
        wide = packed.astype(np.int32)
        high = (wide + 128) >> 8
        packed = np.concatenate([wide - high * 256, high], axis=5).astype(np.int16)
    return np.ascontiguousarray(packed)


def per_channel(s: QConv, values: np.ndarray, fill_value: int = 0) -> np.ndarray:
    """One number per output channel, every group filled up to whole panels."""
    padded = np.full((s.shape.groups, s.panels * s.panel), fill_value, values.dtype)
    padded[:, : s.og] = values.reshape(s.shape.groups, s.og)
    return padded.reshape(-1)


def _bias(s: QConv, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The bias with what x + 128 and the zero point add to every sum taken away."""
    if s.dtype == "int16":
        return bias.astype(np.int64)
    offset = (128 + s.x_zero) * weights.astype(np.int64).reshape(s.shape.o, -1).sum(axis=1)
    return np.asarray(bias.astype(np.int64) - offset).astype(np.int32)


def _rows(s: QConv) -> int:
    """Output rows computed from one strip."""
    sizes = sorted({ceil_div(s.shape.oh, n) for n in range(1, s.shape.oh + 1)}, reverse=True)
    row = s.shape.padded_w * s.shape.c * s.itemsize
    return next((size for size in sizes if s.shape.strip_h(size) * row <= STRIP_BYTES), 1)


_PAD = """\
/* Rows first .. first + @ROWS@ - 1 of the padded image, each byte without its sign. */
C7X_KERNEL static void @SYMBOL@_pad(const @TYPE@* C7X_RESTRICT image, @WIDE@* C7X_RESTRICT dst, int32_t first) {
  for (int32_t i = 0; i < @ROWS@; ++i) {
    const int32_t y = first + i - @TOP@;
    @WIDE@* const d = dst + i * @ROW@;
    const @TYPE@* from;
    if (y < 0 || y >= @H@) {
      for (int32_t j = 0; j < @ROW@; ++j) d[j] = @ZERO@;
      continue;
    }
    from = image + y * @IMAGE_ROW@;
@SIDES@\
    for (int32_t j = 0; j < @COLS@; ++j) d[@LEFT@ + j] = (@WIDE@)(from[j]@FLIP@);
  }
}
"""


def _pad_function(s: QConv, rows: int) -> str:
    left = min(s.shape.padding[1], s.shape.padded_w)
    cols = min(s.shape.w, s.shape.padded_w - left)
    row = s.shape.padded_w * s.shape.c
    right = row - (left + cols) * s.shape.c
    zero = s.x_zero + 128 if s.dtype == "int8" else 0
    sides = ""
    if left:
        sides += f"    for (int32_t j = 0; j < {left * s.shape.c}; ++j) d[j] = {zero};\n"
    if right:
        sides += f"    for (int32_t j = {row - right}; j < {row}; ++j) d[j] = {zero};\n"
    narrow_data = s.dtype == "int8"
    values = {
        "SIDES": sides,
        "ROWS": rows,
        "TOP": s.shape.padding[0],
        "ROW": row,
        "IMAGE_ROW": s.shape.w * s.shape.c,
        "H": s.shape.h,
        "ZERO": zero,
        "COLS": cols * s.shape.c,
        "LEFT": left * s.shape.c,
        "TYPE": "int8_t" if narrow_data else "int16_t",
        "WIDE": "uint8_t" if narrow_data else "int16_t",
        "FLIP": " ^ 0x80" if narrow_data else "",
    }
    return fill(_PAD, values)


def _loops(s: QConv, row: int, inner: Sequence[str], after_row: Sequence[str] = ()) -> list[str]:
    """The loops over a window around ``inner``, which reads at ``at`` (elements from a pixel's start)."""
    lines = []
    depth = 0

    def open_loop(head: str) -> None:
        nonlocal depth
        lines.append("  " * depth + head)
        depth += 1

    row_step, tap_step = s.shape.dilation[0] * row, s.shape.dilation[1] * s.shape.c
    start = "0"
    if s.shape.kh > 1:
        open_loop(f"for (int32_t r = 0; r < {s.shape.kh}; ++r) {{")
        start = f"r * {row_step}"
    outer = depth
    if s.taps > 1:
        open_loop(f"for (int32_t q = 0; q < {s.taps}; ++q) {{")
        start = f"{start} + q * {tap_step}" if start != "0" else f"q * {tap_step}"
    lines.append("  " * depth + f"int32_t at = {start};")
    lines += ["  " * depth + line for line in inner]
    while depth > outer:
        depth -= 1
        lines.append("  " * depth + "}")
    lines += ["  " * depth + line for line in after_row]
    while depth:
        depth -= 1
        lines.append("  " * depth + "}")
    return lines


def _params(s: QConv) -> str:
    wide = s.dtype == "int16"
    return ", ".join(
        [
            f"const {'int16_t' if wide else 'uint8_t'}* C7X_RESTRICT src",
            "const int32_t* C7X_RESTRICT table",
            f"const {'int16_t' if wide else 'int8_t'}* C7X_RESTRICT weights",
            f"const {'int64_t' if wide else 'int32_t'}* C7X_RESTRICT bias",
            "const int32_t* C7X_RESTRICT multiplier",
            "const int32_t* C7X_RESTRICT shift",
            f"{'int16_t' if wide else 'int8_t'}* C7X_RESTRICT dst",
            *(["int32_t count"] if s.og % s.panel else []),
        ]
    )


def _tile_int8(s: QConv, pixels: int, row: int, vector_shift: bool) -> str:
    """A static function: ``pixels`` output pixels by one panel of channels."""
    vectors = range(s.vectors)
    lines = [f"  const uint8_t* const x{p} = src + table[{p}];" for p in range(pixels)]
    lines.append("  const int8_t* w = weights;")
    for v in vectors:
        lines.append(f"  const c7x_i32x8 b{v} = c7x_load8i(bias + {v * LANES});")
        lines.append("  c7x_i32x8 " + ", ".join(f"a{p}_{v} = b{v}" for p in range(pixels)) + ";")
    unroll = 2 if s.steps % 2 == 0 and s.steps > 2 else 1
    block = ["c7x_i32x8 x;"]
    for u in range(unroll):
        at = f"at + {4 * u}" if u else "at"
        block += [f"const c7x_i32x8 w{u}_{v} = c7x_load32b(w + {(u * s.vectors + v) * 32});" for v in vectors]
        for p in range(pixels):
            block.append(f"x = c7x_splat4b(x{p} + {at});")
            block += [f"a{p}_{v} = c7x_dot4(a{p}_{v}, x, w{u}_{v});" for v in vectors]
    inner = [f"for (int32_t k = 0; k < {s.steps // unroll}; ++k) {{", *("  " + line for line in block)]
    inner += [f"  at += {4 * unroll};", f"  w += {unroll * s.vectors * 32};", "}"]
    lines += ["  " + line for line in _loops(s, row, inner)]
    clip = f"c7x_clamp8i({{}}, {s.low}, {s.high})"
    partial = s.og % s.panel != 0
    if partial:
        lines.append(f"  int8_t row[{s.panel}];")
    for p in range(pixels):
        for v in vectors:
            if vector_shift:
                value = f"c7x_requantize8(a{p}_{v}, multiplier + {v * LANES}, shift + {v * LANES})"
            else:
                value = f"@SYMBOL@_requantize(a{p}_{v}, multiplier + {v * LANES}, shift + {v * LANES})"
            value = clip.format(f"{value} + c7x_splat8i({s.y_zero})" if s.y_zero else value)
            target = f"row + {v * LANES}" if partial else f"dst + {p * s.shape.o + v * LANES}"
            lines.append(f"  c7x_narrow8({target}, {value});")
        if partial:
            lines.append(f"  memcpy(dst + {p * s.shape.o}, row, (size_t)count);")
    return hot("tile", _params(s), lines)


#: For ratios of one and more, which a result of eight bits needs only where almost everything saturates.
_SLOW = """\
static c7x_i32x8 @SYMBOL@_requantize(c7x_i32x8 sum, const int32_t* multiplier, const int32_t* shift) {
  int32_t lanes[8];
  c7x_store8i(lanes, sum);
  for (int32_t i = 0; i < 8; ++i) {
    lanes[i] = (int32_t)c7x_clamp_i64(c7x_requantize(lanes[i], multiplier[i], shift[i]), -65536, 65535);
  }
  return c7x_load8i(lanes);
}

"""


def _tile_int16(s: QConv, pixels: int, row: int) -> str:
    lines = [f"  const int16_t* const x{p} = src + table[{p}];" for p in range(pixels)]
    lines += [
        "  const int16_t* w = weights;",
        f"  int64_t sums[{pixels * LANES}];",
        f"  int32_t part[{LANES}];",
        "  const c7x_i32x8 zero = c7x_splat8i(0);",
        "  c7x_i32x8 " + ", ".join(f"l{p} = zero, h{p} = zero" for p in range(pixels)) + ";",
        f"  for (int32_t i = 0; i < {pixels * LANES}; ++i) sums[i] = bias[i % {LANES}];",
    ]
    flush = []
    for p in range(pixels):
        for name, factor in (("l", ""), ("h", " * 256")):
            flush.append(f"c7x_store8i(part, {name}{p});")
            flush.append(f"for (int32_t i = 0; i < 8; ++i) sums[{p * LANES} + i] += (int64_t)part[i]{factor};")
            flush.append(f"{name}{p} = zero;")
    block = ["const c7x_i32x8 wl = c7x_load32b(w);", "const c7x_i32x8 wh = c7x_load32b(w + 16);", "c7x_i32x8 x;"]
    for p in range(pixels):
        block += [
            f"x = c7x_splat4b(x{p} + at);",
            f"l{p} = c7x_dot2(l{p}, x, wl);",
            f"h{p} = c7x_dot2(h{p}, x, wh);",
        ]
    block += ["at += 2;", "w += 32;"]
    chunk = RUN // 2
    whole, rest = divmod(s.steps, chunk)
    small_row = s.taps * s.steps <= chunk
    inner: list[str] = []
    if whole and not small_row:
        inner.append(f"for (int32_t part_of = 0; part_of < {whole}; ++part_of) {{")
        inner += [f"  for (int32_t k = 0; k < {chunk}; ++k) {{", *("    " + b for b in block), "  }"]
        inner += ["  " + f for f in flush] + ["}"]
    count = s.steps if small_row else rest
    if count:
        inner += [f"for (int32_t k = 0; k < {count}; ++k) {{", *("  " + b for b in block), "}"]
        if not small_row:
            inner += flush
    # A short row of a window need not be added up at once: as many rows as fit a run are.
    rows = max(1, chunk // (s.taps * s.steps)) if small_row else 1
    after: list[str] = []
    if small_row:
        if s.shape.kh > 1:
            condition = (
                f"r == {s.shape.kh - 1}" if rows >= s.shape.kh else f"r % {rows} == {rows - 1} || r == {s.shape.kh - 1}"
            )
            after = [f"if ({condition}) {{", *("  " + f for f in flush), "}"]
        else:
            after = flush
    lines += ["  " + line for line in _loops(s, row, inner, after)]
    bounds = {"TYPE": "int16_t", "Y_ZERO": s.y_zero, "LOW": s.low, "HIGH": s.high}
    result = fill(requantized("sums[@AT@ + i]", "multiplier[i]", "shift[i]"), bounds)
    limit = "count" if s.og % s.panel else str(LANES)
    for p in range(pixels):
        lines += [
            f"  for (int32_t i = 0; i < {limit}; ++i) {{",
            f"    dst[{p * s.shape.o} + i] = {result.replace('@AT@', str(p * LANES))};",
            "  }",
        ]
    return hot("tile", _params(s), lines)


def name_hint(s: QConv) -> str:
    """Like ``qconv2d_3x3_s2``."""
    name = f"qconv2d_{s.shape.kh}x{s.shape.kw}"
    if s.shape.stride != (1, 1):
        name += f"_s{max(s.shape.stride)}"
    if s.shape.dilation != (1, 1):
        name += f"_d{max(s.shape.dilation)}"
    if s.shape.groups > 1:
        name += f"_g{s.shape.groups}"
    return name if s.dtype == "int8" else f"{name}_i16"


def generate(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.qconv2d`` call."""
    s = _shape(attrs, inputs, outputs[0])
    weights, bias, multiplier, shift = (np.asarray(operand.value) for operand in inputs[1:])
    if s.shape.depthwise:
        return int8_depthwise.generate(attrs, inputs, outputs, options)
    rows = _rows(s)
    strip_h = s.shape.strip_h(rows)
    row = s.shape.padded_w * s.shape.c
    pixels_of_strip = rows * s.shape.ow
    pixels = min(TILE_PIXELS[s.dtype], pixels_of_strip)
    image_bytes = align64(strip_h * row * s.itemsize + SLACK)
    workspace = image_bytes + align64(pixels_of_strip * 4)
    functions = _pad_function(s, strip_h)
    if s.dtype == "int8":
        vector_shift = bool((shift >= 31).all())
        functions += ("" if vector_shift else _SLOW) + _tile_int8(s, pixels, row, vector_shift)
    else:
        functions += _tile_int16(s, pixels, row)
    element = "uint8_t" if s.dtype == "int8" else "int16_t"
    per_panel = s.panel * s.shape.kh * s.taps * s.steps * s.group * (1 if s.dtype == "int8" else 2)
    group_channels = s.panels * s.panel
    body = [
        f"{element}* const image = ({element}*)(void*)workspace;",
        f"int32_t* const table = (int32_t*)(void*)(workspace + {image_bytes});",
        f"for (int32_t y = 0; y < {rows}; ++y) {{",
        f"  for (int32_t x = 0; x < {s.shape.ow}; ++x) "
        f"table[y * {s.shape.ow} + x] = y * {s.shape.stride[0] * row} + x * {s.shape.stride[1] * s.shape.c};",
        "}",
        f"for (int32_t n = 0; n < {s.shape.n}; ++n) {{",
        f"for (int32_t strip = 0; strip < {s.shape.oh}; strip += {rows}) {{",
        # The last strip is moved back to end at the last row; what it computes again comes out the same.
        f"  const int32_t first = strip < {s.shape.oh - rows} ? strip : {s.shape.oh - rows};",
        f"  @SYMBOL@_pad(in0 + n * {s.shape.h * s.shape.w * s.shape.c}, image, first * {s.shape.stride[0]});",
        f"  for (int32_t g = 0; g < {s.shape.groups}; ++g) {{",
        f"  for (int32_t panel = 0; panel < {s.panels}; ++panel) {{",
        f"    const int32_t channel = g * {group_channels} + panel * {s.panel};",
    ]
    partial = s.og % s.panel != 0
    if partial:
        last = s.og - (s.panels - 1) * s.panel
        body.append(f"    const int32_t count = panel == {s.panels - 1} ? {last} : {s.panel};")
    out = f"out0 + ((n * {s.shape.oh} + first) * {s.shape.ow} + at) * {s.shape.o} + g * {s.og} + panel * {s.panel}"
    args = [
        f"image + g * {s.cg}" if s.shape.groups > 1 else "image",
        "table + at",
        f"in1 + (g * {s.panels} + panel) * {per_panel}",
        "in2 + channel",
        "in3 + channel",
        "in4 + channel",
        out,
        *(["count"] if partial else []),
    ]
    body += [
        f"    for (int32_t tile = 0; tile < {pixels_of_strip}; tile += {pixels}) {{",
        f"      const int32_t at = tile < {pixels_of_strip - pixels} ? tile : {pixels_of_strip - pixels};",
        f"      @SYMBOL@_tile({', '.join(args)});",
        "    }",
        "  }",
        "  }",
        "}",
        "}",
    ]
    packed = {
        1: pack_weights(s, weights),
        2: per_channel(s, _bias(s, weights, bias)),
        3: per_channel(s, multiplier.astype(np.int32)),
        4: per_channel(s, shift.astype(np.int32), 31),
    }
    assert math.prod(packed[1].shape) == per_panel * s.panels * s.shape.groups
    return finish(
        functions=functions,
        body=body,
        inputs=inputs,
        outputs=outputs,
        packed=packed,
        workspace_bytes=workspace,
        macs=s.shape.macs,
        name_hint=name_hint(s),
    )
