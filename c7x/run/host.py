"""Running ``cg_dsp`` on this machine: inputs in, outputs and host times out.

Every time here is host time. None of it says anything about the DSP.
"""

from __future__ import annotations

import os
import re
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from c7x.errors import RunError
from c7x.reporter import SILENT, Reporter
from c7x.run.tensors import as_specified, prepare
from c7x.subprocesses import run
from c7x.tensorfile import parse_tensors, write_tensors
from c7x.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, kw_only=True)
class HostResult:
    """What a run of ``cg_dsp`` gave.

    Attributes:
        outputs: arrays with the dtypes and shapes of io.json, in its order.
        stdout: everything the executable printed, the layer profile included.
        host_seconds: host time of each timed run, in seconds.
        cycles: the number of the line ``Cycles:``; on a host that is nanoseconds of host time of the last run.
        l2_peak, l3_peak: bytes of the line ``Memory:``.
        peak_rss: highest resident memory of the process in bytes; None where the system does not tell.
    """

    outputs: list[np.ndarray]
    stdout: str
    host_seconds: list[float]
    cycles: int
    l2_peak: int
    l3_peak: int
    peak_rss: int | None

    @property
    def host_seconds_min(self) -> float:
        return min(self.host_seconds)

    @property
    def host_seconds_median(self) -> float:
        return statistics.median(self.host_seconds)


def run_host(
    where: Workspace | str | os.PathLike[str],
    inputs: Sequence[np.ndarray],
    *,
    repeat: int = 1,
    warmup: int = 0,
    timeout: float | None = None,
    reporter: Reporter = SILENT,
) -> HostResult:
    """Run ``cg_dsp`` of a build directory; nothing is written into it.

    Args:
        where: a build directory with cg_dsp, weights.bin and io.json.
        inputs: one array for each input of io.json, with its dtype and shape.
        repeat: timed runs (at least 1); all must give the same bits.
        warmup: runs before those.
        timeout: seconds for the whole process.

    Raises:
        RunError: an input does not fit, or cg_dsp refused or ended with an error.
        CrashError: cg_dsp died by a signal, which is named.
        WorkspaceError: a file is missing.
    """
    with tempfile.TemporaryDirectory(prefix="c7x-run-") as scratch:
        return run_in(where, inputs, Path(scratch), repeat=repeat, warmup=warmup, timeout=timeout, reporter=reporter)


def run_in(
    where: Workspace | str | os.PathLike[str],
    inputs: Sequence[np.ndarray],
    folder: Path,
    *,
    repeat: int,
    warmup: int,
    timeout: float | None,
    reporter: Reporter,
) -> HostResult:
    """As ``run_host``, with input.bin and output.bin left in ``folder``."""
    prepared = prepare(where, "cg_dsp", inputs, repeat=repeat, warmup=warmup)
    write_tensors(folder / "input.bin", prepared.inputs)
    command: list[str | Path] = [
        prepared.artefact.resolve(),
        "--input", folder / "input.bin",
        "--weights", prepared.ws.path("weights.bin").resolve(),
        "--output", folder / "output.bin",
        "--repeat", str(repeat),
        "--warmup", str(warmup),
        "--time",
    ]  # fmt: skip
    done = run(
        command,
        reporter=reporter,
        timeout=timeout,
        error=RunError,
        what="run the model",
        hint="build with --build-type asan and run again to see where it fails, or compile again",
        missing_hint="run c7x build again: cg_dsp may come from another kind of machine",
    )
    # tvm_dsp_log of a module writes there.
    if done.stderr.strip():
        reporter.warn(done.stderr.strip())
    outputs = as_specified(
        "cg_dsp", prepared.output_specs, parse_tensors((folder / "output.bin").read_bytes(), name="output.bin")
    )
    return _parse_stdout(done.stdout, outputs)


_CYCLES = re.compile(r"^Cycles: (\d+)$", re.MULTILINE)
_TIME = re.compile(r"^Host time\[\d+\]: ([0-9.]+) s$", re.MULTILINE)
_MEMORY = re.compile(r"^Memory: L2 peak=(\d+), L3 peak=(\d+)$", re.MULTILINE)
_RSS = re.compile(r"^Host memory: peak RSS=(\d+)$", re.MULTILINE)


_INSTRUMENTS = re.compile(
    r"^===== TVM Layer Profile =====\n(?:.*\n)*?=+$"
    r"|^\[alloc-storage .*(?:\n  -> .*)?$"
    r"|^===== TVM Alloc Debug Summary =====(?:\n[A-Z].*: .*){2}$",
    re.MULTILINE,
)


def instrument_text(stdout: str) -> str:
    """The lines of ``-profile-layers`` and ``-debug-alloc`` in what a model printed; empty without these attributes."""
    return "\n".join(match[0] for match in _INSTRUMENTS.finditer(stdout))


def _parse_stdout(text: str, outputs: list[np.ndarray]) -> HostResult:
    cycles, memory, rss = _CYCLES.search(text), _MEMORY.search(text), _RSS.search(text)
    if cycles is None or memory is None:
        raise RunError(
            "cg_dsp did not print its cycles and memory",
            cause="it was built by another version of c7x",
            hint="run c7x build again",
        )
    return HostResult(
        outputs=outputs,
        stdout=text,
        host_seconds=[float(seconds) for seconds in _TIME.findall(text)],
        cycles=int(cycles[1]),
        l2_peak=int(memory[1]),
        l3_peak=int(memory[2]),
        peak_rss=int(rss[1]) if rss else None,
    )
