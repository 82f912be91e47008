"""What a loadable module may import: the symbols of the firmware by board (module ABI, section 8).

One table for everybody who needs it: the stub ``dsp_syms`` that a module is linked against, the export table of the
virtual DSP (native/vdsp/exports.inc, written by ``python -m c7x.toolchain.exports`` and held to this file by a test),
and the checks on a finished module.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from c7x.target import BOARDS, Board

Kind = Literal["function", "data"]
#: Which firmware has a symbol: every one, one built with TIDL, one built with MMALIB; or none although the pseudo
#: firmware that TI's build links against names it ("stub"); or none, because the compiler's run-time library has it
#: and a module for a board brings it along ("rts").
Availability = Literal["always", "tidl", "mmalib", "stub", "rts"]


@dataclass(frozen=True, kw_only=True)
class Export:
    """One symbol that a module may find outside itself.

    Attributes:
        name: the symbol.
        kind: function or data.
        group: the part of section 8 it is described in.
        availability: which firmware has it.
    """

    name: str
    kind: Kind
    group: str
    availability: Availability


_FUNCTIONS: Final[tuple[tuple[str, Availability, str], ...]] = (
    (
        "libc",  # 8.1
        "always",
        "memcpy memmove memset memcmp printf vprintf snprintf vsnprintf puts fputs fflush malloc calloc free abort",
    ),
    (
        "backend",  # 8.2
        "always",
        "TVMBackendAllocWorkspace TVMBackendFreeWorkspace TVMBackendGetFuncFromEnv "
        "TVMBackendGetFuncFromGlobalRegistry TVMBackendRegisterSystemLibSymbol TVMBackendParallelLaunch "
        "TVMBackendParallelBarrier",
    ),
    (
        "builtin",  # 8.3
        "always",
        "TVMDSPBuiltinAllocStorage TVMDSPBuiltinAllocTensor TVMDSPBuiltinAllocShapeHeap TVMDSPBuiltinMakeShape "
        "TVMDSPBuiltinMatchShape TVMDSPBuiltinCheckTensorInfo TVMDSPBuiltinCheckShapeInfo TVMDSPBuiltinNullValue "
        "TVMDSPBuiltinReshapeDirect TVMDSPBuiltinMakeTupleDirect TVMDSPStorageAlloc TVMDSPStorageAllocNDArray "
        "TVMDSPRegFileInit TVMDSPRegSetAny TVMDSPRegFileCleanup",
    ),
    (
        "packed",  # 8.4
        "always",
        " ".join(
            f"TVMDSPBuiltin{name}Packed"
            for name in (
                "AllocStorage",
                "AllocTensor",
                "AllocShapeHeap",
                "MakeShape",
                "MatchShape",
                "CheckTensorInfo",
                "NullValue",
                "Copy",
                "MakeTuple",
                "Reshape",
            )
        ),
    ),
    (
        "ffi",  # 8.5
        "always",
        "TVMFFIObjectIncRef TVMFFIObjectDecRef TVMFFIObjectFree TVMFFIAnyMove TVMFFIAnyCopy TVMFFIAnyClear",
    ),
    (
        "platform",  # 8.6
        "always",
        "tvm_dsp_dma_copy tvm_dsp_dma_wait tvm_dsp_get_l2_base tvm_dsp_get_l2_size tvm_dsp_alloc tvm_dsp_free "
        "tvm_dsp_get_free_memory tvm_dsp_cache_writeback tvm_dsp_cache_invalidate tvm_dsp_cache_writeback_invalidate "
        "tvm_dsp_log TVMDSPGetConstant TVMDSPGetAllConstants CacheP_inv CacheP_wb CacheP_wbInv DebugP_log "
        "dsp_trace_msg",
    ),
    (
        "tidl_support",  # 8.7
        "always",
        "getUDMADrvObjPtr appUdmaGetObj appMemAlloc appMemFree TVM_lockInterrupts TVM_unlockInterrupts "
        "TVM_cacheWbInv TVM_cacheWbInvRegion",
    ),
    ("kernel", "tidl", "c7x_int8_max_pool_tidl"),  # 8.7, 8.10
    (
        "mmalib",  # 8.8
        "mmalib",
        "mmalib_conv2d_i8 mmalib_conv2d_i8_sliced mmalib_conv2d_i8_grouped_loop mmalib_conv2d_i16 mmalib_matmul_i8 "
        "mmalib_matmul_i16 mmalib_depthwise_conv2d_i8 mmalib_depthwise_conv2d_i16 mmalib_matmul_bias_i8 "
        "mmalib_matmul_bias_i16",
    ),
    (
        "kernel",  # 8.9: kernels.md, sections 2 to 5
        "always",
        "c7x_int8_gelu c7x_int8_silu c7x_int8_hardswish c7x_int8_hardsigmoid c7x_int8_silu_f32out c7x_int8_relu "
        "c7x_int8_clamp c7x_int8_requantize_clamp c7x_int8_rescale c7x_int8_quantize c7x_int8_quantize_rgb "
        "c7x_int8_channel_scale_multiply c7x_int8_max_pool c7x_int8_global_avg_pool c7x_int8_avg_pool "
        "c7x_int8_layer_norm c7x_int8_resize2d_nearest2x c7x_int8_fpn_upsample_concat c7x_int8_fpn_upsample_concat_ex "
        "c7x_int8_concat_rescale c7x_int8_concat_sigmoid c7x_int8_dfl_softmax c7x_int8_residual_add_relu "
        "c7x_int16_residual_add_relu c7x_dequantize_vecmatmul c7x_sdpa_decode c7x_topk",
    ),
    (
        "dma_utils",  # section 6: named by the pseudo firmware, absent from the real one
        "stub",
        " ".join(
            f"DmaUtilsAutoInc3d_{name}"
            for name in (
                "configure",
                "convertTrVirtToPhyAddr",
                "deconfigure",
                "deinit",
                "getContextSize",
                "getTrMemReq",
                "init",
                "prepareTr",
                "prepareTrWithPhysicalAddress",
                "trigger",
                "wait",
            )
        ),
    ),
    (
        "math",  # <math.h> of C99, both precisions; and what GCC makes of a sine beside a cosine
        "rts",
        " ".join(
            f"{name}{suffix}"
            for name in (
                "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim "
                "floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb "
                "lrint lround modf nan nearbyint nextafter pow remainder remquo rint round scalbln scalbn sin sincos "
                "sinh sqrt tan tanh tgamma trunc"
            ).split()
            for suffix in ("", "f")
        ),
    ),
)

_DATA: Final[tuple[tuple[str, Availability, str], ...]] = (
    ("tidl_support", "always", "g_l1_mem_addr g_l1_mem_size g_l2_mem_addr g_l2_mem_size g_l3_mem_addr g_l3_mem_size"),
    ("tidl", "tidl", "TIDL_VISION_FXNS"),
)


def _table() -> Iterator[Export]:
    kinds: tuple[tuple[Kind, tuple[tuple[str, Availability, str], ...]], ...] = (
        ("function", _FUNCTIONS),
        ("data", _DATA),
    )
    for kind, groups in kinds:
        for group, availability, names in groups:
            for name in names.split():
                yield Export(name=name, kind=kind, group=group, availability=availability)


#: Every symbol by name, in the order of names.
EXPORTS: Final[Mapping[str, Export]] = {export.name: export for export in sorted(_table(), key=lambda e: e.name)}


def _has(board: Board, availability: Availability) -> bool:
    match availability:
        case "always":
            return True
        case "tidl":
            return board.firmware_tidl
        case "mmalib":
            return board.firmware_mmalib
        case "stub" | "rts":
            return False


def firmware_exports(board: str) -> dict[str, Export]:
    """The symbols that the default firmware of a board has, by name (KeyError for an unknown board)."""
    return {name: export for name, export in EXPORTS.items() if _has(BOARDS[board], export.availability)}


def stub_exports(board: str) -> dict[str, Export]:
    """The symbols of the pseudo firmware ``dsp_syms`` that a module for the virtual DSP is linked against.

    Beside those of the board's firmware it has the mathematical functions: on a board they come from the compiler's
    run-time library and lie inside the module; a module for the virtual DSP borrows them from the host's C library, so
    that it computes the same bits as ``cg_dsp``.
    """
    return firmware_exports(board) | {name: e for name, e in EXPORTS.items() if e.availability == "rts"}


_AVAILABILITY: Final[Mapping[Availability, str]] = {
    "always": "ALWAYS",
    "tidl": "TIDL",
    "mmalib": "MMALIB",
    "stub": "STUB",
    "rts": "RTS",
}


def exports_inc() -> str:
    """The text of native/vdsp/exports.inc: one macro call a symbol, in the order of names."""
    lines = [
        "/* What modules may import: C7X_EXPORT_<kind>(name, group, availability), in strcmp order. Written by",
        " * `python -m c7x.toolchain.exports`, which holds the table and the meaning of the columns. */",
    ]
    for name in sorted(EXPORTS):
        export = EXPORTS[name]
        lines.append(f"C7X_EXPORT_{export.kind.upper()}({name}, {export.group}, {_AVAILABILITY[export.availability]})")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(exports_inc())
