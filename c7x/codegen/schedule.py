"""Loop schedule of TVM's fused functions: what a C compiler cannot undo once loops and buffers are laid down.

``FuseTIR`` leaves one loop nest and one full-size buffer per operator, and reductions whose initial value is set inside
the innermost loop. Before lowering, producers are inlined into their readers where that costs no work, the axis that
lies contiguous in memory becomes the innermost loop of a reduction, and loops without a gap in memory become one loop.
Every step goes through ``tvm.s_tir.Schedule``, which refuses what would change the result; a refused step is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from c7x.codegen.exact import hidden_operator

#: A producer that is read more often than it is computed is inlined only up to this many arithmetic nodes.
MAX_REPEATED_NODES = 8
#: No inlining once the producer's expression, times its occurrences in the reader, exceeds this many nodes.
MAX_INLINED_NODES = 400
#: A reduction gets its contiguous axis innermost when that axis is at least one vector of four long.
MIN_VECTOR_EXTENT = 4
#: A reduction along contiguous memory is split into as many interleaved partial results as divide it ...
PARTIAL_RESULTS = (16, 8, 4)
#: ... when it is at least this long. A single float accumulator would wait for each addition.
MIN_PARTIAL_EXTENT = 64

_SPATIAL, _REDUCTION = 0, 2
_FLOAT_LIMITS = {"float32": 3.4028234663852886e38, "float64": 1.7976931348623157e308}
#: How a schedule primitive says no: ScheduleError and InternalError (RuntimeErrors), ValueError of region analysis.
_REFUSALS = (RuntimeError, ValueError)
_SLOW_OPERATORS = frozenset({"Div", "Mod", "FloorDiv", "FloorMod"})
_MOVES = frozenset({"prim.if_then_else", "prim.likely"})


def schedule(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """``func`` with its loops and intermediate buffers rearranged; the same values up to the order of a float sum.

    Functions that are not made of plain compute blocks (scatter, scan, sort, hand-written loops) come back unchanged.
    """
    func = tvm_ffi.structural_map(func, (s_tir.SBlock, _infinite_border))
    return _infinite_starts(_schedule(func))


def _schedule(func: tirx.PrimFunc) -> tirx.PrimFunc:
    try:
        sch = s_tir.Schedule(func, debug_mask="none", error_render_level="none")
        blocks = list(sch.get_child_blocks(sch.get_sblock("root")))
    except _REFUSALS:
        return func
    if not blocks or not all(_is_plain(sch.get(block)) for block in blocks):
        return func
    params = list(func.params)
    blocks = [block for block in blocks if not _inline(sch, block, params)]
    for block in blocks:
        if _is_reduction(sch.get(block)):
            _schedule_reduction(sch, block, params)
    for block in blocks:
        if not _is_reduction(sch.get(block)):
            _fuse_contiguous(sch, block)
    (scheduled,) = (f for f in sch.mod.functions.values())
    return scheduled


def _is_one_of(node: Any, nodes: list[Any]) -> bool:
    """Identity: ``==`` and ``in`` would build a TIR comparison."""
    return any(node.same_as(other) for other in nodes)


def _attempt(step: Callable[[], Any]) -> bool:
    """Whether the schedule took the step."""
    try:
        step()
    except _REFUSALS:
        return False
    return True


def _is_plain(block: Any) -> bool:
    """One or several stores per point of a box, nothing the dependence analysis cannot see."""
    kinds_known = all(int(axis.iter_type) in (_SPATIAL, _REDUCTION) for axis in block.iter_vars)
    static = all(isinstance(axis.dom.extent, tirx.IntImm) for axis in block.iter_vars)
    body_known = all(isinstance(stmt, tirx.BufferStore | tirx.Bind) for stmt in _statements(block.body))
    return kinds_known and static and body_known and not block.alloc_buffers and not block.match_buffers


def _statements(body: tirx.Stmt) -> list[tirx.Stmt]:
    return list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]


def _is_reduction(block: Any) -> bool:
    return any(int(axis.iter_type) == _REDUCTION for axis in block.iter_vars)


def _infinite_border(block: Any) -> Any:
    """Max pooling adds a border of -inf, as PyTorch; TVM's is the largest negative number, which -inf betrays.

    Only ``pad_temp``, pooling's border, is touched: elsewhere the largest finite number is the user's own.
    """
    if block.init is not None or not block.name_hint.startswith("pad_temp"):
        return block
    return s_tir.SBlock(
        block.iter_vars,
        block.reads,
        block.writes,
        block.name_hint,
        _widen(block.body),
        None,
        block.alloc_buffers,
        block.match_buffers,
        block.annotations,
        block.span,
    )


def _infinite_starts(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Maxima start from -inf and minima from inf, as in PyTorch; TVM starts from the largest finite number.

    Comes after the schedule, which knows a maximum by that start.
    """
    reduced: list[Any] = []

    def collect(store: Any) -> None:
        extremum = isinstance(store.value, tirx.Max | tirx.Min) and isinstance(store.value.a, tvm.ir.TensorLoad)
        if extremum and store.value.a.source.same_as(store.buffer):
            reduced.append(store.buffer)

    tvm_ffi.structural_walk(func.body, (tirx.BufferStore, collect))
    if not reduced:
        return func

    def start(store: Any) -> Any:
        return _widen(store) if type(store.value) is tirx.FloatImm and _is_one_of(store.buffer, reduced) else store

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.BufferStore, start)))


