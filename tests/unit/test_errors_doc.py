"""docs/errors.md and c7x/errors.py say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from c7x.errors import EXIT_INTERRUPTED, C7xError, error_classes
from c7x.run.protocol import Status

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in PAGE.splitlines() if line.startswith("| `")]


def test_every_class_has_a_row_with_its_exit_code() -> None:
    assert [(row[0].strip(" `"), int(row[1])) for row in ROWS] == [
        (cls.__name__, cls.exit_code) for cls in error_classes()
    ]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip(" `"))
def test_every_row_says_what_happened_why_and_what_to_do(row: list[str]) -> None:
    assert len(row) == 5
    assert all(len(cell) > 10 for cell in row[2:])


def test_exit_codes_are_distinct_and_leave_the_reserved_ones_alone() -> None:
    codes = [cls.exit_code for cls in error_classes()]
    assert len(set(codes)) == len(codes)
    assert 0 not in codes
    assert max(codes) < 126


def _code_rows() -> dict[str, int]:
    """Names of the DSP's and the library's codes, each with a cause and a cure."""
    rows = re.findall(r"^\| (-?\d+) \| `((?:ERR|C7X)_\w+)` \| (.{10,}) \| (.{10,}) \|$", PAGE, re.MULTILINE)
    return {name: int(code) for code, name, _, _ in rows}


def test_every_status_of_the_dsp_is_listed() -> None:
    found = {name: code for name, code in _code_rows().items() if name.startswith("ERR_")}
    assert found == {status.name: status.value for status in Status if status != Status.SUCCESS}


def test_every_code_of_the_library_is_listed() -> None:
    header = (ROOT / "native" / "arm" / "include" / "c7x_client.h").read_text(encoding="utf-8")
    codes = re.findall(r"(C7X_CLIENT_ERR_\w+) = (\d+)", header)
    found = {name: code for name, code in _code_rows().items() if name.startswith("C7X_")}
    assert found == {name: int(code) for name, code in codes}


def test_interrupt_is_listed() -> None:
    assert re.search(rf"\| {EXIT_INTERRUPTED} \| Ctrl-C \|", PAGE)


def test_the_error_object_is_shown_as_it_is() -> None:
    shown = re.findall(r'^  "(\w+)":', PAGE, re.MULTILINE)
    assert shown == list(C7xError("x").to_json())
