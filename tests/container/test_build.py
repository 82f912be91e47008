"""Building the images: again without a change, and with buildah."""

from __future__ import annotations

import json
import os

import pytest

from tests.container.conftest import require
from tests.container.engine import ROOT, call, has_image, text, why_not

BUILD = str(ROOT / "images" / "build.sh")


def image_id(image: str) -> str:
    return text(call(["docker", "image", "inspect", "--format", "{{.Id}}", image])).strip()


@pytest.mark.needs("c7x")
def test_building_again_changes_nothing() -> None:
    text(call([BUILD, "compiler"]))
    first = image_id("c7x:latest")
    text(call([BUILD, "compiler"]))
    assert image_id("c7x:latest") == first


def test_an_unknown_image_is_named() -> None:
    done = call([BUILD, "compilr"])
    assert done.returncode == 1
    assert "there is no image compilr" in done.stderr


def test_the_image_with_ti_tools_is_left_out_with_a_word() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TICGT"}
    assert "left out" in text(call([BUILD, "ticgt"], env=environment))


@pytest.mark.needs("c7x")
def test_ti_tools_need_consent() -> None:
    done = call([BUILD, "ticgt"], env={**os.environ, "TICGT": str(ROOT / "images"), "ACCEPT_TI_LICENSE": "no"})
    assert done.returncode == 1
    assert "ACCEPT_TI_LICENSE=yes" in done.stderr


@pytest.mark.slow
def test_buildah_builds_the_compiler_image() -> None:
    for program in ("buildah", "podman"):
        reason = why_not(program)
        require(reason is None, reason or "")
    if not has_image("c7x-base:bookworm", "podman"):
        text(call([str(ROOT / "images" / "base" / "bootstrap.sh")], env={**os.environ, "ENGINE": "podman"}))
    text(call([BUILD, "compiler"], env={**os.environ, "ENGINE": "buildah"}, timeout=3000))
    words = ["podman", "run", "--rm", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
    assert json.loads(text(call([*words, "localhost/c7x:latest", "version", "--json"])))["status"] == "ok"
