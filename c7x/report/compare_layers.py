"""``c7x compare --layers``: what each layer computes against what PyTorch computes there.

The build runs as a debug artefact (``c7x.report.dump``), PyTorch runs the exported graph node by node, and both are
brought together by the names of buffers and nodes (``c7x.report.align``). Layers run one after the other on what the
ones before gave, so an error shows from the layer that makes it onwards: the first bad layer is where to look.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from c7x.errors import CheckFailed
from c7x.report.align import Match, Order, choose_order, in_node_order, match_buffer, orders, unfinished
from c7x.report.compare import (
    QUANTIZED_SQNR_DB,
    Metrics,
    Tolerance,
    compare_arrays,
    explain,
    quantized_tolerance,
)
from c7x.report.dump import run_dumped
from c7x.report.layer_reference import LayerReference, Wanted
from c7x.report.layers import Layer, Tensor, read_layers
from c7x.reporter import SILENT, Reporter
from c7x.run.tensors import check_inputs, load_inputs, read_specs
from c7x.workspace import Workspace

ACCURACY = "accuracy.json"

_STEP = "a step on the way to a node"
_NO_NODE = "no node of the exported graph has this value"
_OTHER_SHAPE = "its shape is not that of the node"
_OTHER_SCALE = "its integers are none that PyTorch computes"


@dataclass(frozen=True, kw_only=True)
class LayerComparison:
    """One output of a layer.

    Attributes:
        node: the node it was compared with; None when there is none, and ``note`` says why.
        order: how its elements lie in memory.
        metrics: against PyTorch, for a quantised model against the simulation of the integers.
        float_metrics: of a quantised model, against the float model; None where the node is not in it.
        passed: whether it is close enough; None without a node.
        note: why it was not compared, or why it is not close enough; None otherwise.
    """

    layer: Layer
    buffer: str
    node: str | None = None
    order: Order | None = None
    metrics: Metrics | None = None
    float_metrics: Metrics | None = None
    passed: bool | None = None
    note: str | None = None

    def to_json(self) -> dict[str, Any]:
        keys = ("index", "name", "kernel", "relax_ops", "source", "modules")
        record = self.layer.to_json()
        return {
            **{key: record[key] for key in keys},
            "buffer": self.buffer,
            "node": self.node,
            "order": self.order,
            "passed": self.passed,
            "note": self.note,
            **_metrics_to_json(self.metrics),
            "float": None if self.float_metrics is None else _metrics_to_json(self.float_metrics),
        }


def _metrics_to_json(metrics: Metrics | None) -> dict[str, Any]:
    keys = ("max_abs", "max_rel", "sqnr_db", "cosine", "mismatches", "count")
    values = {key: None if metrics is None else getattr(metrics, key) for key in keys}
    if values["sqnr_db"] == -math.inf:
        values["sqnr_db"] = None
    return values


def compare_layers_stage(
    ws: Workspace, *, inputs: Sequence[Path] = (), tolerance: Tolerance | None = None, reporter: Reporter = SILENT
) -> dict[str, Any]:
    """Compare every layer with PyTorch and write accuracy.json.

    Args:
        inputs: files as in ``load_inputs``; none for the example inputs.
        tolerance: what passes; by default ``Tolerance()``, for a quantised model ``quantized_tolerance`` of each layer.

    Returns:
        The content of accuracy.json: ``dtype`` (of a quantised model), ``layers`` (see ``LayerComparison``),
        ``compared`` (how many outputs have a node), ``first_bad`` (index of the first layer that is not close enough,
        or None).

    Raises:
        CheckFailed: there is a bad layer; its ``details`` hold the same.
        FormatError, ToolError, RunError, CrashError, WorkspaceError: the comparison could not be made.
    """
    layers = read_layers(ws)
    dtype = ws.read_json("quantize.json")["dtype"] if ws.has("quantize.json") else None
    program = f"model.{dtype}.pt2" if dtype else "model.pt2"
    files: list[str | Path] = [
        "lib0.c",
        "devc.c",
        "weights.bin",
        "io.json",
        "layers.json",
        "memory.json",
        program,
        *inputs,
    ]
    with ws.stage("compare", inputs=files) as stage:
        specs, _ = read_specs(ws)
        arrays = check_inputs(specs, load_inputs(ws, specs, inputs))
        results = run_dumped(ws, layers, arrays, reporter=reporter)
        reporter.progress("running the exported graph in PyTorch, node by node")
        reference = LayerReference(ws, dtype)
        comparisons = compare_layers(layers, results, reference, arrays, dtype=dtype, tolerance=tolerance)
        bad = next((c for c in comparisons if c.passed is False), None)
        result = {
            "dtype": dtype,
            "layers": [c.to_json() for c in comparisons],
            "compared": sum(c.node is not None for c in comparisons),
            "first_bad": None if bad is None else bad.layer.index,
        }
        stage.write_json(ACCURACY, result)
    if bad is not None:
        raise _failed(bad, result, dtype)
    return result


def _failed(bad: LayerComparison, result: dict[str, Any], dtype: str | None) -> CheckFailed:
    layer = bad.layer
    where = f" at {layer.where}" if layer.where else ""
    against = f"PyTorch's simulation of the {dtype} model" if dtype else "PyTorch"
    error = CheckFailed(
        f"layer {layer.index} ({layer.name}{where}, kernel {layer.kernel}) is the first that differs from {against}: "
        f"{bad.note}",
        cause="its kernel or its weights are wrong, or the model is sensitive to rounding there",
        hint=f"look for {layer.kernel} in lib0.c; --tolerance, --rtol and --atol say what is close enough",
    )
    error.details = result
    return error


def compare_layers(
    layers: Sequence[Layer],
    results: Sequence[Sequence[np.ndarray]],
    reference: LayerReference,
    inputs: Sequence[np.ndarray],
    *,
    dtype: str | None,
    tolerance: Tolerance | None,
) -> list[LayerComparison]:
    """Every output of every layer against its node, in call order."""
    matches = _matches(layers, reference)
    wanted = reference.values(inputs, {(m.node, m.element) for m in matches.values() if m is not None})
    written: dict[str, Order | None] = {}
    found = []
    for layer, arrays in zip(layers, results, strict=True):
        inherited = next((written[t.buffer] for t in layer.inputs if t.buffer in written), None)
        for tensor, array in zip(layer.outputs, arrays, strict=True):
            match = matches[layer.index, tensor.buffer]
            comparison = LayerComparison(layer=layer, buffer=tensor.buffer)
            if match is None:
                written[tensor.buffer] = inherited
                found.append(replace(comparison, note=_STEP if layer.nodes else _NO_NODE))
                continue
            value = wanted.get((match.node, match.element))
            order = None
            if value is not None:
                order = choose_order(orders(value.value.shape, tensor.shape), layer, inherited, back=match.back)
            written[tensor.buffer] = order or inherited
            found.append(_compared(comparison, tensor, array, match, value, order, dtype=dtype, tolerance=tolerance))
    return found


def _matches(layers: Sequence[Layer], reference: LayerReference) -> dict[tuple[int, str], Match | None]:
    """For each layer and buffer that it writes, the node with its value."""
    waiting = unfinished(layers)
    found: dict[tuple[int, str], Match | None] = {}
    for layer in layers:
        for tensor in layer.outputs:
            match = None if tensor.buffer in waiting else match_buffer(tensor.buffer, reference.nodes)
            if match is not None and tensor.dtype in QUANTIZED_SQNR_DB:
                # Integers in the place of real numbers: what PyTorch makes of the node's value next.
                quantized = reference.quantized(match.node)
                match = Match(node=quantized, back=match.back) if quantized is not None else match
            found[layer.index, tensor.buffer] = match
    return found


def _compared(
    comparison: LayerComparison,
    tensor: Tensor,
    array: np.ndarray,
    match: Match,
    wanted: Wanted | None,
    order: Order | None,
    *,
    dtype: str | None,
    tolerance: Tolerance | None,
) -> LayerComparison:
    if wanted is None:
        return replace(comparison, note=_NO_NODE)
    if order is None:
        return replace(comparison, note=_OTHER_SHAPE)
    if wanted.scale is not None and array.dtype.kind == "i":
        array = ((array.astype(np.int64) - (wanted.zero_point or 0)) * wanted.scale).astype(np.float32)
    elif array.dtype.kind != wanted.value.dtype.kind:
        return replace(comparison, note=_OTHER_SCALE)
    value = in_node_order(array, wanted.value.shape, order)
    metrics = compare_arrays(value, wanted.value)
    limit = tolerance or _default_tolerance(wanted, dtype)
    passed = limit.accepts(value, wanted.value, metrics)
    exact = wanted.exact if wanted.exact is not None and wanted.exact.shape == value.shape else None
    return replace(
        comparison,
        node=match.node,
        order=order,
        metrics=metrics,
        float_metrics=None if exact is None else compare_arrays(value, exact),
        passed=passed,
        note=None if passed else explain(wanted.value, metrics, limit),
    )


def _default_tolerance(wanted: Wanted, dtype: str | None) -> Tolerance:
    if dtype is None:
        return Tolerance()
    if wanted.exact is None:
        return Tolerance(sqnr_db=QUANTIZED_SQNR_DB[dtype])
    return quantized_tolerance(dtype, wanted.value, wanted.exact)
