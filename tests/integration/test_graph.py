"""The graph passes against PyTorch: lowered modules run in TVM's VM with the reference kernels."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from torch import nn
from torch.nn import functional as F
from tvm import relax

from c7x.errors import UnsupportedError
from c7x.graph.fold import GROWTH_LIMIT, fold_constants
from c7x.graph.line import Line, make_const, op_name, start, straight_line
from c7x.graph.pipeline import get_default_pipeline, lower_graph
from tests.graph_harness import calls, check, flatten, import_torch, kernel_attrs, run_vm


class Fn(nn.Module):
    """A module around a function, with submodules under the names given."""

    def __init__(self, function: Any, **modules: nn.Module) -> None:
        super().__init__()
        for name, module in modules.items():
            setattr(self, name, module)
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(self, *args)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def randomize(model: nn.Module) -> nn.Module:
    """Batch norms whose statistics are far from (0, 1), so that forgetting one shows."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.uniform_(-2, 2)
            module.running_var.uniform_(0.2, 3)
            nn.init.uniform_(module.weight, 0.3, 2)
            nn.init.uniform_(module.bias, -1, 1)
    return model


def ops(mod: tvm.IRModule) -> list[str]:
    return [name for _, value in straight_line(mod["main"]) if (name := op_name(value)) is not None]


# --- batch norm -------------------------------------------------------------------------------------------------

CONV_BN = {
    "conv2d": (nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), (1, 3, 7, 9)),
    "conv2d-no-bias": (nn.Conv2d(3, 8, 3, stride=2, bias=False), nn.BatchNorm2d(8), (2, 3, 9, 9)),
    "grouped": (nn.Conv2d(6, 12, 3, groups=3), nn.BatchNorm2d(12), (1, 6, 7, 7)),
    "depthwise": (nn.Conv2d(6, 6, 3, groups=6, dilation=2), nn.BatchNorm2d(6), (1, 6, 9, 9)),
    "conv1d": (nn.Conv1d(4, 6, 5, padding=2, stride=2), nn.BatchNorm1d(6), (2, 4, 20)),
    "conv1d-uneven": (nn.Conv1d(4, 6, 4, dilation=3, padding=2), nn.BatchNorm1d(6), (1, 4, 33)),
    "transpose-overlap": (nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2), nn.BatchNorm2d(6), (1, 4, 5, 6)),
    "transpose-shuffle": (nn.ConvTranspose2d(4, 6, 2, 2), nn.BatchNorm2d(6), (1, 4, 5, 6)),
    "transpose-dilated": (nn.ConvTranspose2d(4, 6, 3, 2, 1, dilation=2), nn.BatchNorm2d(6), (1, 4, 5, 6)),
    "transpose-1d": (nn.ConvTranspose1d(4, 6, 4, 3, 1), nn.BatchNorm1d(6), (2, 4, 7)),
    "transpose-kernel-1": (nn.ConvTranspose2d(4, 6, 1, 2), nn.BatchNorm2d(6), (1, 4, 5, 6)),
}


@pytest.mark.parametrize("name", CONV_BN)
def test_convolution_with_batch_norm_and_relu_is_one_kernel(name: str) -> None:
    conv, norm, shape = CONV_BN[name]
    lowered = check(randomize(nn.Sequential(conv, norm, nn.ReLU())), torch.randn(shape))
    assert calls(lowered)["c7x.conv2d"] == 1
    (attrs,) = kernel_attrs(lowered, "conv2d")
    if name != "transpose-shuffle":
        assert attrs["has_bias"] and attrs["activation"] == "relu"
    assert not [n for n in calls(lowered) if "batch_norm" in n or "relu" in n] or name == "transpose-shuffle"


def test_batch_norm_without_a_convolution_is_a_multiply_and_an_add() -> None:
    lowered = check(randomize(nn.BatchNorm2d(5)), torch.randn(2, 5, 3, 4))
    assert list(calls(lowered)) == ["fused_multiply_batch_norm"]


def test_batch_norm_is_not_folded_into_a_convolution_that_is_read_twice() -> None:
    model = Fn(lambda s, x: (s.norm(y := s.conv(x)), y), conv=nn.Conv2d(3, 4, 1), norm=nn.BatchNorm2d(4))
    assert calls(check(randomize(model), torch.randn(1, 3, 5, 5)))["c7x.conv2d"] == 1


