"""From an exported program to a Relax module, and the ``import`` stage that keeps it in the build directory.

The module's ``main`` takes the model's inputs, then its parameters; function attribute ``num_input`` counts the former.
``import_exported_program`` binds the parameters; on disk they stay apart (``model.params.npz``), so ``model.relax`` is
TVMScript a person can read and edit. Every binding is named after the exported graph's node it comes from, with
``__<part>`` for steps on the way, and ``c7x_provenance`` says what that node was and where it stood in the source.
"""

from __future__ import annotations

import io
import json
import math
import operator
import re
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm
from torch import fx
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from tvm import relax

from c7x.errors import C7xError, DisagreementError, FormatError, UnsupportedError, WorkspaceError
from c7x.frontend import converters, repairs
from c7x.frontend.quiet import quiet, silent
from c7x.frontend.source import innermost_user_frame, node_module, node_source, operator_name, shown_path
from c7x.frontend.support import DATA_DEPENDENT, RANDOM, Finding, NotCompiled, SupportError, collect, explain
from c7x.reporter import SILENT, Reporter
from c7x.workspace import Workspace, dump_json

#: Constants with at most this many elements in all their uniform glory are stored; larger uniform ones are filled.
UNIFORM_STORED = 1024
#: A constant sub-graph whose value is larger than this many bytes is left to run time.
FOLDED_BYTES = 64 << 20

EXTRA_FILE = "c7x.json"
PROVENANCE = "model.provenance.json"

_TORCH_DTYPES = {name: dtype for dtype, name in converters.DTYPE_NAMES.items()}
_NAME = re.compile(r"[^0-9A-Za-z_]")
_EFFECTS = ("_assert_async", "_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range", "_guards_fn")


@dataclass(frozen=True, kw_only=True)
class Imported:
    """A module with its parameters apart: ``params`` maps the parameter's name in ``main`` to its value (numpy)."""

    module: tvm.IRModule
    params: Mapping[str, np.ndarray]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    provenance: Mapping[str, Mapping[str, str]]


