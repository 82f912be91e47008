"""The build stage: generated C in, the artefact of a mode out."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from c7x.errors import UsageError
from c7x.reporter import SILENT, Reporter
from c7x.target import DEFAULT_MODE, check_mode
from c7x.toolchain.gnu import BuildOptions, build_cg_dsp, find_compiler
from c7x.toolchain.vdsp import DEFAULT_BOARD, build_module
from c7x.workspace import Workspace


def build_stage(
    ws: Workspace,
    *,
    mode: str = DEFAULT_MODE,
    board: str | None = None,
    options: BuildOptions,
    reporter: Reporter = SILENT,
) -> dict[str, Any]:
    """Build the artefact of ``mode`` from ``lib*.c`` and ``devc.c``: ``cg_dsp``, or ``lib0.out`` with its map.

    Args:
        board: whose firmware a module may import from; by default the one the code was generated for.

    Returns:
        ``artefact`` (file name in the build directory), ``bytes``, ``compiler``, ``march`` and ``build_type``.

    Raises:
        TargetError: an unknown mode.
        UsageError: mode c7x_dload, which is built by ``ticgt.dload_stage``.
        UnsupportedError: a mode that this version does not build.
        WorkspaceError: there is no generated code.
        ToolError: the compiler is missing or failed.
    """
    check_mode(mode)
    if mode == "c7x_dload":
        raise UsageError(
            "mode c7x_dload has a build stage of its own",
            cause="it compiles with TI's tools, whose options differ",
            hint="call c7x.toolchain.ticgt.dload_stage",
        )
    ws.require("lib0.c")
    generated = [*sorted(path.name for path in ws.root.glob("lib*.c")), "devc.c"]
    headers = sorted(path.name for path in ws.root.glob("*.h"))
    weights = ["weights.bin"] if mode == "c7x_vdsp" and ws.has("weights.bin") else []
    with ws.stage("build", inputs=[*generated, *headers, *weights]) as stage:
        # Emulated code is C++, whatever CC says.
        cc = options.cc or ((os.environ.get("CXX") or "g++") if options.hostemu else None)
        compiler = find_compiler(cc, reporter=reporter)
        stage.tools["cc"] = compiler.version
        stage.options = {"build_type": options.build_type, "march": options.march, "cflags": list(options.cflags)}
        if options.hostemu:
            stage.options["hostemu"] = options.hostemu
        if options.check_l2:
            stage.options["check_l2"] = True
        stage.facts["mode"] = mode
        edited = [name for name in (*generated, *headers) if ws.edited(name)]
        if edited:
            hint = f"{' and '.join(edited)} changed since c7x codegen wrote it: mend it, or run c7x codegen again"
        elif given := [name for name, value in (("--cflags", options.cflags), ("--march", options.march)) if value]:
            hint = f"leave out {' and '.join(given)}, or check that this compiler takes what it says"
        else:
            hint = "try another compiler with --cc; if it stays, report it with the model"
        reporter.info(f"compiling with {compiler.version}")
        with tempfile.TemporaryDirectory(prefix="cc-", dir=stage.folder) as scratch:
            made: tuple[Path, ...]
            if mode == "c7x_vdsp":
                made = build_module(
                    [ws.path(name) for name in generated if name != "devc.c"],
                    weights=ws.path("weights.bin") if weights else None,
                    folder=Path(scratch),
                    board=board or ws.manifest.get("board") or DEFAULT_BOARD,
                    options=options,
                    compiler=compiler,
                    hint=hint,
                    reporter=reporter,
                )
            else:
                executable = build_cg_dsp(
                    [ws.path(name) for name in generated],
                    folder=Path(scratch),
                    options=options,
                    compiler=compiler,
                    hint=hint,
                    reporter=reporter,
                )
                made = (executable,)
            for path in made:
                path.replace(stage.path(path.name))
        artefact = made[0].name
        size = stage.path(artefact).stat().st_size
    return {
        "artefact": artefact,
        "bytes": size,
        "compiler": compiler.version,
        "march": options.march,
        "build_type": options.build_type,
    }
