"""What the host scripts of the examples share: options, calls of c7x, and the Arm side, where programs run modules.

The Arm side is a board that ssh reaches, or this machine with a virtual DSP. Programs and files are copied to it, run
there, and results are copied back, the same for both.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from c7x.errors import C7xError, CheckFailed, UsageError
from c7x.native import native_dir
from c7x.run import vdsp
from c7x.run.board import SshMachine, board_lock, machine_for
from c7x.subprocesses import run
from c7x.target import BOARDS

ROOT = Path(__file__).resolve().parents[1]
#: The board that is none: the virtual DSP.
VIRTUAL = "vdsp"
DTYPES = ("int8", "int16", "float32")


def say(text: str) -> None:
    """One line of progress."""
    print(text, flush=True)


# ------------------------------------------------------------------------------------------------------------- options


def add_options(parser: argparse.ArgumentParser, *, build_dir: str, remote_dir: str, image: str) -> None:
    """The options of every example."""
    parser.add_argument(
        "--board", choices=[VIRTUAL, *BOARDS], default=VIRTUAL, help="where to run (default: %(default)s)"
    )
    parser.add_argument("--host", metavar="[USER@]NAME", help="how ssh finds the board (default: the board's name)")
    parser.add_argument("--image", type=Path, help=f"the image (default: {image})")
    parser.add_argument("--dtype", choices=DTYPES, default="int8", help="of the network (default: %(default)s)")
    parser.add_argument("--build-dir", type=Path, default=Path(build_dir), help="default: %(default)s")
    parser.add_argument("--remote-dir", default=remote_dir, help="folder on the board (default: %(default)s)")
    parser.add_argument("--profile-layers", action="store_true", help="show the cycles of each layer")
    parser.add_argument("--visualize", type=Path, metavar="FILE", help="write a report of the network as HTML")
    steps = parser.add_mutually_exclusive_group()
    steps.add_argument("--compile-only", action="store_true", help="stop before anything runs on a DSP")
    steps.add_argument("--inference-only", action="store_true", help="run what an earlier call compiled")


def check_image(path: Path) -> Path:
    """The path, when there is a file (UsageError)."""
    if not path.is_file():
        raise UsageError(
            f"there is no image {path}", hint="leave --image out to use the one that comes with the example"
        )
    return path


# ------------------------------------------------------------------------------------------------------------- compile


def c7x(*words: str | Path) -> None:
    """Calls the command line as a user would; when it fails, this script ends with its exit code."""
    arguments = [str(word) for word in words]
    say(f"+ c7x {shlex.join(arguments)}")
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "c7x.cli", *arguments]
    code = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False).returncode
    if code != 0:
        raise SystemExit(code)


def compile_network(source: Path, folder: Path, options: argparse.Namespace) -> None:
    """Quantises a model and compiles it to ``folder/lib0.out``, for the board of the options."""
    words: list[str | Path] = ["compile", source, "-o", folder]
    if options.board == VIRTUAL:
        words += ["--mode", "c7x_vdsp"]
    else:
        words += ["--mode", "c7x_dload", "--board", options.board]
    if options.dtype != "float32":
        words += ["--quantize", options.dtype]
    if options.profile_layers:
        words.append("--profile-layers")
    c7x(*words)


def require_module(folder: Path) -> Path:
    """The module of a build directory (UsageError: nothing was compiled there)."""
    module = folder / "lib0.out"
    if not module.is_file():
        raise UsageError(
            f"there is no {module}", cause="nothing was compiled there yet", hint="leave --inference-only out"
        )
    return module


def visualize(folder: Path, page: Path) -> None:
    """Writes the report of a build directory."""
    c7x("visualize", folder, "-o", page)


# ------------------------------------------------------------------------------------------------------------ Arm side


class ArmSide(Protocol):
    """Where programs run that talk to a DSP."""

    def path(self, name: str) -> str:
        """The path there of a file that was copied or will be made."""

    def put(self, source: Path, name: str | None = None) -> None:
        """Copies a file there, under its own name or another."""

    def call(self, words: Sequence[str]) -> str:
        """Runs a program there; its standard output (RunError, ToolError: it failed)."""

    def get(self, name: str, target: Path) -> None:
        """Copies a file from there."""


@dataclass(frozen=True, kw_only=True)
class ThisMachine:
    """This machine as the Arm side of a virtual DSP; ``variables`` lead its programs there."""

    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def put(self, source: Path, name: str | None = None) -> None:
        shutil.copy(source, self.folder / (name or source.name))

    def call(self, words: Sequence[str]) -> str:
        say(f"+ {shlex.join(words)}")
        return run(words, env=self.variables).stdout

    def get(self, name: str, target: Path) -> None:
        shutil.copyfile(self.folder / name, target)


@dataclass(frozen=True, kw_only=True)
class Board:
    """A board over ssh."""

    machine: SshMachine
    folder: str

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def put(self, source: Path, name: str | None = None) -> None:
        say(f"copying {source.name} to {self.machine.name}")
        self.machine.put(source, self.path(name or source.name))

    def call(self, words: Sequence[str]) -> str:
        say(f"+ ssh {self.machine.name} {shlex.join(words)}")
        return self.machine.call(words, what=f"run {Path(words[0]).name}").stdout

    def get(self, name: str, target: Path) -> None:
        self.machine.get(self.path(name), target)


@contextmanager
def _virtual_dsp() -> Iterator[vdsp.Endpoint]:
    """The virtual DSP that runs, or one that ends with the block."""
    place = vdsp.endpoint()
    try:
        vdsp.status(place)
    except CheckFailed:
        say("starting a virtual DSP")
        with vdsp.private_server() as own:
            yield own
    else:
        say(f"using the virtual DSP at {place.socket}")
        yield place


@contextmanager
def arm_side(options: argparse.Namespace) -> Iterator[ArmSide]:
    """The Arm side of the board that was asked for, held for the block.

    Raises:
        RunError: the board is busy or not reachable. ToolError: the virtual DSP cannot be built.
    """
    if options.board == VIRTUAL:
        folder = options.build_dir / "arm-side"
        folder.mkdir(parents=True, exist_ok=True)
        with _virtual_dsp() as place:
            variables = {"C7X_TRANSPORT": "vdsp", vdsp.SOCKET_ENV: str(place.socket), vdsp.SHM_ENV: str(place.shm)}
            yield ThisMachine(folder=folder.resolve(), variables=variables)
        return
    machine = machine_for(options.board, host=options.host)
    with board_lock(machine):
        machine.call(["mkdir", "-p", options.remote_dir], what=f"make the folder {options.remote_dir}")
        yield Board(machine=machine, folder=options.remote_dir)


def cmake_build(source: Path, folder: Path, *, board: str) -> Path:
    """Builds a CMake project for the Arm side of a board; returns ``folder`` (ToolError)."""
    toolchain = native_dir() / "cmake" / "aarch64-linux-gnu.cmake"
    flags = [] if board == VIRTUAL else [f"-DCMAKE_TOOLCHAIN_FILE={toolchain}"]
    say(f"building {source.name} for {'this machine' if board == VIRTUAL else 'aarch64'}")
    run(["cmake", "-S", source, "-B", folder, *flags], what=f"configure {source.name}")
    run(["cmake", "--build", folder, "--parallel", "2"], what=f"build {source.name}")
    return folder


def inference_package(build_dir: Path) -> tuple[Path, Path]:
    """What the wheel tvm-ti-c7x-inference installs, for programs of this machine.

    Returns:
        A folder for PYTHONPATH, in which the package ``tvm`` is the wheel's alone, and the library's path.
    """
    arm = native_dir() / "arm"
    built = cmake_build(arm, build_dir / "arm", board=VIRTUAL)
    script = arm / "python" / "build_wheel.py"
    wheel = run([sys.executable, script, "--build", built, "--output", build_dir / "wheel"]).stdout.strip()
    site = build_dir / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # An installed Apache TVM would come before a package without __init__.py.
    for package in ("tvm", "tvm/contrib", "tvm/data"):
        (site / package / "__init__.py").touch()
    return site.resolve(), (built / "libc7x_arm_runtime.so").resolve()


# --------------------------------------------------------------------------------------------------------------- main


def end(error: C7xError) -> int:
    """Shows an error as c7x does; returns the exit code."""
    print(f"error: {error}", file=sys.stderr)
    return error.exit_code
