"""ResNet-18 of torchvision with its trained weights, when both are on this machine."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from examples.detection.trained import IMAGE

output_names = ["logits"]


def _weights() -> Any:
    from torchvision.models import ResNet18_Weights

    return ResNet18_Weights.DEFAULT


def weights_file() -> Path:
    """Where torch.hub keeps the weights."""
    return Path(torch.hub.get_dir()) / "checkpoints" / Path(_weights().url).name


def missing() -> str | None:
    """What is missing to run it, or None. Nothing is downloaded."""
    if importlib.util.find_spec("torchvision") is None:
        return "the package torchvision is not installed"
    try:
        path = weights_file()
    except RuntimeError as error:
        return f"torchvision does not fit torch ({error})"
    return None if path.is_file() else f"there are no weights {path} ({_weights().url})"


def preprocess(path: Path) -> np.ndarray:
    """The middle of an image as float32[1, 3, 224, 224], as torchvision's own preprocessing gives it."""
    with Image.open(path) as image:
        batch: np.ndarray = _weights().transforms()(image.convert("RGB"))[None].numpy()
    return batch


def labels() -> list[str]:
    names: list[str] = _weights().meta["categories"]
    return names


def make_model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The trained network, and the example image."""
    from torchvision.models import resnet18

    net = resnet18()
    net.load_state_dict(torch.load(weights_file(), weights_only=True))
    return net.eval(), (torch.from_numpy(preprocess(IMAGE)),)


def calibration_inputs() -> Iterator[tuple[Tensor, ...]]:
    """The example image and variants of it; for a use of your own, take some tens of images like those it will see."""
    image = torch.from_numpy(preprocess(IMAGE))
    for variant in (image, image.flip(3), image.flip(2), image * 0.5, image.roll((60, 40), (2, 3))):
        yield (variant,)
