"""The last step of the compiler: a ``Program`` with addresses becomes lib0.c, devc.c, <name>.h and their archive.

lib0.c is one self-contained C file: the helper headers it needs are copied in, so it compiles anywhere with nothing
beside it. It holds the kernels, then ``cg_main`` (straight-line calls over raw pointers), then ``cg_main_dsp`` (the
entry of module-abi.md sections 1 to 3). It allocates nothing, has no constructor and no pointer table (a module's
read-only data may hold no relocation), and reads no static that it has not written in the same call.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from c7x.codegen.kernels.firmware import FIRMWARE
from c7x.codegen.l2 import CLOSE, OPEN, staged_call, uses_l2
from c7x.codegen.literals import c_identifier, c_string, comment, literal
from c7x.codegen.plan import ARENA_ALIGNMENT, Plan, plan_arena
from c7x.codegen.program import DTYPES, Call, Constant, Port, Program
from c7x.codegen.weights import pack_weights
from c7x.errors import UnsupportedError
from c7x.native import native_dir
from c7x.target import Target
from c7x.version import __version__
from c7x.workspace import dump_json

#: Constants up to this many bytes become C arrays in lib0.c; larger ones go to weights.bin.
INLINE_CONSTANT_BYTES = 64
#: Of the object's array of outputs (module-abi.md 3.3) and of its shape field (3.2).
MAX_OUTPUTS = 128
MAX_NDIM = 8

_PRELUDE = ("c7x_abi.h", "c7x_vector.h", "c7x_scalar.h")
#: Only where a kernel calls one of its helpers: lib0.c of a float model does not carry it.
_INTEGER_PRELUDE = "c7x_integer.h"
#: Only where an operand is staged in L2.
_L2_PRELUDE = "c7x_l2.h"
_FUNCTION = re.compile(r"\b(c7x_\w+)\(")


@dataclass(frozen=True, kw_only=True)
class Emitted:
    """The text and bytes of one compiled model; ``files`` maps file names of the build directory to content."""

    files: Mapping[str, bytes]
    plan: Plan
    weights_bytes: int
    provenance: str


def emit(program: Program, target: Target) -> Emitted:
    """Writes ``program`` as C for ``target``.

    Raises:
        UnsupportedError: more than 128 outputs, or an input or output of rank above 8 (limits of the module ABI).
    """
    _check_limits(program)
    plan = plan_arena(program)
    stored, inline = _split_constants(program)
    weights, entries = pack_weights([c.data for c in stored])
    addresses = _addresses(program, plan, stored, inline, [e.data_offset for e in entries])
    table = [(e.index, e.data_offset) for e in entries]
    lib0 = _lib0(program, target, plan, inline, addresses, table)
    interface = dump_json(io_description(program, plan, len(weights)))
    provenance = hashlib.sha256()
    for part in (lib0.encode(), weights, interface.encode(), str(target).encode()):
        provenance.update(hashlib.sha256(part).digest())
    digest = provenance.hexdigest()
    header = f"{program.name}.h"
    files = {
        "lib0.c": lib0.encode(),
        "devc.c": _devc(program, target, plan, len(table), len(weights), digest).encode(),
        header: _header(program, plan, len(weights)).encode(),
        "weights.bin": weights,
    }
    files["model_library.tar"] = archive(files)
    files["io.json"] = interface.encode()
    return Emitted(files=files, plan=plan, weights_bytes=len(weights), provenance=digest)


def io_description(program: Program, plan: Plan, weights_bytes: int) -> dict[str, object]:
    """The content of io.json (docs/formats.md)."""

    def ports(items: Iterable[Port]) -> list[dict[str, object]]:
        return [
            {"name": p.name, "dtype": p.type.dtype, "shape": list(p.type.shape)}
            | ({"quantisation": asdict(p.quantisation)} if p.quantisation is not None else {})
            for p in items
        ]

    return {
        "inputs": ports(program.inputs),
        "outputs": ports(program.outputs),
        "arena_bytes": plan.arena_bytes,
        "arena_lower_bound": plan.lower_bound,
        "weights_bytes": weights_bytes,
    }


def archive(files: Mapping[str, bytes]) -> bytes:
    """A tar of ``files`` in name order with fixed metadata: the same content gives the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            member = tarfile.TarInfo(name)
            member.size = len(files[name])
            member.mode = 0o644
            tar.addfile(member, io.BytesIO(files[name]))
    return buffer.getvalue()


