from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from c7x.errors import DependencyError, TargetError, ToolError, UsageError, WorkspaceError
from c7x.native import native_dir
from c7x.reporter import Reporter
from c7x.run.host import run_host
from c7x.subprocesses import run
from c7x.toolchain.gnu import (
    BUILD_TYPES,
    CHECK_L2_SOURCE,
    KERNEL_SOURCES,
    RUNTIME_SOURCES,
    BuildOptions,
    find_compiler,
    kernel_sources,
)
from c7x.toolchain.stage import build_stage
from tests.integration.handwritten import B, W, make_workspace

X = np.array([[1.0, 2.0, np.nan, -4.0]], np.float32)
Y = X * np.array(W, np.float32) + np.array(B, np.float32)


def needs(compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")


@pytest.mark.parametrize(
    ("cc", "build_type"),
    [(cc, build_type) for cc in ("gcc", "clang") for build_type in sorted(BUILD_TYPES)]
    + [("g++", "release"), ("g++", "asan"), ("clang++", "release")],
)
def test_compilers_and_build_types(tmp_path: Path, cc: str, build_type: str) -> None:
    needs(cc)
    ws = make_workspace("affine", tmp_path)
    result = build_stage(ws, options=BuildOptions(cc=cc, build_type=build_type))
    assert result["artefact"] == "cg_dsp"
    assert result["bytes"] == ws.path("cg_dsp").stat().st_size
    np.testing.assert_array_equal(run_host(ws, [X]).outputs[0], Y)
    (record,) = ws.manifest["stages"]
    assert record["tools"] == {"cc": result["compiler"]}
    assert set(record["outputs"]) == {"cg_dsp"}
    assert set(record["inputs"]) == {"lib0.c", "devc.c"}
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".c7x-")]


@pytest.mark.parametrize("cc", ["gcc", "clang"])
@pytest.mark.parametrize("build_type", sorted(BUILD_TYPES))
def test_two_folders_give_the_same_bytes(tmp_path: Path, cc: str, build_type: str) -> None:
    needs(cc)
    binaries = []
    for name in ("a", "folder with a longer name"):
        ws = make_workspace("affine", tmp_path / name)
        build_stage(ws, options=BuildOptions(cc=cc, build_type=build_type))
        binaries.append(ws.path("cg_dsp").read_bytes())
    assert binaries[0] == binaries[1]
    assert str(tmp_path).encode() not in binaries[0]
    assert str(native_dir()).encode() not in binaries[0]


def test_cplusplus_leaves_no_dependency_on_its_library(tmp_path: Path) -> None:
    needs("g++")
    needs("readelf")
    ws = make_workspace("affine", tmp_path)
    build_stage(ws, options=BuildOptions(cc="g++"))
    assert "stdc++" not in run(["readelf", "-d", ws.path("cg_dsp")]).stdout


def test_march_and_cflags_reach_the_compiler(tmp_path: Path) -> None:
    class Recorder(Reporter):
        lines: list[str] = []  # noqa: RUF012

        def progress(self, text: str) -> None:
            self.lines.append(text)

    ws = make_workspace("affine", tmp_path)
    options = BuildOptions(march="native", cflags=("-DMARK=1", "-ffp-contract=off"))
    build_stage(ws, options=options, reporter=Recorder())
    (line,) = (line for line in Recorder.lines if "lib0.c" in line)
    assert "-march=native" in line
    assert line.index("-ffp-contract=off") > line.index("-ffp-contract=fast")
    assert not any("-DMARK=1" in line for line in Recorder.lines if "main.c" in line)
    assert ws.manifest["stages"][0]["options"]["march"] == "native"


