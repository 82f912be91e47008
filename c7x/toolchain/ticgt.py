"""Building ``lib0.out`` for a board with TI's C7000 code generation tools (module ABI, section 6).

Two links: a pseudo firmware that defines every symbol of the board's firmware as a dummy, then the module against it.
The pseudo firmware and the weights travel inside the module as sections. What the tools are told is one list of
``Step``s made from the board's export table, so that ``--dry-run``, the manifest and the build cannot differ.

No tool of TI is part of c7x; ``find_tools`` looks for an installation.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from c7x.errors import TargetError, ToolError, UnsupportedError, UsageError
from c7x.reporter import SILENT, Reporter
from c7x.subprocesses import Completed, run, tail
from c7x.target import BOARDS, find_board
from c7x.toolchain.elf import POOL_BYTES, STAGING_BYTES, describe_module, require_module
from c7x.toolchain.exports import EXPORTS, Export, firmware_exports
from c7x.workspace import Workspace

#: The release that the recipe of section 6 was written for.
KNOWN_VERSION: Final = "5.0.1.LTS"
#: Older releases do not know -mv7524.
OLDEST: Final = (5, 0, 0)

#: Environment variables that name an installation, in the order they are looked at.
VARIABLES: Final = ("TI_CGT_C7000_PATH", "CGT7X_ROOT")
#: What a build calls; all in bin/.
PROGRAMS: Final = ("cl7x", "lnk7x", "strip7x")
RUNTIME_LIBRARY: Final = "rts7524_le.lib"

MACHINE_FLAGS: Final = ("-mv7524", "--abi=eabi")
_QUIET_FLAGS: Final = ("--display_error_number", "--diag_suppress=496,1311,303")
#: By build type.
OPTIMISATION: Final[Mapping[str, tuple[str, ...]]] = {
    "release": ("-O3", "--auto_inline=500"),
    "debug": ("-g", "--opt_level=0"),
}
DEFINES: Final = ("NULL=0", "SOC_J722S", "TVM_DSP_TARGET_C7X", "TIDL_MAX_NUM_CORES=4", "RPROC_TRACE=0")

#: The one memory range of the linker command file.
DDR_ORIGIN: Final = 0x80000000
DDR_BYTES: Final = 0x19000000
#: Behind the constants: the streaming engine looks ahead of what it reads.
GUARD_BYTES: Final = 4096
#: Of embedded data. The recipe asks for 8; tensors lie at multiples of 64 in weights.bin, and kernels rely on it.
DATA_ALIGNMENT: Final = 128

#: Imported although no pseudo firmware defines it, so that the run-time library does not bring its own.
EXTRA_IMPORTS: Final = ("memalign",)
#: Mapped to a name that is defined nowhere: the firmware has none, and the library's own cannot print on the DSP.
FORBIDDEN: Final = ("fprintf",)

_TIDL_ARTIFACT = re.compile(r"subgraph(\d+)_(net|params_1)\.bin")
_ROOT = "@CGT@"

_FIND_HINT = (
    "download TI's C7000 code generation tools (ti_cgt_c7000_5.0.1.LTS_linux-x64_installer.bin) from ti.com, then: "
    "c7x toolchain install FILE --accept-license; or set TI_CGT_C7000_PATH to an installation"
)


# ------------------------------------------------------------------------------------------------- finding the tools


@dataclass(frozen=True, kw_only=True)
class Tools:
    """An installation of TI's tools: its folder, its version, and what led to it (an option, a variable, ...)."""

    root: Path
    version: str
    origin: str

    @property
    def name(self) -> str:
        """For messages and the manifest: no path."""
        return f"TI C7000 CGT {self.version}"


