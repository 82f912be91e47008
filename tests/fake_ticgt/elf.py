"""Writes ELF64 files as TI's linker does for the C7000: dynamic tags that are file offsets, and tags of TI's own.

Independent of the reader in c7x/toolchain/elf.py on purpose. Every knob of ``Elf`` that no linker would turn is there
to break one rule of the loader.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

MACHINE = 145
OSABI = 64
BASE = 0x80000000
R, W, X = 4, 2, 1


@dataclass(kw_only=True)
class Section:
    name: str
    data: bytes = b""
    align: int = 128
    #: Of a section without bytes in the file.
    nobits: int = 0
    #: What the header says, when it should lie.
    said_align: int | None = None

    @property
    def size(self) -> int:
        return self.nobits or len(self.data)


@dataclass(kw_only=True)
class Symbol:
    name: str
    #: None: undefined.
    section: str | None = None
    offset: int = 0
    size: int = 0
    function: bool = False


@dataclass(kw_only=True)
class Reloc:
    section: str
    offset: int
    symbol: str
    type: int = 18


@dataclass(kw_only=True)
class Elf:
    """A file to be: segments (flags and sections), sections outside memory, global symbols, relocations."""

    type: int = 3
    soname: str = "lib0.out"
    needed: Sequence[str] = ("dsp_syms.out",)
    segments: list[tuple[int, list[Section]]] = field(default_factory=list)
    others: list[Section] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)
    relocs: list[Reloc] = field(default_factory=list)
    machine: int = MACHINE
    osabi: int = OSABI
    extra_tags: list[tuple[int, int]] = field(default_factory=list)
    drop_tags: Sequence[int] = ()
    global_shift: int = 0
    count_shift: int = 0
    last_segment_to_end: bool = False
    section_headers: bool = True

    def write(self) -> bytes:
        symbols = list(self.symbols)
        strings = bytearray(b"\0")

        def string(text: str) -> int:
            if not text:
                return 0
            strings.extend(text.encode() + b"\0")
            return len(strings) - len(text.encode()) - 1

        names = [string(s.name) for s in symbols]
        soname = string(self.soname)
        needed = [string(name) for name in self.needed]
        header_count = len(self.segments) + 1
        image = bytearray(64 + 56 * header_count)
        places: dict[str, tuple[int, int]] = {}
        sections: list[tuple[Section, int, int, bool]] = []
        segments: list[list[int]] = []
        address = BASE
        for flags, content in self.segments:
            pad(image, 128)
            start, first = len(image), up(address, 128)
            address = first
            for section in content:
                address = up(address, section.align)
                if not section.nobits:
                    image += bytes(start + address - first - len(image))
                places[section.name] = (address, len(sections) + 1)
                sections.append((section, len(image), address, True))
                image += section.data
                address += section.size
            segments.append([1, flags, start, first, len(image) - start, address - first])
        pad(image, 8)
        table = bytearray(24)
        for name, symbol in zip(names, symbols, strict=True):
            address, index = places[symbol.section] if symbol.section else (0, 0)
            kind = (1 << 4) | (2 if symbol.function else 1)
            table += struct.pack("<IBBHQQ", name, kind, 0, index, address + symbol.offset, symbol.size)
        count = len(symbols) + 1
        hash_table = sysv_table(["", *(s.name for s in symbols)], [s.section is not None for s in symbols])
        hash_table = struct.pack("<II", 1, count + self.count_shift) + hash_table
        numbers = {s.name: i + 1 for i, s in enumerate(symbols)}
        relas = b"".join(
            struct.pack("<QQq", places[r.section][0] + r.offset, numbers[r.symbol] << 32 | r.type, 0)
            for r in self.relocs
        )
        at: dict[str, int] = {}
        tables = {".dynsym": bytes(table), ".dynstr": bytes(strings), ".hash": hash_table, ".rela": relas}
        for title, data in tables.items():
            pad(image, 8)
            at[title] = len(image)
            image += data
            sections.append((Section(name=title, data=data, align=8), at[title], 0, False))
        tags = [(1, offset) for offset in needed]
        tags += [(14, soname), (4, at[".hash"]), (5, at[".dynstr"]), (6, at[".dynsym"]), (10, len(strings)), (11, 24)]
        if relas:
            tags += [(7, at[".rela"]), (8, len(relas)), (9, 24)]
        tags += [(0x6000000D, 24 + self.global_shift), (0x6000000F, names[0] if names else 0), (0x60000011, 0)]
        tags += [(0x70000002, 0), *self.extra_tags, (0, 0)]
        dynamic = b"".join(struct.pack("<qQ", tag, value) for tag, value in tags if tag not in self.drop_tags)
        pad(image, 8)
        segments.append([2, R, len(image), 0, len(dynamic), len(dynamic)])
        image += dynamic
        for section in self.others:
            pad(image, section.align)
            sections.append((section, len(image), 0, False))
            image += section.data
        section_names = bytearray(b"\0")
        headers = bytearray(64)
        for section, offset, address, allocated in sections:
            kind = 8 if section.nobits else {".dynsym": 11, ".dynstr": 3}.get(section.name, 1)
            link = len(sections) - 2 if section.name == ".dynsym" else 0
            align = section.align if section.said_align is None else section.said_align
            headers += struct.pack(
                "<IIQQQQIIQQ",
                len(section_names),
                kind,
                2 if allocated else 0,
                address,
                offset,
                section.size,
                next(i for i, (s, *_) in enumerate(sections, 1) if s.name == ".dynstr") if link else 0,
                1 if link else 0,
                align,
                24 if link else 0,
            )
            section_names += section.name.encode() + b"\0"
        name_at = len(section_names)
        section_names += b".shstrtab\0"
        headers += struct.pack("<IIQQQQIIQQ", name_at, 3, 0, 0, len(image), len(section_names), 0, 0, 1, 0)
        image += section_names
        pad(image, 8)
        headers_at = len(image) if self.section_headers else 0
        if self.section_headers:
            image += headers
        shnum = len(headers) // 64 if self.section_headers else 0
        if self.last_segment_to_end:
            last = segments[-2]
            last[4] = last[5] = len(image) - last[2]
        struct.pack_into(
            "<4sBBBB8xHHIQQQIHHHHHH", image, 0, b"\x7fELF", 2, 1, 1, self.osabi, self.type, self.machine, 1, 0, 64,
            headers_at, 0, 64, 56, header_count, 64, shnum, max(shnum - 1, 0),
        )  # fmt: skip
        for index, (kind, flags, start, address, file_bytes, memory_bytes) in enumerate(segments):
            struct.pack_into(
                "<IIQQQQQQ", image, 64 + 56 * index, kind, flags, start, address, address, file_bytes, memory_bytes, 128
            )
        return bytes(image)


def up(value: int, align: int) -> int:
    return -(-value // align) * align


def pad(image: bytearray, align: int) -> None:
    image.extend(bytes(-len(image) % align))


def sysv_table(names: Sequence[str], defined: Sequence[bool]) -> bytes:
    """One bucket, in which every name is chained to the one before it."""
    chain = [0] + [index - 1 for index in range(1, len(names))]
    return struct.pack(f"<{1 + len(chain)}I", len(names) - 1, *chain)
