"""L2 staging as it runs: the same bits with and without it, on a host and on the virtual DSP, and a checker that finds
what is planted."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from c7x.codegen.emit import emit
from c7x.codegen.layers import layer_records
from c7x.codegen.program import Program
from c7x.codegen.stage import Compiled
from c7x.codegen.staging import IMPORTS, SLICED, stage_operands
from c7x.errors import RunError, ToolError, UsageError
from c7x.native import native_dir
from c7x.run import vdsp
from c7x.run.host import run_host
from c7x.stages import STAGES
from c7x.target import L2_BYTES, Target
from c7x.toolchain.elf import describe_module
from c7x.toolchain.exports import stub_exports
from c7x.toolchain.gnu import BUILD_TYPES, C_FLAGS, CXX_FLAGS, FLOAT_FLAGS, BuildOptions, build_cg_dsp, find_compiler
from c7x.toolchain.vdsp import build_module
from c7x.workspace import Workspace
from examples.digits.model import calibration_inputs
from examples.digits.model import make_model as digits_model
from tests import kernel_models
from tests.integration.commands import c7x, ok
from tests.integration.qdq_harness import Runner, compiled
from tests.models.quantized import QuantizedCase, quantize_model, quantized_case
from tests.staging_harness import Conv, Linear, chain

MMALIB = "c_static -mcpu=c7x -mmalib=1"


def needs(compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")


def generate(program: Program, folder: Path, size: int | None = None) -> Counter[str]:
    """Writes the build directory of ``program`` after codegen; how often each staging occurs."""
    target = Target.parse(MMALIB + ("" if size is None else f" -l2-sram-size={size}"))
    staged = stage_operands(program, target)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in emit(staged, target).files.items():
        (folder / name).write_bytes(content)
    (folder / "layers.json").write_text(json.dumps(layer_records(staged)))
    return Counter(call.staging.staged for call in staged.calls if call.staging is not None)


def example(program: Program, seed: int = 5) -> np.ndarray:
    port = program.inputs[0]
    limit = 128 if port.type.dtype == "int8" else 2000
    values = np.random.default_rng(seed).integers(-limit, limit, port.type.shape)
    return values.astype(port.type.dtype)


@dataclass(frozen=True)
class Objects:
    """The runtime and the kernels, compiled once; a model's own sources are added."""

    folder: Path
    flags: tuple[str, ...]

    def link(self, build: Path) -> None:
        """``build``/cg_dsp of the sources there."""
        objects = [str(path) for path in sorted(self.folder.glob("*.o")) if path.stem not in ("lib0", "devc")]
        includes = [word for name in ("include", "runtime", "kernels") for word in ("-I", str(native_dir() / name))]
        command = ["gcc", *C_FLAGS, *FLOAT_FLAGS, *self.flags, *includes, "lib0.c", "devc.c", "-x", "none", *objects]
        subprocess.run([*command, "-lm", "-o", "cg_dsp"], check=True, cwd=build)

    def run(self, build: Path, *inputs: np.ndarray) -> list[np.ndarray]:
        self.link(build)
        return run_host(build, inputs).outputs


def _objects(folder: Path, options: BuildOptions, *flags: str) -> Objects:
    generate(chain([Conv(out=8)], (1, 2, 5, 5)), folder / "model")
    sources = [folder / "model" / name for name in ("lib0.c", "devc.c")]
    (folder / "objects").mkdir()
    build_cg_dsp(sources, folder=folder / "objects", options=options, compiler=find_compiler("gcc"))
    return Objects(folder / "objects", flags)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Objects:
    return _objects(tmp_path_factory.mktemp("plain"), BuildOptions(cc="gcc"), "-O1", "-Wall", "-Wextra", "-Werror")


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Objects:
    flags = (*BUILD_TYPES["asan"], "-DC7X_CHECK_L2", "-Wall", "-Wextra", "-Werror")
    return _objects(tmp_path_factory.mktemp("checked"), BuildOptions(cc="gcc", check_l2=True), *flags)


# --- the same bits ----------------------------------------------------------------------------------------------------

