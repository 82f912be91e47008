"""Observers: torchao's minimum and maximum, with scales that never vanish, powers of two on demand.

Both start from torchao's formula: symmetric scale = max |x| / 127.5 (int8) or / 32767.5 (int16).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchao.quantization.pt2e import DerivedObserverOrFakeQuantize, MinMaxObserver, PerChannelMinMaxObserver

#: Far below any scale of a real tensor; torchao's default of 2**-23 would coarsen int16 weights below 0.004.
SMALLEST_SCALE = 2.0**-60
#: Scale of a tensor that was zero throughout the calibration.
IDLE_SCALE = 2.0**-7
#: How far beyond the observed range an int16 activation may go. One bit of sixteen costs nothing that can be heard;
#: without it, values beyond the calibration's are cut, which on unseen data is the largest error of an int16 model.
INT16_HEADROOM = 2.0
#: A bias in units of scale(data) * scale(weight) stays below this, so that the int32 accumulator has room for the sum.
LARGEST_BIAS = 2.0**30


def next_power_of_two(scale: Tensor) -> Tensor:
    """The smallest power of two that is not below ``scale`` (float32, any shape, positive)."""
    mantissa, exponent = torch.frexp(scale.to(torch.float64))
    return torch.ldexp(torch.ones_like(mantissa), exponent - (mantissa == 0.5).to(exponent.dtype)).to(torch.float32)


class ActivationObserver(MinMaxObserver):
    """Range of an activation over all samples, with headroom for int16; ``pow2`` rounds its scale up."""

    def __init__(self, *, pow2: bool = False, eps: float = SMALLEST_SCALE, **options: Any) -> None:
        super().__init__(eps=eps, **options)
        self.pow2 = pow2
        self.headroom = INT16_HEADROOM if self.dtype == torch.int16 else 1.0

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale float32 [1] and zero point int64 [1]."""
        if not bool(self.min_val < 0) and not bool(self.max_val > 0):
            return torch.full((1,), IDLE_SCALE), torch.zeros(1, dtype=torch.int64)
        scale, zero_point = self._calculate_qparams(self.min_val * self.headroom, self.max_val * self.headroom)
        if self.pow2:
            scale = next_power_of_two(scale)
            if self.qscheme == torch.per_tensor_affine:
                lowest = torch.clamp(self.min_val, max=0.0)
                zero_point = (self.quant_min - torch.round(lowest / scale)).to(torch.int64)
                zero_point = zero_point.clamp(self.quant_min, self.quant_max)
        return scale, zero_point


class PerChannelWeightObserver(PerChannelMinMaxObserver):
    """Range of each output channel of a weight.

    ``biases`` holds the int32 biases that are expressed in this weight's scale, each with the observer of the data: a
    channel whose weights are next to nothing gets a scale in which its bias fits 31 bits.
    """

    def __init__(self, *, pow2: bool = False, eps: float = SMALLEST_SCALE, **options: Any) -> None:
        super().__init__(eps=eps, **options)
        self.pow2 = pow2
        self.biases: list[tuple[Tensor, ActivationObserver]] = []

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale float32 [channels] and zero point int64 [channels], all zero."""
        scale, zero_point = super().calculate_qparams()
        used = torch.maximum(-self.min_val, self.max_val) > 0
        if used.shape == scale.shape:
            scale = torch.where(used, scale, scale[used].amax() if bool(used.any()) else torch.ones(()))
        for bias, data in self.biases:
            floor = bias.detach().abs().to(torch.float64) / (LARGEST_BIAS * data.calculate_qparams()[0].double())
            scale = torch.maximum(scale, floor.to(torch.float32))
        return (next_power_of_two(scale) if self.pow2 else scale), torch.zeros_like(zero_point)


def bias_qparams(observers: list[Any]) -> tuple[Tensor, Tensor]:
    """Scale and zero point of an int32 bias from the observers of the data and of the weight: the product, and 0."""
    data, weight = observers
    scale = data.calculate_qparams()[0] * weight.calculate_qparams()[0]
    return scale, torch.zeros(scale.shape, dtype=torch.int64)


def link_biases(observers: dict[Any, Any], biases: dict[Any, Tensor]) -> None:
    """Tell each weight's observer of the biases in its scale; both dicts have edges (operand, operator) for keys."""
    for edge, bias in biases.items():
        observer = observers[edge]
        if isinstance(observer, DerivedObserverOrFakeQuantize):
            data, weight = observer.obs_or_fqs
            if isinstance(weight, PerChannelWeightObserver):
                weight.biases.append((bias, data))