@pytest.mark.parametrize("cc", ["g++", "clang++"])
def test_host_emulation_gives_the_same_bits(tmp_path: Path, cc: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needs(cc)
    ws = make_workspace("affine", tmp_path / "build")
    monkeypatch.delenv("TI_CGT_C7000_PATH", raising=False)
    build_stage(ws, options=BuildOptions(cc=cc, hostemu="open"))
    np.testing.assert_array_equal(run_host(ws, [X]).outputs[0], Y)
    assert ws.manifest["stages"][0]["options"]["hostemu"] == "open"
    assert str(native_dir()).encode() not in ws.path("cg_dsp").read_bytes()
    with pytest.raises(DependencyError, match="TI's host emulation"):
        build_stage(ws, options=BuildOptions(cc=cc, hostemu="ti"))
    # TI's package has the same layout, and an archive to link.
    package = tmp_path / "TI tools" / "host_emulation"
    (package / "include").mkdir(parents=True)
    name = "C7524-MMA2_256"
    (package / "include" / name).symlink_to(native_dir() / "hostemu" / "include" / name)
    monkeypatch.setenv("TI_CGT_C7000_PATH", str(package.parent))
    (package / f"lib{name}-host-emulation.a").write_bytes(b"!<arch>\n")
    build_stage(ws, options=BuildOptions(cc=cc, hostemu="ti"))
    np.testing.assert_array_equal(run_host(ws, [X]).outputs[0], Y)


def test_host_emulation_needs_a_compiler_for_cxx(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"needs a C\+\+ compiler"):
        build_stage(make_workspace("affine", tmp_path), options=BuildOptions(cc="gcc", hostemu="open"))


def test_cc_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("clang")
    monkeypatch.setenv("CC", "env clang")
    assert find_compiler().command == ("env", "clang")
    assert "clang" in find_compiler().version
    assert find_compiler("gcc").command == ("gcc",)


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ws = make_workspace("affine", tmp_path / "build")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="no C compiler") as caught:
        build_stage(ws, options=BuildOptions())
    assert "apt install gcc" in (caught.value.hint or "")
    assert "dnf install gcc" in (caught.value.hint or "")
    assert caught.value.stage == "build"
    monkeypatch.setenv("CC", "no-such-cc")
    with pytest.raises(ToolError, match="no-such-cc") as caught:
        build_stage(ws, options=BuildOptions())
    assert "CC" in (caught.value.cause or "")
    assert not ws.has("cg_dsp")


def test_code_that_does_not_compile(tmp_path: Path) -> None:
    ws = make_workspace("affine", tmp_path)
    build_stage(ws, options=BuildOptions())
    before = ws.path("cg_dsp").read_bytes()
    with ws.path("lib0.c").open("a") as file:
        file.write("\nint broken = ;\n")
    with pytest.raises(ToolError, match=r"cannot compile lib0\.c") as caught:
        build_stage(ws, options=BuildOptions())
    assert re.search(r"lib0\.c:\d+:\d+: error", caught.value.message)
    # What was there stays whole, and no scratch folder is left.
    assert ws.path("cg_dsp").read_bytes() == before
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".c7x-")]


def test_bad_march(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="mars"):
        build_stage(make_workspace("affine", tmp_path), options=BuildOptions(march="mars"))


def test_missing_definition_is_a_link_error(tmp_path: Path) -> None:
    ws = make_workspace("affine", tmp_path)
    ws.path("devc.c").write_text("typedef int nothing;\n")
    with pytest.raises(ToolError, match=r"cannot link cg_dsp[\s\S]*c7x_model"):
        build_stage(ws, options=BuildOptions(cc="gcc"))


def test_several_libraries_are_linked(tmp_path: Path) -> None:
    ws = make_workspace("affine", tmp_path)
    source = ws.path("lib0.c").read_text()
    ws.path("lib0.c").write_text(f"extern int in_lib1(void);\n{source}\nint use_lib1(void) {{ return in_lib1(); }}\n")
    ws.path("lib1.c").write_text("int in_lib1(void);\nint in_lib1(void) { return 1; }\n")
    build_stage(ws, options=BuildOptions())
    assert set(ws.manifest["stages"][0]["inputs"]) == {"lib0.c", "lib1.c", "devc.c"}


