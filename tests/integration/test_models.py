"""Every model of the zoo through every stage: right answers, the smallest arena, clean C, equal entries, equal builds.

A case is compiled once (``zoo``) and all tests look at the same build directory. The second compile runs in a process
of its own beside them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from c7x.report.compare import Tolerance, compare_outputs
from c7x.run.host import run_host
from c7x.run.tensors import read_specs
from c7x.run.vdsp import SOCKET_ENV, private_server, run_vdsp
from c7x.toolchain.gnu import BuildOptions
from c7x.toolchain.stage import build_stage
from c7x.workspace import Workspace
from tests.integration import entries
from tests.integration.zoo import CODEGEN_FILES, QUICK_FLAGS, ROOT, SecondCompile, Zoo
from tests.models import MODELS, ModelCase
from tests.models.real import CREPE_TONES_HZ, crepe_hertz
from tests.models.wheels import WHEELS, WheelMissing, find

#: What cg_dsp may use beside its arena and weights: the C library, its own code, inputs, outputs.
RESIDENT_SLACK = 8 * 2**20
REPEAT = 50
#: For nets of more than this many multiply-accumulates, built without optimisation that matters, to save time.
HEAVY_MACS, HEAVY_REPEAT = 20_000_000, 5

C99 = ("-x", "c", "-std=c99")
CXX14 = ("-x", "c++", "-std=c++14", "-fno-exceptions", "-fno-rtti")
STRICT = ("-Wall", "-Wextra", "-Werror", "-I", str(ROOT / "native" / "include"))
#: Symbols a module may not ask for (allocation, C++ run time), and sections it may not have (static constructors).
FORBIDDEN_SYMBOLS = re.compile(r"^(malloc|calloc|realloc|free|aligned_alloc|posix_memalign|_Zn\w+|_Zd\w+|__cxa\w*)$")
FORBIDDEN_SECTIONS = re.compile(r"\.(init_array|fini_array|ctors|dtors|preinit_array)")


def _parameters(*tags: str) -> list[ParameterSet]:
    return [
        pytest.param(case, id=case.name, marks=[pytest.mark.slow] if "full" in case.tags else [])
        for case in MODELS.values()
        if not tags or case.tags & set(tags)
    ]


ALL = pytest.mark.parametrize("case", _parameters())
QUICK = pytest.mark.parametrize("case", _parameters("quick"))


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    import torch

    torch.set_num_threads(1)
    return Zoo(tmp_path_factory.mktemp("zoo"))


@pytest.fixture(scope="session")
def wheels() -> dict[str, str]:
    """Why a wheel cannot be used, by package; empty when all are there."""
    missing = {}
    for package in WHEELS:
        try:
            find(package)
        except WheelMissing as error:
            missing[package] = str(error)
    return missing


@pytest.fixture(scope="session")
def second(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, wheels: dict[str, str]
) -> Iterator[SecondCompile]:
    items = [item for item in request.session.items if item.name.startswith("test_second_compile")]
    cases = [item.callspec.params["case"] for item in items if isinstance(item, pytest.Function)]
    names = [c.name for c in cases if isinstance(c, ModelCase) and not (wheels and "real-weights" in c.tags)]
    process = SecondCompile(tmp_path_factory.mktemp("second"), names)
    yield process
    process.close()


@pytest.fixture(autouse=True)
def _start_second_early(request: pytest.FixtureRequest) -> None:
    """The other process begins with the first test that runs, when any test wants it."""
    if any(item.name.startswith("test_second_compile") for item in request.session.items):
        request.getfixturevalue("second")


@pytest.fixture
def ws(case: ModelCase, zoo: Zoo, wheels: dict[str, str]) -> Workspace:
    if "real-weights" in case.tags and wheels:
        pytest.skip("; ".join(wheels.values()))
    return zoo.compiled(case)


def _expected(ws: Workspace) -> list[np.ndarray]:
    return [np.load(ws.path(f"expected/output_{i}.npy")) for i in range(len(read_specs(ws)[1]))]


def _check(case: ModelCase, ws: Workspace, outputs: list[np.ndarray]) -> None:
    """Fails with a line for every output that is not what PyTorch computed."""
    expected = _expected(ws)
    names = [spec.name for spec in read_specs(ws)[1]]
    compared = compare_outputs(names, outputs, expected, Tolerance(relative=case.tolerance))
    failures = [f"{c.name}: {c.reason}" for c in compared if not c.passed]
    failures += [
        f"{names[i]} must be exact: {compared[i].metrics.mismatches} of {compared[i].metrics.count} elements differ"
        for i in case.exact_outputs
        if compared[i].metrics.mismatches
    ]
    assert not failures, "\n".join(failures)


@ALL
def test_agrees_with_pytorch(case: ModelCase, ws: Workspace) -> None:
    """cg_dsp gives PyTorch's answers, the same bits in each of up to 50 runs, and stays within its memory."""
    inputs = [np.load(ws.path(f"inputs/input_{i}.npy")) for i in range(len(read_specs(ws)[0]))]
    macs = sum(layer["macs"] for layer in ws.read_json("layers.json"))
    repeat = HEAVY_REPEAT if macs > HEAVY_MACS and "quick" in case.tags else REPEAT
    # cg_dsp itself fails when a run gives other bits than the first.
    result = run_host(ws, inputs, repeat=repeat, timeout=120)
    assert len(result.host_seconds) == repeat
    _check(case, ws, result.outputs)
    sizes = ws.read_json("io.json")
    assert result.peak_rss is not None
    assert result.peak_rss <= sizes["arena_bytes"] + sizes["weights_bytes"] + RESIDENT_SLACK


