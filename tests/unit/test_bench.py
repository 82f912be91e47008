"""The bench's arithmetic and tables, without compiling or timing anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.common import ratios, spread
from bench.int8 import OURS, write_qdq
from bench.run import int8_lines, machine


def test_ratios_are_of_the_times_of_one_round() -> None:
    found = ratios({"ours": [1.0, 4.0, 3.0], "theirs": [2.0, 4.0, 1.0], "others": [1.0, 1.0, 1.0]})
    assert found == {
        "theirs": {"median": 1.0, "min": 0.5, "max": 3.0},
        "others": {"median": 3.0, "min": 1.0, "max": 4.0},
    }
    assert ratios({"ours": [1.0]}) == {}


def test_the_int8_table() -> None:
    model = {
        "name": "net",
        "host_seconds": {OURS: spread([0.001, 0.003]), "theirs": spread([0.004])},
        "ratios": {"theirs": {"median": 0.5, "min": 0.25, "max": 0.75}},
        "sqnr_db": {OURS: 35.2, "theirs": 30.0},
    }
    lines = int8_lines([model])
    assert lines[-2] == "| net | cg_dsp int8 | 2.00 | 1.00 | 3.00 |  | 35 dB |"
    assert lines[-1] == "| net | theirs | 4.00 | 4.00 | 4.00 | 0.50 (0.25 to 0.75) | 30 dB |"
    # Without onnxruntime there is a line less and no ratio.
    alone = {**model, "host_seconds": {OURS: spread([0.002])}, "ratios": {}}
    assert len(int8_lines([alone])) == len(lines) - 1
    assert int8_lines([]) == []


def test_a_machine_without_onnx_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """``bench_int8`` catches this and goes on without onnxruntime."""
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match="onnx"):
        write_qdq(None, [], Path("nowhere"))


def test_a_machine_without_onnxruntime_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata

    known = importlib.metadata.version

    def version(name: str) -> str:
        if name == "onnxruntime":
            raise importlib.metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert machine()["versions"]["onnxruntime"] == "missing"
