"""What the core could do at best, beside what a layer did: multiply-accumulates and bytes in a cycle.

Only limits that TI has published are here, each with its source. Nothing published was found for int8 on the vector
units and for the external memory, so a layer that would need those has no figure for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from c7x.report.layers import Layer


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A published limit of one core: ``per_cycle`` of ``what``."""

    what: str
    per_cycle: int
    source: str


MMA_INT8 = Limit(
    what="int8 MACs on the matrix unit (MMA)",
    per_cycle=1024,
    source="TI SPRAD74, section 4.1: the 256-bit C7x's MMA multiplies 32 x 32 in one cycle. It is about the AM62A; the "
    "AM67A's cores are of the same family (TI SPRUJB3 calls them C7X256V)",
)
VECTOR_FLOAT32 = Limit(
    what="float32 MACs on the vector units",
    per_cycle=16,
    source="derived: the vectors of C7504 and C7524 have 256 bits (TI C7000 optimization guide, section 2.2), and the "
    "C71x multiplies two vectors a cycle (TI SPRUJ28C, C71x CPU: one 1024-bit multiply beside 512-bit vectors)",
)
VECTOR_INT16 = Limit(
    what="int16 MACs on the vector units",
    per_cycle=64,
    source="derived: half of the C71x's 128 (TI SPRUJ28C, C71x CPU), whose vectors are twice as wide",
)
STREAMS = Limit(
    what="bytes read through the streaming engines",
    per_cycle=64,
    source="TI SPRAD74, section 4.1: a streaming engine moves 256 bits a cycle; a C7000 has two (TI C7000 optimization "
    "guide, section 2.2)",
)

#: All of them, in the order in which they are listed.
LIMITS = (MMA_INT8, VECTOR_FLOAT32, VECTOR_INT16, STREAMS)


def mac_limit(layer: Layer) -> Limit | None:
    """The limit for the layer's multiplications; None where it has none or none is published."""
    if layer.macs == 0:
        return None
    if layer.backend == "mmalib":
        return MMA_INT8 if layer.dtype in ("int8", "uint8") else None
    return {"float32": VECTOR_FLOAT32, "int16": VECTOR_INT16}.get(layer.dtype)


def roofline(layer: Layer, cycles: int | None) -> dict[str, Any]:
    """The figures of one layer.

    Args:
        cycles: what it took on a DSP; None for times of a host, which say nothing about a cycle of the DSP.

    Returns:
        ``macs_per_cycle`` and ``bytes_per_cycle`` (None without ``cycles``), ``macs_per_cycle_limit`` and
        ``bytes_per_cycle_limit`` (None where none is published), ``macs_per_byte``, ``least_cycles`` (what these limits
        leave as the least) and ``bound`` (``compute`` or ``memory``: which of them sets it).
    """
    moved = layer.bytes_in + layer.bytes_out
    limit = mac_limit(layer)
    # Writes do not pass through the streaming engines.
    memory = layer.bytes_in / STREAMS.per_cycle
    compute = layer.macs / limit.per_cycle if limit is not None else 0.0
    return {
        "macs_per_cycle": round(layer.macs / cycles, 3) if cycles and layer.macs else None,
        "macs_per_cycle_limit": limit.per_cycle if limit is not None else None,
        "bytes_per_cycle": round(moved / cycles, 3) if cycles else None,
        "bytes_per_cycle_limit": STREAMS.per_cycle,
        "macs_per_byte": round(layer.macs / moved, 3) if moved else None,
        "least_cycles": int(-(-max(memory, compute) // 1)),
        "bound": "compute" if compute > memory else "memory",
    }


def limits_to_json() -> list[dict[str, Any]]:
    """The limits with their sources."""
    return [{"what": limit.what, "per_cycle": limit.per_cycle, "source": limit.source} for limit in LIMITS]