def _widen(stmt: tirx.Stmt) -> tirx.Stmt:
    def widen(imm: Any) -> Any:
        limit = _FLOAT_LIMITS.get(str(imm.ty.dtype))
        if limit is None or abs(imm.value) != limit:
            return imm
        return tirx.FloatImm(str(imm.ty.dtype), float("inf") if imm.value > 0 else float("-inf"))

    return tvm_ffi.structural_map(stmt, (tirx.FloatImm, widen))


# --- inlining ---


def _inline(sch: Any, block_rv: Any, params: list[Any]) -> bool:
    """Inlines an element-wise producer into all its readers when that repeats no expensive work."""
    block = sch.get(block_rv)
    if _is_reduction(block) or not isinstance(block.body, tirx.BufferStore) or _is_one_of(block.body.buffer, params):
        return False
    buffer, value = block.body.buffer, block.body.value
    consumers = [sch.get(consumer) for consumer in sch.get_consumers(block_rv)]
    if not consumers:
        return False
    nodes, calls = _weight(value)
    reads = occurrences = 0
    keep_conditions = _condition_mentions(value, block.iter_vars[-1].var) if block.iter_vars else False
    reduced = multiplied = False
    for consumer in consumers:
        loads = _loads(consumer, buffer)
        occurrences += len(loads)
        reads += _points(consumer) * len({tvm_ffi.StructuralKey(load) for load in loads})
        reduced |= _is_reduction(consumer)
        multiplied |= _is_reduction(consumer) and _multiplies(consumer)
    size = _points(block)
    if nodes * occurrences > MAX_INLINED_NODES:
        return False
    if reads > size and (calls or nodes > MAX_REPEATED_NODES):
        return False
    # A condition in the innermost loop of a reduction keeps it from becoming vector code: there, padding stays a copy.
    if reads > size and ((reduced and keep_conditions) or (multiplied and _conditions(value))):
        return False
    return _attempt(lambda: sch.compute_inline(block_rv))


def _points(block: Any) -> int:
    product = 1
    for axis in block.iter_vars:
        product *= int(axis.dom.extent)
    return product


def _loads(root: Any, buffer: Any | None = None) -> list[Any]:
    """The loads in the body of ``root`` (of ``buffer`` only, when given)."""
    found: list[Any] = []

    def visit(load: Any) -> None:
        if buffer is None or load.source.same_as(buffer):
            found.append(load)

    tvm_ffi.structural_walk(root.body if isinstance(root, s_tir.SBlock) else root, (tvm.ir.TensorLoad, visit))
    return found


def _weight(value: Any) -> tuple[int, int]:
    """(arithmetic nodes outside of indices, calls of functions that cost more than an addition)."""
    nodes = calls = 0
    for node in _values(value):
        nodes += not isinstance(node, tvm.ir.Constant | tirx.Var | tvm.ir.TensorLoad)
        operator = hidden_operator(node)
        if operator is not None:
            calls += operator in _SLOW_OPERATORS
        elif type(node) is tvm.ir.Call:
            calls += node.op.name not in _MOVES
    return nodes, calls


