"""PyTorch's side of a comparison by layer: what every node of the exported graph gives; needs torch.

The graph is the one that was imported (decomposed, see ``c7x.frontend.repairs``), since its nodes are what layers are
named after. For a quantised model there are two: the simulation of the integers, and the float model it was made from.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators of quantised programs
from torch import fx
from torch.utils import _pytree as pytree

from c7x.frontend.repairs import decompose
from c7x.report.reference import Reference
from c7x.workspace import Workspace

_QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor.default
_DEQUANTIZE = torch.ops.quantized_decomposed.dequantize_per_tensor.default
_CONVOLUTIONS = frozenset(
    op.default for op in (torch.ops.aten.conv1d, torch.ops.aten.conv2d, torch.ops.aten.conv3d, torch.ops.aten.linear)
) | {torch.ops.aten.conv1d.padding, torch.ops.aten.conv2d.padding, torch.ops.aten.conv3d.padding}
_BATCH_NORM = torch.ops.aten.batch_norm.default


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A value PyTorch computes.

    Attributes:
        value: real numbers where it was quantised, else as it is.
        raw: as PyTorch has it: integers where it was quantised.
        scale, zero_point: of a quantised value, to make real numbers of the layer's integers; None for others.
        exact: the same tensor in the float model, None where there is none.
    """

    value: np.ndarray
    raw: np.ndarray
    scale: float | None = None
    zero_point: int | None = None
    exact: np.ndarray | None = None


class _Recorder(fx.Interpreter):
    """Runs a graph and keeps a copy of what the nodes ``names`` give, as in-place operators may change it later."""

    def __init__(self, module: fx.GraphModule, names: Collection[str]) -> None:
        super().__init__(module, garbage_collect_values=True)
        self.names = names
        self.values: dict[str, tuple[torch.Tensor | None, ...]] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if n.name in self.names:
            each = result if isinstance(result, (tuple, list)) else (result,)
            self.values[n.name] = tuple(t.detach().clone() if isinstance(t, torch.Tensor) else None for t in each)
        return result


def _recorded(
    reference: Reference, module: Any, inputs: Sequence[np.ndarray], names: Collection[str]
) -> dict[str, tuple[np.ndarray | None, ...]]:
    args, kwargs = reference.arguments(inputs)
    recorder = _Recorder(module, names)
    with torch.no_grad():
        recorder.run(*pytree.tree_leaves((args, kwargs)), enable_io_processing=False)
    return {n: tuple(None if t is None else t.numpy() for t in each) for n, each in recorder.values.items()}


class LayerReference:
    """The nodes of a build's exported graph, and their values for given inputs.

    Args:
        ws: the build directory.
        dtype: ``int8`` or ``int16`` of a quantised model, None for a float one.

    Raises:
        FormatError: an exported program is damaged.
    """

    def __init__(self, ws: Workspace, dtype: str | None) -> None:
        self._ws, self._dtype = ws, dtype
        self._reference = Reference(ws, f"model.{dtype}.pt2" if dtype else "model.pt2")
        self._module = decompose(self._reference.program).module()
        self._nodes: dict[str, fx.Node] = {n.name: n for n in self._module.graph.nodes if n.op == "call_function"}

    @property
    def nodes(self) -> Collection[str]:
        """Names of the nodes that compute something."""
        return self._nodes.keys()

    def quantized(self, name: str) -> str | None:
        """The node that quantises what ``name`` gives, itself included; None when none does.

        A layer that moves integers is named after a node that PyTorch computes in real numbers and quantises again.
        """
        node = self._nodes[name]
        while node.target is not _QUANTIZE:
            users = [user for user in node.users if user.op == "call_function"]
            quantizers = [user for user in users if user.target is _QUANTIZE]
            if quantizers:
                node = quantizers[0]
            else:
                return None
        return str(node.name)

    def values(
        self, inputs: Sequence[np.ndarray], wanted: Collection[tuple[str, int]]
    ) -> dict[tuple[str, int], Wanted]:
        """What PyTorch gives for result ``element`` of ``node``, for each pair in ``wanted`` that is a tensor."""
        names = {node for node, _ in wanted}
        given = _recorded(self._reference, self._module, inputs, names)
        floats = self._floats(inputs, names) if self._dtype else {}
        found = {}
        for node, element in wanted:
            each = given.get(node, ())
            raw = each[element] if element < len(each) else None
            if raw is None:
                continue
            scale, zero_point = self._parameters(node)
            found[node, element] = Wanted(
                value=raw if scale is None else to_real(raw, scale, zero_point or 0),
                raw=raw,
                scale=scale,
                zero_point=zero_point,
                exact=floats.get(node) if element == 0 else None,
            )
        return found

    def _parameters(self, name: str) -> tuple[float, int] | tuple[None, None]:
        node = self._nodes[name]
        return (float(node.args[1]), int(node.args[2])) if node.target is _QUANTIZE else (None, None)

    def _floats(self, inputs: Sequence[np.ndarray], names: Collection[str]) -> dict[str, np.ndarray]:
        """For quantised tensors among ``names``: the float model's value.

        Quantisation keeps the names of the exported graph's nodes and decomposition the order of the quantisers, so the
        n-th quantiser of the decomposed graph takes the value of the node that the n-th of the exported graph names.
        """
        simulated = [n for n in self._reference.module.graph.nodes if n.target is _QUANTIZE]
        decomposed = [n for n in self._module.graph.nodes if n.target is _QUANTIZE]
        if len(simulated) != len(decomposed):
            return {}
        source = {d.name: s.args[0].name for d, s in zip(decomposed, simulated, strict=True)}
        exact = Reference(self._ws)
        by_name = {n.name: n for n in exact.module.graph.nodes}
        folded = {n.name for n in self._reference.module.graph.nodes if n.target is _BATCH_NORM}
        chosen: dict[str, str] = {}
        for name in names:
            node = self._nodes[name]
            quantizer = node.args[0] if node.target is _DEQUANTIZE else node
            original = by_name.get(source.get(getattr(quantizer, "name", ""), ""))
            if original is not None:
                chosen[name] = _with_batch_norm(original, folded).name
        given = _recorded(exact, exact.module, inputs, set(chosen.values()))
        values = {name: given[original][0] for name, original in chosen.items() if given.get(original)}
        return {name: value for name, value in values.items() if value is not None}


def _with_batch_norm(node: fx.Node, kept: Collection[str]) -> fx.Node:
    """The node, or the batch normalisation behind it that quantisation has folded into it."""
    users = list(node.users)
    if (
        node.target in _CONVOLUTIONS
        and len(users) == 1
        and users[0].target is _BATCH_NORM
        and users[0].name not in kept
    ):
        return users[0]
    return node


def to_real(value: np.ndarray, scale: float, zero_point: int) -> np.ndarray:
    """Integers as the real numbers they stand for."""
    return ((value.astype(np.int64) - zero_point) * scale).astype(np.float32)
