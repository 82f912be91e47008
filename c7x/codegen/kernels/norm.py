"""Layer normalisation of [outer, norm]: mean first, then the variance around it, then scale and shift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from c7x.codegen.kernels.base import LANES, GeneratedKernel, KernelOptions, Operand, require_float, signature
from c7x.codegen.program import TensorType


def supports(attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType]) -> str | None:
    """See ``c7x.codegen.kernels.supports``."""
    if len(inputs) != 3 or len(outputs) != 1:
        return f"{len(inputs)} inputs and {len(outputs)} outputs (expected 3 and 1)"
    reason = require_float([*(i.type for i in inputs), *outputs])
    if reason is not None:
        return reason
    outer, norm = attrs["outer"], attrs["norm"]
    if [i.type.numel for i in inputs] != [outer * norm, norm, norm] or outputs[0].numel != outer * norm:
        return "the shapes do not fit together"
    return None


def generate(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], _options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.layer_norm`` call: x, weight, bias; epsilon is added to the variance."""
    outer, norm = attrs["outer"], attrs["norm"]
    epsilon = repr(float(np.float32(attrs["epsilon"]))) + "f"
    tail = norm % LANES
    full = norm - tail
    lines: list[str] = []
    put = lines.append
    put(f"  for (int32_t n = 0; n < {outer}; ++n) {{")
    put(f"    const float* const x = in0 + n * {norm};")
    put(f"    float* const y = out0 + n * {norm};")
    put("    c7x_f32x8 sum = c7x_splat8(0.0f), square = c7x_splat8(0.0f);")
    if full:
        put(f"    for (int32_t i = 0; i < {full}; i += {LANES}) sum = c7x_add8(sum, c7x_load8(x + i));")
    if tail:
        put(f"    sum = c7x_add8(sum, c7x_load8_n(x + {full}, {tail}));")
    put(f"    const float mean = c7x_hadd8(sum) / {norm}.0f;")
    if full:
        put("    const c7x_f32x8 means = c7x_splat8(mean);")
        put(f"    for (int32_t i = 0; i < {full}; i += {LANES}) {{")
        put("      const c7x_f32x8 d = c7x_sub8(c7x_load8(x + i), means);")
        put("      square = c7x_fma8(d, d, square);")
        put("    }")
    put("    float variance = c7x_hadd8(square);")
    if tail:
        put(f"    for (int32_t i = {full}; i < {norm}; ++i) variance += (x[i] - mean) * (x[i] - mean);")
    put(f"    const float scale = 1.0f / sqrtf(variance / {norm}.0f + {epsilon});")
    if full:
        put("    const c7x_f32x8 scales = c7x_splat8(scale);")
        put(
            f"    for (int32_t i = 0; i < {full}; i += {LANES}) c7x_store8(y + i, "
            "c7x_fma8(c7x_mul8(c7x_sub8(c7x_load8(x + i), means), scales), c7x_load8(in1 + i), c7x_load8(in2 + i)));"
        )
    if tail:
        put(f"    for (int32_t i = {full}; i < {norm}; ++i) y[i] = (x[i] - mean) * scale * in1[i] + in2[i];")
    put("  }")
    put("  return 0;")
    types = tuple(i.type for i in inputs)
    body = "\n".join(lines) + "\n"
    return GeneratedKernel(
        source_template=signature(types, tuple(outputs), workspace=False) + " {\n" + body + "}\n",
        inputs=types,
        outputs=tuple(outputs),
        name_hint=f"layer_norm_{norm}",
    )
