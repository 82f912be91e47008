"""Image networks, each defined here: ResNet, MobileNet, EfficientNet, ShuffleNet, DenseNet, Inception, UNet, YOLO."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.models.case import Made, model_case, rand, seeded


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.down: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.down = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.down(x))


class ResNet18(nn.Module):
    """He et al., "Deep Residual Learning for Image Recognition", table 1, 18 layers."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks: list[nn.Module] = []
        inputs = 64
        for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, 1)]
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.stem(x))
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def make_resnet18(size: int) -> Made:
    """ResNet-18 on one ``size`` x ``size`` image."""
    return seeded(ResNet18(), "resnet18"), (rand(f"resnet18 {size}", 1, 3, size, size),)


@model_case()
def resnet18_64() -> Made:
    return make_resnet18(64)


@model_case("full")
def resnet18_224() -> Made:
    return make_resnet18(224)


def _conv_bn(inputs: int, outputs: int, kernel: int, stride: int, groups: int, act: nn.Module) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        act,
    ]


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = inputs * expand
        layers: list[nn.Module] = []
        if expand != 1:
            layers += _conv_bn(inputs, hidden, 1, 1, 1, nn.ReLU6())
        layers += _conv_bn(hidden, hidden, 3, stride, hidden, nn.ReLU6())
        layers += _conv_bn(hidden, outputs, 1, 1, 1, nn.Identity())
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    @property
    def project_scale(self) -> Tensor:
        """The weight of the BatchNorm after the projection, [outputs]."""
        weight = self.layers[-2].weight
        assert isinstance(weight, Tensor)
        return weight

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNetV2(nn.Module):
    """Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", table 2, width 1.0."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers = _conv_bn(3, 32, 3, 2, 1, nn.ReLU6())
        inputs = 32
        table = (
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        )
        for expand, outputs, repeat, first_stride in table:
            for i in range(repeat):
                layers.append(InvertedResidual(inputs, outputs, first_stride if i == 0 else 1, expand))
                inputs = outputs
        layers += _conv_bn(inputs, 1280, 1, 1, 1, nn.ReLU6())
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).mean((2, 3)))


def make_mobilenet_v2(size: int) -> Made:
    """MobileNetV2 on one ``size`` x ``size`` image.

    Residual branches are damped: with random weights of full scale, the net itself magnifies the rounding of its first
    layers to 6e-6 of the output (float32 against float64 in PyTorch), which would leave nothing of the tolerance.
    """
    net = seeded(MobileNetV2(), "mobilenet_v2")
    with torch.no_grad():
        for block in net.modules():
            if isinstance(block, InvertedResidual) and block.residual:
                block.project_scale.mul_(0.3)
    return net, (rand(f"mobilenet_v2 {size}", 1, 3, size, size),)


@model_case()
def mobilenet_v2_96() -> Made:
    return make_mobilenet_v2(96)


@model_case("full")
def mobilenet_v2_224() -> Made:
    return make_mobilenet_v2(224)


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int, squeezed: int, act: nn.Module, gate: nn.Module) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, squeezed, 1)
        self.expand = nn.Conv2d(squeezed, channels, 1)
        self.act, self.gate = act, gate

    def forward(self, x: Tensor) -> Tensor:
        s = F.adaptive_avg_pool2d(x, 1)
        return x * self.gate(self.expand(self.act(self.reduce(s))))


class MBConv(nn.Module):
    """Expansion, depthwise convolution, squeeze-and-excitation, projection; with a residual where shapes allow."""

    def __init__(self, inputs: int, hidden: int, outputs: int, kernel: int, stride: int, v3: bool) -> None:
        super().__init__()
        act: type[nn.Module] = nn.Hardswish if v3 else nn.SiLU
        gate: nn.Module = nn.Hardsigmoid() if v3 else nn.Sigmoid()
        self.layers = nn.Sequential(
            *_conv_bn(inputs, hidden, 1, 1, 1, act()),
            *_conv_bn(hidden, hidden, kernel, stride, hidden, act()),
            SqueezeExcite(hidden, max(hidden // 4, 4), nn.ReLU() if v3 else nn.SiLU(), gate),
            *_conv_bn(hidden, outputs, 1, 1, 1, nn.Identity()),
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


@model_case()
def mobilenet_v3_blocks() -> Made:
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.Hardswish(),
        MBConv(16, 48, 24, 3, 2, v3=True),
        MBConv(24, 72, 24, 5, 1, v3=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 32),
        nn.Hardswish(),
        nn.Linear(32, 10),
    )
    return seeded(net, "mobilenet_v3"), (rand("mobilenet_v3 input", 1, 3, 48, 48),)


@model_case()
def efficientnet_mbconv() -> Made:
    net = nn.Sequential(MBConv(12, 48, 20, 5, 2, v3=False), MBConv(20, 80, 20, 3, 1, v3=False))
    return seeded(net, "efficientnet"), (rand("efficientnet input", 1, 12, 28, 28),)


class ShuffleUnit(nn.Module):
    """Half of the channels pass, the other half is convolved, then channels are shuffled (ShuffleNet V2)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.branch = nn.Sequential(
            *_conv_bn(half, half, 1, 1, 1, nn.ReLU()),
            *_conv_bn(half, half, 3, 1, half, nn.Identity()),
            *_conv_bn(half, half, 1, 1, 1, nn.ReLU()),
        )

    def forward(self, x: Tensor) -> Tensor:
        kept, worked = x.chunk(2, dim=1)
        y = torch.cat((kept, self.branch(worked)), dim=1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


@model_case()
def shufflenet_units() -> Made:
    net = nn.Sequential(nn.Conv2d(3, 24, 3, 2, 1), ShuffleUnit(24), ShuffleUnit(24), nn.ChannelShuffle(3))
    return seeded(net, "shufflenet"), (rand("shufflenet input", 1, 3, 20, 20),)


class DenseBlock(nn.Module):
    """Every layer sees the concatenation of all before it; BatchNorm and ReLU come before the convolution."""

    def __init__(self, inputs: int, growth: int, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [
                nn.Sequential(
                    nn.BatchNorm2d(inputs + i * growth),
                    nn.ReLU(),
                    nn.Conv2d(inputs + i * growth, growth, 3, padding=1, bias=False),
                )
                for i in range(count)
            ]
        )
        width = inputs + count * growth
        self.transition = nn.Sequential(
            nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1), nn.AvgPool2d(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.layers:
            features.append(layer(torch.cat(features, dim=1)))
        return self.transition(torch.cat(features, dim=1))


@model_case()
def densenet_block() -> Made:
    return seeded(DenseBlock(10, 6, 4), "densenet"), (rand("densenet input", 1, 10, 12, 12),)


class Inception(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Conv2d(12, 8, 1)
        self.three = nn.Sequential(nn.Conv2d(12, 6, 1), nn.ReLU(), nn.Conv2d(6, 10, 3, padding=1))
        self.five = nn.Sequential(
            nn.Conv2d(12, 4, 1),
            nn.ReLU(),
            nn.Conv2d(4, 5, (1, 5), padding=(0, 2)),
            nn.Conv2d(5, 5, (5, 1), padding=(2, 0)),
        )
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(12, 7, 1))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], 1))


