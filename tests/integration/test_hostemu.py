"""The host emulation: intrinsics against NumPy models, streams against brute force, kernels against libm."""

from __future__ import annotations

import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from c7x.cli import main as cli_main
from c7x.toolchain.hostemu import cmake_dir, compile_program, find_emulation
from tests import hostemu_streams as streams
from tests.hostemu_cases import (
    CORES,
    EMULATION,
    ROOT,
    ROWS,
    SANITIZE,
    build,
    canonical,
    disagreement,
    driver,
    feed,
    generate,
    operands,
    run,
    split,
)
from tests.hostemu_models import MODELS

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
TABLE = generate.load()
NATIVE = ROOT / "tests" / "native" / "hostemu"
STREAMS = NATIVE / "streams.cpp"


def _outputs(
    folder: Path, core: str, *, compiler: str = "g++", flags: tuple[str, ...] = ("-O1",), runner: tuple[str, ...] = ()
) -> bytes:
    chosen = driver.cases(TABLE.rows, CORES[core][1], core)
    source = folder / f"intrinsics-{core}.cpp"
    source.write_text(driver.program(chosen, ROWS), encoding="utf-8")
    program = build(
        source, folder / f"intrinsics-{core}-{compiler.split('/')[-1]}", core=core, compiler=compiler, flags=flags
    )
    return run([*runner, program], feed(chosen, [operands(case) for case in chosen]))


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("hostemu")
    return {core: _outputs(folder, core) for core in CORES}


@pytest.mark.parametrize("core", CORES)
def test_intrinsics(reference: dict[str, bytes], core: str) -> None:
    register = CORES[core][1]
    chosen = driver.cases(TABLE.rows, register, core)
    wrong = [
        found
        for case, outputs in zip(chosen, split(chosen, reference[core]), strict=True)
        if (found := disagreement(case, operands(case), outputs, register, MODELS.get(case.row.key)))
    ]
    assert not wrong, "\n".join(wrong[:20])


# ------------------------------------------------------------------------------------------------------------- streams


def _stream_templates(seed: int, count: int, register: int) -> list[streams.Template]:
    rng = random.Random(seed)
    return [streams.random_template(rng, register) for _ in range(count)]


def _stream_input(templates: list[streams.Template], memory: bytes) -> bytes:
    words = (struct.pack(f"<{len(t.words()) + 1}i", *t.words(), len(streams.vectors(t))) for t in templates)
    return memory + b"".join(words)


def _has_addresses(t: streams.Template) -> bool:
    return not (t.transpose or t.dir or t.lezr or t.decim or t.eledup or any(t.am))


def _predicate(valid: int, size: int, register: int) -> int:
    return (1 << min(valid * size, register)) - 1


def _stream_expected(t: streams.Template, memory: bytes, register: int) -> bytes:
    out = []
    vectors = streams.vectors(t)
    nothing = streams.Vector(lanes=(), offset=0, valid=0)
    for read, vector in zip(
        [*streams.read(t, memory, register), bytes(register), bytes(register)],
        [*vectors, nothing, nothing],
        strict=True,
    ):
        out.append(read)
        if _has_addresses(t):
            predicates = (_predicate(vector.valid, size, register) for size in (1, 2, 4))
            out.append(struct.pack("<3Q2q", *predicates, vector.offset, vector.offset * 4))
    return b"".join(out)


def _first_difference(templates: list[streams.Template], memory: bytes, register: int, got: bytes) -> str | None:
    at = 0
    for t in templates:
        want = _stream_expected(t, memory, register)
        if got[at : at + len(want)] != want:
            return f"{t}"
        at += len(want)
    return None if at == len(got) else "more output than expected"


@pytest.mark.parametrize("core", CORES)
def test_streams(tmp_path: Path, core: str) -> None:
    """Thousands of random templates of one to six dimensions, each read to its end and beyond."""
    register = CORES[core][1]
    memory = random.Random(5).randbytes(2 * streams.BASE)
    templates = _stream_templates(7 + register, 2000, register)
    program = build(STREAMS, tmp_path / "streams", core=core, flags=("-O1", *SANITIZE))
    got = run([program], _stream_input(templates, memory))
    assert _first_difference(templates, memory, register, got) is None
    # The random templates reach every mode.
    for field in (
        "transpose",
        "promote",
        "eledup",
        "grpdup",
        "decim",
        "dir",
        "lezr",
        "decdim1",
        "decdim2sd",
        "dimfmt",
        "am",
    ):
        assert len({getattr(t, field) for t in templates}) > 1, field
    assert {t.dimfmt for t in templates} == set(range(6))
    assert sum(map(streams.wraps, templates)) > 50


