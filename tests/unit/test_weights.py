"""weights.bin: what is written reads back, data is aligned, and no damaged file is read as a good one."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from c7x.codegen.program import DTYPES
from c7x.codegen.weights import DATA_ALIGNMENT, MAX_CONSTANTS, pack_weights, unpack_weights
from c7x.errors import FormatError, UnsupportedError

arrays = hnp.arrays(
    dtype=st.sampled_from(sorted(set(DTYPES) - {"bool"})),
    shape=hnp.array_shapes(min_dims=0, max_dims=6, min_side=0, max_side=5),
)


def reader_of_the_spec(data: bytes) -> list[bytes]:
    """The second pass of the firmware's reader, from the text of the format: only an offset that is not a multiple of
    4 and holds a zero is rounded up."""
    count, at, out = struct.unpack_from("<Q", data)[0], 8, []
    for _ in range(count):
        if at % 4 and data[at] == 0:
            at += -at % 4
        kind = struct.unpack_from("<i", data, at)[0]
        at += 4
        if kind == 65:
            at += 8 + struct.unpack_from("<Q", data, at)[0]
            continue
        assert kind == 70
        assert struct.unpack_from("<Q", data, at)[0] == 0xDD5E40F096B4A13F
        ndim = struct.unpack_from("<i", data, at + 24)[0]
        size = struct.unpack_from("<q", data, at + 32 + 8 * ndim)[0]
        at += 40 + 8 * ndim
        out.append(data[at : at + size])
        at += size
    assert at == len(data)
    return out


@given(st.lists(arrays, max_size=8))
def test_round_trip_and_alignment(values: list[np.ndarray]) -> None:
    data, entries = pack_weights(values)
    read = {e.index: e for e in unpack_weights(data)}
    for value, entry in zip(values, entries, strict=True):
        assert entry.data_offset % DATA_ALIGNMENT == 0
        got = read[entry.index]
        assert got.data_offset == entry.data_offset
        assert isinstance(got.value, np.ndarray)
        assert got.value.dtype == value.dtype and got.value.shape == value.shape
        assert got.value.tobytes() == value.tobytes()
    assert reader_of_the_spec(data) == [v.tobytes() for v in values]


def test_no_constants_is_a_count_of_zero() -> None:
    data, entries = pack_weights([])
    assert data == bytes(8) and entries == [] and unpack_weights(data) == [] and unpack_weights(b"") == []


@given(st.lists(arrays, min_size=1, max_size=4), st.data())
def test_every_truncation_is_refused(values: list[np.ndarray], draw: st.DataObject) -> None:
    data, _ = pack_weights(values)
    cut = draw.draw(st.integers(1, len(data) - 1))
    with pytest.raises(FormatError, match="ends inside"):
        unpack_weights(data[:cut])


@pytest.mark.parametrize(
    ("offset", "value", "words"),
    [(0, MAX_CONSTANTS + 1, "announces"), (8, 99, "unknown type 99"), (8, 15, "unknown type 15")],
)
def test_foreign_bytes_are_refused(offset: int, value: int, words: str) -> None:
    data = bytearray(pack_weights([np.zeros(3, "float32")])[0])
    struct.pack_into("<i", data, offset, value)
    with pytest.raises(FormatError, match=words):
        unpack_weights(bytes(data))


def test_too_many_constants_are_refused_when_written() -> None:
    with pytest.raises(UnsupportedError, match="4096"):
        pack_weights([np.zeros(1, "float32")] * (MAX_CONSTANTS + 1))


def test_half_precision_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="float16"):
        pack_weights([np.zeros(1, "float16")])
