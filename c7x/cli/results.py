"""Commands that use what was made: run, deploy, compare, profile, visualize, bench, inspect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from c7x import ui, ui_reports
from c7x.cli.app import app, settings_of
from c7x.cli.making import run_stages, word_of
from c7x.cli.options import (
    BoardOption,
    Build,
    BuiltMode,
    HostOption,
    InputOption,
    Json,
    input_files,
)
from c7x.errors import CheckFailed
from c7x.report.inspect import inspect_workspace
from c7x.report.offload import offload_summary
from c7x.stages import PEERS, requests_for
from c7x.target import find_board
from c7x.workspace import Workspace


@app.command(epilog="Example: c7x run build --input x.npy --output y.npz")
def run(
    ctx: typer.Context,
    build: Build = Path("build"),
    input: InputOption = None,  # noqa: A002 - the option is called so
    output: Annotated[
        Path | None, typer.Option("--output", help="Where to put the outputs: .npz, .npy or .bin.")
    ] = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Infer so often in one process.")] = 1,
    mode: BuiltMode = None,
    board: BoardOption = None,
    host: HostOption = None,
    as_json: Json = False,
) -> None:
    """Run what was built, cg_dsp or lib0.out, on the example inputs or on given ones."""
    workspace = Workspace(build)
    options = {
        "input": input_files(input),
        "output": str(output) if output else None,
        "repeat": repeat,
        "mode": mode,
        "board": board,
        "host": host,
    }
    outcomes = run_stages(ctx, workspace, requests_for(["run"], options))
    result = outcomes[-1].result
    if as_json:
        ui.print_json({"status": "ok", "build": str(build), **result})
    else:
        settings = settings_of(ctx)
        console = ui.make_console(stderr=False, no_color=settings.no_color)
        rows = [(item["name"], f"{item['dtype']}{list(item['shape'])}") for item in result["outputs"]]
        console.print(ui.table(("output", "type"), rows, left=2))
        if result.get("host"):
            console.print(f"{result['cycles']} cycles of the DSP of {result['host']}", soft_wrap=True)
        else:
            console.print(f"host time {ui.format_seconds(result['host_seconds_median'])}", soft_wrap=True)
        from c7x.run.host import instrument_text

        told = result["stdout"] if settings.verbosity == "verbose" else instrument_text(result["stdout"])
        if told.strip():
            console.print(told.rstrip(), soft_wrap=True, markup=False, highlight=False)
        if output:
            console.print(f"written to {output}", soft_wrap=True)


@app.command(epilog="Example: c7x deploy build --board beagley-ai")
def deploy(
    ctx: typer.Context,
    build: Build = Path("build"),
    board: BoardOption = None,
    host: HostOption = None,
    as_json: Json = False,
) -> None:
    """Copy lib0.out to a board over ssh, and ask its DSP whether it is there."""
    outcomes = run_stages(ctx, Workspace(build), requests_for(["deploy"], {"board": board, "host": host}))
    result = outcomes[-1].result
    if as_json:
        ui.print_json({"status": "ok", "build": str(build), **result})
        return
    rows = [
        ("module", f"{result['host']}:{result['module']}" + ("" if result["copied"] else " (was there already)")),
        ("DSP", " ".join(result["service"].split())),
        ("next", f"c7x run {word_of(build)} --mode c7x_dload" + (f" --host {host}" if host else "")),
    ]
    ui.make_console(stderr=False, no_color=settings_of(ctx).no_color).print(ui.table(("", ""), rows, left=2))


@app.command(epilog="Example: c7x compare build --input x.npy --tolerance 1e-5")
def compare(
    ctx: typer.Context,
    build: Build = Path("build"),
    input: InputOption = None,  # noqa: A002 - the option is called so
    rtol: Annotated[float | None, typer.Option("--rtol", min=0.0, help="Relative tolerance of each element.")] = None,
    atol: Annotated[float | None, typer.Option("--atol", min=0.0, help="Absolute tolerance of each element.")] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance", min=0.0, help="Largest error relative to the output's largest value; default by dtype."
        ),
    ] = None,
    layers: Annotated[
        bool, typer.Option("--layers", help="Compare every layer, and say which is the first bad one.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare cg_dsp with PyTorch on the same inputs; exit code 1 beyond the tolerance."""
    options = {
        "input": input_files(input),
        "rtol": rtol,
        "atol": atol,
        "tolerance": tolerance,
    }
    console = ui.make_console(stderr=False, no_color=settings_of(ctx).no_color)
    try:
        requests = requests_for(["compare_layers" if layers else "compare"], options)
        result = run_stages(ctx, Workspace(build), requests)[-1].result
    except CheckFailed as error:
        if layers and error.details and not as_json:
            for part in ui_reports.accuracy_tables(error.details):
                console.print(part)
        raise
    if as_json:
        ui.print_json({"status": "ok", "build": str(build), **result})
    else:
        for part in ui_reports.accuracy_tables(result) if layers else ui.comparison_tables(result):
            console.print(part)


