"""TIR passes: from a fused PrimFunc of TVM to flat loops over one-dimensional buffers, ready for the printer.

``PASSES`` is the order in which public TVM's passes run, each with its reason. Nothing here builds TVM's calling
convention (MakePackedAPI, LowerTVMBuiltin): generated C may not call ``TVMBackend*``. Loops marked as vectorised,
unrolled or parallel stay loops, which the printer writes plainly: the C compiler's own vectoriser measured faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from c7x.codegen.exact import hide_values, show_values
from c7x.codegen.schedule import schedule

#: Functions of their arguments alone.
_PURE = frozenset({"prim.if_then_else", "prim.likely"}) | {
    f"tirx.{name}"
    for name in ("floor", "ceil", "round", "nearbyint", "trunc", "fabs", "sqrt", "rsqrt", "exp", "log", "pow", "sin")
}

#: A loop is cut into at most this many pieces; its body is printed once a piece.
MAX_PIECES = 6
#: Node kinds are told apart by exact type: isinstance on TVM's classes goes through ABCMeta, ten times slower.
Kinds = frozenset[type]
_NOT_INNERMOST: Kinds = frozenset({tirx.For, tirx.While, tirx.Break, tirx.Continue})
_COMPARISONS: Kinds = frozenset({tirx.LT, tirx.LE, tirx.GT, tirx.GE})


@dataclass(frozen=True, kw_only=True)
class LoweringPass:
    """One step of lowering: the name of the pass, how to make it, and what the generated C would miss without it."""

    name: str
    make: Callable[[], Any]
    reason: str


def _narrow() -> Any:
    return tirx.transform.NarrowDataType(32)


def _piecewise() -> Any:
    return tirx.transform.prim_func_pass(lambda func, _mod, _ctx: split_at_bounds(func), opt_level=0)


def _drop() -> Any:
    return tirx.transform.prim_func_pass(lambda func, _mod, _ctx: drop_unread(func), opt_level=0)


def _show() -> Any:
    return tirx.transform.prim_func_pass(lambda func, _mod, _ctx: show_values(func), opt_level=0)


def _hoist() -> Any:
    return tirx.transform.prim_func_pass(lambda func, _mod, _ctx: hoist_invariants(func), opt_level=0)


PASSES: tuple[LoweringPass, ...] = (
    LoweringPass(
        name="s_tir.CanonicalizeLoop",
        make=s_tir.transform.CanonicalizeLoop,
        reason="hand-written loops get the form 0..n, step 1, that the passes below expect",
    ),
    LoweringPass(
        name="s_tir.LowerInitBlock",
        make=s_tir.transform.LowerInitBlock,
        reason="the initial value of a reduction that the schedule left in place becomes a statement",
    ),
    LoweringPass(
        name="s_tir.PlanAndUpdateBufferAllocationLocation",
        make=s_tir.transform.PlanAndUpdateBufferAllocationLocation,
        reason="an intermediate buffer moves into the loop that alone uses it",
    ),
    LoweringPass(
        name="s_tir.ConvertBlocksToOpaque",
        make=s_tir.transform.ConvertBlocksToOpaque,
        reason="block variables are replaced by loop variables",
    ),
    LoweringPass(
        name="s_tir.CompactBufferAllocation",
        make=s_tir.transform.CompactBufferAllocation,
        reason="an intermediate shrinks to the part alive at once: a row on the stack instead of an image in the arena",
    ),
    LoweringPass(
        name="s_tir.LowerMatchBuffer",
        make=s_tir.transform.LowerMatchBuffer,
        reason="views of a region become index arithmetic",
    ),
    LoweringPass(
        name="s_tir.LowerOpaqueBlock",
        make=s_tir.transform.LowerOpaqueBlock,
        reason="blocks disappear, buffers become allocations, loops of one step go",
    ),
    LoweringPass(
        name="tirx.FlattenBuffer",
        make=tirx.transform.FlattenBuffer,
        reason="indices become one offset, as C sees memory",
    ),
    LoweringPass(
        name="tirx.NarrowDataType",
        make=_narrow,
        reason="loops and offsets that provably fit become int32: twice the index lanes, cheaper on the DSP",
    ),
    LoweringPass(
        name="tirx.StorageRewrite",
        make=tirx.transform.StorageRewrite,
        reason="buffers of one dtype whose lives do not overlap share storage: less workspace",
    ),
    LoweringPass(
        name="c7x.split_at_bounds",
        make=_piecewise,
        reason="concat and padding: a condition on the innermost loop becomes loops without a condition",
    ),
    LoweringPass(
        name="s_tir.RenormalizeSplitPattern",
        make=s_tir.transform.RenormalizeSplitPattern,
        reason="quotients and remainders of fused and split loops cancel",
    ),
    LoweringPass(
        name="tirx.StmtSimplify",
        make=tirx.transform.StmtSimplify,
        reason="offsets are simplified and conditions decided by loop bounds go",
    ),
    LoweringPass(
        name="c7x.drop_unread",
        make=_drop,
        reason="fusion leaves values that nobody reads, such as an unused gate; they would be warnings in C",
    ),
    LoweringPass(
        name="tirx.RemoveNoOp",
        make=tirx.transform.RemoveNoOp,
        reason="loops that became empty go",
    ),
    LoweringPass(
        name="c7x.show_values",
        make=_show,
        reason="undoes hide_values, which kept the simplifier from treating floats as reals and int32 as unbounded",
    ),
    LoweringPass(
        name="c7x.hoist_invariants",
        make=_hoist,
        reason="coordinates of a resize are computed once a row; here because the simplifier would undo it",
    ),
    LoweringPass(
        name="tirx.CommonSubexprElim",
        make=tirx.transform.CommonSubexprElim,
        reason="shorter text; inlining repeats offsets and values",
    ),
)


@cache
def _pipeline() -> Any:
    target = tvm.target.Target({"kind": "c", "mcpu": "c7x"})
    return tvm.transform.Sequential([tirx.transform.BindTarget(target), *(step.make() for step in PASSES)])


def lower_prim_func(func: tirx.PrimFunc, name: str) -> tirx.PrimFunc:
    """``func``, as LegalizeOps, FuseTIR or a TVMScript wrote it, scheduled and lowered to flat loops.

    Args:
        func: a function in destination-passing style over buffers of static shape.
        name: becomes the attribute ``global_symbol``.
    """
    func = schedule(hide_values(_without_offsets(func))).with_attr("global_symbol", name)
    return _pipeline()(tvm.IRModule({name: func}))[name]


def _without_offsets(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Tensors begin at their pointer: the free ``elem_offset`` that hand-written operators declare is 0."""
    free = [
        param.ty.elem_offset
        for param in func.params
        if isinstance(param.ty, tirx.BufferType) and isinstance(param.ty.elem_offset, tvm.ir.Var)
    ]
    if not free:
        return func

    def zero(var: Any) -> Any:
        return tirx.IntImm(str(var.ty.dtype), 0) if any(var.same_as(other) for other in free) else var

    return tvm_ffi.structural_map(func, (tvm.ir.Var, zero))


