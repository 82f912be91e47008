"""The virtual DSP from the command line and from Python, as a user and as a script would use it."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from c7x.cli import main
from c7x.errors import CheckFailed, CrashError, RunError, ToolError, UsageError
from c7x.run import vdsp
from c7x.run.host import run_host
from c7x.toolchain.gnu import BuildOptions, find_compiler
from c7x.toolchain.stage import build_stage
from c7x.toolchain.vdsp import build_module
from c7x.workspace import Workspace
from tests.integration import vdsp_harness as v
from tests.integration.commands import ROOT
from tests.integration.handwritten import affine_weights
from tests.integration.test_cli_chain import MODEL

IMPORTS_TOO_MUCH = """
#include <stdlib.h>
#include <math.h>
__attribute__((visibility("default"))) int cg_main_dsp(void *a, int n, void *c, void *r);
int cg_main_dsp(void *a, int n, void *c, void *r) {
  (void)c; (void)r;
  qsort(a, (size_t)n, 1, 0);
  return (int)(long)realloc(a, 5) + (int)sqrtf((float)n);
}
"""


_start = vdsp.start
_started: list[subprocess.Popen[bytes]] = []


def _start_and_keep(command: Sequence[str], log: Path) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """As ``vdsp.start``; this process outlives the command, so it has to wait for what the command leaves running."""
    process, ready = _start(command, log)
    _started.append(process)
    return process, ready


@dataclass(frozen=True)
class Done:
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


def c7x(folder: Path, *arguments: str, **env: str) -> Done:
    """A command in this process: starting Python for each takes most of the time. Stages still get one of their own."""
    output, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(errors):
        patch.chdir(folder)
        for name, value in {"XDG_RUNTIME_DIR": str(folder / "run"), **env}.items():
            patch.setenv(name, value)
        patch.setattr(vdsp, "start", _start_and_keep)
        code = main(arguments)
    if arguments[:2] == ("vdsp", "stop"):
        for process in _started:
            process.wait(10)
        _started.clear()
    return Done(code, output.getvalue(), errors.getvalue())


def ok(folder: Path, *arguments: str, **env: str) -> dict[str, Any]:
    done = c7x(folder, *arguments, "--json", **env)
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert value["status"] in ("ok", "ready")
    return dict(value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model built for the virtual DSP in ``build``, by the command line."""
    folder = tmp_path_factory.mktemp("vdsp")
    (folder / "model.py").write_text(MODEL)
    value = ok(folder, "compile", "model.py", "--mode", "c7x_vdsp", "--profile-layers", "--board", "beagley-ai")
    assert value["artefact"] == "lib0.out"
    assert [stage["name"] for stage in value["stages"]] == ["export", "import", "codegen", "build", "check"]
    return folder


@pytest.fixture
def running(folder: Path) -> Iterator[dict[str, Any]]:
    ready = ok(folder, "vdsp", "start")
    yield ready
    c7x(folder, "vdsp", "stop")
    assert not Path(ready["socket"]).exists()


def test_start_status_stop(folder: Path) -> None:
    done = c7x(folder, "vdsp", "start")
    assert done.returncode == 0, done.stderr
    ready = json.loads(done.stdout.splitlines()[0])
    place = folder / "run" / "c7x"
    assert ready == {
        "status": "ready",
        "socket": str(place / "vdsp.sock"),
        "shm": str(place / "vdsp.shm"),
        "base": "0xC0000000",
        "size": 536870912,
        "board": "j722s-evm",
        "strict": True,
        "pid": ready["pid"],
    }
    status = ok(folder, "vdsp", "status")
    assert (status["running"], status["pid"], status["version"], status["jobs_completed"]) == (
        True,
        ready["pid"],
        "2.0.0",
        0,
    )
    assert "vdsp.sock" in c7x(folder, "vdsp", "status").stdout
    again = c7x(folder, "vdsp", "start", "--json")
    assert again.returncode == RunError.exit_code
    assert "already running" in json.loads(again.stdout)["message"]
    assert ok(folder, "vdsp", "stop")["pid"] == ready["pid"]
    assert sorted(p.name for p in place.iterdir()) == ["vdsp.log"]
    for command in ("status", "stop"):
        gone = c7x(folder, "vdsp", command, "--json")
        assert gone.returncode == CheckFailed.exit_code
        assert json.loads(gone.stdout)["details"]["running"] is False


