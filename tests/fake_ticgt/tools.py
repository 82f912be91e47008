"""The stand-ins themselves: ``main(["cl7x", ...])``. An option that is not documented, or misspelt, is an error.

They know what the recipe of the module ABI (section 6) uses. "Objects" are pickles of sections and names.
"""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.fake_ticgt.elf import Elf, R, Reloc, Section, Symbol, W, X

VERSION = "5.0.1.LTS"

_NAME = r"[A-Za-z_$][\w$]*"
_COMPILER = (
    r"-mv7524",
    r"--abi=eabi",
    r"--endian=little",
    r"--display_error_number",
    r"--diag_suppress=\d+(,\d+)*",
    r"--fp_mode=(relaxed|strict)",
    r"--fp_reassoc=(on|off)",
    r"--rtti",
    r"-O[0-4]",
    r"--auto_inline=\d+",
    r"-g",
    r"--opt_level=([0-4]|off)",
    r"--c99",
    r"--cpp_default",
    r"--compile_only",
    r"--keep_asm",
    r"--output_file=\S+\.obj",
    r"--c_file=\S+",
    r"--asm_file=\S+\.asm",
    rf"--define={_NAME}(=\w+)?",
    r"--include_path=.+",
    r"--preinclude=\S+",
)
_LINKER = (
    r"--dynamic=(lib|exe)",
    r"--relocatable",
    r"--no_entry_point",
    r"--ram_model",
    r"-x",
    r"--priority",
    r"--warn_sections",
    r"--display_error_number",
    r"--diag_suppress=\d+(,\d+)*",
    r"--soname=\S+",
    rf"--retain={_NAME}",
    rf"--import={_NAME}",
    rf"--export={_NAME}",
    rf"--symbol_map={_NAME}={_NAME}",
    r"--search_path=.+",
    r"--output_file=\S+",
    r"--map_file=\S+",
    r"-l\S+",
    r"-heap=0x[0-9a-f]+",
)


class Wrong(Exception):
    """What a tool complains about."""


@dataclass
class Object:
    sections: dict[str, bytes] = field(default_factory=dict)
    #: name -> section, offset, is a function
    exported: dict[str, tuple[str, int, bool]] = field(default_factory=dict)
    labels: dict[str, tuple[str, int, bool]] = field(default_factory=dict)
    called: list[str] = field(default_factory=list)


def check_options(words: Sequence[str], grammar: Sequence[str], files: str) -> tuple[list[str], list[str]]:
    """Options and file names; an option takes part when one of ``grammar`` matches all of it."""
    options, names = [], []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "-heap":
            word = f"-heap={rest.pop(0) if rest else ''}"
        if not word.startswith("-"):
            if not re.fullmatch(files, word):
                raise Wrong(f"unknown kind of file: {word}")
            names.append(word)
        elif any(re.fullmatch(pattern, word) for pattern in grammar):
            options.append(word)
        else:
            raise Wrong(f'invalid option: "{word}"')
    return options, names


def value(options: Sequence[str], name: str) -> str | None:
    return next((o.partition("=")[2] for o in options if o.startswith(f"--{name}=")), None)


# ------------------------------------------------------------------------------------------------------------ cl7x


def cl7x(words: list[str]) -> None:
    if words == ["--compiler_revision"]:
        print(VERSION)
        return
    options, names = check_options(words, _COMPILER, r"\S+\.(c|cpp|cc|asm)")
    for needed in ("-mv7524", "--abi=eabi", "--compile_only"):
        if needed not in options:
            raise Wrong(f"{needed} is missing")
    output, c_file, asm_file = (value(options, name) for name in ("output_file", "c_file", "asm_file"))
    inputs = [*names, *([c_file] if c_file else []), *([asm_file] if asm_file else [])]
    if output is None or len(inputs) != 1:
        raise Wrong("one input and one output, please")
    if names and "--cpp_default" not in options and names[0].endswith(".c"):
        raise Wrong("C++ is asked for by --cpp_default")
    for folder in (o.partition("=")[2] for o in options if o.startswith("--include_path=")):
        if not Path(folder).is_dir():
            raise Wrong(f"no folder {folder}")
    made = assemble(Path(asm_file)) if asm_file else compile_c(Path(inputs[0]))
    Path(output).write_bytes(pickle.dumps(made))
    if "--keep_asm" in options and not asm_file:
        Path(inputs[0]).with_suffix(".asm").write_text("; code\n")


