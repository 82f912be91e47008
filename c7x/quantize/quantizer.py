"""``C7xMMAQuantizer``: tells PT2E which tensors to quantise for the C7x, by the table of ``c7x.quantize.rules``.

    prepared = prepare_pt2e(torch.export.export(model, inputs).module(), C7xMMAQuantizer(dtype="int8"))
    prepared(*sample)                      # for each calibration sample
    quantized = convert_pt2e(prepared)

Every tensor that must share a scale with another (operands of a concatenation, data that is only moved) is put into one
group first; a group's first place in the graph gets the observer, all others point at it.
"""

from __future__ import annotations

import operator as python_operator
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, fx
from torchao.quantization.pt2e.quantizer import (
    DerivedQuantizationSpec,
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from c7x.quantize.observers import ActivationObserver, PerChannelWeightObserver, bias_qparams, link_biases
from c7x.quantize.rules import Rule, operator, rule_of, simple_name

__all__ = ["C7xMMAQuantizer"]

_DTYPES = {"int8": torch.int8, "int16": torch.int16}
#: Rules whose operators take a clamp that follows into their own rounding.
_TAKES_CLAMP = frozenset({Rule.WEIGHTED, Rule.PRODUCT, Rule.PAIR, Rule.SCALED})
#: Rules through which a selection's demand for exact values passes on to the operators before.
_PASSES = frozenset({Rule.MOVE, Rule.CLAMP, Rule.SPLIT, Rule.JOIN, Rule.SELECT})
#: Operators that do nothing in inference; observers around them would only be in the way.
_NOTHING = frozenset({"dropout.default", "feature_dropout.default", "alpha_dropout.default", "alias.default"})
#: Operators that pass a mask's huge values on, beside those of ``_SPREADS``.
_MASKING = frozenset({"masked_fill", "where", "sub", "div"})
_SPREADS = frozenset({Rule.PAIR, Rule.SCALED, Rule.MOVE, Rule.SPLIT, Rule.JOIN})
#: A constant operand beyond this is a mask, and one scale for it and for the values it masks would keep neither.
_MASK = 1e4


@dataclass
class _Use:
    """How one operator is quantised: operands with a scale of their own, and whether its result has one."""

    data: list[fx.Node] = field(default_factory=list)
    weight: fx.Node | None = None
    weight_axis: int = 0
    bias: fx.Node | None = None
    result: bool = True
    #: Operands whose scale is the result's.
    shares: list[fx.Node] = field(default_factory=list)


class _Groups:
    """Union-find over tensors, each named by the node that gives it."""

    def __init__(self) -> None:
        self._parent: dict[fx.Node, fx.Node] = {}

    def find(self, node: fx.Node) -> fx.Node:
        while (parent := self._parent.get(node, node)) is not node:
            self._parent[node] = self._parent.get(parent, parent)
            node = parent
        return node

    def join(self, a: fx.Node, b: fx.Node) -> None:
        self._parent[self.find(a)] = self.find(b)


class C7xMMAQuantizer(Quantizer):
    """Symmetric int8 or int16 for activations (per tensor) and weights (per output channel).

    Args:
        dtype: ``"int8"`` or ``"int16"``, for activations and weights alike.
        symmetric_activations: False gives int8 activations a zero point.
        bias_int32: biases of convolutions and linear layers become int32 in the graph, in units of
            scale(data) * scale(weight); default: for int8. An int16 model's biases can need more than 32 bits.
        scale: how an int8 activation's range is chosen (weights and int16 keep the whole of theirs): ``"mse"`` for the
            smallest square error on the calibration data, ``"minmax"`` for the whole range, ``"pow2"`` for scales that
            are powers of two, weights' too.
        keep_float: operators by name (``"add"``, ``"softmax"``) that stay float.

    Raises:
        ValueError: ``dtype`` or ``scale`` is something else.
    """

    def __init__(
        self,
        dtype: str = "int8",
        symmetric_activations: bool = True,
        *,
        bias_int32: bool | None = None,
        scale: Literal["mse", "minmax", "pow2"] = "mse",
        keep_float: Collection[str] = (),
    ) -> None:
        super().__init__()
        if dtype not in _DTYPES:
            raise ValueError(f"C7xMMAQuantizer: dtype is {dtype!r}, and the MMA multiplies int8 and int16 only")
        if scale not in ("mse", "minmax", "pow2"):
            raise ValueError(f"C7xMMAQuantizer: scale is {scale!r}, not 'mse', 'minmax' or 'pow2'")
        if dtype == "int16" and not symmetric_activations:
            warnings.warn(
                "int16 kernels have no zero points: activations are quantised symmetrically all the same", stacklevel=2
            )
            symmetric_activations = True
        self.dtype = dtype
        self.symmetric_activations = symmetric_activations
        self.bias_int32 = dtype == "int8" if bias_int32 is None else bias_int32
        self.scale = scale
        self.keep_float = frozenset(simple_name(name) for name in keep_float)
        limits = torch.iinfo(_DTYPES[dtype])
        pow2 = scale == "pow2"
        self._data = QuantizationSpec(
            dtype=_DTYPES[dtype],
            quant_min=limits.min,
            quant_max=limits.max,
            qscheme=torch.per_tensor_symmetric if symmetric_activations else torch.per_tensor_affine,
            observer_or_fake_quant_ctr=ActivationObserver.with_args(rule=scale),
        )
        self._weights = {
            axis: QuantizationSpec(
                dtype=_DTYPES[dtype],
                quant_min=limits.min,
                quant_max=limits.max,
                qscheme=torch.per_channel_symmetric,
                ch_axis=axis,
                observer_or_fake_quant_ctr=PerChannelWeightObserver.with_args(pow2=pow2),
            )
            for axis in (0, 1)
        }

    # --- torchao's interface ----------------------------------------------------------------------------------

    def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
        """Takes out dropout and other operators that do nothing in inference."""
        for node in list(model.graph.nodes):
            if node.op != "call_function" or operator(node.target) not in _NOTHING:
                continue
            if "dropout" in operator(node.target) and (node.args[2] if len(node.args) > 2 else True):
                continue
            node.replace_all_uses_with(node.args[0])
            model.graph.erase_node(node)
        model.recompile()
        return model

    def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
        """Puts the annotations into the nodes' ``meta``; annotated nodes stay as they are."""
        uses, groups = _decide(model, self.keep_float)
        first: dict[Any, Any] = {}

        def shared(key: Any, place: Any, spec: QuantizationSpec) -> Any:
            if key in first:
                return SharedQuantizationSpec(first[key])
            first[key] = place
            return spec

        for node, use in uses.items():
            if Q_ANNOTATION_KEY in node.meta and node.meta[Q_ANNOTATION_KEY]._annotated:
                continue
            annotation = QuantizationAnnotation(_annotated=True, allow_implicit_sharing=False)
            operands = annotation.input_qspec_map
            for value in dict.fromkeys([*use.data, *use.shares]):
                operands[value] = shared(groups.find(value), (value, node), self._data)
            if use.weight is not None:
                key = ("weight", use.weight, use.weight_axis)
                operands[use.weight] = shared(key, (use.weight, node), self._weights[use.weight_axis])
                if use.bias is not None and self.bias_int32 and use.bias is not use.weight:
                    operands[use.bias] = _bias_spec((use.data[0], node), (use.weight, node))
            if use.result:
                annotation.output_qspec = shared(groups.find(node), node, self._data)
            node.meta[Q_ANNOTATION_KEY] = annotation
        return model

    def validate(self, model: fx.GraphModule) -> None:
        """Warns of weights that are annotated per tensor: kernels take a scale for each output channel."""
        for node in model.graph.nodes:
            annotation = node.meta.get(Q_ANNOTATION_KEY)
            if node.op != "call_function" or annotation is None or rule_of(node.target) is not Rule.WEIGHTED:
                continue
            spec = annotation.input_qspec_map.get(node.args[1])
            if isinstance(spec, QuantizationSpec) and spec.qscheme in (
                torch.per_tensor_symmetric,
                torch.per_tensor_affine,
            ):
                warnings.warn(
                    f"{node.name}: the weight is quantised per tensor; per channel is more accurate", stacklevel=2
                )

    def prepare_obs_or_fq_callback(self, model: fx.GraphModule, edge_or_node_to_obs_or_fq: dict[Any, Any]) -> None:
        """Lets weights' observers see the biases that will be in their scale."""
        biases = {}
        for node in model.graph.nodes:
            annotation = node.meta.get(Q_ANNOTATION_KEY)
            for operand, spec in (annotation.input_qspec_map if annotation else {}).items():
                if isinstance(spec, DerivedQuantizationSpec) and operand.op == "get_attr":
                    biases[(operand, node)] = _attribute(model, operand)
        link_biases(edge_or_node_to_obs_or_fq, biases)


def _bias_spec(data: tuple[fx.Node, fx.Node], weight: tuple[fx.Node, fx.Node]) -> DerivedQuantizationSpec:
    limits = torch.iinfo(torch.int32)
    return DerivedQuantizationSpec(
        derived_from=[data, weight],
        derive_qparams_fn=bias_qparams,
        dtype=torch.int32,
        quant_min=limits.min,
        quant_max=limits.max,
        qscheme=torch.per_channel_symmetric,
        ch_axis=0,
    )


# --- decisions ------------------------------------------------------------------------------------------------


def _attribute(model: fx.GraphModule, node: fx.Node) -> Any:
    found: Any = model
    for part in str(node.target).split("."):
        found = getattr(found, part)
    return found


def _value(node: Any) -> Tensor | None:
    """The traced value of a node when it is a float32 tensor."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value if isinstance(value, Tensor) and value.dtype == torch.float32 else None


def _is_huge(number: Any) -> bool:
    return isinstance(number, int | float) and not abs(number) < _MASK


def _argument(node: fx.Node, position: int, name: str, default: Any = None) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


class _Graph:
    """The questions that the decisions ask of a model's graph."""

    def __init__(self, model: fx.GraphModule, keep_float: Collection[str]) -> None:
        self.model = model
        self.nodes: list[fx.Node] = list(model.graph.nodes)
        self.keep_float = keep_float
        self.constants: set[fx.Node] = set()
        for node in self.nodes:
            inputs = node.all_input_nodes
            if node.op == "get_attr" or (node.op == "call_function" and inputs and self.constants.issuperset(inputs)):
                self.constants.add(node)
        self.exact = self._exact()
        self.masked = self._masked()

    def rule(self, node: fx.Node) -> Rule | None:
        if node.op != "call_function" or simple_name(node.target) in self.keep_float:
            return None
        return rule_of(node.target)

    def _exact(self) -> set[fx.Node]:
        """Operators from which a selection is reached by moving data only (kernels.md 7, exclusion)."""
        found: set[fx.Node] = set()
        for node in reversed(self.nodes):
            if node.op != "call_function":
                continue
            if rule_of(node.target) is Rule.SELECT:
                found.add(node)
                continue
            through = (u for u in node.users if rule_of(u.target) in _PASSES or u.target is python_operator.getitem)
            if any(user in found for user in through):
                found.add(node)
        return found

    def _masked(self) -> set[fx.Node]:
        """Tensors with values that no scale can hold beside others, put there by a constant mask."""
        found: set[fx.Node] = set()
        for node in self.nodes:
            if node.op == "get_attr":
                value = _attribute(self.model, node)
                if isinstance(value, Tensor) and value.is_floating_point() and not bool((value.abs() < _MASK).all()):
                    found.add(node)
            elif node.op == "call_function":
                name = simple_name(node.target)
                fills = name == "masked_fill" and _is_huge(node.args[2])
                spreads = rule_of(node.target) in _SPREADS or name in _MASKING or name == "getitem"
                if fills or (spreads and not found.isdisjoint(node.all_input_nodes)):
                    found.add(node)
        return found

    def clamp_after(self, node: fx.Node) -> fx.Node | None:
        """The clamp that is the only reader of ``node``, if that is how it is read."""
        if len(node.users) != 1:
            return None
        (user,) = node.users
        is_clamp = self.rule(user) is Rule.CLAMP and user.args[0] is node and user not in self.exact
        return user if is_clamp and _value(user) is not None else None

    def ends_model(self, node: fx.Node) -> bool:
        return all(user.op == "output" for user in node.users)


def _decide(model: fx.GraphModule, keep_float: Collection[str]) -> tuple[dict[fx.Node, _Use], _Groups]:
    """Every quantised operator in graph order with its use, and the groups of tensors that share a scale."""
    graph = _Graph(model, keep_float)
    found: dict[fx.Node, _Use] = {}
    clamped: set[fx.Node] = set()
    quantized: set[fx.Node] = set()
    for node in graph.nodes:
        rule = graph.rule(node)
        if rule is None or node in graph.exact or node in graph.constants:
            if node.target is python_operator.getitem and node.args[0] in found and _value(node) is not None:
                # One result of a split: its scale is that of what was split.
                found[node] = _Use(shares=[])
                quantized.add(node)
            continue
        if node in clamped:
            found[node] = _Use()
            quantized.add(node)
            continue
        gate = _gate(node, found) if rule is Rule.SCALED else None
        if gate is not None:
            # One curve of one tensor: no rounding in between.
            found[gate].result = False
            quantized.discard(gate)
            rule = Rule.CURVE
        use = _CHOICES[rule](graph, node, quantized) if rule in _CHOICES else None
        if use is None or not graph.masked.isdisjoint([*use.data, *use.shares]):
            continue
        if rule in _TAKES_CLAMP and (clamp := graph.clamp_after(node)) is not None:
            use.result = False
            clamped.add(clamp)
        found[node] = use
        if use.result:
            quantized.add(node)
    _move_before_readers(graph, found)
    ordered = {node: found[node] for node in graph.nodes if node in found}
    groups = _Groups()
    for node, use in ordered.items():
        if node.target is python_operator.getitem:
            groups.join(node, ordered[node.args[0]].data[0])
        for operand in use.shares:
            groups.join(operand, node)
    return ordered, groups


def _move_before_readers(graph: _Graph, found: dict[fx.Node, _Use]) -> None:
    """Quantise before data is moved, not after, where every reader of the moved data wants it quantised anyway."""
    for node in reversed(graph.nodes):
        if node in found or node in graph.exact or node in graph.masked or node in graph.constants or not node.users:
            continue
        if graph.rule(node) not in (Rule.MOVE, Rule.JOIN):
            continue
        operands = _operands(node)
        wanted = all(user in found and node in [*found[user].data, *found[user].shares] for user in node.users)
        if wanted and operands is not None and _can_move(node):
            found[node] = _Use(shares=operands)


def _operands(node: fx.Node) -> list[fx.Node] | None:
    """The tensors that an operator moves; None when one of them is no float32 tensor."""
    given = node.args[0] if isinstance(node.args[0], list | tuple) else [node.args[0]]
    if _value(node) is None or any(_value(operand) is None for operand in given):
        return None
    return list(given)


def _can_move(node: fx.Node) -> bool:
    """Whether the result holds nothing but values of the operand, and zeros."""
    name = operator(node.target)
    if name == "pad.default":
        return _argument(node, 2, "mode", "constant") != "constant" or not _argument(node, 3, "value", 0.0)
    return name != "constant_pad_nd.default" or not _argument(node, 2, "value", 0.0)


def _weighted(graph: _Graph, node: fx.Node, quantized: set[fx.Node]) -> _Use | None:
    data, weight, bias = node.args[0], node.args[1], _argument(node, 2, "bias")
    value = _value(data)
    if value is None or _value(weight) is None or weight not in graph.constants:
        return None
    if operator(node.target) == "convolution.default" and node.args[6]:
        return None  # transposed
    if operator(node.target).startswith("conv") and value.dim() not in (3, 4):
        return None
    constant = isinstance(bias, fx.Node) and bias.op == "get_attr"
    return _Use(data=[data], weight=weight, bias=bias if constant else None)


def _product(graph: _Graph, node: fx.Node, quantized: set[fx.Node]) -> _Use | None:
    left, right = node.args[-2:] if operator(node.target) == "addmm.default" else node.args[:2]
    matrix = _value(right)
    if _value(left) is None or matrix is None or left in graph.constants:
        return None
    if right in graph.constants and matrix.dim() == 2:
        return _Use(data=[left], weight=right, weight_axis=1)
    return _Use(data=[left, right])


def _pair(graph: _Graph, node: fx.Node, quantized: set[fx.Node]) -> _Use | None:
    left, right = node.args[:2]
    a, b = _value(left), _value(right)
    if a is None or b is None:
        return None
    if any(rule_of(user.target) is Rule.NORMALISED for user in node.users):
        return None  # scores plus a mask
    per_channel = rule_of(node.target) is Rule.SCALED and _is_channel_scale(a, b)
    if a.shape != b.shape and not per_channel:
        return None
    return _Use(data=[left, right])


def _is_channel_scale(a: Tensor, b: Tensor) -> bool:
    """[N, C, H, W] and [N, C, 1, 1], in either order."""
    small, large = (a, b) if a.numel() < b.numel() else (b, a)
    return bool(small.dim() == large.dim() == 4 and small.shape[:2] == large.shape[:2] and small.shape[2:].numel() == 1)


def _pool(graph: _Graph, node: fx.Node, quantized: set[fx.Node]) -> _Use | None:
    data = node.args[0]
    value = _value(data)
    if value is None:
        return None
    if operator(node.target) == "mean.dim":
        dims = node.args[1] if isinstance(node.args[1], list | tuple) else [node.args[1]]
        axes = sorted(int(d) % value.dim() for d in dims if d is not None)
        if not axes or axes != list(range(axes[0], axes[-1] + 1)):
            return None  # of axes with others in between, or of everything
    return _Use(data=[data])


def _curve(graph: _Graph, node: fx.Node, quantized: set[fx.Node]) -> _Use | None:
    if _value(node.args[0]) is None or _value(node) is None:
        return None
    return _Use(data=[node.args[0]], result=not graph.ends_model(node))


def _gate(node: fx.Node, found: Mapping[fx.Node, _Use]) -> fx.Node | None:
    """The quantised sigmoid or hardsigmoid of a product's first operand, which only this product reads; operands may
    stand the other way round, and do not after this."""
    for tensor, gate in (node.args[:2], node.args[1::-1]):
        if (
            isinstance(gate, fx.Node)
            and gate in found
            and simple_name(gate.target) in ("sigmoid", "hardsigmoid")
            and gate.args[0] is tensor
            and len(gate.users) == 1
        ):
            node.args = (tensor, gate)
            return gate
    return None


def _normalised(graph: _Graph, node: fx.Node, quantized: set[fx.Node]) -> _Use | None:
    if node.args[0] in quantized:
        return _curve(graph, node, quantized)
    # Scores times a number: the kernel takes the number into the scale of what it reads.
    scores = node.args[0]
    while simple_name(scores.target) in ("mul", "div") and isinstance(scores.args[1], int | float):
        scores = scores.args[0]
    return _Use(result=not graph.ends_model(node)) if scores in quantized else None


def _clamp(graph: _Graph, node: fx.Node, quantized: set[fx.Node]) -> _Use | None:
    return _Use(shares=[node.args[0]]) if node.args[0] in quantized else None


def _move(graph: _Graph, node: fx.Node, quantized: set[fx.Node]) -> _Use | None:
    operands = _operands(node)
    if operands is None or not _can_move(node) or not quantized.intersection(operands):
        return None
    return _Use(shares=operands)


def _join(graph: _Graph, node: fx.Node, quantized: set[fx.Node]) -> _Use | None:
    """Only tensors that are quantised anyway: one scale for pixels and probabilities would keep the pixels alone."""
    operands = _operands(node)
    if operands is None or quantized.isdisjoint(operands):
        return None
    if not all(operand in quantized or operand.op == "placeholder" for operand in operands):
        return None
    return _Use(shares=operands)


def _split(graph: _Graph, node: fx.Node, quantized: set[fx.Node]) -> _Use | None:
    if node.args[0] not in quantized:
        return None
    return _Use(data=[node.args[0]], result=False)


_Choice = Callable[[_Graph, fx.Node, set[fx.Node]], "_Use | None"]
_CHOICES: dict[Rule, _Choice] = {
    Rule.WEIGHTED: _weighted,
    Rule.PRODUCT: _product,
    Rule.PAIR: _pair,
    Rule.SCALED: _pair,
    Rule.POOL: _pool,
    Rule.CURVE: _curve,
    Rule.NORMALISED: _normalised,
    Rule.CLAMP: _clamp,
    Rule.MOVE: _move,
    Rule.JOIN: _join,
    Rule.SPLIT: _split,
}


def quantized_operators(model: fx.GraphModule) -> Iterable[fx.Node]:
    """The annotated operators of a model, in graph order."""
    return (n for n in model.graph.nodes if n.op == "call_function" and Q_ANNOTATION_KEY in n.meta)
