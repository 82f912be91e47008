"""Softmax and log-softmax over the middle of [outer, axis, inner], with the largest value subtracted first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from c7x.codegen.kernels.base import (
    LANES,
    GeneratedKernel,
    KernelOptions,
    Operand,
    ceil_div,
    require_float,
    signature,
)
from c7x.codegen.program import TensorType


def supports(attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType]) -> str | None:
    """See ``c7x.codegen.kernels.supports``."""
    if len(inputs) != 1 or len(outputs) != 1:
        return f"{len(inputs)} inputs and {len(outputs)} outputs (expected 1 and 1)"
    reason = require_float([inputs[0].type, outputs[0]])
    if reason is not None:
        return reason
    total = attrs["outer"] * attrs["axis"] * attrs["inner"]
    if inputs[0].type.numel != total or outputs[0].numel != total:
        return "the shapes do not fit together"
    return None


def generate(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], _options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.softmax`` call; see ``c7x.codegen.kernels.generate``."""
    return _generate(attrs, inputs, outputs, log=False)


def generate_log(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], _options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.log_softmax`` call; see ``c7x.codegen.kernels.generate``."""
    return _generate(attrs, inputs, outputs, log=True)


def _generate(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], *, log: bool
) -> GeneratedKernel:
    outer, axis, inner = attrs["outer"], attrs["axis"], attrs["inner"]
    body = _rows(outer, axis, log=log) if inner == 1 else _columns(outer, axis, inner, log=log)
    ws = 0 if inner == 1 else axis * _block(axis, inner) * 4
    types = (inputs[0].type,)
    return GeneratedKernel(
        source_template=signature(types, tuple(outputs), workspace=ws > 0) + " {\n" + body + "}\n",
        inputs=types,
        outputs=tuple(outputs),
        workspace_bytes=ws,
        name_hint=("log_softmax" if log else "softmax") + f"_{axis}",
    )


def _rows(outer: int, axis: int, *, log: bool) -> str:
    """Lanes along the axis; lanes behind the row's end hold -inf, which is never the maximum and adds exp(-inf) = 0."""
    tail = axis % LANES
    full = axis - tail
    lines: list[str] = []
    put = lines.append
    put(f"  for (int32_t n = 0; n < {outer}; ++n) {{")
    put(f"    const float* const x = in0 + n * {axis};")
    put(f"    float* const y = out0 + n * {axis};")
    put("    c7x_f32x8 top = c7x_splat8(-INFINITY), sum = c7x_splat8(0.0f);")
    if full:
        put(f"    for (int32_t i = 0; i < {full}; i += {LANES}) top = c7x_max8(top, c7x_load8(x + i));")
    if tail:
        put("    float last[8];")
        put(f"    for (int32_t i = 0; i < {LANES}; ++i) last[i] = i < {tail} ? x[{full} + i] : -INFINITY;")
        put("    top = c7x_max8(top, c7x_load8(last));")
    put("    const c7x_f32x8 shift = c7x_splat8(c7x_hmax8(top));")
    store = "" if log else "c7x_store8(y + i, e); "
    if full:
        # Short runs of additions are summed up on their own, which keeps the rounding error of long rows small.
        put(f"    for (int32_t j = 0; j < {full}; j += 1024) {{")
        put(f"      const int32_t end = j + 1024 < {full} ? j + 1024 : {full};")
        put("      c7x_f32x8 part = c7x_splat8(0.0f);")
        put(f"      for (int32_t i = j; i < end; i += {LANES}) {{")
        put("        const c7x_f32x8 e = c7x_exp8(c7x_sub8(c7x_load8(x + i), shift));")
        put(f"        {store}part = c7x_add8(part, e);")
        put("      }")
        put("      sum = c7x_add8(sum, part);")
        put("    }")
    if tail:
        put("    const c7x_f32x8 e = c7x_exp8(c7x_sub8(c7x_load8(last), shift));")
        put("    sum = c7x_add8(sum, e);")
    if log:
        put("    const c7x_f32x8 scale = c7x_splat8(logf(c7x_hadd8(sum)));")
        if full:
            put(
                f"    for (int32_t i = 0; i < {full}; i += {LANES}) "
                "c7x_store8(y + i, c7x_sub8(c7x_sub8(c7x_load8(x + i), shift), scale));"
            )
        if tail:
            put(f"    c7x_store8_n(y + {full}, c7x_sub8(c7x_sub8(c7x_load8(last), shift), scale), {tail});")
    else:
        put("    const c7x_f32x8 scale = c7x_splat8(1.0f / c7x_hadd8(sum));")
        if full:
            put(
                f"    for (int32_t i = 0; i < {full}; i += {LANES}) "
                "c7x_store8(y + i, c7x_mul8(c7x_load8(y + i), scale));"
            )
        if tail:
            put(f"    c7x_store8_n(y + {full}, c7x_mul8(e, scale), {tail});")
    put("  }")
    put("  return 0;")
    return "\n".join(lines) + "\n"


