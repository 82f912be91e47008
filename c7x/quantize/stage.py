"""The ``quantize`` stage: from the exported float program to one with integers, and what that costs."""

from __future__ import annotations

import copy
import io
import math
import re
import time
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torchao
from torch import Tensor, fx
from torch.utils import _pytree as pytree
from torchao.quantization.pt2e import quantize_pt2e
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from c7x.errors import ModelError, UnsupportedError, UsageError
from c7x.frontend.export import save_program
from c7x.frontend.importer import load_program
from c7x.frontend.quiet import quiet
from c7x.frontend.source import node_module, node_source, operator_name
from c7x.quantize.calibrate import (
    WORTH,
    InputSpec,
    Sample,
    arguments,
    check_samples,
    deterministic,
    file_samples,
    random_samples,
    source_samples,
)
from c7x.quantize.correction import correct_biases
from c7x.quantize.measure import QUANTIZE, Noise, measure
from c7x.quantize.observers import ActivationObserver
from c7x.quantize.quantizer import C7xMMAQuantizer, quantized_operators
from c7x.reporter import SILENT, Reporter
from c7x.workspace import Workspace

REPORT = "quantize.json"
#: SQNR is measured on so many of the samples; ranges are taken from all.
MEASURED_SAMPLES = 16

_HINT_QUANTIZED = "compile it without --quantize, or give c7x the float model"
_QUANTIZED_NAMESPACES = ("quantized_decomposed", "quantized", "torchao")


@dataclass(frozen=True, kw_only=True)
class Quantized:
    """A quantised program: ``module`` computes what PT2E says the integers compute; ``report`` is quantize.json."""

    program: torch.export.ExportedProgram
    module: fx.GraphModule
    report: dict[str, Any]


def quantize_program(
    program: torch.export.ExportedProgram,
    samples: Sequence[Sample],
    quantizer: C7xMMAQuantizer,
    *,
    specs: Sequence[InputSpec],
    reporter: Reporter = SILENT,
) -> Quantized:
    """Prepare, calibrate, measure, convert.

    Raises:
        UnsupportedError: the program is quantised already, or holds nothing to quantise.
        UsageError, ModelError: the calibration data, or an activation computed from it, has no usable range.
    """
    _refuse_quantized(program)
    reporter.progress("placing observers")
    prepared = _prepared(program, quantizer)
    runs = [arguments(program, sample) for sample in samples]
    check_samples(samples, specs, _observed_inputs(prepared, len(specs)))
    with deterministic(), quiet():
        for index, run in enumerate(runs):
            reporter.progress(f"calibrating, sample {index + 1} of {len(runs)}")
            prepared(*run)
    activations = _activations(prepared)
    _check_ranges(activations, reporter)
    reporter.progress("converting")
    with deterministic(), quiet():
        corrected = copy.deepcopy(prepared)
        if quantizer.dtype == "int8":
            correct_biases(corrected, runs[:MEASURED_SAMPLES])
        with _without_training_folds():
            converted = convert_pt2e(corrected)
        _rename_weights(prepared, converted)
        _drop_unused(converted)
    reporter.progress("measuring the noise of each layer")
    with deterministic(), quiet():
        tensors, outputs = measure(prepared, converted, runs[:MEASURED_SAMPLES])
        exported = torch.export.export(converted, runs[0], strict=False)
    for node in exported.graph.nodes:
        # The history of a node holds addresses of this process, which would make two files of one model differ.
        node.meta.pop("from_node", None)
    report = {
        "dtype": quantizer.dtype,
        "scale": quantizer.scale,
        "symmetric_activations": quantizer.symmetric_activations,
        "bias_int32": quantizer.bias_int32,
        "keep_float": sorted(quantizer.keep_float),
        "samples": len(samples),
        "samples_measured": len(runs[:MEASURED_SAMPLES]),
        "activations": _described(converted, activations, tensors),
        "weights": _weights(converted),
        "float_operators": _float_operators(prepared),
        "outputs": [{"sqnr_db": noise.sqnr_db} for noise in outputs],
    }
    return Quantized(program=exported, module=converted, report=report)


@contextmanager
def _without_training_folds() -> Iterator[None]:
    """Keep ``convert_pt2e`` from looking for the batch norms of quantisation-aware training where there are none: for
    a net with a batch norm that no convolution takes in, it exports dozens of patterns, which takes a minute."""
    name = "_fold_conv_bn_qat"
    fold = getattr(quantize_pt2e, name, None)
    if fold is None:
        yield
        return
    setattr(quantize_pt2e, name, lambda model: model)
    try:
        yield
    finally:
        setattr(quantize_pt2e, name, fold)