# ------------------------------------------------------------------------------------------------------------- vectors


@pytest.mark.parametrize(("core", "compiler"), [("7524", "g++"), ("7100", "clang++")])
def test_vectors(tmp_path: Path, core: str, compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    run([build(NATIVE / "vectors.cpp", tmp_path / "vectors", core=core, compiler=compiler, flags=("-O1", *SANITIZE))])


@pytest.mark.parametrize("core", CORES)
def test_fir(tmp_path: Path, core: str) -> None:
    run([build(NATIVE / "fir.cpp", tmp_path / "fir", core=core, flags=("-O1", *SANITIZE))])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("int4 v = int4(1) / int4(0); v.print();", ("operator/", "division by zero")),
        ("__SA_TEMPLATE_v1 t = __gen_SA_TEMPLATE_v1(); t.AM1 = __SA_AM_CIRC_CBK0; __SA1_OPEN(t);", ("SA1", "AM")),
        (
            "__SE_TEMPLATE_v1 t = __gen_SE_TEMPLATE_v1(); t.AM0 = __SE_AM_CIRC_CBK1; t.CBK0 = t.CBK1 = 12; "
            "__SE0_OPEN(&t, t);",
            ("SE0", "CBK1"),
        ),
        (
            "__SE_TEMPLATE_v1 t = __gen_SE_TEMPLATE_v1(); t.AM0 = __SE_AM_CIRC_CBK0; t.ELETYPE = __SE_ELETYPE_16BIT; "
            "__SE1_OPEN(reinterpret_cast<char*>(&t) + 1, t);",
            ("SE1", "AM", "aligned"),
        ),
        (
            "__SE_TEMPLATE_v1 t = __gen_SE_TEMPLATE_v1(); t.TRANSPOSE = __SE_TRANSPOSE_8BIT; t.AM0 = "
            "__SE_AM_CIRC_CBK0; __SE0_OPEN(&t, t);",
            ("SE0", "TRANSPOSE with AM"),
        ),
        (
            "__SE_TEMPLATE_v1 t = __gen_SE_TEMPLATE_v1(); t.ELETYPE = (__SE_ELETYPE)9; __SE1_OPEN(&t, t);",
            ("SE1", "ELETYPE"),
        ),
        (
            "__SE_TEMPLATE_v1 t = __gen_SE_TEMPLATE_v1(); t.TRANSPOSE = __SE_TRANSPOSE_32BIT; t.VECLEN = "
            "__SE_VECLEN_8ELEMS; t.LEZR = __SE_LEZR_ICNT0; __SE0_OPEN(&t, t);",
            ("SE0", "TRANSPOSE with LEZR"),
        ),
        ("__SE_TEMPLATE_v1 t = __gen_SE_TEMPLATE_v1(); t.DECIM = __SE_DECIM_2; __SE0_OPEN(&t, t);", ("SE0", "DECIM")),
        (
            "__SE_TEMPLATE_v1 t = __gen_SE_TEMPLATE_v1(); t.ELETYPE = __SE_ELETYPE_64BIT; t.VECLEN = "
            "__SE_VECLEN_64ELEMS; __SE0_OPEN(&t, t);",
            ("SE0", "VECLEN"),
        ),
        (
            "__SA_TEMPLATE_v1 t = __gen_SA_TEMPLATE_v1(); t.DECDIM1 = __SA_DECDIM_DIM2; __SA3_OPEN(t);",
            ("SA3", "DECDIM"),
        ),
        ("__SA_TEMPLATE_v1 t = __gen_SA_TEMPLATE_v1(); __SA0_OPEN(t); __SA0_OPEN(t);", ("SA0", "open already")),
        ("int4 v = __SE0ADV(int4); v.print();", ("SE0", "not open")),
        ("__get_vector_element(int4(1), 4);", ("__get_vector_element", "no such lane")),
        ("__vfir8hw_wvv(short16(1), short16(short8(1), short8(2)), __SE_REG_0);", ("__vfir8hw_wvv", "group of four")),
        ("__vfir8hw_wvv(short16(1), short16(2), __SE_REG_1_ADV);", ("__vfir8hw_wvv", "not open")),
        ("__ilut_init(256, 1);", ("__ilut_init", "256 words")),
    ],
)
def test_what_is_missing_ends_the_program_by_name(tmp_path: Path, body: str, words: tuple[str, ...]) -> None:
    (tmp_path / "ends.cpp").write_text(f"#include <c7x.h>\nint main() {{ {body} return 0; }}\n", encoding="utf-8")
    program = build(tmp_path / "ends.cpp", tmp_path / "ends", flags=("-O0",))
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGABRT
    for word in words:
        assert word in done.stderr


