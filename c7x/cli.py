"""The command line: parses, calls, renders.

``main`` turns errors into text on standard error (and with ``--json`` into one object on standard output) and an exit
code; ``main_inner`` raises them. Nothing here imports torch or TVM: stages run in a worker process.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal, NoReturn

import typer
from rich.text import Text
from typer.core import TyperGroup

from c7x import doctor as doctor_module
from c7x import ui, ui_reports
from c7x.engine.docker import ContainerOptions
from c7x.engine.events import StageOutcome
from c7x.engine.select import EngineName, select_engine
from c7x.errors import EXIT_INTERRUPTED, C7xError, CheckFailed, InternalError, UsageError
from c7x.report.inspect import inspect_workspace, summarize
from c7x.report.offload import offload_summary
from c7x.stages import COMPILE_CHAIN, PEERS, StageRequest, check_quantize, requests_for
from c7x.target import DEFAULT_MODE, find_board
from c7x.version import __version__
from c7x.workspace import Workspace

#: Shells report a program ended by signal N as 128 + N.
EXIT_TERMINATED = 128 + signal.SIGTERM
EXIT_BROKEN_PIPE = 128 + signal.SIGPIPE

_GLOBAL_FLAGS = ("--verbose", "--quiet", "--no-color")
#: Global as well, with a value.
_GLOBAL_OPTIONS = ("--engine", "--image", "--memory", "--cpus", "--mount")
#: Commands that work with this machine itself, and run no stage.
_HERE_ONLY = ("vdsp", "toolchain", "emu")


class _Passed(Exception):  # noqa: N818 - a vehicle, no error of its own
    """Carries what Typer would turn into an exit code of its choice past it."""

    def __init__(self, original: BaseException) -> None:
        super().__init__()
        self.original = original


class _Group(TyperGroup):
    """Takes the global options anywhere on the line, since nobody remembers on which side of the command they go."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, BrokenPipeError) as error:
            raise _Passed(error) from error

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        first: list[str] = []
        rest: list[str] = []
        words = iter(args[:end])
        for word in words:
            if word in _GLOBAL_OPTIONS:
                value = next(words, None)
                if value is None:
                    raise UsageError(f"{word} needs a value", hint="c7x --help")
                first += [word, value]
            elif word in _GLOBAL_FLAGS or word.partition("=")[0] in _GLOBAL_OPTIONS:
                first.append(word)
            else:
                rest.append(word)
        return super().parse_args(ctx, [*first, *rest, *args[end:]])


@dataclass(frozen=True, kw_only=True)
class _Settings:
    verbosity: ui.Verbosity = "normal"
    no_color: bool = False
    engine: EngineName = "auto"
    container: ContainerOptions = field(default_factory=ContainerOptions)