def _refuse_quantized(program: torch.export.ExportedProgram) -> None:
    for node in program.graph.nodes:
        if node.op == "call_function" and getattr(node.target, "namespace", "") in _QUANTIZED_NAMESPACES:
            raise UnsupportedError(
                "the model is quantized already",
                cause=f"it holds {operator_name(node)}{f' at {node_source(node)}' if node_source(node) else ''}",
                hint=_HINT_QUANTIZED,
            )
    for name, value in (*program.state_dict.items(), *program.constants.items()):
        if isinstance(value, Tensor) and type(value).__module__.startswith("torchao."):
            raise UnsupportedError(
                f"the model is quantized already: {name} is of type {type(value).__name__}",
                cause="torchao.quantization.quantize_ stored integers in it",
                hint=_HINT_QUANTIZED,
            )


def _prepared(program: torch.export.ExportedProgram, quantizer: C7xMMAQuantizer) -> fx.GraphModule:
    with quiet():
        prepared = prepare_pt2e(program.module(check_guards=False), quantizer)
    if not any(True for _ in quantized_operators(prepared)):
        raise UnsupportedError(
            "the model has no operator that c7x quantizes",
            cause="convolutions, linear layers and what stands between them are quantized; recurrent layers are not, "
            "nor what feeds topk or argmax",
            hint="leave --quantize out: float32 works",
        )
    return prepared


# --- ranges ---------------------------------------------------------------------------------------------------


def _activations(prepared: fx.GraphModule) -> dict[str, tuple[fx.Node, ActivationObserver]]:
    """Name of the node that gives an activation -> the node and the activation's observer."""
    found = {}
    for node in prepared.graph.nodes:
        if node.op != "call_module":
            continue
        observer = prepared.get_submodule(str(node.target))
        if isinstance(observer, ActivationObserver):
            found[node.args[0].name] = (node.args[0], observer)
    return found


def _observed_inputs(prepared: fx.GraphModule, count: int) -> list[bool]:
    observed = {node for node, _ in _activations(prepared).values()}
    tensors = [n for n in prepared.graph.find_nodes(op="placeholder") if isinstance(n.meta.get("val"), Tensor)]
    flags = [node in observed for node in tensors]
    return flags if len(flags) == count else [True] * count


def _check_ranges(activations: Mapping[str, tuple[fx.Node, ActivationObserver]], reporter: Reporter) -> None:
    idle, constant = [], []
    for name, (node, observer) in activations.items():
        low, high = float(observer.min_val), float(observer.max_val)
        where = f"{name} ({node_source(node)})" if node_source(node) else name
        if low > high and math.isinf(low):
            continue  # a tensor without elements
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ModelError(
                f"the activation {where} has NaN or infinity on the calibration data",
                cause="the model overflows or divides by zero on this data, or a mask of -infinity is added there",
                hint="calibrate with typical inputs; an operator can stay float with --keep-float NAME",
            )
        if low == high == 0.0:
            idle.append(where)
        elif low == high and node.op != "get_attr":
            constant.append(where)
    for names, what in ((idle, "zero"), (constant, "constant")):
        if names:
            shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            reporter.warn(
                f"{len(names)} activations are {what} on all calibration data ({shown}); "
                "other values will be cut there: is the data typical?"
            )


# --- the converted module -------------------------------------------------------------------------------------


def _rename_weights(prepared: fx.GraphModule, converted: fx.GraphModule) -> None:
    """Give integer weights the names of the float ones they replace, scales the same with a suffix."""
    origins = {n.name: n for n in prepared.graph.nodes}
    attributes = {str(n.target): n for n in converted.graph.find_nodes(op="get_attr")}
    names: dict[str, str] = {}
    for node in converted.graph.nodes:
        before = origins.get(node.name)
        if node.op != "call_function" or before is None:
            continue
        for old, new in zip(before.args, node.args, strict=False):
            if not (isinstance(old, fx.Node) and isinstance(new, fx.Node)) or "dequantize" not in str(new.target):
                continue
            while old.op == "call_module":
                old = old.args[0]
            if old.op != "get_attr":
                continue
            base = re.sub(r"\W", "_", str(old.target))
            for part, operand in zip(("int", "scale", "zero_point"), new.args[:3], strict=True):
                if isinstance(operand, fx.Node) and operand.op == "get_attr":
                    names.setdefault(str(operand.target), f"{base}_{part}")
    taken = set(attributes)
    for target, name in names.items():
        unique, count = name, 1
        while unique in taken or hasattr(converted, unique):
            unique, count = f"{name}_{count}", count + 1
        taken.add(unique)
        value = converted.get_parameter(target) if _is_parameter(converted, target) else converted.get_buffer(target)
        converted.register_buffer(unique, value.detach())
        for node in converted.graph.find_nodes(op="get_attr"):
            if node.target == target:
                node.target = unique
    converted.recompile()


