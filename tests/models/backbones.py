"""Whole image networks after their papers, for quantisation: MobileNetV3, ShuffleNetV2, GoogLeNet, a YOLO neck.

Those of ``vision`` are blocks with far-fetched weights, to find mistakes; these are nets of the depth people use.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.models.vision import SqueezeExcite


def conv_bn(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, act: nn.Module | None = None
) -> nn.Module:
    """Convolution with padding that keeps the size, batch norm, activation."""
    layers = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        *([] if act is None else [act]),
    ]
    return nn.Sequential(*layers)


class V3Block(nn.Module):
    """Expansion, depthwise convolution, squeeze-and-excitation, projection (Howard et al., figure 4)."""

    def __init__(
        self, inputs: int, kernel: int, hidden: int, outputs: int, *, se: bool, hard: bool, stride: int
    ) -> None:
        super().__init__()
        act = nn.Hardswish if hard else nn.ReLU
        layers = [conv_bn(inputs, hidden, 1, act=act())] if hidden != inputs else []
        layers.append(conv_bn(hidden, hidden, kernel, stride, hidden, act()))
        if se:
            squeezed = -(-hidden // 4 // 8) * 8
            layers.append(SqueezeExcite(hidden, squeezed, nn.ReLU(), nn.Hardsigmoid()))
        layers.append(conv_bn(hidden, outputs, 1))
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNetV3Small(nn.Module):
    """Howard et al., "Searching for MobileNetV3", table 2."""

    #: kernel, expansion, outputs, squeeze-and-excitation, hard swish, stride
    TABLE = (
        (3, 16, 16, True, False, 2), (3, 72, 24, False, False, 2), (3, 88, 24, False, False, 1),
        (5, 96, 40, True, True, 2), (5, 240, 40, True, True, 1), (5, 240, 40, True, True, 1),
        (5, 120, 48, True, True, 1), (5, 144, 48, True, True, 1), (5, 288, 96, True, True, 2),
        (5, 576, 96, True, True, 1), (5, 576, 96, True, True, 1),
    )  # fmt: skip

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        blocks = [conv_bn(3, 16, 3, 2, act=nn.Hardswish())]
        inputs = 16
        for kernel, hidden, outputs, se, hard, stride in self.TABLE:
            blocks.append(V3Block(inputs, kernel, hidden, outputs, se=se, hard=hard, stride=stride))
            inputs = outputs
        blocks.append(conv_bn(96, 576, 1, act=nn.Hardswish()))
        self.features = nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.adaptive_avg_pool2d(self.features(x), 1).flatten(1))


class ShuffleUnit(nn.Module):
    """Ma et al., "ShuffleNet V2", figure 3 (c), and (d) where it halves the picture."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half = outputs // 2
        worked = inputs if stride == 2 else half
        self.kept = (
            nn.Sequential(conv_bn(inputs, inputs, 3, 2, inputs), conv_bn(inputs, half, 1, act=nn.ReLU()))
            if stride == 2
            else None
        )
        self.worked = nn.Sequential(
            conv_bn(worked, half, 1, act=nn.ReLU()),
            conv_bn(half, half, 3, stride, half),
            conv_bn(half, half, 1, act=nn.ReLU()),
        )

    def forward(self, x: Tensor) -> Tensor:
        kept, worked = x.chunk(2, dim=1) if self.kept is None else (self.kept(x), x)
        return F.channel_shuffle(torch.cat((kept, self.worked(worked)), dim=1), 2)


