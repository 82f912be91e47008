"""Fusion of loops, lowering to destination-passing calls, and the record of what every call stands for."""

from __future__ import annotations

import json
import re
from typing import Any

import tvm
from tvm import relax

from c7x.graph.legalize import check_loops
from c7x.graph.line import (
    ORIGIN_ATTR,
    Origin,
    dump_origins,
    load_origins,
    merge,
    op_name,
    replace_vars,
    straight_line,
    with_main,
)

#: ``main``'s attribute with the record of every call: JSON {result variable: {"nodes": [...], "relax_ops": [...]}}.
CALLS_ATTR = "c7x_calls"

_MAX_NAME_OPS = 4


class _Correspondence:
    """Which bindings of ``main`` before FuseOps became which call after it.

    FuseOps gives the results of its groups new names, and shares one function between equal groups, so names alone do
    not tell. The two functions compute the same thing, though: walking both from their outputs backwards, operand by
    operand and into the fused functions, pairs every binding with its origin.
    """

    def __init__(self, before: relax.Function, mod: tvm.IRModule) -> None:
        self.mod = mod
        self.old_values = dict(straight_line(before))
        #: variable after -> variable before
        self.result: dict[Any, Any] = dict(zip(mod["main"].params, before.params, strict=True))
        #: variable after -> bindings before that its call computes
        self.members: dict[Any, list[Any]] = {}
        #: tuple of several group results after -> {index: variable before}
        self.fields: dict[Any, dict[int, Any]] = {}
        after = mod["main"]
        self._pair(before.body.body, after.body.body)
        for var, value in reversed(list(straight_line(after))):
            self._visit(var, value)

    def _pair(self, old: Any, new: Any) -> None:
        if isinstance(new, relax.Var):
            if isinstance(old, relax.Var):
                self.result.setdefault(new, old)
        elif isinstance(new, relax.Tuple):
            for o, n in zip(old.fields, new.fields, strict=True):
                self._pair(o, n)

    def _visit(self, var: Any, value: Any) -> None:
        if isinstance(value, relax.TupleGetItem) and var in self.result:
            old = self.result[var]
            source = self.old_values.get(old)
            if isinstance(source, relax.TupleGetItem):
                self._pair(source.tuple_value, value.tuple_value)
            else:
                self.fields.setdefault(value.tuple_value, {})[int(value.index)] = old
            return
        self.members[var] = []
        if isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.GlobalVar):
            inner = self.mod[value.op]
            env = dict(zip(inner.params, value.args, strict=True))
            env.update(straight_line(inner))
            inner_output = inner.body.body
            if var in self.result:
                self._match(var, self.result[var], inner_output, env, set(inner.params))
            else:
                output = env.get(inner_output, inner_output)
                for index, old in sorted(self.fields.get(var, {}).items()):
                    self._match(var, old, output.fields[index], env, set(inner.params))
        elif var in self.result:
            self._match(var, self.result[var], var, {var: value}, set())

    def _match(self, owner: Any, old: Any, new: Any, env: dict[Any, Any], params: set[Any]) -> None:
        """Pair ``old`` with ``new``, an expression inside the call of ``owner`` (``env`` binds its variables)."""
        if isinstance(new, relax.Tuple):
            for o, n in zip(old.fields, new.fields, strict=True):
                self._match(owner, o, n, env, params)
        elif isinstance(new, relax.Var) and new in params:
            self._pair(old, env[new])
        elif isinstance(new, relax.Var) and new in env:
            if isinstance(old, relax.Var):
                if any(old.same_as(m) for m in self.members[owner]):
                    return
                self.members[owner].append(old)
                old = self.old_values.get(old)
            self._match(owner, old, env[new], env, params)
        elif isinstance(new, relax.Var):
            self._pair(old, new)
        elif isinstance(new, relax.TupleGetItem):
            self._match(owner, old.tuple_value, new.tuple_value, env, params)
        elif isinstance(new, tvm.ir.Call):
            for o, n in zip(old.args, new.args, strict=True):
                self._match(owner, o, n, env, params)


def _restore_names(before: relax.Function, mod: tvm.IRModule) -> tvm.IRModule:
    """The module after FuseOps with the names of ``before`` on its bindings, and their merged origins recorded."""
    origins = load_origins(before)
    found = _Correspondence(before, mod)
    order = {var: i for i, (var, _) in enumerate(straight_line(before))}
    after = mod["main"]
    names = {str(p.name) for p in after.params}
    renamed: dict[Any, Any] = {}
    merged: dict[str, Origin] = {}
    bindings = []
    builder = relax.BlockBuilder()
    for var, value in straight_line(after):
        members = sorted(found.members.get(var, ()), key=order.__getitem__)
        old = found.result.get(var, members[-1] if members else var)
        base = name = str(old.name)
        n = 1
        while name in names:
            name, n = f"{base}_{n}", n + 1
        names.add(name)
        new = type(var)(name, var.ty)
        renamed[var] = new
        merged[name] = merge(origins.get(str(m.name), Origin()) for m in members)
        bindings.append((new, replace_vars(value, renamed, builder)))
    blocks = [relax.DataflowBlock([relax.VarBinding(v, e) for v, e in bindings])]
    output = replace_vars(after.body.body, renamed, builder)
    func = relax.Function(list(after.params), relax.SeqExpr(blocks, output), after.ret_ty, after.is_pure)
    func = func.with_attrs({**dict(after.attrs.items()), ORIGIN_ATTR: dump_origins(merged)})
    return with_main(mod, func)


