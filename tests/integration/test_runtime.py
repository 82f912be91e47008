"""cg_dsp, its files and its lines of text, and c7x.run above it; on models written by hand."""

from __future__ import annotations

import json
import re
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from c7x.errors import CrashError, FormatError, RunError, UsageError, WorkspaceError
from c7x.run.host import run_host
from c7x.run.stage import run_stage
from c7x.tensorfile import read_tensors, write_tensors
from c7x.toolchain.gnu import BuildOptions
from c7x.toolchain.stage import build_stage
from c7x.workspace import Workspace
from tests.integration.handwritten import B, W, make_workspace

X = np.array([[1.0, 2.0, np.nan, -4.0]], np.float32)
Y = X * np.array(W, np.float32) + np.array(B, np.float32)
A = np.arange(6, dtype=np.float32).reshape(2, 3)
FLAG = np.array([True, False, True])
K = np.array(41, np.int64)

(FINE, REFUSE, OUT_OF_MEMORY, ABORT, SEGFAULT, NO_RESULT, UNSTABLE, HANG, WRONG_SHAPE, OTHER_CODE, USE_PLATFORM) = (
    range(11)
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one built directory for each model; tests copy what they change."""
    root = tmp_path_factory.mktemp("built")
    for name in ("affine", "several", "faults"):
        build_stage(make_workspace(name, root / name), options=BuildOptions())
    return root


def clone(built: Path, name: str, tmp_path: Path) -> Workspace:
    """A private copy of a built directory."""
    folder = tmp_path / name
    folder.mkdir()
    for path in (built / name).iterdir():
        target = folder / path.name
        target.write_bytes(path.read_bytes())
        target.chmod(path.stat().st_mode)
    return Workspace(folder)


def call(ws: Workspace, *arguments: str) -> subprocess.CompletedProcess[str]:
    """cg_dsp itself, in the build directory."""
    return subprocess.run(
        ["./cg_dsp", *arguments], cwd=ws.root, capture_output=True, text=True, timeout=60, check=False
    )


def refused(ws: Workspace, *arguments: str) -> str:
    """The one message of a run that must fail; nothing may be left under the output's name."""
    done = call(ws, *arguments)
    assert done.returncode == 1, done
    assert done.stderr.count("cg_dsp: error: ") == 1
    assert re.search(r"\n  cause: .+\n  hint: .+\n$", done.stderr), done.stderr
    assert "Done" not in done.stdout
    assert not ws.has("output.bin")
    assert not list(ws.root.glob("*.tmp"))
    return done.stderr


# ---- cg_dsp --------------------------------------------------------------------------------------------------------


def test_lines_in_order(built: Path, tmp_path: Path) -> None:
    ws = clone(built, "several", tmp_path)
    write_tensors(ws.path("input.bin"), [A, FLAG, K])
    done = call(ws)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = [line for line in done.stdout.splitlines() if not line.startswith("Host ")]
    expected = [
        r"Loaded 0 constants",
        r"Input\[0\]: shape=\[2, 3\], dtype=2\.32",
        r"Input\[1\]: shape=\[3\], dtype=1\.8",
        r"Input\[2\]: shape=\[\], dtype=0\.64",
        r"Cycles: \d+",
        r"Num outputs: 3",
        r"Output\[0\]: shape=\[2, 3\], dtype=2\.32",
        r"Output\[1\]: shape=\[3\], dtype=1\.8",
        r"Output\[2\]: shape=\[\], dtype=0\.64",
        r"Memory: L2 peak=0, L3 peak=35",
        r"Done",
    ]
    assert len(lines) == len(expected)
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(pattern, line)
    doubled, inverted, following = read_tensors(ws.path("output.bin"))
    np.testing.assert_array_equal(doubled, A * 2)
    assert inverted.tolist() == [0, 1, 0]
    assert following == 42


def test_weights_and_options(built: Path, tmp_path: Path) -> None:
    ws = clone(built, "affine", tmp_path)
    write_tensors(tmp_path / "in.bin", [X])
    ws.path("weights.bin").rename(tmp_path / "w.bin")
    done = call(ws, f"--input={tmp_path / 'in.bin'}", "--weights", str(tmp_path / "w.bin"), "--output", "../out.bin",
                "--repeat", "5", "--warmup=2", "--time")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Loaded 3 constants" in done.stdout
    np.testing.assert_array_equal(read_tensors(tmp_path / "out.bin")[0], Y)
    assert len(re.findall(r"^Host time\[\d\]: \d+\.\d{9} s$", done.stdout, re.MULTILINE)) == 5
    figures = [float(re.search(rf"^Host time {k}: ([\d.]+) s$", done.stdout, re.MULTILINE)[1])  # type: ignore[index]
               for k in ("min", "median", "mean")]  # fmt: skip
    assert figures[0] <= figures[1]
    assert figures[0] <= figures[2]
    assert not ws.has("output.bin")


def test_bytes_other_than_0_and_1_become_true(built: Path, tmp_path: Path) -> None:
    ws = clone(built, "several", tmp_path)
    write_tensors(ws.path("input.bin"), [A, np.array([0, 1, 7], np.uint8), K])
    assert call(ws).returncode == 0
    assert read_tensors(ws.path("output.bin"))[1].tolist() == [1, 0, 0]


def test_layer_profile_is_printed_once(built: Path, tmp_path: Path) -> None:
    ws = clone(built, "faults", tmp_path)
    write_tensors(ws.path("input.bin"), [np.array(FINE, np.int32)])
    assert call(ws, "--repeat", "3").stdout.count("===== TVM Layer Profile =====\nruns: 3\n") == 1


def test_platform_functions(built: Path, tmp_path: Path) -> None:
    ws = clone(built, "faults", tmp_path)
    write_tensors(ws.path("input.bin"), [np.array(USE_PLATFORM, np.int32)])
    done = call(ws, "--repeat", "100")
    assert done.returncode == 0, done.stderr
    peaks = re.search(r"L2 peak=(\d+), L3 peak=(\d+)", done.stdout)
    assert peaks is not None
    # One block of 1000 and one of 5000 bytes with headers, however often they are taken; 4 bytes of output.
    assert 1024 < int(peaks[1]) <= 1024 + 256
    assert 5004 < int(peaks[2]) <= 5000 + 4 + 384


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (REFUSE, "returned -1"),
        (OUT_OF_MEMORY, "out of memory"),
        (NO_RESULT, "type 0"),
        (WRONG_SHAPE, "has shape [1] and dtype int32, the model promises [] and int32"),
        (OTHER_CODE, "returned -77"),
    ],
)
def test_model_that_fails(built: Path, tmp_path: Path, fault: int, words: str) -> None:
    ws = clone(built, "faults", tmp_path)
    write_tensors(ws.path("input.bin"), [np.array(fault, np.int32)])
    assert words in refused(ws)


