"""The site: every page is in its navigation, it builds without a warning, and needs no other server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r": (\S+\.md)$", CONFIG[CONFIG.index("\nnav:") :], re.MULTILINE)
    docs = ROOT / "docs"
    assert sorted(listed) == sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))


def test_no_fonts_from_another_server() -> None:
    assert re.search(r"^  font: false$", CONFIG, re.MULTILINE)


def mkdocs() -> str:
    """The program that `make docs` installs, or one on PATH."""
    folder = Path(os.environ.get("DOCS_VENV") or ROOT / "build" / "docs-venv")
    found = shutil.which("mkdocs", path=f"{folder.absolute() / 'bin'}:{os.environ['PATH']}")
    if found is None:
        pytest.skip("make docs has not installed MkDocs here")
    return found


def build(source: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            mkdocs(),
            "build",
            "--strict",
            "--config-file",
            str(source / "mkdocs.yml"),
            "--site-dir",
            str(site),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=False,
    )


def test_site(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    pages = sorted(tmp_path.glob("*.html"))
    assert len(pages) > 15
    for page in pages:
        text = page.read_text(encoding="utf-8")
        # What a browser fetches by itself; a link is for the reader to follow.
        fetched = re.findall(r"<(?:script|img|iframe)\b[^>]*\bsrc=\"(https?:[^\"]+)", text)
        fetched += re.findall(r"<link\b[^>]*\brel=\"(?:stylesheet|preconnect)\"[^>]*\bhref=\"(https?:[^\"]+)", text)
        assert fetched == [], page.name
        assert "not run:" not in re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("mistake", ["[x](gone.md)", "[x](index.md#gone)"])
def test_a_dead_link_ends_the_build(tmp_path: Path, mistake: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# T\n\n{mistake}\n")
    (tmp_path / "mkdocs.yml").write_text(CONFIG[: CONFIG.index("\nnav:")] + "\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "gone" in done.stderr
