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
from c7x.codegen.kernels.conv_common import WEIGHT_MACS, ConvShape, epilogue_inputs, finish, pad_function
from c7x.codegen.kernels.tile import Epilogue, PixelMap, Taps, block_function, choose_pixels
from c7x.codegen.program import TensorType

#: Output channels of a block: two vectors.
BLOCK = 2 * LANES

#: Most floats of transformed input that are held at a time: 800 KiB, for a cache of 1 MiB.
CHUNK_FLOATS = 204800

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


def choose_rows(s: ConvShape) -> int:
    """Rows of tiles that are transformed at a time: as many as ``CHUNK_FLOATS`` allows, few tiles computed twice."""
    tile_rows, tile_cols = ceil_div(s.oh, 2), ceil_div(s.ow, 2)

    def cost(rows: int) -> int:
        pixels = choose_pixels(2, rows * tile_cols)
        # In multiply-accumulates per weight: one a tile, and those that reading the weight takes the time of.
        return ceil_div(tile_rows, rows) * (ceil_div(rows * tile_cols, pixels) * pixels + WEIGHT_MACS)

    sizes = sorted({ceil_div(tile_rows, n) for n in range(1, tile_rows + 1)}, reverse=True)
    return min([size for size in sizes if 16 * size * tile_cols * s.c <= CHUNK_FLOATS] or [1], key=cost)


def plane_floats(floats: int) -> int:
    """Distance between the planes of two positions: an odd number of cache lines.

    All 16 planes are written in turn, and at a distance of a multiple of 4 KiB they would evict each other.
    """
    lines = ceil_div(floats, 16)
    return (lines + 1 - lines % 2) * 16


def _combine(signs: Sequence[tuple[str, int]]) -> str:
    """A sum of names with signs, from the left; the first sign is plus."""
    value = signs[0][0]
    for name, sign in signs[1:]:
        value = f"c7x_{'add' if sign > 0 else 'sub'}8({value}, {name})"
    return value


#: Rows of B^T and A^T: positions and signs.
_BT: tuple[tuple[tuple[int, int], ...], ...] = (
    ((0, 1), (2, -1)), ((1, 1), (2, 1)), ((2, 1), (1, -1)), ((1, 1), (3, -1)),
)  # fmt: skip
_AT: tuple[tuple[tuple[int, int], ...], ...] = (((0, 1), (1, 1), (2, 1)), ((1, 1), (2, -1), (3, -1)))


def _input_function(s: ConvShape, chunk: int, tile_cols: int, row: int, plane: int) -> str:
    """A static function: the tiles of a padded strip to ``v``, 16 planes [chunk][C]."""
    put: list[str] = [
        "C7X_KERNEL static void @SYMBOL@_input(const float* C7X_RESTRICT src, float* C7X_RESTRICT v) {",
        f"  for (int32_t t = 0; t < {chunk}; ++t) {{",
        f"    const float* const x = src + t / {tile_cols} * {2 * row} + t % {tile_cols} * {2 * s.c};",
        f"    float* const d = v + t * {s.c};",
        f"    for (int32_t c = 0; c < {s.c}; c += {LANES}) {{",
    ]
    for j, ((left, _), (right, sign)) in enumerate(_BT):
        put.append("      {")
        for r in range(4):
            a, b = (f"c7x_load8(x + {r * row + q * s.c} + c)" for q in (left, right))
            put.append(f"        const c7x_f32x8 r{r} = c7x_{'add' if sign > 0 else 'sub'}8({a}, {b});")
        for i, terms in enumerate(_BT):
            value = _combine([(f"r{r}", sign) for r, sign in terms])
            put.append(f"        c7x_store8(d + {(i * 4 + j) * plane} + c, {value});")
        put.append("      }")
    put += ["    }", "  }", "}"]
    return "\n".join(put) + "\n"


