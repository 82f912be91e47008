"""C text of a call whose operands are staged in L2, with the helpers of native/include/c7x_l2.h."""

from __future__ import annotations

from collections.abc import Sequence

from c7x.codegen.kernels.firmware import FIRMWARE
from c7x.codegen.literals import c_string
from c7x.codegen.program import Call, Staging
from c7x.codegen.staging import TILE_CHANNELS, TILE_START

#: lib0.c's declaration and check of L2 around the calls of one inference.
OPEN, CLOSE = "  c7x_l2 l2 = c7x_l2_open();", "  c7x_l2_close(&l2);"


def uses_l2(calls: Sequence[Call]) -> bool:
    """Whether any call finds an operand in L2."""
    return any(call.staging is not None and call.staging.input_bytes for call in calls)


def staged_call(call: Call, staging: Staging, layer: str, inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """The lines of ``cg_main`` that copy operands to L2, run the kernel and leave its result in ``status``.

    Args:
        layer: how messages of the checker name it.
        inputs, outputs: C expressions of untyped pointers, in the order of the kernel's signature.
    """
    given = list(inputs)
    data, kernel = (text.removeprefix("(void *)") for text in inputs[:2])
    copies = [f"void *const input = c7x_l2_copy(&l2, {data}, {staging.input_bytes});"]
    given[0], failed = "input", "input == NULL"
    if staging.weight_bytes:
        source, size = kernel, str(staging.weight_bytes)
        if staging.tile:
            channel = staging.weight_bytes // staging.tile
            source = f"(const uint8_t *){kernel} + {TILE_START} * {channel}"
            size = f"{TILE_CHANNELS} * {channel}"
        copies.append(f"void *const weights = c7x_l2_copy(&l2, {source}, {size});")
        given[1], failed = "weights", "input == NULL || weights == NULL"
    arguments = ", ".join(FIRMWARE[call.kernel].arrange(given, outputs, call.scalars))
    body = [
        f"uint8_t *const mark = c7x_l2_enter(&l2, {c_string(layer)}, {staging.guard_bytes});",
        *copies,
        f"status = {failed} ? -1 : {call.kernel}({arguments});",
        "c7x_l2_leave(&l2, mark);",
    ]
    if not staging.tile:
        return [f"  /* in L2: {_summary(staging)} */", "  {", *(f"    {line}" for line in body), "  }"]
    tile, channels = staging.tile, staging.channels
    return [
        f"  /* in L2: {_summary(staging)} */",
        "  {",
        f"    int32_t {TILE_START};",
        f"    for ({TILE_START} = 0; {TILE_START} < {channels} && status == 0; {TILE_START} += {tile}) {{",
        f"      const int32_t rest = {channels} - {TILE_START};",
        f"      const int32_t {TILE_CHANNELS} = rest < {tile} ? rest : {tile};",
        *(f"      {line}" for line in body),
        "    }",
        "  }",
    ]


def _summary(staging: Staging) -> str:
    if staging.tile:
        return f"the input, and the weights by {staging.tile} of {staging.channels} output channels"
    return "input and weights" if staging.weight_bytes else "the input"
