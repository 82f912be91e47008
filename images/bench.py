"""Measures the compiler image: `make bench-images`.

Times are medians of runs that alternate between the container and this machine's c7x, so that a busy moment hits both.
Exit code 1 when a number is over its limit; on a busy machine look at the spread first.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NET = """
import torch
from torch import nn


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten()).eval(), (torch.rand(1, 3, 8, 8),)
"""
SIZE_LIMIT = 1.6e9
VERSION_LIMIT = 1.0
COMPILE_LIMIT = 1.5
REBUILD_LIMIT = 5.0


def seconds(words: list[str], folder: Path) -> float:
    """How long a command takes (CalledProcessError when it fails)."""
    started = time.perf_counter()
    subprocess.run(words, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return time.perf_counter() - started


def overhead(container: list[str], local: list[str], folder: Path, rounds: int) -> tuple[float, float, float]:
    """Median time in the container, here, and the median of the differences of neighbours."""
    pairs = [(seconds(container, folder), seconds(local, folder)) for _ in range(rounds)]
    inside, here = zip(*pairs, strict=True)
    return statistics.median(inside), statistics.median(here), statistics.median(a - b for a, b in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the compiler image against its limits.")
    parser.add_argument("--image", default="c7x:latest")
    parser.add_argument("--c7x", default="c7x", help="the local command to compare with")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    root = Path(__file__).resolve().parents[1]
    inspected = subprocess.run(
        ["docker", "image", "inspect", options.image], check=True, capture_output=True, text=True
    )
    size = json.loads(inspected.stdout)[0]["Size"]
    rows = [("image, unpacked", f"{size / 1e9:.2f} GB", f"{SIZE_LIMIT / 1e9:.1f} GB", size <= SIZE_LIMIT)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "model.py").write_text(NET, encoding="utf-8")
        user = f"{os.getuid()}:{os.getgid()}"
        run = ["docker", "run", "--rm", "-u", user, "-v", f"{folder}:{folder}", "-w", str(folder), options.image]
        for what, words, rounds, limit in (
            ("version", ["version"], options.rounds + 2, VERSION_LIMIT),
            ("compile", ["compile", "model.py", "-o", "/tmp/b"], options.rounds, COMPILE_LIMIT),
        ):
            inside, here, more = overhead([*run, *words], [options.c7x, *words], folder, rounds)
            shown = f"{more:.2f} s ({inside:.2f} against {here:.2f})"
            rows.append((f"docker run c7x {what}, over local", shown, f"{limit} s", more <= limit))
    build = [str(root / "images" / "build.sh"), "compiler"]
    seconds(build, root)
    again = statistics.median(seconds(build, root) for _ in range(3))
    rows.append(("rebuild without a change", f"{again:.2f} s", f"{REBUILD_LIMIT} s", again <= REBUILD_LIMIT))
    for what, value, allowed, fits in rows:
        print(f"{what:36} {value:36} limit {allowed:8} {'ok' if fits else 'OVER'}")
    return 0 if all(fits for *_, fits in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
