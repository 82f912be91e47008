"""Write what follows from ``intrinsics.toml``: the headers and the reference page.

python native/hostemu/tools/generate.py            # writes them
python native/hostemu/tools/generate.py --check    # exit code 1 when one of them is out of date
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "intrinsics.toml"
HEADER = ROOT / "include" / "common" / "c7x_emu" / "intrinsics.h"
C6X_HEADER = ROOT / "include" / "common" / "c7x_emu" / "c6x.h"
REFERENCE = ROOT.parent.parent / "docs" / "hostemu-reference.md"

#: C++ types of elements, by the names of the vector types.
ELEMENTS: Mapping[str, str] = {
    "char": "int8_t",
    "uchar": "uint8_t",
    "short": "int16_t",
    "ushort": "uint16_t",
    "int": "int32_t",
    "uint": "uint32_t",
    "long": "int64_t",
    "ulong": "uint64_t",
    "float": "float",
    "double": "double",
}
BYTES: Mapping[str, int] = {
    "char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8, "float": 4, "double": 8,
}  # fmt: skip
#: The element of half the width, for packs.
HALVES: Mapping[str, str] = {
    "short": "char", "ushort": "uchar", "int": "short", "uint": "ushort", "long": "int", "ulong": "uint",
}  # fmt: skip

FORMS = ("lane", "compare", "body", "scalar", "raw")
#: The group of rows that have a header of their own.
C6X = "c6x"
EVIDENCE = ("documented", "inferred", "assumed")
#: Of rows without `tested_by`: the driver runs them on random and edge lanes.
COMMON_TEST = "tests/integration/test_hostemu.py::test_intrinsics"


@dataclass(frozen=True, kw_only=True)
class Intrinsic:
    """One row of the table; the table's head says what the fields mean."""

    name: str
    group: str
    form: str
    args: tuple[str, ...]
    result: str
    types: tuple[str, ...]
    evidence: str
    source: str
    summary: str
    code: str
    variant: str
    core: str
    mutant: tuple[str, str] | None
    tested_by: str

    @property
    def key(self) -> str:
        return f"{self.name} ({self.variant})" if self.variant else self.name

    def elements(self) -> tuple[str, ...]:
        """What T stands for, in turn; one empty string when the row does not use it."""
        return self.types or ("",)


@dataclass(frozen=True, kw_only=True)
class Table:
    """The whole table: rows in file order, titles of groups, and why names known to be missing are so."""

    rows: tuple[Intrinsic, ...]
    groups: Mapping[str, str]
    missing: Mapping[str, str]


def _row(fields: Mapping[str, Any]) -> Intrinsic:
    compare = fields["form"] == "compare"
    row = Intrinsic(
        name=fields["name"],
        group=fields["group"],
        form=fields["form"],
        args=tuple(fields["args"]),
        result="pred" if compare else fields["result"],
        types=tuple(fields.get("types", ())),
        evidence=fields["evidence"],
        source=fields["source"],
        summary=fields["summary"],
        code=fields["code"].strip("\n"),
        variant=fields.get("variant", ""),
        core=fields.get("core", ""),
        mutant=tuple(fields["mutant"]) if "mutant" in fields else None,
        tested_by=fields.get("tested_by", COMMON_TEST),
    )
    if row.form not in FORMS or row.evidence not in EVIDENCE:
        raise ValueError(f"{row.key}: form {row.form!r} or evidence {row.evidence!r} is not one of the known ones")
    if row.mutant is not None and row.mutant[0] not in row.code:
        raise ValueError(f"{row.key}: the mutant's text {row.mutant[0]!r} is not in its code")
    if row.mutant is None and row.evidence != "documented":
        raise ValueError(f"{row.key}: {row.evidence}, but no mutant shows that a test would notice")
    return row


def load(path: Path = TABLE) -> Table:
    """Read the table.

    Raises:
        ValueError: a row is inconsistent, or two have the same key.
    """
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    rows = tuple(_row(fields) for fields in data["intrinsic"])
    keys = [row.key for row in rows]
    if doubled := sorted({key for key in keys if keys.count(key) > 1}):
        raise ValueError(f"rows with the same key: {', '.join(doubled)}")
    return Table(rows=rows, groups=data["groups"], missing=data["missing"])


# ------------------------------------------------------------------------------------------------------------ header


def _element(word: str, t: str) -> str:
    """The element's name that a word of ``args`` or ``result`` means for T = ``t``."""
    if word == "T":
        return t
    if word == "half T":
        return HALVES[t]
    return word


