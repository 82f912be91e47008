from __future__ import annotations

from pathlib import Path

import pytest

from c7x.errors import (
    C7xError,
    CheckFailed,
    InternalError,
    ModelError,
    UnsupportedError,
    UsageError,
    error_classes,
    error_from_json,
)

DOCS = Path(__file__).parents[2] / "docs" / "errors.md"


def test_every_class_has_an_exit_code_of_its_own() -> None:
    codes = [cls.exit_code for cls in error_classes()]
    assert len(set(codes)) == len(codes)
    assert all(0 < code < 64 for code in codes)
    assert CheckFailed.exit_code == 1
    assert UsageError.exit_code == 2
    assert min(set(codes) - {1, 2}) == 3


def test_text_has_fact_cause_and_hint() -> None:
    assert str(ModelError("fact", cause="why", hint="do")) == "fact\ncause: why\nhint: do"
    assert str(ModelError("fact")) == "fact"


@pytest.mark.parametrize("cls", error_classes())
def test_json_and_back(cls: type[C7xError]) -> None:
    error = cls("fact", cause="why", hint=None, stage="import")
    value = error.to_json()
    assert value == {
        "status": "error",
        "error": cls.__name__,
        "message": "fact",
        "cause": "why",
        "hint": None,
        "stage": "import",
    }
    again = error_from_json(value)
    assert type(again) is cls
    assert again.to_json() == value


def test_details_travel() -> None:
    error = CheckFailed("no")
    error.details = {"outputs": []}
    assert error_from_json(error.to_json()).details == {"outputs": []}


def test_unknown_class_is_an_internal_error() -> None:
    assert type(error_from_json({"error": "Whatever", "message": "m"})) is InternalError
    assert error_from_json({}).message


@pytest.mark.skipif(not DOCS.exists(), reason="docs/errors.md is not part of this installation")
@pytest.mark.parametrize("cls", error_classes())
def test_docs_list_every_class_with_its_code(cls: type[C7xError]) -> None:
    rows = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if f"`{cls.__name__}`" in line]
    assert any(f"{cls.exit_code}" in row.replace("`", " ").replace("|", " ").split() for row in rows), rows


def test_a_subclass_elsewhere_travels_as_the_class_it_stands_for() -> None:
    """The worker sends errors as JSON: a support report must arrive as UnsupportedError with its rows, exit code 5."""
    from c7x.frontend.support import SupportError, SupportRow

    row = SupportRow(
        op="aten.stft.default", count=2, source="model.py:3", reason="complex numbers", hint="use a Conv1d"
    )
    arrived = error_from_json(SupportError([row]).to_json())
    assert type(arrived) is UnsupportedError and arrived.exit_code == 5
    assert arrived.details == {
        "rows": [
            {
                "op": "aten.stft.default",
                "count": 2,
                "source": "model.py:3",
                "reason": "complex numbers",
                "hint": "use a Conv1d",
            }
        ]
    }
