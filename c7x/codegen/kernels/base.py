"""What every kernel generator takes and gives, and the few text helpers they share.

A generator turns shapes and attributes into one C function. Weights are parameters of that function, never part of
its text, so two layers of the same shape share a function; the text does not depend on the machine it is made on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from c7x.codegen.program import TensorType

#: Lanes of ``c7x_f32x8`` (native/include/c7x_vector.h).
LANES = 8

#: Activation attribute -> C function over eight lanes; both keep NaN, as PyTorch does.
ACTIVATIONS: Mapping[str | None, str] = {None: "", "relu": "c7x_relu8", "relu6": "c7x_relu68"}

#: C loops count in int32_t, and step over the end by less than a tile; no tensor may hold more elements than this.
MAX_NUMEL = 2**31 - 2**16


@dataclass(frozen=True, kw_only=True)
class Operand:
    """An input of a kernel op as the caller knows it: its type and, when it is one, the constant behind it."""

    type: TensorType
    value: np.ndarray | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class KernelOptions:
    """Choices left to the target.

    Attributes:
        winograd: allow 3x3 stride-1 convolutions to be computed by Winograd's F(2x2, 3x3): fewer multiplications,
            weights 16/9 as large, and results that differ from direct summation by about one part in a million of
            the largest output.
    """

    winograd: bool = True


@dataclass(frozen=True, kw_only=True)
class GeneratedKernel:
    """One generated C function.

    Attributes:
        source_template: complete definition of ``static int32_t @SYMBOL@(...)``, with its static helpers in front,
            named ``@SYMBOL@_<suffix>``.
        inputs: types as the C function reads them, in parameter order; a packed constant has its packed type.
        outputs: types of the outputs, in parameter order after the inputs.
        packed: input index -> the constant in the layout the function reads; it replaces the operand's value.
        workspace_bytes: size of the ``uint8_t*`` parameter behind the outputs; without one it is 0.
        macs: multiply-accumulates the operator asks for (0 where it has no meaning).
        name_hint: a C identifier for people, like ``conv2d_3x3_s2_relu``.
    """

    source_template: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    packed: Mapping[int, np.ndarray] = field(default_factory=dict, repr=False, compare=False)
    workspace_bytes: int = 0
    macs: int = 0
    name_hint: str


def float_type(array: np.ndarray) -> TensorType:
    """The type of a float32 array."""
    return TensorType(dtype="float32", shape=tuple(array.shape))


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


def align64(nbytes: int) -> int:
    """Bytes rounded up to a multiple of 64, so that what follows in a workspace starts on a cache line."""
    return ceil_div(nbytes, 64) * 64


def signature(inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...], *, workspace: bool) -> str:
    """The head of a kernel's definition: inputs ``in0…``, outputs ``out0…``, then ``workspace``."""
    params = [f"const {t.c_type}* C7X_RESTRICT in{i}" for i, t in enumerate(inputs)]
    params += [f"{t.c_type}* C7X_RESTRICT out{i}" for i, t in enumerate(outputs)]
    if workspace:
        params.append("uint8_t* C7X_RESTRICT workspace")
    return f"static int32_t @SYMBOL@({', '.join(params)})"


def require_float(types: list[TensorType]) -> str | None:
    """Why these tensors are not for the float kernels; None when they are."""
    for t in types:
        if t.dtype != "float32":
            return f"dtype {t.dtype} (only float32 has a generated kernel)"
        if t.numel == 0:
            return "a tensor has no elements"
        if t.numel > MAX_NUMEL:
            return f"a tensor has {t.numel} elements (at most {MAX_NUMEL})"
    return None
