"""The report left behind when something failed that nobody foresaw: ``c7x-crash.txt`` in the build directory."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from c7x.version import __version__

CRASH_FILE = "c7x-crash.txt"


def _versions() -> str:
    lines = [f"c7x {__version__}", f"Python {sys.version.split()[0]} on {platform.system()} {platform.machine()}"]
    for name in ("torch", "apache-tvm", "numpy"):
        try:
            lines.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            lines.append(f"{name} not installed")
    return "\n".join(lines)


def write_crash_report(root: Path, text: str) -> Path:
    """Writes ``text``, the versions in front, to ``root/c7x-crash.txt``, or to the temporary folder if that fails."""
    content = f"{_versions()}\n\n{text.rstrip()}\n"
    try:
        root.mkdir(parents=True, exist_ok=True)
        path = root / CRASH_FILE
        path.write_text(content, encoding="utf-8", errors="replace")
    except OSError:
        handle, name = tempfile.mkstemp(prefix="c7x-crash-", suffix=".txt")
        path = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(content)
    return path
