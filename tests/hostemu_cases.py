"""Building and feeding test programs of the host emulation."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.hostemu_models import DTYPES, PREDICATE_BYTES, seed_errors

ROOT = Path(__file__).resolve().parent.parent
EMULATION = ROOT / "native" / "hostemu"
TOOLS = EMULATION / "tools"

#: Folder of a core and the bytes of its registers.
CORES = {"7524": ("C7524-MMA2_256", 32), "7100": ("C7100", 64)}
FLAGS = ("-std=c++14", "-fno-strict-aliasing", "-fno-math-errno", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")

#: Sets of operands a case: enough that every edge value meets every other.
ROWS = 24

Array = NDArray[Any]


def tool(name: str) -> ModuleType:
    """A script of native/hostemu/tools as a module."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up, and driver imports generate.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


generate = tool("generate")
driver = tool("driver")


def build(
    source: Path,
    output: Path,
    *,
    core: str = "7524",
    compiler: str = "g++",
    flags: Sequence[str] = ("-O1",),
    include: Path = EMULATION / "include",
) -> Path:
    """Compile a test program."""
    folder = CORES[core][0]
    command = [compiler, *FLAGS, *flags, "-I", str(include / folder), str(source), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[:4000]}"
    return output


def run(command: Sequence[str | Path], data: bytes = b"") -> bytes:
    done = subprocess.run([str(word) for word in command], input=data, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()[:4000]
    return done.stdout


def _edges(kind: str) -> Array:
    dtype = DTYPES[kind]
    if dtype.kind == "f":
        info = np.finfo(dtype)
        values = [
            *(0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5),
            *(float(info.tiny), float(info.smallest_subnormal), -float(info.smallest_subnormal)),
            *(float(info.max), -float(info.max), 2.0**31, -(2.0**31), 2147483520.0, 3e9, -3e9, 1e-3, 3.14159),
        ]
        return np.asarray(values, dtype)
    info_i = np.iinfo(dtype)
    bits = dtype.itemsize * 8
    numbers = [0, 1, 2, 3, bits - 1, bits, bits + 1, info_i.max, info_i.max - 1, info_i.min, info_i.min + 1]
    numbers += [1 << (bits - 2), 85, 127]
    if info_i.min < 0:
        numbers += [-1, -2, -bits, -86]
    return np.asarray(numbers, dtype)


def _vector(rng: np.random.Generator, kind: str, lanes: int, position: int, *, ordered: bool) -> Array:
    """Rows of a vector: edges, shifted against the other operands', then random bits and random numbers."""
    dtype = DTYPES[kind]
    edges = _edges(kind)
    out = np.empty((ROWS, lanes), dtype)
    for row in range(ROWS):
        if row < ROWS // 2:
            start = row * (lanes if position == 0 else lanes + 1 + position)
            out[row] = edges[(start + np.arange(lanes)) % len(edges)]
        elif row < ROWS * 3 // 4 or dtype.kind != "f":
            out[row] = rng.integers(0, 256, lanes * dtype.itemsize, dtype=np.uint8).view(dtype)
            if dtype.kind != "f" and row % 2:
                out[row] = rng.integers(0, 8, lanes)
        else:
            out[row] = rng.normal(0, 10.0 ** rng.integers(-3, 9), lanes)
    if ordered and dtype.kind == "f":
        out = np.where(np.isnan(out) | (out == 0), dtype.type(7), out)
    return out


def _words(rng: np.random.Generator, position: int, *, bits: int) -> Array:
    """Operands of C6000 intrinsics, without sign: edges of words, half-words and bytes, small numbers, random ones."""
    edges = [0, 1, 0x7FFF, 0x8000, 0x80007FFF, 0x7FFF8000, 0x80008000, 0xFF0180FE, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
    words = [edges[(3 * position + i) % len(edges)] for i in range(ROWS // 2)]
    words += rng.integers(0, 34, ROWS // 4).tolist()
    words += rng.integers(0, 1 << 32, ROWS - len(words)).tolist()
    high = rng.integers(0, 1 << 32, ROWS).tolist() if bits == 64 else [0] * ROWS
    return np.asarray([word + (upper << 32) for word, upper in zip(words, high, strict=True)], np.uint64)


def operands(case: Any) -> list[Array]:
    """What to feed a case of driver.py: deterministic, from its name."""
    seed = [*case.row.key.encode(), *case.element.encode(), case.width]
    rng = np.random.default_rng(seed)
    found: list[Array] = []
    lanes = 0
    for position, (kind, element, size) in enumerate(case.operands()):
        if kind == "pred":
            bits = rng.integers(0, 2, (ROWS, PREDICATE_BYTES), dtype=np.uint8).astype(bool)
            bits[0], bits[1] = False, True
            bits[:, CORES_BYTES[case.width] :] = False
            found.append(bits)
        elif kind == "memory":
            found.append(_vector(rng, element, size // DTYPES[element].itemsize, position, ordered=False))
        elif kind == "scalar" and case.row.group == generate.C6X:
            found.append(_words(rng, position, bits=8 * DTYPES[element].itemsize))
        elif kind == "scalar" and case.row.name == "__get_vector_element":
            found.append(np.arange(ROWS) % lanes)
        elif kind == "scalar" and element == "ulong":
            found.append(rng.integers(0, 1 << 63, ROWS, dtype=np.uint64))
        elif kind == "scalar":
            found.append(
                np.asarray([-3, -1, 0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, *range(4)])
            )
        else:
            lanes = size // DTYPES[element].itemsize
            found.append(_vector(rng, element, lanes, position, ordered=case.row.name.startswith("__sort")))
    return found


#: A case at half the width still has predicates of the whole register.
CORES_BYTES = {16: 32, 32: 64, 64: 64}


def _feed(array: Array, row: int) -> bytes:
    if array.dtype == bool:
        return np.packbits(array[row], bitorder="little").tobytes()
    if array.ndim == 1:
        return int(array[row]).to_bytes(8, "little", signed=array.dtype.kind == "i")
    return np.ascontiguousarray(array[row]).tobytes()


def feed(chosen: Sequence[Any], inputs: Sequence[Sequence[Array]]) -> bytes:
    """Standard input of the program for these cases."""
    return b"".join(_feed(array, row) for arrays in inputs for row in range(ROWS) for array in arrays)


def split(chosen: Sequence[Any], output: bytes) -> list[list[Array]]:
    """Standard output of the program, as one list of byte arrays [rows, bytes] a case."""
    at = 0
    found = []
    for case in chosen:
        sizes = [size for _, _, size in case.results()]
        block = np.frombuffer(output, np.uint8, ROWS * sum(sizes), at).reshape(ROWS, -1)
        at += block.size
        ends = np.cumsum(sizes)
        found.append([block[:, end - size : end] for end, size in zip(ends, sizes, strict=True)])
    assert at == len(output)
    return found


def canonical(raw: Array, element: str) -> Array:
    """Bytes with every NaN the same: which one comes out is the machine's choice."""
    if element not in ("float", "double"):
        return raw
    values = np.ascontiguousarray(raw).view(DTYPES[element]).copy()
    values[np.isnan(values)] = np.nan
    return np.abs(values, where=np.isnan(values), out=values).view(np.uint8).reshape(raw.shape)


def expected_bytes(array: Array, kind: str, size: int, register: int) -> Array:
    """A model's result as the program writes it."""
    if kind == "pred":
        flags = array.copy()
        flags[:, register:] = False
        return np.packbits(flags, axis=1, bitorder="little")
    # What a model makes of all flags of a predicate may be wider than the core.
    raw = np.ascontiguousarray(array).view(np.uint8).reshape(array.shape[0], -1)[:, :size]
    return np.pad(raw, ((0, 0), (0, size - raw.shape[1])))


def disagreement(case: Any, inputs: Sequence[Array], outputs: Sequence[Array], register: int, model: Any) -> str | None:
    """What differs between a case's outputs and its model; None when nothing does."""
    name = f"{case.row.key} of {case.element or case.row.args}, {case.width} bytes"
    if case.row.group == "seeds":
        return _seed_disagreement(name, case, inputs[0], outputs[0])
    with np.errstate(all="ignore"):
        wanted = model(case.element, *inputs)
    for index, ((kind, element, size), got, want) in enumerate(zip(case.results(), outputs, wanted, strict=True)):
        want_raw = canonical(expected_bytes(want, kind, size, register), element)
        got_raw = canonical(got, element)
        if not np.array_equal(want_raw, got_raw):
            row = int(np.nonzero((want_raw != got_raw).any(axis=1))[0][0])
            return (
                f"{name}: result {index}, row {row}: {got_raw[row].tobytes().hex()} instead of "
                + want_raw[row].tobytes().hex()
                + f" for {[a[row].tolist() for a in inputs]}"
            )
    return None


def _seed_disagreement(name: str, case: Any, operand: Array, raw: Array) -> str | None:
    result = np.ascontiguousarray(raw).view(operand.dtype).reshape(operand.shape)
    with np.errstate(all="ignore"):
        errors = seed_errors(case.row.name, operand, result)
        if not ((errors < 1 / 256).all() and (errors > 1 / 300).all()):
            return f"{name}: errors from {errors.min()} to {errors.max()}"
        exact = 1 / operand if case.row.name == "__recip" else np.where(operand == 0, 1 / operand, 1 / np.sqrt(operand))
    special = (operand == 0) | ~np.isfinite(operand) | ((case.row.name == "__recip_sqrt") & (operand < 0))
    wanted = canonical(np.ascontiguousarray(exact[special]).view(np.uint8)[None, :], case.element)
    got = canonical(np.ascontiguousarray(result[special]).view(np.uint8)[None, :], case.element)
    return None if np.array_equal(wanted, got) else f"{name}: zero, infinity or NaN"