def _check_limits(program: Program) -> None:
    if len(program.outputs) > MAX_OUTPUTS:
        raise UnsupportedError(
            f"the model has {len(program.outputs)} outputs and a module can return {MAX_OUTPUTS}",
            cause="the array object of the module ABI holds 128 elements",
            hint="concatenate some of the outputs in the model",
        )
    for port in (*program.inputs, *program.outputs):
        if len(port.type.shape) > MAX_NDIM:
            raise UnsupportedError(
                f"{port.name} has rank {len(port.type.shape)} and a module takes rank {MAX_NDIM} at most",
                cause="the tensor object of the module ABI holds 8 dimensions",
                hint="reshape the tensor in the model",
            )


def _split_constants(program: Program) -> tuple[list[Constant], dict[str, Constant]]:
    """Constants for weights.bin, in order, and the small ones that become C arrays, by buffer name."""
    stored, inline = [], {}
    for constant in program.constants:
        if 0 < constant.data.nbytes <= INLINE_CONSTANT_BYTES:
            inline[constant.buffer] = constant
        else:
            stored.append(constant)
    return stored, inline


def _addresses(
    program: Program,
    plan: Plan,
    stored: list[Constant],
    inline: Mapping[str, Constant],
    offsets: list[int],
) -> dict[str, str]:
    """The C expression of every storage's address, as an untyped pointer."""
    addresses: dict[str, str] = {}
    for index, port in enumerate(program.inputs):
        addresses.setdefault(program.storage(port.buffer).name, f"inputs[{index}]")
    for index, port in enumerate(program.outputs):
        storage = program.storage(port.buffer)
        if storage.role == "output":
            addresses.setdefault(storage.name, f"outputs[{index}]")
    for constant, offset in zip(stored, offsets, strict=True):
        addresses[constant.buffer] = f"(w + {offset})"
    for number, name in enumerate(inline):
        addresses[name] = f"cg_constant_{number}"
    for name, offset in plan.offsets.items():
        addresses[name] = f"(a + {offset})"
    return addresses


# --- lib0.c -----------------------------------------------------------------------------------------------------------


def _lib0(
    program: Program,
    target: Target,
    plan: Plan,
    inline: Mapping[str, Constant],
    addresses: Mapping[str, str],
    table: list[tuple[int, int]],
) -> str:
    prints = target.profile_layers or target.debug_alloc or not target.skip_runtime_checks
    includes = ["math.h", "stddef.h", "stdint.h", "string.h"] + (["stdio.h"] if prints else [])
    parts = [
        f"/* lib0.c: model {comment(program.name)}, compiled by c7x {__version__} for {comment(str(target))}.\n"
        " * Generated; compiles alone as C99 and as C++14. */",
        "\n".join(f"#include <{name}>" for name in sorted(includes)),
        _ENTRY_DECLARATIONS,
        *(_prelude(name) for name in _PRELUDE),
    ]
    integer = _prelude(_INTEGER_PRELUDE)
    helpers = set(_FUNCTION.findall(integer)) - set(_FUNCTION.findall("".join(parts)))
    if any(not helpers.isdisjoint(_FUNCTION.findall(kernel.source)) for kernel in program.kernels):
        parts.append(integer)
    if uses_l2(program.calls):
        parts.append(_prelude(_L2_PRELUDE))
    if declared := [FIRMWARE[k.symbol].prototype for k in program.kernels if not k.source]:
        parts.append(_firmware_declarations(declared))
    parts += [kernel.source.strip("\n") for kernel in program.kernels if kernel.source]
    for number, constant in enumerate(inline.values()):
        parts.append(_constant_array(number, constant, program, target))
    if target.profile_layers:
        parts.append(_profile(program))
    if target.debug_alloc:
        parts.append(_DEBUG_ALLOC)
    parts.append(_cg_main(program, target, plan, addresses))
    parts.append(_cg_main_dsp(program, target, plan, table))
    return "\n\n".join(parts) + "\n"


