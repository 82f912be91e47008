"""c7x::Module, compiled as a user would, and the Arm side cross-built and run under qemu."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from c7x.run import vdsp
from tests.integration.arm_harness import ARM, ROOT, arm_build, call, module, run

SOURCE = Path(__file__).with_name("arm_cxx.cc")
STRICT = ["-std=c++14", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ARM / 'include'}"]


def compile_program(compiler: str, build: Path, output: Path, *flags: str) -> None:
    libraries = [f"-L{build}", "-lc7x_arm_runtime", f"-Wl,-rpath,{build}"]
    call([compiler, *STRICT, *flags, str(SOURCE), "-o", str(output), *libraries])


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_module(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    compile_program(compiler, arm_build(), tmp_path / "program", "-O2", "-g")
    with vdsp.private_server() as place:
        variables = {**os.environ, "C7X_TRANSPORT": "vdsp", "C7X_VDSP_SOCKET": str(place.socket)}
        assert call([str(tmp_path / "program"), str(module()), str(module("-DOUTPUTS=2"))], env=variables) == "ok\n"


def test_module_under_valgrind(tmp_path: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("there is no valgrind")
    compile_program("g++", arm_build(), tmp_path / "program", "-O1", "-g")
    with vdsp.private_server() as place:
        variables = {**os.environ, "C7X_TRANSPORT": "vdsp", "C7X_VDSP_SOCKET": str(place.socket)}
        check = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--track-fds=yes"]
        done = run([*check, str(tmp_path / "program"), str(module()), str(module("-DOUTPUTS=2"))], env=variables)
    assert done.returncode == 0, done.stderr
    assert "vdsp.sock" not in done.stderr  # no descriptor of a connection or its lock left open


def test_headers_as_c(tmp_path: Path) -> None:
    (tmp_path / "user.c").write_text("#include <c7x_client.h>\nint main(void) { c7x_client_close(0); return 0; }\n")
    for standard in ("c99", "c11"):
        call(["gcc", f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ARM / 'include'}",
              "-fsyntax-only", str(tmp_path / "user.c")])  # fmt: skip


def test_cmake_install(tmp_path: Path) -> None:
    call(["cmake", "--install", str(arm_build()), "--prefix", str(tmp_path)])
    (tmp_path / "user.cc").write_text("#include <c7x_runtime.h>\nint main() { return c7x::kMaxOutputs != 64; }\n")
    # With what was installed, and nothing else.
    call(["g++", "-std=c++14", f"-I{tmp_path / 'include'}", "-fsyntax-only", str(tmp_path / "user.cc")])
    libraries = [path.name for path in tmp_path.rglob("libc7x_arm_runtime.so*")]
    assert sorted(libraries) == ["libc7x_arm_runtime.so", "libc7x_arm_runtime.so.1", "libc7x_arm_runtime.so.1.0.0"]
    assert len(list(tmp_path.rglob("c7x_arm_runtime.pc"))) == 1
    assert call([str(tmp_path / "bin" / "c7x_compute"), "help"])  # finds its library


def test_cross_built_under_qemu(tmp_path: Path) -> None:
    """The Arm programs, emulated, talk to the virtual DSP of this machine."""
    qemu = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if qemu is None or shutil.which("aarch64-linux-gnu-g++") is None:
        pytest.skip("needs g++-aarch64-linux-gnu and qemu-user-static")
    toolchain = ROOT / "native" / "cmake" / "aarch64-linux-gnu.cmake"
    build = arm_build(f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DC7X_ARM_TESTS=ON")
    emulated = [qemu, "-L", "/usr/aarch64-linux-gnu", "-E", f"LD_LIBRARY_PATH={build}"]
    compile_program("aarch64-linux-gnu-g++", build, tmp_path / "program", "-O2")
    (tmp_path / "x.bin").write_bytes(bytes(16))
    with vdsp.private_server() as place:
        variables = {**os.environ, "C7X_TRANSPORT": "vdsp", "C7X_VDSP_SOCKET": str(place.socket)}
        arguments = [str(module()), str(module("-DOUTPUTS=2"))]
        assert call([*emulated, str(tmp_path / "program"), *arguments], env=variables) == "ok\n"
        compute = [*emulated, str(build / "c7x_compute")]
        assert "PING successful!" in call([*compute, "ping"], env=variables)
        out = call([*compute, "run", "-m", str(module()), "-i", str(tmp_path / "x.bin")], env=variables)
        assert '"status": "ok"' in out
    # The board's side of the library, against a kernel of the test's own.
    call([*emulated, str(build / "tests" / "test_rpmsg")], env={**os.environ, "TMPDIR": str(tmp_path)})
