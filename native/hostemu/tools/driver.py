"""Write a C++ program that runs rows of the table on operands from standard input.

The program takes, for every case in order, ``rows`` sets of operands and writes what comes out: vectors as they lie in
memory, predicates as 64 bits, scalars in 8 bytes, the memory behind a pointer after the call. What it should write is
not known here; tests hold models of their own against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from generate import BYTES, COMMON_TEST, ELEMENTS, HALVES, Intrinsic


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row with one element type at one width of vectors in bytes."""

    row: Intrinsic
    element: str
    width: int

    def operands(self) -> tuple[tuple[str, str, int], ...]:
        """What to feed, in order: (kind, element, bytes), with kind vector, pred, scalar or memory."""
        return tuple(self._port(word) for word in self.row.args if not word.startswith("&"))

    def results(self) -> tuple[tuple[str, str, int], ...]:
        """What comes out, in order: memory behind pointers, outputs, the result."""
        words = [word for word in self.row.args if word == "*" or word.startswith("&")]
        if self.row.result != "void":
            words.append(self.row.result)
        return tuple(self._port(word.removeprefix("&")) for word in words)

    def _port(self, word: str) -> tuple[str, str, int]:
        if word == "pred":
            return ("pred", "", 8)
        if word == "*":
            return ("memory", "uchar", self.width)
        if word == "* half T":
            return ("memory", self.element, self.width // 2)
        if word.startswith("scalar "):
            kind = word.removeprefix("scalar ")
            return ("scalar", self.element if kind == "T" else "long" if kind == "index" else kind, 8)
        kind = {"T": self.element, "half T": HALVES.get(self.element, "")}.get(word, word)
        return ("vector", kind, self.width)


def cases(rows: Iterable[Intrinsic], width: int, core: str) -> tuple[Case, ...]:
    """Every row and element type, at the full width and at half of it where vectors are among the operands."""
    found: list[Case] = []
    for row in rows:
        # What lanes of a vector cannot show has a test of its own.
        if row.tested_by != COMMON_TEST or (row.core and core not in row.core.split()):
            continue
        for element in row.elements():
            full = Case(row=row, element=element, width=width)
            found.append(full)
            if any(kind == "vector" for kind, _, _ in full.operands()):
                found.append(Case(row=row, element=element, width=width // 2))
    return tuple(found)


_HEAD = """
#include <c7x.h>
#include <c6x_migration.h>
#include <vector>

static std::vector<char> input;
static size_t at;

template <class V>
static V take() {
  V v;
  std::memcpy(static_cast<void*>(&v), input.data() + at, sizeof(v));
  at += sizeof(v);
  return v;
}
template <class V>
static void give(const V& v) { std::fwrite(&v, 1, sizeof(v), stdout); }
inline void give_predicate(const __vpred& p) { give(static_cast<uint64_t>(p)); }
template <class T>
static void give_scalar(T x) {
  char bytes[8] = {};
  std::memcpy(bytes, &x, sizeof(x));
  give(bytes);
}
template <int N>
struct memory { unsigned char bytes[N]; };
"""


def _function(index: int, case: Case) -> str:
    lines: list[str] = []
    names: list[str] = []
    after: list[str] = []
    for position, word in enumerate(case.row.args):
        name = f"x{position}"
        kind, element, size = case._port(word.removeprefix("&"))
        vector = f"c7x_emu::vec<{ELEMENTS.get(element, '')}, {size // BYTES.get(element, 1)}>"
        if word.startswith("&"):
            lines.append(f"{vector} {name};")
            after.append(f"give({name});")
            names.append(name)
        elif kind == "pred":
            lines.append(f"const __vpred {name} = _mvrp(take<uint64_t>());")
            names.append(name)
        elif kind == "scalar":
            lines.append(f"const {ELEMENTS[element]} {name} = static_cast<{ELEMENTS[element]}>(take<uint64_t>());")
            names.append(name)
        elif kind == "memory":
            lines.append(f"memory<{size}> {name} = take<memory<{size}>>();")
            names.append(f"reinterpret_cast<{vector}*>({name}.bytes)")
            if word == "*":
                after.append(f"give({name});")
        else:
            lines.append(f"const {vector} {name} = take<{vector}>();")
            names.append(name)
    call = f"{case.row.name}({', '.join(names)})"
    if case.row.result == "void":
        lines.append(f"{call};")
    else:
        lines.append(f"const auto result = {call};")
        kind = case._port(case.row.result)[0]
        after.append({"pred": "give_predicate(result);", "scalar": "give_scalar(result);"}.get(kind, "give(result);"))
    body = "\n  ".join([*lines, *after])
    return f"static void case_{index}() {{\n  {body}\n}}\n"


def program(chosen: Sequence[Case], rows: int) -> str:
    """The text of the program."""
    functions = "".join(_function(index, case) for index, case in enumerate(chosen))
    calls = "\n".join(f"  for (int i = 0; i < {rows}; ++i) case_{index}();" for index in range(len(chosen)))
    tail = f"""
int main() {{
  char block[65536];
  size_t count;
  while ((count = std::fread(block, 1, sizeof(block), stdin)) > 0) input.insert(input.end(), block, block + count);
{calls}
  return at == input.size() ? 0 : 1;
}}
"""
    return _HEAD + functions + tail