_CALLABLE = (
    r"c7x_u?int(?:8|16)_\w+|mmalib_\w+|TVMBackend\w+|TVMDSP\w+|tvm_dsp_\w+|tidl_bridge_\w+|missing_\w+|DmaUtils\w+"
    r"|memcpy|memset|memmove|memcmp|memalign|printf|fprintf|malloc|free"
)


def compile_c(path: Path) -> Object:
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)
    if "#error" in text:
        raise Wrong(f'"{path}": #error directive')
    made = Object(sections={".text": b"\x11" * 128, ".bss": b"", ".rodata": b"\x22" * 64, ".data": b"\x33" * 64})
    text = re.sub(r"#define CG_EXPORT.*", "", text)
    for mark in ("__declspec(dllexport)", "CG_EXPORT"):
        for declaration in re.findall(rf"{re.escape(mark)}\s+([^;{{]*)", text):
            name = re.search(rf"({_NAME})\s*(?:\(|=|$)", declaration)
            assert name is not None, declaration
            function = "(" in declaration
            made.exported[name[1]] = (".text" if function else ".data", 8 * (len(made.exported) % 8), function)
    defined = set(re.findall(rf"({_NAME})\s*\([^;{{}}]*\)\s*\{{", text)) | set(
        re.findall(rf"#define\s+({_NAME})", text)
    )
    called = set(re.findall(rf"\b({_CALLABLE})\s*\(", text)) - defined - set(made.exported)
    made.called = sorted(called)
    return made


def assemble(path: Path) -> Object:
    made = Object()
    section = ""
    globals_: list[str] = []
    data: dict[str, bytearray] = {}
    for line in path.read_text(encoding="ascii").splitlines():
        if len(line) > 400:
            raise Wrong("a line is longer than 400 characters")
        line = line.split(";")[0].rstrip()
        if not line:
            continue
        if match := re.fullmatch(rf"({_NAME}):", line):
            made.labels[match[1]] = (section, len(data[section]), False)
            continue
        match = re.fullmatch(r"\s+(\.\w+)(?:\s+(.*))?", line)
        if match is None:
            raise Wrong(f"bad statement: {line}")
        directive, operand = match[1], match[2] or ""
        if directive == ".sect":
            section = operand.strip('"')
            data.setdefault(section, bytearray())
        elif directive == ".align":
            data[section].extend(bytes(-len(data[section]) % int(operand)))
        elif directive == ".space":
            data[section].extend(bytes(int(operand)))
        elif directive == ".global":
            globals_.append(operand)
        elif directive == ".byte":
            numbers = [int(text) for text in operand.split(",")]
            if not all(-128 <= number <= 255 for number in numbers):
                raise Wrong("a byte is out of range")
            data[section].extend(number & 255 for number in numbers)
        elif directive != ".retain":
            raise Wrong(f"unknown directive {directive}")
    if missing := [name for name in globals_ if name not in made.labels]:
        raise Wrong(f"no label {missing[0]}")
    made.sections = {name: bytes(content) for name, content in data.items()}
    return made


# ----------------------------------------------------------------------------------------------------------- lnk7x


