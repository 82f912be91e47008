"""The export stage: what it writes, what it refuses, and that two exports agree to the byte."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from c7x.errors import ModelError, UnsupportedError, UsageError  # noqa: E402
from c7x.frontend.export import clean_names, export_stage  # noqa: E402
from c7x.frontend.quiet import quiet  # noqa: E402
from c7x.frontend.source import innermost_user_frame, is_library, shown_path  # noqa: E402
from c7x.frontend.support import SupportError  # noqa: E402
from c7x.reporter import Reporter  # noqa: E402
from c7x.workspace import Workspace  # noqa: E402

HEAD = "import torch\nfrom torch import nn\n"


class Spoken(Reporter):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def model(folder: Path, forward: str, inputs: str, *, init: str = "pass", extra: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.py"
    path.write_text(
        HEAD + "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        {init}\n    def forward(self, *args):\n        {forward}\n"
        f"def make_model():\n    torch.manual_seed(0)\n    return M().eval(), {inputs}\n{extra}\n"
    )
    return path


def export(tmp_path: Path, source: Path, **options: object) -> tuple[Workspace, dict[str, object]]:
    ws = Workspace(tmp_path / "build")
    return ws, export_stage(ws, source=source, **options)  # type: ignore[arg-type]


def arrays(ws: Workspace, folder: str) -> list[np.ndarray]:
    return [np.load(p, allow_pickle=False) for p in sorted((ws.root / folder).iterdir())]


def test_files_names_and_answers(tmp_path: Path) -> None:
    source = model(
        tmp_path,
        "x, y = args; return {'sum': x + y, 'more': [None, (x * 2, y.sum())]}",
        "(torch.ones(2, 3), torch.arange(3.0))",
        init="self.w = nn.Parameter(torch.ones(4))",
        extra="input_names = ['left-hand', 'for']",
    )
    ws, result = export(tmp_path, source)
    assert result["inputs"] == [
        {"name": "left_hand", "dtype": "float32", "shape": [2, 3]},
        {"name": "for_", "dtype": "float32", "shape": [3]},
    ]
    assert result["outputs"] == [
        {"name": "output_0", "dtype": "float32", "shape": [2, 3]},
        {"name": "output_1", "dtype": "float32", "shape": [2, 3]},
        {"name": "output_2", "dtype": "float32", "shape": []},
    ]
    assert result["parameters"] == 4
    x, y = np.ones((2, 3), np.float32), np.arange(3, dtype=np.float32)
    for got, want in zip(arrays(ws, "expected"), [x + y, x * 2, y.sum()], strict=True):
        np.testing.assert_array_equal(got, want)
    assert ws.has("model.pt2")
    assert ws.manifest["model"] == "model"


def test_two_exports_agree_to_the_byte_and_hold_no_path(tmp_path: Path) -> None:
    hashes = []
    for name in ("here", "there/deep"):
        source = model(
            tmp_path / name, "return self.l(args[0]).relu()", "(torch.ones(1, 3),)", init="self.l = nn.Linear(3, 2)"
        )
        ws, _ = export(tmp_path / name, source)
        hashes.append(ws.manifest["stages"][0]["outputs"])
        assert str(tmp_path).encode() not in ws.path("model.pt2").read_bytes()
    assert hashes[0] == hashes[1]


def test_the_folder_of_the_call_does_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path to the model, from two folders, and one through a link to its folder."""
    model(tmp_path / "net" / "here", "return args[0] + 1", "(torch.ones(1, 3),)")
    (tmp_path / "link").symlink_to(tmp_path / "net" / "here")
    found = []
    for folder, source in (("net", "here/model.py"), (".", "net/here/model.py"), (".", "link/model.py")):
        monkeypatch.chdir(tmp_path / folder)
        ws, _ = export(tmp_path / source.replace("/", "_"), Path(source))
        found.append(ws.manifest["stages"][0]["outputs"])
    program = torch.export.load(ws.path("model.pt2"))
    traces = [node.meta["stack_trace"] for node in program.graph.nodes if "stack_trace" in node.meta]
    assert traces and all('"model.py"' in trace for trace in traces)
    assert found[0] == found[1] == found[2]


def test_one_tensor_given_twice_stays_two_inputs(tmp_path: Path) -> None:
    source = model(tmp_path, "return args[0] * 2 + args[1]", "(lambda z: (z, z))(torch.ones(2, 3))")
    ws, _ = export(tmp_path, source)
    program = torch.export.load(ws.path("model.pt2"))
    with quiet():
        (got,) = program.module()(torch.ones(2, 3), torch.zeros(2, 3))
    assert torch.equal(got, torch.full((2, 3), 2.0))


