"""The register tile under convolution, matrix product and Winograd: P pixels times V vectors of output channels.

Every product these kernels compute has one form: for each of M output rows ("pixels"), sum over T taps of L
contiguous floats, times weights packed as [block][tap][L][V * 8]. A pixel's floats start at an offset that is either
linear in its index or made of a row and a column (``PixelMap``); a tap adds a constant. Accumulators have names of
their own, since arrays of vectors end up on the stack.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from c7x.codegen.kernels.base import ACTIVATIONS, LANES, ceil_div

#: Most products that are added up one after the other: the rounding error of a sum grows with its length, and that
#: of 4608 additions would be a few parts in a million.
LONGEST_RUN = 512


@dataclass(frozen=True, kw_only=True)
class PixelMap:
    """Where output pixel p starts in the source: ``p * step``, or ``p / width * row + p % width * step``.

    All in floats. ``width`` is 0 for the linear form.
    """

    step: int
    width: int = 0
    row: int = 0

    def offset(self, pixel: str) -> str:
        if self.width == 0:
            return f"{pixel} * {self.step}"
        return f"{pixel} / {self.width} * {self.row} + {pixel} % {self.width} * {self.step}"


@dataclass(frozen=True, kw_only=True)
class Taps:
    """The sum: ``rows`` x ``cols`` taps at the given distances (in floats), ``length`` contiguous floats at each."""

    rows: int = 1
    row_step: int = 0
    cols: int = 1
    col_step: int = 0
    length: int

    @property
    def total(self) -> int:
        return self.rows * self.cols * self.length

    @property
    def piece(self) -> int:
        """How many of the contiguous floats are added in one run."""
        return ceil_div(self.length, ceil_div(self.length, LONGEST_RUN))

    @property
    def run_level(self) -> str:
        """The loop after which sums go to a total of their own; empty when all of it is one run."""
        if self.total <= LONGEST_RUN:
            return ""
        return "cols" if self.cols * self.length <= LONGEST_RUN else "piece"


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """How output channels are cut: ``pairs`` blocks of ``main`` vectors, then at most one of ``last`` vectors."""

    channels: int
    main: int
    pairs: int
    last: int

    @property
    def vectors(self) -> int:
        return self.pairs * self.main + self.last

    @property
    def tail(self) -> int:
        """Channels in the last vector of the last block, 1 to 8."""
        return self.channels - (ceil_div(self.channels, LANES) - 1) * LANES

    @property
    def kinds(self) -> tuple[int, ...]:
        """The block widths that occur, widest use first."""
        return tuple(v for v, n in ((self.main, self.pairs), (self.last, 1)) if v and n)


def choose_blocks(channels: int, pixels: int) -> Blocks:
    """Cut ``channels`` into pairs of vectors, and a single one when their number is odd.

    With few pixels there are too few sums of one vector to hide the latency of an addition, so blocks get wider.
    """
    vectors = ceil_div(channels, LANES)
    main = 2 if pixels > 3 else 4 if pixels > 1 else 8
    last = vectors % main
    return Blocks(channels=channels, main=main, pairs=(vectors - last) // main, last=last)


#: Vectors in a block -> pixels in a tile, best first. Sixteen registers hold 12 accumulators, the weights of a step
#: and one broadcast input; fewer than eight accumulators cannot hide the latency of the addition.
TILE_PIXELS: dict[int, tuple[int, ...]] = {1: (8, 7, 6, 5), 2: (6, 5, 4), 3: (3,), 4: (3,)}


def choose_pixels(vectors: int, pixels: int) -> int:
    """Pixels in a tile for blocks of ``vectors``: the candidate that computes the fewest pixels twice."""
    candidates = [p for p in TILE_PIXELS.get(vectors, ()) if p <= pixels]
    if not candidates:
        return min(pixels, TILE_PIXELS.get(vectors, (1,))[0])
    return min(candidates, key=lambda p: (ceil_div(pixels, p) * (p * vectors + (2.0 if p * vectors < 10 else 0.5)), -p))


def pack_panels(weights: np.ndarray, blocks: Blocks) -> np.ndarray:
    """Weights [channels, K] as panels [block][K][vectors * 8], channels padded with zeros, flattened.

    K runs in the order the kernel walks its taps.
    """
    channels, k = weights.shape
    padded = np.zeros((blocks.vectors * LANES, k), dtype=np.float32)
    padded[:channels] = weights
    split = blocks.pairs * blocks.main * LANES
    parts = []
    if blocks.pairs:
        parts.append(padded[:split].reshape(blocks.pairs, blocks.main * LANES, k).transpose(0, 2, 1).ravel())
    if blocks.last:
        parts.append(padded[split:].T.ravel())
    return np.ascontiguousarray(np.concatenate(parts))


@dataclass(frozen=True, kw_only=True)
class Epilogue:
    """What happens to a sum before it is stored: + bias, + residual, activation."""

    bias: bool = False
    residual: bool = False
    activation: str | None = None


def block_function(
    *, suffix: str, vectors: int, pixels: int, total: int, taps: Taps, source: PixelMap, out_step: int, tail: int,
    epilogue: Epilogue,
) -> str:  # fmt: skip
    """Two static functions: one tile, and one block of output channels for the pixels [first, last).

    ``src``, ``bias``, ``res`` and ``dst`` point at pixel 0 and the block's first channel; pixel p of the output lies
    at ``p * out_step``. The last tile is moved back so that it ends at ``total``: pixels in the overlap are computed
    twice with the same result. ``tail`` < 8 adds a parameter: how many channels the block's last vector stores.
    """
    extra = [f"const float* C7X_RESTRICT {n}" for n, on in (("bias", epilogue.bias), ("res", epilogue.residual)) if on]
    last = ["int32_t tail"] if tail < LANES else []
    sources = [f"s{p}" for p in range(pixels)]
    name = f"@SYMBOL@_{suffix}"
    out: list[str] = []
    put = out.append

    def load(base: str, offset: int, v: int) -> str:
        at = f"{base} + {offset + v * LANES}"
        return f"c7x_load8_n({at}, tail)" if v == vectors - 1 and tail < LANES else f"c7x_load8({at})"

    params = [f"const float* {s}" for s in sources] + ["const float* C7X_RESTRICT w"]
    params += [*extra, "float* C7X_RESTRICT d", *last]
    put(f"C7X_KERNEL static void {name}_tile({', '.join(params)}) {{")
    run = taps.run_level
    total_name = "t" if run else "a"
    for v in range(vectors):
        start = load("bias", 0, v) if epilogue.bias else "c7x_splat8(0.0f)"
        put(f"  c7x_f32x8 {total_name}0_{v} = {start};")
    for p in range(1, pixels):
        put("  c7x_f32x8 " + ", ".join(f"{total_name}{p}_{v} = {total_name}0_{v}" for v in range(vectors)) + ";")
    if run:
        put("  const c7x_f32x8 zero = c7x_splat8(0.0f);")
        for p in range(pixels):
            put("  c7x_f32x8 " + ", ".join(f"a{p}_{v} = zero" for v in range(vectors)) + ";")

    def finish_run(level: str, indent: str) -> None:
        for p in range(pixels if level == run else 0):
            put(indent + " ".join(f"t{p}_{v} = c7x_add8(t{p}_{v}, a{p}_{v}); a{p}_{v} = zero;" for v in range(vectors)))

    indent = "  "
    if taps.rows > 1:
        put(f"{indent}for (int32_t r = 0; r < {taps.rows}; ++r) {{")
        indent += "  "
    if taps.cols > 1:
        put(f"{indent}for (int32_t c = 0; c < {taps.cols}; ++c) {{")
        indent += "  "
    start, end = "0", str(taps.length)
    if taps.piece < taps.length:
        put(f"{indent}for (int32_t start = 0; start < {taps.length}; start += {taps.piece}) {{")
        indent += "  "
        start, end = "start", f"start + {taps.piece}"
        if taps.length % taps.piece:
            put(f"{indent}const int32_t end = {end} < {taps.length} ? {end} : {taps.length};")
            end = "end"
    put(f"{indent}for (int32_t k = {start}; k < {end}; ++k) {{")
    for v in range(vectors):
        put(f"{indent}  const c7x_f32x8 w{v} = c7x_load8(w + {v * LANES});")
    put(f"{indent}  c7x_f32x8 x;")
    for p in range(pixels):
        put(f"{indent}  x = c7x_splat8(s{p}[k]);")
        for v in range(vectors):
            put(f"{indent}  a{p}_{v} = c7x_fma8(x, w{v}, a{p}_{v});")
    put(f"{indent}  w += {vectors * LANES};")
    put(f"{indent}}}")
    finish_run("piece", indent)
    if taps.piece < taps.length:
        indent = indent[2:]
        put(f"{indent}}}")
    if taps.cols > 1:
        put(indent + " ".join(f"{s} += {taps.col_step};" for s in sources))
        indent = indent[2:]
        put(f"{indent}}}")
    finish_run("cols", indent)
    if taps.rows > 1:
        rest = taps.row_step - (taps.col_step * taps.cols if taps.cols > 1 else 0)
        put(indent + " ".join(f"{s} += {rest};" for s in sources))
        indent = indent[2:]
        put(f"{indent}}}")
    activation = ACTIVATIONS[epilogue.activation]
    for p in range(pixels):
        for v in range(vectors):
            value = f"{total_name}{p}_{v}"
            if epilogue.residual:
                value = f"c7x_add8({value}, {load('res', p * out_step, v)})"
            if activation:
                value = f"{activation}({value})"
            target = f"d + {p * out_step + v * LANES}"
            if v == vectors - 1 and tail < LANES:
                put(f"  c7x_store8_n({target}, {value}, tail);")
            else:
                put(f"  c7x_store8({target}, {value});")
    put("}")
    put("")

    params = ["const float* C7X_RESTRICT src", "const float* C7X_RESTRICT weights", *extra]
    params += ["float* C7X_RESTRICT dst", "int32_t first", "int32_t last", *last]
    put(f"static void {name}({', '.join(params)}) {{")
    put(f"  for (int32_t tile = first; tile < last; tile += {pixels}) {{")
    put(f"    const int32_t p = tile < {total - pixels} ? tile : {total - pixels};")
    args = [f"src + ({source.offset(f'(p + {p})' if p else 'p')})" for p in range(pixels)]
    args.append("weights")
    if epilogue.bias:
        args.append("bias")
    if epilogue.residual:
        args.append(f"res + p * {out_step}")
    args.append(f"dst + p * {out_step}")
    if tail < LANES:
        args.append("tail")
    put(f"    {name}_tile({', '.join(args)});")
    put("  }")
    put("}")
    return "\n".join(out) + "\n"


def panel_product(
    *, blocks: Blocks, pixels: int, taps: Taps, source: PixelMap, out_step: int, epilogue: Epilogue, chunk: int
) -> tuple[str, str]:
    """The block functions, and the statements that call them for all blocks and pixels.

    The statements read ``src``, ``wts``, ``bias``, ``res`` and ``dst`` (those that the epilogue needs), each pointing
    at pixel 0 and channel 0. ``chunk`` pixels are done for all blocks before the next chunk, so that their inputs
    stay in the cache while the weights pass by.
    """
    functions: list[str] = []
    calls: list[str] = []
    for kind in blocks.kinds:
        tail = blocks.tail if kind == blocks.kinds[-1] else LANES
        tile = choose_pixels(kind, pixels)
        functions.append(
            block_function(
                suffix=f"block{kind}",
                vectors=kind,
                pixels=tile,
                total=pixels,
                taps=taps,
                source=source,
                out_step=out_step,
                tail=tail,
                epilogue=epilogue,
            )
        )
        start = 0 if kind == blocks.main and blocks.pairs else blocks.pairs
        count = blocks.pairs if kind == blocks.main and blocks.pairs else 1
        base = start * blocks.main
        args = ["src", f"wts + (b * {kind} + {base}) * {taps.total * LANES}"]
        channel = f"(b * {kind} + {base}) * {LANES}"
        if epilogue.bias:
            args.append(f"bias + {channel}")
        if epilogue.residual:
            args.append(f"res + {channel}")
        args += [f"dst + {channel}", "m", "end"]
        if tail < LANES:
            args.append(f"b == {count - 1} ? {tail} : {LANES}" if count > 1 else str(tail))
        calls.append(f"for (int32_t b = 0; b < {count}; ++b) @SYMBOL@_block{kind}({', '.join(args)});")
    chunk = min(chunk, pixels)
    lines = [f"for (int32_t m = 0; m < {pixels}; m += {chunk}) {{"]
    lines.append(f"  const int32_t end = m + {chunk} < {pixels} ? m + {chunk} : {pixels};")
    lines += [f"  {c}" for c in calls]
    lines.append("}")
    return "\n".join(functions), "\n".join(lines)
