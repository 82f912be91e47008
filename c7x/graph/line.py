"""``Line``: the straight line of bindings that ``main`` is, and how our passes edit it.

A pass is a rule called once per binding, in order, on operands that the pass has already rewritten. Because the new
binding is written where the last operator of a pattern stood, every operand of a fused operator is computed before
it, and a rule never has to move anything.

Three things are kept for every pass: names of bindings (they carry the exported graph's node names), the origin of
every binding (which nodes and Relax operators it stands for), and ``main``'s attributes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from c7x.errors import UnsupportedError

#: ``main``'s attribute that carries origins from pass to pass; replaced by ``c7x_calls`` at the end of the pipeline.
ORIGIN_ATTR = "c7x_origin"

KERNEL_PREFIX = "c7x."

#: Prefixes of the functions a call may name besides: what the firmware exports.
FIRMWARE_PREFIXES = ("c7x_", "mmalib_")


@dataclass(frozen=True)
class Origin:
    """What a binding stands for: nodes of the exported graph, and Relax operators without the ``relax.`` prefix."""

    nodes: tuple[str, ...] = ()
    relax_ops: tuple[str, ...] = ()

    def __add__(self, other: Origin) -> Origin:
        nodes = self.nodes + tuple(n for n in other.nodes if n not in self.nodes)
        return Origin(nodes, self.relax_ops + other.relax_ops)


def merge(origins: Iterable[Origin]) -> Origin:
    """All origins in one, nodes without repetition."""
    result = Origin()
    for origin in origins:
        result += origin
    return result


def dump_origins(origins: Mapping[str, Origin]) -> str:
    return json.dumps({k: [list(o.nodes), list(o.relax_ops)] for k, o in sorted(origins.items())})


def load_origins(func: relax.Function) -> dict[str, Origin]:
    text = func.attrs.get(ORIGIN_ATTR, "{}") if func.attrs else "{}"
    return {k: Origin(tuple(nodes), tuple(ops)) for k, (nodes, ops) in json.loads(str(text)).items()}


# --- looking at expressions -------------------------------------------------------------------------------------


def op_name(expr: Any) -> str | None:
    """The Relax operator's name without ``relax.``; None for anything but a call of an operator."""
    if isinstance(expr, tvm.ir.Call) and isinstance(expr.op, tvm.ir.Op):
        return str(expr.op.name).removeprefix("relax.")
    return None


def is_const(expr: Any) -> bool:
    """Whether the expression is a tensor constant."""
    return isinstance(expr, tvm.ir.GenericConst) and isinstance(expr.value, tvm.runtime.Tensor)


def const_numpy(expr: Any) -> np.ndarray:
    """The value of a tensor constant (a copy)."""
    return np.asarray(expr.value.numpy())


def make_const(value: np.ndarray) -> tvm.ir.GenericConst:
    """A tensor constant that keeps the array's dtype exactly."""
    return relax.const(np.ascontiguousarray(value).reshape(value.shape), str(value.dtype))


def scalar_value(expr: Any) -> float | int | bool | None:
    """The value of a constant of one element; None for anything else."""
    if is_const(expr) and all(d == 1 for d in shape_of(expr)):
        return const_numpy(expr).reshape(()).item()  # type: ignore[no-any-return]
    return None


def has_static_shape(expr: Any) -> bool:
    ty = expr.ty
    return (
        isinstance(ty, relax.TensorType)
        and isinstance(ty.shape, relax.ShapeExpr)
        and all(isinstance(d, tvm.tirx.IntImm) for d in ty.shape.values)
    )


def shape_of(expr: Any) -> tuple[int, ...]:
    """The static shape of a tensor expression.

    Raises:
        UnsupportedError: a dimension is not known at compile time.
    """
    if not has_static_shape(expr):
        raise UnsupportedError(
            f"the shape of {getattr(expr, 'name', 'a tensor')} is not known at compile time: {expr.ty}",
            cause="a dimension of the model is dynamic",
            hint="fix the dimension with --bind NAME=VALUE",
        )
    return tuple(int(d) for d in expr.ty.shape.values)


def dtype_of(expr: Any) -> str:
    """The dtype of a tensor expression as numpy spells it."""
    return str(expr.ty.dtype.dtype) if hasattr(expr.ty.dtype, "dtype") else str(expr.ty.dtype)


