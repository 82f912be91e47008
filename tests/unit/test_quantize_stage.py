"""The quantize stage: calibration data good and bad, what it writes, and that a failure writes nothing."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchao.quantization.pt2e.quantize_pt2e

from c7x.errors import C7xError, FormatError, ModelError, UnsupportedError, UsageError
from c7x.frontend.export import export_stage
from c7x.frontend.importer import load_program
from c7x.quantize.calibrate import InputSpec, file_samples, random_samples
from c7x.quantize.stage import quantize_stage
from c7x.reporter import Reporter
from c7x.workspace import Workspace

pytestmark = pytest.mark.filterwarnings("ignore")

HEAD = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.head = nn.Linear(4, 3)

    def forward(self, image, gain):
        y = torch.relu(self.conv(image)).mean((2, 3))
        return self.head(y) * gain

def make_model():
    return Net(), (torch.linspace(-1, 1, 128).reshape(1, 2, 8, 8), torch.ones(1, 1))

input_names = ["image", "gain"]
"""
DATA = """
def calibration_inputs():
    torch.manual_seed(1)
    for _ in range(3):
        yield torch.randn(1, 2, 8, 8), torch.ones(1, 1)
"""


class Heard(Reporter):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def exported(folder: Path, text: str = HEAD + DATA) -> tuple[Workspace, Path]:
    """A build directory after export, and its model.py; what is exported once is copied after that."""
    source = folder / "model.py"
    source.write_text(text)
    ws = Workspace(folder / "build")
    model = text.partition("def calibration_inputs")[0]
    if model not in _EXPORTED:
        _EXPORTED[model] = Path(tempfile.mkdtemp(prefix="c7x-quantize-"))
        export_stage(Workspace(_EXPORTED[model] / "build"), source=source)
    shutil.copytree(_EXPORTED[model] / "build", ws.root)
    return ws, source


_EXPORTED: dict[str, Path] = {}


@pytest.fixture(scope="module", autouse=True)
def _clean() -> Iterator[None]:
    yield
    for folder in _EXPORTED.values():
        shutil.rmtree(folder)
    _EXPORTED.clear()