#: name: (layers, input, dtype, budgets)
CASES: dict[str, tuple[list[Conv | Linear], tuple[int, ...], str, tuple[int, ...]]] = {
    "conv": ([Conv(out=96)], (1, 16, 12, 10), "int8", (20000, 12000, 3000)),
    "pointwise": ([Conv(out=100, kernel=1, pad=0)], (1, 32, 7, 9), "int8", (10000, 4000, 2300)),
    "strided": ([Conv(out=64, stride=2)], (1, 16, 13, 11), "int8", (20000, 8000, 2700)),
    "padded": ([Conv(out=70, kernel=5, pad=4)], (1, 6, 12, 40), "int8", (20000, 8500, 3300)),
    "depthwise": ([Conv(out=0, groups=-1)], (1, 40, 12, 10), "int8", (6000, 5000, 4000)),
    "depthwise_strided": ([Conv(out=0, kernel=5, pad=2, stride=2, groups=-1)], (1, 12, 13, 11), "int8", (3000, 2000)),
    "grouped": ([Conv(out=32, groups=4)], (1, 16, 9, 7), "int8", (3000, 1200)),
    "linear": ([Linear(out=96)], (3, 64), "int8", (8000, 4000, 300)),
    "conv_int16": ([Conv(out=48)], (1, 16, 12, 10), "int16", (30000, 5000, 4000)),
    "depthwise_int16": ([Conv(out=0, groups=-1)], (1, 24, 12, 10), "int16", (8000, 6000, 5000)),
    "pointwise_int16": ([Conv(out=40, kernel=1, pad=0, stride=2)], (1, 24, 9, 9), "int16", (7000, 4200)),
    "linear_int16": ([Linear(out=64)], (3, 32), "int16", (5000, 1000)),
    "net": (
        [Conv(out=64), Conv(out=0, groups=-1, stride=2), Conv(out=96, kernel=1, pad=0), Conv(out=128, kernel=1, pad=2)],
        (1, 8, 12, 10),
        "int8",
        (30000, 8000, 5000, 2500),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_staging_does_not_change_a_bit(name: str, plain: Objects, checked: Objects, tmp_path: Path) -> None:
    layers, shape, dtype, budgets = CASES[name]
    program = chain(layers, shape, dtype)
    x = example(program)
    assert set(generate(program, tmp_path / "none", 1)) == {"nothing"}
    (want,) = plain.run(tmp_path / "none", x)
    assert len(np.unique(want)) > 20
    seen: Counter[str] = Counter()
    for size in (None, *budgets):
        build = tmp_path / f"l2_{size}"
        seen += generate(program, build, size)
        (got,) = checked.run(build, x)
        np.testing.assert_array_equal(got, want, err_msg=str(size))
    assert len(seen) >= 2, seen


def test_a_staged_convolution_is_that_of_the_model(plain: Objects, tmp_path: Path) -> None:
    """Not only equal to itself: the numpy model of the kernel says the same."""
    program = chain([Conv(out=96)], (1, 16, 12, 10))
    x = example(program)
    assert generate(program, tmp_path, 12000) == {"output-channel tiles": 1}
    w, bias, scale, shift = (c.data for c in program.constants)
    want = kernel_models.mmalib_conv2d(x[0], w, bias, scale, shift, s=(1, 1), pads=(1, 1, 1, 1))
    np.testing.assert_array_equal(plain.run(tmp_path, x)[0][0], want)


# --- the checker ------------------------------------------------------------------------------------------------------

NET = CASES["net"][0]
COPY = "if (to == NULL || tvm_dsp_dma_copy(C7X_DMA_QUEUE, to, from, bytes, 0) != 0) return NULL;"
WAIT = "return tvm_dsp_dma_wait(C7X_DMA_QUEUE, 0) == 0 ? to : NULL;"

#: name: (text in lib0.c, what it becomes, what the message must say)
PLANTED: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "input one byte short": (
        "c7x_l2_copy(&l2, inputs[0], 960)",
        "c7x_l2_copy(&l2, inputs[0], 959)",
        ("layer 0 (layer0): it reads byte 1087 of L2", "959 bytes were copied to its block, which begins at byte 128"),
    ),
    "weights of one tile short": (
        "channels * 64);",
        "channels * 64 - (first ? 1 : 0));",
        ("layer 2 (layer2): it reads byte", "2047 bytes were copied"),
    ),
    "no wait": (WAIT, "return to;", ("layer 0 (layer0): it reads byte 1152", "has not been waited for")),
    "no wait for the input of the second layer": (
        "void *const input = c7x_l2_copy(&l2, (a + ",
        "void *const input = unwaited(&l2, (a + ",
        ("layer 1 (layer1): it reads byte 128 of L2", "7680 bytes to it has not been waited for"),
    ),
    "not given back": (
        "l2->top = mark;",
        "(void)l2;",
        ("layer 0 (layer0)", "did not give back 5760 bytes before layer 1"),
    ),
    "last layer not given back": (
        "c7x_l2_leave(&l2, mark);\n    }\n  }\n  if (status != 0) return status;\n  c7x_l2_close",
        "if (rest > 32) c7x_l2_leave(&l2, mark);\n    }\n  }\n  if (status != 0) return status;\n  c7x_l2_close",
        ("layer 3 (layer3)", "bytes of L2 are still taken at the end"),
    ),
    "no guard": ('(layer0)", 128)', '(layer0)", 0)', ("layer 0 (layer0)", "less than its guard of 128")),
    "guard too small for the padding": (
        '(layer3)", 128)',
        '(layer3)", 0)',
        ("layer 3 (layer3)", "guard"),
    ),
    "copy into the guard": (
        "c7x_l2_copy(&l2, inputs[0], 960)",
        "(tvm_dsp_dma_copy(0, mark, inputs[0], 960, 0) == 0 ? mark : NULL)",
        ("layer 0 (layer0)", "960 bytes are copied to a block of 128"),
    ),
    "input read where the last layer had it": (
        "c7x_l2_leave(&l2, mark);\n  }\n  if (status != 0) return status;\n  /* 1: layer1 */",
        "c7x_l2_leave(&l2, mark);\n    if (*(volatile uint8_t *)input == 77) return -1;\n  }\n"
        "  if (status != 0) return status;\n  /* 1: layer1 */",
        ("after layer 0 (layer0): it reads byte 128 of L2", "no layer copied anything there"),
    ),
    "written beyond the output": (
        "c7x_l2_leave(&l2, mark);\n  }\n  if (status != 0) return status;\n  /* 1: layer1 */",
        "mark[0] = 1;\n    c7x_l2_leave(&l2, mark);\n  }\n  if (status != 0) return status;\n  /* 1: layer1 */",
        ("layer 0 (layer0): it writes byte 0 of L2", "it is in the guard of the input"),
    ),
    "read in front of L2": (
        "c7x_l2_leave(&l2, mark);\n  }\n  if (status != 0) return status;\n  /* 1: layer1 */",
        "if (*(volatile uint8_t *)(mark - 1) == 77) return -1;\n    c7x_l2_leave(&l2, mark);\n  }\n"
        "  if (status != 0) return status;\n  /* 1: layer1 */",
        ("layer 0 (layer0): it reads byte -1 of L2",),
    ),
}
#: A copy of operands that is not waited for.
UNWAITED = f"""
static void *unwaited(c7x_l2 *l2, const void *from, int32_t bytes) {{
  uint8_t *const to = c7x_l2_take(l2, bytes);
  {COPY}
  return to;
}}

int32_t cg_main(const void *const *inputs, void *const *outputs, const void *weights, void *arena) {{
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, np.ndarray]]:
    """A net with tiles and layers whose input alone is staged, and an input for it."""
    folder = tmp_path_factory.mktemp("whole")
    program = chain(NET, (1, 8, 12, 10))
    assert generate(program, folder, 8000) == {"input and weights": 1, "input": 1, "output-channel tiles": 2}
    yield folder, example(program)


@pytest.mark.parametrize("name", PLANTED)
def test_checker_finds(name: str, whole: tuple[Path, np.ndarray], checked: Objects, tmp_path: Path) -> None:
    good, x = whole
    old, new, wanted = PLANTED[name]
    build = tmp_path / "build"
    shutil.copytree(good, build)
    source = (build / "lib0.c").read_text(encoding="utf-8")
    if "unwaited(" in new:
        source = source.replace(UNWAITED[UNWAITED.index("\nint32_t cg_main") :], UNWAITED)
    changed = source.replace(old, new)
    assert changed != source, f"{old} is not in lib0.c"
    (build / "lib0.c").write_text(changed, encoding="utf-8")
    with pytest.raises(RunError) as failure:
        checked.run(build, x)
    assert "cg_dsp: error: L2 check: " in failure.value.message
    for text in wanted:
        assert text in failure.value.message, failure.value.message


def test_checker_leaves_other_errors_to_the_sanitizer(
    whole: tuple[Path, np.ndarray], checked: Objects, tmp_path: Path
) -> None:
    build = tmp_path / "build"
    shutil.copytree(whole[0], build)
    path = build / "lib0.c"
    text = path.read_text(encoding="utf-8")
    path.write_text(
        text.replace("  c7x_l2_close(&l2);\n", "  c7x_l2_close(&l2);\n  a[arena == NULL ? 0 : 1 << 20] = 1;\n")
    )
    with pytest.raises(RunError) as failure:
        checked.run(build, whole[1])
    assert "L2 check" not in failure.value.message
    assert "AddressSanitizer" in failure.value.message or "SUMMARY" in failure.value.message


def test_command(whole: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    shutil.copytree(whole[0], tmp_path / "build")
    value = ok(tmp_path, "build", "build", "--check-l2", "--cc", "gcc")
    assert value["stages"][0]["result"]["build_type"] == "asan"
    ws = Workspace(tmp_path / "build")
    assert ws.manifest["stages"][-1]["options"]["check_l2"] is True
    assert run_host(ws, [whole[1]]).outputs[0].shape == (1, 128, 10, 9)
    shown = c7x(tmp_path, "inspect", "build").stdout
    assert re.search(
        r"^2 +layer2 +mmalib_conv2d_i8_sliced +output-channel tiles of 64 +6144 bytes of weights, ", shown, re.M
    )
    assert [row["staged"] for row in ok(tmp_path, "inspect", "build")["l2"]][:2] == ["input and weights", "input"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "c7x_vdsp"}, "no meaning in mode c7x_vdsp"),
        ({"mode": "c7x_dload"}, "no meaning in mode c7x_dload"),
        ({"build_type": "Debug"}, "--build-type Debug exclude each other"),
    ],
)
def test_command_refuses(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        STAGES["build"].check({**options, "check_l2": True})
    STAGES["build"].check({"check_l2": True, "build_type": "asan"})
    assert BuildOptions(check_l2=True).build_type == "asan"


# --- modules ----------------------------------------------------------------------------------------------------------


def test_on_the_virtual_dsp(
    plain: Objects, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bits as on the host, for each case of the rule. In strict mode a copy happens when it is waited for."""
    folder = tmp_path_factory.mktemp("vdsp")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.delenv("C7X_VDSP_SOCKET", raising=False)
    program = chain(NET, (1, 8, 12, 10))
    x = example(program)
    generate(program, folder / "none", 1)
    (want,) = plain.run(folder / "none", x)
    seen: Counter[str] = Counter()
    for board, size in (("beagley-ai", 8000), ("j722s-evm", 5000)):
        build = folder / f"l2_{size}"
        seen += generate(program, build, size)
        (build / "cc").mkdir()
        module, _ = build_module(
            [build / "lib0.c"],
            weights=build / "weights.bin",
            folder=build / "cc",
            board=board,
            options=BuildOptions(cflags=("-O1",)),
            compiler=find_compiler("gcc"),
        )
        imports = describe_module(module, board)["imports"]
        assert {*IMPORTS, SLICED} <= {name for name, uses in imports.items() if uses}
        with vdsp.private_server(board=board) as place, vdsp.VdspClient(place) as client:
            handle = client.load(module.read_bytes())
            for _ in range(2):
                np.testing.assert_array_equal(client.infer(handle, [x]).outputs[0].reshape(want.shape), want)
    assert set(seen) == {"nothing", "input", "output-channel tiles", "input and weights"}


def test_an_import_that_no_board_has_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generate(chain([Conv(out=8)], (1, 2, 5, 5)), tmp_path)
    left = {name: e for name, e in stub_exports("beagley-ai").items() if name not in ("tvm_dsp_dma_wait", SLICED)}
    monkeypatch.setattr("c7x.toolchain.vdsp.stub_exports", lambda board: left)
    (tmp_path / "cc").mkdir()
    with pytest.raises(ToolError, match="needs tvm_dsp_dma_wait, which the firmware of beagley-ai does not have"):
        build_module(
            [tmp_path / "lib0.c"],
            weights=None,
            folder=tmp_path / "cc",
            board="beagley-ai",
            options=BuildOptions(cflags=("-O0",)),
            compiler=find_compiler("gcc"),
        )


DEVICE = """
#include <stddef.h>
#include <stdint.h>
#define C7X_INLINE static inline
#include "c7x_l2.h"
int works(const void *from) {
  c7x_l2 l2 = c7x_l2_open();
  uint8_t *const mark = c7x_l2_enter(&l2, "layer", 128);
  const void *const block = c7x_l2_copy(&l2, from, 1000);
  const uint8_t *const top = l2.top;
  c7x_l2_leave(&l2, mark);
  return block == (void *)0x7E000080 && top == (uint8_t *)0x7E000480 && l2.top == (uint8_t *)0x7E000000 &&
         l2.end == (uint8_t *)0x7E140000 && c7x_l2_take(&l2, 0x140000) != NULL && c7x_l2_take(&l2, 1) == NULL;
}
int tvm_dsp_dma_copy(int queue, void *dst, const void *src, int bytes, int bypass_cache) {
  (void)dst; (void)src;
  return queue != 0 || bytes != 1000 || bypass_cache != 0;
}
int tvm_dsp_dma_wait(int queue, int max_inflight) { return queue != 0 || max_inflight != 0; }
int main(void) { return works("x") ? 0 : 1; }
"""


@pytest.mark.parametrize("cc", ["gcc", "g++"])
def test_on_the_device_l2_lies_at_its_address(cc: str, tmp_path: Path) -> None:
    """Generated code knows the address there, and does not ask for it (module-abi.md, section 7)."""
    needs(cc)
    (tmp_path / "device.c").write_text(DEVICE)
    words = [
        cc,
        "-O1",
        "-Wall",
        "-Wextra",
        "-D__C7000__",
        "-I",
        str(native_dir() / "include"),
        "device.c",
        "-o",
        "device",
    ]
    subprocess.run(words, check=True, cwd=tmp_path)
    assert subprocess.run([tmp_path / "device"], check=False).returncode == 0


@pytest.mark.parametrize("cc", ["g++", "clang", "clang++"])
def test_generated_c_compiles_without_a_warning(cc: str, whole: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    needs(cc)
    flags = CXX_FLAGS if cc.endswith("++") else C_FLAGS
    words = [cc, *flags, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", str(whole[0] / "lib0.c")]
    subprocess.run(words, check=True, cwd=tmp_path)


# --- models -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(tmp_path_factory.mktemp("l2"))


def staged_kinds(result: Compiled) -> Counter[str]:
    return Counter(call.staging.staged for call in result.program.calls if call.staging is not None)


def same_bits(runner: Runner, model: QuantizedCase, sizes: tuple[int, ...], batches: list[np.ndarray]) -> Counter[str]:
    """Runs the model with each size of L2 on each input; how often each staging occurred."""
    plain = compiled(model.module, f"{MMALIB} -l2-sram-size=1")
    assert set(staged_kinds(plain)) == {"nothing"}
    want = [runner.run(plain, x) for x in batches]
    seen: Counter[str] = Counter()
    for size in sizes:
        result = compiled(model.module, f"{MMALIB} -l2-sram-size={size}")
        seen += staged_kinds(result)
        for x, outputs in zip(batches, want, strict=True):
            for got, expected in zip(runner.run(result, x), outputs, strict=True):
                np.testing.assert_array_equal(got, expected, err_msg=str(size))
    return seen


@pytest.mark.filterwarnings("ignore")
def test_digits(runner: Runner) -> None:
    net, (images,) = digits_model()
    samples = [(image[None],) for (batch,) in calibration_inputs() for image in batch[:4]]
    model = quantize_model((net, (images[:1],)), "int8", samples=samples)
    batches = [image[None].numpy() for image in images[:8]]
    seen = same_bits(runner, model, (L2_BYTES, 4000, 800), batches)
    assert set(seen) == {"nothing", "input", "input and weights"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_resnet18(runner: Runner) -> None:
    model = quantized_case("resnet18_64", "int8")
    seen = same_bits(runner, model, (L2_BYTES, 200_000), model.inputs)
    assert seen["output-channel tiles"] >= 6
    assert seen["input and weights"] >= 20
