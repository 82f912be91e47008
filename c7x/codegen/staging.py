"""L2 staging: which operands of an MMALIB wrapper are copied to L2 before it runs, and in how many calls it runs.

The rules (target-attributes.md, section 4): the input is copied, and the weights when both fit; in front of the input
lies a guard. Where the weights do not fit, ``mmalib_conv2d_i8`` runs in tiles of output channels, each a call of
``mmalib_conv2d_i8_sliced`` with its part of the weights. Nothing is expected to stay in L2 from one call of a kernel to
the next (module-abi.md, section 7), so every call finds all its operands freshly copied.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from c7x.codegen.kernels.firmware import FIRMWARE
from c7x.codegen.plan import align
from c7x.codegen.program import DTYPES, Call, Kernel, Program, Staging
from c7x.target import L2_BYTES, Target

#: Every block in L2 is rounded up to this many bytes (module-abi.md, section 7).
L2_ALIGNMENT = 128
#: The least room in front of the input, in bytes; more where padding reaches further back.
MIN_GUARD = 128
#: Output channels of a tile come in multiples of this.
TILE_MULTIPLE = 32

#: The only wrapper that can run in tiles, and the one that then runs in its place.
TILED, SLICED = "mmalib_conv2d_i8", "mmalib_conv2d_i8_sliced"
#: C variables of the loop over tiles: output channels of this call, and the first of them.
TILE_CHANNELS, TILE_START = "channels", "first"

#: What lib0.c imports for staging, besides the kernels; every firmware exports them (module-abi.md, 8.6).
IMPORTS = ("tvm_dsp_dma_copy", "tvm_dsp_dma_wait", "tvm_dsp_get_l2_base", "tvm_dsp_get_l2_size")


@dataclass(frozen=True, kw_only=True)
class Operands:
    """What decides how a call is staged.

    Attributes:
        input_shape, weight_shape: of the compact tensors; weights have output channels first where ``can_slice``.
        element_bytes: of one element of either.
        pad_top, pad_left: rows and columns of padding in front of the input; 0 for matrix products.
        can_slice: whether the kernel can run on some of its output channels.
    """

    input_shape: tuple[int, ...]
    weight_shape: tuple[int, ...]
    element_bytes: int
    pad_top: int = 0
    pad_left: int = 0
    can_slice: bool = False

    @property
    def input_bytes(self) -> int:
        return _bytes(self.input_shape, self.element_bytes)

    @property
    def weight_bytes(self) -> int:
        return _bytes(self.weight_shape, self.element_bytes)

    @property
    def guard_bytes(self) -> int:
        """What a kernel may address in front of its input: as far as the padding above and to the left of the first
        window reaches, at least ``MIN_GUARD``."""
        return max(MIN_GUARD, (self.pad_top * self.input_shape[-1] + self.pad_left) * self.element_bytes)


def _bytes(shape: tuple[int, ...], element_bytes: int) -> int:
    size = element_bytes
    for extent in shape:
        size *= extent
    return size


def plan_staging(operands: Operands, budget: int) -> Staging:
    """What to copy to L2 for one layer, so that it takes at most ``budget`` bytes.

    In this order: input and weights at once; the input, with the weights in the fewest and most even tiles of output
    channels; the input alone; nothing.

    >>> layer = Operands(input_shape=(1, 64, 14, 14), weight_shape=(128, 64, 3, 3), element_bytes=1, can_slice=True)
    >>> plan_staging(layer, 1310720).staged
    'input and weights'
    >>> plan_staging(layer, 65536).tile
    64
    """
    data, weights = operands.input_bytes, operands.weight_bytes
    guard = align(operands.guard_bytes, L2_ALIGNMENT)
    front = guard + align(data, L2_ALIGNMENT)
    room = budget - front
    if room < 0:
        reason = f"{data} bytes of input and {guard} of guard, room for {budget}"
        return Staging(staged="nothing", reason=reason)
    copied = Staging(staged="input", guard_bytes=guard, input_bytes=data, l2_bytes=front)
    if align(weights, L2_ALIGNMENT) <= room:
        return dataclasses.replace(
            copied,
            staged="input and weights",
            weight_bytes=weights,
            l2_bytes=front + align(weights, L2_ALIGNMENT),
        )
    reason = f"{weights} bytes of weights, room for {room} beside the input"
    channels = operands.weight_shape[0]
    channel_bytes = weights // channels
    largest = room // L2_ALIGNMENT * L2_ALIGNMENT // channel_bytes // TILE_MULTIPLE * TILE_MULTIPLE
    if not operands.can_slice or largest == 0:
        why = f"not even for {TILE_MULTIPLE} output channels" if operands.can_slice else "and the kernel takes no tiles"
        return dataclasses.replace(copied, reason=f"{reason}, {why}")
    tile = align(-(-channels // -(-channels // largest)), TILE_MULTIPLE)
    return dataclasses.replace(
        copied,
        staged="output-channel tiles",
        weight_bytes=tile * channel_bytes,
        tile=tile,
        channels=channels,
        l2_bytes=front + align(tile * channel_bytes, L2_ALIGNMENT),
        reason=reason,
    )


def stage_operands(program: Program, target: Target) -> Program:
    """``program`` with the staging of every call of an MMALIB wrapper, and its tiled calls on the sliced kernel.

    At most ``-l2-sram-size`` bytes are used, and never more than the L2 has.
    """
    budget = min(target.l2_sram_size, L2_BYTES)
    kernels = {k.symbol: k for k in program.kernels}
    calls = tuple(
        _stage(program, call, budget) if kernels[call.kernel].backend == "mmalib" else call for call in program.calls
    )
    if any(call.kernel == SLICED for call in calls):
        kernels[SLICED] = dataclasses.replace(kernels[TILED], symbol=SLICED)
    called = {call.kernel for call in calls}
    used: tuple[Kernel, ...] = tuple(k for k in kernels.values() if k.symbol in called)
    return dataclasses.replace(program, kernels=used, calls=calls)


def _stage(program: Program, call: Call, budget: int) -> Call:
    numbers = {a.name: int(text) for a, text in zip(FIRMWARE[call.kernel].scalars, call.scalars, strict=True)}
    data, weights = (program.buffer(name).type for name in call.inputs[:2])
    operands = Operands(
        input_shape=data.shape,
        weight_shape=weights.shape,
        element_bytes=DTYPES[data.dtype][2],
        pad_top=numbers.get("pad_top", 0),
        pad_left=numbers.get("pad_left", 0),
        can_slice=call.kernel == TILED,
    )
    staging = plan_staging(operands, budget)
    if not staging.tile:
        return dataclasses.replace(call, staging=staging)
    scalars = {a.name: text for a, text in zip(FIRMWARE[TILED].scalars, call.scalars, strict=True)}
    scalars |= {"C_out_tile": TILE_CHANNELS, "oc_start": TILE_START}
    return dataclasses.replace(
        call, kernel=SLICED, scalars=tuple(scalars[a.name] for a in FIRMWARE[SLICED].scalars), staging=staging
    )
