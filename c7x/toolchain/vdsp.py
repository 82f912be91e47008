"""Building for the virtual DSP: the loadable module ``lib0.out``, and the virtual DSP itself.

A module is built in two stages like one for a board (module ABI, section 6). First a pseudo firmware, ``dsp_syms.out``,
that defines every symbol of the board's firmware as a dummy; then the module, linked against nothing else, so that an
import the board does not have is an error here. The pseudo firmware travels in the module's section ``.dsp_syms_out``
and the weights in ``.rodata.weights``.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from c7x.errors import ToolError, UsageError
from c7x.native import native_dir
from c7x.reporter import SILENT, Reporter
from c7x.subprocesses import find_program, run
from c7x.toolchain.elf import require_module
from c7x.toolchain.exports import Export, stub_exports
from c7x.toolchain.gnu import BUILD_TYPES, C_FLAGS, CXX_FLAGS, FLOAT_FLAGS, BuildOptions, Compiler

#: The board whose firmware a virtual DSP has unless told otherwise: the one with every symbol.
DEFAULT_BOARD = "j722s-evm"

#: For every object of a module, so that it asks for nothing that a board's firmware lacks:
#: * no stack protector, fortified functions or unwind tables, whose helpers live in the C library;
#: * printf stays printf: as a builtin it may become putchar.
MODULE_FLAGS: tuple[str, ...] = (
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
    "-fno-asynchronous-unwind-tables",
    "-fno-unwind-tables",
    "-fno-builtin-printf",
)

#: 128 bytes are what the loader aligns segments to. Without "now", look-ups would wait for a dynamic linker.
_LINK_FLAGS: tuple[str, ...] = (
    "-shared",
    "-nostdlib",
    "-Wl,--hash-style=sysv",
    "-Wl,--build-id=none",
    "-Wl,-z,max-page-size=128,-z,common-page-size=128",
    "-Wl,-z,norelro,-z,now,-z,noexecstack",
)

#: Sources of the virtual DSP, relative to the native folder; native/vdsp/CMakeLists.txt lists the same.
SERVER_SOURCES: tuple[str, ...] = (
    "vdsp/elf_module.cc",
    "vdsp/exports.cc",
    "vdsp/firmware.cc",
    "vdsp/main.cc",
    "vdsp/memory.cc",
    "vdsp/packed.cc",
    "vdsp/pool.cc",
    "vdsp/export_table.c",
    "runtime/c7x_weights.c",
    "kernels/float_kernels.c",
    "kernels/int8_elementwise.c",
    "kernels/int8_movement.c",
    "kernels/int8_norm.c",
    "kernels/int8_pool.c",
    "kernels/residual_add.c",
    "kernels/mmalib/mmalib_wrappers.c",
)

#: No contraction: the kernels are references, bit-exact to their models. No exceptions, no guards around statics: the
#: virtual DSP needs the C library only.
_SERVER_FLAGS: tuple[str, ...] = ("-O2", "-ffp-contract=off")
_SERVER_CXX_FLAGS: tuple[str, ...] = ("-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics")

_UNDEFINED = re.compile(r"undefined (?:reference to|symbol:) [`']?(\w+)")


def stub_source(exports: Iterable[Export]) -> str:
    """The C source of the pseudo firmware: every function traps, every variable is empty."""
    lines = ["/* dsp_syms: what the firmware exports, as dummies. */"]
    for export in sorted(exports, key=lambda e: e.name):
        if export.kind == "data":
            lines.append(f"unsigned long long {export.name};")
        else:
            lines.append(f"void {export.name}(void) {{ __builtin_trap(); }}")
    return "\n".join(lines) + "\n"


WEIGHTS_ASSEMBLY = """\
/* The model's parameters, where the firmware looks for them. */
  .section .c7x_weights, "a"
  .balign 128
  .globl _binary_weights_bin_start, _binary_weights_bin_end, _binary_weights_bin_size
  .type _binary_weights_bin_start, %object
  .type _binary_weights_bin_end, %object
  .type _binary_weights_bin_size, %object
_binary_weights_bin_start:
  .incbin "weights.bin"
_binary_weights_bin_end:
  .balign 4
_binary_weights_bin_size:
  .long _binary_weights_bin_end - _binary_weights_bin_start
  .section .note.GNU-stack, "", %progbits
"""

SYMS_ASSEMBLY = """\
/* The pseudo firmware, which the loader reads before the module; not loaded itself. */
  .section .dsp_syms_out, "", %progbits
  .incbin "dsp_syms.out"
  .section .note.GNU-stack, "", %progbits
