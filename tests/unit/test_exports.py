"""The table of what a module may import, and what is made from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from c7x.native import native_dir
from c7x.toolchain import vdsp
from c7x.toolchain.exports import EXPORTS, exports_inc, firmware_exports, stub_exports


def test_native_table_is_this_one() -> None:
    written = (native_dir() / "vdsp" / "exports.inc").read_text(encoding="utf-8")
    assert written == exports_inc(), "python -m c7x.toolchain.exports > native/vdsp/exports.inc"


def test_native_table_is_in_the_order_of_strcmp() -> None:
    names = [line.split("(")[1].split(",")[0] for line in exports_inc().splitlines() if line.startswith("C7X_")]
    assert names == sorted(names)
    assert len(names) == len(set(names)) == len(EXPORTS)


@pytest.mark.parametrize(("board", "count"), [("j722s-evm", 124), ("beagley-ai", 122)])
def test_counts_by_board(board: str, count: int) -> None:
    """124 names with all options on (module ABI, section 8)."""
    assert len(firmware_exports(board)) == count


def test_board_differences() -> None:
    only = firmware_exports("j722s-evm").keys() - firmware_exports("beagley-ai").keys()
    assert only == {"c7x_int8_max_pool_tidl", "TIDL_VISION_FXNS"}
    with pytest.raises(KeyError):
        firmware_exports("another")


def test_names_the_pseudo_firmware_alone_has() -> None:
    stub_only = {name for name, export in EXPORTS.items() if export.availability == "stub"}
    assert len(stub_only) == 11
    assert all(name.startswith("DmaUtilsAutoInc3d_") for name in stub_only)
    assert "memalign" not in EXPORTS
    assert not stub_only & stub_exports("j722s-evm").keys()
    assert {"expf", "sin", "sincosf"} <= stub_exports("beagley-ai").keys()


def test_stub_source() -> None:
    source = vdsp.stub_source(firmware_exports("j722s-evm").values())
    assert "void memcpy(void) { __builtin_trap(); }\n" in source
    assert "unsigned long long g_l2_mem_addr;\n" in source
    assert source.count("\n") == 125


@pytest.mark.parametrize("suffix", [".cc", ".c"])
def test_cmake_builds_the_same_sources(suffix: str) -> None:
    text = (native_dir() / "vdsp" / "CMakeLists.txt").read_text(encoding="utf-8")
    names = {Path(name).name for name in vdsp.SERVER_SOURCES if name.endswith(suffix)}
    assert {word.rsplit("/", 1)[-1].rstrip(")") for word in text.split() if word.rstrip(")").endswith(suffix)} == names
