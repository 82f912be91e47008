"""The model zoo that proves the compiler: ``MODELS`` holds every case by name."""

from __future__ import annotations

from pathlib import Path

from tests.models import arithmetic, conv, golden, interface, layers, real, sequence, vision
from tests.models.case import CASES, ModelCase

__all__ = ["MODELS", "ModelCase", "write_model_file"]

FAMILIES = (conv, vision, sequence, layers, arithmetic, interface, golden, real)

MODELS: dict[str, ModelCase] = {case.name: case for case in CASES}
assert len(MODELS) == len(CASES), "two cases share a name"

_MODEL_FILE = """\
import sys

sys.path.insert(0, {root!r})

from tests.models import MODELS


def make_model():
    return MODELS[{name!r}].make()
"""


def write_model_file(case: ModelCase, folder: Path) -> Path:
    """Write ``<name>.py`` for ``c7x compile``: a file whose ``make_model()`` returns the case.

    The file reaches this package by its absolute path, so it is for this checkout only.
    """
    path = folder / f"{case.name}.py"
    root = str(Path(__file__).resolve().parents[2])
    path.write_text(_MODEL_FILE.format(root=root, name=case.name), encoding="utf-8")
    return path
