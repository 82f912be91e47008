"""Building ``cg_dsp`` with GCC or Clang.

The compiler is called directly instead of through CMake: ``native/CMakeLists.txt`` builds the same executable for C
users, but its configure step costs about half a second (two compiler checks when lib0.c is compiled as C++) on top of
the quarter second that the runtime takes, and would make CMake a requirement of ``pip install c7x`` for a handful of
compiler calls. lib0.c, by far the longest, starts first; the rest fills the other cores meanwhile.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from c7x.errors import ToolError, UsageError
from c7x.native import native_dir
from c7x.reporter import SILENT, Reporter
from c7x.subprocesses import find_program, run
from c7x.toolchain.hostemu import DEFAULT_CORE, Emulation, Kind, find_emulation

#: Sources of the host runtime, relative to the native folder; native/CMakeLists.txt lists the same.
RUNTIME_SOURCES: tuple[str, ...] = (
    "runtime/main.c",
    "runtime/c7x_platform.c",
    "runtime/c7x_pool.c",
    "runtime/c7x_tensorfile.c",
    "runtime/c7x_weights.c",
)

#: With ``BuildOptions.check_l2``, and what switches it on in every source.
CHECK_L2_SOURCE = "runtime/c7x_check_l2.c"
_CHECK_L2 = "-DC7X_CHECK_L2"

#: Sources of the reference kernels, relative to the native folder; native/CMakeLists.txt lists the same. Only those
#: that the generated code calls are compiled: models without firmware kernels do not wait for them.
KERNEL_SOURCES: tuple[str, ...] = (
    "kernels/float_kernels.c",
    "kernels/int8_elementwise.c",
    "kernels/int8_movement.c",
    "kernels/int8_norm.c",
    "kernels/int8_pool.c",
    "kernels/mmalib/mmalib_wrappers.c",
    "kernels/residual_add.c",
)

#: Kernels in C7x code, which take the place of reference kernels with ``C7X_KERNELS_C7X``.
C7X_KERNEL_SOURCES: tuple[str, ...] = (
    "kernels/c7x/elementwise.cpp",
    "kernels/c7x/norm.cpp",
    "kernels/c7x/pool.cpp",
)
_C7X_KERNELS = "-DC7X_KERNELS_C7X=1"

#: For the reference kernels of every build type: bit-exact, so a product is never fused with a sum.
KERNEL_FLAGS: tuple[str, ...] = ("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off")

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
FLOAT_FLAGS: tuple[str, ...] = ("-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing")

C_FLAGS: tuple[str, ...] = ("-x", "c", "-std=c99")
CXX_FLAGS: tuple[str, ...] = ("-x", "c++", "-std=c++14", "-fno-exceptions", "-fno-rtti")

_CLONES = "-DC7X_CLONES"
_FIRMWARE_NAME = re.compile(r"\b(?:c7x|mmalib)_\w+")
_DEFINITION = re.compile(r"^int32_t (\w+)\(", re.MULTILINE)

_INSTALL_HINT = "install one, for example: apt install gcc libc6-dev (Debian, Ubuntu) or dnf install gcc (Fedora)"


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """How to build ``cg_dsp``.

    Attributes:
        cc: the compiler, a name or path, possibly with words in front (``ccache gcc``); by default ``$CC``, then the
            first of gcc, cc and clang on PATH. g++ and clang++ compile the generated code as C++14.
        march: value of ``-march``; None is the compiler's own baseline: the executable starts on every machine of the
            architecture and gives the same bits on each. ``native`` is the fastest on this machine, and may not start
            on another.
        build_type: ``release``, ``debug`` or ``asan`` (address and undefined-behaviour sanitizers).
        cflags: appended to the flags for the generated code, so they win.
        hostemu: compile the generated code, and the kernels that there are in C7x code, as C7000 code with a host
            emulation, ``open`` (ours), ``ti`` or ``auto`` (TI's where ``TI_CGT_C7000_PATH`` holds it); None: as code of
            this machine, which is much faster.
        check_l2: add the checker of L2 staging (native/runtime/c7x_check_l2.h), which stands on the address sanitizer:
            the build type becomes ``asan``.

    Raises:
        UsageError: an unknown build type or emulation.
    """

    cc: str | None = None
    march: str | None = None
    build_type: str = "release"
    cflags: tuple[str, ...] = ()
    hostemu: Kind | None = None
    check_l2: bool = False

    def __post_init__(self) -> None:
        if self.hostemu not in (None, "auto", "open", "ti"):
            raise UsageError(f"there is no host emulation {self.hostemu}", hint="--hostemu open or --hostemu ti")
        name = self.build_type.lower()
        if name not in BUILD_TYPES:
            raise UsageError(
                f"there is no build type {self.build_type}",
                cause="it is misspelt",
                hint=f"choose one of {', '.join(BUILD_TYPES)}",
            )
        object.__setattr__(self, "build_type", "asan" if self.check_l2 else name)


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """A C or C++ compiler: the words that call it, the first line of what ``--version`` prints, and the machine it
    compiles for (``x86_64-linux-gnu``)."""

    command: tuple[str, ...]
    version: str
    machine: str = ""

    @property
    def is_cxx(self) -> bool:
        return "++" in Path(self.command[-1]).name

    @property
    def has_clones(self) -> bool:
        """Whether it can compile a function for several processors at once (``C7X_CLONES`` of c7x_vector.h)."""
        return "clang" not in self.version and re.match(r"x86_64-.*linux-gnu$", self.machine) is not None


def float_flags(options: BuildOptions, compiler: Compiler, *, clones: bool = True) -> tuple[str, ...]:
    """Flags for generated code that decide about its floating-point results and speed.

    Without ``march`` a * b + c is never fused into one rounding, so that the result has the same bits on every
    processor, in every mode and with every compiler; hot loops are compiled for AVX2 as well (``clones``) and picked
    when the program starts. With ``march`` the bits of this processor are asked for, and fusing is allowed: faster, at
    least as accurate, and different in the last bits from other values of ``march``. ``cflags`` come later and win.

    Args:
        clones: False where indirect functions cannot be linked, as in a loadable module.
    """
    if options.march:
        return (*FLOAT_FLAGS, "-ffp-contract=fast")
    # Emulated vectors are passed between functions, which a clone for AVX2 would do in another way.
    clones = clones and options.hostemu is None
    picked = (_CLONES,) if clones and compiler.has_clones and options.build_type == "release" else ()
    return (*FLOAT_FLAGS, "-ffp-contract=off", *picked)


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
    machine = run([*words, "-dumpmachine"], reporter=reporter, what="ask the C compiler for its machine", timeout=60)
    return Compiler(command=words, version=lines[0].strip() if lines else "unknown", machine=machine.stdout.strip())


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
        UsageError: a host emulation is asked for, and the compiler is one for C.
        DependencyError: TI's host emulation is asked for, and not there.
        ToolError: the compiler or linker failed.
    """
    native = native_dir()
    emulation = None if options.hostemu is None else _emulation(options.hostemu, compiler, folder)
    # No path of this machine may reach the executable. The map covers the working folder in debug information, but the
    # sanitizers keep names as the compiler was given them, so all names are relative to links in the scratch folder.
    prefix_map = f"-ffile-prefix-map={folder.resolve()}=."
    headers = ("include", "runtime", "kernels")
    for name in headers:
        (folder / name).symlink_to(native / name)
    for header in {path for source in sources for path in source.parent.glob("*.h")}:
        (folder / header.name).symlink_to(header.resolve())
    march = (f"-march={options.march}",) if options.march else ()
    includes = (word for name in headers for word in ("-I", name))
    check = (_CHECK_L2,) if options.check_l2 else ()
    common = (*BUILD_TYPES[options.build_type], *march, prefix_map, *check, *includes)
    floats = float_flags(options, compiler)
    generated = (*(CXX_FLAGS if compiler.is_cxx else C_FLAGS), *common, *floats)
    generated += (*(emulation.compile_flags if emulation else ()), *options.cflags)
    units = [_Unit(source=path, flags=generated, hint=hint) for path in sorted(sources, key=_size, reverse=True)]
    runtime_hint = "check the compiler with c7x doctor, or choose another one with --cc"
    runtime = (*RUNTIME_SOURCES, *((CHECK_L2_SOURCE,) if options.check_l2 else ()))
    units += [_Unit(source=native / n, flags=(*C_FLAGS, *common), hint=runtime_hint) for n in runtime]
    kernels = (*C_FLAGS, *common, *KERNEL_FLAGS, *(flag for flag in floats if flag == _CLONES))
    called = kernel_sources(sources)
    if called and emulation:
        # The kernels in C7x code are complete with all of the reference only.
        called, kernels = KERNEL_SOURCES, (*kernels, _C7X_KERNELS)
        core = (*CXX_FLAGS, *common, "-I", "kernels/c7x", *emulation.compile_flags, _C7X_KERNELS)
        units += [_Unit(source=native / n, flags=core, hint=runtime_hint) for n in C7X_KERNEL_SOURCES]
    units += [_Unit(source=native / n, flags=kernels, hint=runtime_hint) for n in called]

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
    libraries = emulation.link_flags if emulation else ()
    # --as-needed: through g++ the executable would otherwise depend on libstdc++, of which it uses nothing.
    run(
        [
            *compiler.command,
            *BUILD_TYPES[options.build_type],
            "-Wl,--as-needed",
            *objects,
            *libraries,
            "-lm",
            "-o",
            "cg_dsp",
        ],
        reporter=reporter,
        cwd=folder,
        env={"LC_ALL": "C"},
        what="link cg_dsp",
        hint=runtime_hint,
    )
    return folder / "cg_dsp"


def _emulation(kind: Kind, compiler: Compiler, folder: Path) -> Emulation:
    """The emulation of the DSP of the boards, found through a link in the scratch folder."""
    if not compiler.is_cxx:
        raise UsageError(
            f"--hostemu needs a C++ compiler, {compiler.command[-1]} is one for C",
            cause="the host emulation is written in C++",
            hint="--cc g++ or --cc clang++",
        )
    found = find_emulation(DEFAULT_CORE, kind)
    (folder / "hostemu").symlink_to(found.include.resolve())
    return dataclasses.replace(found, include=Path("hostemu"))


def kernel_sources(sources: Sequence[Path]) -> tuple[str, ...]:
    """The ``KERNEL_SOURCES`` that define what generated ``sources`` call."""
    used = {name for path in sources for name in _FIRMWARE_NAME.findall(path.read_text(encoding="utf-8"))}
    folder = native_dir()
    return tuple(
        name
        for name in KERNEL_SOURCES
        if not used.isdisjoint(_DEFINITION.findall((folder / name).read_text(encoding="utf-8")))
    )


def _size(path: Path) -> int:
    return path.stat().st_size