app = typer.Typer(
    name="c7x",
    cls=_Group,
    help="Compiles PyTorch models for TI's C7x DSP, and to native executables that run anywhere.",
    epilog="Example: c7x compile model.py -o build, then c7x run build and c7x compare build.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


_PANEL = "Containers"
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def _bytes(text: str) -> int:
    """``1.5g`` -> 1610612736, with the units of ``docker run --memory`` (UsageError)."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--memory {text} is not a size", hint="--memory 4g, or 512m")
    return int(float(match["number"]) * (1 << _UNITS[match["unit"].lower()]))


@app.callback(invoke_without_command=True)
def _global(
    ctx: typer.Context,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show every step, and tracebacks of errors.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show warnings, errors and results only.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours; NO_COLOR in the environment too.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version of c7x alone, and exit.")] = False,
    engine: Annotated[
        EngineName,
        typer.Option("--engine", help="Where stages run; auto takes this machine when it can.", rich_help_panel=_PANEL),
    ] = "auto",
    image: Annotated[
        str | None,
        typer.Option(
            "--image",
            envvar="C7X_IMAGE",
            metavar="NAME",
            help="The container's image; default: c7x of this version.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            envvar="C7X_MEMORY",
            metavar="SIZE",
            help="Memory the container may use, e.g. 4g.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    cpus: Annotated[
        float | None,
        typer.Option(
            "--cpus",
            envvar="C7X_CPUS",
            metavar="N",
            min=0.01,
            help="Processors the container may use, e.g. 1.5.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    mount: Annotated[
        list[Path] | None,
        typer.Option(
            "--mount",
            metavar="DIR",
            help="One more folder or file the container sees, read-only; may be repeated.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
) -> None:
    if version:
        typer.echo(f"c7x {__version__}")
        raise typer.Exit
    if verbose and quiet:
        raise UsageError("--verbose and --quiet contradict each other", hint="leave one of them out")
    if engine == "docker" and ctx.invoked_subcommand in _HERE_ONLY:
        raise UsageError(
            f"c7x {ctx.invoked_subcommand} runs no stage that a container could run",
            cause="--engine says where stages run",
            hint=f"leave --engine docker out; docker run --rm c7x {ctx.invoked_subcommand} runs the image's own",
        )
    ctx.obj = _Settings(
        verbosity="verbose" if verbose else "quiet" if quiet else "normal",
        no_color=no_color,
        engine=engine,
        container=ContainerOptions(
            image=image, memory=_bytes(memory) if memory else None, cpus=cpus, mounts=tuple(mount or ())
        ),
    )
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


# ---------------------------------------------------------------------------------------------------- shared options

Build = Annotated[Path, typer.Argument(metavar="BUILD", help="The build directory.")]
Source = Annotated[
    Path, typer.Argument(metavar="SOURCE", help="model.py with make_model(), or a model.pt2 of torch.export.save.")
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The build directory.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, nothing else there.")]
ModeOption = Annotated[str, typer.Option("--mode", help="c7x_host, c7x_vdsp or c7x_dload.")]
BoardOption = Annotated[str | None, typer.Option("--board", help="beagley-ai or j722s-evm.", show_default=False)]
TargetOption = Annotated[
    str | None, typer.Option("--target", metavar="STRING", help="Target string, 'c_static -mcpu=c7x ...'.")
]
ProfileLayers = Annotated[bool, typer.Option("--profile-layers", help="Count cycles around every kernel call.")]
DebugAlloc = Annotated[bool, typer.Option("--debug-alloc", help="Print where every buffer lies in the arena.")]
Bind = Annotated[
    list[str] | None,
    typer.Option("--bind", metavar="NAME=VALUE", help="Fix a dynamic dimension; may be repeated."),
]
Cc = Annotated[
    str | None, typer.Option("--cc", help="The compiler: gcc, clang, g++, ... or a path; default: CC, else gcc.")
]
March = Annotated[str | None, typer.Option("--march", help="Instruction set of cg_dsp, e.g. native or x86-64-v3.")]
Cflags = Annotated[str | None, typer.Option("--cflags", help="More compiler flags, in one argument.")]
BuildType = Annotated[str | None, typer.Option("--build-type", help="release, debug or asan.")]
CheckL2 = Annotated[
    bool, typer.Option("--check-l2", help="cg_dsp that ends when a kernel reads L2 beyond what was copied there.")
]
Cgt = Annotated[
    Path | None,
    typer.Option(
        "--cgt", metavar="DIR", help="TI's C7000 tools; default: TI_CGT_C7000_PATH, CGT7X_ROOT, installed ones."
    ),
]
FpReassoc = Annotated[
    str | None, typer.Option("--fp-reassoc", metavar="on|off", help="Whether TI's compiler may reorder sums.")
]
KeepAsm = Annotated[bool, typer.Option("--keep-asm", help="Keep lib0.asm, what TI's compiler made of lib0.c.")]
TidlBridge = Annotated[
    list[Path] | None,
    typer.Option("--tidl-bridge", metavar="FILE", help="A source of the TIDL bridge; may be repeated."),
]
TidlArtifacts = Annotated[
    Path | None, typer.Option("--tidl-artifacts", metavar="DIR", help="Folder with subgraph<N>_net.bin to embed.")
]
QuantizeScale = Annotated[
    str | None,
    typer.Option("--quantize-scale", metavar="RULE", help="mse, minmax, or pow2: all scales are powers of two."),
]
Asymmetric = Annotated[
    bool | None,
    typer.Option(
        "--asymmetric/--symmetric",
        help="Zero points for int8 activations where they pay, or none: MMALIB then pads without a copy.",
        show_default="asymmetric",
    ),
]
Calibrate = Annotated[
    Path | None,
    typer.Option("--calibrate", metavar="FILE", help="Calibration data: .npz with an array for each input."),
]
CalibrateRandom = Annotated[
    int | None,
    typer.Option("--calibrate-random", metavar="N", min=1, help="Without data: N random samples, to try things out."),
]
KeepFloat = Annotated[
    list[str] | None,
    typer.Option("--keep-float", metavar="OP", help="An operator that stays float, e.g. add; may be repeated."),
]
HostEmu = Annotated[
    str | None,
    typer.Option("--hostemu", help="Build cg_dsp as C7000 code under a host emulation: open, ti or auto."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show how lib0.out would be built; needs no tools.")]


def _settings(ctx: typer.Context) -> _Settings:
    return ctx.obj if isinstance(ctx.obj, _Settings) else _Settings()


def _run_stages(ctx: typer.Context, workspace: Workspace, requests: Sequence[StageRequest]) -> list[StageOutcome]:
    settings = _settings(ctx)
    engine = select_engine(settings.engine, requests, settings.container)
    with ui.Terminal(verbosity=settings.verbosity, no_color=settings.no_color) as terminal:
        return engine.run(workspace, requests, terminal)


def _ti_options(
    cgt: Path | None,
    fp_reassoc: str | None,
    keep_asm: bool,
    tidl_bridge: list[Path] | None,
    tidl_artifacts: Path | None,
    dry_run: bool,
) -> dict[str, Any]:
    """The options of mode c7x_dload as JSON values; paths are made absolute, since a worker has its own folder."""
    return {
        "cgt": str(cgt.absolute()) if cgt else None,
        "fp_reassoc": fp_reassoc,
        "keep_asm": keep_asm or None,
        "tidl_bridge": [str(path.absolute()) for path in tidl_bridge] if tidl_bridge else None,
        "tidl_artifacts": str(tidl_artifacts.absolute()) if tidl_artifacts else None,
        "dry_run": dry_run or None,
    }


def _word(path: Path) -> str:
    """A path as one word of a command to copy."""
    return shlex.quote(str(path))


def _report_stages(
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
    if _settings(ctx).verbosity == "quiet":
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
    ui.make_console(stderr=False, no_color=_settings(ctx).no_color).print(ui.table(("", ""), rows, left=2))


# ---------------------------------------------------------------------------------------------------------- commands


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
        **_quantize_options(quantize_scale, asymmetric, calibrate, calibrate_random, keep_float),
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
        **_ti_options(cgt, fp_reassoc, keep_asm, tidl_bridge, tidl_artifacts, dry_run),
    }
    check_quantize(options)
    stages = COMPILE_CHAIN if quantize is None else ("export", "quantize", *COMPILE_CHAIN[1:])
    # A module for a board cannot be run here.
    names = stages if no_check or mode == "c7x_dload" else (*stages, "check")
    workspace = Workspace(output)
    outcomes = _run_stages(ctx, workspace, requests_for(names, options))
    _report_stages(ctx, workspace, outcomes, as_json=as_json, following=_following(output, mode))


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
    outcomes = _run_stages(ctx, workspace, requests)
    _report_stages(ctx, workspace, outcomes, as_json=as_json, following=f"c7x import {_word(output)}")


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
        **_quantize_options(quantize_scale, asymmetric, calibrate, calibrate_random, keep_float),
    }
    requests = requests_for(["quantize"] if made else ["export", "quantize"], options)
    outcomes = _run_stages(ctx, workspace, requests)
    described = workspace.read_json("quantize.json") if report else None
    if as_json:
        stages = [{"name": o.name, "seconds": round(o.seconds, 3), "result": o.result} for o in outcomes]
        value = {"status": "ok", "build": str(workspace.root), "stages": stages, **outcomes[-1].result}
        ui.print_json(value if described is None else {**value, "report": described})
        return
    if described is not None:
        console = ui.make_console(stderr=False, no_color=_settings(ctx).no_color)
        for part in ui.quantization_tables(described):
            console.print(part)
            console.print()
    _report_stages(ctx, workspace, outcomes, as_json=False, following=f"c7x import {_word(workspace.root)}")


def _quantize_options(
    scale: str | None,
    asymmetric: bool | None,
    calibrate: Path | None,
    calibrate_random: int | None,
    keep_float: list[str] | None,
) -> dict[str, Any]:
    """The options of the quantize stage as JSON values."""
    return {
        "quantize_scale": scale,
        "asymmetric": asymmetric,
        "calibrate": str(calibrate) if calibrate else None,
        "calibrate_random": calibrate_random,
        "keep_float": keep_float or None,
    }


@app.command("import", epilog="Example: c7x import build")
def import_(ctx: typer.Context, build: Build = Path("build"), as_json: Json = False) -> None:
    """Import the exported program into TVM's Relax: model.relax and model.params.npz."""
    workspace = Workspace(build)
    outcomes = _run_stages(ctx, workspace, requests_for(["import"], {}))
    _report_stages(ctx, workspace, outcomes, as_json=as_json, following=f"c7x codegen {_word(build)}")


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
    outcomes = _run_stages(ctx, workspace, requests_for(["codegen"], options))
    _report_stages(ctx, workspace, outcomes, as_json=as_json, following=f"c7x build {_word(build)}")


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
        **_ti_options(cgt, fp_reassoc, keep_asm, tidl_bridge, tidl_artifacts, dry_run),
    }
    outcomes = _run_stages(ctx, workspace, requests_for(["build"], options))
    _report_stages(ctx, workspace, outcomes, as_json=as_json, following=_following(build, mode))


