"""``c7x compare --layers``: what each layer computes against what PyTorch computes there.

The build runs as a debug artefact (``c7x.report.dump``), PyTorch runs the exported graph node by node, and both are
brought together by the names of buffers and nodes (``c7x.report.align``). The artefact runs twice: in a chain, each
layer on what the ones before it gave, as on a board; and each layer by itself, on what PyTorch gives it. The second is
what a layer is judged by, so that an error shows where it is made and rounding does not add up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from c7x.errors import CheckFailed
from c7x.report.align import (
    Match,
    Order,
    choose_order,
    in_buffer_order,
    in_node_order,
    match_buffer,
    orders,
    unfinished,
)
from c7x.report.compare import (
    QUANTIZED_SQNR_DB,
    Metrics,
    Tolerance,
    compare_arrays,
    explain,
    own_integers,
    quantized_tolerance,
)
from c7x.report.dump import debug_artefact
from c7x.report.layer_reference import LayerReference, Wanted, to_real
from c7x.report.layers import Layer, Tensor, read_layers
from c7x.reporter import SILENT, Reporter
from c7x.run.tensors import check_inputs, load_inputs, read_specs
from c7x.workspace import Workspace

ACCURACY = "accuracy.json"

_STEP = "a step on the way to a node"
_NO_NODE = "no node of the exported graph has this value"
_OTHER_SHAPE = "its shape is not that of the node"
_OTHER_SCALE = "it is of another dtype than the node"


@dataclass(frozen=True, kw_only=True)
class LayerComparison:
    """One output of a layer.

    Attributes:
        node: the node it was compared with; None when there is none, and ``note`` says why.
        order: how its elements lie in memory.
        metrics: of the layer by itself, against PyTorch; of a quantised model against the simulation of the integers.
        chained: the same of the layer in the chain.
        to_float: of a quantised model, in the chain, against the float model; None where the node is not in it.
        passed: whether it is close enough; None without a node.
        note: why it was not compared, or why it is not close enough; None otherwise.
    """

    layer: Layer
    buffer: str
    node: str | None = None
    order: Order | None = None
    metrics: Metrics | None = None
    chained: Metrics | None = None
    to_float: Metrics | None = None
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
            "chained": None if self.chained is None else _metrics_to_json(self.chained),
            "float": None if self.to_float is None else _metrics_to_json(self.to_float),
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
    made = ws.read_json("quantize.json")["dtype"] if ws.has("quantize.json") else None
    program = f"model.{made}.pt2" if made else "model.pt2"
    dtype = made or own_integers(ws)
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
        reporter.progress("running the exported graph in PyTorch, node by node")
        targets = find_targets(layers, LayerReference(ws, made), arrays)
        with debug_artefact(ws, layers, reporter=reporter) as artefact:
            reporter.progress("running the layers in a chain, and each by itself")
            chain = artefact.run(arrays)
            alone = artefact.run(arrays, replacements(targets, chain))
        comparisons = compare_layers(targets, chain, alone, dtype=dtype, tolerance=tolerance)
        bad = next((c for c in comparisons if c.passed is False), None)
        result = {
            "dtype": dtype,
            "layers": [c.to_json() for c in comparisons],
            "compared": sum(c.node is not None for c in comparisons),
            "first_bad": None if bad is None else bad.layer.index,
        }
        stage.write_json(ACCURACY, result)
    if bad is not None:
        raise _failed(bad, _unseen_before(bad.layer, comparisons), result, dtype)
    return result


def _unseen_before(layer: Layer, comparisons: Sequence[LayerComparison]) -> list[Layer]:
    """Layers whose results ``layer`` reads, directly or through each other, and which could not be compared."""
    writers = {c.buffer: c for c in comparisons if c.layer.index < layer.index}
    found: dict[int, Layer] = {}
    waiting = [layer]
    while waiting:
        for tensor in waiting.pop().inputs:
            writer = writers.get(tensor.buffer)
            if writer is not None and writer.node is None and writer.layer.index not in found:
                found[writer.layer.index] = writer.layer
                waiting.append(writer.layer)
    return [found[index] for index in sorted(found)]


def _failed(bad: LayerComparison, unseen: Sequence[Layer], result: dict[str, Any], dtype: str | None) -> CheckFailed:
    layer = bad.layer
    doubt = (
        f", or layer {' or '.join(str(x.index) for x in unseen)} before it, which cannot be compared" if unseen else ""
    )
    where = f" at {layer.where}" if layer.where else ""
    against = f"PyTorch's simulation of the {dtype} model" if dtype else "PyTorch"
    error = CheckFailed(
        f"layer {layer.index} ({layer.name}{where}, kernel {layer.kernel}) is the first that differs from {against}: "
        f"{bad.note}",
        cause=f"its kernel or its weights are wrong{doubt}; or it hangs on rounding or the order of equal values",
        hint=f"look for {layer.kernel} in lib0.c; --tolerance, --rtol and --atol say what is close enough",
    )
    error.details = result
    return error


@dataclass(frozen=True, kw_only=True)
class Target:
    """An output of a layer with what it should be: ``wanted`` lies in ``order`` in its buffer. Where it cannot be
    compared both are None and ``note`` says why."""

    layer: Layer
    tensor: Tensor
    node: str | None = None
    wanted: Wanted | None = None
    order: Order | None = None
    note: str | None = None


def find_targets(
    layers: Sequence[Layer], reference: LayerReference, inputs: Sequence[np.ndarray]
) -> list[list[Target]]:
    """For every output of every layer what PyTorch gives there."""
    matches = _matches(layers, reference)
    values = reference.values(inputs, {(m.node, m.element) for m in matches.values() if m is not None})
    written: dict[str, Order | None] = {}
    found = []
    for layer in layers:
        inherited = next((written[t.buffer] for t in layer.inputs if t.buffer in written), None)
        targets = []
        for tensor in layer.outputs:
            target = _target(layer, tensor, matches[layer.index, tensor.buffer], values, inherited)
            written[tensor.buffer] = target.order or inherited
            targets.append(target)
        found.append(targets)
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


def _target(
    layer: Layer,
    tensor: Tensor,
    match: Match | None,
    values: Mapping[tuple[str, int], Wanted],
    inherited: Order | None,
) -> Target:
    target = Target(layer=layer, tensor=tensor)
    if match is None:
        return replace(target, note=_STEP if layer.nodes else _NO_NODE)
    wanted = values.get((match.node, match.element))
    if wanted is None:
        return replace(target, note=_NO_NODE)
    order = choose_order(orders(wanted.raw.shape, tensor.shape), layer, inherited, back=match.back)
    if order is None:
        return replace(target, note=_OTHER_SHAPE)
    if np.dtype(tensor.dtype) != wanted.raw.dtype:
        return replace(target, note=_OTHER_SCALE)
    return replace(target, node=match.node, wanted=wanted, order=order)


def replacements(
    targets: Sequence[Sequence[Target]], results: Sequence[Sequence[np.ndarray]]
) -> list[list[np.ndarray | None]]:
    """PyTorch's values as the buffers hold them; None where there are none."""
    return [
        [
            None if t.wanted is None or t.order is None else in_buffer_order(t.wanted.raw, array, t.order)
            for t, array in zip(each, arrays, strict=True)
        ]
        for each, arrays in zip(targets, results, strict=True)
    ]


