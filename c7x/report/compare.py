"""Compares what cg_dsp computes with what PyTorch computes: arrays, then the outputs of a model.

Two NaN are equal, and so are two infinities of the same sign; any other pair with a NaN or an infinity in it is a
mismatch that no tolerance forgives. Integers and booleans are compared exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from c7x.errors import CheckFailed, DisagreementError, FormatError
from c7x.report.reference import Reference, expected_outputs
from c7x.reporter import SILENT, Reporter
from c7x.run.stage import ARTEFACTS, built_mode, run_built
from c7x.run.tensors import check_inputs, load_inputs, read_specs
from c7x.workspace import Workspace

#: Largest error relative to the output's largest value that passes by default; other dtypes must be equal.
DEFAULT_RELATIVE = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-9}


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """How far a result is from its reference.

    Attributes:
        count: number of elements.
        max_abs: largest absolute difference among pairs of finite values.
        max_rel: ``max_abs`` over the largest finite absolute value of the reference (over 1 when that is 0).
        sqnr_db: signal to quantisation noise ratio in decibels over finite pairs; None when there is no noise at all.
        cosine: cosine similarity over finite pairs; None when either side is all zeros or there are none.
        mismatches: elements that are not equal.
        non_finite: those among them where a NaN or an infinity is on one side and something else on the other.
    """

    count: int
    max_abs: float
    max_rel: float
    sqnr_db: float | None
    cosine: float | None
    mismatches: int
    non_finite: int


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """What passes. With ``rtol`` or ``atol`` each element must satisfy |result - reference| <= atol + rtol |reference|;
    with ``sqnr_db`` the ratio of signal to noise must be at least that, and of integers nine in ten must be equal;
    otherwise ``max_rel`` must not exceed ``relative``, by default that of ``DEFAULT_RELATIVE``."""

    relative: float | None = None
    rtol: float | None = None
    atol: float | None = None
    sqnr_db: float | None = None

    def accepts(self, result: np.ndarray, reference: np.ndarray, metrics: Metrics) -> bool:
        """Whether ``result`` is close enough; both have the same shape and dtype."""
        if reference.dtype.kind != "f":
            return metrics.mismatches <= (0 if self.sqnr_db is None else metrics.count // 10)
        if metrics.non_finite:
            return False
        if self.sqnr_db is not None:
            return metrics.sqnr_db is None or metrics.sqnr_db >= self.sqnr_db
        if self.rtol is not None or self.atol is not None:
            finite = np.isfinite(reference) & np.isfinite(result)
            wanted = reference[finite].astype(np.float64)
            error = np.abs(result[finite].astype(np.float64) - wanted)
            return bool(np.all(error <= (self.atol or 0.0) + (self.rtol or 0.0) * np.abs(wanted)))
        limit = self.relative if self.relative is not None else DEFAULT_RELATIVE[reference.dtype.name]
        return metrics.max_rel <= limit


def compare_arrays(result: np.ndarray, reference: np.ndarray) -> Metrics:
    """The figures for two arrays of the same shape (any, also 0-d and empty).

    Raises:
        ValueError: the shapes differ.
    """
    result, reference = np.asarray(result), np.asarray(reference)
    if result.shape != reference.shape:
        raise ValueError(f"shapes differ: {result.shape} and {reference.shape}")
    same = result == reference
    if result.dtype.kind == "f" and reference.dtype.kind == "f":
        same = same | (np.isnan(result) & np.isnan(reference))
    a, b = result.astype(np.float64), reference.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    a, b = a[finite], b[finite]
    error = np.abs(a - b)
    max_abs = float(error.max(initial=0.0))
    scale = float(np.abs(b).max(initial=0.0))
    return Metrics(
        count=result.size,
        max_abs=max_abs,
        max_rel=max_abs / (scale or 1.0),
        sqnr_db=_sqnr(b, error),
        cosine=_cosine(a, b),
        mismatches=int(np.count_nonzero(~same)),
        non_finite=int(np.count_nonzero(~same & ~finite)),
    )


def _sqnr(reference: np.ndarray, error: np.ndarray) -> float | None:
    # Scaled by the largest value first: squares of float64 extremes leave the range.
    scale = max(float(np.abs(reference).max(initial=0.0)), float(error.max(initial=0.0)))
    if scale == 0.0:
        return None
    noise = float(np.sum(np.square(error / scale)))
    signal = float(np.sum(np.square(reference / scale)))
    if noise == 0.0:
        return None
    return 10.0 * (math.log10(signal) - math.log10(noise)) if signal > 0.0 else -math.inf


def _cosine(a: np.ndarray, b: np.ndarray) -> float | None:
    if not a.size or not a.any() or not b.any():
        return None
    a, b = a / np.abs(a).max(), b / np.abs(b).max()
    return float(np.clip(np.dot(a, b) / (math.sqrt(np.dot(a, a)) * math.sqrt(np.dot(b, b))), -1.0, 1.0))


@dataclass(frozen=True, kw_only=True)
class OutputComparison:
    """One output of a model: its figures and whether they pass; ``reason`` says why not."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    passed: bool
    reason: str | None
    metrics: Metrics

    def to_json(self) -> dict[str, Any]:
        """JSON values, which know no infinity: noise without any signal is None too, as ``mismatches`` tells apart."""
        fields = {**asdict(self), **asdict(self.metrics)}
        del fields["metrics"]
        fields["shape"] = list(self.shape)
        if fields["sqnr_db"] == -math.inf:
            fields["sqnr_db"] = None
        return fields