def _firmware_declarations(prototypes: Sequence[str]) -> str:
    lines = ["#ifdef __cplusplus", 'extern "C" {', "#endif", *(f"{p};" for p in sorted(prototypes))]
    return "\n".join(["/* What the firmware exports. */", *lines, "#ifdef __cplusplus", "}", "#endif"])


def _prelude(name: str) -> str:
    return (native_dir() / "include" / name).read_text(encoding="utf-8").strip("\n")


_ENTRY_DECLARATIONS = """\
#if defined(__C7000__) && !defined(_HOST_BUILD)
#define CG_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define CG_EXPORT __attribute__((visibility("default")))
#else
#define CG_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif
CG_EXPORT int32_t cg_main(const void *const *inputs, void *const *outputs, const void *weights, void *arena);
CG_EXPORT int cg_main_dsp(void *inputs, int num_inputs, void *constants, void *result);
#ifdef __cplusplus
}
#endif"""


def _constant_array(number: int, constant: Constant, program: Program, target: Target) -> str:
    tensor = program.buffer(constant.buffer).type
    values = ", ".join(literal(v, tensor.dtype) for v in constant.data.reshape(-1).tolist())
    return (
        f"static const C7X_ALIGNED({target.constants_byte_alignment}) {tensor.c_type} "
        f"cg_constant_{number}[{tensor.numel}] = {{{values}}};"
    )


def _cg_main(program: Program, target: Target, plan: Plan, addresses: Mapping[str, str]) -> str:
    lines = [
        "int32_t cg_main(const void *const *inputs, void *const *outputs, const void *weights, void *arena) {",
        "  const uint8_t *w = (const uint8_t *)weights;",
        "  uint8_t *a = (uint8_t *)arena;",
        "  int32_t status = 0;",
        *([OPEN] if uses_l2(program.calls) else []),
        "  (void)inputs;",
        "  (void)outputs;",
        "  (void)w;",
        "  (void)a;",
    ]
    if target.profile_layers:
        lines.append("  cg_profile_begin();")
    if target.debug_alloc:
        lines.append("  cg_alloc_calls = 0;")
    allocated: set[str] = set()
    kernels = {k.symbol: k for k in program.kernels}
    for index, call in enumerate(program.calls):
        if target.debug_alloc:
            for name in (*call.outputs, *((call.workspace,) if call.workspace else ())):
                storage = program.storage(name)
                if storage.name in plan.offsets and storage.name not in allocated:
                    allocated.add(storage.name)
                    lines.append(f"  cg_debug_alloc({storage.type.nbytes}, {addresses[storage.name]});")
        lines.append(f"  /* {index}: {_call_comment(call)} */")
        if target.profile_layers:
            lines.append("  cg_profile_enter();")
        lines += _call_lines(program, index, call, addresses, extern=not kernels[call.kernel].source)
        lines.append("  if (status != 0) return status;")
        if target.profile_layers:
            lines.append("  cg_profile_leave();")
    if uses_l2(program.calls):
        lines.append(CLOSE)
    lines += _copies(program, addresses)
    lines.append("  return status;")
    lines.append("}")
    return "\n".join(lines)


def _call_comment(call: Call) -> str:
    """Name, Relax operators, nodes of the exported graph, and the user's lines, or modules where no line is known."""
    origin = call.provenance
    text = call.name or call.kernel
    for before, names, after in (
        (": ", origin.relax_ops, ""),
        (" (", origin.nodes, ")"),
        (" at ", origin.source, ""),
        (" in ", () if origin.source else origin.modules, ""),
    ):
        if names:
            text += f"{before}{', '.join(names)}{after}"
    return comment(text)


def _call_lines(program: Program, index: int, call: Call, addresses: Mapping[str, str], *, extern: bool) -> list[str]:
    """The lines that run the kernel and leave its result in ``status``."""
    pointers: list[list[str]] = []
    for names, const in ((call.inputs, "const "), (call.outputs, "")):
        typed = [(program.buffer(name).type.c_type, addresses[program.storage(name).name]) for name in names]
        pointers.append([f"(void *){a}" if extern else f"({const}{c_type} *){a}" for c_type, a in typed])
    if extern:
        if call.staging is not None and call.staging.input_bytes:
            return staged_call(call, call.staging, f"{index} ({call.name or call.kernel})", pointers[0], pointers[1])
        arguments = FIRMWARE[call.kernel].arrange(pointers[0], pointers[1], call.scalars)
        return [f"  status = {call.kernel}({', '.join(arguments)});"]
    if call.workspace is not None:
        pointers.append([f"(uint8_t *){addresses[call.workspace]}"])
    return [f"  status = {call.kernel}({', '.join(argument for part in pointers for argument in part)});"]


