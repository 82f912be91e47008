"""Time of every convolution and matrix product of ResNet-18 and MobileNetV2 at 224x224, one thread.

    python bench/kernels.py [resnet18] [mobilenet_v2] [transformer] [--march x86-64-v3] [--no-ort] [--filter 3x3]

Each shape is generated, compiled with gcc -O3, and timed in turn with onnxruntime running the same operator alone
(its Conv takes NCHW and reorders inside, so its single-operator times are a little worse than inside a whole net).
``peak`` is the machine's multiply-add rate, measured in the same process. Times are the thread's processor time, which
leaves out other processes, and the minimum of many runs.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from c7x.codegen.kernels import GeneratedKernel, KernelOptions, Operand, generate
from c7x.codegen.program import TensorType

ROOT = Path(__file__).resolve().parents[1]

PEAK = """
float peak(int32_t n) {
  c7x_f32x8 a0 = c7x_splat8(1.0f), a1 = a0 + a0, a2 = a1 + a0, a3 = a2 + a0, a4 = a3 + a0;
  c7x_f32x8 a5 = a4 + a0, a6 = a5 + a0, a7 = a6 + a0, a8 = a7 + a0, a9 = a8 + a0;
  const c7x_f32x8 x = c7x_splat8(0.5f);
  for (int32_t i = 0; i < n; ++i) {
    a0 = c7x_fma8(a0, x, x); a1 = c7x_fma8(a1, x, x); a2 = c7x_fma8(a2, x, x); a3 = c7x_fma8(a3, x, x);
    a4 = c7x_fma8(a4, x, x); a5 = c7x_fma8(a5, x, x); a6 = c7x_fma8(a6, x, x); a7 = c7x_fma8(a7, x, x);
    a8 = c7x_fma8(a8, x, x); a9 = c7x_fma8(a9, x, x);
  }
  return c7x_hadd8(a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9);
}
"""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One convolution (``size`` is the input's height and width); with ``size`` 0 a matrix product [m, c] x [c, o]."""

    count: int
    size: int
    c: int
    o: int
    k: int = 1
    stride: int = 1
    groups: int = 1
    residual: bool = False
    activation: str | None = "relu"
    m: int = 1

    @property
    def label(self) -> str:
        if not self.size:
            return f"matmul {self.m}x{self.o}x{self.c}"
        kind = "dw" if self.groups > 1 else "conv"
        return f"{kind} {self.k}x{self.k}s{self.stride} {self.size:>3} {self.c}->{self.o}"


