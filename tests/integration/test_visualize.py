"""The page of ``c7x visualize`` in a real browser: what it shows, what a click and a search do, and no complaint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from c7x.report.visualize import visualize_stage
from c7x.workspace import Workspace
from tests.integration.browser import Browser, find_chromium
from tests.integration.commands import c7x, ok

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="needs a browser: apt install chromium (the page is not looked at without one)"
)

_MODEL = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return torch.relu(self.conv2(torch.relu(self.conv1(x))) + x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(Block(8), Block(8), Block(8))
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return torch.softmax(self.fc(x.mean((2, 3))), -1)

def make_model():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(1, 3, 16, 16),)
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    (folder / "model.py").write_text(_MODEL)
    ok(folder, "compile", "model.py", "--profile-layers", "-o", "build", "--cflags=-O1", "--no-check")
    ok(folder, "profile", "build")
    ok(folder, "compare", "build", "--layers")
    done = c7x(folder, "visualize", "build", "-o", "build/report.html")
    assert done.returncode == 0, done.stderr
    assert "build/report.html" in done.stdout
    return folder / "build"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = find_chromium()
    assert executable is not None
    with Browser(executable) as opened:
        yield opened


@pytest.fixture
def shown(build: Path, browser: Browser) -> Browser:
    browser.complaints.clear()
    browser.open((build / "report.html").as_uri())
    return browser


def _layers(build: Path) -> list[dict[str, Any]]:
    return list(json.loads((build / "layers.json").read_text()))


def _count(browser: Browser, selector: str) -> int:
    return int(browser.value(f"document.querySelectorAll({json.dumps(selector)}).length"))


def _text(browser: Browser, selector: str) -> str:
    return str(browser.value(f"(document.querySelector({json.dumps(selector)}) || {{}}).textContent || ''"))


def _colour(browser: Browser, selector: str) -> str:
    return str(browser.value(f"getComputedStyle(document.querySelector({json.dumps(selector)})).fill"))


def test_every_layer_is_a_node_in_the_colour_of_what_runs_it(build: Path, shown: Browser) -> None:
    layers = _layers(build)
    assert _count(shown, ".node") == len(layers)
    for backend in ("c7x", "tvm"):
        assert _count(shown, f".node.{backend}") == sum(layer["backend"] == backend for layer in layers) > 0
    assert _colour(shown, ".node.c7x") == "rgb(0, 158, 115)"
    assert _colour(shown, ".node.tvm") == "rgb(230, 159, 0)"
    edges = shown.value("JSON.parse(document.getElementById('data').textContent).edges.length")
    assert _count(shown, ".edge") == edges > len(layers)
    assert shown.complaints == []


def test_times_accuracy_and_memory(build: Path, shown: Browser) -> None:
    totals = _text(shown, "#totals")
    assert "host time, warm" in totals
    assert "against PyTorch" in totals
    assert "times are host time, not the DSP's" in _text(shown, "#facts")
    assert _count(shown, "#rows .bar") == shown.value("document.querySelectorAll('#rows .row').length")
    assert "dB" in _text(shown, "#rows")
    memory = json.loads((build / "memory.json").read_text())
    assert _count(shown, "#memory rect.buffer") == len(memory["buffers"])
    shown.click("#memory rect.buffer")
    assert _text(shown, "#detail h3") != ""
    assert shown.complaints == []


def test_a_click_shows_the_layer_with_its_c(build: Path, shown: Browser) -> None:
    conv = next(layer for layer in _layers(build) if "nn.conv2d" in layer["relax_ops"])
    assert _count(shown, "#code") == 0
    shown.click(f'#rows .row[data-layer="{conv["index"]}"]')
    assert _text(shown, "#detail h3") == f"{conv['index']}: {conv['name']}"
    assert f"static int32_t {conv['kernel']}(" in _text(shown, "#code")
    assert f"status = {conv['kernel']}(" in _text(shown, "#call")
    detail = _text(shown, "#detail")
    assert conv["source"][0] in detail
    assert "dB by itself" in detail
    assert shown.value("location.hash") == f"#layer={conv['index']}"
    assert shown.complaints == []


def test_search(build: Path, shown: Browser) -> None:
    layers = _layers(build)
    wanted = [layer for layer in layers if "blocks.1" in " ".join(layer["modules"])]
    shown.type("#search", "Blocks.1")
    assert _count(shown, ".node") == len(wanted) > 0
    assert _text(shown, "#found") == f"{len(wanted)} of {len(layers)} layers"
    shown.type("#search", "no such layer")
    assert _count(shown, ".node") == 0
    shown.type("#search", "")
    assert _count(shown, ".node") == len(layers)
    assert shown.complaints == []


def test_blocks_open_and_close(build: Path, shown: Browser) -> None:
    layers = _layers(build)
    shown.click("#collapse")
    few = _count(shown, ".node")
    assert few < len(layers)
    assert "blocks.0 to blocks.2 (3 alike)" in _text(shown, "#rows")
    shown.click("#rows .row.group, #rows .group")
    assert _count(shown, ".node") != few
    shown.click("#expand")
    assert _count(shown, ".node") == len(layers)
    assert shown.complaints == []


def test_a_link_to_a_layer(build: Path, browser: Browser) -> None:
    browser.complaints.clear()
    browser.open((build / "report.html").as_uri() + "#layer=2")
    assert _text(browser, "#detail h3").startswith("2: ")
    browser.open((build / "report.html").as_uri() + "#search=conv2d")
    assert 0 < _count(browser, ".node") < len(_layers(build))
    assert browser.complaints == []


def test_five_hundred_layers(tmp_path: Path, browser: Browser) -> None:
    """Alike blocks are one row at first; all rows together still show, and quickly enough to use."""
    ws = Workspace(tmp_path / "build")
    records, calls, buffers = [], [], []
    ops = ["nn.layer_norm", "matmul", "nn.softmax", "matmul", "add", "nn.layer_norm", "matmul", "gelu", "matmul", "add"]

    def tensor(name: str) -> dict[str, Any]:
        return {"buffer": name, "dtype": "float32", "shape": [64], "bytes": 256, "place": "arena", "offset": 0}

    for index in range(500):
        block, step = divmod(index, len(ops))
        records.append(
            {
                "index": index, "kernel": f"k{step}", "name": f"n{index}", "backend": "tvm" if step == 7 else "c7x",
                "relax_ops": [ops[step]], "nodes": [f"n{index}"], "source": [f"model.py:{step}"],
                "modules": [f"layers.{block}.part{step}"], "macs": 1000, "bytes_in": 256, "bytes_out": 256,
                "dtype": "float32",
            }
        )  # fmt: skip
        read = [f"n{index - 1}"] if index else []
        read += [f"n{index - 5}"] if step in (4, 9) else []
        calls.append({"inputs": [tensor(name) for name in read], "outputs": [tensor(f"n{index}")]})
        buffers.append(
            {"name": f"n{index}", "bytes": 256, "offset": 256 * (index % 7), "first": index, "last": index + 1}
        )
    with ws.stage("codegen") as run:
        run.write_text("lib0.c", "")
        run.write_json("layers.json", records)
        run.write_json("memory.json", {"arena_bytes": 1792, "buffers": buffers, "calls": calls})
        offload = [{**record, "offloaded": record["backend"] != "tvm", "reason": None} for record in records]
        totals = {"macs": 500000, "macs_offloaded": 450000, "float_ops_between_boundaries": 0}
        run.write_json("offload.json", {"layers": offload, "totals": totals})
        run.write_json("io.json", {"inputs": [], "outputs": [], "arena_bytes": 1792, "weights_bytes": 0})
        run.facts.update(model="transformer", target="c_static -mcpu=c7x", mode="c7x_host")
    visualize_stage(ws)
    browser.complaints.clear()
    browser.open(ws.path("report.html").resolve().as_uri())
    assert _count(browser, "#rows .row") == 1
    assert "layers.0 to layers.49 (50 alike)500 layers" in _text(browser, "#rows")
    browser.click("#rows .row")
    assert _count(browser, ".node") == 50
    browser.click("#expand")
    assert _count(browser, ".node") == 500
    assert _count(browser, ".edge") == 499 + 99
    # Skip connections need a second lane, and no third.
    lanes = browser.value("new Set([...document.querySelectorAll('.node')].map((n) => n.getAttribute('cx'))).size")
    assert lanes <= 3
    assert browser.complaints == []
