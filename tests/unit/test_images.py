"""What makes the container images: rules of the Dockerfiles, and the small programs beside them; no engine needed."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from c7x.cli import app
from c7x.toolchain.vdsp import server_program  # noqa: F401 - the recipe of the compiler image imports it by this name

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "images"
DOCKERFILES = sorted(IMAGES.glob("*/Dockerfile"))
LABELS = (
    *(f"org.opencontainers.image.{name}" for name in ("title", "version", "revision", "source", "licenses")),
    *(f"org.c7x.{name}" for name in ("tvm", "torch", "compiler")),
)


def load(path: Path) -> ModuleType:
    """A program of images/ as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def instructions(path: Path) -> list[str]:
    """A Dockerfile's instructions, continuation lines joined, without comments."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    return [line.strip() for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines() if line.strip()]


def test_there_are_the_images_of_the_documentation() -> None:
    assert [path.parent.name for path in DOCKERFILES] == ["aarch64", "board", "compiler", "dev", "ticgt"]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_every_image_takes_its_base_and_leaves_root(path: Path) -> None:
    found = instructions(path)
    assert any(line.startswith("ARG BASE=") for line in found)
    bases = {line.split()[-3] if " AS " in line else line.split()[-1] for line in found if line.startswith("FROM ")}
    assert bases <= {"${BASE}", "${TOOLS}", "scratch", "system", "tools"}
    assert [line for line in found if line.startswith("USER ")][-1] == "USER 1000:1000"


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_podman_and_offline_machines_can_build_it(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"^#\s*syntax=", text, re.MULTILINE)
    assert "<<" not in text
    assert not re.search(r"\b(curl|wget|ADD http)", text)


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_packages_are_pinned_and_hashed(path: Path) -> None:
    for line in instructions(path):
        if "apt-get install" in line:
            names = line.split("--no-install-recommends")[1].split(">/dev/null")[0].split()
            assert names and all("=" in name for name in names), names
    scripts = [path, *path.parent.glob("*.sh")]
    for script in scripts:
        for line in re.sub(r"\\\n\s*", " ", script.read_text()).splitlines():
            if "pip" in line and " -r " in line and "torch" not in line:
                assert "--require-hashes" in line, line


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_it_is_labelled(path: Path) -> None:
    label = next(line for line in instructions(path) if line.startswith("LABEL "))
    assert [name for name in LABELS if f"{name}=" not in label] == []


def test_the_entry_point_knows_the_commands_of_the_command_line() -> None:
    commands: Any = typer.main.get_command(app)
    assert load(IMAGES / "commands.py").command_names(ROOT / "c7x" / "cli") == sorted(commands.commands)


def test_a_base_archive_has_the_same_bytes_and_holds_together(tmp_path: Path) -> None:
    archive = load(IMAGES / "base" / "archive.py")
    rootfs = tmp_path / "root.tar"
    rootfs.write_bytes(b"not really a tar" * 1000)
    ids = [archive.write_archive(rootfs, "arm64", "base:1", 1_767_225_600, tmp_path / name) for name in ("a", "b")]
    assert ids[0] == ids[1]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with tarfile.open(tmp_path / "a") as opened:
        read = {name: opened.extractfile(name).read() for name in opened.getnames()}  # type: ignore[union-attr]
    manifest = json.loads(read["manifest.json"])[0]
    config = read[manifest["Config"]]
    assert ids[0] == f"sha256:{hashlib.sha256(config).hexdigest()}"
    assert manifest["RepoTags"] == ["base:1"]
    layer = hashlib.sha256(read[manifest["Layers"][0]]).hexdigest()
    assert json.loads(config)["rootfs"]["diff_ids"] == [f"sha256:{layer}"]
    assert json.loads(config)["created"] == "2026-01-01T00:00:00Z"


def test_a_bill_of_materials_is_the_same_for_the_same_packages() -> None:
    bill = load(IMAGES / "sbom.py").bill
    packages: dict[str, list[Any]] = {
        "debian": [["g++", "4:12.2.0-3", "amd64"]],
        "python": [["b", "1", None], ["a", "2+cpu", "MIT"]],
    }
    turned = {"debian": packages["debian"], "python": packages["python"][::-1]}
    document = bill("c7x", "1.0", packages)
    assert document == bill("c7x", "1.0", turned)
    assert document["serialNumber"] != bill("c7x", "1.1", packages)["serialNumber"]
    assert [entry["purl"] for entry in document["components"]] == [
        "pkg:deb/debian/g++@4%3A12.2.0-3?arch=amd64",
        "pkg:pypi/a@2%2Bcpu",
        "pkg:pypi/b@1",
    ]


def test_the_wheel_says_which_platform_it_fits(tmp_path: Path) -> None:
    wheel = load(ROOT / "native" / "arm" / "python" / "build_wheel.py")
    library = b"\x7fELF" + bytes(14) + (183).to_bytes(2, "little")
    for name in ("libc7x_arm_runtime.so", "c7x_compute"):
        (tmp_path / name).write_bytes(library)
    made = wheel.build_wheel(tmp_path, tmp_path / "dist", platform="manylinux_2_28_aarch64")
    assert made.name.endswith("-py3-none-manylinux_2_28_aarch64.whl")
    assert wheel.build_wheel(tmp_path, tmp_path / "dist").name.endswith("-py3-none-linux_aarch64.whl")
    with pytest.raises(ValueError, match="aarch64, which does not fit the platform manylinux_2_28_x86_64"):
        wheel.build_wheel(tmp_path, tmp_path / "dist", platform="manylinux_2_28_x86_64")