def compare_outputs(
    names: Sequence[str],
    results: Sequence[np.ndarray],
    references: Sequence[np.ndarray],
    tolerance: Tolerance | Sequence[Tolerance],
) -> list[OutputComparison]:
    """Compares the outputs of a model one by one, with one tolerance or one for each; a wrong dtype or shape fails.

    Raises:
        FormatError: there are not as many references as results.
    """
    if not len(names) == len(results) == len(references):
        raise FormatError(
            f"the model has {len(names)} outputs, cg_dsp wrote {len(results)}, and PyTorch's are {len(references)}",
            cause="files of different models or of different runs are mixed in the build directory",
            hint="compile the model again",
        )
    each = [tolerance] * len(names) if isinstance(tolerance, Tolerance) else tolerance
    return [
        _compare_output(name, np.asarray(result), np.asarray(reference), limit)
        for name, result, reference, limit in zip(names, results, references, each, strict=True)
    ]


def _compare_output(name: str, result: np.ndarray, reference: np.ndarray, tolerance: Tolerance) -> OutputComparison:
    reason = None
    if result.shape != reference.shape:
        reason = f"shape {list(result.shape)} instead of {list(reference.shape)}"
        metrics = Metrics(
            count=result.size,
            max_abs=0.0,
            max_rel=0.0,
            sqnr_db=None,
            cosine=None,
            mismatches=max(result.size, reference.size),
            non_finite=0,
        )
    else:
        metrics = compare_arrays(result, reference)
        if result.dtype != reference.dtype:
            reason = f"dtype {result.dtype.name} instead of {reference.dtype.name}"
        elif not tolerance.accepts(result, reference, metrics):
            reason = explain(reference, metrics, tolerance)
    return OutputComparison(
        name=name,
        dtype=result.dtype.name,
        shape=result.shape,
        passed=reason is None,
        reason=reason,
        metrics=metrics,
    )


def explain(reference: np.ndarray, metrics: Metrics, tolerance: Tolerance) -> str:
    if metrics.non_finite:
        return f"{metrics.non_finite} of {metrics.count} elements are NaN or infinite on one side only"
    if reference.dtype.kind != "f":
        return f"{metrics.mismatches} of {metrics.count} elements differ"
    if tolerance.sqnr_db is not None:
        return f"SQNR {metrics.sqnr_db:.1f} dB, and {tolerance.sqnr_db:.1f} dB is the least that passes"
    return f"max error {metrics.max_abs:.3g}, {metrics.max_rel:.3g} of the output's largest value"


