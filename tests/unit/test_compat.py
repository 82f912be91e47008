from __future__ import annotations

import argparse
import inspect
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import c7x
from c7x import compat
from c7x.errors import TargetError, UnsupportedError


@pytest.fixture(autouse=True)
def _fresh_selection(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(compat.KEEP_TEMP_VARIABLE, raising=False)
    yield
    compat.set_current_board(None)
    compat.set_current_test_name("")


# The interface: scripts written for the harness call by position and by name.
_PARAMETERS = {
    "set_current_test_name": "name",
    "set_current_board": "board",
    "get_current_board": "",
    "get_board_hostname": "board=None",
    "add_board_arg": "parser",
    "get_target_string": "dsp_mode, profile_layers=False, use_cpp_api=False",
    "temporary_dsp_workspace": "name, cleanup=True",
    "write_tensors_to_file": "tensors, filename",
    "read_tensors_from_file": "filename",
    "compile_for_dsp": "mod, target_string='c_static -mcpu=c66x', output_dir=None, relax_pipeline=None",
    "run_dsp_host": "executable, working_dir=None",
    "compile_and_run_dsp": "mod, input_data, target_string, execution_mode='c66x_host', build_type='Release', "
    "timeout_ms=60000, profile_layers=False, profile=False, relax_pipeline=None, fp_reassoc_off=False, "
    "multi_output=False",
    "compare_results": "results, reference, name, atol=1e-05, rtol=0.0001",
    "bulk_tail_split": "n, vec_width=8",
}


@pytest.mark.parametrize("name", sorted(_PARAMETERS))
def test_parameters(name: str) -> None:
    parameters = inspect.signature(getattr(compat, name)).parameters.values()
    shown = ", ".join(p.name if p.default is inspect.Parameter.empty else f"{p.name}={p.default!r}" for p in parameters)
    assert shown == _PARAMETERS[name]


def test_everything_is_reexported() -> None:
    for name in compat.__all__:
        assert name in c7x.__all__
        assert getattr(c7x, name) is getattr(compat, name)
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = c7x.no_such_thing


# ------------------------------------------------------------------------------------------- boards, target, folders


def test_boards() -> None:
    assert compat.get_current_board() is None
    assert compat.get_board_hostname() is None
    compat.set_current_board("j722s-evm")
    assert compat.get_current_board() == "j722s-evm"
    assert compat.get_board_hostname() == "am67a"
    assert compat.get_board_hostname("beagley-ai") == "beagley-ai"
    assert compat.get_board_hostname("other") is None
    with pytest.raises(TargetError, match="unknown board 'j722s'"):
        compat.set_current_board("j722s")


def test_board_argument_selects_the_board(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    compat.add_board_arg(parser)
    assert parser.parse_args([]).board is None
    assert compat.get_current_board() is None
    assert parser.parse_args(["--board", "beagley-ai"]).board == "beagley-ai"
    assert compat.get_current_board() == "beagley-ai"
    with pytest.raises(SystemExit):
        parser.parse_args(["--board", "raspberry"])
    assert "raspberry" in capsys.readouterr().err


def test_target_strings() -> None:
    assert compat.get_target_string("c7x_host") == "c_static -mcpu=c7x"
    assert compat.get_target_string("c66x_host") == "c_static -mcpu=c66x"
    assert compat.get_target_string("c66x") == "c_static -mcpu=c66x"
    assert compat.get_target_string("c7x_host", True, True) == "c_static -mcpu=c7x -profile-layers -use-cpp-api=1"
    with pytest.raises(RuntimeError, match="needs a board"):
        compat.get_target_string("c7x_dload")
    with pytest.raises(TargetError, match="unknown mode 'c7x_hosts'"):
        compat.get_target_string("c7x_hosts")
    compat.set_current_board("j722s-evm")
    assert compat.get_target_string("c7x_dload") == "c_static -mcpu=c7x"
    compat.set_current_board("beagley-ai")
    assert compat.get_target_string("c7x_dload", profile_layers=True) == (
        "c_static -mcpu=c7x -profile-layers -tidl-kernels=0"
    )
    assert compat.get_target_string("c7x_host") == "c_static -mcpu=c7x"


def test_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with compat.temporary_dsp_workspace("conv/3x3 same") as folder:
        assert re.match(r"dsp_conv_3x3_same_\d{8}_\d{6}_", folder.name)
        (folder / "file").write_text("x")
    assert not folder.exists()
    compat.set_current_test_name("test_conv")
    with compat.temporary_dsp_workspace("other", cleanup=False) as folder:
        assert folder.name.startswith("dsp_test_conv_")
    assert folder.is_dir()
    monkeypatch.setenv("DSP_KEEP_TEMP", "1")
    with pytest.raises(ZeroDivisionError), compat.temporary_dsp_workspace("other") as folder:
        _ = 1 / 0
    assert folder.is_dir()
    monkeypatch.delenv("DSP_KEEP_TEMP")
    with pytest.raises(ZeroDivisionError), compat.temporary_dsp_workspace("other") as folder:
        _ = 1 / 0
    assert not folder.exists()


# --------------------------------------------------------------------------------------------------------- tensor files


def test_tensor_files(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3).T, np.array(7), np.array([True, False])]
    compat.write_tensors_to_file(arrays, path)
    back = compat.read_tensors_from_file(str(path))
    assert [a.dtype.name for a in back] == ["float32", "int64", "uint8"]
    for given_array, read in zip(arrays, back, strict=True):
        assert np.array_equal(given_array, read)
    compat.write_tensors_to_file(np.zeros((2, 2), np.int8), path)
    assert [a.shape for a in compat.read_tensors_from_file(path)] == [(2, 2)]


def test_tensors_of_other_libraries(tmp_path: Path) -> None:
    class Foreign:
        def detach(self) -> Foreign:
            return self

        def cpu(self) -> Foreign:
            return self

        def numpy(self) -> np.ndarray[Any, Any]:
            return np.ones(3, np.float32)

    compat.write_tensors_to_file((Foreign(),), tmp_path / "t.bin")
    assert compat.read_tensors_from_file(tmp_path / "t.bin")[0].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"\0" + data[1:],
        lambda data: data[:4] + struct.pack("<I", 2) + data[8:],
        lambda data: data[:-1],
        lambda data: data[:24] + struct.pack("<i", 9) + data[28:],
        lambda data: b"",
    ],
    ids=["magic", "version", "short", "dtype", "empty"],
)
def test_damaged_tensor_files(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "t.bin"
    compat.write_tensors_to_file(np.ones(3, np.float32), path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"t\.bin"):
        compat.read_tensors_from_file(path)


def test_tensor_file_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="complex64"):
        compat.write_tensors_to_file([np.zeros(2, np.complex64)], tmp_path / "t.bin")
    with pytest.raises(FileNotFoundError, match=r"none\.bin"):
        compat.read_tensors_from_file(tmp_path / "none.bin")


