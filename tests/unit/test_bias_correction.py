"""Bias correction: each channel's bias takes back what rounding its weights does to the channel's mean."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

from c7x.quantize.correction import correct_biases
from c7x.quantize.quantizer import C7xMMAQuantizer


def prepared(model: nn.Module, *inputs: Tensor, **options: Any) -> fx.GraphModule:
    module = prepare_pt2e(
        torch.export.export(model.eval(), inputs, strict=False).module(check_guards=False), C7xMMAQuantizer(**options)
    )
    with torch.no_grad():
        module(*inputs)
    return module


def rounding_errors(weight: Tensor) -> Tensor:
    """By how much each weight lies above its int8 value, symmetric, one scale an output channel."""
    rows = weight.detach().reshape(len(weight), -1)
    scale = rows.abs().amax(dim=1, keepdim=True) / 127.5
    return (rows - torch.clamp(torch.round(rows / scale), -128, 127) * scale).reshape(weight.shape)


def biases(module: fx.GraphModule) -> dict[str, Tensor]:
    return {k: v.detach().clone() for k, v in module.named_parameters(remove_duplicate=False) if k.endswith("bias")}


X = torch.rand(1, 3, 6, 5, generator=torch.Generator().manual_seed(0))
ROWS = torch.rand(7, 8, generator=torch.Generator().manual_seed(1))


def changed(model: nn.Module, inputs: list[Tensor], **options: Any) -> dict[str, Tensor]:
    """What the correction adds to each bias."""
    module = prepared(model, inputs[0], **options)
    before = biases(module)
    with torch.no_grad():
        correct_biases(module, [(x,) for x in inputs])
    return {name: value - before[name] for name, value in biases(module).items()}


def test_linear() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(8, 4)
    (shift,) = changed(layer, [ROWS]).values()
    torch.testing.assert_close(shift, ROWS.mean(0) @ rounding_errors(layer.weight).T, rtol=1e-3, atol=1e-7)
    assert float(shift.abs().max()) > 1e-5


@pytest.mark.parametrize("options", [{}, {"padding": 1, "stride": 2}, {"groups": 3}, {"padding": "same"}])
def test_convolution(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(3, 6, 3, **options)
    inputs = [X, X * 0.5]
    (shift,) = changed(layer, inputs).values()
    error = rounding_errors(layer.weight)
    want = torch.stack(
        [
            nn.functional.conv2d(x, error, None, layer.stride, layer.padding, 1, layer.groups).mean((0, 2, 3))
            for x in inputs
        ]
    ).mean(0)
    torch.testing.assert_close(shift, want, rtol=1e-3, atol=1e-7)


def test_one_dimension() -> None:
    torch.manual_seed(0)
    row = nn.Conv1d(3, 4, 3)
    (shift,) = changed(row, [X[0, :, :1].permute(1, 0, 2)]).values()
    want = nn.functional.conv1d(X[0, :, :1].permute(1, 0, 2), rounding_errors(row.weight)).mean((0, 2))
    torch.testing.assert_close(shift, want, rtol=1e-3, atol=1e-7)


def test_what_has_no_integer_weight_keeps_its_bias() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8, bias=False))
    assert len(changed(model, [ROWS])) == 1
    mixed = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Flatten(2), nn.Linear(30, 4))
    shifts = changed(mixed, [X], keep_float=["linear"])
    assert {name: bool(shift.any()) for name, shift in shifts.items()} == {"0.bias": True, "2.bias": False}


def test_a_layer_used_twice_is_corrected_for_both_uses() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(torch.relu(self.layer(x)))

    model = Twice()
    (shift,) = changed(model, [ROWS]).values()
    with torch.no_grad():
        second = torch.relu(model.layer(ROWS))
    error = rounding_errors(model.layer.weight)
    torch.testing.assert_close(shift, (ROWS.mean(0) @ error.T + second.mean(0) @ error.T) / 2, rtol=1e-2, atol=1e-6)
