"""Streaming engines and address generators by brute force: every element of every vector from nested loops.

Written from docs/hostemu.md: the whole stream is a list, made at once, where the emulation steps a counter nest, and
addresses move one step of a loop at a time, where the emulation multiplies.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, fields

LOOPS = 6
#: Address of a stream's base when its template shifts it by nothing. Only the bits of it inside a block matter.
BASE = 1 << 15


@dataclass(frozen=True, kw_only=True)
class Template:
    """Fields of __SE_TEMPLATE_v1 by their numbers, in the order in which the test program reads them."""

    icnt: tuple[int, ...]
    dim: tuple[int, ...]
    width1: int = 0
    width2: int = 0
    lezr_count: int = 0
    eletype: int = 0
    transpose: int = 0
    promote: int = 0
    veclen: int = 0
    eledup: int = 0
    grpdup: int = 0
    decim: int = 0
    dimfmt: int = 0
    dir: int = 0
    decdim1: int = 0
    decdim2: int = 0
    decdim1sd: int = 0
    decdim2sd: int = 0
    lezr: int = 0
    am: tuple[int, ...] = (0,) * LOOPS
    cbk0: int = 0
    cbk1: int = 0
    #: Elements from BASE to the base.
    shift: int = 0

    def words(self) -> list[int]:
        flat: list[int] = []
        for field in fields(self):
            value = getattr(self, field.name)
            flat += value if isinstance(value, tuple) else [value]
        return flat

    @property
    def size(self) -> int:
        return 1 << self.eletype

    @property
    def promotion(self) -> int:
        return (1, 2, 4, 8, 2, 4, 8)[self.promote]

    @property
    def base(self) -> int:
        return BASE + self.shift * self.size

    def moved(self, loop: int, address: int, elements: int) -> int:
        """An address after a step of a loop: in a circular one, it comes in again at the block's other end."""
        to = address + elements * self.size
        if self.am[loop] == 0:
            return to
        block = 512 * 2 ** (self.cbk0 if self.am[loop] == 1 else self.cbk0 + self.cbk1 + 1)
        first = address - address % block
        return first + (to - first) % block


@dataclass(frozen=True, kw_only=True)
class Vector:
    """One vector of a stream: memory addresses of its lanes, None for zero, and what SA says of it."""

    lanes: tuple[int | None, ...]
    offset: int
    valid: int


def _room(t: Template, at: tuple[int, ...], start: int) -> int:
    """How many elements from ``start`` on the DECDIM fields leave, at the counters ``at`` of loops 1 to 5."""
    room = 1 << 40
    for width, primary, secondary in (
        (t.width1, t.decdim1, t.decdim1sd),
        (t.width2, t.decdim2, t.decdim2sd),
    ):
        if primary == 0:
            continue
        used = at[primary - 1] * t.dim[primary - 1]
        if secondary == 1:
            used += start
        elif secondary > 1:
            used += at[secondary - 2] * t.dim[secondary - 2]
        room = min(room, width - used)
    return room


def _outer(t: Template) -> Iterator[tuple[int, ...]]:
    """Counters of loops 1 to 5, loop 1 fastest."""
    counts = [t.icnt[k] if k <= t.dimfmt else 1 for k in range(1, LOOPS)]
    for reverse in itertools.product(*(range(n) for n in reversed(counts))):
        yield tuple(reversed(reverse))


def _base(t: Template, at: tuple[int, ...]) -> int:
    return sum(i * t.dim[k] for k, i in enumerate(at) if k + 1 <= t.dimfmt)


def _starts(t: Template, loop: int, address: int) -> Iterator[int]:
    """Where loop 0 starts, each time that it does: ``loop`` and the loops inside it, from ``address`` on."""
    if loop == 0:
        yield address
        return
    for _ in range(t.icnt[loop]):
        yield from _starts(t, loop - 1, address)
        address = t.moved(loop, address, t.dim[loop - 1])


def _loop_0(t: Template, start: int) -> list[int]:
    """Addresses of the elements of loop 0. Downwards, the first element is the one before the start."""
    step = -1 if t.dir else 1
    address = t.moved(0, start, -1) if t.dir else start
    found = []
    for _ in range(t.icnt[0]):
        found.append(address)
        address = t.moved(0, address, step)
    return found


def _plain(t: Template) -> Iterator[Vector]:
    lanes = 1 << t.veclen
    decimation, copies = 1 << t.decim, 1 << t.eledup
    taken = lanes * decimation // copies
    counts = [t.icnt[k] for k in range(1, t.dimfmt + 1)]
    for at, first in zip(_outer(t), _starts(t, t.dimfmt, t.base), strict=True):
        addresses = _loop_0(t, first)
        for start in range(0, t.icnt[0], taken):
            room = _room(t, at, start)
            formatted: list[int | None] = []
            valid = 0
            for k in range(taken):
                real = start + k < t.icnt[0] and k < room
                valid += real
                if k % decimation == 0:
                    formatted += [addresses[start + k] if real else None] * copies
            yield Vector(lanes=tuple(formatted), offset=_base(t, at) + start, valid=valid)
        # After loop 0 has ended, count the loops above it that end with it.
        ended = 1
        while ended <= t.dimfmt and at[ended - 1] == counts[ended - 1] - 1:
            ended += 1
        if t.lezr and ended >= t.lezr:
            for _ in range(t.lezr_count):
                yield Vector(lanes=(None,) * lanes, offset=0, valid=0)


