"""Softmax and log-softmax over the middle of [outer, axis, inner], with the largest value subtracted first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from c7x.codegen.kernels.base import LANES, GeneratedKernel, KernelOptions, Operand, require_float, signature
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
    types = (inputs[0].type,)
    return GeneratedKernel(
        source_template=body[0] + signature(types, tuple(outputs), workspace=False) + " {\n" + body[1] + "}\n",
        inputs=types,
        outputs=tuple(outputs),
        name_hint=("log_softmax" if log else "softmax") + f"_{axis}",
    )


def _rows(outer: int, axis: int, *, log: bool) -> tuple[str, str]:
    """Lanes along the axis. The row's last vector is read once more from its end inwards where that is possible,
    so the tail needs lanes of -inf: they never are the maximum and add exp(-inf) = 0."""
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
        put("        const c7x_f32x8 e = c7x_exp8(c7x_load8(x + i) - shift);")
        put(f"        {store}part = part + e;")
        put("      }")
        put("      sum = sum + part;")
        put("    }")
    if tail:
        put("    const c7x_f32x8 e = c7x_exp8(c7x_load8(last) - shift);")
        put("    sum = sum + e;")
    if log:
        put("    const c7x_f32x8 scale = c7x_splat8(logf(c7x_hadd8(sum)));")
        if full:
            put(
                f"    for (int32_t i = 0; i < {full}; i += {LANES}) "
                "c7x_store8(y + i, c7x_load8(x + i) - shift - scale);"
            )
        if tail:
            put(f"    c7x_store8_n(y + {full}, c7x_load8(last) - shift - scale, {tail});")
    else:
        put("    const c7x_f32x8 scale = c7x_splat8(1.0f / c7x_hadd8(sum));")
        if full:
            put(f"    for (int32_t i = 0; i < {full}; i += {LANES}) c7x_store8(y + i, c7x_load8(y + i) * scale);")
        if tail:
            put(f"    c7x_store8_n(y + {full}, e * scale, {tail});")
    put("  }")
    put("  return 0;")
    return "", "\n".join(lines) + "\n"


def _columns(outer: int, axis: int, inner: int, *, log: bool) -> tuple[str, str]:
    """Lanes across the inner dimension, eight columns at a time."""

    def columns(load: str, store: str) -> list[str]:
        at = f"i * {inner}"
        lines = [
            f"c7x_f32x8 top = {load.format('x')}, sum = c7x_splat8(0.0f);",
            f"for (int32_t i = 1; i < {axis}; ++i) top = c7x_max8(top, {load.format(f'x + {at}')});",
            f"for (int32_t i = 0; i < {axis}; ++i) {{",
            f"  const c7x_f32x8 e = c7x_exp8({load.format(f'x + {at}')} - top);",
            "  sum = sum + e;",
        ]
        if log:
            lines += [
                "}",
                "float logs[8];",
                "c7x_store8(logs, sum);",
                f"for (int32_t i = 0; i < {LANES}; ++i) logs[i] = logf(logs[i]);",
                "const c7x_f32x8 scale = c7x_load8(logs);",
            ]
            value = f"{load.format(f'x + {at}')} - top - scale"
        else:
            lines += ["  " + store.format(f"y + {at}", "e"), "}", "const c7x_f32x8 scale = c7x_splat8(1.0f) / sum;"]
            value = f"{load.format(f'y + {at}')} * scale"
        lines.append(f"for (int32_t i = 0; i < {axis}; ++i) {store.format(f'y + {at}', value)}")
        return lines

    tail = inner % LANES
    lines = [f"  for (int32_t n = 0; n < {outer}; ++n) {{"]
    if inner >= LANES:
        lines += [
            f"    for (int32_t c = 0; c < {inner - tail}; c += {LANES}) {{",
            f"      const float* const x = in0 + n * {axis * inner} + c;",
            f"      float* const y = out0 + n * {axis * inner} + c;",
            *("      " + line for line in columns("c7x_load8({})", "c7x_store8({}, {});")),
            "    }",
        ]
    if tail:
        lines += [
            "    {",
            f"      const float* const x = in0 + n * {axis * inner} + {inner - tail};",
            f"      float* const y = out0 + n * {axis * inner} + {inner - tail};",
            *(
                "      " + line
                for line in columns(f"c7x_load8_n({{}}, {tail})", f"c7x_store8_n({{}}, {{}}, {tail});")
            ),
            "    }",
        ]
    lines += ["  }", "  return 0;"]
    return "", "\n".join(lines) + "\n"