class ShuffleNetV2(nn.Module):
    """Ma et al., "ShuffleNet V2", table 5, width 0.5."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        units: list[nn.Module] = []
        inputs = 24
        for outputs, repeat in ((48, 4), (96, 8), (192, 4)):
            for index in range(repeat):
                units.append(ShuffleUnit(inputs, outputs, 2 if index == 0 else 1))
                inputs = outputs
        self.features = nn.Sequential(
            conv_bn(3, 24, 3, 2, act=nn.ReLU()), nn.MaxPool2d(3, 2, 1), *units, conv_bn(192, 1024, 1, act=nn.ReLU())
        )
        self.head = nn.Linear(1024, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).mean((2, 3)))


class InceptionBlock(nn.Module):
    """Szegedy et al., "Going Deeper with Convolutions", figure 2 (b)."""

    def __init__(self, inputs: int, one: int, three: tuple[int, int], five: tuple[int, int], pool: int) -> None:
        super().__init__()
        relu = nn.ReLU()
        self.one = conv_bn(inputs, one, 1, act=relu)
        self.three = nn.Sequential(conv_bn(inputs, three[0], 1, act=relu), conv_bn(*three, 3, act=relu))
        self.five = nn.Sequential(conv_bn(inputs, five[0], 1, act=relu), conv_bn(*five, 5, act=relu))
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), conv_bn(inputs, pool, 1, act=relu))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((self.one(x), self.three(x), self.five(x), self.pool(x)), 1)


class GoogLeNetHead(nn.Module):
    """GoogLeNet's stem and its first three inception blocks (table 1), with batch norm."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(
            conv_bn(3, 64, 7, 2, act=nn.ReLU()),
            nn.MaxPool2d(3, 2, 1),
            conv_bn(64, 64, 1, act=nn.ReLU()),
            conv_bn(64, 192, 3, act=nn.ReLU()),
            nn.MaxPool2d(3, 2, 1),
            InceptionBlock(192, 64, (96, 128), (16, 32), 32),
            InceptionBlock(256, 128, (128, 192), (32, 96), 64),
            nn.MaxPool2d(3, 2, 1),
            InceptionBlock(480, 192, (96, 208), (16, 48), 64),
            nn.AvgPool2d(7),
        )
        self.head = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).flatten(1))


class CspBlock(nn.Module):
    """Half of the channels goes through residual bottlenecks, and every step is kept for the concatenation."""

    def __init__(self, channels: int, repeat: int) -> None:
        super().__init__()
        half = channels // 2
        self.enter = conv_bn(channels, channels, 1, act=nn.SiLU())
        self.steps = nn.ModuleList(
            nn.Sequential(conv_bn(half, half, 3, act=nn.SiLU()), conv_bn(half, half, 3, act=nn.SiLU()))
            for _ in range(repeat)
        )
        self.leave = conv_bn(half * (2 + repeat), channels, 1, act=nn.SiLU())

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.enter(x).chunk(2, 1))
        for step in self.steps:
            parts.append(parts[-1] + step(parts[-1]))
        return self.leave(torch.cat(parts, 1))


class YoloNeck(nn.Module):
    """A detector of today's kind without the decoding of its maps: SiLU, residual blocks with split and concatenation,
    pyramid pooling, upsampling into a finer map, two maps out."""

    def __init__(self, classes: int = 20) -> None:
        super().__init__()
        self.fine = nn.Sequential(
            conv_bn(3, 16, 3, 2, act=nn.SiLU()),
            conv_bn(16, 32, 3, 2, act=nn.SiLU()),
            CspBlock(32, 1),
            conv_bn(32, 64, 3, 2, act=nn.SiLU()),
            CspBlock(64, 2),
        )
        self.coarse = nn.Sequential(conv_bn(64, 128, 3, 2, act=nn.SiLU()), CspBlock(128, 1))
        self.squeeze = conv_bn(128, 64, 1, act=nn.SiLU())
        self.spread = conv_bn(256, 128, 1, act=nn.SiLU())
        self.join = conv_bn(192, 64, 1, act=nn.SiLU())
        self.maps = nn.ModuleList([nn.Conv2d(64, classes + 4, 1), nn.Conv2d(128, classes + 4, 1)])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        fine = self.fine(x)
        pooled = [self.squeeze(self.coarse(fine))]
        for _ in range(3):
            pooled.append(F.max_pool2d(pooled[-1], 5, 1, 2))
        coarse = self.spread(torch.cat(pooled, 1))
        joined = self.join(torch.cat((F.interpolate(coarse, scale_factor=2.0, mode="nearest"), fine), 1))
        return self.maps[0](joined), self.maps[1](coarse)
