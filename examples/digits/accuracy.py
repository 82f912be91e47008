"""Accuracy of the compiled digits net and of PyTorch's: ``accuracy.py LOGITS.npz``, written by ``c7x run --output``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from examples.digits.model import load_data, make_model


def main(path: Path) -> int:
    with np.load(path) as outputs:
        compiled = outputs[outputs.files[0]]
    net, inputs = make_model()
    with torch.no_grad():
        reference = net(*inputs).numpy()
    labels = load_data()[3].numpy()
    print(f"held-out digits classified correctly, of {len(labels)}:")
    for name, logits in (("compiled", compiled), ("PyTorch", reference)):
        right = int((logits.argmax(axis=1) == labels).sum())
        print(f"  {name:<9} {right} ({right / len(labels):.1%})")
    same = int((compiled.argmax(axis=1) == reference.argmax(axis=1)).sum())
    print(f"same answer: {same} of {len(labels)}")
    return 0 if same == len(labels) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