def test_missing_names_do_not_compile(tmp_path: Path) -> None:
    for name in ("__vmatmpysp_vww", "__expand_vpred"):
        assert name in TABLE.missing
        source = tmp_path / "missing.cpp"
        source.write_text(f"#include <c7x.h>\nvoid f(int8 v) {{ {name}(v); }}\n", encoding="utf-8")
        command = ["g++", "-std=c++14", "-fsyntax-only", f"-I{EMULATION}/include/C7524-MMA2_256", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0 and name in done.stderr


def test_exact_seeds(tmp_path: Path) -> None:
    body = """
#include <c7x.h>
int main() {
  const float2 r = __recip(float2(3, -7)), q = __recip_sqrt(float2(3, 7));
  if (r.s0() != 1 / 3.0f || r.s1() != 1 / -7.0f || __recip(3.0) != 1 / 3.0) return 1;
  return q.s0() != 1 / std::sqrt(3.0f) || q.s1() != 1 / std::sqrt(7.0f);
}
"""
    source = tmp_path / "seeds.cpp"
    source.write_text(body, encoding="utf-8")
    run([build(source, tmp_path / "exact", flags=("-O0", "-DC7X_EMU_EXACT_SEEDS"))])
    default = build(source, tmp_path / "default", flags=("-O0",))
    assert subprocess.run([str(default)], timeout=60, check=False).returncode == 1


def test_two_files_and_two_threads(tmp_path: Path) -> None:
    """Headers alone, so every file may include them, with short names or without; streams belong to a thread."""
    first, second = tmp_path / "first.cpp", tmp_path / "second.cpp"
    first.write_text(
        """
#define C7X_EMU_NO_SHORT_NAMES
#include <c7x.h>
#include <c7x_scalable.h>
struct int8 { char bytes[3]; };
static_assert(sizeof(int8) == 3 && sizeof(__int8) == 32, "");
__int8 sum(const int32_t* from, int count) {
  __SE_TEMPLATE_v1 t = __gen_SE_TEMPLATE_v1();
  t.ICNT0 = static_cast<uint32_t>(count);
  t.ELETYPE = __SE_ELETYPE_32BIT;
  t.VECLEN = __SE_VECLEN_8ELEMS;
  __SE0_OPEN(from, t);
  __int8 total = __int8(0);
  for (int i = 0; i < count; i += 8) total += __SE0ADV(__int8);
  __SE0_CLOSE();
  return total;
}
""",
        encoding="utf-8",
    )
    second.write_text(
        """
#include <c7x.h>
#include <thread>
#include <vector>
int8 sum(const int32_t* from, int count);
int main() {
  std::vector<int32_t> ones(80000, 1), twos(80000, 2);
  int wrong[2] = {1, 1};
  std::thread a([&] { wrong[0] = sum(ones.data(), 80000).s5() != 10000; });
  std::thread b([&] { wrong[1] = sum(twos.data(), 80000).s5() != 20000; });
  a.join();
  b.join();
  return wrong[0] + wrong[1];
}
""",
        encoding="utf-8",
    )
    run([build(second, tmp_path / "both", flags=("-O1", "-pthread", str(first)))])


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_newer_standards(tmp_path: Path, compiler: str, standard: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    run([build(NATIVE / "vectors.cpp", tmp_path / "vectors", compiler=compiler, flags=("-O0", f"-std={standard}"))])


def test_inner_table(tmp_path: Path) -> None:
    run([build(NATIVE / "table.cpp", tmp_path / "table")])


def test_look_up(tmp_path: Path) -> None:
    run([build(NATIVE / "lookup.cpp", tmp_path / "lookup", core="7100")])


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ("f.ELETYPE = __LUT_ELETYPE_8BIT;", "ELETYPE"),
        ("f.NUMTBLS = __LUT_NUM_TBL_8;", "NUMTBLS"),
        ("f.PROMOTION = __LUT_PROMOTE_2X;", "PROMOTION"),
        ("f.INTERPOLATION = __LUT_INTERP_ON;", "INTERPOLATION"),
    ],
)
def test_look_up_modes_that_are_not_there(tmp_path: Path, change: str, word: str) -> None:
    body = f"""
#include <c7x.h>
int main() {{
  __sLTCRFlags_t f = {{__LUT_INTERP_OFF, __LUT_SAT_OFF, __LUT_UNSIGNED, __LUT_ELETYPE_32BIT, __LUT_NUM_TBL_16,
                      __LUT_TBL_SIZE_16KBYTES, __LUT_WSIZE_8BIT, __LUT_PROMOTE_OFF}};
  {change}
  __LUT_SET_LTCR(__LUT_SET2, __lut_set_param(&f));
  return 0;
}}
"""
    (tmp_path / "mode.cpp").write_text(body, encoding="utf-8")
    program = build(tmp_path / "mode.cpp", tmp_path / "mode", core="7100", flags=("-O0",))
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGABRT and f"__lut_set_param: {word}" in done.stderr


