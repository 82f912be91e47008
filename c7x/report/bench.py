"""Times cg_dsp on this machine, beside PyTorch and ONNX Runtime when asked.

All times are host times on one thread. They say nothing about the DSP, whose cycles only a board can tell.
Contenders take turns in several rounds, so that a slow moment of the machine hits all of them, and the figures are
medians over the rounds' medians.
"""

from __future__ import annotations

import logging
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from c7x.errors import UnsupportedError
from c7x.report.reference import Reference
from c7x.reporter import SILENT, Reporter
from c7x.run.host import run_host
from c7x.run.tensors import check_inputs, load_inputs, read_specs
from c7x.workspace import Workspace

Arrays = list[np.ndarray]

ROUNDS = 5
NOTE = "host time on one thread; this is not the DSP's time"


class Contender(Protocol):
    """Something that can be timed."""

    peak_rss_bytes: int | None

    def round(self, repeat: int, warmup: int) -> Sequence[float]:
        """The times of ``repeat`` inferences in seconds, after ``warmup`` untimed ones."""


@dataclass
class HostExecutable:
    """cg_dsp, a process a round; it takes the time itself, around the inference alone."""

    ws: Workspace
    inputs: Arrays
    peak_rss_bytes: int | None = None

    def round(self, repeat: int, warmup: int) -> Sequence[float]:
        done = run_host(self.ws, self.inputs, repeat=repeat, warmup=warmup)
        if done.peak_rss is not None:
            self.peak_rss_bytes = max(self.peak_rss_bytes or 0, done.peak_rss)
        return done.host_seconds


@dataclass
class InProcess:
    """A function of this process. Its memory is not told apart from this process's, so there is no figure for it."""

    call: Callable[[], object]
    peak_rss_bytes: int | None = field(default=None, init=False)

    def round(self, repeat: int, warmup: int) -> Sequence[float]:
        for _ in range(warmup):
            self.call()
        times = []
        for _ in range(repeat):
            start = time.perf_counter()
            self.call()
            times.append(time.perf_counter() - start)
        return times


def torch_eager(ws: Workspace, inputs: Arrays) -> InProcess:
    """The exported program's module in PyTorch, on one thread."""
    import torch

    torch.set_num_threads(1)
    reference = Reference(ws)
    args, kwargs = reference.arguments(inputs)

    def call() -> object:
        with torch.inference_mode():
            return reference.module(*args, **kwargs)

    return InProcess(call)


def write_onnx(ws: Workspace, path: Path) -> None:
    """The exported program as an ONNX file, batch norms folded into convolutions."""
    import torch

    # What the exporter has to say concerns its own developers.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(Reference(ws).program, dynamo=True, verbose=False)
    assert program is not None
    program.save(path)


def onnx_session(path: Path, inputs: Arrays) -> InProcess:
    """An ONNX file in ONNX Runtime's CPU provider, on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_inputs()]
    feed = {name: np.ascontiguousarray(array) for name, array in zip(names, inputs, strict=True)}
    return InProcess(lambda: session.run(None, feed))


def onnxruntime_session(ws: Workspace, inputs: Arrays) -> InProcess:
    """The exported program as ONNX in ONNX Runtime's CPU provider, on one thread.

    Raises:
        UnsupportedError: torch cannot write the program as ONNX, or ONNX Runtime cannot read that.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="c7x-onnx-") as folder:
            path = Path(folder) / "model.onnx"
            write_onnx(ws, path)
            return onnx_session(path, inputs)
    except Exception as error:
        root: BaseException = error
        while root.__cause__ is not None:
            root = root.__cause__
        raise UnsupportedError(
            "the model cannot be timed in ONNX Runtime",
            cause=str(root).strip().split("\n", 1)[0],
            hint="leave --peer onnxruntime out",
            stage="bench",
        ) from error


_PEERS: Mapping[str, Callable[[Workspace, Arrays], InProcess]] = {
    "torch": torch_eager,
    "onnxruntime": onnxruntime_session,
}


def measure(
    contenders: Mapping[str, Contender], *, rounds: int, repeat: int, warmup: int, reporter: Reporter = SILENT
) -> list[dict[str, Any]]:
    """Times the contenders in turns; the first one is what the others are compared with.

    Returns:
        for each ``name``, ``median_seconds`` (of the rounds' medians), ``min_seconds``, ``ratio`` (the first's median
        over this one's: below 1 the first is faster), ``peak_rss_bytes`` (None when unknown).
    """
    times: dict[str, list[Sequence[float]]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, contender in contenders.items():
            reporter.progress(f"round {number + 1} of {rounds}: {name}")
            times[name].append(contender.round(repeat, warmup))
    medians = {name: statistics.median(statistics.median(r) for r in taken) for name, taken in times.items()}
    first = medians[next(iter(contenders))]
    return [
        {
            "name": name,
            "median_seconds": medians[name],
            "min_seconds": min(min(r) for r in times[name]),
            "ratio": first / medians[name] if medians[name] else None,
            "peak_rss_bytes": contender.peak_rss_bytes,
        }
        for name, contender in contenders.items()
    ]


def bench_stage(
    ws: Workspace, *, peers: Sequence[str] = (), repeat: int = 20, warmup: int = 3, reporter: Reporter = SILENT
) -> dict[str, Any]:
    """Times cg_dsp on the example inputs, and ``peers`` (``torch``, ``onnxruntime``) in the same run.

    Returns:
        ``contenders`` (see ``measure``; cg_dsp first), ``clock`` (``host``), ``note``, ``threads``, ``rounds``,
        ``repeat``, ``warmup``.

    Raises:
        UnsupportedError: a peer cannot take the model.
        RunError, CrashError: cg_dsp failed.
    """
    specs, _ = read_specs(ws)
    inputs = check_inputs(specs, load_inputs(ws, specs, ()))
    contenders: dict[str, Contender] = {"cg_dsp": HostExecutable(ws, inputs)}
    for name in peers:
        reporter.progress(f"preparing {name}")
        contenders[name] = _PEERS[name](ws, inputs)
    return {
        "contenders": measure(contenders, rounds=ROUNDS, repeat=repeat, warmup=warmup, reporter=reporter),
        "clock": "host",
        "note": NOTE,
        "threads": 1,
        "rounds": ROUNDS,
        "repeat": repeat,
        "warmup": warmup,
    }