def test_out_of_memory_tells_the_figures(built: Path, tmp_path: Path) -> None:
    ws = clone(built, "faults", tmp_path)
    write_tensors(ws.path("input.bin"), [np.array(OUT_OF_MEMORY, np.int32)])
    assert "main pool is full (requested 1073.7 MB, 369.1 MB free of 369.1 MB)" in refused(ws)


def test_other_bits_in_a_later_run(built: Path, tmp_path: Path) -> None:
    ws = clone(built, "faults", tmp_path)
    write_tensors(ws.path("input.bin"), [np.array(UNSTABLE, np.int32)])
    assert "run 2 gave other output bits" in refused(ws, "--repeat", "3")
    assert "run 2 gave other output bits" in refused(ws, "--warmup", "1")
    assert call(ws).returncode == 0


def test_bad_input_files(built: Path, tmp_path: Path) -> None:
    ws = clone(built, "several", tmp_path)
    path = ws.path("input.bin")
    assert "cannot open input.bin" in refused(ws)
    path.mkdir()
    assert "not a regular file" in refused(ws)
    path.rmdir()
    path.write_bytes(b"")
    assert "magic" in refused(ws)
    write_tensors(path, [A, FLAG, K])
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        assert "input.bin is not a valid tensor file" in refused(ws)
    path.write_bytes(whole + b"\0")
    assert "bytes follow" in refused(ws)
    write_tensors(path, [A, FLAG])
    assert "holds 2 tensors, the model takes 3" in refused(ws)
    write_tensors(path, [A] * 129)
    assert "too many tensors" in refused(ws)
    write_tensors(path, [A.astype(np.float64), FLAG, K])
    assert "input 0 (a) has dtype float64 in input.bin, the model takes float32" in refused(ws)
    write_tensors(path, [A.T, FLAG, K])
    assert "input 0 (a) has shape [3, 2] in input.bin, the model takes [2, 3]" in refused(ws)
    write_tensors(path, [A, FLAG, K.reshape(1)])
    assert "input 2 (k) has shape [1] in input.bin, the model takes []" in refused(ws)


