"""Convolution: NHWC data, OIHW weights packed at compile time; direct, depthwise, and Winograd's F(2x2, 3x3).

Padding is done by copying the image into the workspace once, so that no inner loop checks a bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from c7x.codegen.kernels.base import (
    ACTIVATIONS,
    LANES,
    GeneratedKernel,
    KernelOptions,
    Operand,
    align64,
    ceil_div,
    float_type,
    require_float,
    signature,
)
from c7x.codegen.kernels.tile import Epilogue, PixelMap, Taps, choose_blocks, pack_panels, panel_product
from c7x.codegen.program import TensorType


@dataclass(frozen=True, kw_only=True)
class ConvShape:
    """Everything about a convolution but the values of its weights."""

    n: int
    h: int
    w: int
    c: int
    o: int
    oh: int
    ow: int
    kh: int
    kw: int
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    groups: int
    epilogue: Epilogue

    @property
    def padded_h(self) -> int:
        """Rows of the image that are read, padding included."""
        return (self.oh - 1) * self.stride[0] + (self.kh - 1) * self.dilation[0] + 1

    @property
    def padded_w(self) -> int:
        """Columns of the image that are read, padding included."""
        return (self.ow - 1) * self.stride[1] + (self.kw - 1) * self.dilation[1] + 1

    @property
    def needs_padding(self) -> bool:
        """Whether some pixel that is read lies outside the image."""
        top, left, _, _ = self.padding
        return top > 0 or left > 0 or self.padded_h > self.h or self.padded_w > self.w

    @property
    def source_w(self) -> int:
        """Columns of the array that the inner loops read: the padded copy, or the image itself."""
        return self.padded_w if self.needs_padding else self.w

    @property
    def macs(self) -> int:
        return self.n * self.oh * self.ow * self.o * self.kh * self.kw * (self.c // self.groups)

    @property
    def depthwise(self) -> bool:
        return self.groups == self.c == self.o and self.groups > 1


def conv_shape(attrs: Mapping[str, Any], inputs: Sequence[Operand], output: TensorType) -> ConvShape:
    """The shape of a ``c7x.conv2d`` call whose form ``supports`` has accepted."""
    n, h, w, c = inputs[0].type.shape
    o, _, kh, kw = inputs[1].type.shape
    _, oh, ow, _ = output.shape
    sh, sw = attrs["strides"]
    top, left, bottom, right = attrs["padding"]
    dh, dw = attrs["dilation"]
    return ConvShape(
        n=n, h=h, w=w, c=c, o=o, oh=oh, ow=ow, kh=kh, kw=kw, stride=(sh, sw), padding=(top, left, bottom, right),
        dilation=(dh, dw), groups=attrs["groups"],
        epilogue=Epilogue(
            bias=attrs["has_bias"], residual=attrs["has_residual"], activation=attrs["activation"]
        ),
    )  # fmt: skip


def supports(attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType]) -> str | None:
    """See ``c7x.codegen.kernels.supports``."""
    count = 2 + bool(attrs["has_bias"]) + bool(attrs["has_residual"])
    if len(inputs) != count or len(outputs) != 1:
        return f"{len(inputs)} inputs and {len(outputs)} outputs (expected {count} and 1)"
    if any(len(t.shape) != 4 for t in (inputs[0].type, inputs[1].type, outputs[0])):
        return "data, weight and output must have four dimensions"
    if inputs[1].value is None:
        return "the weight is not a constant"
    if attrs["activation"] not in ACTIVATIONS:
        return f"activation {attrs['activation']!r}"
    if min(attrs["padding"]) < 0:
        return "negative padding"
    reason = require_float([*(i.type for i in inputs), *outputs])
    if reason is not None:
        return reason
    s = conv_shape(attrs, inputs, outputs[0])
    if s.c % s.groups or s.o % s.groups or inputs[1].type.shape[1] * s.groups != s.c:
        return f"{s.c} input and {s.o} output channels do not divide into {s.groups} groups"
    top, left, bottom, right = s.padding
    for size, extent, pad in ((s.oh, s.padded_h, s.h + top + bottom), (s.ow, s.padded_w, s.w + left + right)):
        if size < 1 or extent > pad:
            return "the output's shape does not follow from the input's"
    if inputs[0].type.shape[0] != outputs[0].shape[0] or outputs[0].shape[3] != s.o:
        return "the output's shape does not follow from the input's"
    return None


def name_hint(s: ConvShape) -> str:
    """Like ``conv2d_3x3_s2_relu`` or ``depthwise_3x3``."""
    parts = ["depthwise" if s.depthwise else "conv2d", f"{s.kh}x{s.kw}"]
    if s.stride != (1, 1):
        parts.append(f"s{s.stride[0]}" if s.stride[0] == s.stride[1] else f"s{s.stride[0]}x{s.stride[1]}")
    if s.dilation != (1, 1):
        parts.append(f"d{max(s.dilation)}")
    if s.groups > 1 and not s.depthwise:
        parts.append(f"g{s.groups}")
    if s.epilogue.residual:
        parts.append("add")
    if s.epilogue.activation:
        parts.append(s.epilogue.activation)
    return "_".join(parts)


def pad_function(s: ConvShape) -> str:
    """A static function that copies one image into ``dst`` [padded_h, padded_w, c] with zeros around it."""
    top, left, _, _ = s.padding
    rows = min(s.h, s.padded_h - top)
    cols = min(s.w, s.padded_w - left)
    row = s.padded_w * s.c
    right = row - (left + cols) * s.c
    below = s.padded_h - top - rows
    lines = [
        "static void @SYMBOL@_pad(const float* C7X_RESTRICT src, float* C7X_RESTRICT dst) {",
    ]
    if top:
        lines.append(f"  memset(dst, 0, {top * row} * sizeof(float));")
    lines += [
        f"  for (int32_t y = 0; y < {rows}; ++y) {{",
        f"    float* const d = dst + ({top} + y) * {row};",
    ]
    if left:
        lines.append(f"    memset(d, 0, {left * s.c} * sizeof(float));")
    lines.append(f"    memcpy(d + {left * s.c}, src + y * {s.w * s.c}, {cols * s.c} * sizeof(float));")
    if right:
        lines.append(f"    memset(d + {(left + cols) * s.c}, 0, {right} * sizeof(float));")
    lines.append("  }")
    if below:
        lines.append(f"  memset(dst + {(top + rows) * row}, 0, {below * row} * sizeof(float));")
    lines.append("}")
    return "\n".join(lines) + "\n"


def pad_bytes(s: ConvShape) -> int:
    """Workspace for the padded copy of one image."""
    return align64(s.padded_h * s.padded_w * s.c * 4) if s.needs_padding else 0


def generate(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], _options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.conv2d`` call; see ``c7x.codegen.kernels.generate``."""
    s = conv_shape(attrs, inputs, outputs[0])
    weights = np.asarray(inputs[1].value, dtype=np.float32)
    if s.depthwise:
        return depthwise(s, weights, inputs, outputs)
    return direct(s, weights, inputs, outputs)


