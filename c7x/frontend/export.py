"""The ``export`` stage: the user's model becomes a static program of ``torch.export``, with PyTorch's own answers kept.

``expected/`` holds what the model as the user wrote it gives for the example inputs, before any rewriting: it is what
every later stage is compared with.
"""

from __future__ import annotations

import io
import json
import keyword
import re
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.export.graph_signature import ConstantArgument, InputKind, TensorArgument
from torch.utils import _pytree as pytree

from c7x.errors import ModelError, UnsupportedError, UsageError
from c7x.frontend.load import Source, load_source, own_inputs, user_traceback
from c7x.frontend.quiet import quiet, silent
from c7x.frontend.source import innermost_user_frame, is_library, operator_name, shorten, shown_path
from c7x.frontend.support import Finding, SupportError, collect
from c7x.reporter import SILENT, Reporter
from c7x.workspace import Workspace

EXTRA_FILE = "c7x.json"

#: What a tensor of the model may hold; anything else is refused by the tensor's name.
SUPPORTED = (
    torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool,
)  # fmt: skip

_DTYPE_HINTS: Mapping[torch.dtype, str] = {
    torch.float16: "call model.float(): the C7x code computes in float32",
    torch.bfloat16: "call model.float(): the C7x code computes in float32",
    torch.complex64: "keep real and imaginary parts in two float32 tensors",
    torch.complex128: "keep real and imaginary parts in two float64 tensors",
}


def export_stage(
    ws: Workspace, *, source: Path, bind: Mapping[str, int] | None = None, reporter: Reporter = SILENT
) -> dict[str, Any]:
    """Export a model: writes ``model.pt2``, ``inputs/input_N.npy`` and ``expected/output_N.npy``.

    Args:
        source: a ``model.py`` or ``model.pt2``.
        bind: extents for dynamic dimensions by name (``{"batch": 1}``).

    Returns:
        ``inputs`` and ``outputs`` (lists of name, dtype, shape), ``parameters`` (number of elements), ``seconds``.

    Raises:
        ModelError: the file or the model is not sound. UnsupportedError: dtype, dynamic shape, or a construct that
        torch.export cannot follow (then with the source line). UsageError: ``bind`` names no dynamic dimension.
    """
    start = time.perf_counter()
    with ws.stage("export", inputs=[source]) as run:
        reporter.progress(f"loading {source.name}")
        loaded = load_source(source, reporter=reporter)
        check_dtypes(loaded)
        loaded = bind_dimensions(loaded, bind or {})
        reporter.progress("exporting with torch.export")
        program = export_program(loaded)
        check_storage(program, loaded.root)
        _warn_state(program, reporter)
        names = port_names(loaded, program)
        facts = {"names": names, "source": source.name}
        run.write_bytes("model.pt2", save_program(program, root=loaded.root, facts=facts))
        inputs = list(own_inputs(tuple(loaded.tensors)))
        reporter.progress("computing PyTorch's answers")
        # After saving: a model that updates its buffers in forward() would otherwise be saved in its second state.
        expected = eager_outputs(loaded, reporter=reporter)
        if len(expected) != len(names["outputs"]):
            raise ModelError(
                f"the model gave {len(expected)} tensors, its exported program {len(names['outputs'])}",
                cause="forward() returns something else on each call",
                hint="return the same structure every time",
            )
        for folder, stem, tensors in (("inputs", "input", inputs), ("expected", "output", expected)):
            for index, tensor in enumerate(tensors):
                buffer = io.BytesIO()
                np.save(buffer, tensor.numpy(), allow_pickle=False)
                run.write_bytes(f"{folder}/{stem}_{index}.npy", buffer.getvalue())
        run.tools["torch"] = torch.__version__
        run.options["bind"] = dict(sorted((bind or {}).items()))
        run.facts["model"] = source.stem
        return {
            "inputs": _ports(names["inputs"], inputs),
            "outputs": _ports(names["outputs"], expected),
            "parameters": int(sum(p.numel() for p in loaded.model.parameters())),
            "seconds": round(time.perf_counter() - start, 3),
        }


def _ports(names: Sequence[str], tensors: Sequence[Tensor]) -> list[dict[str, Any]]:
    return [
        {"name": n, "dtype": str(t.dtype).removeprefix("torch."), "shape": list(t.shape)}
        for n, t in zip(names, tensors, strict=True)
    ]


# --- checks ---------------------------------------------------------------------------------------------------


