"""Where the files of this distribution lie."""

from __future__ import annotations

import os
import platform
from pathlib import Path

_ARM_MACHINES = ("aarch64", "arm64")


def get_ti_dsp_path() -> Path:
    """The data root, this module's folder."""
    return Path(__file__).resolve().parent


def _arm_file(name: str) -> str | None:
    path = get_ti_dsp_path() / "firmware" / name
    return str(path) if platform.machine() in _ARM_MACHINES and path.is_file() else None


def find_c7x_arm_runtime_so() -> str | None:
    """The Arm-side library; None on a machine that is no 64-bit Arm, or when it is not part of the installation."""
    return _arm_file("libc7x_arm_runtime.so")


def find_c7x_compute_binary() -> str | None:
    """The ``c7x_compute`` program, under the same rule."""
    return _arm_file("c7x_compute")


def find_c7x_include_dir() -> Path | None:
    """The folder with ``c7x_runtime.h``, on any machine."""
    folder = get_ti_dsp_path() / "include"
    return folder if (folder / "c7x_runtime.h").is_file() else None


def find_tidl_relax_so() -> str | None:
    """TIDL's import library, which TI gives out."""
    path = get_ti_dsp_path() / "tidl" / "tidl_model_import_relax.so"
    return str(path) if path.is_file() else None


def find_dsp_runtime_dir() -> Path | None:
    """The folder of the DSP runtime's sources: the data root, or in the TVM checkout that ``TVM_HOME`` names."""
    root = get_ti_dsp_path()
    if (root / "dynmod" / "CMakeLists.txt").is_file():
        return root
    home = os.environ.get("TVM_HOME")
    if home:
        folder = Path(home) / "src" / "runtime" / "ti_dsp"
        if folder.is_dir():
            return folder
    return None
