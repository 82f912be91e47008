"""Matrix products: by a constant (weights packed at compile time), and batches of two computed matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from c7x.codegen.kernels.base import (
    ACTIVATIONS,
    LANES,
    GeneratedKernel,
    KernelOptions,
    Operand,
    align64,
    float_type,
    require_float,
    signature,
)
from c7x.codegen.kernels.tile import Blocks, Epilogue, PixelMap, Taps, choose_blocks, pack_panels, panel_product
from c7x.codegen.program import TensorType

#: Rows of the left matrix that stay cached while the right one passes by, in floats.
CHUNK_FLOATS = 32768


def _chunk(m: int, k: int) -> int:
    return max(1, min(m, CHUNK_FLOATS // k) // 60) * 60


def supports(attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType]) -> str | None:
    """See ``c7x.codegen.kernels.supports``."""
    count = 2 + bool(attrs["has_bias"]) + bool(attrs["has_residual"])
    if len(inputs) != count or len(outputs) != 1:
        return f"{len(inputs)} inputs and {len(outputs)} outputs (expected {count} and 1)"
    if inputs[1].value is None:
        return "the right matrix is not a constant"
    if len(inputs[1].type.shape) != 2:
        return "the right matrix must have two dimensions"
    if attrs["activation"] not in ACTIVATIONS:
        return f"activation {attrs['activation']!r}"
    reason = require_float([*(i.type for i in inputs), *outputs])
    if reason is not None:
        return reason
    k, n = inputs[1].type.shape[:: -1 if attrs["transpose_b"] else 1]
    m = inputs[0].type.numel // k
    if inputs[0].type.numel != m * k or outputs[0].numel != m * n:
        return "the shapes do not fit together"
    return None


def generate(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], _options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.matmul`` call: a [M, K], b constant, then bias [N], residual [M, N]."""
    b = np.asarray(inputs[1].value, dtype=np.float32)
    b = b if attrs["transpose_b"] else b.T
    n, k = b.shape
    m = inputs[0].type.numel // k
    epilogue = Epilogue(bias=attrs["has_bias"], residual=attrs["has_residual"], activation=attrs["activation"])
    blocks = choose_blocks(n, m)
    packed = pack_panels(b, blocks)
    functions, statements = panel_product(
        blocks=blocks, pixels=m, taps=Taps(length=k), source=PixelMap(step=k), out_step=n, epilogue=epilogue,
        chunk=_chunk(m, k),
    )  # fmt: skip
    body = ["const float* const src = in0;", "const float* const wts = in1;"]
    arg = 2
    if epilogue.bias:
        body.append(f"const float* const bias = in{arg};")
        arg += 1
    if epilogue.residual:
        body.append(f"const float* const res = in{arg};")
    body.append("float* const dst = out0;")
    body += [*statements.splitlines(), "return 0;"]
    types = tuple(float_type(packed) if i == 1 else operand.type for i, operand in enumerate(inputs))
    source = functions + signature(types, tuple(outputs), workspace=False)
    source += " {\n" + "".join(f"  {x}\n" for x in body) + "}\n"
    hint = f"matmul_{m}x{n}x{k}" + ("_add" if epilogue.residual else "")
    return GeneratedKernel(
        source_template=source,
        inputs=types,
        outputs=tuple(outputs),
        packed={1: packed},
        macs=m * n * k,
        name_hint=hint + (f"_{epilogue.activation}" if epilogue.activation else ""),
    )


# --- batches of two computed matrices ---------------------------------------------------------------------------------


def supports_batch(attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType]) -> str | None:
    """See ``c7x.codegen.kernels.supports``."""
    if len(inputs) != 2 or len(outputs) != 1:
        return f"{len(inputs)} inputs and {len(outputs)} outputs (expected 2 and 1)"
    a, b, out = inputs[0].type, inputs[1].type, outputs[0]
    if any(len(t.shape) != 3 for t in (a, b, out)):
        return "both matrices and the output must have three dimensions"
    reason = require_float([a, b, out])
    if reason is not None:
        return reason
    k, n = b.shape[:0:-1] if attrs["transpose_b"] else b.shape[1:]
    if a.shape[2] != k or out.shape != (a.shape[0], a.shape[1], n) or b.shape[0] not in (1, a.shape[0]):
        return "the shapes do not fit together"
    return None


def _pack_function(blocks: Blocks, k: int, n: int, *, transposed: bool) -> str:
    """A static function that packs one [K, N] (or [N, K]) matrix into panels at run time, as ``pack_panels`` does."""
    parts = []
    for kind in blocks.kinds:
        is_main = kind == blocks.main and blocks.pairs > 0
        count, base = (blocks.pairs, 0) if is_main else (1, blocks.pairs * blocks.main)
        parts.append(f"  for (int32_t o = {base * LANES}; o < {(base + count * kind) * LANES}; o += {kind * LANES}) {{")
        parts.append(f"    for (int32_t i = 0; i < {k}; ++i) {{")
        for v in range(kind):
            at = f"o + {v * LANES}" if v else "o"
            ends_inside = (base + count * kind) * LANES <= n or v < kind - 1
            if transposed:
                # A row of b is a column here; the row behind the last one is read in its place, its sums not stored.
                rows = [f"{at} + {j}" for j in range(LANES)]
                if not ends_inside:
                    rows = [f"({row} < {n} ? {row} : {n - 1})" for row in rows]
                parts += [f"      d[{v * LANES + j}] = b[({row}) * {k} + i];" for j, row in enumerate(rows)]
            elif ends_inside:
                parts.append(f"      c7x_store8(d + {v * LANES}, c7x_load8(b + i * {n} + {at}));")
            else:
                load = f"b + i * {n} + {at}"
                value = f"{at} + {LANES} <= {n} ? c7x_load8({load}) : c7x_load8_n({load}, {n} - ({at}))"
                parts.append(f"      c7x_store8(d + {v * LANES}, {value});")
        parts += [f"      d += {kind * LANES};", "    }", "  }"]
    head = "static void @SYMBOL@_pack(const float* C7X_RESTRICT b, float* C7X_RESTRICT d) {\n"
    return head + "\n".join(parts) + "\n}\n\n"