def finish(
    s: ConvShape, source: str, packed: np.ndarray, inputs: Sequence[Operand], outputs: Sequence[TensorType],
    workspace_bytes: int,
) -> GeneratedKernel:  # fmt: skip
    """The kernel around a finished source text; the weight's type becomes that of its packed form."""
    return GeneratedKernel(
        source_template=source,
        inputs=tuple(float_type(packed) if i == 1 else operand.type for i, operand in enumerate(inputs)),
        outputs=tuple(outputs),
        packed={1: packed},
        workspace_bytes=workspace_bytes,
        macs=s.macs,
        name_hint=name_hint(s),
    )


def kernel_signature(packed: np.ndarray, inputs: Sequence[Operand], outputs: Sequence[TensorType], ws: int) -> str:
    types = tuple(float_type(packed) if i == 1 else operand.type for i, operand in enumerate(inputs))
    return signature(types, tuple(outputs), workspace=ws > 0)


# --- direct -----------------------------------------------------------------------------------------------------------


def direct(
    s: ConvShape, weights: np.ndarray, inputs: Sequence[Operand], outputs: Sequence[TensorType]
) -> GeneratedKernel:
    """Sum over taps and channels in place, group by group."""
    cg, og = s.c // s.groups, s.o // s.groups
    row = s.source_w * s.c
    # Neighbouring taps of a row are contiguous when no other group's channels and no gaps lie between them.
    if s.groups == 1 and (s.dilation[1] == 1 or s.kw == 1):
        taps = Taps(rows=s.kh, row_step=s.dilation[0] * row, length=s.kw * s.c)
    else:
        taps = Taps(
            rows=s.kh, row_step=s.dilation[0] * row, cols=s.kw, col_step=s.dilation[1] * s.c, length=cg
        )  # fmt: skip
    step = s.stride[1] * s.c
    linear = s.ow == 1 or s.oh == 1 or s.stride[0] * row == s.ow * step
    if s.ow == 1:
        pixel_map = PixelMap(step=s.stride[0] * row)
    elif linear:
        pixel_map = PixelMap(step=step)
    else:
        pixel_map = PixelMap(step=step, width=s.ow, row=s.stride[0] * row)
    pixels, images = s.oh * s.ow, s.n
    image_step = s.h * s.w * s.c
    if not s.needs_padding and linear and pixels * pixel_map.step == image_step:
        pixels, images = s.n * pixels, 1
    blocks = choose_blocks(og, pixels)
    packed = np.concatenate(
        [
            pack_panels(weights[g * og : (g + 1) * og].transpose(0, 2, 3, 1).reshape(og, -1), blocks)
            for g in range(s.groups)
        ]
    )
    functions, statements = panel_product(
        blocks=blocks, pixels=pixels, taps=taps, source=pixel_map, out_step=s.o, epilogue=s.epilogue,
        chunk=choose_chunk(pixels, s.stride[0] * s.stride[1] * s.c),
    )  # fmt: skip
    ws = pad_bytes(s)
    body: list[str] = []
    if s.needs_padding:
        body.append("float* const padded = (float*)(void*)workspace;")
    body.append(f"for (int32_t n = 0; n < {images}; ++n) {{")
    if s.needs_padding:
        body.append(f"  @SYMBOL@_pad(in0 + n * {image_step}, padded);")
    body.append(f"  for (int32_t g = 0; g < {s.groups}; ++g) {{")
    image = "padded" if s.needs_padding else f"in0 + n * {image_step}"
    body.append(f"    const float* const src = {image} + g * {cg};")
    body.append(f"    const float* const wts = in1 + g * {packed.size // s.groups};")
    arg = 2
    if s.epilogue.bias:
        body.append(f"    const float* const bias = in{arg} + g * {og};")
        arg += 1
    out_image = pixels * s.o
    if s.epilogue.residual:
        body.append(f"    const float* const res = in{arg} + n * {out_image} + g * {og};")
    body.append(f"    float* const dst = out0 + n * {out_image} + g * {og};")
    body += ["    " + line for line in statements.splitlines()]
    body += ["  }", "}", "return 0;"]
    source = functions
    if s.needs_padding:
        source = pad_function(s) + source
    source += kernel_signature(packed, inputs, outputs, ws) + " {\n" + "".join(f"  {x}\n" for x in body) + "}\n"
    return finish(s, source, packed, inputs, outputs, ws)