def _failures(comparisons: Sequence[OutputComparison]) -> str:
    return "; ".join(f"output {c.name}: {c.reason}" for c in comparisons if not c.passed)


#: SQNR against the simulation that passes in any case. Rounding differs in the last place now and then (kernels round
#: exactly, PyTorch after float32 sums), and in a deep net such a difference grows into the next layers' rounding, up to
#: the size of the quantisation's own noise: so twice that noise (6 dB) passes as well.
QUANTIZED_SQNR_DB = {"int8": 30.0, "int16": 40.0}
_NOISE_MARGIN_DB = 6.0


def own_integers(ws: Workspace) -> str | None:
    """The narrower dtype of a program that came quantised, which is its own simulation; None for a float model."""
    layers = ws.read_json("layers.json") if ws.has("layers.json") else []
    found = {layer["dtype"] for layer in layers if "quantize" in layer["relax_ops"]}
    return min(found & QUANTIZED_SQNR_DB.keys(), key=lambda dtype: QUANTIZED_SQNR_DB[dtype], default=None)


def quantized_tolerance(dtype: str, simulation: np.ndarray, float_reference: np.ndarray) -> Tolerance:
    """What passes against the simulation of a quantised model, given its output and the float model's."""
    limit = QUANTIZED_SQNR_DB[dtype]
    if simulation.shape == float_reference.shape and simulation.dtype.kind == "f":
        noise = compare_arrays(simulation, float_reference).sqnr_db
        limit = limit if noise is None else min(limit, noise - _NOISE_MARGIN_DB)
    return Tolerance(sqnr_db=limit)


@dataclass(frozen=True, kw_only=True)
class _Comparison:
    """All outputs: against PyTorch, or for a quantised model against its simulation and against the float model, which
    is not there for a program that came quantised."""

    outputs: list[OutputComparison]
    dtype: str | None = None
    float_outputs: list[OutputComparison] | None = None

    @property
    def reference(self) -> str:
        return "PyTorch" if self.dtype is None else f"PyTorch's simulation of the {self.dtype} model"

    def to_json(self) -> dict[str, Any]:
        result: dict[str, Any] = {
            "outputs": [c.to_json() for c in self.outputs],
            "passed": all(c.passed for c in self.outputs),
        }
        if self.float_outputs is not None:
            result["dtype"] = self.dtype
            result["float_outputs"] = [c.to_json() for c in self.float_outputs]
        return result


def _compare(ws: Workspace, inputs: Sequence[Path], tolerance: Tolerance | None, reporter: Reporter) -> _Comparison:
    input_specs, output_specs = read_specs(ws)
    names = [spec.name for spec in output_specs]
    arrays = check_inputs(input_specs, load_inputs(ws, input_specs, inputs))
    dtype = ws.read_json("quantize.json")["dtype"] if ws.has("quantize.json") else None

    def references(program: str, folder: str) -> list[np.ndarray]:
        if not inputs:
            return expected_outputs(ws, len(output_specs), folder)
        reporter.progress(f"running {program} in PyTorch")
        return Reference(ws, program).outputs(arrays)

    floats = references("model.pt2", "expected")
    if dtype is None:
        results = run_built(ws, arrays, reporter=reporter).outputs
        dtype = own_integers(ws)
        default = Tolerance() if dtype is None else Tolerance(sqnr_db=QUANTIZED_SQNR_DB[dtype])
        return _Comparison(outputs=compare_outputs(names, results, floats, tolerance or default), dtype=dtype)
    simulation = references(f"model.{dtype}.pt2", "expected_quantized")
    results = run_built(ws, arrays, reporter=reporter).outputs
    each = [
        tolerance or quantized_tolerance(dtype, wanted, exact) for wanted, exact in zip(simulation, floats, strict=True)
    ]
    return _Comparison(
        outputs=compare_outputs(names, results, simulation, each),
        dtype=dtype,
        float_outputs=compare_outputs(names, results, floats, Tolerance(sqnr_db=-math.inf)),
    )


