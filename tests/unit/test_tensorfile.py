from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from c7x.errors import FormatError
from c7x.tensorfile import parse_tensors, read_tensors, write_tensors

DTYPES = [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
]  # fmt: skip
HEAD = struct.pack("<III", 0x54564D54, 1, 1)


def one(shape: tuple[int, ...], code: int, bits: int, size: int, data: bytes) -> bytes:
    """A file with one tensor, written independently of the writer under test."""
    return HEAD + struct.pack(f"<i{len(shape)}qiiq", len(shape), *shape, code, bits, size) + data


def refuse(data: bytes) -> FormatError:
    with pytest.raises(FormatError) as caught:
        parse_tensors(data, name="x.bin")
    assert caught.value.cause and caught.value.hint
    assert "x.bin" in caught.value.message
    return caught.value


def test_bytes_are_those_of_the_format(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    write_tensors(path, [np.array([[1.0, -2.0]], np.float32)])
    assert path.read_bytes() == one((1, 2), 2, 32, 8, struct.pack("<2f", 1.0, -2.0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back(tmp_path: Path, dtype: str) -> None:
    values = [np.arange(6).reshape(2, 3).astype(dtype), np.array(5, dtype), np.zeros((0, 4), dtype)]
    write_tensors(tmp_path / "x.bin", values)
    back = read_tensors(tmp_path / "x.bin")
    assert [b.dtype.name for b in back] == [dtype] * 3
    assert [b.shape for b in back] == [(2, 3), (), (0, 4)]
    for a, b in zip(values, back, strict=True):
        np.testing.assert_array_equal(a, b)
        b[...] = 1  # writable


def test_bool_is_written_as_bytes_and_code_6_is_read(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x.bin", [np.array([True, False])])
    assert (tmp_path / "x.bin").read_bytes() == one((2,), 1, 8, 2, b"\1\0")
    assert read_tensors(tmp_path / "x.bin")[0].dtype == np.uint8
    (value,) = parse_tensors(one((3,), 6, 8, 3, b"\0\1\2"))
    assert value.dtype == np.bool_
    assert value.tolist() == [False, True, True]


def test_memory_and_byte_order_do_not_show(tmp_path: Path) -> None:
    value = np.arange(12, dtype=np.int32).reshape(3, 4)
    write_tensors(tmp_path / "a.bin", [value])
    write_tensors(tmp_path / "b.bin", [np.asfortranarray(value).astype(">i4")])
    write_tensors(tmp_path / "c.bin", [np.repeat(value, 2, axis=1)[:, ::2]])
    assert (tmp_path / "a.bin").read_bytes() == (tmp_path / "b.bin").read_bytes() == (tmp_path / "c.bin").read_bytes()


def test_nan_keeps_its_bits(tmp_path: Path) -> None:
    value = np.array([0x7FC00123, 0xFFC00001, 0x7F800000], np.uint32).view(np.float32)
    write_tensors(tmp_path / "x.bin", [value])
    np.testing.assert_array_equal(read_tensors(tmp_path / "x.bin")[0].view(np.uint32), value.view(np.uint32))


@given(
    st.lists(
        st.sampled_from(DTYPES).flatmap(
            lambda name: hnp.arrays(np.dtype(name), hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=3))
        ),
        max_size=4,
    )
)
def test_any_list_of_arrays_comes_back(tmp_path_factory: pytest.TempPathFactory, arrays: list[np.ndarray]) -> None:
    path = tmp_path_factory.mktemp("tvmt") / "x.bin"
    write_tensors(path, arrays)
    back = read_tensors(path)
    assert [(b.dtype, b.shape, b.tobytes()) for b in back] == [(a.dtype, a.shape, a.tobytes()) for a in arrays]


def test_every_truncation_is_named() -> None:
    whole = one((2, 2), 2, 32, 16, bytes(16))
    for size in range(len(whole)):
        assert "truncated" in refuse(whole[:size]).message, size


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"\x93NUMPY" + bytes(20), "not a tensor file"),
        (struct.pack("<III", 0x54564D54, 2, 0), "version 2"),
        (one((2,), 2, 32, 8, bytes(8)) + b"x", "1 bytes after"),
        (one((2,), 2, 32, 4, bytes(4)), "8 bytes"),
        (one((-1,), 2, 32, -4, b""), "shape [-1]"),
        (one((2**62, 4), 2, 32, 0, b""), "shape"),
        (one((2**40,), 2, 32, 2**42, b""), "truncated"),
        (one((2**62, 2**62, 0), 2, 32, 0, b""), "shape"),
        (one((1,), 4, 16, 2, bytes(2)), "code 4, 16 bits"),
        (one((1,), 2, 8, 1, bytes(1)), "code 2, 8 bits"),
        (one((1,) * 9, 2, 32, 4, bytes(4)), "rank 9"),
        (HEAD + struct.pack("<i", -1), "rank -1"),
    ],
)
def test_damage_is_named(data: bytes, word: str) -> None:
    error = refuse(data)
    assert word in f"{error.message} {error.cause}"


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (np.zeros(2, np.complex64), "complex64"),
        (np.array(["a"]), "str"),
        (np.array([None]), "object"),
        (np.zeros((1,) * 9, np.float32), "rank 9"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(tmp_path: Path, value: np.ndarray, word: str) -> None:
    path = tmp_path / "x.bin"
    with pytest.raises(FormatError, match=word):
        write_tensors(path, [value])
    assert not path.exists()


@given(st.binary(max_size=80))
def test_foreign_bytes_never_escape_as_another_error(data: bytes) -> None:
    for prefix in (b"", HEAD, HEAD + struct.pack("<i", 1)):
        with contextlib.suppress(FormatError):
            parse_tensors(prefix + data)