def tensor_type(shape: Sequence[int], dtype: str) -> relax.TensorType:
    return relax.TensorType([int(d) for d in shape], dtype)


@dataclass(frozen=True)
class KernelCall:
    """A call of one of our kernels, taken apart."""

    op: str
    tensors: tuple[Any, ...]
    attrs: dict[str, Any]


def kernel_call(expr: Any) -> KernelCall | None:
    """The kernel call behind ``call_dps_packed("c7x.<op>", ...)``; None for anything else."""
    if op_name(expr) != "call_dps_packed":
        return None
    symbol = str(expr.args[0].global_symbol)
    if not symbol.startswith(KERNEL_PREFIX):
        return None
    *tensors, attrs = expr.args[1].fields
    return KernelCall(symbol.removeprefix(KERNEL_PREFIX), tuple(tensors), json.loads(str(attrs.value)))


def make_kernel(op: str, tensors: Sequence[Any], attrs: Mapping[str, Any], out: Any) -> Any:
    """``call_dps_packed("c7x.<op>", ...)``; ``out`` is the output's type, or a list of types."""
    text = json.dumps(dict(attrs), sort_keys=True)
    return relax.call_dps_packed(KERNEL_PREFIX + op, (*tensors, tvm.ir.StringImm(text)), out_ty=out)


# --- the line ---------------------------------------------------------------------------------------------------