def test_bad_weights_files(built: Path, tmp_path: Path) -> None:
    ws = clone(built, "affine", tmp_path)
    write_tensors(ws.path("input.bin"), [X])
    path = ws.path("weights.bin")
    whole = path.read_bytes()
    for size in (0, 7, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert f"weights.bin has {size} bytes, the model needs {len(whole)}" in refused(ws)
    path.write_bytes(whole[:8] + struct.pack("<i", 72) + whole[12:])
    assert "damaged at constant 0, byte 8 (code -6)" in refused(ws)
    path.write_bytes(whole[:32] + bytes(8) + whole[40:])
    assert "tensor magic" in refused(ws)
    path.write_bytes(struct.pack("<Q", 2) + whole[8:])
    assert "holds 2 constants, the model reads 3" in refused(ws)
    path.unlink()
    assert "cannot open weights.bin" in refused(ws)


def test_a_model_without_weights_needs_no_file(built: Path, tmp_path: Path) -> None:
    ws = clone(built, "several", tmp_path)
    ws.path("weights.bin").unlink()
    write_tensors(ws.path("input.bin"), [A, FLAG, K])
    assert call(ws).returncode == 0
    ws.path("output.bin").unlink()
    ws.path("weights.bin").write_bytes(b"12345678")
    assert "has 8 bytes, the model needs 0" in refused(ws)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--fast"], "unknown argument '--fast'"),
        (["x.bin"], "unknown argument 'x.bin'"),
        (["--inputs", "x"], "unknown argument '--inputs'"),
        (["--input"], "--input needs a value"),
        (["--repeat="], "--repeat needs a value"),
        (["--repeat", "0"], "--repeat takes a number from 1"),
        (["--repeat", "2x"], "not '2x'"),
        (["--repeat", "99999999999999999999"], "not '99999999999999999999'"),
        (["--warmup", "-1"], "--warmup takes a number from 0"),
    ],
)
def test_bad_arguments(built: Path, tmp_path: Path, arguments: list[str], words: str) -> None:
    assert words in refused(clone(built, "affine", tmp_path), *arguments)


def test_help(built: Path) -> None:
    done = call(Workspace(built / "affine"), "--help")
    assert done.returncode == 0
    assert "--repeat" in done.stdout
    assert "say nothing about the DSP" in done.stdout


def test_output_that_cannot_be_written(built: Path, tmp_path: Path) -> None:
    ws = clone(built, "affine", tmp_path)
    write_tensors(ws.path("input.bin"), [X])
    assert "cannot write gone/output.bin" in refused(ws, "--output", "gone/output.bin")
    ws.path("folder").mkdir()
    assert "cannot write folder" in refused(ws, "--output", "folder")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            ["./cg_dsp"], cwd=ws.root, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.returncode == 1
    assert "standard output" in done.stderr


def test_memory_stays_small_and_constant(built: Path) -> None:
    few = run_host(built / "affine", [X])
    many = run_host(built / "affine", [X], repeat=20000)
    assert few.peak_rss is not None
    assert many.peak_rss is not None
    assert few.peak_rss < 8 << 20
    # The times of the runs take 8 bytes each.
    assert many.peak_rss - few.peak_rss < 20000 * 8 + (512 << 10)


# ---- run_host ------------------------------------------------------------------------------------------------------


def test_run_host_result(built: Path) -> None:
    result = run_host(built / "several", [A, FLAG, K], repeat=4, warmup=1)
    doubled, inverted, following = result.outputs
    np.testing.assert_array_equal(doubled, A * 2)
    assert inverted.dtype == np.bool_
    assert inverted.tolist() == [False, True, False]
    assert following.shape == ()
    assert following.dtype == np.int64
    assert len(result.host_seconds) == 4
    assert 0 <= result.host_seconds_min <= result.host_seconds_median < 1
    assert result.cycles >= 0
    assert (result.l2_peak, result.l3_peak) == (0, 35)
    assert result.stdout.endswith("Done\n")
    assert not (built / "several" / "input.bin").exists()