def test_batch_norm_of_a_linear_layer() -> None:
    lowered = check(randomize(nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5))), torch.randn(3, 6))
    assert dict(calls(lowered)) == {"c7x.matmul": 1}


# --- layout -----------------------------------------------------------------------------------------------------


def transposes(lowered: tvm.IRModule) -> int:
    return sum(n for name, n in calls(lowered).items() if "permute_dims" in name)


def test_a_residual_net_is_transposed_once() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
            self.na, self.nb = nn.BatchNorm2d(8), nn.BatchNorm2d(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x + self.nb(self.b(torch.relu(self.na(self.a(x))))))

    stem = nn.Conv2d(3, 8, 3, 2, 1)
    net = nn.Sequential(stem, nn.ReLU6(), nn.MaxPool2d(3, 2, 1), Block(), Block(), nn.AdaptiveAvgPool2d(1))
    lowered = check(randomize(nn.Sequential(net, nn.Flatten(), nn.Linear(8, 3))), torch.randn(1, 3, 32, 32))
    assert transposes(lowered) == 1
    assert calls(lowered)["c7x.conv2d"] == 5
    attrs = kernel_attrs(lowered, "conv2d")
    assert [a["has_residual"] for a in attrs] == [False, False, True, False, True]
    assert [a["activation"] for a in attrs] == ["relu6", "relu", "relu", "relu", "relu"]


def test_flatten_before_a_linear_layer_permutes_the_weight() -> None:
    net = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 4 * 6, 7))
    lowered = check(net, torch.randn(2, 3, 6, 8))
    assert transposes(lowered) == 1 and calls(lowered)["c7x.matmul"] == 1