def check_dtypes(loaded: Source) -> None:
    """Refuse tensors of a dtype c7x does not compile, naming the tensor, before any work (UnsupportedError)."""
    named: list[tuple[str, Tensor]] = [(f"input {index}", tensor) for index, tensor in enumerate(loaded.tensors)]
    named += [(f"parameter {n}", t) for n, t in loaded.model.named_parameters()]
    named += [(f"buffer {n}", t) for n, t in loaded.model.named_buffers()]
    for name, tensor in named:
        if tensor.layout != torch.strided:
            raise UnsupportedError(f"{name} is a sparse tensor ({tensor.layout})", hint="call .to_dense() on it")
        if tensor.is_quantized:
            raise UnsupportedError(
                f"{name} has the quantized dtype {str(tensor.dtype).removeprefix('torch.')}",
                cause="the model was quantized with PyTorch's eager mode",
                hint="give c7x the float model, and let it quantize: c7x compile --quantize int8",
            )
        if tensor.dtype not in SUPPORTED:
            raise UnsupportedError(
                f"{name} has dtype {str(tensor.dtype).removeprefix('torch.')}, which c7x does not compile",
                cause="float32, float64, 8 to 64-bit integers and bool are supported",
                hint=_DTYPE_HINTS.get(tensor.dtype, "convert it to float32"),
            )
        if tensor.device.type != "cpu":
            meta = tensor.device.type == "meta"
            raise UnsupportedError(
                f"{name} is on the device {tensor.device}",
                cause="it has a shape and no values" if meta else "values are read where c7x runs, on the CPU",
                hint="load the weights in make_model()" if meta else "call model.cpu() in make_model()",
            )


# --- dynamic dimensions ---------------------------------------------------------------------------------------


class _Dimension:
    """A dynamic dimension: all places where it occurs as (input index, axis).

    ``name`` is the user's, from ``dynamic_shapes``; a saved program has only symbols of torch's in its place
    (``declared`` is false), and the aliases are what c7x calls it.
    """

    def __init__(self, name: str, low: int, high: int | None, *, declared: bool = True) -> None:
        self.name, self.low, self.high, self.declared = name, low, high, declared
        self.places: list[tuple[int, int]] = []
        self.aliases: list[str] = []

    @property
    def shown(self) -> str:
        """The name to type: the user's own, else ``batch`` or ``input0_dim1``."""
        return self.name if self.declared else self.aliases[-1 if self.aliases[-1] == "batch" else 0]


def bind_dimensions(loaded: Source, bind: Mapping[str, int]) -> Source:
    """The model with its dynamic dimensions fixed: example inputs cut or repeated to the bound extents.

    Raises:
        UnsupportedError: a dynamic dimension is left unbound; the message names it and what to type.
        UsageError: ``bind`` names an unknown dimension, or an extent outside its range.
    """
    dimensions = _program_dimensions(loaded) if loaded.program is not None else _declared_dimensions(loaded)
    extents: dict[str, int] = {}
    for name, extent in bind.items():
        found = [d for d in dimensions if name == d.name or name in d.aliases]
        if not found:
            known = "; ".join(_described(loaded, d) for d in dimensions)
            raise UsageError(
                f"--bind {name}={extent}: the model has no dynamic dimension {name}",
                cause=f"its dynamic dimensions are: {known}" if known else "all its dimensions are fixed already",
                hint="use one of these names" if known else "leave --bind out",
            )
        dimension = found[0]
        if extent < max(dimension.low, 1) or (dimension.high is not None and extent > dimension.high):
            limit = f"{dimension.low} to {dimension.high if dimension.high is not None else 'any'}"
            raise UsageError(
                f"--bind {name}={extent}: {_described(loaded, dimension)} takes {limit}",
                cause="the exported program was traced, or declared, for sizes in that range",
                hint="bind a value in that range",
            )
        extents[dimension.name] = extent
    open_ones = [d for d in dimensions if d.name not in extents]
    if open_ones:
        listed = "; ".join(_described(loaded, d) for d in open_ones)
        shown = " ".join(f"--bind {d.shown}={_example_extent(loaded, d)}" for d in open_ones)
        raise UnsupportedError(
            f"the model has dynamic dimensions: {listed}",
            cause="C7x code is built for fixed shapes: every buffer's address is known when it is compiled",
            hint=f"fix them with {shown}",
        )
    if not dimensions:
        return loaded
    return _with_extents(loaded, dimensions, extents)


