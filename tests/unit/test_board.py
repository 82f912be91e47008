"""Running on a board, with an ssh and an scp that only write down what they are asked, and a c7x_compute of our own."""

from __future__ import annotations

import fcntl
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from c7x import cli, compat
from c7x.errors import RunError, TargetError, UsageError
from c7x.run import board
from c7x.run.board import SshMachine, machine_for, run_module
from c7x.tensorfile import read_tensors
from c7x.workspace import Workspace

X = np.arange(6, dtype=np.float32).reshape(2, 3)

# Both log their arguments and act in the folder `root`, which stands for the board.
SSH = """#!{python}
import json, os, subprocess, sys
root = {root!r}
with open(root + "/log", "a") as file:
    file.write(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]) + "\\n")
if os.path.exists(root + "/refuse"):
    sys.stderr.write("ssh: connect to host: Permission denied (publickey).\\n")
    sys.exit(255)
if sys.argv[0].endswith("ssh"):
    command = sys.argv[-1].replace("/tmp/c7x_compute", root + "/board").replace("/usr/local/bin", root + "/bin")
    sys.exit(subprocess.run(["sh", "-c", command]).returncode)
def place(text):
    user, colon, path = text.partition(":")
    return path.replace("/tmp/c7x_compute", root + "/board") if colon else text
with open(place(sys.argv[-2]), "rb") as source, open(place(sys.argv[-1]), "wb") as target:
    target.write(source.read())
"""

# Doubles its first input.
COMPUTE = """#!{python}
import json, sys
import numpy as np
words = sys.argv[1:]
if words[0] == "ping":
    print("PING successful!\\n  Version: 2.0.0\\n  Uptime:  1.000 seconds")
    sys.exit(0)
option = lambda name: words[words.index("--" + name) + 1]
print("c7x: connected, whatever {{")
answer = {answer!r}
if answer:
    sys.stderr.write("text of the module\\n")
    print(answer)
    sys.exit(1)
shape = [int(size) for size in option("shape").split(";")[0].split(",") if size]
x = np.fromfile(option("input"), np.float32)[: int(np.prod(shape))]
(2 * x).tofile(option("output"))
outputs = [{{"index": 0, "ndim": len(shape), "dtype_code": 2, "dtype_bits": 32, "data_size": x.nbytes, "shape": shape}}]
print(json.dumps({{"status": "ok", "cycles": 77, "num_outputs": 1, "outputs": outputs}}))
"""


class FakeBoard:
    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "bin").mkdir()
        (root / "path").mkdir()
        for name in ("ssh", "scp"):
            self._write(root / "path" / name, SSH.format(python=sys.executable, root=str(root)))
        self.answer("")

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def answer(self, text: str) -> None:
        """What c7x_compute prints before it fails; empty: it works."""
        # The line before the JSON has no brace in it, as in the documented client.
        script = COMPUTE.format(python=sys.executable, answer=text).replace(", whatever {", "")
        self._write(self.root / "bin" / "c7x_compute", script)

    @property
    def log(self) -> list[list[str]]:
        path = self.root / "log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def commands(self) -> list[list[str]]:
        """What was run there."""
        return [shlex.split(words[-1]) for words in self.log if words[0] == "ssh"]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBoard]:
    root = tmp_path / "fake"
    root.mkdir()
    made = FakeBoard(root)
    monkeypatch.setenv("PATH", f"{root / 'path'}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("BOARD_HOSTNAME", raising=False)
    yield made
    compat.set_current_board(None)


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "lib0.out"
    path.write_bytes(b"module")
    return path


def test_run(fake: FakeBoard, module: Path) -> None:
    result = run_module(SshMachine(host="beagley-ai"), module, [X, np.arange(4, dtype=np.int8)])
    np.testing.assert_array_equal(result.outputs[0], 2 * X)
    assert result.cycles == 77
    assert all("BatchMode=yes" in words for words in fake.log)  # nobody is asked for a password
    words = next(words for words in fake.commands() if words[0].endswith("c7x_compute"))
    assert words[1] == "run"
    assert words[words.index("--shape") + 1] == "2,3;4"
    assert words[words.index("--dtype") + 1] == "float32;int8"
    assert [path.name for path in (fake.root / "board").iterdir()] == ["lib0.out"]  # the rest is removed
    copied = sum(words[0] == "scp" for words in fake.log)
    run_module(SshMachine(host="beagley-ai"), module, [X])
    assert sum(words[0] == "scp" for words in fake.log) == copied + 2  # input and output; the module was there
    module.write_bytes(b"another")
    run_module(SshMachine(host="beagley-ai"), module, [X], command="profile")
    assert (fake.root / "board" / "lib0.out").read_bytes() == b"another"
    assert [words[1] for words in fake.commands() if words[0].endswith("c7x_compute")] == ["run", "run", "profile"]


@pytest.mark.parametrize("array", [np.float32(3).reshape(()), X.T, X.astype(">f4"), np.zeros((0, 3), np.float32)])
def test_inputs_of_other_forms(fake: FakeBoard, module: Path, array: np.ndarray) -> None:
    result = run_module(SshMachine(host="h"), module, [array])
    np.testing.assert_array_equal(result.outputs[0].reshape(array.shape), 2 * array.astype(np.float32))


def test_a_board_that_does_not_answer(fake: FakeBoard, module: Path) -> None:
    (fake.root / "refuse").touch()
    with pytest.raises(RunError, match=r"no connection to root@beagley-ai\nssh: .*Permission denied") as caught:
        run_module(SshMachine(host="beagley-ai"), module, [X])
    assert "ssh-copy-id root@beagley-ai" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("answer", "words", "step"),
    [
        ('{"status": "error", "stage": "load", "error": "Dynamic load failed"}', "Dynamic load failed", "load"),
        ('{"status": "error", "stage": "infer", "error": "Function call failed"}', "text of the module", "infer"),
        ("Segmentation fault", "gave no result", None),
        ('{"status": "ok"', "gave no result", None),
        ("[]", "gave no result", None),
    ],
)
def test_failures_of_the_program(fake: FakeBoard, module: Path, answer: str, words: str, step: str | None) -> None:
    fake.answer(answer)
    with pytest.raises(RunError, match=words) as caught:
        run_module(SshMachine(host="h"), module, [X])
    assert (caught.value.details or {}).get("step") == step
    assert not list((fake.root / "board").glob("run-*"))  # removed all the same


