"""Quantised operators to integer kernels.

A quantised model is a float model whose tensors pass through ``quantize`` and ``dequantize``. At every ``quantize`` the
families below look at the float operators behind it, back to the dequantised tensors they read; the first that knows
them writes one integer operator in their place. Operators that only move data let the dequantisation pass through them.
What no family knows stays as it is and runs in float between its dequantize and quantize.
"""

from __future__ import annotations

import json
from typing import Any

import tvm
from tvm import relax

from c7x.graph.line import Line, dtype_of, op_name, straight_line, used_names, with_main
from c7x.graph.qdq import activation, add, conv, linear, matmul, move, norm, pool
from c7x.graph.qdq.boundary import settle
from c7x.graph.qdq.fusion import Fusion
from c7x.graph.qdq.interface import interface_params
from c7x.graph.qdq.values import LIMITS, Clipped, Params, clipped, params_of, quantized

#: ``main``'s attribute with why operators did not get the kernel one would expect: JSON {node: reason}.
REASONS_ATTR = "c7x_reasons"
#: ``main``'s attribute with the operators between two quantised tensors that compute real numbers: JSON list of names.
FLOAT_ATTR = "c7x_float_between"
#: ``main``'s attribute with the quantisation of its inputs and outputs: JSON of ``interface_params``.
INTERFACE_ATTR = "c7x_quantisation"


#: Asked in this order at every quantize.
FAMILIES = (
    conv.fuse,
    linear.fuse,
    matmul.fuse,
    add.fuse,
    add.fuse_product,
    pool.fuse,
    norm.fuse,
    activation.clip_int16,
)


def _quantize(fusion: Fusion, line: Line, call: Any) -> Any:
    out = params_of(call)
    if out is None:
        return None
    source = call.args[0]
    behind = quantized(line, source)
    if behind is not None and behind.params == out:
        line.absorb(source)
        return behind.tensor
    clip = clipped(line, source)
    for family in FAMILIES:
        result = family(fusion, line, clip, out)
        if result is not None:
            return result
    result = activation.fuse(fusion, line, clip, out, source)
    if result is None:
        result = move.fuse_concat(fusion, line, source, out)
    if result is None:
        _note(fusion, line, clip, out)
    return result


def _note(fusion: Fusion, line: Line, clip: Clipped, out: Params) -> None:
    """Why float operators stay between a dequantize and this quantize."""
    call = line.value(clip.source)
    op = op_name(call)
    if op is not None:
        real = [op_name(line.value(a)) for a in call.args if op_name(line.value(a)) not in (None, "dequantize")]
        why = f"its operand is the real result of {real[0]}" if real else "of these operands"
        fusion.refuse(line, f"no {out.dtype} kernel for {op}{': ' if real else ' '}{why}")
        fusion.reasons.setdefault(str(clip.source.name), fusion.reasons[line.current])


def fuse_quantized(mod: tvm.IRModule, *, mmalib: bool) -> tvm.IRModule:
    """Write integer kernels for the quantised operators of ``main``; a float model passes through unchanged.

    Args:
        mmalib: use the firmware's kernels where they take an operator, our own for the rest.
    """
    if not any(op_name(value) in ("quantize", "dequantize") for _, value in straight_line(mod["main"])):
        return mod
    fusion = Fusion(mmalib=mmalib)

    def rule(line: Line, value: Any) -> Any:
        if op_name(value) == "quantize":
            return _quantize(fusion, line, value)
        return move.move(fusion, line, value)

    interface = json.dumps(interface_params(mod), sort_keys=True)
    mod = Line(mod).run(rule)
    mod = Line(mod).run(lambda line, value: settle(fusion, line, value))
    main = mod["main"].with_attr(REASONS_ATTR, json.dumps(fusion.reasons, sort_keys=True))
    main = main.with_attr(INTERFACE_ATTR, interface)
    return with_main(mod, main.with_attr(FLOAT_ATTR, json.dumps(float_between(mod))))


def float_between(mod: tvm.IRModule) -> list[str]:
    """Names of the bindings that compute real numbers after a quantised tensor and before another, in order."""
    bindings = list(straight_line(mod["main"]))
    after = {str(p.name) for p in mod["main"].params if _is_quantized(p)}
    for var, value in bindings:
        if _is_quantized(var) or not after.isdisjoint(used_names(value)):
            after.add(str(var.name))
    before: set[str] = set()
    found = []
    for var, value in reversed(bindings):
        name = str(var.name)
        if _is_quantized(var) or name in before:
            before.update(used_names(value))
        if name in after and name in before and op_name(value) not in (None, "dequantize") and not _is_quantized(var):
            found.append(name)
    return found[::-1]


def _is_quantized(var: Any) -> bool:
    return isinstance(var.ty, relax.TensorType) and dtype_of(var) in LIMITS


__all__ = ["FLOAT_ATTR", "INTERFACE_ATTR", "REASONS_ATTR", "float_between", "fuse_quantized"]
