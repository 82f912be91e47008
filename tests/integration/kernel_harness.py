"""Generates kernels, compiles many into one shared object, calls them through ctypes, computes answers in float64.

Every buffer a kernel is given stands between guard bytes, and its start is aligned to four bytes only.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from c7x.codegen.kernels import GeneratedKernel, KernelOptions, Operand, generate
from c7x.codegen.program import TensorType
from c7x.native import native_dir
from c7x.toolchain.gnu import C7X_KERNEL_SOURCES
from c7x.toolchain.hostemu import compile_program, find_emulation

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "native" / "include" / "c7x_vector.h"
GUARD = 256
C_FLAGS = ("gcc", "-x", "c", "-std=c99")
CXX_FLAGS = ("g++", "-x", "c++", "-std=c++14", "-fno-exceptions", "-fno-rtti")
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-ffp-contract=fast", "-fno-math-errno", "-fno-strict-aliasing")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One call of a kernel op; ``constants`` are the indices of the inputs known at compile time."""

    op: str
    attrs: Mapping[str, Any]
    inputs: tuple[np.ndarray, ...] = field(repr=False)
    outputs: tuple[TensorType, ...]
    constants: tuple[int, ...] = ()
    options: KernelOptions | None = None

    @property
    def operands(self) -> list[Operand]:
        return [
            Operand(
                type=TensorType(dtype=str(x.dtype), shape=x.shape), value=x if i in self.constants else None
            )
            for i, x in enumerate(self.inputs)
        ]  # fmt: skip

    def generate(self) -> GeneratedKernel:
        return generate(self.op, self.attrs, self.operands, self.outputs, options=self.options)


def source_text(kernels: Sequence[GeneratedKernel], headers: Sequence[Path] = (HEADER,)) -> str:
    """A translation unit like lib0.c with exported entries ``k0``, ``k1``, ... that take an array of pointers."""
    parts = ["#include <math.h>\n", *(header.read_text(encoding="utf-8") for header in headers)]
    for i, kernel in enumerate(kernels):
        parts.append(kernel.source_template.replace("@SYMBOL@", f"__tvm_ffi_k{i}"))
        types = [f"(const {t.c_type}*)" for t in kernel.inputs] + [f"({t.c_type}*)" for t in kernel.outputs]
        if kernel.workspace_bytes:
            types.append("(uint8_t*)")
        args = ", ".join(f"{t}p[{j}]" for j, t in enumerate(types))
        parts.append(
            f'#ifdef __cplusplus\nextern "C"\n#endif\nint32_t k{i}(void** p);\n'
            f"int32_t k{i}(void** p) {{ return __tvm_ffi_k{i}({args}); }}\n"
        )
    return "\n".join(parts)


def compile_kernels(
    kernels: Sequence[GeneratedKernel], folder: Path, command: Sequence[str] = CXX_FLAGS, march: str = "native",
    extra: Sequence[str] = ("-O2",), headers: Sequence[Path] = (HEADER,),
) -> ctypes.CDLL:  # fmt: skip
    source = folder / "kernels.txt"
    source.write_text(source_text(kernels, headers), encoding="utf-8")
    library = folder / "kernels.so"
    subprocess.run(
        [*command, f"-march={march}", *WARNINGS, *extra, "-shared", "-fPIC", str(source), "-o", str(library), "-lm"],
        check=True,
    )
    return ctypes.CDLL(str(library))


class Guarded:
    """Bytes between two guards; ``array`` starts 4 bytes past a 64-byte line (8 for 8-byte elements)."""

    def __init__(self, value: np.ndarray, offset: int | None = None) -> None:
        offset = value.itemsize if offset is None else offset
        self.raw = np.full(value.nbytes + 2 * GUARD + 128, 0xA5, dtype=np.uint8)
        base = (-self.raw.ctypes.data) % 64 + GUARD + offset
        self.start, self.end = base, base + value.nbytes
        self.array = self.raw[base : self.end].view(value.dtype).reshape(value.shape)
        self.array[...] = value

    def check(self) -> None:
        assert (self.raw[: self.start] == 0xA5).all(), "written before the buffer"
        assert (self.raw[self.end :] == 0xA5).all(), "written behind the buffer"


def call(library: ctypes.CDLL, index: int, kernel: GeneratedKernel, case: Case) -> tuple[np.ndarray, ...]:
    """Run kernel ``index`` on guarded copies; outputs and workspace start out as NaN patterns."""
    inputs = [Guarded(kernel.packed.get(i, x)) for i, x in enumerate(case.inputs)]
    before = [g.array.copy() for g in inputs]
    outputs = [Guarded(np.full(t.nbytes, 0xFF, np.uint8).view(t.dtype).reshape(t.shape)) for t in kernel.outputs]
    buffers = [*inputs, *outputs]
    if kernel.workspace_bytes:
        buffers.append(Guarded(np.full(kernel.workspace_bytes, 0xFF, np.uint8), offset=0))
    pointers = (ctypes.c_void_p * len(buffers))(*(g.array.ctypes.data for g in buffers))
    function = getattr(library, f"k{index}")
    function.restype = ctypes.c_int32
    assert function(pointers) == 0
    for g in buffers:
        g.check()
    for g, b in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(g.array, b)
    return tuple(g.array for g in outputs)