def test_inputs_of_any_memory_layout(built: Path) -> None:
    for a in (np.asfortranarray(A), np.repeat(A, 2, axis=1)[:, ::2], A.astype(">f4")):
        np.testing.assert_array_equal(run_host(built / "several", [a, FLAG.view(np.uint8), K]).outputs[0], A * 2)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ([A, FLAG], ["takes 3 inputs", "a float32[2, 3], flag bool[3], k int64[]", "2 given"]),
        ([A.astype(np.float64), FLAG, K], ["input 'a'", "float64", "takes float32", "np.float32"]),
        ([A, FLAG.astype(np.int32), K], ["input 'flag'", "int32", "takes bool", "np.bool_"]),
        ([A, FLAG, K.reshape(1)], ["input 'k'", "[1]", "takes []"]),
        ([A[0], FLAG, K], ["input 'a'", "[3]", "takes [2, 3]", "1 dimensions instead of 2"]),
    ],
)
def test_inputs_that_do_not_fit(built: Path, inputs: list[np.ndarray], words: list[str]) -> None:
    with pytest.raises(RunError) as caught:
        run_host(built / "several", inputs)
    for word in words:
        assert word in str(caught.value)


def test_missing_batch_dimension_is_named(built: Path) -> None:
    with pytest.raises(RunError, match="batch dimension is missing"):
        run_host(built / "affine", [X[0]])


@pytest.mark.parametrize(("fault", "name"), [(ABORT, "SIGABRT"), (SEGFAULT, "SIGSEGV")])
def test_a_crash_names_the_signal(built: Path, fault: int, name: str) -> None:
    with pytest.raises(CrashError, match=name) as caught:
        run_host(built / "faults", [np.array(fault, np.int32)])
    assert "asan" in (caught.value.hint or "")


def test_an_error_of_cg_dsp_is_a_run_error(built: Path) -> None:
    with pytest.raises(RunError, match=r"code 1[\s\S]*returned -77"):
        run_host(built / "faults", [np.array(OTHER_CODE, np.int32)])
    with pytest.raises(RunError, match="other output bits"):
        run_host(built / "faults", [np.array(UNSTABLE, np.int32)], repeat=2)


def test_timeout(built: Path) -> None:
    with pytest.raises(RunError, match="within 1 s"):
        run_host(built / "faults", [np.array(HANG, np.int32)], timeout=1)


def test_damaged_build_directories(built: Path, tmp_path: Path) -> None:
    ws = clone(built, "affine", tmp_path)
    with pytest.raises(UsageError):
        run_host(ws, [X], repeat=0)
    ws.path("io.json").write_text('{"inputs": [{"name": "x"}], "outputs": []}')
    with pytest.raises(WorkspaceError, match=r"io\.json"):
        run_host(ws, [X])
    content = {"inputs": [{"name": "x", "dtype": "float32", "shape": [1, 4]}],
               "outputs": [{"name": "y", "dtype": "float32", "shape": [4]}]}  # fmt: skip
    ws.path("io.json").write_text(json.dumps(content))
    with pytest.raises(RunError, match=r"float32\[1, 4\].*float32\[4\]"):
        run_host(ws, [X])
    ws.path("cg_dsp").write_bytes(b"\x7fELF of another machine")
    with pytest.raises(RunError, match="cannot be started") as caught:
        run_host(ws, [X])
    assert "c7x build" in (caught.value.hint or "")
    ws.path("cg_dsp").unlink()
    with pytest.raises(WorkspaceError, match="c7x build"):
        run_host(ws, [X])


# ---- run_stage -----------------------------------------------------------------------------------------------------


def test_run_stage_with_example_inputs(built: Path, tmp_path: Path) -> None:
    ws = clone(built, "several", tmp_path)
    ws.path("inputs").mkdir()
    for index, value in enumerate([A, FLAG, K]):
        np.save(ws.path(f"inputs/input_{index}.npy"), value)
    result = run_stage(ws, output=tmp_path / "y.npz")
    assert [o["name"] for o in result["outputs"]] == ["doubled", "inverted", "next"]
    json.dumps(result)
    with np.load(tmp_path / "y.npz") as saved:
        assert list(saved) == ["doubled", "inverted", "next"]
        np.testing.assert_array_equal(saved["doubled"], A * 2)
        assert saved["inverted"].dtype == np.bool_
        assert saved["next"].shape == ()
    assert [t.shape for t in read_tensors(ws.path("input.bin"))] == [(2, 3), (3,), ()]
    assert read_tensors(ws.path("output.bin"))[2] == 42
    record = ws.manifest["stages"][-1]
    assert record["name"] == "run"
    assert set(record["outputs"]) == {"input.bin", "output.bin"}
    first = (tmp_path / "y.npz").read_bytes()
    run_stage(ws, output=tmp_path / "y.npz")
    assert (tmp_path / "y.npz").read_bytes() == first


