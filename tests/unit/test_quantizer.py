"""C7xMMAQuantizer: what it annotates, what it leaves float, which tensors share a scale."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F
from torchao.quantization.pt2e import MinMaxObserver
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import QuantizationSpec
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

import c7x
from c7x.quantize.observers import ActivationObserver, PerChannelWeightObserver, next_power_of_two
from c7x.quantize.quantizer import C7xMMAQuantizer
from c7x.quantize.rules import RULES, Rule, rule_of

Q = torch.ops.quantized_decomposed.quantize_per_tensor.default
DQ = torch.ops.quantized_decomposed.dequantize_per_tensor.default


def exported(model: nn.Module, *inputs: Tensor) -> fx.GraphModule:
    program = torch.export.export(model.eval(), inputs, strict=False)
    return program.module(check_guards=False)


def converted(model: nn.Module, *inputs: Tensor, **options: Any) -> fx.GraphModule:
    torch.manual_seed(0)
    prepared = prepare_pt2e(exported(model, *inputs), C7xMMAQuantizer(**options))
    with torch.no_grad():
        prepared(*inputs)
    return convert_pt2e(prepared)


def scales(module: fx.GraphModule) -> dict[str, tuple[float, int]]:
    """Node that gives a quantised activation -> its scale and zero point."""
    return {n.args[0].name: (n.args[1], n.args[2]) for n in module.graph.nodes if n.target is Q}


class Calls(nn.Module):
    """A model of one function."""

    def __init__(self, function: Any, **parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


def conv(inputs: int = 4, outputs: int = 4, kernel: int = 3, **options: Any) -> nn.Conv2d:
    torch.manual_seed(inputs + outputs)
    return nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, **options)


X = torch.linspace(-2, 3, 4 * 8 * 8).reshape(1, 4, 8, 8)[
    :, :, torch.randperm(8, generator=torch.Generator().manual_seed(1))
]


# --- constructor ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int4", "uint8", "float32", "", "INT8"])
def test_other_dtypes_are_refused(dtype: str) -> None:
    with pytest.raises(ValueError, match="int8 and int16"):
        C7xMMAQuantizer(dtype=dtype)


def test_other_scales_are_refused() -> None:
    with pytest.raises(ValueError, match="pow2"):
        C7xMMAQuantizer(scale="log")  # type: ignore[arg-type]


def test_int16_is_symmetric_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="symmetric"):
        quantizer = C7xMMAQuantizer(dtype="int16", symmetric_activations=False)
    assert quantizer.symmetric_activations
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        C7xMMAQuantizer(dtype="int16")
        C7xMMAQuantizer(dtype="int8", symmetric_activations=False)


def test_it_is_found_in_c7x() -> None:
    assert c7x.C7xMMAQuantizer is C7xMMAQuantizer


def test_bias_is_int32_for_int8_unless_told() -> None:
    assert C7xMMAQuantizer("int8").bias_int32
    assert not C7xMMAQuantizer("int16").bias_int32
    assert not C7xMMAQuantizer("int8", bias_int32=False).bias_int32


# --- rules ----------------------------------------------------------------------------------------------------


def test_every_operator_of_the_table_exists() -> None:
    for name in RULES:
        packet, overload = name.split(".")
        op = getattr(getattr(torch.ops.aten, packet), overload)
        assert rule_of(op) is RULES[name]


def test_in_place_operators_follow_their_twins() -> None:
    assert rule_of(torch.ops.aten.relu_.default) is Rule.CLAMP
    assert rule_of(torch.ops.aten.add_.Tensor) is Rule.PAIR
    assert rule_of(torch.ops.aten.hardswish_.default) is Rule.CURVE
    assert rule_of(torch.ops.aten.lstm.input) is None


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.ReLU(inplace=True), nn.ReLU6(), nn.Hardtanh(-1, 1)])
def test_conv_and_relu_are_one(activation: nn.Module) -> None:
    found = scales(converted(nn.Sequential(conv(), activation, conv()), X))
    assert sorted(name.split("_")[0] for name in found) == sorted(
        ["input", "hardtanh" if isinstance(activation, nn.Hardtanh) else "relu", "conv2d"]
    )


def test_conv_read_twice_keeps_its_own_scale() -> None:
    model = Calls(lambda m, x: (y := m.conv(x), 3 * F.relu(y) + y)[1], conv=conv())
    found = scales(converted(model, X))
    assert found["relu"] == found["conv2d"]


def test_add_and_relu_are_one() -> None:
    found = scales(converted(Calls(lambda m, x: F.relu(m.a(x) + m.b(x)), a=conv(), b=conv(4, 4, 1)), X))
    assert set(found) == {"inputs_0", "conv2d", "conv2d_1", "relu"}


def test_weights_are_per_channel_and_bias_is_in_their_scale() -> None:
    module = converted(nn.Sequential(conv(4, 6)), X)
    call = next(n for n in module.graph.nodes if "conv2d" in str(n.target))
    data, weight, bias = call.args[:3]
    values = [module.get_buffer(str(a.target)) for a in weight.args[:2]]
    assert (values[0].dtype, values[0].shape, values[1].shape) == (torch.int8, (6, 4, 3, 3), (6,))
    assert weight.args[3:6] == (0, -128, 127)
    integers, scale = (module.get_buffer(str(a.target)) for a in bias.args[:2])
    assert integers.dtype == torch.int32
    torch.testing.assert_close(scale, data.args[1] * values[1])
    torch.testing.assert_close(integers * scale, conv(4, 6).bias.detach(), atol=float(scale.max()), rtol=0)


def test_int16_weights_and_float_bias() -> None:
    module = converted(nn.Sequential(conv(4, 6)), X, dtype="int16")
    call = next(n for n in module.graph.nodes if "conv2d" in str(n.target))
    assert module.get_buffer(str(call.args[1].args[0].target)).dtype == torch.int16
    assert call.args[2].op == "get_attr"


def test_cat_shares_one_scale() -> None:
    model = Calls(lambda m, x: torch.cat([m.a(x), m.b(m.a(x))], 1), a=conv(), b=conv(4, 4, 1))
    found = scales(converted(model, X))
    assert found["conv2d"] == found["conv2d_2"] == found["cat"]
    assert found["conv2d"] != found["inputs_0"]
    # What is computed in float does not press its range on others, unless all that reads the result wants integers.
    boxes = Calls(lambda m, x: torch.cat([m.a(x).sigmoid(), 100 * m.b(x).exp()], 1), a=conv(), b=conv())
    assert "cat" not in scales(converted(boxes, X))
    read = Calls(lambda m, x: m.c(torch.cat([m.a(x), 5 * m.b(x)], 1)), a=conv(), b=conv(), c=conv(8, 4))
    found = scales(converted(read, X))
    assert found["conv2d"] == found["mul"] == found["cat"]


def test_moved_data_keeps_its_scale() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        y = F.max_pool2d(m.conv(x), 2)
        y = F.pad(y.permute(0, 2, 3, 1).reshape(1, -1), (1, 1))
        return m.linear(y[:, 2:])

    found = scales(converted(Calls(forward, conv=conv(), linear=nn.Linear(64, 3)), X))
    moved = {"conv2d", "max_pool2d", "permute", "reshape", "pad", "slice_1", "slice_2"} & set(found)
    assert moved >= {"conv2d", "max_pool2d", "permute", "reshape", "pad"}
    assert len({found[name] for name in moved}) == 1


def test_padding_with_another_value_is_float() -> None:
    model = Calls(lambda m, x: m.b(F.pad(m.a(x), (1, 1), value=2.0)), a=conv(), b=conv())
    module = converted(model, X)
    pad = next(n for n in module.graph.nodes if "pad" in str(n.target))
    assert scales(module)["pad"] != scales(module)[pad.args[0].args[0].args[0].name]


def test_split_keeps_the_scale() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        a, b = m.first(x).chunk(2, 1)
        return torch.cat([a, m.second(b)], 1)

    found = scales(converted(Calls(forward, first=conv(), second=conv(2, 2)), X))
    # The concatenation joins the split's group with the second convolution's.
    assert found["conv2d"] == found["getitem"] == found["getitem_1"] == found["conv2d_1"] == found["cat"]


def test_data_is_quantised_before_it_is_moved() -> None:
    found = scales(converted(Calls(lambda m, x: m.conv(x.permute(0, 3, 1, 2)), conv=conv()), X.permute(0, 2, 3, 1)))
    assert found["inputs_0"] == found["permute"]


def test_float_readers_keep_data_float() -> None:
    model = Calls(lambda m, x: (y := x.permute(0, 3, 1, 2), m.conv(y), torch.sin(y))[1:], conv=conv())
    assert set(scales(converted(model, X.permute(0, 2, 3, 1)))) == {"permute", "conv2d"}


@pytest.mark.parametrize(
    "select",
    [
        lambda y: torch.topk(y, 2)[0],
        lambda y: y.argmax(-1),
        lambda y: y.max(-1)[0],
        lambda y: y.reshape(1, -1).min(1)[0],
        lambda y: torch.topk(F.relu(y.view(3, 1)).squeeze(1), 1)[1],
        lambda y: torch.topk(torch.cat([y, y], -1), 2)[0],
        lambda y: torch.topk(y.chunk(2, -1)[0], 1)[0],
        lambda y: y.sort(-1)[0],
    ],
)
def test_what_a_selection_reads_is_float(select: Any) -> None:
    model = Calls(lambda m, x: select(m.b(F.relu(m.a(x)))), a=nn.Linear(6, 5), b=nn.Linear(5, 3))
    module = converted(model, torch.randn(1, 6))
    assert set(scales(module)) == {"inputs_0", "relu"}
    last = [n for n in module.graph.nodes if "linear" in str(n.target)][-1]
    assert last.args[1].op == "get_attr"


def test_attention_mask_and_other_shapes_are_float() -> None:
    mask = torch.full((1, 1, 6, 6), -1e9).triu(1)

    def forward(m: Any, x: Tensor, mask: Tensor) -> Tensor:
        scores = m.q(x) @ m.k(x).transpose(-2, -1)
        return torch.softmax(scores + mask, -1) @ m.v(x)

    parts = {name: nn.Linear(8, 8) for name in "qkv"}
    module = converted(Calls(forward, **parts), torch.randn(1, 2, 6, 8), mask)
    found = scales(module)
    assert "inputs_1" not in found
    assert "add" not in found
    add = next(n for n in module.graph.nodes if str(n.target) == "aten.add.Tensor")
    assert add.args[1].op == "placeholder"
    assert all(-1e3 < scale < 1e3 for scale, _ in found.values())


def test_mask_of_the_same_shape_is_float() -> None:
    model = Calls(lambda m, x, mask: torch.softmax(m.a(x) + mask, -1), a=nn.Linear(6, 6))
    found = scales(converted(model, torch.randn(6, 6), torch.full((6, 6), -1e9).triu(1)))
    assert set(found) == {"inputs_0", "linear"}


def test_constant_mask_is_float() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(6, 6)
            self.register_buffer("mask", torch.full((6, 6), float("-inf")).triu(1))

        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x)
            return torch.sigmoid(y + self.mask) + torch.tanh(y.masked_fill(y > 0, -1e9).view(6, 6))

    assert set(scales(converted(Masked(), torch.randn(6, 6)))) == {"x", "linear", "sigmoid", "tanh", "add_1"}


def test_channel_scale_is_quantised() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        y = m.a(x)
        return y * F.hardsigmoid(m.gate(F.adaptive_avg_pool2d(y, 1)))

    found = scales(converted(Calls(forward, a=conv(), gate=conv(4, 4, 1)), X))
    assert set(found) == {"inputs_0", "conv2d", "adaptive_avg_pool2d", "conv2d_1", "hardsigmoid", "mul"}


def test_curve_at_the_end_gives_float() -> None:
    found = scales(converted(Calls(lambda m, x: torch.sigmoid(m.a(x)), a=conv()), X))
    assert set(found) == {"inputs_0", "conv2d"}


def test_a_gate_of_its_own_operand_is_one_curve() -> None:
    swish = Calls(lambda m, x: m.b(torch.sigmoid(m.a(x)) * m.a(x)), a=conv(), b=conv())
    assert "sigmoid" in scales(converted(swish, X))  # of two different results of the layer
    for order in (lambda y: y * torch.sigmoid(y), lambda y: torch.sigmoid(y) * y):
        swish = Calls(lambda m, x, order=order: m.b(order(m.a(x))), a=conv(), b=conv())
        found = scales(converted(swish, X))
        assert {"conv2d", "mul"} <= set(found) and "sigmoid" not in found
    read_twice = Calls(lambda m, x: [m.b(x), m.b(x) * torch.sigmoid(x), torch.sigmoid(x) + m.a(x)], a=conv(), b=conv())
    assert "sigmoid" in scales(converted(read_twice, X))


def test_softmax_between_integers() -> None:
    model = Calls(lambda m, x: m.b(torch.softmax(m.a(x), -1)), a=nn.Linear(6, 6), b=nn.Linear(6, 6))
    assert "softmax" in scales(converted(model, torch.randn(6, 6)))


def test_mean_over_neighbouring_axes() -> None:
    model = Calls(lambda m, x: [m.a(x).mean(axes) for axes in ((2, 3), 1, (-1,), (1, 2, 3), (1, 3), (0, 2))], a=conv())
    found = scales(converted(model, X))
    assert {"mean", "mean_1", "mean_2", "mean_3"} <= set(found)
    assert not {"mean_4", "mean_5"} & set(found)


def test_keep_float() -> None:
    model = Calls(lambda m, x: m.a(x) + m.b(x), a=conv(), b=conv(4, 4, 1))
    found = scales(converted(model, X, keep_float=["add"]))
    assert set(found) == {"inputs_0", "conv2d", "conv2d_1"}


def test_dropout_is_gone() -> None:
    module = converted(nn.Sequential(conv(), nn.Dropout(0.5), conv()), X)
    assert "dropout" not in module.code


def test_shared_weights_have_one_scale_and_their_bias_stays_right() -> None:
    layer = nn.Linear(6, 6)
    model = Calls(lambda m, x: m.layer(torch.tanh(10 * m.layer(x))), layer=layer)
    x = torch.randn(3, 6)
    module = converted(model, x)
    calls = [n for n in module.graph.nodes if "linear" in str(n.target)]
    scale = [module.get_buffer(str(c.args[1].args[1].target)) for c in calls]
    assert torch.equal(*scale)
    with torch.no_grad():
        torch.testing.assert_close(module(x), model(x), atol=0.05, rtol=0)


def test_matrix_with_a_constant_is_per_column() -> None:
    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.matrix = nn.Parameter(torch.randn(6, 5))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.matrix

    module = converted(Product(), torch.randn(3, 6))
    weight = next(n for n in module.graph.nodes if "matmul" in str(n.target)).args[1]
    assert weight.args[3] == 1


# --- torchao's interface --------------------------------------------------------------------------------------


def test_annotating_twice_changes_nothing() -> None:
    model = Calls(lambda m, x: torch.cat([F.relu(m.a(x)), m.b(x)], 1).flatten(1), a=conv(), b=conv())
    module = exported(model, X)
    quantizer = C7xMMAQuantizer()
    quantizer.annotate(module)
    before = {n.name: n.meta.get(Q_ANNOTATION_KEY) for n in module.graph.nodes}
    C7xMMAQuantizer("int16").annotate(quantizer.annotate(module))
    after = {n.name: n.meta.get(Q_ANNOTATION_KEY) for n in module.graph.nodes}
    assert any(annotation is not None for annotation in before.values())
    assert all(after[name] is before[name] for name in before)


def test_validate_warns_of_weights_per_tensor() -> None:
    module = exported(nn.Sequential(conv()), X)
    quantizer = C7xMMAQuantizer()
    quantizer.annotate(module)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quantizer.validate(module)
    call = next(n for n in module.graph.nodes if "conv2d" in str(n.target))
    call.meta[Q_ANNOTATION_KEY].input_qspec_map[call.args[1]] = QuantizationSpec(
        dtype=torch.int8,
        observer_or_fake_quant_ctr=MinMaxObserver.with_args(),
        qscheme=torch.per_tensor_symmetric,
    )
    with pytest.warns(UserWarning, match="conv2d.*per tensor"):
        quantizer.validate(module)


# --- observers ------------------------------------------------------------------------------------------------


def activation(
    *values: float, qscheme: Any = torch.per_tensor_symmetric, dtype: Any = torch.int8, **options: Any
) -> Any:
    limits = torch.iinfo(dtype)
    observer = ActivationObserver(dtype=dtype, qscheme=qscheme, quant_min=limits.min, quant_max=limits.max, **options)
    observer(torch.tensor(values))
    scale, zero = observer.calculate_qparams()
    return float(scale), int(zero)


def test_powers_of_two() -> None:
    given = torch.tensor([0.25, 0.2500001, 0.49, 1.0, 3.0, 2.0**-70])
    assert next_power_of_two(given).tolist() == [0.25, 0.5, 0.5, 1.0, 4.0, 2.0**-70]


def test_scales_of_activations() -> None:
    assert activation(-1.0, 0.5, rule="minmax") == (pytest.approx(1 / 127.5), 0)
    assert activation(0.0, 0.0) == (2.0**-7, 0)
    # int16 has room to spare, and takes twice the range.
    assert activation(-1.0, 0.5, dtype=torch.int16) == (pytest.approx(2 / 32767.5), 0)
    assert activation(1e-6, dtype=torch.int16)[0] == pytest.approx(2e-6 / 32767.5)
    assert activation(-1.0, 0.5, dtype=torch.int16, rule="pow2") == (2.0**-13, 0)


def square_error(values: Tensor, scale: float, zero: int) -> float:
    integers = torch.clamp(torch.round(values / scale) + zero, -128, 127)
    return float(((integers - zero) * scale - values).double().square().sum())


@pytest.mark.parametrize("shape", ["normal", "rectified", "heavy", "shifted"])
@pytest.mark.parametrize("qscheme", [torch.per_tensor_symmetric, torch.per_tensor_affine])
def test_the_range_of_the_smallest_error(shape: str, qscheme: Any) -> None:
    values = torch.randn(20000, generator=torch.Generator().manual_seed(3))
    values = {"normal": values, "rectified": values.relu(), "heavy": values**3, "shifted": values * 0.3 + 2}[shape]
    found = square_error(values, *activation(*values.tolist(), qscheme=qscheme))
    whole = square_error(values, *activation(*values.tolist(), qscheme=qscheme, rule="minmax"))
    # A zero point that is worth less than half a decibel is left out.
    assert found <= whole * (1.001 if qscheme is torch.per_tensor_symmetric else 1.13)
    if shape == "heavy":
        assert found < 0.98 * whole
    if qscheme is torch.per_tensor_affine and shape in ("rectified", "shifted"):
        assert found < 0.5 * square_error(values, *activation(*values.tolist()))


def test_the_range_grows_with_the_data() -> None:
    """The histogram of what was seen first is kept when larger values come, sample by sample or all at once."""
    generator = torch.Generator().manual_seed(4)
    parts = [torch.randn(4000, generator=generator) * size for size in (1e-3, 1.0, 0.1, 40.0)]
    limits = {"dtype": torch.int8, "qscheme": torch.per_tensor_symmetric, "quant_min": -128, "quant_max": 127}
    one, several = ActivationObserver(**limits), ActivationObserver(**limits)
    one(torch.cat(parts))
    for part in parts:
        several(part)
        several.calculate_qparams()
    assert float(one.calculate_qparams()[0]) == pytest.approx(float(several.calculate_qparams()[0]), rel=0.02)
    several(torch.tensor([float("nan"), float("inf"), 0.0]))  # refused elsewhere, with the layer's name
    assert several.histogram is not None
    assert float(several.histogram.counts.sum()) == 16000


def test_a_zero_point_only_where_it_pays() -> None:
    values = torch.randn(5000, generator=torch.Generator().manual_seed(5))
    assert activation(*values.tolist(), qscheme=torch.per_tensor_affine)[1] == 0
    assert activation(*values.relu().tolist(), qscheme=torch.per_tensor_affine)[1] == -128
    assert activation(*(-values.relu()).tolist(), qscheme=torch.per_tensor_affine)[1] == 127


@pytest.mark.parametrize("qscheme", [torch.per_tensor_symmetric, torch.per_tensor_affine])
def test_power_of_two_scales_are_the_better_of_two(qscheme: Any) -> None:
    for width in (1.0, 1.4, 1.9):
        values = torch.rand(4000, generator=torch.Generator().manual_seed(6)) * width
        scale, zero = activation(*values.tolist(), qscheme=qscheme, rule="pow2")
        assert math.frexp(scale)[0] == 0.5
        error = square_error(values, scale, zero)
        for other in (scale / 2, scale * 2):
            assert error <= square_error(values, other, zero)


@pytest.mark.parametrize("rule", ["minmax", "mse", "pow2"])
def test_zero_points(rule: str) -> None:
    values = [i / 50 for i in range(-15, 101)]
    scale, zero = activation(*values, qscheme=torch.per_tensor_affine, rule=rule)
    assert (-128 - zero) * scale <= -0.3 + scale
    assert (127 - zero) * scale >= 2.0 - scale
    assert activation(*values[15:], qscheme=torch.per_tensor_affine, rule=rule)[1] == -128


def test_channel_without_weights_leaves_room_for_its_bias() -> None:
    layer = nn.Linear(4, 3)
    with torch.no_grad():
        layer.weight[0] = 0.0
        layer.weight[1] = 1e-12
        layer.bias.copy_(torch.tensor([3.0, -2.0, 0.5]))
    x = torch.randn(2, 4) * 1e-3
    module = converted(Calls(lambda m, x: m.layer(x), layer=layer), x)
    bias = next(n for n in module.graph.nodes if "linear" in str(n.target)).args[2]
    integers, scale = (module.get_buffer(str(a.target)) for a in bias.args[:2])
    torch.testing.assert_close(integers * scale, layer.bias.detach(), rtol=1e-4, atol=1e-4)
    assert int(integers.abs().max()) <= 2**30 + 1


def test_weight_scales_are_powers_of_two() -> None:
    observer = PerChannelWeightObserver(
        dtype=torch.int8, qscheme=torch.per_channel_symmetric, quant_min=-128, quant_max=127, ch_axis=0, pow2=True
    )
    observer(torch.tensor([[1.0, -2.0], [0.001, 0.0], [0.0, 0.0]]))
    scale, zero = observer.calculate_qparams()
    assert torch.equal(torch.frexp(scale)[0], torch.full((3,), 0.5))
    assert not zero.any()
    assert float(scale[2]) == float(scale[0])