CHANNELS_LAST: dict[str, Any] = {
    "concat": lambda s, x: torch.cat((s.a(x), s.b(x)), 1),
    "split": lambda s, x: torch.cat([t.sigmoid() for t in s.a(x).chunk(2, 1)][::-1], 1),
    "mean": lambda s, x: s.a(x).mean((2, 3)),
    "mean-keepdim": lambda s, x: (y := s.a(x)) * y.mean((2, 3), keepdim=True).sigmoid(),
    "mean-channel": lambda s, x: s.a(x).mean(1),
    "mean-rows": lambda s, x: s.a(x).mean(2),
    "max-all": lambda s, x: s.a(x).max(),
    "nearest": lambda s, x: F.interpolate(s.a(x), scale_factor=2),
    "bilinear": lambda s, x: F.interpolate(s.a(x), size=(9, 7), mode="bilinear"),
    "pad": lambda s, x: F.pad(s.a(x), (1, 2, 3, 0), value=1.5),
    "pixel-shuffle": lambda s, x: F.pixel_shuffle(s.a(x), 2),
    "softmax": lambda s, x: s.a(x).softmax(1),
    "argmax": lambda s, x: s.a(x).argmax(1),
    "slice": lambda s, x: s.a(x)[:, 2:5, 1:, ::2],
    "prelu": lambda s, x: F.prelu(s.a(x), s.a.bias),
    "group-norm": lambda s, x: F.group_norm(s.a(x), 2, s.a.bias, s.b.bias),
    "instance-norm": lambda s, x: F.instance_norm(s.a(x)),
    "channel-scale": lambda s, x: s.a(x) * s.b.bias.view(8, 1, 1) + s.a.bias.view(1, 8, 1, 1),
    "row-scale": lambda s, x: s.a(x) * x[:, :1] + x[0, 0, 0],
    "avg-pool": lambda s, x: F.avg_pool2d(s.a(x), 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "max-pool": lambda s, x: F.max_pool2d(s.a(x), 3, 2, 1, dilation=1, ceil_mode=True),
    "adaptive": lambda s, x: F.adaptive_avg_pool2d(s.a(x), (2, 3)),
    "tokens": lambda s, x: s.a(x).flatten(2).transpose(1, 2),
    "channels-last-norm": lambda s, x: F.layer_norm(s.a(x).permute(0, 2, 3, 1), (8,)).permute(0, 3, 1, 2),
    "where": lambda s, x: torch.where(s.a(x) > 0, s.b(x), s.a(x) * 2),
}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", CHANNELS_LAST)
def test_operators_after_a_convolution(name: str, batch: int) -> None:
    model = Fn(CHANNELS_LAST[name], a=nn.Conv2d(4, 8, 1), b=nn.Conv2d(4, 8, 1))
    check(model, torch.randn(batch, 4, 6, 6))


def test_tokens_of_a_patch_embedding_are_a_reshape() -> None:
    lowered = check(Fn(CHANNELS_LAST["tokens"], a=nn.Conv2d(4, 8, 2, 2)), torch.randn(2, 4, 6, 6))
    assert transposes(lowered) == 1


# --- kernels ----------------------------------------------------------------------------------------------------


def test_linear_with_leading_dimensions_bias_residual_and_relu() -> None:
    model = Fn(lambda s, x: torch.relu(s.lin(x) + x), lin=nn.Linear(6, 6))
    lowered = check(model, torch.randn(2, 3, 6))
    assert dict(calls(lowered)) == {"c7x.matmul": 1}
    assert kernel_attrs(lowered, "matmul") == [
        {"activation": "relu", "has_bias": True, "has_residual": True, "transpose_b": False}
    ]


def test_a_residual_of_another_shape_is_not_fused() -> None:
    lowered = check(Fn(lambda s, x: s.lin(x) + x[:1], lin=nn.Linear(6, 6)), torch.randn(3, 6))
    assert not kernel_attrs(lowered, "matmul")[0]["has_residual"]


def test_a_result_that_is_read_before_the_epilogue_keeps_its_value() -> None:
    lowered = check(Fn(lambda s, x: (y := s.lin(x), y.relu(), y + x), lin=nn.Linear(4, 4)), torch.randn(3, 4))
    assert calls(lowered)["c7x.matmul"] == 1
    assert kernel_attrs(lowered, "matmul")[0]["activation"] is None


def test_add_of_a_result_to_itself() -> None:
    check(Fn(lambda s, x: (y := s.lin(x)) + y, lin=nn.Linear(4, 4)), torch.randn(3, 4))


BATCHED: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...], bool]] = {
    "plain": (lambda s, a, b: a @ b, (3, 4, 5), (3, 5, 6), False),
    "transposed": (lambda s, a, b: a @ b.transpose(-1, -2), (3, 4, 5), (3, 6, 5), True),
    "scaled-transpose": (lambda s, a, b: a @ (b.transpose(-1, -2) * 0.5), (2, 3, 4, 5), (2, 3, 6, 5), True),
    "heads": (lambda s, a, b: a @ b.permute(0, 2, 3, 1), (2, 3, 4, 5), (2, 7, 3, 5), True),
    "broadcast-b": (lambda s, a, b: a @ b, (3, 2, 4, 5), (5, 6), False),
    "broadcast-part": (lambda s, a, b: a @ b, (3, 2, 4, 5), (3, 1, 5, 6), False),
    "broadcast-a": (lambda s, a, b: a @ b, (4, 5), (3, 2, 5, 6), False),
    "matrices": (lambda s, a, b: a @ b, (4, 5), (5, 6), False),
}


@pytest.mark.parametrize("name", BATCHED)
def test_batch_matmul(name: str) -> None:
    function, a, b, transposed = BATCHED[name]
    lowered = check(Fn(function), torch.randn(a), torch.randn(b))
    assert [k["transpose_b"] for k in kernel_attrs(lowered, "batch_matmul")] == [transposed]


def test_integer_and_double_matmul_stay_loops() -> None:
    a = torch.randint(-9, 9, (3, 4), dtype=torch.int32)
    lowered = lower_graph(_relax_matmul("int32"))
    assert dict(calls(lowered)) == {"matmul": 1}
    assert np.array_equal(run_vm(lowered, a.numpy(), a.T.numpy())[0], (a @ a.T).numpy())
    assert dict(calls(lower_graph(_relax_matmul("float64")))) == {"matmul": 1}


def _relax_matmul(dtype: str) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    a = relax.Var("a", relax.TensorType((3, 4), dtype))
    b = relax.Var("b", relax.TensorType((4, 3), dtype))
    with builder.function("main", [a, b]):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(relax.op.matmul(a, b)))
        builder.emit_func_output(out)
    return builder.get()