def test_the_header_compiles_quickly(tmp_path: Path) -> None:
    """Three seconds are the limit on a machine that does nothing else; half a second is usual."""
    source = tmp_path / "empty.cpp"
    source.write_text("#include <c7x.h>\n#include <c7x_scalable.h>\nint main() { return 0; }\n", encoding="utf-8")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    build(source, tmp_path / "empty", flags=("-O3",))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < 3


# ---------------------------------------------------------------------------------------------- compilers and machines


def _canonical(core: str, output: bytes) -> list[bytes]:
    chosen = driver.cases(TABLE.rows, CORES[core][1], core)
    return [
        canonical(raw, element).tobytes()
        for case, outputs in zip(chosen, split(chosen, output), strict=True)
        for (_, element, _), raw in zip(case.results(), outputs, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("core", "compiler", "flags", "runner"),
    [
        ("7524", "g++", ("-O3", "-march=x86-64-v3"), ()),
        ("7100", "g++", ("-O0", *SANITIZE), ()),
        ("7524", "clang++", ("-O1",), ()),
        ("7100", "aarch64-linux-gnu-g++", ("-O1", "-static"), ("qemu-aarch64-static",)),
    ],
)
def test_same_bits_everywhere(
    reference: dict[str, bytes],
    tmp_path: Path,
    core: str,
    compiler: str,
    flags: tuple[str, ...],
    runner: tuple[str, ...],
) -> None:
    for name in (compiler, *runner):
        if shutil.which(name) is None:
            pytest.skip(f"needs {name}")
    if "-march=x86-64-v3" in flags and "avx2" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip("needs AVX2")
    got = _outputs(tmp_path, core, compiler=compiler, flags=flags, runner=runner)
    assert _canonical(core, got) == _canonical(core, reference[core])


@pytest.mark.slow
def test_streams_and_kernels_on_aarch64(tmp_path: Path) -> None:
    compiler, runner = "aarch64-linux-gnu-g++", "qemu-aarch64-static"
    for name in (compiler, runner):
        if shutil.which(name) is None:
            pytest.skip(f"needs {name}")
    memory = random.Random(5).randbytes(2 * streams.BASE)
    templates = _stream_templates(11, 300, 32)
    flags = ("-O2", "-static")
    program = build(NATIVE / "streams.cpp", tmp_path / "streams", compiler=compiler, flags=flags)
    assert _first_difference(templates, memory, 32, run([runner, program], _stream_input(templates, memory))) is None
    there = build(NATIVE / "math.cpp", tmp_path / "there", compiler=compiler, flags=flags)
    here = build(NATIVE / "math.cpp", tmp_path / "here", flags=("-O3",))
    for name in KERNELS:
        x = _sweep(name, 2000)
        a, b = (np.frombuffer(run([*words, name], x.tobytes()), np.float32) for words in ([runner, there], [here]))
        assert np.array_equal(a, b, equal_nan=True), name
    for name in KERNELS_OF_TWO:
        x = np.concatenate([operand[::50] for operand in _pairs(name)])
        a, b = (np.frombuffer(run([*words, name], x.tobytes()), np.float32) for words in ([runner, there], [here]))
        assert np.array_equal(a, b, equal_nan=True), name


# ------------------------------------------------------------------------------------------------------------- kernels

#: Name: the function in double precision, the range swept (None: all positive numbers), the worst error in ulps.
KERNELS: dict[str, tuple[Callable[[Any], Any], tuple[float, float] | None, float]] = {
    "exp": (np.exp, (-87.3, 88.7), 1.5),
    "log": (np.log, None, 1.5),
    "log2": (np.log2, None, 2.0),
    "log10": (np.log10, None, 2.0),
    "sqrt": (np.sqrt, None, 1.0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), None, 3.0),
    "recip": (lambda x: 1 / x, None, 2.5),
    "sin": (np.sin, (-8192, 8192), 3.0),
    "cos": (np.cos, (-8192, 8192), 3.0),
    "tan": (np.tan, (-8192, 8192), 5.0),
    "tanh": (np.tanh, (-12, 12), 3.0),
    "asin": (np.arcsin, (-1, 1), 3.0),
    "acos": (np.arccos, (-1, 1), 2.5),
    "atan": (np.arctan, (-1000, 1000), 3.5),
}
#: The same of two operands, each with a sweep of its own.
KERNELS_OF_TWO: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "pow": (np.power, 1.5),
    "atan2": (np.arctan2, 5.0),
}


