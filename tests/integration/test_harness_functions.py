"""The functions of ``c7x.compat`` as a script of the public fork's harness calls them, from Relax module to numbers."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

import c7x

pytestmark = pytest.mark.skipif(not any(map(shutil.which, ("gcc", "clang", "cc"))), reason="needs a C compiler")

TARGET = c7x.get_target_string("c7x_host")
RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((4, 3)).astype(np.float32)


def _module(*, outputs: int = 1) -> Any:
    """relu(x @ W.T + 1), and x + x as the second output."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            product = builder.emit(relax.op.linear_algebra.linear(x, relax.const(WEIGHT, "float32")))
            shifted = builder.emit(relax.op.add(product, relax.const(np.float32(1), "float32")))
            results = [builder.emit(relax.op.nn.relu(shifted)), builder.emit(relax.op.add(x, x))][:outputs]
            value = builder.emit_output(results[0] if outputs == 1 else relax.Tuple(results))
        builder.emit_func_output(value)
    return builder.get()


INPUT = RNG.standard_normal((2, 3)).astype(np.float32)
EXPECTED = np.maximum(INPUT @ WEIGHT.T + 1, 0)


def test_step_by_step(tmp_path: Path) -> None:
    generated = c7x.compile_for_dsp(_module(), TARGET, tmp_path / "generated")
    assert {"lib0.c", "devc.c", "weights.bin", "model_library.tar"} <= {p.name for p in generated.iterdir()}
    executable = c7x.build_dsp_c7x_host(generated, tmp_path, "Release", tmp_path / "build")
    assert executable == tmp_path / "build" / "cg_dsp"
    c7x.write_tensors_to_file([INPUT], tmp_path / "build" / "input.bin")
    output = c7x.run_dsp_host(executable)
    np.testing.assert_allclose(output, EXPECTED, rtol=1e-5, atol=1e-6)


def test_archive_is_reproducible_and_holds_what_is_unpacked(tmp_path: Path) -> None:
    one = c7x.compile_for_dsp(_module(), TARGET, tmp_path / "one")
    other = c7x.compile_for_dsp(_module(), TARGET, tmp_path / "somewhere" / "else")
    assert (one / "model_library.tar").read_bytes() == (other / "model_library.tar").read_bytes()
    with tarfile.open(one / "model_library.tar") as tar:
        for member in tar:
            assert member.mtime == 0
            content = tar.extractfile(member)
            assert content is not None
            assert content.read() == (one / member.name).read_bytes()


def test_in_one_call_with_a_comparison() -> None:
    results = c7x.compile_and_run_dsp(_module(), INPUT, TARGET, execution_mode="c7x_host")
    assert set(results) == {"c7x_host_result", "c7x_host_stdout", "generated_dir", "c7x_dload_cycles", "c66x_error"}
    assert results["c7x_host_stdout"].splitlines()[-1] == "Done"
    assert (results["generated_dir"] / "cg_dsp").is_file()
    comparison = c7x.compare_results(results, EXPECTED, "linear")
    assert comparison["c7x_host_vs_ref_passed"] is True
    c7x.assert_dsp_comparison(comparison)
    with pytest.raises(AssertionError, match="wrong: c7x_host differs"):
        c7x.assert_dsp_comparison(c7x.compare_results(results, EXPECTED + 1, "wrong"))


def test_several_outputs_and_a_debug_build() -> None:
    results = c7x.compile_and_run_dsp(
        _module(outputs=2), (INPUT,), TARGET, "c7x_host", build_type="Debug", multi_output=True
    )
    first, second = results["c7x_host_result"]
    np.testing.assert_allclose(first, EXPECTED, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(second, INPUT + INPUT)


def test_multi_output_gives_a_list_for_one_output() -> None:
    results = c7x.compile_and_run_dsp(_module(), INPUT, TARGET, "c7x_host", multi_output=True)
    assert [output.shape for output in results["c7x_host_result"]] == [(2, 4)]


def test_profile_of_layers_is_in_the_output() -> None:
    plain = c7x.compile_and_run_dsp(_module(), INPUT, TARGET, "c7x_host")
    profiled = c7x.compile_and_run_dsp(_module(), INPUT, TARGET, "c7x_host", profile_layers=True)
    assert "TVMPrintLayerProfile" not in (plain["generated_dir"] / "lib0.c").read_text()
    assert "TVMPrintLayerProfile" in (profiled["generated_dir"] / "lib0.c").read_text()
    assert len(profiled["c7x_host_stdout"]) > len(plain["c7x_host_stdout"])


def test_wrong_input_is_a_runtime_error() -> None:
    with pytest.raises(RuntimeError, match=r"ended with code 1[\s\S]*shape"):
        c7x.compile_and_run_dsp(_module(), INPUT[:1], TARGET, "c7x_host")


def test_time_limit(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="did not end within"):
        c7x.compile_and_run_dsp(_module(), INPUT, TARGET, "c7x_host", timeout_ms=0)


def test_a_defect_in_generated_code_is_a_runtime_error(tmp_path: Path) -> None:
    generated = c7x.compile_for_dsp(_module(), TARGET, tmp_path)
    with (generated / "lib0.c").open("a") as file:
        file.write("\nthis is not C;\n")
    with pytest.raises(RuntimeError, match=r"compile lib0\.c"):
        c7x.build_dsp_host(generated)


def test_own_pipeline_is_used(tmp_path: Path) -> None:
    seen = []

    def pipeline(target: Any) -> Any:
        from c7x.graph.pipeline import get_default_pipeline

        seen.append(target)
        return get_default_pipeline(target)

    c7x.compile_for_dsp(_module(), TARGET, tmp_path, relax_pipeline=pipeline)
    assert [str(target) for target in seen] == [TARGET]


def test_board_of_the_session_reaches_the_target(tmp_path: Path) -> None:
    c7x.set_current_board("beagley-ai")
    try:
        generated = c7x.compile_for_dsp(_module(), TARGET, tmp_path)
    finally:
        c7x.set_current_board(None)
    assert "-tidl-kernels=0" in (generated / "devc.c").read_text()
