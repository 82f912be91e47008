"""Depthwise convolution: one weight per channel and tap, so lanes run over channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from c7x.codegen.kernels.base import ACTIVATIONS, LANES, GeneratedKernel, Operand, align64, ceil_div
from c7x.codegen.kernels.conv_common import ConvShape, choose_strip, epilogue_inputs, finish, pad_function
from c7x.codegen.program import TensorType


def pack_depthwise(weights: np.ndarray) -> np.ndarray:
    """Weights [C, 1, KH, KW] as [KH, KW, C]."""
    return np.ascontiguousarray(weights[:, 0].transpose(1, 2, 0))


#: Outputs of a row that are computed side by side, best first: more of them share each weight and input.
TILE_OUTPUTS = (7, 6, 5, 4)

#: Widest kernel whose taps of one row are written out, so that neighbouring outputs share the inputs they load.
MAX_UNROLLED = 7


def choose_outputs(width: int) -> int:
    """Outputs in a tile: the candidate that computes the fewest outputs twice."""
    return min((p for p in TILE_OUTPUTS if p <= width), key=lambda p: (ceil_div(width, p) * p, -p), default=width)


def tile_text(s: ConvShape, outputs: int, row: int, load: str, store: str) -> list[str]:
    """Statements for one vector of channels at ``c``: ``outputs`` neighbouring outputs from ``src`` to ``dst``.

    ``load`` and ``store`` are templates of a full or a partial vector access.
    """
    bias, residual = epilogue_inputs(s)
    stride, dilation = s.stride[1], s.dilation[1]
    lines = [f"const c7x_f32x8 b = {load.format('bias + c') if bias else 'c7x_splat8(0.0f)'};"]
    lines.append("c7x_f32x8 " + ", ".join(f"a{p} = b" for p in range(outputs)) + ";")
    lines.append(f"for (int32_t r = 0; r < {s.kh}; ++r) {{")
    lines.append(f"  const float* const t = src + r * {s.dilation[0] * row} + c;")
    lines.append(f"  const float* const w = weights + r * {s.kw * s.c} + c;")
    if s.kw <= MAX_UNROLLED:
        uses: dict[int, list[tuple[int, int]]] = {}
        for p in range(outputs):
            for q in range(s.kw):
                uses.setdefault(p * stride + q * dilation, []).append((p, q))
        for q in range(s.kw):
            lines.append(f"  const c7x_f32x8 w{q} = {load.format(f'w + {q * s.c}')};")
        lines.append("  c7x_f32x8 x;")
        for column, pairs in sorted(uses.items()):
            lines.append(f"  x = {load.format(f't + {column * s.c}')};")
            lines += [f"  a{p} = c7x_fma8(x, w{q}, a{p});" for p, q in pairs]
    else:
        lines.append(f"  for (int32_t q = 0; q < {s.kw}; ++q) {{")
        lines.append(f"    const c7x_f32x8 v = {load.format(f'w + q * {s.c}')};")
        for p in range(outputs):
            at = f"t + q * {dilation * s.c} + {p * stride * s.c}"
            lines.append(f"    a{p} = c7x_fma8({load.format(at)}, v, a{p});")
        lines.append("  }")
    lines.append("}")
    activation = ACTIVATIONS[s.epilogue.activation]
    for p in range(outputs):
        value = f"a{p}"
        if residual:
            value = f"c7x_add8({value}, {load.format(f'res + {p * s.o} + c')})"
        if activation:
            value = f"{activation}({value})"
        lines.append(store.format(f"dst + {p * s.o} + c", value))
    return lines


def tile_function(s: ConvShape, outputs: int, row: int) -> str:
    """A static function: ``outputs`` neighbouring outputs of a row, all channels."""
    bias, residual = epilogue_inputs(s)
    names = [n for n, on in (("src", True), ("weights", True), ("bias", bias), ("res", residual)) if on]
    params = [*(f"const float* C7X_RESTRICT {name}" for name in names), "float* C7X_RESTRICT dst"]
    tail = s.c % LANES
    lines = [f"C7X_KERNEL static void @SYMBOL@_tile({', '.join(params)}) {{"]
    if s.c >= LANES:
        lines.append(f"  for (int32_t c = 0; c < {s.c - tail}; c += {LANES}) {{")
        lines += ["    " + line for line in tile_text(s, outputs, row, "c7x_load8({})", "c7x_store8({}, {});")]
        lines.append("  }")
    if tail:
        lines.append(f"  const int32_t c = {s.c - tail};")
        partial = (f"c7x_load8_n({{}}, {tail})", f"c7x_store8_n({{}}, {{}}, {tail});")
        lines += ["  " + line for line in tile_text(s, outputs, row, *partial)]
    return "\n".join([*lines, "}"]) + "\n"


def depthwise(
    s: ConvShape, weights: np.ndarray, inputs: Sequence[Operand], outputs: Sequence[TensorType]
) -> GeneratedKernel:
    """The kernel of a convolution with one input and one output channel a group."""
    packed = pack_depthwise(weights)
    row = s.source_w * s.c
    tile = choose_outputs(s.ow)
    bias, residual = epilogue_inputs(s)
    strip, ws, functions = s.oh, 0, tile_function(s, tile, row)
    if s.needs_padding:
        strip = choose_strip(s.oh, lambda rows: s.strip_h(rows) * row, lambda rows: rows * s.ow * s.c * s.kh * s.kw)
        ws = align64(s.strip_h(strip) * row * 4)
        functions += pad_function(s, s.strip_h(strip), s.padded_w)

    args = [f"source + y * {s.stride[0] * row} + x * {s.stride[1] * s.c}", "in1"]
    if bias:
        args.append(bias)
    if residual:
        args.append(f"{residual} + at")
    args.append("out0 + at")
    body = [f"for (int32_t n = 0; n < {s.n}; ++n) {{"]
    image = f"in0 + n * {s.h * s.w * s.c}"
    body.append(f"for (int32_t strip = 0; strip < {s.oh}; strip += {strip}) {{")
    # The last strip is moved back to end at the last row; what it computes again comes out the same.
    body.append(f"  const int32_t first = strip < {s.oh - strip} ? strip : {s.oh - strip};")
    if s.needs_padding:
        body.append("  float* const source = (float*)(void*)workspace;")
        body.append(f"  @SYMBOL@_pad({image}, source, first * {s.stride[0]});")
    else:
        body.append(f"  const float* const source = {image};")
    body += [
        f"  for (int32_t y = 0; y < {strip}; ++y) {{",
        f"    for (int32_t tile = 0; tile < {s.ow}; tile += {tile}) {{",
        f"      const int32_t x = tile < {s.ow - tile} ? tile : {s.ow - tile};",
        f"      const int32_t at = ((n * {s.oh} + first + y) * {s.ow} + x) * {s.o};",
        f"      @SYMBOL@_tile({', '.join(args)});",
    ]
    body += ["    }", "  }", "}", "}"]
    return finish(s, functions, body, packed, inputs, outputs, ws)
