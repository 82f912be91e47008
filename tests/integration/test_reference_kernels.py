"""The reference kernels in native/kernels against their numpy models, bit by bit, and every argument they refuse."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from c7x.codegen.kernels.firmware import FIRMWARE
from c7x.native import native_dir
from c7x.toolchain.gnu import C_FLAGS, CXX_FLAGS, KERNEL_FLAGS, KERNEL_SOURCES
from tests import kernel_models as models
from tests.integration.kernel_harness import Guarded, core_objects, kernel_includes

WARNINGS = ("-Wall", "-Wextra", "-Werror")
SANITIZE = os.environ.get("C7X_TEST_SANITIZE") == "1"
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1

# Workspace that can run out, and starts out as NaN patterns.
WORKSPACE = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static int left = -1, live = 0;
void test_workspace(int allowed) { left = allowed; }
int test_live(void) { return live; }
void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t bytes, int code, int bits) {
  void *memory = NULL;
  (void)device_type, (void)device_id, (void)code, (void)bits;
  if (left == 0 || posix_memalign(&memory, 128, bytes ? bytes : 1) != 0) return NULL;
  memset(memory, 0xff, bytes);
  left -= left > 0;
  ++live;
  return memory;
}
int TVMBackendFreeWorkspace(int device_type, int device_id, void *pointer) {
  (void)device_type, (void)device_id;
  --live;
  free(pointer);
  return 0;
}
"""


@dataclass(frozen=True, kw_only=True)
class Build:
    """A compiler and the rule the kernels are built with."""

    cc: str
    vector: bool
    flags: tuple[str, ...] = ()
    #: Core of the host emulation: kernels in C7x code take the place of the reference where they exist.
    core: str | None = None


BUILDS = {
    "scalar": Build(cc="gcc", vector=False),
    # With the processor's fused multiply-add at hand, which must not be used.
    "vector": Build(cc="gcc", vector=True, flags=("-march=native",)),
    "clang": Build(cc="clang", vector=True, flags=("-march=native",)),
    "C7524": Build(cc="gcc", vector=True, core="C7524"),
    "C7100": Build(cc="gcc", vector=True, core="C7100"),
}


def _optimise() -> tuple[str, ...]:
    return ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all") if SANITIZE else ("-O3",)


def _command(build: Build) -> list[str]:
    rule = f"-DC7X_KERNELS_VECTOR_RULE={int(build.vector)}" if build.core is None else "-DC7X_KERNELS_C7X=1"
    return [build.cc, *C_FLAGS[2:], *KERNEL_FLAGS, *WARNINGS, *_optimise(), rule, *build.flags, *kernel_includes()]


class Kernels:
    """The kernels of one build; called with the arguments of the signature, arrays for pointers."""

    def __init__(self, folder: Path, build: Build) -> None:
        self.vector = build.vector
        self.core = build.core
        (folder / "workspace.c").write_text(WORKSPACE, encoding="utf-8")
        sources = [str(native_dir() / name) for name in KERNEL_SOURCES]
        if build.core is not None:
            sources += core_objects(folder, build.core, _optimise())
        subprocess.run(
            # Bsymbolic: TVM, once loaded, offers the same workspace functions to the whole process.
            [*_command(build), "-D_POSIX_C_SOURCE=200809L", "-shared", "-fPIC", "-Wl,-Bsymbolic", *sources,
             str(folder / "workspace.c"), "-o", str(folder / "kernels.so"), "-lm"],
            check=True,
        )  # fmt: skip
        self.library = ctypes.CDLL(str(folder / "kernels.so"))

    def status(self, symbol: str, args: Sequence[Any]) -> int:
        converted: list[Any] = []
        for argument, value in zip(FIRMWARE[symbol].arguments, args, strict=True):
            if not argument.is_pointer:
                converted.append(ctypes.c_int32(value) if argument.kind == "int32" else ctypes.c_float(value))
            elif value is None:
                converted.append(ctypes.c_void_p(None))
            else:
                assert str(value.dtype) == argument.dtype, (symbol, argument.name, value.dtype)
                assert value.flags.c_contiguous
                converted.append(ctypes.c_void_p(value.ctypes.data))
        function = getattr(self.library, symbol)
        function.restype = ctypes.c_int32
        return int(function(*converted))

    def run(self, symbol: str, *args: Any) -> tuple[np.ndarray, ...]:
        """Args as ``status``, a shape (tuple) for an output; returns the outputs. Inputs get memory of their own."""
        guards: list[Guarded] = []
        given: list[Any] = []
        kept: list[tuple[np.ndarray, np.ndarray]] = []
        for argument, value in zip(FIRMWARE[symbol].arguments, args, strict=True):
            if argument.kind == "out":
                blank = np.full(int(np.prod(value)) * np.dtype(argument.dtype).itemsize, 0xA5, np.uint8)
                guards.append(Guarded(blank.view(argument.dtype).reshape(value)))
                given.append(guards[-1].array)
            elif isinstance(value, np.ndarray):
                kept.append((value, value.copy()))
                given.append(kept[-1][1])
            else:
                given.append(value)
        assert self.status(symbol, given) == 0
        for guard in guards:
            guard.check()
        for before, after in kept:
            np.testing.assert_array_equal(after.view(np.uint8), np.ascontiguousarray(before).view(np.uint8))
        assert self.library.test_live() == 0
        return tuple(g.array for g in guards)


