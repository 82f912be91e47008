"""Import of quantised programs into Relax: integers stay integers, scales of every form, scales that are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed
from torch import Tensor, nn

from c7x.errors import UnsupportedError
from c7x.frontend.importer import import_exported_program, translate
from tests.graph_harness import flatten, run_vm
from tests.models.quantized import quantize_model

pytestmark = pytest.mark.filterwarnings("ignore")


class Scaled(nn.Module):
    """Quantise and dequantise with a scale that is a tensor."""

    def __init__(self, scale: Tensor, zero: Tensor) -> None:
        super().__init__()
        self.register_buffer("scale", scale)
        self.register_buffer("zero", zero)

    def forward(self, x: Tensor) -> Any:
        q = torch.ops.quantized_decomposed
        integers = q.quantize_per_tensor.tensor(x, self.scale, self.zero, -128, 127, torch.int8)
        return integers, q.dequantize_per_tensor.tensor(integers, self.scale, self.zero, -128, 127, torch.int8)


class PerChannel(nn.Module):
    def __init__(self, scales: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", torch.arange(-6, 6, dtype=torch.int8).reshape(3, 4))
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", torch.zeros(3, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        q = torch.ops.quantized_decomposed
        return x @ q.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -128, 127, torch.int8).t()


def exported(model: nn.Module, *inputs: Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(model.eval(), inputs, strict=False)


def lowered_outputs(program: torch.export.ExportedProgram, *inputs: Tensor) -> list[np.ndarray]:
    from c7x.graph.pipeline import lower_graph

    return run_vm(lower_graph(import_exported_program(program)), *[x.numpy() for x in inputs])


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_scale_as_a_tensor(shape: tuple[int, ...]) -> None:
    model = Scaled(torch.full(shape, 0.0625), torch.full(shape, -3, dtype=torch.int64))
    x = torch.tensor([[-100.0, -8.0, -7.84, -0.031, 0.0, 0.03125, 0.09375, 3.3, 8.1, 100.0]])
    got = lowered_outputs(exported(model, x), x)
    for value, wanted in zip(got, flatten(model(x)), strict=True):
        assert value.dtype == wanted.dtype
        assert np.array_equal(value, wanted)


@pytest.mark.parametrize("scale", [0.0, -0.5, float("nan"), float("inf")])
def test_impossible_scales_are_refused(scale: float) -> None:
    x = torch.ones(1, 4)
    models = [
        Scaled(torch.tensor(scale), torch.tensor(0)),
        PerChannel(torch.tensor([0.5, scale, 0.5])),
    ]
    for model in models:
        with pytest.raises(UnsupportedError, match="scale that is zero, negative or not finite"):
            translate(exported(model, x))


def test_integers_stay_integers() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))
    case = quantize_model((net, (torch.randn(1, 2, 4, 4),)))
    imported = translate(case.program)
    kinds = {name: (str(a.dtype), a.ndim) for name, a in imported.params.items()}
    assert kinds["b_0_weight_int"] == ("int8", 4)
    assert kinds["b_3_weight_int"] == ("int8", 2)
    assert kinds["b_0_bias_int"] == kinds["b_3_bias_int"] == ("int32", 1)
    assert not [name for name, (dtype, rank) in kinds.items() if dtype == "float32" and rank > 1]
    assert imported.module.script().count("R.dequantize") == 8


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_lowered_model_is_the_simulation(dtype: str) -> None:
    """An element-by-element operator without a kernel of its own: what is left is plain arithmetic."""

    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            q = torch.ops.quantized_decomposed
            kind = getattr(torch, dtype)
            limits = torch.iinfo(kind)
            scale = 0.037 if dtype == "int8" else 0.00021
            y = q.quantize_per_tensor(torch.atan(x), scale, 0, limits.min, limits.max, kind)
            return torch.cos(q.dequantize_per_tensor(y, scale, 0, limits.min, limits.max, kind))

    x = torch.linspace(-4, 4, 77).reshape(7, 11)
    program = exported(Odd(), x)
    (got,) = lowered_outputs(program, x)
    np.testing.assert_allclose(got, flatten(Odd()(x))[0], atol=2 * (0.037 if dtype == "int8" else 0.00021))