def _following(build: Path, mode: str) -> str:
    """What a user does after a build."""
    return f"c7x deploy {_word(build)}" if mode == "c7x_dload" else f"c7x run {_word(build)}"


HostOption = Annotated[
    str | None,
    typer.Option(
        "--host", metavar="[USER@]NAME", help="How ssh finds the board; default: BOARD_HOSTNAME, else the board's name."
    ),
]
InputOption = Annotated[
    list[Path] | None,
    typer.Option("--input", help="A .npy file per input in order, or one .npz or .bin; default: the example inputs."),
]


@app.command(epilog="Example: c7x run build --input x.npy --output y.npz")
def run(
    ctx: typer.Context,
    build: Build = Path("build"),
    input: InputOption = None,  # noqa: A002 - the option is called so
    output: Annotated[
        Path | None, typer.Option("--output", help="Where to put the outputs: .npz, .npy or .bin.")
    ] = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Infer so often in one process.")] = 1,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode", help="c7x_host, c7x_vdsp or c7x_dload; default: the one it was built for.", show_default=False
        ),
    ] = None,
    board: BoardOption = None,
    host: HostOption = None,
    as_json: Json = False,
) -> None:
    """Run what was built, cg_dsp or lib0.out, on the example inputs or on given ones."""
    workspace = Workspace(build)
    options = {
        "input": [str(path) for path in input] if input else None,
        "output": str(output) if output else None,
        "repeat": repeat,
        "mode": mode,
        "board": board,
        "host": host,
    }
    outcomes = _run_stages(ctx, workspace, requests_for(["run"], options))
    result = outcomes[-1].result
    if as_json:
        ui.print_json({"status": "ok", "build": str(build), **result})
    else:
        settings = _settings(ctx)
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
    outcomes = _run_stages(ctx, Workspace(build), requests_for(["deploy"], {"board": board, "host": host}))
    result = outcomes[-1].result
    if as_json:
        ui.print_json({"status": "ok", "build": str(build), **result})
        return
    rows = [
        ("module", f"{result['host']}:{result['module']}" + ("" if result["copied"] else " (was there already)")),
        ("DSP", " ".join(result["service"].split())),
        ("next", f"c7x run {_word(build)} --mode c7x_dload" + (f" --host {host}" if host else "")),
    ]
    ui.make_console(stderr=False, no_color=_settings(ctx).no_color).print(ui.table(("", ""), rows, left=2))


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
        "input": [str(path) for path in input] if input else None,
        "rtol": rtol,
        "atol": atol,
        "tolerance": tolerance,
    }
    console = ui.make_console(stderr=False, no_color=_settings(ctx).no_color)
    try:
        requests = requests_for(["compare_layers" if layers else "compare"], options)
        result = _run_stages(ctx, Workspace(build), requests)[-1].result
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
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode", help="c7x_host, c7x_vdsp or c7x_dload; default: the one it was built for.", show_default=False
        ),
    ] = None,
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
        "input": [str(path) for path in input] if input else None,
        "mode": mode,
        "board": board,
        "host": host,
        "log": str(log.absolute()) if log else None,
        "repeat": repeat,
        "roofline": roofline or None,
    }
    result = _run_stages(ctx, Workspace(build), requests_for(["profile"], options))[-1].result
    if as_json:
        ui.print_json({"status": "ok", "build": str(build), **result})
        return
    console = ui.make_console(stderr=False, no_color=_settings(ctx).no_color)
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

    settings = _settings(ctx)
    with ui.Terminal(verbosity=settings.verbosity, no_color=settings.no_color) as terminal:
        result = visualize_stage(Workspace(build), output=output, reporter=terminal)
    if as_json:
        ui.print_json({"status": "ok", "build": str(build), **result})
        return
    if settings.verbosity == "quiet":
        return
    rows = [("page", f"{result['output']} ({ui.format_bytes(result['bytes'])}, {result['layers']} layers)")]
    if not result["timed"]:
        rows.append(("times", f"none yet: c7x profile {_word(build)}, then c7x visualize again"))
    if not result["compared"]:
        rows.append(("accuracy", f"none yet: c7x compare {_word(build)} --layers, then c7x visualize again"))
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
    result = _run_stages(ctx, Workspace(build), requests_for(["bench"], options))[-1].result
    if as_json:
        ui.print_json({"status": "ok", "build": str(build), **result})
    else:
        ui.make_console(stderr=False, no_color=_settings(ctx).no_color).print(ui.bench_table(result))


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
    console = ui.make_console(stderr=False, no_color=_settings(ctx).no_color)
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
        console = ui.make_console(stderr=False, no_color=_settings(ctx).no_color)
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


