"""``c7x.build``: compiling a Relax module from Python, in the shape of ``relax.build``."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from c7x.codegen.stage import Compiled, compile_module
from c7x.errors import UsageError
from c7x.target import Target

if TYPE_CHECKING:
    import tvm

#: What people write for the pass pipelines: a TVM pass, a function that makes one from the target, or "default".
Pipeline = "tvm.ir.transform.Pass | Callable[[Target], tvm.ir.transform.Pass] | str | None"


@dataclass(frozen=True, kw_only=True)
class BuiltModule:
    """A compiled model in memory."""

    compiled: Compiled
    target: Target

    @property
    def files(self) -> dict[str, bytes]:
        """File name to content: lib0.c, devc.c, weights.bin, <name>.h, model_library.tar, io.json."""
        return dict(self.compiled.emitted.files)

    def export_library(self, path: str | os.PathLike[str], *, target: str | Target | None = None, **_: Any) -> Path:
        """Writes the archive of the generated files (a tar with fixed metadata) to ``path``.

        Args:
            path: the file to write; documents use ``model_library.tar``.
            target: accepted for scripts that pass it again; must equal the target of ``build``.

        Raises:
            UsageError: ``target`` is another target than the one the module was built for, or ``path`` is no .tar.
        """
        if target is not None and str(_target(target)) != str(self.target):
            raise UsageError(
                f"export_library got the target {target} and the module was built for {self.target}",
                cause="code is generated in build, so the target cannot change afterwards",
                hint="pass the target to c7x.build",
            )
        destination = Path(path)
        if destination.suffix != ".tar":
            raise UsageError(
                f"export_library writes a tar archive, and {destination.name} is not named .tar",
                cause="other export formats hold machine code, which this back end does not make at this point",
                hint="use a path ending in .tar, then c7x build or a C compiler",
            )
        temporary = destination.with_name(destination.name + ".tmp")
        temporary.write_bytes(self.compiled.emitted.files["model_library.tar"])
        temporary.replace(destination)
        return destination


def build(
    mod: tvm.IRModule,
    target: str | Target = "c_static -mcpu=c7x",
    exec_mode: str = "compiled",
    system_lib: bool = True,
    relax_pipeline: Any = None,
    tir_pipeline: Any = None,
    *,
    name: str = "model",
) -> BuiltModule:
    """Compiles the function ``main`` of a Relax module to C.

    Args:
        mod: a Relax module with its parameters bound as constants.
        target: a target string (docs/target.md) or ``Target``.
        exec_mode: must be ``"compiled"``: there is no VM at run time.
        system_lib: accepted for scripts that pass it; generated code never registers itself anywhere.
        relax_pipeline: a pass, or a function from target to pass, in place of ``get_default_pipeline(target)``;
            None or ``"default"`` for the default.
        tir_pipeline: must be None or ``"default"``: the loop passes belong to the C printer.
        name: the model's name.

    Raises:
        UsageError: an argument outside the above; TargetError, UnsupportedError: as their classes say.
    """
    if exec_mode != "compiled":
        raise UsageError(
            f"exec_mode={exec_mode!r} is not supported",
            cause="c7x emits straight-line C and has no bytecode or VM",
            hint='use exec_mode="compiled"',
        )
    if tir_pipeline not in (None, "default"):
        raise UsageError(
            "a tir_pipeline of your own is not supported",
            cause="the C printer relies on the exact form that c7x's own loop passes leave",
            hint="pass tir_pipeline=None; change the Relax module or relax_pipeline instead",
        )
    parsed = _target(target)
    pipeline = None if relax_pipeline in (None, "default") else relax_pipeline
    if isinstance(pipeline, str):
        raise UsageError(
            f"there is no relax_pipeline called {pipeline!r}",
            cause='only "default" is a name; everything else must be a pass',
            hint="pass c7x.graph.pipeline.get_default_pipeline(target) or a pass of your own",
        )
    if pipeline is not None and not hasattr(pipeline, "info") and isinstance(pipeline, Callable):  # type: ignore[arg-type]
        pipeline = pipeline(parsed)
    return BuiltModule(compiled=compile_module(mod, name, parsed, relax_pipeline=pipeline), target=parsed)


def _target(target: str | Target) -> Target:
    return target if isinstance(target, Target) else Target.parse(target)
