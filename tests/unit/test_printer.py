"""The text of printed kernels, and what lowering makes of loops; test_printer_run.py has the numbers."""

# TVMScript is Python by its grammar only: to a type checker, T.Buffer(...) is no annotation.
# mypy: ignore-errors

from __future__ import annotations

import re
from typing import Any

import pytest

tvm = pytest.importorskip("tvm")

import tvm_ffi  # noqa: E402
from tvm import tirx  # noqa: E402
from tvm.script import tirx as T  # noqa: E402

from c7x.codegen import printer  # noqa: E402
from c7x.codegen.exact import hide_values, show_values  # noqa: E402
from c7x.codegen.lower import PASSES, lower_prim_func  # noqa: E402
from c7x.codegen.printer import PrintedKernel, print_kernel, print_prim_func  # noqa: E402
from c7x.codegen.program import TensorType  # noqa: E402
from c7x.errors import UnsupportedError  # noqa: E402


def text(func: Any, num_outputs: int = 1) -> str:
    return print_kernel(func, name="f", num_outputs=num_outputs).source_template


@T.prim_func(s_tir=True)
def add_bias(x: T.Buffer((4, 6), "float32"), b: T.Buffer((6,), "float32"), y: T.Buffer((4, 6), "float32")) -> None:
    for i, j in T.grid(4, 6):
        with T.sblock("add"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj] + b[vj]


@T.prim_func(s_tir=True)
def add_bias_renamed(
    p: T.Buffer((4, 6), "float32"), q: T.Buffer((6,), "float32"), r: T.Buffer((4, 6), "float32")
) -> None:
    for exp, int32_t in T.grid(4, 6):
        with T.sblock("other"):
            a, c = T.axis.remap("SS", [exp, int32_t])
            r[a, c] = p[a, c] + q[c]


def test_whole_kernel() -> None:
    assert print_kernel(add_bias, name="f", num_outputs=1) == PrintedKernel(
        source_template=(
            "static int32_t @SYMBOL@(const float* C7X_RESTRICT in0, const float* C7X_RESTRICT in1, "
            "float* C7X_RESTRICT out0) {\n"
            "  for (int32_t i0 = 0; i0 < 4; ++i0) {\n"
            "    for (int32_t i1 = 0; i1 < 6; ++i1) {\n"
            "      const int32_t v0 = (i0 * 6) + i1;\n"
            "      out0[v0] = in0[v0] + in1[i1];\n"
            "    }\n"
            "  }\n"
            "  return 0;\n"
            "}\n"
        ),
        params=(
            TensorType(dtype="float32", shape=(4, 6)),
            TensorType(dtype="float32", shape=(6,)),
            TensorType(dtype="float32", shape=(4, 6)),
        ),
        workspace_bytes=0,
        macs=0,
    )


def test_text_does_not_depend_on_names_or_on_what_was_printed_before() -> None:
    printer._printed.clear()
    renamed = text(add_bias_renamed)
    printer._printed.clear()
    assert text(add_bias) == renamed


def test_equal_structure_is_printed_once() -> None:
    first = print_kernel(add_bias, name="f", num_outputs=1)
    assert print_kernel(add_bias_renamed.with_attr("op_pattern", 1), name="g", num_outputs=1) is first
    with pytest.raises(UnsupportedError, match="store into an input"):
        print_kernel(add_bias, name="f", num_outputs=0)


def test_constants() -> None:
    @T.prim_func(s_tir=True)
    def func(y: T.Buffer((8,), "float32"), z: T.Buffer((4,), "int64"), d: T.Buffer((1,), "float64")) -> None:
        y[0] = T.float32(5592405.5)
        y[1] = T.float32("inf")
        y[2] = T.float32("-inf")
        y[3] = T.float32("nan")
        y[4] = T.float32(-0.0)
        y[5] = T.float32(1e-45)
        y[6] = T.float32(3.4028234663852886e38)
        y[7] = T.float32(0.1)
        z[0] = T.int64(-9223372036854775808)
        z[1] = T.int64(9223372036854775807)
        d[0] = T.float64(3.141592653589793)

    source = text(func, 3)
    values = dict(re.findall(r"(out\d\[\d\]) = (.*);", source))
    assert values["out0[0]"] == "5592405.5f"
    assert values["out0[1]"] == "INFINITY"
    assert values["out0[2]"].strip("()") == "-INFINITY"
    assert values["out0[3]"] == "NAN"
    assert values["out0[4]"].strip("()") == "-0.0f"
    assert values["out0[7]"] == "0.1f"
    assert "9223372036854775807LL - 1" in values["out1[0]"]
    assert values["out2[0]"] == "3.141592653589793"


