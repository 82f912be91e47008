"""Reading loadable modules, and checking them against what the firmware's loader takes (module ABI, section 5).

The loader does not read ELF as others do: on the C7000 it takes the values of dynamic tags for file offsets, ignores
``p_align``, and uses read-only segments where the file lies. So this module reads the tables as that loader does, and
goes on behind damage as far as it can: a damaged module is what it is for. pyelftools lends the names of machines.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from elftools.elf.enums import ENUM_E_MACHINE

from c7x.errors import FormatError, ToolError
from c7x.target import BOARDS
from c7x.toolchain.exports import EXPORTS, firmware_exports, stub_exports

EM_X86_64: Final = 62
EM_C7000: Final = 145
EM_AARCH64: Final = 183
MACHINES: Final[Mapping[int, str]] = {EM_C7000: "C7000", EM_X86_64: "x86-64", EM_AARCH64: "aarch64"}

ET_EXEC: Final = 2
ET_DYN: Final = 3
#: EI_OSABI of TI's tools for the C7000.
OSABI_C7000: Final = 64

PT_LOAD: Final = 1
PT_DYNAMIC: Final = 2
PF_X: Final = 1
PF_W: Final = 2

DT_NEEDED: Final = 1
DT_PLTRELSZ: Final = 2
DT_HASH: Final = 4
DT_STRTAB: Final = 5
DT_SYMTAB: Final = 6
DT_RELA: Final = 7
DT_RELASZ: Final = 8
DT_STRSZ: Final = 10
DT_INIT: Final = 12
DT_SONAME: Final = 14
DT_REL: Final = 17
DT_PLTREL: Final = 20
DT_JMPREL: Final = 23
DT_INIT_ARRAY: Final = 25
DT_INIT_ARRAYSZ: Final = 27
DT_PREINIT_ARRAY: Final = 32
DT_PREINIT_ARRAYSZ: Final = 33
#: Byte offset of the first global symbol in the dynamic symbol table; offset of its name in the string table.
DT_TI_GSYM_OFFSET: Final = 0x6000000D
DT_TI_GSTR_OFFSET: Final = 0x6000000F

SYMBOL_BYTES: Final = 24
RELA_BYTES: Final = 24
_SHF_ALLOC: Final = 2
_SHT_NOBITS: Final = 8

#: Where the loader puts the segments it copies; it ignores p_align (section 5.2).
POOL_ALIGNMENT: Final = 128
POOL_BYTES: Final = 352 * 2**20
STAGING_BYTES: Final = 468 * 2**20
SYMS_NAME: Final = "dsp_syms.out"
SYMS_SECTION: Final = ".dsp_syms_out"
ENTRY: Final = "cg_main_dsp"
WEIGHTS_SYMBOLS: Final = ("_binary_weights_bin_start", "_binary_weights_bin_end", "_binary_weights_bin_size")

#: Tensors lie at multiples of this from the start of weights.bin.
WEIGHTS_ALIGNMENT: Final = 64

#: Relocations of the C7000 (section 5.3) that the loader carries out.
C7000_RELOCATIONS: Final[Mapping[int, str]] = {
    0: "NONE",
    16: "ABS16",
    17: "ABS32",
    18: "ABS64",
    19: "MVK32_LO5",
    20: "MVK32_HI27",
    21: "MVK_LO10",
    22: "MVK64_MID27",
    23: "MVK49_HI12",
    24: "MVK64_HI27",
    25: "PCR_OFFSET_LO5",
    26: "PCR_OFFSET_HI27",
    27: "PCR_BRANCH_LO19",
    28: "PCR_BRANCH_LO24",
    29: "PCR_EBRANCH_LO19",
    30: "PCR_EBRANCH_HI27",
    31: "PREL30",
    32: "PCR_OFFSET_ADDKPC_LO5",
    33: "PCR_OFFSET_ADDKPC_HI27",
}

Bytes = bytes | mmap.mmap


# ---------------------------------------------------------------------------------------------------------- reading


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One program header; sizes in bytes."""

    index: int
    type: int
    flags: int
    offset: int
    address: int
    file_bytes: int
    memory_bytes: int

    @property
    def end(self) -> int:
        """One past its last byte in the file."""
        return self.offset + self.file_bytes

    @property
    def permissions(self) -> str:
        return "".join(letter for letter, bit in (("r", 4), ("w", PF_W), ("x", PF_X)) if self.flags & bit)

    @property
    def in_place(self) -> bool:
        """Whether the firmware uses it where the file lies, instead of copying it to the pool (section 5.2)."""
        return not self.flags & (PF_W | PF_X)

    def holds(self, address: int) -> bool:
        return self.address <= address < self.address + self.memory_bytes


@dataclass(frozen=True, kw_only=True)
class Section:
    """One section header; sizes in bytes."""

    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    alignment: int

    @property
    def allocated(self) -> bool:
        return bool(self.flags & _SHF_ALLOC)


