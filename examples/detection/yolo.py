"""A YOLO network for c7x, from the package ultralytics (AGPL-3.0), which c7x neither brings nor installs.

Model file (``make_model``) and pre- and post-processing of the example. Two kinds of output are known: [1, 4 + classes,
N], as of YOLOv8 and YOLO11 (centre, size, scores), and [1, N, 6], as of networks that choose the boxes themselves
(corners, score, class).
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from examples.detection.mtcnn import resize, suppress

SIDE = 640
#: Tells the model file, which takes no arguments, where the weights are.
WEIGHTS_VARIABLE = "C7X_YOLO_WEIGHTS"

output_names = ["detections"]


def missing(weights: Path) -> str | None:
    """What is missing to run it, or None."""
    if importlib.util.find_spec("ultralytics") is None:
        return "the package ultralytics is not installed (pip install ultralytics)"
    if not weights.is_file():
        return f"there are no weights {weights} (--weights FILE; ultralytics publishes yolo11n.pt)"
    return None


def _scale(shape: tuple[int, ...]) -> float:
    return SIDE / max(shape[:2])


def preprocess(image: Any) -> Any:
    """uint8[H, W, 3] as float32[1, 3, SIDE, SIDE], 0 to 1, with grey below or beside it."""
    height, width = (max(1, int(size * _scale(image.shape))) for size in image.shape[:2])
    canvas = np.full((SIDE, SIDE, 3), 114 / 255, np.float32)
    canvas[:height, :width] = resize(image.astype(np.float32) / 255, height, width)
    return np.ascontiguousarray(canvas.transpose(2, 0, 1)[None])


def names() -> dict[int, str]:
    """The classes' names, from the weights."""
    return dict(_model().names)


def decode(
    output: Any, shape: tuple[int, ...], threshold: float, labels: dict[int, str] | None = None
) -> list[dict[str, Any]]:
    """What was found, best first: dictionaries with ``name``, ``score`` and ``box`` in pixels of the image."""
    labels = names() if labels is None else labels
    table = output[0].astype(np.float64)
    if table.shape[1] == 6:
        boxes, scores, classes = table[:, :4], table[:, 4], table[:, 5].astype(int)
    else:
        table = table.T
        half = table[:, 2:4] / 2
        boxes = np.hstack([table[:, :2] - half, table[:, :2] + half])
        scores, classes = table[:, 4:].max(axis=1), table[:, 4:].argmax(axis=1)
    kept = scores >= threshold
    boxes, scores, classes = boxes[kept], scores[kept], classes[kept]
    # Boxes of different classes do not compete: apart by more than a picture they cannot overlap.
    kept = suppress(boxes + classes[:, None] * 4.0 * SIDE, scores, 0.7)
    return [
        {"name": labels[int(classes[i])], "score": float(scores[i]), "box": (boxes[i] / _scale(shape)).tolist()}
        for i in kept
    ]


def _model() -> Any:
    from ultralytics import YOLO

    return YOLO(os.environ[WEIGHTS_VARIABLE])


def make_model() -> tuple[Any, tuple[Any, ...]]:
    """The network as ultralytics exports it: one output."""
    import torch
    from torch import nn

    class First(nn.Module):
        def __init__(self, net: nn.Module) -> None:
            super().__init__()
            self.net = net

        def forward(self, image: torch.Tensor) -> Any:
            outputs = self.net(image)
            return outputs[0] if isinstance(outputs, (tuple, list)) else outputs

    net = _model().model.float().eval()
    for layer in net.modules():
        if hasattr(layer, "export"):
            layer.export, layer.format = True, "torchscript"
    image = torch.from_numpy(next(_samples()))
    whole = First(net.fuse()).eval()
    with torch.no_grad():
        # Makes the grid of anchors, which is then a constant.
        whole(image)
    return whole, (image,)


def _samples() -> Iterator[Any]:
    from examples.detection.trained import IMAGE, read_image

    image = read_image(IMAGE)
    for picture in (image, image[:, ::-1], (image * 0.6).astype(np.uint8)):
        yield preprocess(picture)


def calibration_inputs() -> Iterator[tuple[Any, ...]]:
    """The example image and variants of it; for a use of your own, take images like those it will see."""
    import torch

    for sample in _samples():
        yield (torch.from_numpy(sample),)
