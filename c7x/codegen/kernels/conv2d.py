"""Convolution: NHWC data, OIHW weights packed at compile time; direct, depthwise, and Winograd's F(2x2, 3x3).

Padding is done by copying a strip of the image into the workspace, so that no inner loop checks a bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from c7x.codegen.kernels.base import (
    ACTIVATIONS,
    GeneratedKernel,
    KernelOptions,
    Operand,
    align64,
    ceil_div,
    require_float,
)
from c7x.codegen.kernels.conv_common import (
    WEIGHT_MACS,
    ConvShape,
    choose_strip,
    conv_shape,
    epilogue_inputs,
    epilogue_of,
    finish,
    pad_function,
)
from c7x.codegen.kernels.depthwise import depthwise
from c7x.codegen.kernels.tile import PixelMap, Taps, choose_blocks, choose_pixels, pack_panels, panel_product
from c7x.codegen.kernels.winograd import winograd, winograd_pays
from c7x.codegen.program import TensorType


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
    s = conv_shape(attrs, inputs, outputs[0], epilogue_of(attrs))
    if s.c % s.groups or s.o % s.groups or inputs[1].type.shape[1] * s.groups != s.c:
        return f"{s.c} input and {s.o} output channels do not divide into {s.groups} groups"
    top, left, bottom, right = s.padding
    for size, extent, pad in ((s.oh, s.padded_h, s.h + top + bottom), (s.ow, s.padded_w, s.w + left + right)):
        if size < 1 or extent > pad:
            return "the output's shape does not follow from the input's"
    if inputs[0].type.shape[0] != outputs[0].shape[0] or outputs[0].shape[3] != s.o:
        return "the output's shape does not follow from the input's"
    return None


def generate(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.conv2d`` call; see ``c7x.codegen.kernels.generate``."""
    s = conv_shape(attrs, inputs, outputs[0], epilogue_of(attrs))
    weights = np.asarray(inputs[1].value, dtype=np.float32)
    if s.depthwise:
        return depthwise(s, weights, inputs, outputs)
    if options.winograd and winograd_pays(s):
        return winograd(s, weights, inputs, outputs)
    return direct(s, weights, inputs, outputs)


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
    blocks = choose_blocks(og, s.oh * s.ow)
    packed = np.concatenate(
        [
            pack_panels(weights[g * og : (g + 1) * og].transpose(0, 2, 3, 1).reshape(og, -1), blocks)
            for g in range(s.groups)
        ]
    )
    images, image_step = s.n, s.h * s.w * s.c
    if s.needs_padding:

        def floats(rows: int) -> int:
            return s.strip_h(rows) * row

        def cost(rows: int) -> int:
            tile = choose_pixels(blocks.main, rows * s.ow)
            return (ceil_div(rows * s.ow, tile) * tile + WEIGHT_MACS) * packed.size

        rows = choose_strip(s.oh, floats, cost)
        pixels = chunk = rows * s.ow
        ws = align64(floats(rows) * 4)
    else:
        rows, ws = s.oh, 0
        pixels = s.oh * s.ow
        if linear and pixels * pixel_map.step == image_step:
            pixels, images = s.n * pixels, 1
        chunk = choose_chunk(pixels, s.stride[0] * s.stride[1] * s.c)
    functions, statements = panel_product(
        blocks=blocks, pixels=pixels, taps=taps, source=pixel_map, out_step=s.o, epilogue=s.epilogue, chunk=chunk
    )
    bias, residual = epilogue_inputs(s)
    image, at = f"in0 + n * {image_step}", f"n * {s.oh * s.ow * s.o}"
    body: list[str] = []
    if s.needs_padding:
        functions = pad_function(s, s.strip_h(rows), s.padded_w) + functions
        body.append("float* const padded = (float*)(void*)workspace;")
    body.append(f"for (int32_t n = 0; n < {images}; ++n) {{")
    if s.needs_padding:
        # The last strip is moved back to end at the last row; what it computes again comes out the same.
        body += [
            f"for (int32_t strip = 0; strip < {s.oh}; strip += {rows}) {{",
            f"  const int32_t y = strip < {s.oh - rows} ? strip : {s.oh - rows};",
            f"  @SYMBOL@_pad({image}, padded, y * {s.stride[0]});",
        ]
        image, at = "padded", f"(n * {s.oh} + y) * {s.ow * s.o}"
    body.append(f"  for (int32_t g = 0; g < {s.groups}; ++g) {{")
    body.append(f"    const float* const src = {image} + g * {cg};")
    body.append(f"    const float* const wts = in1 + g * {packed.size // s.groups};")
    if bias:
        body.append(f"    const float* const bias = {bias} + g * {og};")
    if residual:
        body.append(f"    const float* const res = {residual} + {at} + g * {og};")
    body.append(f"    float* const dst = out0 + {at} + g * {og};")
    body += ["    " + line for line in statements.splitlines()]
    body += ["  }", "}"]
    if s.needs_padding:
        body.append("}")
    return finish(s, functions, body, packed, inputs, outputs, ws)


#: Inputs of one chunk of pixels, in floats: a share of a 256 KiB cache.
CHUNK_FLOATS = 16384


def choose_chunk(pixels: int, floats_per_pixel: int) -> int:
    """Pixels whose inputs stay cached while all weights pass by: a multiple of every tile width (4, 5 and 6)."""
    return max(1, ceil_div(min(pixels, CHUNK_FLOATS // max(1, floats_per_pixel)), 60)) * 60
