"""layers.json and offload.json: what runs, in call order, and what runs on a kernel of its own (docs/formats.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from c7x.codegen.program import Call, Kernel, Program, computes_in_float

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


def float_calls_between(program: Program) -> list[int]:
    """Indices of the calls that compute in float after a quantised tensor and before another: what a quantised model
    should not have. Quantising the input and dequantising the output lie outside."""
    kernels = {k.symbol: k for k in program.kernels}

    def moving(names: Sequence[str]) -> list[str]:
        storages = [program.storage(n) for n in names]
        return [s.name for s in storages if s.role != "constant"]

    def is_quantized(name: str) -> bool:
        return program.storage(name).role != "constant" and program.buffer(name).type.dtype in ("int8", "int16")

    after = {program.storage(n).name for n in (p.buffer for p in program.inputs) if is_quantized(n)}
    follows = []
    for call in program.calls:
        follows.append(any(n in after for n in moving(call.inputs)))
        if follows[-1] or any(map(is_quantized, call.outputs)):
            after.update(moving(call.outputs))
    before: set[str] = set()
    found = []
    for index in reversed(range(len(program.calls))):
        call = program.calls[index]
        leads = any(map(is_quantized, call.outputs)) or any(n in before for n in moving(call.outputs))
        if leads:
            before.update(moving(call.inputs))
        kernel = kernels[call.kernel]
        touches = any(
            program.buffer(n).type.dtype.startswith("float") and program.storage(n).role != "constant"
            for n in (*call.inputs, *call.outputs)
        )
        inside = kernel.backend == "tvm" and computes_in_float(kernel)
        if follows[index] and leads and (touches or inside):
            found.append(index)
    return found[::-1]


def offload_report(program: Program) -> dict[str, Any]:
    """The content of offload.json. A float model has no quantised boundary, so it has no float operator between."""
    between = set(float_calls_between(program))
    layers = []
    for record, call in zip(layer_records(program), program.calls, strict=True):
        offloaded = record["backend"] != "tvm"
        layers.append({**record, "offloaded": offloaded, "reason": call.reason or (None if offloaded else _LOOP_REASON)})
    return {
        "layers": layers,
        "totals": {
            "macs": sum(r["macs"] for r in layers),
            "macs_offloaded": sum(r["macs"] for r in layers if r["offloaded"]),
            "float_ops_between_boundaries": len(between),
        },
    }
