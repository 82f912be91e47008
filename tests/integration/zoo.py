"""Compiles cases of the model zoo through the stages, once a session, and a second time in another process.

``python -m tests.integration.zoo FOLDER NAME...`` is that other process: it runs the stages up to the generated C for
each case under ``FOLDER/NAME`` and writes ``FOLDER/NAME.json`` when it is done with one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from c7x.workspace import Workspace
from tests.models import MODELS, ModelCase, write_model_file
from tests.models.wheels import WheelMissing

ROOT = Path(__file__).resolve().parents[2]
CODEGEN_FILES = ("lib0.c", "devc.c", "weights.bin", "model_library.tar")
#: -O1 compiles three times as fast as the default -O3; what C says about results is the same.
QUICK_FLAGS = ("-O1",)


def generate(case: ModelCase, folder: Path, target: str | None = None) -> Workspace:
    """Export, import and codegen of ``case`` into ``folder``/build."""
    from c7x.codegen.stage import codegen_stage
    from c7x.frontend.export import export_stage
    from c7x.frontend.importer import import_stage
    from c7x.reporter import SILENT
    from c7x.target import DEFAULT_TARGET, Target

    folder.mkdir(parents=True, exist_ok=True)
    ws = Workspace(folder / "build")
    with warnings.catch_warnings():
        # torch and TVM warn about their own insides, from modules that no filter of pyproject.toml can name.
        warnings.simplefilter("ignore")
        export_stage(ws, source=write_model_file(case, folder), bind={}, reporter=SILENT)
        import_stage(ws, reporter=SILENT)
        codegen_stage(ws, target=Target.parse(target or DEFAULT_TARGET), reporter=SILENT)
    return ws


def build(ws: Workspace, *, quick: bool) -> None:
    """``cg_dsp`` of generated code; ``quick`` trades its speed for the compiler's."""
    from c7x.toolchain.gnu import BuildOptions
    from c7x.toolchain.stage import build_stage

    build_stage(ws, options=BuildOptions(cflags=QUICK_FLAGS if quick else ()))


class NotCompiled(Exception):
    """The case failed to compile in an earlier test, which shows why."""


@dataclass
class Zoo:
    """Compiled cases, each in its own folder under ``root``."""

    root: Path
    _done: dict[str, Workspace | BaseException] = field(default_factory=dict)

    def compiled(self, case: ModelCase) -> Workspace:
        """The build directory of ``case``, with cg_dsp in it; compiled at the first call.

        Raises:
            NotCompiled: an earlier call failed.
        """
        found = self._done.get(case.name)
        if isinstance(found, Workspace):
            return found
        if found is not None:
            raise NotCompiled(f"{case.name} did not compile: {type(found).__name__}: {found}") from None
        try:
            ws = generate(case, self.root / case.name)
            build(ws, quick="full" not in case.tags)
        except BaseException as error:
            self._done[case.name] = error
            raise
        self._done[case.name] = ws
        return ws


class SecondCompile:
    """The other process, with another hash seed, running beside the tests of this one."""

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": str(ROOT)}
        self._log = (root / "log.txt").open("wb")
        command = [sys.executable, "-m", "tests.integration.zoo", str(root), *names]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )

    def wait_for(self, name: str, seconds: float = 600.0) -> Workspace:
        """The build directory of ``name`` once it is there; AssertionError when it failed."""
        report = self.root / f"{name}.json"
        deadline = time.monotonic() + seconds
        while not report.is_file():
            ended = self._process.poll() is not None
            if (ended and not report.is_file()) or time.monotonic() > deadline:
                log = (self.root / "log.txt").read_text(errors="replace")[-3000:]
                raise AssertionError(f"the second compile of {name} did not come to an end:\n{log}")
            time.sleep(0.02)
        error = json.loads(report.read_text())["error"]
        assert error is None, error
        return Workspace(self.root / name / "build")

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait()
        self._log.close()


def main(arguments: Sequence[str]) -> int:
    root, names = Path(arguments[0]), arguments[1:]
    import torch

    torch.set_num_threads(1)
    for name in names:
        error = None
        try:
            generate(MODELS[name], root / name)
        except (Exception, WheelMissing) as failure:
            error = f"{type(failure).__name__}: {failure}"
        temporary = root / f"{name}.tmp"
        temporary.write_text(json.dumps({"error": error}))
        temporary.replace(root / f"{name}.json")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