class Line:
    """One pass over ``main``.

    Attributes:
        mod: the module before the pass.
        origins: origin of every binding written so far, by name.
        current: name of the binding being rewritten.
    """

    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod = mod
        self.func: relax.Function = mod["main"]
        self.old_origins = load_origins(self.func)
        self.origins: dict[str, Origin] = {}
        self.current = ""
        self._builder = relax.BlockBuilder()
        self._env: dict[str, Any] = {}
        self._written: list[tuple[relax.DataflowVar, Any]] = []
        self._value_of: dict[str, Any] = {}
        self._names: set[str] = {str(p.name) for p in self.func.params}
        self.old_bindings = list(straight_line(self.func))
        self.old_output = self.func.body.body
        self._absorbed = Origin()
        self._main_written = False
        self._uses: Counter[str] = Counter()
        for var, value in self.old_bindings:
            self._names.add(str(var.name))
            self._uses.update(used_names(value))
        self._uses.update(used_names(self.old_output))
        for param in self.func.params:
            self._env[str(param.name)] = param
        self._new_uses: dict[str, int] = {str(p.name): self._uses[str(p.name)] for p in self.func.params}

    # -- what a rule may ask

    def uses(self, old_name: str) -> int:
        """How often the binding was used before this pass (as an operand or as an output)."""
        return self._uses[old_name]

    def value(self, expr: Any) -> Any:
        """What the variable is bound to in the new line; None for parameters, constants and anything else."""
        return self._value_of.get(str(expr.name)) if isinstance(expr, relax.Var) else None

    def call(self, expr: Any, op: str) -> Any:
        """The variable's call if it is one of operator ``op``; else None."""
        value = self.value(expr)
        return value if op_name(value) == op else None

    def kernel(self, expr: Any, *ops: str) -> KernelCall | None:
        """The variable's kernel call if its operator is among ``ops``; else None."""
        found = kernel_call(self.value(expr))
        return found if found is not None and found.op in ops else None

    def single_use(self, expr: Any) -> bool:
        """Whether the new line's variable stands for exactly one use."""
        return isinstance(expr, relax.Var) and self._new_uses.get(str(expr.name), 0) == 1

    # -- what a rule may do

    def normalize(self, expr: Any) -> Any:
        """The expression with its type inferred."""
        return self._builder.normalize(expr)

    def emit(self, expr: Any, suffix: str = "", *, origin_of: Any = None) -> Any:
        """Bind a helper expression under a fresh name made from the current one.

        Its origin is that of the binding ``origin_of``, which it replaces, or else the current node.
        """
        if not isinstance(expr, tvm.ir.Call | relax.TupleGetItem):
            return expr
        name = self._fresh(f"{self.current}{suffix}")
        if origin_of is not None:
            origin = self.origins.get(str(origin_of.name), Origin())
        else:
            op = op_name(expr)
            origin = Origin(self.old_origins.get(self.current, Origin()).nodes, (op,) if op else ())
        return self._write(name, expr, origin)

    def main(self, expr: Any) -> Any:
        """Bind the expression that does the current node's work under the current name, with its full origin.

        For rules whose result is something around it (a transpose, a tuple); call it last, and once.
        """
        assert not self._main_written, self.current
        self._main_written = True
        origin = self._absorbed + self.old_origins.get(self.current, Origin())
        self._new_uses[self.current] = self._uses[self.current]
        return self._write(self.current, expr, origin)

    def absorb(self, *exprs: Any) -> None:
        """Add the origins of bindings that the current one replaces."""
        found = [self.origins[str(e.name)] for e in exprs if isinstance(e, relax.Var) and str(e.name) in self.origins]
        self._absorbed = merge([self._absorbed, *found])

    # -- the pass itself

    def run(self, rule: Callable[[Line, Any], Any]) -> tvm.IRModule:
        """Apply ``rule(line, value)`` to every binding; None leaves the binding as it is."""
        for var, value in self.old_bindings:
            self.current = str(var.name)
            self._absorbed = Origin()
            self._main_written = False
            value = self.substitute(value)
            replaced = rule(self, value)
            self._bind(self.current, value if replaced is None else replaced)
        return self._finish()

    def substitute(self, expr: Any) -> Any:
        """The expression over the new line's variables; tuples are looked through."""
        if isinstance(expr, relax.Var):
            return self._env[str(expr.name)]
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([self.substitute(f) for f in expr.fields])
        if isinstance(expr, relax.TupleGetItem):
            source = self.substitute(expr.tuple_value)
            if isinstance(source, relax.Tuple):
                return source.fields[expr.index]
            return relax.TupleGetItem(source, expr.index)
        if isinstance(expr, tvm.ir.Call):
            args = [self.substitute(a) for a in expr.args]
            if all(a.same_as(b) for a, b in zip(args, expr.args, strict=True)):
                return expr
            return self.normalize(tvm.ir.Call(expr.op, args, expr.attrs, expr.ty_args))
        return expr

    def _fresh(self, name: str) -> str:
        candidate, n = name, 1
        while candidate in self._names:
            candidate, n = f"{name}_{n}", n + 1
        self._names.add(candidate)
        return candidate

    def _write(self, name: str, expr: Any, origin: Origin) -> relax.DataflowVar:
        expr = self.normalize(expr)
        var = relax.DataflowVar(name, expr.ty)
        self._written.append((var, expr))
        self._value_of[name] = expr
        self._new_uses.setdefault(name, 1)
        self.origins[name] = origin
        return var

    def _bind(self, name: str, expr: Any) -> None:
        if self._main_written:
            self._env[name] = around = self.emit(expr, "_as")
            if isinstance(around, relax.Var):
                self._new_uses[str(around.name)] = self._uses[name]
            return
        origin = self._absorbed + self.old_origins.get(name, Origin())
        if isinstance(expr, tvm.ir.Call | relax.TupleGetItem):
            self._new_uses[name] = self._uses[name]
            self._env[name] = self._write(name, expr, origin)
            return
        self._env[name] = expr
        if isinstance(expr, relax.Var) and str(expr.name) in self.origins:
            kept = str(expr.name)
            self.origins[kept] += Origin(origin.nodes, ())
            # The alias hands its own uses on, and no longer is one itself.
            self._new_uses[kept] = self._new_uses.get(kept, 0) - 1 + self._uses[name]
        elif isinstance(expr, relax.Tuple):
            for f in expr.fields:
                if isinstance(f, relax.Var):
                    self._new_uses[str(f.name)] = self._new_uses.get(str(f.name), 0) + self._uses[name]

    def _finish(self) -> tvm.IRModule:
        output = self.substitute(self.old_output)
        kept = live(self._written, output)
        origins = {str(var.name): self.origins[str(var.name)] for var, _ in kept}
        func = build_function(self.func, kept, output).with_attr(ORIGIN_ATTR, dump_origins(origins))
        return with_main(self.mod, func)


