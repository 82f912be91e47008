"""Every message, status code and rule of the wire protocol, from raw bytes against the virtual DSP."""

from __future__ import annotations

import math
import os
import shutil
import signal
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from c7x.toolchain.vdsp import build_server, server_program
from tests.integration import vdsp_harness as v
from tests.integration.handwritten import W, affine_weights
from tests.integration.vdsp_harness import RawDsp, desc, header, make_module

Start = Callable[..., RawDsp]


@pytest.fixture(scope="session")
def program() -> Path:
    return server_program()


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    root = tmp_path_factory.mktemp("modules")
    return {
        "plain": make_module(root / "plain"),
        "weights": make_module(root / "weights", weights=affine_weights()),
        "bad_weights": make_module(root / "bad_weights", weights=b"\x01" + bytes(7)),
        "profile": make_module(root / "profile", defines=["WITH_PROFILE", "WITH_CLEANUP=1"]),
        "bad_cleanup": make_module(root / "bad_cleanup", defines=["WITH_CLEANUP=2"]),
        "no_entry": make_module(root / "no_entry").replace(b"\0cg_main_dsp\0", b"\0cg_nain_dsp\0"),
        "tidl": make_module(root / "tidl", defines=["WITH_TIDL"]),
    }


@pytest.fixture
def start(program: Path, tmp_path: Path) -> Iterator[Start]:
    running: list[RawDsp] = []

    def make(*options: str) -> RawDsp:
        running.append(RawDsp(program, tmp_path / str(len(running)), *options))
        return running[-1]

    yield make
    for dsp in running:
        dsp.__exit__(None, None, None)


@pytest.fixture
def dsp(start: Start) -> RawDsp:
    return start()


# ------------------------------------------------------------------------------------------------ ping, status, form


def test_ready_line(dsp: RawDsp) -> None:
    assert dsp.ready["status"] == "ready"
    assert (dsp.ready["base"], dsp.ready["size"]) == ("0xC0000000", v.SIZE)
    assert (dsp.ready["socket"], dsp.ready["shm"]) == (str(dsp.socket_path), str(dsp.shm))
    assert dsp.shm.stat().st_size == v.SIZE
    # Sparse: nothing of it is there before it is used, but the printf header's page.
    assert dsp.shm.stat().st_blocks * 512 <= 1 << 16
    assert dsp.shm.stat().st_mode & 0o777 == 0o600
    assert dsp.socket_path.stat().st_mode & 0o777 == 0o600


def test_ping_and_status(dsp: RawDsp) -> None:
    answer = dsp.ask(v.PING)
    kind, seq, length, status, version, uptime = struct.unpack("<IIIiII", answer)
    assert (kind, seq, length, status, version) == (0x1001, 1, 24, 0, 0x020000)
    time.sleep(0.05)
    kind, _, length, status, version, later, completed, failed = struct.unpack("<IIIiIIII", dsp.ask(v.GET_STATUS))
    assert (kind, length, status, version, completed, failed) == (0x1003, 32, 0, 0x020000, 0, 0)
    assert 50 <= later - uptime < 20_000


def test_the_length_field_of_a_request_is_not_read(dsp: RawDsp) -> None:
    assert len(dsp.raw(header(v.PING, 77, 0xFFFF))) == 24
    # Trailing bytes are ignored.
    assert len(dsp.raw(header(v.PING, 78, 16) + bytes(400))) == 24


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (v.DYN_LOAD, 32), (v.DYN_UNLOAD, 20), (v.MODEL_LOAD, 32), (v.MODEL_UNLOAD, 20), (v.INFER, 112),
        (v.INFER_LARGE, 48), (0x02, 17), (0x11, 17), (0x1021, 17), (0xFFFFFFFF, 17), (0, 17),
    ],
)  # fmt: skip
def test_short_and_unknown_messages(dsp: RawDsp, kind: int, size: int) -> None:
    for length in {16, size - 1}:
        answer = dsp.raw(header(kind, 5, length) + bytes(length - 16))
        assert answer == header(kind | v.ANSWER, 5, 16, v.INVALID)


@pytest.mark.parametrize("length", [0, 1, 15])
def test_less_than_a_header_gets_no_answer(dsp: RawDsp, length: int) -> None:
    if length:
        dsp.connection.send(bytes(length))
        dsp.connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            dsp.connection.recv(100)
    dsp.connection.settimeout(20)
    assert dsp.status(dsp.ask(v.PING)) == v.SUCCESS


def test_several_connections_and_a_client_that_goes(dsp: RawDsp) -> None:
    first = dsp.connection
    for seq in range(40):
        other = dsp.connect()
        other.send(header(v.PING, seq, 16))
        assert len(other.recv(100)) == 24
        other.send(header(v.PING, seq, 16))
        other.close()
    dsp.connection = first
    assert dsp.status(dsp.ask(v.PING)) == v.SUCCESS


# ------------------------------------------------------------------------------------------------------- DYN_LOAD


