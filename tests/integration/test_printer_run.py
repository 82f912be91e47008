"""Printed kernels against PyTorch: two hundred cases, compiled into one shared object and called through ctypes."""

# TVMScript is Python by its grammar only: to a type checker, T.Buffer(...) is no annotation.
# mypy: ignore-errors

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm")
torch = pytest.importorskip("torch")

from tvm import relax, tirx  # noqa: E402
from tvm.relax import op as R  # noqa: E402
from tvm.script import tirx as T  # noqa: E402

from c7x.codegen.printer import PrintedKernel, print_kernel  # noqa: E402

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

INCLUDE = Path(__file__).resolve().parents[2] / "native" / "include"
C99 = ("-std=c99", "-Wall", "-Wextra", "-Werror")
CXX14 = ("-x", "c++", "-std=c++14", "-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra", "-Werror")
HOST = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off")

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kernel: a Relax expression over ``inputs`` (or a finished PrimFunc), and what PyTorch says."""

    build: Callable[..., Any] | tirx.PrimFunc
    inputs: Arrays
    expect: Callable[..., Any]
    rtol: float = 0.0
    atol: float = 0.0


CASES: dict[str, Case] = {}


def case(
    name: str, build: Any, *inputs: np.ndarray, expect: Callable[..., Any], rtol: float = 0.0, atol: float = 0.0
) -> None:
    assert name not in CASES
    CASES[name] = Case(build=build, inputs=inputs, expect=expect, rtol=rtol, atol=atol)


def rand(*shape: int, dtype: str = "float32", low: float = -3.0, high: float = 3.0) -> np.ndarray:
    seed = zlib.crc32(repr((shape, dtype, low, high)).encode())
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def ints(*shape: int, dtype: str = "int32", low: int = -9, high: int = 10) -> np.ndarray:
    seed = zlib.crc32(repr((shape, dtype, low, high)).encode())
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def array(*values: float, dtype: str = "float32") -> np.ndarray:
    return np.array(values, dtype=dtype)


def const(value: Any, dtype: str = "float32") -> Any:
    return relax.const(np.array(value, dtype=dtype), dtype)


NAN, INF = math.nan, math.inf
SPECIAL = array(NAN, INF, -INF, 0.0, -0.0, 1.5, -2.5, 0.5, 1e-42, 3.4e38, -3.4e38, 88.5, -103.5, 7.0, -0.3, 2.5)
OTHER = array(1.0, -1.0, NAN, NAN, 0.0, INF, -INF, 2.0, -1e-42, 1.0, 2.0, -1.5, 0.7, -7.0, 0.3, 3.5)

# --- element-wise float, on NaN, infinities, zeros and denormals ---

UNARY: dict[str, tuple[Any, Any, float]] = {
    "relu": (R.nn.relu, torch.relu, 0),
    "exp": (R.exp, torch.exp, 3e-7),
    "sigmoid": (R.sigmoid, torch.sigmoid, 5e-7),
    "tanh": (R.tanh, torch.tanh, 3e-7),
    "erf": (R.erf, torch.erf, 4e-7),
    "log": (R.log, torch.log, 3e-7),
    "sqrt": (R.sqrt, torch.sqrt, 1e-7),
    "rsqrt": (R.rsqrt, torch.rsqrt, 3e-7),
    "sin": (R.sin, torch.sin, 1e-6),
    "cos": (R.cos, torch.cos, 1e-6),
    "tan": (R.tan, torch.tan, 2e-6),
    "asin": (R.asin, torch.asin, 1e-6),
    "acos": (R.acos, torch.acos, 1e-6),
    "atan": (R.atan, torch.atan, 1e-6),
    "sinh": (R.sinh, torch.sinh, 1e-6),
    "cosh": (R.cosh, torch.cosh, 1e-6),
    "asinh": (R.asinh, torch.asinh, 1e-6),
    "acosh": (R.acosh, torch.acosh, 1e-6),
    "atanh": (R.atanh, torch.atanh, 1e-6),
    "floor": (R.floor, torch.floor, 0),
    "ceil": (R.ceil, torch.ceil, 0),
    "trunc": (R.trunc, torch.trunc, 0),
    "round_half_to_even": (R.round, torch.round, 0),
    "abs": (R.abs, torch.abs, 0),
    "negative": (R.negative, torch.neg, 0),
    "square": (R.square, torch.square, 1e-7),
    "silu": (R.nn.silu, torch.nn.functional.silu, 1e-6),
    "isnan": (R.isnan, torch.isnan, 0),
    "isinf": (R.isinf, torch.isinf, 0),
    "isfinite": (R.isfinite, torch.isfinite, 0),
    "leaky_relu": (lambda x: R.nn.leakyrelu(x, 0.1), lambda x: torch.nn.functional.leaky_relu(x, 0.1), 1e-7),
    "clamp": (lambda x: R.clip(x, -1.0, 6.0), lambda x: torch.clamp(x, -1.0, 6.0), 0),
    "hardswish": (
        lambda x: R.multiply(x, R.divide(R.clip(R.add(x, const(3.0)), 0, 6), const(6.0))),
        lambda x: x * (torch.clamp(x + 3, 0, 6) / 6),
        1e-6,
    ),
    "power_2": (lambda x: R.power(x, const(2.0)), lambda x: x**2, 1e-7),
    "power_3": (lambda x: R.power(x, const(3.0)), lambda x: x**3, 2e-7),
    "power_half": (lambda x: R.power(x, const(0.5)), lambda x: x**0.5, 1e-7),
    "power_minus_1": (lambda x: R.power(x, const(-1.0)), lambda x: x**-1, 1e-7),
    "power_1p7": (lambda x: R.power(x, const(1.7)), lambda x: x**1.7, 5e-7),
    "constant_that_needs_9_digits": (lambda x: R.add(x, const(5592405.5)), lambda x: x + 5592405.5, 0),
    "add_nan": (lambda x: R.add(x, const(NAN)), lambda x: x + NAN, 0),
    "max_inf": (lambda x: R.minimum(x, const(-INF)), lambda x: torch.minimum(x, torch.tensor(-INF)), 0),
    "max_nan": (lambda x: R.maximum(x, const(NAN)), lambda x: torch.maximum(x, torch.tensor(NAN)), 0),
    "not_equal_to_itself": (lambda x: R.not_equal(x, x), lambda x: x != x, 0),
    "equal_to_itself": (lambda x: R.equal(x, x), lambda x: x == x, 0),
    "minus_itself": (lambda x: R.subtract(x, x), lambda x: x - x, 0),
    "over_itself": (lambda x: R.divide(x, x), lambda x: x / x, 0),
    "zero_minus": (lambda x: R.divide(const(1.0), R.subtract(const(0.0), x)), lambda x: 1 / (0.0 - x), 0),
    "add_then_subtract": (lambda x: R.subtract(R.add(x, const(3e7)), const(3e7)), lambda x: (x + 3e7) - 3e7, 0),
    "sum_of_products": (
        lambda x: R.add(R.multiply(x, const(3.0)), R.multiply(x, const(5.0))), lambda x: x * 3.0 + x * 5.0, 0),
    "clamp_twice": (
        lambda x: R.minimum(R.maximum(R.maximum(x, const(-1.0)), const(2.0)), const(6.0)),
        lambda x: torch.clamp(torch.maximum(torch.maximum(x, torch.tensor(-1.0)), torch.tensor(2.0)), max=6.0), 0),
    "less_after_add": (
        lambda x: R.less(R.add(x, const(1.0)), x), lambda x: x + 1 < x, 0),
    "not_less_or_equal": (lambda x: R.logical_not(R.less_equal(x, const(0.0))), lambda x: ~(x <= 0), 0),
    "not_and": (
        lambda x: R.logical_not(R.logical_and(R.less(x, const(2.0)), R.greater(x, const(-2.0)))),
        lambda x: ~((x < 2) & (x > -2)), 0),
    "where_not": (
        lambda x: R.where(R.logical_not(R.greater(x, const(0.0))), const(1.0), x),
        lambda x: torch.where(~(x > 0), 1.0, x), 0),
    "not_less": (lambda x: R.logical_not(R.less(x, const(0.0))), lambda x: ~(x < 0), 0),
}  # fmt: skip
for _name, (_build, _expect, _rtol) in UNARY.items():
    case(_name, _build, SPECIAL, expect=_expect, rtol=_rtol)

BINARY: dict[str, tuple[Any, Any, float]] = {
    "add": (R.add, torch.add, 0),
    "subtract": (R.subtract, torch.sub, 0),
    "multiply": (R.multiply, torch.mul, 0),
    "divide": (R.divide, torch.div, 0),
    "maximum": (R.maximum, torch.maximum, 0),
    "minimum": (R.minimum, torch.minimum, 0),
    "power": (R.power, torch.pow, 5e-7),
    "equal": (R.equal, torch.eq, 0),
    "not_equal": (R.not_equal, torch.ne, 0),
    "less": (R.less, torch.lt, 0),
    "less_equal": (R.less_equal, torch.le, 0),
    "greater": (R.greater, torch.gt, 0),
    "greater_equal": (R.greater_equal, torch.ge, 0),
    "fmod": (R.mod, torch.fmod, 0),
    "where": (lambda x, y: R.where(R.less(x, y), x, y), lambda x, y: torch.where(x < y, x, y), 0),
}
for _name, (_build, _expect, _rtol) in BINARY.items():
    case(_name, _build, SPECIAL, OTHER, expect=_expect, rtol=_rtol)

case(
    "floor_divide_ordinary",
    R.floor_divide,
    array(7, -7, 7, -7, 0.5),
    array(2, 2, -2, -2, 0.25),
    expect=torch.floor_divide,
)
case("gelu", R.nn.gelu, rand(7, 33), expect=torch.nn.functional.gelu, rtol=1e-6, atol=6e-7)
case(
    "gelu_tanh",
    R.nn.gelu_tanh,
    rand(7, 33),
    expect=lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    rtol=2e-6,
    atol=2e-7,
)
case(
    "softplus",
    lambda x: R.log(R.add(const(1.0), R.exp(x))),
    rand(50),
    expect=lambda x: torch.log(1 + torch.exp(x)),
    rtol=1e-6,
    atol=2e-7,
)
case(
    "float64_chain",
    lambda x: R.add(R.multiply(R.exp(x), R.tanh(x)), const(math.pi, "float64")),
    rand(31, dtype="float64"),
    expect=lambda x: torch.exp(x) * torch.tanh(x) + math.pi,
    rtol=1e-15,
)
case(
    "float64_sigmoid_erf",
    lambda x: R.add(R.sigmoid(x), R.erf(x)),
    rand(31, dtype="float64"),
    expect=lambda x: torch.sigmoid(x) + torch.erf(x),
    rtol=1e-15,
    atol=1e-16,
)
case("float64_maximum", R.maximum, SPECIAL.astype("float64"), OTHER.astype("float64"), expect=torch.maximum)
case("zero_d", lambda x, y: R.add(x, y), np.array(1.5, "float32"), np.array(2.25, "float32"), expect=torch.add)
case(
    "broadcast_row", lambda x, y: R.nn.relu(R.add(x, y)), rand(5, 6, 7), rand(7), expect=lambda x, y: torch.relu(x + y)
)
case("broadcast_outer", R.multiply, rand(5, 1, 7), rand(6, 1), expect=torch.mul)
case("broadcast_scalar", R.subtract, rand(4, 9), rand(1), expect=torch.sub)
case("unused_input", lambda x, y: R.zeros_like(x), rand(3, 5), rand(2), expect=lambda x, y: torch.zeros_like(x))

# --- integers: wrap, truncation, floor, shifts ---

I32 = array(2147483647, -2147483648, -7, 7, 0, 5, -1, -2147483648, 65536, 9, dtype="int32")
J32 = array(1, -1, 2, -2, 3, 5, -3, 2, 65536, -4, dtype="int32")
I64 = np.array([2**63 - 1, -(2**63), -7, 7, 0, 5, 2**40, -1], "int64")
J64 = np.array([1, -1, 2, -2, 3, 5, 2**40, -3], "int64")
for _dtype, _a, _b in (("int32", I32, J32), ("int64", I64, J64)):
    case(f"{_dtype}_add_wraps", R.add, _a, _b, expect=torch.add)
    case(f"{_dtype}_subtract_wraps", R.subtract, _a, _b, expect=torch.sub)
    case(f"{_dtype}_multiply_wraps", R.multiply, _a, _b, expect=torch.mul)
    case(f"{_dtype}_maximum", R.maximum, _a, _b, expect=torch.maximum)
    case(f"{_dtype}_floor_divide", R.floor_divide, _a[2:], _b[2:], expect=torch.floor_divide)
    case(f"{_dtype}_remainder", R.floor_mod, _a[2:], _b[2:], expect=torch.remainder)
    case(f"{_dtype}_fmod", R.mod, _a[2:], _b[2:], expect=torch.fmod)
    case(f"{_dtype}_abs", R.abs, _a, expect=torch.abs)
    case(
        f"{_dtype}_bitwise",
        lambda x, y: R.bitwise_xor(R.bitwise_and(x, y), R.bitwise_or(x, y)),
        _a,
        _b,
        expect=lambda x, y: (x & y) ^ (x | y),
    )
    case(f"{_dtype}_bitwise_not", R.bitwise_not, _a, expect=torch.bitwise_not)
    case(f"{_dtype}_min_over_minus_one", R.floor_divide, _a[1:2], _b[1:2], expect=lambda x, y: x)
    case(
        f"{_dtype}_divide_by_zero_is_0", R.floor_divide, _a, np.zeros_like(_a), expect=lambda x, y: torch.zeros_like(x)
    )
    case(
        f"{_dtype}_remainder_by_zero_is_0", R.floor_mod, _a, np.zeros_like(_a), expect=lambda x, y: torch.zeros_like(x)
    )
    case(f"{_dtype}_sum", lambda x: R.sum(x, [0]), _a, expect=lambda x: x.sum(0, dtype=x.dtype))
    case(f"{_dtype}_prod", lambda x: R.prod(x, [0]), _a[2:4], expect=lambda x: x.prod(0, dtype=x.dtype))
case("int32_less_after_wrap", lambda x: R.less(R.add(x, const(1, "int32")), x), I32, expect=lambda x: x + 1 < x)
case(
    "int32_double_then_halve",
    lambda x: R.floor_divide(R.multiply(x, const(2, "int32")), const(2, "int32")),
    I32,
    expect=lambda x: (x * 2) // 2,
)
case(
    "int32_shifts",
    lambda x, y: R.add(R.left_shift(x, y), R.right_shift(x, y)),
    I32,
    array(0, 1, 2, 3, 4, 31, 31, 30, 16, 1, dtype="int32"),
    expect=lambda x, y: (x << y) + (x >> y),
)
case(
    "int32_shift_too_far",
    R.left_shift,
    array(1, -1, 5, dtype="int32"),
    array(32, 40, -1, dtype="int32"),
    expect=lambda x, y: torch.zeros_like(x),
)
case(
    "int8_add_wraps",
    R.add,
    ints(50, dtype="int8", low=-128, high=128),
    ints(50, dtype="int8", low=-127, high=128),
    expect=torch.add,
)
case(
    "int16_multiply_wraps",
    R.multiply,
    ints(50, dtype="int16", low=-30000, high=30000),
    ints(50, dtype="int16", low=-29000, high=30000),
    expect=torch.mul,
)
case(
    "uint8_subtract_wraps",
    R.subtract,
    ints(50, dtype="uint8", low=0, high=256),
    ints(50, dtype="uint8", low=0, high=255),
    expect=torch.sub,
)
case(
    "uint8_maximum_zero",
    lambda x: R.where(R.less(x, const(0, "uint8")), const(7, "uint8"), x),
    ints(50, dtype="uint8", low=0, high=256),
    expect=lambda x: x,
)
case(
    "bool_logic",
    lambda x, y: R.logical_or(R.logical_and(x, y), R.logical_not(x)),
    ints(9, dtype="bool", low=0, high=2),
    ints(9, dtype="bool", low=0, high=2),
    expect=lambda x, y: (x & y) | ~x,
)
case(
    "bool_xor",
    R.logical_xor,
    array(0, 1, 0, 1, dtype="bool"),
    array(0, 0, 1, 1, dtype="bool"),
    expect=torch.logical_xor,
)

# --- casts ---

FLOATS = array(0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 300.7, -129.5, 65535.9, -40000.0, 2147483520.0, -2147483648.0)
for _target in ("int8", "int16", "int32", "int64", "uint8", "bool", "float64"):
    case(
        f"float32_to_{_target}",
        lambda x, t=_target: R.astype(x, t),
        FLOATS,
        expect=lambda x, t=_target: (
            x.to(torch.int32).to(getattr(torch, t)) if t != "bool" and "float" not in t else x.to(getattr(torch, t))
        ),
    )
case(
    "float32_to_int32_saturates",
    lambda x: R.astype(x, "int32"),
    array(NAN, INF, -INF, 3e9, -3e9),
    expect=lambda x: torch.tensor([0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31)], dtype=torch.int32),
)
case(
    "float64_to_int64_saturates",
    lambda x: R.astype(x, "int64"),
    array(NAN, INF, -INF, 1e19, -1e19, 2.0**53 + 2, dtype="float64"),
    expect=lambda x: torch.tensor([0, 2**63 - 1, -(2**63), 2**63 - 1, -(2**63), 2**53 + 2], dtype=torch.int64),
)
case("int64_to_int32", lambda x: R.astype(x, "int32"), I64, expect=lambda x: x.to(torch.int32))
case("int32_to_uint8", lambda x: R.astype(x, "uint8"), I32, expect=lambda x: x.to(torch.uint8))
case("int64_to_float32", lambda x: R.astype(x, "float32"), I64, expect=lambda x: x.to(torch.float32))
case(
    "bool_to_float32", lambda x: R.astype(x, "float32"), array(0, 1, dtype="bool"), expect=lambda x: x.to(torch.float32)
)
case("nan_to_bool", lambda x: R.astype(x, "bool"), SPECIAL, expect=lambda x: x.to(torch.bool))

# --- reductions ---


def nhwc(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: function(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


F = torch.nn.functional
case("sum_last", lambda x: R.sum(x, [-1]), rand(9, 37), expect=lambda x: x.sum(-1), rtol=1e-5, atol=1e-5)
case("sum_last_in_parts", lambda x: R.sum(x, [-1]), rand(3, 9, 96), expect=lambda x: x.sum(-1), rtol=1e-5, atol=1e-5)
case("sum_all_in_parts", lambda x: R.sum(x), rand(4, 9, 96), expect=lambda x: x.sum(), rtol=1e-5, atol=1e-4)
case("sum_first", lambda x: R.sum(x, [0]), rand(13, 40), expect=lambda x: x.sum(0), rtol=1e-5, atol=1e-5)
case(
    "sum_middle_keep",
    lambda x: R.sum(x, [1], keepdims=True),
    rand(3, 5, 8),
    expect=lambda x: x.sum(1, keepdim=True),
    rtol=1e-5,
    atol=1e-5,
)
case(
    "mean_hw_nhwc",
    lambda x: R.mean(x, [1, 2]),
    rand(2, 7, 7, 24),
    expect=lambda x: x.mean((1, 2)),
    rtol=1e-5,
    atol=1e-6,
)
case(
    "mean_hw_nchw",
    lambda x: R.mean(x, [2, 3]),
    rand(2, 5, 14, 14),
    expect=lambda x: x.mean((2, 3)),
    rtol=1e-5,
    atol=1e-6,
)
case("variance", lambda x: R.variance(x, [-1]), rand(4, 30), expect=lambda x: x.var(-1, correction=0), rtol=1e-5)
case(
    "variance_hw_nhwc",
    lambda x: R.variance(x, [1, 2]),
    rand(2, 5, 5, 8),
    expect=lambda x: x.var((1, 2), correction=0),
    rtol=1e-5,
)
case(
    "amax_of_nan_and_inf",
    lambda x: R.max(x, [1]),
    np.array([[1, NAN, 2], [-INF, -INF, -INF], [-INF, 3, INF]], "float32"),
    expect=lambda x: x.amax(1),
)
case(
    "amin_of_inf",
    lambda x: R.min(x, [1]),
    np.array([[1, NAN, 2], [INF, INF, INF]], "float32"),
    expect=lambda x: x.amin(1),
)
case("amax_in_parts", lambda x: R.max(x, [1]), rand(5, 128), expect=lambda x: x.amax(1))
case("int_max", lambda x: R.max(x, [1]), ints(5, 70), expect=lambda x: x.amax(1))
case(
    "max_pool_nhwc",
    lambda x: R.nn.max_pool2d(x, (3, 3), (2, 2), (1, 1), layout="NHWC"),
    rand(1, 15, 15, 8),
    expect=nhwc(lambda x: F.max_pool2d(x, 3, 2, 1)),
)
case(
    "max_pool_nchw",
    lambda x: R.nn.max_pool2d(x, (3, 3), (2, 2), (1, 1)),
    rand(1, 4, 15, 15),
    expect=lambda x: F.max_pool2d(x, 3, 2, 1),
)
case(
    "max_pool_of_minus_inf",
    lambda x: R.nn.max_pool2d(x, (3, 3), (1, 1), (1, 1), layout="NHWC"),
    np.full((1, 4, 4, 8), -INF, "float32"),
    expect=nhwc(lambda x: F.max_pool2d(x, 3, 1, 1)),
)
case(
    "max_pool_of_nan",
    lambda x: R.nn.max_pool2d(x, (2, 2), (2, 2), layout="NHWC"),
    np.where(rand(1, 6, 6, 8) > 2, np.float32(NAN), rand(1, 6, 6, 8)),
    expect=nhwc(lambda x: F.max_pool2d(x, 2, 2)),
)
case(
    "avg_pool_nhwc",
    lambda x: R.nn.avg_pool2d(x, (3, 3), (2, 2), (1, 1), count_include_pad=True, layout="NHWC"),
    rand(1, 9, 9, 8),
    expect=nhwc(lambda x: F.avg_pool2d(x, 3, 2, 1)),
    rtol=1e-6,
    atol=1e-7,
)
case(
    "avg_pool_exclude_pad",
    lambda x: R.nn.avg_pool2d(x, (3, 3), (2, 2), (1, 1), layout="NHWC"),
    rand(1, 9, 9, 8),
    expect=nhwc(lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)),
    rtol=1e-6,
    atol=1e-7,
)
case(
    "adaptive_avg_pool",
    lambda x: R.nn.adaptive_avg_pool2d(x, (3, 2), layout="NHWC"),
    rand(1, 9, 7, 8),
    expect=nhwc(lambda x: F.adaptive_avg_pool2d(x, (3, 2))),
    rtol=1e-6,
    atol=1e-7,
)
case("softmax", lambda x: R.nn.softmax(x, -1), rand(3, 50), expect=lambda x: torch.softmax(x, -1), rtol=2e-6)
case(
    "log_softmax",
    lambda x: R.nn.log_softmax(x, -1),
    rand(3, 50),
    expect=lambda x: torch.log_softmax(x, -1),
    rtol=2e-6,
    atol=1e-6,
)
case(
    "group_norm",
    lambda x, g, b: R.nn.group_norm(x, g, b, 4, 1, [2, 3]),
    rand(2, 16, 5, 5),
    rand(16),
    rand(16, low=0),
    expect=lambda x, g, b: F.group_norm(x, 4, g, b),
    rtol=1e-5,
    atol=1e-5,
)
case("matmul", R.matmul, rand(17, 33), rand(33, 21), expect=torch.matmul, rtol=1e-5, atol=1e-5)
case("batch_matmul", R.matmul, rand(3, 5, 9), rand(3, 9, 6), expect=torch.matmul, rtol=1e-5, atol=1e-5)
case("int32_matmul", lambda x, y: R.matmul(x, y, out_dtype="int32"), ints(5, 9), ints(9, 6), expect=torch.matmul)
case(
    "conv2d_transpose",
    lambda x, w: R.nn.conv2d_transpose(x, w, (2, 2), (1, 1)),
    rand(1, 4, 8, 8),
    rand(4, 6, 3, 3),
    expect=lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
    rtol=1e-5,
    atol=1e-5,
)
case(
    "conv1d",
    lambda x, w: R.nn.conv1d(x, w, 2, 1),
    rand(1, 4, 31),
    rand(6, 4, 3),
    expect=lambda x, w: F.conv1d(x, w, stride=2, padding=1),
    rtol=1e-5,
    atol=1e-5,
)
case(
    "conv2d_groups",
    lambda x, w: R.nn.conv2d(x, w, 1, 1, groups=2),
    rand(1, 4, 9, 9),
    rand(6, 2, 3, 3),
    expect=lambda x, w: F.conv2d(x, w, padding=1, groups=2),
    rtol=1e-5,
    atol=1e-5,
)

# --- data movement ---

case(
    "concat_last",
    lambda x, y: R.concat([x, y], 3),
    rand(1, 4, 5, 8),
    rand(1, 4, 5, 3),
    expect=lambda x, y: torch.cat([x, y], 3),
)
case(
    "concat_first_of_three",
    lambda x, y, z: R.concat([x, y, z], 0),
    rand(2, 7),
    rand(1, 7),
    rand(3, 7),
    expect=lambda x, y, z: torch.cat([x, y, z]),
)
case(
    "concat_relu",
    lambda x, y: R.nn.relu(R.concat([x, y], 1)),
    rand(2, 7),
    rand(2, 5),
    expect=lambda x, y: torch.relu(torch.cat([x, y], 1)),
)
case(
    "strided_slice",
    lambda x: R.strided_slice(x, [1, 2], [1, 0], [8, 9], [2, 3]),
    rand(2, 8, 9, 4),
    expect=lambda x: x[:, 1:8:2, 0:9:3],
)
case("transpose", lambda x: R.permute_dims(x, [0, 3, 1, 2]), rand(2, 5, 6, 7), expect=lambda x: x.permute(0, 3, 1, 2))
case(
    "reshape_transpose",
    lambda x: R.permute_dims(R.reshape(x, (6, 4, 5)), [1, 0, 2]),
    rand(6, 20),
    expect=lambda x: x.reshape(6, 4, 5).permute(1, 0, 2),
)
case(
    "pad_constant",
    lambda x: R.nn.pad(x, [0, 0, 1, 1, 2, 2, 3, 3], "constant", 1.5),
    rand(1, 4, 8, 8),
    expect=lambda x: F.pad(x, (3, 3, 2, 2, 1, 1), value=1.5),
)
case("flip", lambda x: R.flip(x, 1), rand(3, 8), expect=lambda x: x.flip(1))
case(
    "tile_repeat",
    lambda x: R.repeat(R.tile(x, (2, 1)), 3, 1),
    rand(3, 4),
    expect=lambda x: x.tile(2, 1).repeat_interleave(3, 1),
)
case("tril", lambda x: R.tril(x, -1), rand(6, 6), expect=lambda x: x.tril(-1))
case(
    "causal_mask_of_finfo_min",
    lambda x: R.where(R.greater(R.triu(R.ones_like(x), 1), const(0.5)), const(-3.4028234663852886e38), x),
    rand(6, 6),
    expect=lambda x: torch.where(torch.ones_like(x).triu(1) > 0.5, torch.finfo(torch.float32).min, x),
)
case(
    "take_rows",
    lambda x, i: R.take(x, i, axis=0),
    rand(10, 8),
    ints(4, dtype="int64", low=0, high=10),
    expect=lambda x, i: x[i],
)
case(
    "take_columns",
    lambda x, i: R.take(x, i, axis=1),
    rand(5, 8),
    ints(3, dtype="int32", low=0, high=8),
    expect=lambda x, i: x[:, i.long()],
)
case(
    "gather_elements",
    lambda x, i: R.gather_elements(x, i, axis=1),
    rand(4, 5),
    ints(4, 3, dtype="int64", low=0, high=5),
    expect=lambda x, i: x.gather(1, i),
)
case(
    "scatter_elements",
    lambda x, i, u: R.scatter_elements(x, i, u, axis=0),
    rand(4, 8),
    np.tile(np.array([[2], [0], [3]], "int64"), (1, 8)),
    rand(3, 8),
    expect=lambda x, i, u: x.scatter(0, i, u),
)
case(
    "scatter_add",
    lambda x, i, u: R.scatter_elements(x, i, u, axis=0, reduction="add"),
    rand(4, 8),
    ints(6, 8, dtype="int64", low=0, high=4),
    rand(6, 8),
    expect=lambda x, i, u: x.scatter_add(0, i, u),
    rtol=1e-6,
    atol=1e-6,
)
case(
    "one_hot",
    lambda i: R.one_hot(
        i, relax.prim_value(tirx.FloatImm("float32", 1.0)), relax.prim_value(tirx.FloatImm("float32", 0.0)), 5, -1
    ),
    ints(7, dtype="int64", low=0, high=5),
    expect=lambda i: F.one_hot(i, 5).float(),
)
case(
    "resize_bilinear",
    lambda x: R.image.resize2d(
        x, (13, 16), layout="NHWC", method="linear", coordinate_transformation_mode="half_pixel"
    ),
    rand(1, 7, 8, 8),
    expect=nhwc(lambda x: F.interpolate(x, (13, 16), mode="bilinear")),
    rtol=1e-5,
    atol=1e-6,
)
case(
    "resize_align_corners",
    lambda x: R.image.resize2d(
        x, (13, 16), layout="NHWC", method="linear", coordinate_transformation_mode="align_corners"
    ),
    rand(1, 7, 8, 8),
    expect=nhwc(lambda x: F.interpolate(x, (13, 16), mode="bilinear", align_corners=True)),
    rtol=1e-4,
    atol=1e-5,
)
case(
    "resize_nearest",
    lambda x: R.image.resize2d(
        x,
        (14, 16),
        layout="NHWC",
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    ),
    rand(1, 7, 8, 8),
    expect=nhwc(lambda x: F.interpolate(x, (14, 16), mode="nearest")),
)
case(
    "arange_times",
    lambda x: R.multiply(x, R.astype(R.arange(0, 12, 1, dtype="int64"), "float32")),
    rand(12),
    expect=lambda x: x * torch.arange(12).float(),
)
case("argmax_plain", lambda x: R.argmax(x, 1), rand(4, 9), expect=lambda x: x.argmax(1))

# --- hand-written TIR ---


@T.prim_func(s_tir=True)
def cumulative_sum(x: T.Buffer((4, 8), "float32"), y: T.Buffer((4, 8), "float32")) -> None:
    for i in T.parallel(4):
        y[i, 0] = x[i, 0]
        for j in range(7):
            y[i, j + 1] = y[i, j] + x[i, j + 1]


@T.prim_func(s_tir=True)
def first_above_one(x: T.Buffer((16,), "float32"), y: T.Buffer((1,), "int32")) -> None:
    y[0] = -1
    for i in range(16):
        if x[i] > T.float32(1):
            y[0] = i
            break


@T.prim_func(s_tir=True)
def collatz_steps(x: T.Buffer((5,), "int32"), y: T.Buffer((5,), "int32")) -> None:
    state = T.alloc_buffer((1,), "int32")
    for i in range(5):
        state[0] = x[i]
        y[i] = 0
        while state[0] != 1:
            if state[0] % 2 == 0:
                state[0] = state[0] // 2
            else:
                state[0] = 3 * state[0] + 1
            y[i] = y[i] + 1


@T.prim_func(s_tir=True)
def bit_tricks(x: T.Buffer((6,), "float32"), n: T.Buffer((6,), "int32"), y: T.Buffer((6,), "int32")) -> None:
    for i in range(6):
        y[i] = T.reinterpret("int32", x[i]) + T.popcount(n[i]) * 1000 + T.clz(n[i])


@T.prim_func(s_tir=True)
def float_floor(
    x: T.Buffer((9,), "float32"),
    d: T.Buffer((9,), "float32"),
    q: T.Buffer((9,), "float32"),
    r: T.Buffer((9,), "float32"),
) -> None:
    for i in range(9):
        q[i] = T.call_pure_extern("float32", "c7x_floordiv_f32", x[i], d[i])
        r[i] = T.call_pure_extern("float32", "c7x_floormod_f32", x[i], d[i])


@T.prim_func(s_tir=True)
def guarded_read(x: T.Buffer((4,), "float32"), i: T.Buffer((5,), "int32"), y: T.Buffer((5,), "float32")) -> None:
    for j in range(5):
        y[j] = T.if_then_else(i[j] >= 0 and i[j] < 4, x[i[j]], T.float32(-1))


@T.prim_func(s_tir=True)
def large_scratch(x: T.Buffer((40, 40), "float32"), y: T.Buffer((40, 40), "float32")) -> None:
    once = T.alloc_buffer((40, 40), "float32")
    for i, j in T.grid(40, 40):
        once[i, j] = x[j, i] + T.float32(1)
    for i, j in T.grid(40, 40):
        y[i, j] = once[39 - i, 39 - j] * once[i, j]


case("cumulative_sum", cumulative_sum, rand(4, 8), expect=lambda x: x.cumsum(1), rtol=1e-6, atol=1e-6)
case("break", first_above_one, rand(16), expect=lambda x: (x > 1).int().argmax().int().reshape(1))
case(
    "while",
    collatz_steps,
    array(1, 2, 3, 7, 27, dtype="int32"),
    expect=lambda x: torch.tensor([0, 1, 7, 16, 111], dtype=torch.int32),
)
case(
    "bit_tricks",
    bit_tricks,
    rand(6),
    array(0, 1, -1, 255, 1 << 30, -8, dtype="int32"),
    expect=lambda x, n: x.view(torch.int32) + torch.tensor([32, 1031, 32000, 8024, 1001, 29000], dtype=torch.int32),
)
_X, _D = array(7, -7, 7, -7, 0.1, 5, INF, 1, 0), array(2, 2, -2, -2, -0.03, INF, 3, 0, -3)
case("float_floor", float_floor, _X, _D, expect=lambda x, d: (torch.floor_divide(x, d), torch.remainder(x, d)))
case(
    "guarded_read",
    guarded_read,
    rand(4),
    array(-1, 0, 3, 4, 1 << 30, dtype="int32"),
    expect=lambda x, i: torch.stack([torch.tensor(-1.0), x[0], x[3], torch.tensor(-1.0), torch.tensor(-1.0)]),
)
case("large_scratch", large_scratch, rand(40, 40), expect=lambda x: (x.T + 1).flip(0, 1) * (x.T + 1))


# --- running them ---


def prim_func(build: Any, inputs: Arrays) -> tuple[tirx.PrimFunc, Arrays]:
    """The one fused function that a Relax expression over ``inputs`` becomes, and its arguments (inputs, constants)."""
    if isinstance(build, tirx.PrimFunc):
        return build, inputs
    target = tvm.target.Target({"kind": "c", "mcpu": "c7x"})
    builder = relax.BlockBuilder()
    params = [relax.Var(f"x{i}", relax.TensorType(list(x.shape), str(x.dtype))) for i, x in enumerate(inputs)]
    with builder.function("main", params):
        with builder.dataflow():
            output = builder.emit_output(build(*params))
        builder.emit_func_output(output)
    passes = relax.transform
    with target:
        module = tvm.transform.Sequential(
            [
                passes.DecomposeOpsForInference(),
                passes.LegalizeOps(),
                passes.AnnotateTIROpPattern(),
                passes.FuseOps(),
                passes.FuseTIR(),
                passes.DeadCodeElimination(),
            ]
        )(builder.get())
    functions = [f for f in module.functions.values() if isinstance(f, tirx.PrimFunc)]
    assert len(functions) == 1, f"{len(functions)} functions"
    main = module["main"]
    values = dict(zip((p.name for p in main.params), inputs, strict=True))
    (call,) = (b.value for block in main.body.blocks for b in block.bindings if isinstance(b.value, tvm.ir.Call))
    arguments = call.args[1].fields if isinstance(call.args[1], tvm.ir.Tuple) else [call.args[1]]
    return functions[0], tuple(values[a.name] if isinstance(a, relax.Var) else a.value.numpy() for a in arguments)


@cache
def kernels() -> dict[str, tuple[PrintedKernel, Arrays]]:
    printed = {}
    for name, it in CASES.items():
        func, arguments = prim_func(it.build, it.inputs)
        printed[name] = print_kernel(func, name="k", num_outputs=len(expected(name))), arguments
    return printed


def expected(name: str) -> list[np.ndarray]:
    it = CASES[name]
    answer = it.expect(*(torch.from_numpy(np.array(x)) for x in it.inputs))
    return [t.contiguous().numpy() for t in (answer if isinstance(answer, tuple) else (answer,))]


def source() -> str:
    """All kernels, each behind an exported function over an array of pointers."""
    parts = [(INCLUDE / header).read_text() for header in ("c7x_vector.h", "c7x_scalar.h")]
    parts.append('#ifdef __cplusplus\nextern "C" {\n#endif\n')
    for name, (kernel, _) in kernels().items():
        parts.append(kernel.source_template.replace("@SYMBOL@", f"kernel_{name}"))
        pointers = [f"({t.c_type}*)p[{i}]" for i, t in enumerate(kernel.params)]
        if kernel.workspace_bytes:
            pointers.append(f"(uint8_t*)p[{len(kernel.params)}]")
        parts.append(
            f"int32_t run_{name}(void** p);\n"
            f"int32_t run_{name}(void** p) {{ return kernel_{name}({', '.join(pointers)}); }}\n"
        )
    parts.append("#ifdef __cplusplus\n}\n#endif\n")
    return "\n".join(parts)


def compile_with(compiler: str, flags: tuple[str, ...], folder: Path) -> Path:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    path, library = folder / "kernels.c", folder / "kernels.so"
    path.write_text(source())
    command = [compiler, *flags, str(path), "-shared", "-fPIC", "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return ctypes.CDLL(str(compile_with("gcc", (*C99, *HOST), tmp_path_factory.mktemp("gcc"))))


def run(library: ctypes.CDLL, name: str) -> list[np.ndarray]:
    kernel, arguments = kernels()[name]
    inputs = [np.array(x, order="C") for x in arguments]
    outputs = [np.full(t.shape, 77, t.dtype) for t in kernel.params[len(inputs) :]]
    for x, t in zip([*inputs, *outputs], kernel.params, strict=True):
        assert (x.shape, str(x.dtype)) == (t.shape, t.dtype)
    scratch = np.full(kernel.workspace_bytes + 128, 255, "uint8")
    scratch = scratch[-scratch.ctypes.data % 128 :]
    buffers = [*inputs, *outputs, scratch]
    pointers = (ctypes.c_void_p * len(buffers))(*[b.ctypes.data for b in buffers])
    assert getattr(library, f"run_{name}")(pointers) == 0
    return outputs


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_pytorch(library: ctypes.CDLL, name: str) -> None:
    it = CASES[name]
    for got, want in zip(run(library, name), expected(name), strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=it.rtol, atol=it.atol, equal_nan=True)
        else:
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [("g++", (*CXX14, "-O2")), ("clang", (*C99, "-O1")), ("clang++", (*CXX14, "-O1")), ("gcc", (*C99, "-O0"))],
)
def test_compiles_without_a_warning(compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    compile_with(compiler, flags, tmp_path)


def test_no_undefined_behaviour(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flags = ("-std=c99", "-O1", "-fsanitize=undefined", "-fno-sanitize=alignment")
    sanitized = ctypes.CDLL(str(compile_with("gcc", flags, tmp_path)))
    for name in CASES:
        run(sanitized, name)
    assert "runtime error" not in capfd.readouterr().err


ACCURACY = r"""
#include <stdio.h>
static double ulps(float got, double want) {
  int e = -125;
  if (isnan(want)) return isnan(got) ? 0.0 : 1e9;
  if (fabs(want) >= 3.4028235677973366e38) return isinf(got) && (got > 0) == (want > 0) ? 0.0 : 1e9;
  if (fabs(want) >= 1.1754943508222875e-38) (void)frexp(want, &e);
  return fabs((double)got - want) / ldexp(1.0, e - 24);
}
int main(void) {
  double worst[4] = {0, 0, 0, 0};
  int k;
  for (uint64_t bits = 0; bits < 0x100000000u; bits += 509) {
    const float x = c7x_u32_as_f32((uint32_t)bits);
    const double d = x;
    const double u[4] = {ulps(c7x_exp_f32(x), exp(d)),
                         x < -88.0f ? 0.0 : ulps(c7x_sigmoid_f32(x), 1.0 / (1.0 + exp(-d))),
                         ulps(c7x_tanh_f32(x), tanh(d)), ulps(c7x_erf_f32(x), erf(d))};
    for (k = 0; k < 4; ++k) worst[k] = u[k] > worst[k] ? u[k] : worst[k];
  }
  printf("%g %g %g %g\n", worst[0], worst[1], worst[2], worst[3]);
  return 0;
}
"""


def test_accuracy_over_all_of_float32(tmp_path: Path) -> None:
    path, program = tmp_path / "accuracy.c", tmp_path / "accuracy"
    path.write_text((INCLUDE / "c7x_scalar.h").read_text() + ACCURACY)
    subprocess.run(["gcc", *C99, *HOST, str(path), "-o", str(program), "-lm"], check=True, timeout=60)
    printed = subprocess.run([str(program)], check=True, timeout=60, capture_output=True, text=True).stdout
    exp, sigmoid, tanh, erf = (float(word) for word in printed.split())
    assert exp <= 1 and sigmoid <= 3 and tanh <= 2 and erf <= 2
