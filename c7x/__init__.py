"""c7x compiles PyTorch models for TI's C7x DSP, and to native executables that run them anywhere.

``c7x.build`` compiles a Relax module; the functions of ``c7x.compat`` are here as well. Everything is loaded when it is
first used, so ``import c7x`` is quick and needs neither torch nor TVM.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from c7x.version import __version__ as __version__

if TYPE_CHECKING:
    from c7x.api import BuiltModule as BuiltModule
    from c7x.api import build as build
    from c7x.compat import *  # noqa: F403
    from c7x.quantize.quantizer import C7xMMAQuantizer as C7xMMAQuantizer
    from c7x.target import Target as Target

#: What is here beside the functions of ``c7x.compat``, which lists its own, and where it lives.
_HOMES = {
    "BuiltModule": "c7x.api",
    "build": "c7x.api",
    "C7xMMAQuantizer": "c7x.quantize.quantizer",
    "Target": "c7x.target",
}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        value: Any = __dir__()
    elif name in _HOMES or (not name.startswith("_") and name in importlib.import_module("c7x.compat").__all__):
        value = getattr(importlib.import_module(_HOMES.get(name, "c7x.compat")), name)
    else:
        raise AttributeError(f"module 'c7x' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({"__version__", *_HOMES, *importlib.import_module("c7x.compat").__all__})