def compare_layers(
    targets: Sequence[Sequence[Target]],
    chain: Sequence[Sequence[np.ndarray]],
    alone: Sequence[Sequence[np.ndarray]],
    *,
    dtype: str | None,
    tolerance: Tolerance | None,
) -> list[LayerComparison]:
    """Every output of every layer against its target, in call order.

    Args:
        targets: from ``find_targets``.
        chain, alone: what the layers gave in the chain, and each by itself.
        dtype: of a quantised model.
        tolerance: what passes; None for the default.
    """
    return [
        _compared(target, in_chain, by_itself, dtype=dtype, tolerance=tolerance)
        for each, results, own in zip(targets, chain, alone, strict=True)
        for target, in_chain, by_itself in zip(each, results, own, strict=True)
    ]


def _compared(
    target: Target, in_chain: np.ndarray, by_itself: np.ndarray, *, dtype: str | None, tolerance: Tolerance | None
) -> LayerComparison:
    comparison = LayerComparison(layer=target.layer, buffer=target.tensor.buffer, note=target.note)
    wanted, order = target.wanted, target.order
    if wanted is None or order is None:
        return comparison

    def value(array: np.ndarray) -> np.ndarray:
        found = in_node_order(array, wanted.raw.shape, order)
        return found if wanted.scale is None else to_real(found, wanted.scale, wanted.zero_point or 0)

    result, chained = value(by_itself), value(in_chain)
    metrics = compare_arrays(result, wanted.value)
    limit = tolerance or _default_tolerance(wanted, dtype)
    passed = limit.accepts(result, wanted.value, metrics)
    exact = wanted.exact if wanted.exact is not None and wanted.exact.shape == chained.shape else None
    return replace(
        comparison,
        node=target.node,
        order=order,
        metrics=metrics,
        chained=compare_arrays(chained, wanted.value),
        to_float=None if exact is None else compare_arrays(chained, exact),
        passed=passed,
        note=None if passed else explain(wanted.value, metrics, limit),
    )


def _default_tolerance(wanted: Wanted, dtype: str | None) -> Tolerance:
    if dtype is None:
        return Tolerance()
    if wanted.exact is None:
        return Tolerance(sqnr_db=QUANTIZED_SQNR_DB[dtype])
    return quantized_tolerance(dtype, wanted.value, wanted.exact)
