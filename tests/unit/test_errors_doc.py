"""docs/errors.md and c7x/errors.py say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from c7x.errors import EXIT_INTERRUPTED, C7xError, error_classes

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
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


def test_interrupt_is_listed() -> None:
    assert re.search(rf"\| {EXIT_INTERRUPTED} \| Ctrl-C \|", PAGE)


def test_the_error_object_is_shown_as_it_is() -> None:
    shown = re.findall(r'^  "(\w+)":', PAGE, re.MULTILINE)
    assert shown == list(C7xError("x").to_json())
