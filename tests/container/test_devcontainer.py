"""The devcontainer, with the command that editors use: it starts, and the unit tests pass inside."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.container.conftest import require
from tests.container.engine import ROOT, call, text

pytestmark = [pytest.mark.needs("c7x-dev"), pytest.mark.slow]

#: The version that this was tested with; npx fetches it when the program is not installed.
CLI = "@devcontainers/cli@0.89.0"


def devcontainer(action: str, *words: str) -> subprocess.CompletedProcess[str]:
    """``devcontainer ACTION`` for this checkout."""
    program = shutil.which("devcontainer")
    command = [program] if program else ["npx", "--yes", CLI]
    # The user inside is called like the one outside.
    environment = {**os.environ, "USER": pwd.getpwuid(os.getuid()).pw_name}
    return call([*command, action, "--workspace-folder", str(ROOT), *words], env=environment, timeout=1500)


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    require(bool(shutil.which("devcontainer") or shutil.which("npx")), "there is no npx: apt install npm")
    started = json.loads(text(devcontainer("up", "--remove-existing-container")).splitlines()[-1])
    assert started["outcome"] == "success"
    yield str(started["remoteUser"])
    text(call(["docker", "rm", "--force", "--volumes", started["containerId"]]))


def test_the_user_inside_owns_what_they_write(container: str) -> None:
    name = f".c7x-test-{os.getpid()}"
    try:
        text(devcontainer("exec", "touch", name))
        assert (ROOT / name).stat().st_uid == os.getuid()
    finally:
        (ROOT / name).unlink(missing_ok=True)


def test_the_checkout_is_what_runs(container: str) -> None:
    assert "c7x 0" in text(devcontainer("exec", "c7x", "--version"))
    for program in ("ruff", "mypy", "clang", "gdb", "cmake", "ninja", "git"):
        text(devcontainer("exec", program, "--version"))


def test_the_unit_tests_pass(container: str) -> None:
    said = text(devcontainer("exec", "pytest", "-q", "-n", "2", "tests/unit"))
    assert " passed" in said
