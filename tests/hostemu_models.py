"""What the intrinsics of the host emulation should do, in NumPy: written from its reference page, apart from the C++.

A model takes the element type and the operands, one row a call: vectors as arrays of shape [rows, lanes], predicates as
bool [rows, 64], scalars as int [rows], memory as uint8 [rows, bytes] or elements; it returns the results in the order
of the driver (memory behind pointers, outputs, the result).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.hostemu_c6x_models import C6X_MODELS, C6X_WIDE, IntModel

Array = NDArray[Any]
Model = Callable[..., tuple[Array, ...]]

DTYPES: Mapping[str, np.dtype[Any]] = {
    "char": np.dtype("i1"),
    "uchar": np.dtype("u1"),
    "short": np.dtype("<i2"),
    "ushort": np.dtype("<u2"),
    "int": np.dtype("<i4"),
    "uint": np.dtype("<u4"),
    "long": np.dtype("<i8"),
    "ulong": np.dtype("<u8"),
    "float": np.dtype("<f4"),
    "double": np.dtype("<f8"),
}

PREDICATE_BYTES = 64


def _bytes(a: Array) -> Array:
    return np.ascontiguousarray(a).view(np.uint8).reshape(a.shape[0], -1)


def _as(a: Array, kind: str) -> Array:
    return np.ascontiguousarray(a).view(DTYPES[kind]).reshape(a.shape[0], -1)


def _exact(a: Array) -> Array:
    """Python integers, which neither wrap nor round."""
    return a.astype(object)


def _clip(values: Array, kind: str) -> Array:
    info = np.iinfo(DTYPES[kind])
    return np.vectorize(lambda x: min(max(int(x), info.min), info.max), otypes=[DTYPES[kind]])(values)


def _wrapped(values: Array, kind: str) -> Array:
    dtype = DTYPES[kind]
    bits = dtype.itemsize * 8
    unsigned = np.vectorize(lambda x: int(x) % (1 << bits), otypes=[np.dtype(f"u{dtype.itemsize}")])(values)
    return np.asarray(unsigned).view(dtype)


def _interleave(even: Array, odd: Array) -> Array:
    return np.stack([even, odd], axis=-1).reshape(even.shape[0], -1)


# ---------------------------------------------------------------------------------------------------------- predicates


def _lanes_to_predicate(flags: Array, size: int) -> Array:
    out = np.zeros((flags.shape[0], PREDICATE_BYTES), bool)
    spread = np.repeat(flags, size, axis=1)
    out[:, : spread.shape[1]] = spread
    return out


def _compare(test: Callable[[Array, Array], Array]) -> Model:
    def model(t: str, a: Array, b: Array) -> tuple[Array, ...]:
        return (_lanes_to_predicate(test(a, b), DTYPES[t].itemsize),)

    return model


def _mask(size: int) -> Model:
    def model(t: str, n: Array) -> tuple[Array, ...]:
        return (np.arange(PREDICATE_BYTES)[None, :] < size * np.asarray(n, np.int64)[:, None],)

    return model


def _bits(t: str, bits: Array) -> tuple[Array, ...]:
    return (((np.asarray(bits, np.uint64)[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)) != 0,)


def _select(t: str, p: Array, a: Array, b: Array) -> tuple[Array, ...]:
    x, y = _bytes(a), _bytes(b)
    return (_as(np.where(p[:, : x.shape[1]], x, y), t),)


# -------------------------------------------------------------------------------------------------------------- stores


def _store(memory: Array, data: Array, p: Array | None = None) -> Array:
    raw = _bytes(data)
    out = memory.copy()
    head = out[:, : raw.shape[1]]
    head[:] = raw if p is None else np.where(p[:, : raw.shape[1]], raw, head)
    return out


def _low(a: Array, size: int) -> Array:
    raw = _bytes(a).reshape(a.shape[0], a.shape[1], -1)
    return raw[:, :, :size].reshape(a.shape[0], -1)


def _packl(t: str, memory: Array, *sources: Array) -> tuple[Array, ...]:
    size = DTYPES[t].itemsize // 2
    return (_store(memory, np.concatenate([_low(s, size) for s in sources], axis=1)),)


def _pred_packl(t: str, p: Array, memory: Array, *sources: Array) -> tuple[Array, ...]:
    size = DTYPES[t].itemsize // 2
    return (_store(memory, np.concatenate([_low(s, size) for s in sources], axis=1), p),)


def _pack_byte(t: str, memory: Array, source: Array) -> tuple[Array, ...]:
    return (_store(memory, source.astype(np.uint8)),)


def _pred_pack_byte(t: str, p: Array, memory: Array, *sources: Array) -> tuple[Array, ...]:
    return (_store(memory, np.concatenate([s.astype(np.uint8) for s in sources], axis=1), p),)


# ----------------------------------------------------------------------------------------------------------- arithmetic


def _lane(function: Callable[..., Array]) -> Model:
    return lambda t, *operands: (function(*operands),)


def _abs(t: str, a: Array) -> tuple[Array, ...]:
    return (np.abs(a) if t in ("float", "double") else _clip(np.abs(_exact(a)), t),)


def _add_saturating(t: str, a: Array, b: Array) -> tuple[Array, ...]:
    return (_clip(_exact(a) + _exact(b), t),)


def _subtract_saturating(t: str, a: Array, b: Array) -> tuple[Array, ...]:
    return (_clip(_exact(a) - _exact(b), t),)


def _popcount(t: str, a: Array) -> tuple[Array, ...]:
    return (np.vectorize(lambda x: int(x).bit_count(), otypes=[DTYPES[t]])(_wrapped(_exact(a), "u" + t.lstrip("u"))),)


def _leftmost_one(t: str, a: Array) -> tuple[Array, ...]:
    return (np.vectorize(lambda x: 32 - int(x).bit_length(), otypes=[DTYPES[t]])(_wrapped(_exact(a), "uint")),)


def _shift_left(t: str, a: Array, b: Array) -> tuple[Array, ...]:
    bits = DTYPES[t].itemsize * 8
    one = np.vectorize(lambda x, n: x << n if 0 <= n < bits else 0, otypes=[object])
    return (_wrapped(one(_exact(a), _exact(b)), t),)


def _shift_right(t: str, a: Array, b: Array) -> tuple[Array, ...]:
    bits = DTYPES[t].itemsize * 8
    one = np.vectorize(lambda x, n: x >> (n if 0 <= n < bits else bits), otypes=[object])
    return (_wrapped(one(_exact(a), _exact(b)), t),)


# ---------------------------------------------------------------------------------------------------------- conversions


def _to_int(values: Array, rounding: Callable[[Any], Any]) -> Array:
    def one(x: float) -> int:
        if np.isnan(x):
            return -(2**31) if np.signbit(x) else 2**31 - 1
        if np.isinf(x):
            return -(2**31) if x < 0 else 2**31 - 1
        return min(max(int(rounding(x)), -(2**31)), 2**31 - 1)

    return np.vectorize(one, otypes=[DTYPES["int"]])(values)


def _twice(a: Array) -> Array:
    return np.repeat(a, 2, axis=1)


def _half_int(first: int) -> Model:
    def model(t: str, a: Array) -> tuple[Array, ...]:
        quads = a.reshape(a.shape[0], -1, 4)[:, :, first : first + 2]
        return (quads.reshape(a.shape[0], -1).astype(np.float32),)

    return model


# ------------------------------------------------------------------------------------------------------------- movement


def _permuted(index: Array, table: Array) -> Array:
    return np.take_along_axis(table, index.astype(np.int64) % table.shape[1], axis=1)


def _every_second(size: int, first: int) -> Model:
    def model(t: str, index: Array, b: Array, c: Array) -> tuple[Array, ...]:
        parts = [x.reshape(x.shape[0], -1, size)[:, first::2].reshape(x.shape[0], -1) for x in (c, b)]
        return (_permuted(index, np.concatenate(parts, axis=1)),)

    return model


def _halves(high: bool) -> Model:
    def model(t: str, index: Array, b: Array, c: Array) -> tuple[Array, ...]:
        half = b.shape[1] // 2
        parts = [x[:, half:] if high else x[:, :half] for x in (c, b)]
        return (_permuted(index, np.concatenate(parts, axis=1)),)

    return model


def _pack(kind: str) -> Model:
    return lambda t, a, b: (_interleave(_clip(b, kind), _clip(a, kind)),)


def _pack_consecutive(high: bool) -> Model:
    def model(t: str, a: Array, b: Array) -> tuple[Array, ...]:
        size = DTYPES[t].itemsize // 2
        parts = [_bytes(x).reshape(x.shape[0], x.shape[1], 2, size)[:, :, int(high)] for x in (b, a)]
        return (np.concatenate([p.reshape(p.shape[0], -1) for p in parts], axis=1),)

    return model


def _packed_half_words(t: str, a: Array) -> tuple[Array, ...]:
    pairs = _clip(_to_int(a, np.rint), "short").reshape(a.shape[0], -1, 2)
    return (np.concatenate([pairs, np.zeros_like(pairs)], axis=2).reshape(a.shape[0], -1),)


def _element(t: str, v: Array, index: Array) -> tuple[Array, ...]:
    return (np.asarray([v[row, int(i)] for row, i in enumerate(index)], v.dtype)[:, None],)


def _products(kind: str, wide: Any) -> Model:
    def model(t: str, a: Array, b: Array) -> tuple[Array, ...]:
        product = _wrapped(_exact(a) * _exact(b), kind) if wide is object else a.astype(wide) * b.astype(wide)
        return (product[:, 0::2], product[:, 1::2])

    return model


def _interleaved_bytes(t: str, p: Array, memory: Array, c: Array, d: Array) -> tuple[Array, ...]:
    return (_store(memory, _interleave(c[:, 0::2], d[:, 0::2]), p),)


def _shuffled(high: bool) -> Model:
    def model(t: str, a: Array, b: Array) -> tuple[Array, ...]:
        half = a.shape[1] // 2
        parts = [x[:, half:] if high else x[:, :half] for x in (b, a)]
        return (_interleave(*parts),)

    return model


def _gathered(t: str, p: Array, a: Array) -> tuple[Array, ...]:
    out = np.zeros_like(a)
    for row, flags in enumerate(p[:, : a.shape[1]]):
        out[row, : flags.sum()] = a[row, flags]
    return (out,)


def _sorted_halves(descending: bool) -> Model:
    def model(t: str, a: Array) -> tuple[Array, ...]:
        halves = np.sort(a.reshape(a.shape[0], 2, -1), axis=2)
        return ((halves[:, :, ::-1] if descending else halves).reshape(a.shape),)

    return model


def _sum(kind: str) -> Model:
    return lambda t, a: (_wrapped(_exact(a).sum(axis=1, keepdims=True), kind),)


def _words(function: IntModel, bits: int) -> Model:
    """Of unsigned integers, to one of ``bits`` bits."""

    def model(t: str, *operands: Array) -> tuple[Array, ...]:
        rows = zip(*(operand.tolist() for operand in operands), strict=True)
        return (np.asarray([[function(*row) % (1 << bits)] for row in rows], np.uint64),)

    return model


MODELS: Mapping[str, Model] = {
    **{name: _words(function, 64 if name in C6X_WIDE else 32) for name, function in C6X_MODELS.items()},
    "__vstore_pred": lambda t, p, memory, v: (_store(memory, v, p),),
    "__select": _select,
    "__expand": lambda t, p: (np.where(p, -1, 0).astype(np.int8),),
    "__cmp_lt_pred": _compare(np.less),
    "__cmp_le_pred": _compare(np.less_equal),
    "__cmp_eq_pred": _compare(np.equal),
    "__cmp_gt_pred": _compare(np.greater),
    "__cmp_ge_pred": _compare(np.greater_equal),
    "__mask_char": _mask(1),
    "__mask_short": _mask(2),
    "__mask_int": _mask(4),
    "__mask_long": _mask(8),
    "_mvrp": _bits,
    "__negate": lambda t, p: (~p,),
    "__and (predicates)": lambda t, p, q: (p & q,),
    "__or (predicates)": lambda t, p, q: (p | q,),
    "__xor (predicates)": lambda t, p, q: (p ^ q,),
    "__pdupl2b_pp": lambda t, p: (np.repeat(p[:, : PREDICATE_BYTES // 2], 2, axis=1),),
    "__abs": _abs,
    "__max": _lane(lambda a, b: np.asarray(np.where(a > b, a, b))),
    "__min": _lane(lambda a, b: np.asarray(np.where(a < b, a, b))),
    "__add_sat": _add_saturating,
    "__sub_sat": _subtract_saturating,
    "__vaddw_vvv": lambda t, a, b: (_wrapped(_exact(a) + _exact(b), "int"),),
    "__vaddsp_vvv": _lane(np.add),
    "__popcount_char": _popcount,
    "__popcount_short": _popcount,
    "__popcount_int": _popcount,
    "__leftmost_bit_detect_one": _leftmost_one,
    "__and": _lane(np.bitwise_and),
    "__or": _lane(np.bitwise_or),
    "__xor": _lane(np.bitwise_xor),
    "__vxorw_vvv": _lane(np.bitwise_xor),
    "__shift_left": _shift_left,
    "__shift_right": _shift_right,
    "__vshrw_vvv": lambda t, a, b: _shift_right("int", a, b),
    "__shift_right_full": _shift_right,
    "__int_to_float": _lane(lambda a: a.astype(np.float32)),
    "__float_to_int": _lane(lambda a: _to_int(a, lambda x: np.rint(np.float64(x)))),
    "__float_to_int_rtz": _lane(lambda a: _to_int(a, np.trunc)),
    "__low_int_to_double": _lane(lambda a: a[:, 0::2].astype(np.float64)),
    "__high_int_to_double": _lane(lambda a: a[:, 1::2].astype(np.float64)),
    "__low_float_to_double": _lane(lambda a: a[:, 0::2].astype(np.float64)),
    "__high_float_to_double": _lane(lambda a: a[:, 1::2].astype(np.float64)),
    "__double_to_float": _lane(lambda a: _twice(a.astype(np.float32))),
    "__double_to_int": _lane(lambda a: _twice(_to_int(a, np.rint))),
    "__double_to_int_rtz": _lane(lambda a: _twice(_to_int(a, np.trunc))),
    "__low_half_int_to_float": _half_int(0),
    "__high_half_int_to_float": _half_int(2),
    "__permute": _lane(_permuted),
    "__permute_even_even_int": _every_second(4, 0),
    "__permute_odd_odd_int": _every_second(4, 1),
    "__permute_even_even_short": _every_second(2, 0),
    "__permute_odd_odd_short": _every_second(2, 1),
    "__permute_even_even_char": _every_second(1, 0),
    "__permute_low_low": _halves(False),
    "__permute_high_high": _halves(True),
    "__pack_sat (to short)": _pack("short"),
    "__pack_sat (to char)": _pack("char"),
    "__pack_usat (to uchar)": _pack("uchar"),
    "__pack_usat (to ushort)": _pack("ushort"),
    "__vspackuhb_vvv": _pack("uchar"),
    "__vpackw_vvv": _lane(lambda a, b: _interleave(b[:, 0::2], a[:, 0::2])),
    "__pack_consec_low": _pack_consecutive(False),
    "__pack_consec_high": _pack_consecutive(True),
    "__get_vector_element": _element,
    "__sort_asc": _lane(lambda a: np.sort(a, axis=1, kind="stable")),
    "__sort_desc": _lane(lambda a: np.sort(a, axis=1, kind="stable")[:, ::-1]),
    "__deal_stride2": _lane(lambda a: np.concatenate([a[:, 0::2], a[:, 1::2]], axis=1)),
    "__shuffle_stride2": _lane(lambda a: _interleave(a[:, : a.shape[1] // 2], a[:, a.shape[1] // 2 :])),
    "__shuffle_stride2_low_low": _shuffled(False),
    "__shuffle_stride2_high_high": _shuffled(True),
    "__gather_set_bits": _gathered,
    "__vpackl2_vvv": _lane(lambda a, b: _interleave(b[:, 0::2], a[:, 0::2])),
    "__vspinthpk_vv": _packed_half_words,
    "__vhpackl_vvv": _lane(lambda a, b: np.concatenate([b[:, 0::2], a[:, 0::2]], axis=1)),
    "__dual_sort_lo_asc_hi_asc": _sorted_halves(False),
    "__dual_sort_lo_desc_hi_desc": _sorted_halves(True),
    "__horizontal_add (signed)": _sum("long"),
    "__horizontal_add (unsigned)": _sum("ulong"),
    "__abs_diff": lambda t, a, b: (_wrapped(np.abs(_exact(a) - _exact(b)), t),),
    "__vload_dup": lambda t, memory: (_twice(memory),),
    "__vstore_packl": _packl,
    "__vstore_pred_packl": _pred_packl,
    "__vstore_packl_2src": _packl,
    "__vstore_pred_packl_2src": _pred_packl,
    "__vstore_pack_byte": _pack_byte,
    "__vstore_pred_pack_byte": _pred_pack_byte,
    "__vstore_pred_pack_byte_2src": _pred_pack_byte,
    "__vstore_pred_interleave": _interleaved_bytes,
    "__vmpyhw_vvw": _products("int", np.int32),
    "__vmpyubh_vvw": _products("ushort", np.uint16),
    "__vmpysuhw_vvw": _products("int", object),
    "__vmpywd_vvw": _products("long", object),
    "__vmpysp2dp_vvw": _products("double", np.float64),
    "__vmpyww_vvv": lambda t, a, b: (_wrapped(_exact(a) * _exact(b), "int"),),
    "__vmpysp_vvv": _lane(np.multiply),
}


def seed_errors(name: str, operand: Array, result: Array) -> Array:
    """Relative errors of a seed at operands that are normal, positive for roots, and give a normal result."""
    x = operand.astype(np.float64)
    exact = 1 / np.abs(x) if name == "__recip" else 1 / np.sqrt(np.abs(x))
    info = np.finfo(operand.dtype)
    usable = np.isfinite(x) & (np.abs(x) >= float(info.tiny)) & (np.abs(x) <= float(info.max) / 8)
    if name == "__recip":
        # The reciprocal of what is near the largest number is not normal.
        usable &= np.abs(x) <= 1 / float(info.tiny) / 8
    else:
        usable &= x > 0
    signed = exact * np.where(x < 0, -1, 1)
    return np.asarray(np.abs(result.astype(np.float64)[usable] / signed[usable] - 1))
