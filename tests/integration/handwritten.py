"""Build directories made from the models written by hand in tests/native/models, as if the compiler had made them."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

from c7x.workspace import Workspace

MODELS = Path(__file__).resolve().parents[1] / "native" / "models"

W = (2.0, -1.0, 0.5, 0.0)
B = (1.0, 1.0, 1.0, float("inf"))

_IO: dict[str, dict[str, Any]] = {
    "affine": {
        "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 4]}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": [1, 4]}],
    },
    "several": {
        "inputs": [
            {"name": "a", "dtype": "float32", "shape": [2, 3]},
            {"name": "flag", "dtype": "bool", "shape": [3]},
            {"name": "k", "dtype": "int64", "shape": []},
        ],
        "outputs": [
            {"name": "doubled", "dtype": "float32", "shape": [2, 3]},
            {"name": "inverted", "dtype": "bool", "shape": [3]},
            {"name": "next", "dtype": "int64", "shape": []},
        ],
    },
    "faults": {
        "inputs": [{"name": "fault", "dtype": "int32", "shape": []}],
        "outputs": [{"name": "y", "dtype": "int32", "shape": []}],
    },
}


def affine_weights() -> bytes:
    """A string that moves the tensors, then w and b (weights format)."""
    data = struct.pack("<Q", 3) + struct.pack("<iQ", 65, 8) + b"--------"
    for values in (W, B):
        data += struct.pack("<iQQiiiBBHqq", 70, 0xDD5E40F096B4A13F, 0, 1, 0, 1, 2, 32, 1, 4, 16)
        data += struct.pack("<4f", *values)
    return data


def make_workspace(name: str, folder: Path) -> Workspace:
    """A build directory after codegen, without a manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in ("lib0.c", "devc.c"):
        shutil.copyfile(MODELS / name / file, folder / file)
    (folder / "io.json").write_text(json.dumps(_IO[name]), encoding="utf-8")
    (folder / "weights.bin").write_bytes(affine_weights() if name == "affine" else b"")
    return Workspace(folder)
