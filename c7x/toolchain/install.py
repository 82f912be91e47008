"""Installing TI's C7000 tools from TI's own installer, and listing what is there.

The installer is never taken on trust: what it is and its SHA-256 are looked at before anything runs. It writes into a
folder beside the final one, which gets its name only when the tools in it answer, so nothing half-installed is found.
"""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Final

from c7x.errors import FormatError, ToolError, UsageError
from c7x.reporter import SILENT, Reporter
from c7x.subprocesses import run
from c7x.toolchain.elf import EM_X86_64
from c7x.toolchain.ticgt import PROGRAMS, candidates, problem, read_version, toolchains_dir
from c7x.workspace import dump_json

#: What is recorded beside an installation.
RECORD: Final = "c7x-install.json"
#: An installation takes about this many times the installer's size while it is unpacked.
_SPACE_FACTOR: Final = 6
_INSTALL_SECONDS: Final = 1800
_PAGE: Final = "https://www.ti.com/tool/download/C7000-CGT"


def install(
    installer: str,
    *,
    accept_license: bool = False,
    sha256: str | None = None,
    reporter: Reporter = SILENT,
) -> dict[str, Any]:
    """Run TI's installer unattended into ``toolchains_dir``.

    Args:
        installer: a file, or an http(s) URL, which needs ``sha256``.
        accept_license: whether the user accepts TI's license; nothing is run otherwise.
        sha256: what the hash of the installer must be; None accepts any file (its hash is reported).

    Returns:
        ``path``, ``version``, ``sha256`` and ``installer`` (its file name).

    Raises:
        UsageError: no license accepted, a URL without hash, or a hash that is none.
        FormatError: the file is no installer for this kind of machine, or has another hash.
        ToolError: no space, no network, or the installer failed.
    """
    if sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", sha256):
        raise UsageError("--sha256 is not a SHA-256", cause="it must be 64 hexadecimal digits", hint="sha256sum FILE")
    if not accept_license:
        raise UsageError(
            "TI's license must be accepted before the installer runs",
            cause="the tools are TI's and come under TI's terms, shown on their download page",
            hint=f"read the terms at {_PAGE}, then add --accept-license",
        )
    folder = toolchains_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".install-", dir=folder))
    except OSError as error:
        raise ToolError(
            f"cannot write {folder}", cause=error.strerror, hint="set XDG_DATA_HOME to a folder you may write to"
        ) from error
    try:
        if re.match(r"https?://", installer):
            source = _download(installer, scratch, sha256, reporter)
        else:
            source = Path(installer)
        digest = check_installer(source, sha256)
        return _run_installer(source, digest, scratch, folder, reporter)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _download(url: str, folder: Path, sha256: str | None, reporter: Reporter) -> Path:
    if sha256 is None:
        raise UsageError(
            "a URL needs --sha256",
            cause="what a network gives is run only when it is known beforehand what it must be",
            hint="download the file with a browser and give its path, or add --sha256 HEX from TI's page",
        )
    path = folder / (Path(urllib.parse.urlparse(url).path).name or "installer.bin")
    reporter.info(f"downloading {url}")
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, path.open("wb") as out:  # noqa: S310 - http(s) only
            shutil.copyfileobj(answer, out)
    except (OSError, urllib.error.URLError) as error:
        raise ToolError(
            f"cannot download {url}", cause=str(error), hint="download it with a browser and give the file's path"
        ) from error
    return path


def check_installer(path: Path, sha256: str | None = None) -> str:
    """Whether a file is an installer for this machine, without running it; returns its SHA-256.

    Raises:
        FormatError: there is no such file, it is for another machine, or its hash is another one.
        ToolError: this machine is not x86-64 Linux.
    """
    try:
        with path.open("rb") as file:
            head = file.read(64)
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FormatError(
            f"cannot read {path}", cause=error.strerror, hint=f"download the installer from {_PAGE}"
        ) from error
    if sha256 is not None and digest != sha256.lower():
        raise FormatError(
            f"{path.name} has the SHA-256 {digest}, not {sha256.lower()}",
            cause="it was cut off or changed on the way, or is another release; it was not run",
            hint="download it again, and compare the hash with TI's page",
        )
    kind = _kind(head)
    if kind is not None:
        raise FormatError(
            f"{path.name} is {kind}, not TI's installer for 64-bit Linux",
            cause="TI has one download for each system",
            hint=f"download ti_cgt_c7000_..._linux-x64_installer.bin from {_PAGE}",
        )
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        raise ToolError(
            f"TI's tools do not run on {platform.system()} {platform.machine()}",
            cause="TI makes them for x86-64",
            hint="install and build on an x86-64 Linux machine; lib0.out can be copied anywhere",
        )
    return digest


