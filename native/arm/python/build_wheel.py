"""Builds ``tvm_ti_c7x_inference-<version>-py3-none-linux_<arch>.whl`` from a CMake build of native/arm.

    python3 native/arm/python/build_wheel.py --build build/arm --output dist

The machine is read from the library, so that a cross build gives a wheel for the board. The same input gives the same
bytes. Needs the standard library only. The firmware of the DSP is not part of the wheel: it is built with TI's SDK.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import struct
import sys
import time
import zipfile
from pathlib import Path

#: The version of TVM whose Python interface this package fits; the number of the build is appended.
TVM_VERSION = "0.27.0"
BUILD_NUMBER_VARIABLE = "DSP_BUILD_NUM"

#: e_machine of an ELF file.
_MACHINES = {62: "x86_64", 183: "aarch64"}
_DIST = "tvm_ti_c7x_inference"
_DATA = "tvm/data/ti_dsp"
# The oldest time a zip archive can tell; SOURCE_DATE_EPOCH may name another.
_EARLIEST = (1980, 1, 1, 0, 0, 0)

_METADATA = """\
Metadata-Version: 2.1
Name: tvm-ti-c7x-inference
Version: {version}
Summary: Runs models compiled for TI's C7x DSP: C7xVirtualMachine, c7x::Module and c7x_compute
License: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.9
Requires-Dist: numpy
Description-Content-Type: text/markdown

# tvm-ti-c7x-inference

Runs loadable modules (`lib0.out`) on the C7x DSP of TI's AM67A and J722S, or on c7x's virtual DSP.

    from tvm.contrib.c7x import C7xVirtualMachine

    with C7xVirtualMachine("lib0.out") as vm:
        output = vm["main"](x)

The package lies in the name space of Apache TVM and works with it and without it. It brings the library, the command
`c7x_compute` and the C++ header (`tvm.data.ti_dsp.paths` says where). The firmware of the DSP is not part of it: build
one with TI's SDK, and install it with `python3 -m tvm.data.ti_dsp.deploy --firmware FILE`.
"""


def version() -> str:
    """The version of the wheel; DSP_BUILD_NUM sets the last number."""
    return f"{TVM_VERSION}.post{int(os.environ.get(BUILD_NUMBER_VARIABLE) or 1)}"


def machine(library: Path) -> str:
    """The architecture of an ELF file (ValueError: another file, or an unknown machine)."""
    head = library.read_bytes()[:20]
    if head[:4] != b"\x7fELF" or len(head) < 20:
        raise ValueError(f"{library} is no ELF file")
    number = struct.unpack_from("<H", head, 18)[0]
    if number not in _MACHINES:
        raise ValueError(f"{library} is for the ELF machine {number}, not for one of {', '.join(_MACHINES.values())}")
    return _MACHINES[number]


def wheel_files(build: Path) -> dict[str, tuple[bytes, int]]:
    """Content and mode of the files by their place in the wheel, without the metadata (FileNotFoundError)."""
    here = Path(__file__).resolve().parent
    arm = here.parent
    files: dict[str, tuple[Path, int]] = {}
    for path in sorted((here / "tvm").rglob("*.py")):
        files[path.relative_to(here).as_posix()] = (path, 0o644)
    library = (build / "libc7x_arm_runtime.so").resolve()
    # A wheel holds no links, and programs linked against the library ask for its SONAME.
    for name in ("libc7x_arm_runtime.so", "libc7x_arm_runtime.so.1"):
        files[f"{_DATA}/firmware/{name}"] = (library, 0o755)
    files[f"{_DATA}/firmware/c7x_compute"] = (build / "c7x_compute", 0o755)
    for path in sorted((arm / "include").rglob("*.h")):
        files[f"{_DATA}/include/{path.relative_to(arm / 'include').as_posix()}"] = (path, 0o644)
    missing = [str(path) for path, _ in files.values() if not path.is_file()]
    if missing:
        raise FileNotFoundError(f"missing: {', '.join(missing)}; build native/arm with CMake first")
    return {name: (path.read_bytes(), mode) for name, (path, mode) in files.items()}


def _time_stamp() -> tuple[int, int, int, int, int, int]:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    return max(time.gmtime(int(epoch))[:6], _EARLIEST) if epoch else _EARLIEST


def build_wheel(build: Path, output: Path, license_file: Path | None = None, platform: str | None = None) -> Path:
    """Write the wheel into the folder ``output``; returns its path.

    ``platform`` is the platform tag, by default linux_<machine>. ValueError: it is one of another machine.
    """
    files = wheel_files(build)
    arch = machine(build / "libc7x_arm_runtime.so")
    if platform is not None and not platform.endswith(f"_{arch}"):
        raise ValueError(f"the library is for {arch}, which does not fit the platform {platform}")
    tag = f"py3-none-{platform or f'linux_{arch}'}"
    name = f"{_DIST}-{version()}"
    info = f"{name}.dist-info"
    files[f"{info}/METADATA"] = (_METADATA.format(version=version()).encode(), 0o644)
    wheel = f"Wheel-Version: 1.0\nGenerator: c7x\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files[f"{info}/WHEEL"] = (wheel.encode(), 0o644)
    if license_file is not None:
        files[f"{info}/licenses/LICENSE"] = (license_file.read_bytes(), 0o644)
    record = ""
    for path, (content, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)
    output.mkdir(parents=True, exist_ok=True)
    target = output / f"{name}-{tag}.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, (content, mode) in sorted(files.items()):
            entry = zipfile.ZipInfo(path, _time_stamp())
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, content)
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the tvm-ti-c7x-inference wheel.")
    parser.add_argument("--build", type=Path, required=True, help="build folder of native/arm")
    parser.add_argument("--output", type=Path, default=Path("dist"), help="where the wheel goes")
    parser.add_argument("--license", type=Path, help="licence text to include")
    parser.add_argument("--platform", help="platform tag, such as manylinux_2_28_aarch64; default: linux_<machine>")
    options = parser.parse_args()
    try:
        wheel = build_wheel(options.build, options.output, options.license, options.platform)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    print(wheel)  # noqa: T201
    print("no DSP firmware in it: build one with TI's SDK", file=sys.stderr)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