@dataclass(frozen=True, kw_only=True)
class Symbol:
    """One entry of the dynamic symbol table."""

    name: str
    value: int
    size: int
    type: int
    binding: int
    section: int

    @property
    def is_global(self) -> bool:
        return self.binding in (1, 2)

    @property
    def defined(self) -> bool:
        return self.section != 0


@dataclass(frozen=True, kw_only=True)
class Relocation:
    """One entry of a RELA table: the address it changes, its type, the index of its symbol (0: none)."""

    address: int
    type: int
    symbol: int
    table: Literal["rela", "plt"]


@dataclass(frozen=True, kw_only=True)
class Module:
    """A module, as far as it could be read.

    Attributes:
        name: for messages.
        data: the whole file.
        machine, type, osabi: of the ELF header.
        sections: empty when the section headers are missing or lie outside the file.
        tags: the dynamic table without DT_NEEDED.
        needed, soname: names; an empty soname when there is none.
        symbols: the dynamic symbol table, entry 0 included.
    """

    name: str
    data: Bytes
    machine: int
    type: int
    osabi: int
    segments: tuple[Segment, ...]
    sections: tuple[Section, ...]
    tags: Mapping[int, int]
    needed: tuple[str, ...]
    soname: str
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]

    @property
    def is_c7000(self) -> bool:
        return self.machine == EM_C7000

    @property
    def machine_name(self) -> str:
        return MACHINES.get(self.machine) or _machine_name(self.machine)

    @property
    def loads(self) -> tuple[Segment, ...]:
        return tuple(s for s in self.segments if s.type == PT_LOAD)

    @property
    def exports(self) -> tuple[str, ...]:
        """Names that others can find, sorted."""
        return tuple(sorted(s.name for s in self.symbols if s.defined and s.is_global and s.name))

    @property
    def imports(self) -> dict[str, int]:
        """Undefined names, sorted, with the number of relocations that refer to each: 0 is a name merely listed."""
        counts: dict[int, int] = {}
        for relocation in self.relocations:
            counts[relocation.symbol] = counts.get(relocation.symbol, 0) + 1
        found = {s.name: counts.get(i, 0) for i, s in enumerate(self.symbols) if s.name and not s.defined}
        return dict(sorted(found.items()))

    @property
    def used_imports(self) -> tuple[str, ...]:
        return tuple(name for name, count in self.imports.items() if count)

    def symbol(self, name: str) -> Symbol | None:
        """The defined global symbol of that name."""
        return next((s for s in self.symbols if s.name == name and s.defined and s.is_global), None)

    def file_offset(self, address: int) -> int | None:
        """Where the byte at an address lies in the file; None when the file does not hold it."""
        for segment in self.loads:
            if segment.address <= address < segment.address + segment.file_bytes:
                return segment.offset + address - segment.address
        return None

    def section(self, name: str) -> Section | None:
        """The first section whose name begins like ``name`` in the 13 characters that the loader compares."""
        return next((s for s in self.sections if s.name[:13] == name[:13]), None)

    def pseudo_firmware(self) -> Bytes | None:
        """The bytes of the section ``.dsp_syms_out``; None when there is none."""
        section = self.section(SYMS_SECTION)
        if section is None or section.type == _SHT_NOBITS or section.offset + section.size > len(self.data):
            return None
        return self.data[section.offset : section.offset + section.size]

    def weights(self) -> tuple[int, int] | None:
        """File offset and size of the embedded weights; None when there are none or their symbols make no sense."""
        start, end = (self.symbol(name) for name in WEIGHTS_SYMBOLS[:2])
        if start is None or end is None or end.value < start.value:
            return None
        offset = self.file_offset(start.value)
        return None if offset is None else (offset, end.value - start.value)

    @property
    def pool_bytes(self) -> int:
        """What the loader takes from the pool for it."""
        return sum(-(-s.memory_bytes // POOL_ALIGNMENT) * POOL_ALIGNMENT for s in self.loads if not s.in_place)

    @property
    def in_place_bytes(self) -> int:
        return sum(s.file_bytes for s in self.loads if s.in_place)


def _machine_name(number: int) -> str:
    name = next((n for n, v in ENUM_E_MACHINE.items() if v == number), None)
    return f"machine {number}" if name is None else name.removeprefix("EM_").replace("_", " ")


#: What else people take for a module: first bytes, what it is, and what to do.
_FOREIGN: Final[tuple[tuple[bytes, str, str], ...]] = (
    (b"!<arch>\n", "an archive of object files", "inspect lib0.out, which the build links from them"),
    (b"MZ", "a Windows executable", "inspect the lib0.out of a build directory"),
    (b"\xca\xfe\xba\xbe", "a macOS binary", "inspect the lib0.out of a build directory"),
    (b"\xcf\xfa\xed\xfe", "a macOS binary", "inspect the lib0.out of a build directory"),
    (b"PK\x03\x04", "a zip archive", "inspect the lib0.out of a build directory"),
    (b"#!", "a script", "inspect the lib0.out of a build directory"),
    (b"\x1f\x8b", "a gzip archive", "unpack it first"),
)
#: Version words of TI's COFF, and machine words of Microsoft's.
_COFF: Final[Mapping[int, str]] = {0xC1: "TI COFF", 0xC2: "TI COFF", 0x14C: "x86 COFF", 0x8664: "x86-64 COFF"}


def _refuse(name: str, what: str, hint: str) -> FormatError:
    return FormatError(f"{name} is not a module: it is {what}", cause="a module is an ELF64 shared object", hint=hint)


def read_module(path: Path, name: str | None = None) -> Module:
    """Read a module file.

    Args:
        name: what messages call it; by default the path.

    Raises:
        FormatError: there is no such file, it is no ELF file at all, another kind of ELF file, or cut off; told apart.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            data: Bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except OSError as error:
        raise FormatError(
            f"cannot read {path}", cause=error.strerror, hint="give the path of a lib0.out, or of a build directory"
        ) from error
    return parse_module(data, name or str(path))


def parse_module(data: Bytes, name: str) -> Module:
    """Read a module from its bytes; see ``read_module``."""
    head = bytes(data[:64])
    if not head:
        raise FormatError(
            f"{name} is empty", cause="the build or the copy that wrote it was cut off", hint="build again"
        )
    if not head.startswith(b"\x7fELF"):
        for magic, what, hint in _FOREIGN:
            if head.startswith(magic):
                raise _refuse(name, what, hint)
        if len(head) >= 22 and (kind := _COFF.get(int.from_bytes(head[:2], "little"))):
            raise _refuse(name, f"a {kind} file", "build for EABI (--abi=eabi): the loader reads ELF only")
        raise _refuse(name, "no ELF file", "inspect the lib0.out of a build directory")
    if len(head) < 64:
        raise _truncated(name, len(data), 64)
    if head[4] != 2 or head[5] != 1:
        machine = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
        kind = f"{32 if head[4] == 1 else 64}-bit {'little' if head[5] == 1 else 'big'}-endian"
        raise _refuse(
            name, f"a {kind} ELF file for {_machine_name(machine)}", "build the model for the board: --mode c7x_dload"
        )
    osabi = head[7]
    kind_number, machine, _, _, phoff, shoff, _, _, phsize, phnum, shsize, shnum, shstrndx = struct.unpack_from(
        "<HHIQQQIHHHHHH", head, 16
    )
    if machine not in MACHINES:
        raise _refuse(
            name, f"an ELF file for {_machine_name(machine)}", "build the model for the board: --mode c7x_dload"
        )
    if kind_number == 1:
        raise _refuse(name, "an object file that is not linked yet", "inspect lib0.out, which the build links")
    if phnum and phoff + phnum * phsize > len(data):
        raise _truncated(name, len(data), phoff + phnum * phsize)
    segments = tuple(_segments(data, phoff, phnum, phsize))
    if (furthest := max((s.end for s in segments), default=0)) > len(data):
        raise _truncated(name, len(data), furthest)
    sections = tuple(_sections(data, shoff, shnum, shsize, shstrndx))
    return _dynamic(data, name, machine, kind_number, osabi, segments, sections)


def _truncated(name: str, size: int, wanted: int) -> FormatError:
    return FormatError(
        f"{name} is cut off: it has {size} bytes, its headers speak of {wanted}",
        cause="a copy or a build was interrupted, or the disk was full",
        hint="copy or build it again",
    )


def _segments(data: Bytes, offset: int, count: int, size: int) -> Iterator[Segment]:
    if size < 56:
        return
    for index in range(count):
        kind, flags, start, address, _, file_bytes, memory_bytes = struct.unpack_from(
            "<IIQQQQQ", data, offset + index * size
        )
        yield Segment(
            index=index,
            type=kind,
            flags=flags,
            offset=start,
            address=address,
            file_bytes=file_bytes,
            memory_bytes=memory_bytes,
        )


def _sections(data: Bytes, offset: int, count: int, size: int, names: int) -> Iterator[Section]:
    if not offset or size < 64 or names >= count or offset + count * size > len(data):
        return
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, offset + index * size) for index in range(count)]
    table_offset, table_size = rows[names][4], rows[names][5]
    table = bytes(data[table_offset : table_offset + table_size])
    for name, kind, flags, address, start, length, _, _, alignment, _ in rows:
        yield Section(
            name=_text(table, name),
            type=kind,
            flags=flags,
            address=address,
            offset=start,
            size=length,
            alignment=alignment,
        )


def _text(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset)
    return table[offset : end if end >= 0 else len(table)].decode("utf-8", "replace")


def _dynamic(
    data: Bytes,
    name: str,
    machine: int,
    kind: int,
    osabi: int,
    segments: tuple[Segment, ...],
    sections: tuple[Section, ...],
) -> Module:
    """The dynamic table and what it points to."""
    tags: dict[int, int] = {}
    wanted: list[int] = []
    for segment in segments:
        if segment.type == PT_DYNAMIC:
            for position in range(segment.offset, segment.end - 15, 16):
                tag, value = struct.unpack_from("<qQ", data, position)
                if tag == 0:
                    break
                if tag == DT_NEEDED:
                    wanted.append(value)
                else:
                    tags[tag] = value
    loads = [s for s in segments if s.type == PT_LOAD]

    def place(tag: int) -> int | None:
        """The file offset that a tag means: its very value on the C7000, elsewhere an address."""
        value = tags.get(tag)
        if value is None:
            return None
        if machine == EM_C7000:
            return value if value < len(data) else None
        return next((s.offset + value - s.address for s in loads if 0 <= value - s.address < s.file_bytes), None)

    strings_at = place(DT_STRTAB)
    strings = b"" if strings_at is None else bytes(data[strings_at : strings_at + tags.get(DT_STRSZ, 0)])
    hash_at = place(DT_HASH)
    symbols_at = place(DT_SYMTAB)
    count = 0
    if hash_at is not None and hash_at + 8 <= len(data):
        count = struct.unpack_from("<II", data, hash_at)[1]
    if symbols_at is not None:
        count = min(count, (len(data) - symbols_at) // SYMBOL_BYTES)
    symbols = tuple(_symbols(data, symbols_at, count, strings)) if symbols_at is not None else ()
    relocations = [
        *_relocations(data, place(DT_RELA), tags.get(DT_RELASZ, 0), "rela"),
        *_relocations(data, place(DT_JMPREL), tags.get(DT_PLTRELSZ, 0), "plt"),
    ]
    return Module(
        name=name,
        data=data,
        machine=machine,
        type=kind,
        osabi=osabi,
        segments=segments,
        sections=sections,
        tags=tags,
        needed=tuple(_text(strings, offset) for offset in wanted),
        soname=_text(strings, tags[DT_SONAME]) if DT_SONAME in tags else "",
        symbols=symbols,
        relocations=tuple(relocations),
    )


def _symbols(data: Bytes, offset: int, count: int, strings: bytes) -> Iterator[Symbol]:
    for index in range(count):
        name, info, _, section, value, size = struct.unpack_from("<IBBHQQ", data, offset + index * SYMBOL_BYTES)
        yield Symbol(
            name=_text(strings, name), value=value, size=size, type=info & 15, binding=info >> 4, section=section
        )


def _relocations(data: Bytes, offset: int | None, size: int, table: Literal["rela", "plt"]) -> Iterator[Relocation]:
    if offset is None:
        return
    for position in range(offset, min(offset + size, len(data)) - RELA_BYTES + 1, RELA_BYTES):
        address, info, _ = struct.unpack_from("<QQq", data, position)
        yield Relocation(address=address, type=info & 0xFFFFFFFF, symbol=info >> 32, table=table)


def sysv_hash(name: str) -> int:
    """The hash function of DT_HASH (System V ABI)."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        value = (value ^ (value & 0xF0000000) >> 24) & 0x0FFFFFFF
    return value


# ------------------------------------------------------------------------------------------------------------- rules


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One thing that the loader wants.

    Attributes:
        name: in reports.
        check: what was found when the rule is broken, None when it is kept; gets the module and the board or None.
        why: why it matters.
        hint: what to do.
        needs: rules without which this one cannot be judged.
        c7000: whether the rule is of the C7000's loader only.
    """

    name: str
    check: Callable[[Module, str | None], str | None]
    why: str
    hint: str
    needs: tuple[str, ...] = ()
    c7000: bool = False


Status = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The answer of one rule; ``found`` is text for a failed one, ``why`` and ``hint`` come from the rule."""

    rule: str
    status: Status
    found: str | None = None
    why: str | None = None
    hint: str | None = None


def _some(names: Sequence[str], most: int = 5) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def _check_type(module: Module, board: str | None) -> str | None:
    return None if module.type == ET_DYN else f"e_type is {module.type}"


def _check_osabi(module: Module, board: str | None) -> str | None:
    return None if module.osabi == OSABI_C7000 else f"EI_OSABI is {module.osabi}"


def _check_segment_end(module: Module, board: str | None) -> str | None:
    late = [s for s in module.loads if s.end >= len(module.data)]
    if not module.loads:
        return "there is no PT_LOAD segment"
    return f"segment {late[0].index} ends at byte {late[0].end} of {len(module.data)}" if late else None


def _check_dynamic(module: Module, board: str | None) -> str | None:
    if not any(s.type == PT_DYNAMIC for s in module.segments):
        return "there is no PT_DYNAMIC segment"
    wanted = {DT_STRTAB: "DT_STRTAB", DT_STRSZ: "DT_STRSZ", DT_HASH: "DT_HASH", DT_SYMTAB: "DT_SYMTAB"}
    missing = [name for tag, name in wanted.items() if tag not in module.tags]
    return f"{_some(missing)} is missing" if missing else None


def _check_soname(module: Module, board: str | None) -> str | None:
    return None if module.soname else "DT_SONAME is missing or empty"


def _check_needed(module: Module, board: str | None) -> str | None:
    return None if module.needed == (SYMS_NAME,) else f"DT_NEEDED: {', '.join(module.needed) or 'none'}"


def _offset(module: Module, tag: int) -> int | None:
    value = module.tags[tag]
    return (value if value < len(module.data) else None) if module.is_c7000 else module.file_offset(value)


def _check_hash(module: Module, board: str | None) -> str | None:
    at, symbols_at = (_offset(module, tag) for tag in (DT_HASH, DT_SYMTAB))
    if at is None or symbols_at is None or at + 8 > len(module.data):
        return "DT_HASH or DT_SYMTAB points outside the file"
    buckets, count = struct.unpack_from("<II", module.data, at)
    if at + 8 + 4 * (buckets + count) > len(module.data) or symbols_at + count * SYMBOL_BYTES > len(module.data):
        return f"the table has {buckets} buckets and {count} symbols, which do not fit the file"
    table = next((s for s in module.sections if s.name == ".dynsym"), None)
    if table is not None and table.size != count * SYMBOL_BYTES:
        return f"nchain is {count}, the symbol table has {table.size // SYMBOL_BYTES} entries"
    if not buckets:
        return "the table has no buckets"
    words = struct.unpack_from(f"<{buckets + count}I", module.data, at + 8)
    for index, symbol in enumerate(module.symbols):
        if not (symbol.defined and symbol.is_global and symbol.name):
            continue
        cursor, steps = words[sysv_hash(symbol.name) % buckets], 0
        while cursor not in (0, index) and cursor < count and steps <= count:
            cursor, steps = words[buckets + cursor], steps + 1
        if cursor != index:
            return f"{symbol.name} is not found through it"
    return None


def _check_globals(module: Module, board: str | None) -> str | None:
    offset, name = module.tags.get(DT_TI_GSYM_OFFSET), module.tags.get(DT_TI_GSTR_OFFSET)
    if offset is None or name is None:
        return "tag 0x6000000D or 0x6000000F is missing"
    if offset % SYMBOL_BYTES:
        return f"tag 0x6000000D is {offset}, which is no whole number of symbols"
    hidden = [s.name for s in module.symbols[: offset // SYMBOL_BYTES] if s.defined and s.is_global]
    if hidden:
        return f"tag 0x6000000D is {offset}, which leaves out {_some(hidden)}"
    return None if name <= module.tags[DT_STRSZ] else f"tag 0x6000000F is {name}, behind the string table"


def _check_rela(module: Module, board: str | None) -> str | None:
    if DT_REL in module.tags:
        return "there is a DT_REL table"
    kind = module.tags.get(DT_PLTREL, DT_RELA)
    return None if kind == DT_RELA else f"DT_PLTREL is {kind}"


def _check_rela_order(module: Module, board: str | None) -> str | None:
    for table in ("rela", "plt"):
        last = -1
        for relocation in module.relocations:
            if relocation.table != table:
                continue
            index = next((s.index for s in module.loads if s.holds(relocation.address)), None)
            if index is None:
                return f"a relocation at {relocation.address:#x} lies in no segment"
            if index < last:
                return f"a relocation at {relocation.address:#x} in segment {index} comes behind segment {last}'s"
            last = index
    return None


def _check_rela_types(module: Module, board: str | None) -> str | None:
    unknown = sorted({r.type for r in module.relocations} - C7000_RELOCATIONS.keys())
    return f"relocation type {_some([str(n) for n in unknown])}" if unknown else None


def _check_constructors(module: Module, board: str | None) -> str | None:
    names = {DT_INIT: "DT_INIT", DT_INIT_ARRAYSZ: "DT_INIT_ARRAYSZ", DT_PREINIT_ARRAYSZ: "DT_PREINIT_ARRAYSZ"}
    found = [f"{name} is {module.tags[tag]:#x}" for tag, name in names.items() if module.tags.get(tag)]
    return _some(found) or None


def _check_readonly_relocations(module: Module, board: str | None) -> str | None:
    for segment in module.loads:
        if segment.in_place:
            inside = [r for r in module.relocations if segment.holds(r.address)]
            if inside:
                return f"{len(inside)} relocations in segment {segment.index}, the first at {inside[0].address:#x}"
    return None


def _segment_of(module: Module, section: Section) -> Segment | None:
    if not section.allocated or not section.size:
        return None
    return next((s for s in module.loads if s.holds(section.address)), None)


def _check_in_place_alignment(module: Module, board: str | None) -> str | None:
    for section in module.sections:
        segment = _segment_of(module, section)
        if segment is not None and segment.in_place and section.offset % max(section.alignment, 1):
            return f"{section.name} wants {section.alignment} bytes and lies at file offset {section.offset:#x}"
    return None


def _check_pool_alignment(module: Module, board: str | None) -> str | None:
    for section in module.sections:
        segment = _segment_of(module, section)
        if segment is None or segment.in_place or section.alignment <= 1:
            continue
        # The virtual DSP keeps the distance between segments, the firmware places each by itself.
        start = segment.address if module.is_c7000 else 0
        if section.alignment > POOL_ALIGNMENT or (section.address - start) % section.alignment:
            return f"{section.name} wants {section.alignment} bytes"
    return None


def _check_sections(module: Module, board: str | None) -> str | None:
    if not module.sections:
        return "there are no valid section headers"
    return None if module.section(SYMS_SECTION) else f"there is no section {SYMS_SECTION}"


def _inner(module: Module) -> Module | None:
    data = module.pseudo_firmware()
    if data is None:
        return None
    try:
        return parse_module(data, f"{SYMS_SECTION} of {module.name}")
    except FormatError:
        return None


def _check_pseudo_firmware(module: Module, board: str | None) -> str | None:
    inner = _inner(module)
    if inner is None:
        return f"{SYMS_SECTION} holds no complete ELF file"
    if inner.machine != module.machine:
        return f"it is for {inner.machine_name}, the module for {module.machine_name}"
    if inner.soname != SYMS_NAME:
        return f"its soname is {inner.soname!r}"
    if module.is_c7000 and inner.type != ET_EXEC:
        return f"its e_type is {inner.type}"
    return _check_dynamic(inner, None)


def _check_pseudo_symbols(module: Module, board: str | None) -> str | None:
    inner = _inner(module)
    assert inner is not None
    missing = sorted(set(module.used_imports) - set(inner.exports))
    return f"it lacks {_some(missing)}" if missing else None


def _check_entry(module: Module, board: str | None) -> str | None:
    symbol = module.symbol(ENTRY)
    if symbol is None:
        return f"it does not export {ENTRY}"
    segment = next((s for s in module.loads if s.holds(symbol.value)), None)
    return None if segment is not None and segment.flags & PF_X else f"{ENTRY} does not lie in executable memory"


def _check_weights(module: Module, board: str | None) -> str | None:
    start, end, size = (module.symbol(name) for name in WEIGHTS_SYMBOLS)
    if start is None and end is None and size is None:
        return None
    if start is None or end is None or size is None:
        missing = [n for n, s in zip(WEIGHTS_SYMBOLS, (start, end, size), strict=True) if s is None]
        return f"{_some(missing)} is missing"
    at, size_at = module.weights(), module.file_offset(size.value)
    if at is None or size_at is None or module.file_offset(max(end.value - 1, start.value)) is None:
        return "the symbols point outside the file"
    said = struct.unpack_from("<I", module.data, size_at)[0]
    return None if said == at[1] else f"the size says {said} bytes, the symbols span {at[1]}"


def _check_staging(module: Module, board: str | None) -> str | None:
    return None if len(module.data) <= STAGING_BYTES else f"the file has {len(module.data)} bytes"


def _check_pool(module: Module, board: str | None) -> str | None:
    return None if module.pool_bytes <= POOL_BYTES else f"it needs {module.pool_bytes} bytes"


def missing_imports(module: Module, board: str) -> list[str]:
    """The names that the module uses and the board's firmware does not have."""
    table = firmware_exports(board) if module.is_c7000 else stub_exports(board)
    return [name for name in module.used_imports if name not in table]


def _describe_import(name: str) -> str:
    export = EXPORTS.get(name)
    match export.availability if export else None:
        case "tidl":
            return f"{name} (only in firmware built with TIDL)"
        case "mmalib":
            return f"{name} (only in firmware built with MMALIB)"
        case "stub":
            return f"{name} (in no firmware, although the pseudo firmware names it)"
        case _:
            return name


def _check_imports(module: Module, board: str | None) -> str | None:
    boards = [board] if board else sorted(BOARDS)
    missing = {name: missing_imports(module, name) for name in boards}
    if not all(missing.values()):
        return None
    fewest = min(boards, key=lambda name: len(missing[name]))
    return f"{fewest} lacks {_some([_describe_import(name) for name in missing[fewest]])}"


_BUILD_AGAIN: Final = (
    "build it with c7x build --mode c7x_dload, or give the linker the options that c7x build --dry-run shows"
)

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        name="file-type",
        check=_check_type,
        why="the loader takes ET_DYN (3) only",
        hint="link with --dynamic=lib",
    ),
    Rule(
        name="os-abi",
        check=_check_osabi,
        why="the loader takes EI_OSABI 64 only",
        hint="link with TI's lnk7x for --abi=eabi",
        c7000=True,
    ),
    Rule(
        name="dynamic-table",
        check=_check_dynamic,
        why="the loader finds symbols and relocations through it alone",
        hint="link with --dynamic=lib",
    ),
    Rule(
        name="segment-end",
        check=_check_segment_end,
        why="the loader wants every segment to end before the file's last byte",
        hint="keep the section headers behind the segments: do not strip the module",
    ),
    Rule(
        name="soname",
        check=_check_soname,
        why="the loader tells modules apart by it",
        hint="link with --soname=lib0.out",
        needs=("dynamic-table",),
    ),
    Rule(
        name="needed",
        check=_check_needed,
        why=f"the firmware knows one dependency, {SYMS_NAME}: another fails the load, none leaves imports unbound",
        hint=f"link with -l{SYMS_NAME} and no other dynamic library",
        needs=("dynamic-table",),
    ),
    Rule(
        name="symbol-hash",
        check=_check_hash,
        why="the loader counts symbols by the System V hash table and looks names up in it",
        hint=_BUILD_AGAIN,
        needs=("dynamic-table",),
    ),
    Rule(
        name="global-symbols",
        check=_check_globals,
        why="the firmware looks exported names up from the first global symbol on",
        hint=_BUILD_AGAIN,
        needs=("dynamic-table", "symbol-hash"),
        c7000=True,
    ),
    Rule(
        name="relocation-format",
        check=_check_rela,
        why="the loader carries out RELA relocations only",
        hint=_BUILD_AGAIN,
        needs=("dynamic-table",),
    ),
    Rule(
        name="relocation-order",
        check=_check_rela_order,
        why="scanning a segment's relocations stops at the first one beyond it; later ones are never carried out",
        hint=_BUILD_AGAIN,
        needs=("dynamic-table", "relocation-format"),
        c7000=True,
    ),
    Rule(
        name="relocation-types",
        check=_check_rela_types,
        why="the loader fails on types it does not know, PCR16 (4) among them",
        hint="compile every object with -mv7524 and without options for position",
        needs=("dynamic-table", "relocation-format"),
        c7000=True,
    ),
    Rule(
        name="constructors",
        check=_check_constructors,
        why="the firmware runs no constructors: it answers them with an error, and the load fails",
        hint="initialise static C++ objects with constants, or in the first call",
        needs=("dynamic-table",),
    ),
    Rule(
        name="read-only-relocations",
        check=_check_readonly_relocations,
        why="read-only segments are used in place; their cache is invalidated after relocation, which loses the change",
        hint="keep no pointers in constant data, or make that data writable",
        needs=("dynamic-table",),
    ),
    Rule(
        name="in-place-alignment",
        check=_check_in_place_alignment,
        why="read-only segments are used where the file lies, so the file offset decides about alignment",
        hint="align the section to 128 in the linker command file",
    ),
    Rule(
        name="pool-alignment",
        check=_check_pool_alignment,
        why=f"the loader aligns what it copies to {POOL_ALIGNMENT} bytes and ignores p_align",
        hint=f"ask for {POOL_ALIGNMENT} bytes at most",
    ),
    Rule(
        name="sections",
        check=_check_sections,
        why=f"the firmware finds {SYMS_SECTION} by its section name",
        hint="link the embedded pseudo firmware in, and do not strip section headers",
    ),
    Rule(
        name="pseudo-firmware",
        check=_check_pseudo_firmware,
        why="the firmware loads the inner file first and binds the module's imports through it",
        hint=_BUILD_AGAIN,
        needs=("sections",),
    ),
    Rule(
        name="pseudo-firmware-symbols",
        check=_check_pseudo_symbols,
        why="an import that the inner file does not define cannot be bound, and the load fails",
        hint=_BUILD_AGAIN,
        needs=("sections", "pseudo-firmware", "dynamic-table"),
    ),
    Rule(
        name="entry",
        check=_check_entry,
        why=f"the firmware calls {ENTRY} and looks for no other name",
        hint="compile lib0.c with the module, and keep its CG_EXPORT",
        needs=("dynamic-table", "symbol-hash"),
    ),
    Rule(
        name="weights",
        check=_check_weights,
        why="the firmware reads embedded weights through these three symbols",
        hint=_BUILD_AGAIN,
        needs=("dynamic-table", "symbol-hash"),
    ),
    Rule(
        name="staging-size",
        check=_check_staging,
        why=f"the file must fit the staging region of {STAGING_BYTES} bytes",
        hint="leave the weights out of the module and load weights.bin by itself, or make the model smaller",
    ),
    Rule(
        name="pool-size",
        check=_check_pool,
        why=f"code and writable data must fit the pool of {POOL_BYTES} bytes",
        hint="make the model's activations smaller: a smaller input, or fewer channels",
    ),
    Rule(
        name="imports",
        check=_check_imports,
        why="a name that the firmware lacks keeps its dummy address: the load succeeds and the call goes astray",
        hint="compile the model with --board for this board, and take foreign code out that calls the name",
        needs=("dynamic-table", "symbol-hash"),
    ),
)


def check_module(module: Module, board: str | None = None) -> tuple[Finding, ...]:
    """What every rule says about a module, in the order of the rules.

    Args:
        board: whose firmware the imports are checked against; None: the module must fit one board at least.
    """
    findings: list[Finding] = []
    kept: set[str] = set()
    for rule in RULES:
        if rule.c7000 and not module.is_c7000:
            kept.add(rule.name)
            continue
        if not kept.issuperset(rule.needs):
            findings.append(Finding(rule=rule.name, status="skipped"))
            continue
        found = rule.check(module, board)
        if found is None:
            kept.add(rule.name)
            findings.append(Finding(rule=rule.name, status="ok"))
        else:
            findings.append(Finding(rule=rule.name, status="failed", found=found, why=rule.why, hint=rule.hint))
    return tuple(findings)


def require_module(path: Path, board: str | None, *, weights: Path | None = None) -> Module:
    """Read a module that a build has made and check it.

    Args:
        weights: the weights.bin that the module must hold, byte for byte.

    Raises:
        ToolError: a rule is broken; the message names it, the cause says why it matters.
    """
    try:
        module = read_module(path, path.name)
    except FormatError as error:
        raise ToolError(
            f"the tools made no module: {error.message}",
            cause=error.cause,
            hint="run with --verbose to see their words",
        ) from error
    for finding in check_module(module, board):
        if finding.status == "failed":
            raise ToolError(
                f"{path.name} breaks the rule {finding.rule}: {finding.found}", cause=finding.why, hint=finding.hint
            )
    if weights is not None and weights.stat().st_size:
        place = module.weights()
        content = weights.read_bytes()
        if place is None or bytes(module.data[place[0] : place[0] + place[1]]) != content:
            raise ToolError(
                f"{path.name} does not hold the bytes of {weights.name}",
                cause="the assembler or the linker changed them or left them out",
                hint="run with --verbose to see the tools' words, and report it",
            )
        if place[0] % WEIGHTS_ALIGNMENT:
            raise ToolError(
                f"the weights lie at byte {place[0]} of {path.name}, which is no multiple of {WEIGHTS_ALIGNMENT}",
                cause="they are used where the file lies, and kernels load vectors from them",
                hint=f"align .rodata.weights to {WEIGHTS_ALIGNMENT} or more in the linker command file",
            )
    return module


# ------------------------------------------------------------------------------------------------------------ report


def describe_module(path: Path, board: str | None = None) -> dict[str, Any]:
    """What ``c7x inspect`` shows of a module, as JSON values.

    Returns:
        ``machine``, ``soname``, ``needed``, ``bytes``; ``segments`` (``offset``, ``address``, ``file_bytes``,
        ``memory_bytes``, ``permissions``, ``placement``: pool or in place); ``sections`` (``name``, ``bytes``);
        ``exports``; ``imports`` (name to number of uses); ``weights_bytes`` (None without embedded weights);
        ``memory`` (``staging_bytes``, ``pool_bytes``, ``in_place_bytes`` and the limits); ``boards`` (name to the
        imports it lacks); ``checks`` (the fields of ``Finding``); ``loads`` and ``verdict``.

    Raises:
        FormatError: it is no module.
    """
    module = read_module(path)
    findings = check_module(module, board)
    broken = [f.rule for f in findings if f.status == "failed"]
    boards = {name: missing_imports(module, name) for name in ([board] if board else sorted(BOARDS))}
    where = "the firmware of" if module.is_c7000 else f"the virtual DSP on {module.machine_name}, as"
    fitting = [name for name, missing in boards.items() if not missing]
    weights = module.weights()
    return {
        "file": str(path),
        "bytes": len(module.data),
        "machine": module.machine_name,
        "soname": module.soname,
        "needed": list(module.needed),
        "segments": [
            {
                "offset": s.offset,
                "address": s.address,
                "file_bytes": s.file_bytes,
                "memory_bytes": s.memory_bytes,
                "permissions": s.permissions,
                "placement": "in place" if s.in_place else "pool",
            }
            for s in module.loads
        ],
        "sections": [{"name": s.name, "bytes": s.size} for s in module.sections if s.name and s.size],
        "exports": list(module.exports),
        "imports": module.imports,
        "weights_bytes": None if weights is None else weights[1],
        "memory": {
            "staging_bytes": len(module.data),
            "staging_limit": STAGING_BYTES,
            "pool_bytes": module.pool_bytes,
            "pool_limit": POOL_BYTES,
            "in_place_bytes": module.in_place_bytes,
        },
        "boards": boards,
        "checks": [
            {"rule": f.rule, "status": f.status, "found": f.found, "why": f.why, "hint": f.hint} for f in findings
        ],
        "loads": not broken,
        "verdict": f"breaks {_some(broken)}" if broken else f"loads on {where} {' and '.join(fitting)}",
    }
