"""layers.json and offload.json: what runs, in call order, and what runs on a kernel of its own (docs/formats.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from c7x.codegen.program import Call, Kernel, Program, Staging

#: Relax operators that bring data into another place or shape and compute nothing.
MOVES = frozenset(
    "broadcast_to concat expand_dims flatten layout_transform permute_dims reshape split squeeze strided_slice".split()
)


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
        "modules": list(call.provenance.modules),
        "nodes": list(call.provenance.nodes),
        "macs": call.macs,
        "bytes_in": sum(program.buffer(n).type.nbytes for n in call.inputs),
        "bytes_out": sum(t.nbytes for t in outputs),
        "dtype": outputs[0].dtype if outputs else "",
        "l2": None if call.staging is None else _l2(call.staging),
    }


def _l2(staging: Staging) -> dict[str, Any]:
    return {
        "staged": staging.staged,
        "bytes": staging.l2_bytes,
        "guard_bytes": staging.guard_bytes,
        "input_bytes": staging.input_bytes,
        "weight_bytes": staging.weight_bytes,
        "tile": staging.tile or None,
        "kernel_calls": staging.kernel_calls,
        "reason": staging.reason or None,
    }


_LAYOUT = "moves data into another layout and computes nothing"
_TO_INTEGERS = "real numbers become integers here"
_TO_REALS = "integers become real numbers here"
#: Reasons that say what a loop is for, where no kernel would be expected.
EXPECTED_LOOPS = frozenset({_LAYOUT, _TO_INTEGERS, _TO_REALS})


def _loop_reason(relax_ops: Sequence[str]) -> str:
    """Why a call runs as a loop nest of TVM's and not as a c7x or MMALIB kernel."""
    computing = sorted(set(relax_ops) - MOVES)
    match computing:
        case [] if relax_ops:
            return _LAYOUT
        case ["quantize"]:
            return _TO_INTEGERS
        case ["dequantize"]:
            return _TO_REALS
        case _:
            return f"no c7x kernel covers {', '.join(computing) or 'this operator'}; it runs as TVM's fused loops"


def offload_report(program: Program) -> dict[str, Any]:
    """The content of offload.json. A float model has no quantised boundary, so it has no float operator between."""
    layers = []
    for record, call in zip(layer_records(program), program.calls, strict=True):
        offloaded = record["backend"] != "tvm"
        reason = call.reason or (None if offloaded else _loop_reason(record["relax_ops"]))
        layers.append({**record, "offloaded": offloaded, "reason": reason})
    return {
        "layers": layers,
        "totals": {
            "macs": sum(r["macs"] for r in layers),
            "macs_offloaded": sum(r["macs"] for r in layers if r["offloaded"]),
            "float_ops_between_boundaries": len(program.float_between),
        },
    }
