"""The application: global options, and what every command knows of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from c7x import ui
from c7x.engine.docker import ContainerOptions
from c7x.engine.select import EngineName
from c7x.errors import UsageError
from c7x.version import __version__

_GLOBAL_FLAGS = ("--verbose", "--quiet", "--no-color")
#: Global as well, with a value.
_GLOBAL_OPTIONS = ("--engine", "--image", "--memory", "--cpus", "--mount")
#: Commands that work with this machine itself, and run no stage.
_HERE_ONLY = ("vdsp", "toolchain", "emu")


class Passed(Exception):  # noqa: N818 - a vehicle, no error of its own
    """Carries what Typer would turn into an exit code of its choice past it."""

    def __init__(self, original: BaseException) -> None:
        super().__init__()
        self.original = original


class Group(TyperGroup):
    """Takes the global options anywhere on the line, since nobody remembers on which side of the command they go."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, BrokenPipeError) as error:
            raise Passed(error) from error

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
class Settings:
    verbosity: ui.Verbosity = "normal"
    no_color: bool = False
    engine: EngineName = "auto"
    container: ContainerOptions = field(default_factory=ContainerOptions)


app = typer.Typer(
    name="c7x",
    cls=Group,
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
    ctx.obj = Settings(
        verbosity="verbose" if verbose else "quiet" if quiet else "normal",
        no_color=no_color,
        engine=engine,
        container=ContainerOptions(
            image=image, memory=_bytes(memory) if memory else None, cpus=cpus, mounts=tuple(mount or ())
        ),
    )
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def settings_of(ctx: typer.Context) -> Settings:
    return ctx.obj if isinstance(ctx.obj, Settings) else Settings()
