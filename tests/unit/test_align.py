"""Buffers and nodes are brought together by name, their elements by shape and by what wrote them."""

from __future__ import annotations

import numpy as np
import pytest

from c7x.report.align import Match, choose_order, in_node_order, kernel_order, match_buffer, orders, unfinished
from c7x.report.layers import Layer, Tensor

NODES = {"relu_1", "topk", "_native_batch_norm_legit_no_training", "convolution", "split_with_sizes", "max_1", "mul_as"}


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("relu_1", Match(node="relu_1")),
        ("relu_1_as", Match(node="relu_1", back=True)),
        ("relu_1_as_as", Match(node="relu_1", back=True)),
        ("mul_as", Match(node="mul_as")),
        ("_native_batch_norm_legit_no_training__norm", Match(node="_native_batch_norm_legit_no_training")),
        ("max_1__indices", Match(node="max_1", element=1)),
        ("max_1__values_as", Match(node="max_1", element=0, back=True)),
        ("split_with_sizes__part2", Match(node="split_with_sizes", element=2)),
        ("topk__pair_2", Match(node="topk", element=1)),
        ("convolution__conv", None),
        ("convolution__conv_last_as", None),
        ("relu_1_last", None),
        ("relu_2", None),
    ],
)
def test_names(name: str, match: Match | None) -> None:
    assert match_buffer(name, NODES) == match


def layer(buffer: str, *ops: str, backend: str = "c7x", kernel: str = "__tvm_ffi_k") -> Layer:
    tensor = Tensor(buffer=buffer, dtype="float32", shape=(4,), bytes=16, place="arena", offset=0)
    return Layer(
        index=0,
        kernel=kernel,
        name=buffer,
        backend=backend,
        relax_ops=ops,
        nodes=(),
        source=(),
        modules=(),
        macs=0,
        bytes_in=0,
        bytes_out=16,
        dtype="float32",
        inputs=(),
        outputs=(tensor,),
    )


def test_a_value_that_a_later_layer_finishes() -> None:
    moved = [layer("a"), layer("a_as", "reshape", "permute_dims")]
    computed = [layer("b"), layer("b_as", "nn.relu")]
    firmware = [layer("c"), layer("c_as")]
    assert unfinished([*moved, *computed, *firmware]) == {"b", "c"}


@pytest.mark.parametrize(
    ("node", "buffer", "found"),
    [
        ((1, 3, 5, 7), (1, 3, 5, 7), ["as PyTorch"]),
        ((1, 3, 5, 7), (1, 5, 7, 3), ["channels last"]),
        ((1, 4, 4, 4), (1, 4, 4, 4), ["as PyTorch", "channels last"]),
        ((1, 8, 1, 1), (1, 8), ["as PyTorch"]),
        ((1, 8, 1, 1), (1, 1, 1, 8), ["as PyTorch"]),
        ((2, 3, 8), (6, 8), ["as PyTorch"]),
        ((1, 3, 9), (1, 1, 9, 3), ["channels last"]),
        ((1, 1000), (1, 1024), ["as PyTorch"]),
        ((1, 3, 5, 7), (1, 5, 3, 7), []),
        ((), (), ["as PyTorch"]),
        ((0, 3), (0, 3), ["as PyTorch"]),
        ((4,), (5, 1), []),
    ],
)
def test_orders(node: tuple[int, ...], buffer: tuple[int, ...], found: list[str]) -> None:
    assert orders(node, buffer) == found


def test_what_wrote_a_buffer_decides_where_shapes_do_not_tell() -> None:
    conv, loop = layer("a", "nn.conv2d", "nn.relu"), layer("b", "add", backend="tvm")
    firmware = layer("c", "nn.conv2d", backend="mmalib", kernel="mmalib_conv2d_i8")
    both = orders((1, 4, 4, 4), (1, 4, 4, 4))
    assert [kernel_order(x) for x in (conv, loop, firmware)] == ["channels last", None, "as PyTorch"]
    assert choose_order(both, conv, None, back=False) == "channels last"
    assert choose_order(both, firmware, "channels last", back=False) == "as PyTorch"
    assert choose_order(both, loop, "channels last", back=False) == "channels last"
    assert choose_order(both, loop, "channels last", back=True) == "as PyTorch"
    assert choose_order(both, loop, None, back=False) == "as PyTorch"
    assert choose_order([], conv, None, back=False) is None


def test_elements_come_back_in_the_nodes_order() -> None:
    value = np.arange(1 * 3 * 4 * 5).reshape(1, 3, 4, 5)
    assert np.array_equal(in_node_order(value.transpose(0, 2, 3, 1).copy(), value.shape, "channels last"), value)
    assert np.array_equal(in_node_order(value.reshape(3, 20), value.shape, "as PyTorch"), value)
    row = np.arange(1 * 3 * 5).reshape(1, 3, 5)
    assert np.array_equal(in_node_order(row.transpose(0, 2, 1).reshape(1, 1, 5, 3), row.shape, "channels last"), row)
    padded = np.pad(row[0], ((0, 0), (0, 2)))
    assert np.array_equal(in_node_order(padded, (3, 5), "as PyTorch"), row[0])
