"""c7x toolchain: TI's tools."""

from __future__ import annotations

from typing import Annotated

import typer

from c7x import ui
from c7x.cli.app import Group, app, settings_of
from c7x.cli.options import Json

toolchain_app = typer.Typer(
    cls=Group,
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

    settings = settings_of(ctx)
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
    ui.make_console(stderr=False, no_color=settings_of(ctx).no_color).print(
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
