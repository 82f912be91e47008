"""Depthwise convolution: one weight per channel and tap, so lanes run over channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from c7x.codegen.kernels.base import ACTIVATIONS, LANES, GeneratedKernel, Operand
from c7x.codegen.kernels.conv_common import ConvShape, epilogue_inputs, finish, pad_bytes, pad_function
from c7x.codegen.program import TensorType


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
    bias, residual = epilogue_inputs(s)
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
    body += ["    }", "  }", "}"]
    functions = pad_function(s, s.padded_h, s.padded_w) if s.needs_padding else ""
    return finish(s, functions, body, packed, inputs, outputs, ws)
