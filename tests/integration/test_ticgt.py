"""Mode c7x_dload from generated C to a checked module, with stand-ins for TI's tools; and TI's installer."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from c7x import cli, compat
from c7x.errors import C7xError, CheckFailed, FormatError, TargetError, ToolError, UnsupportedError, UsageError
from c7x.reporter import Reporter
from c7x.toolchain import install as install_module
from c7x.toolchain.elf import describe_module, read_module
from c7x.toolchain.gnu import BuildOptions, find_compiler
from c7x.toolchain.install import install, list_tools
from c7x.toolchain.ticgt import ModuleOptions, dload_stage, find_tools
from c7x.toolchain.vdsp import build_module
from c7x.workspace import Workspace
from tests.fake_ticgt import tools as fake
from tests.integration.handwritten import affine_weights, make_workspace

_ENTRY = "int cg_main_dsp(void *inputs, int num_inputs, void *constants, void *result)"
_EXPORT = """\
#if defined(__C7000__)
#define CG_EXPORT __declspec(dllexport)
#else
#define CG_EXPORT __attribute__((visibility("default")))
#endif
"""


@pytest.fixture(scope="session")
def cgt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake.install(tmp_path_factory.mktemp("TI töols"))


@pytest.fixture(autouse=True)
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TI_CGT_C7000_PATH", "CGT7X_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def workspace(folder: Path, more: str = "") -> Workspace:
    """The affine model as the compiler would export it, with more code behind it."""
    ws = make_workspace("affine", folder)
    text = ws.path("lib0.c").read_text()
    text = text.replace(_ENTRY, f"{_EXPORT}CG_EXPORT {_ENTRY};\n{_ENTRY}", 1)
    ws.path("lib0.c").write_text(text + more)
    return ws


class Recorder(Reporter):
    def __init__(self) -> None:
        self.commands: list[str] = []
        self.warnings: list[str] = []

    def progress(self, text: str) -> None:
        self.commands.append(text)

    def warn(self, text: str) -> None:
        self.warnings.append(text)


# ----------------------------------------------------------------------------------------------------------- building


def test_the_whole_walk(tmp_path: Path, cgt: Path) -> None:
    ws = workspace(tmp_path / "mein Ördner")
    recorder = Recorder()
    options = ModuleOptions(cgt=cgt, keep_asm=True, fp_reassoc=False)
    result = dload_stage(ws, board="beagley-ai", options=options, reporter=recorder)
    assert result["artefact"] == "lib0.out"
    assert result["compiler"] == "TI C7000 CGT 5.0.1.LTS"
    assert not recorder.warnings
    programs = [command.split("bin/")[1].split("'")[0].split()[0] for command in recorder.commands]
    assert programs == ["cl7x", "cl7x", "lnk7x", "strip7x", "cl7x", "cl7x", "cl7x", "lnk7x"]
    assert {"lib0.out", "lib0.out.map", "lib0.asm"} <= {path.name for path in ws.root.iterdir()}
    module = read_module(ws.path("lib0.out"))
    place = module.weights()
    assert place is not None
    assert bytes(module.data[place[0] : place[0] + place[1]]) == affine_weights()
    assert place[0] % 128 == 0
    described = describe_module(ws.path("lib0.out"), "beagley-ai")
    assert described["loads"]
    assert "cg_main_dsp" in described["exports"]
    (record,) = ws.manifest["stages"]
    assert set(record["outputs"]) == {"lib0.out", "lib0.out.map", "lib0.asm"}
    assert record["tools"] == {"cgt": "TI C7000 CGT 5.0.1.LTS"}
    assert record["options"]["board"] == "beagley-ai"
    assert len(record["options"]["commands"]) == 7
    text = json.dumps(ws.manifest)
    assert "$TI_CGT_C7000_PATH/bin/cl7x" in text
    assert str(tmp_path) not in text
    assert str(cgt) not in text
    assert ws.manifest["mode"] == "c7x_dload"


def test_dry_run_says_what_the_build_does(tmp_path: Path, cgt: Path) -> None:
    ws = workspace(tmp_path / "build")
    before = sorted(path.name for path in ws.root.iterdir())
    dry = dload_stage(ws, board="beagley-ai", options=ModuleOptions(), dry_run=True)
    assert sorted(path.name for path in ws.root.iterdir()) == before
    assert dry["artefact"] is None
    for name, text in dry["files"].items():
        assert f"cat > {name} <<'END'\n{text}END" in dry["script"]
    built = dload_stage(ws, board="beagley-ai", options=ModuleOptions(cgt=cgt))
    assert dry["commands"] == built["commands"]
    assert all(command in dry["script"] for command in built["commands"])


def test_two_builds_give_the_same_bytes(tmp_path: Path, cgt: Path) -> None:
    made = []
    for name in ("a", "another folder"):
        ws = workspace(tmp_path / name)
        dload_stage(ws, board="beagley-ai", options=ModuleOptions(cgt=cgt))
        made.append(ws.path("lib0.out").read_bytes())
    assert made[0] == made[1]


_CALLS = """
int32_t c7x_int8_max_pool_tidl(void);
int32_t use(void);
int32_t use(void) { return c7x_int8_max_pool_tidl(); }
"""


def test_an_import_that_the_board_lacks_fails_by_name(tmp_path: Path, cgt: Path) -> None:
    ws = workspace(tmp_path / "build", _CALLS)
    with pytest.raises(ToolError, match="needs c7x_int8_max_pool_tidl, which the firmware of beagley-ai") as caught:
        dload_stage(ws, board="beagley-ai", options=ModuleOptions(cgt=cgt))
    assert caught.value.stage == "build"
    assert not ws.has("lib0.out")
    assert not [path.name for path in ws.root.iterdir() if path.name.startswith(".c7x-")]
    dload_stage(ws, board="j722s-evm", options=ModuleOptions(cgt=cgt))
    assert describe_module(ws.path("lib0.out"))["boards"]["beagley-ai"] == ["c7x_int8_max_pool_tidl"]


def test_a_name_that_only_the_pseudo_firmware_has_is_caught_after_the_link(tmp_path: Path, cgt: Path) -> None:
    call = "\nint DmaUtilsAutoInc3d_wait(void);\nint use(void) { return DmaUtilsAutoInc3d_wait(); }\n"
    ws = workspace(tmp_path / "build", call)
    with pytest.raises(ToolError, match=r"breaks the rule imports: .*DmaUtilsAutoInc3d_wait"):
        dload_stage(ws, board="beagley-ai", options=ModuleOptions(cgt=cgt))
    assert not ws.has("lib0.out")


@pytest.mark.parametrize("name", ["missing_function", "fprintf"])
def test_undefined_names_are_told(tmp_path: Path, cgt: Path, name: str) -> None:
    ws = workspace(tmp_path / "build", f"\nint {name}();\nint use(void) {{ return {name}(0); }}\n")
    with pytest.raises(ToolError, match=name):
        dload_stage(ws, board="beagley-ai", options=ModuleOptions(cgt=cgt))


def test_a_compiler_error_is_shown(tmp_path: Path, cgt: Path) -> None:
    ws = workspace(tmp_path / "build", "\n#error broken\n")
    with pytest.raises(ToolError, match=r"cannot compile lib0\.c: .*\n.*#error"):
        dload_stage(ws, board="beagley-ai", options=ModuleOptions(cgt=cgt))


@pytest.mark.parametrize("stream", [1, 2])
def test_the_table_of_undefined_symbols_is_found_in_both_streams(tmp_path: Path, cgt: Path, stream: int) -> None:
    table = (
        " undefined first referenced\\n  symbol in file\\n ------ ------\\n lost ./lib0.obj\\n lost_too x.lib<y.obj>\\n"
    )
    real = f'case "$*" in *dynamic=exe*) exec "{cgt / "bin" / "lnk7x"}" "$@" ;; esac'
    last = "echo 'error #10234-D: unresolved symbols remain' >&2"
    tools = _damaged(cgt, tmp_path, "lnk7x", f"{real}\nprintf '{table}' >&{stream}\n{last}\nexit 1")
    with pytest.raises(ToolError, match="needs lost, lost_too, which"):
        dload_stage(workspace(tmp_path / "build"), board="beagley-ai", options=ModuleOptions(cgt=tools))


def test_a_misspelt_option_fails(tmp_path: Path, cgt: Path) -> None:
    ws = workspace(tmp_path / "build")
    with pytest.raises(ToolError, match='invalid option: "--fp_mod=strict"'):
        dload_stage(ws, board="beagley-ai", options=ModuleOptions(cgt=cgt, cflags=("--fp_mod=strict",)))


def test_which_board(tmp_path: Path, cgt: Path) -> None:
    ws = workspace(tmp_path / "build")
    with pytest.raises(TargetError, match="needs a board"):
        dload_stage(ws, options=ModuleOptions(cgt=cgt))
    with pytest.raises(TargetError, match="unknown board"):
        dload_stage(ws, board="beagle", options=ModuleOptions(cgt=cgt))


def test_weights_that_no_board_can_stage(tmp_path: Path, cgt: Path) -> None:
    ws = workspace(tmp_path / "build")
    with ws.path("weights.bin").open("wb") as file:
        file.truncate(500 * 10**6)
    with pytest.raises(UnsupportedError, match="do not fit"):
        dload_stage(ws, board="beagley-ai", options=ModuleOptions(cgt=cgt))
    (ws.root / "io.json").write_text('{"arena_bytes": 400000000}')
    with pytest.raises(UnsupportedError, match="scratch memory"):
        dload_stage(ws, board="beagley-ai", options=ModuleOptions(cgt=cgt))


def test_no_space(tmp_path: Path, cgt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ws = workspace(tmp_path / "build")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=100))
    with pytest.raises(C7xError, match="cannot write into") as caught:
        dload_stage(ws, board="beagley-ai", options=ModuleOptions(cgt=cgt))
    assert "no space" in str(caught.value.cause)


def test_tidl_bridge_and_artifacts(tmp_path: Path, cgt: Path) -> None:
    ws = workspace(
        tmp_path / "build", "\nvoid tidl_bridge_init_all(void);\nvoid use(void) { tidl_bridge_init_all(); }\n"
    )
    with pytest.raises(ToolError, match="tidl_bridge_init_all") as caught:
        dload_stage(ws, board="j722s-evm", options=ModuleOptions(cgt=cgt))
    assert "--tidl-bridge" in str(caught.value.hint)
    bridge = tmp_path / "my brücke.cpp"
    (tmp_path / "brücke.h").touch()
    bridge.write_text('#include "brücke.h"\nextern "C" __declspec(dllexport) void tidl_bridge_init_all(void) {}\n')
    artifacts = tmp_path / "tidl"
    artifacts.mkdir()
    for name in ("subgraph0_net.bin", "subgraph0_params_1.bin"):
        (artifacts / name).write_bytes(name.encode() * 10)
    options = ModuleOptions(cgt=cgt, tidl_bridge=(bridge,), tidl_artifacts=artifacts)
    dload_stage(ws, board="j722s-evm", options=options)
    module = read_module(ws.path("lib0.out"))
    for prefix, name in (("_binary_tidl_net_0", "subgraph0_net.bin"), ("_binary_tidl_io_0", "subgraph0_params_1.bin")):
        start, end = (module.symbol(f"{prefix}_{what}") for what in ("start", "end"))
        assert start is not None
        assert end is not None
        at = module.file_offset(start.value)
        assert at is not None
        assert bytes(module.data[at : at + end.value - start.value]) == name.encode() * 10


def _damaged(cgt: Path, folder: Path, name: str, script: str) -> Path:
    copy = folder / "damaged"
    shutil.copytree(cgt, copy)
    program = copy / "bin" / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return copy


def test_versions(tmp_path: Path, cgt: Path) -> None:
    old = _damaged(cgt, tmp_path, "cl7x", "echo 4.1.0.LTS")
    with pytest.raises(ToolError, match=r"are version 4\.1\.0\.LTS, c7x needs 5\.0\.0"):
        find_tools(old)
    (old / "bin" / "cl7x").write_text("#!/bin/sh\necho 5.1.0.LTS\n")
    recorder = Recorder()
    assert find_tools(old, reporter=recorder).version == "5.1.0.LTS"
    assert "5.0.1.LTS" in recorder.warnings[0]
    (old / "bin" / "cl7x").write_text("#!/bin/sh\necho usage\n")
    with pytest.raises(ToolError, match="does not tell its version"):
        find_tools(old)
    (old / "bin" / "cl7x").write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(ToolError, match="ended with code 3"):
        find_tools(old)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 7", "ended with code 7"),
        (": > lib0.out", "no module: lib0.out is empty"),
        ("head -c 4000 dsp_syms.out > lib0.out", "cut off"),
        ("cp dsp_syms.out lib0.out", "breaks the rule file-type"),
    ],
)
def test_what_a_linker_makes_is_checked(tmp_path: Path, cgt: Path, script: str, words: str) -> None:
    real = cgt / "bin" / "lnk7x"
    case = f'case "$*" in *dynamic=exe*) exec "{real}" "$@" ;; esac'
    tools = _damaged(cgt, tmp_path, "lnk7x", f"{case}\n{script}")
    ws = workspace(tmp_path / "build")
    with pytest.raises(ToolError, match=words):
        dload_stage(ws, board="beagley-ai", options=ModuleOptions(cgt=tools))
    assert sorted(path.name for path in ws.root.iterdir()) == ["devc.c", "io.json", "lib0.c", "weights.bin"]


# ---------------------------------------------------------------------------------------------------- other machines


@pytest.mark.parametrize(
    ("cc", "machine"),
    [("gcc", "x86-64"), ("clang", "x86-64"), ("aarch64-linux-gnu-gcc", "aarch64")],
)
def test_modules_for_the_virtual_dsp_keep_the_rules(tmp_path: Path, cc: str, machine: str) -> None:
    if shutil.which(cc) is None:
        pytest.skip(f"{cc} is not installed")
    if machine == "x86-64" and os.uname().machine != "x86_64":
        pytest.skip("the compiler makes code for another machine")
    ws = workspace(tmp_path / "ws")
    folder = tmp_path / "scratch"
    folder.mkdir()
    made, _ = build_module(
        [ws.path("lib0.c")],
        weights=ws.path("weights.bin"),
        folder=folder,
        board="beagley-ai",
        options=BuildOptions(),
        compiler=find_compiler(cc),
    )
    result = describe_module(made, "beagley-ai")
    assert result["machine"] == machine
    assert result["loads"], result["verdict"]
    assert result["verdict"] == f"loads on the virtual DSP on {machine}, as beagley-ai"
    assert result["weights_bytes"] == len(affine_weights())


def test_inspect_on_the_command_line(
    tmp_path: Path, cgt: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signal.signal", lambda *args: None)
    ws = workspace(tmp_path / "build", _CALLS)
    dload_stage(ws, board="j722s-evm", options=ModuleOptions(cgt=cgt))
    path = str(ws.path("lib0.out"))
    assert cli.main(["inspect", path, "--board", "j722s-evm", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "loads on the firmware of j722s-evm"
    assert cli.main(["inspect", path, "--board", "beagley-ai", "--json"]) == CheckFailed.exit_code
    answer = json.loads(capsys.readouterr().out)
    assert answer["status"] == "error"
    assert answer["details"]["boards"] == {"beagley-ai": ["c7x_int8_max_pool_tidl"]}
    assert cli.main(["inspect", path]) == 0
    out = capsys.readouterr().out
    assert "lacks c7x_int8_max_pool_tidl" in out
    assert "verdict: loads on the firmware of j722s-evm" in out
    assert cli.main(["inspect", path, "--board", "beagley-ai"]) == CheckFailed.exit_code
    streams = capsys.readouterr()
    assert "verdict: breaks imports" in streams.out
    assert "goes astray" in streams.err
    assert cli.main(["run", str(ws.root)]) == UnsupportedError.exit_code
    assert "built for a board" in capsys.readouterr().err


_MODEL = """
import torch