def test_load_and_unload(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    assert dsp.load(modules["plain"]) == (v.SUCCESS, 1, (0, 0, 0))
    assert dsp.unload(1) == v.SUCCESS
    assert dsp.unload(1) == v.HANDLE
    assert dsp.unload(0) == v.HANDLE
    # Handles only increase.
    assert dsp.must_load(modules["plain"]) == 2
    assert "Loaded module 2" in dsp.log.read_text()


@pytest.mark.parametrize("size", [0, v.STAGING_SIZE + 1, 0xFFFFFFFF])
def test_load_size(dsp: RawDsp, size: int) -> None:
    answer = dsp.ask(v.DYN_LOAD, struct.pack("<IIII", size, 0, 0, 0))
    assert (len(answer), dsp.status(answer)) == (40, v.SIZE_ERROR)


def test_load_of_garbage(dsp: RawDsp) -> None:
    assert dsp.load(b"no ELF file at all, but long enough for the header of one: 64 bytes")[0] == v.LOAD
    assert "not an ELF file" in dsp.text()
    answer = dsp.ask(v.DYN_LOAD, struct.pack("<IIII", v.STAGING_SIZE, 0, 0, 0))
    assert dsp.status(answer) == v.LOAD


def test_four_modules(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    handles = [dsp.must_load(modules["plain"]) for _ in range(4)]
    assert handles == [1, 2, 3, 4]
    status, handle, _ = dsp.load(modules["plain"])
    assert (status, handle) == (v.LOAD, 0)
    assert "4 modules" in dsp.text()
    # Any handle runs the module loaded last.
    assert dsp.do(1, v.OUTPUTS, 1, large=False).status == v.SUCCESS
    assert dsp.unload(4) == v.SUCCESS
    assert dsp.unload(4) == v.HANDLE


def test_unload_order(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    """Unloading one module gives back the memory of all: what is left must not run (strict)."""
    first, second = dsp.must_load(modules["plain"]), dsp.must_load(modules["plain"])
    assert dsp.unload(first) == v.SUCCESS
    result = dsp.do(second, v.OUTPUTS, 1, large=False)
    assert result.status == v.CALL
    assert "gave back its memory" in result.text
    assert dsp.unload(second) == v.SUCCESS
    assert dsp.do(second, v.OUTPUTS, 1, large=False).status == v.SYMBOL
    handle = dsp.must_load(modules["plain"])
    assert dsp.do(handle, v.OUTPUTS, 1).status == v.SUCCESS


def test_module_without_entry(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    handle = dsp.must_load(modules["no_entry"])
    assert dsp.do(handle, v.OUTPUTS, 1, large=False).status == v.SYMBOL
    result = dsp.do(handle, v.OUTPUTS, 1)
    assert (result.status, result.value) == (v.SYMBOL, -1)


def test_load_without_memory(start: Start, modules: dict[str, bytes]) -> None:
    dsp = start("--fault", "oom=2")
    handle = dsp.must_load(modules["plain"])
    status, _, (requested, free, total) = dsp.load(modules["plain"])
    assert status == v.NOMEM
    assert total == 0x16000000
    assert 0 < requested < 1 << 20
    assert total - (1 << 20) < free < total
    assert dsp.do(handle, v.OUTPUTS, 1, large=False).status == v.SUCCESS
    # The record is cleared by the next load.
    assert dsp.load(modules["plain"])[2] == (0, 0, 0)


def test_cleanup_function(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    assert dsp.unload(dsp.must_load(modules["profile"])) == v.SUCCESS
    assert dsp.text() == "cleanup\n"


def test_cleanup_that_crashes(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    handle = dsp.must_load(modules["bad_cleanup"])
    assert dsp.unload(handle) == v.CALL
    assert "SIGSEGV" in dsp.text()
    assert dsp.unload(handle) == v.HANDLE
    handle = dsp.must_load(modules["plain"])
    assert dsp.do(handle, v.OUTPUTS, 1).status == v.SUCCESS


def test_imports_by_board(start: Start, modules: dict[str, bytes]) -> None:
    assert start("--board", "j722s-evm").load(modules["tidl"])[0] == v.SUCCESS
    dsp = start("--board", "beagley-ai")
    assert dsp.load(modules["tidl"])[0] == v.LOAD
    assert "imports c7x_int8_max_pool_tidl" in dsp.text()
    # A board does not see it at load.
    assert start("--board", "beagley-ai", "--no-strict").load(modules["tidl"])[0] == v.SUCCESS


# ---------------------------------------------------------------------------------------------------------- models


def test_embedded_weights(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    handle = dsp.must_load(modules["weights"])
    for large in (False, True, False, True):
        result = dsp.do(handle, v.CONSTANTS, large=large)
        assert struct.unpack("<f", result.data[0]) == (W[0],)
    # The embedded model's number is 1, and may be named.
    assert dsp.infer(handle, [dsp.command(v.CONSTANTS)], model=1).status == v.SUCCESS
    assert dsp.infer(handle, [dsp.command(v.CONSTANTS)], model=2).status == v.HANDLE
    assert dsp.infer_large(handle, [dsp.command(v.CONSTANTS)], model=2).status == v.HANDLE


def test_broken_embedded_weights_are_only_logged(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    handle = dsp.must_load(modules["bad_weights"])
    assert "weights" in dsp.log.read_text()
    assert struct.unpack("<f", dsp.do(handle, v.CONSTANTS).data[0]) == (-1.0,)


def test_model_load(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    """A separate weights file: its constants work with INFER, and INFER_LARGE destroys them when they came last."""
    handle = dsp.must_load(modules["plain"])
    weights = affine_weights()
    staged = dsp.memory[: len(weights)]
    dsp.memory[: len(weights)] = weights
    answer = dsp.ask(v.MODEL_LOAD, struct.pack("<IIII", len(weights), 0, 0, 0))
    kind, _, length, status, model, count, *oom = struct.unpack("<IIIiIIIII", answer)
    assert (kind, length, status, model, count, oom) == (0x1020, 36, v.SUCCESS, 1, 3, [0, 0, 0])
    assert staged != weights
    result = dsp.infer(handle, [dsp.command(v.CONSTANTS)], model=model)
    assert struct.unpack("<f", result.data[0]) == (W[0],)
    # Number 0 takes embedded weights only.
    assert struct.unpack("<f", dsp.do(handle, v.CONSTANTS, large=False).data[0]) == (-1.0,)
    assert dsp.infer_large(handle, [dsp.command(v.CONSTANTS)], model=model).status == v.CALL
    assert dsp.status(dsp.ask(v.MODEL_UNLOAD, struct.pack("<I", model))) == v.SUCCESS
    assert dsp.ask(v.MODEL_UNLOAD, struct.pack("<I", model)) == header(0x1022, dsp.seq, 16, v.HANDLE)
    assert dsp.status(dsp.ask(v.MODEL_UNLOAD, struct.pack("<I", 0))) == v.HANDLE
    assert dsp.infer(handle, [dsp.command(v.CONSTANTS)], model=model).status == v.HANDLE


@pytest.mark.parametrize("size", [0, v.STAGING_SIZE + 1])
def test_model_size(dsp: RawDsp, size: int) -> None:
    answer = dsp.ask(v.MODEL_LOAD, struct.pack("<IIII", size, 0, 0, 0))
    assert struct.unpack_from("<iII", answer, 12) == (v.SIZE_ERROR, 0, 0)


def test_model_errors_and_slots(start: Start) -> None:
    dsp = start("--fault", "oom=1")
    weights = affine_weights()
    dsp.memory[: len(weights)] = weights
    body = struct.pack("<IIII", len(weights), 0, 0, 0)
    answer = dsp.ask(v.MODEL_LOAD, body)
    assert dsp.status(answer) == v.NOMEM
    requested, free, total = struct.unpack_from("<III", answer, 24)
    assert 0 < requested < 4096
    assert free == total == 0x16000000
    assert [dsp.status(dsp.ask(v.MODEL_LOAD, body)) for _ in range(5)] == [v.SUCCESS] * 4 + [v.WEIGHTS]
    assert dsp.status(dsp.ask(v.MODEL_UNLOAD, struct.pack("<I", 1))) == v.SUCCESS
    assert dsp.status(dsp.ask(v.MODEL_LOAD, struct.pack("<IIII", len(weights) - 1, 0, 0, 0))) == v.WEIGHTS


# ---------------------------------------------------------------------------------------------- INFER and INFER_LARGE

BOTH = pytest.mark.parametrize("large", [False, True], ids=["INFER", "INFER_LARGE"])


@BOTH
@pytest.mark.parametrize("count", [0, 1, 4, 5])
def test_outputs_inline(dsp: RawDsp, modules: dict[str, bytes], count: int, large: bool) -> None:
    handle = dsp.must_load(modules["plain"])
    result = dsp.do(handle, v.OUTPUTS, count, large=large)
    assert (result.type, result.status, result.value, result.num_outputs) == (0x1021, v.SUCCESS, 0, count)
    assert result.length == (60 + 80 * count if count > 1 else 140)
    assert result.descs_address == 0
    check_outputs(dsp, result, count)


@pytest.mark.parametrize("count", [6, 64, 128])
def test_outputs_out_of_band(dsp: RawDsp, modules: dict[str, bytes], count: int) -> None:
    handle = dsp.must_load(modules["plain"])
    result = dsp.do(handle, v.OUTPUTS, count)
    assert (result.status, result.num_outputs, result.length) == (v.SUCCESS, count, 140)
    end = sum((4 * (i + 1) + 63) // 64 * 64 for i in range(count))
    assert result.descs_address == dsp.base + v.RESULT + end
    check_outputs(dsp, result, count)


def check_outputs(dsp: RawDsp, result: v.Infer, count: int) -> None:
    at = dsp.base + v.RESULT
    for i, (item, data) in enumerate(zip(result.outputs, result.data, strict=True)):
        assert item == v.Desc(at, 4 * (i + 1), 1, 2, 32, i, (i + 1, 0, 0, 0, 0, 0))
        assert struct.unpack(f"<{i + 1}f", data) == (float(i),) * (i + 1)
        at += (4 * (i + 1) + 63) // 64 * 64
    assert len(result.outputs) == count


def test_many_outputs_with_infer(start: Start, modules: dict[str, bytes]) -> None:
    """A board computes an answer longer than its buffer; strict mode refuses, else the length is the board's."""
    dsp = start()
    result = dsp.do(dsp.must_load(modules["plain"]), v.OUTPUTS, 6, large=False)
    assert result.status == v.CALL
    assert "INFER_LARGE" in result.text
    dsp = start("--no-strict")
    result = dsp.do(dsp.must_load(modules["plain"]), v.OUTPUTS, 6, large=False)
    assert (result.status, result.num_outputs, result.length) == (v.SUCCESS, 6, 60 + 80 * 6)


@pytest.mark.parametrize(("count", "large"), [(0, False), (1, False), (4, False), (1, True), (4, True), (5, True),
                                              (6, True), (64, True), (128, True)])  # fmt: skip
def test_inputs(dsp: RawDsp, modules: dict[str, bytes], count: int, large: bool) -> None:
    handle = dsp.must_load(modules["plain"])
    inputs = [dsp.command(v.INPUTS)] if count else []
    total = 0
    for i in range(1, count):
        data = bytes([i % 256] * i)
        total += sum(data)
        inputs.append(desc(dsp.stage(data), i, [i], 1, 8))
    result = (dsp.infer_large if large else dsp.infer)(handle, inputs)
    assert result.status == v.SUCCESS
    if count:
        assert struct.unpack("<qq", result.data[0]) == (count, total)


def test_input_counts_that_are_refused(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    handle = dsp.must_load(modules["plain"])
    one = dsp.command(v.OUTPUTS, 1)
    for count in (5, 6, 0xFFFFFFFF):
        body = struct.pack("<IIII", handle, 0, count, 0) + one * 6
        result = dsp.parse(dsp.ask(v.INFER, body))
        assert (result.status, result.value, result.length) == (v.TENSOR, 0, 140)
    # The message must hold every descriptor.
    result = dsp.parse(dsp.ask(v.INFER, struct.pack("<IIII", handle, 0, 2, 0) + one + bytes(79)))
    assert result.status == v.TENSOR
    for count in (0, 129, 0xFFFFFFFF):
        body = struct.pack("<IIIIQII", handle, 0, count, 0, dsp.base, 80, 0)
        result = dsp.parse(dsp.ask(v.INFER_LARGE, body))
        assert (result.type, result.status, result.value, result.length) == (0x1021, v.TENSOR, -1, 140)
    assert struct.unpack_from("<II", dsp.ask(v.GET_STATUS), 24) == (0, 0)


def test_order_of_checks(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    outside = desc(dsp.base + v.RESULT, 4, [1])
    # Handle before count before entry point.
    assert dsp.parse(dsp.ask(v.INFER, struct.pack("<IIII", 0, 9, 5, 0) + bytes(80))).status == v.HANDLE
    assert dsp.parse(dsp.ask(v.INFER, struct.pack("<IIII", 1, 9, 5, 0) + bytes(80))).status == v.TENSOR
    assert dsp.parse(dsp.ask(v.INFER, struct.pack("<IIII", 1, 9, 1, 0) + outside)).status == v.SYMBOL
    large = struct.Struct("<IIIIQII")
    nowhere = dsp.base + v.STAGING_SIZE
    assert dsp.parse(dsp.ask(v.INFER_LARGE, large.pack(0, 9, 0, 0, nowhere, 80, 0))).status == v.HANDLE
    assert dsp.parse(dsp.ask(v.INFER_LARGE, large.pack(1, 9, 0, 0, nowhere, 80, 0))).status == v.TENSOR
    assert dsp.parse(dsp.ask(v.INFER_LARGE, large.pack(1, 9, 1, 0, nowhere, 80, 0))).status == v.ADDR
    assert dsp.parse(dsp.ask(v.INFER_LARGE, large.pack(1, 9, 1, 0, dsp.base - 1, 80, 0))).status == v.ADDR
    assert dsp.parse(dsp.ask(v.INFER_LARGE, large.pack(1, 9, 1, 0, nowhere - 79, 80, 0))).status == v.ADDR
    assert dsp.parse(dsp.ask(v.INFER_LARGE, large.pack(1, 9, 1, 0, 2**64 - 8, 80, 0))).status == v.ADDR
    assert dsp.infer_large(1, [outside], model=9).status == v.TENSOR
    assert dsp.infer_large(1, [dsp.command(0)], model=9).status == v.SYMBOL
    handle = dsp.must_load(modules["plain"])
    assert dsp.infer(handle, [outside], model=9).status == v.HANDLE
    assert dsp.infer_large(handle, [dsp.command(0)], model=9).status == v.HANDLE


@BOTH
@pytest.mark.parametrize("where", ["before", "across KV's end", "result", "wraps"])
def test_inputs_outside(dsp: RawDsp, modules: dict[str, bytes], where: str, large: bool) -> None:
    handle = dsp.must_load(modules["plain"])
    address = {
        "before": dsp.base - 8,
        "across KV's end": dsp.base + v.RESULT - 4,
        "result": dsp.base + v.RESULT,
        "wraps": 2**64 - 4,
    }[where]
    result = (dsp.infer_large if large else dsp.infer)(handle, [desc(address, 8, [2], 0, 32)])
    assert (result.status, result.value) == (v.TENSOR, -1 if large else 0)


@BOTH
def test_inputs_that_are_not_checked(dsp: RawDsp, modules: dict[str, bytes], large: bool) -> None:
    """An address or a size of 0, the KV region, an absurd rank and dtype."""
    handle = dsp.must_load(modules["plain"])
    dsp.memory[v.KV : v.KV + 3] = b"\1\2\3"
    inputs = [
        dsp.command(v.INPUTS),
        desc(0, 8, [0], 1, 8),
        desc(5, 0, [0], 1, 8),
        desc(dsp.base + v.KV, 3, [3], 1, 8),
    ]
    result = (dsp.infer_large if large else dsp.infer)(handle, inputs)
    assert struct.unpack("<qq", result.data[0]) == (4, 6)
    for ndim in (-5, 7, 1000):
        odd = desc(dsp.base, 4, [1, 1, 1, 1, 1, 1], 2, 32, ndim=ndim)
        result = (dsp.infer_large if large else dsp.infer)(handle, [dsp.command(v.RETURN_INPUT), odd])
        assert result.outputs[0].ndim == max(0, min(ndim, 6))


@BOTH
def test_return_values(dsp: RawDsp, modules: dict[str, bytes], large: bool) -> None:
    handle = dsp.must_load(modules["plain"])
    for value, status in ((-1, v.CALL), (7, v.CALL), (-3, v.NOMEM), (-2147483648, v.CALL)):
        result = dsp.do(handle, v.RETURN, value, large=large)
        assert (result.status, result.value, result.num_outputs) == (status, value, 0)
    assert dsp.do(handle, v.OUTPUTS, 1, large=large).status == v.SUCCESS
    assert struct.unpack_from("<II", dsp.ask(v.GET_STATUS), 24) == (1, 4)


@BOTH
def test_out_of_memory(dsp: RawDsp, modules: dict[str, bytes], large: bool) -> None:
    handle = dsp.must_load(modules["plain"])
    result = dsp.do(handle, v.ALLOCATE, 400, large=large)
    assert (result.status, result.value) == (v.NOMEM, -3)
    requested, free, total = result.oom
    assert (requested, total) == (400 << 20, 0x16000000)
    assert 0 < free < total
    assert dsp.do(handle, v.ALLOCATE, 300, large=large).oom == (0, 0, 0)
    # INFER leaves allocated what the last run left; INFER_LARGE rewinds.
    assert dsp.do(handle, v.ALLOCATE, 300, large=large).status == (v.SUCCESS if large else v.NOMEM)


def test_repeat(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    handle = dsp.must_load(modules["profile"])
    for flags in (0, 1):
        result = dsp.do(handle, v.OUTPUTS, 1, large=False, flags=flags)
        assert result.text == "profile\n"
    result = dsp.do(handle, v.OUTPUTS, 1, large=False, flags=3)
    lines = [line for line in result.text.split("\n") if line]
    assert [line.split("]")[0] for line in lines[::2]] == [f"[Iteration {i}/3" for i in (1, 2, 3)]
    assert lines[1::2] == ["profile"] * 3
    cycles = int(lines[4].split("] ")[1].split(" ")[0])
    assert (result.cycles, lines[4]) == (cycles, f"[Iteration 3/3] {cycles} cycles ({cycles / 1e6:.2f} ms)")
    assert result.printf_size == len(result.text)
    # The large form reports the profile once, and the sum of all runs.
    assert dsp.do(handle, v.OUTPUTS, 1, flags=3).text == "profile\n"
    # INFER stops at the first failure, INFER_LARGE runs on.
    assert dsp.do(handle, v.RETURN, 5, large=False, flags=3).text.count("profile") == 1
    result = dsp.do(handle, v.RETURN, 5, flags=3)
    assert (result.text, result.value) == ("profile\n", 5)


@BOTH
def test_printf(dsp: RawDsp, modules: dict[str, bytes], large: bool) -> None:
    handle = dsp.must_load(modules["plain"])
    assert dsp.do(handle, v.PRINT, 2, large=large).text == "".join(f"{i:099d}\n" for i in range(2))
    result = dsp.do(handle, v.PRINT, 1000, large=large)
    assert result.printf_size == 65520
    assert result.text == "".join(f"{i:099d}\n" for i in range(1000))[:65520]
    assert dsp.do(handle, v.PRINT, 0, large=large).printf_size == 0
    # A client that scribbles over the buffer harms its own text only.
    dsp.memory[v.PRINTF : v.PRINTF + 16] = b"\xff" * 16
    assert dsp.do(handle, v.PRINT, 1, large=large).printf_size == 100


def test_kv_resident(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    handle = dsp.must_load(modules["plain"])
    dsp.memory[v.KV : v.KV + 64] = b"\xaa" * 64
    result = dsp.do(handle, v.OUTPUTS, 70, flags=0x10000)
    assert (result.status, result.num_outputs, result.length) == (v.SUCCESS, 1, 140)
    check_outputs(dsp, result, 1)
    for i in range(1, 61):
        at = v.KV + v.KV_SLOT * (i - 1)
        assert struct.unpack_from(f"<{i + 1}f", dsp.memory, at) == (float(i),) * (i + 1)
    # At most 60: the 61st would lie in the result region.
    assert dsp.memory[v.RESULT : v.RESULT + 4] == struct.pack("<f", 0.0)
    # No effect with one tensor, and none with INFER.
    assert dsp.do(handle, v.OUTPUTS, 1, flags=0x10000).num_outputs == 1
    assert dsp.do(handle, v.OUTPUTS, 3, large=False, flags=0x10000).num_outputs == 3


def test_output_that_is_an_input(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    handle = dsp.must_load(modules["plain"])
    for large in (False, True):
        data = desc(dsp.stage(b"abcd"), 4, [4], 1, 8)
        result = (dsp.infer_large if large else dsp.infer)(handle, [dsp.command(v.RETURN_INPUT), data])
        assert result.data == (b"abcd",)


def test_firmware_functions(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    handle = dsp.must_load(modules["plain"])
    assert dsp.do(handle, v.KERNEL).data == (bytes([0, 0, 0, 1]),)
    values = struct.unpack("<ff", dsp.do(handle, v.MATH).data[0])
    assert values == pytest.approx((math.e, math.sin(1)), rel=1e-6)
    before, after = struct.unpack("<ff", dsp.do(handle, v.DMA).data[0])
    assert (before, after) == (0.0, 7.0)


@BOTH
def test_packed_builtins(dsp: RawDsp, modules: dict[str, bytes], large: bool) -> None:
    """Module ABI, section 8.4: what a program for Relax's VM does with them."""
    handle = dsp.must_load(modules["plain"])
    for _ in range(3):
        keep = dsp.free
        data = struct.pack("<6f", *range(6))
        inputs = [dsp.command(v.PACKED), desc(dsp.stage(data), 24, [6], 2, 32)]
        result = (dsp.infer_large if large else dsp.infer)(handle, inputs)
        assert (result.status, result.value, result.num_outputs) == (v.SUCCESS, 0, 1), result.text
        assert (result.outputs[0].ndim, result.outputs[0].shape[:2], result.data[0]) == (2, (2, 3), data)
        dsp.free = keep


def test_base(start: Start, modules: dict[str, bytes]) -> None:
    dsp = start("--base", "0x80000000")
    assert dsp.base == 0x80000000
    handle = dsp.must_load(modules["weights"])
    for large in (False, True):
        result = dsp.do(handle, v.CONSTANTS, large=large)
        assert result.outputs[0].address == 0x80000000 + v.RESULT
        assert struct.unpack("<f", result.data[0]) == (W[0],)


# ------------------------------------------------------------------------------------------------ wrong modules, strict

CRASHES = {
    0: "SIGSEGV at address 0x8",
    1: "staging region, which a module may only read",
    2: "just beyond the main pool",
    3: "abort",
    4: "SIGSEGV",
    6: "just before the L2 region",
    7: "SIGFPE",
}


@BOTH
def test_a_crash_is_an_answer(dsp: RawDsp, modules: dict[str, bytes], large: bool) -> None:
    handle = dsp.must_load(modules["plain"])
    for way, words in CRASHES.items():
        result = dsp.do(handle, v.CRASH, way, large=large)
        assert (result.status, result.value, result.length, result.num_outputs) == (v.CALL, -1, 140, 0), way
        assert words in result.text
        assert result.printf_size == len(result.text)
        assert dsp.do(handle, v.OUTPUTS, 1, large=large).status == v.SUCCESS
    assert struct.unpack_from("<II", dsp.ask(v.GET_STATUS), 24) == (len(CRASHES), len(CRASHES))
    assert "offset 0x" in dsp.do(handle, v.CRASH, 0).text
    assert dsp.unload(handle) == v.SUCCESS
    assert len(v.children(dsp.process.pid)) == 1


def test_a_module_that_does_not_return(start: Start, modules: dict[str, bytes]) -> None:
    dsp = start("--call-timeout", "200")
    handle = dsp.must_load(modules["plain"])
    result = dsp.do(handle, v.CRASH, 5)
    assert result.status == v.CALL
    assert "200 ms" in result.text
    assert dsp.do(handle, v.OUTPUTS, 1).status == v.SUCCESS


def test_stop_while_a_module_runs(program: Path, tmp_path: Path, modules: dict[str, bytes]) -> None:
    with RawDsp(program, tmp_path / "d") as dsp:
        handle = dsp.must_load(modules["plain"])
        body = struct.pack("<IIII", handle, 0, 1, 0) + dsp.command(v.CRASH, 5)
        dsp.connection.send(header(v.INFER, 9, 16 + len(body)) + body)
        time.sleep(0.1)
        (child,) = v.children(dsp.process.pid)
    assert not Path(f"/proc/{child}").exists()


STRICT = [
    (v.READ_BSS, 0, True, "never written"),
    (v.READ_BSS, 0, False, "never written"),
    (v.OVERRUN, 1, True, "before or after the block"),
    (v.OVERRUN, 120, True, "before or after the block"),
    (v.FREE_TWICE, 0, True, "freed"),
    (v.BAD_OUTPUT, 0, True, "outside the module's memory"),
    (v.BAD_OUTPUT, 1, True, "outside the module's memory"),
    (v.BAD_OUTPUT, 2, True, "rank 7"),
    (v.BAD_OUTPUT, 3, True, "not compact"),
    (v.BAD_OUTPUT, 4, True, "impossible shape"),
    (v.BAD_OUTPUT, 5, True, "impossible shape"),
    (v.BAD_OUTPUT, 6, True, "outside the module's memory"),
    (v.BAD_OUTPUT, 7, True, "array of outputs"),
    (v.BAD_OUTPUT, 9, True, "printf buffer"),
]


def test_strict(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    handle = dsp.must_load(modules["plain"])
    for command, argument, large, words in STRICT:
        result = dsp.do(handle, command, argument, large=large)
        assert (result.status, words in result.text) == (v.CALL, True), (command, argument, result.text)
        assert dsp.do(handle, v.OUTPUTS, 1, large=large).status == v.SUCCESS
    # Neither a tensor nor an array is no output, and no error.
    assert dsp.do(handle, v.BAD_OUTPUT, 8).num_outputs == 0


def test_kept_pointers(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    handle = dsp.must_load(modules["plain"])
    assert struct.unpack("<f", dsp.do(handle, v.KEEP_POINTER, 0).data[0]) == (1.5,)
    result = dsp.do(handle, v.KEEP_POINTER, 1)
    assert result.status == v.CALL
    assert "never written" in result.text
    # INFER does not rewind: there a kept pointer holds, on a board too.
    assert dsp.unload(handle) == v.SUCCESS
    handle = dsp.must_load(modules["plain"])
    for argument in (0, 1):
        assert struct.unpack("<f", dsp.do(handle, v.KEEP_POINTER, argument, large=False).data[0]) == (1.5,)


def test_registers(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    handle = dsp.must_load(modules["plain"])
    # A new object is freed by the next INFER_LARGE, an input that was left there is a stale pointer.
    assert dsp.do(handle, v.REGISTERS, 1).status == v.SUCCESS
    assert dsp.do(handle, v.OUTPUTS, 1).status == v.SUCCESS
    assert dsp.do(handle, v.REGISTERS, 0).status == v.SUCCESS
    result = dsp.do(handle, v.OUTPUTS, 1)
    assert result.status == v.CALL
    assert "register 1" in result.text


def test_fall_to_the_base(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    """INFER_LARGE frees as many objects as it allocated, so the pool falls to its base: then INFER may not allocate."""
    handle = dsp.must_load(modules["plain"])
    assert dsp.do(handle, v.OUTPUTS, 1).status == v.SUCCESS
    result = dsp.do(handle, v.ALLOCATE, 1, large=False)
    assert result.status == v.CALL
    assert "overlay module 1" in result.text
    # INFER_LARGE itself begins with a rewind to above the module.
    assert dsp.do(handle, v.ALLOCATE, 1).status == v.SUCCESS
    assert dsp.do(handle, v.OUTPUTS, 1).status == v.SUCCESS
    status, _, _ = dsp.load(modules["plain"])
    assert status == v.LOAD
    assert "overlay module 1" in dsp.text()


def test_without_strict(start: Start, modules: dict[str, bytes]) -> None:
    dsp = start("--no-strict")
    handle = dsp.must_load(modules["plain"])
    for command in (v.READ_BSS, v.OVERRUN, v.FREE_TWICE):
        assert dsp.do(handle, command).status == v.SUCCESS
    assert dsp.do(handle, v.BAD_OUTPUT, 0).status == v.CALL  # a crash all the same
    assert dsp.do(handle, v.CRASH, 1).status == v.SUCCESS


# ------------------------------------------------------------------------------------------------------------ faults


def test_fault_seq_and_short(start: Start) -> None:
    dsp = start("--fault", "seq=1", "--fault", "short=2")
    assert struct.unpack_from("<II", dsp.raw(header(v.PING, 1, 16))) == (0x1001, 0x81)
    assert dsp.raw(header(v.PING, 2, 16)) == header(0x1001, 2, 24)[:12]
    assert len(dsp.raw(header(v.PING, 3, 16))) == 24


def test_fault_drop_and_delay(start: Start) -> None:
    dsp = start("--fault", "drop=1", "--fault", "delay=3:300")
    dsp.connection.send(header(v.PING, 1, 16))
    dsp.connection.settimeout(0.2)
    with pytest.raises(TimeoutError):
        dsp.connection.recv(100)
    assert len(dsp.raw(header(v.PING, 2, 16))) == 24
    with pytest.raises(TimeoutError):
        dsp.raw(header(v.PING, 3, 16))
    dsp.connection.settimeout(5)
    assert struct.unpack_from("<II", dsp.connection.recv(100)) == (0x1001, 3)


def test_fault_die(program: Path, tmp_path: Path, modules: dict[str, bytes]) -> None:
    dsp = RawDsp(program, tmp_path / "d", "--fault", "die=2")
    handle = dsp.must_load(modules["plain"])
    (child,) = v.children(dsp.process.pid)
    body = struct.pack("<IIII", handle, 0, 1, 0) + dsp.command(v.OUTPUTS, 1)
    assert dsp.raw(header(v.INFER, 9, 16 + len(body)) + body) == b""
    assert dsp.process.wait(5) == 1
    dsp.connection.close()
    dsp.memory.close()
    assert not Path(f"/proc/{child}").exists()
    # What a dead one leaves behind is no obstacle.
    with RawDsp(program, tmp_path / "d") as again:
        assert again.must_load(modules["plain"]) == 1


def test_fault_oom_within_infer_large(start: Start, modules: dict[str, bytes]) -> None:
    dsp = start("--fault", "oom=3")
    handle = dsp.must_load(modules["plain"])
    result = dsp.infer_large(handle, [dsp.command(v.OUTPUTS, 1), dsp.command(0)])
    assert (result.status, result.value) == (v.NOMEM, -1)
    assert result.oom[0] == 208
    assert dsp.do(handle, v.OUTPUTS, 1).status == v.SUCCESS


# ------------------------------------------------------------------------------------------------------------ AArch64


@pytest.mark.slow
def test_aarch64(tmp_path: Path) -> None:
    """The virtual DSP for AArch64 and a module for it, under an emulator."""
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if emulator is None or shutil.which("aarch64-linux-gnu-g++") is None:
        pytest.skip("needs qemu-user and a cross compiler for AArch64")
    (tmp_path / "server").mkdir()
    server = build_server(tmp_path / "server", compiler="aarch64-linux-gnu-g++")
    script = tmp_path / "emulated"
    script.write_text(f'#!/bin/sh\nexec {emulator} -L /usr/aarch64-linux-gnu {server} "$@"\n')
    script.chmod(0o755)
    module = make_module(tmp_path / "module", weights=affine_weights(), compiler="aarch64-linux-gnu-gcc")
    with RawDsp(script, tmp_path / "d") as dsp:
        handle = dsp.must_load(module)
        check_outputs(dsp, dsp.do(handle, v.OUTPUTS, 6), 6)
        assert struct.unpack("<f", dsp.do(handle, v.CONSTANTS).data[0]) == (W[0],)
        assert dsp.do(handle, v.KERNEL).data == (bytes([0, 0, 0, 1]),)
        assert "never written" in dsp.do(handle, v.READ_BSS).text
        assert "SIGSEGV at address 0x8" in dsp.do(handle, v.CRASH, 0).text
        assert dsp.unload(handle) == v.SUCCESS


# ------------------------------------------------------------------------------------------------------------- cycles


def test_cycles_of_load_and_unload(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    """The same bits, the same free memory, and no growth, in every one of 1,000 cycles."""
    count = 1000
    seen = set()
    files = 0
    for cycle in range(count):
        handle = dsp.must_load(modules["weights"])
        large = dsp.do(handle, v.FREE_MEMORY, large=True).data[0]
        small = dsp.do(handle, v.CONSTANTS, large=False).data[0]
        again = dsp.do(handle, v.FREE_MEMORY, large=True).data[0]
        assert again == large
        assert dsp.unload(handle) == v.SUCCESS
        seen.add((large, small))
        if cycle == 5:
            files = v.open_files(dsp.process.pid)
    assert len(seen) == 1
    assert v.open_files(dsp.process.pid) == files
    assert struct.unpack_from("<II", dsp.ask(v.GET_STATUS), 24) == (3 * count, 0)


def test_many_inferences(dsp: RawDsp, modules: dict[str, bytes]) -> None:
    handle = dsp.must_load(modules["plain"])
    for large in (False, True):
        first = dsp.do(handle, v.OUTPUTS, 5, large=large)
        for _ in range(5000):
            result = dsp.do(handle, v.OUTPUTS, 5, large=large)
            assert (result.outputs, result.data) == (first.outputs, first.data)


# ---------------------------------------------------------------------------------------------------- shared memory


def test_shared_memory_cannot_be_shortened(dsp: RawDsp) -> None:
    assert dsp.shm.is_symlink()
    with pytest.raises(PermissionError):
        os.truncate(dsp.shm, 0)
    with dsp.shm.open("r+b") as file, pytest.raises(PermissionError):
        file.truncate(4096)
    assert dsp.status(dsp.ask(v.PING)) == v.SUCCESS


def test_shared_file_that_is_shortened(program: Path, tmp_path: Path, modules: dict[str, bytes]) -> None:
    """The virtual DSP ends by itself, whoever touches the memory next: it, or a module that runs."""
    for running in (False, True):
        dsp = RawDsp(program, tmp_path / str(running), "--shm-file")
        assert not dsp.shm.is_symlink()
        assert dsp.shm.stat().st_mode & 0o777 == 0o600
        dsp.must_load(modules["plain"])
        if running:
            # A module in an endless loop, whose end is reported in the printf buffer.
            body = struct.pack("<IIII", 1, 0, 1, 0) + dsp.command(v.CRASH, 5)
            dsp.connection.send(header(v.INFER, 9, 16 + len(body)) + body)
            (child,) = v.children(dsp.process.pid)
            os.truncate(dsp.shm, 4096)
            os.kill(child, signal.SIGKILL)
        else:
            os.truncate(dsp.shm, 4096)
            dsp.connection.send(header(v.DYN_LOAD, 9, 32) + struct.pack("<IIII", 4096, 0, 0, 0))
        assert dsp.process.wait(10) == 1
        assert "was shortened by another process" in dsp.log.read_text()
        assert not dsp.socket_path.exists()
        assert not dsp.shm.exists()
        dsp.connection.close()
        dsp.memory.close()