# ------------------------------------------------------------------------------------------------------ build and run


def _fake_executable(folder: Path, script: str) -> Path:
    path = folder / "cg_dsp"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_run_one_and_several_outputs(tmp_path: Path) -> None:
    executable = _fake_executable(tmp_path, "cp input.bin output.bin; echo Done")
    one, two = np.arange(3, dtype=np.float32), np.arange(2)
    compat.write_tensors_to_file([one], tmp_path / "input.bin")
    result = compat.run_dsp_host(executable)
    assert isinstance(result, np.ndarray)
    assert np.array_equal(result, one)
    other = tmp_path / "other"
    other.mkdir()
    compat.write_tensors_to_file([one, two], other / "input.bin")
    several = compat.run_dsp_host(str(executable), str(other))
    assert isinstance(several, list)
    assert np.array_equal(several[1], two)


def test_run_works_from_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_executable(tmp_path, "cp input.bin output.bin")
    compat.write_tensors_to_file(np.ones(2, np.float32), tmp_path / "input.bin")
    monkeypatch.chdir(tmp_path.parent)
    assert compat.run_dsp_host(f"{tmp_path.name}/cg_dsp").shape == (2,)  # type: ignore[union-attr]


def test_run_failures(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="cannot be started"):
        compat.run_dsp_host(tmp_path / "cg_dsp")
    executable = _fake_executable(tmp_path, "echo input.bin: truncated >&2; exit 1")
    with pytest.raises(RuntimeError, match=r"code 1\ninput\.bin: truncated"):
        compat.run_dsp_host(executable)
    executable = _fake_executable(tmp_path, "kill -SEGV $$")
    with pytest.raises(RuntimeError, match="SIGSEGV"):
        compat.run_dsp_host(executable)


def test_run_never_returns_the_result_of_an_earlier_run(tmp_path: Path) -> None:
    compat.write_tensors_to_file(np.ones(2, np.float32), tmp_path / "output.bin")
    with pytest.raises(FileNotFoundError, match=r"output\.bin"):
        compat.run_dsp_host(_fake_executable(tmp_path, "exit 0"))


def test_out_of_memory(tmp_path: Path) -> None:
    script = "echo 'Inference failed: Out of memory (requested 12.5 MB, 3.0 MB free of 352.0 MB)'; exit 1"
    with pytest.raises(compat.DSPOutOfMemoryError) as caught:
        compat.run_dsp_host(_fake_executable(tmp_path, script))
    error = caught.value
    assert isinstance(error, RuntimeError)
    assert (error.phase, error.requested, error.free, error.total) == ("run", 12_500_000, 3_000_000, 352_000_000)
    assert "requested 12.5 MB, 3.0 MB free of 352.0 MB" in str(error)


