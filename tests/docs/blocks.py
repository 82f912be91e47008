"""The code blocks of the documentation, and what HTML comments in front of them say about running them.

A block is fenced, or indented by four spaces; an indented one is taken for shell commands. A comment before a block
holds directives, separated by ``;``:

    <!-- not run: board -->            cannot run here, for one of REASONS
    <!-- text -->                      an indented block that is no command
    <!-- heavy -->                     runs with the slow tests only
    <!-- needs: facenet-pytorch -->    skipped without this wheel in the cache (tests/models/wheels.py)
    <!-- exit: 1 -->                   ends with this exit code
    <!-- given: CODE -->               Python that runs before a Python block, or shell commands before a shell block
    <!-- fragment: CODE -->            C or C++ that only compiles after these lines

A fenced block whose first line is a comment with a file's name, ``# model.py`` or ``// main.cpp``, is that file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Why a block may stay out, and what that means.
REASONS = {
    "board": "needs a board that ssh reaches",
    "TI tools": "needs TI's code generation tools, or their installer",
    "registry": "downloads packages or images",
    "container engine": "needs Docker or Podman",
    "root": "changes the system",
    "Python environment": "installs into the environment that the tests run in",
    "own step of CI": "CI runs it by itself, and it takes minutes",
    "endless": "ends when the user ends it",
    "other repository": "stands for a user's own files, which are not here",
}
DIRECTIVES = frozenset({"not run", "text", "heavy", "needs", "exit", "given", "fragment"})
#: Languages of fences. Shell blocks run, Python blocks run, C and C++ blocks compile, JSON is parsed.
SHELL = frozenset({"bash", "console", "sh"})
LANGUAGES = SHELL | {"python", "c", "cpp", "json", "text", "yaml", "toml", "dockerfile", "cmake", "html"}

_COMMENT = re.compile(r"^\s*<!--\s*(.*?)\s*-->\s*$")
_FENCE = re.compile(r"^(\s*)(```+|~~~+)\s*([\w+-]*)")
_FILE = re.compile(r"^(?:#|//)\s*([\w./-]+\.\w+)\s*$")
_LIST = re.compile(r"^\s*(?:[*+-]|\d+\.)\s")


@dataclass(frozen=True, kw_only=True)
class Block:
    """``line`` counts from 1. ``language`` is ``bash`` for every shell block; ``notes`` are the directives."""

    page: str
    line: int
    language: str
    text: str
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        """The name of the file that the block shows."""
        match = _FILE.match(self.text.splitlines()[0]) if self.text else None
        return match[1] if match and self.language != "bash" else None


def pages() -> list[Path]:
    """README.md and every page of docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def page_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parse_notes(comment: str, where: str) -> dict[str, str]:
    """The directives of a comment; none when it is an ordinary comment (ValueError: an unknown reason)."""
    notes: dict[str, str] = {}
    for part in comment.split(";") if not comment.startswith(("given:", "fragment:")) else [comment]:
        name, _, value = part.strip().partition(":")
        if name not in DIRECTIVES:
            return {}
        notes[name] = value.strip()
    if "not run" in notes and notes["not run"] not in REASONS:
        raise ValueError(f"{where}: {notes['not run']!r} is none of {', '.join(REASONS)}")
    return notes


def parse(text: str, page: str = "page.md") -> list[Block]:
    """The blocks of a page, in order (ValueError: a directive or language that is not known, or a fence left open)."""
    return list(_blocks(text.split("\n"), page))


def _blocks(lines: list[str], page: str) -> Iterator[Block]:
    notes: dict[str, str] = {}
    in_list = False
    at = 0
    while at < len(lines):
        line, where = lines[at], f"{page}:{at + 1}"
        start = at + 1
        fence = _FENCE.match(line)
        if fence:
            indent, mark, language = fence.groups()
            body = []
            at += 1
            while at < len(lines) and lines[at].strip() != mark:
                body.append(lines[at].removeprefix(indent))
                at += 1
            if at == len(lines):
                raise ValueError(f"{where}: the fence is not closed")
            if language not in LANGUAGES:
                raise ValueError(f"{where}: the language {language!r} is none of {', '.join(sorted(LANGUAGES))}")
            kind = "bash" if language in SHELL else language
            yield Block(page=page, line=start, language=kind, text="\n".join(body) + "\n", notes=notes)
            notes = {}
        elif comment := _COMMENT.match(line):
            notes |= parse_notes(comment[1], where)
        elif line.startswith("    ") and line.strip() and not in_list and not (at and lines[at - 1].strip()):
            body = []
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                body.append(lines[at][4:])
                at += 1
            at -= 1
            text = "\n".join(body).strip("\n") + "\n"
            yield Block(page=page, line=start, language="text" if "text" in notes else "bash", text=text, notes=notes)
            notes = {}
        elif line.strip():
            if notes:
                raise ValueError(f"{where}: the directive before this line stands before no block (leave a line empty)")
            # Indented lines after a list's item or a note belong to it.
            in_list = bool(_LIST.match(line)) or line.startswith("!!!") or (in_list and line.startswith(" "))
        at += 1


def commands(block: Block) -> str:
    """A shell block as a script; of a ``console`` block with prompts, the lines behind the prompts."""
    lines = block.text.splitlines()
    if any(line.startswith("$ ") for line in lines):
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    return "\n".join(lines) + "\n"
