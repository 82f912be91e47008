"""The Arm side: cross-built, checked, and run in an arm64 container against the virtual DSP of an x86-64 one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.container.conftest import arrays
from tests.container.engine import HARDENED, ROOT, call, run_image, text
from tests.integration.commands import ok

pytestmark = pytest.mark.needs("c7x", "c7x-aarch64", "c7x-board")

#: Runs in the arm64 container with the wheel: lib0.out in, logits out.
CLIENT = """
import platform, sys
import numpy as np
from tvm.contrib.c7x import C7xVirtualMachine
from tvm.data.ti_dsp import paths
assert platform.machine() == "aarch64"
library = paths.find_c7x_arm_runtime_so()
with C7xVirtualMachine("build/lib0.out", so_path=library) as vm:
    output = vm["main"](np.load("x.npy"))
output = output[0] if isinstance(output, (list, tuple)) else output
np.savez("wheel.npz", output_0=np.asarray(output.numpy() if hasattr(output, "numpy") else output))
"""


def compose(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    project = f"c7x-test-{os.getpid()}"
    command = ["docker", "compose", "-p", project, "-f", str(ROOT / "compose.yaml"), *words]
    return call(command, cwd=folder, env={**os.environ, "PWD": str(folder)})


@pytest.fixture(scope="module")
def build(digits: Path) -> Path:
    """The digits network as a module for the virtual DSP, its inputs in x.npy, and c7x_host's result in host.npz."""
    text(run_image("c7x", "compile", "model.pt2", "--mode", "c7x_vdsp", "-o", "build", folder=digits, options=HARDENED))
    np.save(digits / "x.npy", np.load(digits / "build" / "inputs" / "input_0.npy"))
    text(run_image("c7x", "compile", "model.pt2", "-o", "host", folder=digits, options=HARDENED))
    ok(digits, "run", "host", "--input", "x.npy", "--output", "host.npz")
    return digits


@pytest.fixture(scope="module")
def virtual_dsp(build: Path) -> Iterator[Path]:
    """`docker compose up -d vdsp`; the folder it was called in."""
    text(compose(build, "up", "-d", "--wait", "vdsp"))
    try:
        yield build
    finally:
        compose(build, "down", "--volumes", "--timeout", "20")


def test_c7x_run_on_the_board_image_gives_the_bits_of_the_host(virtual_dsp: Path) -> None:
    words = ["run", "--rm", "board", "run", "build", "--mode", "c7x_vdsp", "--input", "x.npy", "--output", "board.npz"]
    text(compose(virtual_dsp, *words))
    (host,), (board,) = arrays(virtual_dsp / "host.npz").values(), arrays(virtual_dsp / "board.npz").values()
    np.testing.assert_array_equal(board.view(np.uint32), host.view(np.uint32))
    assert (virtual_dsp / "board.npz").stat().st_uid == virtual_dsp.stat().st_uid


def test_the_wheel_and_its_library_give_the_bits_of_the_host(virtual_dsp: Path) -> None:
    (virtual_dsp / "client.py").write_text(CLIENT)
    text(compose(virtual_dsp, "run", "--rm", "board", "python3", "client.py"))
    (host,), (wheel,) = arrays(virtual_dsp / "host.npz").values(), arrays(virtual_dsp / "wheel.npz").values()
    np.testing.assert_array_equal(wheel.view(np.uint32), host.view(np.uint32))


def test_c7x_compute_pings(virtual_dsp: Path) -> None:
    assert text(compose(virtual_dsp, "run", "--rm", "board", "c7x_compute", "ping")).strip()


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arm")
    text(compose(folder, "run", "--rm", "arm"))
    return folder / "dist"


def test_compose_delivers_the_arm_side_to_the_caller(dist: Path) -> None:
    names = {path.name for path in dist.iterdir()}
    assert {"libc7x_arm_runtime.so", "c7x_compute", "include"} <= names
    assert [name for name in names if name.startswith("tvm_ti_c7x_inference-") and name.endswith("aarch64.whl")]
    assert (dist / "include" / "c7x_runtime.h").is_file()
    assert {path.stat().st_uid for path in dist.rglob("*")} == {dist.parent.stat().st_uid}


def test_the_wheel_runs_with_an_old_glibc(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    shown = text(run_image("c7x-aarch64", "auditwheel", "show", wheel.name, folder=dist, options=HARDENED))
    policy = next(word for word in shown.replace('"', " ").split() if word.startswith("manylinux_2_"))
    assert int(policy.split("_")[2]) <= 28, shown


def test_docker_run_delivers_too_and_names_a_missing_mount(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    text(run_image("c7x-aarch64", options=("-v", f"{tmp_path / 'dist'}:/dist")))
    assert (tmp_path / "dist" / "c7x_compute").stat().st_uid == os.getuid()
    done = run_image("c7x-aarch64")
    assert done.returncode != 0
    assert "/dist" in done.stderr