def _described(loaded: Source, dimension: _Dimension) -> str:
    """``batch (dimension 0 of input 0, 4 in the example)``."""
    places = [f"dimension {axis} of input {index}" for index, axis in dimension.places]
    index, axis = dimension.places[0]
    return f"{dimension.shown} ({', '.join(places)}; {int(loaded.tensors[index].shape[axis])} in the example)"


def _example_extent(loaded: Source, dimension: _Dimension) -> int:
    index, axis = dimension.places[0]
    return max(1 if axis == 0 and dimension.low <= 1 else int(loaded.tensors[index].shape[axis]), dimension.low, 1)


def _declared_dimensions(loaded: Source) -> list[_Dimension]:
    """Dimensions named by ``dynamic_shapes`` in model.py (a dict or tuple as torch.export takes it)."""
    shapes = loaded.dynamic_shapes
    if shapes is None:
        return []
    per_input = list(shapes.values()) if isinstance(shapes, Mapping) else list(shapes)
    found: dict[str, _Dimension] = {}
    for index, spec in enumerate(per_input):
        axes = spec.items() if isinstance(spec, Mapping) else enumerate(spec or ())
        for axis, dim in axes:
            if dim is None or isinstance(dim, int):
                continue
            name = dim if isinstance(dim, str) else getattr(dim, "__name__", None) or f"input{index}_dim{axis}"
            low, high = getattr(dim, "min", None), getattr(dim, "max", None)
            bounded = isinstance(high, int) and high < 1 << 40
            entry = found.setdefault(
                name, _Dimension(name, low if isinstance(low, int) else 1, high if bounded else None)
            )
            entry.places.append((index, int(axis)))
    return list(found.values())


def _program_dimensions(loaded: Source) -> list[_Dimension]:
    """Symbols in the shapes of a loaded program's inputs."""
    program = loaded.program
    assert program is not None
    found: dict[str, _Dimension] = {}
    for index, value in enumerate(_input_metas(program)):
        for axis, extent in enumerate(value.shape):
            if not isinstance(extent, torch.SymInt):
                continue
            symbols = sorted(extent.node.expr.free_symbols, key=str)
            for symbol in symbols:
                limits = program.range_constraints.get(symbol)
                low = int(limits.lower) if limits is not None else 1
                high = _finite(limits.upper) if limits is not None else None
                entry = found.setdefault(str(symbol), _Dimension(str(symbol), low, high, declared=False))
                entry.places.append((index, axis))
                entry.aliases.append(f"input{index}_dim{axis}")
    leading = [d for d in found.values() if all(axis == 0 for _, axis in d.places)]
    if len(leading) == 1:
        leading[0].aliases.append("batch")
    return list(found.values())


