"""Links of the Markdown files lead somewhere: to files that exist, and to headings as GitHub and the site name them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, page_name

_FENCED = re.compile(r"^(```+|~~~+).*?^\1", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(<?([^)\s>]+)>?[^)]*\)")
_IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)[^)]*\)")


def markdown_files() -> list[Path]:
    """Those that git knows, and new ones in docs/."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    found = {ROOT / line for line in listed.splitlines()} | {ROOT / "README.md", *(ROOT / "docs").rglob("*.md")}
    return sorted(path for path in found if path.is_file())


def prose(text: str) -> str:
    """Without code and comments: ``vm["main"](x)`` is no link."""
    return re.sub(r"`[^`\n]*`", "", _COMMENT.sub("", _FENCED.sub("", text)))


def _heading(line: str) -> str:
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip())
    return re.sub(r"[^\w\s-]", "", text).strip().lower()


def anchors(text: str) -> set[str]:
    """Names of headings; of headings with one text, only the first's."""
    lines = _FENCED.sub("", text).splitlines()
    return {re.sub(r"\s", "-", _heading(line)) for line in lines if re.match(r"#{1,6} ", line)}


def problems(path: Path, text: str) -> list[str]:
    """Links of a file that lead nowhere."""
    found = []
    for link in _LINK.findall(prose(text)) + _IMAGE.findall(prose(text)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name) if name else path
        if not target.exists():
            found.append(f"{link}: there is no {name}")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8")):
            found.append(f"{link}: there is no heading {anchor}")
    return found


@pytest.mark.parametrize("path", markdown_files(), ids=page_name)
def test_links(path: Path) -> None:
    assert problems(path, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=page_name)
def test_pages_link_to_pages_only(path: Path) -> None:
    """The site has nothing but docs/."""
    for link in _LINK.findall(prose(path.read_text(encoding="utf-8"))):
        if not re.match(r"[a-z]+:|#", link):
            assert (path.parent / link.partition("#")[0]).resolve().is_relative_to(ROOT / "docs"), link


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A title: with `code`\n\n```text\n# no heading\n```\n")
    page = tmp_path / "page.md"
    text = (
        "[a](there.md) [b](there.md#a-title-with-code) [c](gone.md) [d](there.md#no-heading) [e](#none)\n"
        '`[f](gone.md)`\n\n```python\nvm["main"](x)\n```\n\n![g](gone.png) [h](https://example.com/x)\n'
    )
    assert [line.partition(":")[0] for line in problems(page, text.replace("[e](#none)", ""))] == [
        "gone.md",
        "there.md#no-heading",
        "gone.png",
    ]
    page.write_text("# One\n")
    assert problems(page, "[e](#none) [f](#one)") == ["#none: there is no heading none"]
