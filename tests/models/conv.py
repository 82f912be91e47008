"""Convolutions in every shape they come in, pooling, and transposed convolutions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.models.case import Made, model_case, rand, seeded


def _net(key: str, shape: tuple[int, ...], *layers: nn.Module) -> Made:
    return seeded(nn.Sequential(*layers), key), (rand(f"{key} input", *shape),)


@model_case()
def conv_bn_relu_pool() -> Made:
    return _net(
        "conv_bn_relu_pool",
        (1, 3, 32, 32),
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 24, 3, padding=1, bias=False),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(24 * 8 * 8, 10),
    )


@model_case()
def conv_bias_bn() -> Made:
    """A convolution with a bias before BatchNorm, where the bias takes part in the folding."""
    return _net("conv_bias_bn", (1, 4, 9, 9), nn.Conv2d(4, 5, 3), nn.BatchNorm2d(5), nn.ReLU6())


class BnFirst(nn.Module):
    """BatchNorm that has no convolution before it: nothing to fold into, and padding keeps it from folding forward."""

    def __init__(self) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(4)
        self.conv = nn.Conv2d(4, 6, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(torch.relu(self.bn(x)))


@model_case()
def bn_before_conv() -> Made:
    return seeded(BnFirst(), "bn_before_conv"), (rand("bn_before_conv input", 2, 4, 7, 7),)


class BnShared(nn.Module):
    """One convolution whose result is used before and after its BatchNorm: folding must not change the first use."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.conv(x)
        return y, torch.relu(self.bn(y) + y)


@model_case()
def bn_with_second_use() -> Made:
    return seeded(BnShared(), "bn_with_second_use"), (rand("bn_with_second_use input", 1, 3, 8, 8),)


@model_case()
def conv_batch4() -> Made:
    return _net("conv_batch4", (4, 3, 14, 14), nn.Conv2d(3, 20, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(20, 7, 1))


@model_case()
def conv_grouped() -> Made:
    return _net("conv_grouped", (1, 12, 11, 10), nn.Conv2d(12, 18, 3, groups=3, padding=1), nn.ReLU())


@model_case()
def conv_depthwise() -> Made:
    return _net(
        "conv_depthwise",
        (1, 19, 13, 9),
        nn.Conv2d(19, 19, 3, groups=19, padding=1),
        nn.ReLU6(),
        nn.Conv2d(19, 19, 5, groups=19, padding=2, stride=2, bias=False),
        nn.Conv2d(19, 38, 3, groups=19),
    )


@model_case()
def conv_dilated() -> Made:
    return _net(
        "conv_dilated",
        (1, 8, 20, 20),
        nn.Conv2d(8, 8, 3, padding=2, dilation=2),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=(3, 0), dilation=(3, 1), groups=8),
        nn.Conv2d(8, 4, (3, 1), dilation=(4, 1)),
    )


@model_case()
def conv_big_kernel() -> Made:
    return _net(
        "conv_big_kernel",
        (1, 3, 33, 35),
        nn.Conv2d(3, 8, 11, stride=4, padding=2),
        nn.ReLU(),
        nn.Conv2d(8, 8, 7, padding=3, groups=8),
    )


@model_case()
def conv_asymmetric() -> Made:
    """Kernels, strides and paddings that differ by axis, and a kernel wider than the image."""
    return _net(
        "conv_asymmetric",
        (1, 5, 12, 17),
        nn.Conv2d(5, 6, (1, 7), stride=(1, 3), padding=(0, 3)),
        nn.Conv2d(6, 9, (5, 2), stride=(2, 1), padding=(2, 0)),
        nn.Conv2d(9, 3, (3, 9), padding=(1, 4)),
    )


@model_case()
def conv_odd_channels() -> Made:
    """Channel counts around the width of a vector: 1, 7, 8, 9, 17."""
    return _net(
        "conv_odd_channels",
        (1, 1, 6, 6),
        nn.Conv2d(1, 7, 3, padding=1),
        nn.Conv2d(7, 8, 1),
        nn.Conv2d(8, 9, 3, padding=1),
        nn.Conv2d(9, 17, 1),
        nn.Conv2d(17, 1, 2),
    )


@model_case()
def conv_padding_modes() -> Made:
    return _net(
        "conv_padding_modes",
        (1, 3, 10, 9),
        nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"),
        nn.Conv2d(4, 4, 3, padding=2, padding_mode="replicate"),
        nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),
        nn.Conv2d(4, 4, 4, padding="same"),
        nn.ZeroPad2d((1, 2, 0, 3)),
        nn.ConstantPad2d((2, 0, 1, 0), 0.5),
        nn.Conv2d(4, 4, 3),
    )


@model_case()
def conv_small_batch1x1() -> Made:
    """A 1x1 image, where a convolution is a matrix product."""
    return _net("conv_small", (3, 6, 1, 1), nn.Conv2d(6, 10, 1), nn.ReLU(), nn.Conv2d(10, 4, 3, padding=1))


