"""layers.json and offload.json: what runs, in call order, and what runs on a kernel of its own (docs/formats.md)."""

from __future__ import annotations

from typing import Any

from c7x.codegen.program import Call, Kernel, Program

#: Why a call runs as a loop nest of TVM's and not as a c7x or MMALIB kernel.
_LOOP_REASON = "no c7x kernel covers this operator; it runs as TVM's fused loops"


def layer_records(program: Program) -> list[dict[str, Any]]:
    """One record per call, in call order; the shape of layers.json. Sizes are in bytes."""
    kernels = {k.symbol: k for k in program.kernels}
    return [_record(program, kernels[call.kernel], index, call) for index, call in enumerate(program.calls)]


def _record(program: Program, kernel: Kernel, index: int, call: Call) -> dict[str, Any]:
    outputs = [program.buffer(n).type for n in call.outputs]
    return {
        "index": index,
        "kernel": call.kernel,
        "name": call.name,
        "backend": kernel.backend,
        "relax_ops": list(call.provenance.relax_ops),
        "source": list(call.provenance.source),
        "nodes": list(call.provenance.nodes),
        "macs": call.macs,
        "bytes_in": sum(program.buffer(n).type.nbytes for n in call.inputs),
        "bytes_out": sum(t.nbytes for t in outputs),
        "dtype": outputs[0].dtype if outputs else "",
    }


def offload_report(program: Program) -> dict[str, Any]:
    """The content of offload.json. A float model has no quantised boundary, so it has no float operator between."""
    layers = []
    for record, call in zip(layer_records(program), program.calls, strict=True):
        offloaded = record["backend"] != "tvm"
        layers.append(
            {**record, "offloaded": offloaded, "reason": call.reason or (None if offloaded else _LOOP_REASON)}
        )
    return {
        "layers": layers,
        "totals": {
            "macs": sum(r["macs"] for r in layers),
            "macs_offloaded": sum(r["macs"] for r in layers if r["offloaded"]),
            "float_ops_between_boundaries": len(program.float_between),
        },
    }