def test_nested_inputs_are_flattened(tmp_path: Path) -> None:
    source = model(
        tmp_path, "x, rest = args; return x + rest['b'][0] * 2 + rest['a']",
        "(torch.ones(2), {'a': torch.full((2,), 5.0), 'b': [torch.full((2,), 3.0)]})",
    )  # fmt: skip
    ws, result = export(tmp_path, source)
    assert len(result["inputs"]) == 3  # type: ignore[arg-type]
    assert [float(a[0]) for a in arrays(ws, "inputs")] == [1, 5, 3]
    np.testing.assert_array_equal(arrays(ws, "expected")[0], [12, 12])


def test_non_contiguous_input_keeps_its_values(tmp_path: Path) -> None:
    source = model(tmp_path, "return args[0].reshape(-1)", "(torch.arange(6.0).reshape(2, 3).t(),)")
    ws, _ = export(tmp_path, source)
    np.testing.assert_array_equal(arrays(ws, "inputs")[0], np.arange(6, dtype=np.float32).reshape(2, 3).T)
    assert arrays(ws, "inputs")[0].flags.c_contiguous
    np.testing.assert_array_equal(arrays(ws, "expected")[0], [0, 3, 1, 4, 2, 5])


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
@pytest.mark.parametrize(
    ("forward", "inputs", "init", "words"),
    [
        ("return args[0]", "(torch.ones(2).half(),)", "pass", "input 0 has dtype float16"),
        ("return args[0]", "(torch.ones(2).bfloat16(),)", "pass", "input 0 has dtype bfloat16"),
        ("return args[0].real", "(torch.ones(2, dtype=torch.complex64),)", "pass", "input 0 has dtype complex64"),
        (
            "return args[0]",
            "(torch.ones(2),)",
            "self.w = nn.Parameter(torch.ones(2).half())",
            "parameter w has dtype float16",
        ),
        ("return args[0]", "(torch.ones(2).to_sparse(),)", "pass", "input 0 is a sparse tensor"),
        (
            "return args[0]",
            "(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),)",
            "pass",
            "quantized dtype qint8",
        ),
        ("return args[0], 3", "(torch.ones(2),)", "pass", "returns 3"),
        ("return None", "(torch.ones(2),)", "pass", "returns no tensor"),
    ],
)
def test_refused_by_name(tmp_path: Path, forward: str, inputs: str, init: str, words: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        export(tmp_path, model(tmp_path, forward, inputs, init=init))
    assert words in str(caught.value)
    assert caught.value.hint
    assert caught.value.stage == "export"
    assert not (tmp_path / "build").exists()


def test_a_branch_on_data_names_its_line(tmp_path: Path) -> None:
    source = model(tmp_path, "return args[0] if args[0].sum() > 0 else -args[0]", "(torch.ones(2),)")
    with pytest.raises(UnsupportedError) as caught:
        export(tmp_path, source)
    assert "data-dependent" in str(caught.value)
    assert "model.py:8" in str(caught.value)
    assert caught.value.rows[0]["source"] == "model.py:8"  # type: ignore[attr-defined]


def test_a_model_that_fails_shows_its_own_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        export(tmp_path, model(tmp_path, "return args[0] @ torch.ones(5)", "(torch.ones(2),)"))
    assert "model.py, line 8, in forward" in str(caught.value)
    assert "site-packages" not in str(caught.value)


def test_wrong_number_of_names(tmp_path: Path) -> None:
    source = model(tmp_path, "return args[0]", "(torch.ones(2),)", extra="output_names = ['a', 'b']")
    with pytest.raises(ModelError, match="output_names"):
        export(tmp_path, source)


@pytest.mark.parametrize(
    ("forward", "error", "words"),
    [
        ("return self.l(args[0])", ModelError, "1x5 and 4x4"),
        ("return args[0] if args[0].sum() > 0 else -args[0]", UnsupportedError, "data-dependent"),
    ],
)
def test_what_torch_says_of_a_failed_trace_is_said_once(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    forward: str,
    error: type[Exception],
    words: str,
) -> None:
    source = model(tmp_path, forward, "(torch.ones(1, 5),)", init="self.l = nn.Linear(4, 4)")
    with pytest.raises(error, match=words):
        export(tmp_path, source)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert capsys.readouterr() == ("", "")
    assert logging.root.manager.disable == logging.NOTSET


@pytest.mark.parametrize(
    ("forward", "op", "reason"),
    [
        ("return torch.sparse.mm(args[0].to_sparse(), args[0])", "aten.to_sparse.default", "a sparse tensor"),
        (
            "return torch.quantize_per_tensor(args[0], 0.1, 0, torch.quint8).dequantize()",
            "aten.quantize_per_tensor.default",
            "eager quantization",
        ),
    ],
)
def test_tensors_that_are_no_arrays_are_refused_with_their_line(
    tmp_path: Path, forward: str, op: str, reason: str
) -> None:
    with pytest.raises(SupportError) as caught:
        export(tmp_path, model(tmp_path, forward, "(torch.ones(4, 4),)"))
    row = caught.value.rows[0]
    assert (row["op"], row["source"]) == (op, "model.py:8")
    assert reason in str(row["reason"])
    assert not (tmp_path / "build").exists()


def test_updated_buffers_are_told_and_saved_in_their_first_state(tmp_path: Path) -> None:
    source = model(
        tmp_path,
        "self.n += 1; return args[0] + self.n",
        "(torch.zeros(2),)",
        init="self.register_buffer('n', torch.zeros(1))",
    )
    spoken = Spoken()
    ws, _ = export(tmp_path, source, reporter=spoken)
    assert "updates the model's buffers (n)" in spoken.warnings[0]
    np.testing.assert_array_equal(arrays(ws, "expected")[0], [1, 1])
    assert torch.equal(torch.export.load(ws.path("model.pt2")).state_dict["n"], torch.zeros(1))


@pytest.mark.parametrize("padded", [True, False])
def test_the_shortcut_for_padded_batches_is_not_the_reference(tmp_path: Path, padded: bool) -> None:
    """nn.TransformerEncoder packs a padded batch and zeroes the padding; the exported program never does."""
    source = model(
        tmp_path,
        "return self.e(args[0], src_key_padding_mask=args[1])",
        f"(torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [{padded}] * 2]))",
        init="self.e = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), 1)",
    )
    spoken = Spoken()
    ws, _ = export(tmp_path, source, reporter=spoken)
    inputs = [torch.from_numpy(array) for array in arrays(ws, "inputs")]
    with torch.no_grad():
        want = torch.export.load(ws.path("model.pt2")).module()(*inputs)[0]
    np.testing.assert_allclose(arrays(ws, "expected")[0], want.numpy(), rtol=1e-5, atol=1e-6)
    assert [w for w in spoken.warnings if "padded positions" in w] == spoken.warnings
    assert len(spoken.warnings) == padded
    assert torch.backends.mha.get_fastpath_enabled()


def dynamic_program(folder: Path) -> Path:
    path = folder / "m.pt2"
    batch = torch.export.Dim("batch", min=1, max=8)
    program = torch.export.export(
        torch.nn.Linear(3, 2).eval(), (torch.ones(4, 3),), dynamic_shapes=({0: batch},), strict=False
    )
    torch.export.save(program, path)
    return path


def test_dynamic_dimension_of_a_program(tmp_path: Path) -> None:
    source = dynamic_program(tmp_path)
    with pytest.raises(UnsupportedError) as caught:
        export(tmp_path, source)
    assert "dimension 0 of input 0" in str(caught.value)
    assert "--bind batch=1" in str(caught.value)
    ws, result = export(tmp_path, source, bind={"batch": 1})
    assert result["inputs"] == [{"name": "input", "dtype": "float32", "shape": [1, 3]}]
    assert arrays(ws, "expected")[0].shape == (1, 2)
    with pytest.raises(UsageError, match="takes"):
        export(tmp_path, source, bind={"batch": 99})
    with pytest.raises(UsageError, match="no dynamic dimension depth"):
        export(tmp_path, source, bind={"depth": 1})


def test_dimensions_of_a_program_are_named_by_input_and_place(tmp_path: Path) -> None:
    """Never by torch's symbols, which nobody has written."""

    class Both(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x.sum(1) + y.sum()

    rows, columns = torch.export.Dim("rows", min=2, max=8), torch.export.Dim("columns", min=2, max=50)
    program = torch.export.export(
        Both().eval(), (torch.ones(4, 6), torch.ones(3)), dynamic_shapes=({0: rows, 1: columns}, None), strict=False
    )
    torch.export.save(program, tmp_path / "m.pt2")
    with pytest.raises(UnsupportedError) as caught:
        export(tmp_path, tmp_path / "m.pt2")
    assert "input0_dim1 (dimension 1 of input 0; 6 in the example)" in str(caught.value)
    assert caught.value.hint == "fix them with --bind batch=4 --bind input0_dim1=6"
    for bind in ({"input0_dim1": 99, "batch": 2}, {"nothing": 1}):
        with pytest.raises(UsageError) as wrong:
            export(tmp_path, tmp_path / "m.pt2", bind=bind)
        assert "dimension 1 of input 0; 6 in the example" in f"{wrong.value} {wrong.value.cause}"
        assert not re.search(r"\bs\d+\b", f"{wrong.value} {wrong.value.cause} {wrong.value.hint}")
    ws, _ = export(tmp_path, tmp_path / "m.pt2", bind={"input0_dim0": 2, "input0_dim1": 3})
    assert arrays(ws, "inputs")[0].shape == (2, 3)


def test_a_branch_on_data_is_called_that(tmp_path: Path) -> None:
    source = model(tmp_path, "return args[0] if args[0].sum() > 0 else -args[0]", "(torch.ones(2),)")
    with pytest.raises(SupportError) as caught:
        export(tmp_path, source)
    assert "depends on the values of its data" in str(caught.value)
    assert "operator" not in str(caught.value).partition("\n")[0]
    assert "fixed sequence of steps" in str(caught.value.cause)


def test_dynamic_dimension_declared_in_model_py(tmp_path: Path) -> None:
    source = model(
        tmp_path, "return args[0].sum(1)", "(torch.ones(4, 6),)",
        extra="dynamic_shapes = ({0: torch.export.Dim('batch'), 1: 'length'},)",
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match=r"batch.*length") as caught:
        export(tmp_path, source)
    assert "--bind batch=1 --bind length=6" in str(caught.value.hint)
    ws, _ = export(tmp_path, source, bind={"batch": 2, "length": 9})
    assert arrays(ws, "inputs")[0].shape == (2, 9)
    np.testing.assert_array_equal(arrays(ws, "expected")[0], [9, 9])


def test_a_static_model_takes_no_bind(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fixed already"):
        export(tmp_path, model(tmp_path, "return args[0] + 1", "(torch.ones(2),)"), bind={"batch": 1})


def test_a_saved_program_keeps_its_input_names(tmp_path: Path) -> None:
    class Named(nn.Module):
        def forward(self, image: Any, mask: Any) -> Any:
            return image * mask

    path = tmp_path / "named.pt2"
    torch.export.save(torch.export.export(Named(), (torch.ones(2), torch.ones(2)), strict=False), path)
    _, result = export(tmp_path, path)
    assert [p["name"] for p in result["inputs"]] == ["image", "mask"]  # type: ignore[attr-defined]


def test_clean_names() -> None:
    assert clean_names(["a", "a", "1x", "über", "int", "", "a_1"]) == [
        "a",
        "a_1",
        "t_1x",
        "ber",
        "int_",
        "tensor_5",
        "a_1_1",
    ]


def test_frames_and_paths() -> None:
    site = "/opt/venv/lib/python3.11/site-packages"
    trace = (
        f'  File "/home/u/p/model.py", line 3, in forward\n    x\n'
        f'  File "{site}/timm/layers/a.py", line 7, in forward\n    y\n'
        f'  File "{site}/torch/nn/modules/conv.py", line 9, in forward\n    z'
    )
    assert innermost_user_frame(trace) == (f"{site}/timm/layers/a.py", 7)
    assert shown_path(f"{site}/timm/layers/a.py", Path("/home/u/p")) == "timm/layers/a.py"
    assert shown_path("/home/u/p/sub/model.py", Path("/home/u/p")) == "sub/model.py"
    assert shown_path("/elsewhere/model.py", Path("/home/u/p")) == "model.py"
    assert is_library("<string>")
    assert not is_library("model.py")
    assert innermost_user_frame("nothing") is None


def test_facts_travel_in_the_program(tmp_path: Path) -> None:
    ws, _ = export(tmp_path, model(tmp_path, "return args[0] + 1", "(torch.ones(2),)", extra="output_names = ['y']"))
    extra = {"c7x.json": ""}
    torch.export.load(ws.path("model.pt2"), extra_files=extra)
    assert json.loads(extra["c7x.json"])["names"]["outputs"] == ["y"]