def test_build_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"lib\*\.c"):
        compat.build_dsp_c7x_host(tmp_path)
    (tmp_path / "lib0.c").touch()
    tidl: dict[str, Any]
    for tidl in ({"use_tidl": True}, {"tidl_bridge": "x"}, {"tidl_artifacts_dir": "x"}):
        with pytest.raises(UnsupportedError, match="TIDL"):
            compat.build_dsp_c7x_host(tmp_path, **tidl)


def test_compiler_failures_are_runtime_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lib0.c", "devc.c"):
        (tmp_path / name).touch()
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(RuntimeError, match="no-such-compiler"):
        compat.build_dsp_c7x_host(tmp_path)


def test_what_needs_the_c66x_is_refused(tmp_path: Path) -> None:
    calls: list[tuple[Any, tuple[Any, ...], str]] = [
        (compat.build_dsp_c66x, (tmp_path,), "c66x"),
    ]
    for function, arguments, mode in calls:
        with pytest.raises(UnsupportedError, match=f"{function.__name__} is not supported.*{mode}") as caught:
            function(*arguments)
        assert caught.value.cause
        assert "c7x_host" in (caught.value.hint or "")


def test_defaults_of_the_harness_name_the_c66x_and_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="-mcpu=c66x"):
        compat.compile_for_dsp(None)
    with pytest.raises(UnsupportedError, match="mode c66x_host"):
        compat.compile_and_run_dsp(None, np.ones(1), "c_static -mcpu=c7x")


# ------------------------------------------------------------------------------------------------------------ compare


def test_compare() -> None:
    reference = np.array([1.0, np.nan, np.inf, 0.0], np.float32)
    results = {"c7x_host_result": reference.copy(), "c7x_host_stdout": "Done", "c66x_error": None}
    comparison = compat.compare_results(results, reference, "same")
    assert comparison == {"name": "same", "c7x_host_vs_ref_max_diff": 0.0, "c7x_host_vs_ref_passed": True}
    compat.assert_dsp_comparison(comparison)
    results["c7x_host_result"] = reference + np.float32(0.5)
    comparison = compat.compare_results(results, reference, "off by a half")
    assert comparison["c7x_host_vs_ref_max_diff"] == 0.5
    with pytest.raises(AssertionError, match=r"off by a half: c7x_host differs .* 0\.5"):
        compat.assert_dsp_comparison(comparison)
    assert compat.compare_results(results, reference, "loose", atol=0.5)["c7x_host_vs_ref_passed"]


def test_compare_of_what_cannot_be_equal() -> None:
    def outcome(found: Any, wanted: Any) -> tuple[float, bool]:
        comparison = compat.compare_results({"m_result": found}, wanted, "n", atol=10.0)
        return comparison["m_vs_ref_max_diff"], comparison["m_vs_ref_passed"]

    one = np.ones(2, np.float32)
    assert outcome(one, np.ones((2, 1), np.float32)) == (np.inf, False)
    assert outcome([one, one], one) == (np.inf, False)
    assert outcome([one], one) == (0.0, True)
    assert outcome(one * np.nan, one) == (np.inf, False)
    assert outcome(one * np.inf, -one * np.inf) == (np.inf, False)
    assert outcome(np.array([2**31 - 1]), np.array([-(2**31)])) == (2.0**32 - 1, False)
    assert outcome(np.zeros(0), np.zeros(0)) == (0.0, True)


def test_nothing_compared_is_a_failure() -> None:
    comparison = compat.compare_results({"c7x_host_result": None}, np.ones(1), "empty")
    with pytest.raises(AssertionError, match="empty: no result"):
        compat.assert_dsp_comparison(comparison)


@given(st.integers(0, 1000), st.integers(1, 64))
def test_bulk_tail_split(n: int, width: int) -> None:
    split = compat.bulk_tail_split(n, width)
    assert split % width == 0
    assert 0 <= n - split < width
    assert compat.bulk_tail_split(19) == 16


def test_round_bulk_tail() -> None:
    values = np.full((2, 5), 2.5, np.float32)
    result = compat.round_bulk_tail(values, 8, lambda tail: np.floor(tail + 0.5))
    assert result.dtype == np.float32
    assert result.tolist() == [[2.0] * 5, [2.0, 2.0, 2.0, 3.0, 3.0]]
    assert compat.round_bulk_tail(values[:1], 8, np.ceil).tolist() == [[3.0] * 5]