def contents(ws: Workspace) -> dict[str, bytes]:
    return {p.relative_to(ws.root).as_posix(): p.read_bytes() for p in sorted(ws.root.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, Path]:
    return exported(tmp_path_factory.mktemp("plain"))


def test_files_and_figures(tmp_path: Path) -> None:
    ws, source = exported(tmp_path)
    result = quantize_stage(ws, source=source)
    assert (result["dtype"], result["samples"], result["calibration"]) == (
        "int8",
        3,
        "calibration_inputs() in model.py",
    )
    report = json.loads(ws.path("quantize.json").read_text())
    names = [item["name"] for item in report["activations"]]
    assert names == ["image", "relu", "mean", "linear"]
    assert all(item["sqnr_db"] > 25 and item["saturation"] < 0.01 for item in report["activations"])
    assert report["activations"][1]["source"].startswith("model.py:")
    assert {w["dtype"] for w in report["weights"]} == {"int8", "int32"}
    assert {w["name"] for w in report["weights"]} >= {"conv_weight_int", "head_weight_int", "head_bias_int"}
    assert [f["op"] for f in report["float_operators"]] == ["aten.mul.Tensor"]
    assert report["outputs"][0]["name"] == "output_0"
    simulation = np.load(ws.path("expected_quantized/output_0.npy"))
    exact = np.load(ws.path("expected/output_0.npy"))
    assert simulation.shape == exact.shape
    assert 0 < np.abs(simulation - exact).max() < 0.25 * np.abs(exact).max()

    program, facts = load_program(ws.path("model.int8.pt2"))
    assert facts["names"]["inputs"] == ["image", "gain"]
    assert facts["quantize"] == {"dtype": "int8", "scale": "mse"}
    inputs = [torch.from_numpy(np.load(ws.path(f"inputs/input_{i}.npy"))) for i in range(2)]
    assert np.array_equal(program.module()(*inputs)[0].numpy(), simulation)
    # Float weights that integers replace are gone.
    assert not [k for k, v in program.state_dict.items() if v.dtype == torch.float32 and v.dim() > 1]
    traces = [n.meta.get("stack_trace") or "" for n in program.graph.nodes]
    assert any('"model.py"' in trace for trace in traces)
    assert not any(str(tmp_path) in trace for trace in traces)


@pytest.mark.parametrize(
    ("dtype", "symmetric", "zero_points"), [("int8", None, True), ("int8", True, False), ("int16", None, False)]
)
def test_zero_points_by_default_for_int8(tmp_path: Path, dtype: str, symmetric: bool | None, zero_points: bool) -> None:
    ws, source = exported(tmp_path)
    heard = Heard()
    quantize_stage(ws, source=source, dtype=dtype, symmetric=symmetric, reporter=heard)
    report = json.loads(ws.path("quantize.json").read_text())
    found = {item["name"]: item["zero_point"] for item in report["activations"]}
    assert (found["relu"] == -128) == zero_points
    assert zero_points or not any(found.values())
    assert report["symmetric_activations"] == (not zero_points)
    assert not any("symmetric" in text for text in heard.warnings)


def test_same_bytes_every_time(tmp_path: Path) -> None:
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        ws, source = exported(tmp_path / name)
        quantize_stage(ws, source=source, dtype="int16")
        made.append(contents(ws))
    assert made[0] == made[1]


def test_other_type_replaces_the_first(tmp_path: Path) -> None:
    ws, source = exported(tmp_path)
    quantize_stage(ws, source=source)
    quantize_stage(ws, source=source, dtype="int16", scale="pow2", keep_float=["linear"])
    assert ws.has("model.int16.pt2")
    assert not ws.has("model.int8.pt2")
    report = ws.read_json("quantize.json")
    assert [item["name"] for item in report["activations"]] == ["image", "relu", "mean"]
    assert all(float(item["scale"]).hex().split("p")[0] == "0x1.0000000000000" for item in report["activations"])


def test_int16_is_symmetric_and_says_so(tmp_path: Path) -> None:
    ws, source = exported(tmp_path)
    heard = Heard()
    quantize_stage(ws, source=source, dtype="int16", symmetric=False, reporter=heard)
    assert any("symmetric" in text for text in heard.warnings)


def refused(ws: Workspace, kind: type[C7xError], *words: str, **options: Any) -> C7xError:
    before = contents(ws)
    with pytest.raises(kind) as caught:
        quantize_stage(ws, **options)
    for word in words:
        assert word in str(caught.value)
    assert caught.value.hint
    assert contents(ws) == before
    return caught.value


def test_without_data(plain: tuple[Workspace, Path], tmp_path: Path) -> None:
    refused(plain[0], UsageError, "no calibration data", "guess", "--calibrate-random")
    ws, source = exported(tmp_path, HEAD)
    refused(ws, UsageError, "model.py defines no calibration_inputs()", source=source)
    heard = Heard()
    quantize_stage(ws, source=source, calibrate_random=4, reporter=heard)
    assert any("4 random samples" in text and "guess" in text for text in heard.warnings)
    assert ws.read_json("quantize.json")["samples"] == 5


@pytest.mark.parametrize(("dtype", "scale"), [("int4", "minmax"), ("float32", "minmax"), ("int8", "log")])
def test_unknown_type(plain: tuple[Workspace, Path], dtype: str, scale: Any) -> None:
    refused(plain[0], UsageError, "int8 or int16", dtype=dtype, scale=scale, source=plain[1])


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("    return []", ModelError, ("yields nothing",)),
        ("    yield torch.zeros(1, 2, 8, 8)", ModelError, ("a single tensor",)),
        ("    yield (torch.ones(1, 2, 8, 8),)", ModelError, ("1 tensors", "2 inputs")),
        ("    yield torch.ones(1, 2, 9, 8), torch.ones(1, 1)", ModelError, ("image", "[1, 2, 9, 8]", "[1, 2, 8, 8]")),
        ("    yield torch.ones(1, 2, 8, 8).int(), torch.ones(1, 1)", ModelError, ("int32", "float32")),
        ("    yield torch.ones(3, 2, 8, 8), torch.ones(2, 1)", ModelError, ("image: 3", "gain: 2")),
        ("    1 / 0", ModelError, ("ZeroDivisionError",)),
        ("    yield torch.zeros(1, 2, 8, 8), torch.ones(1, 1)", UsageError, ("image", "scale would be zero")),
        ("    yield torch.full((1, 2, 8, 8), float('nan')), torch.ones(1, 1)", UsageError, ("sample 0", "NaN")),
        ("    yield torch.full((1, 2, 8, 8), float('inf')), torch.ones(1, 1)", UsageError, ("infinity",)),
    ],
)
def test_bad_calibration_inputs(tmp_path: Path, body: str, kind: type[C7xError], words: tuple[str, ...]) -> None:
    ws, source = exported(tmp_path, f"{HEAD}\ndef calibration_inputs():\n{body}\n")
    refused(ws, kind, *words, source=source)


