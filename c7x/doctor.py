"""What is installed, found and missing on this machine, and how to get it.

Python packages are imported for real, in one child process a package: a package that is there but cannot be loaded
(a missing library, a wrong version) is what a user needs to hear of most.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from c7x.engine.daemon import EngineState, look
from c7x.errors import C7xError, ImageError
from c7x.target import DEFAULT_MODE, MODES
from c7x.version import __version__

Status = Literal["ok", "missing", "broken"]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One finding: ``found`` is a version or a path, ``hint`` how to get what is missing."""

    name: str
    status: Status
    found: str | None = None
    hint: str | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a mode can be used here; ``reason`` names what is in the way, or how it works all the same."""

    mode: str
    ready: bool
    reason: str | None = None


class Machine:
    """How the doctor looks at the machine; tests give it another one.

    Args:
        image: the container image to look for; None for the one of this version.
    """

    environ: Mapping[str, str] = os.environ

    def __init__(self, image: str | None = None) -> None:
        self._image = image

    def engine(self) -> EngineState:
        """The container engine that ``--engine docker`` would use, and the image."""
        return look(self._image)

    def which(self, name: str) -> str | None:
        return shutil.which(name)

    def is_dir(self, path: str) -> bool:
        return Path(path).is_dir()

    def version(self, distribution: str) -> str | None:
        """The installed version of a Python distribution."""
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            return None

    def ti_tools(self) -> str | None:
        """Where ``c7x toolchain install`` has put TI's tools."""
        from c7x.toolchain.ticgt import installed

        return next((str(path) for path in installed()), None)

    def run(self, command: Sequence[str], timeout: float) -> tuple[int, str]:
        """Exit code and output (both streams) of a command; code -1 when it cannot be run or takes too long."""
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
                text=True,
                errors="replace",
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return -1, str(error)
        return done.returncode, done.stdout


#: Distribution, module, what to type when it is missing.
_PACKAGES: tuple[tuple[str, str, str], ...] = (
    ("torch", "torch", "pip install 'c7x[compile]'"),
    ("apache-tvm", "tvm", "pip install 'c7x[compile]'"),
    ("torchao", "torchao", "pip install 'c7x[compile]'"),
    ("numpy", "numpy", "pip install 'c7x[run]'"),
)
_COMPILERS = ("g++", "gcc", "clang++", "clang")
#: Tools with a version option, and Debian's package.
_TOOLS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("cmake", ("--version",), "apt install cmake"),
    ("ninja", ("--version",), "apt install ninja-build"),
    ("qemu-aarch64", ("--version",), "apt install qemu-user; only to try Arm binaries without a board"),
    ("ssh", ("-V",), "apt install openssh-client; only to reach a board"),
)
_TI_VARIABLES: tuple[tuple[str, str], ...] = (
    ("TI_CGT_C7000_PATH", "install TI's C7000 code generation tools and set the variable; only for mode c7x_dload"),
    ("CGT7X_ROOT", "another name for the same folder; one of the two is enough"),
)
_IMPORT_SECONDS = 60.0
_VERSION_SECONDS = 10.0


def _number(text: str) -> str | None:
    match = re.search(r"\d+(?:\.\d+)+(?:p\d+)?", text)
    return match[0] if match else None


def check_python(machine: Machine) -> list[Check]:
    """Python and c7x themselves."""
    return [
        Check(name="python", status="ok", found=f"{platform.python_version()} ({sys.executable})"),
        Check(name="c7x", status="ok", found=__version__),
    ]


def check_packages(machine: Machine) -> list[Check]:
    """The packages that compile models, imported in a child process."""
    checks = []
    for distribution, module, hint in _PACKAGES:
        version = machine.version(distribution)
        if version is None:
            checks.append(Check(name=module, status="missing", hint=hint))
            continue
        code, output = machine.run([sys.executable, "-P", "-W", "ignore", "-c", f"import {module}"], _IMPORT_SECONDS)
        if code == 0:
            checks.append(Check(name=module, status="ok", found=version))
        else:
            last = output.strip().splitlines()[-1:] or [f"exit code {code}"]
            checks.append(
                Check(
                    name=module,
                    status="broken",
                    found=f"{version}, but it cannot be imported: {last[0]}",
                    hint=f"pip install --force-reinstall '{distribution}'",
                )
            )
    return checks


def check_compilers(machine: Machine) -> list[Check]:
    """C and C++ compilers, with what ``--version`` says."""
    checks = []
    for name in _COMPILERS:
        path = machine.which(name)
        code, output = machine.run([path, "--version"], _VERSION_SECONDS) if path else (-1, "")
        if path and code == 0:
            checks.append(Check(name=name, status="ok", found=f"{_number(output) or 'unknown version'} ({path})"))
        elif path:
            checks.append(Check(name=name, status="broken", found=path, hint=f"{path} --version fails; reinstall it"))
        else:
            package = "clang" if name.startswith("clang") else "g++"
            checks.append(Check(name=name, status="missing", hint=f"apt install {package}; one compiler is enough"))
    return checks


def check_tools(machine: Machine) -> list[Check]:
    """Build tools, the emulator and ssh."""
    checks = []
    for name, arguments, hint in _TOOLS:
        path = machine.which(name) or machine.which(f"{name}-static")
        if path is None:
            checks.append(Check(name=name, status="missing", hint=hint))
            continue
        _, output = machine.run([path, *arguments], _VERSION_SECONDS)
        checks.append(Check(name=name, status="ok", found=f"{_number(output) or 'unknown version'} ({path})"))
    return checks