@dataclass
class _Graph:
    """One import under way; implements ``converters.Context``."""

    program: torch.export.ExportedProgram
    builder: relax.BlockBuilder
    node: fx.Node = field(init=False)
    env: dict[fx.Node, Any] = field(default_factory=dict)
    params: dict[str, tuple[relax.Var, np.ndarray]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    shared: dict[Any, relax.Expr] = field(default_factory=dict)
    keep_alive: list[torch.Tensor] = field(default_factory=list)

    def emit(self, expr: relax.Expr, part: str = "") -> relax.Var:
        name = f"{self.node.name}__{part}" if part else self.node.name
        return self.builder.emit(expr, name_hint=self.unique(name))

    def unique(self, name: str) -> str:
        name = _NAME.sub("_", name)
        candidate, count = name, 1
        while candidate in self.taken:
            candidate = f"{name}__{count}"
            count += 1
        self.taken.add(candidate)
        return candidate

    def tensor(self, argument: Any, dtype: torch.dtype | None = None, part: str = "cast") -> relax.Expr:
        value = self.env[argument] if isinstance(argument, fx.Node) else argument
        if isinstance(value, _Lazy):
            value = value.value
        if isinstance(value, torch.Tensor):
            return self.constant(value if dtype is None else value.to(dtype), argument)
        if isinstance(value, bool | int | float):
            return self.constant(torch.full((), value, dtype=dtype or torch.get_default_dtype()), None)
        if not isinstance(value, relax.Expr):
            raise NotCompiled("an operand that is no tensor", "pass tensors only")
        if dtype is None or str(value.ty.dtype) == converters.DTYPE_NAMES[dtype]:
            return value
        if dtype == torch.bool:
            zero = self.constant(torch.zeros((), dtype=_TORCH_DTYPES[str(value.ty.dtype)]), None)
            return self.emit(relax.op.not_equal(value, zero), part)
        return self.emit(relax.op.astype(value, converters.DTYPE_NAMES[dtype]), part)

    def constant(self, value: torch.Tensor, origin: Any) -> relax.Expr:
        """A constant: in the text when it is a finite scalar (those read back to the bit), else a parameter."""
        dtype = converters.DTYPE_NAMES.get(value.dtype)
        if dtype is None:
            raise NotCompiled(f"a constant of dtype {value.dtype}", "use float32, float64, integers or bool")
        array = np.ascontiguousarray(value.detach().cpu().resolve_neg().numpy()).reshape(tuple(value.shape))
        plain = dtype in ("float32", "float64", "int32", "int64", "bool")
        if array.ndim == 0 and plain and bool(np.isfinite(array)):
            return relax.const(array, dtype)
        key = (dtype, array.shape, array.tobytes() if array.nbytes <= 1 << 16 else (value.data_ptr(), value.stride()))
        if key in self.shared:
            return self.shared[key]
        uniform = array.size > UNIFORM_STORED and bool((array == array.flat[0]).all())
        if uniform and bool(np.isfinite(array.flat[0])) and plain and not self._is_state(origin):
            fill = relax.const(np.asarray(array.flat[0], dtype=dtype), dtype)
            name = self.unique(f"{getattr(origin, 'name', None) or self.node.name}__fill")
            expr: relax.Expr = self.builder.emit(relax.op.full(list(array.shape), fill, dtype), name_hint=name)
        else:
            name = self.unique(getattr(origin, "name", None) or f"{self.node.name}__const")
            expr = relax.Var(name, relax.TensorType(list(array.shape), dtype))
            self.params[name] = (expr, array)
            self.keep_alive.append(value)
        self.shared[key] = expr
        return expr

    @staticmethod
    def _is_state(origin: Any) -> bool:
        return isinstance(origin, fx.Node) and origin.op == "placeholder"


def _state(program: torch.export.ExportedProgram) -> dict[str, torch.Tensor]:
    """Placeholder name -> value, for parameters, buffers and lifted constants."""
    values: dict[str, torch.Tensor] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            found = program.state_dict.get(str(spec.target), program.constants.get(str(spec.target)))
        elif spec.kind is InputKind.CONSTANT_TENSOR:
            found = program.constants.get(str(spec.target))
        else:
            continue
        if isinstance(found, torch.Tensor):
            values[spec.arg.name] = found
    return values


def _foldable_state(program: torch.export.ExportedProgram) -> set[str]:
    """Placeholders whose value may be computed with at import: lifted constants and integer or boolean buffers that
    the model does not update. Parameters stay as they are (a weight's own graph may be quantised or shared)."""
    mutated = set(program.graph_signature.buffers_to_mutate.values())
    names = set()
    state = _state(program)
    for spec in program.graph_signature.input_specs:
        if spec.arg.name not in state or spec.target in mutated:
            continue
        whole = state[spec.arg.name].dtype in (torch.int64, torch.int32, torch.bool)
        if spec.kind is InputKind.CONSTANT_TENSOR or (spec.kind is InputKind.BUFFER and whole):
            names.add(spec.arg.name)
    return names


def _is_random(target: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


_SHAPE_ONLY = ("_like", "new_full", "new_zeros", "new_ones", "new_empty")


def _folded(graph: _Graph, node: fx.Node) -> torch.Tensor | tuple[Any, ...] | None:
    """The node's value when it depends on constants alone, computed by PyTorch itself; None when it does not."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace not in ("aten", "prims"):
        return None
    value = node.meta.get("val")
    first = value[0] if isinstance(value, tuple | list) and value else value
    if not isinstance(first, torch.Tensor) or first.dtype not in converters.DTYPE_NAMES:
        return None
    if _is_random(target) or first.numel() * first.element_size() > FOLDED_BYTES:
        return None
    if target is torch.ops.aten.empty.memory_format or "empty" in str(target):
        # Whatever is in memory: zeros are as good, and the same every time.
        return torch.zeros(first.shape, dtype=first.dtype)
    shape_only = any(word in str(target) for word in _SHAPE_ONLY)
    replaced: dict[fx.Node, torch.Tensor] = {}
    for argument in node.all_input_nodes:
        known = graph.env.get(argument)
        if isinstance(known, torch.Tensor):
            replaced[argument] = known
        elif shape_only and isinstance(argument.meta.get("val"), torch.Tensor):
            meta = argument.meta["val"]
            replaced[argument] = torch.zeros(meta.shape, dtype=meta.dtype)
        else:
            return None
    args = fx.node.map_arg(node.args, lambda n: replaced[n])
    kwargs = fx.node.map_arg(node.kwargs, lambda n: replaced[n])
    with torch.no_grad():
        result = target(*args, **kwargs)
    return tuple(result) if isinstance(result, list) else result


def _arguments(node: fx.Node) -> dict[str, Any]:
    """The operator's arguments by name, defaults filled in."""
    schema = node.target._schema
    named: dict[str, Any] = {}
    for index, argument in enumerate(schema.arguments):
        if index < len(node.args):
            named[argument.name] = node.args[index]
        elif argument.name in node.kwargs:
            named[argument.name] = node.kwargs[argument.name]
        else:
            named[argument.name] = argument.default_value
    return named


def _has_symbols(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(isinstance(s, torch.SymInt) for s in value.shape)
    if isinstance(value, tuple | list):
        return any(_has_symbols(v) for v in value)
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


def _findings(program: torch.export.ExportedProgram) -> list[Finding]:
    """All that stands in the way, found before any work: unknown, random and data-dependent operators, dtypes."""
    found = []
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        op, value = operator_name(node), node.meta.get("val")
        source = node_source(node)
        known, (reason, hint) = node.target in converters.CONVERTERS, explain(op)
        if any(word in op for word in _EFFECTS):
            continue
        if _is_random(node.target):
            reason, hint = RANDOM, "draw the random numbers outside and pass them as an input"
        elif _has_symbols(value):
            known_reason = reason if not known and "no lowering" not in reason else DATA_DEPENDENT
            reason, hint = known_reason, hint if known_reason == reason else repairs.DATA_DEPENDENT_HINT
        elif bad := _foreign_dtype(value):
            reason, hint = (
                f"dtype {bad}",
                "convert to float32 before it (complex numbers: keep real and imaginary parts apart)",
            )
            if not known and "no lowering" not in explain(op)[0]:
                reason, hint = explain(op)
        elif known or _creates(node):
            continue
        found.append(Finding(op=op, source=source, reason=reason, hint=hint))
    return found


def _creates(node: fx.Node) -> bool:
    """Operators that only create constants: PyTorch computes them at import."""
    shape_only = any(word in str(node.target) for word in _SHAPE_ONLY) or "empty" in str(node.target)
    native = getattr(node.target, "namespace", "") in ("aten", "prims")
    if not native:
        return False
    return shape_only or all(_creates_constant(n) for n in node.all_input_nodes)


def _creates_constant(node: fx.Node) -> bool:
    if node.op == "placeholder":
        return str(node.name).startswith("c_")
    return bool(node.op == "get_attr" or (node.op == "call_function" and _creates(node)))


def _foreign_dtype(value: Any) -> str | None:
    tensors = value if isinstance(value, tuple | list) else [value]
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and tensor.dtype not in converters.DTYPE_NAMES:
            return str(tensor.dtype).removeprefix("torch.")
    return None


def _check_type(node: fx.Node, result: Any) -> None:
    """What was built has the shape and dtype PyTorch recorded: an import that is wrong in kind never gets through."""
    value = node.meta.get("val")
    expected = list(value) if isinstance(value, tuple | list) else [value]
    built = list(result) if isinstance(result, tuple) else [result]
    for want, got in zip(expected, built, strict=False):
        if not isinstance(want, torch.Tensor) or not isinstance(got, relax.Expr):
            continue
        shape = tuple(int(s) for s in got.ty.shape)
        if shape != tuple(want.shape) or str(got.ty.dtype) != converters.DTYPE_NAMES[want.dtype]:
            raise DisagreementError(
                f"the import of {operator_name(node)} ({node.name}) gives {got.ty.dtype}{list(shape)}, "
                f"PyTorch gives {converters.DTYPE_NAMES[want.dtype]}{list(want.shape)}",
                cause="a defect of c7x's importer",
                hint=f"please report it with the line {node_source(node) or 'of the model'}",
            )


def translate(program: torch.export.ExportedProgram, *, names: Mapping[str, Sequence[str]] | None = None) -> Imported:
    """Import a program, parameters apart.

    Args:
        program: a static-shape program of ``torch.export`` (any operator set; it is decomposed here).
        names: ``{"inputs": [...], "outputs": [...]}``, display names in order; default: from the graph.

    Raises:
        SupportError: operators that cannot be compiled, as a table.
        UnsupportedError: dynamic shapes, outputs that are no tensors.
        DisagreementError: an operator's import has another type than PyTorch's.
    """
    try:
        program = repairs.decompose(program)
    except NotCompiled as error:
        frame = innermost_user_frame(error.stack_trace)
        source = f"{shown_path(frame[0], None)}:{frame[1]}" if frame else ""
        raise SupportError(
            collect([Finding(op=error.op, source=source, reason=error.reason, hint=error.hint)])
        ) from error
    if findings := _findings(program):
        raise SupportError(collect(findings))

    graph = _Graph(program=program, builder=relax.BlockBuilder())
    state, foldable = _state(program), _foldable_state(program)
    inputs: list[relax.Var] = []
    user_inputs = {s.arg.name for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT}
    for node in program.graph.find_nodes(op="placeholder"):
        graph.taken.add(_NAME.sub("_", node.name))
        value = node.meta.get("val")
        if node.name in user_inputs and isinstance(value, torch.Tensor):
            if _has_symbols(value):
                raise UnsupportedError(f"input {node.name} has a dynamic dimension", hint="fix it with --bind")
            dtype = converters.DTYPE_NAMES.get(value.dtype)
            if dtype is None:
                raise UnsupportedError(f"input {node.name} has dtype {value.dtype}", hint="convert it to float32")
            var = relax.Var(_NAME.sub("_", node.name), relax.TensorType(list(value.shape), dtype))
            inputs.append(var)
            graph.env[node] = var
        elif node.name in state:
            graph.env[node] = state[node.name] if node.name in foldable else _Lazy(state[node.name])
    graph.taken -= {_NAME.sub("_", name) for name in state}

    problems: list[Finding] = []
    outputs: list[relax.Expr] = []
    provenance: dict[str, dict[str, str]] = {}
    with graph.builder.function("main"):
        with graph.builder.dataflow():
            for node in program.graph.nodes:
                graph.node = node
                _visit(graph, node, problems, provenance)
                if node.op == "output" and not problems:
                    outputs = _outputs(graph, node)
            # A builder dropped half-way complains on standard error, so the function is always ended.
            result = graph.builder.emit_output(relax.Tuple(outputs), name_hint=graph.unique("outputs"))
        graph.builder.emit_func_output(result, [*inputs, *(var for var, _ in graph.params.values())])
    if problems:
        raise SupportError(collect(problems))
    if not outputs:
        raise UnsupportedError("the model returns no tensor", hint="return at least one tensor from forward()")
    return _finished(graph, len(inputs), len(outputs), provenance, names)


def _visit(graph: _Graph, node: fx.Node, problems: list[Finding], provenance: dict[str, dict[str, str]]) -> None:
    if node.op == "get_attr":
        graph.env[node] = getattr(graph.program.graph_module, str(node.target))
    elif node.op == "call_function" and node.users:
        _one(graph, node, problems)
        if node.target is not operator.getitem:
            provenance[node.name] = {
                "op": operator_name(node),
                "source": node_source(node),
                "module": node_module(node),
            }


@dataclass(frozen=True)
class _Lazy:
    """A parameter that becomes a variable when something reads it (unread ones leave no trace)."""

    value: torch.Tensor


def _one(graph: _Graph, node: fx.Node, problems: list[Finding]) -> None:
    if any(word in operator_name(node) for word in _EFFECTS):
        return
    if any(argument not in graph.env for argument in node.all_input_nodes):
        return  # it reads what could not be imported, which is reported already
    if node.target is operator.getitem:
        graph.env[node] = graph.env[node.args[0]][node.args[1]]
        return
    try:
        folded = _folded(graph, node)
        if folded is not None:
            graph.env[node] = folded
            return
        converter = converters.CONVERTERS.get(node.target)
        if converter is None:
            raise NotCompiled(*explain(operator_name(node)))
        result = converter(graph, _arguments(node))
    except NotCompiled as error:
        problems.append(Finding(op=operator_name(node), source=node_source(node), reason=error.reason, hint=error.hint))
        return
    _check_type(node, result)
    graph.env[node] = result


def _outputs(graph: _Graph, node: fx.Node) -> list[relax.Expr]:
    outputs = []
    specs = graph.program.graph_signature.output_specs
    for spec, value in zip(specs, node.args[0], strict=True):
        if spec.kind not in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
            continue
        if value is None:
            continue
        if isinstance(spec.arg, ConstantArgument) or not isinstance(spec.arg, TensorArgument):
            raise UnsupportedError(
                f"the model returns {value!r}, which is no tensor",
                cause=f"a Python {type(value).__name__} among the outputs",
                hint="return tensors only; a constant can be returned as torch.tensor(value)",
            )
        found = graph.env[value]
        if isinstance(found, _Lazy):
            found = found.value
        if isinstance(found, torch.Tensor) and found.dim():
            found = graph.constant(found, value)
        elif isinstance(found, torch.Tensor):
            # As a parameter even when it is a scalar: a tuple of outputs holds variables.
            name = graph.unique(value.name)
            array = np.ascontiguousarray(found.detach().numpy()).reshape(tuple(found.shape))
            found = relax.Var(name, relax.TensorType(list(array.shape), str(array.dtype)))
            graph.params[name] = (found, array)
        outputs.append(found)
    return outputs


def _finished(
    graph: _Graph,
    num_inputs: int,
    num_outputs: int,
    provenance: Mapping[str, Mapping[str, str]],
    names: Mapping[str, Sequence[str]] | None,
) -> Imported:
    module = graph.builder.get()
    given_in = list((names or {}).get("inputs") or [v.name for v in list(module["main"].params)[:num_inputs]])
    given_out = list((names or {}).get("outputs") or [f"output_{i}" for i in range(num_outputs)])
    if len(given_in) != num_inputs or len(given_out) != num_outputs:
        raise FormatError(
            f"names for {len(given_in)} inputs and {len(given_out)} outputs, but the program has "
            f"{num_inputs} and {num_outputs}",
            hint="export the model again",
        )
    io_names = json.dumps({"inputs": given_in, "outputs": given_out}, sort_keys=True)
    module["main"] = module["main"].with_attrs({"num_input": num_inputs, "c7x_io": io_names})
    return Imported(
        module=relax.transform.DeadCodeElimination()(module),
        params={name: array for name, (_, array) in graph.params.items()},
        inputs=tuple(given_in),
        outputs=tuple(given_out),
        provenance=provenance,
    )


def bind(imported: Imported) -> tvm.IRModule:
    """The module with its parameters as constants and the provenance as an attribute of ``main``."""
    values = {name: tvm.runtime.tensor(array) for name, array in imported.params.items()}
    bound = relax.transform.BindParams("main", values)(imported.module)
    text = json.dumps(imported.provenance, sort_keys=True)
    bound["main"] = bound["main"].with_attr("c7x_provenance", text)
    return bound


def import_exported_program(
    program: torch.export.ExportedProgram, *, names: Mapping[str, Sequence[str]] | None = None
) -> tvm.IRModule:
    """A Relax module of a ``torch.export`` program, parameters bound as constants (see ``translate`` for errors).

    ``main`` always returns a tuple. Its attributes: ``num_input``, ``c7x_io`` (JSON: names of inputs and outputs) and
    ``c7x_provenance`` (JSON: node name -> op, source line, module path).
    """
    return bind(translate(program, names=names))


# --- the stage ------------------------------------------------------------------------------------------------


def save_params(params: Mapping[str, np.ndarray]) -> bytes:
    """An ``.npz`` whose bytes depend on names and values alone (members sorted, stored, one fixed time)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(params):
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.external_attr = 0o644 << 16
            array = io.BytesIO()
            np.lib.format.write_array(array, np.asarray(params[name]), allow_pickle=False)
            archive.writestr(member, array.getvalue())
    return buffer.getvalue()


def load_params(path: Path) -> dict[str, np.ndarray]:
    """The arrays of ``model.params.npz`` (FormatError when it is damaged)."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise FormatError(
            f"{path} is not a parameter archive", cause=str(error), hint="run c7x import for this build directory again"
        ) from error


def load_program(path: Path) -> tuple[torch.export.ExportedProgram, dict[str, Any]]:
    """An exported program of the build directory with the facts the export stage put into it (names, ...)."""
    extra = {EXTRA_FILE: ""}
    try:
        with quiet(), silent():
            program = torch.export.load(path, extra_files=extra)
    except Exception as error:
        raise FormatError(
            f"{path} is not a program of torch.export",
            cause=_first_line(error),
            hint="run c7x export for this build directory again",
        ) from error
    facts = json.loads(extra[EXTRA_FILE]) if extra[EXTRA_FILE] else {}
    return program, facts


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _program_file(ws: Workspace) -> str:
    """The quantised program when the quantize stage made one, else the plain one."""
    present = [name for name in ("model.int8.pt2", "model.int16.pt2") if ws.has(name)]
    return present[0] if present else "model.pt2"


def import_stage(ws: Workspace, *, reporter: Reporter = SILENT) -> dict[str, Any]:
    """Import the exported program: writes ``model.relax``, ``model.params.npz`` and ``model.provenance.json``.

    Returns:
        ``inputs`` and ``outputs`` (lists of name, dtype, shape), ``operators`` (Relax operator -> count),
        ``parameters`` (number of elements), ``seconds``.

    Raises:
        WorkspaceError, FormatError: the exported program is missing or damaged; and what ``translate`` raises.
    """
    start = time.perf_counter()
    source = _program_file(ws)
    with ws.stage("import", inputs=[source]) as run:
        program, facts = load_program(ws.require(source))
        reporter.progress("importing into Relax")
        imported = translate(program, names=facts.get("names"))
        text = imported.module.script(show_meta=False)
        _check_script(text, imported)
        run.write_text("model.relax", text if text.endswith("\n") else text + "\n")
        run.write_bytes("model.params.npz", save_params(imported.params))
        run.write_text(PROVENANCE, dump_json(imported.provenance))
        run.tools["tvm"] = tvm.__version__
        run.tools["torch"] = torch.__version__
        return {
            **_signature(imported),
            "operators": _operator_counts(imported.module),
            "parameters": int(sum(math.prod(a.shape) for a in imported.params.values())),
            "seconds": round(time.perf_counter() - start, 3),
        }


def _signature(imported: Imported) -> dict[str, Any]:
    main = imported.module["main"]

    def described(name: str, ty: Any) -> dict[str, Any]:
        return {"name": name, "dtype": str(ty.dtype), "shape": [int(s) for s in ty.shape]}

    return {
        "inputs": [described(n, v.ty) for n, v in zip(imported.inputs, main.params, strict=False)],
        "outputs": [described(n, t) for n, t in zip(imported.outputs, main.ret_ty.fields, strict=True)],
    }


def _operator_counts(module: tvm.IRModule) -> dict[str, int]:
    counts: dict[str, int] = {}

    def visit(expr: Any) -> None:
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
            counts[expr.op.name] = counts.get(expr.op.name, 0) + 1

    relax.analysis.post_order_visit(module["main"], visit)
    return dict(sorted(counts.items()))


def _check_script(text: str, imported: Imported) -> None:
    """The text stands for the module: parsed and printed again it is the same text."""
    again = _parse(text, "model.relax").script(show_meta=False)
    if again != text:
        changed = next((a for a, b in zip(text.splitlines(), again.splitlines(), strict=False) if a != b), "")
        raise DisagreementError(
            "the Relax module does not survive being written down",
            cause=f"this line reads back differently: {changed.strip()}",
            hint="please report it with the model",
        )


def _parse(text: str, name: str) -> tvm.IRModule:
    try:
        return tvm.script.from_source(text)
    except C7xError:
        raise
    except Exception as error:
        raise FormatError(
            f"{name} is not TVMScript that TVM can read",
            cause=_first_line(error),
            hint="undo the last edit, or run c7x import again",
        ) from error


def load_relax(ws: Workspace) -> tvm.IRModule:
    """The module the import stage wrote (or what the user made of it), parameters bound, provenance attached.

    Raises:
        WorkspaceError: a file is missing. FormatError: the text or the archive cannot be read, or they do not match.
    """
    path = ws.require("model.relax")
    module = _parse(path.read_text(encoding="utf-8"), str(path))
    params = load_params(ws.require("model.params.npz"))
    if "main" not in [v.name_hint for v in module.get_global_vars()]:
        raise FormatError(f"{path} has no function main", hint="keep main when you edit, or run c7x import again")
    main = module["main"]
    if main.attrs is None or "num_input" not in main.attrs or "c7x_io" not in main.attrs:
        raise FormatError(f"{path}: main lacks its attributes num_input and c7x_io", hint="run c7x import again")
    declared = {v.name: v for v in list(main.params)[int(main.attrs["num_input"]) :]}
    for name, var in declared.items():
        array = params.get(name)
        wanted = (str(var.ty.dtype), tuple(int(s) for s in var.ty.shape))
        if array is None or (str(array.dtype), array.shape) != wanted:
            held = "nothing of that name" if array is None else f"{array.dtype}{list(array.shape)}"
            raise FormatError(
                f"parameter {name} of {path} is {wanted[0]}{list(wanted[1])}, model.params.npz holds {held}",
                hint="run c7x import again",
            )
    provenance: dict[str, Any] = {}
    try:
        provenance = ws.read_json(PROVENANCE)
    except WorkspaceError:
        # Only names in reports come from it; the module is complete without.
        provenance = {}
    io_names = json.loads(str(main.attrs["c7x_io"]))
    imported = Imported(
        module=module,
        params={name: params[name] for name in declared},
        inputs=tuple(io_names["inputs"]),
        outputs=tuple(io_names["outputs"]),
        provenance=provenance,
    )
    return bind(imported)
