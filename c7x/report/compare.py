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
    otherwise ``max_rel`` must not exceed ``relative``, by default that of ``DEFAULT_RELATIVE``."""

    relative: float | None = None
    rtol: float | None = None
    atol: float | None = None

    def accepts(self, result: np.ndarray, reference: np.ndarray, metrics: Metrics) -> bool:
        """Whether ``result`` is close enough; both have the same shape and dtype."""
        if reference.dtype.kind != "f":
            return metrics.mismatches == 0
        if metrics.non_finite:
            return False
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
    names: Sequence[str], results: Sequence[np.ndarray], references: Sequence[np.ndarray], tolerance: Tolerance
) -> list[OutputComparison]:
    """Compares the outputs of a model one by one; a wrong number, dtype or shape does not pass.

    Raises:
        FormatError: there are not as many references as results.
    """
    if not len(names) == len(results) == len(references):
        raise FormatError(
            f"the model has {len(names)} outputs, cg_dsp wrote {len(results)}, and PyTorch's are {len(references)}",
            cause="files of different models or of different runs are mixed in the build directory",
            hint="compile the model again",
        )
    return [
        _compare_output(name, np.asarray(result), np.asarray(reference), tolerance)
        for name, result, reference in zip(names, results, references, strict=True)
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
            reason = _why(reference, metrics)
    return OutputComparison(
        name=name,
        dtype=result.dtype.name,
        shape=result.shape,
        passed=reason is None,
        reason=reason,
        metrics=metrics,
    )


def _why(reference: np.ndarray, metrics: Metrics) -> str:
    if metrics.non_finite:
        return f"{metrics.non_finite} of {metrics.count} elements are NaN or infinite on one side only"
    if reference.dtype.kind != "f":
        return f"{metrics.mismatches} of {metrics.count} elements differ"
    return f"max error {metrics.max_abs:.3g}, {metrics.max_rel:.3g} of the output's largest value"


def _failures(comparisons: Sequence[OutputComparison]) -> str:
    return "; ".join(f"output {c.name}: {c.reason}" for c in comparisons if not c.passed)


def _compare(ws: Workspace, inputs: Sequence[Path], tolerance: Tolerance, reporter: Reporter) -> list[OutputComparison]:
    input_specs, output_specs = read_specs(ws)
    arrays = check_inputs(input_specs, load_inputs(ws, input_specs, inputs))
    if inputs:
        reporter.progress("running the exported program in PyTorch")
        references = Reference(ws).outputs(arrays)
    else:
        references = expected_outputs(ws, len(output_specs))
    results = run_built(ws, arrays, reporter=reporter).outputs
    return compare_outputs([spec.name for spec in output_specs], results, references, tolerance)


def compare_stage(
    ws: Workspace, *, inputs: Sequence[Path] = (), tolerance: Tolerance | None = None, reporter: Reporter = SILENT
) -> dict[str, Any]:
    """Runs cg_dsp and compares it with PyTorch.

    Args:
        inputs: files as for ``c7x.run.tensors.load_inputs``; none for the example inputs, whose answers export has
            recorded. With inputs the exported program runs in this process.
        tolerance: what passes.

    Returns:
        ``outputs``: for each output ``name``, ``dtype``, ``shape``, ``passed``, ``reason`` and the fields of
        ``Metrics``; ``passed``, which is true.

    Raises:
        CheckFailed: an output is beyond the tolerance; its ``details`` hold the same object.
        FormatError, RunError, CrashError, WorkspaceError: the comparison could not be made.
    """
    comparisons = _compare(ws, inputs, tolerance or Tolerance(), reporter)
    result = _result(comparisons)
    if not result["passed"]:
        error = CheckFailed(
            f"{ARTEFACTS[built_mode(ws)]} differs from PyTorch: {_failures(comparisons)}",
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
    comparisons = _compare(ws, (), Tolerance(), reporter)
    result = _result(comparisons)
    if not result["passed"]:
        error = DisagreementError(
            f"the built model computes something else than PyTorch: {_failures(comparisons)}",
            cause="a defect of c7x, or a model whose result hangs on the last bits (an index of nearly equal values)",
            hint="c7x compare shows the figures; --no-check keeps the result; please report the model",
        )
        error.details = result
        raise error
    worst = max((c.metrics.max_rel for c in comparisons), default=0.0)
    reporter.info(f"agrees with PyTorch on the example inputs: largest relative error {worst:.2g}")
    return result


def _result(comparisons: Sequence[OutputComparison]) -> dict[str, Any]:
    return {"outputs": [c.to_json() for c in comparisons], "passed": all(c.passed for c in comparisons)}
