"""c7x/run/protocol.py says the same as native/include/c7x_protocol.h: every value, size and offset."""

from __future__ import annotations

import re
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from c7x.native import native_dir
from c7x.run import protocol

HEADER = native_dir() / "include" / "c7x_protocol.h"
TEXT = HEADER.read_text(encoding="utf-8")

#: Structures of the header that begin with a message header, and what mirrors the rest.
BODIES: dict[str, type[protocol._Struct]] = {
    "c7x_ping_response": protocol.PingResponse,
    "c7x_status_response": protocol.StatusResponse,
    "c7x_dyn_load_request": protocol.DynLoadRequest,
    "c7x_dyn_load_response": protocol.DynLoadResponse,
    "c7x_dyn_unload_request": protocol.DynUnloadRequest,
    "c7x_model_load_request": protocol.ModelLoadRequest,
    "c7x_model_load_response": protocol.ModelLoadResponse,
    "c7x_model_unload_request": protocol.ModelUnloadRequest,
    "c7x_infer_request": protocol.InferRequest,
    "c7x_infer_large_request": protocol.InferLargeRequest,
    "c7x_infer_response": protocol.InferResponse,
}
WHOLE: dict[str, type[protocol._Struct]] = {
    "c7x_msg_header": protocol.Header,
    "c7x_wire_desc": protocol.WireDesc,
    "c7x_printf_header": protocol.PrintfHeader,
}


def _macros() -> list[str]:
    """Macros without parameters whose value is a number."""
    pattern = r"^#define C7X_(\w+) (?:\(?-?\d+\)?|UINT\d+_C\(\w+\)|0x\w+)\s*(?:/\*.*)?$"
    return re.findall(pattern, TEXT, re.MULTILINE)


def _run_c(folder: Path, lines: list[str]) -> list[int]:
    source = folder / "values.c"
    body = "\n".join(f'  printf("%lld\\n", (long long)({line}));' for line in lines)
    source.write_text(f'#include "c7x_protocol.h"\n#include <stdio.h>\nint main(void) {{\n{body}\n  return 0;\n}}\n')
    program = folder / "values"
    words = ["gcc", "-std=c99", "-Wall", "-Werror", "-I", str(HEADER.parent), str(source), "-o", str(program)]
    subprocess.run(words, check=True)
    return [int(line) for line in subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()]


def _mirrored(name: str) -> int | None:
    if name == "MSG_RESPONSE":
        return protocol.RESPONSE
    if name == "MSG_INFER_RESPONSE":
        return protocol.INFER_RESPONSE
    if name.startswith("MSG_"):
        return int(protocol.Message[name.removeprefix("MSG_")])
    if name.startswith("STATUS_"):
        return int(protocol.Status[name.removeprefix("STATUS_")])
    return getattr(protocol, name, None)


def test_values(tmp_path: Path) -> None:
    names = _macros()
    assert len(names) > 70
    ours = {name: _mirrored(name) for name in names}
    # Of no use to a client of the virtual DSP.
    assert {name for name, value in ours.items() if value is None} == {"RPMSG_ADDR_ANY"}
    known = [name for name in names if ours[name] is not None]
    values = _run_c(tmp_path, [f"C7X_{name}" for name in known])
    assert dict(zip(known, values, strict=True)) == {name: ours[name] for name in known}
    assert sum(name.startswith("MSG_") for name in names) - 2 == len(protocol.Message)
    assert sum(name.startswith("STATUS_") for name in names) == len(protocol.Status)


def _layout(kind: type[protocol._Struct], start: int) -> list[tuple[str, int]]:
    """Field and offset, told from where each field's bytes come out in a packed value."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    found = []
    for name in names:
        zeros = {n: (0,) * 6 if n == "shape" else 0 for n in names}
        ones = {**zeros, name: (1, 0, 0, 0, 0, 0) if name == "shape" else 1}
        packed = kind(**ones).pack()
        (at,) = [i for i, byte in enumerate(packed) if byte]
        found.append((name, start + at))
    return found


@pytest.mark.parametrize("name", [*BODIES, *WHOLE])
def test_structures(name: str, tmp_path: Path) -> None:
    kind = BODIES.get(name) or WHOLE[name]
    start = 16 if name in BODIES else 0
    layout = _layout(kind, start)
    members = [re.sub(r"reserved(\d)", r"reserved[\1]", field) for field, _ in layout]
    slots = {"c7x_infer_request": 80, "c7x_infer_response": 80}.get(name, 0)
    values = _run_c(tmp_path, [f"sizeof({name})", *(f"offsetof({name}, {member})" for member in members)])
    assert values == [start + kind.size() + slots, *(at for _, at in layout)]
    # Every field of the structure has a mirror.
    body = re.search(rf"typedef struct {name} {{(.*?)}} {name};", TEXT, re.DOTALL)
    assert body is not None
    declared = set(re.findall(r"\b(\w+)(?:\[\w+\])?;", body[1])) - {"header", "inputs", "outputs"}
    assert declared == {re.sub(r"\[\d\]", "", member) for member in members}


def test_every_structure_is_mirrored() -> None:
    assert set(re.findall(r"^typedef struct (\w+) {", TEXT, re.MULTILINE)) == {*BODIES, *WHOLE}


@pytest.mark.parametrize("compiler", [["gcc", "-x", "c", "-std=c99"], ["gcc", "-x", "c", "-std=c11"],
                                      ["g++", "-x", "c++", "-std=c++14"]])  # fmt: skip
def test_header_alone(compiler: list[str]) -> None:
    """The header's own assertions hold, and it needs nothing before it."""
    subprocess.run([*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", str(HEADER)], check=True)


@pytest.mark.parametrize("kind", [*BODIES.values(), *WHOLE.values()])
def test_round_trip(kind: type[protocol._Struct]) -> None:
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    values = {n: tuple(range(6)) if n == "shape" else i + 1 for i, n in enumerate(names)}
    value = kind(**values)
    assert kind.unpack(b"xy" + value.pack(), 2) == value


def test_messages() -> None:
    desc = protocol.WireDesc(0xC0000080, 12, 2, 2, 32, 0, (3, 1))
    assert desc.dims == (3, 1)
    body = protocol.infer_body(protocol.InferRequest(1, 0, 1), [desc])
    assert protocol.message(protocol.Message.INFER, 7, body) == protocol.Header(0x21, 7, 112).pack() + body
    assert len(protocol.infer_body(protocol.InferRequest(1, 0, 0), [])) == 96
