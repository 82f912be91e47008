"""Every call knows where it comes from, through decomposition, quantisation and fusion, and everything says so."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from c7x.codegen.stage import codegen_stage
from c7x.frontend.export import export_stage
from c7x.frontend.importer import import_stage
from c7x.quantize.stage import quantize_stage
from c7x.report.layers import read_layers
from c7x.report.profile import Measurement, describe
from c7x.report.profile_text import ProfileText
from c7x.target import Target
from c7x.workspace import Workspace
from tests.models import MODELS, write_model_file

#: (model, quantised to, target): fused, branching, recurrent and attention nets; float, integer, on MMALIB.
CASES = [
    ("resnet18_64", None, "c_static -mcpu=c7x"),
    ("yolo_anchor_free", "int8", "c_static -mcpu=c7x -mmalib=1"),
    ("vit_tiny", None, "c_static -mcpu=c7x"),
    ("encoder_layer_relu", "int16", "c_static -mcpu=c7x"),
    ("shufflenet_units", "int8", "c_static -mcpu=c7x"),
    ("lstm_last_step", None, "c_static -mcpu=c7x"),
]


#: These take longer than the rest together.
SLOW = frozenset({"resnet18_64", "encoder_layer_relu", "shufflenet_units"})


@pytest.fixture(
    scope="module",
    params=[pytest.param(case, marks=pytest.mark.slow) if case[0] in SLOW else case for case in CASES],
    ids=lambda case: f"{case[0]}-{case[1] or 'float'}",
)
def build(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    name, dtype, target = request.param
    folder = tmp_path_factory.mktemp(name)
    ws = Workspace(folder / "build")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        export_stage(ws, source=write_model_file(MODELS[name], folder), bind={})
        if dtype:
            quantize_stage(ws, dtype=dtype, calibrate_random=2)
        import_stage(ws)
        codegen_stage(ws, target=Target.parse(target))
    yield ws


def _records(ws: Workspace) -> list[dict[str, Any]]:
    return list(ws.read_json("layers.json"))


def test_every_call_has_operators_nodes_and_a_place(build: Workspace) -> None:
    known = build.read_json("model.provenance.json")
    for record in _records(build):
        assert record["relax_ops"], record["name"]
        assert record["nodes"], record["name"]
        assert set(record["nodes"]) <= set(known), record["name"]
        # Inside an nn.Sequential no line of the user's calls a module: its path is the place then.
        assert record["source"] or record["modules"], record["name"]
        assert all(re.fullmatch(r"[^/\s][^\s]*:\d+", place) for place in record["source"])


def test_fusion_keeps_all_of_them(build: Workspace) -> None:
    most = max(_records(build), key=lambda record: len(record["nodes"]))
    assert len(most["nodes"]) > 1
    assert len(most["relax_ops"]) > 1


def test_it_stands_in_the_c_and_in_the_reports(build: Workspace) -> None:
    records = _records(build)
    text = build.path("lib0.c").read_text()
    main = text[text.rindex("\nint32_t cg_main(") :]
    for record in records:
        (comment,) = re.findall(rf"^  /\* {record['index']}: (.*) \*/$", main, re.MULTILINE)
        assert comment.startswith(f"{record['name']}: {', '.join(record['relax_ops'])} ({', '.join(record['nodes'])})")
        assert comment.endswith(", ".join(record["source"] or record["modules"]))
    keys = ("relax_ops", "nodes", "source", "modules")
    offload = build.read_json("offload.json")["layers"]
    cycles = ProfileText(layers=tuple((record["kernel"], 1) for record in records))
    measured = Measurement(place="board", on_host=False, first=cycles, steady=cycles)
    profile = describe(read_layers(build), measured)["layers"]
    for other in (offload, profile):
        assert [{key: row[key] for key in keys} for row in other] == [{key: r[key] for key in keys} for r in records]


def test_nothing_of_this_machine_is_in_it(build: Workspace, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = str(Path(tmp_path_factory.getbasetemp()))
    for name in ("layers.json", "memory.json", "offload.json", "lib0.c"):
        assert root not in build.path(name).read_text()
    assert json.loads(build.path("layers.json").read_text())
