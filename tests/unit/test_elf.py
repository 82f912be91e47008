"""Modules that break one rule of the loader each, written byte by byte; and files that are no modules at all."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from c7x.errors import FormatError, ToolError
from c7x.toolchain import elf
from c7x.toolchain.elf import (
    RULES,
    check_module,
    describe_module,
    parse_module,
    read_module,
    require_module,
    sysv_hash,
)
from c7x.toolchain.exports import firmware_exports
from tests.fake_ticgt.elf import Elf, R, Reloc, Section, Symbol, W, X

WEIGHTS = bytes(range(200))
IMPORTS = ("memcpy", "memset", "c7x_int8_relu")


def firmware() -> Elf:
    """A pseudo firmware."""
    names = sorted({*IMPORTS, "printf", "c7x_int8_max_pool_tidl", "DmaUtilsAutoInc3d_wait"})
    return Elf(
        type=2,
        soname="dsp_syms.out",
        needed=(),
        segments=[(R | X, [Section(name=".text", data=bytes(128))])],
        symbols=[Symbol(name=name, section=".text", offset=8 * i, function=True) for i, name in enumerate(names)],
    )


def module() -> Elf:
    """A module that keeps every rule, with everything in it that a rule looks at."""
    weights = WEIGHTS + struct.pack("<I", len(WEIGHTS))
    return Elf(
        segments=[
            (R | X, [Section(name=".text", data=b"\x11" * 256)]),
            (R | W, [Section(name=".data", data=b"\x33" * 64), Section(name=".bss", nobits=1000)]),
            (R, [Section(name=".rodata", data=b"\x22" * 70), Section(name=".rodata.weights", data=weights)]),
        ],
        others=[Section(name=".dsp_syms_out", data=firmware().write())],
        symbols=[
            Symbol(name="cg_main_dsp", section=".text", offset=64, function=True),
            Symbol(name="_binary_weights_bin_start", section=".rodata.weights"),
            Symbol(name="_binary_weights_bin_end", section=".rodata.weights", offset=200),
            Symbol(name="_binary_weights_bin_size", section=".rodata.weights", offset=200),
            *(Symbol(name=name) for name in IMPORTS),
        ],
        relocs=[
            Reloc(section=".text", offset=0, symbol="memcpy", type=29),
            Reloc(section=".text", offset=16, symbol="memset", type=30),
            Reloc(section=".data", offset=8, symbol="c7x_int8_relu"),
        ],
    )


def write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "lib0.out"
    path.write_bytes(data)
    return path


def broken(data: bytes, board: str | None = None) -> list[str]:
    return [f.rule for f in check_module(parse_module(data, "lib0.out"), board) if f.status == "failed"]


def by_name(module: Elf, name: str) -> Section:
    sections = [s for _, group in module.segments for s in group] + module.others
    return next(s for s in sections if s.name == name)


# ------------------------------------------------------------------------------------------------------- good modules


@pytest.mark.parametrize("board", ["beagley-ai", "j722s-evm", None])
def test_good_module(board: str | None) -> None:
    findings = check_module(parse_module(module().write(), "lib0.out"), board)
    assert [f.rule for f in findings] == [rule.name for rule in RULES]
    assert {f.status for f in findings} == {"ok"}


def test_description(tmp_path: Path) -> None:
    data = module().write()
    result = describe_module(write(tmp_path, data), "beagley-ai")
    assert result["machine"] == "C7000"
    assert result["bytes"] == result["memory"]["staging_bytes"] == len(data)
    assert result["soname"] == "lib0.out"
    assert result["needed"] == ["dsp_syms.out"]
    assert result["exports"] == sorted(
        ["cg_main_dsp", "_binary_weights_bin_end", "_binary_weights_bin_size", "_binary_weights_bin_start"]
    )
    assert result["imports"] == {"c7x_int8_relu": 1, "memcpy": 1, "memset": 1}
    assert result["weights_bytes"] == 200
    # 256 bytes of code; 64 of data, 64 to the next multiple of 128, and 1000 cleared, up to 1152.
    assert result["memory"]["pool_bytes"] == 256 + 1152
    assert result["memory"]["in_place_bytes"] == 128 + 204
    assert [(s["permissions"], s["placement"]) for s in result["segments"]] == [
        ("rx", "pool"),
        ("rw", "pool"),
        ("r", "in place"),
    ]
    assert result["loads"]
    assert result["verdict"] == "loads on the firmware of beagley-ai"


def test_module_without_weights() -> None:
    made = module()
    made.symbols = [s for s in made.symbols if not s.name.startswith("_binary")]
    assert broken(made.write()) == []
    assert parse_module(made.write(), "x").weights() is None


def test_names_that_are_listed_but_not_used_do_no_harm() -> None:
    made = module()
    made.symbols += [Symbol(name="memalign"), Symbol(name="c7x_int8_max_pool_tidl")]
    assert broken(made.write(), "beagley-ai") == []


def test_hash_function() -> None:
    # The values of the System V ABI's own example function, computed by hand for short names.
    assert [sysv_hash(name) for name in ("", "a", "ab", "printf", "exit")] == [0, 0x61, 0x672, 0x77905A6, 0x6CF04]


def test_every_import_of_both_boards_is_accepted() -> None:
    for board in ("beagley-ai", "j722s-evm"):
        names = sorted(firmware_exports(board))
        made, inner = module(), firmware()
        inner.symbols = [Symbol(name=name, section=".text") for name in names]
        made.others = [Section(name=".dsp_syms_out", data=inner.write())]
        made.symbols = made.symbols[:4] + [Symbol(name=name) for name in names]
        made.relocs = [Reloc(section=".text", offset=8, symbol=name) for name in names]
        assert broken(made.write(), board) == []


# ------------------------------------------------------------------------------------------------- one rule each

Mutation = Callable[[Elf], None]


def _set(**values: object) -> Mutation:
    def change(made: Elf) -> None:
        for name, value in values.items():
            assert hasattr(made, name)
            setattr(made, name, value)

    return change


def _inner(**values: object) -> Mutation:
    def change(made: Elf) -> None:
        inner = firmware()
        _set(**values)(inner)
        by_name(made, ".dsp_syms_out").data = inner.write()

    return change


def _section(title: str, /, **values: object) -> Mutation:
    def change(made: Elf) -> None:
        for key, value in values.items():
            setattr(by_name(made, title), key, value)

    return change


def _symbol(name: str, **values: object) -> Mutation:
    def change(made: Elf) -> None:
        for key, value in values.items():
            setattr(next(s for s in made.symbols if s.name == name), key, value)

    return change


def _import(name: str) -> Mutation:
    def change(made: Elf) -> None:
        made.symbols.append(Symbol(name=name))
        made.relocs.insert(0, Reloc(section=".text", offset=32, symbol=name, type=29))

    return change


def _reloc(section: str, kind: int) -> Mutation:
    def change(made: Elf) -> None:
        reloc = Reloc(section=section, offset=8, symbol="memcpy", type=kind)
        made.relocs.insert(0 if section == ".text" else len(made.relocs), reloc)

    return change


def _without(name: str) -> Mutation:
    def change(made: Elf) -> None:
        made.symbols = [s for s in made.symbols if s.name != name]

    return change


def _truncated_inner(made: Elf) -> None:
    section = by_name(made, ".dsp_syms_out")
    section.data = section.data[: len(section.data) // 2]


def _reversed(made: Elf) -> None:
    made.relocs.reverse()


MUTATIONS: list[tuple[str, str, Mutation]] = [
    ("file-type", "e_type is 2", _set(type=2)),
    ("os-abi", "EI_OSABI is 0", _set(osabi=0)),
    ("dynamic-table", "DT_STRSZ", _set(drop_tags=(10,))),
    ("dynamic-table", "DT_HASH", _set(drop_tags=(4,))),
    ("dynamic-table", "DT_SYMTAB", _set(drop_tags=(6,))),
    ("dynamic-table", "DT_STRTAB", _set(drop_tags=(5,))),
    ("segment-end", "segment 2 ends at byte", _set(last_segment_to_end=True)),
    ("soname", "DT_SONAME", _set(soname="")),
    ("soname", "DT_SONAME", _set(drop_tags=(14,))),
    ("needed", "none", _set(needed=())),
    ("needed", "libc.so", _set(needed=("libc.so",))),
    ("needed", "dsp_syms.out, libm.so", _set(needed=("dsp_syms.out", "libm.so"))),
    ("symbol-hash", "nchain is 7", _set(count_shift=-1)),
    ("symbol-hash", "do not fit", _set(count_shift=1_000_000)),
    ("global-symbols", "0x6000000D", _set(drop_tags=(0x6000000D,))),
    ("global-symbols", "leaves out cg_main_dsp", _set(global_shift=24)),
    ("global-symbols", "no whole number", _set(global_shift=4)),
    ("relocation-format", "DT_REL", _set(extra_tags=[(17, 64), (18, 16)])),
    ("relocation-format", "DT_PLTREL is 17", _set(extra_tags=[(20, 17)])),
    ("relocation-order", "comes behind", _reversed),
    ("relocation-types", "type 4", _reloc(".text", 4)),
    ("relocation-types", "type 99", _reloc(".text", 99)),
    ("constructors", "DT_INIT_ARRAYSZ", _set(extra_tags=[(25, 64), (27, 8)])),
    ("constructors", "DT_PREINIT_ARRAYSZ", _set(extra_tags=[(32, 64), (33, 8)])),
    ("constructors", "DT_INIT is", _set(extra_tags=[(12, 64)])),
    ("read-only-relocations", "1 relocations in segment 2", _reloc(".rodata", 18)),
    ("in-place-alignment", ".rodata.weights", _section(".rodata.weights", said_align=1 << 20)),
    ("pool-alignment", ".bss wants 256", _section(".bss", said_align=256)),
    ("sections", "no valid", _set(section_headers=False)),
    ("sections", "no section .dsp_syms_out", _section(".dsp_syms_out", name=".dsp_syms_xx")),
    ("pseudo-firmware", "no complete ELF", _truncated_inner),
    ("pseudo-firmware", "no complete ELF", _section(".dsp_syms_out", data=b"")),
    ("pseudo-firmware", "soname is 'other.out'", _inner(soname="other.out")),
    ("pseudo-firmware", "e_type is 3", _inner(type=3)),
    ("pseudo-firmware", "x86-64", _inner(machine=62)),
    ("pseudo-firmware-symbols", "lacks memset", _inner(symbols=[s for s in firmware().symbols if s.name != "memset"])),
    ("entry", "does not export cg_main_dsp", _without("cg_main_dsp")),
    ("entry", "executable", _symbol("cg_main_dsp", section=".data")),
    ("weights", "_binary_weights_bin_end is missing", _without("_binary_weights_bin_end")),
    ("weights", "says 200 bytes, the symbols span 196", _symbol("_binary_weights_bin_end", offset=196)),
    ("weights", "outside the file", _symbol("_binary_weights_bin_end", offset=1 << 20)),
    ("pool-size", "bytes", _section(".bss", nobits=353 * 2**20)),
    ("imports", "c7x_int8_max_pool_tidl (only in firmware built with TIDL)", _import("c7x_int8_max_pool_tidl")),
    ("imports", "DmaUtilsAutoInc3d_wait (in no firmware", _import("DmaUtilsAutoInc3d_wait")),
]


@pytest.mark.parametrize(
    ("rule", "found", "mutate"), MUTATIONS, ids=[f"{r}-{i}" for i, (r, *_) in enumerate(MUTATIONS)]
)
def test_mutation_breaks_exactly_its_rule(rule: str, found: str, mutate: Mutation, tmp_path: Path) -> None:
    made = module()
    mutate(made)
    data = made.write()
    assert broken(data, "beagley-ai") == [rule]
    (finding,) = (f for f in check_module(parse_module(data, "lib0.out"), "beagley-ai") if f.status == "failed")
    assert found in str(finding.found)
    assert finding.why
    assert finding.hint
    result = describe_module(write(tmp_path, data), "beagley-ai")
    assert not result["loads"]
    assert rule in result["verdict"]
    with pytest.raises(ToolError, match=f"breaks the rule {rule}"):
        require_module(tmp_path / "lib0.out", "beagley-ai")


def test_every_rule_has_a_mutation() -> None:
    assert {rule for rule, *_ in MUTATIONS} | {"staging-size"} == {rule.name for rule in RULES}


def test_staging_size(monkeypatch: pytest.MonkeyPatch) -> None:
    data = module().write()
    monkeypatch.setattr(elf, "STAGING_BYTES", len(data))
    assert broken(data) == []
    monkeypatch.setattr(elf, "STAGING_BYTES", len(data) - 1)
    assert broken(data) == ["staging-size"]


def test_an_import_of_one_board_only(tmp_path: Path) -> None:
    made = module()
    _import("c7x_int8_max_pool_tidl")(made)
    data = made.write()
    assert broken(data, "beagley-ai") == ["imports"]
    assert broken(data, "j722s-evm") == []
    result = describe_module(write(tmp_path, data))
    assert result["boards"] == {"beagley-ai": ["c7x_int8_max_pool_tidl"], "j722s-evm": []}
    assert result["verdict"] == "loads on the firmware of j722s-evm"


def test_rules_that_cannot_be_judged_are_skipped() -> None:
    made = module()
    made.drop_tags = (4,)
    statuses = {f.rule: f.status for f in check_module(parse_module(made.write(), "x"))}
    assert statuses["dynamic-table"] == "failed"
    assert statuses["entry"] == statuses["imports"] == statuses["soname"] == "skipped"
    assert statuses["pool-size"] == "ok"


def test_hash_that_does_not_find_an_export() -> None:
    data = bytearray(module().write())
    at = parse_module(bytes(data), "x").tags[elf.DT_HASH]
    # The chain's start is the last symbol: without it nothing is found.
    struct.pack_into("<I", data, at + 8, 0)
    (finding,) = (f for f in check_module(parse_module(bytes(data), "x")) if f.status == "failed")
    assert finding.rule == "symbol-hash"
    assert "is not found" in str(finding.found)


def test_embedded_weights_are_compared(tmp_path: Path) -> None:
    path = write(tmp_path, module().write())
    weights = tmp_path / "weights.bin"
    weights.write_bytes(WEIGHTS)
    require_module(path, None, weights=weights)
    weights.write_bytes(WEIGHTS[:-1] + b"x")
    with pytest.raises(ToolError, match=r"does not hold the bytes of weights\.bin"):
        require_module(path, None, weights=weights)
    made = module()
    by_name(made, ".rodata.weights").align = 8
    by_name(made, ".rodata").data = bytes(72)
    weights.write_bytes(WEIGHTS)
    with pytest.raises(ToolError, match="no multiple of 64"):
        require_module(write(tmp_path, made.write()), None, weights=weights)


# ------------------------------------------------------------------------------------------------------- no modules


def _header(machine: int, *, kind: int = 3, bits: int = 2, order: int = 1) -> bytes:
    head = struct.pack("<4sBBBB8x", b"\x7fELF", bits, order, 1, 0)
    return head + struct.pack("<HH" if order == 1 else ">HH", kind, machine) + bytes(44)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"MZ" + bytes(100), "Windows"),
        (b"!<arch>\n" + bytes(100), "archive of object files"),
        (b"#!/bin/sh\n", "script"),
        (b"\xc2\x00\x03\x00" + bytes(30), "TI COFF"),
        (b"\x64\x86\x03\x00" + bytes(30), "x86-64 COFF"),
        (b"make_model", "no ELF file"),
        (_header(40, bits=1), "32-bit little-endian ELF file for ARM"),
        (_header(8, order=2), "64-bit big-endian ELF file for MIPS"),
        (_header(140), "ELF file for TI C6000"),
        (_header(145, kind=1), "object file that is not linked"),
        (_header(145)[:40], "cut off: it has 40 bytes"),
    ],
)
def test_foreign_files_are_told_apart(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_module(write(tmp_path, data))
    assert words in caught.value.message
    assert caught.value.hint


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot read"):
        read_module(tmp_path / "lib0.out")
    with pytest.raises(FormatError, match="cannot read"):
        read_module(tmp_path)


def test_a_module_cut_off_anywhere_is_an_error_or_breaks_a_rule() -> None:
    data = module().write()
    for size in range(0, len(data), 97):
        try:
            assert broken(data[:size]), size
        except FormatError as error:
            assert "cut off" in error.message or "empty" in error.message


def test_any_damaged_byte_of_the_tables_is_survived() -> None:
    """Whatever a byte says, the answer is a list of findings or a FormatError."""
    data = module().write()
    made = parse_module(data, "x")
    start = made.tags[elf.DT_SYMTAB]
    places = [*range(64 + 56 * 4), *range(start, start + 700, 3), *range(len(data) - 800, len(data), 3)]
    for place in places:
        for value in (0, 0xFF):
            damaged = bytearray(data)
            damaged[place] = value
            try:
                check_module(parse_module(bytes(damaged), "x"), "beagley-ai")
            except FormatError:
                continue
