"""Face detection with MTCNN around networks of fixed shapes: pyramid, crops, non-maximum suppression. NumPy only.

Zhang et al., "Joint Face Detection and Alignment using Multi-task Cascaded Convolutional Networks", section II.
P-Net proposes windows at all scales of the image, R-Net refines them, O-Net refines again and finds five landmarks.

A compiled module has one input shape, and MTCNN wants many, so:

* Every image is scaled down to fit a canvas of SIDE x SIDE.
* All levels of the pyramid lie beside each other in one picture, the mosaic, and P-Net runs once. It has no padding and
  sees 12 x 12 pixels, so a window inside of a level gets what it would get if the level were alone; windows that
  reach over a border are thrown away. Levels have even sizes and places, because P-Net's stride is 2.
* R-Net and O-Net take batches of a fixed size; the last one is filled up with zeros.

Boxes are [x1, y1, x2, y2] in pixels, x2 and y2 exclusive. Pixels go in as (value - 127.5) / 128.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
#: Runs the network of that name (pnet, rnet, onet) on each of the batches; gives each batch's outputs. One call a
#: network, since a DSP holds one module at a time.
Run = Callable[[str, Sequence[Array]], Sequence[Sequence[Array]]]

SIDE = 320
#: Smallest face that is looked for, in pixels of the canvas.
MIN_FACE = 20
#: From one level of the pyramid to the next; half of the area.
SCALE_STEP = 0.709
#: P-Net's window and stride, in pixels of a level.
WINDOW, STRIDE = 12, 2
#: Sides of the crops, and how many go into one batch.
RNET_SIZE, RNET_BATCH = 24, 32
ONET_SIZE, ONET_BATCH = 48, 8
#: Scores from which the three networks' windows are kept.
PNET_SCORE, RNET_SCORE, ONET_SCORE = 0.6, 0.7, 0.7


@dataclass(frozen=True, kw_only=True)
class Level:
    """A scale of the image as a square of ``size`` pixels at (``y``, ``x``) of the mosaic."""

    size: int
    y: int
    x: int


@dataclass(frozen=True, kw_only=True)
class Faces:
    """``boxes`` float64[N, 4], ``scores`` float64[N], ``landmarks`` float64[N, 5, 2] (x, y: eyes, nose, mouth)."""

    boxes: Array
    scores: Array
    landmarks: Array


@functools.cache
def pyramid() -> tuple[tuple[Level, ...], tuple[int, int]]:
    """The levels, packed in rows, and height and width of the mosaic."""
    sizes = []
    size = SIDE * WINDOW / MIN_FACE
    while size >= WINDOW:
        sizes.append(2 * round(size / 2))
        size *= SCALE_STEP
    width = sum(sizes[:2])
    levels, x, y, row = [], 0, 0, sizes[0]
    for size in sizes:
        if x + size > width:
            x, y, row = 0, y + row, size
        levels.append(Level(size=size, y=y, x=x))
        x += size
    return tuple(levels), (y + row, width)


@functools.cache
def _averages(length: int, size: int) -> Array:
    """A matrix [size, length] that shrinks a line: each new pixel is the mean of the old ones that it touches."""
    matrix = np.zeros((size, length), np.float32)
    for row in range(size):
        first, last = row * length // size, -(-(row + 1) * length // size)
        matrix[row, first:last] = 1 / (last - first)
    return matrix


def resize(image: Array, height: int, width: int) -> Array:
    """An image float32[H, W, 3] at another size, by averages of areas."""
    rows = np.tensordot(_averages(image.shape[0], height), image, axes=(1, 0))
    return np.tensordot(_averages(image.shape[1], width), rows, axes=(1, 1)).transpose(1, 0, 2)


def fit(image: Array) -> tuple[Array, float]:
    """uint8[H, W, 3] as the canvas float32[SIDE, SIDE, 3], normalised, filled up with grey; and its scale (<= 1)."""
    height, width = image.shape[:2]
    scale = min(1.0, SIDE / max(height, width))
    size = (max(1, math.floor(height * scale)), max(1, math.floor(width * scale)))
    canvas = np.zeros((SIDE, SIDE, 3), np.float32)
    canvas[: size[0], : size[1]] = (resize(image.astype(np.float32), *size) - 127.5) / 128
    return canvas, scale


def mosaic(canvas: Array) -> Array:
    """P-Net's input float32[1, 3, H, W]: all levels of the pyramid in one picture."""
    levels, (height, width) = pyramid()
    picture = np.zeros((height, width, 3), np.float32)
    for level in levels:
        part = resize(canvas, level.size, level.size)
        picture[level.y : level.y + level.size, level.x : level.x + level.size] = part
    return np.ascontiguousarray(picture.transpose(2, 0, 1)[None])


def level_windows(level: Level) -> tuple[slice, slice]:
    """Where in P-Net's output a level's windows are."""
    count = (level.size - WINDOW) // STRIDE + 1
    y, x = level.y // STRIDE, level.x // STRIDE
    return slice(y, y + count), slice(x, x + count)


def _overlap(box: Array, others: Array, *, of_smaller: bool) -> Array:
    """Intersection over union of a box with others, or over the smaller of both."""
    corner = np.maximum(box[:2], others[:, :2])
    size = np.clip(np.minimum(box[2:], others[:, 2:]) - corner, 0, None)
    area = (box[2] - box[0]) * (box[3] - box[1])
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    both = size[:, 0] * size[:, 1]
    return np.asarray(both / (np.minimum(area, areas) if of_smaller else area + areas - both))


