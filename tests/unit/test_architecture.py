"""Who may import whom (docs/how-it-works.md): a room uses rooms before it in the walk and the ground floor, never one
behind it; heavy packages stay out of what the command line loads at its start."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "c7x"

#: The walk. A room may import itself, any room to its left, and the ground floor.
ROOMS = ("frontend", "quantize", "graph", "codegen", "toolchain", "run", "report", "engine")
#: Modules that any room may import; they import only each other.
GROUND = frozenset({"errors", "version", "reporter", "workspace", "tensorfile", "target", "native", "subprocesses"})
#: Modules above all rooms: what people call.
ROOF = frozenset({"__init__", "__main__", "api", "cli", "compat", "doctor", "stages", "ui", "ui_reports"})


def imported(path: Path) -> Iterator[str]:
    """Parts of c7x that a file imports, also inside functions: ``graph``, ``errors``, ..."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module] if node.module != "c7x" else [f"c7x.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "c7x" and len(parts) > 1:
                yield parts[1]


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def allowed(part: str) -> frozenset[str]:
    if part in GROUND:
        return GROUND
    if part in ROOMS:
        # The engine runs the stages, so it sits on top of their table.
        stages = {"stages"} if part == "engine" else set()
        return GROUND | set(ROOMS[: ROOMS.index(part) + 1]) | stages
    return GROUND | set(ROOMS) | ROOF


def test_every_part_has_a_place() -> None:
    parts = {part_of(p) for p in PACKAGE.rglob("*.py") if "_native" not in p.parts}
    assert parts == GROUND | set(ROOMS) | (ROOF & parts)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_imports_go_down_the_walk(path: Path) -> None:
    part = part_of(path)
    wrong = sorted(set(imported(path)) - allowed(part) - {part})
    assert not wrong, f"{path.name} in {part} imports {', '.join(wrong)}"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_nothing_imports_the_command_line(path: Path) -> None:
    if path.parent.name != "cli" and path.name != "__main__.py":
        assert "cli" not in set(imported(path))


def test_the_command_line_starts_light() -> None:
    code = "import sys, c7x.cli; print(sorted({'torch', 'tvm', 'numpy', 'torchao', 'docker'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    assert done.stdout.strip() == "[]"
