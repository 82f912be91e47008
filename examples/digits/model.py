"""A small CNN for scikit-learn's handwritten digits (1,797 real 8x8 images), trained in a few seconds.

``c7x compile examples/digits/model.py -o build/demo`` calls ``make_model``. The first call trains the network; later
ones read the weights from build/digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

HELD_OUT = 450
EPOCHS = 15
# The name changes with everything that training depends on.
WEIGHTS = Path(__file__).resolve().parents[2] / "build" / "digits" / f"weights-{EPOCHS}-torch{torch.__version__}.pt"

output_names = ["logits"]


class DigitNet(nn.Module):
    """Images [N, 1, 8, 8] with values 0 to 1 -> logits [N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(32 * 2 * 2, 10))

    def forward(self, image: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(image))
        return logits


def load_data() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images and labels, then held-out images [450, 1, 8, 8] and labels [450]."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None]
    split = train_test_split(images, digits.target, test_size=HELD_OUT, random_state=0, stratify=digits.target)
    train_x, test_x, train_y, test_y = (torch.from_numpy(np.ascontiguousarray(part)) for part in split)
    return train_x, train_y, test_x, test_y


def train() -> DigitNet:
    """Train from a fixed seed, on one thread so that sums are always added in the same order."""
    images, labels, _, _ = load_data()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            net = DigitNet()
            net.train()
            optimizer = torch.optim.Adam(net.parameters(), lr=2e-3, weight_decay=1e-4)
            for _ in range(EPOCHS):
                for batch in torch.randperm(len(images)).split(64):
                    optimizer.zero_grad()
                    nn.functional.cross_entropy(net(images[batch]), labels[batch]).backward()
                    optimizer.step()
    finally:
        torch.set_num_threads(threads)
    net.eval()
    return net


def calibration_inputs() -> Iterator[tuple[Tensor, ...]]:
    """Training images, for ``c7x compile --quantize``."""
    images = load_data()[0]
    for batch in images.split(HELD_OUT):
        yield (batch,)


def make_model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The trained network, and all held-out images as one example batch."""
    if WEIGHTS.is_file():
        net = DigitNet()
        net.eval()
        net.load_state_dict(torch.load(WEIGHTS, weights_only=True))
    else:
        net = train()
        WEIGHTS.parent.mkdir(parents=True, exist_ok=True)
        temporary = WEIGHTS.with_suffix(".tmp")
        torch.save(net.state_dict(), temporary)
        temporary.replace(WEIGHTS)
    return net, (load_data()[2],)
