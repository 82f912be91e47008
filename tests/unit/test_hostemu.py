"""The host emulation's table, what is generated from it, and the commands' functions; nothing here compiles."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from c7x.cli import main
from c7x.errors import DependencyError, ToolError, UsageError
from c7x.toolchain import hostemu
from tests.hostemu_cases import EMULATION, ROOT, generate
from tests.hostemu_models import MODELS

TABLE = generate.load()
STREAM_HEADER = (EMULATION / "include" / "common" / "c7x_emu" / "stream.h").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _no_ti(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TI_CGT_C7000_PATH", raising=False)
    monkeypatch.delenv("CXX", raising=False)


# ---------------------------------------------------------------------------------------------------------------- table


def test_generated_files_are_up_to_date() -> None:
    assert generate.main(["--check"]) == 0


def test_check_notices_an_outdated_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "HEADER", tmp_path / "intrinsics.h")
    assert generate.main(["--check"]) == 1
    assert not (tmp_path / "intrinsics.h").exists()


def test_every_row_has_a_model_or_a_test_of_its_own() -> None:
    for row in TABLE.rows:
        own = row.group == "seeds" or row.tested_by != generate.COMMON_TEST
        assert (row.key in MODELS) != own, row.key
    assert set(MODELS) <= {row.key for row in TABLE.rows}


def test_tests_that_rows_name_exist() -> None:
    for place in {row.tested_by for row in TABLE.rows}:
        file, _, function = place.partition("::")
        assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8")


def test_nothing_is_both_there_and_missing() -> None:
    assert not set(TABLE.missing) & {row.name for row in TABLE.rows}
    assert list(TABLE.missing) == sorted(set(TABLE.missing))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('evidence = "assumed"', 'evidence = "certain"'), "certain"),
        (('mutant = ["a > b ? a : b", "b > a ? b : a"]\n', ""), "no mutant"),
        (('mutant = ["a > b ? a', 'mutant = ["a >> b ? a'), "not in its code"),
        (('name = "__min"', 'name = "__max"'), "same key"),
    ],
)
def test_an_inconsistent_row_is_refused(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    text = generate.TABLE.read_text(encoding="utf-8")
    assert change[0] in text
    (tmp_path / "table.toml").write_text(text.replace(*change, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        generate.load(tmp_path / "table.toml")


def test_the_page_describes_every_template_field() -> None:
    page = (ROOT / "docs" / "hostemu.md").read_text(encoding="utf-8")
    streams = page[page.index("## Streams") : page.index("## Numbers")]
    named = set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", streams))
    for stem, first, last in re.findall(r"\b([A-Z]+)(\d)\.\.(\d)", streams):
        named |= {f"{stem}{n}" for n in range(int(first), int(last) + 1)}
    for template in re.findall(r"typedef struct \{([^}]*)\} __S[EA]_TEMPLATE_v1;", STREAM_HEADER):
        fields = set(re.findall(r"\b([A-Z][A-Z0-9_]+)\b(?= *[:,;])", template))
        assert {"ICNT0", "VECLEN", "DECDIM1SD", "DIM5", "AM5"} <= fields
        assert fields <= named


# ------------------------------------------------------------------------------------------------------------- commands


@pytest.mark.parametrize("text", ["C7524", "c7524", "7524", "C7524-MMA2_256", "c7524-mma2_256"])
def test_core_names(text: str) -> None:
    assert hostemu.core_name(text) == "C7524"


def test_unknown_core() -> None:
    with pytest.raises(UsageError, match="no core C7600") as caught:
        hostemu.core_name("C7600")
    assert "C7504" in str(caught.value.hint)


@pytest.mark.parametrize("core", sorted(hostemu.CORES))
def test_open_emulation(core: str) -> None:
    emulation = hostemu.find_emulation(core)
    assert emulation.kind == "open" and emulation.link_flags == ()
    header = (emulation.include / "c7x.h").read_text(encoding="utf-8")
    assert f"__{core}__" in header
    assert ("512" if core in ("C7100", "C7120") else "256") in header
    for flag in ("-fno-strict-aliasing", "-ffp-contract=off", f"-D__{core}__", "-D__C7000__", "-D_HOST_BUILD"):
        assert flag in emulation.compile_flags
    assert "-fms-extensions" not in emulation.compile_flags


def _install_ti(root: Path, core: str) -> None:
    folder = hostemu.CORES[core]
    (root / "host_emulation" / "include" / folder).mkdir(parents=True)
    (root / "host_emulation" / f"lib{folder}-host-emulation.a").touch()


def test_ti_wins_where_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TI_CGT_C7000_PATH", str(tmp_path))
    assert hostemu.find_emulation("C7524").kind == "open"
    _install_ti(tmp_path, "C7524")
    found = hostemu.find_emulation("C7524")
    assert found.kind == "ti" and "-fms-extensions" in found.compile_flags
    assert f"-I{tmp_path}/host_emulation/include/C7524-MMA2_256" in found.compile_flags
    assert found.link_flags == (f"{tmp_path}/host_emulation/libC7524-MMA2_256-host-emulation.a",)
    assert hostemu.find_emulation("C7524", "open").kind == "open"
    assert hostemu.find_emulation("C7504").kind == "open"
    (tmp_path / "host_emulation" / "libC7524-MMA2_256-host-emulation.a").unlink()
    assert hostemu.find_emulation("C7524").kind == "open"


@pytest.mark.parametrize("root", ["", "/nowhere"])
def test_ti_that_is_not_there(monkeypatch: pytest.MonkeyPatch, root: str) -> None:
    monkeypatch.setenv("TI_CGT_C7000_PATH", root)
    with pytest.raises(DependencyError, match="TI's host emulation of C7100 is not there") as caught:
        hostemu.find_emulation("7100", "ti")
    assert "--hostemu open" in str(caught.value.hint)


def test_nothing_to_compile() -> None:
    with pytest.raises(UsageError, match="nothing to compile"):
        hostemu.compile_program(["-O2"], emulation=hostemu.find_emulation("C7524"))


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match=r"no C\+\+ compiler"):
        hostemu.compile_program(["x.cpp"], emulation=hostemu.find_emulation("C7524"))


def test_the_callers_options_reach_the_compiler_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """-shared and -h-like clusters included; messages go to standard error."""
    fake = tmp_path / "compiler"
    fake.write_text('#!/bin/sh\necho "message $#" >&2\n', encoding="utf-8")
    fake.chmod(0o755)
    words = ["kernel.cpp", "-shared", "-O0", "-Wall", "-o", "out", "-Ixyz"]
    assert main(["emu", "cc", *words, "--core", "7504", "--cxx", str(fake), "--json"]) == 0
    shown = capsys.readouterr()
    command = json.loads(shown.out)["command"]
    assert command[0] == str(fake) and command[1] == "-O3" and command[-len(words) :] == words
    assert "-D__C7504__" in command
    assert shown.err.startswith("message ")


def test_a_failing_compiler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake = tmp_path / "compiler"
    fake.write_text("#!/bin/sh\necho 'kernel.cpp:1: bad' >&2\nexit 4\n", encoding="utf-8")
    fake.chmod(0o755)
    assert main(["emu", "cc", "kernel.cpp", "--cxx", str(fake)]) == ToolError.exit_code
    shown = capsys.readouterr()
    assert shown.out == "" and "kernel.cpp:1: bad" in shown.err and "failed with code 4" in shown.err


def test_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emu", "flags", "--core", "C7100"]) == 0
    line = capsys.readouterr().out
    assert line.count("\n") == 1 and line.split()[-1].endswith("/include/C7100")
    assert main(["emu", "flags", "--cmake"]) == 0
    assert Path(capsys.readouterr().out.strip(), "c7x-hostemuConfig.cmake").is_file()
    assert main(["emu", "flags", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["emulation"] == "open"


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emu", "list", "--json"]) == 0
    names = json.loads(capsys.readouterr().out)["names"]
    assert len(names) == len(TABLE.rows) + len(TABLE.missing)
    assert names == sorted(names, key=lambda row: (row["name"], row.get("variant") or ""))
    assert main(["emu", "list", "__max", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["names"]
    assert row["supported"] and row["evidence"] == "assumed" and "float" in row["elements"]
    assert main(["emu", "list", "__vmatmpysp_vww"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "missing" in shown and "how the operands" in shown
    assert all(row["reason"] for row in names if not row["supported"])
    assert main(["emu", "list", "__lookup_init"]) == 0
    assert "C7100 and C7120 only" in " ".join(capsys.readouterr().out.split())
    assert main(["emu", "list", "__nonsense"]) == UsageError.exit_code
    assert "__nonsense" in capsys.readouterr().err
