"""Calling the command line as a user and as a script do: in a process of its own, in the user's folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def c7x(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``c7x ARGUMENTS`` in ``folder``; the exit code is for the caller to judge."""
    return subprocess.run(
        [sys.executable, "-m", "c7x.cli", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=300,
        check=False,
    )


def ok(folder: Path, *arguments: str) -> dict[str, Any]:
    """The object that ``c7x ARGUMENTS --json`` prints, which must succeed."""
    done = c7x(folder, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert value["status"] == "ok"
    return dict(value)
