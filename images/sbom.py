"""Writes a CycloneDX bill of materials of an image: its Debian packages and its Python packages.

    python3 images/sbom.py c7x:latest -o dist/c7x.cdx.json

The image's own Python lists them, in a container without network. Equal images give equal files: there is no time in
them, and the serial number is made from the content.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

#: Runs in the image. Debian's names, versions, architectures; Python's names, versions, licences.
_LIST = """
import importlib.metadata as m, json, subprocess
query = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}\\n"]
listed = subprocess.run(query, capture_output=True, text=True, check=True).stdout
found = {d.name.lower().replace("_", "-"): d for d in m.distributions()}
python = [[name, d.version, d.metadata.get("License-Expression")] for name, d in found.items()]
print(json.dumps({"debian": [line.split() for line in listed.splitlines()], "python": python}))
"""
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "c7x:sbom")


def bill(name: str, version: str, packages: dict[str, Any]) -> dict[str, Any]:
    """The CycloneDX document (1.6) of ``packages``, as ``_LIST`` prints them."""
    components = []
    for package, number, arch in sorted(packages["debian"]):
        purl = f"pkg:deb/debian/{package}@{number.replace('+', '%2B').replace(':', '%3A')}?arch={arch}"
        components.append({"type": "library", "bom-ref": purl, "name": package, "version": number, "purl": purl})
    for package, number, licence in sorted(packages["python"], key=lambda found: found[0]):
        purl = f"pkg:pypi/{package}@{number.replace('+', '%2B')}"
        entry = {"type": "library", "bom-ref": purl, "name": package, "version": number, "purl": purl}
        if licence:
            entry["licenses"] = [{"expression": licence}]
        components.append(entry)
    serial = uuid.uuid5(_NAMESPACE, json.dumps([name, version, components], sort_keys=True))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": {"type": "container", "bom-ref": f"image:{name}", "name": name, "version": version}},
        "components": components,
    }


def read_packages(image: str, engine: str) -> dict[str, Any]:
    """What is installed in an image (CalledProcessError when it does not run)."""
    arch = subprocess.run(
        [engine, "image", "inspect", "--format", "{{.Architecture}}", image], check=True, capture_output=True, text=True
    ).stdout.strip()
    words = [engine, "run", "--rm", "--platform", f"linux/{arch}", "--network", "none", "--entrypoint", "python3"]
    words += [image, "-c", _LIST]
    listed: dict[str, Any] = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return listed


def main() -> int:
    parser = argparse.ArgumentParser(description="Write a CycloneDX bill of materials of an image.")
    parser.add_argument("image", help="name and tag, such as c7x:latest")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the file to write")
    options = parser.parse_args()
    engine = os.environ.get("ENGINE") or "docker"
    label = '{{index .Config.Labels "org.opencontainers.image.version"}}'
    try:
        packages = read_packages(options.image, engine)
        version = subprocess.run(
            [engine, "image", "inspect", "--format", label, options.image], check=True, capture_output=True, text=True
        ).stdout.strip()
        options.output.parent.mkdir(parents=True, exist_ok=True)
        document = bill(options.image.partition(":")[0], version, packages)
        options.output.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    except subprocess.CalledProcessError as error:
        print(f"error: {error.cmd[:2]} failed: {error.stderr.strip()}", file=sys.stderr)
        return 1
    print(f"{options.output}: {len(document['components'])} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
