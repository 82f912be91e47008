"""Rows of docs/quantized-models.md measured anew: what the page says is what the compiler does."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.quantized import OFFLOAD_COLUMNS, PAGE, SQNR_COLUMNS, measure_model, read_page

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

#: Another processor adds PyTorch's float32 sums in another order, which moves single values by a step.
TOLERANCE_DB = 2.0


def decibels(cell: str) -> float:
    return 120.0 if cell in ("exact", "> 120 dB") else float(cell.removesuffix(" dB"))


@pytest.mark.parametrize("name", ["mtcnn_onet", "silero_vad"])
def test_rows_are_still_true(name: str, tmp_path: Path) -> None:
    table = read_page(PAGE.read_text(encoding="utf-8"))
    for row in measure_model(name, tmp_path):
        written = table[name, row.cells["variant"]]
        assert {c: row.cells[c] for c in OFFLOAD_COLUMNS} == {c: written[c] for c in OFFLOAD_COLUMNS}
        for column in SQNR_COLUMNS:
            # Beyond 60 dB a single value off by one step is several dB.
            now, then = (min(decibels(cells[column]), 60.0) for cells in (row.cells, written))
            assert abs(now - then) <= TOLERANCE_DB, (row.cells["variant"], column, row.cells[column], written[column])