def test_program_is_missing(fake: FakeBoard, module: Path) -> None:
    (fake.root / "bin" / "c7x_compute").unlink()
    with pytest.raises(RunError, match="exit code 127"):
        run_module(SshMachine(host="h"), module, [X])


@pytest.mark.parametrize(
    "item",
    [{}, {"data_size": 20}, {"dtype_code": 9}, {"shape": [7]}, {"shape": [-2, -3]}, {"shape": None}],
)
def test_outputs_that_do_not_match(item: dict[str, Any]) -> None:
    good = {"index": 0, "ndim": 2, "dtype_code": 2, "dtype_bits": 32, "data_size": 24, "shape": [2, 3]}
    with pytest.raises(RunError, match="do not match"):
        board.split_outputs({"outputs": [{**good, **item}]}, X.tobytes() if item else X.tobytes() + b"x")


def test_outputs_are_sorted() -> None:
    items = [
        {"index": 1, "dtype_code": 0, "dtype_bits": 8, "data_size": 2, "shape": [2]},
        {"index": 0, "dtype_code": 2, "dtype_bits": 32, "data_size": 4, "shape": []},
    ]
    first, second = board.split_outputs({"outputs": items}, np.float32(2).tobytes() + bytes([3, 4]))
    assert first == np.float32(2)
    assert second.tolist() == [3, 4]