def test_status_names_the_shared_buffer_it_was_started_with(folder: Path, tmp_path: Path) -> None:
    """Clients of a socket find the buffer there; with --shm it does not lie beside the socket."""
    ready = ok(folder, "vdsp", "start", "--socket", "apart.sock", "--shm", "elsewhere.mem")
    try:
        here = ok(folder, "vdsp", "status", "--socket", "apart.sock")
        there = ok(tmp_path, "vdsp", "status", "--socket", str(folder / "apart.sock"))
        assert (here["shm"], there["shm"]) == (ready["shm"], str(folder / "elsewhere.mem"))
    finally:
        c7x(folder, "vdsp", "stop", "--socket", "apart.sock")


def test_foreground_and_options(folder: Path) -> None:
    arguments = ("--foreground", "--socket", "a.sock", "--shm", "b.shm", "--board", "beagley-ai", "--no-strict")
    words = [sys.executable, "-m", "c7x.cli", "vdsp", "start", *arguments, "--base", "0x80000000", "--fault", "drop=9"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, cwd=folder, env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert (ready["socket"], ready["shm"], ready["base"]) == ("a.sock", "b.shm", "0x80000000")
        assert (ready["board"], ready["strict"], ready["pid"]) == ("beagley-ai", False, process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    assert not (folder / "a.sock").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--board", "beagle"], "unknown board"),
        (["--base", "middle"], "not an address"),
        (["--fault", "mood=1"], "unknown fault"),
        (["--socket", "x" * 200], "107 characters"),
    ],
)
def test_wrong_options(folder: Path, arguments: list[str], words: str) -> None:
    done = c7x(folder, "vdsp", "start", *arguments, "--json")
    assert done.returncode != 0
    assert words in json.loads(done.stdout)["message"]


def test_run_with_one_of_its_own(folder: Path) -> None:
    value = ok(folder, "run", "build", "--mode", "c7x_vdsp", "--output", "y.npz", "--repeat", "3")
    expected = np.load(folder / "build" / "expected" / "output_0.npy")
    with np.load(folder / "y.npz") as archive:
        np.testing.assert_allclose(archive[value["outputs"][0]["name"]], expected, rtol=1e-5)
    assert "===== TVM Layer Profile =====" in value["stdout"]
    assert value["cycles"] > 0
    assert (folder / "build" / "output.bin").exists()
    assert ok(folder, "compare", "build")["passed"] is True
    assert ok(folder, "inspect", "build")["mode"] == "c7x_vdsp"


def test_run_with_the_one_that_runs(folder: Path, running: dict[str, Any]) -> None:
    ok(folder, "run", "build", "--repeat", "2")
    assert ok(folder, "vdsp", "status")["jobs_completed"] == 2
    # The same bits as from one of its own, and as cg_dsp's.
    with vdsp.private_server() as place:
        ok(folder, "run", "build", "--output", "own.npy", C7X_VDSP_SOCKET=str(place.socket))
    ok(folder, "run", "build", "--output", "theirs.npy")
    shutil.copytree(folder / "build", folder / "host")
    build_stage(Workspace(folder / "host"), options=BuildOptions())
    host = run_host(folder / "host", [np.load(folder / "build" / "inputs" / "input_0.npy")]).outputs[0]
    assert np.load(folder / "own.npy").tobytes() == np.load(folder / "theirs.npy").tobytes() == host.tobytes()


def test_one_session_at_a_time(folder: Path, running: dict[str, Any]) -> None:
    place = vdsp.Endpoint(socket=Path(running["socket"]), shm=Path(running["shm"]))
    with vdsp.VdspClient(place):
        with pytest.raises(RunError, match="busy"):
            vdsp.VdspClient(place)
        # Without an order to use just this one, a run takes one of its own.
        ok(folder, "run", "build")
        done = c7x(folder, "run", "build", "--json", C7X_VDSP_SOCKET=running["socket"])
        assert done.returncode == RunError.exit_code
        assert "busy" in json.loads(done.stdout)["message"]
    assert ok(folder, "vdsp", "status")["jobs_completed"] == 0


