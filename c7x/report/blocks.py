"""Layers in groups, for pictures of networks of hundreds of layers: by ``nn.Module`` path, and alike ones together.

A group is a stretch of layers in call order. Where the paths tell nothing (a model that is one function) the source
line stands in for them, and stretches that repeat themselves become groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from c7x.report.layers import Layer

#: The longest stretch of neighbours that is looked for a second time.
_LONGEST_PERIOD = 12
_TO = " to "
#: Layers that make a block of a module without modules inside.
_SMALLEST_MODULE = 4


@dataclass(frozen=True, kw_only=True)
class Block:
    """A group: its title, its items in call order (indices of layers, and blocks), and how many alike blocks its items
    are (0: they are not)."""

    title: str
    items: tuple[int | Block, ...]
    repeat: int = 0

    def to_json(self) -> dict[str, Any]:
        items = [item if isinstance(item, int) else item.to_json() for item in self.items]
        return {"title": self.title, "repeat": self.repeat, "items": items}


Item = int | Block


def group_layers(layers: Sequence[Layer]) -> list[Item]:
    """The layers as a tree."""
    paths = _paths(layers)
    fold = _Folder(layers)
    return fold(_grouped(list(range(len(layers))), paths, 0, fold))


def _paths(layers: Sequence[Layer]) -> list[tuple[str, ...]]:
    """Where each layer stands in the model's modules.

    A fused layer stands where its last node does. One without a module belongs to what its neighbours share, or to its
    source line. Modules that hold no others and few layers are no blocks: their layers stand in what holds them.
    """
    paths = [tuple(layer.modules[-1].split(".")) if layer.modules else () for layer in layers]
    for index, path in enumerate(paths):
        if not path:
            before = paths[index - 1] if index else ()
            after = next((p for p in paths[index + 1 :] if p), ())
            paths[index] = _common(before, after) or layers[index].source[:1]
    modules = {tuple(module.split(".")) for layer in layers for module in layer.modules}
    holding = {module[:end] for module in modules for end in range(1, len(module))}
    size = Counter(paths)
    return [
        path[:-1] if len(path) > 1 and path not in holding and size[path] < _SMALLEST_MODULE else path for path in paths
    ]


def _common(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """What two paths begin with alike."""
    length = next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
    return first[:length]


def _grouped(indices: Sequence[int], paths: Sequence[tuple[str, ...]], depth: int, fold: _Folder) -> list[Item]:
    """Neighbours with the same path up to ``depth`` in blocks; a block of one item is that item."""
    items: list[Item] = []
    start = 0
    while start < len(indices):
        path = paths[indices[start]]
        end = start + 1
        if len(path) > depth:
            while end < len(indices) and paths[indices[end]][: depth + 1] == path[: depth + 1]:
                end += 1
        if len(path) <= depth or end - start == 1:
            items.append(indices[start])
            start += 1
            continue
        stretch = indices[start:end]
        inner = fold(_grouped(stretch, paths, depth + 1, fold))
        if len(inner) == 1 and isinstance(inner[0], Block):
            items.append(inner[0])
        else:
            items.append(Block(title=".".join(_shared([paths[index] for index in stretch])), items=tuple(inner)))
        start = end
    return items


def _shared(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    shared = paths[0]
    for path in paths:
        shared = _common(shared, path)
    return shared


class _Folder:
    """Puts neighbours that repeat themselves in a block: alike blocks, or stretches of two items and more."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = layers

    def __call__(self, items: Sequence[Item]) -> list[Item]:
        keys = [self._signature(item) for item in items]
        folded: list[Item] = []
        at = 0
        while at < len(items):
            period, count = _repetition(items, keys, at)
            if count < 2:
                folded.append(items[at])
                at += 1
                continue
            inner = list(items[at : at + period * count])
            if period > 1:
                parts = [inner[i : i + period] for i in range(0, len(inner), period)]
                inner = [Block(title=self._span(part), items=tuple(part)) for part in parts]
            folded.append(Block(title=self._span(inner), items=tuple(inner), repeat=count))
            at += period * count
        return folded

    def _signature(self, item: Item) -> tuple[Any, ...]:
        """What makes two items alike: the operators of their layers, in order and in the same groups."""
        if isinstance(item, int):
            return self._layers[item].relax_ops
        return tuple(self._signature(inner) for inner in item.items)

    def _span(self, items: Sequence[Item]) -> str:
        """The first and the last of the items."""
        names = [item.title if isinstance(item, Block) else self._layers[item].name for item in (items[0], items[-1])]
        return _TO.join(dict.fromkeys((names[0].split(_TO)[0], names[1].split(_TO)[-1])))


def _repetition(items: Sequence[Item], keys: Sequence[tuple[Any, ...]], at: int) -> tuple[int, int]:
    """The period and the number of repetitions that cover most from ``at`` on; a count of 1 when there are none."""
    best = (1, 1)
    for period in range(1, min(_LONGEST_PERIOD, (len(items) - at) // 2) + 1):
        if period == 1 and isinstance(items[at], int):
            continue
        count = 1
        while keys[at + count * period : at + (count + 1) * period] == keys[at : at + period]:
            count += 1
        if count > 1 and period * count > best[0] * best[1]:
            best = (period, count)
    return best
