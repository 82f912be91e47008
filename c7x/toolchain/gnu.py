"""Building ``cg_dsp`` with GCC or Clang.

The compiler is called directly instead of through CMake: ``native/CMakeLists.txt`` builds the same executable for C
users, but its configure step costs about half a second (two compiler checks when lib0.c is compiled as C++) on top of
the quarter second that the runtime takes, and would make CMake a requirement of ``pip install c7x`` for a handful of
compiler calls. lib0.c, by far the longest, starts first; the rest fills the other cores meanwhile.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from c7x.errors import ToolError, UsageError
from c7x.native import native_dir
from c7x.reporter import SILENT, Reporter
from c7x.subprocesses import find_program, run

#: Sources of the host runtime, relative to the native folder; native/CMakeLists.txt lists the same.
RUNTIME_SOURCES: tuple[str, ...] = (
    "runtime/main.c",
    "runtime/c7x_platform.c",
    "runtime/c7x_pool.c",
    "runtime/c7x_tensorfile.c",
    "runtime/c7x_weights.c",
)

#: Flags of a build type.
BUILD_TYPES: dict[str, tuple[str, ...]] = {
    "release": ("-O3",),
    "debug": ("-O0", "-g"),
    "asan": ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
}

#: For the generated code of every build type. NaN, infinity and signed zero keep their IEEE meaning: no -ffast-math.
#: * -fno-math-errno, -fno-trapping-math: sqrt and rounding become instructions, selects become vector code; nothing
#:   reads errno or the exception flags.
#: * -fno-strict-aliasing: the arena is one array of bytes that holds floats now and integers later.
#: * -ffp-contract=fast: a * b + c is one fused operation where the processor has it (never on plain x86-64). It is at
#:   least as accurate, but last bits may differ between values of -march; ``cflags=("-ffp-contract=off",)`` undoes it.
FLOAT_FLAGS: tuple[str, ...] = ("-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing", "-ffp-contract=fast")

C_FLAGS: tuple[str, ...] = ("-x", "c", "-std=c99")
CXX_FLAGS: tuple[str, ...] = ("-x", "c++", "-std=c++14", "-fno-exceptions", "-fno-rtti")

_INSTALL_HINT = (
    "install one, for example: apt install gcc (Debian, Ubuntu) or dnf install gcc (Fedora); "
    "or compile in the c7x image, which has one: docker run c7x compile ..."
)


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """How to build ``cg_dsp``.

    Attributes:
        cc: the compiler, a name or path, possibly with words in front (``ccache gcc``); by default ``$CC``, then the
            first of gcc, cc and clang on PATH. g++ and clang++ compile the generated code as C++14.
        march: value of ``-march``; None is the compiler's own baseline, which runs on every machine of the
            architecture. ``native`` is the fastest on this machine, and may not start on another.
        build_type: ``release``, ``debug`` or ``asan`` (address and undefined-behaviour sanitizers).
        cflags: appended to the flags for the generated code, so they win.

    Raises:
        UsageError: an unknown build type.
    """

    cc: str | None = None
    march: str | None = None
    build_type: str = "release"
    cflags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        name = self.build_type.lower()
        if name not in BUILD_TYPES:
            raise UsageError(
                f"there is no build type {self.build_type}",
                cause="it is misspelt",
                hint=f"choose one of {', '.join(BUILD_TYPES)}",
            )
        object.__setattr__(self, "build_type", name)


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """A C or C++ compiler: the words that call it, and the first line of what ``--version`` prints."""

    command: tuple[str, ...]
    version: str

    @property
    def is_cxx(self) -> bool:
        return "++" in Path(self.command[-1]).name


def find_compiler(cc: str | None = None, *, reporter: Reporter = SILENT) -> Compiler:
    """The compiler to use (see ``BuildOptions.cc``).

    Raises:
        ToolError: there is none, or it does not answer ``--version``.
    """
    asked = cc or os.environ.get("CC")
    if asked:
        words = tuple(shlex.split(asked))
        origin = "cc" if cc else "the environment variable CC"
        if not words or find_program(words[0]) is None:
            raise ToolError(
                f"there is no compiler {asked}",
                cause=f"{origin} names a program that is not installed or not on PATH",
                hint=f"name another one, or leave it out to use gcc or clang; if there is none, {_INSTALL_HINT}",
            )
    else:
        found = find_program("gcc", "cc", "clang")
        if found is None:
            raise ToolError(
                "there is no C compiler",
                cause="none of gcc, cc and clang is on PATH",
                hint=_INSTALL_HINT,
            )
        words = (found.name,)
    done = run([*words, "--version"], reporter=reporter, what="ask the C compiler for its version", timeout=60)
    lines = done.stdout.strip().splitlines()
    return Compiler(command=words, version=lines[0].strip() if lines else "unknown")


@dataclass(frozen=True, kw_only=True)
class _Unit:
    """One call of the compiler."""

    source: Path
    flags: tuple[str, ...]
    hint: str


def build_cg_dsp(
    sources: Sequence[Path],
    *,
    folder: Path,
    options: BuildOptions,
    compiler: Compiler,
    hint: str = "compile the model again; if it stays, report it with the model",
    reporter: Reporter = SILENT,
) -> Path:
    """Compile a model's generated sources and the runtime, and link them.

    Two builds of the same sources with the same compiler give the same bytes, whatever the folders are called.

    Args:
        sources: lib0.c (and lib1.c ...) and devc.c, in one folder; they may include headers that lie beside them.
        folder: an empty scratch folder; the executable stays in it.
        hint: the next step when the generated code does not compile.

    Returns:
        The path of ``cg_dsp`` inside ``folder``.

    Raises:
        ToolError: the compiler or linker failed.
    """
    native = native_dir()
    # No path of this machine may reach the executable. The map covers the working folder in debug information, but the
    # sanitizers keep names as the compiler was given them, so all names are relative to links in the scratch folder.
    prefix_map = f"-ffile-prefix-map={folder.resolve()}=."
    headers = ("include", "runtime")
    for name in headers:
        (folder / name).symlink_to(native / name)
    for header in {path for source in sources for path in source.parent.glob("*.h")}:
        (folder / header.name).symlink_to(header.resolve())
    march = (f"-march={options.march}",) if options.march else ()
    includes = (word for name in headers for word in ("-I", name))
    common = (*BUILD_TYPES[options.build_type], *march, prefix_map, *includes)
    generated = (*(CXX_FLAGS if compiler.is_cxx else C_FLAGS), *common, *FLOAT_FLAGS, *options.cflags)
    units = [_Unit(source=path, flags=generated, hint=hint) for path in sorted(sources, key=_size, reverse=True)]
    runtime_hint = "check the compiler with c7x doctor, or choose another one with --cc"
    units += [_Unit(source=native / n, flags=(*C_FLAGS, *common), hint=runtime_hint) for n in RUNTIME_SOURCES]

    def compile_unit(unit: _Unit) -> str:
        name = f"{unit.source.stem}.o"
        (folder / unit.source.name).symlink_to(unit.source.resolve())
        run(
            [*compiler.command, *unit.flags, "-c", unit.source.name, "-o", name],
            reporter=reporter,
            cwd=folder,
            # Messages in English, whatever the user's language: they are searched for, and end up in reports.
            env={"LC_ALL": "C"},
            what=f"compile {unit.source.name}",
            hint=unit.hint,
        )
        return name

    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        objects = list(pool.map(compile_unit, units))
    # --as-needed: through g++ the executable would otherwise depend on libstdc++, of which it uses nothing.
    run(
        [*compiler.command, *BUILD_TYPES[options.build_type], "-Wl,--as-needed", *objects, "-lm", "-o", "cg_dsp"],
        reporter=reporter,
        cwd=folder,
        env={"LC_ALL": "C"},
        what="link cg_dsp",
        hint=runtime_hint,
    )
    return folder / "cg_dsp"


def _size(path: Path) -> int:
    return path.stat().st_size