def compare_stage(
    ws: Workspace, *, inputs: Sequence[Path] = (), tolerance: Tolerance | None = None, reporter: Reporter = SILENT
) -> dict[str, Any]:
    """Runs cg_dsp and compares it with PyTorch.

    Args:
        inputs: files as for ``c7x.run.tensors.load_inputs``; none for the example inputs, whose answers export has
            recorded. With inputs the exported program runs in this process.
        tolerance: what passes; default: ``Tolerance()``, for a quantised model ``quantized_tolerance``, for a program
            that came quantised its ``QUANTIZED_SQNR_DB``.

    Returns:
        ``outputs``: for each output ``name``, ``dtype``, ``shape``, ``passed``, ``reason`` and the fields of
        ``Metrics``; ``passed``, which is true. For a quantised model these are against PyTorch's simulation of the
        integers, and there are ``dtype`` and ``float_outputs``, the same figures against the float model.

    Raises:
        CheckFailed: an output is beyond the tolerance; its ``details`` hold the same object.
        FormatError, RunError, CrashError, WorkspaceError: the comparison could not be made.
    """
    comparison = _compare(ws, inputs, tolerance, reporter)
    result = comparison.to_json()
    if not result["passed"]:
        error = CheckFailed(
            f"{ARTEFACTS[built_mode(ws)]} differs from {comparison.reference}: {_failures(comparison.outputs)}",
            cause="the model is sensitive to rounding, or c7x computes something else",
            hint="look at the figures; --tolerance, --rtol and --atol say what is close enough",
        )
        error.details = result
        raise error
    return result


def check_stage(ws: Workspace, *, reporter: Reporter = SILENT) -> dict[str, Any]:
    """The last step of ``c7x compile``: the built model must agree with PyTorch on the example inputs.

    Raises:
        DisagreementError: it does not, by the default tolerance; its ``details`` hold the figures.
    """
    comparison = _compare(ws, (), None, reporter)
    result = comparison.to_json()
    if not result["passed"]:
        cause, hint = why_it_disagrees(ws, comparison.dtype)
        error = DisagreementError(
            f"the built model computes something else than {comparison.reference}: {_failures(comparison.outputs)}",
            cause=cause,
            hint=hint,
        )
        error.details = result
        raise error
    if comparison.dtype is not None and comparison.float_outputs is None:
        reporter.info(f"on the example inputs: {_lowest(comparison.outputs)} against {comparison.reference}")
    elif comparison.float_outputs is None:
        worst = max((c.metrics.max_rel for c in comparison.outputs), default=0.0)
        reporter.info(f"agrees with PyTorch on the example inputs: largest relative error {worst:.2g}")
    else:
        reporter.info(
            f"on the example inputs: {_lowest(comparison.outputs)} against {comparison.reference}, "
            f"{_lowest(comparison.float_outputs)} against float"
        )
    return result


def why_it_disagrees(ws: Workspace, dtype: str | None) -> tuple[str, str]:
    """Cause and hint for a built model that is not what PyTorch computes; ``dtype`` of a quantised one, else None."""
    on_firmware = "-mmalib=1" in str(ws.manifest.get("target"))
    if dtype is not None and on_firmware:
        return (
            "the firmware's kernels are coarser than PyTorch: MMALIB scales by 8 bits, and its curves (gelu, silu, "
            "hardswish, hardsigmoid) round down; in a deep net that adds up",
            "try --quantize-scale pow2, whose scales fit 8 bits, or leave -mmalib=1 out to see what c7x's own kernels "
            "give; --no-check keeps the result, and c7x compare shows the figures against float",
        )
    return (
        "a defect of c7x, or a model whose result hangs on the last bits (an index of nearly equal values)",
        "c7x compare shows the figures; --no-check keeps the result; please report the model",
    )


def _lowest(comparisons: Sequence[OutputComparison]) -> str:
    """The lowest SQNR among the outputs."""
    figures = [c.metrics.sqnr_db for c in comparisons if c.metrics.sqnr_db is not None]
    return f"SQNR {min(figures):.1f} dB" if figures else "no difference"
