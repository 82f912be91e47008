"""The C of a kernel and of a call, cut out of lib0.c for people to read."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

_DEFINITION = re.compile(r"^(?:static|C7X_\w+)[^;={}]*?\b(\w+)\([^;{}]*\)\s*\{$", re.MULTILINE)
_ENTRY = re.compile(r"^int32_t cg_main\([^;{]*\{$", re.MULTILINE)


def kernel_texts(lib0: str, symbols: Collection[str]) -> Mapping[str, str]:
    """The definitions of ``symbols``, each behind those of its helpers, whose names begin with its own.

    What the firmware provides is not defined in lib0.c and not in the result.
    """
    parts: dict[str, list[str]] = {}
    by_length = sorted(symbols, key=lambda symbol: (-len(symbol), symbol))
    for match in _DEFINITION.finditer(lib0):
        name = match[1]
        owner = next((s for s in by_length if name == s or name.startswith(f"{s}_")), None)
        end = lib0.find("\n}", match.end())
        if owner is not None and end >= 0:
            parts.setdefault(owner, []).append(lib0[match.start() : end + 2])
    return {symbol: "\n\n".join(parts[symbol]) for symbol in sorted(parts)}


def call_texts(lib0: str, count: int) -> Sequence[str]:
    """The lines of each of the ``count`` calls in ``cg_main``, with the comment that heads them; empty where that is
    gone."""
    entry = _ENTRY.search(lib0)
    position = entry.end() if entry else len(lib0)
    texts = []
    for index in range(count):
        start = lib0.find(f"  /* {index}: ", position)
        if start < 0:
            texts.append("")
            continue
        following = lib0.find(f"\n  /* {index + 1}: ", start)
        end = following if following >= 0 else lib0.find("\n  return status;\n", start)
        texts.append(lib0[start : end if end >= 0 else None].strip("\n"))
        position = start + 1
    return texts