def test_headers_beside_the_sources_are_found(tmp_path: Path) -> None:
    ws = make_workspace("affine", tmp_path)
    ws.path("affine.h").write_text((native_dir() / "include" / "c7x_model.h").read_text())
    text = ws.path("devc.c").read_text()
    ws.path("devc.c").write_text(text.replace('#include "c7x_model.h"', '#include "affine.h"'))
    build_stage(ws, options=BuildOptions())
    assert "affine.h" in ws.manifest["stages"][0]["inputs"]


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="no build directory"):
        build_stage(make_workspace("affine", tmp_path / "x").__class__(tmp_path / "y"), options=BuildOptions())
    ws = make_workspace("affine", tmp_path / "z")
    with pytest.raises(UsageError):
        build_stage(ws, mode="c7x_dload", options=BuildOptions())
    with pytest.raises(TargetError):
        build_stage(ws, mode="c8x", options=BuildOptions())
    with pytest.raises(UsageError, match="fastest"):
        BuildOptions(build_type="fastest")
    assert BuildOptions(build_type="Release").build_type == "release"
    ws.path("devc.c").unlink()
    with pytest.raises(WorkspaceError, match=r"devc\.c"):
        build_stage(ws, options=BuildOptions())


def test_sources_are_those_of_cmake() -> None:
    text = (native_dir() / "CMakeLists.txt").read_text()
    listed = set(re.findall(r"(?:runtime|kernels)/[\w/]+\.c\b", text))
    assert listed == {*RUNTIME_SOURCES, *KERNEL_SOURCES, CHECK_L2_SOURCE}


def test_kernel_sources_are_all_there_are() -> None:
    folder = native_dir()
    assert set(KERNEL_SOURCES) == {str(path.relative_to(folder)) for path in (folder / "kernels").rglob("*.c")}


def test_only_the_kernels_that_are_called_are_linked(tmp_path: Path) -> None:
    needs("nm")
    ws = make_workspace("affine", tmp_path)
    assert kernel_sources([ws.path("lib0.c")]) == ()
    build_stage(ws, options=BuildOptions())
    assert "c7x_int8_" not in run(["nm", ws.path("cg_dsp")]).stdout
    source = ws.path("lib0.c").read_text()
    source += (
        "\nint32_t c7x_topk(const void *, void *, void *, int32_t, int32_t, int32_t);\n"
        "int use_topk(void) { return c7x_topk(0, 0, 0, 1, 1, 1); }\n"
        "int32_t mmalib_matmul_i8(void *, void *, void *, int32_t, int32_t, int32_t, int32_t);\n"
        "int use_matmul(void) { return mmalib_matmul_i8(0, 0, 0, 64, 64, 64, 0); }\n"
    )
    ws.path("lib0.c").write_text(source)
    assert kernel_sources([ws.path("lib0.c"), ws.path("devc.c")]) == (
        "kernels/float_kernels.c",
        "kernels/mmalib/mmalib_wrappers.c",
    )
    for build_type in ("release", "asan"):
        build_stage(ws, options=BuildOptions(build_type=build_type))
        symbols = run(["nm", ws.path("cg_dsp")]).stdout
        assert "T c7x_topk" in symbols
        assert "T mmalib_conv2d_i8" in symbols
        assert "c7x_int8_" not in symbols
        np.testing.assert_array_equal(run_host(ws, [X]).outputs[0], Y)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_native_tests_pass_under_sanitizers(tmp_path: Path, compiler: str) -> None:
    needs(compiler)
    needs("cmake")
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    source = native_dir()
    run([
        "cmake", *generator, "-S", source, "-B", tmp_path, "-DC7X_BUILD_TESTS=ON", "-DC7X_SANITIZE=address,undefined",
        f"-DCMAKE_TOOLCHAIN_FILE={source / 'cmake' / f'{compiler}.cmake'}",
    ])  # fmt: skip
    run(["cmake", "--build", tmp_path, "--parallel", str(len(os.sched_getaffinity(0)))])
    done = run(["ctest", "--test-dir", tmp_path, "--output-on-failure", "--no-tests=error"], check=False, timeout=300)
    assert done.returncode == 0, done.stdout