def _transposed(t: Template) -> Iterator[Vector]:
    lanes = 1 << t.veclen
    granule = (1 << (t.transpose - 1)) // t.size
    rows = t.icnt[1] if t.dimfmt >= 1 else 1
    down = t.dim[0] if t.dimfmt >= 1 else 0
    per_vector = lanes // granule
    for at in _outer(t):
        if at[0] != 0:
            continue
        for column in range(0, t.icnt[0], granule):
            for row in range(0, rows, per_vector):
                cells = [(row + r, column + k) for r in range(per_vector) for k in range(granule)]
                offsets = (_base(t, at) + y * down + x if y < rows and x < t.icnt[0] else None for y, x in cells)
                lanes_at = tuple(None if o is None else t.base + o * t.size for o in offsets)
                yield Vector(lanes=lanes_at, offset=0, valid=0)


@functools.lru_cache(maxsize=4)
def vectors(t: Template) -> tuple[Vector, ...]:
    """The whole stream."""
    if 0 in t.icnt[: t.dimfmt + 1]:
        return ()
    return tuple(_transposed(t) if t.transpose else _plain(t))


def read(t: Template, memory: bytes, register: int) -> list[bytes]:
    """What every read of the streaming engine gives, as the bytes of a register; memory begins at address 0."""
    out = []
    size = t.size
    signed = t.promote >= 4
    for vector in vectors(t):
        lanes = b""
        for at in vector.lanes:
            value = 0 if at is None else int.from_bytes(memory[at : at + size], "little", signed=signed)
            lanes += value.to_bytes(size * t.promotion, "little", signed=signed)
        copies = register // len(lanes) if t.grpdup else 1
        out.append((lanes * copies).ljust(register, b"\0"))
    return out


def wraps(t: Template) -> bool:
    """Whether circular addressing changes what the stream reads."""
    return any(t.am) and vectors(t) != vectors(dataclasses.replace(t, am=(0,) * LOOPS))


def random_template(rng: random.Random, register: int) -> Template:
    """A template that the emulation takes, and that stays within BASE bytes of BASE."""
    while True:
        eletype = rng.randrange(4)
        promote = rng.choice([0, 0, 0, *range(7)])
        if (1 << eletype) * (1, 2, 4, 8, 2, 4, 8)[promote] > 8:
            continue
        promoted = (1 << eletype) * (1, 2, 4, 8, 2, 4, 8)[promote]
        veclen = rng.randrange(7)
        if (1 << veclen) * promoted > register:
            continue
        dimfmt = rng.randrange(6)
        icnt = tuple(rng.choice([1, 1, 2, 3, 4]) if k else rng.randrange(1, 70) for k in range(LOOPS))
        if math.prod(icnt[: dimfmt + 1]) > 400:
            continue
        if rng.random() < 0.03:
            icnt = (0, *icnt[1:])
        dim = tuple(rng.randrange(-90, 91) for _ in range(LOOPS - 1))
        transpose = 0
        decim = eledup = direction = lezr = lezr_count = cbk0 = cbk1 = 0
        am = (0,) * LOOPS
        limits = {"width1": 0, "width2": 0, "decdim1": 0, "decdim2": 0, "decdim1sd": 0, "decdim2sd": 0}
        if rng.random() < 0.25:
            transpose = rng.randrange(1, 7)
            if not (1 << eletype) <= 1 << (transpose - 1) or (1 << (transpose - 1)) >> eletype > 1 << veclen:
                continue
        else:
            decim = rng.choice([0, 0, 1, 2])
            eledup = rng.choice([0, 0, *range(7)])
            if 1 << decim > (1, 2, 4, 8, 2, 4, 8)[promote] or eledup > veclen:
                continue
            direction = int(rng.random() < 0.25)
            if rng.random() < 0.3:
                am = tuple(rng.randrange(3) for _ in range(LOOPS))
                cbk0 = rng.randrange(6)
                # The largest block is all of memory.
                cbk1 = rng.randrange(7 - cbk0)
            if rng.random() < 0.3:
                lezr, lezr_count = rng.randrange(1, dimfmt + 2), rng.randrange(4)
            for which in ("1", "2"):
                if dimfmt and rng.random() < 0.4:
                    limits["decdim" + which] = rng.randrange(1, dimfmt + 1)
                    limits["width" + which] = rng.randrange(0, 200)
                    if rng.random() < 0.5:
                        limits[f"decdim{which}sd"] = rng.randrange(1, dimfmt + 2)
        t = Template(
            icnt=icnt,
            dim=dim,
            eletype=eletype,
            promote=promote,
            veclen=veclen,
            dimfmt=dimfmt,
            transpose=transpose,
            decim=decim,
            eledup=eledup,
            dir=direction,
            grpdup=int(rng.random() < 0.3),
            lezr=lezr,
            lezr_count=lezr_count,
            am=am,
            cbk0=cbk0,
            cbk1=cbk1,
            shift=rng.randrange(-200, 200),
            **limits,
        )
        addresses = [a for v in vectors(t) for a in v.lanes if a is not None]
        if all(0 <= a <= 2 * BASE - 8 for a in addresses):
            return t