def toolchains_dir() -> Path:
    """Where ``c7x toolchain install`` puts tools: ``$XDG_DATA_HOME/c7x/toolchains``, else below ``~/.local/share``."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "c7x" / "toolchains"


def installed() -> list[Path]:
    """Installations in ``toolchains_dir``, the newest version first."""
    found = [path for path in toolchains_dir().glob("*") if (path / "bin").is_dir() and not path.name.startswith(".")]
    return sorted(found, key=lambda path: (_version_key(path.name), path.name), reverse=True)


def candidates(option: Path | None = None) -> list[tuple[str, Path]]:
    """Where tools may be, best first: pairs of what names the place and the place."""
    places = [("--cgt", option)] if option is not None else []
    places += [(name, Path(os.environ[name])) for name in VARIABLES if os.environ.get(name)]
    places += [("c7x toolchain install", path) for path in installed()]
    return places


def problem(root: Path) -> str | None:
    """What keeps the tools in a folder from working; None when nothing is seen."""
    if not root.is_dir():
        return f"{root} is not a folder"
    for name in PROGRAMS:
        program = root / "bin" / name
        if not program.is_file():
            return f"{root} holds no bin/{name}"
        if not os.access(program, os.X_OK):
            return f"{program} is not executable"
    if not (root / "lib" / RUNTIME_LIBRARY).is_file():
        return f"{root} holds no lib/{RUNTIME_LIBRARY}"
    return None


def _version_key(text: str) -> tuple[int, ...]:
    match = re.search(r"(\d+)\.(\d+)\.(\d+)", text)
    return tuple(int(part) for part in match.groups()) if match else (0,)


def read_version(root: Path, *, reporter: Reporter = SILENT) -> str:
    """What ``cl7x --compiler_revision`` says (ToolError when it does not run or says nothing like a version)."""
    done = run(
        [root / "bin" / "cl7x", "--compiler_revision"],
        reporter=reporter,
        timeout=60,
        what="ask TI's compiler for its version",
        hint="TI's tools run on x86-64 Linux only; c7x doctor shows what is found",
    )
    match = re.search(r"\d+\.\d+\.\d+(?:\.\w+)?", done.stdout + done.stderr)
    if match is None:
        raise ToolError(
            f"{root / 'bin' / 'cl7x'} does not tell its version",
            cause="it is another program, or a damaged installation",
            hint=_FIND_HINT,
        )
    return match[0]


def find_tools(option: Path | None = None, *, reporter: Reporter = SILENT) -> Tools:
    """The tools to use: the first place that is named must work; nothing is skipped silently.

    Raises:
        ToolError: there are none, they are incomplete, not executable, or too old.
    """
    origin, root = choose_tools(option)
    version = read_version(root, reporter=reporter)
    if _version_key(version) < OLDEST:
        raise ToolError(
            f"TI's tools in {root} are version {version}, c7x needs {'.'.join(map(str, OLDEST))} or newer",
            cause=f"{origin} names an old installation, whose compiler does not know the C7524",
            hint=f"install {KNOWN_VERSION}; {_FIND_HINT}",
        )
    if version != KNOWN_VERSION:
        reporter.warn(f"TI's tools are version {version}; c7x was written for {KNOWN_VERSION}")
    return Tools(root=root.absolute(), version=version, origin=origin)


def choose_tools(option: Path | None = None) -> tuple[str, Path]:
    """What names the tools to use and their folder, looked at without running anything (ToolError)."""
    places = candidates(option)
    if not places:
        raise ToolError(
            "there are no TI C7000 code generation tools",
            cause=f"neither --cgt nor {' nor '.join(VARIABLES)} names them, and none were installed by c7x",
            hint=_FIND_HINT,
        )
    origin, root = places[0]
    if what := problem(root):
        executable = "chmod +x the programs in bin/, or install the tools again"
        raise ToolError(
            f"TI's tools cannot be used: {what}",
            cause=f"{origin} names this folder",
            hint=executable if what.endswith("executable") else _FIND_HINT,
        )
    return origin, root


# --------------------------------------------------------------------------------------------------------- options


@dataclass(frozen=True, kw_only=True)
class ModuleOptions:
    """How to build ``lib0.out``.

    Attributes:
        cgt: the folder of TI's tools; None: see ``candidates``.
        build_type: ``release`` or ``debug``.
        cflags: appended to the compiler's options for generated code, so they win.
        fp_reassoc: whether the compiler may reorder sums; without it code is about 27 % slower (section 6).
        keep_asm: keep the assembly of the generated code in the build directory.
        tidl_bridge: the user's bridge sources, compiled into the module.
        tidl_artifacts: a folder with ``subgraph<N>_net.bin`` and ``subgraph<N>_params_1.bin`` to embed.

    Raises:
        UsageError: an unknown build type.
    """

    cgt: Path | None = None
    build_type: str = "release"
    cflags: tuple[str, ...] = ()
    fp_reassoc: bool = True
    keep_asm: bool = False
    tidl_bridge: tuple[Path, ...] = ()
    tidl_artifacts: Path | None = None

    def __post_init__(self) -> None:
        name = self.build_type.lower()
        if name not in OPTIMISATION:
            raise UsageError(
                f"there is no build type {self.build_type} in mode c7x_dload",
                cause="sanitizers are not part of TI's tools" if name == "asan" else "it is misspelt",
                hint=f"choose one of {', '.join(OPTIMISATION)}",
            )
        object.__setattr__(self, "build_type", name)


# ---------------------------------------------------------------------------------------------------- generated files


def stub_exports(board: str) -> list[Export]:
    """What the pseudo firmware defines, by name: the board's firmware, and what TI's build names beside it."""
    table = firmware_exports(board) | {n: e for n, e in EXPORTS.items() if e.availability == "stub"}
    return [table[name] for name in sorted(table)]


def stub_source(board: str) -> str:
    """The C source of the pseudo firmware.

    A call that no firmware answers stays in its dummy and hangs there, which the client sees as a timeout, instead of
    going on with garbage.
    """
    lines = ["/* dsp_syms: what the firmware exports, as dummies. */"]
    for export in stub_exports(board):
        if export.kind == "data":
            lines.append(f"__declspec(dllexport) unsigned long long {export.name} = 0;")
        else:
            lines.append(f"__declspec(dllexport) void {export.name}(void) {{ for (;;) {{ }} }}")
    return "\n".join(lines) + "\n"


STUB_COMMANDS: Final = f"""\
/* Layout of the pseudo firmware; its addresses are dummies. */
MEMORY
{{
  DDR : origin = {DDR_ORIGIN:#010x}, length = {DDR_BYTES:#x}
}}
SECTIONS
{{
  .text > DDR
  .data > DDR
  .fardata > DDR
  .far > DDR
  .bss > DDR
  .const > DDR
  .rodata > DDR
}}
"""


def link_commands(board: str, exports: Sequence[str]) -> str:
    """The linker command file of the module.

    Args:
        exports: data symbols of assembled sources, which carry no attribute that exports them.
    """
    imports = [export.name for export in stub_exports(board)] + list(EXTRA_IMPORTS)
    libc = [name for name in sorted(EXPORTS) if EXPORTS[name].group == "libc"]
    lines = ["/* What the firmware gives. */", *(f"--import={name}" for name in sorted(imports))]
    lines += ["", "/* Keeps the run-time library's own copies out of the module. */"]
    lines += [f"--symbol_map={name}=__dummy_{name}" for name in (*libc, *FORBIDDEN)]
    if exports:
        lines += ["", "/* Embedded data. */", *(f"--export={name}" for name in exports)]
    others = (".text", ".cinit", ".const", ".data", ".switch", ".far", ".fardata", ".plt", ".sysmem", ".bss:l2mem")
    lines += [
        "",
        "MEMORY",
        "{",
        f"  DDR : origin = {DDR_ORIGIN:#010x}, length = {DDR_BYTES:#x}",
        "}",
        "SECTIONS",
        "{",
        "  GROUP > DDR",
        "  {",
        f"    .rodata : {{}} align({DATA_ALIGNMENT})",
        "    .se_guard : {}",
        f"    .rodata.weights : {{}} align({DATA_ALIGNMENT})",
        f"    .rodata.tidl : {{ *(.rodata.tidl_*) }} align({DATA_ALIGNMENT})",
        "    .neardata : {}",
        f"    .bss : {{}} align({DATA_ALIGNMENT})",
        "  }",
        "  .dsp_syms_out : type = COPY",
        *(f"  {name} > DDR" for name in others),
        "  .gnu.offload : { *(.gnu.offload_*) } > DDR",
        "}",
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, kw_only=True)
class Embed:
    """Bytes of a file as assembly.

    Attributes:
        source: the file, a name in the scratch folder.
        assembly: the assembly file to write.
        section: where the bytes go.
        prefix: of the symbols ``_start``, ``_end`` and ``_size``; None for none.
        guard: whether the guard of the streaming engine comes before.
    """

    source: str
    assembly: str
    section: str
    prefix: str | None = None
    guard: bool = False

    @property
    def symbols(self) -> tuple[str, ...]:
        return () if self.prefix is None else tuple(f"{self.prefix}_{what}" for what in ("start", "end", "size"))


_VALUES_A_LINE: Final = 32
_CHUNK: Final = 4 * 2**20


def write_assembly(embed: Embed, folder: Path) -> None:
    """Write the assembly file of ``embed``: the bytes as signed ``.byte`` values, 32 a line.

    Values have a fixed width, so that whole chunks are looked up in a table at once: 50 MB take a second or two.
    """
    import numpy as np

    # Of pairs of bytes, so that a chunk takes half as many look-ups.
    single = np.array([b"%4d," % (value - 256 if value > 127 else value) for value in range(256)], "S5")
    pairs = np.char.add(np.tile(single, 256), np.repeat(single, 256)).view("V10")
    begin = b"\t.byte "
    size = (folder / embed.source).stat().st_size
    with (folder / embed.source).open("rb") as source, (folder / embed.assembly).open("wb") as out:
        head = ["; Written by c7x from the bytes of a file."]
        if embed.guard:
            head += ['\t.sect ".se_guard"', "\t.retain", f"\t.align {DATA_ALIGNMENT}", f"\t.space {GUARD_BYTES}"]
        head += [f'\t.sect "{embed.section}"', "\t.retain", f"\t.align {DATA_ALIGNMENT}"]
        if embed.prefix:
            head += [*(f"\t.global {name}" for name in embed.symbols), f"{embed.symbols[0]}:"]
        out.write(("\n".join(head) + "\n").encode())
        while chunk := source.read(_CHUNK):
            data = np.frombuffer(chunk, np.uint8)
            whole = len(data) // _VALUES_A_LINE * _VALUES_A_LINE
            lines = np.empty((whole // _VALUES_A_LINE, len(begin) + 5 * _VALUES_A_LINE), np.uint8)
            lines[:, : len(begin)] = np.frombuffer(begin, np.uint8)
            text = pairs[data[:whole].view("<u2")].view(np.uint8)
            lines[:, len(begin) :] = text.reshape(-1, 5 * _VALUES_A_LINE)
            lines[:, -1] = ord("\n")
            out.write(lines.data)
            if whole < len(data):
                out.write(begin + single[data[whole:]].tobytes()[:-1] + b"\n")
        if embed.prefix:
            # Bytes, since the width of .int and .long differs between TI's assemblers.
            count = ", ".join(str(byte) for byte in size.to_bytes(4, "little"))
            out.write(f"{embed.symbols[1]}:\n\t.align 8\n{embed.symbols[2]}:\n\t.byte {count}\n".encode())


# ----------------------------------------------------------------------------------------------------------- recipe


@dataclass(frozen=True, kw_only=True)
class Step:
    """One call of a tool, run in the scratch folder.

    Attributes:
        title: what it does, as in "cannot <title>".
        embed: the assembly file to write before.
        generated: whether generated or the user's code can make it fail.
    """

    title: str
    command: tuple[str, ...]
    embed: Embed | None = None
    generated: bool = False


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A whole build: texts to write, files to put beside them (name to path), and the steps in order."""

    files: Mapping[str, str]
    inputs: Mapping[str, Path]
    steps: tuple[Step, ...]

    def commands(self, root: str = "$TI_CGT_C7000_PATH") -> list[str]:
        """The command lines with the tools' folder as ``root``."""
        return [shlex.join(step.command).replace(_ROOT, root) for step in self.steps]

    def script(self, root: str = "$TI_CGT_C7000_PATH") -> str:
        """The recipe for people: every generated file and every command, as a shell script would have them."""
        parts = [f"# inputs: {', '.join(self.inputs)}"]
        for name, text in self.files.items():
            parts.append(f"cat > {name} <<'END'\n{text}END")
        for step, command in zip(self.steps, self.commands(root), strict=True):
            if step.embed is not None:
                parts.append(
                    f"# {step.embed.assembly}: the bytes of {step.embed.source} as .byte lines in section "
                    f"{step.embed.section}"
                    + (f", symbols {', '.join(step.embed.symbols)}" if step.embed.prefix else "")
                )
            parts.append(f"# {step.title}\n{command}")
        return "\n".join(parts) + "\n"


def tidl_artifacts(folder: Path) -> list[tuple[Path, str]]:
    """The artefacts in a folder with the symbol prefix of each (section 4), ordered by subgraph.

    Raises:
        ToolError: there is no such folder, it holds none, or one of a pair is missing.
    """
    hint = "give the folder that TIDL's import wrote: subgraph0_net.bin, subgraph0_params_1.bin, ..."
    if not folder.is_dir():
        raise ToolError(f"there is no folder {folder}", cause="--tidl-artifacts is misspelt", hint=hint)
    found: dict[int, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        if match := _TIDL_ARTIFACT.fullmatch(path.name):
            found.setdefault(int(match[1]), {})[match[2]] = path
    if not found:
        raise ToolError(f"{folder} holds no subgraph<N>_net.bin", cause="it is another folder", hint=hint)
    for number, pair in found.items():
        for kind in ("net", "params_1"):
            if kind not in pair:
                raise ToolError(f"{folder} holds no subgraph{number}_{kind}.bin", cause="it is incomplete", hint=hint)
    names = {"net": "_binary_tidl_net", "params_1": "_binary_tidl_io"}
    return [(found[n][kind], f"{names[kind]}_{n}") for n in sorted(found) for kind in ("net", "params_1")]


def make_recipe(sources: Sequence[Path], *, weights: Path | None, board: str, options: ModuleOptions) -> Recipe:
    """Everything that a build does, without doing it.

    Args:
        sources: lib0.c (and lib1.c ...); headers beside them are put beside the copies.
        weights: weights.bin to embed; None or an empty file for a module without.
    """
    cl7x, lnk7x, strip7x = (f"{_ROOT}/bin/{name}" for name in PROGRAMS)
    embeds = [Embed(source="dsp_syms.out", assembly="dsp_syms_data.asm", section=".dsp_syms_out")]
    inputs = {path.name: path for path in sources}
    inputs |= {header.name: header for path in sources for header in sorted(path.parent.glob("*.h"))}
    if weights is not None and weights.stat().st_size:
        inputs["weights.bin"] = weights
        embeds.append(
            Embed(
                source="weights.bin",
                assembly="weights_data.asm",
                section=".rodata.weights",
                prefix="_binary_weights_bin",
                guard=True,
            )
        )
    if options.tidl_artifacts is not None:
        for path, prefix in tidl_artifacts(options.tidl_artifacts):
            inputs[path.name] = path
            section = f".rodata.{prefix.removeprefix('_binary_')}"
            embeds.append(Embed(source=path.name, assembly=f"{path.stem}_data.asm", section=section, prefix=prefix))
    bridge = {f"bridge_{index}{path.suffix}": path for index, path in enumerate(options.tidl_bridge)}
    inputs |= bridge
    inputs |= {
        header.name: header
        for path in options.tidl_bridge
        for header in sorted(path.parent.iterdir())
        if header.suffix in (".h", ".hpp", ".hh")
    }
    reassoc = () if options.fp_reassoc else ("--fp_reassoc=off",)
    # Generated code declares the kernels it calls, so no header with their prototypes has to be included before it.
    compile_flags = (
        *MACHINE_FLAGS,
        "--endian=little",
        *_QUIET_FLAGS,
        "--fp_mode=relaxed",
        "--rtti",
        *OPTIMISATION[options.build_type],
        *reassoc,
        *(f"--define={define}" for define in DEFINES),
        f"--include_path={_ROOT}/include",
        "--include_path=.",
        *(["--keep_asm"] if options.keep_asm else []),
    )
    steps = [
        Step(
            title="compile the pseudo firmware",
            command=(
                cl7x,
                *MACHINE_FLAGS,
                "--endian=little",
                *_QUIET_FLAGS,
                "--c99",
                "--compile_only",
                "--output_file=dsp_syms.obj",
                "--c_file=dsp_syms.c",
            ),
        ),
        Step(
            title="link the pseudo firmware",
            command=(
                lnk7x,
                "--dynamic=exe",
                "--no_entry_point",
                "--soname=dsp_syms.out",
                "--output_file=dsp_syms.out",
                "dsp_syms.obj",
                "dsp_syms.cmd",
            ),
        ),
        Step(title="strip the pseudo firmware", command=(strip7x, "dsp_syms.out")),
    ]
    objects = []
    for embed in embeds:
        output = embed.assembly.removesuffix(".asm") + ".obj"
        steps.append(
            Step(
                title=f"embed {embed.source}",
                command=(
                    cl7x,
                    *MACHINE_FLAGS,
                    "--compile_only",
                    f"--output_file={output}",
                    f"--asm_file={embed.assembly}",
                ),
                embed=embed,
            )
        )
        objects.append(output)
    for name in (*(path.name for path in sources), *bridge):
        output = f"{Path(name).stem}.obj"
        language = ("--c99", f"--c_file={name}") if name in bridge and name.endswith(".c") else ("--cpp_default", name)
        flags = (*compile_flags, *(() if name in bridge else options.cflags))
        steps.append(
            Step(
                title=f"compile {bridge[name].name if name in bridge else name}",
                generated=True,
                command=(cl7x, *flags, "--compile_only", f"--output_file={output}", *language),
            )
        )
        objects.append(output)
    exported = [name for embed in embeds for name in embed.symbols]
    steps.append(
        Step(
            title="link the module",
            generated=True,
            command=(
                lnk7x,
                "--dynamic=lib",
                "--relocatable",
                "--no_entry_point",
                "--ram_model",
                "-x",
                "--priority",
                "--warn_sections",
                "--display_error_number",
                "--diag_suppress=10290,10291",
                "-heap",
                "0x0",
                "--soname=lib0.out",
                "--retain=TVMPrintLayerProfile",
                f"--search_path={_ROOT}/lib",
                "--search_path=.",
                "--output_file=lib0.out",
                "--map_file=lib0.out.map",
                *objects,
                "lib0.cmd",
                "-ldsp_syms.out",
                f"-l{RUNTIME_LIBRARY}",
                "-llibc.a",
            ),
        )
    )
    return Recipe(
        files={
            "dsp_syms.c": stub_source(board),
            "dsp_syms.cmd": STUB_COMMANDS,
            "lib0.cmd": link_commands(board, exported),
        },
        inputs=inputs,
        steps=tuple(steps),
    )


_SYMBOL_ROW = re.compile(r"^\s*([A-Za-z_$][\w$]*)\s+\S+\.(?:obj|o|lib|a)\b.*$", re.MULTILINE)


def _undefined(text: str) -> list[str]:
    """The names in the linker's table of undefined symbols."""
    return sorted(set(_SYMBOL_ROW.findall(text))) if "unresolved" in text or "undefined" in text else []


_TOOLS_HINT: Final = "check the tools with c7x toolchain list"


def _failure(step: Step, done: Completed, board: str, hint: str) -> ToolError:
    """What a tool's failure means; the linker's table of undefined symbols may be in either stream."""
    program = Path(step.command[0]).name
    missing = _undefined(f"{done.stderr}\n{done.stdout}") if program == "lnk7x" and step.generated else []
    if missing:
        bridge = "tidl_bridge_init_all" in missing
        return ToolError(
            f"lib0.out needs {', '.join(missing)}, which the firmware of {board} does not have",
            cause="a module may import only what the firmware of its board exports",
            hint="give the bridge's sources with --tidl-bridge" if bridge else hint,
        )
    last = tail(done.stderr) or tail(done.stdout)
    return ToolError(
        f"cannot {step.title}: {program} ended with code {done.returncode}" + (f"\n{last}" if last else ""),
        cause=f"see the last lines of {program}'s output above" if last else f"{program} gave no reason",
        hint=hint if step.generated else _TOOLS_HINT,
    )


def carry_out(
    recipe: Recipe, folder: Path, tools: Tools, *, board: str, hint: str, reporter: Reporter = SILENT
) -> Path:
    """Run a recipe in an empty folder and return the path of ``lib0.out``; all files stay in the folder.

    Raises:
        ToolError: a tool failed; imports that the board does not have are named.
    """
    # All names that the tools see are plain and relative: no space or letter of the user's folders reaches them.
    for name, path in recipe.inputs.items():
        (folder / name).symlink_to(path.resolve())
    for name, text in recipe.files.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    for step in recipe.steps:
        if step.embed is not None:
            write_assembly(step.embed, folder)
        done = run(
            [word.replace(_ROOT, str(tools.root)) for word in step.command],
            reporter=reporter,
            cwd=folder,
            env={"LC_ALL": "C"},
            check=False,
            what=step.title,
            hint=_TOOLS_HINT,
        )
        if done.returncode != 0:
            raise _failure(step, done, board, hint)
        for line in (done.stdout + done.stderr).splitlines():
            if "warning" in line:
                reporter.progress(line)
        if step.embed is not None:
            (folder / step.embed.assembly).unlink()
    return folder / "lib0.out"


# ------------------------------------------------------------------------------------------------------------ stage


def choose_board(ws: Workspace, board: str | None) -> str:
    """The board to build for: the one asked for, else the one the code was generated for.

    Raises:
        TargetError: there is none, or no such board.
    """
    name = board or ws.manifest.get("board")
    if not name:
        raise TargetError(
            "mode c7x_dload needs a board",
            cause="boards differ in what their firmware exports, and the code was generated for none",
            hint=f"add --board {' or --board '.join(sorted(BOARDS))}",
        )
    return find_board(str(name)).name


def check_memory(weights: int, arena: int) -> None:
    """Refuse what no board can hold, before any tool runs; sizes in bytes (UnsupportedError)."""
    if arena > POOL_BYTES:
        raise UnsupportedError(
            f"the model needs {arena / 1e6:.1f} MB of scratch memory, the pool has {POOL_BYTES / 1e6:.1f} MB",
            cause="the arena of a module lies in the main pool",
            hint="use a smaller input or batch",
        )
    limit = min(STAGING_BYTES, DDR_BYTES)
    if weights + arena > limit:
        raise UnsupportedError(
            f"the weights of {weights / 1e6:.1f} MB do not fit a module of at most {limit / 1e6:.1f} MB",
            cause=f"the linker has {DDR_BYTES / 1e6:.1f} MB for all, the staging region {STAGING_BYTES / 1e6:.1f} MB",
            hint="quantize the model, or make it smaller",
        )


def check_tidl(board: str, options: ModuleOptions, target: str) -> None:
    """Refuse TIDL for a board whose firmware has none, and sources that do not exist.

    Raises:
        TargetError: the board's firmware is built without TIDL.
        UsageError: a bridge source is missing.
    """
    wanted = [
        flag
        for flag, given in (("--tidl-bridge", options.tidl_bridge), ("--tidl-artifacts", options.tidl_artifacts))
        if given
    ]
    if "-tidl-runtime=1" in target.split():
        wanted.append("-tidl-runtime=1")
    if wanted and not BOARDS[board].firmware_tidl:
        others = [name for name, item in sorted(BOARDS.items()) if item.firmware_tidl]
        raise TargetError(
            f"{wanted[0]} is not possible on board {board}",
            cause=f"the firmware of {board} is built without TIDL",
            hint=f"leave it out, or use --board {' or --board '.join(others)}",
        )
    for path in options.tidl_bridge:
        if not path.is_file():
            raise UsageError(
                f"there is no file {path}", cause="--tidl-bridge is misspelt", hint="give C or C++ sources"
            )


def dload_stage(
    ws: Workspace,
    *,
    board: str | None = None,
    options: ModuleOptions,
    dry_run: bool = False,
    reporter: Reporter = SILENT,
) -> dict[str, Any]:
    """Build ``lib0.out`` and ``lib0.out.map`` from ``lib*.c`` and ``weights.bin``, and check the result.

    Args:
        dry_run: only make the recipe; needs no tools and writes nothing.

    Returns:
        ``artefact``, ``bytes``, ``compiler``, ``board``, ``build_type``, ``commands`` and ``memory`` of the module; for
        a dry run ``artefact`` None, ``board``, ``commands``, ``files`` (name to text) and ``script``.

    Raises:
        TargetError: no or another board, or TIDL for a board without it.
        UnsupportedError: the model is too large for a board.
        WorkspaceError: there is no generated code, or no space.
        ToolError: the tools are missing, failed, or made a module that breaks a rule of the loader.
    """
    lib0 = ws.require("lib0.c")
    name = choose_board(ws, board)
    check_tidl(name, options, str(ws.manifest.get("target") or ""))
    weights = ws.path("weights.bin") if ws.has("weights.bin") else None
    weights_bytes = weights.stat().st_size if weights else 0
    io = ws.read_json("io.json") if ws.has("io.json") else {}
    check_memory(weights_bytes, int(io.get("arena_bytes") or 0))
    sources = sorted(lib0.parent.glob("lib*.c"))
    recipe = make_recipe(sources, weights=weights, board=name, options=options)
    if dry_run:
        places = candidates(options.cgt)
        root = "$TI_CGT_C7000_PATH" if not places else shlex.quote(str(places[0][1]))
        return {
            "artefact": None,
            "board": name,
            "commands": recipe.commands(root),
            "files": dict(recipe.files),
            "script": recipe.script(root),
        }
    inputs: list[str | Path] = [path.name for path in sources]
    inputs += [path.name for path in sorted(ws.root.glob("*.h"))]
    inputs += [path for key, path in recipe.inputs.items() if path.parent != ws.root]
    inputs += ["weights.bin"] if weights else []
    tools = find_tools(options.cgt, reporter=reporter)
    with ws.stage("build", inputs=inputs) as stage:
        stage.tools["cgt"] = tools.name
        stage.options = {
            "board": name,
            "build_type": options.build_type,
            "cflags": list(options.cflags),
            "commands": recipe.commands(),
        }
        stage.facts["mode"] = "c7x_dload"
        edited = [path.name for path in sources if ws.edited(path.name)]
        if edited:
            hint = f"{' and '.join(edited)} changed since c7x codegen wrote it: mend it, or run c7x codegen again"
        elif options.cflags:
            hint = "leave out --cflags, or check that TI's compiler takes what it says"
        else:
            hint = f"compile the model with --board {name}; if it stays, report it with the model"
        reporter.info(f"compiling with {tools.name}")
        with tempfile.TemporaryDirectory(prefix="cgt-", dir=stage.folder) as scratch:
            folder = Path(scratch)
            # The weights are there five times as text, and twice in object and module.
            if shutil.disk_usage(folder).free < 8 * weights_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            module = carry_out(recipe, folder, tools, board=name, hint=hint, reporter=reporter)
            require_module(module, name, weights=weights)
            kept = [module, folder / "lib0.out.map"]
            if options.keep_asm:
                kept += [folder / f"{path.stem}.asm" for path in sources]
            for path in kept:
                if not path.is_file():
                    raise ToolError(
                        f"the tools wrote no {path.name}", cause="they do not know the option", hint=_FIND_HINT
                    )
                path.replace(stage.path(path.name))
    described = describe_module(ws.path("lib0.out"), name)
    return {
        "artefact": "lib0.out",
        "bytes": described["bytes"],
        "compiler": tools.name,
        "board": name,
        "build_type": options.build_type,
        "commands": recipe.commands(),
        "memory": described["memory"],
    }
