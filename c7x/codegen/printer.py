"""TIR to C: a table of rules, one for each node kind that lowering leaves over.

A node without a rule is refused with the whole node in the message; nothing is guessed. The text is C99 and C++14,
needs ``native/include/c7x_vector.h`` and ``native/include/c7x_scalar.h`` before it, and depends only on the structure
of the function: names are numbered in order of appearance.

Buffers inside a kernel: up to ``STACK_BYTES`` they are C arrays; larger ones lie one after the other in the workspace,
each aligned to ``WORKSPACE_ALIGNMENT``. The sizes are summed: ``StorageRewrite`` has let buffers of disjoint life share
one allocation already, and storage that never overlaps may be declared ``restrict``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import tvm
import tvm_ffi
from tvm import tirx

from c7x.codegen.literals import literal
from c7x.codegen.lower import lower_prim_func
from c7x.codegen.program import DTYPES, TensorType
from c7x.errors import UnsupportedError

SYMBOL = "@SYMBOL@"
STACK_BYTES = 2048
WORKSPACE_ALIGNMENT = 128

#: dtype -> suffix of the helpers in c7x_scalar.h.
_SUFFIX = {
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float32": "f32", "float64": "f64",
}  # fmt: skip

#: Functions of the C library that exist for float (with an f) and double alike.
_LIBM = {
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "cos", "cosh", "exp2", "fabs",
    "floor", "fma", "fmod", "hypot", "log", "log10", "log1p", "log2", "nearbyint", "nextafter", "pow", "round", "sin",
    "sinh", "sqrt", "tan", "trunc",
}  # fmt: skip
#: Functions with a helper of our own in float32, and the C library's (or a helper, with its suffix) in float64.
_OWN_FLOAT32 = {"exp": "exp", "tanh": "tanh", "erf": "erf", "sigmoid": "c7x_sigmoid_f64"}
#: x^k as PyTorch computes it for these exponents, without a call of pow.
_POWERS = {2.0: "c7x_square_{s}({x})", 3.0: "c7x_cube_{s}({x})", 1.0: "{x}", 0.5: "sqrt{f}({x})", -1.0: "({one} / {x})"}

_COMPARE = {tirx.EQ: "==", tirx.NE: "!=", tirx.LT: "<", tirx.LE: "<=", tirx.GT: ">", tirx.GE: ">="}
_WRAPPING = {tirx.Add: ("+", "add"), tirx.Sub: ("-", "sub"), tirx.Mul: ("*", "mul")}
_BITWISE = {tirx.BitwiseAnd: "&", tirx.BitwiseOr: "|", tirx.BitwiseXor: "^"}
_SHIFTS = {tirx.LShift: "shl", tirx.RShift: "shr"}
_DIVISIONS = {
    tirx.Div: ("/", "div"),
    tirx.Mod: ("%", "mod"),
    tirx.FloorDiv: ("/", "floordiv"),
    tirx.FloorMod: ("%", "floormod"),
}
_EXTREMA = {tirx.Max: "max", tirx.Min: "min"}
_JUMPS = {"tirx.break_loop": "break;", "tirx.continue_loop": "continue;"}
#: Attributes of statements that carry advice for passes and nothing for C.
_IGNORED_ATTRIBUTES = ("pragma_", "storage_alignment", "volatile_scope", "extern_scope", "compute_scope")


@dataclass(frozen=True, kw_only=True)
class PrintedKernel:
    """One kernel as text.

    Attributes:
        source_template: the complete ``static int32_t @SYMBOL@(...) {...}``; ``@SYMBOL@`` stands for the C symbol. The
            function returns 0, or -1 when an assertion of the operator fails.
        params: tensor types in parameter order, the inputs and then the outputs.
        workspace_bytes: scratch memory behind the last parameter ``uint8_t* workspace``, 128-byte aligned; with 0 there
            is no such parameter.
        macs: multiply-accumulates of one call, where the loops show them; else 0.
    """

    source_template: str
    params: tuple[TensorType, ...]
    workspace_bytes: int
    macs: int


class _Text(NamedTuple):
    """An expression in C. ``data`` is true when its value depends on tensor contents, so that integers may overflow;
    offsets made of loop variables alone cannot, lowering has checked their range."""

    c: str
    data: bool


@dataclass(kw_only=True)
class _Line:
    """One line of the body. A line that ``defines`` a name is dropped when no later line uses the name."""

    text: str
    defines: str | None = None
    uses: frozenset[str] = frozenset()


@dataclass(kw_only=True)
class _Printer:
    num_outputs: int
    lines: list[_Line] = field(default_factory=list)
    indent: int = 1
    workspace_bytes: int = 0
    macs: int = 0
    #: Variable (by identity) -> its expression in C; buffers -> (name, dtype).
    values: dict[int, _Text] = field(default_factory=dict)
    buffers: dict[int, tuple[str, str]] = field(default_factory=dict)
    keep: list[Any] = field(default_factory=list)
    read_only: set[str] = field(default_factory=set)
    counters: dict[str, int] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    trips: list[int] = field(default_factory=list)
    in_offset: bool = False
    analyzer: Any = field(default_factory=lambda: tvm.sym.Analyzer())

    # --- names, lines ---

    def name(self, prefix: str) -> str:
        number = self.counters.get(prefix, 0)
        self.counters[prefix] = number + 1
        return f"{prefix}{number}"

    def emit(self, text: str, *, defines: str | None = None) -> None:
        self.lines.append(_Line(text="  " * self.indent + text, defines=defines, uses=frozenset(self.used)))
        self.used.clear()

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.emit(head + " {")
        self.indent += 1
        yield
        self.indent -= 1
        self.emit("}")

    def live_lines(self) -> tuple[list[str], set[str]]:
        """The lines worth keeping, and all names they use."""
        used: set[str] = set()
        kept: list[str] = []
        for line in reversed(self.lines):
            if line.defines is None or line.defines in used:
                used |= line.uses
                kept.append(line.text)
        return kept[::-1], used

    # --- statements ---

    def stmt(self, node: Any) -> None:
        rule = _STMT_RULES.get(type(node))
        if rule is None:
            raise _unknown(node, "statement")
        rule(self, node)

    def seq(self, node: Any) -> None:
        for stmt in node.seq:
            self.stmt(stmt)

    def evaluate(self, node: Any) -> None:
        value = node.value
        if isinstance(value, tvm.ir.Call) and _op_name(value) in _JUMPS:
            self.emit(_JUMPS[_op_name(value)])
        elif not isinstance(value, tvm.ir.Constant):
            self.emit(f"(void){self.expr(value).c};")

    def bind(self, node: Any) -> None:
        value = self.expr(node.value)
        self.keep.append(node.var)
        if isinstance(node.value, tvm.ir.Var):
            self.values[_key(node.var)] = value
            return
        name = self.name("v")
        dtype = _dtype(node.var)
        self.emit(f"const {DTYPES[dtype][3]} {name} = {_bare(value.c)};", defines=name)
        self.values[_key(node.var)] = _Text(name, value.data)
        if _is_integer(dtype) and not value.data:
            self.analyzer.bind(node.var, node.value, allow_override=True)

    def alloc_buffer(self, node: Any) -> None:
        dtype = _dtype(node.buffer)
        count = max(_numel(node.buffer), 1)
        nbytes = count * DTYPES[dtype][2]
        name = self.name("buf")
        c_type = DTYPES[dtype][3]
        if nbytes <= STACK_BYTES:
            self.emit(f"{c_type} {name}[{count}];", defines=name)
        else:
            offset = self.workspace_bytes
            self.workspace_bytes += -(-nbytes // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT
            self.used.add("workspace")
            self.emit(f"{c_type}* C7X_RESTRICT {name} = ({c_type}*)(void*)(workspace + {offset});", defines=name)
        self.declare(node.buffer, name, dtype)

    def decl_buffer(self, node: Any) -> None:
        data = node.data
        is_data = isinstance(data, tvm.ir.Call) and _op_name(data) == "tirx.buffer_data"
        if not is_data or _key(data.args[0]) not in self.buffers:
            raise _unknown(node, "buffer view")
        name, dtype = self.buffers[_key(data.args[0])]
        if DTYPES[dtype][3] != DTYPES[_dtype(node.buffer)][3]:
            raise _unknown(node, f"view of {dtype} memory as another type in")
        self.declare(node.buffer, name, dtype)

    def declare(self, buffer: Any, name: str, dtype: str) -> None:
        self.keep.append(buffer)
        self.buffers[_key(buffer)] = (name, dtype)

    def store(self, node: Any) -> None:
        name = self.element(node.buffer, node.indices, node)
        if name.split("[", 1)[0] in self.read_only:
            raise _unknown(node, "store into an input")
        if _is_mac(node):
            self.macs += math.prod(self.trips)
        self.emit(f"{name} = {_bare(self.expr(node.value).c)};")

    def loop(self, node: Any) -> None:
        if int(node.kind) == tirx.ForKind.THREAD_BINDING or node.thread_binding is not None:
            raise _unknown(node, "thread loop")
        begin, extent = self.expr(node.min), node.extent
        step = 1 if node.step is None else int(node.step) if isinstance(node.step, tirx.IntImm) else None
        if step is None or step <= 0:
            raise _unknown(node, "loop step of")
        dtype = _dtype(node.loop_var)
        end = self.expr(self.analyzer.simplify(node.min + extent))
        name = self.name("i")
        self.keep.append(node.loop_var)
        self.values[_key(node.loop_var)] = _Text(name, begin.data or end.data)
        if not (begin.data or end.data):
            self.analyzer.bind(node.loop_var, tvm.ir.Range(node.min, node.min + extent), allow_override=True)
        self.trips.append(-(-int(extent) // step) if isinstance(extent, tirx.IntImm) else 0)
        advance = f"++{name}" if step == 1 else f"{name} += {step}"
        with self.block(f"for ({DTYPES[dtype][3]} {name} = {begin.c}; {name} < {end.c}; {advance})"):
            self.stmt(node.body)
        self.trips.pop()

    def while_loop(self, node: Any) -> None:
        with self.block(f"while ({_bare(self.expr(node.condition).c)})"):
            self.stmt(node.body)

    def if_then_else(self, node: Any) -> None:
        with self.block(f"if ({_bare(self.expr(node.condition).c)})"):
            self.stmt(node.then_case)
        if node.else_case is not None:
            with self.block("else"):
                self.stmt(node.else_case)

    def assertion(self, node: Any) -> None:
        self.emit(f"if (!{self.expr(node.condition).c}) return -1;")

    def attribute(self, node: Any) -> None:
        if not node.attr_key.startswith(_IGNORED_ATTRIBUTES):
            raise _unknown(node, f"attribute {node.attr_key} of")
        self.stmt(node.body)

    def leave(self, node: Any) -> None:
        self.emit("break;" if isinstance(node, tirx.Break) else "continue;")

    def return_(self, node: Any) -> None:
        if not isinstance(node.value, tirx.IntImm):
            raise _unknown(node, "return of a value in")
        self.emit(f"return {int(node.value)};")

    # --- expressions ---

    def expr(self, node: Any) -> _Text:
        rule = _EXPR_RULES.get(type(node))
        if rule is None:
            raise _unknown(node, "expression")
        return rule(self, node)

    def constant(self, node: Any) -> _Text:
        return _Text(literal(node.value, _dtype(node)), False)

    def variable(self, node: Any) -> _Text:
        text = self.values.get(_key(node))
        if text is None:
            raise _unknown(node, "variable without a value:")
        self.used.add(text.c)
        return text

    def load(self, node: Any) -> _Text:
        return _Text(self.element(node.source, node.indices, node), True)

    def element(self, buffer: Any, indices: Any, node: Any) -> str:
        if _key(buffer) not in self.buffers or len(indices) != 1:
            raise _unknown(node, "access to memory that is not flat:")
        name, _ = self.buffers[_key(buffer)]
        if name == "workspace":
            raise _unknown(node, "access")
        # An offset that overflows would be out of bounds anyway: plain operators, which the vectoriser understands.
        outside, self.in_offset = self.in_offset, True
        index = self.expr(indices[0])
        self.in_offset = outside
        self.used.add(name)
        return f"{name}[{_bare(index.c)}]"

    def wrapping(self, node: Any) -> _Text:
        symbol, helper = _WRAPPING[type(node)]
        return self.arithmetic(node, symbol, helper, plain=lambda _a, _b: True)

    def division(self, node: Any) -> _Text:
        symbol, helper = _DIVISIONS[type(node)]
        dtype = _dtype(node)
        if dtype.startswith("float") and not isinstance(node, tirx.Div):
            a, b = self.expr(node.a), self.expr(node.b)
            function = f"fmod{_f(dtype)}" if isinstance(node, tirx.Mod) else f"c7x_{helper}_{_SUFFIX[dtype]}"
            return _Text(f"{function}({_bare(a.c)}, {_bare(b.c)})", a.data or b.data)
        return self.arithmetic(node, symbol, helper, plain=self.is_plain_division)

    def is_plain_division(self, a: Any, b: Any) -> bool:
        """C's truncating operators agree with all of TIR's where the operands are known not to be negative."""
        return bool(self.analyzer.const_int_bound(a).min_value >= 0 and self.analyzer.const_int_bound(b).min_value > 0)

    def arithmetic(self, node: Any, symbol: str, helper: str, *, plain: Callable[[Any, Any], bool]) -> _Text:
        a, b = self.expr(node.a), self.expr(node.b)
        dtype = _dtype(node)
        data = a.data or b.data
        if dtype.startswith("float"):
            return _Text(f"({a.c} {symbol} {b.c})", data)
        if dtype == "bool":
            raise _unknown(node, "arithmetic on bool:")
        if (not data or self.in_offset) and plain(node.a, node.b) and dtype in ("int32", "int64"):
            return _Text(f"({a.c} {symbol} {b.c})", data)
        return _Text(f"c7x_{helper}_{_SUFFIX[dtype]}({_bare(a.c)}, {_bare(b.c)})", data)

    def extremum(self, node: Any) -> _Text:
        a, b = self.expr(node.a), self.expr(node.b)
        dtype = _dtype(node)
        kind = _EXTREMA[type(node)]
        data = a.data or b.data
        if dtype == "bool":
            return _Text(f"({a.c} {'|' if kind == 'max' else '&'} {b.c})", data)
        if isinstance(node.b, tirx.FloatImm) and not math.isnan(node.b.value):
            return _Text(f"c7x_{kind}_bound_{_SUFFIX[dtype]}({_bare(a.c)}, {b.c})", data)
        if isinstance(node.a, tirx.FloatImm) and not math.isnan(node.a.value):
            return _Text(f"c7x_{kind}_bound_{_SUFFIX[dtype]}({_bare(b.c)}, {a.c})", data)
        return _Text(f"c7x_{kind}_{_SUFFIX[dtype]}({_bare(a.c)}, {_bare(b.c)})", data)

    def comparison(self, node: Any) -> _Text:
        a, b = self.expr(node.a), self.expr(node.b)
        symbol = _COMPARE[type(node)]
        # Whether an unsigned number is below zero is no question to a C compiler, but a warning.
        if _dtype(node.a).startswith("uint") or _dtype(node.a) == "bool":
            if symbol in ("<", ">=") and _is_zero(node.b):
                return _Text(str(int(symbol == ">=")), False)
            if symbol in (">", "<=") and _is_zero(node.a):
                return _Text(str(int(symbol == "<=")), False)
        return _Text(f"({a.c} {symbol} {b.c})", a.data or b.data)

    def logical(self, node: Any) -> _Text:
        a, b = self.expr(node.a), self.expr(node.b)
        return _Text(f"({a.c} {'&&' if isinstance(node, tirx.And) else '||'} {b.c})", a.data or b.data)

    def negation(self, node: Any) -> _Text:
        a = self.expr(node.a)
        return _Text(f"(!{a.c})", a.data)

    def bitwise(self, node: Any) -> _Text:
        a, b = self.expr(node.a), self.expr(node.b)
        return _Text(f"(({_c_type(node)})({a.c} {_BITWISE[type(node)]} {b.c}))", a.data or b.data)

    def complement(self, node: Any) -> _Text:
        a = self.expr(node.a)
        if _dtype(node) == "bool":
            return _Text(f"(!{a.c})", a.data)
        return _Text(f"(({_c_type(node)})(~{a.c}))", a.data)

    def shift(self, node: Any) -> _Text:
        a, b = self.expr(node.a), self.expr(node.b)
        return _Text(f"c7x_{_SHIFTS[type(node)]}_{_SUFFIX[_dtype(node)]}({_bare(a.c)}, {_bare(b.c)})", a.data or b.data)

    def select(self, node: Any) -> _Text:
        return self.choice(node.condition, node.true_value, node.false_value)

    def choice(self, condition: Any, true_value: Any, false_value: Any) -> _Text:
        """The operator evaluates one side only: the other may be an access out of bounds."""
        c, t, f = self.expr(condition), self.expr(true_value), self.expr(false_value)
        return _Text(f"({c.c} ? {t.c} : {f.c})", c.data or t.data or f.data)

    def let(self, node: Any) -> _Text:
        value = node.value
        body = tvm_ffi.structural_map(node.body, (tvm.ir.Var, lambda var: value if var.same_as(node.var) else var))
        return self.expr(body)

    def cast(self, node: Any) -> _Text:
        value = self.expr(node.value)
        source, target = _dtype(node.value), _dtype(node)
        if source == target:
            return value
        if target == "bool":
            return _Text(f"({value.c} != {literal(0, source)})", value.data)
        if source.startswith("float") and _is_integer(target):
            return _Text(f"c7x_{_SUFFIX[source]}_to_{_SUFFIX[target]}({_bare(value.c)})", value.data)
        return _Text(f"(({_c_type(node)}){value.c})", value.data)

    # --- calls ---

    def call(self, node: Any) -> _Text:
        name = _op_name(node)
        rule = _CALL_RULES.get(name)
        if rule is not None:
            return rule(self, node)
        _, _, function = name.rpartition(".")
        if function in _LIBM:
            return self.float_call(node, function + _f(_dtype(node)))
        raise _unknown(node, f"call of {name or 'a function'} in")

    def float_call(self, node: Any, function: str) -> _Text:
        if _dtype(node) not in ("float32", "float64"):
            raise _unknown(node, f"{function} of {_dtype(node)} in")
        arguments = [self.expr(arg) for arg in node.args]
        return _Text(f"{function}({', '.join(_bare(arg.c) for arg in arguments)})", any(arg.data for arg in arguments))

    def own_float(self, node: Any) -> _Text:
        _, _, function = _op_name(node).rpartition(".")
        own = f"c7x_{function}_f32"
        return self.float_call(node, own if _dtype(node) == "float32" else _OWN_FLOAT32[function])

    def suffixed(self, node: Any) -> _Text:
        """Helpers of c7x_scalar.h that are named after the type of their argument."""
        _, _, function = _op_name(node).rpartition(".")
        argument = self.expr(node.args[0])
        source = _dtype(node.args[0])
        if source not in ("float32", "float64"):
            # Every integer is a finite number.
            if function in ("isnan", "isinf", "isfinite") and source in _SUFFIX:
                return _Text(str(int(function == "isfinite")), False)
            raise _unknown(node, f"{function} of {source} in")
        return _Text(f"c7x_{function}_{_SUFFIX[source]}({_bare(argument.c)})", True)

    def power(self, node: Any) -> _Text:
        base, exponent = node.args
        dtype = _dtype(node)
        template = _POWERS.get(exponent.value) if isinstance(exponent, tirx.FloatImm) else None
        if template is None:
            return self.float_call(node, "pow" + _f(dtype))
        x = self.expr(base)
        return _Text(template.format(s=_SUFFIX[dtype], f=_f(dtype), x=x.c, one=literal(1.0, dtype)), x.data)

    def power_of_ten(self, node: Any) -> _Text:
        dtype = _dtype(node)
        return _Text(f"pow{_f(dtype)}({literal(10.0, dtype)}, {self.expr(node.args[0]).c})", True)

    def scale_by_power_of_two(self, node: Any) -> _Text:
        x, n = (self.expr(arg) for arg in node.args)
        return _Text(f"ldexp{_f(_dtype(node))}({x.c}, {n.c})", True)

    def conditional(self, node: Any) -> _Text:
        return self.choice(*node.args)

    def inner(self, node: Any) -> _Text:
        return self.expr(node.args[0])

    def count_bits(self, node: Any) -> _Text:
        argument = node.args[0]
        value = f"({_unsigned(_dtype(argument))}){self.expr(argument).c}"
        if _op_name(node) == "prim.clz":
            return _Text(f"(({_c_type(node)})c7x_clz({value}, {DTYPES[_dtype(argument)][1]}))", True)
        return _Text(f"(({_c_type(node)})c7x_popcount({value}))", True)

    def reinterpret(self, node: Any) -> _Text:
        source, target = _dtype(node.args[0]), _dtype(node)
        value = self.expr(node.args[0])
        if source == target:
            return value
        if _is_integer(source) and _is_integer(target) and DTYPES[source][1] == DTYPES[target][1]:
            return _Text(f"(({_c_type(node)}){value.c})", value.data)
        if source not in _SUFFIX or target not in _SUFFIX or DTYPES[source][1] != DTYPES[target][1]:
            raise _unknown(node, f"reinterpretation of {source} as {target} in")
        return _Text(f"c7x_{_SUFFIX[source]}_as_{_SUFFIX[target]}({_bare(value.c)})", True)

    def extern(self, node: Any) -> _Text:
        function = node.args[0]
        if not isinstance(function, tvm.ir.StringImm) or not function.value.startswith("c7x_"):
            raise _unknown(node, "call of a function that is none of our helpers:")
        arguments = ", ".join(_bare(self.expr(arg).c) for arg in node.args[1:])
        return _Text(f"{function.value}({arguments})", True)


_STMT_RULES: dict[type, Callable[[_Printer, Any], None]] = {
    tirx.SeqStmt: _Printer.seq,
    tirx.Evaluate: _Printer.evaluate,
    tirx.Bind: _Printer.bind,
    tirx.AllocBuffer: _Printer.alloc_buffer,
    tirx.DeclBuffer: _Printer.decl_buffer,
    tirx.BufferStore: _Printer.store,
    tirx.For: _Printer.loop,
    tirx.While: _Printer.while_loop,
    tirx.IfThenElse: _Printer.if_then_else,
    tirx.AssertStmt: _Printer.assertion,
    tirx.AttrStmt: _Printer.attribute,
    tirx.Break: _Printer.leave,
    tirx.Continue: _Printer.leave,
    tirx.Return: _Printer.return_,
}

_EXPR_RULES: dict[type, Callable[[_Printer, Any], _Text]] = {
    tirx.IntImm: _Printer.constant,
    tirx.FloatImm: _Printer.constant,
    tvm.ir.Var: _Printer.variable,
    tvm.ir.TensorLoad: _Printer.load,
    tirx.Cast: _Printer.cast,
    tirx.Select: _Printer.select,
    tirx.Let: _Printer.let,
    tirx.And: _Printer.logical,
    tirx.Or: _Printer.logical,
    tirx.Not: _Printer.negation,
    tirx.BitwiseNot: _Printer.complement,
    tvm.ir.Call: _Printer.call,
    **dict.fromkeys(_WRAPPING, _Printer.wrapping),
    **dict.fromkeys(_DIVISIONS, _Printer.division),
    **dict.fromkeys(_EXTREMA, _Printer.extremum),
    **dict.fromkeys(_COMPARE, _Printer.comparison),
    **dict.fromkeys(_BITWISE, _Printer.bitwise),
    **dict.fromkeys(_SHIFTS, _Printer.shift),
}

_CALL_RULES: dict[str, Callable[[_Printer, Any], _Text]] = {
    "prim.if_then_else": _Printer.conditional,
    "prim.likely": _Printer.inner,
    "tirx.pow": _Printer.power,
    "tirx.exp10": _Printer.power_of_ten,
    "tirx.ldexp": _Printer.scale_by_power_of_two,
    "tirx.rsqrt": _Printer.suffixed,
    "tirx.isnan": _Printer.suffixed,
    "tirx.isinf": _Printer.suffixed,
    "tirx.isfinite": _Printer.suffixed,
    "tirx.popcount": _Printer.count_bits,
    "prim.clz": _Printer.count_bits,
    "tirx.reinterpret": _Printer.reinterpret,
    "tirx.call_extern": _Printer.extern,
    "tirx.call_pure_extern": _Printer.extern,
    **{f"tirx.{function}": _Printer.own_float for function in _OWN_FLOAT32},
}


def _bare(text: str) -> str:
    """``text`` without the parentheses around the whole of it, where the place it goes to has its own."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[1:-1] if position == len(text) - 1 else text
    return text


