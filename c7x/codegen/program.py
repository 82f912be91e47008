"""``Program``: what is left of a model once TVM has done its part, and all that the emitter needs to know.

Everything left of it in the walk speaks TVM, everything right of it speaks C. A program is a straight line of
calls over buffers whose sizes are all known: no control flow, no allocation, no TVM object inside.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

Backend = Literal["tvm", "c7x", "mmalib"]
Role = Literal["input", "output", "constant", "intermediate", "workspace"]

#: dtype name -> (DLPack code, bits, bytes, C type). Booleans are stored as bytes 0 or 1.
DTYPES: dict[str, tuple[int, int, int, str]] = {
    "int8": (0, 8, 1, "int8_t"),
    "int16": (0, 16, 2, "int16_t"),
    "int32": (0, 32, 4, "int32_t"),
    "int64": (0, 64, 8, "int64_t"),
    "uint8": (1, 8, 1, "uint8_t"),
    "uint16": (1, 16, 2, "uint16_t"),
    "uint32": (1, 32, 4, "uint32_t"),
    "uint64": (1, 64, 8, "uint64_t"),
    "bool": (1, 8, 1, "uint8_t"),
    "float32": (2, 32, 4, "float"),
    "float64": (2, 64, 8, "double"),
}


@dataclass(frozen=True, kw_only=True)
class TensorType:
    """A compact, row-major tensor: ``dtype`` is a key of ``DTYPES``, ``shape`` holds static dimensions (() is 0-d)."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.numel * DTYPES[self.dtype][2]

    @property
    def c_type(self) -> str:
        return DTYPES[self.dtype][3]


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """One piece of storage. Calls name buffers by ``name``; a name is unique in a program.

    ``alias_of`` names the buffer whose bytes this one shows under another shape or dtype (a reshape); an alias has
    no storage of its own, and chains are resolved before a program is made.
    """

    name: str
    type: TensorType
    role: Role
    alias_of: str | None = None


@dataclass(frozen=True, kw_only=True)
class Constant:
    """The value behind a buffer of role ``constant``; ``data`` is C-contiguous and matches the buffer's type."""

    buffer: str
    data: np.ndarray = field(repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One C function of lib0.c.

    ``source`` is the complete ``static int32_t <symbol>(...)`` definition; its parameters are the inputs, then the
    outputs, then (if ``workspace_bytes``) one ``uint8_t*`` of scratch memory. ``params`` lists the tensor types of
    inputs and outputs in parameter order. An ``extern`` kernel has an empty ``source``: the firmware provides it.
    """

    symbol: str
    source: str
    params: tuple[TensorType, ...]
    num_outputs: int
    backend: Backend
    workspace_bytes: int = 0


def computes_in_float(kernel: Kernel) -> bool:
    """Whether real numbers go in, come out, or stand inside a loop of TVM's. What a kernel of ours or the firmware's
    does between integers is its own affair."""
    if any(t.dtype.startswith("float") for t in kernel.params):
        return True
    return kernel.backend == "tvm" and re.search(r"\b(?:float|double)\b", kernel.source) is not None


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where a call comes from: the Relax operators fused into it, the nodes of the exported graph, the user's source
    lines (``file:line``, the file relative to the model's folder, or a package path), and the paths of the modules,
    such as ``layer1.0.conv1``, which is all there is inside an ``nn.Sequential``."""

    relax_ops: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether it says a place in the user's model."""
        return bool(self.source or self.modules)


Staged = Literal["nothing", "input", "input and weights", "output-channel tiles"]


@dataclass(frozen=True, kw_only=True)
class Staging:
    """What a call of an MMALIB wrapper copies to L2 before it runs (``codegen.staging`` decides). Sizes are in bytes.

    Attributes:
        staged: the operands that are copied.
        guard_bytes, input_bytes: the room in front of the input, and the input; 0 where nothing is staged.
        weight_bytes: what is copied of the weights for one call of the kernel; 0 where they stay where they are.
        tile: output channels of one call of the kernel, the last one may have fewer; 0 unless in tiles.
        channels: all output channels; 0 unless in tiles.
        l2_bytes: what the call takes of L2, every block rounded up to 128.
        reason: why not everything is copied at once, as a phrase; empty when it is.
    """

    staged: Staged
    guard_bytes: int = 0
    input_bytes: int = 0
    weight_bytes: int = 0
    tile: int = 0
    channels: int = 0
    l2_bytes: int = 0
    reason: str = ""

    @property
    def kernel_calls(self) -> int:
        """How often the kernel runs."""
        return -(-self.channels // self.tile) if self.tile else 1


@dataclass(frozen=True, kw_only=True)
class Call:
    """One step: run ``kernel`` on ``inputs``, writing ``outputs`` (buffer names). ``scalars`` are C expressions, the
    numbers of an extern kernel in the order of its signature, where pointers stand between them. ``macs`` counts
    multiply-accumulates, 0 where it has no meaning. ``reason`` says why a quantised operator did not get the kernel one
    would expect. ``staging`` is what an MMALIB wrapper finds in L2, None for every other kernel."""

    kernel: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    workspace: str | None = None
    scalars: tuple[str, ...] = ()
    name: str = ""
    macs: int = 0
    provenance: Provenance = Provenance()
    reason: str = ""
    staging: Staging | None = None


@dataclass(frozen=True, kw_only=True)
class Quantisation:
    """Of a whole tensor: a positive ``scale`` and the integer that stands for 0."""

    scale: float
    zero_point: int


@dataclass(frozen=True, kw_only=True)
class Port:
    """An input or output as the user sees it: ``name`` from the model, ``buffer`` the storage behind it.

    Two outputs may name the same buffer, and an output may name an input or a constant: the emitter copies.
    ``quantisation`` says what an integer means: real = (integer - zero_point) * scale.
    """

    name: str
    buffer: str
    type: TensorType
    quantisation: Quantisation | None = None


@dataclass(frozen=True, kw_only=True)
class Program:
    """A compiled model before addresses are known.

    ``float_between`` names the operators that compute real numbers after a quantised tensor and before another: what a
    quantised model should not have.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    buffers: tuple[Buffer, ...]
    constants: tuple[Constant, ...]
    kernels: tuple[Kernel, ...]
    calls: tuple[Call, ...]
    float_between: tuple[str, ...] = ()

    def buffer(self, name: str) -> Buffer:
        """The buffer called ``name``; KeyError when there is none."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Buffer]:
        return {b.name: b for b in self.buffers}

    def storage(self, name: str) -> Buffer:
        """The buffer that owns the bytes of ``name`` (itself unless it is an alias)."""
        buffer = self.buffer(name)
        return self.buffer(buffer.alias_of) if buffer.alias_of is not None else buffer
