from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from c7x import cli
from c7x.engine.local import LocalEngine
from c7x.errors import C7xError, CheckFailed, ModelError, UsageError
from c7x.stages import COMPILE_CHAIN, STAGES, StageRequest, parse_bindings, requests_for
from c7x.version import __version__
from c7x.workspace import Workspace
from tests.unit.engine_stages import TABLE

ROOT = Path(__file__).parents[2]
COMMANDS = (
    "compile", "export", "quantize", "import", "codegen", "build", "run", "deploy", "compare", "profile", "visualize",
    "bench", "inspect", "doctor", "version",
)  # fmt: skip


def c7x(*arguments: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "c7x.cli", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        timeout=120,
        check=False,
    )


def only_object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    assert isinstance(value, dict)
    return value


# --------------------------------------------------------------------------------------------------------------- help


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_an_example(command: str) -> None:
    result = CliRunner().invoke(cli.app, [command, "--help"], env={"COLUMNS": "120", "NO_COLOR": "1"})
    assert result.exit_code == 0
    assert f"Example: c7x {command} " in " ".join(result.output.split())
    assert "--json" in result.output


def test_commands_are_all_of_them() -> None:
    assert {(c.name or c.callback.__name__) for c in cli.app.registered_commands if c.callback} == set(COMMANDS)


def test_no_argument_prints_help() -> None:
    result = c7x()
    assert result.returncode == 0
    assert "compile" in result.stdout


def test_help_is_light() -> None:
    """What makes ``--help`` slow is what it loads: no package that computes, and no room of the compiler."""
    code = (
        "import sys; from c7x.cli import main; main(['--help']); "
        "heavy = {'torch', 'tvm', 'numpy', 'docker', 'elftools', 'c7x.codegen', 'c7x.frontend', 'c7x.graph'}; "
        "loaded = sorted(heavy & set(sys.modules)); sys.exit(f'imports {loaded}' if loaded else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_completion_script() -> None:
    words = c7x(_C7X_COMPLETE="complete_bash", COMP_WORDS="c7x comp", COMP_CWORD="1", cwd=ROOT)
    assert words.stdout.split() == ["compile", "compare"]


# ---------------------------------------------------------------------------------------------------------- exit codes


def test_unknown_command_suggests_the_nearest() -> None:
    result = c7x("comple")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: No such command 'comple'. Did you mean 'compile'")
    assert "hint: c7x --help" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["compile"], 2, "SOURCE"),
        (["compile", "missing.py"], 4, "missing.py"),
        (["compile", "."], 4, "folder"),
        (["compile", "notes.txt"], 4, "neither"),
        (["compile", "model.py", "--bind", "batch"], 2, "--bind batch=1"),
        (["compile", "model.py", "--bind", "batch=0"], 2, "at least 1"),
        (["compile", "model.py", "--target", "llvm"], 6, "c_static"),
        (["compile", "model.py", "--target", "c_static -mcpu=c66x"], 5, "c66x"),
        (["compile", "model.py", "--board", "beagle"], 6, "beagley-ai"),
        (["compile", "model.py", "--mode", "c7x_dload"], 6, "--board beagley-ai"),
        (["compile", "model.py", "--mode", "c7x_dload", "--board", "beagley-ai", "--cgt", "nowhere"], 9, "--cgt"),
        (["build", "nowhere", "--dry-run"], 2, "c7x_dload"),
        (["compile", "model.py", "--mode", "c7x_dload", "--board", "j722s-evm", "--cc", "gcc"], 2, "--cgt"),
        (["inspect", "model.py"], 8, "no ELF"),
        (["inspect", "build/lib0.out"], 8, "cannot read build/lib0.out"),
        (["inspect", "model.py", "--board", "beagle"], 6, "beagley-ai"),
        (["toolchain", "install", "notes.txt"], 2, "--accept-license"),
        (["toolchain", "install", "notes.txt", "--accept-license", "--sha256", "12"], 2, "64"),
        (["compile", "model.py", "--mode", "c7x_hots"], 6, "c7x_host"),
        (["compile", "model.py", "--quantize", "int4"], 2, "int8"),
        (["compile", "model.py", "--quantize", "int8", "--quantize-scale", "log"], 2, "pow2"),
        (["compile", "model.py", "--quantize", "int8", "--calibrate", "no.npz"], 2, "--calibrate data.npz"),
        (["compile", "model.py", "--calibrate-random", "4"], 2, "--quantize"),
        (["quantize", "model.py", "--dtype", "fp8"], 2, "int16"),
        (["quantize", "nowhere"], 4, "make_model"),
        (["deploy", "build", "--engine", "docker"], 7, "no build directory"),
        (["--engine", "docker", "emu", "list"], 2, "runs no stage"),
        (["compile", "model.py", "--memory", "much"], 2, "--memory 4g"),
        (["compile", "model.py", "--cpus=0"], 2, "--cpus"),
        (["compile", "model.py", "--memory"], 2, "needs a value"),
        (["compile", "model.py", "--engine", "podman"], 2, "docker"),
        (["import", "nowhere"], 7, "no build directory"),
        (["build", "nowhere"], 7, "no build directory"),
        (["run", "nowhere"], 7, "c7x compile"),
        (["run", "nowhere", "--repeat", "0"], 2, "repeat"),
        (["compare", "nowhere"], 7, "no build directory"),
        (["bench", "nowhere", "--peer", "tensorflow"], 2, "onnxruntime"),
        (["inspect", "nowhere"], 7, "no build directory"),
    ],
)
def test_bad_use_ends_with_its_code_and_a_hint(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    word: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *args: None)
    (tmp_path / "model.py").write_text("raise SystemExit('must not be run')\n")
    (tmp_path / "notes.txt").write_text("")
    before = sorted(p.name for p in tmp_path.iterdir())
    assert cli.main(arguments) == code
    out, err = capsys.readouterr()
    assert err.startswith("error: ")
    assert "hint: " in err
    assert word in err
    assert out == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_verbose_adds_the_traceback_of_an_error() -> None:
    result = c7x("version", "--verbose", "--quiet")
    assert result.returncode == 2
    assert "Traceback" in result.stderr
    assert "error: --verbose and --quiet contradict each other" in result.stderr


