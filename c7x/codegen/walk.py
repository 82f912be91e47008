"""From the lowered Relax module to ``Program``: the last place that knows TVM.

``main`` is walked once, binding by binding. What may appear there is a closed set (see ``_Walk``); anything else is an
operator that no earlier pass lowered, and is reported with its name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax

from c7x.codegen.kernels import KernelOptions, Operand, generate
from c7x.codegen.kernels.firmware import FIRMWARE, FirmwareKernel
from c7x.codegen.literals import c_identifier, literal
from c7x.codegen.printer import print_kernel
from c7x.codegen.program import (
    DTYPES,
    Buffer,
    Call,
    Constant,
    Kernel,
    Port,
    Program,
    Provenance,
    Quantisation,
    TensorType,
    computes_in_float,
)
from c7x.errors import UnsupportedError
from c7x.target import DEFAULT_TARGET, Target, find_board

#: The prefix that layer reports expect on every kernel's symbol (module-abi.md section 4).
SYMBOL_PREFIX = "__tvm_ffi_"
#: Name space of our own kernels among the external functions a module may call.
KERNEL_NAMESPACE = "c7x."

_VIEWS = frozenset({"relax.reshape", "relax.memory.view", "relax.memory.ensure_zero_copy", "relax.flatten"})


def program_from_relax(mod: tvm.IRModule, name: str, target: Target | None = None) -> Program:
    """Builds the program of ``mod["main"]``.

    Args:
        mod: the module that ``c7x.graph`` leaves: destination-passing calls in a straight line.
        name: the model's name; made a C identifier.
        target: decides which of the firmware's kernels may be called; None is the default target.

    Raises:
        UnsupportedError: an operator, dtype or shape that cannot be compiled, or a call of a kernel that the board's
            firmware does not export; named.
    """
    return _Walk(mod, name, target or Target.parse(DEFAULT_TARGET)).run()


@dataclass
class _Walk:
    mod: tvm.IRModule
    name: str
    target: Target
    env: dict[Any, Any] = field(default_factory=dict)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    constant_of: dict[tuple[str, tuple[int, ...], bytes], str] = field(default_factory=dict)
    unwritten: set[str] = field(default_factory=set)
    kernels: dict[str, Kernel] = field(default_factory=dict)
    symbol_of_template: dict[str, str] = field(default_factory=dict)
    printed: dict[str, Any] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    result_names: dict[Any, str] = field(default_factory=dict)
    result_of_buffer: dict[str, str] = field(default_factory=dict)

    def run(self) -> Program:
        main = self.mod["main"]
        attrs = main.attrs or {}
        io = json.loads(str(attrs["c7x_io"])) if "c7x_io" in attrs else {}
        self.provenance_of_call = json.loads(str(attrs["c7x_calls"])) if "c7x_calls" in attrs else {}
        self.reasons = json.loads(str(attrs["c7x_reasons"])) if "c7x_reasons" in attrs else {}
        self.float_between = tuple(json.loads(str(attrs["c7x_float_between"])) if "c7x_float_between" in attrs else ())
        self.provenance_of_node = json.loads(str(attrs["c7x_provenance"])) if "c7x_provenance" in attrs else {}
        scales = json.loads(str(attrs["c7x_quantisation"])) if "c7x_quantisation" in attrs else {}

        def quantisation(side: str, index: int) -> Quantisation | None:
            found = scales.get(side, [])[index : index + 1]
            return Quantisation(**found[0]) if found and found[0] else None

        inputs = []
        for index, param in enumerate(main.params):
            tensor = self._tensor_type(param.ty, f"input {param.name}")
            buffer = self._new_buffer(param.name, tensor, "input")
            self.env[param] = buffer
            names = io.get("inputs", [])
            name = names[index] if index < len(names) else param.name
            inputs.append(Port(name=name, buffer=buffer, type=tensor, quantisation=quantisation("inputs", index)))
        bindings = [b for block in main.body.blocks for b in block.bindings]
        for binding in bindings:
            # `lv = alloc` and `lv = (alloc, alloc1)` give allocations the name of the value they hold.
            if isinstance(binding.value, relax.Var):
                self.result_names.setdefault(binding.value, binding.var.name)
            elif isinstance(binding.value, relax.Tuple):
                for item in binding.value.fields:
                    if isinstance(item, relax.Var):
                        self.result_names.setdefault(item, binding.var.name)
        for binding in bindings:
            self.env[binding.var] = self._value(binding.value, binding.var)
        result = self._value(main.body.body, None)
        flat: list[str] = []
        _flatten(result, flat)
        names = io.get("outputs", [])
        outputs = tuple(
            Port(
                name=names[i] if i < len(names) else f"output_{i}",
                buffer=buffer,
                type=self.buffers[buffer].type,
                quantisation=quantisation("outputs", i),
            )
            for i, buffer in enumerate(flat)
        )
        return self._finish(tuple(inputs), outputs)

    # -- values --------------------------------------------------------------------------------------------------------

    def _value(self, expr: Any, var: Any) -> Any:
        if isinstance(expr, relax.Var):
            return self.env[expr]
        if isinstance(expr, tvm.ir.GenericConst):
            return self._constant(expr.value.numpy(), var.name if var is not None else "constant")
        if isinstance(expr, relax.Tuple):
            return tuple(self._value(f, var) for f in expr.fields)
        if isinstance(expr, relax.TupleGetItem):
            return self._value(expr.tuple_value, var)[expr.index]
        if isinstance(expr, relax.Call):
            return self._call(expr, var)
        if isinstance(expr, (relax.ShapeExpr, tvm.ir.StringImm)):
            return None
        raise _unlowered(type(expr).__name__, str(expr))

    def _call(self, call: Any, var: Any) -> Any:
        op = call.op
        if isinstance(op, tvm.ir.GlobalVar):
            self._prim_func_call(op, call.args)
            return None
        if isinstance(op, relax.ExternFunc):
            self._extern_call(str(op.global_symbol), call.args)
            return None
        name = op.name if isinstance(op, tvm.ir.Op) else str(op)
        if name == "relax.builtin.alloc_tensor":
            result = self.result_names.get(var, var.name)
            tensor = self._tensor_type(call.ty, result)
            buffer = self._new_buffer(result, tensor, "intermediate")
            self.result_of_buffer[buffer] = result
            self.unwritten.add(buffer)
            return buffer
        if name in _VIEWS:
            source = self._value(call.args[0], var)
            return self._alias(source, self._tensor_type(call.ty, var.name), var.name)
        if name == "relax.null_value":
            return None
        raise _unlowered(name, str(call))

    def _constant(self, array: np.ndarray, hint: str) -> str:
        array = np.ascontiguousarray(array) if array.ndim else array.copy()
        if array.dtype.name not in DTYPES:
            raise _bad_dtype(array.dtype.name, f"constant {hint}")
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self.constant_of:
            name = f"constant_{len(self.constants)}"
            tensor = TensorType(dtype=array.dtype.name, shape=tuple(int(d) for d in array.shape))
            self.buffers[name] = Buffer(name=name, type=tensor, role="constant")
            self.constants[name] = array
            self.constant_of[key] = name
        return self.constant_of[key]

    def _alias(self, source: str, tensor: TensorType, hint: str) -> str:
        owner = self.buffers[source].alias_of or source
        if self.buffers[owner].type.nbytes != tensor.nbytes:
            raise _unlowered("reshape", f"{self.buffers[owner].type} to {tensor}")
        if self.buffers[source].type == tensor:
            return source
        return self._new_buffer(hint, tensor, self.buffers[owner].role, alias_of=owner)

    def _new_buffer(self, hint: str, tensor: TensorType, role: Any, alias_of: str | None = None) -> str:
        name, number = hint, 1
        while name in self.buffers:
            number += 1
            name = f"{hint}_{number}"
        self.buffers[name] = Buffer(name=name, type=tensor, role=role, alias_of=alias_of)
        return name

    def _tensor_type(self, ty: Any, what: str) -> TensorType:
        if not isinstance(ty, relax.TensorType) or ty.shape is None:
            raise UnsupportedError(
                f"{what} is not a tensor of known shape ({ty})",
                cause="its size depends on the data, and c7x plans all memory when it compiles",
                hint="rewrite that part of the model with fixed shapes",
            )
        dims = []
        for dim in ty.shape.values:
            if not isinstance(dim, (int, tvm.tirx.IntImm)):
                raise UnsupportedError(
                    f"{what} has a dynamic dimension: its shape is {ty.shape}",
                    cause="c7x plans all memory when it compiles, so every dimension must be a number",
                    hint="write numbers in the shapes of the Relax module, or export the model again with --bind",
                )
            dims.append(int(dim))
        dtype = str(ty.dtype)
        if dtype not in DTYPES:
            raise _bad_dtype(dtype, what)
        return TensorType(dtype=dtype, shape=tuple(dims))

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _operands(self, args: Sequence[Any]) -> tuple[list[str], list[str]]:
        """Buffer names of a destination-passing call: inputs, and the outputs (the trailing, yet unwritten ones)."""
        names: list[str] = []
        for arg in args:
            _flatten(self._value(arg, None), names)
        split = len(names)
        while split and names[split - 1] in self.unwritten:
            split -= 1
        inputs, outputs = names[:split], names[split:]
        self.unwritten.difference_update(outputs)
        return inputs, outputs

    def _prim_func_call(self, global_var: Any, args: Sequence[Any]) -> None:
        inputs, outputs = self._operands(args)
        name = global_var.name_hint
        if name not in self.printed:
            self.printed[name] = print_kernel(self.mod[global_var], name=name, num_outputs=len(outputs))
        printed = self.printed[name]
        symbol = self._symbol(name, printed.source_template)
        if symbol not in self.kernels:
            self.kernels[symbol] = Kernel(
                symbol=symbol,
                source=printed.source_template.replace("@SYMBOL@", symbol),
                params=printed.params,
                num_outputs=len(outputs),
                backend="tvm",
                workspace_bytes=printed.workspace_bytes,
            )
        self._add_call(symbol, name, inputs, outputs, printed.macs)

    def _extern_call(self, function: str, args: Sequence[Any]) -> None:
        if function in FIRMWARE:
            self._firmware_call(FIRMWARE[function], args)
            return
        if not function.startswith(KERNEL_NAMESPACE):
            raise _unlowered(function, "a call of an external function that c7x does not provide")
        attrs: dict[str, Any] = next((json.loads(a.value) for a in args if isinstance(a, tvm.ir.StringImm)), {})
        inputs, outputs = self._operands([a for a in args if not isinstance(a, tvm.ir.StringImm)])
        operands = [Operand(type=self.buffers[n].type, value=self._constant_value(n)) for n in inputs]
        options = KernelOptions(winograd=self.target.winograd)
        kernel = generate(function, attrs, operands, [self.buffers[n].type for n in outputs], options=options)
        packed = [self._constant(kernel.packed[i], n) if i in kernel.packed else n for i, n in enumerate(inputs)]
        symbol = self._symbol(kernel.name_hint, kernel.source_template)
        if symbol not in self.kernels:
            self.kernels[symbol] = Kernel(
                symbol=symbol,
                source=kernel.source_template.replace("@SYMBOL@", symbol),
                params=(*kernel.inputs, *kernel.outputs),
                num_outputs=len(outputs),
                backend="c7x",
                workspace_bytes=kernel.workspace_bytes,
            )
        self._add_call(symbol, kernel.name_hint, packed, outputs, kernel.macs, str(attrs.get("reason", "")))

    def _firmware_call(self, kernel: FirmwareKernel, args: Sequence[Any]) -> None:
        """A kernel that the firmware exports: declared, called, never defined."""
        attrs: dict[str, Any] = next((json.loads(a.value) for a in args if isinstance(a, tvm.ir.StringImm)), {})
        inputs, outputs = self._operands([a for a in args if not isinstance(a, tvm.ir.StringImm)])
        types = [[self.buffers[n].type for n in names] for names in (inputs, outputs)]
        numbers = attrs.get("scalars", [])
        dtypes = [a.dtype for a in kernel.scalars]
        given = [[t.dtype for t in part] for part in types]
        wrong = kernel.mismatch(given[0], given[1], dtypes[: len(numbers)])
        if wrong is not None or len(numbers) != len(dtypes):
            raise _unlowered(kernel.symbol, wrong or f"{kernel.symbol} takes {len(dtypes)} scalars, not {len(numbers)}")
        self._check_exported(kernel, outputs)
        if kernel.symbol not in self.kernels:
            self.kernels[kernel.symbol] = Kernel(
                symbol=kernel.symbol,
                source="",
                params=(*types[0], *types[1]),
                num_outputs=len(outputs),
                backend="mmalib" if kernel.availability == "mmalib" else "c7x",
            )
        scalars = tuple(
            literal(float(v) if dtype == "float32" else int(v), dtype) for v, dtype in zip(numbers, dtypes, strict=True)
        )
        self._add_call(kernel.symbol, kernel.symbol, inputs, outputs, int(attrs.get("macs", 0)), scalars=scalars)

    def _check_exported(self, kernel: FirmwareKernel, outputs: Sequence[str]) -> None:
        """Refuse, when compiling, what the loader on the board would refuse (module-abi.md 8.7 to 8.10)."""
        missing = _missing(kernel, self.target)
        if missing is None:
            return
        provenance = self._provenance(outputs)
        what = ", ".join(provenance.relax_ops or provenance.nodes or outputs)
        where = f" at {', '.join(provenance.source)}" if provenance.source else ""
        cause, hint = missing
        raise UnsupportedError(f"{what}{where} calls {kernel.symbol}, which is not there", cause=cause, hint=hint)

    def _constant_value(self, name: str) -> np.ndarray | None:
        buffer = self.buffers[name]
        value = self.constants.get(buffer.alias_of or name)
        return None if value is None else value.reshape(buffer.type.shape)

    def _symbol(self, hint: str, template: str) -> str:
        """One symbol per distinct text: calls with the same text share a function."""
        if template not in self.symbol_of_template:
            base = SYMBOL_PREFIX + c_identifier(hint)
            symbol, number = base, 1
            taken = set(self.symbol_of_template.values())
            while symbol in taken:
                number += 1
                symbol = f"{base}_{number}"
            self.symbol_of_template[template] = symbol
        return self.symbol_of_template[template]

    def _add_call(
        self, symbol: str, name: str, inputs: list[str], outputs: list[str], macs: int, reason: str = "",
        scalars: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        kernel = self.kernels[symbol]
        workspace = None
        if kernel.workspace_bytes:
            scratch = TensorType(dtype="uint8", shape=(kernel.workspace_bytes,))
            workspace = self._new_buffer(f"workspace_{len(self.calls)}", scratch, "workspace")
        provenance = self._provenance(outputs)
        self.calls.append(
            Call(
                kernel=symbol,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                workspace=workspace,
                name=outputs[-1] if outputs else name,
                macs=macs,
                provenance=provenance,
                scalars=scalars,
                reason=reason or self._reason(kernel, outputs),
            )
        )

    def _reason(self, kernel: Kernel, outputs: Sequence[str]) -> str:
        """Why a loop computes with real numbers in a quantised model; empty for everything else."""
        if kernel.backend != "tvm" or not computes_in_float(kernel):
            return ""
        results = [self.result_of_buffer.get(output, output) for output in outputs]
        nodes = [n for r in results for n in self._record(r).get("nodes", [r])]
        return next((self.reasons[n] for n in nodes if n in self.reasons), "")

    def _record(self, result: str) -> dict[str, list[str]]:
        """What fusion noted about a value: under its name, or, for what ``main`` returns, under the name it had before
        it became the result."""
        if result in self.provenance_of_call:
            return dict(self.provenance_of_call[result])
        return next((dict(r) for r in self.provenance_of_call.values() if result in r["nodes"]), {})

    def _provenance(self, outputs: Sequence[str]) -> Provenance:
        relax_ops: list[str] = []
        nodes: list[str] = []
        for output in outputs:
            result = self.result_of_buffer.get(output, output)
            record = self._record(result)
            relax_ops += [o for o in record.get("relax_ops", []) if o not in relax_ops]
            known = [n for n in record.get("nodes", [result]) if n in self.provenance_of_node]
            nodes += [n for n in known or self._node_of_step(result) if n not in nodes]
        facts = [self.provenance_of_node[n] for n in nodes]
        return Provenance(
            relax_ops=tuple(relax_ops),
            nodes=tuple(nodes),
            source=tuple(dict.fromkeys(f["source"] for f in facts if f.get("source"))),
            modules=tuple(dict.fromkeys(f["module"] for f in facts if f.get("module"))),
        )

    def _node_of_step(self, name: str) -> list[str]:
        """The node that a step on the way to it is named after: the step's name goes on behind the node's."""
        while name and name not in self.provenance_of_node:
            name = name.rpartition("_")[0]
        return [name] if name else []

    # -- the end -------------------------------------------------------------------------------------------------------

    def _finish(self, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Program:
        """Gives each output the storage the caller passes, and drops what no call uses."""
        for port in outputs:
            owner = self.buffers[port.buffer].alias_of or port.buffer
            if self.buffers[owner].role == "intermediate":
                self.buffers[owner] = replace(self.buffers[owner], role="output")
        for name, buffer in self.buffers.items():
            if buffer.alias_of is not None:
                self.buffers[name] = replace(buffer, role=self.buffers[buffer.alias_of].role)
        calls = self._with_borrowed_places()
        used = {n for c in calls for n in (*c.inputs, *c.outputs, *((c.workspace,) if c.workspace else ()))}
        used |= {p.buffer for p in (*inputs, *outputs)}
        used |= {self.buffers[n].alias_of or n for n in used}
        return Program(
            name=c_identifier(self.name),
            inputs=inputs,
            outputs=outputs,
            buffers=tuple(b for n, b in self.buffers.items() if n in used),
            constants=tuple(Constant(buffer=n, data=a) for n, a in self.constants.items() if n in used),
            kernels=tuple(self.kernels.values()),
            calls=tuple(calls),
            float_between=self.float_between,
        )

    def _with_borrowed_places(self) -> list[Call]:
        """The calls, each with a place in the user's model.

        What brings a tensor into another form, such as the quantisation of an input, stands nowhere in the model: it
        gets the place of the call it works for, which is the first that reads its result, or else the one before.
        """
        calls = list(self.calls)
        places: dict[str, Provenance] = {}

        def borrow(index: int, own: Sequence[str], others: Sequence[str]) -> None:
            call = calls[index]
            if not call.provenance.is_known:
                found = next((places[n] for n in map(self._owner, own) if n in places), Provenance())
                known = replace(call.provenance, source=found.source, modules=found.modules)
                calls[index] = call = replace(call, provenance=known)
            if call.provenance.is_known:
                places.update({self._owner(n): call.provenance for n in others})

        for index in reversed(range(len(calls))):
            borrow(index, calls[index].outputs, calls[index].inputs)
        places.clear()
        for index, call in enumerate(calls):
            borrow(index, call.inputs, call.outputs)
        return calls

    def _owner(self, buffer: str) -> str:
        return self.buffers[buffer].alias_of or buffer


def _missing(kernel: FirmwareKernel, target: Target) -> tuple[str, str] | None:
    """Cause and hint when the firmware of the target's board has no such kernel; None when it has."""
    board = find_board(target.board) if target.board is not None else None
    if kernel.availability == "tidl":
        if board is not None and not board.firmware_tidl:
            return (
                f"the firmware of {board.name} is built without TIDL, which brings this kernel",
                "leave -tidl-kernels out or write -tidl-kernels=0, or choose a board with TIDL: --board j722s-evm",
            )
        if not target.tidl_kernels:
            return "the target has -tidl-kernels=0", "write -tidl-kernels=1, if the board's firmware has TIDL"
    if kernel.availability == "mmalib":
        if board is not None and not board.firmware_mmalib:
            return f"the firmware of {board.name} is built without MMALIB", "write -mmalib=0"
        if not target.mmalib:
            return "the target has -mmalib=0", "write -mmalib=1"
    return None


def _flatten(value: Any, into: list[str]) -> None:
    if isinstance(value, tuple):
        for item in value:
            _flatten(item, into)
    elif value is not None:
        into.append(value)


def _unlowered(name: str, detail: str) -> UnsupportedError:
    text = detail if len(detail) <= 400 else detail[:400] + " ..."
    return UnsupportedError(
        f"the operator {name} could not be lowered to C",
        cause=text,
        hint="rewrite this part of the model with other operators, or report the model as an issue",
    )


def _bad_dtype(dtype: str, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what} has dtype {dtype}, which c7x does not compile",
        cause=f"supported are {', '.join(DTYPES)}",
        hint="convert the model and its inputs, for example with model.float()",
    )