def test_rows() -> None:
    x = torch.randn(3, 5, 7)
    x[0, 1, 2] = x[0, 1, 5] = 9.0
    x[1, 1, 1] = torch.nan
    model = Fn(lambda s, x: (x[0].softmax(0), x[0].log_softmax(-1), s.norm(x[0]), x.argmax(1), x.argmin(), x.max(2)[1]))
    model.norm = nn.LayerNorm([5, 7])
    lowered = check(model, x)
    found = calls(lowered)
    assert found["c7x.softmax"] == found["c7x.log_softmax"] == found["c7x.layer_norm"] == 1
    assert found["c7x.argmax"] == 3


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dim", [-1, 0])
def test_topk(largest: bool, dim: int) -> None:
    x = torch.randn(6, 7)
    lowered = check(Fn(lambda s, x: torch.topk(x, 3, dim=dim, largest=largest)), x)
    assert calls(lowered)["c7x.topk"] == 1


def test_sort_and_running_sums() -> None:
    x = torch.randn(3, 8, 2)
    check(Fn(lambda s, x: (torch.sort(x, 1), x.cumsum(1), x.cumsum(0), x.cumprod(-1))), x)
    lowered = check(
        Fn(lambda s, x: torch.argsort(x)), torch.stack([torch.randperm(20, dtype=torch.int32) for _ in range(3)])
    )
    assert "c7x.topk" not in calls(lowered)


# --- loops ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda s, x: torch.relu(x),
        lambda s, x: torch.maximum(x, x.flip(0)),
        lambda s, x: x.clamp(-1, 1),
        lambda s, x: x.max(),
        lambda s, x: F.max_pool2d(x[None, None], 2),
    ],
)
def test_maximum_and_minimum_are_tir_max_and_min(function: Any) -> None:
    """The printer writes these two nodes so that NaN passes; a select on a comparison would drop it."""
    text = lower_graph(import_torch(Fn(function), torch.randn(4, 6))).script()
    assert "T.max(" in text or "T.min(" in text
    assert "T.Select" not in text


def test_max_pool_of_minus_infinity() -> None:
    check(nn.MaxPool2d(3, 2, 1), torch.full((1, 2, 6, 6), -torch.inf))


def test_rounding_is_half_to_even() -> None:
    check(Fn(lambda s, x: torch.round(x)), torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 2.4999]))


def test_integer_division_and_remainder_of_negative_numbers() -> None:
    a = torch.tensor([-7, 7, -7, 7, -8, 0], dtype=torch.int32)
    b = torch.tensor([2, -2, -2, 2, 4, -3], dtype=torch.int32)
    check(Fn(lambda s, a, b: (a // b, a % b)), a, b)


def test_an_operator_without_loops_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="median") as caught:
        lower_graph(import_torch(Fn(lambda s, x: torch.median(x, 1).values), torch.randn(3, 5)))
    assert caught.value.hint and caught.value.cause


def test_a_dynamic_dimension_is_refused() -> None:
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(relax.op.nn.softmax(x)))
        builder.emit_func_output(out)
    with pytest.raises(UnsupportedError, match="not known at compile time") as caught:
        lower_graph(builder.get())
    assert "--bind" in (caught.value.hint or "")


# --- folding and simplifying ------------------------------------------------------------------------------------


def _module(make: Any, *, dtype: str = "float32", shape: tuple[int, ...] = (2, 3)) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(make(builder, x)))
        builder.emit_func_output(out)
    return builder.get()


def test_dequantize_of_constant_weights_is_not_folded() -> None:
    def make(builder: relax.BlockBuilder, x: Any) -> Any:
        weight = make_const(np.arange(6, dtype=np.int8).reshape(2, 3))
        scale, zero = make_const(np.array([0.5, 0.25], np.float32)), make_const(np.zeros(2, np.int8))
        return relax.op.add(x, builder.emit(relax.op.dequantize(weight, scale, zero, axis=0)))

    assert ops(fold_constants(start(_module(make)))) == ["dequantize", "add"]


def test_a_large_constant_is_not_materialised() -> None:
    side = int(np.sqrt(GROWTH_LIMIT)) + 1

    def make(builder: relax.BlockBuilder, x: Any) -> Any:
        return builder.emit(relax.op.full((side, side), relax.const(2.0, "float32"), "float32"))

    assert ops(fold_constants(start(_module(make)))) == ["full"]


