"""Board side of the detection example: runs modules with C7xVirtualMachine. Needs NumPy and the inference wheel.

    python3 board_runner.py --module lib0.out --input-dir .        # input_*.npy -> output_*.npy
    python3 board_runner.py --mtcnn . --image image.npy            # pnet.out, rnet.out, onet.out -> faces.json

Prints for each run of a module: name, DSP cycles, wall-clock milliseconds, and where the outputs went. On a virtual DSP
a cycle is a nanosecond of host time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tvm.contrib.c7x import C7xVirtualMachine

SO_PATH = "/usr/local/lib/libc7x_arm_runtime.so"


class Modules:
    """Runs one module at a time, since a DSP holds one."""

    def __init__(self, so_path: str) -> None:
        self.so_path = so_path

    def run(self, module: Path, inputs: Sequence[tuple[str, Any]], target: str = "") -> list[list[Any]]:
        """The outputs of each named input, as copies; what the module prints goes to standard output."""
        results = []
        with C7xVirtualMachine(str(module), self.so_path, printf=lambda text: print(text, end="")) as vm:
            for name, array in inputs:
                start = time.perf_counter()
                outputs = vm["main"](array)
                milliseconds = 1000 * (time.perf_counter() - start)
                results.append([item.numpy() for item in (outputs if isinstance(outputs, list) else [outputs])])
                to = target.format(name.removeprefix("input_")) if target else "memory"
                print(f"{name}: {vm.last_cycles} DSP cycles, {milliseconds:.2f} ms, {to}", flush=True)
        return results


def run_files(modules: Modules, module: Path, folder: Path) -> None:
    """input_*.npy of the folder, in order of their names, each to its output_*.npy (several outputs: .npz)."""
    paths = sorted(folder.glob("input_*.npy"))
    if not paths:
        raise SystemExit(f"error: there is no input_*.npy in {folder}")
    inputs = [(path.stem, np.load(path, allow_pickle=False)) for path in paths]
    results = modules.run(module, inputs, "output_{}.npy")
    for path, outputs in zip(paths, results, strict=True):
        target = path.with_name(path.name.replace("input_", "output_", 1))
        if len(outputs) == 1:
            np.save(target, outputs[0])
        else:
            np.savez(target.with_suffix(".npz"), *outputs)


def run_mtcnn(modules: Modules, folder: Path, image: Path, score: float, output: Path) -> None:
    """Faces in an image uint8[H, W, 3], as JSON."""
    # Beside this file, here and on a board.
    from mtcnn import detect  # type: ignore[import-not-found]

    def run(name: str, batches: Sequence[Any]) -> list[list[Any]]:
        return modules.run(folder / f"{name}.out", [(f"{name} {i}", batch) for i, batch in enumerate(batches)])

    found = detect(np.load(image, allow_pickle=False), run, score)
    faces = [
        {"box": box.tolist(), "score": float(value), "landmarks": points.tolist()}
        for box, value, points in zip(found.boxes, found.scores, found.landmarks, strict=True)
    ]
    output.write_text(json.dumps({"faces": faces}, indent=2) + "\n", encoding="utf-8")
    print(f"{len(faces)} faces")


def main() -> int:
    parser = argparse.ArgumentParser(description="Run modules on the C7x DSP.")
    parser.add_argument("--module", type=Path, default=Path("lib0.out"))
    parser.add_argument("--so-path", default=SO_PATH)
    parser.add_argument("--input-dir", type=Path, default=Path())
    parser.add_argument("--mtcnn", type=Path, metavar="DIR", help="detect faces with the three modules in DIR")
    parser.add_argument("--image", type=Path, default=Path("image.npy"), help="for --mtcnn")
    parser.add_argument("--conf-threshold", type=float, default=0.7, help="for --mtcnn")
    parser.add_argument("--output", type=Path, default=Path("faces.json"), help="for --mtcnn")
    options = parser.parse_args()
    modules = Modules(options.so_path)
    if options.mtcnn is None:
        run_files(modules, options.module, options.input_dir)
    else:
        run_mtcnn(modules, options.mtcnn, options.image, options.conf_threshold, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
