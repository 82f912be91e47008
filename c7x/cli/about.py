"""Commands about c7x itself: doctor and version."""

from __future__ import annotations

import typer

from c7x import doctor as doctor_module
from c7x import ui
from c7x.cli.app import app, settings_of
from c7x.cli.options import Json
from c7x.errors import CheckFailed
from c7x.target import DEFAULT_MODE


@app.command(epilog="Example: c7x doctor --json")
def doctor(ctx: typer.Context, as_json: Json = False) -> None:
    """Say what is installed, found and missing, and how to get it; exit code 1 when the default mode cannot work."""
    result = doctor_module.report(doctor_module.Machine(settings_of(ctx).container.image))
    if not as_json:
        console = ui.make_console(stderr=False, no_color=settings_of(ctx).no_color)
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


@app.command(epilog="Example: c7x version --json")
def version(ctx: typer.Context, as_json: Json = False) -> None:
    """Print the versions of c7x, of what it compiles with, and of the compilers found."""
    found = doctor_module.versions()
    if as_json:
        ui.print_json({"status": "ok", "versions": found})
    else:
        rows = [(name, text or "not found") for name, text in found.items()]
        ui.make_console(stderr=False, no_color=settings_of(ctx).no_color).print(ui.table(("", ""), rows, left=2))