@model_case()
def inception_block() -> Made:
    return seeded(Inception(), "inception"), (rand("inception input", 1, 12, 15, 13),)


class UNet(nn.Module):
    def __init__(self, mode: str) -> None:
        super().__init__()
        self.down1 = nn.Sequential(*_conv_bn(3, 8, 3, 1, 1, nn.ReLU()))
        self.down2 = nn.Sequential(*_conv_bn(8, 16, 3, 1, 1, nn.ReLU()))
        self.middle = nn.Sequential(*_conv_bn(16, 24, 3, 1, 1, nn.ReLU()))
        self.up2 = nn.Sequential(*_conv_bn(24 + 16, 16, 3, 1, 1, nn.ReLU()))
        self.up1 = nn.Sequential(*_conv_bn(16 + 8, 8, 3, 1, 1, nn.ReLU()))
        self.head = nn.Conv2d(8, 2, 1)
        self.mode = mode

    def _up(self, x: Tensor) -> Tensor:
        if self.mode == "nearest":
            return F.interpolate(x, scale_factor=2.0, mode="nearest")
        return F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=self.mode == "bilinear_corners")

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.max_pool2d(b, 2))
        y = self.up2(torch.cat([self._up(c), b], 1))
        logits = self.head(self.up1(torch.cat([self._up(y), a], 1)))
        return logits, torch.sigmoid(logits * 0.1)


def _unet(mode: str) -> Made:
    return seeded(UNet(mode), "unet"), (rand("unet input", 1, 3, 32, 24),)


