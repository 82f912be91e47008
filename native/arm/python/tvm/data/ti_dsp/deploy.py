"""Installs the Arm-side library and ``c7x_compute`` on a board: ``python3 -m tvm.data.ti_dsp.deploy``, as root.

The firmware of the DSP is TI's to build and not part of this distribution; ``--firmware FILE`` installs one.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tvm.data.ti_dsp.paths import get_ti_dsp_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FIRMWARE_TARGET = "lib/firmware/j722s-c71_0-fw"
CLI_TARGET = "usr/local/bin/c7x_compute"
LIBRARY_TARGET = "usr/local/lib/libc7x_arm_runtime.so"
LD_CONFIG_TARGET = "etc/ld.so.conf.d/c7x_arm_runtime.conf"


def install_file(source: Path, target: Path, mode: int) -> None:
    """Copy a file so that readers of ``target`` see the old one or the new one, never a part."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as out, source.open("rb") as content:
            shutil.copyfileobj(content, out)
            os.fchmod(out.fileno(), mode)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink()
        raise


def running_programs(proc: Path, name: str) -> list[int]:
    """Process numbers of the running programs called ``name``."""
    found = []
    for folder in sorted(proc.glob("[0-9]*")):
        try:
            if (folder / "comm").read_text().strip() == name:
                found.append(int(folder.name))
        except OSError:
            continue  # it ended meanwhile
    return found


def deploy(
    root: Path,
    *,
    firmware: Path | None,
    kill: Callable[[int, int], None] = os.kill,
    run: Callable[[Sequence[str]], object] = lambda command: subprocess.run(command, check=True),
) -> list[str]:
    """Install everything below ``root``; returns what to tell the user.

    Raises:
        FileNotFoundError: a file is missing from the installation.
    """
    source = get_ti_dsp_path() / "firmware"
    cli, library = source / "c7x_compute", source / "libc7x_arm_runtime.so"
    for path in (cli, library, *([firmware] if firmware else [])):
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
    for process in running_programs(root / "proc", "c7x_compute"):
        kill(process, signal.SIGTERM)
    if firmware:
        install_file(firmware, root / FIRMWARE_TARGET, 0o644)
    install_file(cli, root / CLI_TARGET, 0o755)
    install_file(library, root / LIBRARY_TARGET, 0o755)
    link = root / f"{LIBRARY_TARGET}.1"
    fresh = link.with_name(f".{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(Path(LIBRARY_TARGET).name)
    fresh.replace(link)
    config = root / LD_CONFIG_TARGET
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("/usr/local/lib\n")
    run(["ldconfig", "-r", str(root)])
    if firmware:
        return ["Firmware staged -- reboot the board to activate"]
    return [
        "c7x_compute and libc7x_arm_runtime.so are installed",
        f"no firmware is part of this package: /{FIRMWARE_TARGET} was left as it is (--firmware FILE installs one)",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m tvm.data.ti_dsp.deploy", description="Install the C7x run-time files on this board."
    )
    parser.add_argument("--firmware", type=Path, help="a c7x_compute firmware image (.out) built with TI's SDK")
    options = parser.parse_args(arguments)
    if platform.machine() not in ("aarch64", "arm64"):
        print(f"this machine is {platform.machine()}: deploy runs on the board (aarch64)", file=sys.stderr)  # noqa: T201
        return 1
    if os.geteuid() != 0:
        print("root is needed: sudo python3 -m tvm.data.ti_dsp.deploy", file=sys.stderr)  # noqa: T201
        return 1
    try:
        lines = deploy(Path("/"), firmware=options.firmware)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"cannot install: {error}", file=sys.stderr)  # noqa: T201
        return 1
    print("\n".join(lines))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