def _kind(head: bytes) -> str | None:
    """What a file is by its first bytes; None for a 64-bit x86-64 executable."""
    if head.startswith(b"MZ"):
        return "a Windows program"
    if head[:4] in (b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"):
        return "a macOS program"
    if head[:1] in (b"<", b"{"):
        return "a web page: the download asked for a login"
    if not head.startswith(b"\x7fELF") or len(head) < 20:
        return "no program"
    if head[4] != 2:
        return "a 32-bit program"
    machine = int.from_bytes(head[18:20], "little")
    return None if machine == EM_X86_64 else "a program for another processor"


def _run_installer(source: Path, digest: str, scratch: Path, folder: Path, reporter: Reporter) -> dict[str, Any]:
    size = source.stat().st_size
    if shutil.disk_usage(folder).free < _SPACE_FACTOR * size:
        raise ToolError(
            f"there is no space to install TI's tools in {folder}",
            cause=f"about {_SPACE_FACTOR * size / 1e6:.0f} MB are needed while it is unpacked",
            hint="free some space, or set XDG_DATA_HOME to a folder on another device",
        )
    reporter.info(f"{source.name}: sha256 {digest}")
    program = scratch / "installer.bin"
    prefix = scratch / "tools"
    try:
        # A copy, since the user's file may lack the execute bit or lie where nothing may be executed.
        if source.parent == scratch:
            source.rename(program)
        else:
            shutil.copyfile(source, program)
        program.chmod(0o700)
    except OSError as error:
        raise ToolError(f"cannot copy {source.name}", cause=error.strerror, hint="free some space") from error
    run(
        [program, "--mode", "unattended", "--prefix", prefix],
        reporter=reporter,
        cwd=scratch,
        timeout=_INSTALL_SECONDS,
        what="run TI's installer",
        hint="run it by hand, then set TI_CGT_C7000_PATH to the folder it made",
    )
    roots = [prefix, *sorted(prefix.glob("*")), *sorted(prefix.glob("*/*"))]
    root = next((path for path in roots if (path / "bin" / PROGRAMS[0]).is_file()), None)
    if root is None or (what := problem(root)):
        raise ToolError(
            f"{source.name} installed no C7000 tools",
            cause=f"there is no bin/{PROGRAMS[0]} in what it made" if root is None else what,
            hint="run it by hand, then set TI_CGT_C7000_PATH to the folder it made",
        )
    version = read_version(root, reporter=reporter)
    final = folder / f"ti-cgt-c7000_{version}"
    record = {"installer": source.name, "sha256": digest, "version": version}
    (root / RECORD).write_text(dump_json(record), encoding="utf-8")
    old = scratch / "old"
    if final.exists():
        final.replace(old)
    root.replace(final)
    return {"path": str(final), **record}


def list_tools() -> list[dict[str, Any]]:
    """Every place that ``find_tools`` looks at, best first: path, origin, version, problem and sha256 of each."""
    rows = []
    for origin, root in candidates():
        what, version = problem(root), None
        if what is None:
            try:
                version = read_version(root)
            except ToolError as error:
                what = error.message.splitlines()[0]
        rows.append(
            {"path": str(root), "origin": origin, "version": version, "problem": what, "sha256": _recorded(root)}
        )
    return rows


def _recorded(root: Path) -> str | None:
    try:
        match = re.search(r'"sha256": "([0-9a-f]{64})"', (root / RECORD).read_text(encoding="utf-8"))
    except OSError:
        return None
    return match[1] if match else None