# --- answers in float64 -----------------------------------------------------------------------------------------------


def activate(y: np.ndarray, activation: str | None) -> np.ndarray:
    if activation is not None:
        y = np.maximum(y, 0)
    return np.minimum(y, 6) if activation == "relu6" else y


def reference_conv(case: Case) -> np.ndarray:
    a = case.attrs
    x, w = (t.astype(np.float64) for t in case.inputs[:2])
    top, left, bottom, right = a["padding"]
    (sh, sw), (dh, dw), groups = a["strides"], a["dilation"], a["groups"]
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    o, cg, kh, kw = w.shape
    n, oh, ow, _ = case.outputs[0].shape
    y = np.zeros((n, oh, ow, o))
    og = o // groups
    for g in range(groups):
        for r in range(kh):
            for q in range(kw):
                view = x[:, r * dh :, q * dw :, g * cg : (g + 1) * cg]
                view = view[:, : (oh - 1) * sh + 1 : sh, : (ow - 1) * sw + 1 : sw]
                y[..., g * og : (g + 1) * og] += view @ w[g * og : (g + 1) * og, :, r, q].T
    return epilogue(case, y)


def epilogue(case: Case, y: np.ndarray) -> np.ndarray:
    rest = list(case.inputs[2:])
    if case.attrs["has_bias"]:
        y = y + rest.pop(0).astype(np.float64)
    if case.attrs["has_residual"]:
        y = y + rest.pop(0).astype(np.float64)
    return activate(y, case.attrs["activation"])


def reference_matmul(case: Case) -> np.ndarray:
    a, b = (t.astype(np.float64) for t in case.inputs[:2])
    return epilogue(case, np.matmul(a, b.T if case.attrs["transpose_b"] else b))


def reference_batch(case: Case) -> np.ndarray:
    a, b = (t.astype(np.float64) for t in case.inputs)
    y: np.ndarray = a @ (b.transpose(0, 2, 1) if case.attrs["transpose_b"] else b)
    return y


def view3(case: Case) -> np.ndarray:
    return case.inputs[0].reshape(case.attrs["outer"], case.attrs["axis"], case.attrs["inner"])


def reference_softmax(case: Case) -> np.ndarray:
    x = view3(case).astype(np.float64)
    with np.errstate(all="ignore"):
        shifted = x - x.max(axis=1, keepdims=True)
        total = np.exp(shifted).sum(axis=1, keepdims=True)
        y = shifted - np.log(total) if case.op == "c7x.log_softmax" else np.exp(shifted) / total
    result: np.ndarray = y.reshape(case.outputs[0].shape)
    return result


def reference_norm(case: Case) -> np.ndarray:
    x, weight, bias = (t.astype(np.float64) for t in case.inputs)
    x = x.reshape(case.attrs["outer"], case.attrs["norm"])
    d = x - x.mean(axis=1, keepdims=True)
    y = d / np.sqrt((d * d).mean(axis=1, keepdims=True) + case.attrs["epsilon"]) * weight + bias
    result: np.ndarray = y.reshape(case.outputs[0].shape)
    return result


REFERENCES = {
    "c7x.conv2d": reference_conv,
    "c7x.matmul": reference_matmul,
    "c7x.batch_matmul": reference_batch,
    "c7x.softmax": reference_softmax,
    "c7x.log_softmax": reference_softmax,
    "c7x.layer_norm": reference_norm,
}


def unclipped(case: Case) -> np.ndarray:
    attrs = {**case.attrs, "activation": None} if "activation" in case.attrs else case.attrs
    return REFERENCES[case.op](replace(case, attrs=attrs))


def check(case: Case, got: np.ndarray, tolerance: float = 1e-6) -> None:
    """The error relative to the largest output, and NaN and infinity in the same places.

    The largest output is taken before the activation: relu6 cuts sums of 100 to 6, but not their rounding.
    """
    want = REFERENCES[case.op](case)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want), err_msg=repr(case))
    np.testing.assert_array_equal(got[~finite], want[~finite].astype(np.float32), err_msg=repr(case))
    scale = np.abs(unclipped(case)[finite]).max(initial=0.0)
    error = np.abs(got[finite] - want[finite]).max(initial=0.0)
    assert error <= tolerance * scale, f"error {error / scale:.2e} of the largest output in {case!r}"


