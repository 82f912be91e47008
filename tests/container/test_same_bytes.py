"""The same model gives the same bytes on this machine, in a container and by compose."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.container.engine import HARDENED, ROOT, call, run_image, text
from tests.integration.commands import ok

pytestmark = pytest.mark.needs("c7x")
#: Written from the model alone; the rest depends on the C compiler, which may be another one here than in the image.
GENERATED = (
    "lib0.c",
    "devc.c",
    "weights.bin",
    "model.relax",
    "model.params.npz",
    "layers.json",
    "offload.json",
    "io.json",
)


def files(build: Path) -> dict[str, bytes]:
    return {
        path.relative_to(build).as_posix(): path.read_bytes() for path in sorted(build.rglob("*")) if path.is_file()
    }


@pytest.fixture(scope="module")
def container_build(digits: Path) -> Path:
    text(run_image("c7x", "compile", "model.pt2", "-o", "container", folder=digits, options=HARDENED))
    return digits / "container"


def test_generated_files_are_those_of_this_machine(digits: Path, container_build: Path) -> None:
    ok(digits, "compile", "model.pt2", "-o", "local")
    local, container = files(digits / "local"), files(container_build)
    assert sorted(local) == sorted(container)
    for name in GENERATED:
        assert local[name] == container[name], name
    versions = [json.loads(found["manifest.json"]) for found in (local, container)]
    if versions[0] == versions[1]:
        assert local == container


def test_a_second_container_in_another_folder_gives_the_same_bytes(digits: Path, container_build: Path) -> None:
    elsewhere = digits / "else" / "where"
    elsewhere.mkdir(parents=True)
    shutil.copy(digits / "model.pt2", elsewhere)
    text(run_image("c7x", "compile", "model.pt2", "-o", "b", folder=elsewhere, options=HARDENED))
    assert files(elsewhere / "b") == files(container_build)


def test_compose_gives_the_same_bytes(digits: Path, container_build: Path) -> None:
    words = [
        "docker",
        "compose",
        "-f",
        str(ROOT / "compose.yaml"),
        "run",
        "--rm",
        "compile",
        "model.pt2",
        "-o",
        "compose",
    ]
    text(call(words, cwd=digits, env={**os.environ, "PWD": str(digits)}))
    assert files(digits / "compose") == files(container_build)
    assert {path.stat().st_uid for path in (digits / "compose").rglob("*")} == {digits.stat().st_uid}


@pytest.mark.skipif(os.getuid() != 0, reason="takes root to give a folder away")
def test_compose_works_as_the_owner_of_the_folder(tmp_path: Path) -> None:
    for place in (tmp_path.parent, *tmp_path.parents[1:3]):
        place.chmod(place.stat().st_mode | 0o011)
    os.chown(tmp_path, 4321, 4322)
    words = ["docker", "compose", "-f", str(ROOT / "compose.yaml"), "run", "--rm", "-T", "--entrypoint"]
    command = [*words, "c7x-as-owner", "compile", "sh", "-c", "id -u >user; grep Cap /proc/self/status >caps"]
    text(call(command, cwd=tmp_path, env={**os.environ, "PWD": str(tmp_path)}))
    written = tmp_path / "user"
    assert (written.read_text().strip(), written.stat().st_uid, written.stat().st_gid) == ("4321", 4321, 4322)
    effective = next(line for line in (tmp_path / "caps").read_text().splitlines() if line.startswith("CapEff"))
    assert int(effective.split()[1], 16) == 0
