"""c7x_compute: the texts and the JSON that scripts parse."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from c7x.errors import RunError
from c7x.run import vdsp
from c7x.run.board import LocalMachine, run_module
from tests.integration.arm_harness import ROOT, arm_build, module, run

X = np.arange(6, dtype=np.float32)


@pytest.fixture(scope="module")
def dsp() -> Iterator[Path]:
    with vdsp.private_server() as place:
        yield place.socket


class Cli:
    def __init__(self, socket: Path, folder: Path) -> None:
        self.program = str(arm_build() / "c7x_compute")
        self.folder = folder
        self.environment = {**os.environ, "C7X_TRANSPORT": "vdsp", "C7X_VDSP_SOCKET": str(socket)}

    def __call__(self, *words: object) -> subprocess.CompletedProcess[str]:
        return run([self.program, *map(str, words)], env=self.environment, cwd=self.folder)

    def json(self, *words: object, code: int = 0) -> dict[str, Any]:
        done = self(*words)
        assert done.returncode == code, done
        lines = done.stdout.splitlines()
        assert len(lines) == 1
        result: dict[str, Any] = json.loads(lines[0])
        return result


@pytest.fixture
def cli(dsp: Path, tmp_path: Path) -> Cli:
    X.tofile(tmp_path / "x.bin")
    return Cli(dsp, tmp_path)


def test_usage(cli: Cli) -> None:
    nothing, wrong, extra, help_ = cli(), cli("fly"), cli("ping", "x"), cli("help")
    assert (nothing.returncode, wrong.returncode, extra.returncode, help_.returncode) == (1, 1, 1, 0)
    assert nothing.stdout == help_.stdout == cli("run", "--help").stdout
    assert "Example:" in help_.stdout
    assert "unknown command fly" in wrong.stderr
    assert "--frequency" in cli("run", "--frequency", "3").stderr
    assert "needs a value" in cli("run", "--input").stderr


def test_ping_and_status(cli: Cli) -> None:
    assert re.fullmatch(r"PING successful!\n +Version: 2\.0\.0\n +Uptime:  \d+\.\d{3} seconds\n", cli("ping").stdout)
    assert re.fullmatch(
        r"C7x Compute Service Status:\n +Version: +2\.0\.0\n +Uptime: +\d+\.\d{3} seconds\n"
        r" +Jobs completed: +\d+\n +Jobs failed: +\d+\n",
        cli("status").stdout,
    )


def test_no_dsp(cli: Cli, tmp_path: Path) -> None:
    cli.environment["C7X_VDSP_SOCKET"] = str(tmp_path / "none.sock")
    for words, start in (
        (("ping",), "PING failed: Device not found"),
        (("status",), "Failed to get status: Device not found"),
        (("load", module()), "Module load failed: Device not found"),
        (("model-load", "x.bin"), "Model load failed: Device not found"),
        (("unload", 1), "Module unload failed: Device not found"),
        (("model-unload", 1), "Model unload failed: Device not found"),
        (("infer", 1, 0), "Inference failed: Device not found"),
    ):
        done = cli(*words)
        assert done.returncode == 1
        assert done.stdout.startswith(start)
    result = cli.json("run", "--module", module(), code=1)
    assert result == {"status": "error", "stage": "open", "error": result["error"]}


def test_load_infer_unload_by_three_processes(cli: Cli) -> None:
    loaded = cli("load", module())
    found = re.fullmatch(r"Module loaded successfully: handle=(\d+)\n", loaded.stdout)
    assert found
    done = cli("infer", found[1], 0, "--input", "x.bin", "--output", "y.bin", "--shape", "2,3")
    assert re.fullmatch(
        r"Inference complete: \d+ cycles\n  Outputs: 1\n  Written 24 bytes \(1 tensors\) to y\.bin\n", done.stdout
    )
    np.testing.assert_array_equal(np.fromfile(cli.folder / "y.bin", np.float32), X)
    assert cli("unload", found[1]).stdout == f"Module unloaded: handle={found[1]}\n"
    again = cli("unload", found[1])
    assert (again.returncode, again.stdout) == (1, "Module unload failed: Invalid handle/id\n")
    assert cli("unload", "three").returncode == 1


def test_run(cli: Cli) -> None:
    result = cli.json("run", "--module", module("-DOUTPUTS=2"), "-i", "x.bin", "-o", "y.bin", "-s", "2,3")
    assert set(result) == {"status", "cycles", "num_outputs", "outputs"}
    assert result["status"] == "ok"
    assert result["num_outputs"] == 2
    assert result["cycles"] > 0
    assert result["outputs"] == [
        {"index": index, "ndim": 2, "dtype_code": 2, "dtype_bits": 32, "data_size": 24, "shape": [2, 3]}
        for index in (0, 1)
    ]
    np.testing.assert_array_equal(np.fromfile(cli.folder / "y.bin", np.float32), np.concatenate([X, 2 * X]))


def test_inputs_without_a_shape_are_one_dimension(cli: Cli) -> None:
    assert cli.json("run", "-m", module(), "-i", "x.bin")["outputs"][0]["shape"] == [6]
    assert cli.json("profile", "--module", module(), "--input=x.bin")["outputs"][0]["shape"] == [6]


def test_several_inputs_and_dtypes(cli: Cli) -> None:
    data = X.tobytes() + np.arange(4, dtype=np.int8).tobytes() + np.zeros(3, np.uint16).tobytes()
    (cli.folder / "many.bin").write_bytes(data)
    done = cli("run", "-m", module(), "-i", "many.bin", "-s", "2,3;4;3", "-d", "float32;int8;uint16")
    assert json.loads(done.stdout)["outputs"][0]["shape"] == [2, 3]
    assert "inputs: 3" in done.stderr


@pytest.mark.parametrize(
    ("words", "stage", "text"),
    [
        (("-i", "x.bin", "-s", "7"), "unknown", "24 bytes, its shapes and dtypes need 28"),
        (("-i", "x.bin", "-s", "1,1,1,1,1,1,6"), "unknown", "more than 6 dimensions"),
        (("-i", "x.bin", "-s", "2,-3"), "unknown", "not a list of sizes"),
        (("-i", "x.bin", "-s", "9999999999999999,9999999999999999"), "unknown", "not a list of sizes"),
        (("-i", "x.bin", "-d", "complex64"), "unknown", "complex64"),
        (("-i", "x.bin", "-s", ";".join(["1"] * 129)), "unknown", "at most 128"),
        (("-i", "none.bin"), "unknown", "none.bin"),
        (("-i", "x.bin", "-o", "no/such/folder"), "infer", "cannot write"),
    ],
)
def test_run_refuses(cli: Cli, words: tuple[str, ...], stage: str, text: str) -> None:
    result = cli.json("run", "--module", module(), *words, code=1)
    assert (result["status"], result["stage"]) == ("error", stage)
    assert text in result["error"]


def test_run_fails_by_stage(cli: Cli) -> None:
    bad = cli.json("run", "--module", "x.bin", "--input", "x.bin", code=1)
    assert (bad["stage"], bad["error"]) == ("load", "Dynamic load failed")
    done = cli("load", "x.bin")
    assert done.stdout == "Module load failed: Dynamic load failed\n"
    assert "ELF" in done.stderr  # the virtual DSP's reason
    bad = cli.json("run", "--module", module("-DRETURN=-1"), "--input", "x.bin", code=1)
    assert (bad["stage"], bad["error"]) == ("infer", "Function call failed")
    bad = cli.json("run", "--input", "x.bin", code=1)
    assert bad["stage"] == "unknown"


def test_out_of_memory_has_figures(tmp_path: Path) -> None:
    X.tofile(tmp_path / "x.bin")
    for fault in range(1, 4):
        with vdsp.private_server(faults=[f"oom={fault}"]) as place:
            done = Cli(place.socket, tmp_path)("run", "--module", module(), "--input", "x.bin")
        error = json.loads(done.stdout).get("error", "")
        if "Out of memory" in error:
            assert re.fullmatch(r"Out of memory \(requested \d+\.\d MB, \d+\.\d MB free of \d+\.\d MB\)", error)
            return
    pytest.fail("no run failed for want of memory")


def header(size: int, **changes: object) -> bytes:
    fields = {"op": "infer", "num_inputs": 1, "input_size": size, "shape": "2,3", "dtype": "float32", **changes}
    return json.dumps(fields).encode() + b"\n"


def session(cli: Cli, text: bytes, *, path: Path | None = None) -> tuple[list[tuple[dict[str, Any], bytes]], int]:
    """The answers of one session with their payloads, and the exit code."""
    done = subprocess.run(
        [cli.program, "session-run", "--module", str(path or module())],
        input=text, env=cli.environment, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    answers, rest = [], done.stdout
    while rest:
        line, _, rest = rest.partition(b"\n")
        fields = json.loads(line)
        size = fields.get("output_size", 0)
        answers.append((fields, rest[:size]))
        rest = rest[size:]
    return answers, done.returncode


def test_session(cli: Cli) -> None:
    payload = X.tobytes()
    text = header(24) + payload + header(24) + (2 * X).tobytes() + b'{"op": "exit"}\n' + header(24) + payload
    answers, code = session(cli, text)
    assert code == 0
    assert answers[0][0] == {"status": "ready", "module": str(module())}
    assert [data for _, data in answers[1:]] == [payload, (2 * X).tobytes()]
    fields = answers[1][0]
    assert set(fields) == {"status", "cycles", "num_outputs", "outputs", "output_size"}
    assert session(cli, b"")[1] == 0  # the end of the input ends it as well


def test_request_of_the_documentation(cli: Cli) -> None:
    page = (ROOT / "docs" / "arm-client.md").read_text(encoding="utf-8")
    (line,) = re.findall(r'^\{"op": "infer".*\}$', page, re.MULTILINE)
    payload = np.arange(3 * 224 * 224, dtype=np.float32).tobytes()
    answers, code = session(cli, line.encode() + b"\n" + payload)
    assert code == 0
    assert answers[1][0]["outputs"][0]["shape"] == [1, 3, 224, 224]
    assert answers[1][1] == payload


def test_session_survives_bad_requests(cli: Cli) -> None:
    payload = X.tobytes()
    bad = [
        b"what\n",
        b"{}\n",
        b'{"op": "dance"}\n',
        b'{"op": "infer", "num_inputs": 1}\n',
        b'{"op": "infer", "nested": {"a": 1}}\n',
        b'{"op": "infer' + b"x" * 5000 + b'"}\n',
        header(24, shape="7") + payload,
        header(24, num_inputs=2) + payload,
        header(24, dtype="word") + payload,
        header(3, dtype="float32", shape="") + b"abc",
        header(24, op="dance") + payload,
    ]
    answers, code = session(cli, b"".join(bad) + header(24) + payload)
    assert code == 0
    assert [fields["status"] for fields, _ in answers] == ["ready", *["error"] * len(bad), "ok"]
    assert all(set(fields) == {"status", "error"} for fields, _ in answers[1:-1])
    assert answers[-1][1] == payload


def test_session_keeps_the_cache_on_the_dsp(cli: Cli) -> None:
    text = header(24, kv_resident=1, kv_num_tensors=3) + X.tobytes()
    done = subprocess.run(
        [cli.program, "session-run", "--module", str(module("-DOUTPUTS=4"))],
        input=text, env=cli.environment, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert b"inputs: 4" in done.stderr  # one sent, three in the cache
    fields = json.loads(done.stdout.split(b"\n")[1])
    assert fields["num_outputs"] == 1  # the others stay there
    assert done.returncode == 0


def test_session_without_a_module(cli: Cli) -> None:
    answers, code = session(cli, b"", path=cli.folder / "none")
    assert code == 1
    assert set(answers[0][0]) == {"status", "error"}


def test_session_ends_on_a_signal_and_unloads(cli: Cli) -> None:
    process = subprocess.Popen(
        [cli.program, "session-run", "--module", str(module())],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=cli.environment,
    )  # fmt: skip
    assert process.stdout is not None
    assert b"ready" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    process.stdout.close()
    if process.stdin:
        process.stdin.close()
    assert cli("unload", 1).returncode == 1


def test_trace(cli: Cli, tmp_path: Path) -> None:
    device = tmp_path / "sys" / "devices" / "platform" / "bus" / "7e000000.dsp"
    device.mkdir(parents=True)
    folder = tmp_path / "sys" / "class" / "remoteproc" / "remoteproc7"
    folder.mkdir(parents=True)
    (folder / "device").symlink_to(device)
    trace = tmp_path / "sys" / "kernel" / "debug" / "remoteproc" / "remoteproc7" / "trace0"
    trace.parent.mkdir(parents=True)
    trace.write_text("one\n")
    cli.environment["C7X_ROOT"] = str(tmp_path)
    process = subprocess.Popen([cli.program, "trace"], stdout=subprocess.PIPE, env=cli.environment, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "one\n"
    trace.write_text("one\ntwo\n")
    assert process.stdout.readline() == "two\n"
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 0
    assert time.monotonic() - start < 2
    process.stdout.close()
    cli.environment["C7X_ROOT"] = "/nonexistent"
    assert cli("trace").stdout.startswith("Trace failed: Device not found")


def test_board_run_with_the_real_program(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """c7x/run/board.py reads what c7x_compute writes."""
    for name in ("C7X_TRANSPORT", "C7X_VDSP_SOCKET"):
        monkeypatch.setenv(name, cli.environment[name])
    x = X.reshape(2, 3)
    inputs: list[np.ndarray] = [x, np.array(3.0), np.zeros((2, 2), bool)]
    result = run_module(LocalMachine(), module("-DOUTPUTS=2"), inputs, folder=str(cli.folder), cli=cli.program)
    np.testing.assert_array_equal(result.outputs[1], 2 * x)
    assert result.cycles > 0
    assert "inputs: 3" in result.stdout
    with pytest.raises(RunError, match="Function call failed\ninputs: 1"):
        run_module(LocalMachine(), module("-DRETURN=-1"), [x], folder=str(cli.folder), cli=cli.program)
