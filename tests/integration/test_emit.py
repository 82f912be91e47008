"""The emitted C itself, from hand-made programs: entries, attributes that act, and the corner cases of outputs."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from c7x.codegen.emit import Emitted, emit
from c7x.codegen.program import Buffer, Call, Constant, Kernel, Port, Program, Provenance, TensorType
from c7x.errors import UnsupportedError
from c7x.run.host import run_host
from c7x.target import Target
from c7x.toolchain.gnu import BuildOptions, build_cg_dsp, find_compiler

F4 = TensorType(dtype="float32", shape=(4,))
F100 = TensorType(dtype="float32", shape=(100,))


def kernel(symbol: str, body: str, types: tuple[TensorType, ...], workspace_bytes: int = 0) -> Kernel:
    """A kernel of one output whose body uses in0, in1, ... and out0."""
    params = [f"const {t.c_type}* C7X_RESTRICT in{i}" for i, t in enumerate(types[:-1])]
    params.append(f"{types[-1].c_type}* C7X_RESTRICT out0")
    if workspace_bytes:
        params.append("uint8_t* C7X_RESTRICT workspace")
    source = f"static int32_t {symbol}({', '.join(params)}) {{ {body} return 0; }}"
    return Kernel(
        symbol=symbol, source=source, params=types, num_outputs=1, backend="c7x", workspace_bytes=workspace_bytes
    )


ADD = kernel("__tvm_ffi_add", "for (int32_t i = 0; i < 100; ++i) out0[i] = in0[i] + in1[i];", (F100, F100, F100))
DOUBLE = kernel("__tvm_ffi_double", "for (int32_t i = 0; i < 100; ++i) out0[i] = 2.0f * in0[i];", (F100, F100))
WEIGHTS = np.arange(100, dtype=np.float32)


def program(**changes: object) -> Program:
    """y = 2 * (x + w): one intermediate, one constant in weights.bin."""
    base = Program(
        name="model",
        inputs=(Port(name="x", buffer="x", type=F100),),
        outputs=(Port(name="y", buffer="y", type=F100),),
        buffers=(
            Buffer(name="x", type=F100, role="input"),
            Buffer(name="w", type=F100, role="constant"),
            Buffer(name="t", type=F100, role="intermediate"),
            Buffer(name="y", type=F100, role="output"),
        ),
        constants=(Constant(buffer="w", data=WEIGHTS),),
        kernels=(ADD, DOUBLE),
        calls=(
            Call(kernel=ADD.symbol, inputs=("x", "w"), outputs=("t",), name="t"),
            Call(
                kernel=DOUBLE.symbol,
                inputs=("t",),
                outputs=("y",),
                name="y",
                provenance=Provenance(relax_ops=("multiply",), nodes=("mul", "y"), source=("model.py:7",)),
            ),
        ),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def written(emitted: Emitted, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in emitted.files.items():
        (folder / name).write_bytes(content)
    return folder


def executable(emitted: Emitted, folder: Path) -> Path:
    """The build folder with cg_dsp beside its weights."""
    sources = written(emitted, folder / "src")
    scratch = folder / "scratch"
    scratch.mkdir()
    options = BuildOptions(cflags=("-O1", "-Wall", "-Wextra", "-Werror"))
    built = build_cg_dsp(
        [sources / "lib0.c", sources / "devc.c"], folder=scratch, options=options, compiler=find_compiler()
    )
    built.replace(sources / "cg_dsp")
    return sources


X = np.linspace(-1, 1, 100, dtype=np.float32)


@pytest.mark.parametrize("attributes", ["", "-profile-layers", "-debug-alloc -skip-runtime-checks=0 -profile-layers"])
@pytest.mark.parametrize(
    "command",
    [
        ("gcc", "-std=c99"),
        ("g++", "-std=c++14", "-fno-exceptions", "-fno-rtti", "-x", "c++"),
        ("clang", "-std=c99"),
        ("clang++", "-std=c++14", "-fno-exceptions", "-fno-rtti", "-x", "c++"),
    ],
    ids=lambda c: c[0],
)
def test_lib0_compiles_alone_without_a_warning(tmp_path: Path, command: tuple[str, ...], attributes: str) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    folder = written(emit(program(), Target.parse(f"c_static -mcpu=c7x {attributes}")), tmp_path)
    for source in ("lib0.c", "devc.c"):
        done = subprocess.run(
            [*command, "-Wall", "-Wextra", "-Werror", "-O1", "-c", source, "-o", "out.o"],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    symbols = subprocess.run(["nm", "out.o"], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert not re.search(r"\b(malloc|calloc|free|_Znw|__cxa|_GLOBAL__)", symbols)


def test_profile_text_is_exact(tmp_path: Path) -> None:
    folder = executable(emit(program(), Target.parse("c_static -mcpu=c7x -profile-layers")), tmp_path)
    lines = run_host(folder, [X]).stdout.splitlines()
    start = lines.index("===== TVM Layer Profile =====")
    assert lines[start - 1] == ""
    first = re.fullmatch(r"\[  0\] __tvm_ffi_add {27} (\d+) cycles", lines[start + 1])
    second = re.fullmatch(r"\[  1\] __tvm_ffi_double {24} (\d+) cycles", lines[start + 2])
    assert first and second
    assert lines[start + 3] == "-" * 29
    total = re.fullmatch(r"Total: (\d+) cycles \(2 layers\)", lines[start + 4])
    assert total and int(total[1]) == int(first[1]) + int(second[1])
    assert lines[start + 5] == "=" * 29


def test_a_failing_kernel_is_named_in_the_profile_and_its_code_returned(tmp_path: Path) -> None:
    broken = replace(DOUBLE, source=DOUBLE.source.replace("return 0;", "return -7;"))
    emitted = emit(program(kernels=(ADD, broken)), Target.parse("c_static -mcpu=c7x -profile-layers"))
    driver = tmp_path / "driver.c"
    driver.write_text(
        "#include <stdio.h>\n#include <stdint.h>\n"
        "uint64_t c7x_cycle_counter(void) { return 1; }\nvoid TVMPrintLayerProfile(void);\n"
        '#include "model.h"\n'
        "static float x[100], y[100]; static unsigned char a[4096] __attribute__((aligned(128)));\n"
        "static unsigned char w[4096] __attribute__((aligned(128)));\n"
        "int main(void) { const void *in[] = {x}; void *out[] = {y}; int s = cg_main(in, out, w, a);\n"
        'TVMPrintLayerProfile(); printf("status %d\\n", s); return 0; }\n'
    )
    folder = written(emitted, tmp_path / "src")
    subprocess.run(["gcc", "-I", folder, driver, folder / "lib0.c", "-o", tmp_path / "driver", "-lm"], check=True)
    text = subprocess.run([tmp_path / "driver"], capture_output=True, text=True, check=True).stdout
    assert "Total: 0 cycles (1 layers)\n[FAILED, in flight] __tvm_ffi_double\n=====" in text
    assert text.endswith("status -7\n")


def test_debug_alloc_traces_each_buffer_once_and_sums_up(tmp_path: Path) -> None:
    folder = executable(emit(program(), Target.parse("c_static -mcpu=c7x -debug-alloc")), tmp_path)
    text = run_host(folder, [X]).stdout
    assert re.search(r"\[alloc-storage #0\] request 400 bytes  \(L2 free: \d+, Main free: \d+\)\n  -> 0x\w+ OK\n", text)
    assert text.count("[alloc-storage #") == 1
    assert "===== TVM Alloc Debug Summary =====\nTotal AllocStorage calls: 1\nFinal pool state: L2 free=" in text


class _Any(ctypes.Structure):
    _fields_ = [("type_index", ctypes.c_int32), ("padding", ctypes.c_uint32), ("pointer", ctypes.c_void_p)]


class _Tensor(ctypes.Structure):
    """module-abi.md 3.2, 208 bytes."""

    _fields_ = [
        ("type_index", ctypes.c_int32),
        ("ref_counter", ctypes.c_int32),
        ("deleter", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("shape_storage", ctypes.c_int64 * 8),
        ("strides_storage", ctypes.c_int64 * 8),
        ("flags", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
        ("storage_ref", ctypes.c_void_p),
    ]


class Module:
    """lib0.c as a shared object, called as the firmware calls it."""

    def __init__(self, emitted: Emitted, folder: Path) -> None:
        sources = written(emitted, folder)
        stub = folder / "stub.c"
        stub.write_text("#include <stdint.h>\nuint64_t c7x_cycle_counter(void) { return 0; }\n")
        command: list[str | Path] = [
            "gcc",
            "-std=c99",
            "-shared",
            "-fPIC",
            "-O1",
            sources / "lib0.c",
            stub,
            "-o",
            folder / "lib0.so",
            "-lm",
        ]
        subprocess.run(command, check=True)
        self.entry = ctypes.CDLL(str(folder / "lib0.so")).cg_main_dsp
        self.entry.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        self.keep: list[object] = []

    def tensor(self, array: np.ndarray, code: int) -> _Any:
        shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        tensor = _Tensor(
            type_index=70,
            ref_counter=1,
            data=array.ctypes.data,
            ndim=array.ndim,
            code=code,
            bits=array.itemsize * 8,
            lanes=1,
            shape=ctypes.addressof(shape),
        )
        self.keep += [array, shape, tensor]
        return _Any(70, 0, ctypes.addressof(tensor))

    def call(self, inputs: list[_Any], constants: ctypes.Array[_Any] | None) -> tuple[int, _Any]:
        cells = (_Any * max(len(inputs), 1))(*inputs)
        result = _Any()
        status = self.entry(cells, len(inputs), constants, ctypes.byref(result))
        return status, result


def constants_of(module: Module, weights: bytes, entries: int, offset: int) -> ctypes.Array[_Any]:
    """The value cells the loader would make for one stored tensor behind ``entries - 1`` filler strings."""
    raw = np.zeros(len(weights) + 256, np.uint8)
    start = -raw.ctypes.data % 128
    raw[start : start + len(weights)] = np.frombuffer(weights, np.uint8)
    data = raw[start + offset : start + offset + 400].view(np.float32)
    module.keep.append(raw)
    return (_Any * entries)(*[_Any(65, 0, None)] * (entries - 1), module.tensor(data, 2))


def test_cg_main_dsp_return_codes_and_result(tmp_path: Path) -> None:
    emitted = emit(program(), Target.parse("c_static -mcpu=c7x"))
    module = Module(emitted, tmp_path)
    constants = constants_of(module, emitted.files["weights.bin"], 2, 128)
    x = module.tensor(X, 2)
    for _ in range(2):
        status, result = module.call([x], constants)
        assert (status, result.type_index, result.padding) == (0, 70, 0)
        out = _Tensor.from_address(result.pointer)
        assert (out.type_index, out.ref_counter, out.deleter, out.strides) == (70, 1, None, None)
        assert (out.ndim, out.code, out.bits, out.lanes, out.byte_offset, out.flags) == (1, 2, 32, 1, 0, 0)
        assert out.shape == result.pointer + _Tensor.shape_storage.offset and out.shape_storage[0] == 100
        values = np.ctypeslib.as_array((ctypes.c_float * 100).from_address(out.data))
        np.testing.assert_array_equal(values, 2 * (X + WEIGHTS))
    assert module.call([x, x], constants)[0] == -1, "wrong number of inputs"
    assert module.call([], constants)[0] == -1, "no inputs"
    assert module.call([x], None)[0] == -1, "weights needed, none loaded"
    assert module.call([_Any(1, 0, 5)], constants)[0] == -1, "an input that is no tensor"
    assert module.call([_Any(70, 0, None)], constants)[0] == -1, "a null tensor"
    wrong = (_Any * 2)(_Any(65, 0, None), _Any(65, 0, None))
    assert module.call([x], wrong)[0] == -1, "constants of another model"


@pytest.mark.parametrize("cxx", [False, True])
def test_tidl_bridge_is_initialised_once_before_the_first_inference(tmp_path: Path, cxx: bool) -> None:
    emitted = emit(program(), Target.parse("c_static -mcpu=c7x -tidl-runtime=1"))
    sources = written(emitted, tmp_path / "src")
    bridge = tmp_path / "bridge.c"
    bridge.write_text(
        "int tidl_calls; void tidl_bridge_init_all(void); void tidl_bridge_init_all(void) { ++tidl_calls; }"
    )
    compiler = ["g++", "-x", "c++", "-std=c++14"] if cxx else ["gcc", "-std=c99"]
    flags = ["-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-c"]
    subprocess.run([*compiler, *flags, sources / "lib0.c", "-o", tmp_path / "lib0.o"], check=True)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", bridge, tmp_path / "lib0.o", "-o", tmp_path / "lib0.so", "-lm"], check=True
    )
    library = ctypes.CDLL(str(tmp_path / "lib0.so"))
    calls = ctypes.c_int.in_dll(library, "tidl_calls")
    module = object.__new__(Module)
    module.keep = []
    module.entry = library.cg_main_dsp
    module.entry.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    constants = constants_of(module, emitted.files["weights.bin"], 2, 128)
    x = module.tensor(X, 2)
    assert module.call([x, x], constants)[0] == -1
    assert calls.value == 0
    for _ in range(3):
        assert module.call([x], constants)[0] == 0
        assert calls.value == 1
    # The loader clears nothing, so the state must come from the file's data.
    section = subprocess.run(["nm", tmp_path / "lib0.o"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"^\w+ d \w*cg_tidl_pending", section, re.MULTILINE)


def test_inputs_are_checked_when_asked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    emitted = emit(program(), Target.parse("c_static -mcpu=c7x -skip-runtime-checks=0"))
    module = Module(emitted, tmp_path)
    constants = constants_of(module, emitted.files["weights.bin"], 2, 128)
    libc = ctypes.CDLL(None)
    for value, code, words in (
        (X.astype(np.float64), 2, "dtype code 2 with 64 bits"),
        (X.view(np.int32), 0, "dtype code 0 with 32 bits"),
        (X.reshape(10, 10), 2, "rank 2, expected 1"),
        (X[:99], 2, "extent 99 in dimension 0, expected 100"),
    ):
        assert module.call([module.tensor(value, code)], constants)[0] == -1
        libc.fflush(None)
        text = capfd.readouterr().out
        assert "input 0 (x)" in text and words in text
    assert module.call([module.tensor(X, 2)], constants)[0] == 0


def test_outputs_that_no_call_writes_are_copied(tmp_path: Path) -> None:
    """An input, a constant, and one result under two names."""
    several = program(
        outputs=(
            Port(name="x_again", buffer="x", type=F100),
            Port(name="y", buffer="y", type=F100),
            Port(name="y_again", buffer="y", type=F100),
            Port(name="w", buffer="w", type=F100),
        )
    )
    folder = executable(emit(several, Target.parse("c_static -mcpu=c7x")), tmp_path)
    y = 2 * (X + WEIGHTS)
    for got, want in zip(run_host(folder, [X]).outputs, (X, y, y, WEIGHTS), strict=True):
        np.testing.assert_array_equal(got, want)


def test_small_constants_are_aligned_arrays_and_read_back_bit_equal(tmp_path: Path) -> None:
    values = np.array([np.pi, -0.0, np.inf, np.nan], np.float32)
    out = replace(
        program(),
        inputs=(),
        outputs=(Port(name="y", buffer="c", type=F4),),
        buffers=(Buffer(name="c", type=F4, role="constant"),),
        constants=(Constant(buffer="c", data=values),),
        kernels=(),
        calls=(),
    )
    emitted = emit(out, Target.parse("c_static -mcpu=c7x -constants-byte-alignment=256"))
    text = emitted.files["lib0.c"].decode()
    assert "C7X_ALIGNED(256) float cg_constant_0[4] = {3.1415927f, (-0.0f), (INFINITY), NAN};" in text
    assert emitted.files["weights.bin"] == bytes(8)
    got = run_host(executable(emitted, tmp_path), []).outputs[0]
    np.testing.assert_array_equal(got.view(np.uint32)[:3], values.view(np.uint32)[:3])
    assert np.isnan(got[3])


def test_calls_carry_their_origin_as_comments() -> None:
    text = emit(program(), Target.parse("c_static -mcpu=c7x")).files["lib0.c"].decode()
    assert "/* 1: y: multiply (mul, y) at model.py:7 */" in text


def test_limits_of_the_module_abi_are_refused_by_name() -> None:
    target = Target.parse("c_static -mcpu=c7x")
    with pytest.raises(UnsupportedError, match="129 outputs"):
        emit(program(outputs=(Port(name="y", buffer="y", type=F100),) * 129), target)
    deep = TensorType(dtype="float32", shape=(1,) * 9)
    with pytest.raises(UnsupportedError, match="x has rank 9"):
        emit(program(inputs=(Port(name="x", buffer="x", type=deep),)), target)


def test_workspaces_reach_the_kernel_and_the_arena_is_not_cleared_for_it(tmp_path: Path) -> None:
    body = (
        "float* w = (float*)workspace; for (int32_t i = 0; i < 100; ++i) w[i] = in0[i];"
        "for (int32_t i = 0; i < 100; ++i) out0[i] = w[99 - i];"
    )
    reverse = kernel("__tvm_ffi_reverse", body, (F100, F100), workspace_bytes=400)
    scratch = TensorType(dtype="uint8", shape=(400,))
    flipped = replace(
        program(),
        buffers=(
            Buffer(name="x", type=F100, role="input"),
            Buffer(name="y", type=F100, role="output"),
            Buffer(name="s", type=scratch, role="workspace"),
        ),
        constants=(),
        kernels=(reverse,),
        calls=(Call(kernel=reverse.symbol, inputs=("x",), outputs=("y",), workspace="s"),),
    )
    emitted = emit(flipped, Target.parse("c_static -mcpu=c7x"))
    assert emitted.plan.arena_bytes == emitted.plan.lower_bound == 512
    np.testing.assert_array_equal(run_host(executable(emitted, tmp_path), [X]).outputs[0], X[::-1])


def test_the_archive_holds_the_files_with_fixed_metadata() -> None:
    import io
    import tarfile

    emitted = emit(program(), Target.parse("c_static -mcpu=c7x"))
    assert emit(program(), Target.parse("c_static -mcpu=c7x")).files == emitted.files
    with tarfile.open(fileobj=io.BytesIO(emitted.files["model_library.tar"])) as tar:
        members = tar.getmembers()
        assert [m.name for m in members] == ["devc.c", "lib0.c", "model.h", "weights.bin"]
        assert {(m.mtime, m.uid, m.gid, m.uname, m.mode) for m in members} == {(0, 0, 0, "", 0o644)}
