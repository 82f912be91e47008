"""How the command line looks: progress and messages on standard error, results on standard output.

On a terminal a spinner shows what is going on; anywhere else there are plain lines only. Rich's markup is never
interpreted in text that comes from elsewhere (file names, the user's output).
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from c7x.engine.events import Listener
from c7x.errors import C7xError
from c7x.report.offload import operator_text, place_text, runner_text

Verbosity = Literal["quiet", "normal", "verbose"]

_PLAIN_WIDTH = 160


def make_console(*, stderr: bool, no_color: bool) -> Console:
    """A console that never breaks lines by itself when its output is not a terminal."""
    console = Console(stderr=stderr, no_color=no_color or None, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _PLAIN_WIDTH
    return console


def format_bytes(count: int | None) -> str:
    """``4.0 MB`` in units of 1,000,000; ``-`` for None."""
    if count is None:
        return "-"
    if count < 1000:
        return f"{count} B"
    return f"{count / 1e3:.1f} kB" if count < 1_000_000 else f"{count / 1e6:.1f} MB"


def format_seconds(seconds: float) -> str:
    """``1.2 s``; below a tenth of a second in milliseconds, below a millisecond in microseconds."""
    if seconds >= 0.1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, left: int = 1) -> Table:
    """A borderless table; the first ``left`` columns are flush left, the others flush right."""
    result = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(columns), header_style="bold")
    for index, column in enumerate(columns):
        result.add_column(Text(column), justify="left" if index < left else "right", overflow="fold")
    for row in rows:
        result.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    return result


class Terminal(Listener):
    """Shows a chain of stages while it runs; use as a context manager."""

    def __init__(self, *, verbosity: Verbosity = "normal", no_color: bool = False) -> None:
        self.verbosity = verbosity
        self.console = make_console(stderr=True, no_color=no_color)
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._title = ""

    def __enter__(self) -> Terminal:
        if self.console.is_terminal and self.verbosity != "quiet":
            self._progress = Progress(
                SpinnerColumn(),
                # A compiler call is longer than any line; what does not fit is of no use for a moment's glance.
                TextColumn(
                    "{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
                ),
                TimeElapsedColumn(),
                console=self.console,
                expand=True,
                transient=True,
            )
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def line(self, text: str, style: str = "") -> None:
        """One line, however long."""
        self.console.print(Text(text, style=style), soft_wrap=True)

    def _begin(self, title: str) -> None:
        self._title = title
        if self._progress is not None:
            if self._task is not None:
                self._progress.remove_task(self._task)
            self._task = self._progress.add_task(title)

    def _done(self, title: str, seconds: float) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None
        if self.verbosity != "quiet":
            self.line(f"{title:<24} {format_seconds(seconds):>8}")

    def loading(self, what: str) -> None:
        self._begin(f"loading {what}")

    def loaded(self, what: str, seconds: float) -> None:
        self._done(f"loading {what}", seconds)

    def stage(self, name: str) -> None:
        self._begin(name)

    def finished(self, name: str, seconds: float) -> None:
        self._done(name, seconds)

    def info(self, text: str) -> None:
        if self.verbosity != "quiet":
            self.line(text)

    def warn(self, text: str) -> None:
        self.line(f"warning: {text}", "yellow")

    def progress(self, text: str) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=f"{self._title}: {text}")
        if self.verbosity == "verbose":
            self.line(f"{self._title}: {text}", "dim")

    def output(self, text: str) -> None:
        if self.verbosity != "quiet":
            self.line(text, "dim")


def print_error(error: C7xError, *, no_color: bool = False, with_traceback: bool = False) -> None:
    """``error: ...``, ``cause: ...``, ``hint: ...`` on standard error."""
    console = make_console(stderr=True, no_color=no_color)
    if with_traceback:
        console.print(Text("".join(traceback.format_exception(error)), style="dim"), soft_wrap=True)
    if error.details is not None and "outputs" in error.details:
        for part in comparison_tables(error.details):
            console.print(part)
    where = f" ({error.stage} stage)" if error.stage else ""
    # Behind the sentence, not behind a table or traceback that follows it.
    fact, *rest = error.message.split("\n", 1)
    for label, text, style in (
        ("error", "\n".join([f"{fact}{where}", *rest]), "bold red"),
        ("cause", error.cause, "yellow"),
        ("hint", error.hint, "green"),
    ):
        if text:
            console.print(Text.assemble((f"{label}: ", style), text), soft_wrap=True)


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON object on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")
    sys.stdout.flush()


# ------------------------------------------------------------------------------------------------ tables of commands


def _figure(value: float | None, pattern: str = "{:.3g}", missing: str = "-") -> str:
    return missing if value is None else pattern.format(value)


def comparison_table(outputs: Sequence[Mapping[str, Any]]) -> Table:
    """The outputs of ``c7x compare``."""
    rows = []
    for output in outputs:
        verdict = Text("ok", style="green") if output["passed"] else Text("FAILED", style="bold red")
        rows.append(
            (
                output["name"],
                f"{output['dtype']}{list(output['shape'])}",
                _figure(output["max_abs"]),
                _figure(output["max_rel"]),
                _figure(output["sqnr_db"], "{:.1f} dB", "exact"),
                _figure(output["cosine"], "{:.6f}"),
                str(output["mismatches"]),
                verdict,
            )
        )
    columns = ("output", "type", "max abs", "max rel", "SQNR", "cosine", "different", "")
    return table(columns, rows, left=2)


def comparison_tables(result: Mapping[str, Any]) -> list[Table | Text]:
    """What ``c7x compare`` found; for a quantized model against the simulation, which decides, and against float."""
    if "float_outputs" not in result:
        return [comparison_table(result["outputs"])]
    return [
        Text(f"against the {result['dtype']} model simulated in PyTorch:", style="bold"),
        comparison_table(result["outputs"]),
        Text("against the float model (what quantization costs; for information):", style="bold"),
        comparison_table(result["float_outputs"]),
    ]


def quantization_tables(report: Mapping[str, Any]) -> list[Table | Text]:
    """quantize.json for people: a line for each quantized activation, then the operators that stay float."""
    rows = [
        (
            item["name"],
            item["op"].removeprefix("aten."),
            item["source"] or item["module"] or "-",
            f"{item['scale']:.6g}",
            item["zero_point"],
            f"{_figure(item['min'])} .. {_figure(item['max'])}",
            _figure(item["sqnr_db"], "{:.1f} dB"),
            f"{item['saturation']:.3%}",
        )
        for item in report["activations"]
    ]
    columns = ("tensor", "operator", "source", "scale", "zero point", "range", "SQNR", "saturated")
    parts: list[Table | Text] = [table(columns, rows, left=3)]
    if report["float_operators"]:
        parts.append(Text("operators that stay float:", style="bold"))
        rest = [(item["op"], item["source"] or "-", item["count"]) for item in report["float_operators"]]
        parts.append(table(("operator", "source", "count"), rest, left=2))
    outputs = [(item["name"], _figure(item["sqnr_db"], "{:.1f} dB", "exact")) for item in report["outputs"]]
    parts.append(table(("output", "SQNR against float"), outputs))
    return parts


def offload_tables(offload: Mapping[str, Any]) -> list[Table | Text]:
    """Where every layer runs, with the reasons below as numbered notes, and the totals."""
    layers, totals = offload["layers"], offload["totals"]
    reasons = list(dict.fromkeys(layer["reason"] for layer in layers if layer["reason"]))
    rows = [
        (
            layer["index"],
            operator_text(layer),
            place_text(layer),
            str(layer["kernel"]).removeprefix("__tvm_ffi_"),
            runner_text(layer),
            layer["dtype"],
            f"{layer['macs']:,}" if layer["macs"] else "-",
            f"[{reasons.index(layer['reason']) + 1}]" if layer["reason"] else "",
        )
        for layer in layers
    ]
    columns = ("layer", "operator", "source", "kernel", "runs on", "result", "MACs", "note")
    parts: list[Table | Text] = [table(columns, rows, left=6)]
    if reasons:
        parts.append(table(("", ""), [(f"[{i}]", reason) for i, reason in enumerate(reasons, 1)], left=2))
    counts = [(c["kind"], c["total"], c["integer"], c["mmalib"], c["offloaded"]) for c in offload["operators"]]
    if counts:
        parts.append(table(("operators", "all", "integer kernels", "of these MMALIB", "any kernel"), counts))
    share = [
        f"{label} {totals[key] / totals['macs']:.1%}"
        for label, key in (
            ("kernels", "macs_offloaded"),
            ("integer kernels", "macs_integer"),
            ("MMALIB", "macs_mmalib"),
        )
        if totals["macs"]
    ]
    summary = [f"{totals['macs']:,} multiply-accumulates{': ' if share else ''}{', '.join(share)}"]
    if totals["macs_integer"]:
        summary.append(
            f"operators that compute real numbers between quantized ones: {totals['float_ops_between_boundaries']}"
        )
    parts.append(Text("\n".join(summary)))
    return parts


def l2_table(layers: Sequence[Mapping[str, Any]]) -> Table:
    """What the calls of MMALIB kernels find in L2."""
    rows = [
        (
            layer["index"],
            layer["name"],
            layer["kernel"],
            f"{layer['staged']} of {layer['tile']}" if layer["tile"] else layer["staged"],
            layer["reason"] or "",
            layer["kernel_calls"],
            format_bytes(layer["bytes"]),
        )
        for layer in layers
    ]
    return table(("layer", "name", "kernel", "in L2", "why not more", "calls", "L2"), rows, left=5)


def bench_table(result: Mapping[str, Any]) -> Table:
    """The contenders of ``c7x bench``; host times only."""
    rows = [
        (
            entry["name"],
            f"{entry['median_seconds'] * 1e3:.3f} ms",
            f"{entry['min_seconds'] * 1e3:.3f} ms",
            _figure(entry["ratio"], "{:.2f}"),
            format_bytes(entry["peak_rss_bytes"]),
        )
        for entry in result["contenders"]
    ]
    return table(("host time, one thread", "median", "fastest", "cg_dsp / it", "peak memory"), rows)


def doctor_table(checks: Sequence[Mapping[str, Any]]) -> Table:
    """The findings of ``c7x doctor``."""
    styles = {"ok": "green", "missing": "yellow", "broken": "bold red"}
    rows = [
        (
            Text(check["status"], style=styles[check["status"]]),
            check["name"],
            check["found"] or "",
            check["hint"] or "" if check["status"] != "ok" else "",
        )
        for check in checks
    ]
    return table(("", "what", "found", "how to get it"), rows, left=4)


def module_tables(result: Mapping[str, Any]) -> Iterable[Table]:
    """What ``c7x inspect`` found in a module: facts, segments, names, checks."""
    memory = result["memory"]
    facts = [
        ("machine", result["machine"]),
        ("size", f"{format_bytes(result['bytes'])} of {format_bytes(memory['staging_limit'])} staging"),
        ("pool", f"{format_bytes(memory['pool_bytes'])} of {format_bytes(memory['pool_limit'])}"),
        ("in place", format_bytes(memory["in_place_bytes"])),
        ("weights", format_bytes(result["weights_bytes"]) if result["weights_bytes"] is not None else "not embedded"),
        ("soname", result["soname"] or "-"),
        ("needed", ", ".join(result["needed"]) or "-"),
        ("exports", ", ".join(result["exports"]) or "-"),
        ("imports", ", ".join(name for name, uses in result["imports"].items() if uses) or "-"),
    ]
    facts += [
        (f"on {name}", f"lacks {', '.join(missing)}" if missing else "has all imports")
        for name, missing in result["boards"].items()
    ]
    yield table(("", ""), facts, left=2)
    rows = [
        (
            f"{s['offset']:#x}",
            f"{s['address']:#x}",
            s["permissions"],
            s["placement"],
            s["file_bytes"],
            s["memory_bytes"],
        )
        for s in result["segments"]
    ]
    yield table(("file offset", "address", "", "placement", "in file", "in memory"), rows, left=4)
    styles = {"ok": "green", "failed": "bold red", "skipped": "yellow"}
    checks = [(Text(c["status"], style=styles[c["status"]]), c["rule"], c["found"] or "") for c in result["checks"]]
    yield table(("", "rule", "found"), checks, left=3)
