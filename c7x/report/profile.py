"""The profile stage: what each layer takes, on this machine, the virtual DSP, a board, or as a board's log tells it.

Two figures a layer: the first inference of a freshly loaded model, and the last of several, when caches are warm.
Times of this machine and cycles of a DSP have different names and never stand in for one another; the virtual DSP's
clock is this machine's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from c7x.errors import FormatError, RunError, UsageError
from c7x.report.layers import Layer, read_layers
from c7x.report.profile_text import ProfileText, parse_profiles
from c7x.report.roofline import limits_to_json, roofline
from c7x.reporter import SILENT, Reporter
from c7x.run.stage import built_mode, run_built
from c7x.run.tensors import check_inputs, load_inputs, read_specs
from c7x.target import Target
from c7x.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np

PROFILE = "profile.json"
#: The fewest inferences after which caches are called warm; a board does no more.
DEFAULT_REPEAT = 2

Place = Literal["host", "vdsp", "board", "log"]

_NOTES = {
    "host": "host time, not the DSP's",
    "vdsp": "host time of the virtual DSP, not the DSP's",
    "board": "cycles of the DSP",
    "log": "cycles of the DSP, from a log",
}
#: Only cg_dsp and ``c7x run`` for a host or a virtual DSP print these.
_HOST_LINE = re.compile(r"^(?:Host time\[\d+\]: |host time \d)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Profiles of one place.

    Attributes:
        place: where the model ran.
        on_host: whether its clock is a host's, in nanoseconds; else it is the DSP's, in cycles.
        first: of the first inference after loading; None when a log holds one profile only.
        steady: of the last inference.
    """

    place: Place
    on_host: bool
    first: ProfileText | None
    steady: ProfileText


def _only(profiles: Sequence[ProfileText], what: str) -> ProfileText:
    if not profiles:
        raise RunError(
            f"{what} printed no layer profile",
            cause="it was built from other code than lib0.c of the build directory",
            hint="run c7x build again",
        )
    return profiles[-1]


def measure_built(
    ws: Workspace, inputs: Sequence[np.ndarray], *, mode: str, repeat: int, reporter: Reporter = SILENT
) -> Measurement:
    """Profiles of what was built for ``c7x_host`` or ``c7x_vdsp``; ``repeat`` inferences lead to the steady state.

    Raises:
        RunError, CrashError: it failed; a kernel that gave up is named.
    """
    found = []
    for count in (1, repeat):
        reporter.progress(f"running {'once' if count == 1 else f'{count} times'}")
        text = run_built(ws, inputs, mode=mode, repeat=count, reporter=reporter).stdout
        found.append(_only(parse_profiles(text), "the model"))
    return Measurement(place="vdsp" if mode == "c7x_vdsp" else "host", on_host=True, first=found[0], steady=found[1])


def measure_board(
    ws: Workspace, inputs: Sequence[np.ndarray], *, board: str | None, host: str | None, reporter: Reporter = SILENT
) -> Measurement:
    """Profiles of a module on a board: one inference after loading, then two after loading it again.

    Raises:
        RunError: the board is not reachable, or the module failed.
    """
    from c7x.run.board import Command, machine_for, run_module

    machine = machine_for(board or ws.manifest.get("board"), host=host, reporter=reporter)
    module = ws.require("lib0.out")
    texts = []
    commands: tuple[Command, ...] = ("run", "profile")
    for command in commands:
        reporter.progress(f"c7x_compute {command} on {machine.name}")
        texts.append(run_module(machine, module, inputs, command=command).stdout)
    first, steady = (_only(parse_profiles(text), f"the module on {machine.name}") for text in texts)
    return Measurement(place="board", on_host=False, first=first, steady=steady)


