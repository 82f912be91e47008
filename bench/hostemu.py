"""Elementary functions in C7x code under the host emulation, against C's libm: ``python -m bench.hostemu``.

``native/hostemu/kernels/math.h``, built for x86-64-v3 (or this machine, where it is another), over 100,000 numbers; the
best of 20 turns of each, medians of several such runs. The scalar function is called element by element. Last, the
time to compile a file that includes ``c7x.h`` and nothing else, as user time of the compiler.

Host times say nothing about a DSP. Exit code 1 when the geometric mean of the ratios is above 2, or compiling takes
more than 3 seconds.
"""

from __future__ import annotations

import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from c7x.toolchain.hostemu import Emulation, compile_program, find_emulation

SOURCE = Path(__file__).parents[1] / "tests" / "native" / "hostemu" / "math.cpp"
CORE = "C7524"
COUNT = 100_000
RUNS = 3
#: Functions whose operands must lie in a range; the others take all positive numbers below 20.
RANGES = {"asin": (-1.0, 1.0), "acos": (-1.0, 1.0)}


def functions() -> list[str]:
    """The names in the table of the test program."""
    return re.findall(r'\{"(\w+)", c7x_math::', SOURCE.read_text(encoding="utf-8"))


def ratio(program: Path, name: str) -> float:
    """Time of the kernel over time of libm's function; a number, the median of several runs."""
    low, high = RANGES.get(name, (0.01, 20.0))
    numbers = np.random.default_rng(0).uniform(low, high, 2 * COUNT).astype(np.float32)
    found = []
    for _ in range(RUNS):
        done = subprocess.run([program, name, "time"], input=numbers.tobytes(), capture_output=True, check=True)
        kernel, scalar = map(float, done.stdout.split())
        found.append(kernel / scalar)
    return statistics.median(found)


def compile_seconds(folder: Path, emulation: Emulation) -> float:
    """User time to compile a file that only includes ``c7x.h``: the median of several runs."""
    source = folder / "empty.cpp"
    source.write_text("#include <c7x.h>\nint main() { return 0; }\n", encoding="utf-8")
    found = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        compile_program([str(source), "-O2", "-o", str(folder / "empty")], emulation=emulation)
        found.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
    return statistics.median(found)


def main() -> int:
    march = "x86-64-v3" if platform.machine() == "x86_64" else "native"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "math"
        emulation = find_emulation(CORE, "open")
        compile_program([str(SOURCE), "-O3", f"-march={march}", "-o", str(program)], emulation=emulation)
        ratios = {function: ratio(program, function) for function in functions()}
        seconds = compile_seconds(folder, emulation)
    for function, value in ratios.items():
        print(f"{function:6} {value:6.2f} x libm")
    mean = statistics.geometric_mean(ratios.values())
    print(f"geometric mean {mean:.2f} x libm (-march={march}), a file with c7x.h compiles in {seconds:.2f} s")
    return 0 if mean <= 2 and seconds <= 3 else 1


if __name__ == "__main__":
    sys.exit(main())
