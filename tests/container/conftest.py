"""Tests that need a container engine and the images of `make images`; `make test-container` makes both a must."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.container.engine import ROOT, has_image, why_not
from tests.integration.commands import ok

#: Set by `make test-container`: what is missing is then a failure, not a reason to skip.
REQUIRED = bool(os.environ.get("C7X_CONTAINER_REQUIRED"))


def require(condition: bool, reason: str) -> None:
    """Skip the test when the condition does not hold, or fail where everything must be there."""
    if not condition:
        (pytest.fail if REQUIRED else pytest.skip)(reason)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.container)


@pytest.fixture(autouse=True)
def images(request: pytest.FixtureRequest) -> None:
    """The engine, and the images that a test or its module names in ``needs(...)``."""
    reason = why_not()
    require(reason is None, reason or "")
    for marker in request.node.iter_markers("needs"):
        for image in marker.args:
            require(has_image(image), f"there is no image {image}: make images")


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with model.py, the trained network of examples/digits; needs torch alone, unlike the example."""
    folder = tmp_path_factory.mktemp("digits")
    ok(folder, "export", str(ROOT / "examples" / "digits" / "model.py"), "-o", "export")
    (folder / "model.pt2").write_bytes((folder / "export" / "model.pt2").read_bytes())
    return folder


def arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name."""
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}