def read_log(path: Path) -> Measurement:
    """The profiles in a log: the first of several is of the first inference, the last of the steady state.

    Raises:
        UsageError: there is no such file.
        FormatError: it holds no profile, or a damaged one.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(
            f"cannot read the log {path}",
            cause=error.strerror,
            hint="--log FILE, what c7x_compute printed on standard error",
        ) from error
    profiles = parse_profiles(text)
    if not profiles:
        raise FormatError(
            f"{path} holds no layer profile",
            cause="the module was built without --profile-layers, or standard error was not kept",
            hint="build with c7x compile ... --profile-layers, and keep what the run prints: ... 2> board.log",
        )
    return Measurement(
        place="log",
        on_host=_HOST_LINE.search(text) is not None,
        first=profiles[0] if len(profiles) > 1 else None,
        steady=profiles[-1],
    )


def check_profiled(ws: Workspace) -> None:
    """Whether the code was generated to count cycles.

    Raises:
        UsageError: it was not; the hint is the command that makes it so.
    """
    target = str(ws.manifest.get("target") or "")
    if target and not Target.parse(target).profile_layers:
        mode = ws.manifest.get("mode")
        chosen = f" --mode {mode}" if mode not in (None, "c7x_host") else ""
        raise UsageError(
            f"the model in {ws.root} was compiled without --profile-layers",
            cause="its code does not count what each layer takes",
            hint=f"c7x codegen {ws.root} --target '{target} -profile-layers' && c7x build {ws.root}{chosen}",
        )


def _joined(layers: Sequence[Layer], text: ProfileText, which: str) -> list[int]:
    """The counts of a profile, one for each layer."""
    if text.in_flight is not None:
        index = min(len(text.layers), len(layers) - 1)
        where = f" at {layers[index].where}" if layers[index].where else ""
        raise RunError(
            f"layer {index} ({layers[index].name}{where}) did not end with success: {text.in_flight}",
            cause="the kernel refused its arguments, or memory ran out",
            hint="run the model with --mode c7x_host to see whether it is the model",
        )
    wrong = next((i for i, (a, b) in enumerate(zip(layers, text.layers, strict=False)) if a.kernel != b[0]), None)
    if wrong is not None or len(layers) != len(text.layers):
        fact = (
            f"its layer {wrong} is {text.layers[wrong][0]}, and the build's is {layers[wrong].kernel}"
            if wrong is not None
            else f"it has {len(text.layers)} layers, and the build has {len(layers)}"
        )
        raise FormatError(
            f"the {which} profile is not of this build: {fact}",
            cause="the model was compiled again since, or the log is of another one",
            hint="profile the build that the log is of, or run the model again",
        )
    return [cycles for _, cycles in text.layers]


def describe(layers: Sequence[Layer], measurement: Measurement, *, with_roofline: bool = False) -> dict[str, Any]:
    """The content of profile.json.

    Returns:
        ``place``, ``clock`` (``host`` or ``dsp``), ``note``; ``layers``: records of layers.json with
        ``host_seconds_first`` and ``host_seconds``, or ``cycles_first`` and ``cycles`` (the first is None where a log
        does not tell), and ``share`` of the steady total; ``totals``: the same sums with ``macs``, ``bytes_in`` and
        ``bytes_out``; with ``with_roofline`` also ``limits``, and in each layer ``roofline``.

    Raises:
        FormatError: the profile is not of these layers.
        RunError: a kernel did not end with success.
    """
    steady = _joined(layers, measurement.steady, "last")
    first = None if measurement.first is None else _joined(layers, measurement.first, "first")
    total = sum(steady)
    rows = []
    for layer in layers:
        count = steady[layer.index]
        row = {
            **layer.to_json(),
            **_figures(measurement.on_host, None if first is None else first[layer.index], count),
            "share": round(count / total, 6) if total else 0.0,
        }
        if with_roofline:
            row["roofline"] = roofline(layer, None if measurement.on_host else count)
        rows.append(row)
    sums = {key: sum(row[key] for row in rows) for key in ("macs", "bytes_in", "bytes_out")}
    return {
        "place": measurement.place,
        "clock": "host" if measurement.on_host else "dsp",
        "note": _NOTES["host"] if measurement.on_host and measurement.place == "log" else _NOTES[measurement.place],
        "layers": rows,
        "totals": {**_figures(measurement.on_host, None if first is None else sum(first), total), **sums},
        **({"limits": limits_to_json()} if with_roofline else {}),
    }


def _figures(on_host: bool, first: int | None, steady: int) -> dict[str, float | int | None]:
    if not on_host:
        return {"cycles_first": first, "cycles": steady}
    return {
        "host_seconds_first": None if first is None else round(first * 1e-9, 9),
        "host_seconds": round(steady * 1e-9, 9),
    }


def profile_stage(
    ws: Workspace,
    *,
    mode: str | None = None,
    board: str | None = None,
    host: str | None = None,
    log: Path | None = None,
    inputs: Sequence[Path] = (),
    repeat: int = DEFAULT_REPEAT,
    with_roofline: bool = False,
    reporter: Reporter = SILENT,
) -> dict[str, Any]:
    """Measure every layer and write profile.json.

    Args:
        mode: ``c7x_host``, ``c7x_vdsp`` or ``c7x_dload``; by default the one it was built for.
        board, host: of mode c7x_dload, as in ``machine_for``.
        log: read this instead of running anything.
        inputs: files as in ``load_inputs``.
        repeat: inferences that lead to the steady state, at least 2.
        with_roofline: add what the core could do at best.

    Returns:
        The content of profile.json (see ``describe``).

    Raises:
        UsageError: the code does not count cycles, or an argument has no meaning.
        FormatError: a log is damaged or of another build.
        RunError, CrashError: the model failed.
        WorkspaceError: a file is missing.
    """
    check_profiled(ws)
    layers = read_layers(ws)
    chosen = mode or ("c7x_dload" if ws.manifest.get("mode") == "c7x_dload" else built_mode(ws))
    artefact = "cg_dsp" if chosen == "c7x_host" else "lib0.out"
    sources: list[str | Path] = ["layers.json", "memory.json"]
    sources += [log] if log else [artefact, "io.json", *inputs]
    with ws.stage("profile", inputs=sources) as stage:
        if log is not None:
            measured = read_log(log)
        else:
            input_specs, _ = read_specs(ws)
            arrays = check_inputs(input_specs, load_inputs(ws, input_specs, inputs))
            if chosen == "c7x_dload":
                measured = measure_board(ws, arrays, board=board, host=host, reporter=reporter)
            else:
                measured = measure_built(ws, arrays, mode=chosen, repeat=repeat, reporter=reporter)
        stage.options = {"place": measured.place, "repeat": None if log or chosen == "c7x_dload" else repeat}
        result = describe(layers, measured, with_roofline=with_roofline)
        stage.write_json(PROFILE, result)
    return result