@pytest.fixture(
    scope="module",
    params=["vector", "C7524"]
    if SANITIZE
    else [pytest.param(name, marks=[pytest.mark.slow] if name == "C7100" else []) for name in sorted(BUILDS)],
)
def kernels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    build = BUILDS[request.param]
    for compiler in (build.cc, *(("g++",) if build.core else ())):
        if shutil.which(compiler) is None:
            pytest.skip(f"{compiler} is not installed")
    return Kernels(tmp_path_factory.mktemp("kernels"), build)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Models divide by zero and overflow on purpose."""
    with np.errstate(all="ignore"):
        yield


def same(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bits; one NaN is as good as another."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if got.dtype == np.float32:
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.isnan(got), ~number)
        np.testing.assert_array_equal(got[number].view(np.uint32), want[number].view(np.uint32))
    else:
        np.testing.assert_array_equal(got, want)


def same_or_next(kernels: Kernels, got: np.ndarray, want: np.ndarray) -> None:
    """Equal bits, or neighbours where C7x code sums in another order than the definition."""
    if kernels.core is None:
        same(got, want)
    else:
        assert np.abs(got.astype(np.int32) - want).max(initial=0) <= 1


def int8(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)


def int16(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-(2**15), 2**15, shape).astype(np.int16)


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


# --- elementwise ------------------------------------------------------------------------------------------------------

SIZES = (0, 1, 7, 8, 9, 31, 256, 1000)
INF, NAN = float("inf"), float("nan")
#: (zx, sx, zy, sy): ordinary, zero points at the ends, scales tiny, huge, zero and no number, zero points out of range.
QUANTISATIONS = (
    (0, 0.05, 0, 0.05),
    (-11, 0.0371, 13, 0.0213),
    (-128, 0.1, -128, 0.02),
    (127, 0.03, 127, 0.9),
    (-128, 0.0625, 127, 0.0078125),
    (5, 1e-30, -7, 1e30),
    (3, 1e30, -3, 1e-30),
    (1, 1e-45, 1, 3e38),
    (1, 0.0, 2, 0.1),
    (1, 0.1, 2, 0.0),
    (0, INF, 0, 1.0),
    (0, NAN, 5, 1.0),
    (0, -0.5, 0, 0.25),
    (3, 3000.0, -3, 0.1),
    (3, -3000.0, -3, 0.1),
    (INT32_MAX, 0.5, INT32_MIN, 0.5),
    (INT32_MIN, 1e9, INT32_MAX, 1e-9),
)


def bytes_of_size(n: int) -> np.ndarray:
    return np.random.default_rng(n).permutation(np.arange(n) - 128).astype(np.int8)


@pytest.mark.parametrize("name", ["gelu", "silu", "hardswish", "hardsigmoid", "rescale"])
def test_maps(kernels: Kernels, name: str) -> None:
    symbol = f"c7x_int8_{name}"
    model: Callable[..., np.ndarray] = getattr(models, symbol)
    rule = {} if name == "rescale" else {"vector": kernels.vector}
    for zx, sx, zy, sy in QUANTISATIONS:
        for n in SIZES:
            x = bytes_of_size(n)
            (got,) = kernels.run(symbol, x, (n,), n, zx, sx, zy, sy)
            same(got, model(x, zx=zx, sx=sx, zy=zy, sy=sy, **rule))


def test_silu_f32out(kernels: Kernels) -> None:
    for zx, sx, _, _ in QUANTISATIONS:
        for n in SIZES:
            x = bytes_of_size(n)
            (got,) = kernels.run("c7x_int8_silu_f32out", x, (n,), n, zx, sx)
            same(got, models.c7x_int8_silu_f32out(x, zx=zx, sx=sx, vector=kernels.vector))


def test_rounding_is_trunc_after_adding_a_half(kernels: Kernels) -> None:
    """-0.5 becomes 0 and -1.5 becomes -1, where rounding to nearest gives 0 or -1, and -2."""
    x = np.array([-3, -2, -1, 0, 1, 2, 3], np.int8)
    (got,) = kernels.run("c7x_int8_hardswish", x, (7,), 7, 0, 3.0, 0, 6.0)
    assert got.tolist() == [0, 0, 0, 0, 1, 1, 2]
    (got,) = kernels.run("c7x_int8_avg_pool", x.reshape(1, 7, 1, 1), (1, 7, 1, 1), 1, 7, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0,
                         0, 0.5, 0, 1.0)  # fmt: skip
    assert got.ravel().tolist() == [-1, 0, 0, 0, 1, 1, 2]


def test_asr_is_a_floor(kernels: Kernels) -> None:
    x = np.array([-3, -2, -1, 0, 1, 2, 3], np.int8)
    (got,) = kernels.run("c7x_int8_requantize_clamp", x, (7,), 7, 0.5, -128, 127)
    assert got.tolist() == [-2, -1, -1, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("lo", "hi"), [(0, 6), (-128, 127), (5, -5), (-300, 300), (200, 300), (-300, -200), (INT32_MIN, INT32_MAX)]
)
def test_clips(kernels: Kernels, lo: int, hi: int) -> None:
    for n in SIZES:
        x = bytes_of_size(n)
        same(kernels.run("c7x_int8_relu", x, (n,), n, lo)[0], models.c7x_int8_relu(x, clip_lo=lo))
        same(kernels.run("c7x_int8_clamp", x, (n,), n, lo, hi)[0], models.c7x_int8_clamp(x, lo=lo, hi=hi))
        for scale in (0.0, 1e-30, 0.3, 1.0, 7.77, 1e30, -0.4, INF, NAN):
            (got,) = kernels.run("c7x_int8_requantize_clamp", x, (n,), n, scale, lo, hi)
            same(got, models.c7x_int8_requantize_clamp(x, combined_scale=scale, lo=lo, hi=hi))


def float_inputs(n: int) -> np.ndarray:
    rng = np.random.default_rng(n)
    x = floats(rng, n) * np.float32(60)
    x[::3] = np.rint(x[::3]) + np.float32(0.5)
    special = np.array(
        [NAN, INF, -INF, 0.49999997, -0.49999997, -0.0, 127.49999, 127.5, -128.5, 1e30, -1e30], np.float32
    )
    x[: n // 4] = np.resize(special, n // 4)
    return rng.permutation(x)


@pytest.mark.parametrize(
    ("scale", "zp"), [(1.0, 0), (0.5, 0), (1.7, -128), (3.3, 127), (1e-38, 3), (1e38, 3), (0.0, 9), (INF, 0), (NAN, 1)]
)
def test_quantize(kernels: Kernels, scale: float, zp: int) -> None:
    for n in SIZES:
        x = float_inputs(n)
        (got,) = kernels.run("c7x_int8_quantize", x, (n,), n, scale, zp)
        same(got, models.c7x_int8_quantize(x, inv_scale=scale, zp=zp, vector=kernels.vector))
        batch = x[: n - n % 6].reshape(2, 3, -1)
        inv, off = (scale, 0.5, -2.0), (float(zp), 0.25, -3.7)
        pairs = [v for pair in zip(inv, off, strict=True) for v in pair]
        (got,) = kernels.run("c7x_int8_quantize_rgb", batch, batch.shape, 2, batch.shape[2], *pairs)
        same(got, models.c7x_int8_quantize_rgb(batch, inv_scales=inv, offsets=off, vector=kernels.vector))


def test_quantize_halves(kernels: Kernels) -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.5, -3.5, 0.5], np.float32)
    (got,) = kernels.run("c7x_int8_quantize", x, (9,), 9, 1.0, 0)
    away = [1, 2, 3, -1, -2, -3, 4, -4, 1]
    even = [0, 2, 2, 0, -2, -2, 4, -4, 1]
    assert got.tolist() == (even if kernels.vector else away)


@pytest.mark.parametrize(
    ("s_exc", "z_exc", "s_feat", "z_feat", "s_out", "z_out"),
    [
        (1 / 256, -128, 0.05, 3, 0.04, -5), (0.1, 127, 0.1, -128, 0.01, 127), (1e20, 0, 1e10, 5, 1e-9, 1),
        (0.0, 0, 1.0, 0, 1.0, 7), (1.0, 0, 1.0, INT32_MAX, 1e-6, INT32_MIN),
    ],
)  # fmt: skip
def test_channel_scale_multiply(
    kernels: Kernels, s_exc: float, z_exc: int, s_feat: float, z_feat: int, s_out: float, z_out: int
) -> None:
    rng = np.random.default_rng(1)
    for c, hw in ((0, 4), (3, 0), (1, 1), (5, 7), (4, 64)):
        gate, x = int8(rng, c), int8(rng, c, hw)
        (got,) = kernels.run(
            "c7x_int8_channel_scale_multiply", gate, x, (c, hw), c, hw, s_exc, z_exc, s_feat, z_feat, s_out, z_out
        )
        want = models.c7x_int8_channel_scale_multiply(
            gate, x, s_exc=s_exc, z_exc=z_exc, s_feat=s_feat, z_feat=z_feat, s_out=s_out, z_out=z_out
        )
        same(got, want)


def test_elementwise_kernels_work_in_place(kernels: Kernels) -> None:
    for symbol, scalars in (
        ("c7x_int8_gelu", (3, 0.1, -4, 0.05)), ("c7x_int8_silu", (3, 0.1, -4, 0.05)), ("c7x_int8_relu", (5,)),
        ("c7x_int8_clamp", (-3, 9)), ("c7x_int8_rescale", (3, 0.1, -4, 0.05)), ("c7x_int8_rescale", (3, 0.1, 3, 0.1)),
        ("c7x_int8_requantize_clamp", (0.7, -9, 9)),
    ):  # fmt: skip
        x = bytes_of_size(100)
        (want,) = kernels.run(symbol, x, (100,), 100, *scalars)
        assert kernels.status(symbol, [x, x, 100, *scalars]) == 0
        same(x, want)


# --- pooling, normalisation, movement ---------------------------------------------------------------------------------

#: (N, C, H, W), output, kernel, stride, padding.
POOLS: tuple[tuple[tuple[int, ...], tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int]], ...] = (
    ((1, 2, 7, 9), (3, 4), (3, 3), (2, 2), (0, 0)),
    ((2, 3, 8, 8), (4, 4), (3, 3), (2, 2), (1, 1)),
    ((1, 1, 112, 56), (56, 28), (3, 3), (2, 2), (1, 1)),
    ((1, 2, 5, 5), (5, 5), (5, 5), (1, 1), (2, 2)),
    ((1, 2, 6, 7), (4, 3), (2, 3), (2, 3), (0, 1)),
    ((1, 1, 1, 1), (1, 1), (1, 1), (1, 1), (0, 0)),
    ((1, 2, 5, 5), (3, 3), (2, 2), (2, 2), (0, 0)),
    ((1, 1, 4, 4), (6, 7), (2, 2), (1, 1), (1, 2)),
    ((1, 1, 3, 3), (4, 4), (1, 1), (3, 3), (4, 4)),
    ((1, 1, 2, 2), (9, 9), (3, 3), (1, 1), (4, 4)),
    ((1, 2, 13, 11), (3, 3), (5, 4), (4, 4), (1, 2)),
    ((0, 2, 3, 3), (1, 1), (3, 3), (1, 1), (0, 0)),
)


@pytest.mark.parametrize("symbol", ["c7x_int8_max_pool", "c7x_int8_max_pool_tidl"])
@pytest.mark.parametrize(("shape", "out", "k", "s", "p"), POOLS)
def test_max_pool(kernels: Kernels, symbol: str, shape: Any, out: Any, k: Any, s: Any, p: Any) -> None:
    rng = np.random.default_rng(2)
    for x in (int8(rng, *shape), rng.integers(-128, 0, shape).astype(np.int8), np.full(shape, -128, np.int8)):
        (got,) = kernels.run(symbol, x, (*shape[:2], *out), *shape, *out, *k, *s, *p)
        same(got, getattr(models, symbol)(x, out_hw=out, k=k, s=s, p=p))


#: Around the fast path: its smallest and largest sizes, and one beyond.
AVERAGES = (
    *POOLS,
    *(((1, 2, h, w), (h, w), (3, 3), (1, 1), (1, 1)) for h, w in ((3, 3), (3, 40), (40, 5), (41, 5), (2, 7), (7, 7))),
    ((1, 1, 5, 5), (5, 4), (3, 3), (1, 1), (1, 1)),
)


@pytest.mark.parametrize(("shape", "out", "k", "s", "p"), AVERAGES)
def test_avg_pool(kernels: Kernels, shape: Any, out: Any, k: Any, s: Any, p: Any) -> None:
    rng = np.random.default_rng(3)
    for zx, sx, zy, sy in QUANTISATIONS:
        x = int8(rng, *shape)
        (got,) = kernels.run(
            "c7x_int8_avg_pool", x, (*shape[:2], *out), *shape, *out, *k, *s, *p, zx, sx, zy, sy
        )  # fmt: skip
        same(got, models.c7x_int8_avg_pool(x, out_hw=out, k=k, s=s, p=p, zx=zx, sx=sx, zy=zy, sy=sy))


def test_average_factor_is_divided_by_nine_and_then_by_the_scale(kernels: Kernels) -> None:
    """In the order of the definition: with these scales any other gives another Q13 factor."""
    x = np.random.default_rng(20).integers(-20, 20, (1, 8, 40, 40)).astype(np.int8)
    sx, sy = 7.401, 2.03
    assert models.q13(np.float32(sx) / np.float32(9) / np.float32(sy)) == 3319
    assert models.q13(np.float32(sx) / (np.float32(9) * np.float32(sy))) == 3318
    shape = (1, 8, 40, 40, 40, 40, 3, 3, 1, 1, 1, 1)
    (got,) = kernels.run("c7x_int8_avg_pool", x, x.shape, *shape, 0, sx, 0, sy)
    same(got, models.c7x_int8_avg_pool(x, out_hw=(40, 40), k=(3, 3), s=(1, 1), p=(1, 1), zx=0, sx=sx, zy=0, sy=sy))


@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1), (2, 3, 7, 7), (1, 5, 8, 9), (1, 2, 33, 31), (0, 4, 3, 3), (1, 0, 3, 3)]
)
def test_global_avg_pool(kernels: Kernels, shape: tuple[int, int, int, int]) -> None:
    rng = np.random.default_rng(4)
    for zx, sx, zy, sy in QUANTISATIONS:
        for x in (int8(rng, *shape), np.full(shape, -128, np.int8)):
            (got,) = kernels.run("c7x_int8_global_avg_pool", x, shape[:2], *shape, zx, sx, zy, sy)
            same(got, models.c7x_int8_global_avg_pool(x, zx=zx, sx=sx, zy=zy, sy=sy))


@pytest.mark.parametrize(("outer", "norm"), [(0, 4), (3, 1), (2, 7), (2, 8), (3, 9), (4, 96), (2, 768)])
def test_layer_norm(kernels: Kernels, outer: int, norm: int) -> None:
    rng = np.random.default_rng(5)
    w, b = floats(rng, norm), floats(rng, norm)
    for zx, sx, zy, sy in QUANTISATIONS:
        for x in (int8(rng, outer, norm), np.full((outer, norm), 7, np.int8)):
            for eps in (1e-5, 0.0):
                (got,) = kernels.run("c7x_int8_layer_norm", x, w, b, x.shape, outer, norm, eps, zx, sx, zy, sy)
                same_or_next(kernels, got, models.c7x_int8_layer_norm(x, w, b, eps=eps, zx=zx, sx=sx, zy=zy, sy=sy))


def test_layer_norm_to_the_last_bit(kernels: Kernels) -> None:
    """A bias that cancels the normalised row, and a scale that shows what is left: nothing, unless a step differs."""
    x = int8(np.random.default_rng(21), 1, 500)
    v = models.dq(x, 3, 0.37)
    total = np.float32(0)
    for value in v[0]:
        total = np.float32(total + value)
    d = v - total / np.float32(500)
    squares = np.float32(0)
    for value in d[0]:
        squares = np.float32(squares + value * value)
    w = floats(np.random.default_rng(22), 500)
    bias = -(d / np.sqrt(squares / np.float32(500) + np.float32(1e-5)) * w)[0]
    (got,) = kernels.run("c7x_int8_layer_norm", x, w, bias, x.shape, 1, 500, 1e-5, 3, 0.37, 4, 1e-12)
    assert (got == 4).all()


@pytest.mark.parametrize(("c", "h", "w"), [(0, 2, 2), (1, 0, 3), (2, 3, 0), (1, 1, 1), (3, 5, 7), (2, 8, 16)])
def test_resize_and_fpn(kernels: Kernels, c: int, h: int, w: int) -> None:
    rng = np.random.default_rng(6)
    x = int8(rng, c, h, w)
    (got,) = kernels.run("c7x_int8_resize2d_nearest2x", x, (c, 2 * h, 2 * w), c, h, w)
    same(got, models.c7x_int8_resize2d_nearest2x(x))
    for zx, sx, zy, sy in QUANTISATIONS:
        for c2 in (0, 1, 5):
            y = int8(rng, c2, 2 * h, 2 * w)
            args = (x, c, h, w, zx, sx, y, c2, zy, sy)
            shape = (c + c2, 2 * h, 2 * w)
            names: dict[str, Any] = {"z1": zx, "s1": sx, "z2": zy, "s2": sy, "s_out": 0.03, "z_out": -9}
            (got,) = kernels.run("c7x_int8_fpn_upsample_concat", *args, shape, 0.03, -9)
            same(got, models.c7x_int8_fpn_upsample_concat(x, y, **names))
            results = kernels.run("c7x_int8_fpn_upsample_concat_ex", *args, shape, 0.03, -9, x.shape)
            for result, want in zip(results, models.c7x_int8_fpn_upsample_concat_ex(x, y, **names), strict=True):
                same(result, want)


@pytest.mark.parametrize("sizes", [(3, 5, 0, 0), (1, 2, 3, 4), (0, 0, 7, 1), (8, 0, 0, 0), (0, 0, 0, 0)])
@pytest.mark.parametrize("other", [1, 7, 64])
def test_concat(kernels: Kernels, sizes: tuple[int, ...], other: int) -> None:
    rng = np.random.default_rng(7)
    for first in range(len(QUANTISATIONS)):
        parts = [QUANTISATIONS[(first + k) % len(QUANTISATIONS)] for k in range(4)]
        scales, zeros = [q[1] for q in parts], [q[0] for q in parts]
        rows = [int8(rng, n, other) for n in sizes]
        args = [v for x, s, z in zip(rows, scales, zeros, strict=True) for v in (x if len(x) else None, len(x), s, z)]
        s_out, z_out = scales[0], zeros[0]
        (got,) = kernels.run("c7x_int8_concat_rescale", *args, (sum(sizes), other), other, s_out, z_out)
        same(got, models.c7x_int8_concat_rescale(list(zip(rows, scales, zeros, strict=True)), s_out=s_out, z_out=z_out))
        columns = [int8(rng, other, n) for n in sizes]
        args = [
            v for x, s, z in zip(columns, scales, zeros, strict=True)
            for v in (x if x.shape[1] else None, x.shape[1], s, z)
        ]  # fmt: skip
        (got,) = kernels.run("c7x_int8_concat_sigmoid", *args, (other, sum(sizes)), other)
        same(got, models.c7x_int8_concat_sigmoid(list(zip(columns, scales, zeros, strict=True))))


@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1), (2, 4, 16, 5), (1, 4, 16, 21), (2, 4, 16, 32), (1, 3, 1, 9), (1, 2, 3, 0), (0, 4, 16, 3)]
)
def test_dfl_softmax(kernels: Kernels, shape: tuple[int, int, int, int]) -> None:
    rng = np.random.default_rng(8)
    b, a, k, n = shape
    for zx, sx, zy, sy in (*QUANTISATIONS[:10], (0, 0.1, -128, 1 / 256)):
        x = int8(rng, *shape)
        (got,) = kernels.run("c7x_int8_dfl_softmax", x, (b, k, a, n), *shape, zx, sx, zy, sy)
        same_or_next(kernels, got, models.c7x_int8_dfl_softmax(x, zx=zx, sx=sx, zy=zy, sy=sy))


# --- residual add -----------------------------------------------------------------------------------------------------


def residual_params(m: tuple[int, int], shift: int, zp: tuple[int, int, int]) -> np.ndarray:
    return np.frombuffer(struct.pack("<iiibbbx", *m, shift, *zp), np.uint8)


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(
    ("m", "shift", "zp"),
    [
        ((32768, 32768), 15, (0, 0, 0)), ((12345, 54321), 15, (-128, 127, 5)), ((-20000, 40000), 15, (3, -4, -128)),
        ((INT32_MAX, INT32_MAX), 15, (-128, -128, 127)), ((INT32_MIN, INT32_MIN), 0, (127, 127, -128)),
        ((2105376, 0), 20, (127, 0, 0)), ((2105377, 2105376), 31, (127, 1, 0)), ((1, 0), 0, (0, 0, 0)),
        ((7, -9), 31, (1, 2, 3)),
        ((12000000, 12000000), 25, (-128, -128, 0)), ((-9000000, -9000000), 25, (-128, -128, 0)),
        ((INT32_MIN, 5), 63, (1, 2, 3)), ((-5, 5), 1000, (1, 2, 3)), ((0, 0), 0, (0, 0, -7)),
    ],
)  # fmt: skip
def test_residual_add(
    kernels: Kernels, bits: int, relu: bool, m: tuple[int, int], shift: int, zp: tuple[int, int, int]
) -> None:
    rng = np.random.default_rng(9)
    for n in SIZES:
        make = int8 if bits == 8 else int16
        x, skip = make(rng, n), make(rng, n)
        x[: n // 3] = -(1 << (bits - 1))
        skip[n // 6 : n // 2] = -(1 << (bits - 1))
        symbol = f"c7x_int{bits}_residual_add_relu"
        (got,) = kernels.run(symbol, x, skip, residual_params(m, shift, zp), (n,), n, int(relu))
        same(got, getattr(models, symbol)(x, skip, m=m, shift=shift, zp=zp, relu=relu))


# --- float ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 8, 1), (1, 16, 7), (2, 64, 8), (3, 24, 9), (1, 264, 33), (0, 8, 3), (2, 0, 3)]
)
def test_vecmatmul(kernels: Kernels, m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(10)
    a, w, scale = floats(rng, m, k), int8(rng, n, k), floats(rng, n)
    (got,) = kernels.run("c7x_dequantize_vecmatmul", a, w, scale, (m, n), m, k, n)
    same(got, models.c7x_dequantize_vecmatmul(a, w, scale))


@pytest.mark.parametrize(
    ("q_heads", "kv_heads", "dim", "length"), [(1, 1, 8, 1), (4, 2, 64, 17), (6, 6, 16, 9), (8, 1, 128, 1024)]
)
def test_sdpa_decode(kernels: Kernels, q_heads: int, kv_heads: int, dim: int, length: int) -> None:
    rng = np.random.default_rng(11)
    q, k, v = floats(rng, q_heads, dim) * 3, floats(rng, kv_heads, length, dim), floats(rng, kv_heads, length, dim)
    for visible in (length, (length + 1) // 2, 0):
        mask = np.where(np.arange(length) < visible, 0.0, -np.inf).astype(np.float32)
        (got,) = kernels.run("c7x_sdpa_decode", q, k, v, mask, q.shape, q_heads, kv_heads, dim, length)
        same(got, models.c7x_sdpa_decode(q, k, v, mask))


@pytest.mark.parametrize(
    ("batch", "n", "k"), [(1, 1, 1), (3, 7, 7), (2, 100, 5), (2, 300, 299), (0, 4, 2), (1, 1000, 1)]
)
def test_topk(kernels: Kernels, batch: int, n: int, k: int) -> None:
    rng = np.random.default_rng(12)
    ties = rng.integers(-3, 3, (batch, n)).astype(np.float32)
    special = rng.choice(np.array([NAN, INF, -INF, 0.0, -0.0, 1.0], np.float32), (batch, n))
    for x in (floats(rng, batch, n), ties, special, np.zeros((batch, n), np.float32)):
        values, indices = kernels.run("c7x_topk", x, (batch, k), (batch, k), batch, n, k)
        want_values, want_indices = models.c7x_topk(x, k)
        same(values, want_values)
        same(indices, want_indices)


# --- MMALIB -----------------------------------------------------------------------------------------------------------


def wide_of(symbol: str) -> bool:
    return symbol.endswith("_i16")


def data_for(symbol: str, rng: np.random.Generator, *shape: int) -> np.ndarray:
    return int16(rng, *shape) if wide_of(symbol) else int8(rng, *shape)


def channel_parameters(rng: np.random.Generator, n: int, wide: bool, kind: str) -> tuple[Any, Any, Any]:
    """bias, scale, shift: ``plain`` brings sums back into range, ``extreme`` takes every value there is."""
    if kind == "null":
        return None, None, None
    if kind == "plain":
        bias = rng.integers(-5000, 5000, n).astype(np.int64 if wide else np.int32)
        return bias, rng.integers(1, 128, n).astype(np.uint8), rng.integers(8, 31, n).astype(np.uint8)
    if kind == "no scale":
        return rng.integers(-50, 50, n).astype(np.int64 if wide else np.int32), None, np.full(n, 7, np.uint8)
    edges = np.array([INT32_MIN, INT32_MAX, 0, -1], np.int64)
    if wide:
        edges = np.array([-(2**63), 2**63 - 1, 2**56, -(2**55), 2**40, -1, 0], np.int64)
    bias = rng.choice(edges, n).astype(np.int64 if wide else np.int32)
    scale = rng.choice(np.array([0, 1, 2, 127, 128, 129, 255], np.uint8), n)
    shift = rng.choice(np.array([0, 1, 15, 31, 32, 38, 46, 62, 63, 64, 65, 255], np.uint8), n)
    return bias, scale, shift


KINDS = ("plain", "null", "no scale", "extreme")
#: C_in, H, W, C_out, (KH, KW), stride, (top, bottom, left, right).
CONVS = (
    (1, 1, 1, 1, (1, 1), (1, 1), (0, 0, 0, 0)),
    (3, 9, 11, 5, (3, 3), (1, 1), (1, 1, 1, 1)),
    (3, 15, 15, 8, (7, 7), (2, 2), (3, 3, 3, 3)),
    (16, 6, 5, 9, (1, 1), (1, 1), (0, 0, 0, 0)),
    (7, 8, 8, 4, (1, 1), (2, 2), (0, 0, 0, 0)),
    (5, 7, 6, 3, (2, 4), (1, 3), (0, 1, 2, 0)),
    (2, 3, 3, 6, (5, 5), (1, 1), (4, 3, 2, 5)),
    (33, 4, 4, 13, (3, 1), (2, 1), (1, 0, 0, 0)),
    (128, 12, 12, 6, (3, 3), (1, 1), (1, 1, 1, 1)),
)


def convolve(
    kernels: Kernels, symbol: str, x: np.ndarray, w: np.ndarray, qr: Any, s: Any, pads: Any, *more: int
) -> Any:
    c, h, width = x.shape
    out = tuple((n + a + b - k) // step + 1 for n, a, b, k, step in
                ((h, *pads[:2], w.shape[2], s[0]), (width, *pads[2:], w.shape[3], s[1])))  # fmt: skip
    first = (c, h, width) if "depthwise" in symbol else (c, h, width, w.shape[0])
    return kernels.run(symbol, x, w, *qr, (w.shape[0], *out), *first, *w.shape[2:], *s, *pads, *more)[0]


@pytest.mark.parametrize("symbol", ["mmalib_conv2d_i8", "mmalib_conv2d_i16"])
@pytest.mark.parametrize("kind", KINDS)
def test_conv2d(kernels: Kernels, symbol: str, kind: str) -> None:
    rng = np.random.default_rng(13)
    for c, h, width, o, k, s, pads in CONVS:
        x, w = data_for(symbol, rng, c, h, width), data_for(symbol, rng, o, c, *k)
        qr = channel_parameters(rng, o, wide_of(symbol), kind)
        same(convolve(kernels, symbol, x, w, qr, s, pads), models.mmalib_conv2d(x, w, *qr, s=s, pads=pads))


@pytest.mark.parametrize(("symbol", "c"), [("mmalib_conv2d_i8", 140000), ("mmalib_conv2d_i16", 5000)])
def test_long_sums(kernels: Kernels, symbol: str, c: int) -> None:
    """An int32 sum wraps, an int64 sum reaches 2^42."""
    dtype = np.int16 if wide_of(symbol) else np.int8
    least = np.iinfo(dtype).min
    for a, b in ((least, least), (least, np.iinfo(dtype).max)):
        x, w = np.full((c, 1, 1), a, dtype), np.full((2, c, 1, 1), b, dtype)
        qr = (None, None, np.array([24, 30], np.uint8))
        got = convolve(kernels, symbol, x, w, qr, (1, 1), (0, 0, 0, 0))
        same(got, models.mmalib_conv2d(x, w, *qr, s=(1, 1), pads=(0, 0, 0, 0)))


@pytest.mark.parametrize("symbol", ["mmalib_conv2d_i8", "mmalib_conv2d_i16", "mmalib_depthwise_conv2d_i8"])
def test_random_convolutions(kernels: Kernels, symbol: str) -> None:
    rng = np.random.default_rng(14)
    for _ in range(40):
        depthwise = "depthwise" in symbol
        c, h, width, o = (int(v) for v in rng.integers(1, 20, 4))
        k = (int(rng.choice([3, 5, 7])),) * 2 if depthwise else tuple(int(v) for v in rng.integers(1, 6, 2))
        s = tuple(int(v) for v in rng.integers(1, 3 if depthwise else 5, 2))
        pads = [int(v) for v in rng.integers(0, 5, 4)]
        pads[1] += max(0, k[0] - h - pads[0] - pads[1])
        pads[3] += max(0, k[1] - width - pads[2] - pads[3])
        groups = c if depthwise else 1
        o = c if depthwise else o
        x, w = data_for(symbol, rng, c, h, width), data_for(symbol, rng, o, c // groups, *k)
        qr = channel_parameters(rng, o, wide_of(symbol), "plain")
        got = convolve(kernels, symbol, x, w, qr, s, tuple(pads), *([c] if depthwise else []))
        same(got, models.mmalib_conv2d(x, w, *qr, s=(s[0], s[1]), pads=tuple(pads), groups=groups))  # type: ignore[arg-type]


@pytest.mark.parametrize("symbol", ["mmalib_depthwise_conv2d_i8", "mmalib_depthwise_conv2d_i16"])
@pytest.mark.parametrize("kind", KINDS)
def test_depthwise(kernels: Kernels, symbol: str, kind: str) -> None:
    rng = np.random.default_rng(15)
    for k in (3,) if wide_of(symbol) else (3, 5, 7):
        for s in ((1, 1), (2, 2), (1, 2), (2, 1)):
            for c, h, width, pad in ((1, k, k, 0), (5, 9, 7, k // 2), (3, 16, 33, 1)):
                x, w = data_for(symbol, rng, c, h, width), data_for(symbol, rng, c, 1, k, k)
                qr = channel_parameters(rng, c, wide_of(symbol), kind)
                pads = (pad, pad, pad, pad)
                got = convolve(kernels, symbol, x, w, qr, s, pads, c)
                same(got, models.mmalib_conv2d(x, w, *qr, s=s, pads=pads, groups=c))


@pytest.mark.parametrize(("c", "o", "groups"), [(4, 4, 2), (6, 9, 3), (16, 8, 8)])
def test_grouped_loop(kernels: Kernels, c: int, o: int, groups: int) -> None:
    rng = np.random.default_rng(16)
    x, w = int8(rng, c, 9, 7), int8(rng, o, c // groups, 3, 3)
    qr = channel_parameters(rng, o, False, "plain")
    got = convolve(kernels, "mmalib_conv2d_i8_grouped_loop", x, w, qr, (2, 2), (1, 1, 1, 1), groups)
    want = models.mmalib_conv2d(x, w, *qr, s=(2, 2), pads=(1, 1, 1, 1), groups=groups)
    same(got, want)
    # The last group finds no workspace: the groups before it stay, the rest is zeros.
    out = np.full_like(want, 55)
    kernels.library.test_workspace(groups - 1)
    try:
        args = [x, w, *qr, out, c, 9, 7, o, 3, 3, 2, 2, 1, 1, 1, 1, groups]
        assert kernels.status("mmalib_conv2d_i8_grouped_loop", args) == -1
    finally:
        kernels.library.test_workspace(-1)
    done = o - o // groups
    same(out[:done], want[:done])
    assert (out[done:] == 0).all()


@pytest.mark.parametrize("kind", ["plain", "null"])
def test_sliced(kernels: Kernels, kind: str) -> None:
    rng = np.random.default_rng(17)
    x, w = int8(rng, 5, 8, 8), int8(rng, 12, 5, 3, 3)
    bias, scale, shift = channel_parameters(rng, 12, False, kind)
    want = models.mmalib_conv2d(x, w, bias, scale, shift, s=(1, 1), pads=(1, 1, 1, 1))
    whole = np.full_like(want, 55)
    for start, tile in ((4, 8), (0, 3), (3, 1)):
        args = [
            x,
            w[start : start + tile].copy(),
            bias,
            scale,
            shift,
            whole,
            5,
            8,
            8,
            tile,
            3,
            3,
            1,
            1,
            1,
            1,
            1,
            1,
            start,
        ]
        assert kernels.status("mmalib_conv2d_i8_sliced", args) == 0
        same(whole[start : start + tile], want[start : start + tile])
    same(whole, want)


@pytest.mark.parametrize("symbol", ["mmalib_matmul_i8", "mmalib_matmul_i16"])
def test_matmul(kernels: Kernels, symbol: str) -> None:
    rng = np.random.default_rng(18)
    step = 16 if wide_of(symbol) else 64
    for m, k, n in ((1, 1, 1), (2, 1, 3), (1, 5, 2)):
        a, b = data_for(symbol, rng, m * step, k * step), data_for(symbol, rng, k * step, n * step)
        for shift in (0, 7, 13, 31, 40, 500):
            (got,) = kernels.run(symbol, a, b, (m * step, n * step), m * step, k * step, n * step, shift)
            same(got, models.mmalib_matmul(a, b, shift))


@pytest.mark.parametrize("symbol", ["mmalib_matmul_bias_i8", "mmalib_matmul_bias_i16"])
@pytest.mark.parametrize("kind", KINDS)
def test_matmul_bias(kernels: Kernels, symbol: str, kind: str) -> None:
    rng = np.random.default_rng(19)
    step = 16 if wide_of(symbol) else 32
    for m, k, n in ((1, 1, 1), (1, 16, 3), (7, 2, 2), (200, 3, 1)):
        x, w = data_for(symbol, rng, m, k * step), data_for(symbol, rng, n * step, k * step)
        qr = channel_parameters(rng, n * step, wide_of(symbol), kind)
        (got,) = kernels.run(symbol, x, w, *qr, (m, n * step), m, k * step, n * step)
        same(got, models.mmalib_matmul_bias(x, w, *qr))


# --- arguments --------------------------------------------------------------------------------------------------------

_Q = (1, 0.5, 2, 0.25)
_POOL = (1, 2, 6, 6, 3, 3, 2, 2, 2, 2, 0, 0)
_CONV = (4, 6, 6, 4, 3, 3, 1, 1, 1, 1, 1, 1)
_WINDOW_BAD = (
    ("H_in", 0), ("W_in", -1), ("KH", 0), ("KW", -3), ("KH", 9), ("KW", 9), ("stride_h", 0), ("stride_w", -1),
    ("pad_top", -1), ("pad_bottom", -1), ("pad_left", -1), ("pad_right", -1),
)  # fmt: skip
_POOL_BAD = (
    ("N", -1), ("C", -1), ("H_in", 0), ("W_in", 0), ("H_out", 0), ("W_out", -1), ("kH", 0), ("kW", 0), ("sH", 0),
    ("sW", 0), ("pH", -1), ("pW", -1),
)  # fmt: skip
_CONV_BAD = (("C_in", 0), ("C_out", 0), *_WINDOW_BAD)
_N = (("n", -1),)

#: By symbol: the scalars of a call that is accepted, and the single values that make it refused. Tensors are 8192
#: elements, enough for all of them.
CALLS: dict[str, tuple[tuple[float, ...], tuple[tuple[str, int], ...]]] = {
    **{f"c7x_int8_{n}": ((9, *_Q), _N) for n in ("gelu", "silu", "hardswish", "hardsigmoid", "rescale")},
    "c7x_int8_silu_f32out": ((9, 1, 0.5), _N),
    "c7x_int8_relu": ((9, 0), _N),
    "c7x_int8_clamp": ((9, 0, 6), _N),
    "c7x_int8_requantize_clamp": ((9, 0.5, 0, 6), _N),
    "c7x_int8_quantize": ((9, 2.0, 1), _N),
    "c7x_int8_quantize_rgb": ((1, 9, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0), (("N", -1), ("HW", -1))),
    "c7x_int8_channel_scale_multiply": ((3, 4, 0.1, 0, 0.1, 0, 0.1, 0), (("C", -1), ("HW", -1))),
    "c7x_int8_max_pool": (_POOL, _POOL_BAD),
    "c7x_int8_max_pool_tidl": (_POOL, _POOL_BAD),
    "c7x_int8_avg_pool": ((*_POOL, *_Q), _POOL_BAD),
    "c7x_int8_global_avg_pool": ((1, 2, 3, 4, *_Q), (("N", -1), ("C", -1), ("H", 0), ("W", -2), ("W", 0))),
    "c7x_int8_layer_norm": ((2, 8, 1e-5, *_Q), (("outer", -1), ("norm", 0), ("norm", -8))),
    "c7x_int8_resize2d_nearest2x": ((2, 3, 4), (("C", -1), ("H", -1), ("W", -1))),
    "c7x_int8_fpn_upsample_concat": (
        (2, 3, 4, 0, 0.1, 2, 0, 0.1, 0.1, 0), (("C1", -1), ("H", -1), ("W", -1), ("C2", -1)),
    ),
    "c7x_int8_fpn_upsample_concat_ex": (
        (2, 3, 4, 0, 0.1, 2, 0, 0.1, 0.1, 0), (("C1", -1), ("H", -1), ("W", -1), ("C2", -1)),
    ),
    "c7x_int8_concat_rescale": (
        (2, 0.1, 0, 2, 0.2, 0, 2, 0.3, 0, 2, 0.4, 0, 4, 0.1, 0),
        (("C1", -1), ("C2", -1), ("C3", -1), ("C4", -1), ("HW", -1)),
    ),
    "c7x_int8_concat_sigmoid": (
        (2, 0.1, 0, 2, 0.2, 0, 2, 0.3, 0, 2, 0.4, 0, 4),
        (("n1", -1), ("n2", -1), ("n3", -1), ("n4", -1), ("C", -1)),
    ),
    "c7x_int8_dfl_softmax": ((1, 4, 16, 3, *_Q), (("B", -1), ("A", -1), ("K", 0), ("N", -1))),
    "c7x_int8_residual_add_relu": ((9, 1), (("num_elements", -1),)),
    "c7x_int16_residual_add_relu": ((9, 1), (("num_elements", -1),)),
    "c7x_dequantize_vecmatmul": ((2, 8, 3), (("M", -1), ("K", -8), ("K", 12), ("N", -1))),
    "c7x_sdpa_decode": (
        (4, 2, 8, 16),
        (("num_q_heads", 3), ("num_q_heads", 0), ("num_kv_heads", 0), ("num_kv_heads", -1), ("num_kv_heads", 8),
         ("head_dim", 12), ("head_dim", 0), ("head_dim", 136), ("max_cache_len", 0), ("max_cache_len", 1025)),
    ),
    "c7x_topk": ((2, 9, 3), (("batch", -1), ("k", 0), ("k", -1), ("k", 10), ("n", 2))),
    "mmalib_matmul_i8": ((64, 64, 64, 7), (("M", 32), ("K", 0), ("K", 65), ("N", -64), ("shift", -1))),
    "mmalib_matmul_i16": ((16, 16, 16, 7), (("M", 8), ("K", 0), ("K", 17), ("N", -16), ("shift", -1))),
    "mmalib_matmul_bias_i8": ((1, 32, 32), (("M", 0), ("K", 16), ("K", 0), ("N", 33), ("N", -32))),
    "mmalib_matmul_bias_i16": ((1, 16, 16), (("M", 0), ("K", 8), ("K", 0), ("N", 17), ("N", -16))),
    "mmalib_conv2d_i8": (_CONV, _CONV_BAD),
    "mmalib_conv2d_i16": (_CONV, _CONV_BAD),
    "mmalib_conv2d_i8_sliced": (
        (*_CONV, 2), (("C_in", 0), ("C_out_tile", 0), *_WINDOW_BAD, ("oc_start", -1)),
    ),
    "mmalib_conv2d_i8_grouped_loop": (
        (*_CONV, 2),
        (*_CONV_BAD, ("groups", 1), ("groups", 4), ("groups", 3), ("groups", 0), ("groups", -2), ("C_out", 3)),
    ),
    "mmalib_depthwise_conv2d_i8": (
        (4, 6, 6, 3, 3, 1, 1, 1, 1, 1, 1, 4),
        (("channels", 0), *_WINDOW_BAD, ("KH", 5), ("stride_h", 3), ("stride_w", 3), ("num_groups", 2),
         ("num_groups", 8)),
    ),
    "mmalib_depthwise_conv2d_i16": (
        (4, 6, 6, 3, 3, 1, 1, 1, 1, 1, 1, 4),
        (("channels", 0), *_WINDOW_BAD, ("KH", 5), ("stride_h", 3), ("num_groups", 2)),
    ),
}  # fmt: skip

#: Kernels that take workspace.
WITH_WORKSPACE = {"c7x_int8_dfl_softmax", "c7x_topk"} | {symbol for symbol in FIRMWARE if symbol.startswith("mmalib_")}


def test_every_kernel_is_called() -> None:
    assert set(CALLS) == set(FIRMWARE)


def make_arguments(symbol: str) -> dict[str, Any]:
    rest = iter(CALLS[symbol][0])
    arguments: dict[str, Any] = {}
    for a in FIRMWARE[symbol].arguments:
        arguments[a.name] = np.full(8192, 1, a.dtype) if a.is_pointer else next(rest)
    assert next(rest, None) is None
    if "params" in arguments:
        arguments["params"] = residual_params((1, 1), 3, (0, 0, 0))
    return arguments


def refused(kernels: Kernels, symbol: str, arguments: dict[str, Any]) -> None:
    """-1, nothing written, no workspace kept."""
    before = {k: v.copy() for k, v in arguments.items() if isinstance(v, np.ndarray)}
    assert kernels.status(symbol, list(arguments.values())) == -1
    for name, value in before.items():
        same(arguments[name], value)
    assert kernels.library.test_live() == 0


@pytest.mark.parametrize("symbol", sorted(FIRMWARE))
def test_arguments(kernels: Kernels, symbol: str) -> None:
    arguments = make_arguments(symbol)
    assert kernels.status(symbol, list(arguments.values())) == 0
    for a in FIRMWARE[symbol].arguments:
        if not a.is_pointer:
            continue
        without = {**make_arguments(symbol), a.name: None}
        # A source of a concatenation may be NULL only when its size is 0.
        if a.optional and not a.name.startswith("in"):
            assert kernels.status(symbol, list(without.values())) == 0
        else:
            refused(kernels, symbol, without)
    for name, value in CALLS[symbol][1]:
        bad = make_arguments(symbol)
        assert name in bad
        refused(kernels, symbol, {**bad, name: value})


@pytest.mark.parametrize("symbol", sorted(WITH_WORKSPACE - {"mmalib_conv2d_i8_grouped_loop"}))
def test_no_workspace(kernels: Kernels, symbol: str) -> None:
    kernels.library.test_workspace(0)
    try:
        refused(kernels, symbol, make_arguments(symbol))
    finally:
        kernels.library.test_workspace(-1)
    assert kernels.status(symbol, list(make_arguments(symbol).values())) == 0


def test_odd_depthwise_kernels(kernels: Kernels) -> None:
    for symbol, sizes in (("mmalib_depthwise_conv2d_i8", (1, 2, 4, 9)), ("mmalib_depthwise_conv2d_i16", (1, 5, 7))):
        for k in sizes:
            refused(kernels, symbol, {**make_arguments(symbol), "KH": k, "KW": k, "H_in": 12, "W_in": 12})


def test_negative_residual_shift(kernels: Kernels) -> None:
    for symbol in ("c7x_int8_residual_add_relu", "c7x_int16_residual_add_relu"):
        refused(kernels, symbol, {**make_arguments(symbol), "params": residual_params((1, 1), -1, (0, 0, 0))})


# --- builds -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(SANITIZE, reason="is the run itself")
def test_cplusplus_takes_the_sources() -> None:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    for vector in (False, True):
        command = _command(Build(cc="g++", vector=vector))
        command = [word for word in command if word not in C_FLAGS]
        sources = [str(native_dir() / name) for name in KERNEL_SOURCES]
        subprocess.run([*command, *CXX_FLAGS, "-fsyntax-only", *sources], check=True)


@pytest.mark.skipif(SANITIZE, reason="is the run itself")
def test_sanitizers_find_nothing() -> None:
    """This file once more, kernels compiled with the address and undefined-behaviour sanitizers."""
    preload = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(preload).is_file():
        pytest.skip("gcc has no address sanitizer")
    env = {
        **os.environ, "C7X_TEST_SANITIZE": "1", "LD_PRELOAD": preload, "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": str(native_dir().parent),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__], cwd=native_dir().parent, env=env,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert " passed" in done.stdout
