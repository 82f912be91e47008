"""``c7x --engine docker``: stages in a container through the Docker SDK, as if they ran here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from c7x.engine.docker import LABEL, PID_LABEL
from c7x.errors import EngineError, ImageError, LimitError, MountError, UsageError
from c7x.version import __version__
from tests.container.engine import ROOT, call, text
from tests.integration.commands import ok

IMAGE = os.environ.get("C7X_IMAGE", f"c7x:{__version__}")
pytestmark = pytest.mark.needs(IMAGE)

#: A network small enough to be compiled in a moment, in a file that needs another one beside it.
MODEL = """
from layers import make_layer

def make_model():
    import torch
    torch.manual_seed(0)
    return torch.nn.Sequential(make_layer(), torch.nn.ReLU()), (torch.ones(1, 4),)
"""
LAYERS = """
import torch

def make_layer():
    return torch.nn.Linear(4, 3)
"""


#: The command line, where importing what the extras bring fails.
WITHOUT_EXTRAS = """
import importlib.util, sys

heavy = {"torch", "tvm", "numpy", "torchao"}
sys.modules.update(dict.fromkeys(heavy))
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in heavy else find(name, *rest)
from c7x.cli import main
sys.exit(main())
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "my project"
    folder.mkdir()
    (folder / "model.py").write_text(MODEL)
    (folder / "layers.py").write_text(LAYERS)
    return folder


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    form = f'{{{{.ID}}}} {{{{.Label "{PID_LABEL}"}}}}'
    listed = text(call(["docker", "ps", "--all", "--filter", f"label={LABEL}", "--format", form]))
    # Other tests may run at the same time: a container is left when its c7x is gone.
    assert not [line for line in listed.splitlines() if not Path("/proc", line.split()[1]).exists()]


def containers(process: subprocess.Popen[str]) -> list[str]:
    """The containers that a running c7x owns."""
    return text(call(["docker", "ps", "--all", "--quiet", "--filter", f"label={PID_LABEL}={process.pid}"])).split()


def command(*words: str, engine: str = "docker") -> list[str]:
    return [sys.executable, "-m", "c7x.cli", "--engine", engine, *words]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **(more or {})}


def c7x(
    folder: Path, *words: str, env: Mapping[str, str] | None = None, engine: str = "docker"
) -> subprocess.CompletedProcess[str]:
    return call(command(*words, engine=engine), cwd=folder, env=environment(env))