def _copies(program: Program, addresses: Mapping[str, str]) -> list[str]:
    """Copies for outputs that no call writes in place: an input or constant returned, or one tensor returned twice."""
    lines = []
    written: set[str] = set()
    for index, port in enumerate(program.outputs):
        storage = program.storage(port.buffer)
        if storage.role == "output" and storage.name not in written:
            written.add(storage.name)
            continue
        if port.type.nbytes:
            lines.append(f"  memcpy(outputs[{index}], {addresses[storage.name]}, {port.type.nbytes});")
    return lines


def _profile(program: Program) -> str:
    """Cycle counters and the report of module-abi.md section 4, whose text is fixed to the byte."""
    names = [call.kernel for call in program.calls]
    count = max(len(names), 1)
    width = max((len(n) for n in names), default=0) + 1
    rows = ",\n".join(f"    {c_string(n)}" for n in names) or '    ""'
    return _PROFILE.format(count=count, width=width, rows=rows)


_PROFILE = """\
#if defined(__C7000__) && !defined(_HOST_BUILD)
#include <c7x.h>
static uint64_t cg_cycles(void) {{ return __TSC; }}
#else
#ifdef __cplusplus
extern "C"
#endif
uint64_t c7x_cycle_counter(void);
static uint64_t cg_cycles(void) {{ return c7x_cycle_counter(); }}
#endif

static const char cg_profile_names[{count}][{width}] = {{
{rows}}};
static uint64_t cg_profile_cycles[{count}];
static uint64_t cg_profile_start;
static int32_t cg_profile_done;
static int32_t cg_profile_in_flight;

static void cg_profile_begin(void) {{
  cg_profile_done = 0;
  cg_profile_in_flight = 0;
}}

static void cg_profile_enter(void) {{
  cg_profile_in_flight = 1;
  cg_profile_start = cg_cycles();
}}

static void cg_profile_leave(void) {{
  cg_profile_cycles[cg_profile_done++] = cg_cycles() - cg_profile_start;
  cg_profile_in_flight = 0;
}}

#ifdef __cplusplus
extern "C" {{
#endif
CG_EXPORT void TVMPrintLayerProfile(void);
void TVMPrintLayerProfile(void) {{
  uint64_t total = 0;
  int32_t i;
  printf("\\n");
  printf("===== TVM Layer Profile =====\\n");
  for (i = 0; i < cg_profile_done; ++i) {{
    printf("[%3d] %-40s %llu cycles\\n", (int)i, cg_profile_names[i], (unsigned long long)cg_profile_cycles[i]);
    total += cg_profile_cycles[i];
  }}
  printf("-----------------------------\\n");
  printf("Total: %llu cycles (%d layers)\\n", (unsigned long long)total, (int)cg_profile_done);
  if (cg_profile_in_flight) printf("[FAILED, in flight] %s\\n", cg_profile_names[cg_profile_done]);
  printf("=============================\\n");
}}
#ifdef __cplusplus
}}
#endif"""

_DEBUG_ALLOC = """\
#ifdef __cplusplus
extern "C" {
#endif
size_t tvm_dsp_get_free_memory(int pool);
CG_EXPORT void TVMPrintAllocSummary(void);
#ifdef __cplusplus
}
#endif

static int32_t cg_alloc_calls;

/* The arena is planned at compile time: a "request" here is a buffer's first use at its fixed place. */
static void cg_debug_alloc(size_t size, const void *address) {
  printf("[alloc-storage #%d] request %lu bytes  (L2 free: %lu, Main free: %lu)\\n", (int)cg_alloc_calls,
         (unsigned long)size, (unsigned long)tvm_dsp_get_free_memory(0), (unsigned long)tvm_dsp_get_free_memory(1));
  printf("  -> %p OK\\n", address);
  ++cg_alloc_calls;
}

void TVMPrintAllocSummary(void) {
  printf("===== TVM Alloc Debug Summary =====\\n");
  printf("Total AllocStorage calls: %d\\n", (int)cg_alloc_calls);
  printf("Final pool state: L2 free=%lu, Main free=%lu\\n", (unsigned long)tvm_dsp_get_free_memory(0),
         (unsigned long)tvm_dsp_get_free_memory(1));
}"""