#: Most rows of a for which packing b would take longer than it saves.
FEW_ROWS = 4


def _few_rows(m: int, n: int, k: int, *, transposed: bool) -> list[str]:
    """Statements for a few rows ``x`` of a times ``b`` as it lies in memory: dot products, or sums of scaled rows."""
    lines = [f"for (int32_t r = 0; r < {m}; ++r) {{"]
    put = lines.append
    put(f"  const float* const x = src + r * {k};")
    put(f"  float* const y = dst + r * {n};")
    if transposed:
        # Four rows of b share the loads of a, and keep the additions of one from waiting for each other.
        tail = k % LANES
        put(f"  for (int32_t o = 0; o < {n}; o += 4) {{")
        for j in range(4):
            put(f"    const float* const b{j} = b + (o + {j} < {n} ? o + {j} : {n - 1}) * {k};")
        put("    c7x_f32x8 " + ", ".join(f"a{j} = c7x_splat8(0.0f)" for j in range(4)) + ", v;")
        if k >= LANES:
            put(f"    for (int32_t i = 0; i < {k - tail}; i += {LANES}) {{")
            put("      v = c7x_load8(x + i);")
            lines += [f"      a{j} = c7x_fma8(v, c7x_load8(b{j} + i), a{j});" for j in range(4)]
            put("    }")
        if tail:
            put(f"    v = c7x_load8_n(x + {k - tail}, {tail});")
            lines += [f"    a{j} = c7x_fma8(v, c7x_load8_n(b{j} + {k - tail}, {tail}), a{j});" for j in range(4)]
        put("    y[o] = c7x_hadd8(a0);")
        lines += [f"    if (o + {j} < {n}) y[o + {j}] = c7x_hadd8(a{j});" for j in range(1, 4)]
        put("  }")
    else:
        tail = n % LANES
        start = 0
        # Wide blocks first: eight sums of one vector hide the latency of an addition.
        for vectors in (8, 1):
            width = vectors * LANES
            end = n // width * width
            if end > start:
                put(f"  for (int32_t o = {start}; o < {end}; o += {width}) {{")
                lines += ["    c7x_f32x8 " + ", ".join(f"a{v} = c7x_splat8(0.0f)" for v in range(vectors)) + ";"]
                put(f"    for (int32_t i = 0; i < {k}; ++i) {{")
                put("      const c7x_f32x8 v = c7x_splat8(x[i]);")
                put(f"      const float* const p = b + i * {n} + o;")
                lines += [f"      a{v} = c7x_fma8(v, c7x_load8(p + {v * LANES}), a{v});" for v in range(vectors)]
                put("    }")
                lines += [f"    c7x_store8(y + o + {v * LANES}, a{v});" for v in range(vectors)]
                put("  }")
                start = end
        if tail:
            put("  c7x_f32x8 a = c7x_splat8(0.0f);")
            put(f"  for (int32_t i = 0; i < {k}; ++i)")
            put(f"    a = c7x_fma8(c7x_splat8(x[i]), c7x_load8_n(b + i * {n} + {n - tail}, {tail}), a);")
            put(f"  c7x_store8_n(y + {n - tail}, a, {tail});")
    put("}")
    return lines


def generate_batch(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], _options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.batch_matmul`` call: a [B, M, K] times b [B or 1, K, N] (or [B or 1, N, K])."""
    batch, m, k = inputs[0].type.shape
    n = outputs[0].shape[2]
    shared = inputs[1].type.shape[0] == 1
    right = "in1" if shared else f"in1 + n * {k * n}"
    if m <= FEW_ROWS:
        ws, functions = 0, ""
        statements = [f"const float* const b = {right};", *_few_rows(m, n, k, transposed=attrs["transpose_b"])]
    else:
        blocks = choose_blocks(n, m)
        ws = align64(blocks.vectors * LANES * k * 4)
        functions, text = panel_product(
            blocks=blocks, pixels=m, taps=Taps(length=k), source=PixelMap(step=k), out_step=n, epilogue=Epilogue(),
            chunk=_chunk(m, k),
        )  # fmt: skip
        functions += _pack_function(blocks, k, n, transposed=attrs["transpose_b"])
        statements = [
            "float* const wts = (float*)(void*)workspace;",
            ("if (n == 0) " if shared else "") + f"@SYMBOL@_pack({right}, wts);",
            *text.splitlines(),
        ]
    body = [
        f"for (int32_t n = 0; n < {batch}; ++n) {{",
        f"  const float* const src = in0 + n * {m * k};",
        f"  float* const dst = out0 + n * {m * n};",
        *("  " + line for line in statements),
        "}",
        "return 0;",
    ]
    types = tuple(i.type for i in inputs)
    source = functions + signature(types, tuple(outputs), workspace=ws > 0)
    source += " {\n" + "".join(f"  {x}\n" for x in body) + "}\n"
    return GeneratedKernel(
        source_template=source,
        inputs=types,
        outputs=tuple(outputs),
        workspace_bytes=ws,
        macs=batch * m * n * k,
        name_hint=f"batch_matmul_{batch}x{m}x{n}x{k}",
    )
