"""The codegen stage: the imported Relax module of a build directory becomes C."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from c7x.codegen.emit import Emitted, emit
from c7x.codegen.layers import layer_records, offload_report
from c7x.codegen.literals import c_identifier
from c7x.codegen.memory import memory_map
from c7x.codegen.program import Program
from c7x.codegen.staging import stage_operands
from c7x.codegen.walk import program_from_relax
from c7x.graph.pipeline import lower_graph
from c7x.reporter import SILENT, Reporter
from c7x.target import Target
from c7x.workspace import Workspace

if TYPE_CHECKING:
    import tvm


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A Relax module compiled to C, with the program it went through."""

    program: Program
    emitted: Emitted


def compile_module(
    mod: tvm.IRModule,
    name: str,
    target: Target,
    *,
    relax_pipeline: tvm.ir.transform.Pass | None = None,
    reporter: Reporter = SILENT,
) -> Compiled:
    """Compiles the function ``main`` of a Relax module.

    Args:
        mod: the imported module, parameters bound as constants.
        name: the model's name; the C header is called after it.
        relax_pipeline: replaces ``get_default_pipeline(target)``.

    Raises:
        UnsupportedError: something in the module cannot be compiled; named.
    """
    target.check_supported("c7x_dload" if target.tidl_runtime else "c7x_host")
    reporter.progress("lowering the graph")
    lowered = lower_graph(mod, target) if relax_pipeline is None else relax_pipeline(mod)
    reporter.progress("generating kernels")
    program = stage_operands(program_from_relax(lowered, name, target), target)
    reporter.progress("writing C")
    return Compiled(program=program, emitted=emit(program, target))


def codegen_stage(ws: Workspace, *, target: Target, reporter: Reporter = SILENT) -> dict[str, Any]:
    """Reads model.relax and model.params.npz, writes lib0.c, devc.c, weights.bin, <name>.h, model_library.tar, io.json,
    layers.json, memory.json and offload.json; returns the sizes and counts that the summary shows."""
    from c7x.frontend.importer import load_relax

    with ws.stage("codegen", inputs=["model.relax", "model.params.npz"]) as run:
        mod = load_relax(ws)
        name = c_identifier(str(ws.manifest.get("model") or "model"))
        start = time.monotonic()
        compiled = compile_module(mod, name, target, reporter=reporter)
        for file, content in sorted(compiled.emitted.files.items()):
            run.write_bytes(file, content)
        run.write_json("layers.json", layer_records(compiled.program))
        run.write_json("memory.json", memory_map(compiled.program, compiled.emitted.plan))
        report = offload_report(compiled.program)
        run.write_json("offload.json", report)
        run.options["target"] = str(target)
        run.facts["target"] = str(target)
        run.facts["board"] = target.board
        run.facts["provenance"] = compiled.emitted.provenance
        return {
            "name": name,
            "layers": len(compiled.program.calls),
            "kernels": len(compiled.program.kernels),
            "arena_bytes": compiled.emitted.plan.arena_bytes,
            "arena_lower_bound": compiled.emitted.plan.lower_bound,
            "weights_bytes": compiled.emitted.weights_bytes,
            "macs": report["totals"]["macs"],
            "seconds": time.monotonic() - start,
        }
