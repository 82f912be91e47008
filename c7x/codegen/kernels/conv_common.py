"""What the three ways to compute a convolution share: its shape, the padded copy of an image, the kernel around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from c7x.codegen.kernels.base import GeneratedKernel, Operand, align64, float_type, signature
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
        return (self.oh - 1) * self.stride[0] + (self.kh - 1) * self.dilation[0] + 1

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


def conv_shape(attrs: Mapping[str, Any], inputs: Sequence[Operand], output: TensorType) -> ConvShape:
    """The shape of a ``c7x.conv2d`` call whose form ``supports`` has accepted."""
    n, h, w, c = inputs[0].type.shape
    o, _, kh, kw = inputs[1].type.shape
    _, oh, ow, _ = output.shape
    sh, sw = attrs["strides"]
    top, left, bottom, right = attrs["padding"]
    dh, dw = attrs["dilation"]
    return ConvShape(
        n=n, h=h, w=w, c=c, o=o, oh=oh, ow=ow, kh=kh, kw=kw, stride=(sh, sw), padding=(top, left, bottom, right),
        dilation=(dh, dw), groups=attrs["groups"],
        epilogue=Epilogue(
            bias=attrs["has_bias"], residual=attrs["has_residual"], activation=attrs["activation"]
        ),
    )  # fmt: skip


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


def pad_function(s: ConvShape, height: int, width: int) -> str:
    """A static function that copies one image into ``dst`` [height, width, c] with zeros around it."""
    # With a wide stride all that is read may lie in the padding.
    top, left = min(s.padding[0], height), min(s.padding[1], width)
    rows = min(s.h, height - top)
    cols = min(s.w, width - left)
    row = width * s.c
    right = row - (left + cols) * s.c
    below = height - top - rows
    lines = [
        "static void @SYMBOL@_pad(const float* C7X_RESTRICT src, float* C7X_RESTRICT dst) {",
    ]
    if top:
        lines.append(f"  memset(dst, 0, {top * row} * sizeof(float));")
    lines += [
        f"  for (int32_t y = 0; y < {rows}; ++y) {{",
        f"    float* const d = dst + ({top} + y) * {row};",
    ]
    if left:
        lines.append(f"    memset(d, 0, {left * s.c} * sizeof(float));")
    lines.append(f"    memcpy(d + {left * s.c}, src + y * {s.w * s.c}, {cols * s.c} * sizeof(float));")
    if right:
        lines.append(f"    memset(d + {(left + cols) * s.c}, 0, {right} * sizeof(float));")
    lines.append("  }")
    if below:
        lines.append(f"  memset(dst + {(top + rows) * row}, 0, {below * row} * sizeof(float));")
    lines.append("}")
    return "\n".join(lines) + "\n"


def pad_bytes(s: ConvShape) -> int:
    """Workspace for the padded copy of one image."""
    return align64(s.padded_h * s.padded_w * s.c * 4) if s.needs_padding else 0


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