def suppress(boxes: Array, scores: Array, limit: float, *, of_smaller: bool = False) -> Array:
    """Indices of boxes, best first, none of which overlaps a better one by more than ``limit``."""
    order = np.argsort(-scores, kind="stable")
    kept = []
    while order.size:
        best, order = order[0], order[1:]
        kept.append(best)
        order = order[_overlap(boxes[best], boxes[order], of_smaller=of_smaller) <= limit]
    return np.array(kept, np.int64)


def _moved(boxes: Array, offsets: Array) -> Array:
    """Boxes with their edges moved by fractions of their width and height."""
    size = np.tile(boxes[:, 2:] - boxes[:, :2], 2)
    moved: Array = boxes + offsets * size
    return moved


def _squares(boxes: Array) -> Array:
    """The squares around the boxes' centres that hold them."""
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    half = (boxes[:, 2:] - boxes[:, :2]).max(axis=1, keepdims=True) / 2
    return np.hstack([centre - half, centre + half])


def _proposals(outputs: Sequence[Array]) -> tuple[Array, Array]:
    """Windows [N, 4] in pixels of the canvas, with their scores, from P-Net's outputs for the mosaic."""
    offsets, probability = outputs[0][0], outputs[1][0, 1]
    found: list[tuple[Array, Array]] = []
    for level in pyramid()[0]:
        rows, columns = level_windows(level)
        scores = probability[rows, columns].astype(np.float64)
        y, x = np.nonzero(scores >= PNET_SCORE)
        corner = STRIDE * np.stack([x, y], axis=1)
        boxes = np.hstack([corner, corner + WINDOW]) * (SIDE / level.size)
        moved = _moved(boxes, offsets[:, rows, columns][:, y, x].T.astype(np.float64))
        # Windows are compared as they were looked at; what is kept is moved.
        kept = suppress(boxes, scores[y, x], 0.5)
        found.append((np.hstack([boxes, moved])[kept], scores[y, x][kept]))
    both = np.concatenate([boxes for boxes, _ in found])
    scores = np.concatenate([scores for _, scores in found])
    kept = suppress(both[:, :4], scores, 0.7)
    return both[kept, 4:], scores[kept]


def _crops(canvas: Array, boxes: Array, size: int) -> tuple[Array, Array]:
    """Squares cut out of the canvas as float32[N, 3, size, size], and the boxes as they were cut, whole pixels."""
    whole = np.clip(np.rint(boxes).astype(np.int64), 0, SIDE)
    used = (whole[:, 2] > whole[:, 0]) & (whole[:, 3] > whole[:, 1])
    parts = [resize(canvas[y1:y2, x1:x2], size, size).transpose(2, 0, 1) for x1, y1, x2, y2 in whole[used]]
    return np.array(parts, np.float32).reshape(-1, 3, size, size), boxes[used]


def _in_batches(run: Run, name: str, crops: Array, batch: int) -> list[Array]:
    """A network's outputs for any number of crops, as float64."""
    filled = np.concatenate([crops, np.zeros((-len(crops) % batch, *crops.shape[1:]), np.float32)])
    results = run(name, [np.ascontiguousarray(part) for part in np.split(filled, len(filled) // batch)])
    return [np.concatenate(parts)[: len(crops)].astype(np.float64) for parts in zip(*results, strict=True)]


def detect(image: Array, run: Run, score: float = ONET_SCORE) -> Faces:
    """Faces in an image.

    Args:
        image: uint8[H, W, 3], RGB.
        run: the three networks; float32 in and out, outputs in the order of networks.py.
        score: faces that O-Net gives less are left out.
    """
    none = Faces(boxes=np.zeros((0, 4)), scores=np.zeros(0), landmarks=np.zeros((0, 5, 2)))
    canvas, scale = fit(image)
    (outputs,) = run("pnet", [mosaic(canvas)])
    boxes, scores = _proposals(outputs)

    crops, boxes = _crops(canvas, _squares(boxes), RNET_SIZE)
    if not len(crops):
        return none
    offsets, probability = _in_batches(run, "rnet", crops, RNET_BATCH)
    kept = probability[:, 1] > RNET_SCORE
    boxes, offsets, scores = boxes[kept], offsets[kept], probability[kept, 1]
    kept = suppress(boxes, scores, 0.7)
    boxes = _moved(boxes[kept], offsets[kept])

    crops, boxes = _crops(canvas, _squares(boxes), ONET_SIZE)
    if not len(crops):
        return none
    offsets, points, probability = _in_batches(run, "onet", crops, ONET_BATCH)
    kept = probability[:, 1] > score
    boxes, offsets, points, scores = boxes[kept], offsets[kept], points[kept], probability[kept, 1]
    size = boxes[:, 2:] - boxes[:, :2]
    # Five x, then five y, as fractions of the crop.
    landmarks = points.reshape(-1, 2, 5).transpose(0, 2, 1) * size[:, None] + boxes[:, None, :2]
    boxes = _moved(boxes, offsets)
    kept = suppress(boxes, scores, 0.7, of_smaller=True)
    return Faces(boxes=boxes[kept] / scale, scores=scores[kept], landmarks=landmarks[kept] / scale)