def _output_function(s: ConvShape, chunk: int, tile_cols: int, plane: int) -> str:
    """A static function: the sums ``m``, 16 planes [chunk][16], of one block to outputs, through the epilogue.

    ``res`` and ``dst`` point at the strip's first row; when the output's height is odd, ``below`` counts the rows left.
    """
    bias, residual = s.epilogue.bias, s.epilogue.residual
    extra = [f"const float* C7X_RESTRICT {n}" for n, on in (("bias", bias), ("res", residual)) if on]
    params = ["const float* C7X_RESTRICT m", *extra, "float* C7X_RESTRICT dst"]
    if s.oh % 2:
        params.append("int32_t below")
    activation = ACTIVATIONS[s.epilogue.activation]
    put: list[str] = [
        f"C7X_KERNEL static void @SYMBOL@_output({', '.join(params)}) {{",
        f"  for (int32_t t = 0; t < {chunk}; ++t) {{",
        f"    const int32_t y = t / {tile_cols} * 2, x = t % {tile_cols} * 2;",
        f"    const int32_t at = (y * {s.ow} + x) * {s.o};",
        f"    for (int32_t c = 0; c < {BLOCK}; c += {LANES}) {{",
        f"      const float* const q = m + t * {BLOCK} + c;",
    ]
    if bias:
        put.append("      const c7x_f32x8 b = c7x_load8(bias + c);")
    for j in range(4):
        for i in range(4):
            put.append(f"      const c7x_f32x8 m{i}{j} = c7x_load8(q + {(i * 4 + j) * plane});")
        for i, terms in enumerate(_AT):
            value = _combine([(f"m{r}{j}", sign) for r, sign in terms])
            put.append(f"      const c7x_f32x8 s{i}{j} = {value};")
    for i in range(2):
        for j, terms in enumerate(_AT):
            value = _combine([(f"s{i}{k}", sign) for k, sign in terms])
            if bias:
                value = f"c7x_add8({value}, b)"
            offset = (i * s.ow + j) * s.o
            if residual:
                value = f"c7x_add8({value}, c7x_load8(res + at + {offset} + c))"
            if activation:
                value = f"{activation}({value})"
            store = f"c7x_store8(dst + at + {offset} + c, {value});"
            # Odd sizes: the last tile hangs over the edge.
            guards = [f"y + {i} < below"] if i and s.oh % 2 else []
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
    rows = choose_rows(s)
    chunk = rows * tile_cols
    height, width = 2 * rows + 2, 2 * tile_cols + 2
    strip_floats = align64(height * width * s.c * 4) // 4
    v_step, m_step = plane_floats(chunk * s.c), plane_floats(chunk * BLOCK)
    ws = (strip_floats + 16 * v_step + 16 * m_step) * 4
    bias, residual = epilogue_inputs(s)

    functions = pad_function(s, height, width)
    functions += _input_function(s, chunk, tile_cols, width * s.c, v_step)
    functions += block_function(
        suffix="product", vectors=2, pixels=choose_pixels(2, chunk), total=chunk, taps=Taps(length=s.c),
        source=PixelMap(step=s.c), out_step=BLOCK, tail=LANES, epilogue=Epilogue(),
    )  # fmt: skip
    functions += _output_function(s, chunk, tile_cols, m_step)

    at = f"(n * {s.oh} + y * 2) * {s.ow * s.o} + b * {BLOCK}"
    args = ["m"]
    if bias:
        args.append(f"{bias} + b * {BLOCK}")
    if residual:
        args.append(f"{residual} + {at}")
    args.append(f"out0 + {at}")
    if s.oh % 2:
        args.append(f"{s.oh} - y * 2")
    body = [
        "float* const padded = (float*)(void*)workspace;",
        f"float* const v = padded + {strip_floats};",
        f"float* const m = v + {16 * v_step};",
        f"for (int32_t n = 0; n < {s.n}; ++n) {{",
        # The last strip is moved back to end at the last tile; what it computes again comes out the same.
        f"  for (int32_t strip = 0; strip < {tile_rows}; strip += {rows}) {{",
        f"    const int32_t y = strip < {tile_rows - rows} ? strip : {tile_rows - rows};",
        f"    @SYMBOL@_pad(in0 + n * {s.h * s.w * s.c}, padded, y * 2);",
        "    @SYMBOL@_input(padded, v);",
        f"    for (int32_t b = 0; b < {s.o // BLOCK}; ++b) {{",
        "      for (int32_t i = 0; i < 16; ++i)",
        f"        @SYMBOL@_product(v + i * {v_step}, in1 + (b * 16 + i) * {s.c * BLOCK}, "
        f"m + i * {m_step}, 0, {chunk});",
        f"      @SYMBOL@_output({', '.join(args)});",
        "    }",
        "  }",
        "}",
    ]
    return finish(s, functions, body, packed, inputs, outputs, ws)