def make_model():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, 3))
    return model.eval(), (torch.rand(1, 2, 6, 6),)
"""


def test_a_real_model_on_the_command_line(
    tmp_path: Path, cgt: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signal.signal", lambda *args: None)
    (tmp_path / "model.py").write_text(_MODEL)
    build = str(tmp_path / "mein Ördner")
    common = ["--mode", "c7x_dload", "--board", "beagley-ai"]
    assert cli.main(["compile", str(tmp_path / "model.py"), "-o", build, *common, "--dry-run"]) == 0
    script = capsys.readouterr().out
    for word in ("dsp_syms.c", "--import=memcpy", "weights_data.asm", "--cpp_default lib0.c", "-ldsp_syms.out"):
        assert word in script
    assert not Path(build, "lib0.out").exists()
    monkeypatch.setenv("CGT7X_ROOT", str(cgt))
    assert cli.main(["build", build, "--mode", "c7x_dload", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["artefact"] == "lib0.out"
    commands = [line for line in script.splitlines() if line.startswith("$TI_CGT_C7000_PATH/bin/")]
    assert answer["stages"][0]["result"]["commands"] == commands
    module = read_module(Path(build, "lib0.out"))
    place = module.weights()
    assert place is not None
    assert bytes(module.data[place[0] : place[0] + place[1]]) == Path(build, "weights.bin").read_bytes()
    assert cli.main(["inspect", str(Path(build, "lib0.out")), "--board", "beagley-ai"]) == 0


def test_harness_function(tmp_path: Path, cgt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ws = workspace(tmp_path / "generated")
    monkeypatch.setattr(compat, "get_current_board", lambda: None)
    with pytest.raises(RuntimeError, match="needs a board"):
        compat.build_dsp_dynmod(ws.root)
    monkeypatch.setattr(compat, "get_current_board", lambda: "beagley-ai")
    with pytest.raises(RuntimeError, match="no TI C7000"):
        compat.build_dsp_dynmod(ws.root)
    monkeypatch.setenv("TI_CGT_C7000_PATH", str(cgt))
    with pytest.raises(FileNotFoundError):
        compat.build_dsp_dynmod(tmp_path)
    made = compat.build_dsp_dynmod(ws.root, build_dir=tmp_path / "out", fp_reassoc_off=True, lib0_cflags="--c99")
    assert made == tmp_path / "out" / "lib0.out"
    assert describe_module(made)["loads"]
    assert not ws.has("lib0.out")


# --------------------------------------------------------------------------------------------------------- installing

_INSTALLER = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
  if (argc != 5 || strcmp(argv[1], "--mode") || strcmp(argv[2], "unattended")) return 9;
  if (strcmp(argv[3], "--prefix")) return 9;
  const char *script = "mkdir -p \"$1\" && cp -r \"$2\" \"$1/ti-cgt-c7000_5.0.1.LTS\"";
  return execlp("sh", "sh", "-c", script, "sh", argv[4], SOURCE, (char *)0);
}
"""