def start_sleeping(folder: Path) -> subprocess.Popen[str]:
    """A command whose model sleeps in the container."""
    (folder / "model.py").write_text("import time\nprint('sleeping', flush=True)\ntime.sleep(300)\n")
    process = subprocess.Popen(
        command("compile", "model.py"), cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "sleeping" in line:
            break
    return process


def failure(done: subprocess.CompletedProcess[str], code: int) -> str:
    """What an expected error says."""
    assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stderr


def files(build: Path) -> dict[str, tuple[int, bytes]]:
    """Mode and content of every file of a build directory."""
    return {
        path.relative_to(build).as_posix(): (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
        for path in sorted(build.rglob("*"))
        if path.is_file()
    }


def test_digits_are_those_of_this_machine_to_the_byte(digits: Path) -> None:
    text(c7x(digits, "compile", "model.pt2", "-o", "sdk"))
    ok(digits, "compile", "model.pt2", "-o", "here", "--engine", "local")
    there, here = files(digits / "sdk"), files(digits / "here")
    versions = [json.loads(found["manifest.json"][1]) for found in (there, here)]
    if versions[0] != versions[1]:
        # Another C compiler here than in the image: what it made differs, and what records it.
        for found in (there, here):
            found.pop("cg_dsp")
            found.pop("manifest.json")
    assert there == here


def test_every_command_that_runs_stages_may_run_there(project: Path) -> None:
    done = c7x(project, "compile", "model.py", "-o", "out put", "--json")
    assert json.loads(text(done))["stages"][0]["name"] == "export"
    assert "agrees with PyTorch" in done.stderr
    # What was built there runs here, and the other way round.
    ok(project, "run", "out put", "--engine", "local")
    text(c7x(project, "run", "out put", "--output", "y.npz"))
    assert (project / "y.npz").is_file()
    text(c7x(project, "compare", "out put"))
    text(c7x(project, "bench", "out put", "--repeat", "2"))
    text(c7x(project, "build", "out put", "--mode", "c7x_vdsp"))
    text(c7x(project, "run", "out put", "--mode", "c7x_vdsp"))


def test_quantization_with_data_from_another_folder(project: Path) -> None:
    import numpy as np

    data = project.parent / "data"
    data.mkdir()
    np.savez(data / "calibration.npz", input=np.ones((8, 1, 4), np.float32))
    words = ("compile", "model.py", "-o", "build", "--quantize", "int8", "--calibrate", "../data/calibration.npz")
    done = c7x(project, *words)
    here = c7x(project, *words[:3], "here", *words[4:], engine="local")
    assert (done.returncode, here.returncode) == (0, 0), f"{done.stderr}\n{here.stderr}"
    assert (project / "build" / "lib0.c").read_bytes() == (project / "here" / "lib0.c").read_bytes()


def test_outputs_belong_to_the_caller(project: Path) -> None:
    """The caller is played here: a test that runs as root cannot become somebody who reads root's Python."""
    build = project / "build"
    build.mkdir()
    user, group = (12345, 12346) if os.getuid() == 0 else (os.getuid(), os.getgid())
    for path in (project, build, *project.glob("*.py")):
        os.chown(path, user, group)
    for folder in (project.parent, *project.parent.parents):
        folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
    program = (
        f"import os, sys\nos.getuid, os.getgid, os.getgroups = lambda: {user}, lambda: {group}, lambda: [{group}]\n"
        "os.umask(0o027)\nfrom c7x.cli import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    text(call([sys.executable, "-c", program, *command("compile", "model.py")[3:]], cwd=project, env=environment()))
    made = list(build.rglob("*"))
    assert made
    assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(user, group)}
    assert not any(path.stat().st_mode & 0o007 for path in made)


def test_links(project: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "model.py").write_text(MODEL)
    (tmp_path / "elsewhere" / "layers.py").write_text(LAYERS)
    (project / "latest.py").symlink_to("../elsewhere/model.py")
    (tmp_path / "link").symlink_to(project)
    (tmp_path / "real build").mkdir()
    (tmp_path / "build").symlink_to("real build")
    text(c7x(tmp_path, "export", "link/latest.py", "-o", "build"))
    assert (tmp_path / "real build" / "model.pt2").is_file()
    text(c7x(project, "export", "../link/../my project/model.py", "-o", "out"))


def test_a_model_in_the_temporary_folder_itself(project: Path) -> None:
    """Its folder is then the very one that the container uses for temporary files."""
    with_name = Path("/tmp") / f"c7x-test-{os.getpid()}.py"
    with_name.write_text(MODEL.replace("from layers import make_layer", LAYERS))
    try:
        text(c7x(project, "compile", str(with_name), "-o", "build"))
    finally:
        with_name.unlink()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(project: Path, number: signal.Signals) -> None:
    process = start_sleeping(project)
    assert len(containers(process)) == 1
    process.send_signal(number)
    assert "interrupted" in process.communicate(timeout=60)[1]
    assert process.returncode == 128 + number
    assert containers(process) == []
    assert not (project / "build").exists()


def test_a_killed_c7x_ends_its_container(project: Path) -> None:
    process = start_sleeping(project)
    (name,) = containers(process)
    process.kill()
    process.communicate(timeout=60)
    deadline = time.monotonic() + 30
    running = ["docker", "inspect", "--format", "{{.State.Running}}", name]
    while text(call(running)).strip() == "true" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert text(call(running)).strip() == "false"
    text(call(["docker", "rm", name]))


def test_a_container_that_is_removed_at_work(project: Path) -> None:
    process = start_sleeping(project)
    text(call(["docker", "rm", "--force", *containers(process)]))
    assert "while the export stage ran" in process.communicate(timeout=60)[1]
    assert process.returncode == EngineError.exit_code


def test_errors_of_the_model_are_those_of_this_machine(project: Path) -> None:
    (project / "model.py").write_text("def make_model():\n    return 7\n")
    done = c7x(project, "compile", "model.py")
    here = call(
        [sys.executable, "-m", "c7x.cli", "--engine", "local", "compile", "model.py"], cwd=project, env=environment()
    )
    assert done.returncode == here.returncode == 4
    last = [done.stderr[done.stderr.index("error:") :], here.stderr[here.stderr.index("error:") :]]
    assert last[0] == last[1]
    assert not (project / "build").exists()


def test_a_crash_names_stage_and_signal(project: Path) -> None:
    (project / "model.py").write_text("import ctypes\nctypes.string_at(0)\n")
    said = failure(c7x(project, "compile", "model.py"), 12)
    assert "the export stage was killed by SIGSEGV" in said
    assert "string_at" in (project / "build" / "c7x-crash.txt").read_text()


def test_a_file_outside_the_mounts(project: Path) -> None:
    weights = project.parent / "weights"
    weights.mkdir()
    (weights / "w.txt").write_text("1")
    (project / "model.py").write_text(f"{MODEL}\nopen('../weights/w.txt').read()\n")
    said = failure(c7x(project, "export", "model.py"), MountError.exit_code)
    assert f"--mount {weights}" in said
    text(c7x(project, "export", "model.py", "--mount", "../weights"))


def test_inputs_cannot_be_written_and_there_is_no_network(project: Path) -> None:
    (project / "model.py").write_text(f"{MODEL}\nopen('cache.bin', 'w')\n")
    assert "cannot be written in the container" in failure(c7x(project, "export", "model.py"), MountError.exit_code)
    assert not (project / "cache.bin").exists()
    (project / "model.py").write_text("import socket\nsocket.create_connection(('192.0.2.1', 80), 2)\n")
    assert "unreachable" in failure(c7x(project, "export", "model.py"), 4)


def test_out_of_memory(project: Path) -> None:
    (project / "model.py").write_text("x = [bytearray(1 << 20) for _ in range(4096)]\n")
    said = failure(c7x(project, "export", "model.py", "--memory", "600m"), LimitError.exit_code)
    assert "the export stage ran out of memory" in said
    assert "600 MiB" in said


def test_limits_that_the_engine_refuses(project: Path) -> None:
    done = c7x(project, "export", "model.py", "--cpus", "4096")
    if done.returncode == 0:
        pytest.skip("this engine takes any number of processors")
    assert "--cpus" in failure(done, UsageError.exit_code)


def test_no_daemon(project: Path) -> None:
    done = c7x(project, "compile", "model.py", env={"DOCKER_HOST": f"unix://{project}/no.sock"})
    assert "no container engine answers" in failure(done, EngineError.exit_code)


def test_no_image(project: Path) -> None:
    done = c7x(project, "compile", "model.py", "--image", "c7x-there-is-none:1")
    assert "there is no image c7x-there-is-none:1" in failure(done, ImageError.exit_code)


@pytest.mark.parametrize(
    ("label", "words"), [("0.0.1", f"has version 0.0.1, and this c7x is {__version__}"), (None, "not one of c7x")]
)
def test_an_image_of_another_version(project: Path, label: str | None, words: str) -> None:
    name = "c7x-test-other-version"
    recipe = "FROM scratch\nCOPY model.py /\n"
    if label:
        recipe += f'LABEL org.opencontainers.image.version="{label}"\n'
    (project / "Dockerfile").write_text(recipe)
    text(call(["docker", "build", "--quiet", "--tag", name, "."], cwd=project))
    try:
        assert words in failure(c7x(project, "compile", "model.py", "--image", name), ImageError.exit_code)
    finally:
        call(["docker", "image", "rm", name])


def test_an_image_without_its_programs(project: Path) -> None:
    name = "c7x-test-empty"
    recipe = f'FROM scratch\nCOPY model.py /\nLABEL org.opencontainers.image.version="{__version__}"\n'
    (project / "Dockerfile").write_text(recipe)
    text(call(["docker", "build", "--quiet", "--tag", name, "."], cwd=project))
    try:
        said = failure(c7x(project, "compile", "model.py", "--image", name), ImageError.exit_code)
        assert "the image lacks a program" in said
    finally:
        call(["docker", "image", "rm", name])


def test_an_installation_without_torch_compiles(project: Path, tmp_path: Path) -> None:
    """`pip install c7x`, without an extra: torch, TVM and NumPy cannot be imported, and --engine is auto."""
    light = tmp_path / "light"
    light.mkdir()
    shutil.copytree(ROOT / "c7x", light / "c7x", ignore=shutil.ignore_patterns("__pycache__"))
    (light / "main.py").write_text(WITHOUT_EXTRAS)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHONPATH": str(light)}
        return call([sys.executable, str(light / "main.py"), *words], cwd=project, env=env)

    text(run("compile", "model.py"))
    text(run("run", "build"))
    said = failure(run("compile", "model.py", "--image", "none"), ImageError.exit_code)
    assert "torch and TVM are not installed" in said
    assert "pip install 'c7x[compile]'" in said
