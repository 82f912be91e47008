"""The generated integer kernels: bit-exact to their numpy models, with guards around every buffer, and sanitised."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from c7x.codegen.kernels import supports
from c7x.codegen.kernels.base import Operand
from c7x.codegen.kernels.int8_elementwise import table_of
from c7x.codegen.program import TensorType
from c7x.toolchain.hostemu import DEFAULT_CORE, find_emulation
from tests.integer_models import MODELS, multiplier_and_shift
from tests.integration import kernel_harness as harness
from tests.integration.kernel_harness import Case

INTEGER = harness.ROOT / "native" / "include" / "c7x_integer.h"


def full(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Values over the whole range, both ends included."""
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    x.reshape(-1)[: min(2, x.size)] = (limits.min, limits.max)[: min(2, x.size)]
    return x


def conv(
    rng: np.random.Generator,
    *,
    n: int = 1,
    h: int = 8,
    w: int = 8,
    c: int = 8,
    o: int = 8,
    k: tuple[int, int] = (3, 3),
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
    x_zero: int = 0,
    y_zero: int = 0,
    low: int | None = None,
    high: int | None = None,
    dtype: str = "int8",
    large: bool = False,
    extreme: bool = False,
) -> Case:
    top, left, bottom, right = padding
    oh = (h + top + bottom - (k[0] - 1) * dilation[0] - 1) // strides[0] + 1
    ow = (w + left + right - (k[1] - 1) * dilation[1] - 1) // strides[1] + 1
    depth = c // groups * k[0] * k[1]
    limits = np.iinfo(dtype)
    data, weight = full(rng, (n, h, w, c), dtype), full(rng, (o, c // groups, *k), dtype)
    if extreme:
        data[...], weight[...] = limits.min, limits.min
    size = (2.0**7 if dtype == "int8" else 2.0**15) * np.sqrt(depth) / 3
    ratios = rng.uniform(0.05, 2.0, o) / size * (200 if large else 1)
    pairs = [multiplier_and_shift(r) for r in ratios]
    bias = rng.integers(-1000, 1000, o) * (1 if dtype == "int8" else 10**6)
    return Case(
        op="c7x.qconv2d",
        attrs={
            "strides": list(strides),
            "padding": list(padding),
            "dilation": list(dilation),
            "groups": groups,
            "x_zero": x_zero,
            "y_zero": y_zero,
            "low": limits.min if low is None else low,
            "high": limits.max if high is None else high,
        },
        inputs=(
            data,
            weight,
            bias.astype("int32" if dtype == "int8" else "int64"),
            np.array([m for m, _ in pairs], "int32"),
            np.array([s for _, s in pairs], "int32"),
        ),
        outputs=(TensorType(dtype=dtype, shape=(n, oh, ow, o)),),
        constants=(1, 2, 3, 4),
    )


def pair(rng: np.random.Generator, op: str, shape: tuple[int, ...], dtype: str, **attrs: Any) -> Case:
    limits = np.iinfo(dtype)
    base = {"a_zero": 3, "b_zero": -7, "y_zero": 5, "low": limits.min, "high": limits.max}
    if dtype == "int16":
        base |= {"a_zero": 0, "b_zero": 0, "y_zero": 0}
    other = (shape[0], 1, 1, shape[3]) if "inner" in attrs else shape
    return Case(
        op=op,
        attrs={**base, **attrs},
        inputs=(full(rng, shape, dtype), full(rng, other, dtype)),
        outputs=(TensorType(dtype=dtype, shape=shape),),
    )


def pool(rng: np.random.Generator, op: str, shape: tuple[int, ...], dtype: str, **attrs: Any) -> Case:
    n, h, w, c = shape
    limits = np.iinfo(dtype)
    top, left, bottom, right = attrs["padding"]
    oh = (h + top + bottom - attrs["pool"][0]) // attrs["strides"][0] + 1
    ow = (w + left + right - attrs["pool"][1]) // attrs["strides"][1] + 1
    if op == "c7x.qavg_pool2d":
        taps = attrs["pool"][0] * attrs["pool"][1]
        ratios = [[count, *multiplier_and_shift(0.8 / count)] for count in range(taps, 0, -1)]
        zero = {"x_zero": 4, "y_zero": -3} if dtype == "int8" else {"x_zero": 0, "y_zero": 0}
        attrs |= {"ratios": ratios, **zero, "low": limits.min, "high": limits.max}
    else:
        attrs |= {"dilation": [1, 1]}
    return Case(
        op=op, attrs=attrs, inputs=(full(rng, shape, dtype),), outputs=(TensorType(dtype=dtype, shape=(n, oh, ow, c)),)
    )


def conv_cases(rng: np.random.Generator) -> list[Case]:
    cases = []
    for dtype in ("int8", "int16"):
        zeros: dict[str, Any] = {"x_zero": -11, "y_zero": 9} if dtype == "int8" else {}
        cases += [
            conv(rng, dtype=dtype, c=16, o=16, padding=(1, 1, 1, 1), **zeros),
            conv(rng, dtype=dtype, c=3, o=32, h=15, w=13, k=(7, 7), strides=(2, 2), padding=(3, 3, 3, 3), **zeros),
            conv(rng, dtype=dtype, c=64, o=24, k=(1, 1), h=7, w=7, **zeros),
            conv(rng, dtype=dtype, c=40, o=17, k=(1, 1), h=9, w=5, strides=(2, 2), **zeros),
            conv(rng, dtype=dtype, c=5, o=7, h=6, w=9, padding=(1, 2, 0, 1), **zeros),
            conv(rng, dtype=dtype, c=12, o=20, groups=4, padding=(1, 1, 1, 1), **zeros),
            conv(rng, dtype=dtype, c=6, o=9, groups=3, k=(3, 1), **zeros),
            conv(rng, dtype=dtype, c=8, o=8, dilation=(2, 3), h=12, w=14, padding=(2, 3, 2, 3), **zeros),
            conv(rng, dtype=dtype, n=2, c=8, o=8, h=5, w=5, padding=(1, 1, 1, 1), **zeros),
            conv(rng, dtype=dtype, c=512, o=10, h=1, w=1, k=(1, 1), **zeros),
            conv(rng, dtype=dtype, c=300, o=33, h=1, w=3, k=(1, 1), **zeros),
            conv(rng, dtype=dtype, c=9, o=16, h=1, w=40, k=(1, 5), padding=(0, 2, 0, 2), dilation=(1, 2), **zeros),
            conv(rng, dtype=dtype, c=100, o=8, h=6, w=6, padding=(1, 1, 1, 1), extreme=True, **zeros),
            conv(rng, dtype=dtype, c=8, o=16, large=True, **zeros),
            conv(rng, dtype=dtype, c=16, o=16, low=0, high=100, **zeros),
            conv(rng, dtype=dtype, c=16, o=16, groups=16, padding=(1, 1, 1, 1), **zeros),
            conv(rng, dtype=dtype, c=13, o=13, groups=13, strides=(2, 2), padding=(1, 1, 1, 1), h=9, w=11, **zeros),
            conv(rng, dtype=dtype, c=3, o=3, groups=3, padding=(1, 1, 1, 1), **zeros),
            conv(rng, dtype=dtype, c=24, o=24, groups=24, k=(5, 5), **zeros),
            conv(rng, dtype=dtype, c=8, o=8, groups=8, k=(1, 9), padding=(0, 4, 0, 4), **zeros),
            conv(rng, dtype=dtype, c=8, o=8, groups=8, dilation=(2, 2), padding=(2, 2, 2, 2), n=2, **zeros),
            conv(rng, dtype=dtype, c=32, o=16, h=90, w=80, padding=(1, 1, 1, 1), **zeros),
        ]
    # A zero point at either end of the range, where padding and the sign meet.
    cases += [conv(rng, c=8, o=8, padding=(1, 1, 1, 1), x_zero=z, y_zero=-z - 1, low=-z - 1) for z in (-128, 127)]
    return cases


def other_cases(rng: np.random.Generator) -> list[Case]:
    cases: list[Case] = []
    for dtype, shape in itertools.product(("int8", "int16"), ((1, 5, 7, 13), (2, 3, 3, 8), (1, 1, 1, 1))):
        big = {"a_mul": 1 << 20, "b_mul": 777777, "shift": 20}
        wide = {"a_mul": 1 << 30, "b_mul": 987654321, "shift": 31}
        cases.append(pair(rng, "c7x.qadd", shape, dtype, **(big if dtype == "int8" else wide)))
        cases.append(pair(rng, "c7x.qadd", shape, dtype, a_mul=3, b_mul=5, shift=1, low=0))
        multiplier, shift = multiplier_and_shift(0.01 if dtype == "int8" else 1 / 40000)
        cases.append(pair(rng, "c7x.qmul", shape, dtype, mul=multiplier, shift=shift))
        cases.append(
            pair(
                rng, "c7x.qmul", shape, dtype, mul=multiplier, shift=shift, inner=shape[1] * shape[2], channels=shape[3]
            )
        )
        for include in (False, True):
            cases.append(
                pool(
                    rng,
                    "c7x.qavg_pool2d",
                    (shape[0], 7, 9, shape[3]),
                    dtype,
                    pool=[3, 3],
                    strides=[2, 2],
                    padding=[1, 1, 1, 1],
                    include_pad=include,
                )
            )
        cases.append(
            pool(
                rng,
                "c7x.qmax_pool2d",
                (shape[0], 7, 9, shape[3]),
                dtype,
                pool=[3, 2],
                strides=[2, 1],
                padding=[1, 0, 1, 1],
            )
        )
    for dtype in ("int8", "int16"):
        ratios = [[count, *multiplier_and_shift(0.9 / count)] for count in (9, 6, 4, 12, 8, 16, 3, 2, 1)]
        attrs = {"pool": [3, 4], "strides": [1, 1], "padding": [0, 0, 0, 0], "include_pad": False, "uneven": True}
        attrs |= {"ratios": ratios, "x_zero": 0, "y_zero": 0, "low": -120, "high": 120}
        outputs = (TensorType(dtype=dtype, shape=(2, 4, 3, 5)),)
        image = rng.integers(-100, 100, (2, 7, 10, 5)).astype(dtype)
        cases.append(Case(op="c7x.qavg_pool2d", attrs=attrs, inputs=(image,), outputs=outputs, constants=()))
    for dtype, padding, value in (
        ("int8", [1, 2, 3, 0], -7),
        ("int8", [0, 0, 0, 1], 127),
        ("int16", [2, 1, 0, 3], -900),
    ):
        image = rng.integers(-100, 100, (2, 3, 4, 5)).astype(dtype)
        shape = (2, 3, 4 + padding[0] + padding[2], 5 + padding[1] + padding[3])
        outputs = (TensorType(dtype=dtype, shape=shape),)
        attrs = {"padding": padding, "value": value}
        cases.append(Case(op="c7x.qpad", attrs=attrs, inputs=(image,), outputs=outputs, constants=()))
    data = np.arange(256, dtype=np.uint8).view(np.int8)
    entries = table_of(lambda x: np.clip(np.rint(x * 0.3) - 4, -128, 127))
    cases.append(
        Case(
            op="c7x.qtable",
            attrs={},
            inputs=(data, entries),
            outputs=(TensorType(dtype="int8", shape=(256,)),),
            constants=(1,),
        )
    )
    for channels, inner in ((5, 1), (3, 7)):
        view = (2, channels, inner)
        cases.append(
            Case(
                op="c7x.qtable",
                attrs={"channels": channels, "inner": inner},
                inputs=(full(rng, view, "int8"), full(rng, (channels, 256), "int8")),
                outputs=(TensorType(dtype="int8", shape=view),),
                constants=(1,),
            )
        )
    return cases


def matrix_cases(rng: np.random.Generator) -> list[Case]:
    cases = []
    for dtype, (batch, m, k, n), transpose, shared in itertools.product(
        ("int8", "int16"), ((1, 1, 1, 1), (2, 5, 13, 9), (3, 7, 64, 16), (1, 4, 30, 7)), (False, True), (False, True)
    ):
        limits = np.iinfo(dtype)
        multiplier, shift = multiplier_and_shift(0.9 / (limits.max * np.sqrt(k)))
        zeros = (
            {"a_zero": -5, "b_zero": 17, "y_zero": -2} if dtype == "int8" else dict.fromkeys(("a_zero", "b_zero"), 0)
        )
        attrs = {"y_zero": 0, **zeros, "mul": multiplier, "shift": shift, "low": limits.min, "high": limits.max}
        b = full(rng, (1 if shared else batch, *((n, k) if transpose else (k, n))), dtype)
        cases.append(
            Case(
                op="c7x.qbatch_matmul",
                attrs={**attrs, "transpose_b": transpose},
                inputs=(full(rng, (batch, m, k), dtype), b),
                outputs=(TensorType(dtype=dtype, shape=(batch, m, n)),),
            )
        )
    return cases


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_rows_are_within_one_of_float(dtype: str, tmp_path: Path) -> None:
    """Softmax and layer norm compute in float between integers: at most one away from float64, rounded."""
    rng = np.random.default_rng(3)
    limits = np.iinfo(dtype)
    scale = 6.0 / limits.max
    common = {"x_scale": scale, "x_zero": 0, "y_zero": 0, "low": limits.min, "high": limits.max}
    data = full(rng, (3, 20, 4), dtype)
    out = (TensorType(dtype=dtype, shape=data.shape),)
    view = {"outer": 3, "axis": 20, "inner": 4}
    soft = Case(op="c7x.qsoftmax", attrs={**common, **view, "y_scale": 1 / limits.max}, inputs=(data,), outputs=out)
    weight, bias = rng.standard_normal((2, 80)).astype(np.float32)
    norm = Case(
        op="c7x.qlayer_norm",
        attrs={**common, "outer": 3, "norm": 80, "epsilon": 1e-5, "y_scale": 5 / limits.max},
        inputs=(data, weight, bias),
        outputs=out,
        constants=(1, 2),
    )
    kernels = [soft.generate(), norm.generate()]
    library = harness.compile_kernels(kernels, tmp_path, headers=(harness.HEADER, INTEGER))
    x = data.astype(np.float64) * scale
    e = np.exp(x - x.max(axis=1, keepdims=True))
    rows = x.reshape(3, 80)
    centred = rows - rows.mean(axis=1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * weight + bias
    answers = [e / e.sum(axis=1, keepdims=True), normed.reshape(data.shape)]
    for index, (kernel, case, real) in enumerate(zip(kernels, (soft, norm), answers, strict=True)):
        (got,) = harness.call(library, index, kernel, case)
        want = np.clip(np.rint(real / case.attrs["y_scale"]), limits.min, limits.max)
        assert np.abs(got - want).max() <= 1
        assert (got == want).mean() > 0.97


BUILDS = {
    "native": (harness.CXX_FLAGS, "native", ("-O3",)),
    "baseline": (harness.C_FLAGS, "x86-64", ("-O2",)),
    "twins": (harness.C_FLAGS, "x86-64", ("-O3", "-DC7X_CLONES")),
    "avx2": (harness.CXX_FLAGS, "x86-64-v3", ("-O2",)),
    "clang": (("clang", "-x", "c", "-std=c99"), "x86-64-v3", ("-O2",)),
    "sanitized": (harness.C_FLAGS, "native", ("-O1", "-g", "-fsanitize=undefined", "-fno-sanitize-recover=all")),
}


@pytest.mark.parametrize("build", BUILDS)
def test_kernels_are_bit_exact(build: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    cases = conv_cases(rng) + other_cases(rng) + matrix_cases(rng)
    kernels = [case.generate() for case in cases]
    command, march, extra = BUILDS[build]
    library = harness.compile_kernels(kernels, tmp_path, command, march, extra, headers=(harness.HEADER, INTEGER))
    for index, (kernel, case) in enumerate(zip(kernels, cases, strict=True)):
        (got,) = harness.call(library, index, kernel, case)
        want = MODELS[case.op](case.attrs, case.inputs, case.outputs[0].shape)
        np.testing.assert_array_equal(got, want, err_msg=f"{case!r}")


def test_refuses_what_it_would_get_wrong() -> None:
    rng = np.random.default_rng(1)
    deep = conv(rng, c=2048, o=1, h=3, w=3)
    assert "products" in str(supports(deep.op, deep.attrs, deep.operands, deep.outputs))
    wide = conv(rng, dtype="int16", x_zero=4)
    assert "zero point" in str(supports(wide.op, wide.attrs, wide.operands, wide.outputs))
    image = Operand(type=TensorType(dtype="int8", shape=(1, 2, 3, 3)))
    padded = [TensorType(dtype="int8", shape=(1, 2, 5, 5))]
    assert supports("c7x.qpad", {"padding": [1, 1, 1, 1], "value": 4}, [image], padded) is None
    assert "margin" in str(supports("c7x.qpad", {"padding": [1, 1, 1, 1], "value": 200}, [image], padded))
    assert "shapes" in str(supports("c7x.qpad", {"padding": [1, 1, 2, 1], "value": 4}, [image], padded))
    mixed = conv(rng)
    assert "dtype" in str(
        supports(mixed.op, mixed.attrs, mixed.operands, [TensorType(dtype="int16", shape=mixed.outputs[0].shape)])
    )


def test_kernels_as_c7000_code(tmp_path: Path) -> None:
    """The same results from the text that a C7000 compiler sees, under the host emulation."""
    rng = np.random.default_rng(9)
    cases = [*conv_cases(rng)[::5], *other_cases(rng)[::6], *matrix_cases(rng)[::7]]
    built = [case.generate() for case in cases]
    emulation = find_emulation(DEFAULT_CORE, "open")
    command = ("g++", "-x", "c++", *emulation.compile_flags)
    headers = (harness.HEADER, INTEGER)
    library = harness.compile_kernels(built, tmp_path, command, "native", ("-O1",), headers)
    for index, (kernel, case) in enumerate(zip(built, cases, strict=True)):
        (got,) = harness.call(library, index, kernel, case)
        np.testing.assert_array_equal(got, MODELS[case.op](case.attrs, case.inputs, case.outputs[0].shape))
