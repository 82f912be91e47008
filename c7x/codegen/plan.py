"""The arena: where every intermediate buffer lives, known before a line of C is written.

A buffer is live from the call that writes it to the last call that reads it; a workspace only during its call. Two
buffers may share bytes when their live ranges do not touch. The sum of the sizes alive at one call is a lower bound
for the arena; packing by size, first fit, reaches it on nearly every network, and a short search over other orders
closes the rest. The search is deterministic, so two compilations place every buffer alike.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from c7x.codegen.program import Program

#: Bytes; a cache line of the C7x L2 and the widest vector of any target.
ARENA_ALIGNMENT = 128

#: Orders tried beyond the fixed ones before the best packing found so far is taken.
_SEARCH_LIMIT = 2000


@dataclass(frozen=True, kw_only=True)
class LiveRange:
    """A storage of ``size`` bytes (already aligned) alive from call ``first`` to call ``last``, both included."""

    name: str
    size: int
    first: int
    last: int

    def overlaps(self, other: LiveRange) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Byte offsets into the arena by storage name, the arena's size, and the largest sum of bytes alive at one call."""

    offsets: Mapping[str, int]
    ranges: tuple[LiveRange, ...]
    arena_bytes: int
    lower_bound: int


def align(size: int, alignment: int = ARENA_ALIGNMENT) -> int:
    """``size`` rounded up to a multiple of ``alignment``."""
    return -(-size // alignment) * alignment


def live_ranges(program: Program) -> tuple[LiveRange, ...]:
    """The live range of every storage that belongs into the arena, in order of first use.

    A model output that is computed elsewhere (an alias of an intermediate, or an intermediate returned more than
    once) stays alive until the end, when it is copied out.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}

    def touch(name: str, index: int) -> None:
        storage = program.storage(name)
        if storage.role in ("intermediate", "workspace"):
            first.setdefault(storage.name, index)
            last[storage.name] = index

    for index, call in enumerate(program.calls):
        for name in (*call.inputs, *call.outputs, *((call.workspace,) if call.workspace else ())):
            touch(name, index)
    for port in program.outputs:
        touch(port.buffer, max(len(program.calls) - 1, 0))
    return tuple(
        LiveRange(name=name, size=align(program.buffer(name).type.nbytes), first=start, last=last[name])
        for name, start in first.items()
    )


def largest_live_set(ranges: Iterable[LiveRange]) -> int:
    """The largest sum of sizes alive at one call, in bytes: no arena can be smaller."""
    change: dict[int, int] = {}
    for item in ranges:
        change[item.first] = change.get(item.first, 0) + item.size
        change[item.last + 1] = change.get(item.last + 1, 0) - item.size
    live = peak = 0
    for index in sorted(change):
        live += change[index]
        peak = max(peak, live)
    return peak


def first_fit(order: Sequence[LiveRange]) -> tuple[dict[str, int], int]:
    """Places each range, in the given order, at the lowest offset that no overlapping range already takes."""
    placed: list[tuple[int, int, LiveRange]] = []
    offsets: dict[str, int] = {}
    end = 0
    for item in order:
        offset = 0
        for start, stop, other in placed:
            if start >= offset + item.size:
                break
            if stop > offset and item.overlaps(other):
                offset = stop
        offsets[item.name] = offset
        end = max(end, offset + item.size)
        placed.append((offset, offset + item.size, item))
        placed.sort(key=lambda p: (p[0], p[1]))
    return offsets, end


def plan_arena(program: Program) -> Plan:
    """Places every intermediate and workspace of ``program``; see the module's text for how."""
    ranges = live_ranges(program)
    bound = largest_live_set(ranges)
    offsets, size = _pack(ranges, bound)
    return Plan(offsets=offsets, ranges=ranges, arena_bytes=size, lower_bound=bound)


def _pack(ranges: Sequence[LiveRange], bound: int) -> tuple[dict[str, int], int]:
    orders = (
        sorted(ranges, key=lambda r: (-r.size, r.first)),
        sorted(ranges, key=lambda r: (-r.size * (r.last - r.first + 1), r.first)),
        sorted(ranges, key=lambda r: (r.first - r.last, -r.size)),
        sorted(ranges, key=lambda r: (r.first, -r.size)),
        sorted(ranges, key=lambda r: (-r.last, -r.size)),
    )
    best: dict[str, int] = {}
    best_size = -1
    best_order: list[LiveRange] = []
    for order in orders:
        offsets, size = first_fit(order)
        if best_size < 0 or size < best_size:
            best, best_size, best_order = offsets, size, list(order)
        if best_size == bound:
            return best, best_size
    # Move the ranges that stick out over the bound towards the front, where first fit still has a choice.
    rng = random.Random(0)
    order, offsets, size = best_order, best, best_size
    for _ in range(_SEARCH_LIMIT):
        culprits = [i for i, r in enumerate(order) if offsets[r.name] + r.size > bound]
        source = rng.choice(culprits)
        candidate = list(order)
        candidate.insert(rng.randrange(source) if source else 0, candidate.pop(source))
        offsets_new, size_new = first_fit(candidate)
        if size_new <= size or rng.random() < 0.05:
            order, offsets, size = candidate, offsets_new, size_new
        if size_new < best_size:
            best, best_size = offsets_new, size_new
            if best_size == bound:
                break
    return best, best_size