def _lanes(word: str, t: str, first: str) -> str:
    """N of a vector as wide as the first one, which has N lanes of ``first``."""
    size, own = BYTES[first], BYTES[_element(word, t)]
    if size == own:
        return "N"
    return f"N * {size // own}" if size > own else f"N / {own // size}"


def _lane_functions(row: Intrinsic, t: str) -> list[str]:
    names = "abcd"[: len(row.args)]
    kinds = [ELEMENTS[_element(word, t)] for word in row.args]
    compare = row.form == "compare"
    result = "bool" if compare else ELEMENTS[_element(row.result, t)]
    # The lane's own function takes exact types, so that a scalar overload never recurses through a conversion.
    scalars = ", ".join(f"{kind} {name}" for kind, name in zip(kinds, names, strict=True))
    using = f"typedef {kinds[0]} T; " if "T" in row.code else ""
    vectors = [f"const c7x_emu::vec<{kinds[0]}, N>& a"] + [
        f"const typename c7x_emu::identity<c7x_emu::vec<{kind}, N>>::type& {name}"
        for kind, name in zip(kinds[1:], names[1:], strict=True)
    ]
    lanes = ", ".join(f"{kind}({name}.s[i])" for kind, name in zip(kinds, names, strict=True))
    if compare:
        mask = f"c7x_emu::lane_info<{kinds[0]}>::mask"
        condition = " ".join({"a": "a.s[i]", "b": "b.s[i]"}.get(word, word) for word in row.code.split())
        return [
            f"inline __vpred {row.name}({scalars}) {{ return c7x_emu::predicate_of_scalar<{kinds[0]}>({row.code}); }}",
            "template <int N>",
            f"inline __vpred {row.name}({', '.join(vectors)}) {{",
            f"  c7x_emu::vec<{mask}, N> r;",
            f"  for (int i = 0; i < N; ++i) r.s[i] = static_cast<{mask}>({condition} ? -1 : 0);",
            "  return c7x_emu::predicate_of(r);",
            "}",
        ]
    return [
        f"inline {result} {row.name}({scalars}) {{ {using}return {row.code}; }}",
        "template <int N>",
        f"inline c7x_emu::vec<{result}, N> {row.name}({', '.join(vectors)}) {{",
        f"  c7x_emu::vec<{result}, N> r;",
        f"  for (int i = 0; i < N; ++i) r.s[i] = {row.name}({lanes});",
        "  return r;",
        "}",
    ]


def _is_vector(word: str) -> bool:
    return word != "pred" and not word.startswith(("*", "scalar"))


def _body_function(row: Intrinsic, t: str) -> list[str]:
    first_word = next(word for word in row.args if _is_vector(word) and not word.startswith("&"))
    first = _element(first_word, t)
    parameters: list[str] = []
    pointers = False
    deduced = False
    for name, word in zip("abcd", row.args, strict=False):
        if word == "pred":
            parameters.append(f"const __vpred& {name}")
        elif word == "*":
            pointers = True
            parameters.append(f"P* {name}")
        else:
            kind = _element(word.removeprefix("&"), t)
            vector = f"c7x_emu::vec<{ELEMENTS[kind]}, {_lanes(word.removeprefix('&'), t, first)}>"
            if word.startswith("&"):
                parameters.append(f"{vector}& {name}")
            elif not deduced:
                deduced = True
                parameters.append(f"const {vector}& {name}")
            else:
                parameters.append(f"const typename c7x_emu::identity<{vector}>::type& {name}")
    lines = [f"template <{'class P, ' if pointers else ''}int N>"]
    result = "void"
    if row.result != "void":
        result = f"c7x_emu::vec<{ELEMENTS[_element(row.result, t)]}, {_lanes(row.result, t, first)}>"
    lines.append(f"inline {result} {row.name}({', '.join(parameters)}) {{")
    code = row.code
    if t and "T" in code:
        lines.append(f"  typedef {ELEMENTS[t]} T;")
    if row.result == "half T":
        lines.append(f"  typedef {ELEMENTS[HALVES[t]]} H;")
    if result != "void":
        lines.append(f"  {result} r;")
    lines += [f"  {line}" for line in code.splitlines()]
    if result != "void":
        lines.append("  return r;")
    lines.append("}")
    return lines


def _scalar_function(row: Intrinsic) -> list[str]:
    names = "abc"[: len(row.args)]
    kinds = [ELEMENTS[word.removeprefix("scalar ")] for word in row.args]
    parameters = ", ".join(f"{kind} {name}" for kind, name in zip(kinds, names, strict=True))
    result = ELEMENTS[row.result.removeprefix("scalar ")]
    using = "  using namespace c7x_emu::c6x;"
    return [f"inline {result} {row.name}({parameters}) {{", using, f"  return {row.code};", "}"]


