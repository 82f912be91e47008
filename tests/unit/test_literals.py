"""Literals read back bit-equal, in C's and in C++'s grammar; comments and identifiers cannot break the file."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from c7x.codegen.literals import c_identifier, c_string, comment, literal


def value_of(text: str) -> float:
    return float(text.strip("()").removesuffix("f"))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float32_reads_back(value: float) -> None:
    text = literal(value, "float32")
    assert np.float32(value_of(text)).tobytes() == np.float32(value).tobytes()
    assert re.fullmatch(r"\(?-?\d+\.\d+(e[+-]\d+)?f\)?", text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_float64_reads_back(value: float) -> None:
    text = literal(value, "float64")
    assert np.float64(value_of(text)).tobytes() == np.float64(value).tobytes()
    assert re.fullmatch(r"\(?-?\d+\.\d+(e[+-]\d+)?\)?", text)


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (float("inf"), "float32", "(INFINITY)"),
        (float("-inf"), "float32", "(-INFINITY)"),
        (float("nan"), "float32", "NAN"),
        (float("-inf"), "float64", "(-(double)INFINITY)"),
        (-0.0, "float32", "(-0.0f)"),
        (5592405.5, "float32", "5592405.5f"),
        (-(2**63), "int64", "(-9223372036854775807LL - 1)"),
        (-(2**31), "int32", "(-2147483647 - 1)"),
        (-5, "int8", "(-5)"),
        (2**64 - 1, "uint64", "18446744073709551615ULL"),
        (True, "bool", "1"),
        (False, "bool", "0"),
    ],
)
def test_special_values(value: float, dtype: str, text: str) -> None:
    assert literal(value, dtype) == text


@given(st.text())
def test_comments_cannot_end_early(text: str) -> None:
    safe = comment(text)
    assert "*/" not in safe and "\n" not in safe


@given(st.text())
def test_identifiers_are_identifiers(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z_]\w*", c_identifier(text), re.ASCII)


def test_keywords_and_digits_get_a_prefix() -> None:
    assert c_identifier("int") == "m_int"
    assert c_identifier("3d-model") == "m_3d_model"
    assert c_identifier("") == "model"


def test_strings_are_escaped() -> None:
    assert c_string('a"b\\c?\n\u00e9') == '"a\\"b\\\\c\\?\\012\\303\\251"'