def _is_parameter(module: fx.GraphModule, target: str) -> bool:
    return target in dict(module.named_parameters(remove_duplicate=False))


def _drop_unused(module: fx.GraphModule) -> None:
    """Delete the parameters and buffers no node reads: float weights that integers have replaced."""
    used = {str(n.target) for n in module.graph.find_nodes(op="get_attr")}
    for name, _ in [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]:
        if name not in used:
            folder, _, leaf = name.rpartition(".")
            delattr(module.get_submodule(folder), leaf)


# --- the report -----------------------------------------------------------------------------------------------


def _described(
    converted: fx.GraphModule,
    activations: Mapping[str, tuple[fx.Node, ActivationObserver]],
    tensors: Mapping[str, Noise],
) -> list[dict[str, Any]]:
    """One record for each quantised activation, in graph order."""
    records = []
    seen = set()
    for node in converted.graph.nodes:
        if node.target is not QUANTIZE or node.args[0].name in seen or node.args[0].name not in activations:
            continue
        source, observer = activations[node.args[0].name]
        seen.add(source.name)
        noise = tensors.get(source.name, Noise())
        records.append(
            {
                "name": source.name,
                "op": operator_name(source) if source.op == "call_function" else source.op,
                "module": node_module(source),
                "source": node_source(source),
                "scale": float(node.args[1]),
                "zero_point": int(node.args[2]),
                "min": _finite(float(observer.min_val)),
                "max": _finite(float(observer.max_val)),
                "sqnr_db": noise.sqnr_db,
                "saturation": noise.saturation,
            }
        )
    return records


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _weights(converted: fx.GraphModule) -> list[dict[str, Any]]:
    """One record for each integer constant, in graph order."""
    records = []
    for node in converted.graph.nodes:
        if "dequantize" not in str(node.target) or node.args[0].op != "get_attr":
            continue
        value = converted.get_buffer(str(node.args[0].target))
        scale = converted.get_buffer(str(node.args[1].target)) if isinstance(node.args[1], fx.Node) else None
        scales = [float(node.args[1])] if scale is None else scale.reshape(-1).tolist()
        record = {
            "name": str(node.args[0].target),
            "dtype": str(value.dtype).removeprefix("torch."),
            "shape": list(value.shape),
            "axis": int(node.args[3]) if scale is not None and scale.numel() > 1 else None,
            "scale_min": min(scales, default=None),
            "scale_max": max(scales, default=None),
        }
        if record not in records:
            records.append(record)
    return records


def _float_operators(prepared: fx.GraphModule) -> list[dict[str, Any]]:
    """Operators that stay float: operator and source line, with counts, most frequent first."""
    counts: dict[tuple[str, str], int] = {}
    for node in prepared.graph.nodes:
        if node.op != "call_function" or Q_ANNOTATION_KEY in node.meta or not isinstance(node.meta.get("val"), Tensor):
            continue
        if node.meta["val"].is_floating_point():
            key = (operator_name(node), node_source(node))
            counts[key] = counts.get(key, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"op": op, "source": source, "count": count} for (op, source), count in ordered]


# --- the stage ------------------------------------------------------------------------------------------------


def _samples(
    ws: Workspace,
    specs: Sequence[InputSpec],
    calibrate: Path | None,
    calibrate_random: int,
    source: Path | None,
    reporter: Reporter,
) -> tuple[list[Sample], str]:
    """The calibration samples and a word on where they are from."""
    if calibrate is not None:
        return file_samples(calibrate, specs), calibrate.name
    found = None if source is None else source_samples(source, specs, reporter)
    if found is not None:
        return found, f"calibration_inputs() in {source.name}"  # type: ignore[union-attr]
    if calibrate_random > 0:
        reporter.warn(f"calibrated on {calibrate_random} random samples: {WORTH}")
        return random_samples(specs, calibrate_random), f"{calibrate_random} random samples"
    where = "no model.py was given" if source is None else f"{source.name} defines no calibration_inputs()"
    raise UsageError(
        "there is no calibration data",
        cause=f"{where}, and no file with --calibrate; {WORTH}",
        hint="define calibration_inputs() in model.py, or give --calibrate data.npz; "
        "--calibrate-random 16 goes on with random inputs, which is good for trying out and for nothing else",
    )


