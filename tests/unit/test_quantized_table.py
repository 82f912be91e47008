"""docs/quantized-models.md against its generator: models, variants and columns; the generator's texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench import quantized
from bench.quantized import COLUMNS, OFFLOAD_COLUMNS, PAGE, VARIANTS, Row, Variant
from tests.models.quantizable import QUANTIZABLE


def test_the_page_has_the_models_variants_and_columns_of_its_generator() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = quantized.read_page(text)
    assert list(table) == [(name, variant.label) for name in QUANTIZABLE for variant in VARIANTS]
    assert {tuple(row) for row in table.values()} == {COLUMNS}
    for model in QUANTIZABLE.values():
        assert f"| {model.name} | {model.about} |" in text
    # Everything around the table is the generator's, too.
    rows = [Row(cells=row, reasons=()) for row in table.values()]
    again = quantized.page(rows, {model.name: model.about for model in QUANTIZABLE.values()})
    assert text.startswith(again)


def test_variants_are_written_as_the_options_that_ask_for_them() -> None:
    assert [v.label for v in VARIANTS] == ["int8", "int8, `-mmalib=1`", "int16", "int16 pow2, `-mmalib=1`"]
    assert Variant(dtype="int8", scale="mse", mmalib=True).target == "c_static -mcpu=c7x -mmalib=1"


def test_a_page_reads_back() -> None:
    cells = {column: f"{index}" for index, column in enumerate(COLUMNS)}
    row = Row(cells=cells, reasons=(("conv2d", 3, "not on MMALIB: dilation 2"),))
    text = quantized.page([row], {"0": "a net"})
    assert quantized.read_page(text) == {("0", "1"): cells}
    assert text.endswith("| 0 | 1 | 3 | conv2d | not on MMALIB: dilation 2 |\n")
    assert set(OFFLOAD_COLUMNS) < set(COLUMNS)


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(5, 5, "100 %"), (0, 5, "0 %"), (0, 0, "0 %"), (1, 3, "33.3 %"), (99_999, 100_000, "99.9 %"), (1, 10**6, "0.1 %")],
)
def test_only_what_is_exact_is_all_or_nothing(part: int, whole: int, text: str) -> None:
    assert quantized.share(part, whole) == text


def test_figures_are_those_of_the_worst_output() -> None:
    one = np.ones(1000)
    assert quantized.lowest_sqnr([one * 1.1, one * 1.01], [one, one]) == "20 dB"
    assert quantized.lowest_sqnr([one], [one]) == "exact"
    assert quantized.lowest_sqnr([one * (1 + 1e-9)], [one]) == "> 120 dB"
    logits = np.array([[[1.0, 2.0]], [[3.0, 0.0]], [[0.0, 1.0]]])
    assert quantized.right([logits], np.array([1, 1, 1])) == 2


def layer(**fields: Any) -> dict[str, Any]:
    return {
        "relax_ops": ["nn.conv2d"], "kernel": "k", "nodes": [], "backend": "c7x", "offloaded": True, "dtype": "int8",
        "reason": None, **fields,
    }  # fmt: skip


def test_reasons_leave_out_what_is_as_it_should_be() -> None:
    layers = [
        layer(backend="mmalib"),
        layer(reason="not on MMALIB: dilation 2"),
        layer(reason="not on MMALIB: dilation 2"),
        layer(),
        layer(relax_ops=["quantize"], backend="tvm", offloaded=False, reason="real numbers become integers here"),
        layer(
            relax_ops=["take"], backend="tvm", offloaded=False, dtype="float32", reason="no c7x kernel covers take; ..."
        ),
        layer(relax_ops=["nn.max_pool2d"]),
    ]
    assert quantized.reasons(layers, mmalib=True) == (
        ("conv2d", 2, "not on MMALIB: dilation 2"),
        ("conv2d", 1, "c7x's own kernel"),
    )
    assert quantized.reasons(layers[3:], mmalib=False) == ()
