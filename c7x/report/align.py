"""Which node of the exported graph a layer's output is, and in which order its elements lie.

Buffers are named after the node whose value they hold, with a suffix for steps on the way. Two suffixes keep the value:
``__<part>`` is one result of a node with several, and ``_as`` is a node's value brought back from the order in which a
kernel computed it. Kernels compute images and sequences with channels last where PyTorch has them first; the shapes
tell which, or else the kernel that wrote the buffer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from c7x.report.layers import Layer

if TYPE_CHECKING:
    import numpy as np

Order = Literal["as PyTorch", "channels last"]

#: Parts of a node with several results: which of them it is.
_PARTS = {"norm": 0, "values": 0, "indices": 1, "pair": 0, "pair_2": 1}
_NUMBERED_PART = re.compile(r"part(\d+)$")
_BACK = re.compile(r"(?:_as)+$")
#: Relax operators that bring data into another order or shape and keep every value.
_MOVES = frozenset({"permute_dims", "reshape", "layout_transform", "expand_dims", "squeeze", "flatten"})


@dataclass(frozen=True, kw_only=True)
class Match:
    """A buffer holds result number ``element`` of ``node``; ``back`` when it was brought into PyTorch's order."""

    node: str
    element: int = 0
    back: bool = False


def match_buffer(name: str, nodes: Collection[str]) -> Match | None:
    """The node that the buffer ``name`` holds the value of; None for steps on the way to one."""
    plain = _BACK.sub("", name)
    for candidate in dict.fromkeys((name, plain)):
        back = candidate != name
        if candidate in nodes:
            return Match(node=candidate, back=back)
        node, _, part = candidate.rpartition("__")
        if node in nodes:
            number = _NUMBERED_PART.match(part)
            element = int(number[1]) if number else _PARTS.get(part)
            if element is not None:
                return Match(node=node, element=element, back=back)
    return None


def unfinished(layers: Sequence[Layer]) -> frozenset[str]:
    """Buffers that are called after a node, but hold its value only after a later layer has worked on it: that layer's
    buffer has the same name with ``_as``, and it computes something."""
    found = set()
    for layer in layers:
        for output in layer.outputs:
            plain = _BACK.sub("", output.buffer)
            computes = not layer.relax_ops or not set(layer.relax_ops) <= _MOVES
            if plain != output.buffer and computes:
                found.add(plain)
    return frozenset(found)


def channels_last(shape: Sequence[int]) -> list[int] | None:
    """The axes of a channels-first shape in channels-last order; None for shapes without channels."""
    rank = len(shape)
    return [0, *range(2, rank), 1] if rank in (3, 4, 5) else None


def _regroups(source: Sequence[int], target: Sequence[int]) -> bool:
    """Whether ``target`` is ``source`` with neighbouring dimensions merged or ones put in or left out."""

    def borders(shape: Sequence[int]) -> set[int]:
        return {math.prod(shape[:i]) for i in range(len(shape) + 1)}

    return math.prod(source) == math.prod(target) and (
        borders(target) <= borders(source) or borders(source) <= borders(target)
    )


def orders(node_shape: Sequence[int], buffer_shape: Sequence[int]) -> list[Order]:
    """The orders in which a buffer of ``buffer_shape`` can hold a value of ``node_shape``; empty when in none."""
    found: list[Order] = ["as PyTorch"] if _regroups(node_shape, buffer_shape) else []
    axes = channels_last(node_shape)
    if axes is not None and _moves(node_shape, axes) and _regroups([node_shape[a] for a in axes], buffer_shape):
        found.append("channels last")
    return found or (["as PyTorch"] if _padded(node_shape, buffer_shape) else [])


def _padded(node_shape: Sequence[int], buffer_shape: Sequence[int]) -> bool:
    """Whether the buffer has room at the ends of dimensions that the value does not fill: the matrix unit needs it."""
    return len(node_shape) == len(buffer_shape) and all(b >= n for b, n in zip(buffer_shape, node_shape, strict=True))


def _moves(shape: Sequence[int], axes: Sequence[int]) -> bool:
    """Whether the permutation changes the order of elements in memory."""
    large = [a for a in axes if shape[a] != 1]
    return large != sorted(large)


def kernel_order(layer: Layer) -> Order | None:
    """In which order the layer's kernel computes; None for one that works on any."""
    if layer.backend == "mmalib":
        return "as PyTorch"
    if layer.backend == "c7x" and any(op.startswith("nn.conv") for op in layer.relax_ops):
        return "as PyTorch" if layer.kernel.startswith(("c7x_", "mmalib_")) else "channels last"
    return None


def choose_order(possible: Sequence[Order], layer: Layer, inherited: Order | None, *, back: bool) -> Order | None:
    """One of the ``possible`` orders.

    Args:
        layer: writes the buffer.
        inherited: the order of the layer's first computed input.
        back: the buffer was brought into PyTorch's order.
    """
    if len(possible) < 2:
        return possible[0] if possible else None
    known = "as PyTorch" if back else kernel_order(layer) or inherited or "as PyTorch"
    return known if known in possible else possible[0]


def in_buffer_order(value: np.ndarray, like: np.ndarray, order: Order) -> np.ndarray:
    """The inverse of ``in_node_order``: a node's value as the buffer ``like`` holds it, whose padding is kept."""
    axes = channels_last(value.shape)
    if order == "as PyTorch" or axes is None:
        if like.size != value.size:
            padded = like.copy()
            padded[tuple(slice(n) for n in value.shape)] = value
            return padded
        return value.reshape(like.shape)
    return value.transpose(axes).reshape(like.shape)


def in_node_order(array: np.ndarray, node_shape: Sequence[int], order: Order) -> np.ndarray:
    """A buffer's value in the node's shape and order."""
    axes = channels_last(node_shape)
    if order == "as PyTorch" or axes is None:
        if array.size != math.prod(node_shape):
            return array[tuple(slice(n) for n in node_shape)]
        return array.reshape(node_shape)
    permuted = array.reshape([node_shape[a] for a in axes])
    return permuted.transpose([axes.index(i) for i in range(len(axes))])
