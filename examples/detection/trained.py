"""MTCNN's networks with their trained weights, and what they get to see, for pnet.py, rnet.py and onet.py.

The weights come out of the wheel of facenet-pytorch (MIT licence), which is downloaded once and not installed.
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

from examples.detection import mtcnn
from examples.detection.networks import ONet, PNet, RNet
from tests.models.wheels import fetch, read_member

WHEEL = "facenet-pytorch"
IMAGE = Path(__file__).with_name("astronaut.jpg")
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