#: Inputs of one chunk of pixels, in floats: a share of a 256 KiB cache.
CHUNK_FLOATS = 16384


def choose_chunk(pixels: int, floats_per_pixel: int) -> int:
    """Pixels whose inputs stay cached while all weights pass by: a multiple of every tile width (4, 5 and 6)."""
    return max(1, ceil_div(min(pixels, CHUNK_FLOATS // max(1, floats_per_pixel)), 60)) * 60


# --- depthwise --------------------------------------------------------------------------------------------------------


def pack_depthwise(weights: np.ndarray) -> np.ndarray:
    """Weights [C, 1, KH, KW] as [KH, KW, C]."""
    return np.ascontiguousarray(weights[:, 0].transpose(1, 2, 0))


def depthwise(
    s: ConvShape, weights: np.ndarray, inputs: Sequence[Operand], outputs: Sequence[TensorType]
) -> GeneratedKernel:
    """One weight per channel and tap: lanes run over channels, accumulators over a row of outputs."""
    packed = pack_depthwise(weights)
    ws = pad_bytes(s)
    tile = min(4, s.ow)
    row = s.source_w * s.c
    tail = s.c % LANES
    arg = 2
    bias = residual = ""
    if s.epilogue.bias:
        bias, arg = f"in{arg}", arg + 1
    if s.epilogue.residual:
        residual = f"in{arg}"
    activation = ACTIVATIONS[s.epilogue.activation]

    def lanes(load: str, store: str) -> list[str]:
        lines = [f"const c7x_f32x8 b = {load.format(bias + ' + c') if bias else 'c7x_splat8(0.0f)'};"]
        lines.append("c7x_f32x8 " + ", ".join(f"a{p} = b" for p in range(tile)) + ";")
        lines.append(f"for (int32_t r = 0; r < {s.kh}; ++r) {{")
        lines.append(f"  for (int32_t q = 0; q < {s.kw}; ++q) {{")
        lines.append(f"    const float* const t = src + r * {s.dilation[0] * row} + q * {s.dilation[1] * s.c} + c;")
        lines.append(f"    const c7x_f32x8 w = {load.format(f'in1 + (r * {s.kw} + q) * {s.c} + c')};")
        for p in range(tile):
            lines.append(f"    a{p} = c7x_fma8({load.format(f't + {p * s.stride[1] * s.c}')}, w, a{p});")
        lines += ["  }", "}"]
        for p in range(tile):
            value = f"a{p}"
            if residual:
                value += " + " + load.format(f"res + {p * s.o} + c")
            if activation:
                value = f"{activation}({value})"
            lines.append(store.format(f"dst + {p * s.o} + c", value))
        return lines

    image = "padded" if s.needs_padding else "image"
    body: list[str] = [f"for (int32_t n = 0; n < {s.n}; ++n) {{"]
    if s.needs_padding:
        body.append("  float* const padded = (float*)(void*)workspace;")
        body.append(f"  @SYMBOL@_pad(in0 + n * {s.h * s.w * s.c}, padded);")
    else:
        body.append(f"  const float* const image = in0 + n * {s.h * s.w * s.c};")
    body += [
        f"  for (int32_t y = 0; y < {s.oh}; ++y) {{",
        f"    for (int32_t tile = 0; tile < {s.ow}; tile += {tile}) {{",
        f"      const int32_t x = tile < {s.ow - tile} ? tile : {s.ow - tile};",
        f"      const float* const src = {image} + y * {s.stride[0] * row} + x * {s.stride[1] * s.c};",
        f"      float* const dst = out0 + ((n * {s.oh} + y) * {s.ow} + x) * {s.o};",
    ]
    if residual:
        body.append(f"      const float* const res = {residual} + ((n * {s.oh} + y) * {s.ow} + x) * {s.o};")
    if s.c >= LANES:
        body.append(f"      for (int32_t c = 0; c < {s.c - tail}; c += {LANES}) {{")
        body += ["        " + line for line in lanes("c7x_load8({})", "c7x_store8({}, {});")]
        body.append("      }")
    if tail:
        body.append("      {")
        body.append(f"        const int32_t c = {s.c - tail};")
        partial = lanes(f"c7x_load8_n({{}}, {tail})", f"c7x_store8_n({{}}, {{}}, {tail});")
        body += ["        " + line for line in partial]
        body.append("      }")
    body += ["    }", "  }", "}", "return 0;"]
    source = pad_function(s) if s.needs_padding else ""
    source += kernel_signature(packed, inputs, outputs, ws) + " {\n" + "".join(f"  {x}\n" for x in body) + "}\n"
    return finish(s, source, packed, inputs, outputs, ws)
