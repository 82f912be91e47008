"""Every generated kernel against float64, compiled as C99 and C++14, with guards around all memory."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from c7x.codegen.kernels import KernelOptions
from tests.integration.kernel_harness import (
    C_FLAGS,
    CXX_FLAGS,
    Case,
    argmax_case,
    batch_case,
    call,
    check,
    compile_kernels,
    conv_case,
    floats,
    matmul_case,
    norm_case,
    reference_conv,
    softmax_case,
    source_text,
    topk_case,
)

NAN, INF = np.float32("nan"), np.float32("inf")


def conv_grid() -> list[Case]:
    """Channels around every lane and block boundary; strides, dilations, paddings, groups, epilogues in turn."""
    rng = np.random.default_rng(1)
    cases = []
    for i, o in enumerate([1, 3, 7, 8, 9, 10, 15, 16, 17, 24, 25, 32, 40, 41, 56, 70]):
        cases.append(
            conv_case(
                rng, n=1 + i % 3, h=5 + i % 4, w=6 + i % 5, c=[3, 1, 8, 10, 16, 70][i % 6], o=o,
                k=[(3, 3), (1, 1), (2, 3), (5, 1)][i % 4], strides=[(1, 1), (2, 2), (1, 2), (3, 1)][i % 4],
                padding=[(1, 1, 1, 1), (0, 0, 0, 0), (0, 1, 2, 0), (2, 3, 0, 1)][(i // 2) % 4],
                bias=i % 2 == 0, residual=i % 3 == 0, activation=[None, "relu", "relu6"][i % 3],
            )
        )  # fmt: skip
    for dilation in [(2, 2), (1, 3), (3, 1)]:
        for strides in [(1, 1), (2, 3)]:
            cases.append(
                conv_case(rng, h=11, w=12, c=5, o=18, strides=strides, dilation=dilation, padding=(2, 1, 1, 3))
            )
    for groups, c, o in [(2, 16, 16), (3, 9, 12), (4, 32, 4), (5, 5, 10), (8, 64, 128)]:
        for dilation in [(1, 1), (2, 1)]:
            cases.append(
                conv_case(rng, n=2, c=c, o=o, groups=groups, dilation=dilation, padding=(1, 1, 1, 1), residual=True)
            )
    # A map wider than the image, one pixel, a kernel as large as the image, one row (1-D), one column.
    cases += [
        conv_case(rng, h=2, w=2, c=3, o=5, padding=(3, 3, 3, 3)),
        conv_case(rng, h=1, w=1, c=32, o=48, k=(1, 1)),
        conv_case(rng, n=3, h=1, w=1, c=32, o=20, k=(1, 1)),
        conv_case(rng, h=6, w=7, c=4, o=100, k=(6, 7)),
        conv_case(rng, n=2, h=1, w=40, c=12, o=24, k=(1, 9), strides=(1, 2), padding=(0, 4, 0, 4)),
        conv_case(rng, n=2, h=40, w=1, c=12, o=24, k=(9, 1), strides=(2, 1), padding=(4, 0, 4, 0)),
        conv_case(rng, h=23, w=21, c=3, o=64, k=(7, 7), strides=(2, 2), padding=(3, 3, 3, 3), activation="relu"),
        conv_case(rng, h=9, w=9, c=16, o=16, k=(1, 1), strides=(2, 2)),
        # Stride and kernel leave the last rows and columns unread.
        conv_case(rng, h=10, w=11, c=4, o=8, k=(2, 2), strides=(3, 3), padding=(1, 0, 0, 0)),
    ]
    return cases


def winograd_grid() -> list[Case]:
    """3x3, stride 1, enough channels: odd and even sizes, tails, all epilogues."""
    rng = np.random.default_rng(8)
    cases = []
    for i, (h, w, c, o) in enumerate(
        [(8, 8, 32, 32), (7, 9, 32, 40), (14, 14, 64, 64), (13, 6, 37, 70), (28, 5, 48, 33), (12, 31, 64, 48)]
    ):
        cases.append(
            conv_case(
                rng, n=1 + i % 2, h=h, w=w, c=c, o=o, padding=[(1, 1, 1, 1), (0, 0, 0, 0), (1, 0, 2, 1)][i % 3],
                bias=i % 2 == 0, residual=i % 3 != 1, activation=[None, "relu", "relu6"][i % 3],
            )
        )  # fmt: skip
    return cases


def depthwise_grid() -> list[Case]:
    rng = np.random.default_rng(2)
    cases = []
    for i, c in enumerate([2, 3, 7, 8, 9, 16, 31, 32, 40, 70]):
        cases.append(
            conv_case(
                rng, n=1 + i % 3, h=6 + i, w=3 + 2 * i, c=c, o=c, groups=c, k=[(3, 3), (5, 5), (3, 1)][i % 3],
                strides=[(1, 1), (2, 2), (1, 3)][i % 3], dilation=[(1, 1), (1, 1), (2, 1)][i % 3],
                padding=[(1, 1, 1, 1), (2, 2, 2, 2), (0, 0, 1, 2)][i % 3], bias=i % 2 == 0, residual=i % 4 == 1,
                activation=[None, "relu", "relu6"][i % 3],
            )
        )  # fmt: skip
    cases.append(conv_case(rng, h=2, w=2, c=16, o=16, groups=16, padding=(2, 2, 2, 2)))
    cases.append(conv_case(rng, h=9, w=1, c=16, o=16, groups=16, k=(3, 1)))
    return cases


def matmul_grid() -> list[Case]:
    rng = np.random.default_rng(3)
    cases = []
    for i, (m, n, k) in enumerate(
        [(1, 1, 1), (1, 10, 7), (1, 64, 33), (1, 100, 128), (1, 1000, 64), (2, 5, 9), (2, 48, 16), (3, 33, 10),
         (4, 24, 8), (5, 17, 70), (6, 16, 32), (7, 40, 31), (13, 8, 5), (64, 96, 64), (65, 72, 100), (130, 7, 3)]
    ):  # fmt: skip
        cases.append(
            matmul_case(
                rng, m, n, k, transpose_b=i % 2 == 0, bias=i % 3 != 0, residual=i % 4 == 0,
                activation=[None, "relu", "relu6"][i % 3],
            )
        )  # fmt: skip
    for transpose_b in (False, True):
        for shared in (False, True):
            for b, m, n, k in [(1, 1, 1, 1), (3, 5, 7, 9), (4, 16, 16, 8), (2, 1, 40, 33), (2, 12, 70, 65)]:
                cases.append(batch_case(rng, b, m, n, k, transpose_b=transpose_b, shared=shared))
    return cases


def row_grid() -> list[Case]:
    rng = np.random.default_rng(4)
    special = floats(rng, 7, 19, 1)
    special[0, 3] = NAN
    special[1, :5] = -INF
    special[2] = -INF
    special[3, 18] = INF
    special[4] = 1e30
    special[5, 0] = -3e38
    special[6] *= np.float32(60)
    cases = []
    for log in (False, True):
        for shape in [(1, 1, 1), (3, 8, 1), (5, 10, 1), (2, 1000, 1), (1, 5003, 1), (2, 3, 4), (2, 21, 17), (3, 1, 9)]:
            cases.append(softmax_case(floats(rng, *shape) * np.float32(5), log=log))
        cases.append(softmax_case(special, log=log))
        cases.append(softmax_case(np.ascontiguousarray(special.transpose(2, 1, 0)), log=log))
    for outer, norm in [(1, 1), (3, 5), (2, 8), (4, 65), (2, 768)]:
        cases.append(norm_case(rng, outer, norm))
    cases.append(norm_case(rng, 2, 96, mean=100.0))
    return cases


GRIDS = {
    "conv": conv_grid, "winograd": winograd_grid, "depthwise": depthwise_grid, "matmul": matmul_grid, "rows": row_grid
}  # fmt: skip


def tolerance(case: Case) -> float:
    # A row far from 0 loses digits before the mean is taken away: half a unit of 100 against a spread of 1.
    return 2e-5 if case.op == "c7x.layer_norm" and abs(case.inputs[0].mean()) > 50 else 1e-6


def run_cases(cases: list[Case], folder: Path, **how: Any) -> None:
    kernels = [case.generate() for case in cases]
    library = compile_kernels(kernels, folder, **how)
    for i, (kernel, case) in enumerate(zip(kernels, cases, strict=True)):
        check(case, call(library, i, kernel, case)[0], tolerance(case))


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("command", [C_FLAGS, CXX_FLAGS], ids=["c99", "cxx14"])
def test_grid_agrees_with_float64(grid: str, command: tuple[str, ...], tmp_path: Path) -> None:
    # The C run is the portable baseline, the C++ run what the machine can do: four combinations would tell no more.
    march = "x86-64" if command is C_FLAGS and os.uname().machine == "x86_64" else "native"
    run_cases(GRIDS[grid](), tmp_path, command=command, march=march)


@pytest.mark.skipif(platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc", reason="clones need both")
@pytest.mark.parametrize("command", [C_FLAGS, CXX_FLAGS], ids=["c99", "cxx14"])
def test_clones_chosen_at_run_time_agree_too(command: tuple[str, ...], tmp_path: Path) -> None:
    cases = [*winograd_grid()[:2], *depthwise_grid()[:4], *matmul_grid()[10:14], *conv_grid()[:6]]
    run_cases(cases, tmp_path, command=command, march="x86-64", extra=("-O2", "-DC7X_CLONES"))


def order(row: np.ndarray, largest: bool) -> np.ndarray:
    """All indices of a row, first in PyTorch's order first: NaN above all numbers, ties by index."""
    nan = np.isnan(row)
    key = np.where(nan, 0, row)
    return np.lexsort((np.arange(row.size), -key if largest else key, ~nan if largest else nan))