def _f(dtype: str) -> str:
    return "f" if dtype == "float32" else ""


def _key(node: Any) -> int:
    """Identity of a TVM object, whose ``==`` builds a comparison instead; valid while the object is kept alive."""
    return hash(node)


def _dtype(node: Any) -> str:
    """The scalar type of an expression or buffer; UnsupportedError for vectors and types that C does not have."""
    dtype = str(node.ty.dtype)
    if dtype not in DTYPES:
        raise _unknown(node, f"type {dtype} in")
    return dtype


def _c_type(node: Any) -> str:
    return DTYPES[_dtype(node)][3]


def _unsigned(dtype: str) -> str:
    return f"uint{DTYPES[dtype][1]}_t"


def _is_integer(dtype: str) -> bool:
    return dtype.startswith(("int", "uint"))


def _is_zero(node: Any) -> bool:
    return isinstance(node, tirx.IntImm) and int(node) == 0


def _op_name(node: Any) -> str:
    return str(getattr(node.op, "name", ""))


def _numel(buffer: Any) -> int:
    if not all(isinstance(size, tirx.IntImm) for size in buffer.ty.shape):
        raise UnsupportedError(
            f"The operator needs a buffer {buffer.name} of dynamic shape {list(buffer.ty.shape)}.",
            cause="A dimension of the model is not fixed at compile time.",
            hint="Fix it with --bind NAME=SIZE.",
        )
    return math.prod(int(size) for size in buffer.ty.shape)


