"""The image with TI's tools, built around stand-ins for them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.container.engine import HARDENED, ROOT, call, run_image, text
from tests.container.test_images import NET
from tests.fake_ticgt import tools as fake

pytestmark = pytest.mark.needs("c7x")
IMAGE = "c7x-ticgt-of-stand-ins"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = fake.install(tmp_path_factory.mktemp("cgt"))
    # The stand-ins are Python programs of this checkout: in the image they bring their package along.
    shutil.copytree(ROOT / "tests" / "fake_ticgt", folder / "python" / "tests" / "fake_ticgt")
    for program in (folder / "bin").iterdir():
        moved = program.read_text().replace(sys.executable, "/opt/c7x/bin/python3")
        program.write_text(moved.replace(repr(str(ROOT)), "'/opt/ti/cgt/python'"))
    words = ["docker", "buildx", "build", "-f", str(ROOT / "images" / "ticgt" / "Dockerfile"), "-t", IMAGE]
    words += ["--build-context", f"ticgt={folder}", "--build-arg", "ACCEPT_TI_LICENSE=yes", str(ROOT)]
    text(call(words))
    yield IMAGE
    call(["docker", "image", "rm", IMAGE])


def test_it_compiles_a_module_for_a_board(image: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(NET)
    words = ("compile", "model.py", "--mode", "c7x_dload", "--board", "beagley-ai", "-o", "build", "--json")
    done = run_image(image, *words, folder=tmp_path, options=HARDENED)
    assert json.loads(text(done))["status"] == "ok"
    assert (tmp_path / "build" / "lib0.out").read_bytes()[:4] == b"\x7fELF"


def test_its_label_names_the_licence(image: str) -> None:
    shown = text(call(["docker", "image", "inspect", "--format", "{{json .Config.Labels}}", image]))
    assert "LicenseRef-TI-CGT" in json.loads(shown)["org.opencontainers.image.licenses"]
