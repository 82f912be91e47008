"""What the three ways to compute a convolution share: its shape, the padded copy of an image, the kernel around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from c7x.codegen.kernels.base import GeneratedKernel, Operand, ceil_div, float_type, signature
from c7x.codegen.kernels.tile import Epilogue
from c7x.codegen.program import TensorType


@dataclass(frozen=True, kw_only=True)
class ConvShape:
    """Everything about a convolution but the values of its weights."""

    n: int
    h: int
    w: int
    c: int
    o: int
    oh: int
    ow: int
    kh: int
    kw: int
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    groups: int
    epilogue: Epilogue

    @property
    def padded_h(self) -> int:
        """Rows of the image that are read, padding included."""
        return self.strip_h(self.oh)

    def strip_h(self, rows: int) -> int:
        """Rows of the padded image behind ``rows`` rows of the output."""
        return (rows - 1) * self.stride[0] + (self.kh - 1) * self.dilation[0] + 1

    @property
    def padded_w(self) -> int:
        """Columns of the image that are read, padding included."""
        return (self.ow - 1) * self.stride[1] + (self.kw - 1) * self.dilation[1] + 1

    @property
    def needs_padding(self) -> bool:
        """Whether some pixel that is read lies outside the image."""
        top, left, _, _ = self.padding
        return top > 0 or left > 0 or self.padded_h > self.h or self.padded_w > self.w

    @property
    def source_w(self) -> int:
        """Columns of the array that the inner loops read: the padded copy, or the image itself."""
        return self.padded_w if self.needs_padding else self.w

    @property
    def macs(self) -> int:
        return self.n * self.oh * self.ow * self.o * self.kh * self.kw * (self.c // self.groups)

    @property
    def depthwise(self) -> bool:
        return self.groups == self.c == self.o and self.groups > 1


def conv_shape(
    attrs: Mapping[str, Any], inputs: Sequence[Operand], output: TensorType, epilogue: Epilogue
) -> ConvShape:
    """The shape of a ``c7x.conv2d`` or ``c7x.qconv2d`` call whose form ``supports`` has accepted."""
    n, h, w, c = inputs[0].type.shape
    o, _, kh, kw = inputs[1].type.shape
    _, oh, ow, _ = output.shape
    sh, sw = attrs["strides"]
    top, left, bottom, right = attrs["padding"]
    dh, dw = attrs["dilation"]
    return ConvShape(
        n=n, h=h, w=w, c=c, o=o, oh=oh, ow=ow, kh=kh, kw=kw, stride=(sh, sw), padding=(top, left, bottom, right),
        dilation=(dh, dw), groups=attrs["groups"], epilogue=epilogue,
    )  # fmt: skip


def epilogue_of(attrs: Mapping[str, Any]) -> Epilogue:
    """What a ``c7x.conv2d`` call does with its sums."""
    return Epilogue(bias=attrs["has_bias"], residual=attrs["has_residual"], activation=attrs["activation"])


def name_hint(s: ConvShape) -> str:
    """Like ``conv2d_3x3_s2_relu`` or ``depthwise_3x3``."""
    parts = ["depthwise" if s.depthwise else "conv2d", f"{s.kh}x{s.kw}"]
    if s.stride != (1, 1):
        parts.append(f"s{s.stride[0]}" if s.stride[0] == s.stride[1] else f"s{s.stride[0]}x{s.stride[1]}")
    if s.dilation != (1, 1):
        parts.append(f"d{max(s.dilation)}")
    if s.groups > 1 and not s.depthwise:
        parts.append(f"g{s.groups}")
    if s.epilogue.residual:
        parts.append("add")
    if s.epilogue.activation:
        parts.append(s.epilogue.activation)
    return "_".join(parts)


def pad_function(s: ConvShape, rows: int, width: int) -> str:
    """A static function that copies a strip of an image into ``dst`` [rows, width, c], with zeros around the image.

    Its ``first`` is the strip's first row, counted from the top of the padding.
    """
    top, left = s.padding[0], min(s.padding[1], width)
    cols = min(s.w, width - left)
    row = width * s.c
    right = row - (left + cols) * s.c
    lines = [
        "static void @SYMBOL@_pad(const float* C7X_RESTRICT image, float* C7X_RESTRICT dst, int32_t first) {",
        f"  for (int32_t i = 0; i < {rows}; ++i) {{",
        f"    const int32_t y = first + i - {top};",
        f"    float* const d = dst + i * {row};",
        f"    if (y < 0 || y >= {s.h}) {{",
        f"      memset(d, 0, {row} * sizeof(float));",
        "      continue;",
        "    }",
    ]
    if left:
        lines.append(f"    memset(d, 0, {left * s.c} * sizeof(float));")
    if cols:
        lines.append(f"    memcpy(d + {left * s.c}, image + y * {s.w * s.c}, {cols * s.c} * sizeof(float));")
    if right:
        lines.append(f"    memset(d + {(left + cols) * s.c}, 0, {right} * sizeof(float));")
    lines += ["  }", "}"]
    return "\n".join(lines) + "\n"


#: Most floats of a strip: 384 KiB, so that it stays in a cache of 512 KiB or more while it is used.
STRIP_FLOATS = 98304

#: Multiply-accumulates that take as long as reading a weight from a cache of several MiB, and as copying a float.
WEIGHT_MACS = 6
COPY_MACS = 16


def choose_strip(rows: int, floats: Callable[[int], int], cost: Callable[[int], int]) -> int:
    """How many of ``rows`` output rows are computed from one padded strip.

    Args:
        floats: size of the strip behind so many output rows.
        cost: time for so many output rows in multiply-accumulates: those computed twice, and the reading of weights,
            included.
    """
    sizes = sorted({ceil_div(rows, n) for n in range(1, rows + 1)}, reverse=True)
    fitting = [size for size in sizes if floats(size) <= STRIP_FLOATS] or [1]
    return min(fitting, key=lambda size: ceil_div(rows, size) * (cost(size) + COPY_MACS * floats(size)))


def finish(
    s: ConvShape, functions: str, body: Sequence[str], packed: np.ndarray, inputs: Sequence[Operand],
    outputs: Sequence[TensorType], workspace_bytes: int,
) -> GeneratedKernel:  # fmt: skip
    """The kernel whose statements are ``body``; the weight's type becomes that of its packed form."""
    types = tuple(float_type(packed) if i == 1 else operand.type for i, operand in enumerate(inputs))
    head = signature(types, tuple(outputs), workspace=workspace_bytes > 0)
    return GeneratedKernel(
        source_template=functions + head + " {\n" + "".join(f"  {line}\n" for line in body) + "  return 0;\n}\n",
        inputs=types,
        outputs=tuple(outputs),
        packed={1: packed},
        workspace_bytes=workspace_bytes,
        macs=s.macs,
        name_hint=name_hint(s),
    )


def epilogue_inputs(s: ConvShape) -> tuple[str, str]:
    """The C names of the bias and the residual parameter; empty when there is none."""
    bias = "in2" if s.epilogue.bias else ""
    residual = f"in{3 if bias else 2}" if s.epilogue.residual else ""
    return bias, residual
