"""The debug artefact's text: one line behind every call, and a refusal where the calls are not to be found."""

from __future__ import annotations

from pathlib import Path

import pytest

from c7x.errors import FormatError
from c7x.report.dump import instrumented
from c7x.report.layers import Layer, Tensor

LIB0 = """\
int32_t cg_main(const void *const *inputs, void *const *outputs, const void *weights, void *arena);
static int32_t k(const float *x, float *y) { return 0; }

int32_t cg_main(const void *const *inputs, void *const *outputs, const void *weights, void *arena) {
  uint8_t *a = (uint8_t *)arena;
  /* 0: relu: nn.relu */
  status = k(inputs[0], a + 0);
  if (status != 0) return status;
  /* 1: add: add */
  status = k(a + 0, outputs[0]);
  if (status != 0) return status;
  return status;
}

int cg_main_dsp(void) {
  return 0;
}
"""


def layer(index: int, tensor: Tensor) -> Layer:
    return Layer(
        index=index,
        kernel="k",
        name=f"n{index}",
        backend="c7x",
        relax_ops=(),
        nodes=(),
        source=(),
        modules=(),
        macs=0,
        bytes_in=0,
        bytes_out=tensor.bytes,
        dtype=tensor.dtype,
        inputs=(),
        outputs=(tensor,),
    )


LAYERS = [
    layer(0, Tensor(buffer="a", dtype="float32", shape=(4,), bytes=16, place="arena", offset=128)),
    layer(1, Tensor(buffer="y", dtype="float32", shape=(2,), bytes=8, place="output", offset=0)),
]


def test_a_line_behind_every_call() -> None:
    text = instrumented(LIB0, LAYERS, Path('/tmp/a "b"/layers.bin'), Path("/tmp/r"))
    assert text.index("cg_dump(a + 128, 16)") < text.index("/* 1: add")
    assert text.index("cg_dump(outputs[0], 8)") > text.index("/* 1: add")
    assert text.index("cg_dump(outputs[0], 8)") < text.index("  return status;\n}")
    assert 'fopen("/tmp/a \\"b\\"/layers.bin", "wb")' in text
    without = [line for line in text.split("\n") if "cg_dump(" not in line or line.startswith("static")]
    kept = [line for line in without if line in LIB0.split("\n")]
    assert [line for line in LIB0.split("\n") if line not in kept] == []


def test_an_empty_output_has_no_line() -> None:
    empty = layer(0, Tensor(buffer="a", dtype="float32", shape=(0,), bytes=0, place="arena", offset=0))
    assert "cg_dump(a" not in instrumented(LIB0, [empty, LAYERS[1]], Path("/x"), Path("/r"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LIB0.replace("int32_t cg_main(", "int32_t main("), "no cg_main"),
        (LIB0.replace("/* 1: add: add */", ""), "the end of call 0 is not to be found"),
        (LIB0.replace("/* 0: relu: nn.relu */", ""), "the comment of call 0 is gone"),
        (LIB0.replace("  return status;\n}", "  return 0;\n}"), "the end of call 1"),
    ],
)
def test_edited_beyond_the_kernels(text: str, words: str) -> None:
    with pytest.raises(FormatError, match=words) as caught:
        instrumented(text, LAYERS, Path("/x"), Path("/r"))
    assert "c7x codegen" in str(caught.value.hint)
