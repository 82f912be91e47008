"""``c7x profile``: a small model compiled once, profiled on this machine, on the virtual DSP, and from a log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.commands import c7x, ok

_MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).mean((2, 3)))

def make_model():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(1, 3, 12, 12),)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("profile")
    (folder / "model.py").write_text(_MODEL)
    ok(folder, "compile", "model.py", "--profile-layers", "-o", "build")
    return folder


def test_on_this_machine(folder: Path) -> None:
    result = ok(folder, "profile", "build")
    layers = json.loads((folder / "build/layers.json").read_text())
    assert [row["kernel"] for row in result["layers"]] == [layer["kernel"] for layer in layers]
    assert (result["place"], result["clock"]) == ("host", "host")
    for key in ("host_seconds_first", "host_seconds"):
        assert round(1e9 * sum(row[key] for row in result["layers"])) == round(1e9 * result["totals"][key])
    assert result["totals"]["macs"] == sum(layer["macs"] for layer in layers) > 0
    conv = next(row for row in result["layers"] if "nn.conv2d" in row["relax_ops"])
    assert conv["source"] == ["model.py:12"]
    written = json.loads((folder / "build/profile.json").read_text())
    assert written == {key: value for key, value in result.items() if key not in ("status", "build")}


def test_the_table(folder: Path) -> None:
    done = c7x(folder, "profile", "build", "--roofline", "--repeat", "3")
    assert done.returncode == 0, done.stderr
    assert "all times are host time, not the DSP's" in done.stdout
    for words in ("model.py:12", "conv2d_3x3_relu", "first host time", "least cycles", "TI SPRAD74"):
        assert words in done.stdout
    assert " cycles" not in done.stdout.split("what the DSP's core")[0]


def test_from_a_log_of_this_machine(folder: Path) -> None:
    done = c7x(folder, "run", "build")
    (folder / "run.log").write_text(done.stdout)
    result = ok(folder, "profile", "build", "--log", "run.log")
    assert (result["place"], result["clock"]) == ("log", "host")
    assert result["totals"]["host_seconds_first"] is None
    cut = done.stdout[: done.stdout.index("Total: ")]
    (folder / "cut.log").write_text(cut)
    failed = c7x(folder, "profile", "build", "--log", "cut.log")
    assert failed.returncode == 8
    assert "is cut off after" in failed.stderr


def test_refusals(folder: Path) -> None:
    done = c7x(folder, "profile", "build", "--log", "x.log", "--mode", "c7x_vdsp")
    assert (done.returncode, "--mode has no meaning with --log" in done.stderr) == (2, True)
    done = c7x(folder, "profile", "build", "--host", "nowhere", "--repeat", "3")
    assert (done.returncode, "--repeat has no meaning on a board" in done.stderr) == (2, True)


def test_on_the_virtual_dsp(folder: Path) -> None:
    ok(folder, "build", "build", "--mode", "c7x_vdsp")
    result = ok(folder, "profile", "build")
    assert (result["place"], result["clock"]) == ("vdsp", "host")
    assert "virtual DSP" in result["note"]
    assert result["totals"]["host_seconds"] > 0
    ok(folder, "codegen", "build")
    done = c7x(folder, "profile", "build")
    assert done.returncode == 2
    assert "was compiled without --profile-layers" in done.stderr
