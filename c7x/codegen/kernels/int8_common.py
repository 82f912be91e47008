"""What the quantised kernels share. The contract of all of them, bit for bit, is in integers:

    sum = sum over taps of (x - x_zero) * w, plus bias
    y   = clamp(floor((sum * multiplier + 2^(shift - 1)) / 2^shift) + y_zero, low, high)

so a result is the ratio multiplier / 2^shift of the sum, rounded to nearest with halves up. ``multiplier`` has 31 bits:
the result of one operator differs from float arithmetic on the same quantised operands by at most one, and only where
the float result lies within a few millionths of a half. Sums are int32 for int8 data and int64 for int16 data; padding
is real zero, that is x_zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from c7x.codegen.kernels.base import MAX_NUMEL, GeneratedKernel, Operand, signature
from c7x.codegen.program import TensorType

#: A sum of this many products of int8 (x - x_zero up to 255, w up to 128) and twice its bias stay inside an int32.
MAX_DEPTH_INT8 = 16384

#: dtype -> smallest and largest value.
LIMITS: Mapping[str, tuple[int, int]] = {"int8": (-128, 127), "int16": (-32768, 32767)}


def array_type(array: np.ndarray) -> TensorType:
    """The type of an array."""
    return TensorType(dtype=array.dtype.name, shape=tuple(array.shape))


def require_integer(types: Sequence[TensorType]) -> str | None:
    """Why these tensors are not for the quantised kernels; None when they are: all int8 or all int16, and not empty."""
    for t in types:
        if t.dtype != types[0].dtype or t.dtype not in LIMITS:
            return f"dtype {t.dtype} (all int8 or all int16 have a kernel)"
        if not 0 < t.numel <= MAX_NUMEL:
            return f"a tensor has {t.numel} elements"
    return None


def fill(template: str, values: Mapping[str, Any]) -> str:
    """The template with every ``@NAME@`` replaced."""
    for name, value in values.items():
        template = template.replace(f"@{name}@", str(value))
    return template


def requantized(total: str, multiplier: str, shift: str) -> str:
    """The C expression, with places for ``fill`` (TYPE, Y_ZERO, LOW, HIGH), of the result of a sum of 64 bits; shifts
    are 17 or more."""
    return f"(@TYPE@)c7x_clamp_i64(c7x_requantize64({total}, {multiplier}, {shift}) + (@Y_ZERO@), @LOW@, @HIGH@)"


_TWINNED = re.compile(r"\bc7x_(dot2|dot4|mul16|widen8|narrow8|clamp8i|requantize8|splat8i|load8i|load32b|splat4b)\(")
_PARAMETER = re.compile(r"(\w+)(?:,|$)")


def hot(name: str, params: str, body: Sequence[str]) -> str:
    """The static function ``@SYMBOL@_<name>`` around a hot loop, and its twin with AVX2 for programs that choose when
    they start (c7x_integer.h)."""
    arguments = ", ".join(_PARAMETER.findall(params))
    twin = [_TWINNED.sub(r"c7x_\1_avx2(", line) for line in body]
    lines = [
        "#if defined(C7X_USE_TWIN)",
        f"C7X_TWIN static void @SYMBOL@_{name}_avx2({params}) {{",
        *twin,
        "}",
        "#endif",
        f"C7X_HOT static void @SYMBOL@_{name}({params}) {{",
        "#if defined(C7X_USE_TWIN)",
        "  if (C7X_USE_TWIN) {",
        f"    @SYMBOL@_{name}_avx2({arguments});",
        "    return;",
        "  }",
        "#endif",
        *body,
        "}",
    ]
    return "\n".join(lines) + "\n"


def loops(
    template: str,
    values: Mapping[str, Any],
    inputs: Sequence[Operand],
    outputs: Sequence[TensorType],
    name: str,
    *,
    functions: str = "",
    workspace_bytes: int = 0,
    macs: int = 0,
) -> GeneratedKernel:
    """The kernel whose body is the filled template, which is indented by two; an int16 kernel's name says so."""
    return finish(
        functions=functions,
        body=[line[2:] for line in fill(template, {**values, "TYPE": outputs[0].c_type}).splitlines()],
        inputs=inputs,
        outputs=outputs,
        packed={},
        workspace_bytes=workspace_bytes,
        macs=macs,
        name_hint=name + ("_i16" if outputs[0].dtype == "int16" else ""),
    )


def finish(
    *,
    functions: str,
    body: Sequence[str],
    inputs: Sequence[Operand],
    outputs: Sequence[TensorType],
    packed: Mapping[int, np.ndarray],
    workspace_bytes: int = 0,
    macs: int = 0,
    name_hint: str,
) -> GeneratedKernel:
    """The kernel whose statements are ``body``; packed constants replace the types of their operands."""
    types = tuple(array_type(packed[i]) if i in packed else operand.type for i, operand in enumerate(inputs))
    head = signature(types, tuple(outputs), workspace=workspace_bytes > 0)
    return GeneratedKernel(
        source_template=functions + head + " {\n" + "".join(f"  {line}\n" for line in body) + "  return 0;\n}\n",
        inputs=types,
        outputs=tuple(outputs),
        packed=packed,
        workspace_bytes=workspace_bytes,
        macs=macs,
        name_hint=name_hint,
    )
