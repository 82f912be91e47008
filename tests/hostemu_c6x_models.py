"""What the C6000 intrinsics of the host emulation should do, on Python integers: written from SPRU187's table of them.

A model takes operands as unsigned integers of their width and returns one; signs and the width of the result are put
right outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

IntModel = Callable[..., int]


def signed(x: int, bits: int) -> int:
    """The low ``bits`` of x as a signed integer."""
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def parts(x: int, bits: int, *, sign: bool = False) -> list[int]:
    """A word's parts, the low one first."""
    cut = [(x >> at) & ((1 << bits) - 1) for at in range(0, 32, bits)]
    return [signed(part, bits) for part in cut] if sign else cut


def join(values: Sequence[int], bits: int) -> int:
    """A word from its parts, the low one first; each wraps."""
    return sum((value & ((1 << bits) - 1)) << (bits * i) for i, value in enumerate(values))


def clip(x: int, low: int, high: int) -> int:
    return min(max(x, low), high)


def clip_signed(x: int, bits: int) -> int:
    return clip(x, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def each(bits: int, function: Callable[[int, int], int], *, sign: bool = True) -> IntModel:
    """``function`` on every pair of parts."""

    def model(a: int, b: int = 0) -> int:
        pairs = zip(parts(a, bits, sign=sign), parts(b, bits, sign=sign), strict=True)
        return join([function(x, y) for x, y in pairs], bits)

    return model


def flags(bits: int, function: Callable[[int, int], bool], *, sign: bool) -> IntModel:
    def model(a: int, b: int) -> int:
        pairs = zip(parts(a, bits, sign=sign), parts(b, bits, sign=sign), strict=True)
        return sum(1 << i for i, (x, y) in enumerate(pairs) if function(x, y))

    return model


def product(first: tuple[int, bool], second: tuple[int, bool], *, double: bool = False) -> IntModel:
    """Product of a half-word of a and one of b, each named by its place and whether it has a sign."""

    def model(a: int, b: int) -> int:
        x, y = (parts(v, 16, sign=sign)[place] for v, (place, sign) in ((a, first), (b, second)))
        return clip_signed(2 * x * y, 32) if double else x * y

    return model


def dot(bits: int, *, first: bool, second: bool, signs: Sequence[int] | None = None) -> IntModel:
    def model(a: int, b: int) -> int:
        pairs = zip(parts(a, bits, sign=first), parts(b, bits, sign=second), strict=True)
        weights = signs or [1] * (32 // bits)
        return sum(weight * x * y for weight, (x, y) in zip(weights, pairs, strict=True))

    return model


def field(low: int, high: int) -> int:
    return sum(1 << i for i in range(low & 31, (high & 31) + 1))


def text(x: int) -> str:
    return f"{x & 0xFFFFFFFF:032b}"


def leftmost(which: int, x: int) -> int:
    place = text(x).find(str(which & 1))
    return 32 if place < 0 else place


def redundant_signs(x: int) -> int:
    bits = text(x)
    return len(bits) - len(bits.lstrip(bits[0])) - 1


def pack(first: int, second: int) -> IntModel:
    """The half-words at these places of a and b, a's above."""
    return lambda a, b: join([parts(b, 16)[second], parts(a, 16)[first]], 16)


LOW, HIGH = (0, True), (1, True)
UNSIGNED_LOW, UNSIGNED_HIGH = (0, False), (1, False)

#: Results of 64 bits; the others have 32.
C6X_WIDE = {"_itoll", "_mpy2ll", "_mpy32ll"}

C6X_MODELS: Mapping[str, IntModel] = {
    "_abs": lambda a: clip_signed(abs(signed(a, 32)), 32),
    "_abs2": each(16, lambda x, _: clip_signed(abs(x), 16)),
    "_add2": each(16, lambda x, y: x + y),
    "_add4": each(8, lambda x, y: x + y),
    "_avg2": each(16, lambda x, y: (x + y + 1) // 2),
    "_avgu4": each(8, lambda x, y: (x + y + 1) // 2, sign=False),
    "_bitc4": each(8, lambda x, _: x.bit_count(), sign=False),
    "_bitr": lambda a: int(text(a)[::-1], 2),
    "_clr": lambda a, b, c: a & ~field(b, c),
    "_cmpeq2": flags(16, lambda x, y: x == y, sign=True),
    "_cmpeq4": flags(8, lambda x, y: x == y, sign=True),
    "_cmpgt2": flags(16, lambda x, y: x > y, sign=True),
    "_cmpgtu4": flags(8, lambda x, y: x > y, sign=False),
    "_cmplt2": flags(16, lambda x, y: x < y, sign=True),
    "_cmpltu4": flags(8, lambda x, y: x < y, sign=False),
    "_deal": lambda a: int(text(a)[0::2] + text(a)[1::2], 2),
    "_dotp2": dot(16, first=True, second=True),
    "_dotpn2": dot(16, first=True, second=True, signs=(-1, 1)),
    "_dotpsu4": dot(8, first=True, second=False),
    "_dotpu4": dot(8, first=False, second=False),
    "_ext": lambda a, b, c: signed(a << (b & 31), 32) >> (c & 31),
    "_extu": lambda a, b, c: ((a << (b & 31)) & 0xFFFFFFFF) >> (c & 31),
    "_hill": lambda a: a >> 32,
    "_itoll": lambda a, b: (a << 32) + b,
    "_lmbd": leftmost,
    "_loll": lambda a: a,
    "_max2": each(16, max),
    "_maxu4": each(8, max, sign=False),
    "_min2": each(16, min),
    "_minu4": each(8, min, sign=False),
    "_mpy": product(LOW, LOW),
    "_mpy2ll": lambda a, b: (product(HIGH, HIGH)(a, b) << 32) + (product(LOW, LOW)(a, b) & 0xFFFFFFFF),
    "_mpy32": lambda a, b: a * b,
    "_mpy32ll": lambda a, b: signed(a, 32) * signed(b, 32),
    "_mpyh": product(HIGH, HIGH),
    "_mpyhl": product(HIGH, LOW),
    "_mpyhu": product(UNSIGNED_HIGH, UNSIGNED_HIGH),
    "_mpylh": product(LOW, HIGH),
    "_mpysu": product(LOW, UNSIGNED_LOW),
    "_mpyu": product(UNSIGNED_LOW, UNSIGNED_LOW),
    "_mpyus": product(UNSIGNED_LOW, LOW),
    "_norm": redundant_signs,
    "_pack2": pack(0, 0),
    "_packh2": pack(1, 1),
    "_packh4": lambda a, b: join([v for x in (b, a) for v in (parts(x, 8)[1], parts(x, 8)[3])], 8),
    "_packhl2": pack(1, 0),
    "_packl4": lambda a, b: join([v for x in (b, a) for v in (parts(x, 8)[0], parts(x, 8)[2])], 8),
    "_packlh2": pack(0, 1),
    "_rotl": lambda a, b: int(text(a)[b & 31 :] + text(a)[: b & 31], 2),
    "_sadd": lambda a, b: clip_signed(signed(a, 32) + signed(b, 32), 32),
    "_sadd2": each(16, lambda x, y: clip_signed(x + y, 16)),
    "_saddu4": each(8, lambda x, y: clip(x + y, 0, 255), sign=False),
    "_set": lambda a, b, c: a | field(b, c),
    "_shfl": lambda a: int("".join(h + lo for h, lo in zip(text(a)[:16], text(a)[16:], strict=True)), 2),
    "_shlmb": lambda a, b: join([parts(a, 8)[3], *parts(b, 8)[:3]], 8),
    "_shr2": lambda a, b: join([x >> (b & 31) for x in parts(a, 16, sign=True)], 16),
    "_shrmb": lambda a, b: join([*parts(b, 8)[1:], parts(a, 8)[0]], 8),
    "_shru2": lambda a, b: join([x >> (b & 31) for x in parts(a, 16)], 16),
    "_smpy": product(LOW, LOW, double=True),
    "_smpyh": product(HIGH, HIGH, double=True),
    "_smpyhl": product(HIGH, LOW, double=True),
    "_smpylh": product(LOW, HIGH, double=True),
    "_spack2": lambda a, b: join([clip_signed(signed(x, 32), 16) for x in (b, a)], 16),
    "_spacku4": lambda a, b: join([clip(x, 0, 255) for v in (b, a) for x in parts(v, 16, sign=True)], 8),
    "_sshl": lambda a, b: clip_signed(signed(a, 32) << (b & 31), 32),
    "_ssub": lambda a, b: clip_signed(signed(a, 32) - signed(b, 32), 32),
    "_ssub2": each(16, lambda x, y: clip_signed(x - y, 16)),
    "_sub2": each(16, lambda x, y: x - y),
    "_sub4": each(8, lambda x, y: x - y),
    "_subabs4": each(8, lambda x, y: abs(x - y), sign=False),
    "_swap4": lambda a: join([parts(a, 8)[i] for i in (1, 0, 3, 2)], 8),
    "_unpkhu4": lambda a: join(parts(a, 8)[2:], 16),
    "_unpklu4": lambda a: join(parts(a, 8)[:2], 16),
    "_xpnd2": lambda a: join([0xFFFF * ((a >> i) & 1) for i in range(2)], 16),
    "_xpnd4": lambda a: join([0xFF * ((a >> i) & 1) for i in range(4)], 8),
}