def test_asked_for_one_that_is_not_there(folder: Path) -> None:
    done = c7x(folder, "run", "build", "--json", C7X_VDSP_SOCKET=str(folder / "none.sock"))
    assert done.returncode == RunError.exit_code
    assert "no virtual DSP answers" in json.loads(done.stdout)["message"]


def test_mode_without_its_artefact(folder: Path) -> None:
    done = c7x(folder, "run", "build", "--mode", "c7x_host", "--json")
    assert done.returncode != 0
    assert "holds no cg_dsp" in json.loads(done.stdout)["message"]
    done = c7x(folder, "run", "build", "--mode", "c7x", "--json")
    assert done.returncode != 0


# ---------------------------------------------------------------------------------------------------------- client


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return v.make_module(tmp_path_factory.mktemp("probe") / "m", weights=affine_weights())


def _ask(command: int, argument: int = 0) -> np.ndarray:
    return np.array([command, argument], dtype=np.int32)


def test_client(probe: bytes) -> None:
    with vdsp.private_server() as place, vdsp.VdspClient(place) as client:
        with pytest.raises(RunError, match="ERR_LOAD") as refused:
            client.load(b"\x7fELF" + bytes(100))
        assert "ELF" in str(refused.value)
        handle = client.load(probe)
        assert [o.shape for o in client.infer(handle, [_ask(v.OUTPUTS, 128)]).outputs] == [(i,) for i in range(1, 129)]
        assert client.infer(handle, []).outputs[0].tolist() == [0.0]
        many = [np.full((2, 3), 1, np.uint8) for _ in range(127)]
        with pytest.raises(RunError, match="ERR_CALL"):
            client.infer(handle, [_ask(v.RETURN, -1), *many])
        assert client.infer(handle, [_ask(v.PRINT, 2)], repeat=2).text.count("\n") == 4
        with pytest.raises(CrashError, match="SIGSEGV") as crash:
            client.infer(handle, [_ask(v.CRASH, 0)])
        assert "offset 0x" in str(crash.value)
        with pytest.raises(RunError, match="never written"):
            client.infer(handle, [_ask(v.READ_BSS)])
        with pytest.raises(RunError, match="rank 7"):
            client.infer(handle, [_ask(v.OUTPUTS), np.zeros((1,) * 7, np.float32)])
        with pytest.raises(RunError, match="do not fit"):
            client.infer(handle, [_ask(v.OUTPUTS), np.zeros(470 << 20, np.uint8)])
        client.unload(handle)
        with pytest.raises(RunError, match="ERR_HANDLE"):
            client.unload(handle)


@pytest.mark.parametrize("fault", ["seq=1", "short=1", "die=1", "drop=1"])
def test_client_and_faults(probe: bytes, fault: str) -> None:
    with vdsp.private_server(faults=[fault]) as place, vdsp.VdspClient(place, timeout=0.5) as client:
        expected = CrashError if fault == "die=1" else RunError
        with pytest.raises(expected):
            client.load(probe)


# -------------------------------------------------------------------------------------------------------------- build


def _build(folder: Path, text: str, **options: Any) -> Path:
    folder.mkdir(parents=True)
    (folder / "lib0.c").write_text(text)
    (folder / "s").mkdir()
    module, _ = build_module(
        [folder / "lib0.c"],
        weights=None,
        folder=folder / "s",
        board="beagley-ai",
        options=BuildOptions(**options),
        compiler=find_compiler("gcc"),
    )
    return module


def test_imports_are_checked(tmp_path: Path) -> None:
    with pytest.raises(
        ToolError, match=r"lib0.out needs qsort, realloc, which the firmware of beagley-ai does not have"
    ):
        _build(tmp_path / "a", IMPORTS_TOO_MUCH)


def test_entry_must_be_exported(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="does not export cg_main_dsp"):
        _build(tmp_path / "a", "int cg_main_dsp(void); int cg_main_dsp(void) { return 0; }\n")


