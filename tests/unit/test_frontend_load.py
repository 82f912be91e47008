"""Loading the user's file: each way to get it wrong ends with a message that names it."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from c7x.errors import ModelError  # noqa: E402
from c7x.frontend.load import MODULE_NAME, load_source, own_inputs  # noqa: E402
from c7x.reporter import Reporter  # noqa: E402

HEAD = "import torch\nfrom torch import nn\n"
GOOD = HEAD + "def make_model():\n    return nn.Linear(3, 2).eval(), (torch.ones(1, 3),)\n"


class Spoken(Reporter):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def write(folder: Path, text: str) -> Path:
    path = folder / "model.py"
    path.write_text(text, encoding="utf-8")
    return path


def fails(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        load_source(path)
    assert caught.value.hint
    return str(caught.value)


def test_a_sound_file(tmp_path: Path) -> None:
    loaded = load_source(write(tmp_path, GOOD + 'input_names = ["x"]\noutput_names = ("y",)\n'))
    assert isinstance(loaded.model, torch.nn.Linear)
    assert [tuple(t.shape) for t in loaded.inputs] == [(1, 3)]
    assert (loaded.input_names, loaded.output_names) == (("x",), ("y",))
    assert loaded.calibration is None


def test_missing_file_names_what_is_there(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    text = fails(tmp_path / "modle.py")
    assert "there is no file" in text
    assert "model.py" in text


def test_folder(tmp_path: Path) -> None:
    assert "is a folder" in fails(tmp_path)


def test_other_suffix(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"x")
    assert "neither a Python file" in fails(path)


@pytest.mark.parametrize("data", [b"def make_model(:\n", b"\x7fELF\0\0\0", b"a\0b", "x = 'é'".encode("latin-1")])
def test_not_python(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.py"
    path.write_bytes(data)
    assert "is not Python" in fails(path)


def test_syntax_error_names_the_line(tmp_path: Path) -> None:
    assert "line 3" in fails(write(tmp_path, HEAD + "def make_model(:\n"))


def test_no_make_model(tmp_path: Path) -> None:
    assert "defines no make_model()" in fails(write(tmp_path, HEAD))


def test_make_model_is_no_function(tmp_path: Path) -> None:
    assert "not a function" in fails(write(tmp_path, "make_model = 3\n"))


def test_missing_package_is_named(tmp_path: Path) -> None:
    text = fails(write(tmp_path, "import nothing_of_that_name\n"))
    assert "nothing_of_that_name is not installed" in text
    assert "model.py, line 1" in text


def test_the_users_lines_only(tmp_path: Path) -> None:
    body = "def helper():\n    return torch.ones(2) @ torch.ones(3)\ndef make_model():\n    return helper()\n"
    text = fails(write(tmp_path, HEAD + body))
    assert "model.py, line 6, in make_model" in text
    assert "model.py, line 4, in helper" in text
    assert "RuntimeError" in text
    assert "load.py" not in text
    assert "site-packages" not in text


@pytest.mark.parametrize("code", ["raise SystemExit(3)", "import sys; sys.exit('no')"])
def test_exit_is_the_models_fault(tmp_path: Path, code: str) -> None:
    assert "SystemExit" in fails(write(tmp_path, f"def make_model():\n    {code}\n"))
    assert "cannot be imported" in fails(write(tmp_path, f"{code}\n"))


def test_torch_compile_is_unwrapped(tmp_path: Path) -> None:
    source = HEAD + "def make_model():\n    return torch.compile(nn.Linear(3, 2)), (torch.ones(1, 3),)\n"
    assert type(load_source(write(tmp_path, source)).model) is torch.nn.Linear


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("nn.Linear(3, 2)", "returned torch.Linear, not a pair"),
        ("None", "returned NoneType, not a pair"),
        ("(nn.Linear(3, 2), torch.ones(1, 3), 1)", "a tuple of 3"),
        ("((torch.ones(1, 3),), nn.Linear(3, 2))", "wrong way round"),
        ("'model', (torch.ones(1, 3),)", "is str, not a torch.nn.Module"),
        ("nn.LazyLinear(2), (torch.ones(1, 3),)", "lazy modules"),
        ("torch.jit.script(nn.Linear(3, 2)), (torch.ones(1, 3),)", "TorchScript"),
        pytest.param(
            "torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(3, 2)), {nn.Linear}), (torch.ones(1, 3),)",
            "quantized already: 0 is a Linear of torch.ao.nn.quantized.dynamic",
            marks=pytest.mark.filterwarnings("ignore"),  # torch calls its own functions deprecated
        ),
        ("nn.Linear(3, 2), torch.ones(1, 3)", "a single tensor (float32[1, 3]), not a tuple of tensors"),
        ("nn.Linear(3, 2), [torch.ones(1, 3)]", "a list of 1 (Tensor), not a tuple of tensors"),
        ("nn.Linear(3, 2), {'x': torch.ones(1, 3)}", "keyword inputs are not supported"),
        ("nn.Linear(3, 2), (torch.ones(1, 3).numpy(),)", "input 0 of make_model()"),
        ("nn.Linear(3, 2), (torch.ones(1, 3).numpy(),)", "torch.from_numpy"),
        ("nn.Linear(3, 2), (torch.ones(1, 3), 2.5)", "example input 1"),
    ],
)
def test_wrong_kinds(tmp_path: Path, returned: str, words: str) -> None:
    assert words in fails(write(tmp_path, HEAD + f"def make_model():\n    return {returned}\n"))


def test_names_of_the_wrong_kind(tmp_path: Path) -> None:
    assert "input_names" in fails(write(tmp_path, GOOD + "input_names = 'x'\n"))


def test_training_mode_is_switched_with_a_warning(tmp_path: Path) -> None:
    spoken = Spoken()
    loaded = load_source(write(tmp_path, GOOD.replace(".eval()", "")), reporter=spoken)
    assert not loaded.model.training
    assert ["training mode" in w for w in spoken.warnings] == [True]
    spoken = Spoken()
    part = HEAD + (
        "def make_model():\n    m = nn.Sequential(nn.Linear(3, 2), nn.Dropout()).eval()\n"
        "    m[1].train()\n    return m, (torch.ones(1, 3),)\n"
    )
    loaded = load_source(write(tmp_path, part), reporter=spoken)
    assert not loaded.model[1].training
    assert "(1)" in spoken.warnings[0]


def test_prints_go_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load_source(write(tmp_path, "print('at import')\n" + GOOD))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "at import" in captured.err


def test_neighbours_can_be_imported_and_the_path_is_restored(tmp_path: Path) -> None:
    (tmp_path / "c7x_neighbour_of_test.py").write_text("WIDTH = 3\n")
    before = list(sys.path)
    loaded = load_source(write(tmp_path, "from c7x_neighbour_of_test import WIDTH\n" + GOOD))
    assert loaded.inputs[0].shape[1] == 3
    assert sys.path == before
    assert sys.modules[MODULE_NAME].__file__ == str(tmp_path / "model.py")


def test_calibration_inputs_are_checked(tmp_path: Path) -> None:
    loaded = load_source(
        write(tmp_path, GOOD + "def calibration_inputs():\n    yield (torch.ones(1, 3),)\n    yield 1\n")
    )
    assert loaded.calibration is not None
    samples = iter(loaded.calibration())
    assert next(samples)[0].shape == (1, 3)
    with pytest.raises(ModelError, match="calibration input 1"):
        next(samples)


def test_inputs_share_nothing_and_are_compact() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    same, again, turned, wide = own_inputs((x, x, x.t(), torch.ones(1, 1).expand(2, 3)))
    assert len({t.data_ptr() for t in (x, same, again, turned, wide)}) == 5
    assert torch.equal(turned, x.t())
    assert turned.stride() == (3, 1)
    assert wide.stride() == (3, 1)


@pytest.mark.parametrize("kind", ["empty", "truncated", "foreign", "state_dict", "torchscript"])
def test_programs_that_are_none(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.pt2"
    if kind == "state_dict":
        torch.save({"weight": torch.ones(3)}, path)
    elif kind == "torchscript":
        torch.jit.script(torch.nn.Linear(3, 2)).save(path)
    elif kind == "truncated":
        torch.export.save(torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),)), path)
        path.write_bytes(path.read_bytes()[:-100])
    else:
        path.write_bytes(b"" if kind == "empty" else b"\x89PNG\r\n" * 50)
    text = fails(path)
    assert "not a complete program of torch.export" in text
    assert "torch.export.save" in text
    assert "above" not in text
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert capsys.readouterr() == ("", "")
