"""Every command and every piece of code in the documentation works as it stands there.

A page's blocks run in order, in a fresh folder that looks like a checkout (links to its files) with a ``model.py`` (the
digits network, one image) and an input ``x.npy``, ``x.bin``. See blocks.py for what pages say about blocks.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.docs.blocks import REASONS, ROOT, Block, commands, page_name, pages, parse
from tests.integration.arm_harness import site
from tests.models.wheels import WheelMissing, find

MODEL = "from examples.classification.digits import calibration_inputs, make_model, output_names\n"
#: Seconds for one block.
LIMIT = 600
_STRICT = "set -euo pipefail\n"
_COMPILERS = {"c": ["gcc", "-std=c11"], "cpp": ["g++", "-std=c++14"]}


def read(path: Path) -> list[Block]:
    """The blocks of a page; none when there is a mistake in it, which test_pages_can_be_read tells."""
    try:
        return parse(path.read_text(encoding="utf-8"), page_name(path))
    except ValueError:
        return []


BLOCKS = {page_name(path): read(path) for path in pages()}


@pytest.mark.parametrize("path", pages(), ids=page_name)
def test_pages_can_be_read(path: Path) -> None:
    parse(path.read_text(encoding="utf-8"), page_name(path))


# ------------------------------------------------------------------------------------------------------------ a page


class Page:
    """A folder in which the blocks of a page run."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        self.path = folder / "checkout"
        self.path.mkdir()
        self._like_a_checkout()
        programs = folder / "bin"
        programs.mkdir()
        shim = programs / "c7x"
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).with_name("shim.py")}" "$@"\n')
        shim.chmod(0o755)
        stamp = folder / "stamp"
        stamp.touch()
        self.variables = {
            **os.environ,
            "C7X_DOCS_CACHE": str(cache),
            "HOME": str(folder),
            "MAKEFLAGS": f"STAMP={stamp}",  # the environment is there
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
            "XDG_RUNTIME_DIR": str(folder),
        }

    def _like_a_checkout(self) -> None:
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
        names = {line.split("/")[0] for line in listed.splitlines()} or {p.name for p in ROOT.iterdir()}
        for name in sorted(names - {"build", "dist", ".venv"}):
            if (ROOT / name).exists():
                (self.path / name).symlink_to(ROOT / name)
        (self.path / ".venv").symlink_to(sys.prefix)
        (self.path / "model.py").write_text(MODEL)
        image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
        np.save(self.path / "x.npy", image)
        image.tofile(self.path / "x.bin")

    def run(self, command: list[str], block: Block) -> None:
        """Runs a program in the folder; its exit code must be the block's."""
        done = subprocess.run(
            command,
            cwd=self.path,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT,
            check=False,
        )
        wanted = int(block.notes.get("exit", 0))
        assert done.returncode == wanted, f"{block.where}: exit code {done.returncode}\n{block.text}\n{done.stdout}"

    def python(self, code: str, block: Block) -> None:
        if "tvm.contrib.c7x" in code:
            # As the wheel installs it, beside TVM.
            variables = self.variables
            self.variables = {**variables, "PYTHONPATH": f"{_site()}:{ROOT}"}
            self.run([sys.executable, "-c", code], block)
            self.variables = variables
        else:
            self.run([sys.executable, "-c", code], block)

    def execute(self, block: Block) -> None:
        given = block.notes.get("given", "")
        if block.file:
            if given:
                self.python(given, block)
            path = self.path / block.file
            assert not path.is_symlink(), f"{block.where}: {block.file} is a file of the repository"
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "bash":
            self.run(["bash", "-c", f"{_STRICT}{given}\n{commands(block)}"], block)
        elif block.language == "python":
            self.python(f"{given}\n{block.text}", block)
        elif block.language in _COMPILERS:
            source = self.folder / f"block.{block.language}"
            source.write_text(f"{block.notes.get('fragment', '')}\n{block.text}")
            folders = ["-Ibuild", "-Inative/arm/include", "-Inative/include", "-Inative/kernels", "-Inative/runtime"]
            self.run([*_COMPILERS[block.language], "-Wall", "-fsyntax-only", *folders, str(source)], block)
        elif block.language == "json":
            for line in [block.text] if block.text.startswith("{\n") else block.text.splitlines():
                json.loads(line)


@functools.cache
def _site() -> Path:
    return site(with_tvm=True)


@contextmanager
def opened(cache: Path) -> Iterator[Page]:
    # A short path: the name of a socket has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="c7x-docs-"))
    page = Page(folder, cache)
    try:
        yield page
    finally:
        subprocess.run(
            [str(folder / "bin" / "c7x"), "vdsp", "stop"], env=page.variables, capture_output=True, check=False
        )
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiles that pages share, also pages that run in other processes."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "docs-compiles"
    folder.mkdir(exist_ok=True)
    return folder


def run_page(name: str, cache: Path, *, heavy: bool) -> None:
    with opened(cache) as page:
        for block in BLOCKS[name]:
            if "not run" in block.notes or ("heavy" in block.notes and not heavy):
                continue
            if wheel := block.notes.get("needs"):
                try:
                    find(wheel)
                except WheelMissing:
                    continue
            page.execute(block)


def runs(block: Block) -> bool:
    return "not run" not in block.notes and block.language not in (
        "text",
        "yaml",
        "toml",
        "dockerfile",
        "cmake",
        "html",
    )


LIGHT = [name for name, blocks in BLOCKS.items() if any(runs(b) and "heavy" not in b.notes for b in blocks)]
HEAVY = [name for name, blocks in BLOCKS.items() if any(runs(b) and "heavy" in b.notes for b in blocks)]


@pytest.mark.parametrize("name", LIGHT)
def test_page(name: str, cache: Path) -> None:
    run_page(name, cache, heavy=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", HEAVY)
def test_page_with_what_takes_long(name: str, cache: Path) -> None:
    run_page(name, cache, heavy=True)


# ----------------------------------------------------------------------------------------------- blocks that do not run


def test_blocks_that_do_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Lists them; what is not in this list has run."""
    with capsys.disabled():
        for block in (block for blocks in BLOCKS.values() for block in blocks):
            if reason := block.notes.get("not run"):
                print(f"\nnot run: {block.where}: {REASONS[reason]}", end="")
    assert BLOCKS["README.md"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (name, reason)
        for name, blocks in BLOCKS.items()
        for reason in sorted({b.notes["not run"] for b in blocks if b.notes.get("not run")})
    ],
)
def test_a_reason_is_true(name: str, reason: str) -> None:
    """What a block needs according to its marker is there to see in it."""
    words = {
        "board": ("ssh", "deploy", "c7x_dload", "--board", "c7x_compute"),
        "TI tools": ("c7x_dload", "toolchain", "TI_CGT", "lib0.out", "ti_cgt"),
        "registry": (
            "pip ",
            "pip3",
            "apt-get",
            "docker",
            "podman",
            "fetch",
            "make lock",
            "make docs",
            "make venv",
            "npm",
        ),
        "container engine": ("docker", "podman", "compose", "images/", "--engine", "make image", "devcontainer"),
        "root": ("apt-get", "sudo", "/usr/local", "deploy"),
        "Python environment": ("pip install",),
        "own step of CI": ("make ", ".ci/run", "pytest", "ctest"),
        "endless": ("",),
        "other repository": ("",),
    }
    for block in BLOCKS[name]:
        if block.notes.get("not run") == reason:
            assert any(word in block.text for word in words[reason]), f"{block.where} does not look like: {reason}"
