"""memory.json: which buffers every call reads and writes, and where they lie in the arena while the program runs
(docs/formats.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from c7x.codegen.plan import Plan
from c7x.codegen.program import Program


def memory_map(program: Program, plan: Plan) -> dict[str, Any]:
    """The content of memory.json. Sizes and offsets are in bytes; ``first`` and ``last`` are numbers of calls.

    Args:
        program: the program.
        plan: its arena, from ``plan_arena``.
    """
    places = {program.storage(p.buffer).name: ("input", i) for i, p in reversed(list(enumerate(program.inputs)))}
    for index, port in reversed(list(enumerate(program.outputs))):
        storage = program.storage(port.buffer)
        if storage.role == "output":
            places[storage.name] = ("output", index)
    places |= {name: ("arena", offset) for name, offset in plan.offsets.items()}

    def operands(names: Sequence[str]) -> list[dict[str, Any]]:
        rows = []
        for name in names:
            buffer, storage = program.buffer(name), program.storage(name)
            place, offset = places.get(storage.name, ("constant", None))
            rows.append(
                {
                    "buffer": storage.name,
                    "dtype": buffer.type.dtype,
                    "shape": list(buffer.type.shape),
                    "bytes": buffer.type.nbytes,
                    "place": place,
                    "offset": offset,
                }
            )
        return rows

    return {
        "arena_bytes": plan.arena_bytes,
        "buffers": [
            {"name": r.name, "bytes": r.size, "offset": plan.offsets[r.name], "first": r.first, "last": r.last}
            for r in plan.ranges
        ],
        "calls": [{"inputs": operands(call.inputs), "outputs": operands(call.outputs)} for call in program.calls],
    }
