"""``c7x visualize``: one self-contained HTML page about a build, for any browser, without a network.

The page is ``c7x/report/html`` with its style, its script and the figures put in. It shows what is there: times when
the build was profiled, accuracy when its layers were compared. The same files give the same bytes.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from c7x.errors import FormatError, WorkspaceError
from c7x.report.blocks import group_layers
from c7x.report.c_source import call_texts, kernel_texts
from c7x.report.layers import Layer, Tensor, read_layers, short_name
from c7x.reporter import SILENT, Reporter
from c7x.workspace import Workspace

REPORT = "report.html"
_ASSETS = Path(__file__).parent / "html"
#: Of a network with more layers than this, only groups are shown at first.
_COLLAPSE_ABOVE = 60

_FIGURES = ("sqnr_db", "mismatches")


def visualize_stage(ws: Workspace, *, output: Path | None = None, reporter: Reporter = SILENT) -> dict[str, Any]:
    """Write the page.

    Args:
        output: where to; by default report.html in the build directory.

    Returns:
        ``output``, ``bytes``, ``layers`` (their number), ``timed`` and ``compared`` (whether the page has times and
        accuracy).

    Raises:
        WorkspaceError: a file of the build directory is missing or damaged, or ``output`` cannot be written.
        FormatError: profile.json or accuracy.json is of another build.
    """
    inside = output is None or output.resolve() == ws.path(REPORT).resolve()
    optional = [name for name in ("profile.json", "accuracy.json") if ws.has(name)]
    inputs: list[str | Path] = ["lib0.c", "layers.json", "memory.json", "offload.json", "io.json", *optional]
    try:
        data = page_data(ws)
    except (KeyError, TypeError, IndexError) as error:
        raise WorkspaceError(
            f"the files of {ws.root} that tell about layers do not belong together ({error})",
            cause="they were edited, or written by another version of c7x",
            hint="compile the model again, and c7x profile or c7x compare --layers after that",
        ) from error
    text = page(data)
    target = ws.path(REPORT) if output is None else output
    if inside:
        with ws.stage("visualize", inputs=inputs) as stage:
            stage.write_text(REPORT, text)
    else:
        try:
            target.write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise WorkspaceError(
                f"cannot write {target}", cause=error.strerror, hint="choose another file with -o"
            ) from error
    return {
        "output": str(target),
        "bytes": len(text.encode()),
        "layers": len(data["layers"]),
        "timed": data["clock"] is not None,
        "compared": data["accuracy"] is not None,
    }


def page(data: Mapping[str, Any]) -> str:
    """The HTML page that shows ``data`` (see ``page_data``)."""
    # No "<" reaches the browser's parser from inside: neither ends the script element nor begins a comment.
    embedded = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    parts = {
        "@TITLE@": html.escape(f"{data['model']}: layers"),
        "@STYLE@": _asset("page.css"),
        "@SCRIPT@": _asset("page.js"),
        "@DATA@": embedded,
    }
    text = _asset("page.html")
    for name, value in parts.items():
        before, _, after = text.partition(name)
        text = before + value + after
    return text + "\n"


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8").strip()


def page_data(ws: Workspace) -> dict[str, Any]:
    """Everything the page shows, as JSON values.

    Raises:
        WorkspaceError, FormatError: as ``visualize_stage``.
    """
    layers = read_layers(ws)
    lib0 = ws.require("lib0.c").read_text(encoding="utf-8", errors="replace")
    memory, offload, io = ws.read_json("memory.json"), ws.read_json("offload.json"), ws.read_json("io.json")
    profile = _matching(ws, "profile.json", layers)
    accuracy = _matching(ws, "accuracy.json", layers)
    reasons = [record["reason"] for record in offload["layers"]]
    clock = None if profile is None else profile["clock"]
    calls = call_texts(lib0, len(layers))
    written = {tensor.buffer for layer in layers for tensor in layer.outputs}
    records = [
        {
            **layer.to_json(),
            "kind": _kind(layer),
            "shown": short_name(layer.name),
            "operators": layer.operators,
            "reason": reasons[layer.index],
            "call": calls[layer.index],
            "inputs": [_tensor(t) for t in layer.inputs],
            "outputs": [_tensor(t) for t in layer.outputs],
            **_times(profile, layer.index),
            "accuracy": _accuracy(accuracy, layer.index),
        }
        for layer in layers
    ]
    manifest = ws.manifest
    return {
        "model": str(manifest.get("model") or "model"),
        "facts": _facts(manifest, profile),
        "summary": _summary(layers, offload, io, profile, accuracy),
        "clock": clock,
        "accuracy": None if accuracy is None else {"dtype": accuracy["dtype"], "first_bad": accuracy["first_bad"]},
        "totals": {"time": 0 if profile is None else _time(profile["totals"], clock)},
        "collapse_above": _COLLAPSE_ABOVE,
        "layers": records,
        "edges": _edges(layers),
        "tree": [item if isinstance(item, int) else item.to_json() for item in group_layers(layers)],
        "kernels": dict(kernel_texts(lib0, {layer.kernel for layer in layers})),
        "memory": {
            "arena_bytes": memory["arena_bytes"],
            "buffers": [{**buffer, "scratch": buffer["name"] not in written} for buffer in memory["buffers"]],
        },
    }


def _matching(ws: Workspace, name: str, layers: Sequence[Layer]) -> dict[str, Any] | None:
    """A report about these layers; None when there is none."""
    if not ws.has(name):
        return None
    content: dict[str, Any] = ws.read_json(name)
    kernels = {row["index"]: row["kernel"] for row in content["layers"]}
    if any(index >= len(layers) or layers[index].kernel != kernel for index, kernel in kernels.items()):
        command = "c7x profile" if name == "profile.json" else "c7x compare --layers"
        raise FormatError(
            f"{ws.path(name)} is not about this build's layers",
            cause="the file was copied from another build directory",
            hint=f"run {command} again, or remove the file",
        )
    return content


def _kind(layer: Layer) -> str:
    """Who computes a layer: ``mmalib``, ``firmware``, ``c7x`` (a generated kernel) or ``tvm`` (a loop)."""
    if layer.backend == "c7x" and layer.kernel.startswith("c7x_"):
        return "firmware"
    return layer.backend


def _edges(layers: Sequence[Layer]) -> list[list[int]]:
    """Pairs of layers: the second reads what the first has written."""
    writer: dict[str, int] = {}
    edges = []
    for layer in layers:
        before = sorted({writer[t.buffer] for t in layer.inputs if t.buffer in writer})
        edges += [[index, layer.index] for index in before]
        writer |= {tensor.buffer: layer.index for tensor in layer.outputs}
    return edges


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return {
        "buffer": tensor.buffer,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "bytes": tensor.bytes,
        "place": tensor.place,
        "offset": tensor.offset,
    }


def _time(figures: Mapping[str, Any], clock: str | None, suffix: str = "") -> Any:
    """Seconds of a host, or cycles of a DSP."""
    return figures[f"{'cycles' if clock == 'dsp' else 'host_seconds'}{suffix}"]


def _times(profile: Mapping[str, Any] | None, index: int) -> dict[str, Any]:
    if profile is None:
        return {}
    row = profile["layers"][index]
    clock = profile["clock"]
    return {"time": _time(row, clock), "first": _time(row, clock, "_first"), "share": row["share"]}


def _accuracy(accuracy: Mapping[str, Any] | None, index: int) -> dict[str, Any] | None:
    """The comparison of a layer: of several outputs the bad one, else the first that was compared."""
    rows = [] if accuracy is None else [row for row in accuracy["layers"] if row["index"] == index]
    if not rows:
        return None
    row = min(rows, key=lambda row: (row["passed"] is not False, row["node"] is None))
    keys = ("node", "order", "passed", "note", "max_abs", *_FIGURES)
    nested = {
        key: None if row[key] is None else {figure: row[key][figure] for figure in _FIGURES}
        for key in ("chained", "float")
    }
    return {**{key: row[key] for key in keys}, **nested}


def _facts(manifest: Mapping[str, Any], profile: Mapping[str, Any] | None) -> str:
    parts = [f"target {manifest.get('target')}", f"mode {manifest.get('mode') or 'not built'}"]
    if manifest.get("board"):
        parts.append(f"board {manifest['board']}")
    parts.append(f"c7x {manifest.get('c7x')}")
    if profile is not None:
        parts.append(f"times are {profile['note']}")
    return "; ".join(parts)


def _bytes(count: int) -> str:
    return f"{count / 1e6:.2f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"


def _summary(
    layers: Sequence[Layer],
    offload: Mapping[str, Any],
    io: Mapping[str, Any],
    profile: Mapping[str, Any] | None,
    accuracy: Mapping[str, Any] | None,
) -> list[list[str]]:
    """What stands at the top of the page: label and value."""
    macs, offloaded = offload["totals"]["macs"], offload["totals"]["macs_offloaded"]
    rows = [
        ["layers", str(len(layers))],
        ["multiply-accumulates", f"{macs / 1e6:,.1f} M"],
        ["of them on kernels", f"{offloaded / macs:.1%}" if macs else "-"],
        ["weights", _bytes(io["weights_bytes"])],
        ["arena", _bytes(io["arena_bytes"])],
    ]
    if profile is not None:
        time = _time(profile["totals"], profile["clock"])
        shown = f"{time:,} cycles" if profile["clock"] == "dsp" else f"{time * 1e3:.2f} ms"
        rows.append(["of the DSP, warm" if profile["clock"] == "dsp" else "host time, warm", shown])
    if accuracy is not None:
        bad = accuracy["first_bad"]
        against = f"the {accuracy['dtype']} simulation" if accuracy["dtype"] else "PyTorch"
        compared = f"{accuracy['compared']} layers close" if bad is None else f"layer {bad} differs"
        rows.append([f"against {against}", compared])
    return rows