def test_lock(fake: FakeBoard, module: Path, tmp_path: Path) -> None:
    (tmp_path / "c7x").mkdir(exist_ok=True)
    with (tmp_path / "c7x" / "board-root_h.lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RunError, match="root@h is busy"):
            run_module(SshMachine(host="h"), module, [X])
        run_module(SshMachine(host="another"), module, [X])
    run_module(SshMachine(host="h"), module, [X])


def test_which_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOARD_HOSTNAME", raising=False)
    assert machine_for("j722s-evm").name == "root@am67a"
    assert machine_for("beagley-ai", host="debian@bench-3").name == "debian@bench-3"
    monkeypatch.setenv("BOARD_HOSTNAME", "desk")
    assert machine_for("beagley-ai").name == "root@desk"
    monkeypatch.delenv("BOARD_HOSTNAME")
    with pytest.raises(TargetError):
        machine_for("beaglebone")
    with pytest.raises(UsageError, match="which"):
        machine_for(None)
    for host in ("-oProxyCommand=x", "a:b", "a b", "x;y"):
        with pytest.raises(UsageError):
            machine_for("beagley-ai", host=host)


# ------------------------------------------------------------------------------------------------------------ harness


def test_run_dsp_dload(fake: FakeBoard, module: Path) -> None:
    with pytest.raises(RuntimeError, match="which board"):
        compat.run_dsp_dload(module, None, X)
    compat.set_current_board("j722s-evm")
    output, stdout, cycles = compat.run_dsp_dload(module, None, X)
    np.testing.assert_array_equal(output, 2 * X)
    assert cycles == 77
    assert '"status": "ok"' in stdout
    assert fake.log[0][-2] == "root@am67a"
    outputs, _, _ = compat.run_dsp_dload(module, None, (X, X), "h", "me", profile=True, multi_output=True)
    assert isinstance(outputs, list)
    assert fake.log[-1][-2] == "me@h"
    with pytest.raises(RuntimeError, match="no module"):
        compat.run_dsp_dload("none.out", None, X, "h")
    with pytest.raises(RuntimeError, match="not an ELF file"):
        compat.run_dsp_dload(module, "weights.bin", X, "h")


def test_run_dsp_dload_without_memory(fake: FakeBoard, module: Path) -> None:
    text = "Out of memory (requested 12.5 MB, 3.0 MB free of 369.1 MB)"
    fake.answer(json.dumps({"status": "error", "stage": "load", "error": text}))
    with pytest.raises(compat.DSPOutOfMemoryError) as caught:
        compat.run_dsp_dload(module, None, X, "h")
    error = caught.value
    assert (error.phase, error.requested, error.free, error.total) == ("load", 12_500_000, 3_000_000, 369_100_000)
    fake.answer('{"status": "error", "stage": "load", "error": "File too large"}')
    with pytest.raises(compat.DSPOutOfMemoryError):
        compat.run_dsp_dload(module, None, X, "h")
    fake.answer('{"status": "error", "stage": "infer", "error": "Function call failed"}')
    with pytest.raises(RuntimeError, match="Function call failed"):
        compat.run_dsp_dload(module, None, X, "h")


def test_run_dsp_local(fake: FakeBoard, module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "LOCAL_FOLDER", str(tmp_path / "local"))
    output, _, cycles = compat.run_dsp_local(module, None, X, str(fake.root / "bin" / "c7x_compute"))
    np.testing.assert_array_equal(output, 2 * X)
    assert cycles == 77
    assert fake.log == []


# ------------------------------------------------------------------------------------------------------- command line


def run_cli(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the object on standard output."""
    code = cli.main(arguments)
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, result


@pytest.fixture
def build(tmp_path: Path) -> Workspace:
    ws = Workspace(tmp_path / "build")
    with ws.stage("codegen", inputs=[]) as stage:
        stage.facts.update(mode="c7x_host", board="beagley-ai")
        spec = [{"name": "x", "dtype": "float32", "shape": [2, 3]}]
        stage.path("io.json").write_text(json.dumps({"inputs": spec, "outputs": spec}))
    with ws.stage("build", inputs=["io.json"]) as stage:
        stage.facts["mode"] = "c7x_dload"
        stage.path("lib0.out").write_bytes(b"module")
    np.save(tmp_path / "x.npy", X)
    return ws


def test_deploy_and_run(fake: FakeBoard, build: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, result = run_cli(capsys, "deploy", str(build.root), "--json")
    assert code == 0, result
    assert (result["host"], result["copied"], result["module"]) == (
        "root@beagley-ai",
        True,
        "/tmp/c7x_compute/lib0.out",
    )
    assert "PING successful!" in result["service"]
    code, result = run_cli(capsys, "deploy", str(build.root), "--host", "desk", "--json")
    assert (result["host"], result["copied"]) == ("root@desk", False)
    arguments = ["run", str(build.root), "--mode", "c7x_dload", "--input", str(tmp_path / "x.npy"), "--json"]
    code, result = run_cli(capsys, *arguments, "--output", str(tmp_path / "y.npy"))
    assert code == 0, result
    assert (result["cycles"], result["host_seconds_median"], result["board"]) == (77, None, "beagley-ai")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), 2 * X)
    np.testing.assert_array_equal(read_tensors(build.path("output.bin"))[0], 2 * X)


def test_deploy_without_a_dsp(fake: FakeBoard, build: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    (fake.root / "bin" / "c7x_compute").write_text("#!/bin/sh\necho 'PING failed: Timeout'; exit 1\n")
    code, result = run_cli(capsys, "deploy", str(build.root), "--json")
    assert (code, result["error"], result["stage"]) == (RunError.exit_code, "RunError", "deploy")
    assert "PING failed: Timeout" in result["message"]


def test_what_is_refused(fake: FakeBoard, build: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, error, text in (
        (["run", str(build.root)], "UnsupportedError", "built for a board"),
        (
            ["run", str(build.root), "--mode", "c7x_vdsp", "--board", "beagley-ai"],
            "UsageError",
            "does not run on a board",
        ),
        (["run", str(build.root), "--mode", "c7x_dload", "--repeat", "5"], "UsageError", "twice"),
        (["run", str(build.root), "--board", "beaglebone"], "TargetError", "beaglebone"),
        (["deploy", str(build.root), "--board", "beaglebone"], "TargetError", "beaglebone"),
        (["deploy", str(tmp_path / "none")], "WorkspaceError", "none"),
    ):
        code, result = run_cli(capsys, *words, "--json")
        assert code != 0
        assert result["error"] == error, result
        assert text in result["message"]