def parse_commands(path: Path) -> tuple[list[str], set[str], list[str]]:
    """Options, wildcards of input sections, and output sections in order of a linker command file."""
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(encoding="ascii"), flags=re.DOTALL)
    if text.count("{") != text.count("}"):
        raise Wrong("unbalanced braces")
    head, _, blocks = text.partition("MEMORY")
    options, names = check_options(head.split(), _LINKER, r"\S+\.obj")
    assert not names
    if not re.match(r"\s*\{\s*DDR : origin = 0x80000000, length = 0x19000000\s*\}", blocks):
        raise Wrong("no memory range DDR")
    sections = re.findall(r"^\s*(\.[\w.]+(?::\w+)?)\s*(?::|>)", blocks, re.MULTILINE)
    return options, set(re.findall(r"\*\(([\w.*]+)\)", blocks)), sections


def lnk7x(words: list[str]) -> None:
    options, names = check_options(words, _LINKER, r"\S+\.(obj|cmd)")
    objects: list[Object] = []
    wildcards: set[str] = set()
    sections: list[str] = []
    for name in names:
        if name.endswith(".cmd"):
            more, stars, outputs = parse_commands(Path(name))
            options += more
            wildcards |= stars
            sections += outputs
        else:
            objects.append(pickle.loads(Path(name).read_bytes()))
    output, soname, kind = (value(options, name) for name in ("output_file", "soname", "dynamic"))
    if output is None or soname is None or kind is None or "--no_entry_point" not in options:
        raise Wrong("--output_file, --soname, --dynamic and --no_entry_point, please")
    for item in objects:
        for name in item.sections:
            placed = name in sections or any(name.startswith(star.rstrip("*")) for star in wildcards)
            if not placed:
                raise Wrong(f'warning #10247-D: creating output section "{name}" without a SECTIONS specification')
    if kind == "exe":
        Path(output).write_bytes(link_firmware(objects, soname).write())
        return
    for needed in ("--relocatable", "--ram_model", "-x", "--priority", "--warn_sections", "-heap=0x0"):
        if needed not in options:
            raise Wrong(f"{needed} is missing")
    folders = [Path(o.partition("=")[2]) for o in options if o.startswith("--search_path=")]
    for library in (o[2:] for o in options if o.startswith("-l")):
        if not any((folder / library).is_file() for folder in folders):
            raise Wrong(f'cannot find file "{library}"')
    imports = {o.partition("=")[2] for o in options if o.startswith("--import=")}
    mapped = {o.split("=")[1]: o.split("=")[2] for o in options if o.startswith("--symbol_map=")}
    exports = [o.partition("=")[2] for o in options if o.startswith("--export=")]
    firmware = dynamic_symbols(Path("dsp_syms.out"))
    called = sorted({name for item in objects for name in item.called} - {n for i in objects for n in i.exported})
    lost = [mapped.get(name, name) for name in called if name not in imports or name not in firmware | {"memalign"}]
    if lost:
        rows = "".join(f" {name} lib0.obj\n" for name in lost)
        raise Wrong(
            f" undefined first referenced\n  symbol       in file\n --------- ----------------\n{rows}\n"
            "error #10234-D: unresolved symbols remain"
        )
    Path(output).write_bytes(link_module(objects, soname, sorted(imports), called, exports).write())
    Path(str(value(options, "map_file"))).write_text("MEMORY CONFIGURATION\n")


def dynamic_symbols(path: Path) -> set[str]:
    # Half the time that a stand-in takes to start, and only the linker needs it.
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".dynsym")
        return {symbol.name for symbol in table.iter_symbols()}


def merged(objects: Sequence[Object], names: Callable[[str], bool]) -> tuple[bytes, list[int]]:
    """The sections of these names, one behind the other at multiples of 128, and where each object's begin."""
    data = bytearray()
    starts = []
    for item in objects:
        data.extend(bytes(-len(data) % 128))
        starts.append(len(data))
        for name, content in item.sections.items():
            if names(name):
                data += content
    return bytes(data), starts