def test_nan_inside_the_model(tmp_path: Path) -> None:
    text = HEAD.replace("self.conv(image)", "self.conv(torch.sqrt(image))") + DATA
    ws, source = exported(tmp_path, text)
    error = refused(ws, ModelError, "sqrt", "NaN", source=source)
    assert "model.py:" in error.message


def test_constant_layers_are_a_warning(tmp_path: Path) -> None:
    text = HEAD.replace("torch.relu(self.conv(image))", "torch.relu(self.conv(image) - 100)") + DATA
    ws, source = exported(tmp_path, text)
    heard = Heard()
    quantize_stage(ws, source=source, reporter=heard)
    (warning,) = [text for text in heard.warnings if "zero on all calibration data" in text]
    assert "mean" in warning


def test_a_quantized_model_is_not_quantized_again(tmp_path: Path) -> None:
    ws, source = exported(tmp_path)
    quantize_stage(ws, source=source)
    again = Workspace(tmp_path / "again")
    export_stage(again, source=ws.path("model.int8.pt2"))
    refused(again, UnsupportedError, "quantized already", "without --quantize", calibrate_random=2)


def test_weights_that_torchao_stored_as_integers(tmp_path: Path) -> None:
    body = """
import torch
from torch import nn
from torchao.quantization import Int8WeightOnlyConfig, quantize_

def make_model():
    net = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16)).eval()
    quantize_(net, Int8WeightOnlyConfig())
    return net, (torch.ones(1, 32),)
"""
    ws, _ = exported(tmp_path, body)
    error = refused(ws, UnsupportedError, "quantized already: 0.weight", "without --quantize", calibrate_random=2)
    assert "quantize_" in str(error.cause)


