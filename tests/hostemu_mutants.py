"""Breaks every meaning of the host emulation that no document states, and says which breaks no test notices.

    python -m tests.hostemu_mutants            # all of them, a minute or two
    python -m tests.hostemu_mutants __max TRANSPOSE

Rows of the table carry their mutants; those of the shared headers stand here.
"""

from __future__ import annotations

import dataclasses
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.hostemu_cases import (
    CORES,
    EMULATION,
    ROOT,
    ROWS,
    build,
    disagreement,
    driver,
    feed,
    generate,
    operands,
    split,
)
from tests.hostemu_models import MODELS
from tests.hostemu_streams import BASE
from tests.integration.test_hostemu import _first_difference, _stream_input, _stream_templates

CORE = "7524"
NATIVE = ROOT / "tests" / "native" / "hostemu"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A changed header and the test that must fail with it."""

    name: str
    file: str
    text: str
    test: Callable[[Path, Path], bool]


#: Programs of the tests that are not those of lanes, by the test's name.
_OWN_TESTS = {
    "test_fir": "fir.cpp",
    "test_inner_table": "table.cpp",
    "test_look_up": "lookup.cpp",
    "test_vectors": "vectors.cpp",
}


def _ends_badly(program: Path, data: bytes = b"") -> bool:
    return subprocess.run([str(program)], input=data, capture_output=True, timeout=60, check=False).returncode != 0


def _notices_row(row: Any) -> Callable[[Path, Path], bool]:
    def test(include: Path, folder: Path) -> bool:
        own = _OWN_TESTS.get(row.tested_by.rpartition("::")[2])
        if own is not None:
            core = row.core.split()[0] if row.core else CORE
            return _ends_badly(build(NATIVE / own, folder / "program", core=core, include=include, flags=("-O0", "-w")))
        register = CORES[CORE][1]
        chosen = driver.cases([row], register, CORE)
        source = folder / "program.cpp"
        source.write_text(driver.program(chosen, ROWS), encoding="utf-8")
        program = build(source, folder / "program", include=include, flags=("-O0", "-w"))
        inputs = [operands(case) for case in chosen]
        done = subprocess.run([str(program)], input=feed(chosen, inputs), capture_output=True, timeout=60, check=False)
        if done.returncode != 0:
            return True
        return any(
            disagreement(case, arrays, outputs, register, MODELS.get(row.key))
            for case, arrays, outputs in zip(chosen, inputs, split(chosen, done.stdout), strict=True)
        )

    return test


def _notices_streams(include: Path, folder: Path) -> bool:
    register = CORES[CORE][1]
    memory = random.Random(5).randbytes(2 * BASE)
    templates = _stream_templates(3, 600, register)
    program = build(NATIVE / "streams.cpp", folder / "program", include=include, flags=("-O1", "-w"))
    data = _stream_input(templates, memory)
    done = subprocess.run([str(program)], input=data, capture_output=True, timeout=60, check=False)
    return done.returncode != 0 or _first_difference(templates, memory, register, done.stdout) is not None


def _notices_vectors(include: Path, folder: Path) -> bool:
    return _ends_badly(build(NATIVE / "vectors.cpp", folder / "program", include=include, flags=("-O0", "-w")))


def _notices_fir(include: Path, folder: Path) -> bool:
    return _ends_badly(build(NATIVE / "fir.cpp", folder / "program", include=include, flags=("-O0", "-w")))


#: (name, header, text, replacement, test)
_SHARED: tuple[tuple[str, str, str, str, Callable[[Path, Path], bool]], ...] = (
    ("DIR", "stream.h", "stride[0] = origin = -1", "stride[0] = 1", _notices_streams),
    ("DIR start", "stream.h", "stride[0] = origin = -1", "stride[0] = -1", _notices_streams),
    ("AM block", "stream.h", "(512) << number) - 1", "(1024) << number) - 1", _notices_streams),
    ("AM CBK1", "stream.h", "t.CBK0 + t.CBK1 + 1u", "t.CBK0 + t.CBK1 + 0u", _notices_streams),
    ("AM per loop", "stream.h", "* element, inside[k]);", "* element, inside[0]);", _notices_streams),
    ("AM upper bits", "stream.h", "(at & ~inside) | (to & inside)", "to & inside", _notices_streams),
    (
        "AM of loop 0",
        "stream.h",
        "moved(from, offset * element, inside[0])",
        "from + offset * element",
        _notices_streams,
    ),
    (
        "AM order",
        "stream.h",
        "for (int k = loops.used - 1; k > 0; --k) from = moved",
        "for (int k = 1; k < loops.used; ++k) from = moved",
        _notices_streams,
    ),
    ("FIR order of taps", "fir.h", "(data[k]) * taps[k]", "(data[k]) * taps[Taps - 1 - k]", _notices_fir),
    ("SE_REG", "stream.h", "__SE_REG_0: return stream_read<0", "__SE_REG_0: return stream_read<1", _notices_fir),
    ("SE_REG_1", "stream.h", "__SE_REG_1: return stream_read<1", "__SE_REG_1: return stream_read<0", _notices_fir),
    (
        "SE_REG_ADV",
        "stream.h",
        "__SE_REG_0_ADV: return stream_read_advance<0",
        "__SE_REG_0_ADV: return stream_read<0",
        _notices_fir,
    ),
    (
        "se_eledup",
        "scalable.h",
        "<__SE_ELEDUP>(c7x_emu::log2_of(",
        "<__SE_ELEDUP>(1 + c7x_emu::log2_of(",
        _notices_vectors,
    ),
    ("TRANSPOSE order", "stream.h", "swapped.DIM1 = granule;", "swapped.DIM1 = 1;", _notices_streams),
    ("TRANSPOSE tail", "stream.h", "k < granule && column + k < columns", "k < granule", _notices_streams),
    ("DECDIM width", "stream.h", "l.width - at[l.dimension] * stride[l.dimension]", "l.width", _notices_streams),
    ("DECDIM lanes", "stream.h", "if (room < left) left = room;", "if (room <= 0) left = 0;", _notices_streams),
    ("DECDIMSD 0", "stream.h", "if (l.secondary == 0) room -= at[0];", "", _notices_streams),
    ("DECDIMSD 1 to 5", "stream.h", "if (l.secondary > 0) room -=", "if (l.secondary > 0) room +=", _notices_streams),
    (
        "ICNT of zero",
        "stream.h",
        "if (count[k] == 0) done = true;",
        "if (count[k] == 0) count[k] = 1;",
        _notices_streams,
    ),
    ("end of loop 0", "stream.h", "int64_t left = count[0] - at[0];", "int64_t left = per_vector;", _notices_streams),
    ("LEZR", "stream.h", "loops.ended >= lezr) zeros", "loops.ended == lezr) zeros", _notices_streams),
    ("behind the end", "stream.h", "if (done) return 0;", "", _notices_streams),
    ("VECLEN and DECIM", "stream.h", "(lanes) * decimation / dup", "(lanes) / dup", _notices_streams),
    ("GRPDUP", "stream.h", "if (group) {", "if (false) {", _notices_streams),
    ("PROMOTE sign", "stream.h", "sign && (to[element - 1] & 0x80)", "(to[element - 1] & 0x80) != 0", _notices_streams),
    ("out of range", "base.h", "std::signbit(x) ? limits::min() : limits::max()", "limits::max()", _notices_vectors),
    ("shift left", "base.h", "amount >= sizeof(T) * 8 ? T(0) : ", "", _notices_vectors),
    ("shift right", "base.h", "amount >= sizeof(T) * 8 ? fill : ", "(void)fill, ", _notices_vectors),
    ("complex product", "complex.h", "difference(product(a.re, b.re)", "sum(product(a.re, b.re)", _notices_vectors),
    ("comparison", "vector.h", "op b.s[i] ? -1 : 0", "op b.s[i] ? 1 : 0", _notices_vectors),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant, those of the table first."""
    table = generate.load()
    for row in table.rows:
        if row.mutant is None:
            continue
        changed = dataclasses.replace(row, code=row.code.replace(row.mutant[0], row.mutant[1], 1))
        rows = tuple(changed if r is row else r for r in table.rows)
        text = generate.header(dataclasses.replace(table, rows=rows))
        yield Mutant(name=row.key, file="intrinsics.h", text=text, test=_notices_row(row))
    for name, file, old, new, test in _SHARED:
        text = (EMULATION / "include" / "common" / "c7x_emu" / file).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{name}: {old!r} is not there once"
        yield Mutant(name=name, file=file, text=text.replace(old, new), test=test)


def main(wanted: Sequence[str]) -> int:
    survivors: list[str] = []
    count = 0
    with tempfile.TemporaryDirectory() as place:
        include = Path(place) / "include"
        for mutant in mutants():
            if wanted and not any(word in mutant.name for word in wanted):
                continue
            count += 1
            shutil.rmtree(include, ignore_errors=True)
            shutil.copytree(EMULATION / "include", include)
            (include / "common" / "c7x_emu" / mutant.file).write_text(mutant.text, encoding="utf-8")
            if not mutant.test(include, Path(place)):
                survivors.append(mutant.name)
    print(f"{count} mutants; not noticed: {', '.join(survivors) or 'none'}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
