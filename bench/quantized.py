"""What quantised models cost and where they run: ``make quantized-table``, or ``python -m bench.quantized``.

Every model of ``tests/models/quantizable.py`` is compiled to int8 and int16, for c7x's own kernels and for MMALIB, run
on inputs that calibration has not seen, and compared with PyTorch's simulation of the integers and with the float
model. The result is docs/quantized-models.md. All figures are of results and counts; none is a time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "quantized-models.md"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """How a model is compiled: data type, scales, target attributes."""

    dtype: str
    scale: str
    mmalib: bool

    @property
    def label(self) -> str:
        """The variant as the table shows it, in the options that ask for it."""
        scale = " pow2" if self.scale == "pow2" else ""
        return f"{self.dtype}{scale}{', `-mmalib=1`' if self.mmalib else ''}"

    @property
    def target(self) -> str:
        return f"c_static -mcpu=c7x{' -mmalib=1' if self.mmalib else ''}"


#: int16 on MMALIB needs scales that are powers of two: its wrappers scale by 8 bits.
VARIANTS = (
    Variant(dtype="int8", scale="mse", mmalib=False),
    Variant(dtype="int8", scale="mse", mmalib=True),
    Variant(dtype="int16", scale="mse", mmalib=False),
    Variant(dtype="int16", scale="pow2", mmalib=True),
)

#: Operators of ``c7x.report.offload.KINDS`` -> the table's column.
COUNTED = {"convolution": "conv", "linear": "linear", "matmul": "matmul", "add": "add", "pool": "pool"}
OFFLOAD_COLUMNS = (*COUNTED.values(), "MACs on integers", "MACs on MMALIB", "float ops")
SQNR_COLUMNS = ("simulation to float", "C to float", "C to simulation")
COLUMNS = ("model", "variant", *OFFLOAD_COLUMNS, *SQNR_COLUMNS, "largest step", "right")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model in one variant: the table's cells by column, and the reasons (operator, how often, text) for what is
    not where one would expect it."""

    cells: Mapping[str, str]
    reasons: tuple[tuple[str, int, str], ...]


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


# ---------------------------------------------------------------------------------------------------------- measuring


def measure_model(name: str, folder: Path, variants: Sequence[Variant] = VARIANTS) -> list[Row]:
    """Compile and run a model of ``QUANTIZABLE`` in each variant; ``folder`` takes the build directory."""
    import torch

    from c7x.codegen.stage import codegen_stage
    from c7x.frontend.export import export_stage
    from c7x.frontend.importer import import_stage
    from c7x.quantize.stage import quantize_stage
    from c7x.report.reference import Reference
    from c7x.target import Target
    from c7x.toolchain.gnu import BuildOptions
    from c7x.toolchain.stage import build_stage
    from c7x.workspace import Workspace
    from tests.models.quantizable import QUANTIZABLE, write_quantizable_file

    torch.set_num_threads(1)
    model = QUANTIZABLE[name]
    source = write_quantizable_file(model, folder)
    ws = Workspace(folder / "build")
    export_stage(ws, source=source)
    samples = [[tensor.numpy() for tensor in sample] for sample in model.held_out_inputs()]
    floats = _outputs(Reference(ws), samples)
    labels = None if model.labels is None else model.labels().numpy()
    rows = []
    done: tuple[str, str] | None = None
    simulated: list[list[Any]] = []
    for variant in variants:
        say(f"{name}: {variant.label}")
        if done != (variant.dtype, variant.scale):
            done = (variant.dtype, variant.scale)
            quantize_stage(ws, dtype=variant.dtype, scale=variant.scale, keep_float=model.keep_float, source=source)  # type: ignore[arg-type]
            import_stage(ws)
            reference = Reference(ws, f"model.{variant.dtype}.pt2")
            simulated, steps = _outputs(reference, samples), output_steps(reference.program)
        codegen_stage(ws, target=Target.parse(variant.target))
        # Short for the C compiler; the integer kernels give the same bits at every level.
        build_stage(ws, options=BuildOptions(march="native", cflags=("-O1",)))
        results = _run(ws, samples)
        accuracy = None if labels is None else (right(results, labels), right(floats, labels), len(labels))
        rows.append(_row(name, variant, ws, results, simulated, floats, steps, accuracy))
    return rows