def test_unused_parameter_is_named() -> None:
    @T.prim_func(s_tir=True)
    def func(x: T.Buffer((3,), "float32"), y: T.Buffer((3,), "float32")) -> None:
        for i in range(3):
            y[i] = T.float32(1)

    assert "  (void)in0;\n" in text(func)


def test_integers_of_tensors_wrap_and_offsets_stay_plain() -> None:
    @T.prim_func(s_tir=True)
    def func(x: T.Buffer((4, 5), "int32"), y: T.Buffer((4, 5), "int32")) -> None:
        for i, j in T.grid(4, 5):
            y[i, j] = x[i, 4 - j] * 3 + x[i, j] // 2

    source = text(func)
    assert "c7x_add_i32(c7x_mul_i32(in0[" in source and "c7x_floordiv_i32(in0[" in source
    assert all("c7x_" not in offset for offset in re.findall(r"in0\[([^]]*)\]", source))


def test_assertion_returns_an_error() -> None:
    @T.prim_func(s_tir=True)
    def func(x: T.Buffer((3,), "int32"), y: T.Buffer((3,), "int32")) -> None:
        for i in range(3):
            assert x[i] > 0, "positive"
            y[i] = x[i]

    assert "if (!(0 < in0[i0])) return -1;" in text(func)


# --- scratch memory ---


def two_stages(size: int, dtype: str = "float32") -> Any:
    @T.prim_func(s_tir=True)
    def func(x: T.Buffer((size,), dtype), y: T.Buffer((size,), dtype)) -> None:
        once = T.alloc_buffer((size,), dtype)
        for i in range(size):
            once[i] = x[size - 1 - i] + x[i]
        for i in range(size):
            y[i] = once[size - 1 - i] * once[i]

    return func


def test_small_scratch_is_on_the_stack() -> None:
    kernel = print_kernel(two_stages(512), name="f", num_outputs=1)
    assert kernel.workspace_bytes == 0
    assert "  float buf0[512];\n" in kernel.source_template and "workspace" not in kernel.source_template


def test_large_scratch_is_in_the_workspace() -> None:
    kernel = print_kernel(two_stages(513), name="f", num_outputs=1)
    assert kernel.workspace_bytes == 2176  # 2052 rounded up to 128
    assert kernel.source_template.startswith(
        "static int32_t @SYMBOL@(const float* C7X_RESTRICT in0, float* C7X_RESTRICT out0, "
        "uint8_t* C7X_RESTRICT workspace) {"
    )


def test_scratch_of_disjoint_life_is_shared() -> None:
    @T.prim_func(s_tir=True)
    def func(x: T.Buffer((1000,), "float32"), y: T.Buffer((1000,), "float32")) -> None:
        a = T.alloc_buffer((1000,), "float32")
        b = T.alloc_buffer((1000,), "float32")
        c = T.alloc_buffer((1000,), "float32")
        for i in range(1000):
            a[i] = x[999 - i] + T.float32(1)
        for i in range(1000):
            b[i] = a[999 - i] * a[i]
        for i in range(1000):
            c[i] = b[999 - i] * b[i]
        for i in range(1000):
            y[i] = c[999 - i] * c[i]

    assert print_kernel(func, name="f", num_outputs=1).workspace_bytes == 2 * 4096  # 4000 rounded up, two alive at once


# --- what the schedule and the passes do to loops ---