def _specs(ws: Workspace, names: Sequence[str]) -> list[InputSpec]:
    return [
        InputSpec(
            name=name,
            example=torch.from_numpy(np.array(np.load(ws.require(f"inputs/input_{i}.npy"), allow_pickle=False))),
        )
        for i, name in enumerate(names)
    ]


def quantize_stage(
    ws: Workspace,
    *,
    dtype: str = "int8",
    scale: Literal["mse", "minmax", "pow2"] = "mse",
    symmetric: bool | None = None,
    keep_float: Collection[str] = (),
    calibrate: Path | None = None,
    calibrate_random: int = 0,
    source: Path | None = None,
    reporter: Reporter = SILENT,
) -> dict[str, Any]:
    """Quantise the exported program: writes ``model.<dtype>.pt2``, ``quantize.json`` and ``expected_quantized/``.

    Args:
        dtype: ``int8`` or ``int16``.
        scale: ``mse``, ``minmax`` or ``pow2``, see ``C7xMMAQuantizer``.
        symmetric: False gives activations a zero point where it pays, which int16 cannot have; None means False for
            int8 and True for int16.
        keep_float: operators that stay float, by name.
        calibrate: a file of samples (``calibrate.file_samples``); comes before ``source``.
        calibrate_random: that many random samples when there is nothing better; 0 refuses.
        source: the model.py whose ``calibration_inputs()`` to use.

    Returns:
        The head of quantize.json: ``dtype``, ``scale``, ``samples``, ``calibration``, ``outputs`` (name, sqnr_db), and
        ``activations``, ``weights`` (numbers of them), ``seconds``.

    Raises:
        UsageError: no calibration data, or of no use; an unknown dtype. FormatError: a calibration file that does not
        fit. ModelError: calibration_inputs() fails, or the model gives NaN. UnsupportedError: nothing to quantise.
    """
    start = time.perf_counter()
    symmetric = dtype == "int16" if symmetric is None else symmetric
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            quantizer = C7xMMAQuantizer(dtype, symmetric, scale=scale, keep_float=keep_float)
    except ValueError as error:
        raise UsageError(str(error), hint="--quantize int8 or int16; --quantize-scale mse, minmax or pow2") from error
    if quantizer.symmetric_activations != symmetric:
        reporter.warn("int16 kernels have no zero points: activations are quantized symmetrically, not as asked")
    with ws.stage("quantize", inputs=["model.pt2", *([calibrate] if calibrate else [])]) as run:
        program, facts = load_program(ws.require("model.pt2"))
        names = facts["names"]
        _refuse_quantized(program)
        specs = _specs(ws, names["inputs"])
        samples, origin = _samples(ws, specs, calibrate, calibrate_random, source, reporter)
        made = quantize_program(program, samples, quantizer, specs=specs, reporter=reporter)
        report = {**made.report, "calibration": origin}
        for record, name in zip(report["outputs"], names["outputs"], strict=False):
            record["name"] = name
        reporter.progress("writing the quantized program")
        facts = {**facts, "quantize": {"dtype": dtype, "scale": scale}}
        run.write_bytes(f"model.{dtype}.pt2", save_program(made.program, root=ws.root, facts=facts))
        run.write_json(REPORT, report)
        examples = arguments(program, [spec.example for spec in specs])
        with deterministic(), quiet():
            outputs = [t for t in pytree.tree_leaves(made.module(*examples)) if isinstance(t, Tensor)]
        for index, tensor in enumerate(outputs):
            buffer = io.BytesIO()
            np.save(buffer, tensor.detach().contiguous().numpy(), allow_pickle=False)
            run.write_bytes(f"expected_quantized/output_{index}.npy", buffer.getvalue())
        run.tools.update(torch=torch.__version__, torchao=torchao.__version__)
        run.options.update(
            dtype=dtype,
            scale=scale,
            symmetric=quantizer.symmetric_activations,
            keep_float=sorted(quantizer.keep_float),
            calibration=origin,
        )
    figures = ", ".join("exact" if r["sqnr_db"] is None else f"{r['sqnr_db']:.1f} dB" for r in report["outputs"])
    reporter.info(f"{dtype}, {len(samples)} calibration samples: SQNR of the outputs against float {figures}")
    return {
        **{key: report[key] for key in ("dtype", "scale", "samples", "calibration", "outputs")},
        "activations": len(report["activations"]),
        "weights": len(report["weights"]),
        "seconds": round(time.perf_counter() - start, 3),
    }
