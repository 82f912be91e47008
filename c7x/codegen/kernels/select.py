"""Top-k and argmax: which elements are largest. NaN counts as larger than any number, ties go to the lower index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from c7x.codegen.kernels.base import MAX_NUMEL, GeneratedKernel, KernelOptions, Operand, require_float, signature
from c7x.codegen.program import DTYPES, TensorType


def supports_topk(attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType]) -> str | None:
    """See ``c7x.codegen.kernels.supports``."""
    if len(inputs) != 1 or len(outputs) != 2:
        return f"{len(inputs)} inputs and {len(outputs)} outputs (expected 1 and 2)"
    reason = require_float([inputs[0].type, outputs[0]])
    if reason is not None:
        return reason
    outer, n, k = attrs["outer"], attrs["n"], attrs["k"]
    if outputs[1].dtype != "int64":
        return f"indices of dtype {outputs[1].dtype} (only int64)"
    if not 1 <= k <= n or inputs[0].type.numel != outer * n or any(t.numel != outer * k for t in outputs):
        return "the shapes do not fit together"
    return None


_TOPK = """\
/* Whether value a at index i comes before value b at index j in the output. */
C7X_INLINE int32_t @SYMBOL@_before(float a, int64_t i, float b, int64_t j) {
  if (a != a || b != b) {
    if (a == a) return @NAN_LAST@;
    if (b == b) return !@NAN_LAST@;
    return i < j;
  }
  return a @ORDER@ b || (a == b && i < j);
}

/* Moves the entry at `at` down a heap of `size` whose root comes last in the order. */
static void @SYMBOL@_sift(float* C7X_RESTRICT v, int64_t* C7X_RESTRICT x, int32_t at, int32_t size) {
  const float value = v[at];
  const int64_t index = x[at];
  for (;;) {
    int32_t child = 2 * at + 1;
    if (child >= size) break;
    if (child + 1 < size && @SYMBOL@_before(v[child], x[child], v[child + 1], x[child + 1])) ++child;
    if (!@SYMBOL@_before(value, index, v[child], x[child])) break;
    v[at] = v[child];
    x[at] = x[child];
    at = child;
  }
  v[at] = value;
  x[at] = index;
}

@HEAD@ {
  for (int32_t n = 0; n < @OUTER@; ++n) {
    const float* const src = in0 + n * @N@;
    float* const v = out0 + n * @K@;
    int64_t* const x = out1 + n * @K@;
    for (int32_t i = 0; i < @K@; ++i) {
      v[i] = src[i];
      x[i] = i;
    }
    for (int32_t i = @K@ / 2; i-- > 0;) @SYMBOL@_sift(v, x, i, @K@);
    for (int32_t i = @K@; i < @N@; ++i) {
      if (!@SYMBOL@_before(src[i], i, v[0], x[0])) continue;
      v[0] = src[i];
      x[0] = i;
      @SYMBOL@_sift(v, x, 0, @K@);
    }
    for (int32_t size = @K@ - 1; size > 0; --size) {
      const float value = v[size];
      const int64_t index = x[size];
      v[size] = v[0];
      x[size] = x[0];
      v[0] = value;
      x[0] = index;
      @SYMBOL@_sift(v, x, 0, size);
    }
  }
  return 0;
}
"""


def generate_topk(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], _options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.topk`` call: a heap of k entries in the outputs, sorted in place at the end."""
    types = (inputs[0].type,)
    largest = bool(attrs["largest"])
    source = _TOPK.replace("@HEAD@", signature(types, tuple(outputs), workspace=False))
    for key, value in (
        ("@OUTER@", attrs["outer"]),
        ("@N@", attrs["n"]),
        ("@K@", attrs["k"]),
        ("@NAN_LAST@", int(not largest)),
        ("@ORDER@", ">" if largest else "<"),
    ):
        source = source.replace(key, str(value))
    return GeneratedKernel(
        source_template=source,
        inputs=types,
        outputs=tuple(outputs),
        name_hint=f"topk_{attrs['k']}_of_{attrs['n']}",
    )


def supports_argmax(attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType]) -> str | None:
    """See ``c7x.codegen.kernels.supports``."""
    if len(inputs) != 1 or len(outputs) != 1:
        return f"{len(inputs)} inputs and {len(outputs)} outputs (expected 1 and 1)"
    if attrs["dtype_in"] not in DTYPES or inputs[0].type.dtype != attrs["dtype_in"]:
        return f"dtype {attrs['dtype_in']}"
    if outputs[0].dtype != "int64":
        return f"indices of dtype {outputs[0].dtype} (only int64)"
    outer, axis, inner = attrs["outer"], attrs["axis"], attrs["inner"]
    if inputs[0].type.numel != outer * axis * inner or outputs[0].numel != outer * inner:
        return "the shapes do not fit together"
    if not 0 < inputs[0].type.numel <= MAX_NUMEL:
        return f"a tensor has {inputs[0].type.numel} elements"
    return None


def generate_argmax(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType], _options: KernelOptions
) -> GeneratedKernel:
    """The function for a ``c7x.argmax`` call over the middle of [outer, axis, inner]."""
    outer, axis, inner = attrs["outer"], attrs["axis"], attrs["inner"]
    c_type = inputs[0].type.c_type
    order = "<" if attrs["select_min"] else ">"
    # Once NaN is the best, no comparison with it holds, so it stays; `v != v` lets the first one in.
    better = f"v {order} best"
    if inputs[0].type.dtype.startswith("float"):
        better = f"({better} || (v != v && best == best))"
    types = (inputs[0].type,)
    step = f" * {inner}" if inner > 1 else ""
    source = f"""\
{signature(types, tuple(outputs), workspace=False)} {{
  for (int32_t n = 0; n < {outer}; ++n) {{
    for (int32_t c = 0; c < {inner}; ++c) {{
      const {c_type}* const x = in0 + n * {axis * inner} + c;
      {c_type} best = x[0];
      int32_t index = 0;
      for (int32_t i = 1; i < {axis}; ++i) {{
        const {c_type} v = x[i{step}];
        if ({better}) {{
          best = v;
          index = i;
        }}
      }}
      out0[n * {inner} + c] = index;
    }}
  }}
  return 0;
}}
"""
    return GeneratedKernel(
        source_template=source,
        inputs=types,
        outputs=tuple(outputs),
        name_hint=("argmin" if attrs["select_min"] else "argmax") + f"_{axis}",
    )