def test_topk_orders_nan_infinities_and_ties(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    ties = rng.integers(-3, 3, (4, 37)).astype(np.float32)
    ties[1, [5, 20, 36]] = NAN
    ties[2, [0, 9]] = INF
    ties[2, [1, 8]] = -INF
    ties[3] = NAN
    wide = floats(rng, 1, 100_000)
    cases = [topk_case(x, k, largest=largest)
             for largest in (True, False)
             for x, ks in ((ties, (1, 2, 5, 36, 37)), (floats(rng, 1, 1), (1,)), (wide, (1, 5, 1000, 100_000)))
             for k in ks]  # fmt: skip
    kernels = [case.generate() for case in cases]
    library = compile_kernels(kernels, tmp_path)
    for i, (kernel, case) in enumerate(zip(kernels, cases, strict=True)):
        values, indices = call(library, i, kernel, case)
        for row, v, x in zip(case.inputs[0], values, indices, strict=True):
            want = order(row, case.attrs["largest"])[: case.attrs["k"]]
            np.testing.assert_array_equal(x, want, err_msg=repr(case))
            np.testing.assert_array_equal(v, row[want], err_msg=repr(case))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8", "int32", "int64"])
def test_argmax_takes_the_first_of_equals_and_nan(dtype: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    inputs = [rng.integers(0, 5, shape).astype(dtype) for shape in [(3, 40, 1), (2, 21, 13), (1, 1, 1), (2, 7, 200)]]
    if dtype.startswith("float"):
        holes = inputs[1].copy()
        holes[0, [4, 9], 3] = NAN
        holes[1, 20, :] = NAN
        holes[1, 0, 5] = NAN
        inputs += [holes, np.full((1, 9, 2), -INF, dtype)]
    cases = [argmax_case(x, select_min=m) for x in inputs for m in (False, True)]
    kernels = [case.generate() for case in cases]
    library = compile_kernels(kernels, tmp_path)
    for i, (kernel, case) in enumerate(zip(kernels, cases, strict=True)):
        # numpy agrees with PyTorch: the first NaN wins, then the first of equals.
        pick = np.argmin if case.attrs["select_min"] else np.argmax
        want = pick(case.inputs[0], axis=1)
        np.testing.assert_array_equal(call(library, i, kernel, case)[0], want, err_msg=repr(case))


def test_activations_keep_nan_and_infinity(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    cases = []
    for activation, want in (("relu", [NAN, 0, INF, 0, 7]), ("relu6", [NAN, 0, 6, 0, 6])):
        for groups in (1, 5):
            case = conv_case(rng, h=1, w=4, c=5, o=5, k=(1, 1), groups=groups, bias=True, activation=activation)
            weights = np.ones((5, 5 // groups, 1, 1), np.float32)
            bias = np.array([NAN, -1, INF, -INF, 7], np.float32)
            cases.append((Case(op=case.op, attrs=case.attrs, inputs=(np.zeros_like(case.inputs[0]), weights, bias),
                               outputs=case.outputs, constants=(1, 2)), want))  # fmt: skip
    kernels = [case.generate() for case, _ in cases]
    library = compile_kernels(kernels, tmp_path)
    for i, (kernel, (case, want)) in enumerate(zip(kernels, cases, strict=True)):
        got = call(library, i, kernel, case)[0]
        np.testing.assert_array_equal(got, np.broadcast_to(np.array(want, np.float32), got.shape))


@st.composite
def conv_params(draw: st.DrawFn) -> Case:
    """Any convolution whose output is not empty."""
    groups = draw(st.sampled_from([1, 1, 1, 2, 3, 5]))
    depthwise = draw(st.booleans())
    c = draw(st.integers(1, 70)) if depthwise or groups == 1 else groups * draw(st.integers(1, 70 // groups))
    o = c if depthwise else groups * draw(st.integers(1, 70 // groups))
    k = (draw(st.integers(1, 5)), draw(st.integers(1, 8)))
    strides = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    dilation = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    if draw(st.booleans()):
        k, strides, dilation = (3, 3), (1, 1), (1, 1)
    top, left, bottom, right = (draw(st.integers(0, 4)) for _ in range(4))
    h = draw(st.integers(max(1, (k[0] - 1) * dilation[0] + 1 - top - bottom), 24))
    w = draw(st.integers(max(1, (k[1] - 1) * dilation[1] + 1 - left - right), 24))
    return conv_case(
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))), n=draw(st.integers(1, 3)), h=h, w=w, c=c, o=o, k=k,
        strides=strides, padding=(top, left, bottom, right), dilation=dilation, groups=c if depthwise else groups,
        bias=draw(st.booleans()), residual=draw(st.booleans()),
        activation=draw(st.sampled_from([None, "relu", "relu6"])),
    )  # fmt: skip


@st.composite
def other_params(draw: st.DrawFn) -> Case:
    """Any matrix product, softmax or layer norm of moderate size."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m, n, k, b = (draw(st.integers(1, high)) for high in (40, 70, 70, 3))
    flag, other, more = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    activation = draw(st.sampled_from([None, "relu", "relu6"]))
    return [
        lambda: matmul_case(rng, m, n, k, transpose_b=flag, bias=other, residual=more, activation=activation),
        lambda: batch_case(rng, b, m, n, k, transpose_b=flag, shared=other),
        lambda: softmax_case(floats(rng, b, n, m) * np.float32(10), log=flag),
        lambda: softmax_case(floats(rng, b, n, 1), log=flag),
        lambda: norm_case(rng, m, n + 1),
    ][draw(st.integers(0, 4))]()


# Several cases an example, since compiling is what takes the time; no database and no randomness between runs.
FEW = settings(
    max_examples=3, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)  # fmt: skip


@FEW
@given(cases=st.lists(conv_params(), min_size=12, max_size=20))
def test_random_convolutions(cases: list[Case], tmp_path_factory: pytest.TempPathFactory) -> None:
    run_cases(cases, tmp_path_factory.mktemp("conv"))


@FEW
@given(cases=st.lists(other_params(), min_size=15, max_size=25))
def test_random_products_and_rows(cases: list[Case], tmp_path_factory: pytest.TempPathFactory) -> None:
    run_cases(cases, tmp_path_factory.mktemp("rows"))


def test_winograd_is_used_and_as_exact_as_the_direct_sum(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    case = conv_case(rng, h=28, w=28, c=64, o=64, padding=(1, 1, 1, 1), activation="relu")
    plain = replace(case, options=KernelOptions(winograd=False))
    kernels = [case.generate(), plain.generate()]
    assert kernels[0].source_template != kernels[1].source_template
    library = compile_kernels(kernels, tmp_path)
    want = reference_conv(case)
    errors = [np.abs(call(library, i, k, c)[0] - want).max() / want.max() for i, (k, c) in
              enumerate(zip(kernels, (case, plain), strict=True))]  # fmt: skip
    assert max(errors) < 2e-6


def test_no_sanitizer_complains(tmp_path: Path) -> None:
    """All grids in one program whose buffers have exactly their size, so that any read or write beyond them is seen."""
    cases = [case for grid in GRIDS.values() for case in grid()]
    rng = np.random.default_rng(10)
    cases += [topk_case(floats(rng, 2, 30), k) for k in (1, 7, 30)]
    cases += [argmax_case(floats(rng, *shape)) for shape in ((2, 9, 1), (2, 9, 5))]
    kernels = [case.generate() for case in cases]
    main = ["#include <stdlib.h>", "int main(void) {", "  void* p[8];"]
    for i, kernel in enumerate(kernels):
        sizes = [t.nbytes for t in (*kernel.inputs, *kernel.outputs)]
        sizes += [kernel.workspace_bytes] if kernel.workspace_bytes else []
        for j, size in enumerate(sizes):
            main.append(f"  p[{j}] = memset(malloc({size}), {61 if j < len(kernel.inputs) else 255}, {size});")
        main.append(f"  if (k{i}(p) != 0) return 1;")
        main += [f"  free(p[{j}]);" for j in range(len(sizes))]
    main += ["  return 0;", "}"]
    source, program = tmp_path / "all.c", tmp_path / "all"
    source.write_text(source_text(kernels) + "\n".join(main) + "\n", encoding="utf-8")
    flags = ["-std=c99", "-O0", "-march=native", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(program), "-lm"], check=True)
    subprocess.run([str(program)], check=True)


@pytest.mark.parametrize("compiler", [C_FLAGS, CXX_FLAGS, ("clang", "-x", "c", "-std=c99"),
                                      ("clang++", "-x", "c++", "-std=c++14", "-fno-exceptions", "-fno-rtti")],
                         ids=["gcc", "g++", "clang", "clang++"])  # fmt: skip
def test_header_compiles_without_warnings_and_unused(compiler: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"{compiler[0]} is not installed")
    kernels = [grid()[0].generate() for grid in GRIDS.values()]
    compile_kernels(kernels, tmp_path, command=compiler, march="native")
    compile_kernels([], tmp_path, command=compiler, march="native")