def test_kinds_of_input_files(built: Path, tmp_path: Path) -> None:
    ws = clone(built, "several", tmp_path)
    np.savez(tmp_path / "named.npz", k=K, a=A, flag=FLAG, unused=A)
    np.savez(tmp_path / "positional.npz", A, FLAG, K)
    write_tensors(tmp_path / "x.bin", [A, FLAG, K])
    parts = []
    for name, value in (("a", A), ("flag", FLAG), ("k", K)):
        np.save(tmp_path / f"{name}.npy", value)
        parts.append(tmp_path / f"{name}.npy")
    for paths in ([tmp_path / "named.npz"], [tmp_path / "positional.npz"], [tmp_path / "x.bin"], parts):
        run_stage(ws, inputs=paths, output=tmp_path / "y.bin")
        assert read_tensors(tmp_path / "y.bin")[2] == 42


def test_single_output_as_npy(built: Path, tmp_path: Path) -> None:
    ws = clone(built, "affine", tmp_path)
    np.save(tmp_path / "x.npy", X)
    run_stage(ws, inputs=[tmp_path / "x.npy"], output=tmp_path / "y.npy", repeat=3)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), Y)


def test_files_that_are_refused(built: Path, tmp_path: Path) -> None:
    ws = clone(built, "several", tmp_path)
    missing = tmp_path / "gone.npy"
    (tmp_path / "text.npy").write_text("hello")
    (tmp_path / "empty.npz").touch()
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04 and no more")
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "other.npz", a=A, flags=FLAG, k=K)
    np.savez(tmp_path / "archive.npz", a=A)
    (tmp_path / "archive.npz").rename(tmp_path / "archive.npy")
    np.save(tmp_path / "single.npy", A)
    (tmp_path / "single.npz").write_bytes((tmp_path / "single.npy").read_bytes())
    (tmp_path / "x.bin").write_bytes(b"1234")
    cases: list[tuple[list[Path], type[Exception], str]] = [
        ([missing], RunError, "no input file"),
        ([tmp_path / "x.txt"], UsageError, "neither"),
        ([tmp_path / "text.npy"], FormatError, "begins with b'hello'"),
        ([tmp_path / "empty.npz"], FormatError, "it is empty"),
        ([tmp_path / "cut.npz"], FormatError, "cut.npz"),
        ([tmp_path / "objects.npy"], FormatError, "objects.npy"),
        ([tmp_path / "archive.npy"], FormatError, "archive"),
        ([tmp_path / "single.npz"], FormatError, "single"),
        ([tmp_path / "other.npz"], RunError, "no array flag"),
        ([tmp_path / "x.bin"], FormatError, "not a tensor file"),
        ([tmp_path / "single.npy"], RunError, "takes 3 inputs"),
        ([tmp_path / "single.npy", tmp_path / "other.npz"], UsageError, "several"),
        ([], WorkspaceError, "inputs/input_0.npy"),
    ]
    for paths, error, words in cases:
        with pytest.raises(error) as caught:
            run_stage(ws, inputs=paths, output=tmp_path / "y.npz")
        assert words in str(caught.value)
    assert not ws.has("output.bin")
    assert not (tmp_path / "y.npz").exists()


def test_outputs_that_are_refused(built: Path, tmp_path: Path) -> None:
    ws = clone(built, "several", tmp_path)
    write_tensors(tmp_path / "x.bin", [A, FLAG, K])
    for name, error, words in (
        ("y.npy", UsageError, "3 outputs"),
        ("y.txt", UsageError, "neither"),
        ("gone/y.npz", RunError, "cannot write"),
    ):
        with pytest.raises(error) as caught:
            run_stage(ws, inputs=[tmp_path / "x.bin"], output=tmp_path / name)
        assert words in str(caught.value)
    assert not list(tmp_path.glob(".*.tmp"))