def test_error_object(tmp_path: Path) -> None:
    result = c7x("compile", "missing.py", "--json", cwd=tmp_path)
    value = only_object(result.stdout)
    assert result.returncode == ModelError.exit_code
    assert set(value) == {"status", "error", "message", "cause", "hint", "stage"}
    assert (value["status"], value["error"], value["stage"]) == ("error", "ModelError", "export")
    assert "error: there is no file missing.py" in result.stderr


def test_usage_error_object() -> None:
    result = c7x("compile", "--json", "--nonsense")
    assert result.returncode == 2
    assert only_object(result.stdout)["error"] == "UsageError"


def test_main_inner_raises() -> None:
    with pytest.raises(UsageError, match="No such command"):
        cli.main_inner(["nonsense"])
    with pytest.raises(C7xError, match=r"missing\.py"):
        cli.main_inner(["export", "missing.py"])


def test_version_and_inspect_json(tmp_path: Path) -> None:
    assert only_object(c7x("version", "--json").stdout)["versions"]["c7x"] == __version__
    ws = Workspace(tmp_path / "build")
    with ws.stage("codegen") as run:
        run.write_text("lib0.c", "int x;")
        run.write_json("io.json", {"arena_bytes": 4096, "arena_lower_bound": 4096, "weights_bytes": 10})
        run.facts["model"] = "net"
    ws.path("lib0.c").write_text("int y;")
    value = only_object(c7x("inspect", "build", "--json", cwd=tmp_path).stdout)
    assert (value["status"], value["model"], value["arena_bytes"], value["artefact"]) == ("ok", "net", 4096, None)
    assert {f["name"]: f["state"] for f in value["files"]} == {"io.json": "as written", "lib0.c": "edited"}
    text = c7x("inspect", "build", cwd=tmp_path).stdout
    assert "edited" in text
    assert "4.1 kB" in text


def test_broken_pipe_is_quiet(tmp_path: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m c7x.cli version --json | true; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.strip() in {"0", "141"}


def test_no_color(tmp_path: Path) -> None:
    script = ["script", "-qec"]
    command = f"{sys.executable} -m c7x.cli {{}} compile missing.py"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)

    def colours(arguments: str, **more: str) -> bool:
        done = subprocess.run(
            [*script, command.format(arguments), "/dev/null"],
            capture_output=True, text=True, cwd=tmp_path, env={**env, **more}, timeout=60, check=False,
        )  # fmt: skip
        assert "missing.py" in done.stdout
        return "\x1b[31" in done.stdout or "\x1b[1;31" in done.stdout

    try:
        assert colours("")
    except FileNotFoundError:
        pytest.skip("there is no script command")
    assert not colours("--no-color")
    assert not colours("", NO_COLOR="1")


# -------------------------------------------------------------------------------------------- rendering, with fakes


class FakeEngine:
    """Takes requests, and answers with results that real stages would give."""

    def __init__(self, results: dict[str, dict[str, Any]] | C7xError) -> None:
        self.results = results
        self.requests: list[StageRequest] = []

    def run(self, workspace: Workspace, requests: list[StageRequest], listener: Any) -> Any:
        from c7x.engine.events import StageOutcome

        self.requests = requests
        if isinstance(self.results, C7xError):
            raise self.results
        listener.loading("torch")
        listener.loaded("torch", 2.0)
        outcomes = []
        for request in requests:
            listener.stage(request.name)
            listener.output("[bold]user[/bold] output")
            listener.finished(request.name, 1.25)
            outcomes.append(StageOutcome(name=request.name, seconds=1.25, result=self.results.get(request.name, {})))
        return outcomes


