"""Turns a root file system into an archive for `docker load` and `podman load`, with the same bytes every time.

python3 images/base/archive.py --rootfs root.tar --arch amd64 --tag c7x-base:bookworm --created 1735689600 -o base.tar

`docker import` stamps the time of the import into the image; here the image id depends on the content alone.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
import tarfile
import time
from pathlib import Path

TITLE = "c7x base"


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def image_config(digest: str, arch: str, created: int) -> bytes:
    """The image's configuration; its SHA-256 is the image id. ``digest`` is the layer's SHA-256, in hex."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(created))
    return _json(
        {
            "architecture": arch,
            "config": {
                "Cmd": ["bash"],
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                "Labels": {"org.opencontainers.image.title": TITLE, "org.opencontainers.image.created": stamp},
            },
            "created": stamp,
            "history": [{"created": stamp, "created_by": "images/base/bootstrap.sh"}],
            "os": "linux",
            "rootfs": {"diff_ids": [f"sha256:{digest}"], "type": "layers"},
        }
    )


def write_archive(rootfs: Path, arch: str, tag: str, created: int, output: Path) -> str:
    """Write the archive; returns the image id. OSError when a file cannot be read or written."""
    with rootfs.open("rb") as file:
        layer = hashlib.file_digest(file, "sha256").hexdigest()
    config = image_config(layer, arch, created)
    image_id = hashlib.sha256(config).hexdigest()
    manifest = _json([{"Config": f"{image_id}.json", "Layers": [f"{layer}/layer.tar"], "RepoTags": [tag]}])

    def entry(name: str, size: int) -> tarfile.TarInfo:
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = size, created, 0o644
        return info

    with tarfile.open(output, "w", format=tarfile.GNU_FORMAT) as archive:
        with rootfs.open("rb") as file:
            archive.addfile(entry(f"{layer}/layer.tar", rootfs.stat().st_size), file)
        for name, content in ((f"{image_id}.json", config), ("manifest.json", manifest)):
            archive.addfile(entry(name, len(content)), io.BytesIO(content))
    return f"sha256:{image_id}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write an image archive from a root file system.")
    parser.add_argument("--rootfs", type=Path, required=True, help="tar of the root file system")
    parser.add_argument("--arch", required=True, help="amd64 or arm64")
    parser.add_argument("--tag", required=True, help="the image's name and tag")
    parser.add_argument("--created", type=int, required=True, help="the image's date, in seconds since 1970")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the archive to write")
    options = parser.parse_args()
    try:
        image_id = write_archive(options.rootfs, options.arch, options.tag, options.created, options.output)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(image_id)
    return 0


if __name__ == "__main__":
    sys.exit(main())
