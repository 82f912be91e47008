"""What programs outside c7x rely on: sources of native/ that build one by one with a plain compiler and three -I."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from c7x.native import native_dir

INCLUDES = [f"-I{native_dir() / folder}" for folder in ("include", "kernels", "runtime")]
SOURCES = sorted(p for folder in ("kernels", "runtime") for p in (native_dir() / folder).rglob("*.c*"))
COMPILERS = {
    "c99": ["gcc", "-std=c99", "-pedantic"],
    "gnu++": ["g++"],
    "c++14": ["g++", "-std=c++14", "-fno-exceptions", "-fno-rtti"],
}
KERNEL_CALLS = """
#include <stdio.h>
#include "c7x_kernels.h"
#include "mmalib/mmalib_wrappers.h"

int main(void) {
  signed char in[9] = {0, 8, 16, -8, -16, 127, -128, 1, 2}, out[9];
  if (c7x_int8_silu(in, out, 9, 0, 0.125f, 0, 0.125f) != 0) return 1;
  if (mmalib_conv2d_i8(in, in, NULL, NULL, NULL, out, 1, 3, 3, 1, 3, 3, 1, 1, 0, 0, 0, 0) != 0) return 2;
  return out[0] == 127 ? 0 : 3;
}
"""


def run(*command: str | Path) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("language", COMPILERS)
def test_every_source_compiles_by_itself(language: str) -> None:
    compiler = COMPILERS[language]
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"{compiler[0]} is not installed")
    for source in SOURCES:
        if source.suffix == ".c" or language != "c99":
            run(*compiler, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *INCLUDES, source)


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
def test_all_of_it_in_one_program(tmp_path: Path, compiler: str) -> None:
    if shutil.which(compiler) is None or shutil.which("g++") is None:
        pytest.skip(f"{compiler} is not installed")
    (tmp_path / "main.c").write_text(KERNEL_CALLS)
    sources = [source for source in SOURCES if source.name != "main.c" and source.suffix == ".c"]
    run(compiler, "-O0", *INCLUDES, tmp_path / "main.c", *sources, "-lm", "-o", tmp_path / "program")
    run(tmp_path / "program")
