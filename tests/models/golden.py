"""Tiny models whose ``lib0.c`` is kept in tests/golden, so that a refactoring of the compiler shows what it changes.

Their weights are small multiples of 1/64 by a formula: constants that end up in C text must not depend on the random
numbers, and so on the instruction set, of the machine.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.models.case import Made, model_case


def dyadic(*shape: int, seed: int = 0) -> Tensor:
    """Multiples of 1/64 in [-0.75, 0.77], in an order without a simple pattern."""
    n = torch.Size(shape).numel()
    return (((torch.arange(n) * 37 + seed * 11) % 98 - 48) / 64.0).reshape(shape)


def _fixed(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        tensors = [*module.named_parameters(), *module.named_buffers()]
        for seed, (name, tensor) in enumerate(sorted(tensors)):
            if name.endswith("running_var"):
                tensor.copy_(dyadic(*tensor.shape, seed=seed).abs() + 0.5)
            elif tensor.is_floating_point():
                tensor.copy_(dyadic(*tensor.shape, seed=seed))
    return module.eval()


@model_case("quick", "golden")
def golden_conv() -> Made:
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
    return _fixed(net), (dyadic(1, 3, 8, 8),)


@model_case("quick", "golden")
def golden_linear_softmax() -> Made:
    return _fixed(nn.Sequential(nn.Linear(12, 5), nn.Softmax(dim=-1))), (dyadic(2, 12),)


class _Integers(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return a * b + 7, torch.div(a, b, rounding_mode="floor"), a.clamp(-2, 3)


@model_case("quick", "golden")
def golden_integers() -> Made:
    a = torch.tensor([-7, -1, 0, 5, 9, 12], dtype=torch.int32)
    return _Integers().eval(), (a, torch.tensor([2, 3, -4, -2, 5, 7], dtype=torch.int32))


class _LstmCell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 3)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        return self.cell(x, (h, c))


@model_case("quick", "golden")
def golden_lstm_cell() -> Made:
    return _fixed(_LstmCell()), (dyadic(1, 4), dyadic(1, 3, seed=1), dyadic(1, 3, seed=2))


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(1, 5, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(1, 5, 8)


@model_case("quick", "golden")
def golden_attention() -> Made:
    return _fixed(_Attention()), (dyadic(1, 5, 8),)
