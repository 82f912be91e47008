"""The script that `docker run c7x wrapper` prints."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.container.conftest import require
from tests.container.engine import call, has_image, run_image, text, why_not
from tests.container.test_images import NET

pytestmark = pytest.mark.needs("c7x")
IMAGE = "c7x:latest"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "c7x.sh"
    path.write_text(text(run_image("c7x", "wrapper", IMAGE)))
    path.chmod(0o755)
    return path


def use(script: Path, folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return call([str(script), *words], cwd=folder, env={**os.environ, **environment})


def test_it_names_the_image_that_printed_it() -> None:
    assert "C7X_IMAGE:-c7x:" in text(run_image("c7x", "wrapper"))
    assert "C7X_IMAGE:-registry.example/c7x:1" in text(run_image("c7x", "wrapper", "registry.example/c7x:1"))


def test_it_compiles_with_input_and_output_in_other_folders(script: Path, tmp_path: Path) -> None:
    here, models = tmp_path / "here", tmp_path / "models with a space"
    here.mkdir()
    models.mkdir()
    (models / "model.py").write_text(NET)
    done = use(script, here, "compile", str(models / "model.py"), "-o", "../out/build", "--json")
    assert json.loads(text(done))["status"] == "ok"
    # The folder of the output did not exist: it must be the caller's, and mounted.
    assert {path.stat().st_uid for path in (tmp_path / "out").rglob("*")} == {os.getuid()}
    assert (tmp_path / "out" / "build" / "cg_dsp").is_file()


def test_it_keeps_exit_codes_and_bytes(script: Path, tmp_path: Path) -> None:
    assert use(script, tmp_path, "bash", "-c", "exit 9").returncode == 9
    done = subprocess.run([str(script), "cat"], input=b"\x00a\r\n", capture_output=True, cwd=tmp_path, check=True)
    assert done.stdout == b"\x00a\r\n"


def test_it_installs_itself(script: Path, tmp_path: Path) -> None:
    text(use(script, tmp_path, "--install", str(tmp_path / "bin")))
    assert "c7x" in text(call([str(tmp_path / "bin" / "c7x"), "version"], cwd=tmp_path))


def test_a_missing_image_or_engine_is_named(script: Path, tmp_path: Path) -> None:
    done = use(script, tmp_path, "version", C7X_IMAGE="c7x-no-such-image:1")
    assert (done.returncode, "c7x-no-such-image:1 is not here" in done.stderr) == (125, True)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "id", "dirname", "basename", "env"):
        (tools / name).symlink_to(str(shutil.which(name)))
    done = use(script, tmp_path, "version", PATH=str(tools))
    assert (done.returncode, "neither docker nor podman" in done.stderr) == (127, True)


@pytest.mark.slow
def test_under_podman(script: Path, tmp_path: Path) -> None:
    reason = why_not("podman")
    require(reason is None, reason or "")
    if not has_image(IMAGE, "podman"):
        archive = tmp_path / "image.tar"
        text(call(["docker", "save", "-o", str(archive), IMAGE]))
        text(call(["podman", "load", "-q", "-i", str(archive)]))
        archive.unlink()
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "model.py").write_text(NET)
    limits = "--ulimit nofile=1024:1024 --ulimit nproc=1024:1024"
    done = use(script, folder, "compile", "model.py", "-o", "build", "--json", C7X_ENGINE="podman", C7X_RUN_ARGS=limits)
    assert json.loads(text(done))["status"] == "ok"
    assert (folder / "build" / "cg_dsp").stat().st_uid == os.getuid()
