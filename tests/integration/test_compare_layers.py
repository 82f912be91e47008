"""``c7x compare --layers``: every layer is close to PyTorch, and a planted error is found where it was planted."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.text import Text

from c7x.codegen.stage import codegen_stage
from c7x.errors import CheckFailed, CrashError, FormatError, RunError
from c7x.frontend.export import export_stage
from c7x.frontend.importer import import_stage
from c7x.quantize.stage import quantize_stage
from c7x.report.compare_layers import compare_layers_stage
from c7x.target import DEFAULT_TARGET, Target
from c7x.ui_reports import accuracy_tables
from c7x.workspace import Workspace
from tests.integration.commands import c7x

_MODEL = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)) + x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.blocks = nn.Sequential(Block(8), Block(8))
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(8 * 4 * 4, 5)

    def forward(self, x):
        x = self.pool(self.blocks(self.norm(self.stem(x))))
        return torch.softmax(self.fc(x.flatten(1)), -1)

def make_model():
    torch.manual_seed(0)
    model = Net()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.normal_(module.running_mean, std=0.3)
    return model.eval(), (torch.randn(1, 3, 8, 8),)

def calibration_inputs():
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(1, 3, 8, 8, generator=generator),) for _ in range(4)]
"""


def _generated(folder: Path, dtype: str | None = None) -> Path:
    source = folder / "model.py"
    source.write_text(_MODEL)
    ws = Workspace(folder / "build")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        export_stage(ws, source=source, bind={})
        if dtype:
            quantize_stage(ws, dtype=dtype, source=source)
        import_stage(ws)
        codegen_stage(ws, target=Target.parse(DEFAULT_TARGET))
    return folder


@pytest.fixture(scope="module")
def floats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _generated(tmp_path_factory.mktemp("floats"))


@pytest.fixture(scope="module")
def integers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _generated(tmp_path_factory.mktemp("integers"), "int8")


def _copy(folder: Path, target: Path) -> Path:
    shutil.copytree(folder, target, dirs_exist_ok=True)
    return target


def _compare(folder: Path) -> dict[str, Any]:
    return compare_layers_stage(Workspace(folder / "build"))


def test_every_layer_of_a_float_model(floats: Path) -> None:
    result = _compare(floats)
    assert result["first_bad"] is None
    compared = {row["node"]: row for row in result["layers"] if row["node"]}
    # The stem has 8 channels on 8 x 8: its shape does not tell the order of its elements.
    assert {row["order"] for row in compared.values()} == {"channels last", "as PyTorch"}
    assert {"relu", "relu_1", "max_pool2d", "_softmax"} <= set(compared)
    assert all(row["sqnr_db"] is None or row["sqnr_db"] > 100 for row in compared.values())
    assert [row["note"] for row in result["layers"] if not row["node"]] == ["a step on the way to a node"]
    assert json.loads((floats / "build/accuracy.json").read_text()) == result


def test_every_layer_of_an_integer_model(integers: Path) -> None:
    result = _compare(integers)
    assert (result["first_bad"], result["dtype"]) == (None, "int8")
    compared = [row for row in result["layers"] if row["node"]]
    assert len(compared) >= 6
    # Batch normalisation is folded into the convolution of the quantised graph, and compared with as such.
    figures = [row["float"]["sqnr_db"] for row in compared if row["float"]]
    assert len(figures) >= 6
    assert min(figures) > 15
    shown = [part.plain for part in accuracy_tables(result) if isinstance(part, Text)]
    assert shown[-1].startswith("farthest from the float model: layer ")


def _plant(folder: Path, kernel: str, old: str, new: str) -> None:
    """Change the first ``old`` in the body of ``kernel``."""
    path = folder / "build/lib0.c"
    text = path.read_text()
    start = text.index(f"static int32_t {kernel}(")
    assert old in text[start:]
    path.write_text(text[:start] + text[start:].replace(old, new, 1))


