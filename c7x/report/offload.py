"""The offload report of a build directory for people: what runs on kernels, what runs as loops, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from c7x.errors import FormatError
from c7x.workspace import Workspace

REPORT = "offload.json"

_POOLS = frozenset({"adaptive_avg_pool2d", "avg_pool2d", "max_pool2d", "mean"})
#: What may stand beside an addition that is an operator of its own, and no part of an activation such as hardswish.
_WITH_SUM = frozenset({"add", "relu", "clip", "maximum", "minimum", "quantize", "dequantize"})
_LINEAR = re.compile(r"(linear|addmm)(_\d+)?")
#: Kinds of operators that are counted, in the order in which they are shown.
KINDS = ("convolution", "linear", "matmul", "add", "pool")


def _plain(ops: Sequence[str]) -> list[str]:
    return [op.removeprefix("nn.") for op in ops]


def operator_text(layer: Mapping[str, Any]) -> str:
    """What a layer computes, without the conversions around it: ``conv2d + add + relu``."""
    # Here, since the command line loads this module when it starts, and no room of the compiler with it.
    from c7x.codegen.layers import MOVES

    ops = _plain(layer["relax_ops"])
    computing = [op for op in ops if op not in MOVES and op not in ("quantize", "dequantize", "call_dps_packed")]
    if computing:
        return " + ".join(dict.fromkeys(computing))
    conversions = [op for op in ("dequantize", "quantize") if op in ops]
    if conversions:
        return " + ".join(conversions)
    if ops and set(ops) <= MOVES:
        return " + ".join(dict.fromkeys(ops)) if {"concat", "split"} & set(ops) else "layout"
    return str(layer["kernel"]).removeprefix("c7x_int8_").removeprefix("__tvm_ffi_")


def place_text(layer: Mapping[str, Any]) -> str:
    """The user's lines, or the module's path where no line of the user's calls it (inside an ``nn.Sequential``)."""
    if layer["source"]:
        return ", ".join(layer["source"])
    modules = layer.get("modules") or []
    return f"module {', '.join(modules)}" if modules else "-"


def runner_text(layer: Mapping[str, Any]) -> str:
    """Who computes a layer: MMALIB, the firmware, a kernel of c7x, or a loop."""
    if layer["backend"] == "mmalib":
        return "MMALIB"
    if layer["backend"] == "tvm":
        return "loop"
    return "kernel" if str(layer["kernel"]).startswith("__") else "firmware"


def kinds_of(layer: Mapping[str, Any]) -> dict[str, int]:
    """How many operators of each of ``KINDS`` a layer stands for; a bias belongs to the operator before it, and an
    addition beside other arithmetic to what that computes."""
    from c7x.codegen.layers import MOVES

    ops = _plain(layer["relax_ops"])
    convolutions = sum(op.startswith("conv") and op != "concat" for op in ops)
    products = ops.count("matmul")
    if convolutions or products:
        linear = products if any(_LINEAR.fullmatch(node) for node in layer["nodes"]) else 0
        found = {"convolution": convolutions, "linear": linear, "matmul": products - linear}
    else:
        sums = ops.count("add") if set(ops) <= _WITH_SUM | MOVES else 0
        found = {"add": sums, "pool": sum(op in _POOLS for op in ops)}
    return {kind: count for kind, count in found.items() if count}


def is_integer_kernel(layer: Mapping[str, Any]) -> bool:
    """Whether a layer runs on a kernel that gives int8 or int16."""
    return bool(layer["offloaded"]) and layer["dtype"] in ("int8", "int16")


def count_kinds(layers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each of ``KINDS`` that occurs: ``kind``, ``total``, ``offloaded`` (on any kernel), ``integer`` (on a kernel
    that gives int8 or int16) and ``mmalib`` (numbers of operators)."""
    rows = []
    for kind in KINDS:
        counted = [(layer, kinds_of(layer).get(kind, 0)) for layer in layers]
        total = sum(count for _, count in counted)
        if total:
            rows.append(
                {
                    "kind": kind,
                    "total": total,
                    "offloaded": sum(n for layer, n in counted if layer["offloaded"]),
                    "integer": sum(n for layer, n in counted if is_integer_kernel(layer)),
                    "mmalib": sum(n for layer, n in counted if layer["backend"] == "mmalib"),
                }
            )
    return rows


def offload_summary(workspace: Workspace) -> dict[str, Any] | None:
    """offload.json with ``operators`` (see ``count_kinds``) and, in ``totals``, ``macs_integer`` and ``macs_mmalib``;
    None before codegen.

    Raises:
        FormatError: offload.json is damaged.
    """
    if not workspace.has(REPORT):
        return None
    report = workspace.read_json(REPORT)
    try:
        layers = report["layers"]
        totals = {
            **report["totals"],
            "macs_integer": sum(layer["macs"] for layer in layers if is_integer_kernel(layer)),
            "macs_mmalib": sum(layer["macs"] for layer in layers if layer["backend"] == "mmalib"),
        }
        return {"layers": layers, "totals": totals, "operators": count_kinds(layers)}
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"{workspace.path(REPORT)} is not an offload report",
            cause=f"it lacks {error}",
            hint="run c7x codegen again",
        ) from error