def test_constructors_are_refused(tmp_path: Path) -> None:
    text = """
    static int x;
    __attribute__((constructor)) static void start(void) { x = 1; }
    __attribute__((visibility("default"))) int cg_main_dsp(void);
    int cg_main_dsp(void) { return x; }
    """
    with pytest.raises(ToolError, match="constructors"):
        _build(tmp_path / "a", text)


def test_sanitizers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="sanitizers"):
        _build(tmp_path / "a", "int x;\n", build_type="asan")


def test_builds_are_reproducible(folder: Path, tmp_path: Path) -> None:
    """Two folders, the same bytes, and no trace of where they are."""
    copies = [Workspace(tmp_path / name) for name in ("one", "another-and-longer")]
    for ws in copies:
        shutil.copytree(folder / "build", ws.root)
        build_stage(ws, mode="c7x_vdsp", options=BuildOptions())
    for name in ("lib0.out", "lib0.out.map"):
        first, second = (ws.path(name).read_bytes() for ws in copies)
        assert first == second
        for trace in (str(tmp_path), str(folder), "/usr/", "/tmp/"):
            assert trace.encode() not in first, (name, trace)


@pytest.mark.parametrize("cc", ["gcc", "g++", "clang", "clang++"])
def test_compilers(folder: Path, tmp_path: Path, cc: str) -> None:
    if shutil.which(cc) is None:
        pytest.skip(f"no {cc}")
    ws = Workspace(tmp_path / "build")
    shutil.copytree(folder / "build", ws.root)
    build_stage(ws, mode="c7x_vdsp", options=BuildOptions(cc=cc))
    x = np.load(ws.path("inputs/input_0.npy"))
    (y,) = vdsp.run_vdsp(ws, [x]).outputs
    np.testing.assert_allclose(y, np.load(ws.path("expected/output_0.npy")), rtol=1e-5)


def test_layout_of_a_module(folder: Path) -> None:
    """What a board's loader wants to find (module ABI, section 5)."""
    from elftools.elf.elffile import ELFFile

    path = folder / "build" / "lib0.out"
    weights = (folder / "build" / "weights.bin").read_bytes()
    with path.open("rb") as file:
        elf = ELFFile(file)
        assert elf["e_type"] == "ET_DYN"
        dynamic = elf.get_section_by_name(".dynamic")
        assert [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")] == ["dsp_syms.out"]
        assert [tag.soname for tag in dynamic.iter_tags("DT_SONAME")] == ["lib0.out"]
        for segment in elf.iter_segments("PT_LOAD"):
            assert segment["p_offset"] + segment["p_filesz"] < path.stat().st_size
        section = elf.get_section_by_name(".rodata.weights")
        assert section["sh_offset"] % 128 == 0
        assert section.data()[: len(weights)] == weights
        symbols = {s.name: s for s in elf.get_section_by_name(".dynsym").iter_symbols()}
        start, end, size = (symbols[f"_binary_weights_bin_{name}"]["st_value"] for name in ("start", "end", "size"))
        assert end - start == len(weights)
        assert struct.unpack_from("<I", section.data(), size - section["sh_addr"]) == (len(weights),)
        assert "TVMPrintLayerProfile" in symbols
        inner = elf.get_section_by_name(".dsp_syms_out")
        assert inner["sh_flags"] == 0
        assert inner.data().startswith(b"\x7fELF")


def test_client_and_a_file_that_is_shortened(probe: bytes, tmp_path: Path) -> None:
    """``--shm-file``: an error instead of SIGBUS."""
    place = vdsp.Endpoint(socket=tmp_path / "vdsp.sock", shm=tmp_path / "vdsp.shm")
    process, _ = vdsp.start(vdsp.server_command(place, shm_file=True), tmp_path / "log")
    try:
        with vdsp.VdspClient(place) as client:
            handle = client.load(probe)
            os.truncate(place.shm, 4096)
            with pytest.raises(RunError, match="has become shorter"):
                client.infer(handle, [np.zeros(2, np.int32)])
            with pytest.raises(RunError, match="has become shorter"):
                client.load(probe)
    finally:
        process.terminate()
        process.wait(10)
