"""The host emulation: intrinsics against NumPy models, streams against brute force, kernels against libm."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import pytest

from tests import hostemu_streams as streams
from tests.hostemu_cases import (
    CORES,
    EMULATION,
    ROOT,
    ROWS,
    SANITIZE,
    build,
    disagreement,
    driver,
    feed,
    generate,
    operands,
    run,
    split,
)
from tests.hostemu_models import MODELS

pytestmark = pytest.mark.skipif(
    not all(__import__("shutil").which(name) for name in ("g++",)), reason="needs g++"
)
TABLE = generate.load()
STREAMS = ROOT / "tests" / "native" / "hostemu" / "streams.cpp"


def _outputs(folder: Path, core: str, *, compiler: str = "g++", flags: tuple[str, ...] = ("-O1",), runner: tuple[str, ...] = ()) -> bytes:
    chosen = driver.cases(TABLE.rows, CORES[core][1], core)
    source = folder / f"intrinsics-{core}.cpp"
    source.write_text(driver.program(chosen, ROWS), encoding="utf-8")
    program = build(source, folder / f"intrinsics-{core}-{compiler.split('/')[-1]}", core=core, compiler=compiler, flags=flags)
    return run([*runner, program], feed(chosen, [operands(case) for case in chosen]))


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("hostemu")
    return {core: _outputs(folder, core) for core in CORES}


@pytest.mark.parametrize("core", CORES)
def test_intrinsics(reference: dict[str, bytes], core: str) -> None:
    register = CORES[core][1]
    chosen = driver.cases(TABLE.rows, register, core)
    wrong = [
        found
        for case, outputs in zip(chosen, split(chosen, reference[core]), strict=True)
        if (found := disagreement(case, operands(case), outputs, register, MODELS.get(case.row.key)))
    ]
    assert not wrong, "\n".join(wrong[:20])


# --------------------------------------------------------------------------------------------------------------- streams

_REACH = 32768


def _stream_templates(seed: int, count: int, register: int) -> list[streams.Template]:
    rng = random.Random(seed)
    return [streams.random_template(rng, register, reach=_REACH) for _ in range(count)]


def _stream_input(templates: list[streams.Template], memory: bytes) -> bytes:
    words = (struct.pack(f"<{len(t.words()) + 1}i", *t.words(), len(streams.vectors(t))) for t in templates)
    return memory + b"".join(words)


def _has_addresses(t: streams.Template) -> bool:
    return not (t.transpose or t.dir or t.lezr or t.decim or t.eledup)


def _predicate(valid: int, size: int, register: int) -> int:
    return (1 << min(valid * size, register)) - 1


def _stream_expected(t: streams.Template, memory: bytes, register: int) -> bytes:
    out = []
    vectors = streams.vectors(t)
    nothing = streams.Vector(lanes=(), offset=0, valid=0)
    for read, vector in zip(
        [*streams.read(t, memory, _REACH, register), bytes(register), bytes(register)],
        [*vectors, nothing, nothing],
        strict=True,
    ):
        out.append(read)
        if _has_addresses(t):
            predicates = (_predicate(vector.valid, size, register) for size in (1, 2, 4))
            out.append(struct.pack("<3Q2q", *predicates, vector.offset, vector.offset * 4))
    return b"".join(out)


def _first_difference(templates: list[streams.Template], memory: bytes, register: int, got: bytes) -> str | None:
    at = 0
    for t in templates:
        want = _stream_expected(t, memory, register)
        if got[at : at + len(want)] != want:
            return f"{t}"
        at += len(want)
    return None if at == len(got) else "more output than expected"


@pytest.mark.parametrize("core", CORES)
def test_streams(tmp_path: Path, core: str) -> None:
    """Thousands of random templates of one to six dimensions, each read to its end and beyond."""
    register = CORES[core][1]
    memory = random.Random(5).randbytes(2 * _REACH)
    templates = _stream_templates(7 + register, 3000, register)
    program = build(STREAMS, tmp_path / "streams", core=core, flags=("-O1", *SANITIZE))
    got = run([program], _stream_input(templates, memory))
    assert _first_difference(templates, memory, register, got) is None
    # The random templates reach every mode.
    for field in ("transpose", "promote", "eledup", "grpdup", "decim", "dir", "lezr", "decdim1", "decdim2sd", "dimfmt"):
        assert len({getattr(t, field) for t in templates}) > 1, field
    assert {t.dimfmt for t in templates} == set(range(6))
