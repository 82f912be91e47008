"""c7x vdsp: the virtual DSP."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from c7x import ui
from c7x.cli.app import Group, app, settings_of
from c7x.cli.options import BoardOption, Json
from c7x.errors import UsageError
from c7x.target import find_board

vdsp_app = typer.Typer(
    cls=Group,
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
    settings = settings_of(ctx)
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
    elif settings_of(ctx).verbosity != "quiet":
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
    ui.make_console(stderr=False, no_color=settings_of(ctx).no_color).print(ui.table(("", ""), rows, left=2))
