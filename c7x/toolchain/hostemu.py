"""Compiling C7000 code for this machine: flags, the compiler call and the list of what the emulation offers.

Ours lies in ``native/hostemu``; TI's, in the compiler package that ``TI_CGT_C7000_PATH`` names, has the same layout.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from c7x.errors import DependencyError, ToolError, UsageError
from c7x.native import native_dir
from c7x.reporter import SILENT, Reporter
from c7x.subprocesses import find_program, run

#: Folder of a core's headers, by the core's name; TI's package calls them so too.
CORES: Mapping[str, str] = {
    "C7100": "C7100",
    "C7120": "C7120",
    "C7504": "C7504",
    "C7524": "C7524-MMA2_256",
}
DEFAULT_CORE = "C7524"

Kind = Literal["auto", "open", "ti"]

#: Vectors overlay arrays of other types; a product is never fused with a sum, as on every other machine.
_COMMON_FLAGS = ("-std=c++14", "-fno-strict-aliasing", "-fno-math-errno", "-ffp-contract=off", "-Wno-unknown-pragmas")
#: TI's emulation takes Microsoft's anonymous members; with ours, clang would take __int8 for a keyword.
_TI_FLAGS = ("-fms-extensions",)
_CGT_VARIABLE = "TI_CGT_C7000_PATH"


@dataclass(frozen=True, kw_only=True)
class Emulation:
    """One emulation of one core: where it lies, and what a compiler needs to know."""

    kind: Literal["open", "ti"]
    core: str
    include: Path
    archive: Path | None

    @property
    def compile_flags(self) -> tuple[str, ...]:
        return (
            *_COMMON_FLAGS,
            *(_TI_FLAGS if self.kind == "ti" else ()),
            "-D_HOST_BUILD",
            f"-D__{self.core}__",
            # Some code asks for it before it includes c7x.h.
            "-D__C7000__",
            "-D__C7X_UNSTABLE_API",
            f"-I{self.include}",
        )

    @property
    def link_flags(self) -> tuple[str, ...]:
        return () if self.archive is None else (str(self.archive),)


def core_name(text: str) -> str:
    """``C7524`` for C7524, c7524, 7524 and C7524-MMA2_256.

    Raises:
        UsageError: there is no such core.
    """
    wanted = text.upper()
    for core, folder in CORES.items():
        if wanted in (core, core[1:], folder.upper()):
            return core
    raise UsageError(f"there is no core {text}", cause="it is misspelt", hint=f"choose one of {', '.join(CORES)}")


def _ti(core: str, root: Path) -> Emulation:
    folder = CORES[core]
    return Emulation(
        kind="ti",
        core=core,
        include=root / "host_emulation" / "include" / folder,
        archive=root / "host_emulation" / f"lib{folder}-host-emulation.a",
    )


def find_emulation(core: str, kind: Kind = "auto") -> Emulation:
    """The emulation of a core. ``auto`` takes TI's when ``TI_CGT_C7000_PATH`` holds it, else ours.

    Raises:
        UsageError: there is no such core.
        DependencyError: TI's is wanted, and not there.
    """
    core = core_name(core)
    root = os.environ.get(_CGT_VARIABLE, "")
    if kind != "open" and root:
        found = _ti(core, Path(root))
        if found.include.is_dir() and found.archive is not None and found.archive.is_file():
            return found
    if kind == "ti":
        raise DependencyError(
            f"TI's host emulation of {core} is not there",
            cause=f"{_CGT_VARIABLE} is {root}, which has no host_emulation for it"
            if root
            else f"{_CGT_VARIABLE} is not set",
            hint=f"set {_CGT_VARIABLE} to the folder of TI's C7000 compiler, or use --hostemu open",
        )
    include = native_dir() / "hostemu" / "include" / CORES[core]
    return Emulation(kind="open", core=core, include=include, archive=None)


def cmake_dir() -> Path:
    """The folder of the CMake package ``c7x-hostemu``, for ``-Dc7x-hostemu_DIR=``."""
    return native_dir() / "hostemu" / "cmake"


def compile_program(
    arguments: Sequence[str], *, emulation: Emulation, cxx: str | None = None, reporter: Reporter = SILENT
) -> dict[str, Any]:
    """Run the C++ compiler on ``arguments`` (sources, ``-o``, any other option) with an emulation's flags.

    Args:
        cxx: the compiler; by default ``$CXX``, then g++, then clang++.

    Returns:
        ``command`` and ``messages``, what the compiler wrote.

    Raises:
        UsageError: there is nothing to compile.
        ToolError: there is no compiler, or it failed; its messages are in ``details["messages"]``.
    """
    if not any(not word.startswith("-") for word in arguments):
        raise UsageError("there is nothing to compile", hint="name a source: c7x emu cc kernel.cpp -o kernel")
    chosen = cxx or os.environ.get("CXX") or find_program("g++", "clang++")
    if chosen is None:
        raise ToolError(
            "there is no C++ compiler",
            cause="neither g++ nor clang++ is on PATH",
            hint="install one, for example: apt install g++",
        )
    # The caller's options come later, so they win.
    command = (str(chosen), "-O3", *emulation.compile_flags, *arguments, *emulation.link_flags)
    done = run(command, reporter=reporter, check=False, what="compile for the host emulation")
    if done.returncode != 0:
        error = ToolError(
            f"{Path(command[0]).name} failed with code {done.returncode}",
            cause="the code does not compile; the compiler's messages say where",
            hint="c7x emu list NAME tells whether the emulation has a name",
        )
        error.details = {"messages": done.stderr, "command": list(command)}
        raise error
    return {"command": list(command), "messages": done.stderr}


def list_names(pattern: str | None = None) -> list[dict[str, Any]]:
    """What the table of intrinsics says, sorted by name: one object an overload set, and one for every missing name.

    Args:
        pattern: a name, or a part of one.

    Raises:
        UsageError: nothing has the name.
    """
    table = tomllib.loads((native_dir() / "hostemu" / "intrinsics.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = [
        {
            "name": row["name"],
            "supported": True,
            "variant": row.get("variant"),
            "cores": [f"C{core}" for core in row.get("core", "").split()],
            "operands": row["args"],
            "result": "pred" if row["form"] == "compare" else row["result"],
            "elements": row.get("types", []),
            "evidence": row["evidence"],
            "source": row["source"],
            "meaning": row["summary"],
            "tested_by": row.get("tested_by", "tests/integration/test_hostemu.py::test_intrinsics"),
        }
        for row in table["intrinsic"]
    ]
    found += [{"name": name, "supported": False, "reason": reason} for name, reason in table["missing"].items()]
    found.sort(key=lambda row: (row["name"], row.get("variant") or ""))
    if pattern is None:
        return found
    exact = [row for row in found if row["name"] == pattern]
    chosen = exact or [row for row in found if pattern in row["name"]]
    if not chosen:
        raise UsageError(
            f"the table of intrinsics has no {pattern}",
            cause="it is misspelt, a type or a stream macro (docs/hostemu.md lists those), or nobody has used it yet",
            hint="c7x emu list shows all names",
        )
    return chosen