def _is_mac(store: Any) -> bool:
    """acc[i] = acc[i] + a * b"""
    value = store.value
    if not isinstance(value, tirx.Add):
        return False
    for accumulator, product in ((value.a, value.b), (value.b, value.a)):
        while isinstance(product, tirx.Cast):
            product = product.value
        if (
            isinstance(product, tirx.Mul)
            and isinstance(accumulator, tvm.ir.TensorLoad)
            and accumulator.source.same_as(store.buffer)
            and tvm_ffi.structural_equal(list(accumulator.indices), list(store.indices))
        ):
            return True
    return False


def _unknown(node: Any, what: str) -> UnsupportedError:
    try:
        text = str(node).strip()
    except Exception:  # a node that TVM's own printer refuses must not hide the message
        text = repr(node)
    return UnsupportedError(
        f"No rule turns this {what} {type(node).__module__}.{type(node).__name__} into C:\n{text}",
        cause="An operator was lowered by TVM to something that c7x does not print.",
        hint="Please report the model's operator together with this message.",
    )


def print_prim_func(func: tirx.PrimFunc, *, num_outputs: int) -> PrintedKernel:
    """The C text of a lowered function (see :func:`c7x.codegen.lower.lower_prim_func`).

    Args:
        func: flat loops over one-dimensional buffers; every parameter is a buffer of static shape.
        num_outputs: how many of the last parameters are written.

    Raises:
        UnsupportedError: a node, intrinsic, dtype or shape without a rule; the message holds the whole node.
    """
    printer = _Printer(num_outputs=num_outputs)
    num_inputs = len(func.params) - num_outputs
    types: list[TensorType] = []
    names: list[str] = []
    for position, param in enumerate(func.params):
        if not isinstance(param.ty, tirx.BufferType):
            raise _unknown(param, "parameter that is no tensor:")
        _numel(param)
        dtype = _dtype(param)
        types.append(TensorType(dtype=dtype, shape=tuple(int(size) for size in param.ty.shape)))
        names.append(f"in{position}" if position < num_inputs else f"out{position - num_inputs}")
        printer.declare(param, names[-1], dtype)
    printer.read_only.update(names[:num_inputs])
    printer.stmt(func.body)
    body, used = printer.live_lines()
    declarations = [
        f"{'const ' if position < num_inputs else ''}{t.c_type}* C7X_RESTRICT {name}"
        for position, (t, name) in enumerate(zip(types, names, strict=True))
    ]
    # Scratch buffers that turned out unused do not make a workspace.
    workspace_bytes = printer.workspace_bytes if "workspace" in used else 0
    if workspace_bytes:
        declarations.append("uint8_t* C7X_RESTRICT workspace")
    unused = [f"  (void){name};" for name in names if name not in used]
    signature = f"static int32_t {SYMBOL}({', '.join(declarations)})"
    source = "\n".join([signature + " {", *unused, *body, "  return 0;", "}"]) + "\n"
    return PrintedKernel(
        source_template=source, params=tuple(types), workspace_bytes=workspace_bytes, macs=printer.macs
    )


_printed: dict[tuple[Any, int], PrintedKernel] = {}
#: Kept small enough for a process that compiles many models.
_MAX_PRINTED = 2048


def print_kernel(func: tirx.PrimFunc, *, name: str, num_outputs: int) -> PrintedKernel:
    """Lowers and prints ``func``; functions of equal structure are printed once.

    Args:
        func: a fused function of the Relax module, in destination-passing style.
        name: for TVM's messages; the text does not depend on it.
        num_outputs: how many of the last parameters are written.

    Raises:
        UnsupportedError: see :func:`print_prim_func`.
    """
    bare = func
    for attribute in list(func.attrs.keys()) if func.attrs else []:
        bare = bare.without_attr(attribute)
    key = (tvm_ffi.StructuralKey(bare), num_outputs)
    printed = _printed.get(key)
    if printed is None:
        if len(_printed) >= _MAX_PRINTED:
            _printed.clear()
        printed = print_prim_func(lower_prim_func(bare, name), num_outputs=num_outputs)
        _printed[key] = printed
    return printed