def resnet18() -> list[Shape]:
    shapes = [Shape(count=1, size=224, c=3, o=64, k=7, stride=2)]
    shapes += [Shape(count=2, size=56, c=64, o=64, k=3), Shape(count=2, size=56, c=64, o=64, k=3, residual=True)]
    for size, c in ((56, 64), (28, 128), (14, 256)):
        o = 2 * c
        shapes += [
            Shape(count=1, size=size, c=c, o=o, k=3, stride=2),
            Shape(count=1, size=size, c=c, o=o, stride=2, activation=None),
            Shape(count=1, size=size // 2, c=o, o=o, k=3),
            Shape(count=2, size=size // 2, c=o, o=o, k=3, residual=True),
        ]
    return [*shapes, Shape(count=1, size=0, c=512, o=1000, activation=None)]


def mobilenet_v2() -> list[Shape]:
    shapes = [Shape(count=1, size=224, c=3, o=32, k=3, stride=2, activation="relu6")]
    size, c = 112, 32
    for t, o, n, s in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                       (6, 320, 1, 1)):  # fmt: skip
        for i in range(n):
            stride = s if i == 0 else 1
            e = c * t
            if t > 1:
                shapes.append(Shape(count=1, size=size, c=c, o=e, activation="relu6"))
            shapes.append(Shape(count=1, size=size, c=e, o=e, k=3, stride=stride, groups=e, activation="relu6"))
            size //= stride
            shapes.append(Shape(count=1, size=size, c=e, o=o, residual=i > 0, activation=None))
            c = o
    shapes += [
        Shape(count=1, size=7, c=320, o=1280, activation="relu6"),
        Shape(count=1, size=0, c=1280, o=1000, activation=None),
    ]
    merged: dict[Shape, int] = {}
    for shape in shapes:
        merged[shape] = merged.get(shape, 0) + shape.count
    return [Shape(**{**vars(shape), "count": n}) for shape, n in merged.items()]


def transformer() -> list[Shape]:
    return [
        Shape(count=1, size=0, m=m, c=c, o=o, activation=None)
        for m, c, o in ((64, 256, 256), (128, 512, 512), (197, 192, 768), (197, 768, 192), (512, 1024, 1024))
    ]


NETS: dict[str, Callable[[], list[Shape]]] = {
    "resnet18": resnet18, "mobilenet_v2": mobilenet_v2, "transformer": transformer
}  # fmt: skip


def operands(shape: Shape, rng: np.random.Generator) -> tuple[list[np.ndarray], TensorType, int]:
    """Arrays in the kernel's input order, the output's type, the padding on each side."""

    def f(*s: int) -> np.ndarray:
        return rng.standard_normal(s).astype(np.float32)

    if not shape.size:
        return [f(shape.m, shape.c), f(shape.o, shape.c), f(shape.o)], out_type(shape.m, shape.o), 0
    pad = shape.k // 2
    out = (shape.size + 2 * pad - shape.k) // shape.stride + 1
    arrays = [
        f(1, shape.size, shape.size, shape.c),
        f(shape.o, shape.c // shape.groups, shape.k, shape.k) / np.float32(math.sqrt(shape.c * shape.k**2)),
        f(shape.o),
    ]
    if shape.residual:
        arrays.append(f(1, out, out, shape.o))
    return arrays, out_type(1, out, out, shape.o), pad


def out_type(*shape: int) -> TensorType:
    return TensorType(dtype="float32", shape=shape)


def make_kernel(
    shape: Shape, arrays: Sequence[np.ndarray], out: TensorType, pad: int, options: KernelOptions
) -> GeneratedKernel:
    attrs: dict[str, Any] = {"has_bias": True, "has_residual": shape.residual, "activation": shape.activation}
    if shape.size:
        attrs |= {"strides": [shape.stride] * 2, "padding": [pad] * 4, "dilation": [1, 1], "groups": shape.groups}
    else:
        attrs |= {"transpose_b": True}
    inputs = [
        Operand(type=TensorType(dtype="float32", shape=a.shape), value=a if i == 1 else None)
        for i, a in enumerate(arrays)
    ]
    return generate("c7x.conv2d" if shape.size else "c7x.matmul", attrs, inputs, [out], options=options)


def onnx_session(shape: Shape, arrays: Sequence[np.ndarray], pad: int) -> Callable[[], None]:
    """A function that runs the operator once in onnxruntime."""
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper

    x = arrays[0].transpose(0, 3, 1, 2) if shape.size else arrays[0]
    feeds = {"x": np.ascontiguousarray(x)}
    weights = [numpy_helper.from_array(arrays[1], "w"), numpy_helper.from_array(arrays[2], "b")]
    if shape.size:
        form = {"pads": [pad] * 4, "strides": [shape.stride] * 2, "group": shape.groups}
        nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y0"], **form)]
    else:
        nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y0"], transB=1)]
    last = "y0"
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    if shape.residual:
        feeds["r"] = np.ascontiguousarray(arrays[3].transpose(0, 3, 1, 2))
        ports.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, feeds["r"].shape))
        nodes.append(helper.make_node("Add", [last, "r"], ["y1"]))
        last = "y1"
    if shape.activation == "relu":
        nodes.append(helper.make_node("Relu", [last], ["y2"]))
        last = "y2"
    elif shape.activation == "relu6":
        weights += [numpy_helper.from_array(np.float32(v), n) for n, v in (("lo", 0), ("hi", 6))]
        nodes.append(helper.make_node("Clip", [last, "lo", "hi"], ["y2"]))
        last = "y2"
    result = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", ports, [result], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)


