"""What TI's tools are told and given, without calling any."""

from __future__ import annotations

import re
import stat
import time
from pathlib import Path

import pytest

from c7x.errors import TargetError, ToolError, UnsupportedError, UsageError
from c7x.toolchain.elf import POOL_BYTES
from c7x.toolchain.exports import EXPORTS, firmware_exports
from c7x.toolchain.ticgt import (
    DDR_BYTES,
    Embed,
    ModuleOptions,
    candidates,
    check_memory,
    check_tidl,
    choose_tools,
    installed,
    link_commands,
    make_recipe,
    stub_exports,
    stub_source,
    tidl_artifacts,
    write_assembly,
)
from tests.fake_ticgt.tools import _COMPILER, _LINKER, TOOLS, assemble, check_options, main, parse_commands


@pytest.fixture(autouse=True)
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TI_CGT_C7000_PATH", "CGT7X_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def tools_at(folder: Path) -> Path:
    """A folder that looks like TI's tools to somebody who runs nothing."""
    for name in ("bin/cl7x", "bin/lnk7x", "bin/strip7x", "lib/rts7524_le.lib"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        path.chmod(0o755)
    return folder


# -------------------------------------------------------------------------------------------------------- the table


@pytest.mark.parametrize("board", ["beagley-ai", "j722s-evm"])
def test_stub_and_imports_follow_the_board(board: str, tmp_path: Path) -> None:
    stub = {export.name for export in stub_exports(board)}
    assert set(firmware_exports(board)) < stub
    assert stub - set(firmware_exports(board)) == {n for n, e in EXPORTS.items() if e.availability == "stub"}
    assert ("c7x_int8_max_pool_tidl" in stub) == (board == "j722s-evm")
    text = stub_source(board)
    defined = re.findall(r"__declspec\(dllexport\) (?:void|unsigned long long) (\w+)", text)
    assert defined == sorted(stub)
    assert "__declspec(dllexport) unsigned long long g_l2_mem_addr = 0;" in text
    commands = tmp_path / "lib0.cmd"
    commands.write_text(link_commands(board, ["a_start"]))
    options, wildcards, sections = parse_commands(commands)
    assert {o[9:] for o in options if o.startswith("--import=")} == stub | {"memalign"}
    assert [o for o in options if o.startswith("--export=")] == ["--export=a_start"]
    # Section 6 names these fifteen; printing to a stream has no counterpart in the firmware.
    libc = "printf puts vprintf snprintf vsnprintf fputs fflush memcpy memset memcmp memmove malloc free calloc abort"
    mapped = {o.split("=")[1]: o.split("=")[2] for o in options if o.startswith("--symbol_map=")}
    assert mapped == {name: f"__dummy_{name}" for name in (*libc.split(), "fprintf")}
    group = sections[: sections.index(".dsp_syms_out")]
    assert group == [".rodata", ".se_guard", ".rodata.weights", ".rodata.tidl", ".neardata", ".bss"]
    assert ".gnu.offload_*" in wildcards


def test_number_of_symbols_with_everything() -> None:
    assert len(firmware_exports("j722s-evm")) == 124
    assert len(stub_exports("j722s-evm")) == 124 + 11


# -------------------------------------------------------------------------------------------------------- the recipe


def sources(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("lib0.c", "lib1.c", "model.h", "weights.bin"):
        (folder / name).write_bytes(b"/* */")
    return [folder / "lib0.c", folder / "lib1.c"]


def test_recipe_in_order(tmp_path: Path) -> None:
    recipe = make_recipe(
        sources(tmp_path), weights=tmp_path / "weights.bin", board="beagley-ai", options=ModuleOptions()
    )
    assert [step.title for step in recipe.steps] == [
        "compile the pseudo firmware",
        "link the pseudo firmware",
        "strip the pseudo firmware",
        "embed dsp_syms.out",
        "embed weights.bin",
        "compile lib0.c",
        "compile lib1.c",
        "link the module",
    ]
    assert set(recipe.inputs) == {"lib0.c", "lib1.c", "model.h", "weights.bin"}
    compile_line, link_line = recipe.commands()[5], recipe.commands()[-1]
    documented = (
        "-mv7524 --abi=eabi --endian=little --display_error_number --diag_suppress=496,1311,303 --fp_mode=relaxed "
        "--rtti -O3 --auto_inline=500 --define=NULL=0 --define=SOC_J722S --define=TVM_DSP_TARGET_C7X "
        "--define=TIDL_MAX_NUM_CORES=4 --define=RPROC_TRACE=0 --cpp_default"
    )
    assert set(documented.split()) <= set(compile_line.split())
    assert "--fp_reassoc" not in compile_line
    documented = (
        "--dynamic=lib --relocatable --no_entry_point --ram_model -x --priority --warn_sections "
        "--display_error_number --diag_suppress=10290,10291 -heap 0x0 -ldsp_syms.out --retain=TVMPrintLayerProfile "
        "-lrts7524_le.lib -llibc.a"
    )
    assert set(documented.split()) <= set(link_line.split())
    assert str(tmp_path) not in recipe.script()


def test_options_reach_generated_code_only(tmp_path: Path) -> None:
    options = ModuleOptions(build_type="Debug", cflags=("--fp_mode=strict",), fp_reassoc=False, keep_asm=True)
    recipe = make_recipe(sources(tmp_path), weights=None, board="beagley-ai", options=options)
    commands = dict(zip((s.title for s in recipe.steps), recipe.commands(), strict=True))
    line = commands["compile lib0.c"]
    assert "--fp_reassoc=off" in line
    assert "-g --opt_level=0" in line
    assert "-O3" not in line
    assert "--keep_asm" in line
    assert line.index("--fp_mode=strict") > line.index("--fp_mode=relaxed")
    assert "--fp_mode" not in commands["compile the pseudo firmware"]
    assert "weights_data" not in recipe.script()
    assert "--export" not in recipe.files["lib0.cmd"]


def test_every_command_is_in_the_documented_grammar(tmp_path: Path) -> None:
    options = ModuleOptions(fp_reassoc=False, keep_asm=True)
    recipe = make_recipe(sources(tmp_path), weights=tmp_path / "weights.bin", board="j722s-evm", options=options)
    for step in recipe.steps:
        program, *words = step.command
        if program.endswith("strip7x"):
            continue
        check_options(words, _COMPILER if program.endswith("cl7x") else _LINKER, r"\S+\.(obj|cmd|c)")


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_stand_ins_refuse_what_is_not_documented(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--not_an_option"]) == 1
    assert "--not_an_option" in capsys.readouterr().err


def test_bad_build_type() -> None:
    with pytest.raises(UsageError, match="fastest"):
        ModuleOptions(build_type="fastest")
    with pytest.raises(UsageError, match="asan") as caught:
        ModuleOptions(build_type="asan")
    assert "sanitizers" in str(caught.value.cause)


# --------------------------------------------------------------------------------------------------------- embedding


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 64, 1000, 70_001])
def test_embedded_bytes_come_back(tmp_path: Path, size: int) -> None:
    data = bytes((i * 37 + i // 256) % 256 for i in range(size))
    (tmp_path / "w.bin").write_bytes(data)
    embed = Embed(source="w.bin", assembly="w.asm", section=".rodata.weights", prefix="_w", guard=True)
    write_assembly(embed, tmp_path)
    made = assemble(tmp_path / "w.asm")
    content = made.sections[".rodata.weights"]
    assert content[:size] == data
    start, end, count = (made.labels[name][1] for name in ("_w_start", "_w_end", "_w_size"))
    assert (start, end) == (0, size)
    assert int.from_bytes(content[count : count + 4], "little") == size
    assert made.sections[".se_guard"] == bytes(4096)


def test_values_are_signed(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes([0, 127, 128, 255]))
    write_assembly(Embed(source="w.bin", assembly="w.asm", section=".dsp_syms_out"), tmp_path)
    line = next(line for line in (tmp_path / "w.asm").read_text().splitlines() if ".byte" in line)
    assert [int(text) for text in line.split(".byte")[1].split(",")] == [0, 127, -128, -1]


def test_fifty_megabytes_within_five_seconds(tmp_path: Path) -> None:
    with (tmp_path / "weights.bin").open("wb") as file:
        for _ in range(50):
            file.write(bytes(range(256)) * 4096)
    start = time.process_time()
    write_assembly(Embed(source="weights.bin", assembly="w.asm", section=".rodata.weights", prefix="_w"), tmp_path)
    assert time.process_time() - start < 5
    # Seven characters a line and five a byte, 32 bytes a line.
    assert (tmp_path / "w.asm").stat().st_size > 50 * 2**20 * 5
    (tmp_path / "w.asm").unlink()


# -------------------------------------------------------------------------------------------------- finding the tools


def test_no_tools_says_how_to_get_them() -> None:
    with pytest.raises(ToolError, match="there are no TI C7000") as caught:
        choose_tools()
    assert "c7x toolchain install" in str(caught.value.hint)
    assert "TI_CGT_C7000_PATH" in str(caught.value.cause)


def test_order_of_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ti-cgt-c7000_5.0.1.LTS", "ti-cgt-c7000_5.0.10.LTS", "ti-cgt-c7000_4.1.0.LTS"):
        tools_at(tmp_path / "data" / "c7x" / "toolchains" / name)
    (tmp_path / "data" / "c7x" / "toolchains" / ".install-x" / "bin").mkdir(parents=True)
    assert [path.name[13:] for path in installed()] == ["5.0.10.LTS", "5.0.1.LTS", "4.1.0.LTS"]
    assert choose_tools()[1].name == "ti-cgt-c7000_5.0.10.LTS"
    monkeypatch.setenv("CGT7X_ROOT", str(tools_at(tmp_path / "b")))
    assert choose_tools() == ("CGT7X_ROOT", tmp_path / "b")
    monkeypatch.setenv("TI_CGT_C7000_PATH", str(tools_at(tmp_path / "a")))
    assert choose_tools() == ("TI_CGT_C7000_PATH", tmp_path / "a")
    assert choose_tools(tools_at(tmp_path / "o"))[0] == "--cgt"
    assert len(candidates(tmp_path / "o")) == 6


def test_what_is_named_must_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tools_at(tmp_path / "ti")
    monkeypatch.setenv("TI_CGT_C7000_PATH", str(root))
    (root / "bin" / "lnk7x").chmod(stat.S_IRUSR)
    with pytest.raises(ToolError, match="lnk7x is not executable") as caught:
        choose_tools()
    assert "chmod" in str(caught.value.hint)
    (root / "bin" / "lnk7x").unlink()
    with pytest.raises(ToolError, match="holds no bin/lnk7x"):
        choose_tools()
    with pytest.raises(ToolError, match="holds no lib/rts7524_le"):
        (tools_at(root) / "lib" / "rts7524_le.lib").unlink()
        choose_tools()
    with pytest.raises(ToolError, match="not a folder") as caught:
        choose_tools(tmp_path / "nowhere")
    assert "--cgt" in str(caught.value.cause)


# -------------------------------------------------------------------------------------------------- memory and TIDL


def test_memory_limits() -> None:
    check_memory(DDR_BYTES - 1000, 1000)
    with pytest.raises(UnsupportedError, match=r"weights of 500\.0 MB do not fit"):
        check_memory(500_000_000, 0)
    with pytest.raises(UnsupportedError, match="do not fit"):
        check_memory(DDR_BYTES - 1000, 1001)
    check_memory(0, POOL_BYTES)
    with pytest.raises(UnsupportedError, match="scratch memory"):
        check_memory(0, POOL_BYTES + 1)


def test_tidl_needs_a_board_with_tidl(tmp_path: Path) -> None:
    source = tmp_path / "bridge.cpp"
    source.touch()
    check_tidl("beagley-ai", ModuleOptions(), "c_static -mcpu=c7x")
    check_tidl("j722s-evm", ModuleOptions(tidl_bridge=(source,), tidl_artifacts=tmp_path), "c_static -tidl-runtime=1")
    for options in (ModuleOptions(tidl_bridge=(source,)), ModuleOptions(tidl_artifacts=tmp_path)):
        with pytest.raises(TargetError, match="not possible on board beagley-ai") as caught:
            check_tidl("beagley-ai", options, "")
        assert "j722s-evm" in str(caught.value.hint)
    with pytest.raises(TargetError, match="-tidl-runtime=1"):
        check_tidl("beagley-ai", ModuleOptions(), "c_static -mcpu=c7x -tidl-runtime=1")
    with pytest.raises(UsageError, match="there is no file"):
        check_tidl("j722s-evm", ModuleOptions(tidl_bridge=(tmp_path / "x.cpp",)), "")


def test_tidl_artifacts(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no folder"):
        tidl_artifacts(tmp_path / "x")
    with pytest.raises(ToolError, match="holds no subgraph<N>"):
        tidl_artifacts(tmp_path)
    for name in ("subgraph10_net.bin", "subgraph10_params_1.bin", "subgraph2_net.bin", "notes.txt"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ToolError, match=r"holds no subgraph2_params_1\.bin"):
        tidl_artifacts(tmp_path)
    (tmp_path / "subgraph2_params_1.bin").write_bytes(b"x")
    assert [prefix for _, prefix in tidl_artifacts(tmp_path)] == [
        "_binary_tidl_net_2",
        "_binary_tidl_io_2",
        "_binary_tidl_net_10",
        "_binary_tidl_io_10",
    ]