@app.command(epilog="Example: c7x profile build --roofline, after c7x compile model.py --profile-layers -o build")
def profile(
    ctx: typer.Context,
    build: Build = Path("build"),
    input: InputOption = None,  # noqa: A002 - the option is called so
    mode: BuiltMode = None,
    board: BoardOption = None,
    host: HostOption = None,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", help="Read what a board printed, and run nothing.")
    ] = None,
    repeat: Annotated[
        int | None, typer.Option("--repeat", min=2, help="Inferences until the steady state; default: 2.")
    ] = None,
    roofline: Annotated[
        bool, typer.Option("--roofline", help="Show what the DSP's core could do at best, with sources.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what every layer takes, on the first inference and when caches are warm; writes profile.json."""
    options = {
        "input": input_files(input),
        "mode": mode,
        "board": board,
        "host": host,
        "log": str(log.absolute()) if log else None,
        "repeat": repeat,
        "roofline": roofline or None,
    }
    result = run_stages(ctx, Workspace(build), requests_for(["profile"], options))[-1].result
    if as_json:
        ui.print_json({"status": "ok", "build": str(build), **result})
        return
    console = ui.make_console(stderr=False, no_color=settings_of(ctx).no_color)
    for part in ui_reports.profile_tables(result):
        console.print(part)


@app.command(epilog="Example: c7x visualize build -o build/report.html")
def visualize(
    ctx: typer.Context,
    build: Build = Path("build"),
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The page; default: report.html in the build directory."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write one HTML page about a build: layers, times, accuracy, memory; it needs no network."""
    from c7x.report.visualize import visualize_stage

    settings = settings_of(ctx)
    with ui.Terminal(verbosity=settings.verbosity, no_color=settings.no_color) as terminal:
        result = visualize_stage(Workspace(build), output=output, reporter=terminal)
    if as_json:
        ui.print_json({"status": "ok", "build": str(build), **result})
        return
    if settings.verbosity == "quiet":
        return
    rows = [("page", f"{result['output']} ({ui.format_bytes(result['bytes'])}, {result['layers']} layers)")]
    if not result["timed"]:
        rows.append(("times", f"none yet: c7x profile {word_of(build)}, then c7x visualize again"))
    if not result["compared"]:
        rows.append(("accuracy", f"none yet: c7x compare {word_of(build)} --layers, then c7x visualize again"))
    ui.make_console(stderr=False, no_color=settings.no_color).print(ui.table(("", ""), rows, left=2))


@app.command(epilog="Example: c7x bench build --repeat 50 --peer onnxruntime --peer torch")
def bench(
    ctx: typer.Context,
    build: Build = Path("build"),
    repeat: Annotated[int, typer.Option("--repeat", help="Timed inferences a round.")] = 20,
    warmup: Annotated[int, typer.Option("--warmup", help="Untimed inferences a round, before.")] = 3,
    peer: Annotated[
        list[str] | None, typer.Option("--peer", help=f"Also time {', '.join(PEERS)} or none; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Time cg_dsp on this machine, on one thread: host time, which says nothing about the DSP's."""
    peers = [name for name in peer or () if name != "none"]
    options = {"repeat": repeat, "warmup": warmup, "peers": peers}
    result = run_stages(ctx, Workspace(build), requests_for(["bench"], options))[-1].result
    if as_json:
        ui.print_json({"status": "ok", "build": str(build), **result})
    else:
        ui.make_console(stderr=False, no_color=settings_of(ctx).no_color).print(ui.bench_table(result))


@app.command(epilog="Example: c7x inspect build --json, or c7x inspect build/lib0.out --board beagley-ai")
def inspect(
    ctx: typer.Context,
    build: Annotated[Path, typer.Argument(metavar="BUILD", help="The build directory, or a module file.")] = Path(
        "build"
    ),
    board: BoardOption = None,
    as_json: Json = False,
) -> None:
    """Show what a build directory holds, or what a module is and whether a board loads it (exit code 1 when not)."""
    if board:
        find_board(board)
    if build.is_file() or build.suffix == ".out":
        _inspect_module(ctx, build, board, as_json)
        return
    workspace = Workspace(build)
    result = {**inspect_workspace(workspace), "offload": offload_summary(workspace)}
    if as_json:
        ui.print_json({"status": "ok", "build": str(build), **result})
        return
    console = ui.make_console(stderr=False, no_color=settings_of(ctx).no_color)
    facts = [(key, result[key]) for key in ("model", "mode", "target", "board") if result[key] is not None]
    facts += [
        (key.removesuffix("_bytes").replace("_", " "), ui.format_bytes(result[key]))
        for key in ("weights_bytes", "arena_bytes", "arena_lower_bound")
        if result[key] is not None
    ]
    if facts:
        console.print(ui.table(("", ""), facts, left=2))
        console.print()
    rows = [(f["name"], f["stage"], f["state"], ui.format_bytes(f["bytes"])) for f in result["files"]]
    console.print(ui.table(("file", "stage", "state", "size"), rows, left=3))
    if result["l2"]:
        console.print()
        console.print(ui.l2_table(result["l2"]))
    if result["offload"]:
        for part in ui.offload_tables(result["offload"]):
            console.print()
            console.print(part, soft_wrap=isinstance(part, Text))


def _inspect_module(ctx: typer.Context, path: Path, board: str | None, as_json: bool) -> None:
    from c7x.toolchain.elf import describe_module

    result = describe_module(path, board)
    if not as_json:
        console = ui.make_console(stderr=False, no_color=settings_of(ctx).no_color)
        for part in ui.module_tables(result):
            console.print(part)
            console.print()
        console.print(f"verdict: {result['verdict']}", soft_wrap=True)
    if not result["loads"]:
        broken = next(check for check in result["checks"] if check["status"] == "failed")
        error = CheckFailed(
            f"{path} does not load: {broken['rule']}: {broken['found']}", cause=broken["why"], hint=broken["hint"]
        )
        error.details = result
        raise error
    if as_json:
        ui.print_json({"status": "ok", **result})
