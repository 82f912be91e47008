"""A debug artefact of a build: lib0.c as it is, plus a line after every call that writes its outputs to a file, and on
demand puts other values in their place for the calls that follow.

It is built in a temporary folder and runs on this machine whatever the build is for, since all modes compile the same
lib0.c; a lib0.c or weights.bin changed by hand is used as it lies there.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from c7x.errors import CrashError, FormatError, RunError
from c7x.report.layers import Layer, Tensor
from c7x.reporter import SILENT, Reporter
from c7x.run.host import run_host
from c7x.toolchain.gnu import BuildOptions, build_cg_dsp, find_compiler
from c7x.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np

_ENTRY = re.compile(r"^int32_t cg_main\([^;{]*\{$", re.MULTILINE)
_END = "  return status;\n}"

#: The second file, where there is one, holds for every output a byte, and where that is 1 the bytes to go on with.
_DUMP = """\
#include <stdio.h>

static int32_t cg_dump(void *data, size_t bytes) {{
  static FILE *file = NULL, *replacement = NULL;
  if (file == NULL) {{
    file = fopen("{path}", "wb");
    replacement = fopen("{replacement}", "rb");
  }}
  if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fflush(file) != 0) return -1;
  if (replacement != NULL && fgetc(replacement) == 1 && fread(data, 1, bytes, replacement) != bytes) return -1;
  return 0;
}}

"""


def instrumented(lib0: str, layers: Sequence[Layer], path: Path, replacement: Path) -> str:
    """The text of lib0.c with every layer's outputs appended to ``path`` behind its call, and replaced by what
    ``replacement`` holds, if there is such a file.

    Raises:
        FormatError: ``cg_main`` is not as codegen wrote it: the comments that head the calls are gone.
    """
    entry = _ENTRY.search(lib0)
    if entry is None:
        raise _edited("there is no cg_main in it")
    parts = [lib0[: entry.start()], _DUMP.format(path=_c_text(path), replacement=_c_text(replacement)), entry[0]]
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


@dataclass(frozen=True, kw_only=True)
class DebugArtefact:
    """A ``cg_dsp`` that shows what its layers give; made by ``debug_artefact``."""

    layers: Sequence[Layer]
    folder: Path
    reporter: Reporter = SILENT

    @property
    def dumped(self) -> Path:
        return self.folder / "layers.bin"

    @property
    def replacement(self) -> Path:
        return self.folder / "replacement.bin"

    def run(
        self, inputs: Sequence[np.ndarray], replacements: Sequence[Sequence[np.ndarray | None]] | None = None
    ) -> list[list[np.ndarray]]:
        """What every output of every layer is, in its dtype and shape.

        Args:
            inputs: of the model.
            replacements: for every output of every layer what the layers after it find there instead, in its dtype and
                shape; None leaves it as it is.

        Raises:
            RunError, CrashError: the model failed; the message names the layer.
            FormatError: lib0.c and memory.json do not belong together.
        """
        self.dumped.unlink(missing_ok=True)
        self.replacement.unlink(missing_ok=True)
        if replacements is not None:
            parts = [value for each in replacements for value in each if value is None or value.nbytes]
            self.replacement.write_bytes(b"".join(b"\0" if v is None else b"\1" + v.tobytes() for v in parts))
        try:
            run_host(self.folder, inputs, reporter=self.reporter)
        except (RunError, CrashError) as error:
            error.message += self._where(self.dumped.stat().st_size if self.dumped.is_file() else 0)
            raise
        return _split(self.dumped.read_bytes() if self.dumped.is_file() else b"", self.layers)

    def _where(self, written: int) -> str:
        """The layer that did not come to its end, when those before it wrote so many bytes."""
        for layer in self.layers:
            written -= layer.bytes_out
            if written < 0:
                where = f" at {layer.where}" if layer.where else ""
                return f"\nit failed in layer {layer.index} ({layer.name}{where}), kernel {layer.kernel}"
        return ""


@contextmanager
def debug_artefact(ws: Workspace, layers: Sequence[Layer], *, reporter: Reporter = SILENT) -> Iterator[DebugArtefact]:
    """Build the debug artefact in a temporary folder, which lives as long as the block.

    Raises:
        FormatError: lib0.c cannot be made to show its layers.
        ToolError: the compiler is missing or failed.
    """
    with tempfile.TemporaryDirectory(prefix="c7x-layers-") as name:
        folder = Path(name).resolve()
        sources, build = folder / "sources", folder / "build"
        sources.mkdir()
        build.mkdir()
        artefact = DebugArtefact(layers=layers, folder=build, reporter=reporter)
        for path in [*sorted(ws.root.glob("*.h")), ws.require("devc.c")]:
            (sources / path.name).symlink_to(path.resolve())
        text = ws.require("lib0.c").read_text(encoding="utf-8")
        shown = instrumented(text, layers, artefact.dumped, artefact.replacement)
        (sources / "lib0.c").write_text(shown, encoding="utf-8")
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
        yield artefact


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