@model_case()
def max_pool_variants() -> Made:
    return _net(
        "max_pool_variants",
        (1, 6, 23, 21),
        nn.MaxPool2d(3, 2, padding=1, ceil_mode=True),
        nn.MaxPool2d((2, 3), (1, 2)),
        nn.MaxPool2d(2, 1, dilation=2),
        nn.MaxPool2d(2, ceil_mode=True),
    )


class AvgPools(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pools = nn.ModuleList(
            [
                nn.AvgPool2d(2),
                nn.AvgPool2d(3, 2, padding=1),
                nn.AvgPool2d(3, 2, padding=1, count_include_pad=False),
                nn.AvgPool2d(3, 2, ceil_mode=True),
                nn.AvgPool2d(3, 2, padding=1, ceil_mode=True, count_include_pad=False),
                nn.AvgPool2d((2, 3), (2, 1), padding=(1, 0)),
                nn.AdaptiveAvgPool2d(1),
                nn.AdaptiveAvgPool2d((3, 5)),
            ]
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        return [pool(x) for pool in self.pools]


@model_case()
def avg_pool_variants() -> Made:
    return AvgPools().eval(), (rand("avg_pool_variants", 1, 5, 12, 14),)


class AvgPoolDivisor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sum2 = nn.AvgPool2d(2, divisor_override=1)
        self.third = nn.AvgPool2d(3, 2, padding=1, divisor_override=3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.sum2(x), self.third(x)


@model_case()
def avg_pool_divisor_override() -> Made:
    return AvgPoolDivisor().eval(), (rand("avg_pool_divisor", 1, 2, 8, 8),)


class AdaptiveMax(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return nn.functional.adaptive_max_pool2d(x, (2, 3)), nn.functional.adaptive_max_pool2d(x, 1)


@model_case()
def adaptive_max_pool() -> Made:
    return AdaptiveMax().eval(), (rand("adaptive_max_pool", 1, 4, 8, 9),)


@model_case()
def gap_linear() -> Made:
    return _net(
        "gap_linear",
        (2, 10, 7, 7),
        nn.Conv2d(10, 16, 1),
        nn.Hardswish(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 5),
        nn.Softmax(dim=-1),
    )


@model_case()
def conv_transpose_2d() -> Made:
    return _net(
        "conv_transpose_2d",
        (1, 8, 7, 6),
        nn.ConvTranspose2d(8, 6, 2, stride=2),
        nn.ReLU(),
        nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1),
        nn.BatchNorm2d(4),
        nn.ConvTranspose2d(4, 3, (3, 2), stride=(1, 3), output_padding=(0, 2), bias=False),
    )


@model_case()
def conv_transpose_2d_groups() -> Made:
    return _net(
        "conv_transpose_2d_groups",
        (1, 8, 5, 5),
        nn.ConvTranspose2d(8, 12, 3, stride=2, padding=1, output_padding=1, groups=4),
        nn.ReLU(),
        nn.ConvTranspose2d(12, 12, 4, stride=2, padding=1, groups=12),
    )


@model_case()
def conv_transpose_1d() -> Made:
    return _net(
        "conv_transpose_1d",
        (1, 6, 15),
        nn.ConvTranspose1d(6, 4, 5, stride=3, padding=1, output_padding=2),
        nn.LeakyReLU(0.1),
        nn.ConvTranspose1d(4, 4, 3, stride=2, groups=2),
    )


@model_case()
def conv_transpose_dilated() -> Made:
    return _net("conv_transpose_dilated", (1, 4, 6, 6), nn.ConvTranspose2d(4, 3, 3, dilation=2, padding=1))


class AudioNet(nn.Module):
    """A 1-D net on raw samples: strided, dilated and depthwise convolutions with residual connections."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(1, 16, 25, stride=5, padding=12), nn.BatchNorm1d(16), nn.ReLU())
        self.dilated = nn.ModuleList(
            [
                nn.Sequential(nn.Conv1d(16, 16, 3, padding=d, dilation=d), nn.BatchNorm1d(16), nn.ReLU())
                for d in (1, 2, 4, 8)
            ]
        )
        self.depthwise = nn.Conv1d(16, 16, 5, padding=2, groups=16)
        self.pool = nn.MaxPool1d(4)
        self.average = nn.AvgPool1d(3, 2, padding=1)
        self.head = nn.Linear(16, 12)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.dilated:
            x = x + block(x)
        x = self.average(self.pool(self.depthwise(x)))
        return torch.log_softmax(self.head(x.mean(dim=-1)), dim=-1)


@model_case()
def audio_net_1d() -> Made:
    return seeded(AudioNet(), "audio_net_1d"), (rand("audio_net_1d input", 1, 1, 1600),)


@model_case()
def conv_3d() -> Made:
    return _net("conv_3d", (1, 2, 5, 6, 7), nn.Conv3d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2))