def _outputs(reference: Any, samples: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """For each output of a program: its values on all samples, stacked."""
    return _stacked(reference.outputs(sample) for sample in samples)


def _run(ws: Any, samples: Sequence[Sequence[Any]]) -> list[Any]:
    from c7x.run.host import run_host

    return _stacked(run_host(ws, sample).outputs for sample in samples)


def _stacked(results: Iterable[Sequence[Any]]) -> list[Any]:
    import numpy as np

    return [np.stack(values) for values in zip(*results, strict=True)]


def right(outputs: Sequence[Any], labels: Any) -> int:
    """How many samples the first output, logits [samples, 1, classes], puts into the right class."""
    return int((outputs[0].reshape(len(labels), -1).argmax(1) == labels).sum())


def output_steps(program: Any) -> list[float | None]:
    """The real value of one unit of each output; None for an output that is no dequantised tensor."""
    steps = []
    for node in program.graph.output_node().args[0]:
        while getattr(node, "op", "") == "call_function" and str(node.target).startswith(("aten.view", "aten.squeeze")):
            node = node.args[0]
        known = "dequantize_per_tensor" in str(getattr(node, "target", ""))
        steps.append(float(node.args[1]) if known else None)
    return steps


def _row(
    name: str,
    variant: Variant,
    ws: Any,
    results: Sequence[Any],
    simulated: Sequence[Any],
    floats: Sequence[Any],
    steps: Sequence[float | None],
    accuracy: tuple[int, int, int] | None,
) -> Row:
    import numpy as np

    from c7x.report.offload import offload_summary

    summary = offload_summary(ws)
    assert summary is not None
    totals = summary["totals"]
    found = {item["kind"]: f"{item['integer']}/{item['total']}" for item in summary["operators"]}
    cells = {
        "model": name,
        "variant": variant.label,
        **{column: found.get(kind, "-") for kind, column in COUNTED.items()},
        "MACs on integers": share(totals["macs_integer"], totals["macs"]),
        "MACs on MMALIB": share(totals["macs_mmalib"], totals["macs"]) if variant.mmalib else "-",
        "float ops": str(totals["float_ops_between_boundaries"]),
        "simulation to float": lowest_sqnr(simulated, floats),
        "C to float": lowest_sqnr(results, floats),
        "C to simulation": lowest_sqnr(results, simulated),
        "largest step": "-",
        "right": "-",
    }
    known = [(r, s, step) for r, s, step in zip(results, simulated, steps, strict=True) if step]
    if known:
        cells["largest step"] = str(round(max(float(np.abs(r - s).max()) / step for r, s, step in known)))
    if accuracy is not None:
        cells["right"] = f"{accuracy[0]} of {accuracy[2]} (float {accuracy[1]})"
    return Row(cells=cells, reasons=reasons(summary["layers"], mmalib=variant.mmalib))


def share(part: int, whole: int) -> str:
    """A percentage that is 100 or 0 only when it is exact."""
    if part in (0, whole) or whole == 0:
        return "100 %" if part and part == whole else "0 %"
    return f"{min(max(100.0 * part / whole, 0.1), 99.9):.1f} %"


def lowest_sqnr(values: Sequence[Any], references: Sequence[Any]) -> str:
    """The lowest SQNR among the outputs, in whole dB."""
    from c7x.report.compare import compare_arrays

    found = [compare_arrays(v, r).sqnr_db for v, r in zip(values, references, strict=True)]
    known = [value for value in found if value is not None]
    if not known:
        return "exact"
    # Beyond that it is float32's own rounding.
    return f"{min(known):.0f} dB" if min(known) < 120 else "> 120 dB"


def reasons(layers: Sequence[Mapping[str, Any]], *, mmalib: bool) -> tuple[tuple[str, int, str], ...]:
    """(operator, how often, reason) of the layers that are not where one would expect them."""
    from c7x.report.offload import operator_text

    counts: dict[tuple[str, str], int] = {}
    for layer in layers:
        if reason := _reason(layer, mmalib=mmalib):
            key = (operator_text(layer), reason)
            counts[key] = counts.get(key, 0) + 1
    return tuple((operator, count, reason) for (operator, reason), count in counts.items())


def _reason(layer: Mapping[str, Any], *, mmalib: bool) -> str:
    from c7x.codegen.layers import EXPECTED_LOOPS
    from c7x.report.offload import is_integer_kernel, kinds_of

    reason = str(layer["reason"] or "")
    if reason in EXPECTED_LOOPS:
        return ""
    if layer["backend"] == "tvm" and layer["dtype"].startswith("float") and reason.startswith("no c7x kernel"):
        return ""  # a loop before the first quantised tensor, or behind the last
    if mmalib and not reason and layer["backend"] != "mmalib" and is_integer_kernel(layer):
        products = {"convolution", "linear", "matmul"} & set(kinds_of(layer))
        return "c7x's own kernel" if products else ""
    return reason


# --------------------------------------------------------------------------------------------------------------- page

_HEAD = """\
# Quantized models

What runs where, and what quantization costs, for ten models. `make quantized-table` writes this page and takes some
minutes. No figure here is a time.

"""

_COLUMNS_TEXT = """
How to read it:

* **variant**: `--quantize int8` or `int16`, with `--quantize-scale pow2`, and with `-mmalib=1` in the target; without
  that, c7x's own kernels are used.
* **conv, linear, matmul, add, pool**: how many run on an integer kernel (MMALIB's, the firmware's or c7x's own), of how
  many there are. A bias is part of its layer; `add` counts sums of tensors, residual ones above all. A matmul is a
  product of two computed matrices.
* **MACs on integers, on MMALIB**: the share of the multiply-accumulates.
* **float ops**: operators that compute real numbers after a quantized tensor and before another.
* **simulation to float, C to float, C to simulation**: SQNR of the outputs, of the worst one where there are several,
  on inputs that calibration has not seen. The simulation is PyTorch's of the same integers.
* **largest step**: the largest difference between C and the simulation, in units of the output's scale; `-` where the
  outputs are computed in float.
* **right**: held-out images in the right class, by the compiled model and by the float model.

With `-mmalib=1` the firmware's kernels are run by their host reference, bit for bit as they are defined. Their scales
have 8 bits, which moves C away from the simulation; scales that are powers of two (`pow2`) fit without loss.

The figures against float are properties of the weights more than of the compiler. "Initial weights, learnt statistics"
are PyTorch's initial weights with batch norms that have seen four batches of synthetic pictures in training mode. How
much noise such a net magnifies depends on how far its statistics have moved: with norms that fit the pictures exactly,
ResNet-18 falls to 22 dB and MobileNetV2 to 4 dB (int8, at 64 x 64, `--quantize-scale minmax`). What your own net loses
is what `c7x quantize --report` says about it.
"""

_REASONS_TEXT = """
## What is not where one would expect it

Layers that compute in float between quantized ones, and layers that `-mmalib=1` leaves to c7x's own kernels.

"""


def page(rows: Sequence[Row], models: Mapping[str, str]) -> str:
    """The page: table, models in words, reasons.

    Args:
        rows: in the order in which they are shown.
        models: name -> what it is, of the models in the rows.
    """
    lines = [_line(COLUMNS), _line("---" if c in ("model", "variant") else "---:" for c in COLUMNS)]
    lines += [_line(row.cells[column] for column in COLUMNS) for row in rows]
    text = _HEAD + "\n".join(lines) + "\n" + _COLUMNS_TEXT
    text += "\n## The models\n\n| model | what it is |\n|---|---|\n"
    text += "".join(f"| {name} | {about} |\n" for name, about in models.items())
    text += _REASONS_TEXT + "| model | variant | layers | operator | reason |\n|---|---|---:|---|---|\n"
    for row in rows:
        for operator, count, reason in row.reasons:
            text += _line([row.cells["model"], row.cells["variant"], str(count), operator, reason]) + "\n"
    return text


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def read_page(text: str) -> dict[tuple[str, str], dict[str, str]]:
    """The first table of a page: (model, variant) -> cells by column."""
    table = []
    for line in text.splitlines():
        if line.startswith("|"):
            table.append([cell.strip() for cell in line.strip("|").split("|")])
        elif table:
            break
    header, _, *rows = table
    found = [dict(zip(header, row, strict=True)) for row in rows]
    return {(row["model"], row["variant"]): row for row in found}


def main(arguments: Sequence[str] | None = None) -> int:
    from tests.models.quantizable import QUANTIZABLE

    parser = argparse.ArgumentParser(prog="python -m bench.quantized", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument(
        "--models", nargs="+", default=list(QUANTIZABLE), metavar="NAME", help="only these; default: all"
    )
    parser.add_argument("--output", type=Path, default=PAGE, help="default docs/quantized-models.md; - prints the page")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.models if name not in QUANTIZABLE]:
        parser.error(f"there is no model {', '.join(unknown)}; there are {', '.join(QUANTIZABLE)}")
    rows: list[Row] = []
    for name in options.models:
        with tempfile.TemporaryDirectory(prefix="c7x-quantized-") as scratch:
            rows += measure_model(name, Path(scratch))
    text = page(rows, {name: QUANTIZABLE[name].about for name in options.models})
    if str(options.output) == "-":
        sys.stdout.write(text)
    else:
        options.output.write_text(text, encoding="utf-8")
        say(f"wrote {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
