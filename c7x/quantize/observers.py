"""Observers: torchao's minimum and maximum, with scales that never vanish, powers of two on demand.

Both start from torchao's formula: symmetric scale = max |x| / 127.5 (int8) or / 32767.5 (int16). The scale of an int8
activation is then made smaller where the values it rounds better weigh more than those it cuts off: the range with the
smallest square error on the calibration data, which a histogram of all values gives.
"""

from __future__ import annotations

from typing import Any, Literal

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


class Histogram:
    """How often values occur, in bins of one width over [-2^n, 2^n]; n grows with the values.

    Zeros are left out: every quantisation holds them exactly.
    """

    BINS = 4096

    def __init__(self) -> None:
        self.counts = torch.zeros(self.BINS, dtype=torch.float64)
        self.exponent: int | None = None

    def add(self, x: Tensor) -> None:
        """Count the values of a tensor; NaN and infinity are not counted."""
        values = x.detach().reshape(-1).to(torch.float32)
        values = values[torch.isfinite(values) & (values != 0)]
        if values.numel() == 0:
            return
        # 2^exponent > |x|, and no smaller than a normal number's, so that the bins have a width.
        exponent = max(int(torch.frexp(values.abs().amax())[1]), -100)
        if self.exponent is None:
            self.exponent = exponent
        for _ in range(exponent - self.exponent):
            halved = self.counts.reshape(-1, 2).sum(dim=1)
            outer = torch.zeros(self.BINS // 4, dtype=torch.float64)
            self.counts = torch.cat([outer, halved, outer])
        self.exponent = max(exponent, self.exponent)
        limit = 2.0**self.exponent
        self.counts += torch.histc(values, self.BINS, -limit, limit).to(torch.float64)

    def errors(self, scales: Tensor, zeros: Tensor, low: int, high: int) -> Tensor:
        """Sum of square errors under each quantisation, float64 [n]; ``scales`` and ``zeros`` are float64 [n]."""
        used = self.counts > 0
        width = 2.0 ** ((self.exponent or 0) + 1) / self.BINS
        values = (torch.arange(self.BINS, dtype=torch.float64)[used] + 0.5 - self.BINS / 2) * width
        scales, zeros = scales[:, None], zeros[:, None]
        integers = torch.clamp(torch.round(values / scales) + zeros, low, high)
        return ((integers - zeros) * scales - values).square() @ self.counts[used]


#: Ranges that are tried, as shares of the observed one; the widest first, which wins among equals.
_SHARES = 1.0 - torch.arange(41, dtype=torch.float64) / 64.0
#: A zero point makes padding dearer (MMALIB pads with the integer 0), so it must be worth half a decibel.
_ZERO_POINT_GAIN = 10.0**-0.05


class ActivationObserver(MinMaxObserver):
    """Range of an activation over all samples.

    Args:
        rule: ``mse`` takes the range of the smallest square error, ``minmax`` the one from the smallest to the largest
            value, ``pow2`` the power of two of the smallest square error. int16 has bits to spare: it is never cut,
            and gets ``INT16_HEADROOM``.
    """

    def __init__(
        self, *, rule: Literal["mse", "minmax", "pow2"] = "mse", eps: float = SMALLEST_SCALE, **options: Any
    ) -> None:
        super().__init__(eps=eps, **options)
        self.rule = rule
        self.headroom = INT16_HEADROOM if self.dtype == torch.int16 else 1.0
        self.histogram = Histogram() if self.dtype == torch.int8 and rule != "minmax" else None
        self._found: tuple[Tensor, Tensor] | None = None

    def forward(self, x_orig: Tensor) -> Tensor:
        """Takes in one more tensor, and gives it back."""
        self._found = None
        if self.histogram is not None:
            self.histogram.add(x_orig)
        result: Tensor = super().forward(x_orig)
        return result

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale float32 [1] and zero point int64 [1]."""
        if self._found is None:
            self._found = self._calculate()
        return self._found

    def _calculate(self) -> tuple[Tensor, Tensor]:
        if not bool(self.min_val < 0) and not bool(self.max_val > 0):
            return torch.full((1,), IDLE_SCALE), torch.zeros(1, dtype=torch.int64)
        scale, zero_point = self._calculate_qparams(self.min_val * self.headroom, self.max_val * self.headroom)
        if self.histogram is None or self.histogram.exponent is None:
            return (next_power_of_two(scale) if self.rule == "pow2" else scale), zero_point
        return self._search(self.histogram)

    def _search(self, histogram: Histogram) -> tuple[Tensor, Tensor]:
        """The quantisation of the smallest square error."""
        low, high = min(float(self.min_val), 0.0), max(float(self.max_val), 0.0)
        whole = torch.ones_like(_SHARES)
        error, _, scale, zero = self._best(histogram, low * _SHARES, high * _SHARES, symmetric=True)
        if self.qscheme == torch.per_tensor_affine:
            # First how much of the upper end, then how much of the lower one.
            _, at, *_ = self._best(histogram, low * whole, high * _SHARES, symmetric=False)
            affine = self._best(histogram, low * _SHARES, high * _SHARES[at] * whole, symmetric=False)
            if affine[0] < error * _ZERO_POINT_GAIN:
                _, _, scale, zero = affine
        return torch.tensor([scale], dtype=torch.float32), torch.tensor([int(zero)], dtype=torch.int64)

    def _best(
        self, histogram: Histogram, lows: Tensor, highs: Tensor, *, symmetric: bool
    ) -> tuple[float, int, float, float]:
        """(error, index, scale, zero point) of the best of several ranges."""
        steps = self.quant_max - self.quant_min
        scales = torch.maximum(-lows, highs) * 2 / steps if symmetric else (highs - lows) / steps
        scales = scales.clamp(min=SMALLEST_SCALE).to(torch.float32)
        scales = (next_power_of_two(scales) if self.rule == "pow2" else scales).to(torch.float64)
        zeros = torch.zeros_like(scales)
        if not symmetric:
            zeros = torch.round(self.quant_min - lows / scales).clamp(self.quant_min, self.quant_max)
        errors = histogram.errors(scales, zeros, self.quant_min, self.quant_max)
        at = int(torch.argmin(errors))
        return float(errors[at]), at, float(scales[at]), float(zeros[at])


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
