"""c7x compiles PyTorch models for TI's C7x DSP, and to native executables that run them anywhere.

``c7x.build`` compiles a Relax module; the functions of ``c7x.compat`` are here as well. Everything is loaded when it is
first used, so ``import c7x`` is quick and needs neither torch nor TVM.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from c7x.version import __version__

if TYPE_CHECKING:
    from c7x.api import BuiltModule, build
    from c7x.compat import (
        DSPOutOfMemoryError,
        add_board_arg,
        assert_dsp_comparison,
        build_dsp_c7x_host,
        build_dsp_c66x,
        build_dsp_dynmod,
        build_dsp_host,
        bulk_tail_split,
        compare_results,
        compile_and_run_dsp,
        compile_for_dsp,
        get_board_hostname,
        get_current_board,
        get_target_string,
        read_tensors_from_file,
        round_bulk_tail,
        run_dsp_dload,
        run_dsp_host,
        run_dsp_local,
        set_current_board,
        set_current_test_name,
        temporary_dsp_workspace,
        write_tensors_to_file,
    )
    from c7x.quantize.quantizer import C7xMMAQuantizer
    from c7x.target import Target

__all__ = [
    "BuiltModule",
    "C7xMMAQuantizer",
    "DSPOutOfMemoryError",
    "Target",
    "__version__",
    "add_board_arg",
    "assert_dsp_comparison",
    "build",
    "build_dsp_c7x_host",
    "build_dsp_c66x",
    "build_dsp_dynmod",
    "build_dsp_host",
    "bulk_tail_split",
    "compare_results",
    "compile_and_run_dsp",
    "compile_for_dsp",
    "get_board_hostname",
    "get_current_board",
    "get_target_string",
    "read_tensors_from_file",
    "round_bulk_tail",
    "run_dsp_dload",
    "run_dsp_host",
    "run_dsp_local",
    "set_current_board",
    "set_current_test_name",
    "temporary_dsp_workspace",
    "write_tensors_to_file",
]

_HOMES = {
    "BuiltModule": "c7x.api",
    "build": "c7x.api",
    "C7xMMAQuantizer": "c7x.quantize.quantizer",
    "Target": "c7x.target",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'c7x' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES.get(name, "c7x.compat")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