def drop_unread(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Takes out stores to scratch buffers that are never read, and what only those stores read."""
    # TVM's objects hash by identity.
    views = {
        hash(view.buffer): view.data.args[0]
        for view in _find(func.body, frozenset({tirx.DeclBuffer}))
        if isinstance(view.data, tvm.ir.Call)
    }

    def memory(buffer: Any) -> int:
        return hash(views.get(hash(buffer), buffer))

    read = {memory(load.source) for load in _find(func.body, frozenset({tvm.ir.TensorLoad}))}
    unread = {hash(scratch.buffer) for scratch in _find(func.body, frozenset({tirx.AllocBuffer}))} - read
    if not any(memory(store.buffer) in unread for store in _find(func.body, frozenset({tirx.BufferStore}))):
        return func

    def drop(store: Any) -> Any:
        return tirx.Evaluate(tirx.IntImm("int32", 0)) if memory(store.buffer) in unread else store

    return drop_unread(func.with_body(tvm_ffi.structural_map(func.body, (tirx.BufferStore, drop))))


def split_at_bounds(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Cuts innermost loops where a comparison of the loop variable with a constant changes its answer.

    The pieces run in the loop's order over the same body, so nothing else changes; the simplifier then drops the
    comparisons. TVM's LoopPartition acts on conditions marked ``likely`` only, which concatenation and padding lack.
    """
    return s_tir.transform.ConvertSSA()(
        tvm.IRModule({"main": func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, _pieces)))})
    )["main"]


def _pieces(loop: tirx.For) -> tirx.Stmt:
    bounds = _bounds(loop)
    if not bounds:
        return loop
    edges = [int(loop.min), *bounds, int(loop.min) + int(loop.extent)]
    return tirx.SeqStmt([_piece(loop, begin, end) for begin, end in pairwise(edges)])