def test_no_search_for_batch_norms_of_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes torchao a minute, and finds nothing in a model that is quantized after training."""

    def search(model: Any) -> Any:
        raise AssertionError("a search")

    monkeypatch.setattr("torchao.quantization.pt2e.quantize_pt2e._fold_conv_bn_qat", search)
    body = HEAD.replace("self.head =", "self.norm = nn.BatchNorm2d(4)\n        self.head =").replace(
        "torch.relu(self.conv(image))", "self.norm(torch.relu(self.conv(image)))"
    )
    ws, source = exported(tmp_path, body + DATA)
    quantize_stage(ws, source=source)
    assert torchao.quantization.pt2e.quantize_pt2e._fold_conv_bn_qat is search


def test_nothing_to_quantize(tmp_path: Path) -> None:
    text = "import torch\ndef make_model():\n    return torch.nn.LSTM(4, 4).eval(), (torch.ones(3, 1, 4),)\n"
    ws, source = exported(tmp_path, text)
    refused(ws, UnsupportedError, "no operator", "recurrent", source=source, calibrate_random=2)


# --- files ----------------------------------------------------------------------------------------------------

SPECS = [
    InputSpec(name="image", example=torch.zeros(2, 3, 4)),
    InputSpec(name="ids", example=torch.zeros(5, dtype=torch.int64)),
]


def saved(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def test_one_sample_and_many(tmp_path: Path) -> None:
    image, ids = np.arange(24, dtype=np.float64).reshape(2, 3, 4), np.arange(5, dtype=np.int32)
    (sample,) = file_samples(saved(tmp_path / "one.npz", image=image, ids=ids), SPECS)
    assert (sample[0].dtype, sample[1].dtype) == (torch.float32, torch.int64)
    many = file_samples(saved(tmp_path / "many.npz", ids=np.stack([ids] * 3), image=np.stack([image] * 3)), SPECS)
    assert len(many) == 3
    assert torch.equal(many[2][0], sample[0])
    np.savez(tmp_path / "unnamed.npz", image, ids)
    assert torch.equal(file_samples(tmp_path / "unnamed.npz", SPECS)[0][0], sample[0])


def test_samples_along_the_batch_axis(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(5 * 12, dtype=np.float32).reshape(5, 3, 4))
    samples = file_samples(tmp_path / "x.npy", SPECS[:1])
    assert [s[0].shape for s in samples] == [torch.Size([2, 3, 4])] * 3
    # The last batch is filled up from the start.
    assert torch.equal(samples[2][0][1], samples[0][0][0])


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"image": np.zeros((2, 3, 5)), "ids": np.zeros(5, int)}, ("float64[2, 3, 5]", "[samples, 2, 3, 4]")),
        ({"image": np.zeros((2, 3, 4))}, ("image", "ids")),
        ({"picture": np.zeros((2, 3, 4)), "ids": np.zeros(5, int)}, ("picture", "numpy.savez")),
        ({"image": np.zeros((2, 3, 4)), "ids": np.zeros(5)}, ("ids", "int64")),
        ({"image": np.zeros((2, 3, 4)), "ids": np.zeros(10, int)}, ("ids",)),
        ({"image": np.zeros((0, 2, 3, 4)), "ids": np.zeros((0, 5), int)}, ("no samples",)),
        ({"image": np.full((2, 3, 4), "a"), "ids": np.zeros(5, int)}, ("image",)),
        ({"image": np.zeros((2, 2, 3, 4)), "ids": np.zeros((3, 5), int)}, ("image: 2", "ids: 3")),
    ],
)
def test_files_that_do_not_fit(tmp_path: Path, arrays: dict[str, np.ndarray], words: tuple[str, ...]) -> None:
    with pytest.raises(FormatError) as caught:
        file_samples(saved(tmp_path / "data.npz", **arrays), SPECS)
    for word in words:
        assert word in str(caught.value)


def test_damaged_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"PK\3\4 nothing else")
    np.save(tmp_path / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    for name in ("x.npz", "pickled.npy"):
        with pytest.raises(FormatError, match="plain arrays"):
            file_samples(tmp_path / name, SPECS)
    with pytest.raises(UsageError, match=r"none\.npz"):
        file_samples(tmp_path / "none.npz", SPECS)


def test_random_samples_are_like_the_example() -> None:
    specs = [
        InputSpec(name="x", example=torch.randn(1000) * 3 + 10),
        InputSpec(name="ids", example=torch.tensor([3, 5, 5])),
        InputSpec(name="flag", example=torch.tensor(True)),
        InputSpec(name="none", example=torch.zeros(0, 4)),
    ]
    samples = random_samples(specs, 2)
    assert len(samples) == 3
    assert torch.equal(samples[0][0], specs[0].example)
    assert 9 < float(samples[1][0].mean()) < 11
    assert 2 < float(samples[2][0].std()) < 4
    assert sorted(samples[1][1].tolist()) == [3, 5, 5]
    assert torch.equal(samples[1][0], random_samples(specs, 2)[1][0])
    assert not torch.equal(samples[1][0], samples[2][0])


def test_calibrating_on_a_file(tmp_path: Path) -> None:
    ws, source = exported(tmp_path)
    data = saved(
        tmp_path / "data.npz", image=np.random.default_rng(0).normal(size=(4, 2, 8, 8)) * 7, gain=np.ones((4, 1))
    )
    result = quantize_stage(ws, source=source, calibrate=data)
    assert (result["samples"], result["calibration"]) == (4, "data.npz")
    assert ws.read_json("quantize.json")["activations"][0]["max"] > 14
    assert "data.npz" in ws.manifest["stages"][-1]["inputs"]
