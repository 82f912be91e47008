"""The int8 rows of ``make bench``: c7x's own integer kernels beside onnxruntime's, on the same network.

onnxruntime gets the network as ONNX with batch norms folded, in its QDQ form: static quantisation by its own tool,
weights per channel, calibrated on the same inputs as c7x.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.common import c7x, host_answer, ratios, say, spread, time_rounds

OURS, ORT = "cg_dsp int8", "onnxruntime int8 (QDQ)"
#: Least SQNR to the float model, in dB: whoever is further away computes something else and is not timed.
LEAST_SQNR_DB = 15.0


def bench_int8(name: str, *, rounds: int, repeat: int, warmup: int) -> dict[str, Any]:
    """All figures of one model of ``QUANTIZABLE`` as bench.json holds them; without onnxruntime's, and a word about
    it, when onnx or onnxruntime is missing."""
    from c7x.report.bench import HostExecutable
    from c7x.run.tensors import load_inputs, read_specs
    from c7x.workspace import Workspace
    from tests.models.quantizable import QUANTIZABLE, write_quantizable_file

    model = QUANTIZABLE[name]
    with tempfile.TemporaryDirectory(prefix="c7x-bench-") as scratch:
        folder = Path(scratch)
        source = write_quantizable_file(model, folder)
        keep = [part for operator in model.keep_float for part in ("--keep-float", operator)]
        c7x("compile", str(source), "-o", str(folder / "build"), "--quantize", "int8", *keep, "--march", "native")
        ws = Workspace(folder / "build")
        inputs = load_inputs(ws, read_specs(ws)[0], ())
        found: dict[str, Any] = {OURS: HostExecutable(ws, inputs)}
        answers = {OURS: host_answer(ws, inputs)}
        try:
            path = write_qdq(ws, [[t.numpy() for t in sample] for sample in model.calibration_inputs()], folder)
            from c7x.report.bench import onnx_session

            found[ORT] = onnx_session(path, inputs)
            answers[ORT] = found[ORT].call()[0]
        except ImportError as error:
            say(f"{name} without onnxruntime's int8: {error}")
        sqnr = _distances(name, ws, answers)
        times = time_rounds(found, rounds=rounds, repeat=repeat, warmup=warmup)
        sizes = json.loads((folder / "build" / "io.json").read_text(encoding="utf-8"))
    return {
        "name": name,
        "host_seconds": {key: {**spread(values), "rounds": values} for key, values in times.items()},
        "ratios": ratios(times),
        "sqnr_db": sqnr,
        "arena_bytes": sizes["arena_bytes"],
        "weights_bytes": sizes["weights_bytes"],
    }


def _distances(name: str, ws: Any, answers: Mapping[str, Any]) -> dict[str, float]:
    import numpy as np

    from c7x.report.compare import compare_arrays

    exact = np.load(ws.path("expected/output_0.npy"))
    found = {key: compare_arrays(answer, exact).sqnr_db or 0.0 for key, answer in answers.items()}
    for key, value in found.items():
        if value < LEAST_SQNR_DB:
            raise SystemExit(f"{name}: {key} does not compute what PyTorch computes (SQNR {value:.1f} dB)")
    return found


def write_qdq(ws: Any, samples: Sequence[Sequence[Any]], folder: Path) -> Path:
    """The model of a build directory as an ONNX file with QuantizeLinear and DequantizeLinear around its operators.

    Raises:
        ImportError: onnx, onnxscript or onnxruntime is not installed.
    """
    import onnx
    import onnxscript  # noqa: F401 - torch's exporter asks for it, with a message of its own
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    from c7x.report.bench import write_onnx

    plain, quantized = folder / "model.onnx", folder / "model.qdq.onnx"
    write_onnx(ws, plain)
    names = [item.name for item in onnx.load(plain, load_external_data=False).graph.input]

    class Samples(CalibrationDataReader):
        def __init__(self) -> None:
            self.left: Iterator[Sequence[Any]] = iter(samples)

        def get_next(self) -> dict[str, Any] | None:
            sample = next(self.left, None)
            return None if sample is None else dict(zip(names, sample, strict=True))

    quantize_static(
        plain,
        quantized,
        Samples(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    return quantized