def _finite(value: Any) -> int | None:
    try:
        number = int(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return number if number < 1 << 40 else None


def _input_metas(program: torch.export.ExportedProgram) -> list[Tensor]:
    wanted = [s.arg.name for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    metas = {n.name: n.meta.get("val") for n in program.graph.find_nodes(op="placeholder")}
    return [metas[name] for name in wanted if isinstance(metas.get(name), Tensor)]


def _with_extents(loaded: Source, dimensions: Sequence[_Dimension], extents: Mapping[str, int]) -> Source:
    import dataclasses

    leaves, spec = pytree.tree_flatten(loaded.inputs)
    tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    for place, leaf_index in enumerate(tensors):
        tensor = leaves[leaf_index]
        for axis in range(tensor.dim()):
            extent = _bound_extent(loaded, dimensions, extents, place, axis)
            if extent is not None and extent != tensor.shape[axis]:
                index = torch.arange(extent) % max(int(tensor.shape[axis]), 1)
                tensor = tensor.index_select(axis, index)
        leaves[leaf_index] = tensor
    return dataclasses.replace(loaded, inputs=pytree.tree_unflatten(leaves, spec))


def _bound_extent(
    loaded: Source, dimensions: Sequence[_Dimension], extents: Mapping[str, int], place: int, axis: int
) -> int | None:
    if loaded.program is None:
        named = [d for d in dimensions if (place, axis) in d.places]
        return extents[named[0].name] if named else None
    extent = _input_metas(loaded.program)[place].shape[axis]
    if not isinstance(extent, torch.SymInt):
        return None
    # The extent may be an expression of several dimensions, such as 2*s0.
    expression = extent.node.expr
    return int(expression.subs({s: extents[str(s)] for s in expression.free_symbols}))


# --- export ---------------------------------------------------------------------------------------------------


def export_program(loaded: Source) -> torch.export.ExportedProgram:
    """The static program (UnsupportedError with the source line when torch.export cannot follow the model)."""
    symbolic = loaded.program is not None and any(
        isinstance(s, torch.SymInt) for value in _input_metas(loaded.program) for s in value.shape
    )
    if loaded.program is not None and not symbolic:
        return loaded.program
    try:
        with torch.no_grad(), quiet(), silent():
            # Non-strict: runs the user's Python as it is, and keeps the user's lines in the graph.
            return _flat_outputs(torch.export.export(loaded.model, loaded.inputs, strict=False))
    except Exception as error:
        raise _export_failed(error, loaded) from error


def _flat_outputs(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with its outputs as one flat tuple.

    A .pt2 holds the output structure by registered names, which named tuples such as torch.topk's result do not have;
    the compiled model's outputs are a flat list anyway.
    """
    signature = program.module_call_graph[0].signature
    assert signature is not None and signature.out_spec is not None
    leaves = signature.out_spec.num_leaves
    signature.out_spec = pytree.tree_flatten(tuple(range(leaves)))[1]
    return program


def _export_failed(error: Exception, loaded: Source) -> Exception:
    import traceback

    text = str(error)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not is_library(f.filename)]
    package = str(Path(__file__).resolve().parent.parent)
    users = [f for f in frames if not f.filename.startswith(package)]
    line = f"{shown_path(users[-1].filename, loaded.root)}:{users[-1].lineno}" if users else ""
    code = (users[-1].line or "") if users else ""
    kind = type(error).__name__
    unsupported = re.search(r"(?:operator|for) ([A-Za-z_]\w*[.:]+\w+(?:\.\w+)?)", text)
    if "DataDependent" in kind or "data-dependent" in text.lower() or "unbacked" in text.lower():
        finding = Finding(
            op=code or "a branch on data",
            source=line,
            reason="control flow or a shape that depends on the data (data-dependent)",
            hint="torch.where(condition, a, b) instead of if; a fixed shape instead of a mask",
        )
        return SupportError(collect([finding]), control_flow=True)
    if unsupported and ("fake" in text.lower() or "meta" in text.lower()):
        name = unsupported[1].replace("::", ".")
        finding = Finding(
            op=name,
            source=line,
            reason="a custom operator without a fake (meta) implementation",
            hint="write it with torch operators",
        )
        return SupportError(collect([finding]))
    # The model may simply be broken: then it fails without torch.export, too, and that message is the better one.
    try:
        eager_outputs(loaded)
    except ModelError as broken:
        return broken
    first = (text.strip().splitlines() or [kind])[0]
    return UnsupportedError(
        f"torch.export cannot follow the model{f' at {line}' if line else ''}: {kind}: {first}",
        cause=f"this line does something a graph cannot hold: {code}" if code else None,
        hint="use tensor operations only between inputs and outputs of forward()",
    )


#: dtypes of quantized tensors, which tracing shows in the arguments of their operator only.
_QUANTIZED = (torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4)


def check_storage(program: torch.export.ExportedProgram, root: Path) -> None:
    """Refuse sparse and quantized tensors inside a program (SupportError with operator and line)."""
    findings = []
    for node in program.graph.nodes:
        values = pytree.tree_leaves(node.meta.get("val"))
        if any(isinstance(v, Tensor) and v.layout != torch.strided for v in values):
            reason, hint = "a sparse tensor", "keep it dense: a mask, or zeros in an ordinary tensor"
        elif any(v in _QUANTIZED for v in pytree.tree_leaves((node.args, node.kwargs)) if isinstance(v, torch.dtype)):
            reason, hint = "a tensor of PyTorch's older, eager quantization", "compile the float32 model"
        else:
            continue
        frame = innermost_user_frame(node.meta.get("stack_trace") or "")
        source = f"{shown_path(frame[0], root)}:{frame[1]}" if frame else ""
        findings.append(Finding(op=operator_name(node), source=source, reason=reason, hint=hint))
    if findings:
        raise SupportError(collect(findings))


def _warn_state(program: torch.export.ExportedProgram, reporter: Reporter) -> None:
    buffers, inputs = written_placeholders(program)
    if buffers:
        reporter.warn(
            f"forward() updates the model's buffers ({', '.join(buffers)}); the compiled model starts every run from "
            "the values they have now"
        )
    if inputs:
        reporter.warn(f"forward() writes into its inputs ({', '.join(inputs)}); the compiled model leaves inputs alone")


def written_placeholders(program: torch.export.ExportedProgram) -> tuple[list[str], list[str]]:
    """Buffers and inputs that the graph writes into, itself or through views of them (sorted names)."""
    signature = program.graph_signature
    written = set(signature.buffers_to_mutate) | set(signature.user_inputs_to_mutate)
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.is_mutable:
            continue
        for argument, value in zip(schema.arguments, node.args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                written.add(_base(value).name)
    targets = {s.arg.name: (s.kind, s.target) for s in signature.input_specs}
    found = [targets[name] for name in written if name in targets]
    buffers = {str(target) for kind, target in found if kind is InputKind.BUFFER}
    inputs = {name for name in written if name in targets and targets[name][0] is InputKind.USER_INPUT}
    mutated = set(signature.buffers_to_mutate.values())
    return sorted(buffers | mutated), sorted(inputs | set(signature.user_inputs_to_mutate.values()))


def _base(node: Any) -> Any:
    """The node whose memory ``node`` shows: views and in-place operations are followed to where they start."""
    while node.op == "call_function":
        schema = getattr(node.target, "_schema", None)
        first = schema.arguments[0] if schema is not None and schema.arguments else None
        if first is None or first.alias_info is None or not node.args or not hasattr(node.args[0], "op"):
            return node
        node = node.args[0]
    return node


def eager_outputs(loaded: Source, *, reporter: Reporter = SILENT) -> list[Tensor]:
    """What the model as written gives for copies of its inputs: one thread, deterministic, compact tensors.

    Attention goes through PyTorch's ordinary operators, as in the exported program. A warning tells when the shortcut
    that ``nn.TransformerEncoder`` takes for padded batches gives something else.

    Raises:
        ModelError: the model fails on its own example inputs, or returns something that is no tensor.
    """
    try:
        with _one_thread(), torch.no_grad(), _attention_shortcut(False):
            result = _call(loaded)
    except Exception as error:
        raise ModelError(
            f"the model fails on its example inputs:\n{user_traceback(error, loaded.root)}",
            cause="the example inputs do not fit forward(), or an error in the model's own code",
            hint="call model(*example_inputs) in Python",
        ) from error
    outputs = []
    for leaf in pytree.tree_leaves(result):
        if leaf is None:
            continue
        if not isinstance(leaf, Tensor):
            raise UnsupportedError(
                f"the model returns {leaf!r} among its outputs, which is no tensor",
                cause=f"a Python {type(leaf).__name__}",
                hint="return tensors only; a constant can be returned as torch.tensor(value)",
            )
        outputs.append(torch.empty(leaf.shape, dtype=leaf.dtype).copy_(leaf.detach()))
    if not outputs:
        raise UnsupportedError("the model returns no tensor", hint="return at least one tensor from forward()")
    if _zeroes_padding(loaded, outputs):
        reporter.warn(
            "nn.TransformerEncoder sets padded positions to zero in its fast path (enable_nested_tensor); "
            "the compiled model computes them like every other position, and leaves them to the reader to ignore"
        )
    return outputs


def _call(loaded: Source) -> Any:
    leaves, spec = pytree.tree_flatten(loaded.inputs)
    copies = [leaf.detach().clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    return loaded.model(*pytree.tree_unflatten(copies, spec))


@contextmanager
def _attention_shortcut(enabled: bool) -> Iterator[None]:
    """Allow or forbid the fused inference kernels of PyTorch's transformer modules, which torch.export never takes."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(enabled)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _zeroes_padding(loaded: Source, outputs: Sequence[Tensor]) -> bool:
    """Whether the shortcut gives something else than ``outputs``: it does where it packs a padded batch.

    Only a model with an ``nn.TransformerEncoder`` that may pack is run a second time.
    """
    if not torch.backends.mha.get_fastpath_enabled() or not any(
        isinstance(module, torch.nn.TransformerEncoder) and getattr(module, "use_nested_tensor", False)
        for module in loaded.model.modules()
    ):
        return False
    with _one_thread(), torch.no_grad(), _attention_shortcut(True):
        shortcut = [leaf for leaf in pytree.tree_leaves(_call(loaded)) if isinstance(leaf, Tensor)]
    return any(
        a.shape != b.shape or not torch.allclose(a, b, rtol=1e-2, atol=1e-3, equal_nan=True)
        for a, b in zip(shortcut, outputs, strict=True)
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    threads, fixed = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with quiet():
            yield
    finally:
        torch.use_deterministic_algorithms(fixed)
        torch.set_num_threads(threads)


# --- names ----------------------------------------------------------------------------------------------------

#: C99 keywords, and what the generated files use themselves.
_RESERVED = frozenset(
    [
        "auto",
        "break",
        "case",
        "char",
        "const",
        "continue",
        "default",
        "do",
        "double",
        "else",
        "enum",
        "extern",
        "float",
        "for",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "typedef",
        "union",
        "unsigned",
        "void",
        "volatile",
        "while",
        "bool",
        "true",
        "false",
        "class",
        "new",
        "delete",
        "this",
        "template",
        "typename",
        "namespace",
        "private",
        "public",
        "protected",
        "virtual",
        "operator",
        "inputs",
        "outputs",
        "weights",
        "arena",
    ]
)


def clean_names(names: Sequence[str]) -> list[str]:
    """Names that are C identifiers, unique, in order: ``image-1`` becomes ``image_1``."""
    result: list[str] = []
    for index, name in enumerate(names):
        cleaned = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or f"tensor_{index}"
        if cleaned[0].isdigit():
            cleaned = f"t_{cleaned}"
        if cleaned in _RESERVED or keyword.iskeyword(cleaned):
            cleaned += "_"
        unique, count = cleaned, 1
        while unique in result:
            unique = f"{cleaned}_{count}"
            count += 1
        result.append(unique)
    return result


def port_names(loaded: Source, program: torch.export.ExportedProgram) -> dict[str, list[str]]:
    """``{"inputs": [...], "outputs": [...]}``: from model.py, else the graph's input names and ``output_N``.

    Raises:
        ModelError: model.py names another number of tensors than the model has.
        UnsupportedError: an output is no tensor.
    """
    signature = program.graph_signature
    graph_inputs = [
        s.arg.name
        for s in signature.input_specs
        if s.kind is InputKind.USER_INPUT and isinstance(s.arg, TensorArgument)
    ]
    outputs: list[str] = []
    for spec in signature.output_specs:
        if spec.kind.name not in ("USER_OUTPUT", "LOSS_OUTPUT"):
            continue
        if isinstance(spec.arg, ConstantArgument):
            if spec.arg.value is not None:
                raise UnsupportedError(
                    f"the model returns {spec.arg.value!r} among its outputs, which is no tensor",
                    cause=f"a Python {type(spec.arg.value).__name__}",
                    hint="return tensors only; a constant can be returned as torch.tensor(value)",
                )
            continue
        outputs.append(f"output_{len(outputs)}")
    if not outputs:
        raise UnsupportedError("the model returns no tensor", hint="return at least one tensor from forward()")
    for what, given, real in (("input", loaded.input_names, graph_inputs), ("output", loaded.output_names, outputs)):
        if given is not None and len(given) != len(real):
            raise ModelError(
                f"{what}_names in {loaded.path} has {len(given)} names, the model has {len(real)} {what}s",
                hint=f"give one name for each {what}, None results left out",
            )
    return {
        "inputs": clean_names(loaded.input_names or graph_inputs),
        "outputs": clean_names(loaded.output_names or outputs),
    }


# --- saving ---------------------------------------------------------------------------------------------------


def save_program(program: torch.export.ExportedProgram, *, root: Path, facts: Mapping[str, Any]) -> bytes:
    """The bytes of ``model.pt2``: source lines relative to ``root``, no absolute path, members at one fixed time."""
    for module in program.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            trace = node.meta.pop("stack_trace", None)
            if short := shorten(trace, root):
                node.meta["stack_trace"] = short
    buffer = io.BytesIO()
    with quiet():
        torch.export.save(program, buffer, extra_files={EXTRA_FILE: json.dumps(dict(facts), sort_keys=True)})
    return _normalised(buffer.getvalue())


def _normalised(archive: bytes) -> bytes:
    """The zip with every member's time fixed in place (offsets stay: PyTorch maps aligned tensors straight from it)."""
    data = bytearray(archive)
    with zipfile.ZipFile(io.BytesIO(archive)) as members:
        for member in members.infolist():
            stamp = member.header_offset + 10
            data[stamp : stamp + 4] = b"\0\0\x21\0"
        position = members.start_dir
        for _ in members.infolist():
            data[position + 12 : position + 16] = b"\0\0\x21\0"
            lengths = [int.from_bytes(data[position + at : position + at + 2], "little") for at in (28, 30, 32)]
            position += 46 + sum(lengths)
    return bytes(data)