@T.prim_func(s_tir=True)
def scaled_column_sums(x: T.Buffer((9, 32), "float32"), y: T.Buffer((32,), "float32")) -> None:
    total = T.sblock_alloc_buffer((32,), "float32")
    for j, k in T.grid(32, 9):
        with T.sblock("sum"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                total[vj] = T.float32(0)
            total[vj] = total[vj] + x[vk, vj]
    for j in range(32):
        with T.sblock("scale"):
            vj = T.axis.remap("S", [j])
            y[vj] = total[vj] / T.float32(9)


def test_reduction_runs_along_memory_with_its_start_outside() -> None:
    source = text(scaled_column_sums)
    assert " if " not in source
    assert re.search(
        r"i(\d+) < 9; .*\n +for \(int32_t i(\d+) = 0; i\2 < 32; .*\n +buf0\[i\2\] = buf0\[i\2\] \+ in0", source
    )


@T.prim_func(s_tir=True)
def row_maxima(x: T.Buffer((5, 128), "float32"), y: T.Buffer((5,), "float32")) -> None:
    for i, k in T.grid(5, 128):
        with T.sblock("max"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                y[vi] = T.float32(-3.4028234663852886e38)
            y[vi] = T.max(y[vi], x[vi, vk])


def test_maximum_starts_from_minus_infinity_in_parallel_parts() -> None:
    source = text(row_maxima)
    assert source.count("-INFINITY") == 2 and "e38" not in source and "e+38" not in source
    assert re.search(r"(i\d+) < 16; \+\+\1\) \{\n +buf0\[\1\] = c7x_max_f32\(buf0\[\1\], in0", source)


def test_multiply_accumulates_are_counted() -> None:
    @T.prim_func(s_tir=True)
    def matmul(a: T.Buffer((4, 8), "float32"), b: T.Buffer((8, 6), "float32"), c: T.Buffer((4, 6), "float32")) -> None:
        for i, j, k in T.grid(4, 6, 8):
            with T.sblock("matmul"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    c[vi, vj] = T.float32(0)
                c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]

    assert print_kernel(matmul, name="f", num_outputs=1).macs == 4 * 6 * 8


def test_producer_is_inlined_only_when_that_repeats_no_call() -> None:
    def chain(repeats: int) -> Any:
        @T.prim_func(s_tir=True)
        def func(x: T.Buffer((64,), "float32"), y: T.Buffer((repeats, 64), "float32")) -> None:
            e = T.sblock_alloc_buffer((64,), "float32")
            for i in range(64):
                with T.sblock("exp"):
                    vi = T.axis.remap("S", [i])
                    e[vi] = T.exp(x[vi])
            for r, i in T.grid(repeats, 64):
                with T.sblock("use"):
                    vr, vi = T.axis.remap("SS", [r, i])
                    y[vr, vi] = e[vi] + T.float32(1)

        return func

    assert "buf0" not in text(chain(1))
    assert "buf0[64]" in text(chain(9))


def test_concatenation_has_no_condition() -> None:
    @T.prim_func(s_tir=True)
    def concat(x: T.Buffer((3, 5), "float32"), z: T.Buffer((3, 4), "float32"), y: T.Buffer((3, 9), "float32")) -> None:
        for i, j in T.grid(3, 9):
            with T.sblock("concat"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = T.if_then_else(vj >= 5, z[vi, vj - 5], x[vi, vj])

    source = text(concat)
    assert "?" not in source
    assert "i1 < 5" in source and "= 5; i2 < 9" in source


def test_a_loop_is_not_cut_to_confetti() -> None:
    @T.prim_func(s_tir=True)
    def func(x: T.Buffer((16,), "float32"), y: T.Buffer((16,), "float32")) -> None:
        for i in range(16):
            with T.sblock("pick"):
                vi = T.axis.remap("S", [i])
                y[vi] = T.if_then_else(
                    vi < 2 or (vi >= 4 and vi < 6) or (vi >= 8 and vi < 10) or vi >= 13, x[vi], T.float32(0)
                )

    assert text(func).count("for (") == 1


def test_what_a_row_shares_is_computed_once() -> None:
    @T.prim_func(s_tir=True)
    def func(x: T.Buffer((9, 64), "float32"), y: T.Buffer((7, 64), "float32")) -> None:
        for i, j in T.grid(7, 64):
            with T.sblock("resize"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[T.Cast("int32", T.floor(T.Cast("float32", vi) * T.float32(1.25))), vj]

    source = text(func)
    assert source.index("floorf") < source.index("i1 < 64")


def test_values_survive_the_simplifier() -> None:
    @T.prim_func(s_tir=True)
    def func(
        x: T.Buffer((8,), "float32"),
        n: T.Buffer((8,), "int32"),
        y: T.Buffer((8,), "float32"),
        m: T.Buffer((8,), "int32"),
    ) -> None:
        for i in range(8):
            y[i] = (x[i] + T.float32(3e7)) - T.float32(3e7)
            m[i] = (n[i] * 2) // 2

    source = text(func, 2)
    assert re.search(r"out0\[i0\] = \(in0\[i0\] \+ (.*)\) - \1;", source)
    assert "c7x_floordiv_i32(c7x_mul_i32(in1[i0], 2), 2)" in source


def test_hidden_values_come_back() -> None:
    for func in (add_bias, scaled_column_sums, row_maxima):
        hidden = hide_values(func)
        assert tvm_ffi.structural_equal(show_values(hidden), func)
    assert "c7x.exact.Add.float32" in str(hide_values(add_bias))
    assert str(hide_values(row_maxima)).count("c7x.exact") == 0


def test_every_pass_has_a_name_and_a_reason() -> None:
    names = [step.name for step in PASSES]
    assert len(set(names)) == len(names)
    assert all(len(step.reason.split()) >= 5 for step in PASSES)


# --- what is refused ---


def refused(func: Any, *words: str, num_outputs: int = 1) -> None:
    with pytest.raises(UnsupportedError) as raised:
        print_kernel(func, name="f", num_outputs=num_outputs)
    for word in words:
        assert word in str(raised.value)
    assert raised.value.hint


def test_foreign_function_is_refused_with_the_whole_node() -> None:
    @T.prim_func(s_tir=True)
    def func(x: T.Buffer((3,), "float32"), y: T.Buffer((3,), "float32")) -> None:
        for i in range(3):
            y[i] = T.call_pure_extern("float32", "TVMBackendSomething", x[i], T.float32(2))

    refused(func, "none of our helpers", "TVMBackendSomething", "T.float32(2.0)")


def test_unknown_intrinsic_is_refused_with_the_whole_node() -> None:
    @T.prim_func(s_tir=True)
    def func(x: T.Buffer((3,), "int32"), y: T.Buffer((3,), "int32")) -> None:
        for i in range(3):
            y[i] = T.q_multiply_shift(x[i], 1073741824, 31, 1)

    refused(func, "q_multiply_shift", "1073741824")


def test_half_precision_is_refused_by_name() -> None:
    @T.prim_func(s_tir=True)
    def func(x: T.Buffer((3,), "float16"), y: T.Buffer((3,), "float16")) -> None:
        for i in range(3):
            y[i] = x[i] + T.float16(1)

    refused(func, "float16")


def test_vector_node_is_refused() -> None:
    @T.prim_func(s_tir=True)
    def func(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")) -> None:
        y[T.Ramp(0, 1, 8)] = x[T.Ramp(0, 1, 8)]

    refused(func, "Ramp")


def test_dynamic_shape_is_refused_with_the_way_out() -> None:
    n = tirx.Var("n", "int64")
    x, y = (tirx.decl_buffer((n,), "float32", name=name) for name in "xy")
    func = tirx.PrimFunc([x, y], tirx.Evaluate(tirx.IntImm("int32", 0)))
    with pytest.raises(UnsupportedError, match="--bind"):
        print_prim_func(func, num_outputs=1)


def test_lowered_function_carries_its_name() -> None:
    assert lower_prim_func(add_bias, "name_of_it").attrs["global_symbol"] == "name_of_it"


def test_a_value_nobody_reads_is_dropped() -> None:
    @T.prim_func(s_tir=True)
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")) -> None:
        first = T.alloc_buffer((64,), "float32")
        second = T.alloc_buffer((64,), "float32")
        for i in range(64):
            first[i] = T.exp(x[i])
        for i in range(64):
            second[i] = first[63 - i]
        for i in range(64):
            y[i] = x[63 - i]

    source = text(func)
    assert source.count("for (") == 1 and "buf" not in source


def test_reduction_to_one_number_starts_outside_its_loops() -> None:
    @T.prim_func(s_tir=True)
    def func(x: T.Buffer((8, 16), "float32"), y: T.Buffer((), "float32")) -> None:
        for i, j in T.grid(8, 16):
            with T.sblock("sum"):
                vi, vj = T.axis.remap("RR", [i, j])
                with T.init():
                    y[()] = T.float32(0)
                y[()] = y[()] + x[vi, vj]

    source = text(func)
    assert " if " not in source and source.index("out0[0] = 0.0f;") < source.index("for (")
