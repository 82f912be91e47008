"""Commands that make something: compile and its stages one by one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from c7x import ui
from c7x.cli.app import app, settings_of
from c7x.cli.options import (
    Asymmetric,
    Bind,
    BoardOption,
    Build,
    BuildType,
    Calibrate,
    CalibrateRandom,
    Cc,
    Cflags,
    Cgt,
    CheckL2,
    DebugAlloc,
    DryRun,
    FpReassoc,
    HostEmu,
    Json,
    KeepAsm,
    KeepFloat,
    March,
    ModeOption,
    Output,
    ProfileLayers,
    QuantizeScale,
    Source,
    TargetOption,
    TidlArtifacts,
    TidlBridge,
    quantize_options,
    ti_options,
)
from c7x.engine.events import StageOutcome
from c7x.engine.select import select_engine
from c7x.report.inspect import summarize
from c7x.stages import COMPILE_CHAIN, StageRequest, check_quantize, requests_for
from c7x.target import DEFAULT_MODE
from c7x.workspace import Workspace


def run_stages(ctx: typer.Context, workspace: Workspace, requests: Sequence[StageRequest]) -> list[StageOutcome]:
    settings = settings_of(ctx)
    engine = select_engine(settings.engine, requests, settings.container)
    with ui.Terminal(verbosity=settings.verbosity, no_color=settings.no_color) as terminal:
        return engine.run(workspace, requests, terminal)


def word_of(path: Path) -> str:
    """A path as one word of a command to copy."""
    return shlex.quote(str(path))


def report_stages(
    ctx: typer.Context, workspace: Workspace, outcomes: Sequence[StageOutcome], *, as_json: bool, following: str
) -> None:
    if not as_json and (script := outcomes[-1].result.get("script")):
        typer.echo(script, nl=False)
        return
    summary = summarize(workspace)
    if as_json:
        stages = [{"name": o.name, "seconds": round(o.seconds, 3), "result": o.result} for o in outcomes]
        ui.print_json({"status": "ok", "build": str(workspace.root), "stages": stages, **summary})
        return
    if settings_of(ctx).verbosity == "quiet":
        return
    rows = []
    if summary["artefact"]:
        path = workspace.path(summary["artefact"])
        rows.append(("artefact", f"{path} ({ui.format_bytes(summary['artefact_bytes'])})"))
    if summary["weights_bytes"] is not None:
        rows.append(("weights", ui.format_bytes(summary["weights_bytes"])))
    if summary["arena_bytes"] is not None:
        bound = ui.format_bytes(summary["arena_lower_bound"])
        rows.append(("arena", f"{ui.format_bytes(summary['arena_bytes'])} (at least {bound} live at once)"))
    rows.append(("next", following))
    ui.make_console(stderr=False, no_color=settings_of(ctx).no_color).print(ui.table(("", ""), rows, left=2))


def following_command(build: Path, mode: str) -> str:
    """What a user does after a build."""
    return f"c7x deploy {word_of(build)}" if mode == "c7x_dload" else f"c7x run {word_of(build)}"


@app.command(epilog="Example: c7x compile model.py -o build --march native")
def compile(  # noqa: A001 - the command is called so
    ctx: typer.Context,
    source: Source,
    output: Output = Path("build"),
    mode: ModeOption = DEFAULT_MODE,
    board: BoardOption = None,
    target: TargetOption = None,
    quantize: Annotated[
        str | None, typer.Option("--quantize", metavar="TYPE", help="int8 or int16; default: float32.")
    ] = None,
    quantize_scale: QuantizeScale = None,
    asymmetric: Asymmetric = None,
    calibrate: Calibrate = None,
    calibrate_random: CalibrateRandom = None,
    keep_float: KeepFloat = None,
    profile_layers: ProfileLayers = False,
    debug_alloc: DebugAlloc = False,
    cc: Cc = None,
    march: March = None,
    cflags: Cflags = None,
    build_type: BuildType = None,
    check_l2: CheckL2 = False,
    hostemu: HostEmu = None,
    cgt: Cgt = None,
    fp_reassoc: FpReassoc = None,
    keep_asm: KeepAsm = False,
    tidl_bridge: TidlBridge = None,
    tidl_artifacts: TidlArtifacts = None,
    dry_run: DryRun = False,
    bind: Bind = None,
    no_check: Annotated[bool, typer.Option("--no-check", help="Do not run the result against PyTorch's.")] = False,
    as_json: Json = False,
) -> None:
    """Compile a model: export, quantize if asked, import, codegen, build, and check the result against PyTorch."""
    options = {
        "source": str(source),
        "quantize": quantize,
        **quantize_options(quantize_scale, asymmetric, calibrate, calibrate_random, keep_float),
        "bind": bind,
        "mode": mode,
        "board": board,
        "target": target,
        "profile_layers": profile_layers or None,
        "debug_alloc": debug_alloc or None,
        "cc": cc,
        "march": march,
        "cflags": cflags,
        "build_type": build_type,
        "check_l2": check_l2 or None,
        "hostemu": hostemu,
        **ti_options(cgt, fp_reassoc, keep_asm, tidl_bridge, tidl_artifacts, dry_run),
    }
    check_quantize(options)
    stages = COMPILE_CHAIN if quantize is None else ("export", "quantize", *COMPILE_CHAIN[1:])
    # A module for a board cannot be run here.
    names = stages if no_check or mode == "c7x_dload" else (*stages, "check")
    workspace = Workspace(output)
    outcomes = run_stages(ctx, workspace, requests_for(names, options))
    report_stages(ctx, workspace, outcomes, as_json=as_json, following=following_command(output, mode))


@app.command(epilog="Example: c7x export model.py -o build --bind batch=1")
def export(
    ctx: typer.Context,
    source: Source,
    output: Output = Path("build"),
    bind: Bind = None,
    as_json: Json = False,
) -> None:
    """Load a model and export it: model.pt2, example inputs and PyTorch's outputs for them."""
    workspace = Workspace(output)
    requests = requests_for(["export"], {"source": str(source), "bind": bind})
    outcomes = run_stages(ctx, workspace, requests)
    report_stages(ctx, workspace, outcomes, as_json=as_json, following=f"c7x import {word_of(output)}")