def link_firmware(objects: Sequence[Object], soname: str) -> Elf:
    text, _ = merged(objects, lambda name: name == ".text")
    data, _ = merged(objects, lambda name: name == ".data")
    symbols = [
        Symbol(name=name, section=section, offset=offset, function=function)
        for item in objects
        for name, (section, offset, function) in sorted(item.exported.items())
    ]
    return Elf(
        type=2,
        soname=soname,
        needed=(),
        segments=[(R | X, [Section(name=".text", data=text)]), (R | W, [Section(name=".data", data=data)])],
        symbols=symbols,
    )


def link_module(
    objects: Sequence[Object], soname: str, imports: Sequence[str], called: Sequence[str], exports: Sequence[str]
) -> Elf:
    segments = []
    starts: dict[str, list[int]] = {}
    for flags, groups in ((R | X, [".text"]), (R | W, [".data"]), (R, [".rodata", ".se_guard"])):
        content = []
        for group in groups:
            data, starts[group] = merged(objects, lambda name, group=group: name == group)  # type: ignore[misc]
            content.append(Section(name=group, data=data))
        segments.append((flags, content))
    segments[1][1].append(Section(name=".bss", nobits=4096))
    for item in objects:
        for name, content_bytes in item.sections.items():
            if name.startswith(".rodata."):
                segments[2][1].append(Section(name=name, data=content_bytes))
    symbols = [
        Symbol(name=name, section=section, offset=starts[section][index] + offset, function=function, size=8)
        for index, item in enumerate(objects)
        for name, (section, offset, function) in item.exported.items()
    ]
    labels = {name: place for item in objects for name, place in item.labels.items()}
    for name in exports:
        section, offset, _ = labels[name]
        symbols.append(Symbol(name=name, section=section, offset=offset))
    symbols += [Symbol(name=name) for name in imports]
    embedded = [item.sections[".dsp_syms_out"] for item in objects if ".dsp_syms_out" in item.sections]
    return Elf(
        soname=soname,
        segments=segments,
        others=[Section(name=".dsp_syms_out", data=data) for data in embedded],
        symbols=symbols,
        relocs=[
            Reloc(section=".text", offset=8 * index % 64, symbol=name, type=29) for index, name in enumerate(called)
        ],
    )


# ------------------------------------------------------------------------------------------------ strip7x and others


def strip7x(words: list[str]) -> None:
    options, names = check_options(words, (r"-p", r"-o=\S+"), r"\S+\.(out|obj)")
    if len(names) != 1 or not Path(names[0]).read_bytes().startswith(b"\x7fELF"):
        raise Wrong("one ELF file, please")
    if "-p" in options:
        raise Wrong("-p is for static executables only")


def ar7x(words: list[str]) -> None:
    if not words or not re.fullmatch(r"-?[adrtx][qsuv]*", words[0]):
        raise Wrong(f"invalid command: {words[:1]}")


def dis7x(words: list[str]) -> None:
    check_options(words, (r"-[abdghioqstv]+",), r"\S+")


TOOLS: dict[str, Callable[[list[str]], None]] = {
    "cl7x": cl7x,
    "lnk7x": lnk7x,
    "strip7x": strip7x,
    "ar7x": ar7x,
    "dis7x": dis7x,
}


def main(words: Sequence[str]) -> int:
    """Run one tool; a complaint goes to standard error with exit code 1."""
    try:
        TOOLS[words[0]](list(words[1:]))
    except Wrong as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def install(folder: Path) -> Path:
    """Put the stand-ins into ``folder`` as an installation of TI's tools and return it."""
    root = Path(__file__).resolve().parents[2]
    for name in TOOLS:
        program = folder / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(
            f"#!{sys.executable}\n"
            f"import sys\nsys.path.insert(0, {str(root)!r})\n"
            f"from tests.fake_ticgt.tools import main\nsys.exit(main([{name!r}, *sys.argv[1:]]))\n"
        )
        program.chmod(0o755)
    for name in ("rts7524_le.lib", "libc.a"):
        (folder / "lib").mkdir(exist_ok=True)
        (folder / "lib" / name).write_bytes(b"!<arch>\n")
    (folder / "include").mkdir(exist_ok=True)
    return folder
