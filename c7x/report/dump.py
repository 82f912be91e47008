"""A debug artefact of a build: lib0.c as it is, plus a line after every call that writes its outputs to a file.

It is built in a temporary folder and runs on this machine whatever the build is for, since all modes compile the same
lib0.c; a lib0.c or weights.bin changed by hand is used as it lies there.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from c7x.errors import FormatError
from c7x.report.layers import Layer, Tensor
from c7x.reporter import SILENT, Reporter
from c7x.run.host import run_host
from c7x.toolchain.gnu import BuildOptions, build_cg_dsp, find_compiler
from c7x.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np

_ENTRY = re.compile(r"^int32_t cg_main\([^;{]*\{$", re.MULTILINE)
_END = "  return status;\n}"

_DUMP = """\
#include <stdio.h>

static int32_t cg_dump(const void *data, size_t bytes) {{
  static FILE *file = NULL;
  if (file == NULL) file = fopen("{path}", "wb");
  return file == NULL || fwrite(data, 1, bytes, file) != bytes || fflush(file) != 0 ? -1 : 0;
}}

"""


def instrumented(lib0: str, layers: Sequence[Layer], path: Path) -> str:
    """The text of lib0.c with every layer's outputs appended to ``path`` behind its call.

    Raises:
        FormatError: ``cg_main`` is not as codegen wrote it: the comments that head the calls are gone.
    """
    entry = _ENTRY.search(lib0)
    if entry is None:
        raise _edited("there is no cg_main in it")
    parts = [lib0[: entry.start()], _DUMP.format(path=_c_text(path)), entry[0]]
    position = entry.end()
    for layer in layers:
        start = lib0.find(f"\n  /* {layer.index}: ", position)
        if start < 0:
            raise _edited(f"the comment of call {layer.index} is gone")
        following = lib0.find(f"\n  /* {layer.index + 1}: ", start)
        if layer is layers[-1]:
            following = lib0.find(f"\n{_END}", start)
        if following < 0:
            raise _edited(f"the end of call {layer.index} is not to be found")
        dumps = [f"\n  if (cg_dump({_address(t)}, {t.bytes}) != 0) return -1;" for t in layer.outputs if t.bytes]
        parts += [lib0[position:following], *dumps]
        position = following
    return "".join([*parts, lib0[position:]])


def _c_text(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace('"', '\\"')


def _address(tensor: Tensor) -> str:
    return f"a + {tensor.offset}" if tensor.place == "arena" else f"outputs[{tensor.offset}]"


def _edited(fact: str) -> FormatError:
    return FormatError(
        f"lib0.c cannot be made to show its layers: {fact}",
        cause="it was edited beyond the kernels, or is of another build than memory.json",
        hint="keep cg_main as it was written, or run c7x codegen again",
    )


def run_dumped(
    ws: Workspace, layers: Sequence[Layer], inputs: Sequence[np.ndarray], *, reporter: Reporter = SILENT
) -> list[list[np.ndarray]]:
    """Build and run the debug artefact; the outputs of every layer, in their dtypes and shapes.

    Raises:
        FormatError: lib0.c or weights.bin does not fit.
        ToolError: the compiler is missing or failed.
        RunError, CrashError: the model failed.
    """
    with tempfile.TemporaryDirectory(prefix="c7x-layers-") as name:
        folder = Path(name).resolve()
        sources, build, dumped = folder / "sources", folder / "build", folder / "layers.bin"
        sources.mkdir()
        build.mkdir()
        for path in [*sorted(ws.root.glob("*.h")), ws.require("devc.c")]:
            (sources / path.name).symlink_to(path.resolve())
        text = ws.require("lib0.c").read_text(encoding="utf-8")
        (sources / "lib0.c").write_text(instrumented(text, layers, dumped), encoding="utf-8")
        options = _build_options(ws)
        compiler = find_compiler((os.environ.get("CXX") or "g++") if options.hostemu else None, reporter=reporter)
        reporter.progress("building with every layer's output written to a file")
        build_cg_dsp(
            [sources / "lib0.c", sources / "devc.c"],
            folder=build,
            options=options,
            compiler=compiler,
            hint="mend lib0.c, or run c7x codegen again",
            reporter=reporter,
        )
        for needed in ("weights.bin", "io.json"):
            if ws.has(needed):
                (build / needed).symlink_to(ws.path(needed).resolve())
        run_host(build, inputs, reporter=reporter)
        return _split(dumped.read_bytes() if dumped.is_file() else b"", layers)


def _build_options(ws: Workspace) -> BuildOptions:
    """As the build was made, where it was made for this machine."""
    records = [r for r in ws.manifest["stages"] if r["name"] == "build"]
    if not records or ws.manifest.get("mode") not in (None, "c7x_host"):
        return BuildOptions()
    given: dict[str, Any] = records[0].get("options") or {}
    return BuildOptions(
        march=given.get("march"),
        build_type=given.get("build_type") or "release",
        cflags=tuple(given.get("cflags") or ()),
        hostemu=given.get("hostemu"),
    )


def _split(data: bytes, layers: Sequence[Layer]) -> list[list[np.ndarray]]:
    import numpy as np

    wanted = sum(tensor.bytes for layer in layers for tensor in layer.outputs)
    if len(data) != wanted:
        raise FormatError(
            f"the layers wrote {len(data)} bytes, and memory.json tells of {wanted}",
            cause="lib0.c and memory.json are of different builds",
            hint="run c7x codegen again",
        )
    position, found = 0, []
    for layer in layers:
        arrays = []
        for tensor in layer.outputs:
            part = data[position : position + tensor.bytes]
            arrays.append(np.frombuffer(part, np.dtype(tensor.dtype)).reshape(tensor.shape))
            position += tensor.bytes
        found.append(arrays)
    return found
