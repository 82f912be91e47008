"""Programs of MMALIB calls made by hand, for tests of L2 staging: no model, no TVM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from c7x.codegen.program import Buffer, Call, Constant, Kernel, Port, Program, TensorType


@dataclass(frozen=True, kw_only=True)
class Conv:
    """A convolution ``kernel`` x ``kernel``; ``groups`` of -1 is depthwise."""

    out: int
    kernel: int = 3
    stride: int = 1
    pad: int = 1
    groups: int = 1


@dataclass(frozen=True, kw_only=True)
class Linear:
    """A matrix product with bias, after which nothing else may follow but another one."""

    out: int


def chain(layers: Sequence[Conv | Linear], shape: tuple[int, ...], dtype: str = "int8", seed: int = 0) -> Program:
    """One layer after the other on an input of ``shape`` ([1, C, H, W], or [M, K]), with random weights."""
    rng = np.random.default_rng(seed)
    bits = "i8" if dtype == "int8" else "i16"
    bias_type = "int32" if dtype == "int8" else "int64"
    buffers: list[Buffer] = []
    constants: list[Constant] = []
    kernels: dict[str, Kernel] = {}
    calls: list[Call] = []

    def add(name: str, data: np.ndarray) -> str:
        buffers.append(Buffer(name=name, type=TensorType(dtype=data.dtype.name, shape=data.shape), role="constant"))
        constants.append(Constant(buffer=name, data=data))
        return name

    buffers.append(Buffer(name="x", type=TensorType(dtype=dtype, shape=shape), role="input"))
    source = "x"
    weight_shape: tuple[int, ...]
    result: tuple[int, ...]
    for index, layer in enumerate(layers):
        limit = 127 if dtype == "int8" else 2000
        if isinstance(layer, Linear):
            m, k = shape[0], int(np.prod(shape[1:]))
            symbol, weight_shape, result = f"mmalib_matmul_bias_{bits}", (layer.out, k), (m, layer.out)
            scalars = [m, k, layer.out]
        else:
            _, c, h, w = shape
            groups = c if layer.groups == -1 else layer.groups
            out = c if layer.groups == -1 else layer.out
            oh, ow = ((size + 2 * layer.pad - layer.kernel) // layer.stride + 1 for size in (h, w))
            weight_shape, result = (out, c // groups, layer.kernel, layer.kernel), (1, out, oh, ow)
            window = [layer.kernel, layer.kernel, layer.stride, layer.stride, *[layer.pad] * 4]
            if layer.groups == -1:
                symbol, scalars = f"mmalib_depthwise_conv2d_{bits}", [c, h, w, *window, c]
            elif groups > 1:
                symbol, scalars = "mmalib_conv2d_i8_grouped_loop", [c, h, w, out, *window, groups]
            else:
                symbol, scalars = f"mmalib_conv2d_{bits}", [c, h, w, out, *window]
        channels = weight_shape[0]
        operands = (
            add(f"weights_{index}", rng.integers(-limit, limit + 1, weight_shape).astype(dtype)),
            add(f"bias_{index}", rng.integers(-500, 501, channels).astype(bias_type)),
            add(f"scale_{index}", rng.integers(60, 128, channels).astype(np.uint8)),
            add(f"shift_{index}", rng.integers(16, 18, channels).astype(np.uint8)),
        )
        last = index == len(layers) - 1
        name = "y" if last else f"t{index}"
        buffers.append(
            Buffer(name=name, type=TensorType(dtype=dtype, shape=result), role="output" if last else "intermediate")
        )
        types = tuple(b.type for n in (source, *operands, name) for b in buffers if b.name == n)
        kernels[symbol] = Kernel(symbol=symbol, source="", params=types, num_outputs=1, backend="mmalib")
        calls.append(
            Call(
                kernel=symbol,
                inputs=(source, *operands),
                outputs=(name,),
                scalars=tuple(map(str, scalars)),
                name=f"layer{index}",
            )
        )
        source, shape = name, result
    ports = {b.name: Port(name=b.name, buffer=b.name, type=b.type) for b in buffers if b.name in ("x", "y")}
    return Program(
        name="model",
        inputs=(ports["x"],),
        outputs=(ports["y"],),
        buffers=tuple(buffers),
        constants=tuple(constants),
        kernels=tuple(kernels.values()),
        calls=tuple(calls),
    )
