"""Quantised models from end to end: the commands, the accuracy, and the SQNR of whole nets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from examples.digits.model import HELD_OUT, calibration_inputs, load_data, make_model
from tests.integration.commands import ROOT, c7x, ok
from tests.models.quantized import quantize_model, sqnr
from tests.models.vision import MobileNetV2, ResNet18

pytestmark = pytest.mark.filterwarnings("ignore")

MODEL = """
import torch
from torch import nn

def make_model():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )
    return model.eval(), (torch.randn(1, 3, 16, 16),)

def calibration_inputs():
    torch.manual_seed(1)
    for _ in range(8):
        yield (torch.randn(1, 3, 16, 16),)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quantize")
    (folder / "model.py").write_text(MODEL)
    np.savez(folder / "data.npz", input=np.random.default_rng(0).normal(size=(4, 1, 3, 16, 16)))
    return folder


def test_compile_and_compare(folder: Path) -> None:
    value = ok(folder, "compile", "model.py", "--quantize", "int8", "-o", "int8")
    assert [s["name"] for s in value["stages"]] == ["export", "quantize", "import", "codegen", "build", "check"]
    check = value["stages"][-1]["result"]
    assert check["dtype"] == "int8"
    assert check["passed"]
    assert check["outputs"][0]["sqnr_db"] is None or check["outputs"][0]["sqnr_db"] > 40
    assert 30 < check["float_outputs"][0]["sqnr_db"] < 60

    np.save(folder / "x.npy", np.random.default_rng(1).normal(size=(1, 3, 16, 16)).astype(np.float32))
    done = c7x(folder, "compare", "int8", "--input", "x.npy")
    assert done.returncode == 0, done.stderr
    assert "simulated in PyTorch" in done.stdout
    assert "against the float model" in done.stdout
    # With a tolerance of its own the comparison is with the simulation all the same.
    assert ok(folder, "compare", "int8", "--tolerance", "1e-3")["passed"]

    weights = np.load(folder / "int8/model.params.npz")
    kinds = sorted((str(weights[k].dtype), weights[k].ndim) for k in weights.files)
    assert ("int8", 4) in kinds
    assert ("int32", 1) in kinds
    assert not [kind for kind in kinds if kind[0] == "float32" and kind[1] > 1]
    # int8 all the way: a float32 copy of the weights alone would be larger.
    assert value["weights_bytes"] < 4 * sum(weights[k].size for k in weights.files if weights[k].ndim > 1)


def test_a_program_quantized_by_the_user(folder: Path) -> None:
    """The example of docs/quantization.md, then c7x compile without --quantize."""
    text = (ROOT / "docs/quantization.md").read_text(encoding="utf-8")
    code = text.partition("```python\n")[2].partition("```")[0]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
    )
    assert done.returncode == 0
    value = ok(folder, "compile", "model.pt2", "-o", "user")
    assert "quantize" not in [s["name"] for s in value["stages"]]
    weights = np.load(folder / "user/model.params.npz")
    assert "int8" in {str(weights[k].dtype) for k in weights.files}
    # MMALIB scales by 8 bits, so a value differs in its last place now and then: no error, and no bad layer.
    value = ok(folder, "compile", "model.pt2", "-o", "mmalib", "--target", "c_static -mcpu=c7x -mmalib=1")
    (output,) = value["stages"][-1]["result"]["outputs"]
    assert output["mismatches"] > 0
    assert output["sqnr_db"] > 35
    assert ok(folder, "compare", "mmalib", "--layers")["dtype"] == "int8"


def test_quantize_and_report(folder: Path) -> None:
    done = c7x(folder, "quantize", "model.py", "-o", "report", "--calibrate", "data.npz", "--report")
    assert done.returncode == 0, done.stderr
    for word in ("adaptive_avg_pool2d", "saturated", "SQNR against float", " dB"):
        assert word in done.stdout
    # A build directory after export is quantised again, to the other type.
    value = ok(folder, "quantize", "report", "--dtype", "int16", "--calibrate", "data.npz", "--report")
    assert (value["dtype"], value["calibration"], value["samples"]) == ("int16", "data.npz", 4)
    assert all(item["sqnr_db"] > 60 for item in value["report"]["activations"])


# --- accuracy and noise, in PyTorch's simulation --------------------------------------------------------------


@pytest.fixture(scope="module")
def digits() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    net, (images,) = make_model()
    return net, images, load_data()[3]


@pytest.mark.parametrize(("dtype", "scale"), [("int8", "minmax"), ("int8", "pow2"), ("int16", "minmax")])
def test_digits(digits: tuple[nn.Module, torch.Tensor, torch.Tensor], dtype: str, scale: str) -> None:
    net, images, labels = digits
    samples = [(batch[torch.arange(HELD_OUT) % len(batch)],) for (batch,) in calibration_inputs()]
    case = quantize_model((net, (images,)), dtype, scale=scale, samples=samples)

    def right(logits: np.ndarray) -> int:
        return int((logits.argmax(1) == labels.numpy()).sum())

    assert right(case.floats[0]) >= 440
    assert abs(right(case.simulation[0]) - right(case.floats[0])) <= 2


def _resnet18() -> Any:
    torch.manual_seed(0)
    return ResNet18(), (torch.randn(1, 3, 64, 64),)


def _mobilenet_v2() -> Any:
    """With running statistics learnt: initial ones let the signal die in so deep a net, and nothing is measured."""
    torch.manual_seed(0)
    net = MobileNetV2()
    with torch.no_grad():
        for _ in range(4):
            net.train()(torch.randn(4, 3, 96, 96))
    return net.eval(), (torch.randn(1, 3, 96, 96),)


@pytest.mark.parametrize(
    ("make", "dtype", "options", "least"),
    [
        (_resnet18, "int8", {"symmetric": False}, 36.0),
        (_resnet18, "int8", {"symmetric": True}, 33.5),
        (_resnet18, "int8", {"symmetric": False, "scale": "pow2"}, 32.5),
        (_resnet18, "int16", {}, 50.0),
        (_resnet18, "int16", {"scale": "pow2"}, 50.0),
        (_mobilenet_v2, "int8", {"symmetric": False}, 38.0),
        (_mobilenet_v2, "int8", {"symmetric": True}, 36.0),
    ],
)
def test_sqnr(make: Any, dtype: str, options: dict[str, Any], least: float) -> None:
    """On images that were not calibrated on."""
    net, (image,) = make()
    torch.manual_seed(1)
    samples = [(torch.randn(image.shape),) for _ in range(8)]
    case = quantize_model((net, (image,)), dtype, samples=samples, **options)
    assert sqnr(case.simulation[0], case.floats[0]) >= least
    assert not case.report["float_operators"]