#: Values of a block of columns that are held at a time, in floats: a share of a 32 KiB cache.
BLOCK_FLOATS = 4096


def _block(axis: int, inner: int) -> int:
    """Columns in a block: whole vectors, at most 256."""
    most = max(LANES, BLOCK_FLOATS // axis // LANES * LANES)
    return min(most, 256, ceil_div(inner, LANES) * LANES)


def _columns(outer: int, axis: int, inner: int, *, log: bool) -> str:
    """Lanes across the inner dimension; a block of columns is copied to the workspace, so memory is read once.

    Rows of a large power of two would all fall on the same lines of the cache if they were read in place again.
    Lanes behind the last column hold zeros and are not stored.
    """
    block = _block(axis, inner)
    if log:
        first = "sum = c7x_add8(sum, c7x_exp8(c7x_sub8(c7x_load8(w), top)));"
        last = "c7x_sub8(c7x_sub8(c7x_load8(w), top), shift)"
        between = [
            "float logs[8];",
            "c7x_store8(logs, sum);",
            f"for (int32_t i = 0; i < {LANES}; ++i) logs[i] = logf(logs[i]);",
            "const c7x_f32x8 shift = c7x_load8(logs);",
        ]
    else:
        first = "const c7x_f32x8 e = c7x_exp8(c7x_sub8(c7x_load8(w), top)); c7x_store8(w, e); sum = c7x_add8(sum, e);"
        last = "c7x_mul8(c7x_load8(w), scale)"
        between = ["const c7x_f32x8 scale = c7x_div8(c7x_splat8(1.0f), sum);"]
    loop = f"for (int32_t i = 0; i < {axis}; ++i)"
    lines = [
        "float* const copy = (float*)(void*)workspace;",
        f"for (int32_t n = 0; n < {outer}; ++n) {{",
        f"  for (int32_t start = 0; start < {inner}; start += {block}) {{",
        f"    const int32_t cols = start + {block} < {inner} ? {block} : {inner} - start;",
        f"    const float* const x = in0 + n * {axis * inner} + start;",
        f"    float* const y = out0 + n * {axis * inner} + start;",
        f"    {loop} {{",
        f"      for (int32_t c = 0; c < cols; c += {LANES}) {{",
        f"        const float* const p = x + i * {inner} + c;",
        f"        const c7x_f32x8 v = cols - c < {LANES} ? c7x_load8_n(p, cols - c) : c7x_load8(p);",
        f"        c7x_store8(copy + i * {block} + c, v);",
        "      }",
        "    }",
        f"    for (int32_t c = 0; c < cols; c += {LANES}) {{",
        "      float* w = copy + c;",
        "      c7x_f32x8 top = c7x_load8(w), sum = c7x_splat8(0.0f);",
        f"      for (int32_t i = 1; i < {axis}; ++i) top = c7x_max8(top, c7x_load8(w + i * {block}));",
        f"      {loop} {{ {first} w += {block}; }}",
        *(f"      {line}" for line in between),
        "      w = copy + c;",
        f"      {loop} {{ c7x_store8(w, {last}); w += {block}; }}",
        "    }",
        f"    {loop} {{",
        f"      for (int32_t c = 0; c < cols; c += {LANES}) {{",
        f"        const c7x_f32x8 v = c7x_load8(copy + i * {block} + c);",
        f"        float* const p = y + i * {inner} + c;",
        f"        if (cols - c < {LANES}) c7x_store8_n(p, v, cols - c);",
        "        else c7x_store8(p, v);",
        "      }",
        "    }",
        "  }",
        "}",
        "return 0;",
    ]
    return "".join(f"  {line}\n" for line in lines)