"""


def build_module(
    sources: Sequence[Path],
    *,
    weights: Path | None,
    folder: Path,
    board: str,
    options: BuildOptions,
    compiler: Compiler,
    hint: str = "compile the model again; if it stays, report it with the model",
    reporter: Reporter = SILENT,
) -> tuple[Path, Path]:
    """Compile generated sources to a module for the virtual DSP.

    Two builds of the same sources with the same compiler give the same bytes, whatever the folders are called.

    Args:
        sources: lib0.c (and lib1.c ...), in one folder; headers that lie beside them are found.
        weights: weights.bin to embed; None for a module without.
        folder: an empty scratch folder; the files stay in it.
        board: whose firmware the module may import from.
        hint: the next step when the generated code does not compile.

    Returns:
        The paths of ``lib0.out`` and ``lib0.out.map`` inside ``folder``.

    Raises:
        UsageError: the build type is asan.
        ToolError: the compiler or linker failed; an import that the board does not have is named, and so is a rule of
            the loader that the module breaks.
    """
    if options.build_type == "asan":
        raise UsageError(
            "a module for the virtual DSP cannot be built with sanitizers",
            cause="their run-time library is not part of the firmware",
            hint="use --build-type asan with --mode c7x_host; the virtual DSP guards its memory by itself",
        )
    native = native_dir()
    for name in ("include", "runtime", "kernels", "vdsp"):
        (folder / name).symlink_to(native / name)
    for header in {path for source in sources for path in source.parent.glob("*.h")}:
        (folder / header.name).symlink_to(header.resolve())
    if weights is not None:
        (folder / "weights.bin").symlink_to(weights.resolve())
        (folder / "weights.S").write_text(WEIGHTS_ASSEMBLY, encoding="utf-8")
    (folder / "syms.S").write_text(SYMS_ASSEMBLY, encoding="utf-8")
    (folder / "dsp_syms.c").write_text(stub_source(stub_exports(board).values()), encoding="utf-8")

    def call(arguments: Sequence[str], what: str, hint: str) -> None:
        run(
            [*compiler.command, *arguments],
            reporter=reporter,
            cwd=folder,
            # Messages in English, whatever the user's language: they are searched for, and end up in reports.
            env={"LC_ALL": "C"},
            what=what,
            hint=hint,
        )

    tool_hint = "check the compiler with c7x doctor, or choose another one with --cc"
    march = (f"-march={options.march}",) if options.march else ()
    prefix_map = f"-ffile-prefix-map={folder.resolve()}=."
    common = (*BUILD_TYPES[options.build_type], *march, prefix_map, "-I", "include", "-I", "runtime", "-I", "kernels")
    language = CXX_FLAGS if compiler.is_cxx else C_FLAGS
    # cflags come last, so that they win; but not over what makes the module loadable.
    generated = (*language, *common, *FLOAT_FLAGS, *options.cflags, *MODULE_FLAGS)

    def compile_source(source: Path) -> str:
        (folder / source.name).symlink_to(source.resolve())
        call([*generated, "-c", source.name, "-o", f"{source.stem}.o"], f"compile {source.name}", hint)
        return f"{source.stem}.o"

    def make_support(name: str) -> str:
        if name == "syms.S":
            stub = (*C_FLAGS, "-O1", "-w", "-fPIC", "-fno-builtin", "-fno-asynchronous-unwind-tables")
            soname = ("-Wl,-soname,dsp_syms.out", "-s")
            call([*stub, "-c", "dsp_syms.c", "-o", "dsp_syms.o"], "compile the pseudo firmware", tool_hint)
            call([*_LINK_FLAGS, *soname, "dsp_syms.o", "-o", "dsp_syms.out"], "link the pseudo firmware", tool_hint)
        flags = (*C_FLAGS, *common, *MODULE_FLAGS) if name.endswith(".c") else ("-x", "assembler")
        output = f"{Path(name).stem}.o"
        call([*flags, "-c", name, "-o", output], f"compile {Path(name).name}", tool_hint)
        return output

    support = ["syms.S", *(["weights.S"] if weights is not None else []), "vdsp/module_support.c"]
    ordered = sorted(sources, key=lambda path: path.stat().st_size, reverse=True)
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        compiled = [pool.submit(compile_source, path) for path in ordered]
        supported = [pool.submit(make_support, name) for name in support]
        objects = [future.result() for future in (*compiled, *supported)]
    link = [
        *_LINK_FLAGS,
        "-Wl,-soname,lib0.out,-z,defs,-Bsymbolic",
        "-Wl,-T,vdsp/module.ld,-Map,lib0.map",
    ]
    try:
        # The loader wants the dependency, also in a module that calls no function of the firmware.
        words = [*link, *objects, "-Wl,--no-as-needed", "dsp_syms.out", "-lgcc", "-o", "lib0.out"]
        call(words, "link lib0.out", hint)
    except ToolError as error:
        missing = sorted(set(_UNDEFINED.findall(error.message)))
        if not missing:
            raise
        raise ToolError(
            f"lib0.out needs {', '.join(missing)}, which the firmware of {board} does not have",
            cause="a module may import only what the firmware exports, and the mathematical functions of C",
            hint=hint,
        ) from error
    require_module(folder / "lib0.out", board, weights=weights)
    text = (folder / "lib0.map").read_text(encoding="utf-8", errors="replace")
    # Where the compiler's own files lie is this machine's business.
    (folder / "lib0.out.map").write_text(re.sub(r"(?<![\w.])/[^\s()]*/", "", text), encoding="utf-8")
    return folder / "lib0.out", folder / "lib0.out.map"


def server_program(*, reporter: Reporter = SILENT) -> Path:
    """The program ``c7x-vdsp``, built once a machine and version from the native sources.

    It is kept in the user's cache folder (``$XDG_CACHE_HOME/c7x``, else ``~/.cache/c7x``) under a hash of its sources
    and its compiler's version. One in ``share/c7x`` of the Python environment is used in its place.

    Raises:
        ToolError: there is no C++ compiler, or it failed.
    """
    native = native_dir()
    compiler = find_program("g++", "clang++", "c++")
    if compiler is None:
        raise ToolError(
            "there is no C++ compiler",
            cause="none of g++, clang++ and c++ is on PATH; the virtual DSP is compiled at its first use",
            hint="install one, for example: apt install g++ (Debian, Ubuntu) or dnf install gcc-c++ (Fedora)",
        )
    version = run([compiler, "--version"], reporter=reporter, what="ask the C++ compiler for its version", timeout=60)
    digest = hashlib.sha256(version.stdout.encode())
    for folder in ("include", "kernels", "runtime", "vdsp"):
        for path in sorted((native / folder).rglob("*")):
            if path.suffix in (".c", ".cc", ".h", ".inc"):
                digest.update(f"{path.relative_to(native)}\0".encode() + path.read_bytes() + b"\0")
    for flag in (*_SERVER_FLAGS, *_SERVER_CXX_FLAGS):
        digest.update(flag.encode())
    place = Path(f"vdsp-{digest.hexdigest()[:16]}", "c7x-vdsp")
    # An image brings the program with it, where its users cannot write.
    installed = Path(sys.prefix) / "share" / "c7x" / place
    if installed.is_file():
        return installed
    program = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "c7x" / place
    if not program.is_file():
        reporter.info("building the virtual DSP (once)")
        try:
            program.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="build-", dir=program.parent) as scratch:
                build_server(Path(scratch), compiler=str(compiler), reporter=reporter).replace(program)
        except OSError as error:
            raise ToolError(
                f"cannot write {program.parent}",
                cause=error.strerror,
                hint="set XDG_CACHE_HOME to a folder you may write to",
            ) from error
    return program


def build_server(
    folder: Path, *, compiler: str = "g++", flags: Sequence[str] = _SERVER_FLAGS, reporter: Reporter = SILENT
) -> Path:
    """Compile ``c7x-vdsp`` in a scratch folder and return its path (ToolError when the compiler fails)."""
    native = native_dir()
    includes = [word for name in ("include", "runtime", "kernels") for word in ("-I", str(native / name))]

    def compile_source(name: str) -> str:
        language = ("-x", "c++", *_SERVER_CXX_FLAGS) if name.endswith(".cc") else C_FLAGS
        output = f"{Path(name).stem}.o"
        words = [compiler, *language, *flags, *includes, "-c", str(native / name), "-o", output]
        run(words, reporter=reporter, cwd=folder, env={"LC_ALL": "C"}, what=f"compile {name}")
        return output

    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        objects = list(pool.map(compile_source, SERVER_SOURCES))
    words = [compiler, *flags, "-Wl,--as-needed", *objects, "-lm", "-o", "c7x-vdsp"]
    run(words, reporter=reporter, cwd=folder, env={"LC_ALL": "C"}, what="link the virtual DSP")
    return folder / "c7x-vdsp"