def _values(node: Any) -> Iterator[Any]:
    """The nodes of an expression, without the indices of its loads."""
    yield node
    if type(node) is tvm.ir.TensorLoad:
        return
    if isinstance(node, tvm.ir.Call):
        children = list(node.args)
    else:
        fields = ("a", "b", "value", "condition", "true_value", "false_value", "body")
        children = [getattr(node, name) for name in fields if isinstance(getattr(node, name, None), tvm.ir.Expr)]
    for child in children:
        yield from _values(child)


def _conditions(value: Any) -> list[Any]:
    calls = (node for node in _values(value) if isinstance(node, tvm.ir.Call))
    return [call.args[0] for call in calls if call.op.name == "prim.if_then_else"]


def _condition_mentions(value: Any, var: Any) -> bool:
    return any(_mentions(condition, var) for condition in _conditions(value))


def _multiplies(block: Any) -> bool:
    sums = (
        stmt.value.b
        for stmt in _statements(block.body)
        if isinstance(stmt, tirx.BufferStore) and isinstance(stmt.value, tirx.Add)
    )
    return any(hidden_operator(added) == "Mul" for added in sums)


# --- reductions ---


def _schedule_reduction(sch: Any, block_rv: Any, params: list[Any]) -> None:
    """Orders the loops of a reduction, takes the initial value out of them, and moves its only reader next to it."""
    block = sch.get(block_rv)
    loops = list(sch.get_loops(block_rv))
    if len(loops) != len(block.iter_vars):
        return
    by_kind: dict[int, list[int]] = {_SPATIAL: [], _REDUCTION: []}
    for position, axis in enumerate(block.iter_vars):
        by_kind[int(axis.iter_type)].append(position)
    spatial, reduction = by_kind[_SPATIAL], by_kind[_REDUCTION]
    wide = [p for p in spatial if int(block.iter_vars[p].dom.extent) > 1]
    inner = wide[-1] if wide and _runs_along(block, block.iter_vars[wide[-1]]) else None
    if inner is None and _split_contiguous_sum(sch, block_rv, spatial, reduction):
        return
    # A split that was refused half way leaves other loops in the place of the reduction's.
    loops = list(sch.get_loops(block_rv))
    order = [p for p in spatial if p != inner] + reduction + ([inner] if inner is not None else [])
    if inner is not None and order != sorted(order):
        _attempt(lambda: sch.reorder(*[loops[p] for p in order]))
    if not _attempt(lambda: sch.decompose_reduction(block_rv, loops[reduction[0]])):
        return
    outer = [p for p in spatial if p != inner]
    if outer and not any(_is_one_of(write.source, params) for write in block.writes):
        consumers = list(sch.get_consumers(block_rv))
        if len(consumers) == 1 and not _is_reduction(sch.get(consumers[0])):
            _attempt(lambda: sch.reverse_compute_at(consumers[0], loops[outer[-1]]))


def _runs_along(block: Any, axis: Any) -> bool:
    """True when the block reads memory along ``axis``, so that a vector of neighbours can be loaded at once."""
    if int(axis.dom.extent) < MIN_VECTOR_EXTENT:
        return False
    written = [write.source for write in block.writes]
    return any(
        load.indices and not _is_one_of(load.source, written) and _mentions(load.indices[-1], axis.var)
        for load in _loads(block)
    )


def _mentions(expr: Any, var: Any) -> bool:
    seen: list[Any] = []
    tvm_ffi.structural_walk(expr, (tvm.ir.Var, lambda v: seen.append(v) if v.same_as(var) else None))
    return bool(seen)