def test_folding_keeps_dtypes_and_values() -> None:
    def make(builder: relax.BlockBuilder, x: Any) -> Any:
        count = builder.emit(relax.op.arange(2**40, 2**40 + 6, 2, "int64"))
        return builder.emit(relax.op.multiply(count, relax.const(3, "int64")))

    mod = fold_constants(start(_module(make)))
    assert ops(mod) == []
    (value,) = run_vm(lower_graph(mod), np.zeros((2, 3), np.float32))
    assert value.dtype == np.int64 and value.tolist() == [3 * 2**40, 3 * (2**40 + 2), 3 * (2**40 + 4)]


def test_neutral_operands_vanish() -> None:
    x = torch.tensor([1.0, torch.nan])
    assert not calls(lower_graph(import_torch(Fn(lambda s, x: (x * 1.0 + torch.zeros(2)) / 1 - 0), x)))
    assert calls(lower_graph(import_torch(Fn(lambda s, x: 0 - x), x)))
    assert calls(lower_graph(import_torch(Fn(lambda s, x: x * torch.ones(3, 2)), x)))


@pytest.mark.parametrize(
    "function",
    [
        lambda s, x: x,
        lambda s, x: (x, x),
        lambda s, x: (y := x + 1, y),
        lambda s, x: x.sum(),
        lambda s, x: x.view(-1),
        lambda s, x: (x.transpose(0, 1).transpose(0, 1) * 2, x.reshape(3, 2).reshape(6).reshape(2, 3) + 1),
        lambda s, x: (F.dropout(x, training=False), torch.zeros(2), x[:, -1], x[-1], x[:, [-1, 0]]),
    ],
)
def test_outputs_of_every_kind(function: Any) -> None:
    check(Fn(function), torch.randn(2, 3))


def test_several_inputs_one_unused() -> None:
    check(Fn(lambda s, a, b, c: (c - a, a.mean(0))), torch.randn(2, 3), torch.randn(4), torch.randn(2, 3))


def test_leftovers_of_max_pool_are_dead() -> None:
    lowered = check(nn.MaxPool2d(2), torch.randn(1, 2, 4, 4))
    assert dict(calls(lowered)) == {"max_pool2d": 1}


# --- families ---------------------------------------------------------------------------------------------------

FAMILIES: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "encoder": (lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), ((2, 5, 16),)),
    "attention": (lambda: Fn(lambda s, x: s.mha(x, x, x)[0], mha=nn.MultiheadAttention(16, 4)), ((5, 1, 16),)),
    "causal": (lambda: Fn(lambda s, q: F.scaled_dot_product_attention(q, q, q, is_causal=True)), ((1, 2, 6, 8),)),
    "lstm": (lambda: Fn(lambda s, x: s.net(x)[0], net=nn.LSTM(4, 5, 2, bidirectional=True)), ((3, 2, 4),)),
    "gru": (lambda: Fn(lambda s, x: s.net(x)[0], net=nn.GRU(4, 5, batch_first=True)), ((2, 3, 4),)),
    "conv3d": (lambda: nn.Sequential(nn.Conv3d(2, 3, 2), nn.ReLU(), nn.MaxPool3d(2)), ((1, 2, 5, 5, 5),)),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str) -> None:
    make, shapes = FAMILIES[name]
    check(make(), *[torch.randn(s) for s in shapes])


# --- provenance and the form that codegen reads ------------------------------------------------------------------