def straight_line(func: relax.Function) -> Iterable[tuple[relax.Var, Any]]:
    """The bindings of a function without control flow, in order.

    Raises:
        UnsupportedError: the function holds an ``if``, a nested function or a dynamic shape match.
    """
    if not isinstance(func.body, relax.SeqExpr):
        return
    for block in func.body.blocks:
        for binding in block.bindings:
            value = getattr(binding, "value", None)
            if not isinstance(binding, relax.VarBinding) or isinstance(value, relax.If | relax.Function):
                raise UnsupportedError(
                    f"{binding.var.name} is not a plain computation but {type(value or binding).__name__}",
                    cause="the model branches on data, or holds a shape that is only known at run time",
                    hint="export the model with fixed shapes, and replace `if` on tensor values by torch.where",
                )
            yield binding.var, value


def used_names(expr: Any) -> Iterable[str]:
    """Names of the variables an expression reads, one entry per reading."""
    if isinstance(expr, relax.Var):
        yield str(expr.name)
    elif isinstance(expr, relax.Tuple):
        for f in expr.fields:
            yield from used_names(f)
    elif isinstance(expr, relax.TupleGetItem):
        yield from used_names(expr.tuple_value)
    elif isinstance(expr, tvm.ir.Call):
        for a in expr.args:
            yield from used_names(a)


def live(bindings: Sequence[tuple[Any, Any]], output: Any) -> list[tuple[Any, Any]]:
    """The bindings that ``output`` depends on, in order."""
    needed = set(used_names(output))
    kept = []
    for var, value in reversed(bindings):
        if str(var.name) in needed:
            kept.append((var, value))
            needed.update(used_names(value))
    return kept[::-1]


def build_function(old: relax.Function, bindings: Sequence[tuple[Any, Any]], output: Any) -> relax.Function:
    """``old`` with new bindings: one dataflow block that ends in the binding of the output ``gv``."""
    taken = {str(v.name) for v, _ in bindings} | {str(p.name) for p in old.params}
    name = "gv"
    while name in taken:
        name += "_"
    result = relax.Var(name, output.ty)
    block = relax.DataflowBlock([relax.VarBinding(v, e) for v, e in bindings] + [relax.VarBinding(result, output)])
    func = relax.Function(list(old.params), relax.SeqExpr([block], result), output.ty, True)
    return func.with_attrs(dict(old.attrs.items())) if old.attrs else func


def replace_vars(expr: Any, renamed: Mapping[Any, Any], builder: relax.BlockBuilder) -> Any:
    """The expression over other variables."""
    if isinstance(expr, relax.Var):
        return renamed.get(expr, expr)
    if isinstance(expr, relax.Tuple):
        return relax.Tuple([replace_vars(f, renamed, builder) for f in expr.fields])
    if isinstance(expr, relax.TupleGetItem):
        return relax.TupleGetItem(replace_vars(expr.tuple_value, renamed, builder), expr.index)
    if isinstance(expr, tvm.ir.Call):
        args = [replace_vars(a, renamed, builder) for a in expr.args]
        return builder.normalize(tvm.ir.Call(expr.op, args, expr.attrs, expr.ty_args))
    return expr


def with_main(mod: tvm.IRModule, main: relax.Function) -> tvm.IRModule:
    """A module with another ``main``."""
    result = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    result.update_func(mod.get_global_var("main"), main)
    return result


def start(mod: tvm.IRModule) -> tvm.IRModule:
    """Give every binding a unique name and record its origin: itself.

    Raises:
        UnsupportedError: a dimension is not known at compile time, or ``main`` is not a straight line.
    """
    func = mod["main"]
    for param in func.params:
        shape_of(param)
    names: set[str] = {str(p.name) for p in func.params}
    renamed: dict[Any, Any] = {}
    origins: dict[str, Origin] = {}
    bindings = []

    builder = relax.BlockBuilder()
    for var, value in straight_line(func):
        base = str(var.name)
        name, n = base, 1
        while name in names:
            name, n = f"{base}_{n}", n + 1
        names.add(name)
        if isinstance(var.ty, relax.TensorType):
            shape_of(var)
        value = replace_vars(value, renamed, builder)
        new = relax.DataflowVar(name, var.ty)
        renamed[var] = new
        op = op_name(value)
        origins[name] = Origin((base,), (op,) if op else ())
        bindings.append((new, value))
    func = build_function(func, bindings, replace_vars(func.body.body, renamed, builder))
    return with_main(mod, func.with_attr(ORIGIN_ATTR, dump_origins(origins)))