@ALL
def test_arena_is_the_largest_live_set(case: ModelCase, ws: Workspace) -> None:
    sizes = ws.read_json("io.json")
    assert sizes["arena_bytes"] == sizes["arena_lower_bound"]
    assert sizes["weights_bytes"] == ws.path("weights.bin").stat().st_size


def _compile(compiler: str, *arguments: str) -> None:
    done = subprocess.run([compiler, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{compiler} {' '.join(arguments)}\n{done.stderr[:4000]}"


@pytest.fixture
def c99_object(ws: Workspace) -> Path:
    """lib0.c as C99 without a single warning, compiled with -O1: a few warnings need the optimiser's analysis."""
    path = ws.root.parent / "lib0.o"
    if not path.is_file():
        _compile(
            "gcc", *C99, *STRICT, "-O1", "-fPIC", "-ffp-contract=off", "-c", str(ws.path("lib0.c")), "-o", str(path)
        )
    return path


@ALL
def test_c_is_clean(case: ModelCase, ws: Workspace, c99_object: Path) -> None:
    """C99 and C++14 without a warning, no allocation, no C++ run time, no constructor."""
    sources = [str(ws.path("lib0.c")), str(ws.path("devc.c"))]
    check = ("-fsyntax-only", *STRICT)
    commands = [("g++", CXX14), ("clang", C99), ("clang++", CXX14)]
    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(lambda c: _compile(c[0], *c[1], *check, *sources), [c for c in commands if shutil.which(c[0])]))
    symbols = subprocess.run(["nm", "-u", str(c99_object)], capture_output=True, text=True, check=True).stdout.split()
    assert not [name for name in symbols if FORBIDDEN_SYMBOLS.match(name)]
    sections = subprocess.run(["objdump", "-h", str(c99_object)], capture_output=True, text=True, check=True).stdout
    assert not FORBIDDEN_SECTIONS.search(sections)
    includes = set(re.findall(r"^\s*#\s*include\s*[<\"]([^>\"]+)", ws.path("lib0.c").read_text(), re.MULTILINE))
    assert includes <= {"stdint.h", "stddef.h", "math.h", "string.h", "stdio.h", "c7x.h"}


@ALL
def test_entries_agree(case: ModelCase, ws: Workspace, c99_object: Path) -> None:
    """cg_main and cg_main_dsp give the same bits, and touch no byte outside the buffers they are given."""
    library = ws.root.parent / "lib0.so"
    _compile("gcc", "-shared", str(c99_object), "-lm", "-o", str(library))
    command = [sys.executable, entries.__file__, str(library), str(ws.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stderr[-3000:]}"
    _check(case, ws, [np.load(ws.path(f"entries/output_{i}.npy")) for i in range(len(_expected(ws)))])


@QUICK
def test_second_compile_is_identical(case: ModelCase, ws: Workspace, second: SecondCompile) -> None:
    """Another process with another hash seed, in another folder, writes the same bytes."""
    other = second.wait_for(case.name)
    different = [name for name in CODEGEN_FILES if ws.path(name).read_bytes() != other.path(name).read_bytes()]
    assert not different


#: One of each kind for every run of the tests; the rest with the slow ones.
VIRTUAL_DSP = frozenset(
    """float64_arithmetic int64_arithmetic nan_and_infinity conv_bn_relu_pool conv_grouped conv_depthwise gap_linear
    audio_net_1d golden_attention nested_inputs_and_outputs only_identity returns_a_view_of_the_input constant_outputs
    unused_input zero_dimensional many_outputs empty_output activations_smooth topk indexing unary_math mtcnn_pnet
    encoder_layer_gelu lstm_bidirectional""".split()
)


@pytest.fixture(scope="module")
def virtual_dsp() -> Iterator[None]:
    """A virtual DSP for these tests. Longer it must not live: commands find it by the environment."""
    with private_server() as place, pytest.MonkeyPatch.context() as patch:
        patch.setenv(SOCKET_ENV, str(place.socket))
        yield


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[] if case.name in VIRTUAL_DSP else [pytest.mark.slow])
        for case in MODELS.values()
    ],
)
def test_virtual_dsp_gives_the_same_bits(case: ModelCase, ws: Workspace, tmp_path: Path, virtual_dsp: None) -> None:
    """lib0.out on the virtual DSP computes the bits that cg_dsp computes on the host."""
    twin = Workspace(tmp_path / "build")
    shutil.copytree(ws.root, twin.root)
    options = BuildOptions(cflags=() if "full" in case.tags else QUICK_FLAGS)
    build_stage(twin, mode="c7x_vdsp", options=options)
    inputs = [np.load(ws.path(f"inputs/input_{i}.npy")) for i in range(len(read_specs(ws)[0]))]
    host = run_host(ws, inputs).outputs
    virtual = run_vdsp(twin, inputs, repeat=2).outputs
    assert [(a.dtype, a.shape) for a in virtual] == [(a.dtype, a.shape) for a in host]
    assert [a.tobytes() for a in virtual] == [a.tobytes() for a in host]


