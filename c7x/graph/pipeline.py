"""The graph stage as a table of contents: imported Relax in, what codegen reads out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm

from c7x.graph.conv_bn import fold_batch_norms
from c7x.graph.fold import fold_constants
from c7x.graph.fuse import fuse, lower_calls
from c7x.graph.layout import channels_last
from c7x.graph.legalize import legalize
from c7x.graph.line import start
from c7x.graph.offload import offload
from c7x.graph.qdq import fuse_quantized
from c7x.graph.simplify import simplify, simplify_moves
from c7x.target import DEFAULT_TARGET, Target

GraphPass = Callable[[tvm.IRModule], tvm.IRModule]


def passes(target: Target) -> tuple[tuple[str, GraphPass], ...]:
    """Our passes in order."""
    mmalib = target.mmalib and target.family == "c7"
    return (
        ("start", start),
        ("simplify_imported", simplify),
        ("fold_constants", fold_constants),
        ("fuse_quantized", lambda mod: fuse_quantized(mod, mmalib=mmalib)),
        ("fold_dequantized", fold_constants),
        ("simplify", simplify),
        ("fold_batch_norms", fold_batch_norms),
        ("channels_last", channels_last),
        ("simplify_layouts", simplify_moves),
        ("simplify_slices", simplify_moves),
        ("offload", offload),
        ("simplify_offloaded", simplify_moves),
        ("legalize", legalize),
        ("fuse", fuse),
        ("lower_calls", lower_calls),
    )


def tvm_target() -> tvm.target.Target:
    """The target of public TVM that stands behind every target of ours: plain C."""
    return tvm.target.Target({"kind": "c"})


def lower_graph(mod: tvm.IRModule, target: Any = None) -> tvm.IRModule:
    """Run the passes on a module whose ``main`` holds its parameters as constants; ``target`` as for
    ``get_default_pipeline``.

    Raises:
        UnsupportedError: an operator cannot be lowered, or a dimension is not known at compile time.
    """
    chosen = target if isinstance(target, Target) else Target.parse(DEFAULT_TARGET)
    with tvm_target():
        for _, step in passes(chosen):
            mod = step(mod)
    return mod


@tvm.ir.transform.module_pass(opt_level=0, name="c7x.default_pipeline")
class _DefaultPipeline:
    """``lower_graph`` in TVM's clothes."""

    def __init__(self, target: Any = None) -> None:
        self.target = target

    def transform_module(self, mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        return lower_graph(mod, self.target)


def get_default_pipeline(target: Any = None) -> tvm.ir.transform.Pass:
    """The passes from an imported Relax module to what codegen reads, as one pass over an ``IRModule``.

    Inside TVM's own ``Sequential`` an error arrives as TVM's ``RuntimeError`` with our text; ``lower_graph`` keeps
    the class.

    Args:
        target: a ``c7x.target.Target``; None means the default target. Targets differ in what quantised operators
            become: ``-mmalib=1`` has them call the firmware.
    """
    return _DefaultPipeline(target)
