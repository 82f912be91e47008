"""The C code of the documentation works as it stands there, with every compiler. tests/docs runs all other blocks."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import c7x
from tests.docs.given import relax_module

PAGE = (Path(__file__).parents[2] / "docs" / "getting-started.md").read_text(encoding="utf-8")

_MAIN = """
#include <stdio.h>

static unsigned char weights[MODEL_WEIGHTS_BYTES] __attribute__((aligned(MODEL_ARENA_ALIGNMENT)));

int main(void) {
  float image[4] = {-1.0f, 0.5f, 2.0f, 0.0f}, logits[4];
  FILE *file = fopen("weights.bin", "rb");
  if (file == NULL || fread(weights, 1, sizeof weights, file) != sizeof weights) return 2;
  if (infer(image, logits, weights) != C7X_OK) return 1;
  for (int i = 0; i < 4; i++) printf("%.9g\\n", logits[i]);
  return 0;
}
"""


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [("gcc", ("-std=c99",)), ("g++", ("-x", "c++", "-std=c++14")), ("clang", ("-std=c99",))],
)
def test_calling_the_model_from_c(compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    for name, content in c7x.build(relax_module(), "c_static -mcpu=c7x").files.items():
        (tmp_path / name).write_bytes(content)
    (block,) = _blocks("c")
    (tmp_path / "main.c").write_text(block + _MAIN, encoding="utf-8")
    command = [compiler, *flags, "-O3", "-fno-strict-aliasing", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        [*command, "main.c", "lib0.c", "devc.c", "-x", "none", "-lm", "-o", "infer"], cwd=tmp_path, check=True
    )
    shown = subprocess.run([tmp_path / "infer"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert [float(line) for line in shown.split()] == [0.0, 1.5, 6.0, 0.0]