@app.command(epilog="Example: c7x doctor --json")
def doctor(ctx: typer.Context, as_json: Json = False) -> None:
    """Say what is installed, found and missing, and how to get it; exit code 1 when the default mode cannot work."""
    result = doctor_module.report(doctor_module.Machine(_settings(ctx).container.image))
    if not as_json:
        console = ui.make_console(stderr=False, no_color=_settings(ctx).no_color)
        console.print(ui.doctor_table(result["checks"]))
        console.print()
        for mode in result["modes"]:
            verdict = "ready" if mode["ready"] else "not ready"
            console.print(": ".join(filter(None, [mode["mode"], verdict, mode["reason"]])), soft_wrap=True)
    if not result["ready"]:
        reason = next(mode["reason"] for mode in result["modes"] if mode["mode"] == DEFAULT_MODE)
        error = CheckFailed(
            f"mode {DEFAULT_MODE} cannot work on this machine",
            cause=reason,
            hint="install what the list above calls missing or broken",
        )
        error.details = result
        raise error
    if as_json:
        ui.print_json({"status": "ok", **result})


# ------------------------------------------------------------------------------------------------------ virtual DSP

vdsp_app = typer.Typer(
    cls=_Group,
    help="Start, stop and look at the virtual DSP, which runs lib0.out without a board.",
    epilog="Example: c7x vdsp start, then c7x run build --mode c7x_vdsp.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(vdsp_app, name="vdsp")

SocketOption = Annotated[
    Path | None,
    typer.Option(
        "--socket", metavar="PATH", help="Its socket; default: in the user's run-time folder.", show_default=False
    ),
]
ShmOption = Annotated[
    Path | None,
    typer.Option(
        "--shm", metavar="PATH", help="Where clients find its memory; default: beside the socket.", show_default=False
    ),
]


@vdsp_app.command("start", epilog="Example: c7x vdsp start --foreground --socket /run/c7x/vdsp.sock")
def vdsp_start(
    ctx: typer.Context,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay, for containers; ends with SIGTERM.")] = False,
    socket_path: SocketOption = None,
    shm: ShmOption = None,
    shm_file: Annotated[
        bool, typer.Option("--shm-file", help="Share a file, for clients in another container.")
    ] = False,
    board: BoardOption = None,
    no_strict: Annotated[bool, typer.Option("--no-strict", help="Allow what a board leaves undefined.")] = False,
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="ADDRESS", help="DSP address of the shared buffer.", show_default=False),
    ] = None,
    call_timeout: Annotated[
        float | None,
        typer.Option("--call-timeout", min=0.001, help="Seconds after which a module is ended.", show_default=False),
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option("--fault", metavar="KIND=N", help="Inject a fault, for tests of clients: docs/virtual-dsp.md."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Start the virtual DSP; the first line on standard output is a JSON object that says where it listens."""
    from c7x.run import vdsp

    place = vdsp.endpoint(socket_path, shm)
    try:
        address = int(base, 0) if base else None
    except ValueError as error:
        raise UsageError(f"--base {base} is not an address", hint="--base 0xC0000000") from error
    settings = _settings(ctx)
    with ui.Terminal(verbosity=settings.verbosity, no_color=settings.no_color) as terminal:
        command = vdsp.server_command(
            place,
            board=find_board(board).name if board else None,
            strict=not no_strict,
            shm_file=shm_file,
            base=address,
            call_timeout=call_timeout,
            faults=fault or (),
            reporter=terminal,
        )
    if foreground:
        os.execv(command[0], command)  # noqa: S606 - its arguments are ours
    _, ready = vdsp.start(command, place.socket.with_suffix(".log"))
    typer.echo(json.dumps(ready))


@vdsp_app.command("stop", epilog="Example: c7x vdsp stop")
def vdsp_stop(ctx: typer.Context, socket_path: SocketOption = None, as_json: Json = False) -> None:
    """Stop the virtual DSP; exit code 1 when none runs."""
    from c7x.run import vdsp

    result = vdsp.stop(vdsp.endpoint(socket_path))
    if as_json:
        ui.print_json({"status": "ok", **result})
    elif _settings(ctx).verbosity != "quiet":
        typer.echo(f"stopped the virtual DSP at {result['socket']}")


@vdsp_app.command("status", epilog="Example: c7x vdsp status --json")
def vdsp_status(ctx: typer.Context, socket_path: SocketOption = None, as_json: Json = False) -> None:
    """Say whether a virtual DSP runs, and what it has done; exit code 1 when none runs."""
    from c7x.run import vdsp

    result = vdsp.status(vdsp.endpoint(socket_path))
    if as_json:
        ui.print_json({"status": "ok", **result})
        return
    rows = [(key.replace("_", " "), value) for key, value in result.items()]
    ui.make_console(stderr=False, no_color=_settings(ctx).no_color).print(ui.table(("", ""), rows, left=2))


# -------------------------------------------------------------------------------------------------------- TI's tools

toolchain_app = typer.Typer(
    cls=_Group,
    help="Install and find TI's C7000 code generation tools, which mode c7x_dload needs.",
    epilog="Example: c7x toolchain install ./ti_cgt_c7000_5.0.1.LTS_linux-x64_installer.bin --accept-license",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(toolchain_app, name="toolchain")


@toolchain_app.command(
    "install", epilog="Example: c7x toolchain install ./ti_cgt_c7000_5.0.1.LTS_linux-x64_installer.bin --accept-license"
)
def toolchain_install(
    ctx: typer.Context,
    installer: Annotated[
        str, typer.Argument(metavar="INSTALLER", help="TI's installer: a file, or a URL with --sha256.")
    ],
    accept_license: Annotated[bool, typer.Option("--accept-license", help="You accept TI's license.")] = False,
    sha256: Annotated[
        str | None, typer.Option("--sha256", metavar="HEX", help="What the installer's SHA-256 must be.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run TI's installer unattended, into a folder of c7x in your home; its SHA-256 is shown and recorded."""
    from c7x.toolchain.install import install

    settings = _settings(ctx)
    with ui.Terminal(verbosity=settings.verbosity, no_color=settings.no_color) as terminal:
        result = install(installer, accept_license=accept_license, sha256=sha256, reporter=terminal)
    if as_json:
        ui.print_json({"status": "ok", **result})
    elif settings.verbosity != "quiet":
        typer.echo(f"sha256 {result['sha256']}")
        typer.echo(f"installed version {result['version']} in {result['path']}")


@toolchain_app.command("list", epilog="Example: c7x toolchain list --json")
def toolchain_list(ctx: typer.Context, as_json: Json = False) -> None:
    """List where TI's tools are looked for, the best place first, and what is found there."""
    from c7x.toolchain.install import list_tools

    tools = list_tools()
    if as_json:
        ui.print_json({"status": "ok", "tools": tools})
        return
    rows = [(t["path"], t["version"] or "-", t["origin"], t["problem"] or "ok") for t in tools]
    ui.make_console(stderr=False, no_color=_settings(ctx).no_color).print(
        ui.table(("folder", "version", "found through", ""), rows, left=4)
        if rows
        else "none; see c7x toolchain install --help"
    )


@toolchain_app.command("path", epilog="Example: export TI_CGT_C7000_PATH=$(c7x toolchain path)")
def toolchain_path(ctx: typer.Context, as_json: Json = False) -> None:
    """Print the folder of the tools that mode c7x_dload would use."""
    from c7x.toolchain.ticgt import find_tools

    tools = find_tools()
    if as_json:
        ui.print_json({"status": "ok", "path": str(tools.root), "version": tools.version, "origin": tools.origin})
    else:
        typer.echo(str(tools.root))


# ---------------------------------------------------------------------------------------------------- host emulation

emu_app = typer.Typer(
    cls=_Group,
    help="Compile C7x vector code for this machine, with the open host emulation of the C7000 or with TI's.",
    epilog="Example: c7x emu cc kernel.cpp -o kernel --core C7524",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(emu_app, name="emu")

CoreOption = Annotated[str, typer.Option("--core", help="C7100, C7120, C7504 or C7524.")]
HostemuOption = Annotated[
    Literal["auto", "open", "ti"],
    typer.Option("--hostemu", help="Whose emulation; auto takes TI's when TI_CGT_C7000_PATH holds it."),
]


@emu_app.command(
    "cc",
    epilog="Example: c7x emu cc kernel.cpp -o kernel --core C7524",
    options_metavar="[OPTIONS] SOURCE... [COMPILER OPTIONS]",
    # A cluster such as -shared must not find -h in itself.
    context_settings={"help_option_names": ["--help"], "ignore_unknown_options": True, "allow_extra_args": True},
)
def emu_cc(
    ctx: typer.Context,
    core: CoreOption = "C7524",
    hostemu: HostemuOption = "auto",
    cxx: Annotated[
        str | None, typer.Option("--cxx", help="The C++ compiler; default: CXX, else g++, else clang++.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compile C7x code with g++ or clang++; what is no option below goes to it, behind -O3."""
    from c7x.toolchain import hostemu as module

    settings = _settings(ctx)
    emulation = module.find_emulation(core, hostemu)
    with ui.Terminal(verbosity=settings.verbosity, no_color=settings.no_color) as terminal:
        try:
            result = module.compile_program(ctx.args, emulation=emulation, cxx=cxx, reporter=terminal)
        except C7xError as error:
            typer.echo((error.details or {}).get("messages", ""), nl=False, err=True)
            raise
    typer.echo(result["messages"], nl=False, err=True)
    if as_json:
        ui.print_json({"status": "ok", "core": emulation.core, "emulation": emulation.kind, **result})


@emu_app.command("flags", epilog="Example: g++ $(c7x emu flags --core C7524) kernel.cpp -o kernel")
def emu_flags(
    ctx: typer.Context,
    core: CoreOption = "C7524",
    hostemu: HostemuOption = "auto",
    cmake: Annotated[bool, typer.Option("--cmake", help="Print the folder of the CMake package instead.")] = False,
    as_json: Json = False,
) -> None:
    """Print the compiler flags, for Makefiles; with TI's emulation its archive comes last."""
    from c7x.toolchain import hostemu as module

    emulation = module.find_emulation(core, hostemu)
    if as_json:
        fields = {
            "core": emulation.core,
            "emulation": emulation.kind,
            "compile_flags": emulation.compile_flags,
            "link_flags": emulation.link_flags,
            "cmake_dir": str(module.cmake_dir()),
        }
        ui.print_json({"status": "ok", **fields})
    else:
        typer.echo(module.cmake_dir() if cmake else shlex.join((*emulation.compile_flags, *emulation.link_flags)))


@emu_app.command("list", epilog="Example: c7x emu list __max")
def emu_list(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A name or a part of one.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """List the intrinsics of the open emulation: supported or not, element types, what their meaning rests on."""
    from c7x.toolchain import hostemu as module

    rows = module.list_names(name)
    if as_json:
        ui.print_json({"status": "ok", "names": rows})
        return
    shown = [
        (
            row["name"] + (f" ({row['variant']})" if row["variant"] else ""),
            " ".join(row["elements"]) or "-",
            row["evidence"],
            row["meaning"] + (f" {' and '.join(row['cores'])} only." if row["cores"] else ""),
        )
        if row["supported"]
        else (row["name"], "-", "missing", f"Not there, a program that names it does not compile: {row['reason']}.")
        for row in rows
    ]
    ui.make_console(stderr=False, no_color=_settings(ctx).no_color).print(
        ui.table(("name", "elements", "evidence", "meaning"), shown, left=4)
    )


@app.command(epilog="Example: c7x version --json")
def version(ctx: typer.Context, as_json: Json = False) -> None:
    """Print the versions of c7x, of what it compiles with, and of the compilers found."""
    found = doctor_module.versions()
    if as_json:
        ui.print_json({"status": "ok", "versions": found})
    else:
        rows = [(name, text or "not found") for name, text in found.items()]
        ui.make_console(stderr=False, no_color=_settings(ctx).no_color).print(ui.table(("", ""), rows, left=2))


# ------------------------------------------------------------------------------------------------------------- entry


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which cleans up exactly as Ctrl-C does."""


def _on_sigterm(number: int, frame: FrameType | None) -> NoReturn:
    raise _Terminated


def _usage_error(error: Exception) -> UsageError | None:
    """What the argument parser complains about as an error of ours; None for any other exception.

    Typer brings its own copy of Click, or uses the installed one, depending on its version: so no class is named here.
    """
    format_message = getattr(error, "format_message", None)
    if format_message is None:
        return None
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "c7x"
    return UsageError(str(format_message()), hint=f"{command} --help")


def main_inner(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code.

    Raises:
        C7xError: the command failed; wrong usage is a ``UsageError``.
        KeyboardInterrupt: Ctrl-C.
    """
    try:
        code = app(args=list(arguments), prog_name="c7x", standalone_mode=False)
    except C7xError:
        raise
    except _Passed as passed:
        raise passed.original from None
    except Exception as error:
        usage = _usage_error(error)
        if usage is None:
            raise
        raise usage from error
    return code if isinstance(code, int) else 0


#: With the keys of every other error object.
_INTERRUPTED = {
    "status": "error", "error": "Interrupted", "message": "interrupted", "cause": None, "hint": None, "stage": None,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """The ``c7x`` command; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    verbose, no_color, as_json = (flag in arguments for flag in ("--verbose", "--no-color", "--json"))
    if no_color:
        os.environ["NO_COLOR"] = "1"  # the help texts are Typer's to print
    signal.signal(signal.SIGTERM, _on_sigterm)
    try:
        code = main_inner(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # What is still buffered must not raise again while Python shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt as error:
        sys.stderr.write("interrupted\n")
        if as_json:
            ui.print_json(_INTERRUPTED)
        return EXIT_TERMINATED if isinstance(error, _Terminated) else EXIT_INTERRUPTED
    except C7xError as error:
        failure = error
    except Exception as error:
        failure = _internal(error)
    ui.print_error(failure, no_color=no_color, with_traceback=verbose)
    if as_json:
        ui.print_json(failure.to_json())
    return failure.exit_code


def _internal(error: Exception) -> InternalError:
    failure = InternalError(
        "the c7x command failed",
        cause=f"{type(error).__name__}: {error}",
        hint="this is a defect of c7x: please report it with the output of the same command with --verbose",
    )
    failure.__cause__ = error
    return failure


if __name__ == "__main__":
    sys.exit(main())