def aligned(value: np.ndarray) -> np.ndarray:
    raw: np.ndarray = np.zeros(value.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    out = raw[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
    out[...] = value
    return out


def build(
    kernels: Sequence[GeneratedKernel], folder: Path, march: str, defines: Sequence[str]
) -> tuple[ctypes.CDLL, float]:
    """The shared object with entries k0, k1, ..., and how many seconds gcc took."""
    text = ["#include <math.h>\n", (ROOT / "native/include/c7x_vector.h").read_text(encoding="utf-8"), PEAK]
    for i, kernel in enumerate(kernels):
        text.append(kernel.source_template.replace("@SYMBOL@", f"kernel{i}"))
        count = len(kernel.inputs) + len(kernel.outputs) + bool(kernel.workspace_bytes)
        args = ", ".join(f"p[{j}]" for j in range(count))
        text.append(f"int32_t k{i}(void** p);\nint32_t k{i}(void** p) {{ return kernel{i}({args}); }}\n")
    source, library = folder / "kernels.c", folder / "kernels.so"
    source.write_text("\n".join(text), encoding="utf-8")
    start = time.perf_counter()
    flags = ["-std=c99", "-O3", f"-march={march}", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
    flags += ["-fno-strict-aliasing", "-shared", "-fPIC", *(f"-D{name}" for name in defines)]
    subprocess.run(["gcc", *flags, str(source), "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library)), time.perf_counter() - start


def best(functions: Sequence[Callable[[], object]], seconds: float) -> list[float]:
    """The fastest run of each function, taking turns for about ``seconds`` each."""
    times = [math.inf] * len(functions)
    for f in functions:
        f()
    end = time.perf_counter() + seconds * len(functions)
    while time.perf_counter() < end:
        for i, f in enumerate(functions):
            start = time.thread_time()
            f()
            times[i] = min(times[i], time.thread_time() - start)
    return times


def measure_peak(library: ctypes.CDLL) -> float:
    """Multiply-adds per second of independent eight-lane accumulators."""
    library.peak.restype = ctypes.c_float
    return 80 * 100_000 / best([lambda: library.peak(100_000)], 0.2)[0]


def make_pools(kernels: Sequence[GeneratedKernel]) -> dict[str, np.ndarray]:
    """Memory that all kernels share, as layers do in a model's arena: input, residual, output, workspace."""
    sizes = {"input": 0, "residual": 0, "output": 0, "workspace": 0}
    for kernel in kernels:
        wanted = (kernel.inputs[0].nbytes, 0, kernel.outputs[0].nbytes, kernel.workspace_bytes)
        if len(kernel.inputs) > 3:
            wanted = (wanted[0], kernel.inputs[3].nbytes, *wanted[2:])
        sizes = {name: max(old, new) for (name, old), new in zip(sizes.items(), wanted, strict=True)}
    return {name: aligned(np.ones(size // 4, np.float32)) for name, size in sizes.items()}


def bind(
    library: ctypes.CDLL, index: int, kernel: GeneratedKernel, arrays: Sequence[np.ndarray],
    pools: Mapping[str, np.ndarray],
) -> Callable[[], object]:  # fmt: skip
    """A call of kernel ``index`` with constants of its own."""
    buffers = [pools["input"], aligned(kernel.packed[1]), aligned(arrays[2])]
    if len(arrays) > 3:
        buffers.append(pools["residual"])
    buffers.append(pools["output"])
    if kernel.workspace_bytes:
        buffers.append(pools["workspace"])
    pointers = (ctypes.c_void_p * len(buffers))(*(b.ctypes.data for b in buffers))
    function = getattr(library, f"k{index}")

    def call(_keep: object = buffers) -> object:
        return function(pointers)

    return call


def run(net: str, args: argparse.Namespace) -> None:
    march, with_ort, only, seconds, defines = args.march, not args.no_ort, args.filter, args.seconds, args.define
    options = KernelOptions(winograd=not args.no_winograd)
    rng = np.random.default_rng(0)
    shapes = [s for s in NETS[net]() if only in s.label]
    data = [operands(s, rng) for s in shapes]
    kernels = [make_kernel(s, *d, options) for s, d in zip(shapes, data, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        library, compiled = build(kernels, Path(folder), march, defines)
    peak = measure_peak(library)
    print(f"{net}, -march={march}: peak {peak / 1e9:.1f} GMAC/s; {len(shapes)} kernels compiled in {compiled:.1f} s")
    print(f"{'operator':28} {'count':>5} {'MMAC':>7} {'ms':>8} {'of peak':>8} {'ort ms':>8} {'ratio':>6}  kernel")
    total = total_ort = 0.0
    sequence: list[Callable[[], object]] = []
    pools = make_pools(kernels)
    for i, (shape, kernel, (arrays, _, pad)) in enumerate(zip(shapes, kernels, data, strict=True)):
        calls = [bind(library, i, kernel, arrays, pools) for _ in range(shape.count)]
        sequence += calls
        functions: list[Callable[[], object]] = [calls[0]]
        if with_ort:
            functions.append(onnx_session(shape, arrays, pad))
        times = best(functions, seconds)
        ort = times[1] if with_ort else math.nan
        total += shape.count * times[0]
        total_ort += shape.count * ort
        print(
            f"{shape.label:28} {shape.count:5} {kernel.macs / 1e6:7.1f} {times[0] * 1e3:8.3f} "
            f"{kernel.macs / times[0] / peak:8.1%} {ort * 1e3:8.3f} {times[0] / ort:6.2f}  {kernel.name_hint}"
        )
    print(f"{'sum':28} {'':5} {'':7} {total * 1e3:8.3f} {'':8} {total_ort * 1e3:8.3f} {total / total_ort:6.2f}")

    def whole() -> None:
        for function in sequence:
            function()

    together = best([whole], seconds * 20)[0]
    print(f"{'one after the other':28} {'':5} {'':7} {together * 1e3:8.3f}  (each layer with its own weights)\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", default=list(NETS), metavar="net", help=f"of {', '.join(NETS)}")
    parser.add_argument("--march", default="native")
    parser.add_argument("--define", action="append", default=[], help="macro for the compiler, such as C7X_CLONES")
    parser.add_argument("--no-ort", action="store_true", help="time our kernels only")
    parser.add_argument("--no-winograd", action="store_true", help="direct sums everywhere")
    parser.add_argument("--filter", default="", help="only operators whose label holds this text")
    parser.add_argument("--seconds", type=float, default=0.15, help="time for each operator")
    args = parser.parse_args()
    for net in args.nets:
        run(net, args)


if __name__ == "__main__":
    main()
