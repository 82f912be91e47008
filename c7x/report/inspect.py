"""What a build directory holds: the files the stages recorded, their sizes, whether they were edited since."""

from __future__ import annotations

from typing import Any

from c7x.workspace import MANIFEST, Workspace, sha256_file

#: What a user takes away from a build directory, per mode's build.
ARTEFACTS = ("cg_dsp", "lib0.out")


def summarize(workspace: Workspace) -> dict[str, Any]:
    """The figures to show at the end of a build.

    Returns:
        ``artefact`` (name or None), ``artefact_bytes``, ``weights_bytes``, ``arena_bytes``, ``arena_lower_bound``
        (bytes, None where a stage has not run), ``model``, ``target``, ``board``, ``mode`` (from the manifest).
    """
    manifest = workspace.manifest
    io = workspace.read_json("io.json") if workspace.has("io.json") else {}
    artefact = next((name for name in ARTEFACTS if workspace.has(name)), None)
    return {
        "artefact": artefact,
        "artefact_bytes": workspace.path(artefact).stat().st_size if artefact else None,
        **{key: io.get(key) for key in ("weights_bytes", "arena_bytes", "arena_lower_bound")},
        **{key: manifest.get(key) for key in ("model", "target", "board", "mode")},
    }


def staged_layers(workspace: Workspace) -> list[dict[str, Any]]:
    """How each call of an MMALIB kernel uses L2: ``index``, ``name``, ``kernel`` and the keys of ``l2`` in layers.json;
    empty before codegen, and for models without such calls."""
    layers = workspace.read_json("layers.json") if workspace.has("layers.json") else []
    return [
        {**{key: layer[key] for key in ("index", "name", "kernel")}, **layer["l2"]}
        for layer in layers
        if layer.get("l2")
    ]


def inspect_workspace(workspace: Workspace) -> dict[str, Any]:
    """The summary, the stages that have run, and their files.

    Returns:
        the keys of ``summarize``; ``stages``: the manifest's records; ``files``: list of ``name``, ``stage``,
        ``bytes`` (None when the file is gone), ``state`` (``as written``, ``edited`` or ``missing``); ``l2``: see
        ``staged_layers``.

    Raises:
        WorkspaceError: there is no build directory, or its manifest cannot be read.
    """
    workspace.require(MANIFEST)
    manifest = workspace.manifest
    files = []
    for record in manifest["stages"]:
        for name, digest in sorted(record["outputs"].items()):
            path = workspace.path(name)
            present = path.is_file()
            state = "missing" if not present else "as written" if sha256_file(path) == digest else "edited"
            files.append(
                {
                    "name": name,
                    "stage": record["name"],
                    "bytes": path.stat().st_size if present else None,
                    "state": state,
                }
            )
    return {
        **summarize(workspace),
        "c7x": manifest.get("c7x"),
        "stages": manifest["stages"],
        "files": files,
        "l2": staged_layers(workspace),
    }
