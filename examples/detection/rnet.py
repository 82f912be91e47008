"""MTCNN's R-Net for c7x: 32 crops of 24 x 24."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from examples.detection.trained import make, samples

output_names = ["offsets", "probabilities"]


def make_model() -> tuple[nn.Module, tuple[Any, ...]]:
    """The trained network and an input that it really gets."""
    return make("rnet")


def calibration_inputs() -> Iterator[tuple[Any, ...]]:
    """Inputs out of the example image and variants of it."""
    for batch in samples()["rnet"]:
        yield (batch,)