def test_crepe_hears_the_pitch(zoo: Zoo, wheels: dict[str, str]) -> None:
    """The compiled net with real weights finds tones to within 25 cents, a little more than a bin."""
    import torch

    if wheels:
        pytest.skip("; ".join(wheels.values()))
    ws = zoo.compiled(MODELS["crepe_tiny"])
    (probabilities,) = run_host(ws, [np.load(ws.path("inputs/input_0.npy"))]).outputs
    heard = crepe_hertz(torch.from_numpy(probabilities))
    cents = 1200 * torch.log2(heard / torch.tensor(CREPE_TONES_HZ))
    assert cents.abs().max() < 25, f"heard {heard.tolist()} Hz"


def test_every_layer_is_reported(zoo: Zoo) -> None:
    """layers.json lists the calls in order, and the multiply-accumulates of a known net are right."""
    ws = zoo.compiled(MODELS["conv_bn_relu_pool"])
    layers = json.loads(ws.path("layers.json").read_text())
    assert [layer["index"] for layer in layers] == list(range(len(layers)))
    # Two 3x3 convolutions at 32x32 and 16x16, and the linear layer.
    assert sum(layer["macs"] for layer in layers) == 32 * 32 * 16 * 27 + 16 * 16 * 24 * 16 * 9 + 24 * 8 * 8 * 10
