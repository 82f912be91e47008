"""The import stage: the text reads back to the bit, names and provenance are kept, ugly inputs are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
tvm = pytest.importorskip("tvm")

from torch import nn  # noqa: E402
from tvm import relax  # noqa: E402

from c7x.errors import FormatError, UnsupportedError, WorkspaceError  # noqa: E402
from c7x.frontend import support  # noqa: E402
from c7x.frontend.export import export_stage  # noqa: E402
from c7x.frontend.importer import (  # noqa: E402
    import_exported_program,
    import_stage,
    load_params,
    load_relax,
    save_params,
    translate,
)
from c7x.workspace import Workspace  # noqa: E402

MODEL = """import torch
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
    def forward(self, x):
        return self.conv(x).relu() * 5592405.5
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.register_buffer("odd", torch.tensor([float("nan"), float("-inf"), 3.1415927, -0.0]))
    def forward(self, x):
        return self.block(x).mean((2, 3)) + self.odd, torch.clamp(x, min=float("-inf"), max=0.1)
def make_model():
    torch.manual_seed(0)
    return M().eval(), (torch.ones(1, 3, 5, 5),)
"""


class Fn(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def program(function: Any, *inputs: Any) -> Any:
    return torch.export.export(Fn(function), inputs, strict=False)


def built(tmp_path: Path, text: str = MODEL, name: str = "build") -> Workspace:
    folder = tmp_path / f"{name}-source"
    folder.mkdir()
    (folder / "net.py").write_text(text)
    ws = Workspace(tmp_path / name)
    export_stage(ws, source=folder / "net.py")
    import_stage(ws)
    return ws


def bindings(module: Any) -> dict[str, Any]:
    return {b.var.name: b.value for block in module["main"].body.blocks for b in block.bindings}


def test_text_and_parameters_read_back_to_the_bit(tmp_path: Path) -> None:
    ws = built(tmp_path)
    text = ws.path("model.relax").read_text()
    assert "metadata" not in text
    assert "R.const(5592405.5" in text
    params = load_params(ws.path("model.params.npz"))
    odd = np.array([np.nan, -np.inf, 3.1415927, -0.0], np.float32)
    assert any(p.shape == (4,) and p.tobytes() == odd.tobytes() for p in params.values())
    module = load_relax(ws)
    assert len(module["main"].params) == 1
    assert module["main"].attrs["num_input"] == 1
    assert json.loads(module["main"].attrs["c7x_io"]) == {"inputs": ["x"], "outputs": ["output_0", "output_1"]}


def test_two_imports_agree_to_the_byte(tmp_path: Path) -> None:
    first, second = built(tmp_path, name="one"), built(tmp_path, name="two")
    records = [ws.manifest["stages"][1]["outputs"] for ws in (first, second)]
    assert records[0] == records[1]
    assert sorted(records[0]) == ["model.params.npz", "model.provenance.json", "model.relax"]


def test_provenance_names_node_line_and_module(tmp_path: Path) -> None:
    module = load_relax(built(tmp_path))
    provenance = json.loads(module["main"].attrs["c7x_provenance"])
    assert provenance["convolution"] == {"op": "aten.convolution.default", "source": "net.py:8", "module": "block.conv"}
    assert provenance["relu"]["source"] == "net.py:8"
    assert provenance["mean"]["source"] == "net.py:15"
    named = set(bindings(module)) - {"outputs"}
    assert {name.split("__")[0] for name in named} <= set(provenance)


def test_an_edited_module_is_taken(tmp_path: Path) -> None:
    ws = built(tmp_path)
    text = ws.path("model.relax").read_text()
    ws.path("model.relax").write_text(text.replace("R.nn.relu(", "R.nn.silu("))
    assert any(isinstance(v, relax.Call) and v.op.name == "relax.nn.silu" for v in bindings(load_relax(ws)).values())


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("model.relax", lambda b: b[: len(b) // 2], "not TVMScript"),
        ("model.relax", lambda b: b.replace(b"def main", b"def other"), "no function main"),
        ("model.relax", lambda b: b.replace(b"num_input", b"num_inputs"), "lacks its attributes"),
        ("model.params.npz", lambda b: b[: len(b) // 2], "not a parameter archive"),
        ("model.params.npz", lambda b: b"", "not a parameter archive"),
        ("model.params.npz", lambda b: save_params({}), "holds nothing of that name"),
    ],
)
def test_damaged_files(tmp_path: Path, file: str, change: Any, words: str) -> None:
    ws = built(tmp_path)
    ws.path(file).write_bytes(change(ws.path(file).read_bytes()))
    with pytest.raises(FormatError) as caught:
        load_relax(ws)
    assert words in str(caught.value)
    assert caught.value.hint


def test_a_truncated_program(tmp_path: Path) -> None:
    ws = built(tmp_path)
    ws.path("model.pt2").write_bytes(ws.path("model.pt2").read_bytes()[:-200])
    with pytest.raises(FormatError, match="not a program"):
        import_stage(ws)


def test_nothing_to_import(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="no build directory"):
        import_stage(Workspace(tmp_path / "none"))


def test_parameter_archive_is_deterministic() -> None:
    a, b = np.ones((2, 3), np.float32), np.array(True)
    assert save_params({"a": a, "b": b}) == save_params({"b": b, "a": a})


def test_shapes_of_results() -> None:
    imported = translate(
        program(lambda x, y: (x, [x * 2, None], torch.arange(3), x.sum()), torch.ones(2, 3), torch.ones(4))
    )
    assert imported.outputs == ("output_0", "output_1", "output_2", "output_3")
    assert [v.name for v in imported.module["main"].params][:2] == ["args_0", "args_1"]
    fields = imported.module["main"].ret_ty.fields
    assert [(str(f.dtype), [int(s) for s in f.shape]) for f in fields] == [
        ("float32", [2, 3]),
        ("float32", [2, 3]),
        ("int64", [3]),
        ("float32", []),
    ]


def test_parameters_and_scalars_as_outputs() -> None:
    class Weights(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.arange(3.0))

        def forward(self, x: Any) -> Any:
            return self.weight, torch.tensor(2.5), x * self.weight

    imported = translate(torch.export.export(Weights(), (torch.ones(3),), strict=False))
    assert sorted(p.tolist() for p in imported.params.values() if p.ndim) == [[0, 1, 2]]
    assert [p.tolist() for p in imported.params.values() if not p.ndim] == [2.5]


def test_a_python_number_as_output_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="returns 3"):
        translate(program(lambda x: (x + 1, 3), torch.ones(2)))


def test_constants_are_computed_at_import() -> None:
    def function(x: Any) -> Any:
        index = torch.arange(4).flip(0) - 1
        return x[:, index]

    values = list(bindings(import_exported_program(program(function, torch.ones(2, 4)))).values())
    assert [v.op.name for v in values if isinstance(v, relax.Call)] == ["relax.take"]
    np.testing.assert_array_equal(values[0].args[1].value.numpy(), [2, 1, 0, 3])


def test_unread_parameters_leave_no_trace_and_tied_ones_are_one() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(5, 3)
            self.head = nn.Linear(3, 5, bias=False)
            self.head.weight = self.table.weight
            self.unread = nn.Linear(7, 7)

        def forward(self, x: Any) -> Any:
            return self.head(self.table(x))

    imported = translate(torch.export.export(Tied().eval(), (torch.tensor([1, 2]),), strict=False))
    assert [p.shape for p in imported.params.values()] == [(5, 3)]


def test_large_uniform_constants_are_filled_not_stored() -> None:
    imported = translate(program(lambda x: x + torch.full((64, 64), 0.1), torch.ones(64, 64)))
    assert imported.params == {}


def test_the_report_counts_by_line() -> None:
    def function(x: Any) -> Any:
        for _ in range(3):
            x = torch.lgamma(x)
        return torch.cummax(x, 0)[0]

    with pytest.raises(support.SupportError) as caught:
        translate(program(function, torch.ones(3)))
    rows = caught.value.rows
    assert [(r["op"], r["count"]) for r in rows] == [("aten.lgamma.default", 3), ("aten.cummax.default", 1)]
    assert all(str(r["source"]).startswith("test_frontend_import.py:") for r in rows)
    assert "what to do" in str(caught.value)


def test_a_program_exported_in_training_mode_is_told_so() -> None:
    net = torch.export.export(torch.nn.BatchNorm1d(2).train(), (torch.ones(3, 2),), strict=False)
    with pytest.raises(support.SupportError, match=r"training mode.*model\.eval\(\)"):
        translate(net)


def test_custom_operators_are_called_custom() -> None:
    library = torch.library.Library("c7x_test_frontend", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    library.impl("twice", lambda x: torch.empty_like(x), "Meta")
    with pytest.raises(support.SupportError) as caught:
        translate(program(lambda x: torch.ops.c7x_test_frontend.twice(x), torch.ones(3)))
    assert "custom operator" in str(caught.value.rows[0]["reason"])
    assert caught.value.rows[0]["op"] == "c7x_test_frontend.twice.default"


def test_control_flow_operators_are_refused() -> None:
    def function(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))

    with pytest.raises(support.SupportError) as caught:
        translate(program(function, torch.ones(3)))
    assert caught.value.rows[0]["op"] == "higher_order.cond"
    assert "torch.where" in str(caught.value.rows[0]["hint"])


def test_explain_knows_every_entry() -> None:
    for op in support.KNOWN:
        reason, hint = support.explain(f"{op}.default" if op.startswith("aten.") else op)
        assert (reason, hint) == support.KNOWN[op]
    assert support.explain("aten.nothing.default") == support.UNKNOWN