# Its state is not 0 at first: the loader copies what the file holds and clears nothing.
_TIDL = """\
#ifdef __cplusplus
extern "C"
#endif
void tidl_bridge_init_all(void);

static int32_t cg_tidl_pending = 1;"""


# --- cg_main_dsp ------------------------------------------------------------------------------------------------------


def _cg_main_dsp(program: Program, target: Target, plan: Plan, table: list[tuple[int, int]]) -> str:
    checked = not target.skip_runtime_checks
    outputs = program.outputs
    parts: list[str] = []
    if plan.arena_bytes:
        parts.append(f"static C7X_ALIGNED({ARENA_ALIGNMENT}) uint8_t cg_arena[{plan.arena_bytes}];")
    for index, port in enumerate(outputs):
        size = max(port.type.nbytes, 1)
        parts.append(f"static C7X_ALIGNED({ARENA_ALIGNMENT}) uint8_t cg_output_{index}[{size}];")
    parts.append(f"static c7x_tensor cg_output_objects[{max(len(outputs), 1)}];")
    if len(outputs) != 1:
        parts.append("static c7x_array cg_output_array;")
    if table:
        parts.append(_weights_lookup(table))
    if checked and program.inputs:
        parts.append(_INPUT_CHECK)
    if target.tidl_runtime:
        parts.append(_TIDL)
    parts.append(_OUTPUT_OBJECT)
    body = [
        "int cg_main_dsp(void *inputs, int num_inputs, void *constants, void *result) {",
        *(["  const c7x_any *cells = (const c7x_any *)inputs;"] if program.inputs else []),
        "  c7x_any *slot = (c7x_any *)result;",
        f"  const void *input_data[{max(len(program.inputs), 1)}];",
        f"  void *output_data[{max(len(outputs), 1)}];",
        "  const void *weights = NULL;",
        "  int32_t status;",
    ]
    if program.inputs:
        body.append("  int i;")
    body += [
        "  (void)inputs;",
        "  (void)constants;",
        f"  if (num_inputs != {len(program.inputs)} || slot == NULL) return -1;",
    ]
    if program.inputs:
        body += [
            "  if (cells == NULL) return -1;",
            "  for (i = 0; i < num_inputs; ++i) {",
            "    const c7x_tensor *tensor = (const c7x_tensor *)cells[i].v.ptr;",
            "    if (cells[i].type_index != C7X_TYPE_TENSOR || tensor == NULL) return -1;",
            "    input_data[i] = (const uint8_t *)tensor->data + tensor->byte_offset;",
            "  }",
        ]
    else:
        body.append("  input_data[0] = NULL;")
    if checked:
        for index, port in enumerate(program.inputs):
            body.append("  {")
            shape = "NULL"
            if port.type.shape:
                body.append(f"    static const int64_t shape[{len(port.type.shape)}] = {{{_dims(port)}}};")
                shape = "shape"
            code, bits, size, _ = DTYPES[port.type.dtype]
            tensor = f"(const c7x_tensor *)cells[{index}].v.ptr"
            body.append(
                f"    if (cg_check_input({index}, {c_string(port.name)}, {tensor}, {code}, {bits}, {size}, "
                f"{len(port.type.shape)}, {shape}) != 0) return -1;"
            )
            body.append("  }")
    if target.tidl_runtime:
        body += ["  if (cg_tidl_pending != 0) {", "    tidl_bridge_init_all();", "    cg_tidl_pending = 0;", "  }"]
    if table:
        body.append("  weights = cg_find_weights((const c7x_any *)constants);")
        body.append("  if (weights == NULL) return -1;")
    body += [f"  output_data[{i}] = cg_output_{i};" for i in range(len(outputs))] or ["  output_data[0] = NULL;"]
    arena = "cg_arena" if plan.arena_bytes else "NULL"
    body.append(f"  status = cg_main(input_data, output_data, weights, {arena});")
    body.append("  if (status != 0) return (int)status;")
    for index, port in enumerate(outputs):
        code, bits, _, _ = DTYPES[port.type.dtype]
        ndim = len(port.type.shape)
        body.append(f"  cg_set_output(&cg_output_objects[{index}], cg_output_{index}, {code}, {bits}, {ndim});")
        for axis, extent in enumerate(port.type.shape):
            body.append(f"  cg_output_objects[{index}].shape_storage[{axis}] = {extent};")
    body += ["  slot->small_len = 0;"]
    if len(outputs) == 1:
        body += ["  slot->type_index = C7X_TYPE_TENSOR;", "  slot->v.ptr = &cg_output_objects[0];"]
    else:
        body += [
            "  memset(&cg_output_array, 0, sizeof(cg_output_array));",
            "  cg_output_array.header.type_index = C7X_TYPE_ARRAY;",
            "  cg_output_array.header.ref_counter = 1;",
            f"  cg_output_array.size = {len(outputs)};",
        ]
        for index in range(len(outputs)):
            body.append(f"  cg_output_array.elements[{index}].type_index = C7X_TYPE_TENSOR;")
            body.append(f"  cg_output_array.elements[{index}].v.ptr = &cg_output_objects[{index}];")
        body += ["  slot->type_index = C7X_TYPE_ARRAY;", "  slot->v.ptr = &cg_output_array;"]
    body += ["  return 0;", "}"]
    return "\n\n".join([*parts, "\n".join(body)])