def _first_bad(folder: Path) -> dict[str, Any]:
    with pytest.raises(CheckFailed) as caught:
        _compare(folder)
    error, details = caught.value, caught.value.details
    assert details is not None
    # Every layer is judged on PyTorch's inputs: what follows the planted error is innocent.
    (row,) = [row for row in details["layers"] if row["passed"] is False]
    assert row["index"] == details["first_bad"]
    last = [row for row in details["layers"] if row["chained"]][-1]
    assert last["chained"]["mismatches"] > 0
    assert f"layer {row['index']} ({row['name']}" in error.message
    assert row["kernel"] in error.message
    return dict(row)


def test_an_error_in_a_kernel(floats: Path, tmp_path: Path) -> None:
    folder = _copy(floats, tmp_path)
    layers = json.loads((folder / "build/layers.json").read_text())
    pool = next(layer for layer in layers if "nn.max_pool2d" in layer["relax_ops"])
    _plant(folder, pool["kernel"], "  return 0;", "  out0[3] += 1.0f;\n  return 0;")
    done = c7x(folder, "compare", "build", "--layers")
    assert done.returncode == 1
    assert f"the first bad layer is {pool['index']}, max_pool2d (model.py:" in done.stdout
    assert done.stdout.count("BAD") == 1


def test_an_error_in_a_weight(floats: Path, tmp_path: Path) -> None:
    folder = _copy(floats, tmp_path)
    layers = json.loads((folder / "build/layers.json").read_text())
    second = [layer for layer in layers if "nn.conv2d" in layer["relax_ops"]][2]
    text = (folder / "build/lib0.c").read_text()
    call = text[text.index(f"/* {second['index']}: ", text.rindex("int32_t cg_main(")) :]
    offset = int(re.search(r"\(w \+ (\d+)\)", call)[1])  # type: ignore[index]
    weights = bytearray((folder / "build/weights.bin").read_bytes())
    value = np.frombuffer(weights, np.float32, 1, offset)[0] + np.float32(1)
    weights[offset : offset + 4] = np.float32(value).tobytes()
    (folder / "build/weights.bin").write_bytes(weights)
    row = _first_bad(folder)
    assert row["index"] == second["index"]
    assert row["node"] == "relu_1"


def test_an_error_where_nothing_can_be_compared(floats: Path, tmp_path: Path) -> None:
    folder = _copy(floats, tmp_path)
    first = json.loads((folder / "build/layers.json").read_text())[0]
    assert "conv_last" in first["name"]
    _plant(folder, first["kernel"], "  return 0;", "  out0[5] += 1.0f;\n  return 0;")
    with pytest.raises(CheckFailed, match="layer 1 ") as caught:
        _compare(folder)
    assert "or layer 0 before it, which cannot be compared" in str(caught.value.cause)


def test_an_error_in_an_integer_kernel(integers: Path, tmp_path: Path) -> None:
    folder = _copy(integers, tmp_path)
    layers = json.loads((folder / "build/layers.json").read_text())
    add = next(layer for layer in layers if layer["kernel"].startswith("__tvm_ffi_qadd"))
    _plant(folder, add["kernel"], "  return 0;", "  for (int i = 0; i < 64; ++i) out0[i] = 100;\n  return 0;")
    assert _first_bad(folder)["index"] == add["index"]


@pytest.mark.parametrize(("mistake", "error"), [("return -1;", RunError), ("*(volatile int *)16 = 1;", CrashError)])
def test_a_kernel_that_fails_is_named(floats: Path, tmp_path: Path, mistake: str, error: type[Exception]) -> None:
    folder = _copy(floats, tmp_path)
    layers = json.loads((folder / "build/layers.json").read_text())
    pool = next(layer for layer in layers if "nn.max_pool2d" in layer["relax_ops"])
    _plant(folder, pool["kernel"], "  return 0;", f"  {mistake}\n  return 0;")
    place = rf"it failed in layer {pool['index']} \(max_pool2d at model.py:\d+\), kernel {pool['kernel']}"
    with pytest.raises(error, match=place):
        _compare(folder)


def test_a_lib0_that_cannot_be_shown(floats: Path, tmp_path: Path) -> None:
    folder = _copy(floats, tmp_path)
    path = folder / "build/lib0.c"
    path.write_text(path.read_text().replace("  /* 1: ", "  /* one: "))
    with pytest.raises(FormatError, match=r"lib0\.c cannot be made to show its layers"):
        _compare(folder)
