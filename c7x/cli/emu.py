"""c7x emu: the host emulation."""

from __future__ import annotations

import shlex
from typing import Annotated, Literal

import typer

from c7x import ui
from c7x.cli.app import Group, app, settings_of
from c7x.cli.options import Json
from c7x.errors import C7xError

emu_app = typer.Typer(
    cls=Group,
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

    settings = settings_of(ctx)
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
    ui.make_console(stderr=False, no_color=settings_of(ctx).no_color).print(
        ui.table(("name", "elements", "evidence", "meaning"), shown, left=4)
    )
