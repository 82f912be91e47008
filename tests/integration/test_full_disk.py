"""The build directory on a disk that is really full; needs the right to mount."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from c7x.errors import WorkspaceError
from c7x.workspace import Workspace


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=256k", "c7x-test", str(folder)], capture_output=True, check=False
        )
    except OSError:
        pytest.skip("there is no mount command")
    if done.returncode != 0:
        pytest.skip("mounting a tmpfs is not permitted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_bytes(small_disk: Path) -> None:
    ws = Workspace(small_disk / "build")
    with ws.stage("export") as run:
        run.write_text("small", "x")
    with pytest.raises(WorkspaceError, match="cannot write into") as caught, ws.stage("codegen") as run:
        run.write_text("lib0.c", "int x;")
        run.write_bytes("weights.bin", bytes(1 << 20))
    assert caught.value.cause == "no space is left on the device"
    assert {p.name for p in ws.root.iterdir()} == {"small", "manifest.json"}


def test_numpy(small_disk: Path) -> None:
    with (
        pytest.raises(WorkspaceError, match="cannot write into"),
        Workspace(small_disk / "build").stage("import") as run,
    ):
        np.save(run.path("model.npy"), np.zeros(1 << 18))
    assert list(small_disk.iterdir()) == []


def test_torch(small_disk: Path) -> None:
    torch = pytest.importorskip("torch")
    with (
        pytest.raises(WorkspaceError, match="cannot write into"),
        Workspace(small_disk / "build").stage("export") as run,
    ):
        torch.save(torch.zeros(1 << 18), run.path("model.pt2"))
    assert list(small_disk.iterdir()) == []