def definitions(row: Intrinsic) -> str:
    """The C++ of one row."""
    if row.form == "raw":
        lines = row.code.splitlines()
    elif row.form == "scalar":
        lines = _scalar_function(row)
    else:
        make = _body_function if row.form == "body" else _lane_functions
        lines = [line for t in row.elements() for line in make(row, t)]
    if row.core:
        cores = " || ".join(f"defined(__C{core}__)" for core in row.core.split())
        lines = [f"#if {cores}", *lines, "#endif"]
    return "\n".join(lines)


def _header(guard: str, includes: Sequence[str], rows: Sequence[Intrinsic]) -> str:
    parts = [
        "/* Written by tools/generate.py from intrinsics.toml; change that. */",
        f"#ifndef {guard}\n#define {guard}",
        "\n".join(f'#include "{name}"' for name in includes),
    ]
    parts += [f"/* {row.key}: {row.summary} */\n{definitions(row)}" for row in rows]
    return "\n\n".join([*parts, "#endif\n"])


def header(table: Table) -> str:
    """The text of ``intrinsics.h``."""
    rows = [row for row in table.rows if row.group != C6X]
    return _header("C7X_EMU_INTRINSICS_H", ("bytes.h", "lookup.h", "fir.h"), rows)


def c6x_header(table: Table) -> str:
    """The text of ``c6x.h``."""
    return _header("C7X_EMU_C6X_H", ("c6x_words.h",), [row for row in table.rows if row.group == C6X])


# --------------------------------------------------------------------------------------------------------- reference


def overloads(row: Intrinsic) -> list[str]:
    """The overloads as a reader writes them, ``int_vec __max(int_vec, int_vec)``."""

    def spell(word: str, t: str) -> str:
        if word == "pred":
            return "__vpred"
        if word == "void":
            return "void"
        if word.startswith("scalar "):
            kind = word.removeprefix("scalar ")
            return "int" if kind == "index" else _element(kind, t)
        if word == "*":
            return "void*"
        if word == "* half T":
            return f"{t}_hvec*"
        if word.startswith("* "):
            return f"{_element(word.removeprefix('* '), t)}*"
        if word.startswith("&"):
            return f"{_element(word[1:], t)}_vec&"
        return f"{_element(word, t)}_vec"

    return [
        f"{spell(row.result, t)} {row.name}({', '.join(spell(word, t) for word in row.args)})" for t in row.elements()
    ]


def reference(table: Table) -> str:
    """The text of ``docs/hostemu-reference.md``."""
    lines = [
        "# Intrinsics of the host emulation",
        "",
        "<!-- Written by native/hostemu/tools/generate.py from native/hostemu/intrinsics.toml; change that. -->",
        "",
        "What the [host emulation](hostemu.md) offers, and on what its meaning rests: *documented* in a public",
        "document of TI, *inferred* from public code that uses the name, or *assumed* from the name and its relatives.",
        "Operands are called a, b, c, d in order; vectors of any length are taken; lanes are counted from zero.",
        "Element types are those of the first column's names in `c7x::int_vec` and so on.",
        "",
    ]
    for group, title in table.groups.items():
        rows = [row for row in table.rows if row.group == group]
        lines += [f"## {title}", "", "| Name | Elements | Meaning | Evidence |", "|---|---|---|---|"]
        for row in rows:
            kinds = ", ".join(row.types) or ", ".join(
                dict.fromkeys(word.removeprefix("&") for word in row.args if word not in ("*",))
            )
            name = f"`{row.name}`" + (f" ({row.variant})" if row.variant else "")
            name += ", " + " and ".join(f"C{core}" for core in row.core.split()) + " only" if row.core else ""
            lines.append(f"| {name} | {kinds} | {row.summary} | {row.evidence}: {row.source} |".replace("||", "| |"))
        lines.append("")
    lines += [
        "## Not there",
        "",
        "Public code uses these too. A program that names one of them does not compile.",
        "",
        "| Name | Why |",
        "|---|---|",
        *(f"| `{name}` | {reason} |" for name, reason in table.missing.items()),
        "",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write what follows from the table of intrinsics.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 when a file is out of date")
    options = parser.parse_args(arguments)
    table = load()
    outputs = {HEADER: header(table), C6X_HEADER: c6x_header(table), REFERENCE: reference(table)}
    stale = [p for p, text in outputs.items() if not p.is_file() or p.read_text(encoding="utf-8") != text]
    if options.check:
        for path in stale:
            sys.stderr.write(f"{path.name} is out of date: run python native/hostemu/tools/generate.py\n")
        return 1 if stale else 0
    for path in stale:
        path.write_text(outputs[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
