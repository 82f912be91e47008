"""Winograd's F(2x2, 3x3): four outputs of a 3x3 convolution from 16 products instead of 36.

With the matrices of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015): an output tile is
A^T [ (G g G^T) * (B^T d B) ] A, where g is the 3x3 weight and d the 4x4 input; entries of A and B are 0, 1 and -1.
The weights are transformed at compile time in float64. For each of the 16 positions the sum over channels is a
matrix product: tiles x C times C x O, done by the same register tile as every other product.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from c7x.codegen.kernels.base import ACTIVATIONS, LANES, GeneratedKernel, Operand, align64, ceil_div
from c7x.codegen.kernels.conv_common import ConvShape, epilogue_inputs, finish, pad_function
from c7x.codegen.kernels.tile import Epilogue, PixelMap, Taps, block_function, choose_pixels
from c7x.codegen.program import TensorType

#: Output channels of a block: two vectors.
BLOCK = 2 * LANES

#: Most floats of transformed input that are held at a time (1/2 of a 1 MiB cache, 16 positions).
CHUNK_FLOATS = 131072

#: Fewest tiles of an image. Below, the transformed weights, 16/9 of the original, are used too rarely for their size.
MIN_TILES = 36

_G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])


def winograd_pays(s: ConvShape) -> bool:
    """Whether the shape has the form, and the work, for which fewer products are worth two transforms."""
    tiles = ceil_div(s.oh, 2) * ceil_div(s.ow, 2)
    return (
        (s.kh, s.kw, s.stride, s.dilation, s.groups) == (3, 3, (1, 1), (1, 1), 1)
        and s.c % LANES == 0
        and s.o % BLOCK == 0
        and s.c >= 32
        and s.o >= 32
        and tiles >= MIN_TILES
    )


def pack_winograd(weights: np.ndarray) -> np.ndarray:
    """Weights [O, C, 3, 3] as G g G^T in panels [O / 16][16 positions][C][16], flattened."""
    o, c = weights.shape[:2]
    u = np.einsum("ir,ocrq,jq->ijoc", _G, weights.astype(np.float64), _G).astype(np.float32)
    panels = u.reshape(16, o // BLOCK, BLOCK, c).transpose(1, 0, 3, 2)
    return np.ascontiguousarray(panels).ravel()


def choose_chunk(tiles: int, channels: int) -> tuple[int, int]:
    """Tiles that are transformed at a time, and the register tile's pixels: few tiles computed twice."""
    most = max(12, CHUNK_FLOATS // (16 * channels))
    chunks = ceil_div(tiles, most)
    pixels = choose_pixels(2, ceil_div(tiles, chunks))
    return min(tiles, ceil_div(ceil_div(tiles, chunks), pixels) * pixels), pixels


def _combine(signs: Sequence[tuple[str, int]]) -> str:
    """A sum of names with signs, like ``a - b``; the first sign is plus."""
    return signs[0][0] + "".join(f" {'+' if sign > 0 else '-'} {name}" for name, sign in signs[1:])


#: Rows of B^T and A^T: positions and signs.
_BT: tuple[tuple[tuple[int, int], ...], ...] = (
    ((0, 1), (2, -1)), ((1, 1), (2, 1)), ((2, 1), (1, -1)), ((1, 1), (3, -1)),
)  # fmt: skip
_AT: tuple[tuple[tuple[int, int], ...], ...] = (((0, 1), (1, 1), (2, 1)), ((1, 1), (2, -1), (3, -1)))


def _input_function(s: ConvShape, chunk: int, tile_cols: int, row: int) -> str:
    """A static function: tiles [first, first + chunk) of the padded image to ``v`` [16][chunk][C]."""
    put: list[str] = [
        "static void @SYMBOL@_input(const float* C7X_RESTRICT src, float* C7X_RESTRICT v, int32_t first) {",
        f"  for (int32_t t = 0; t < {chunk}; ++t) {{",
        f"    const int32_t y = (first + t) / {tile_cols}, column = (first + t) % {tile_cols};",
        f"    const float* const x = src + y * {2 * row} + column * {2 * s.c};",
        f"    float* const d = v + t * {s.c};",
        f"    for (int32_t c = 0; c < {s.c}; c += {LANES}) {{",
    ]
    for j, ((left, _), (right, sign)) in enumerate(_BT):
        put.append("      {")
        for r in range(4):
            a, b = (f"c7x_load8(x + {r * row + q * s.c} + c)" for q in (left, right))
            put.append(f"        const c7x_f32x8 r{r} = {a} {'+' if sign > 0 else '-'} {b};")
        for i, terms in enumerate(_BT):
            value = _combine([(f"r{r}", sign) for r, sign in terms])
            put.append(f"        c7x_store8(d + {(i * 4 + j) * chunk * s.c} + c, {value});")
        put.append("      }")
    put += ["    }", "  }", "}"]
    return "\n".join(put) + "\n"


def _output_function(s: ConvShape, chunk: int, tile_cols: int) -> str:
    """A static function: the sums ``m`` [16][chunk][16] of one block to outputs, through the epilogue."""
    bias, residual = s.epilogue.bias, s.epilogue.residual
    extra = [f"const float* C7X_RESTRICT {n}" for n, on in (("bias", bias), ("res", residual)) if on]
    params = ["const float* C7X_RESTRICT m", *extra, "float* C7X_RESTRICT dst", "int32_t first"]
    activation = ACTIVATIONS[s.epilogue.activation]
    put: list[str] = [
        f"static void @SYMBOL@_output({', '.join(params)}) {{",
        f"  for (int32_t t = 0; t < {chunk}; ++t) {{",
        f"    const int32_t y = (first + t) / {tile_cols} * 2, x = (first + t) % {tile_cols} * 2;",
        f"    const int32_t at = (y * {s.ow} + x) * {s.o};",
        f"    for (int32_t c = 0; c < {BLOCK}; c += {LANES}) {{",
        f"      const float* const q = m + t * {BLOCK} + c;",
    ]
    if bias:
        put.append("      const c7x_f32x8 b = c7x_load8(bias + c);")
    for j in range(4):
        for i in range(4):
            put.append(f"      const c7x_f32x8 m{i}{j} = c7x_load8(q + {(i * 4 + j) * chunk * BLOCK});")
        for i, terms in enumerate(_AT):
            value = _combine([(f"m{r}{j}", sign) for r, sign in terms])
            put.append(f"      const c7x_f32x8 s{i}{j} = {value};")
    for i in range(2):
        for j, terms in enumerate(_AT):
            value = _combine([(f"s{i}{k}", sign) for k, sign in terms])
            if bias:
                value += " + b"
            offset = (i * s.ow + j) * s.o
            if residual:
                value += f" + c7x_load8(res + at + {offset} + c)"
            if activation:
                value = f"{activation}({value})"
            store = f"c7x_store8(dst + at + {offset} + c, {value});"
            # Odd sizes: the last tile hangs over the edge.
            guards = [f"y + {i} < {s.oh}"] if i and s.oh % 2 else []
            guards += [f"x + {j} < {s.ow}"] if j and s.ow % 2 else []
            put.append("      " + (f"if ({' && '.join(guards)}) " if guards else "") + store)
    put += ["    }", "  }", "}"]
    return "\n".join(put) + "\n"


def winograd(
    s: ConvShape, weights: np.ndarray, inputs: Sequence[Operand], outputs: Sequence[TensorType]
) -> GeneratedKernel:
    """The kernel for a shape that ``winograd_pays`` has accepted."""
    packed = pack_winograd(weights)
    tile_rows, tile_cols = ceil_div(s.oh, 2), ceil_div(s.ow, 2)
    height, width = 2 * tile_rows + 2, 2 * tile_cols + 2
    tiles = tile_rows * tile_cols
    chunk, pixels = choose_chunk(tiles, s.c)
    image_floats = align64(height * width * s.c * 4) // 4
    v_floats = align64(16 * chunk * s.c * 4) // 4
    ws = (image_floats + v_floats + 16 * chunk * BLOCK) * 4
    bias, residual = epilogue_inputs(s)

    functions = pad_function(s, height, width)
    functions += _input_function(s, chunk, tile_cols, width * s.c)
    functions += block_function(
        suffix="product", vectors=2, pixels=pixels, total=chunk, taps=Taps(length=s.c), source=PixelMap(step=s.c),
        out_step=BLOCK, tail=LANES, epilogue=Epilogue(),
    )  # fmt: skip
    functions += _output_function(s, chunk, tile_cols)

    out_image = s.oh * s.ow * s.o
    args = ["m"]
    if bias:
        args.append(f"{bias} + b * {BLOCK}")
    if residual:
        args.append(f"{residual} + n * {out_image} + b * {BLOCK}")
    args += [f"out0 + n * {out_image} + b * {BLOCK}", "first"]
    body = [
        "float* const padded = (float*)(void*)workspace;",
        f"float* const v = padded + {image_floats};",
        f"float* const m = v + {v_floats};",
        f"for (int32_t n = 0; n < {s.n}; ++n) {{",
        f"  @SYMBOL@_pad(in0 + n * {s.h * s.w * s.c}, padded);",
        # The last chunk is moved back to end at the last tile; what it computes again comes out the same.
        f"  for (int32_t t = 0; t < {tiles}; t += {chunk}) {{",
        f"    const int32_t first = t < {tiles - chunk} ? t : {tiles - chunk};",
        "    @SYMBOL@_input(padded, v, first);",
        f"    for (int32_t b = 0; b < {s.o // BLOCK}; ++b) {{",
        "      for (int32_t i = 0; i < 16; ++i)",
        f"        @SYMBOL@_product(v + i * {chunk * s.c}, in1 + (b * 16 + i) * {s.c * BLOCK}, "
        f"m + i * {chunk * BLOCK}, 0, {chunk});",
        f"      @SYMBOL@_output({', '.join(args)});",
        "    }",
        "  }",
        "}",
    ]
    return finish(s, functions, body, packed, inputs, outputs, ws)