def _named(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with the attributes that the frontend sets."""
    io = json.dumps({"inputs": ["x"], "outputs": ["y"]})
    mod["main"] = mod["main"].with_attr("c7x_io", io).with_attr("c7x_provenance", "{}")
    return mod


def test_every_call_has_a_record_even_when_functions_are_shared() -> None:
    layer = nn.Sequential(nn.Conv2d(4, 4, 1), nn.SiLU())
    lowered = lower_graph(_named(import_torch(nn.Sequential(layer, layer, layer), torch.randn(1, 4, 5, 5))))
    attrs = lowered["main"].attrs
    assert attrs["c7x_io"] and attrs["c7x_provenance"] == "{}" and "c7x_origin" not in attrs
    table = json.loads(str(attrs["c7x_calls"]))
    bound = {str(b.var.name): b for block in lowered["main"].body.blocks for b in block.bindings}
    assert set(table) <= set(bound)
    activations = [r for r in table.values() if "multiply" in r["relax_ops"]]
    assert len(activations) == 3 and len({tuple(r["nodes"]) for r in activations}) == 3
    assert sum(r["relax_ops"].count("nn.conv2d") for r in table.values()) == 3
    assert calls(lowered)["fused_sigmoid_multiply"] == 2


def test_functions_carry_their_nodes_and_operators() -> None:
    lowered = lower_graph(import_torch(Fn(lambda s, x: torch.relu(x * 2 + 1)), torch.randn(3)))
    function = lowered["fused_multiply_add_relu"]
    assert json.loads(str(function.attrs["c7x_relax_ops"])) == ["multiply", "add", "nn.relu"]
    assert len(json.loads(str(function.attrs["c7x_nodes"]))) == 3


def test_lowered_main_holds_only_what_codegen_reads() -> None:
    lowered = lower_graph(import_torch(FAMILIES["encoder"][0](), torch.randn(1, 5, 16)))
    allowed = {"builtin.alloc_tensor", "reshape", "memory.view", "memory.ensure_zero_offset"}
    for block in lowered["main"].body.blocks:
        assert not isinstance(block, relax.DataflowBlock)
        for binding in block.bindings:
            name = op_name(binding.value)
            assert name is None or name in allowed, name


def test_lowering_is_deterministic() -> None:
    model = FAMILIES["gru"][0]().eval()
    x = torch.randn(2, 3, 4)
    first, second = (lower_graph(import_torch(model, x)).script(show_meta=False) for _ in range(2))
    assert first == second


def test_the_pipeline_is_a_pass_of_tvm() -> None:
    mod = import_torch(nn.Linear(3, 2), torch.randn(1, 3))
    pipeline = get_default_pipeline()
    assert isinstance(pipeline, tvm.ir.transform.Pass)
    assert dict(calls(tvm.transform.Sequential([pipeline])(mod))) == {"c7x.matmul": 1}


def test_control_flow_is_refused() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    c = relax.Var("c", relax.TensorType((), "bool"))
    with builder.function("main", [x, c]):
        chosen = builder.emit(relax.If(c, x, x))
        builder.emit_func_output(chosen)
    with pytest.raises(UnsupportedError, match="If"):
        lower_graph(builder.get())


def test_a_line_gives_helpers_fresh_names() -> None:
    mod = start(import_torch(Fn(lambda s, x: torch.relu(x) + 1), torch.randn(2)))

    def rule(line: Line, value: Any) -> Any:
        if op_name(value) == "nn.relu":
            return line.main(relax.op.exp(line.emit(relax.op.abs(value.args[0]))))
        return None

    result = Line(mod).run(rule)
    names = [str(v.name) for v, _ in straight_line(result["main"])]
    assert len(names) == len(set(names)) and ops(result)[:3] == ["abs", "exp", "add"]


def test_reference_is_compared_at_all() -> None:
    """The harness finds a wrong answer."""
    lowered = lower_graph(import_torch(nn.ReLU(), torch.randn(2)))
    x = np.array([-1, 2], np.float32)
    assert not np.array_equal(run_vm(lowered, x)[0], flatten(torch.from_numpy(x))[0])


def test_winograd_is_a_choice_of_the_target() -> None:
    """With it the weights of a 3x3 convolution are stored transformed, 16/9 as large."""
    from c7x.codegen.stage import compile_module
    from c7x.target import Target

    mod = import_torch(nn.Conv2d(32, 32, 3, padding=1, bias=False), torch.randn(1, 32, 14, 14))
    sizes = {}
    for text in ("", " -winograd=1", " -winograd=0"):
        program = compile_module(mod, "model", Target.parse(f"c_static -mcpu=c7x{text}")).program
        (call,) = (c for c in program.calls if "conv2d" in c.kernel)
        sizes[text] = program.buffer(call.inputs[1]).type.nbytes
    direct = 32 * 32 * 9 * 4
    assert sizes == {"": direct * 16 // 9, " -winograd=1": direct * 16 // 9, " -winograd=0": direct}