def _dims(port: Port) -> str:
    return ", ".join(str(d) for d in port.type.shape)


def _weights_lookup(table: list[tuple[int, int]]) -> str:
    rows = ",\n".join(f"    {{{index}, {offset}}}" for index, offset in table)
    return f"""\
/* Entry of weights.bin and offset of its data from the file's start. */
static const uint64_t cg_weights[{len(table)}][2] = {{
{rows}}};

/* The start of weights.bin in memory. The loader hands out one object per entry, pointing into the file, so every
 * object must agree about where the file starts; NULL when there are no constants or they do not fit this module. */
static const void *cg_find_weights(const c7x_any *constants) {{
  const uint8_t *base = NULL;
  int i;
  if (constants == NULL) return NULL;
  for (i = 0; i < {len(table)}; ++i) {{
    const c7x_any *cell = &constants[cg_weights[i][0]];
    const uint8_t *start;
    if (cell->type_index != C7X_TYPE_TENSOR || cell->v.ptr == NULL) return NULL;
    start = (const uint8_t *)((const c7x_tensor *)cell->v.ptr)->data - cg_weights[i][1];
    if (i > 0 && start != base) return NULL;
    base = start;
  }}
  return base;
}}"""


_INPUT_CHECK = """\
static int cg_check_input(int index, const char *name, const c7x_tensor *tensor, int code, int bits, int align,
                          int ndim, const int64_t *shape) {
  int i;
  if (tensor->dtype.code != code || tensor->dtype.bits != bits || tensor->dtype.lanes != 1) {
    printf("cg_main_dsp: input %d (%s) has dtype code %d with %d bits and %d lanes, expected code %d with %d bits\\n",
           index, name, (int)tensor->dtype.code, (int)tensor->dtype.bits, (int)tensor->dtype.lanes, code, bits);
    return -1;
  }
  if (tensor->ndim != ndim) {
    printf("cg_main_dsp: input %d (%s) has rank %d, expected %d\\n", index, name, (int)tensor->ndim, ndim);
    return -1;
  }
  for (i = 0; i < ndim; ++i) {
    if (tensor->shape[i] != shape[i]) {
      printf("cg_main_dsp: input %d (%s) has extent %ld in dimension %d, expected %ld\\n", index, name,
             (long)tensor->shape[i], i, (long)shape[i]);
      return -1;
    }
  }
  if (tensor->strides != NULL) {
    int64_t step = 1;
    for (i = ndim - 1; i >= 0; --i) {
      if (tensor->strides[i] != step && shape[i] != 1) {
        printf("cg_main_dsp: input %d (%s) is not compact in dimension %d\\n", index, name, i);
        return -1;
      }
      step *= shape[i];
    }
  }
  if (tensor->data == NULL || ((uintptr_t)tensor->data + tensor->byte_offset) % (uintptr_t)align != 0) {
    printf("cg_main_dsp: input %d (%s) has no data, or data not aligned to %d bytes\\n", index, name, align);
    return -1;
  }
  return 0;
}"""