def check_containers(machine: Machine) -> list[Check]:
    """Docker and podman, and whether they answer."""
    checks = []
    for name in ("docker", "podman"):
        path = machine.which(name)
        if path is None:
            hint = f"apt install {'docker.io' if name == 'docker' else 'podman'}; only to run c7x in a container"
            checks.append(Check(name=name, status="missing", hint=hint))
            continue
        code, output = machine.run([path, "info"], _VERSION_SECONDS)
        if code == 0:
            checks.append(Check(name=name, status="ok", found=f"{path}, it answers"))
        else:
            denied = "permission denied" in output.lower()
            hint = (
                "add yourself to the docker group: sudo usermod -aG docker $USER, then log in again"
                if denied
                else "start it: sudo systemctl start docker; only to run c7x in a container"
            )
            checks.append(
                Check(name=name, status="broken", found=f"{path}, but its daemon cannot be reached", hint=hint)
            )
    return checks


def check_engine(machine: Machine) -> list[Check]:
    """What ``--engine docker`` needs: an engine that answers, and an image of this version for this machine."""
    state = machine.engine()
    only = "only to run stages in a container"
    if isinstance(state.engine, C7xError):
        engine = Check(name="container engine", status="missing", hint=f"{state.engine.hint}; {only}")
    else:
        engine = Check(name="container engine", status="ok", found=state.engine)
    if isinstance(state.image, ImageError):
        missing = state.image.message.startswith("there is no image")
        found = None if missing else state.image.message
        hint = f"{state.image.hint}; {only}"
        return [engine, Check(name="c7x image", status="missing" if missing else "broken", found=found, hint=hint)]
    if isinstance(state.image, C7xError):
        return [engine, Check(name="c7x image", status="missing", hint=f"an engine comes first; {only}")]
    found = f"{state.image.name}, version {state.image.version}, {state.image.architecture}"
    return [engine, Check(name="c7x image", status="ok", found=found)]


def check_ti(machine: Machine) -> list[Check]:
    """TI's compiler for the C7000, which c7x never needs for the default mode."""
    checks = []
    for name, hint in _TI_VARIABLES:
        path = machine.environ.get(name)
        if not path:
            checks.append(Check(name=name, status="missing", hint=hint))
        elif machine.is_dir(path):
            checks.append(Check(name=name, status="ok", found=path))
        else:
            checks.append(
                Check(name=name, status="broken", found=f"{path} is not a folder", hint=f"set {name} to the tools")
            )
    found = machine.ti_tools()
    hint = "c7x toolchain install INSTALLER --accept-license; one way to have them is enough"
    checks.append(
        Check(name="ti tools", status="ok" if found else "missing", found=found, hint=None if found else hint)
    )
    return checks


_GROUPS: tuple[Callable[[Machine], list[Check]], ...] = (
    check_python,
    check_packages,
    check_compilers,
    check_tools,
    check_containers,
    check_engine,
    check_ti,
)


#: Said of a mode that works although this machine lacks what it needs.
IN_A_CONTAINER = "in a container"


def _host_problem(found: Mapping[str, Check]) -> str | None:
    """What keeps ``c7x_host`` from working."""
    for name in ("torch", "tvm", "numpy"):
        if found[name].status != "ok":
            return f"{name} is {found[name].status}"
    if not any(found[name].status == "ok" for name in _COMPILERS):
        return "there is no working C compiler"
    return None


def _container_serves(found: Mapping[str, Check]) -> bool:
    """Whether ``--engine auto`` takes a container, and can."""
    return "missing" in (found["torch"].status, found["tvm"].status) and found["c7x image"].status == "ok"


def _dload_problem(found: Mapping[str, Check]) -> str | None:
    """What keeps ``c7x_dload`` from working: what compiles the model to C, and TI's tools."""
    for name in ("torch", "tvm", "numpy"):
        if found[name].status != "ok":
            return f"{name} is {found[name].status}"
    tools = [found[name].status for name, _ in _TI_VARIABLES] + [found["ti tools"].status]
    return None if "ok" in tools else "TI's C7000 code generation tools are not found"


def diagnose(machine: Machine | None = None) -> tuple[list[Check], list[Verdict]]:
    """All findings, and a verdict for each mode that c7x offers or will offer."""
    machine = machine or Machine()
    checks = [check for group in _GROUPS for check in group(machine)]
    found = {check.name: check for check in checks}
    verdicts = []
    for mode in ("c7x_host", "c7x_vdsp", "c7x_dload"):
        reason = MODES[mode] or (_dload_problem(found) if mode == "c7x_dload" else _host_problem(found))
        if reason and mode != "c7x_dload" and _container_serves(found):
            verdicts.append(Verdict(mode=mode, ready=True, reason=IN_A_CONTAINER))
        else:
            verdicts.append(Verdict(mode=mode, ready=reason is None, reason=reason))
    return checks, verdicts


def report(machine: Machine | None = None) -> dict[str, Any]:
    """``diagnose`` as JSON values: ``checks``, ``modes``, and ``ready`` for the default mode."""
    checks, verdicts = diagnose(machine)
    return {
        "checks": [asdict(check) for check in checks],
        "modes": [asdict(verdict) for verdict in verdicts],
        "ready": next(verdict.ready for verdict in verdicts if verdict.mode == DEFAULT_MODE),
    }


def versions(machine: Machine | None = None) -> dict[str, str | None]:
    """Versions of c7x, Python, the packages that compile, and the compilers found; None for what is missing."""
    machine = machine or Machine()
    result: dict[str, str | None] = {"c7x": __version__, "python": platform.python_version()}
    for distribution, module, _ in _PACKAGES:
        result[module] = machine.version(distribution)
    for check in check_compilers(machine):
        result[check.name] = check.found if check.status == "ok" else None
    return result