def _fuse(mod: tvm.IRModule) -> tvm.IRModule:
    before = mod["main"]
    mod = _restore_names(before, relax.transform.FuseOps(fuse_opt_level=2)(mod))
    mod = relax.transform.FuseTIR()(mod)
    return relax.transform.DeadCodeElimination()(mod)


def _called(value: Any) -> tvm.ir.GlobalVar | None:
    if isinstance(value, tvm.ir.Call):
        if isinstance(value.op, tvm.ir.GlobalVar):
            return value.op
        if op_name(value) == "call_tir":
            return value.args[0]
    return None


def _short(op: str) -> str:
    return re.sub(r"\W", "_", op.rsplit(".", 1)[-1])


def _function_name(origin: Origin, fallback: str) -> str:
    ops = [_short(op) for op in origin.relax_ops] or [_short(fallback)]
    if len(ops) > _MAX_NAME_OPS:
        ops = [*ops[: _MAX_NAME_OPS - 1], f"{len(ops) - _MAX_NAME_OPS + 1}_more"]
    return ("fused_" if len(ops) > 1 else "") + "_".join(ops)


def name_functions(mod: tvm.IRModule) -> tvm.IRModule:
    """Name PrimFuncs after the operators in them, numbered in the order of their first call."""
    origins = load_origins(mod["main"])
    renamed: dict[str, tvm.ir.GlobalVar] = {}
    builder = relax.BlockBuilder()
    taken: set[str] = {"main"}

    def rename(var_name: str, gvar: tvm.ir.GlobalVar) -> tvm.ir.GlobalVar:
        old = str(gvar.name_hint)
        if old not in renamed:
            origin = origins.get(var_name, Origin())
            base = _function_name(origin, old)
            name, n = base, 1
            while name in taken:
                name, n = f"{base}_{n}", n + 1
            taken.add(name)
            # A function shared by several calls names the first; c7x_calls holds the record of each call.
            func = mod[gvar].with_attr("c7x_nodes", json.dumps(list(origin.nodes)))
            renamed[old] = builder.add_func(func.with_attr("c7x_relax_ops", json.dumps(list(origin.relax_ops))), name)
        return renamed[old]

    main = mod["main"]
    blocks = []
    for block in main.body.blocks:
        bindings = []
        for binding in block.bindings:
            value = binding.value
            gvar = _called(value)
            if gvar is not None:
                new = rename(str(binding.var.name), gvar)
                if op_name(value) == "call_tir":
                    value = tvm.ir.Call(value.op, [new, *list(value.args)[1:]], value.attrs, value.ty_args)
                else:
                    value = tvm.ir.Call(new, value.args, value.attrs, value.ty_args)
                bindings.append(relax.VarBinding(binding.var, builder.normalize(value)))
            else:
                bindings.append(binding)
        blocks.append(type(block)(bindings))
    func = relax.Function(list(main.params), relax.SeqExpr(blocks, main.body.body), main.ret_ty, main.is_pure)
    functions = dict(builder.get().functions.items())
    functions[mod.get_global_var("main")] = func.with_attrs(dict(main.attrs.items()))
    return tvm.IRModule(functions, attrs=mod.attrs)


def record_calls(mod: tvm.IRModule) -> tvm.IRModule:
    """Replace the passes' private record of origins by ``c7x_calls``."""
    main = mod["main"]
    origins = load_origins(main)
    table = {
        name: {"nodes": list(o.nodes), "relax_ops": list(o.relax_ops)}
        for name, o in sorted(origins.items())
        if o.nodes or o.relax_ops
    }
    main = main.without_attr(ORIGIN_ATTR).with_attr(CALLS_ATTR, json.dumps(table, sort_keys=True))
    return with_main(mod, main)


def fuse(mod: tvm.IRModule) -> tvm.IRModule:
    """Fuse loops into their neighbours; every PrimFunc gets its name and record."""
    mod = relax.transform.AnnotateTIROpPattern()(mod)
    check_loops(mod)
    return record_calls(name_functions(_fuse(mod)))


def lower_calls(mod: tvm.IRModule) -> tvm.IRModule:
    """Reshapes as aliases, outputs allocated and passed, no purity: what codegen reads."""
    steps = [
        relax.transform.RewriteDataflowReshape(),
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
        relax.transform.DeadCodeElimination(),
    ]
    return tvm.transform.Sequential(steps)(mod)
