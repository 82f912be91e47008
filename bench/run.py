"""Times compiled networks beside onnxruntime and PyTorch on this machine: ``make bench``, or ``python -m bench``.

float32 here, int8 in ``bench/int8.py``.

Every contender computes the same network on the same input with one thread, and they take turns in rounds, so that a
slow moment of the machine hits all of them. A ratio is that of the two times of one round; its median over the rounds
is what counts. All times are host times: they say nothing about the DSP.

Contenders: ``cg_dsp`` built with ``--march native``, ``cg_dsp`` built for the compiler's baseline (which runs on every
machine of the architecture), onnxruntime, PyTorch eager. Results go to ``dist/bench.json`` and, as Markdown, to
standard output. Nothing here fails because something is slow.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.common import ROOT, c7x, host_answer, ratios, say, spread, time_rounds

DEFAULT_MODELS = ("resnet18_224", "mobilenet_v2_224")
DEFAULT_INT8_MODELS = ("resnet18", "mobilenet_v2")
NATIVE, BASELINE, ORT, TORCH = "cg_dsp native", "cg_dsp baseline", "onnxruntime", "torch eager"
#: Largest error of a contender relative to PyTorch's largest output; nothing that computes something else is timed.
AGREEMENT = 1e-4

#: Set on some machines for older libraries; they pin the contenders' kernels to an instruction set of the past.
PINNING_VARIABLES = (
    "ATEN_CPU_CAPABILITY",
    "MKL_CBWR",
    "MKL_DEBUG_CPU_TYPE",
    "MKL_ENABLE_INSTRUCTIONS",
    "NPY_DISABLE_CPU_FEATURES",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "OPENBLAS_CORETYPE",
)


def unpin() -> list[str]:
    """Remove ``PINNING_VARIABLES`` from the environment, before any library reads them; returns those that were set."""
    return [name for name in PINNING_VARIABLES if os.environ.pop(name, None) is not None]


# ------------------------------------------------------------------------------------------------------------ machine


def machine() -> dict[str, Any]:
    """Processor, number of them, system, compiler and versions of the contenders."""
    import numpy
    import torch

    from c7x.toolchain.gnu import find_compiler
    from c7x.version import __version__

    try:
        onnxruntime = importlib.metadata.version("onnxruntime")
    except importlib.metadata.PackageNotFoundError:
        onnxruntime = "missing"

    return {
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.machine()}",
        "compiler": find_compiler().version,
        "versions": {
            "c7x": __version__,
            "numpy": numpy.__version__,
            "onnxruntime": onnxruntime,
            "python": platform.python_version(),
            "torch": torch.__version__,
        },
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or "unknown"


# ---------------------------------------------------------------------------------------------------------- compiling


def compile_model(name: str, folder: Path) -> tuple[Path, Path, dict[str, Any]]:
    """Compile a case of the zoo; returns the native and the baseline build directory, and what compiling took.

    The figures: ``wall_seconds`` of the whole command, ``stages`` (seconds by stage as ``c7x compile`` reports them),
    ``other_seconds`` (starting Python, importing torch and TVM).
    """
    from tests.models import MODELS, write_model_file

    source = write_model_file(MODELS[name], folder)
    native, baseline = folder / "native", folder / "baseline"
    start = time.perf_counter()
    result = c7x("compile", str(source), "-o", str(native), "--march", "native")
    wall = time.perf_counter() - start
    stages = {stage["name"]: stage["seconds"] for stage in result["stages"]}
    shutil.copytree(native, baseline)
    c7x("build", str(baseline))
    other = wall - sum(stages.values())
    return native, baseline, {"wall_seconds": wall, "stages": stages, "other_seconds": other}


# ------------------------------------------------------------------------------------------------------------- timing


def contenders(name: str, native: Path, baseline: Path) -> dict[str, Any]:
    """The contenders by name, each checked against PyTorch first; the order is that of the first round."""
    import numpy as np
    import torch

    from c7x.errors import UnsupportedError
    from c7x.report.bench import HostExecutable, InProcess, onnxruntime_session
    from c7x.run.tensors import load_inputs, read_specs
    from c7x.workspace import Workspace
    from tests.models import MODELS

    torch.set_num_threads(1)
    module, example = MODELS[name].make()
    workspaces = {NATIVE: Workspace(native), BASELINE: Workspace(baseline)}
    inputs = load_inputs(workspaces[NATIVE], read_specs(workspaces[NATIVE])[0], ())
    with torch.inference_mode():
        expected = module(*example).numpy()

    def eager() -> Any:
        with torch.inference_mode():
            return module(*example)

    found: dict[str, Any] = {key: HostExecutable(ws, inputs) for key, ws in workspaces.items()}
    answers = {key: host_answer(ws, inputs) for key, ws in workspaces.items()}
    try:
        found[ORT] = onnxruntime_session(workspaces[NATIVE], inputs)
        answers[ORT] = found[ORT].call()[0]
    except UnsupportedError as error:
        say(f"without onnxruntime: {error.cause}")
    found[TORCH] = InProcess(eager)
    for key, answer in answers.items():
        off = float(np.abs(answer - expected).max() / np.abs(expected).max())
        if not off <= AGREEMENT:
            raise SystemExit(f"{name}: {key} does not compute what PyTorch computes (relative error {off:.2g})")
    return found


def bench_model(name: str, *, rounds: int, repeat: int, warmup: int) -> dict[str, Any]:
    """All figures of one model, as bench.json holds them."""
    with tempfile.TemporaryDirectory(prefix="c7x-bench-") as scratch:
        native, baseline, compiling = compile_model(name, Path(scratch))
        sizes = json.loads((native / "io.json").read_text(encoding="utf-8"))
        found = contenders(name, native, baseline)
        times = time_rounds(found, rounds=rounds, repeat=repeat, warmup=warmup)
        resident = found[NATIVE].peak_rss_bytes
    return {
        "name": name,
        "host_seconds": {key: {**spread(values), "rounds": values} for key, values in times.items()},
        "ratios": ratios(times),
        "arena_bytes": sizes["arena_bytes"],
        "arena_lower_bound": sizes["arena_lower_bound"],
        "weights_bytes": sizes["weights_bytes"],
        "peak_rss_bytes": resident,
        "compile": compiling,
    }


# ------------------------------------------------------------------------------------------------------------- report


def markdown(result: Mapping[str, Any]) -> str:
    """The tables for people."""
    where = result["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    lines = [
        "Host time on one thread, batch 1, float32 where nothing else is said. It says nothing about the DSP's time.",
        "",
        f"{where['cpu']}, {where['cpus']} CPUs, {where['system']}; {where['compiler']}; {versions}. "
        f"{result['rounds']} rounds of {result['repeat']} inferences, contenders in turn.",
        "",
        "| model | contender | median ms | min ms | max ms | cg_dsp native / it, median (min to max) |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for model in result["models"]:
        for key, seconds in model["host_seconds"].items():
            ms = [f"{seconds[k] * 1e3:.2f}" for k in ("median", "min", "max")]
            ratio = model["ratios"].get(key)
            text = "" if ratio is None else f"{ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})"
            lines.append(f"| {model['name']} | {key} | {' | '.join(ms)} | {text} |")
    lines += [
        "",
        "| model | arena MB | smallest possible MB | weights MB | peak resident MB | beyond arena and weights MB |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for model in result["models"]:
        used = model["arena_bytes"] + model["weights_bytes"]
        beyond = None if model["peak_rss_bytes"] is None else model["peak_rss_bytes"] - used
        sizes = (
            model["arena_bytes"],
            model["arena_lower_bound"],
            model["weights_bytes"],
            model["peak_rss_bytes"],
            beyond,
        )
        cells = ["unknown" if size is None else f"{size / 1e6:.2f}" for size in sizes]
        lines.append(f"| {model['name']} | {' | '.join(cells)} |")
    lines += int8_lines(result["int8_models"])
    if not result["models"]:
        return "\n".join(lines) + "\n"
    names = sorted({stage for model in result["models"] for stage in model["compile"]["stages"]}, key=_stage_order)
    lines += [
        "",
        f"| `c7x compile`, seconds | {' | '.join(names)} | start-up and imports | whole command |",
        f"|---|{'---:|' * (len(names) + 2)}",
    ]
    for model in result["models"]:
        taken = model["compile"]
        values = [taken["stages"].get(name, 0.0) for name in names] + [taken["other_seconds"], taken["wall_seconds"]]
        lines.append(f"| {model['name']} | {' | '.join(f'{value:.2f}' for value in values)} |")
    return "\n".join(lines) + "\n"


def int8_lines(models: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table of the int8 networks; nothing when none was timed."""
    if not models:
        return []
    lines = [
        "",
        "| int8 model | contender | median ms | min ms | max ms | cg_dsp int8 / it (min to max) | SQNR to float |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for model in models:
        for key, seconds in model["host_seconds"].items():
            ms = [f"{seconds[k] * 1e3:.2f}" for k in ("median", "min", "max")]
            ratio = model["ratios"].get(key)
            text = "" if ratio is None else f"{ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})"
            lines.append(f"| {model['name']} | {key} | {' | '.join(ms)} | {text} | {model['sqnr_db'][key]:.0f} dB |")
    return lines


def _stage_order(name: str) -> int:
    order = ("export", "import", "codegen", "build", "check")
    return order.index(name) if name in order else len(order)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Host times of compiled networks and peers.")
    parser.add_argument(
        "--models", nargs="*", default=list(DEFAULT_MODELS), metavar="NAME", help="cases of tests/models"
    )
    parser.add_argument(
        "--int8-models",
        nargs="*",
        default=list(DEFAULT_INT8_MODELS),
        metavar="NAME",
        help="of tests/models/quantizable.py",
    )
    parser.add_argument("--rounds", type=int, default=9, help="rounds in which contenders take turns (default 9)")
    parser.add_argument("--repeat", type=int, default=10, help="timed inferences a contender and round (default 10)")
    parser.add_argument("--warmup", type=int, default=2, help="untimed inferences before those (default 2)")
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / "bench.json", help="default dist/bench.json")
    options = parser.parse_args(arguments)
    if min(options.rounds, options.repeat) < 1 or options.warmup < 0:
        parser.error("--rounds and --repeat must be at least 1, --warmup at least 0")
    removed = unpin()
    if removed:
        say(f"ignoring {', '.join(removed)}, which would slow the contenders")
    from bench.int8 import bench_int8
    from tests.models import MODELS
    from tests.models.quantizable import QUANTIZABLE

    for wanted, known in ((options.models, sorted(MODELS)), (options.int8_models, list(QUANTIZABLE))):
        if unknown := [name for name in wanted if name not in known]:
            parser.error(f"there is no model {', '.join(unknown)}; there are {', '.join(known)}")
    how = {"rounds": options.rounds, "repeat": options.repeat, "warmup": options.warmup}
    result: dict[str, Any] = {
        "clock": "host",
        "note": "host time on one thread; this is not the DSP's time",
        "machine": machine(),
        "removed_variables": removed,
        **how,
        "models": [bench_model(name, **how) for name in options.models],
        "int8_models": [bench_int8(name, **how) for name in options.int8_models],
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    sys.stdout.write(markdown(result))
    say(f"wrote {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