@pytest.fixture(scope="session")
def installer(tmp_path_factory: pytest.TempPathFactory, cgt: Path) -> Path:
    """A program that does what TI's installer does, for this machine."""
    folder = tmp_path_factory.mktemp("installer")
    (folder / "installer.c").write_text(_INSTALLER)
    path = folder / "ti_cgt_c7000_5.0.1.LTS_linux-x64_installer.bin"
    words: list[str | Path] = ["gcc", f'-DSOURCE="{cgt}"', folder / "installer.c", "-o", path]
    subprocess.run(words, check=True)
    path.chmod(0o644)
    return path


x86_only = pytest.mark.skipif(os.uname().machine != "x86_64", reason="TI's installer is for x86-64")


@x86_only
def test_install_list_and_path(tmp_path: Path, installer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digest = hashlib.sha256(installer.read_bytes()).hexdigest()
    result = install(str(installer), accept_license=True, sha256=digest.upper())
    root = tmp_path / "data" / "c7x" / "toolchains" / "ti-cgt-c7000_5.0.1.LTS"
    assert result == {"path": str(root), "version": "5.0.1.LTS", "sha256": digest, "installer": installer.name}
    assert [path.name for path in root.parent.iterdir()] == [root.name]
    assert find_tools().root == root
    assert find_tools().origin == "c7x toolchain install"
    (row,) = list_tools()
    assert (row["path"], row["version"], row["problem"], row["sha256"]) == (str(root), "5.0.1.LTS", None, digest)
    assert install(str(installer), accept_license=True)["path"] == str(root)
    assert cli.main(["toolchain", "path"]) == 0
    assert capsys.readouterr().out == f"{root}\n"
    assert cli.main(["toolchain", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tools"][0]["version"] == "5.0.1.LTS"


def _left(tmp_path: Path) -> list[str]:
    folder = tmp_path / "data" / "c7x" / "toolchains"
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


def test_nothing_runs_without_license_or_with_another_hash(tmp_path: Path, installer: Path) -> None:
    with pytest.raises(UsageError, match="license"):
        install(str(installer))
    with pytest.raises(FormatError, match="has the SHA-256") as caught:
        install(str(installer), accept_license=True, sha256="0" * 64)
    assert "not run" in str(caught.value.cause)
    with pytest.raises(UsageError, match="URL needs --sha256"):
        install("https://example.invalid/installer.bin", accept_license=True)
    with pytest.raises(UsageError, match="64 hexadecimal"):
        install_module.install(str(installer), accept_license=True, sha256="xyz")
    assert _left(tmp_path) == []


@x86_only
def test_a_download_needs_its_hash(tmp_path: Path, installer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    digest = hashlib.sha256(installer.read_bytes()).hexdigest()
    handler = functools.partial(_QuietHandler, directory=str(installer.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/{installer.name}"
        with pytest.raises(FormatError, match="has the SHA-256"):
            install(url, accept_license=True, sha256="1" * 64)
        with pytest.raises(ToolError, match="cannot download"):
            install(f"{url}.missing", accept_license=True, sha256=digest)
        assert _left(tmp_path) == []
        assert install(url, accept_license=True, sha256=digest)["installer"] == installer.name
        server.shutdown()


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"\x7fELF\x01\x01\x01" + bytes(11) + b"\x03\x00", "32-bit"),
        (b"\x7fELF\x02\x01\x01" + bytes(11) + b"\xb7\x00", "another processor"),
        (b"MZ\x90\x00", "Windows"),
        (b"\xcf\xfa\xed\xfe", "macOS"),
        (b"<!DOCTYPE html>", "web page"),
        (b"", "no program"),
    ],
)
def test_foreign_installers(tmp_path: Path, head: bytes, words: str) -> None:
    path = tmp_path / "setup.bin"
    path.write_bytes(head)
    with pytest.raises(FormatError, match=words):
        install(str(path), accept_license=True)
    assert _left(tmp_path) == []


@x86_only
def test_an_installer_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installer: Path
) -> None:
    true = shutil.which("true")
    assert true is not None
    with pytest.raises(ToolError, match="installed no C7000 tools"):
        install(true, accept_license=True)
    false = shutil.which("false")
    assert false is not None
    with pytest.raises(ToolError, match="ended with code 1"):
        install(false, accept_license=True)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10))
    with pytest.raises(ToolError, match="no space"):
        install(str(installer), accept_license=True)
    with pytest.raises(FormatError, match="cannot read"):
        install(str(tmp_path / "nothing.bin"), accept_license=True)
    assert _left(tmp_path) == []


# ------------------------------------------------------------------------------------------------------ the real thing

_REAL = os.environ.get("TI_CGT_C7000_PATH")


@pytest.mark.ticgt
@pytest.mark.skipif(not _REAL, reason="TI_CGT_C7000_PATH is not set")
@pytest.mark.parametrize("build_type", ["release", "debug"])
@pytest.mark.parametrize("board", ["beagley-ai", "j722s-evm"])
def test_real_tools(tmp_path: Path, board: str, build_type: str) -> None:
    """Every rule is checked after the build, so a build that ends is a module that keeps them."""
    assert _REAL is not None
    ws = workspace(tmp_path / "build")
    options = ModuleOptions(cgt=Path(_REAL), build_type=build_type)
    result = dload_stage(ws, board=board, options=options)
    assert result["artefact"] == "lib0.out"
    assert describe_module(ws.path("lib0.out"), board)["machine"] == "C7000"