def _piece(loop: tirx.For, begin: int, end: int) -> tirx.For:
    dtype = str(loop.loop_var.ty.dtype)
    return tirx.For(
        loop.loop_var,
        tirx.IntImm(dtype, begin),
        tirx.IntImm(dtype, end - begin),
        loop.kind,
        loop.body,
        annotations=loop.annotations,
    )


def _bounds(loop: tirx.For) -> list[int]:
    """Where to cut ``loop``, ascending; empty when it is not innermost, not constant, or would fall into confetti."""
    if not isinstance(loop.min, tirx.IntImm) or not isinstance(loop.extent, tirx.IntImm):
        return []
    found: set[int] = set()
    for node in _find(loop.body, _NOT_INNERMOST | _COMPARISONS):
        if type(node) in _NOT_INNERMOST:
            return []
        # For integers, a < b changes where a reaches b, a <= b one later.
        after = isinstance(node, tirx.LE | tirx.GT)
        if isinstance(node.b, tirx.IntImm) and _is_var(node.a, loop.loop_var):
            found.add(int(node.b) + after)
        elif isinstance(node.a, tirx.IntImm) and _is_var(node.b, loop.loop_var):
            found.add(int(node.a) + (not after))
    low, high = int(loop.min), int(loop.min) + int(loop.extent)
    bounds = sorted(bound for bound in found if low < bound < high)
    return [] if len(bounds) >= MAX_PIECES else bounds


def _is_var(node: Any, var: Any) -> bool:
    return isinstance(node, tvm.ir.Var) and bool(node.same_as(var))


#: What costs more than the addition of a loop step, besides the calls of functions.
_EXPENSIVE: Kinds = frozenset({tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod, tvm.ir.Call})
_OPERATORS: Kinds = frozenset({
    *(tirx.Add, tirx.Sub, tirx.Mul, tirx.Max, tirx.Min, *_EXPENSIVE),
    *(tirx.Cast, tirx.Select, tirx.And, tirx.Or, tirx.Not),
    *(tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE),
})  # fmt: skip


def hoist_invariants(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Computes what does not change in a loop before the loop, where that is more than a few additions.

    Only expressions without loads move: they have a value for all operands (c7x_scalar.h), so computing one that a
    branch would have skipped does no harm, while a load might be out of bounds.
    """
    if not _find(func.body, _EXPENSIVE):
        return func
    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, _hoist_from)))


def _find(root: Any, kinds: Kinds) -> list[Any]:
    found: list[Any] = []
    # One callback for both roots of the hierarchy: each kind given to the walker costs more than a visit.
    tvm_ffi.structural_walk(
        root, ((tirx.Stmt, tvm.ir.Expr), lambda node: found.append(node) if type(node) in kinds else None)
    )
    return found


def _hoist_from(loop: tirx.For) -> tirx.Stmt:
    changing = [loop.loop_var]
    for node in _find(loop.body, frozenset({tirx.For, tirx.Bind, tirx.Let})):
        changing.append(node.loop_var if isinstance(node, tirx.For) else node.var)
    if not any(_is_movable(node, changing) for node in _find(loop.body, _EXPENSIVE)):
        return loop
    variables: dict[Any, Any] = {}
    binds: list[tirx.Stmt] = []

    def replace(node: Any) -> Any:
        if type(node) not in _OPERATORS or not _is_movable(node, changing):
            return node
        key = tvm_ffi.StructuralKey(node)
        if key not in variables:
            variables[key] = tirx.Var("invariant", str(node.ty.dtype))
            binds.append(tirx.Bind(variables[key], node))
        return variables[key]

    body = tvm_ffi.structural_map(loop.body, (tvm.ir.Expr, replace), order="pre")
    if not binds:
        return loop
    moved = tirx.For(
        loop.loop_var, loop.min, loop.extent, loop.kind, body, annotations=loop.annotations, step=loop.step
    )
    return tirx.SeqStmt([*binds, moved])


def _is_movable(node: Any, changing: list[Any]) -> bool:
    expensive = fixed = False

    def visit(part: Any) -> None:
        nonlocal expensive, fixed
        kind = type(part)
        if kind is tvm.ir.TensorLoad:
            fixed = True
        elif kind is tvm.ir.Var:
            fixed = fixed or any(part.same_as(var) for var in changing)
        elif kind is tvm.ir.Call:
            name = getattr(part.op, "name", "")
            fixed |= name not in _PURE
            expensive |= name not in ("prim.if_then_else", "prim.likely")
        else:
            expensive |= kind in _EXPENSIVE

    tvm_ffi.structural_walk(node, (tvm.ir.Expr, visit))
    return expensive and not fixed