# --- cases ------------------------------------------------------------------------------------------------------------


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def conv_case(
    rng: np.random.Generator, *, n: int = 1, h: int = 8, w: int = 8, c: int = 8, o: int = 8,
    k: tuple[int, int] = (3, 3), strides: tuple[int, int] = (1, 1), padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1), groups: int = 1, bias: bool = True, residual: bool = False,
    activation: str | None = None, options: KernelOptions | None = None,
) -> Case:  # fmt: skip
    top, left, bottom, right = padding
    oh = (h + top + bottom - (k[0] - 1) * dilation[0] - 1) // strides[0] + 1
    ow = (w + left + right - (k[1] - 1) * dilation[1] - 1) // strides[1] + 1
    assert oh > 0 and ow > 0
    inputs = [floats(rng, n, h, w, c), floats(rng, o, c // groups, *k)]
    if bias:
        inputs.append(floats(rng, o))
    if residual:
        inputs.append(floats(rng, n, oh, ow, o))
    return Case(
        op="c7x.conv2d",
        attrs={
            "strides": list(strides), "padding": list(padding), "dilation": list(dilation), "groups": groups,
            "has_bias": bias, "has_residual": residual, "activation": activation,
        },
        inputs=tuple(inputs),
        outputs=(TensorType(dtype="float32", shape=(n, oh, ow, o)),),
        constants=(1, 2) if bias else (1,),
        options=options,
    )  # fmt: skip


def matmul_case(
    rng: np.random.Generator, m: int, n: int, k: int, *, transpose_b: bool = True, bias: bool = True,
    residual: bool = False, activation: str | None = None,
) -> Case:  # fmt: skip
    inputs = [floats(rng, m, k), floats(rng, *((n, k) if transpose_b else (k, n)))]
    if bias:
        inputs.append(floats(rng, n))
    if residual:
        inputs.append(floats(rng, m, n))
    return Case(
        op="c7x.matmul",
        attrs={"transpose_b": transpose_b, "has_bias": bias, "has_residual": residual, "activation": activation},
        inputs=tuple(inputs),
        outputs=(TensorType(dtype="float32", shape=(m, n)),),
        constants=(1, 2) if bias else (1,),
    )


def batch_case(
    rng: np.random.Generator, b: int, m: int, n: int, k: int, *, transpose_b: bool, shared: bool = False
) -> Case:
    other = (1 if shared else b, *((n, k) if transpose_b else (k, n)))
    return Case(
        op="c7x.batch_matmul",
        attrs={"transpose_b": transpose_b},
        inputs=(floats(rng, b, m, k), floats(rng, *other)),
        outputs=(TensorType(dtype="float32", shape=(b, m, n)),),
    )


def softmax_case(x: np.ndarray, *, log: bool = False) -> Case:
    outer, axis, inner = x.shape
    return Case(
        op="c7x.log_softmax" if log else "c7x.softmax",
        attrs={"outer": outer, "axis": axis, "inner": inner},
        inputs=(x,),
        outputs=(TensorType(dtype="float32", shape=x.shape),),
    )


def norm_case(rng: np.random.Generator, outer: int, norm: int, *, mean: float = 0.0) -> Case:
    return Case(
        op="c7x.layer_norm",
        attrs={"outer": outer, "norm": norm, "epsilon": 1e-5},
        inputs=(floats(rng, outer, norm) + np.float32(mean), floats(rng, norm), floats(rng, norm)),
        outputs=(TensorType(dtype="float32", shape=(outer, norm)),),
    )


def topk_case(x: np.ndarray, k: int, *, largest: bool = True) -> Case:
    outer, n = x.shape
    return Case(
        op="c7x.topk",
        attrs={"outer": outer, "n": n, "k": k, "largest": largest},
        inputs=(x,),
        outputs=(TensorType(dtype="float32", shape=(outer, k)), TensorType(dtype="int64", shape=(outer, k))),
    )


def argmax_case(x: np.ndarray, *, select_min: bool = False) -> Case:
    outer, axis, inner = x.shape
    return Case(
        op="c7x.argmax",
        attrs={"outer": outer, "axis": axis, "inner": inner, "select_min": select_min, "dtype_in": str(x.dtype)},
        inputs=(x,),
        outputs=(TensorType(dtype="int64", shape=(outer, inner)),),
    )


def kernel_includes() -> list[str]:
    """Include options for the sources in native/kernels."""
    return [word for name in ("include", "runtime", "kernels") for word in ("-I", str(native_dir() / name))]


def core_objects(folder: Path, core: str, optimise: Sequence[str], *, sources: Path | None = None) -> list[str]:
    """Object files of the kernels in C7x code for a core of the host emulation, from native or a copy of its folder."""
    emulation = find_emulation(core, "open")
    objects = []
    for name in C7X_KERNEL_SOURCES:
        objects.append(str(folder / f"{Path(name).stem}.o"))
        source = str((sources or native_dir()) / name)
        # Libraries of two cores in one process shall not share the emulation's state, whose types differ.
        flags = [*CXX_FLAGS[4:], *WARNINGS[:3], *optimise, "-fPIC", "-fno-gnu-unique", "-DC7X_KERNELS_C7X=1"]
        compile_program([*flags, *kernel_includes(), "-c", source, "-o", objects[-1]], emulation=emulation, cxx="g++")
    return objects
