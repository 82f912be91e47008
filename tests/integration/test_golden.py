"""``lib0.c`` of a few tiny models is kept in tests/golden: a refactoring must not change generated C by accident.

After a wanted change: ``pytest tests/integration/test_golden.py --update-golden``, and read the difference before it is
committed. The helper headers that every lib0.c contains word for word are left out, a line stands for each.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest

from c7x.version import __version__
from tests.integration.zoo import ROOT, generate
from tests.models import MODELS, ModelCase

GOLDEN = ROOT / "tests" / "golden"
HEADERS = ("c7x_abi.h", "c7x_vector.h", "c7x_scalar.h")
CASES = [case for case in MODELS.values() if "golden" in case.tags]


def without_headers(text: str) -> str:
    """``text`` without the version, and with the content of each helper header replaced by a line that names it.

    Raises:
        AssertionError: a header is not in the text as it stands in native/include.
    """
    for name in HEADERS:
        header = (ROOT / "native" / "include" / name).read_text(encoding="utf-8").strip()
        assert header in text, f"lib0.c does not contain {name} as it is in native/include"
        text = text.replace(header, f"/* ... {name} ... */")
    return text.replace(f"compiled by c7x {__version__}", "compiled by c7x")


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_generated_c_is_unchanged(case: ModelCase, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    found = without_headers(generate(case, tmp_path).path("lib0.c").read_text(encoding="utf-8"))
    golden = GOLDEN / case.name / "lib0.c"
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(found, encoding="utf-8", newline="\n")
        return
    assert golden.is_file(), f"there is no {golden.relative_to(ROOT)}: write it with --update-golden"
    wanted = golden.read_text(encoding="utf-8")
    difference = list(difflib.unified_diff(wanted.splitlines(), found.splitlines(), "golden", "generated", lineterm=""))
    assert not difference, "\n".join([*difference[:80], "...", "write it anew with --update-golden if this is wanted"])


def test_no_golden_file_is_left_over() -> None:
    """Every folder in tests/golden belongs to a case."""
    assert {path.parent.name for path in GOLDEN.glob("*/lib0.c")} <= {case.name for case in CASES}


#: ``(float8)(a, b)``: TI's host emulation compiles it and computes something else.
CAST_OF_A_VECTOR = re.compile(
    r"\(\s*(?:const\s+)?(?:u?(?:char|short|int|long)|float|double)(?:2|3|4|8|16|32|64)\s*\)\s*[\w({]"
)


def test_no_vector_is_made_by_a_cast() -> None:
    assert CAST_OF_A_VECTOR.search("x = (float8)(1.0f, y);")
    assert CAST_OF_A_VECTOR.search("x = ( const uchar32 ) y;")
    texts = [*GOLDEN.rglob("lib0.c"), *(ROOT / "native" / "include").glob("*.h")]
    assert len(texts) > len(HEADERS)
    for path in texts:
        found = CAST_OF_A_VECTOR.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path}: {found[0]}"