def _split_contiguous_sum(sch: Any, block_rv: Any, spatial: list[int], reduction: list[int]) -> bool:
    """Splits a long sum along contiguous memory into interleaved partial sums, added up at the end."""
    block = sch.get(block_rv)
    body = block.body
    # TVM's rfactor fails its own check on a reduction to a single number.
    if not spatial or not isinstance(body, tirx.BufferStore):
        return False
    if not isinstance(body.value, tirx.Add | tirx.Max | tirx.Min):
        return False
    run = _contiguous_run(block, body, reduction)
    extent = math.prod(int(block.iter_vars[p].dom.extent) for p in run)
    lanes = next((lanes for lanes in PARTIAL_RESULTS if extent % lanes == 0), 0)
    if extent < MIN_PARTIAL_EXTENT or not lanes:
        return False
    loops = sch.get_loops(block_rv)
    try:
        whole = sch.fuse(*[loops[p] for p in run]) if len(run) > 1 else loops[run[0]]
        _, lane = sch.split(whole, [None, lanes])
        partial = sch.rfactor(lane, len(spatial))
    except _REFUSALS:
        return False
    loops = list(sch.get_loops(partial))
    outer, sums = loops[: len(spatial)], loops[len(spatial) :]
    sch.decompose_reduction(partial, sums[0])
    if outer:
        _attempt(lambda: sch.reverse_compute_at(block_rv, outer[-1]))
    sch.decompose_reduction(block_rv, sch.get_loops(block_rv)[-1])
    return True


def _contiguous_run(block: Any, store: Any, reduction: list[int]) -> list[int]:
    """The last reduction axes that every operand walks through without a gap, outermost first; empty when the operands
    are not read along memory."""
    written = [write.source for write in block.writes]
    loads = [load for load in _loads(store.value) if not _is_one_of(load.source, written)]
    steps = _access_steps([axis.var for axis in block.iter_vars], [(load.source, load.indices) for load in loads])
    if steps is None or not loads or reduction != list(range(reduction[0], len(block.iter_vars))):
        return []
    last = reduction[-1]
    if any(step[last] not in (0, 1) for step in steps) or all(step[last] == 0 for step in steps):
        return []
    run = [last]
    for position in reversed(reduction[:-1]):
        extent = int(block.iter_vars[position + 1].dom.extent)
        if any(step[position] != step[position + 1] * extent for step in steps):
            break
        run.insert(0, position)
    return run


# --- element-wise loops ---


def _fuse_contiguous(sch: Any, block_rv: Any) -> None:
    """Makes neighbouring loops one where every access walks memory through both without a gap, or not at all."""
    block = sch.get(block_rv)
    loops = list(sch.get_loops(block_rv))
    stores = _statements(block.body)
    if len(loops) != len(block.iter_vars) or len(stores) != 1 or not isinstance(stores[0], tirx.BufferStore):
        return
    steps = _steps(block, stores[0])
    if steps is None:
        return
    current = loops[-1]
    for position in range(len(loops) - 2, -1, -1):
        extent = int(block.iter_vars[position + 1].dom.extent)
        if all(step[position] == step[position + 1] * extent for step in steps):
            try:
                current = sch.fuse(loops[position], current)
            except _REFUSALS:
                # The outer loop is shared with the reduction this block was moved next to.
                return
        else:
            current = loops[position]


def _steps(block: Any, store: Any) -> list[list[int]] | None:
    """How far each access of a store moves per step of each axis, in elements; None when an axis is used in any other
    way than as a whole index."""
    axes = [axis.var for axis in block.iter_vars]
    accesses = [(store.buffer, store.indices), *((load.source, load.indices) for load in _loads(store.value))]
    steps = _access_steps(axes, accesses)
    if steps is None:
        return None
    # Values may use an axis too (an arange, a mask): then the loops must stay apart.
    mentions = 0

    def count(var: Any) -> None:
        nonlocal mentions
        mentions += _is_one_of(var, axes)

    tvm_ffi.structural_walk(store, (tvm.ir.Var, count))
    in_indices = sum(isinstance(index, tvm.ir.Var) for _, indices in accesses for index in indices)
    return steps if mentions == in_indices else None


def _access_steps(axes: list[Any], accesses: list[tuple[Any, Any]]) -> list[list[int]] | None:
    steps: list[list[int]] = []
    for buffer, indices in accesses:
        if not all(isinstance(size, tirx.IntImm) for size in buffer.ty.shape):
            return None
        step = [0] * len(axes)
        stride = 1
        for size, index in zip(reversed(list(buffer.ty.shape)), reversed(list(indices)), strict=True):
            if isinstance(index, tvm.ir.Var):
                for number, axis in enumerate(axes):
                    step[number] += stride * bool(index.same_as(axis))
            elif not isinstance(index, tirx.IntImm):
                return None
            stride *= int(size)
        steps.append(step)
    return steps
