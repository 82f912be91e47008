"""Generated kernels: C text for the operators that decide a model's speed.

``generate`` and ``supports`` are the whole interface; the table below says which module writes which operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from c7x.codegen.kernels import (
    conv2d,
    int8_batch,
    int8_conv,
    int8_elementwise,
    int8_pad,
    int8_pool,
    int8_rows,
    matmul,
    norm,
    select,
    softmax,
)
from c7x.codegen.kernels.base import GeneratedKernel, KernelOptions, Operand
from c7x.codegen.program import TensorType
from c7x.errors import UnsupportedError

__all__ = ["OPS", "GeneratedKernel", "KernelOptions", "Operand", "generate", "supports"]

Generate = Callable[[Mapping[str, Any], Sequence[Operand], Sequence[TensorType], KernelOptions], GeneratedKernel]
Supports = Callable[[Mapping[str, Any], Sequence[Operand], Sequence[TensorType]], "str | None"]


@dataclass(frozen=True, kw_only=True)
class _Generator:
    generate: Generate
    supports: Supports


OPS: Mapping[str, _Generator] = {
    "c7x.argmax": _Generator(generate=select.generate_argmax, supports=select.supports_argmax),
    "c7x.batch_matmul": _Generator(generate=matmul.generate_batch, supports=matmul.supports_batch),
    "c7x.conv2d": _Generator(generate=conv2d.generate, supports=conv2d.supports),
    "c7x.layer_norm": _Generator(generate=norm.generate, supports=norm.supports),
    "c7x.log_softmax": _Generator(generate=softmax.generate_log, supports=softmax.supports),
    "c7x.matmul": _Generator(generate=matmul.generate, supports=matmul.supports),
    "c7x.qadd": _Generator(generate=int8_elementwise.generate_add, supports=int8_elementwise.supports_pair),
    "c7x.qavg_pool2d": _Generator(generate=int8_pool.generate_avg_pool, supports=int8_pool.supports_avg_pool),
    "c7x.qbatch_matmul": _Generator(generate=int8_batch.generate, supports=int8_batch.supports),
    "c7x.qconv2d": _Generator(generate=int8_conv.generate, supports=int8_conv.supports),
    "c7x.qlayer_norm": _Generator(generate=int8_rows.generate_layer_norm, supports=int8_rows.supports_layer_norm),
    "c7x.qmax_pool2d": _Generator(generate=int8_pool.generate_max_pool, supports=int8_pool.supports_max_pool),
    "c7x.qmul": _Generator(generate=int8_elementwise.generate_mul, supports=int8_elementwise.supports_pair),
    "c7x.qpad": _Generator(generate=int8_pad.generate, supports=int8_pad.supports),
    "c7x.qsoftmax": _Generator(generate=int8_rows.generate_softmax, supports=int8_rows.supports_softmax),
    "c7x.qtable": _Generator(generate=int8_elementwise.generate_table, supports=int8_elementwise.supports_table),
    "c7x.softmax": _Generator(generate=softmax.generate, supports=softmax.supports),
    "c7x.topk": _Generator(generate=select.generate_topk, supports=select.supports_topk),
}


def supports(op: str, attrs: Mapping[str, Any], inputs: Sequence[Operand], outputs: Sequence[TensorType]) -> str | None:
    """Why ``generate`` cannot write this call, as a phrase; None when it can.

    Args:
        op: ``c7x.conv2d``, ``c7x.matmul``, ...: a key of ``OPS``.
        attrs: the call's attributes.
        inputs, outputs: the call's tensors, in order.
    """
    if op not in OPS:
        return f"there is no generated kernel for {op}"
    return OPS[op].supports(attrs, inputs, outputs)


def generate(
    op: str,
    attrs: Mapping[str, Any],
    inputs: Sequence[Operand],
    outputs: Sequence[TensorType],
    *,
    options: KernelOptions | None = None,
) -> GeneratedKernel:
    """The C function for one call of a kernel op.

    Args: as ``supports``; ``options`` is what the target says.

    Raises:
        UnsupportedError: ``supports`` has a reason why not.
    """
    reason = supports(op, attrs, inputs, outputs)
    if reason is not None:
        raise UnsupportedError(
            f"no kernel can be generated for {op}: {reason}",
            cause="the call does not have the form the generators are written for",
            hint="keep this operator on the compiler's loops (c7x.codegen.kernels.supports tells beforehand)",
        )
    return OPS[op].generate(attrs, inputs, outputs, options or KernelOptions())
