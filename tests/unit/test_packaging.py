"""What is shipped, and how light the core is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from c7x.version import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _python(code: str, *flags: str) -> str:
    done = subprocess.run(
        [sys.executable, *flags, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ------------------------------------------------------------------------------------------------------- light import

_HEAVY = ("torch", "tvm", "torchao", "numpy", "onnxruntime", "sklearn")
_LIGHT_MODULES = (
    "c7x",
    "c7x.cli",
    "c7x.compat",
    "c7x.errors",
    "c7x.stages",
    "c7x.target",
    "c7x.tensorfile",
    "c7x.workspace",
)


@pytest.mark.parametrize("module", _LIGHT_MODULES)
def test_light_modules_import_nothing_heavy(module: str) -> None:
    shown = _python(f"import sys, {module}; print(*(m for m in {_HEAVY!r} if m in sys.modules))")
    assert shown.split() == []


def test_package_import_pulls_only_its_version() -> None:
    shown = _python("import sys; before = set(sys.modules); import c7x; print(*sorted(set(sys.modules) - before))")
    ours = {name for name in shown.split() if name.startswith("c7x")}
    assert ours == {"c7x", "c7x.version"}


def test_lazy_names_work_without_an_import_of_the_submodule() -> None:
    assert _python("import c7x; print(c7x.get_target_string('c7x_host'))").strip() == "c_static -mcpu=c7x"
    assert _python("from c7x import Target; print(Target.parse('c_static').mcpu)").strip() == "None"


# ----------------------------------------------------------------------------------------------------------- archives


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source archive, built without network from a copy of the tracked files' folders."""
    folder = tmp_path_factory.mktemp("dist")
    script = "import sys, hatchling.build as b; print(b.build_wheel(sys.argv[1])); print(b.build_sdist(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    wheel, sdist = done.stdout.split()[-2:]
    return folder / wheel, folder / sdist


def _native_sources() -> set[str]:
    return {
        path.relative_to(ROOT / "native").as_posix()
        for path in (ROOT / "native").rglob("*")
        if path.is_file() and path.suffix in {".c", ".h", ".cmake", ".txt"}
    }


def test_wheel_holds_the_package_and_the_native_sources(archives: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(archives[0]) as wheel:
        names = set(wheel.namelist())
    assert {f"c7x/_native/{name}" for name in _native_sources()} <= names
    assert "c7x/_native/include/c7x_model.h" in names
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "c7x").rglob("*.py")}
    assert modules | {"c7x/py.typed"} <= names
    info = f"c7x-{__version__}.dist-info"
    assert {f"{info}/licenses/LICENSE", f"{info}/entry_points.txt"} <= names


def test_wheel_holds_nothing_else(archives: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(archives[0]) as wheel:
        names = wheel.namelist()
    others = [n for n in names if not re.match(rf"c7x/|c7x-{re.escape(__version__)}\.dist-info/", n)]
    assert others == []
    assert [n for n in names if "test" in n or "__pycache__" in n or n.endswith((".pyc", ".o", ".bin"))] == []


def test_wheel_metadata(archives: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(archives[0]) as wheel:
        metadata = wheel.read(f"c7x-{__version__}.dist-info/METADATA").decode()
        entry_points = wheel.read(f"c7x-{__version__}.dist-info/entry_points.txt").decode()
    assert f"Version: {__version__}\n" in metadata
    assert "License-Expression: Apache-2.0\n" in metadata
    assert "c7x = c7x.cli:main" in entry_points
    required = re.findall(r"^Requires-Dist: ([A-Za-z0-9_.-]+)[^;\n]*$", metadata, re.MULTILINE)
    assert sorted(required) == ["docker", "pyelftools", "rich", "typer"]


def test_sdist_holds_what_a_developer_needs(archives: tuple[Path, Path]) -> None:
    with tarfile.open(archives[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    for name in ("pyproject.toml", "Makefile", "README.md", "LICENSE", "c7x/target.py", "tests/unit/test_target.py"):
        assert name in names
    assert {f"native/{name}" for name in _native_sources()} <= names
    assert not [name for name in names if name.startswith(("build/", ".venv", "dist/")) or "__pycache__" in name]


def test_archives_are_reproducible(archives: tuple[Path, Path], tmp_path: Path) -> None:
    script = "import sys, hatchling.build as b; b.build_wheel(sys.argv[1]); b.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    for archive in archives:
        assert (tmp_path / archive.name).read_bytes() == archive.read_bytes()


# -------------------------------------------------------------------------------------------------------------- locks

_LOCKS = ("compile.lock", "dev.lock")


def _pins(lock: str) -> dict[str, str]:
    text = (ROOT / "requirements" / lock).read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))


@pytest.mark.parametrize("lock", _LOCKS)
def test_locks_have_hashes_and_no_addresses(lock: str) -> None:
    text = (ROOT / "requirements" / lock).read_text(encoding="utf-8")
    entries = re.split(r"^(?=[a-z0-9-]+==)", text, flags=re.MULTILINE)[1:]
    assert len(entries) > 20
    for entry in entries:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry
    assert not re.search(r"https?://|file:|--find-links|--index-url|--extra-index-url|\+cpu", text)
    assert "torch" not in _pins(lock)


def test_locks_agree_and_cover_the_dependencies() -> None:
    compiled, dev = _pins("compile.lock"), _pins("dev.lock")
    assert compiled.items() <= dev.items()
    extras = PROJECT["project"]["optional-dependencies"]

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[<>=~!\[]", text)[0] for text in requirements} - {"torch"}

    assert names(PROJECT["project"]["dependencies"] + extras["compile"]) <= compiled.keys()
    assert names(extras["dev"] + extras["run"]) <= dev.keys()


def test_torch_is_pinned_to_the_series_of_the_extra() -> None:
    pin = re.search(r"^torch==(\d+\.\d+)\.\d+$", (ROOT / "requirements" / "torch.txt").read_text(), re.MULTILINE)
    assert pin is not None
    assert f"torch~={pin[1]}.0" in PROJECT["project"]["optional-dependencies"]["compile"]
