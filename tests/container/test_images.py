"""Each image as a user meets it: labels, users, hardening, entry point."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from c7x.version import __version__
from tests.container.engine import HARDENED, ROOT, call, run_image, text
from tests.integration.commands import c7x

IMAGES = [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("c7x", "c7x-aarch64", "c7x-board", "c7x-dev")]
#: What shows that an image's software loads.
SMOKE = {
    "c7x": ("python", "-c", "import torch, tvm, torchao, c7x; print(c7x.__file__)"),
    "c7x-aarch64": ("zig", "version"),
    "c7x-board": ("python3", "-c", "import numpy, tvm.contrib.c7x; print(numpy.__version__)"),
    "c7x-dev": ("python", "-c", "import torch, tvm, pytest, hypothesis, onnxruntime, sklearn; print('ok')"),
}
NET = """
import torch
from torch import nn


def make_model():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 10))
    return net.eval(), (torch.rand(1, 3, 8, 8),)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of the caller's with a small model.py; others may look into it."""
    (tmp_path / "model.py").write_text(NET)
    for place in (tmp_path, *tmp_path.parents[:2]):
        place.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("user", ["1234:1234", "65534:65534"])
def test_software_loads_as_anybody_on_a_read_only_root_without_network(image: str, user: str) -> None:
    if image == "c7x-board" and user == "1234:1234":
        pytest.skip("emulated: one user is enough")
    assert text(run_image(image, *SMOKE[image], options=HARDENED, user=user)).strip()


@pytest.mark.parametrize("image", IMAGES)
def test_labels_say_what_is_inside(image: str) -> None:
    found = json.loads(text(call(["docker", "image", "inspect", image])))[0]
    labels = found["Config"]["Labels"]
    assert labels["org.opencontainers.image.title"] == image
    assert labels["org.opencontainers.image.version"] == __version__
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert re.fullmatch(r"[0-9a-f]{40}|unknown", labels["org.opencontainers.image.revision"])
    assert found["Config"]["User"] == "1000:1000"
    assert found["Architecture"] == ("arm64" if image == "c7x-board" else "amd64")


@pytest.mark.needs("c7x")
def test_version_labels_are_those_of_the_software() -> None:
    labels = json.loads(text(call(["docker", "image", "inspect", "c7x"])))[0]["Config"]["Labels"]
    packages = json.loads(text(run_image("c7x", "version", "--json")))
    shown = json.dumps(packages)
    assert labels["org.c7x.tvm"] in shown
    assert labels["org.c7x.torch"] in shown
    assert labels["org.c7x.compiler"].removeprefix("g++ ") in shown


@pytest.mark.needs("c7x")
def test_a_compile_belongs_to_the_caller_and_needs_no_right(folder: Path) -> None:
    done = run_image("c7x", "compile", "model.py", "-o", "build", folder=folder, options=HARDENED)
    assert text(done).count("build/cg_dsp") == 1
    owner = folder.stat().st_uid
    assert {path.stat().st_uid for path in (folder / "build").rglob("*")} == {owner}
    assert c7x(folder, "run", "build", "--output", "out.npz").returncode == 0


@pytest.mark.needs("c7x")
def test_a_compile_as_another_user_writes_where_that_user_may(folder: Path) -> None:
    done = run_image(
        "c7x", "compile", "model.py", "-o", "/tmp/out", "--json", folder=folder, options=HARDENED, user="1234"
    )
    assert json.loads(text(done))["status"] == "ok"


@pytest.mark.needs("c7x")
def test_no_argument_prints_help() -> None:
    assert "Usage: c7x" in text(run_image("c7x"))


@pytest.mark.needs("c7x")
def test_other_programs_are_executed_with_their_exit_code() -> None:
    assert run_image("c7x", "bash", "-c", "exit 7").returncode == 7
    assert text(run_image("c7x", "g++", "--version")).startswith("g++")


@pytest.mark.needs("c7x")
def test_exit_codes_of_c7x_are_kept(folder: Path) -> None:
    assert run_image("c7x", "run", "nowhere").returncode == c7x(folder, "run", "nowhere").returncode != 0


@pytest.mark.needs("c7x")
def test_a_mistyped_command_gets_the_suggestion_of_c7x() -> None:
    done = run_image("c7x", "complie", "model.py")
    assert done.returncode == 2
    assert "compile" in done.stderr


@pytest.mark.needs("c7x")
def test_a_model_that_is_not_mounted_gets_the_option_that_mounts_it() -> None:
    done = run_image("c7x", "compile", "model.py")
    assert done.returncode != 0
    assert '-v "$PWD:$PWD"' in done.stderr
    assert "model.py is not in the container" in done.stderr


@pytest.mark.needs("c7x")
@pytest.mark.parametrize(("name", "code"), [("TERM", 128 + signal.SIGTERM), ("INT", 130)])
def test_signals_reach_the_program(name: str, code: int) -> None:
    words = ["bash", "-c", f"trap 'exit {code}' {name}; echo ready; while :; do sleep 0.1; done"]
    command = ["docker", "run", "--rm", "-i", "c7x", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(getattr(signal, f"SIG{name}"))
        assert running.wait(60) == code


@pytest.mark.needs("c7x")
def test_stopping_a_virtual_dsp_takes_no_kill() -> None:
    name = f"c7x-test-vdsp-{time.monotonic_ns()}"
    words = [
        "docker",
        "run",
        "--rm",
        "-d",
        "--name",
        name,
        "c7x",
        "vdsp",
        "start",
        "--foreground",
        "--socket",
        "/tmp/v.sock",
    ]
    text(call(words))
    try:
        deadline = time.monotonic() + 60
        while '"ready"' not in call(["docker", "logs", name]).stdout:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        ping = ["docker", "exec", name, "c7x", "vdsp", "status", "--socket", "/tmp/v.sock", "--json"]
        assert json.loads(text(call(ping)))["status"] == "ok"
        started = time.monotonic()
        text(call(["docker", "stop", "--time", "60", name]))
        # A process that does not hear SIGTERM would take all of the 60 seconds.
        assert time.monotonic() - started < 50
    finally:
        call(["docker", "rm", "-f", name])


@pytest.mark.needs("c7x-dev")
def test_the_dev_image_runs_tests_of_the_checkout() -> None:
    done = run_image(
        "c7x-dev",
        *("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/unit/test_target.py"),
        folder=ROOT,
        options=HARDENED,
    )
    assert re.search(r"\d+ passed", text(done))


@pytest.mark.needs("c7x")
def test_the_bill_of_materials_lists_both_kinds_of_packages(tmp_path: Path) -> None:
    written = []
    for name in ("a.json", "b.json"):
        words = [sys.executable, str(ROOT / "images" / "sbom.py"), "c7x:latest", "-o", str(tmp_path / name)]
        text(call(words))
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    purls = [entry["purl"] for entry in json.loads(written[0])["components"]]
    for start in ("pkg:pypi/torch@2.13.0", "pkg:pypi/apache-tvm@0.27", "pkg:deb/debian/libc6@", "pkg:deb/debian/g++@"):
        assert [purl for purl in purls if purl.startswith(start)], start
