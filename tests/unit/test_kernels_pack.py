"""Packing of weights, cutting of channels and pixels, and what generate() promises, without a C compiler."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from c7x.codegen.kernels import OPS, GeneratedKernel, KernelOptions, Operand, generate, supports
from c7x.codegen.kernels.depthwise import choose_outputs, pack_depthwise
from c7x.codegen.kernels.tile import choose_blocks, choose_pixels, pack_panels
from c7x.codegen.kernels.winograd import pack_winograd
from c7x.codegen.program import TensorType
from c7x.errors import UnsupportedError


def tensor(*shape: int, dtype: str = "float32") -> TensorType:
    return TensorType(dtype=dtype, shape=shape)


def unpack_panels(packed: np.ndarray, channels: int, k: int, pixels: int) -> np.ndarray:
    """Reads panels the way the kernel does: block by block, K by K."""
    blocks = choose_blocks(channels, pixels)
    out, at = [], 0
    for width in [blocks.main * 8] * blocks.pairs + [blocks.last * 8] * bool(blocks.last):
        panel = packed[at : at + k * width].reshape(k, width)
        out.append(panel.T)
        at += k * width
    assert at == packed.size
    return np.concatenate(out)


@given(st.integers(1, 200), st.integers(1, 9), st.integers(1, 12))
def test_panels_hold_every_weight_once_and_zeros_behind(channels: int, k: int, pixels: int) -> None:
    weights = np.arange(1, channels * k + 1, dtype=np.float32).reshape(channels, k)
    blocks = choose_blocks(channels, pixels)
    full = unpack_panels(pack_panels(weights, blocks), channels, k, pixels)
    np.testing.assert_array_equal(full[:channels], weights)
    assert not full[channels:].any()
    assert full.shape[0] - channels < 8
    assert 1 <= blocks.tail <= 8 and (blocks.vectors - 1) * 8 + blocks.tail == channels


@given(st.integers(1, 8), st.integers(1, 5000))
def test_tiles_fit_the_pixels_and_the_registers(vectors: int, pixels: int) -> None:
    tile = choose_pixels(vectors, pixels)
    assert 1 <= tile <= pixels
    assert tile * vectors <= 12


@pytest.mark.parametrize(("pixels", "tile"), [(3136, 6), (49, 5), (25, 5), (4, 4), (1, 1)])
def test_tile_of_two_vectors(pixels: int, tile: int) -> None:
    assert choose_pixels(2, pixels) == tile


@pytest.mark.parametrize(("width", "outputs"), [(112, 7), (7, 7), (10, 5), (9, 5), (3, 3), (1, 1)])
def test_depthwise_outputs(width: int, outputs: int) -> None:
    assert choose_outputs(width) == outputs


def test_depthwise_layout() -> None:
    weights = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 1, 3, 4)
    packed = pack_depthwise(weights)
    assert packed.shape == (3, 4, 2) and packed.flags.c_contiguous
    assert packed[2, 1, 1] == weights[1, 0, 2, 1]


def test_winograd_weights_are_the_transform_in_float64() -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((32, 8, 3, 3)).astype(np.float32)
    panels = pack_winograd(weights).reshape(2, 16, 8, 16)
    g = weights[19, 5].astype(np.float64)
    half = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
    np.testing.assert_array_equal(panels[1, :, 5, 3], (half @ g @ half.T).ravel().astype(np.float32))


Call = tuple[str, dict[str, Any], list[Operand], list[TensorType]]


def conv(weights: np.ndarray, *, o: int = 8, size: int = 8, **attrs: Any) -> Call:
    full = {"strides": [1, 1], "padding": [1, 1, 1, 1], "dilation": [1, 1], "groups": 1, "has_bias": False,
            "has_residual": False, "activation": None} | attrs  # fmt: skip
    data = Operand(type=tensor(1, size, size, weights.shape[1] * full["groups"]))
    return "c7x.conv2d", full, [data, Operand(type=tensor(*weights.shape), value=weights)], [tensor(1, size, size, o)]


def calls() -> dict[str, Call]:
    """One call of every op."""
    ones = np.ones((8, 4, 3, 3), np.float32)
    row = {"outer": 2, "axis": 5, "inner": 3}
    x = Operand(type=tensor(2, 5, 3))
    return {
        "c7x.conv2d": conv(ones),
        "c7x.matmul": (
            "c7x.matmul", {"transpose_b": True, "has_bias": False, "has_residual": False, "activation": "relu"},
            [Operand(type=tensor(2, 4)), Operand(type=tensor(3, 4), value=np.ones((3, 4), np.float32))], [tensor(2, 3)],
        ),
        "c7x.batch_matmul": (
            "c7x.batch_matmul", {"transpose_b": False},
            [Operand(type=tensor(2, 3, 4)), Operand(type=tensor(1, 4, 5))], [tensor(2, 3, 5)],
        ),
        "c7x.softmax": ("c7x.softmax", row, [x], [tensor(2, 5, 3)]),
        "c7x.log_softmax": ("c7x.log_softmax", row, [x], [tensor(2, 5, 3)]),
        "c7x.layer_norm": (
            "c7x.layer_norm", {"outer": 2, "norm": 9, "epsilon": 1e-5},
            [Operand(type=tensor(2, 9)), Operand(type=tensor(9)), Operand(type=tensor(9))], [tensor(2, 9)],
        ),
        "c7x.topk": (
            "c7x.topk", {"outer": 2, "n": 9, "k": 3, "largest": True},
            [Operand(type=tensor(2, 9))], [tensor(2, 3), tensor(2, 3, dtype="int64")],
        ),
        "c7x.argmax": (
            "c7x.argmax", row | {"select_min": False, "dtype_in": "float32"}, [x], [tensor(2, 3, dtype="int64")],
        ),
    }  # fmt: skip


#: The integer kernels (``c7x.q...``) have tests of their own: tests/integration/test_integer_kernels.py.
FLOAT_OPS = sorted(op for op in OPS if not op.startswith("c7x.q"))


@pytest.mark.parametrize("op", FLOAT_OPS)
def test_every_op_gives_one_function_with_its_parameters_in_order(op: str) -> None:
    call = calls()[op]
    assert supports(*call) is None
    kernel = generate(*call)
    head = re.search(r"static int32_t @SYMBOL@\((.*)\) \{", kernel.source_template)
    assert head is not None
    names = [param.split()[-1] for param in head[1].split(", ")]
    want = [f"in{i}" for i in range(len(call[2]))] + [f"out{i}" for i in range(len(call[3]))]
    assert names == want + (["workspace"] if kernel.workspace_bytes else [])
    assert [t.nbytes for t in kernel.inputs] == [
        kernel.packed[i].nbytes if i in kernel.packed else o.type.nbytes for i, o in enumerate(call[2])
    ]
    assert all(p.dtype == np.float32 and p.flags.c_contiguous for p in kernel.packed.values())
    assert kernel.outputs == tuple(call[3])
    assert re.fullmatch(r"[a-z0-9_]+", kernel.name_hint)
    functions = re.findall(r"^(?:C7X_\w+ )?(?:static )?\w+ (\S+?)\(", kernel.source_template, re.M)
    assert functions[-1] == "@SYMBOL@" and all(name.startswith("@SYMBOL@_") for name in functions[:-1])
    assert generate(*call).source_template == kernel.source_template


def same_text(a: GeneratedKernel, b: GeneratedKernel) -> bool:
    return a.source_template == b.source_template and a.workspace_bytes == b.workspace_bytes


def test_text_depends_on_shapes_and_attributes_not_on_weights() -> None:
    rng = np.random.default_rng(1)
    one, two = (rng.standard_normal((32, 32, 3, 3)).astype(np.float32) for _ in range(2))
    assert same_text(generate(*conv(one, o=32, size=28)), generate(*conv(two, o=32, size=28)))
    assert not same_text(generate(*conv(one, o=32, size=28)), generate(*conv(two, o=32, size=27)))
    direct = generate(*conv(one, o=32, size=28), options=KernelOptions(winograd=False))
    assert not same_text(generate(*conv(one, o=32, size=28)), direct)


def test_kernels_stay_short() -> None:
    weights = np.ones((512, 512, 3, 3), np.float32)
    assert len(generate(*conv(weights, o=512, size=56)).source_template) < 8000
    assert len(generate(*conv(weights, o=512, size=7)).source_template) < 8000
    assert len(generate(*conv(weights[:, :1], o=512, size=14, groups=512)).source_template) < 8000


def refused(**change: Any) -> str:
    op, attrs, inputs, outputs = calls()[change.pop("op", "c7x.conv2d")]
    attrs = attrs | change.pop("attrs", {})
    inputs, outputs = change.pop("inputs", inputs), change.pop("outputs", outputs)
    reason = supports(op, attrs, inputs, outputs)
    assert reason is not None
    with pytest.raises(UnsupportedError, match=re.escape(reason)):
        generate(op, attrs, inputs, outputs)
    return reason


def test_reasons_why_not() -> None:
    inputs = calls()["c7x.conv2d"][2]
    assert supports("c7x.fft", {}, [], []) == "there is no generated kernel for c7x.fft"
    assert "not a constant" in refused(inputs=[inputs[0], Operand(type=inputs[1].type)])
    assert "negative padding" in refused(attrs={"padding": [0, -1, 0, 0]})
    assert "activation 'gelu'" in refused(attrs={"activation": "gelu"})
    assert "expected 3 and 1" in refused(attrs={"has_bias": True})
    assert "float64" in refused(inputs=[Operand(type=tensor(1, 8, 8, 4, dtype="float64")), inputs[1]])
    assert "groups" in refused(attrs={"groups": 3})
    assert "output's shape" in refused(outputs=[tensor(1, 9, 8, 8)])
    assert "four dimensions" in refused(inputs=[Operand(type=tensor(8, 8, 4)), inputs[1]])
    assert "no elements" in refused(inputs=[Operand(type=tensor(0, 8, 8, 4)), inputs[1]])
    assert "int32" in refused(op="c7x.topk", outputs=[tensor(2, 3), tensor(2, 3, dtype="int32")])
    assert "fit together" in refused(op="c7x.topk", attrs={"k": 10})
    assert "fit together" in refused(op="c7x.softmax", attrs={"axis": 4})
    assert "fit together" in refused(op="c7x.layer_norm", attrs={"norm": 8})
    assert "fit together" in refused(op="c7x.batch_matmul", attrs={"transpose_b": True})
    assert "right matrix is not a constant" in refused(
        op="c7x.matmul", inputs=[Operand(type=tensor(2, 4)), Operand(type=tensor(3, 4))]
    )
    assert "dtype float64" in refused(op="c7x.argmax", attrs={"dtype_in": "float64"})