def use(monkeypatch: pytest.MonkeyPatch, results: dict[str, dict[str, Any]] | C7xError) -> FakeEngine:
    engine = FakeEngine(results)
    monkeypatch.setattr(cli.making, "select_engine", lambda *asked: engine)
    monkeypatch.setattr(signal, "signal", lambda *args: None)
    return engine


def test_compile_prints_stages_with_times_and_a_summary(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    use(monkeypatch, {})
    ws = Workspace(tmp_path)
    with ws.stage("codegen") as run:
        run.write_json(
            "io.json", {"arena_bytes": 4_000_000, "arena_lower_bound": 4_000_000, "weights_bytes": 46_000_000}
        )
    with ws.stage("build") as run:
        run.write_text("cg_dsp", "x" * 2000)
    assert cli.main(["compile", "model.py", "-o", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert [line.split() for line in err.splitlines()[:2]] == [
        ["loading", "torch", "2.0", "s"],
        ["[bold]user[/bold]", "output"],
    ]
    for name in (*COMPILE_CHAIN, "check"):
        assert [name, "1.2", "s"] in [line.split() for line in err.splitlines()]
    assert "cg_dsp (2.0 kB)" in out
    assert "4.0 MB (at least 4.0 MB live at once)" in out
    assert f"c7x run {tmp_path}" in out


def test_compile_json_is_one_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    engine = use(monkeypatch, {"codegen": {"layers": 7}})
    arguments = "--json --no-check --bind n=2 --bind m=3 --profile-layers --march native --cflags=-g".split()
    assert cli.main(["compile", "model.py", "-o", str(tmp_path), *arguments]) == 0
    value = only_object(capsys.readouterr().out)
    assert value["status"] == "ok"
    assert [stage["name"] for stage in value["stages"]] == list(COMPILE_CHAIN)
    assert value["stages"][2]["result"] == {"layers": 7}
    options = {request.name: dict(request.options) for request in engine.requests}
    assert options["export"] == {"source": "model.py", "bind": ["n=2", "m=3"]}
    assert options["codegen"] == {"mode": "c7x_host", "profile_layers": True}
    assert options["build"] == {"mode": "c7x_host", "march": "native", "cflags": "-g"}


def test_quiet_prints_results_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    use(monkeypatch, {})
    assert cli.main(["compile", "model.py", "-o", str(tmp_path), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


OUTPUT = {
    "name": "y", "dtype": "float32", "shape": [1, 10], "passed": False, "reason": "max error", "count": 10,
    "max_abs": 0.5, "max_rel": 0.25, "sqnr_db": None, "cosine": None, "mismatches": 3, "non_finite": 0,
}  # fmt: skip


def test_compare_that_fails_shows_the_table_and_the_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = CheckFailed("cg_dsp differs from PyTorch")
    error.details = {"outputs": [OUTPUT], "passed": False}
    use(monkeypatch, error)
    assert cli.main(["compare", "build", "--json"]) == 1
    out, err = capsys.readouterr()
    assert only_object(out)["details"]["outputs"] == [OUTPUT]
    assert "FAILED" in err
    assert "float32[1, 10]" in err


def test_compare_and_bench_tables(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use(monkeypatch, {"compare": {"outputs": [{**OUTPUT, "passed": True}], "passed": True}})
    assert cli.main(["compare", "build", "--input", "a.npy", "--input", "b.npy"]) == 0
    assert "exact" in capsys.readouterr().out
    entry = {"name": "cg_dsp", "median_seconds": 0.0123, "min_seconds": 0.01, "ratio": 1.0, "peak_rss_bytes": None}
    engine = use(monkeypatch, {"bench": {"contenders": [entry]}})
    assert cli.main(["bench", "build", "--peer", "torch", "--peer", "none"]) == 0
    out = capsys.readouterr().out
    assert "host time" in out
    assert "12.300 ms" in out
    assert engine.requests[0].options == {"peers": ["torch"], "repeat": 20, "warmup": 3}


def test_run_shows_outputs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    result = {
        "outputs": [{"name": "y", "dtype": "int64", "shape": []}], "host_seconds_median": 0.002, "stdout": "Done\n",
    }  # fmt: skip
    engine = use(monkeypatch, {"run": result})
    assert cli.main(["run", "build", "--input", "x.npy", "--output", "y.npz", "--repeat", "5"]) == 0
    out = capsys.readouterr().out
    assert "int64[]" in out
    assert "host time 2.0 ms" in out
    assert "Done" not in out
    assert "TVM" not in out
    assert engine.requests[0].options == {"input": ["x.npy"], "output": "y.npz", "repeat": 5}


PROFILE = """
===== TVM Layer Profile =====
[  0] __tvm_ffi_mean                           852 cycles
-----------------------------
Total: 852 cycles (1 layers)
============================="""
ALLOCATION = """[alloc-storage #0] request 64 bytes  (L2 free: 4194304, Main free: 369098752)
  -> 0x55989ee28380 OK"""
SUMMARY = """===== TVM Alloc Debug Summary =====
Total AllocStorage calls: 1
Final pool state: L2 free=4194304, Main free=369098752"""


@pytest.mark.parametrize(
    ("stdout", "shown"),
    [
        (f"Cycles: 1\n{PROFILE}\nNum outputs: 1\nDone\n", PROFILE.strip()),
        (f"Cycles: 1\n{ALLOCATION}\nHost time[0]: 0.1 s\n{SUMMARY}\nDone\n", f"{ALLOCATION}\n{SUMMARY}"),
    ],
)
def test_run_shows_what_the_instruments_say(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stdout: str, shown: str
) -> None:
    result = {"outputs": [], "host_seconds_median": 0.002, "stdout": stdout}
    use(monkeypatch, {"run": result})
    assert cli.main(["run", "build"]) == 0
    out = capsys.readouterr().out
    assert shown in out
    assert not {"Cycles: 1", "Done", "Num outputs: 1"} & set(out.splitlines())


def test_version_option() -> None:
    assert c7x("--version").stdout == f"c7x {__version__}\n"


def test_unforeseen_exception_is_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, {})
    monkeypatch.setattr(cli.making, "select_engine", lambda *asked: 1 / 0)
    assert cli.main(["import", "build"]) == 14
    assert "ZeroDivisionError" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------ with a real worker


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals(tmp_path: Path, number: signal.Signals, code: int) -> None:
    worker = str(Path(__file__).with_name("engine_stages.py"))
    program = f"""
import sys
from c7x import cli
from c7x.engine.local import LocalEngine
from c7x.stages import StageRequest
from tests.unit.engine_stages import TABLE
cli.making.select_engine = lambda *asked: LocalEngine(table=TABLE, command=[sys.executable, {worker!r}])
cli.making.requests_for = lambda names, options: [StageRequest(name="half", options={{"how": "sleep"}})]
sys.exit(cli.main(["import", {str(tmp_path / "build")!r}]))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stderr is not None
    assert "sleeping" in process.stderr.readline()
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (code, "", "interrupted\n")
    assert not (tmp_path / "build").exists()


def test_an_interrupted_command_answers_with_every_key_of_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(arguments: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.entry, "main_inner", interrupt)
    assert cli.main(["compile", "model.py", "--json"]) == 130
    answer = json.loads(capsys.readouterr().out)
    assert answer.keys() == UsageError("x").to_json().keys()
    assert (answer["status"], answer["error"]) == ("error", "Interrupted")


def test_json_stays_pure_when_user_code_prints(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    worker = Path(__file__).with_name("engine_stages.py")
    monkeypatch.setattr(
        cli.making, "select_engine", lambda *asked: LocalEngine(table=TABLE, command=[sys.executable, str(worker)])
    )
    monkeypatch.setattr(cli.making, "requests_for", lambda names, options: [StageRequest(name="chatter")])
    monkeypatch.setattr(signal, "signal", lambda *args: None)
    assert cli.main(["import", str(tmp_path), "--json"]) == 0
    out, err = capfd.readouterr()
    assert only_object(out)["stages"][0]["name"] == "chatter"
    assert "to stdout" in err


# -------------------------------------------------------------------------------------------------------- stage table


def test_chain_has_what_each_stage_reads() -> None:
    written: set[str] = set()
    for name in (*COMPILE_CHAIN, "check"):
        assert set(STAGES[name].reads) <= written, name
        written |= set(STAGES[name].writes)


def test_requests_leave_out_what_is_none() -> None:
    (request,) = requests_for(["export"], {"source": "m.py", "bind": None, "cc": "gcc"})
    assert request.options == {"source": "m.py"}


def test_bindings() -> None:
    assert parse_bindings(["batch=1", "seq_len=128", "batch=1"]) == {"batch": 1, "seq_len": 128}
    for text in ("batch=-1", "=1", "1x=3", "a b=1", "x=1.5", "x=", "x"):
        with pytest.raises(UsageError, match="--bind"):
            parse_bindings([text])
    with pytest.raises(UsageError, match="two sizes"):
        parse_bindings(["x=1", "x=2"])
