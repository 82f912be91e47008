"""Running images as users and scripts do, by the engine's command line."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: What a careful user forbids a compiler: the image must work with all of it.
HARDENED = (
    "--read-only",
    *("--network", "none"),
    *("--cap-drop", "ALL"),
    *("--security-opt", "no-new-privileges"),
    *("--tmpfs", "/tmp:exec,mode=1777"),
    *("-e", "HOME=/tmp"),
)
SECONDS = 600


def call(words: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
    """A command with its output as text; the exit code is for the caller to judge."""
    return subprocess.run(  # type: ignore[call-overload]
        list(words), **{"capture_output": True, "text": True, "timeout": SECONDS, "check": False, **options}
    )


@cache
def why_not(engine: str = "docker") -> str | None:
    """Why images cannot be run with an engine; None when they can."""
    if shutil.which(engine) is None:
        return f"{engine} is not installed"
    done = call([engine, "info"], timeout=60)
    return None if done.returncode == 0 else f"no container engine runs ({engine} info fails): make engine"


@cache
def has_image(image: str, engine: str = "docker") -> bool:
    return call([engine, "image", "inspect", image], timeout=60).returncode == 0


def run_image(
    image: str, *words: str, options: Sequence[str] = (), folder: Path | None = None, user: str | None = None
) -> subprocess.CompletedProcess[str]:
    """``docker run`` as ``user`` (default: the caller), with ``folder`` mounted under its own path and worked in."""
    mounts = () if folder is None else ("-v", f"{folder}:{folder}", "-w", str(folder))
    owner = user or f"{os.getuid()}:{os.getgid()}"
    return call(["docker", "run", "--rm", "-u", owner, *mounts, *options, image, *words])


def text(done: subprocess.CompletedProcess[str]) -> str:
    """Standard output of a command that must succeed."""
    assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
    return done.stdout
