"""The digits CNN of examples/digits for one image at a time, and how an image file becomes its input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from examples.digits import model as digits

output_names = ["logits"]


def make_model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The trained network, and one held-out image [1, 1, 8, 8]."""
    net, (images,) = digits.make_model()
    return net, (images[:1],)


def calibration_inputs() -> Iterator[tuple[Tensor, ...]]:
    """Training images, one by one."""
    for image in digits.load_data()[0][:100].split(1):
        yield (image,)


def labels() -> list[str]:
    return [str(digit) for digit in range(10)]


def preprocess(path: Path) -> np.ndarray:
    """A bright digit on a dark ground, of any size, as float32[1, 1, 8, 8] with values 0 to 1."""
    with Image.open(path) as image:
        grey = ImageOps.pad(image.convert("L"), (8, 8), Image.Resampling.BOX)
    return (np.asarray(grey, np.float32) / 255)[None, None]
