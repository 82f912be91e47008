"""The run stage: a built model on the place it was built for, inputs from files, outputs into files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from c7x.reporter import SILENT, Reporter
from c7x.run.host import HostResult, run_host, run_in
from c7x.run.tensors import check_inputs, check_output_path, load_inputs, read_specs, save_outputs
from c7x.run.vdsp import run_vdsp
from c7x.target import DEFAULT_MODE
from c7x.tensorfile import write_tensors
from c7x.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np

#: What a mode's build makes, and its run runs.
ARTEFACTS: Mapping[str, str] = {"c7x_host": "cg_dsp", "c7x_vdsp": "lib0.out"}


def built_mode(ws: Workspace) -> str:
    """The mode that a build directory was built for; ``c7x_host`` when it does not say."""
    mode = str(ws.manifest.get("mode"))
    return mode if mode in ARTEFACTS else DEFAULT_MODE


def run_built(
    ws: Workspace,
    inputs: Sequence[np.ndarray],
    *,
    mode: str | None = None,
    repeat: int = 1,
    reporter: Reporter = SILENT,
) -> HostResult:
    """Run what a build directory holds, in its mode or the given one; as ``run_host`` or ``run_vdsp``."""
    if (mode or built_mode(ws)) == "c7x_vdsp":
        return run_vdsp(ws, inputs, repeat=repeat, reporter=reporter)
    return run_host(ws, inputs, repeat=repeat, reporter=reporter)


def run_stage(
    ws: Workspace,
    *,
    inputs: Sequence[Path] = (),
    output: Path | None = None,
    repeat: int = 1,
    mode: str | None = None,
    reporter: Reporter = SILENT,
) -> dict[str, Any]:
    """Run the model of a build directory; writes input.bin and output.bin into it, and ``output`` where the user wants.

    Args:
        inputs: files as in ``load_inputs``.
        output: a .npz, .npy or .bin file.
        mode: ``c7x_host`` or ``c7x_vdsp``; by default the one it was built for.

    Returns:
        ``outputs`` (name, dtype, shape), ``output`` (path or null), ``repeat``, ``host_seconds_min``,
        ``host_seconds_median``, ``cycles``, ``l2_peak``, ``l3_peak``, ``peak_rss`` and ``stdout``.

    Raises:
        As ``run_host``, ``load_inputs`` and ``save_outputs``.
    """
    mode = mode or built_mode(ws)
    artefact = ARTEFACTS[mode]
    ws.require(artefact)
    input_specs, output_specs = read_specs(ws)
    if output is not None:
        check_output_path(output, output_specs)
    sources: list[str | Path] = [artefact, "io.json", *(["weights.bin"] if ws.has("weights.bin") else []), *inputs]
    with ws.stage("run", inputs=sources) as stage:
        arrays = load_inputs(ws, input_specs, inputs)
        stage.options = {"mode": mode, "repeat": repeat}
        if mode == "c7x_vdsp":
            result = run_built(ws, arrays, mode=mode, repeat=repeat, reporter=reporter)
            write_tensors(stage.path("input.bin"), check_inputs(input_specs, arrays))
            write_tensors(stage.path("output.bin"), result.outputs)
        else:
            result = run_in(ws, arrays, stage.folder, repeat=repeat, warmup=0, timeout=None, reporter=reporter)
        if output is not None:
            save_outputs(output, output_specs, result.outputs)
    return {
        "outputs": [{"name": s.name, "dtype": s.dtype, "shape": list(s.shape)} for s in output_specs],
        "output": None if output is None else str(output),
        "repeat": repeat,
        "host_seconds_min": result.host_seconds_min,
        "host_seconds_median": result.host_seconds_median,
        "cycles": result.cycles,
        "l2_peak": result.l2_peak,
        "l3_peak": result.l3_peak,
        "peak_rss": result.peak_rss,
        "stdout": result.stdout,
    }
