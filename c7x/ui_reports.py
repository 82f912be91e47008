"""How the reports on layers look on the command line: tables of ``c7x profile`` and ``c7x compare --layers``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from c7x.report.layers import short_name
from c7x.report.offload import operator_text
from c7x.ui import format_bytes, format_seconds, table

_SYMBOL_PREFIX = "__tvm_ffi_"
#: Lists longer than this are cut, with a number in place of the rest.
_MOST_NAMES = 3


def format_count(count: float | None) -> str:
    """``9.6 M`` in units of 1,000,000; ``-`` for None and 0."""
    if not count:
        return "-"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= limit:
            return f"{count / limit:.1f} {unit}"
    return f"{count:g}"


def _short(names: Iterable[str]) -> str:
    """The first of the names, with the number of the others."""
    listed = list(names)
    if len(listed) <= _MOST_NAMES:
        return ", ".join(listed) or "-"
    return f"{', '.join(listed[: _MOST_NAMES - 1])} and {len(listed) - _MOST_NAMES + 1} more"


def _operators(row: Mapping[str, Any]) -> str:
    ops = operator_text(row).split(" + ")
    return " + ".join(ops if len(ops) <= _MOST_NAMES else [*ops[: _MOST_NAMES - 1], f"{len(ops) - 2} more"])


def _where(row: Mapping[str, Any]) -> str:
    return _short(row["source"] or row["modules"])


def _time(row: Mapping[str, Any], clock: str, suffix: str = "") -> str:
    if clock == "dsp":
        cycles = row[f"cycles{suffix}"]
        return "-" if cycles is None else f"{cycles:,}"
    seconds = row[f"host_seconds{suffix}"]
    return "-" if seconds is None else format_seconds(seconds)


def profile_tables(result: Mapping[str, Any]) -> list[Table | Text]:
    """profile.json for people: what was measured, a line for each layer, the sum."""
    clock, totals = result["clock"], result["totals"]
    rows = [
        (
            layer["index"],
            short_name(layer["name"]),
            _operators(layer),
            _where(layer),
            layer["kernel"].removeprefix(_SYMBOL_PREFIX),
            format_count(layer["macs"]),
            format_bytes(layer["bytes_in"] + layer["bytes_out"]),
            _time(layer, clock, "_first"),
            _time(layer, clock),
            f"{layer['share']:.1%}",
        )
        for layer in result["layers"]
    ]
    rows.append(
        (
            "",
            "total",
            "",
            "",
            "",
            format_count(totals["macs"]),
            format_bytes(totals["bytes_in"] + totals["bytes_out"]),
            _time(totals, clock, "_first"),
            _time(totals, clock),
            "",
        )
    )
    unit = "cycles" if clock == "dsp" else "host time"
    columns = (
        "",
        "layer",
        "operators",
        "source",
        "kernel",
        "MACs",
        "bytes",
        f"first {unit}",
        f"steady {unit}",
        "share",
    )
    parts: list[Table | Text] = [Text(f"all times are {result['note']}", style="bold"), table(columns, rows, left=5)]
    return parts + (_roofline_tables(result) if "limits" in result else [])


def _roofline_tables(result: Mapping[str, Any]) -> list[Table | Text]:
    rows = []
    for layer in result["layers"]:
        figures = layer["roofline"]
        rows.append(
            (
                layer["index"],
                short_name(layer["name"]),
                _figure(figures["macs_per_cycle"]),
                _figure(figures["macs_per_cycle_limit"]),
                _figure(figures["bytes_per_cycle"]),
                _figure(figures["bytes_per_cycle_limit"]),
                _figure(figures["macs_per_byte"]),
                f"{figures['least_cycles']:,}",
                figures["bound"],
            )
        )
    columns = ("", "layer", "MACs/cycle", "limit", "bytes/cycle", "limit", "MACs/byte", "least cycles", "bound by")
    limits = [(f"{limit['per_cycle']:,}", limit["what"], limit["source"]) for limit in result["limits"]]
    note = (
        "what the DSP's core could do at best:"
        if result["clock"] == "dsp"
        else "what the DSP's core could do at best (host times tell nothing about its cycles):"
    )
    return [
        Text(note, style="bold"),
        table(columns, rows, left=2),
        Text("the limits of one core, each a cycle:", style="bold"),
        table(("", "of", "source"), limits, left=3),
    ]


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def accuracy_tables(result: Mapping[str, Any]) -> list[Table | Text]:
    """accuracy.json for people: a line for each layer, then where to look."""
    quantized = result["dtype"] is not None
    rows = []
    for row in result["layers"]:
        if row["node"] is None:
            verdict, figures = Text(row["note"], style="dim"), ("", "", "", "")
        else:
            verdict = Text("ok", style="green") if row["passed"] else Text("BAD", style="bold red")
            own = (_decibels(row), _number(row["cosine"], "{:.6f}"), _number(row["max_abs"], "{:.3g}"))
            figures = (*own, _decibels(row["chained"]))
        cells = [row["index"], short_name(row["buffer"]), _operators(row), _where(row), *figures]
        if quantized:
            cells.append(_decibels(row["float"]) if row["float"] is not None else "")
        rows.append((*cells, verdict))
    columns = ["", "layer", "operators", "source", "SQNR", "cosine", "max error", "SQNR in chain"]
    against = f"the {result['dtype']} model simulated in PyTorch" if quantized else "PyTorch"
    parts: list[Table | Text] = [
        Text(f"every layer against {against}:", style="bold"),
        table((*columns, *(["SQNR to float"] if quantized else []), ""), rows, left=4),
    ]
    bad = next((row for row in result["layers"] if row["passed"] is False), None)
    if bad is None:
        parts.append(
            Text(f"{result['compared']} of {len(result['layers'])} outputs of layers compared, all close enough")
        )
        return [*parts, *_farthest(result)]
    text = (
        f"the first bad layer is {bad['index']}, {bad['name']} ({_where(bad)}), kernel {bad['kernel']}: {bad['note']}"
    )
    return [*parts, Text(text, style="bold red"), *_farthest(result)]


def _farthest(result: Mapping[str, Any]) -> list[Text]:
    """Which layer of a quantised model lost most."""
    rows = [row for row in result["layers"] if row["float"] is not None and row["float"]["sqnr_db"] is not None]
    if not rows:
        return []
    worst = min(rows, key=lambda row: float(row["float"]["sqnr_db"]))
    text = f"farthest from the float model: layer {worst['index']}, {worst['name']} ({_where(worst)}), "
    return [Text(f"{text}{worst['float']['sqnr_db']:.1f} dB")]


def _decibels(row: Mapping[str, Any]) -> str:
    if row["sqnr_db"] is not None:
        return f"{row['sqnr_db']:.1f} dB"
    return "exact" if not row["mismatches"] else "-"


def _number(value: float | None, pattern: str) -> str:
    return "-" if value is None else pattern.format(value)