def _sweep(name: str, count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    rng = np.random.default_rng(list(name.encode()))
    limits = KERNELS[name][1]
    if limits is None:
        return rng.integers(1, 0x7F800000, count).astype(np.int32).view(np.float32)
    return np.concatenate([rng.uniform(*limits, count // 2), rng.normal(0, 1, count // 2)]).astype(np.float32)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("kernels")
    return {core: build(NATIVE / "math.cpp", folder / core, core=core, flags=("-O3",)) for core in CORES}


@pytest.mark.parametrize("name", KERNELS)
def test_kernel(kernels: dict[str, Path], name: str) -> None:
    function, limits, bound = KERNELS[name]
    special = np.asarray(
        [
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            -1,
            1e-40,
            -1e-40,
            1.0,
            2.0**-149,
            100.0,
            -100.0,
            1e30 if limits is None else 0,
        ],
        np.float32,
    )
    x = np.concatenate([_sweep(name, 100_001), special])
    got = np.frombuffer(run([kernels["7524"], name], x.tobytes()), np.float32)
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.float64))
        rounded = exact.astype(np.float32)
        ulp = np.maximum(np.spacing(np.abs(rounded)).astype(np.float64), 2.0**-149)
        error = np.abs(got.astype(np.float64) - exact) / ulp
    assert np.array_equal(np.isnan(got), np.isnan(rounded))
    infinite = np.isinf(rounded)
    assert np.array_equal(got[infinite], rounded[infinite]) and not np.isinf(got[~infinite]).any()
    zero = x == 0
    assert np.array_equal(np.signbit(got[zero]), np.signbit(rounded[zero]))
    normal = np.isfinite(rounded) & (np.abs(rounded) >= 2.0**-126)
    if name in ("sin", "cos", "tan"):
        # Near a zero that is not at 0 an ulp is smaller than what the reduction keeps.
        small = np.abs(rounded) < 0.1
        assert np.abs(got - exact)[small & np.isfinite(rounded)].max() < (2.0**-23 if name == "tan" else 2.0**-24)
        normal &= ~small
    assert error[normal].max() < bound
    # Vectors of twice the width give the same lanes.
    wide = np.frombuffer(run([kernels["7100"], name], x.tobytes()), np.float32)
    assert np.array_equal(got, wide, equal_nan=True)


def _pairs(name: str) -> tuple[np.ndarray[Any, np.dtype[np.float32]], np.ndarray[Any, np.dtype[np.float32]]]:
    """Operands of a function of two: everyday ones, any bit pattern, and every pair of special values."""
    rng = np.random.default_rng(list(name.encode()))
    special = [0.0, 1.0, 0.5, 2.0, 3.0, 2.5, 1e-40, 2.0**-149, 1e30, 16777215.0, 16777216.0, 3e9, np.inf, np.nan]
    both = np.asarray([sign * value for value in special for sign in (1, -1)], np.float32)
    grid = [part.ravel() for part in np.meshgrid(both, both)]
    anything = rng.integers(0, 2**32, (2, 20_000), np.uint32).view(np.float32)
    usual = [rng.uniform(0, 20, 60_000), rng.uniform(-30, 30, 60_000)]
    near_one = [rng.normal(1, 1e-3, 20_000), rng.normal(0, 3e4, 20_000)]
    a, b = (
        np.concatenate([*(part.astype(np.float32) for part in (usual[i], near_one[i])), anything[i], grid[i]])
        for i in range(2)
    )
    return a, b


@pytest.mark.parametrize("name", KERNELS_OF_TWO)
def test_kernel_of_two(kernels: dict[str, Path], name: str) -> None:
    function, bound = KERNELS_OF_TWO[name]
    a, b = _pairs(name)
    data = np.concatenate([a, b]).tobytes()
    got = np.frombuffer(run([kernels["7524"], name], data), np.float32)
    with np.errstate(all="ignore"):
        exact = function(a.astype(np.float64), b.astype(np.float64))
        rounded = exact.astype(np.float32)
        ulp = np.maximum(np.spacing(np.abs(rounded)).astype(np.float64), 2.0**-149)
        error = np.abs(got.astype(np.float64) - exact) / ulp
    assert np.array_equal(np.isnan(got), np.isnan(rounded))
    # At the end of the range the last ulp decides between the largest number and infinity.
    clear = np.isfinite(rounded) & (np.abs(exact) < float(np.finfo(np.float32).max) * (1 - 2.0**-22))
    assert not np.isinf(got[clear]).any()
    infinite = np.isinf(rounded) & (np.abs(exact) > float(np.finfo(np.float32).max) * (1 + 2.0**-22))
    assert np.array_equal(got[infinite], rounded[infinite])
    zero = rounded == 0
    assert np.array_equal(np.signbit(got[zero]), np.signbit(rounded[zero])) and (np.abs(got[zero]) <= 2.0**-149).all()
    assert error[clear & (np.abs(rounded) >= 2.0**-126)].max() < bound
    assert error[clear].max() < 2 * bound
    wide = np.frombuffer(run([kernels["7100"], name], data), np.float32)
    assert np.array_equal(got, wide, equal_nan=True)


# ---------------------------------------------------------------------------------------------------- example, mutants


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
def test_example_with_cmake(tmp_path: Path) -> None:
    where = f"-Dc7x-hostemu_DIR={cmake_dir()}"
    run(["cmake", "-S", EMULATION / "example", "-B", tmp_path / "out", where])
    run(["cmake", "--build", tmp_path / "out"])
    lines = run([tmp_path / "out" / "softplus"]).decode().split("\n")
    assert lines[5:7] == ["0 0.693147", "0.5 0.974077"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
def test_installed_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is installed has the layout of TI's package, and takes its place."""
    prefix = tmp_path / "prefix"
    run(["cmake", "-S", EMULATION, "-B", tmp_path / "build", f"-DCMAKE_INSTALL_PREFIX={prefix}"])
    run(["cmake", "--build", tmp_path / "build", "--target", "install"])
    run(["cmake", "-S", EMULATION / "example", "-B", tmp_path / "out", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCORE=C7100"])
    run(["cmake", "--build", tmp_path / "out"])
    run([tmp_path / "out" / "softplus"])
    monkeypatch.setenv("TI_CGT_C7000_PATH", str(prefix))
    emulation = find_emulation("C7524")
    assert emulation.kind == "ti"
    program = tmp_path / "vectors"
    compile_program([str(NATIVE / "vectors.cpp"), "-O1", "-o", str(program)], emulation=emulation, cxx="g++")
    run([program])


def test_emu_cc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TI_CGT_C7000_PATH", raising=False)
    program = tmp_path / "vectors"
    words = [
        "emu",
        "cc",
        str(NATIVE / "vectors.cpp"),
        "-O0",
        "-Wall",
        "-o",
        str(program),
        "--core",
        "C7120",
        "--cxx",
        "g++",
    ]
    assert cli_main(words) == 0
    run([program])


@pytest.mark.slow
def test_mutants_are_noticed(tmp_path: Path) -> None:
    """Every meaning that no document states: changed, it fails. So do the streams' and the seeds'."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostemu_mutants"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
