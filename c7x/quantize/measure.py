"""What quantisation costs: every quantised tensor compared with its float value, on the calibration data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor.default
DEQUANTIZE = torch.ops.quantized_decomposed.dequantize_per_tensor.default


@dataclass
class Noise:
    """Sums over all samples for one tensor."""

    signal: float = 0.0
    noise: float = 0.0
    count: int = 0
    saturated: int = 0

    def add(self, reference: Tensor, value: Tensor) -> None:
        wanted, got = reference.double(), value.double()
        finite = torch.isfinite(wanted) & torch.isfinite(got)
        self.signal += float(wanted[finite].square().sum())
        self.noise += float((wanted - got)[finite].square().sum())

    @property
    def sqnr_db(self) -> float | None:
        """Signal to quantisation noise in decibels; None without noise, or without a signal."""
        if self.noise == 0.0 or self.signal == 0.0:
            return None
        return round(10.0 * math.log10(self.signal / self.noise), 2)

    @property
    def saturation(self) -> float:
        """Share of the values that lay beyond the integer range and were cut."""
        return round(self.saturated / self.count, 8) if self.count else 0.0


class _Visitor(fx.Interpreter):
    """Runs a graph and shows each node's operands and result to ``visit``."""

    def __init__(self, module: fx.GraphModule, visit: Callable[[fx.Node, Sequence[Any], Any], None]) -> None:
        super().__init__(module, garbage_collect_values=True)
        self._visit = visit

    def run_node(self, n: fx.Node) -> Any:
        args, _ = self.fetch_args_kwargs_from_env(n)
        result = super().run_node(n)
        self._visit(n, args, result)
        return result


def measure(
    prepared: fx.GraphModule, converted: fx.GraphModule, samples: Sequence[Sequence[Any]]
) -> tuple[Mapping[str, Noise], list[Noise]]:
    """Noise of each quantised activation, by the name of the node that gives it, and of each output tensor.

    Args:
        prepared: the model with observers, which is the float model.
        converted: the same model with integers.
        samples: positional arguments of each run.
    """
    tensors: dict[str, Noise] = {}
    outputs: list[Noise] = []
    wanted = {n.args[0].name for n in converted.graph.nodes if n.target is QUANTIZE}
    for sample in samples:
        floats: dict[str, Tensor] = {}
        done: set[str] = set()

        def keep(node: fx.Node, args: Sequence[Any], result: Any, floats: dict[str, Tensor] = floats) -> None:
            if node.name in wanted:
                floats[node.name] = result.clone()

        def compare(
            node: fx.Node,
            args: Sequence[Any],
            result: Any,
            floats: dict[str, Tensor] = floats,
            done: set[str] = done,
        ) -> None:
            if node.target is QUANTIZE:
                x, scale, zero, low, high = args[:5]
                tensor = tensors.setdefault(node.args[0].name, Noise())
                levels = torch.round(x / scale) + zero
                tensor.count += x.numel()
                tensor.saturated += int(((levels < low) | (levels > high)).sum())
            elif node.target is DEQUANTIZE:
                source = node.args[0]
                name = source.args[0].name if source.target is QUANTIZE else None
                if name in floats and name not in done:
                    done.add(name)
                    tensors[name].add(floats[name], result)

        # A graph's codegen unpacks the user's structure of inputs and outputs, as a call of the module does.
        exact = _Visitor(prepared, keep).run(*sample)
        rounded = _Visitor(converted, compare).run(*sample)
        pairs = [
            (a, b)
            for a, b in zip(pytree.tree_leaves(exact), pytree.tree_leaves(rounded), strict=True)
            if isinstance(a, Tensor)
        ]
        outputs = outputs or [Noise() for _ in pairs]
        for noise, (a, b) in zip(outputs, pairs, strict=True):
            noise.add(a, b)
    return tensors, outputs
