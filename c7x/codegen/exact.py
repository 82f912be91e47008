"""Keeps TVM's simplifier away from arithmetic on tensor values.

The simplifier knows real numbers and integers without bounds: it turns ``(x + 3e7) - 3e7`` into ``x``, ``0 * x`` into 0
(NaN!), ``not (x <= 0)`` into ``0 < x`` and, on int32, ``2 * x // 2`` into ``x``. That is right for offsets, where it is
needed, and wrong for values, which PyTorch computes in the given type and order. So every operator on values becomes a
call that no pass looks into, before the first pass, and an operator again after the last one that simplifies.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

_PREFIX = "c7x.exact."
_OPERATORS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod, tirx.Max, tirx.Min),
        *(tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE),
    )
}
_HIDDEN = frozenset(_OPERATORS.values())
_CONNECTIVES = frozenset({tirx.And, tirx.Or})


def hide_values(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """``func`` with the operators on values written as calls.

    Offsets, loop bounds and conditions on loop variables stay as they are, and so does the outermost operator of a
    reduction, by which the schedule knows it.
    """
    values: list[Any] = []

    def bind(stmt: Any) -> Any:
        value, data = _hide(stmt.value, values)
        if data:
            values.append(stmt.var)
        return tirx.Bind(stmt.var, value)

    def store(stmt: Any) -> Any:
        return tirx.BufferStore(stmt.buffer, _hide_store(stmt, values), stmt.indices)

    def branch(stmt: Any) -> Any:
        return tirx.IfThenElse(_hide(stmt.condition, values)[0], stmt.then_case, stmt.else_case)

    def repeat(stmt: Any) -> Any:
        return tirx.While(_hide(stmt.condition, values)[0], stmt.body)

    rules = [(tirx.Bind, bind), (tirx.BufferStore, store), (tirx.IfThenElse, branch), (tirx.While, repeat)]
    return func.with_body(tvm_ffi.structural_map(func.body, rules))


def show_values(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Undoes :func:`hide_values`."""

    def show(call: Any) -> Any:
        name = hidden_operator(call)
        if name is None:
            return call
        # Narrowing offsets to int32 changes loop variables inside the call too, and does not see the other operand.
        dtype = str(call.args[0].value).rpartition(".")[2]
        a, b = (arg if str(arg.ty.dtype) == dtype else tirx.Cast(dtype, arg) for arg in call.args[1:])
        return _OPERATORS[name](a, b)

    return func.with_body(tvm_ffi.structural_map(func.body, (tvm.ir.Call, show)))


def hidden_operator(node: Any) -> str | None:
    """The name of the operator behind a call made by :func:`hide_values` (``Add``, ``Mul``, ...), else None."""
    if type(node) is not tvm.ir.Call or getattr(node.op, "name", "") != "tirx.call_pure_extern":
        return None
    name = str(node.args[0].value)
    return name.removeprefix(_PREFIX).partition(".")[0] if name.startswith(_PREFIX) else None


def _hide_store(stmt: Any, values: list[Any]) -> Any:
    value = stmt.value
    if type(value) in (tirx.Add, tirx.Mul, tirx.Max, tirx.Min) and type(value.a) is tvm.ir.TensorLoad:
        same_place = tvm_ffi.structural_equal(list(value.a.indices), list(stmt.indices))
        if value.a.source.same_as(stmt.buffer) and same_place:
            return type(value)(value.a, _hide(value.b, values)[0])
    return _hide(value, values)[0]


def _hide(node: Any, values: list[Any]) -> tuple[Any, bool]:
    """``node`` with its operators hidden, and whether it depends on the contents of a tensor."""
    kind = type(node)
    if kind is tvm.ir.TensorLoad:
        return node, True
    if kind is tvm.ir.Var:
        return node, any(node.same_as(var) for var in values)
    if kind in _HIDDEN:
        (a, a_data), (b, b_data) = _hide(node.a, values), _hide(node.b, values)
        data = a_data or b_data
        dtype = str(node.a.ty.dtype)
        if data or dtype.startswith("float"):
            return tirx.call_pure_extern(str(node.ty.dtype), f"{_PREFIX}{kind.__name__}.{dtype}", a, b), data
        return node, False
    if kind in _CONNECTIVES:
        (a, a_data), (b, b_data) = _hide(node.a, values), _hide(node.b, values)
        return (kind(a, b), True) if a_data or b_data else (node, False)
    if kind is tirx.Not:
        a, data = _hide(node.a, values)
        return (tirx.Not(a), True) if data else (node, False)
    if kind is tirx.Cast:
        value, data = _hide(node.value, values)
        return tirx.Cast(str(node.ty.dtype), value), data
    if kind is tirx.Select:
        parts = [_hide(part, values) for part in (node.condition, node.true_value, node.false_value)]
        return tirx.Select(*(part for part, _ in parts)), any(data for _, data in parts)
    if kind is tvm.ir.Call:
        parts = [_hide(part, values) for part in node.args]
        call = tvm.ir.Call(node.op, [part for part, _ in parts], attrs=node.attrs, ty_args=node.ty_args, ret_ty=node.ty)
        return call, any(data for _, data in parts)
    return node, False
