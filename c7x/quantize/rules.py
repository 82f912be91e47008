"""Which operators are quantised, and how: one table, read by the quantizer (docs/quantization.md shows it to users).

Operators are named as ATen overloads without the namespace; an in-place operator follows the rule of its plain twin.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

__all__ = ["RULES", "Rule", "operator", "rule_of", "simple_name"]


class Rule(Enum):
    """What a quantised operator does with its operands' and its result's quantisation."""

    #: Convolution, linear: int weights per output channel, int32 bias, an observer of its own for the result.
    WEIGHTED = "weighted"
    #: A product of two matrices: both are quantised, a constant right one per column.
    PRODUCT = "product"
    #: Two tensors of one shape, element by element.
    PAIR = "pair"
    #: As PAIR, and also a feature map [N, C, H, W] times one value per channel [N, C, 1, 1] (squeeze and excitation).
    SCALED = "scaled"
    #: Averages: an observer of its own for the result.
    POOL = "pool"
    #: A function a kernel computes in float between integers: an observer of its own, none when it ends the model.
    CURVE = "curve"
    #: As CURVE, but only after a quantised operator: the usual operand is a sum with a mask of -1e9 or -infinity.
    NORMALISED = "normalised"
    #: Clamps: joined to the operator before when it is its only reader, else on the operand's scale.
    CLAMP = "clamp"
    #: Moves data, or picks among it: the result has the operand's scale.
    MOVE = "move"
    #: Several results, each with the operand's scale.
    SPLIT = "split"
    #: All operands and the result have one scale.
    JOIN = "join"
    #: Picks by order. Neither it nor what leads to it by moving data is quantised: rounding makes ties.
    SELECT = "select"


_TABLE: Mapping[Rule, str] = {
    Rule.WEIGHTED: "conv1d.default conv1d.padding conv2d.default conv2d.padding convolution.default linear.default",
    Rule.PRODUCT: "mm.default bmm.default matmul.default addmm.default",
    Rule.PAIR: "add.Tensor",
    Rule.SCALED: "mul.Tensor",
    Rule.POOL: "adaptive_avg_pool1d.default adaptive_avg_pool2d.default _adaptive_avg_pool2d.default "
    "avg_pool1d.default avg_pool2d.default mean.dim",
    Rule.CURVE: "gelu.default silu.default hardswish.default hardsigmoid.default sigmoid.default tanh.default "
    "elu.default leaky_relu.default prelu.default layer_norm.default",
    Rule.NORMALISED: "softmax.int _softmax.default",
    Rule.CLAMP: "relu.default relu6.default hardtanh.default clamp.default clamp_min.default clamp_max.default",
    Rule.MOVE: "view.default _unsafe_view.default reshape.default flatten.using_ints unflatten.int permute.default "
    "transpose.int t.default squeeze.default squeeze.dim squeeze.dims unsqueeze.default expand.default "
    "contiguous.default clone.default slice.Tensor select.int narrow.default flip.default roll.default "
    "repeat.default pad.default constant_pad_nd.default pixel_shuffle.default pixel_unshuffle.default "
    "channel_shuffle.default max_pool1d.default max_pool2d.default upsample_nearest2d.vec",
    Rule.SPLIT: "chunk.default split.Tensor split_with_sizes.default unbind.int",
    Rule.JOIN: "cat.default",
    Rule.SELECT: "topk.default max.dim min.dim argmax.default argmin.default sort.default sort.stable "
    "argsort.default argsort.stable kthvalue.default median.dim",
}

#: Overload such as ``conv2d.default`` -> rule.
RULES: Mapping[str, Rule] = {name: rule for rule, names in _TABLE.items() for name in names.split()}


def operator(target: object) -> str:
    """``conv2d.default`` for ``torch.ops.aten.conv2d.default``; other namespaces keep theirs."""
    return str(target).removeprefix("aten.")


def simple_name(target: object) -> str:
    """``conv2d`` for ``torch.ops.aten.conv2d.default``, ``relu`` for ``relu_``, ``getitem`` for Python's."""
    if hasattr(target, "__name__") and not hasattr(target, "_schema"):
        return str(target.__name__)
    return operator(target).partition(".")[0].rstrip("_") or operator(target)


def rule_of(target: object) -> Rule | None:
    """The rule of an operator; None for one that stays float."""
    name = operator(target)
    packet, _, overload = name.partition(".")
    return RULES.get(name) or RULES.get(f"{packet.rstrip('_')}.{overload}")
