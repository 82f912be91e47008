"""``c7x`` for the documentation's commands: the same compile in two pages happens once.

A compile into a new folder is kept in the folder $C7X_DOCS_CACHE by what it depends on: its words and the model. All
else goes to the command line as it is.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path


def output_folder(words: list[str]) -> Path:
    for at, word in enumerate(words[:-1]):
        if word in ("-o", "--output"):
            return Path(words[at + 1])
    return Path("build")


def key(words: list[str]) -> str:
    """Of a compile, without the folder's name."""
    content = [[word for word in words if word not in ("-o", "--output", str(output_folder(words)))]]
    content += [[word, hashlib.sha256(Path(word).read_bytes()).hexdigest()] for word in words if Path(word).is_file()]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def call(words: list[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "c7x.cli", *words], stdout=subprocess.PIPE, check=False)


def compile_once(words: list[str], cache: Path) -> int:
    folder, kept = output_folder(words), cache / key(words)
    with (cache / f"{kept.name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_dir():
            done = call(words)
            sys.stdout.buffer.write(done.stdout)
            if done.returncode == 0:
                shutil.copytree(folder, kept / "folder")
                (kept / "stdout").write_bytes(done.stdout)
            return done.returncode
    shutil.copytree(kept / "folder", folder)
    sys.stdout.buffer.write((kept / "stdout").read_bytes())
    return 0


def main(words: list[str]) -> int:
    cache = os.environ.get("C7X_DOCS_CACHE")
    if cache and words[:1] == ["compile"] and not output_folder(words).exists() and "--help" not in words:
        return compile_once(words, Path(cache))
    return subprocess.run([sys.executable, "-m", "c7x.cli", *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