@model_case()
def unet_nearest() -> Made:
    return _unet("nearest")


@model_case()
def unet_bilinear() -> Made:
    return _unet("bilinear")


@model_case()
def unet_bilinear_align_corners() -> Made:
    return _unet("bilinear_corners")


class Resizes(nn.Module):
    """Bilinear interpolation to sizes that are no multiples, up and down."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return (
            F.interpolate(x, size=(11, 5), mode="bilinear", align_corners=False),
            F.interpolate(x, size=(5, 19), mode="bilinear", align_corners=True),
            F.interpolate(x, scale_factor=(0.5, 2.0), mode="bilinear"),
        )


class NearestResizes(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return (
            F.interpolate(x, size=(11, 5), mode="nearest"),
            F.interpolate(x, scale_factor=1.5, mode="nearest"),
            F.interpolate(x, size=(3, 20), mode="nearest"),
        )


@model_case()
def resize_bilinear_odd_sizes() -> Made:
    return Resizes().eval(), (rand("resize", 1, 3, 8, 10),)


@model_case(exact_outputs=(0, 1, 2))
def resize_nearest_odd_sizes() -> Made:
    return NearestResizes().eval(), (rand("resize", 1, 3, 8, 10),)


class YoloHead(nn.Module):
    """Anchor-based detection head: 1x1 convolution, sigmoid, split, grid and anchor decode, concatenation of scales."""

    def __init__(self, classes: int = 4, anchors: int = 3) -> None:
        super().__init__()
        self.classes, self.anchors = classes, anchors
        self.convs = nn.ModuleList([nn.Conv2d(c, anchors * (5 + classes), 1) for c in (16, 24)])
        self.stem = nn.Sequential(*_conv_bn(3, 16, 3, 2, 1, nn.SiLU()))
        self.deeper = nn.Sequential(*_conv_bn(16, 24, 3, 2, 1, nn.SiLU()))
        self.register_buffer(
            "sizes",
            torch.tensor([[[10.0, 13.0], [16.0, 30.0], [33.0, 23.0]], [[30.0, 61.0], [62.0, 45.0], [59.0, 119.0]]]),
        )

    def forward(self, x: Tensor) -> Tensor:
        first = self.stem(x)
        found = []
        for i, (conv, features) in enumerate(zip(self.convs, (first, self.deeper(first)), strict=True)):
            n, _, h, w = features.shape
            y = conv(features).view(n, self.anchors, 5 + self.classes, h, w).permute(0, 1, 3, 4, 2)
            rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            grid = torch.stack((columns, rows), 2).view(1, 1, h, w, 2).float()
            xy, wh, rest = y.sigmoid().split((2, 2, 1 + self.classes), dim=4)
            stride = 2.0 * 2**i
            xy = (xy * 2.0 - 0.5 + grid) * stride
            wh = (wh * 2.0) ** 2 * self.sizes[i].view(1, self.anchors, 1, 1, 2)
            found.append(torch.cat((xy, wh, rest), 4).reshape(n, -1, 5 + self.classes))
        return torch.cat(found, 1)


@model_case()
def yolo_head() -> Made:
    return seeded(YoloHead(), "yolo"), (rand("yolo input", 1, 3, 32, 40),)


class AnchorFree(nn.Module):
    """The newer kind of head: distribution over distances (softmax and a fixed dot product), boxes from anchor points,
    the best class and its score."""

    def __init__(self) -> None:
        super().__init__()
        self.box = nn.Conv2d(16, 4 * 8, 1)
        self.cls = nn.Conv2d(16, 6, 1)
        self.stem = nn.Sequential(*_conv_bn(3, 16, 3, 2, 1, nn.SiLU()))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        f = self.stem(x)
        n, _, h, w = f.shape
        d = self.box(f).view(n, 4, 8, h * w).softmax(2)
        d = (d * torch.arange(8.0).view(1, 1, 8, 1)).sum(2)
        ys, xs = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
        centre = torch.stack((xs.reshape(-1), ys.reshape(-1))).unsqueeze(0)
        lt, rb = d.chunk(2, 1)
        boxes = torch.cat((centre - lt, centre + rb), 1) * 2.0
        scores, best = self.cls(f).flatten(2).sigmoid().max(1)
        return boxes, scores, best


@model_case()
def yolo_anchor_free() -> Made:
    return seeded(AnchorFree(), "yolo free"), (rand("yolo free input", 1, 3, 16, 24),)