@app.command(epilog="Example: c7x quantize model.py -o build --dtype int8 --report")
def quantize(
    ctx: typer.Context,
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="model.py or model.pt2, or a build directory after export.")
    ],
    output: Output = Path("build"),
    dtype: Annotated[str, typer.Option("--dtype", metavar="TYPE", help="int8 or int16.")] = "int8",
    quantize_scale: QuantizeScale = None,
    asymmetric: Asymmetric = None,
    calibrate: Calibrate = None,
    calibrate_random: CalibrateRandom = None,
    keep_float: KeepFloat = None,
    report: Annotated[bool, typer.Option("--report", help="Show noise, range and saturation of each layer.")] = False,
    bind: Bind = None,
    as_json: Json = False,
) -> None:
    """Quantize a model with PT2E: model.int8.pt2 or model.int16.pt2, and quantize.json, what it costs by layer."""
    made = source.is_dir()
    workspace = Workspace(source if made else output)
    options = {
        "source": None if made else str(source),
        "bind": bind,
        "quantize": dtype,
        **quantize_options(quantize_scale, asymmetric, calibrate, calibrate_random, keep_float),
    }
    requests = requests_for(["quantize"] if made else ["export", "quantize"], options)
    outcomes = run_stages(ctx, workspace, requests)
    described = workspace.read_json("quantize.json") if report else None
    if as_json:
        stages = [{"name": o.name, "seconds": round(o.seconds, 3), "result": o.result} for o in outcomes]
        value = {"status": "ok", "build": str(workspace.root), "stages": stages, **outcomes[-1].result}
        ui.print_json(value if described is None else {**value, "report": described})
        return
    if described is not None:
        console = ui.make_console(stderr=False, no_color=settings_of(ctx).no_color)
        for part in ui.quantization_tables(described):
            console.print(part)
            console.print()
    report_stages(ctx, workspace, outcomes, as_json=False, following=f"c7x import {word_of(workspace.root)}")


@app.command("import", epilog="Example: c7x import build")
def import_(ctx: typer.Context, build: Build = Path("build"), as_json: Json = False) -> None:
    """Import the exported program into TVM's Relax: model.relax and model.params.npz."""
    workspace = Workspace(build)
    outcomes = run_stages(ctx, workspace, requests_for(["import"], {}))
    report_stages(ctx, workspace, outcomes, as_json=as_json, following=f"c7x codegen {word_of(build)}")


@app.command(epilog="Example: c7x codegen build --target 'c_static -mcpu=c7x -debug-alloc'")
def codegen(
    ctx: typer.Context,
    build: Build = Path("build"),
    mode: ModeOption = DEFAULT_MODE,
    board: BoardOption = None,
    target: TargetOption = None,
    profile_layers: ProfileLayers = False,
    debug_alloc: DebugAlloc = False,
    as_json: Json = False,
) -> None:
    """Lower the Relax module to C: lib0.c, devc.c, weights.bin and a header."""
    workspace = Workspace(build)
    options = {
        "mode": mode,
        "board": board,
        "target": target,
        "profile_layers": profile_layers or None,
        "debug_alloc": debug_alloc or None,
    }
    outcomes = run_stages(ctx, workspace, requests_for(["codegen"], options))
    report_stages(ctx, workspace, outcomes, as_json=as_json, following=f"c7x build {word_of(build)}")


@app.command(epilog="Example: c7x build build --cc clang++ --march native")
def build(
    ctx: typer.Context,
    build: Build = Path("build"),
    mode: ModeOption = DEFAULT_MODE,
    board: BoardOption = None,
    cc: Cc = None,
    march: March = None,
    cflags: Cflags = None,
    build_type: BuildType = None,
    check_l2: CheckL2 = False,
    hostemu: HostEmu = None,
    cgt: Cgt = None,
    fp_reassoc: FpReassoc = None,
    keep_asm: KeepAsm = False,
    tidl_bridge: TidlBridge = None,
    tidl_artifacts: TidlArtifacts = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Compile lib0.c to the artefact of a mode: cg_dsp, a native executable, or lib0.out, a loadable module."""
    workspace = Workspace(build)
    options = {
        "mode": mode,
        "board": board,
        "cc": cc,
        "march": march,
        "cflags": cflags,
        "build_type": build_type,
        "check_l2": check_l2 or None,
        "hostemu": hostemu,
        **ti_options(cgt, fp_reassoc, keep_asm, tidl_bridge, tidl_artifacts, dry_run),
    }
    outcomes = run_stages(ctx, workspace, requests_for(["build"], options))
    report_stages(ctx, workspace, outcomes, as_json=as_json, following=following_command(build, mode))