_OUTPUT_OBJECT = """\
static void cg_set_output(c7x_tensor *tensor, void *data, int code, int bits, int ndim) {
  memset(tensor, 0, sizeof(*tensor));
  tensor->header.type_index = C7X_TYPE_TENSOR;
  tensor->header.ref_counter = 1;
  tensor->data = data;
  tensor->ndim = ndim;
  tensor->dtype.code = (uint8_t)code;
  tensor->dtype.bits = (uint8_t)bits;
  tensor->dtype.lanes = 1;
  tensor->shape = tensor->shape_storage;
}"""


# --- devc.c and <name>.h ----------------------------------------------------------------------------------------------


def _devc(program: Program, target: Target, plan: Plan, num_constants: int, weights_bytes: int, provenance: str) -> str:
    lines = [
        f"/* devc.c: what model {comment(program.name)} is; compiled by c7x {__version__}. Generated. */",
        f'#include "{program.name}.h"',
        "",
    ]
    for kind, ports in (("inputs", program.inputs), ("outputs", program.outputs)):
        for index, port in enumerate(ports):
            if port.type.shape:
                lines.append(f"static const int64_t {kind}_{index}_shape[] = {{{_dims(port)}}};")
        rows = []
        for index, port in enumerate(ports):
            code, bits, _, _ = DTYPES[port.type.dtype]
            shape = f"{kind}_{index}_shape" if port.type.shape else "NULL"
            rows.append(
                f"    {{{c_string(port.name)}, {c_string(port.type.dtype)}, {code}, {bits}, {len(port.type.shape)}, "
                f"{shape}, {port.type.nbytes}}}"
            )
        if rows:
            lines.append(f"static const c7x_tensor_info {kind}[] = {{")
            lines.append(",\n".join(rows) + "};")
    lines += [
        "",
        "const c7x_model_info c7x_model = {",
        "    C7X_MODEL_VERSION,",
        f"    {c_string(program.name)},",
        f"    {c_string(str(target))},",
        f"    {c_string(provenance)},",
        f"    {len(program.inputs)},",
        f"    {'inputs' if program.inputs else 'NULL'},",
        f"    {len(program.outputs)},",
        f"    {'outputs' if program.outputs else 'NULL'},",
        f"    {len(program.calls)},",
        f"    {num_constants},",
        f"    {plan.arena_bytes},",
        f"    {ARENA_ALIGNMENT},",
        f"    {weights_bytes}}};",
    ]
    return "\n".join(lines) + "\n"


def _header(program: Program, plan: Plan, weights_bytes: int) -> str:
    prefix = c_identifier(program.name).upper()
    interface = (native_dir() / "include" / "c7x_model.h").read_text(encoding="utf-8").strip("\n")
    lines = [
        f"/* {program.name}.h: how to call model {comment(program.name)} from C or C++. By c7x {__version__}. */",
        f"#ifndef {prefix}_MODEL_H",
        f"#define {prefix}_MODEL_H",
        "",
        interface,
        "",
        f"#define {prefix}_NUM_INPUTS {len(program.inputs)}",
        f"#define {prefix}_NUM_OUTPUTS {len(program.outputs)}",
        f"#define {prefix}_ARENA_BYTES {plan.arena_bytes}",
        f"#define {prefix}_ARENA_ALIGNMENT {ARENA_ALIGNMENT}",
        f"#define {prefix}_WEIGHTS_BYTES {weights_bytes}",
    ]
    for kind, ports in (("INPUT", program.inputs), ("OUTPUT", program.outputs)):
        for index, port in enumerate(ports):
            shape = ", ".join(str(d) for d in port.type.shape) or "scalar"
            lines.append(f"/* {kind.lower()} {index}: {comment(port.name)}, {port.type.dtype}, [{shape}] */")
            lines.append(f"#define {prefix}_{kind}_{index}_BYTES {port.type.nbytes}")
            lines.append(f"#define {prefix}_{kind}_{index}_NAME {c_string(port.name)}")
    lines += ["", f"#endif /* {prefix}_MODEL_H */"]
    return "\n".join(re.sub(r"[ \t]+$", "", line) for line in lines) + "\n"
