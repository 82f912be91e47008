"""A small network for `make reproducible`."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def make_model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 10)
    )
    return net.eval(), (torch.rand(1, 3, 8, 8),)
