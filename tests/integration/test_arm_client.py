"""The C API of libc7x_arm_runtime.so: against the virtual DSP, and against servers that lie."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from c7x.run import protocol, vdsp
from c7x.run.protocol import DynLoadResponse, Header, InferLargeRequest, InferResponse, Message, WireDesc
from tests.integration.arm_harness import (
    ARM,
    CLIENT,
    DSP,
    ERRNO,
    Client,
    Desc,
    FakeDsp,
    Reply,
    answer,
    arm_build,
    call,
    connected,
    describe,
    environment,
    library,
    module,
    run,
)
from tests.integration.handwritten import affine_weights

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def dsp() -> Iterator[Path]:
    with vdsp.private_server() as place:
        yield place.socket


@pytest.fixture
def client(dsp: Path) -> Iterator[Client]:
    with connected(dsp, timeout_ms=20000) as client:
        yield client


@pytest.fixture
def loaded(client: Client) -> Iterator[tuple[Client, int]]:
    rc, handle = client.load(module())
    assert rc == 0, client.error()
    yield client, handle
    client.unload(handle)


# ------------------------------------------------------------------------------------------------------- the library


def test_exports_only_the_c_api() -> None:
    done = run(["nm", "-D", "--defined-only", str(arm_build() / "libc7x_arm_runtime.so")])
    names = {line.split()[-1] for line in done.stdout.splitlines()}
    header = (ARM / "include" / "c7x_client.h").read_text(encoding="utf-8")
    declared = set(re.findall(r"C7X_API [^;]*?(c7x_\w+)\(", header))
    assert names == declared
    dynamic = run(["readelf", "-d", str(arm_build() / "libc7x_arm_runtime.so")]).stdout
    assert "libc7x_arm_runtime.so.1]" in dynamic
    assert "libstdc++" not in dynamic


def test_texts_of_codes() -> None:
    texts = {
        0: "Success", -1: "Generic error", -2: "Invalid parameter", -3: "Out of memory", -4: "Service busy",
        -5: "Operation timeout", -6: "Invalid address", -7: "Invalid size", -8: "Unknown operation",
        -9: "Dynamic load failed", -10: "Symbol lookup failed", -11: "Function call failed", -12: "Invalid handle/id",
        -13: "Weights parsing failed", -14: "Tensor construction failed", -22: "Invalid argument", -110: "Timeout",
        -71: "Protocol error", -19: "Device not found", -27: "File too large", -999: "Unknown error",
    }  # fmt: skip
    assert {code: library().c7x_strerror(code).decode() for code in texts} == texts


def test_null_client() -> None:
    nobody = Client(None)
    assert nobody.ping() == -errno.EINVAL
    assert nobody.unload(1) == -errno.EINVAL
    assert nobody.offset() == 0
    library().c7x_client_close(None)


@pytest.mark.parametrize(
    ("variables", "code", "words"),
    [
        ({"C7X_TRANSPORT": "vdsp", "C7X_VDSP_SOCKET": "/nonexistent/x.sock"}, 9, "c7x vdsp start"),
        ({"C7X_TRANSPORT": "rpmsg", "C7X_ROOT": "/nonexistent"}, 9, "7e000000.dsp"),
        ({"C7X_TRANSPORT": "pigeon"}, 1, "pigeon"),
        ({"C7X_TRANSPORT": "vdsp", "C7X_VDSP_SOCKET": "/tmp/" + "x" * 200}, 9, "no virtual DSP"),
    ],
)
def test_open_says_why_not(variables: dict[str, str], code: int, words: str) -> None:
    with environment(**variables):
        assert library().c7x_client_open() is None
    domain, found, text = Client(None).error()
    assert (domain, found) == (CLIENT, code)
    assert words in text


def test_open_finds_a_virtual_dsp_by_itself(dsp: Path) -> None:
    with environment(C7X_TRANSPORT="", C7X_VDSP_SOCKET=str(dsp)), Client(library().c7x_client_open()) as client:
        assert client.ping() == 0


def test_open_refuses_a_timeout_without_meaning(dsp: Path) -> None:
    with environment(C7X_TRANSPORT="vdsp", C7X_VDSP_SOCKET=str(dsp), C7X_TIMEOUT_MS="soon"):
        assert library().c7x_client_open() is None
    assert "C7X_TIMEOUT_MS=soon" in Client(None).error()[2]
    with connected(dsp) as client:  # what failed left no lock behind
        assert client.set_timeout(0) == -errno.EINVAL
        assert client.set_timeout(-1) == 0


def test_second_client_is_told_busy(dsp: Path, client: Client) -> None:
    with environment(C7X_TRANSPORT="vdsp", C7X_VDSP_SOCKET=str(dsp)):
        assert library().c7x_client_open() is None
        domain, code, text = Client(None).error()
        assert (domain, code) == (CLIENT, 7)
        assert "busy" in text
        done = run([str(arm_build() / "c7x_compute"), "ping"])
    assert done.returncode == 1
    assert "busy" in done.stdout
    assert client.ping() == 0


def test_prints_nothing(dsp: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with connected(dsp) as client:
        rc, handle = client.load(module())
        assert rc == 0
        assert client.infer(handle, [X])[0] == 0
        assert client.unload(handle) == 0
        assert client.load(Path("/nonexistent"))[0] < 0
    assert capfd.readouterr() == ("", "")


# -------------------------------------------------------------------------------------------------------- life cycle


def test_versions_and_counters(client: Client) -> None:
    version, uptime = ctypes.c_uint32(), ctypes.c_uint32()
    assert client.lib.c7x_client_ping(client.pointer, ctypes.byref(version), ctypes.byref(uptime)) == 0
    assert version.value == protocol.SERVICE_VERSION
    status = (ctypes.c_uint32 * 4)()
    assert client.lib.c7x_client_get_status(client.pointer, status) == 0
    assert status[0] == protocol.SERVICE_VERSION
    assert client.lib.c7x_client_get_status(client.pointer, None) == -errno.EINVAL


def test_load_infer_unload(client: Client) -> None:
    assert client.offset() == 0
    rc, handle = client.load(module())
    assert rc == 0
    size = module().stat().st_size
    assert client.offset() == -(-size // 128) * 128
    rc, (out,), cycles = client.infer(handle, [X])
    assert rc == 0
    np.testing.assert_array_equal(out, X)
    assert cycles > 0
    assert client.unload(handle) == 0
    assert client.offset() == 0
    rc, _, _ = client.infer(handle, [X])
    assert rc == -errno.ESTALE
    assert client.error()[:2] == (CLIENT, 8)
    assert client.unload(99) == -12
    assert client.error()[:2] == (DSP, -12)


def test_buffers(client: Client) -> None:
    base, size = client.buffer("input")
    assert size == protocol.STAGING_SIZE
    assert client.buffer("staging") == (base, size)
    assert client.buffer("output") == (base + protocol.RESULT_OFFSET, protocol.RESULT_SIZE)
    assert client.buffer("result") == client.buffer("output")


def test_a_later_load_replaces_the_module(loaded: tuple[Client, int]) -> None:
    client, first = loaded
    rc, second = client.load(module("-DOUTPUTS=2"))
    assert rc == 0
    assert client.infer(first, [X])[0] == -errno.ESTALE
    rc, outputs, _ = client.infer(second, [X])
    assert rc == 0
    assert len(outputs) == 2


def test_a_file_that_cannot_be_read_leaves_the_module_alone(loaded: tuple[Client, int], tmp_path: Path) -> None:
    client, handle = loaded
    (tmp_path / "empty").touch()
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(protocol.STAGING_SIZE + 1)
    for path, domain, rc in (
        (Path("/nonexistent"), ERRNO, -errno.ENOENT),
        (tmp_path, CLIENT, -errno.EINVAL),
        (tmp_path / "empty", CLIENT, -errno.EINVAL),
        (tmp_path / "huge", CLIENT, -errno.EFBIG),
    ):
        assert client.load(path)[0] == rc, path
        assert client.error()[0] == domain
    rc, (out,), _ = client.infer(handle, [X])
    assert rc == 0
    np.testing.assert_array_equal(out, X)
    (tmp_path / "text").write_text("no module")
    assert client.load(tmp_path / "text")[0] == -9
    assert client.infer(handle, [X])[0] == -errno.ESTALE


# --------------------------------------------------------------------------------------------------------- inference


@pytest.mark.parametrize("count", [1, 4, 5, 6, 64, 128])
def test_numbers_of_inputs(loaded: tuple[Client, int], count: int) -> None:
    client, handle = loaded
    rc, (out,), _ = client.infer(handle, [X + i for i in range(count)])
    assert rc == 0
    np.testing.assert_array_equal(out, X)


def test_no_input_and_too_many(loaded: tuple[Client, int]) -> None:
    client, handle = loaded
    rc, (out,), _ = client.infer(handle, [])
    assert rc == 0
    np.testing.assert_array_equal(out, np.ones(4, np.float32))
    assert client.infer(handle, [X] * 129)[0] == -errno.EINVAL
    outputs, count = (Desc * 64)(), ctypes.c_int()
    inputs = (Desc * 1)(describe(X))
    infer = client.lib.c7x_client_infer
    assert infer(client.pointer, handle, 0, inputs, 0, outputs, ctypes.byref(count), None) == -errno.EINVAL
    assert infer(client.pointer, handle, 0, inputs, 1, outputs, ctypes.byref(count), None) == 0
    assert count.value == 1


@pytest.mark.parametrize("count", [0, 2, 5, 6, 64, 128])
def test_numbers_of_outputs(client: Client, count: int) -> None:
    rc, handle = client.load(module(f"-DOUTPUTS={count}"))
    assert rc == 0
    rc, outputs, _ = client.infer(handle, [X])
    assert rc == 0, client.error()
    assert len(outputs) == count
    for index, out in enumerate(outputs):
        np.testing.assert_array_equal(out, X * np.float32(index + 1))
    if count:
        assert client.infer(handle, [X], room=count - 1)[0] == -errno.EOVERFLOW
        assert client.error()[:2] == (CLIENT, 10)
    client.unload(handle)


def test_repeat(loaded: tuple[Client, int]) -> None:
    client, handle = loaded
    rc, (out,), _ = client.infer(handle, [X], flags=3)
    assert rc == 0
    np.testing.assert_array_equal(out, X)
    assert client.infer(handle, [X], flags=0x20000)[0] == -errno.EINVAL


def test_bad_inputs_are_refused_here(loaded: tuple[Client, int]) -> None:
    client, handle = loaded
    for change in ({"ndim": 7}, {"ndim": -1}, {"dtype_bits": 0}, {"dtype_code": 256}):
        desc = describe(X)
        for name, value in change.items():
            setattr(desc, name, value)
        assert client.infer(handle, [desc])[0] == -errno.EINVAL, change
        assert client.error()[0] == CLIENT
    desc = describe(X)
    desc.shape[1] = -1
    assert client.infer(handle, [desc])[0] == -errno.EINVAL
    desc = describe(X)
    desc.data_size = protocol.STAGING_SIZE
    assert client.infer(handle, [desc])[0] == -errno.EFBIG
    assert client.infer(handle, [X] * 5, model_id=1)[0] == -errno.EOPNOTSUPP


def test_staged_and_copied_inputs_do_not_meet(loaded: tuple[Client, int]) -> None:
    client, handle = loaded
    rc, address = client.stage_alloc(X.nbytes)
    assert rc == 0
    assert address is not None
    base, _ = client.buffer("input")
    assert (address - base) % 128 == 0
    ctypes.memmove(address, X.ctypes.data, X.nbytes)
    staged = describe(X)
    staged.data = address
    for _ in range(3):
        rc, (out,), _ = client.infer(handle, [staged, *[X + 100] * 20])
        assert rc == 0
        np.testing.assert_array_equal(out, X)
    assert client.offset() == address - base + 128
    assert client.stage_alloc(protocol.STAGING_SIZE)[0] == -errno.ENOMEM


def test_outputs_as_inputs(loaded: tuple[Client, int]) -> None:
    client, handle = loaded
    assert client.infer(handle, [X])[0] == 0
    address, _ = client.buffer("output")
    again = describe(X)
    again.data = address
    rc, (out,), _ = client.infer(handle, [again])
    assert rc == 0
    np.testing.assert_array_equal(out, X)


def test_text_of_a_module_goes_to_the_callback(loaded: tuple[Client, int]) -> None:
    client, handle = loaded
    texts: list[bytes] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    callback = kind(lambda text, size, user: texts.append(ctypes.string_at(text, size)))
    client.lib.c7x_client_set_printf_callback(client.pointer, callback, None)
    assert client.infer(handle, [X, X])[0] == 0
    client.lib.c7x_client_set_printf_callback(client.pointer, None, None)
    assert client.infer(handle, [X])[0] == 0
    assert texts == [b"inputs: 2\n"]


@pytest.mark.parametrize(
    ("flag", "rc"), [("-DRETURN=-1", -11), ("-DRETURN=-3", -3), ("-DRETURN=7", -11), ("-DCRASH", -11)]
)
def test_a_module_that_fails(client: Client, flag: str, rc: int) -> None:
    _, handle = client.load(module(flag))
    assert client.infer(handle, [X])[0] == rc
    assert client.error()[:2] == (DSP, rc)
    assert client.ping() == 0
    client.unload(handle)


def test_rank_above_six_cannot_come_back(client: Client) -> None:
    _, handle = client.load(module("-DRANK=7"))
    rc, _, _ = client.infer(handle, [X])
    assert rc < 0
    client.unload(handle)


def test_memory_that_runs_out_on_the_dsp() -> None:
    with vdsp.private_server(faults=["oom=1"]) as place, connected(place.socket) as client:
        rc, handle = client.load(module())
        if rc == 0:  # the first allocation may be that of an inference
            rc, _, _ = client.infer(handle, [X])
        assert rc == -3
        assert client.error()[:2] == (DSP, -3)
        known, requested, _, total = client.oom()
        assert known == 1
        assert requested > 0
        assert total == protocol.MAIN_POOL_SIZE


def test_same_bits_many_times(loaded: tuple[Client, int]) -> None:
    repeat_bits(loaded, 500)


@pytest.mark.slow
def test_same_bits_ten_thousand_times(loaded: tuple[Client, int]) -> None:
    repeat_bits(loaded, 5000)


@pytest.mark.slow
def test_a_thousand_sessions_with_a_module(client: Client) -> None:
    seen = set()
    before = (0, 0)
    for cycle in range(1000):
        rc, handle = client.load(module())
        assert rc == 0
        seen.add((client.infer(handle, [X])[1][0].tobytes(), client.offset()))
        assert client.unload(handle) == 0
        if cycle == 100:
            before = open_files(), resident_bytes()
    assert len(seen) == 1
    assert open_files() == before[0]
    assert resident_bytes() < before[1] + GROWTH


def repeat_bits(loaded: tuple[Client, int], times: int) -> None:
    """``times`` inferences in the small form (no input) and in the large form: the same bits, no growth."""
    client, handle = loaded
    many = [X + i for i in range(6)]
    first = client.infer(handle, many)[1][0].tobytes()
    before = (0, 0)
    for i in range(times):
        assert client.infer(handle, many)[1][0].tobytes() == first
        assert client.infer(handle, [])[0] == 0
        if i == times // 10:
            before = open_files(), resident_bytes()
    assert open_files() == before[0]
    assert resident_bytes() < before[1] + GROWTH
    assert client.stage_alloc(0)[0] == 0


#: Less than 300 bytes for each of some thousand inferences; this interpreter's own memory moves by a few pages.
GROWTH = 1 << 20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# ------------------------------------------------------------------------------------------------ servers that lie


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[list[FakeDsp]]:
    """Put a FakeDsp in the list; it is closed afterwards."""
    servers: list[FakeDsp] = []
    yield servers
    for server in servers:
        server.close()


def serve(tmp_path: Path, fake: list[FakeDsp], reply: Reply) -> FakeDsp:
    fake.append(FakeDsp(tmp_path, reply))
    return fake[0]


PING = struct.pack("<II", protocol.SERVICE_VERSION, 5)
#: Answers to a ping that must be taken for nothing but an error at once.
BAD_PINGS = {
    "no header": lambda request: b"12345",
    "too short": lambda request: answer(request, b"1234"),
    "says longer": lambda request: answer(request, PING)[:-4],
    "says shorter": lambda request: answer(request, PING) + b"1234",
    "wrong type": lambda request: answer(request, PING, kind=0x1003),
    "not an answer": lambda request: answer(request, PING, kind=1),
    "too long": lambda request: answer(request, PING + bytes(600)),
}


@pytest.mark.parametrize("name", BAD_PINGS)
def test_malformed_answers(tmp_path: Path, fake: list[FakeDsp], name: str) -> None:
    bad = [True]

    def reply(server: FakeDsp, request: Header, message: bytes) -> bytes:
        return BAD_PINGS[name](request) if bad[0] else answer(request, PING)

    server = serve(tmp_path, fake, reply)
    with connected(server.socket) as client:
        assert client.ping() == -errno.EPROTO
        assert client.error()[:2] == (CLIENT, 2)
        bad[0] = False
        assert client.ping() == 0


def test_wrong_numbers_time_out(tmp_path: Path, fake: list[FakeDsp]) -> None:
    server = serve(tmp_path, fake, lambda server, request, message: answer(request, PING, seq=request.seq + 7))
    with connected(server.socket, timeout_ms=200) as client:
        start = time.monotonic()
        assert client.ping() == -errno.ETIMEDOUT
        assert 0.15 < time.monotonic() - start < 2


def test_a_flood_of_wrong_numbers_times_out(tmp_path: Path, fake: list[FakeDsp]) -> None:
    stop = threading.Event()

    def reply(server: FakeDsp, request: Header, message: bytes) -> None:
        while not stop.is_set():
            server.send(answer(request, PING, seq=request.seq - 1))

    server = serve(tmp_path, fake, reply)
    with connected(server.socket, timeout_ms=200) as client:
        start = time.monotonic()
        assert client.ping() == -errno.ETIMEDOUT
        assert time.monotonic() - start < 2
        stop.set()


def test_late_answer_is_not_taken_for_the_next(tmp_path: Path, fake: list[FakeDsp]) -> None:
    held: list[bytes] = []

    def reply(server: FakeDsp, request: Header, message: bytes) -> list[bytes]:
        right = answer(request, struct.pack("<II", 0x020000 + len(server.requests), 5))
        if len(server.requests) == 1:
            held.append(right)
            return []
        late, held[:] = list(held), []
        return [*late, right]

    server = serve(tmp_path, fake, reply)
    with connected(server.socket, timeout_ms=200) as client:
        assert client.ping() == -errno.ETIMEDOUT
        version = ctypes.c_uint32()
        assert client.lib.c7x_client_ping(client.pointer, ctypes.byref(version), None) == 0
        # The second request of the client made sure that the DSP had done with the first; the third was the ping.
        assert version.value == 0x020003


def test_messages_nobody_asked_for_are_dropped(tmp_path: Path, fake: list[FakeDsp]) -> None:
    server = serve(tmp_path, fake, lambda server, request, message: answer(request, PING))
    with connected(server.socket) as client:
        assert client.ping() == 0
        for index in range(50):
            server.send(answer(server.requests[0], PING, seq=index))
        assert client.ping() == 0


def test_cancel(tmp_path: Path, fake: list[FakeDsp]) -> None:
    silent = [True]

    def reply(server: FakeDsp, request: Header, message: bytes) -> bytes | None:
        return None if silent[0] else answer(request, PING)

    server = serve(tmp_path, fake, reply)
    with connected(server.socket, timeout_ms=-1) as client:
        assert client.lib.c7x_client_cancel(client.pointer) == 0  # nothing in flight: no effect on what follows
        timer = threading.Timer(0.1, lambda: client.lib.c7x_client_cancel(client.pointer))
        timer.start()
        assert client.ping() == -errno.ECANCELED
        assert client.error()[:2] == (CLIENT, 4)
        timer.join()
        silent[0] = False
        assert client.ping() == 0


@pytest.mark.parametrize("request_number", [1, 2, 3, 4])
def test_a_dsp_that_goes_away(tmp_path: Path, fake: list[FakeDsp], request_number: int) -> None:
    def reply(server: FakeDsp, request: Header, message: bytes) -> bytes | None:
        if len(server.requests) == request_number:
            server.hang_up()
            return None
        return honest(server, request, message)

    server = serve(tmp_path, fake, reply)
    before = open_files()
    with connected(server.socket) as client:
        results = [client.ping(), client.load(module())[0], client.infer(1, [X])[0], client.unload(1)]
        assert results[: request_number - 1] == [0] * (request_number - 1)
        assert results[request_number - 1] == -errno.ENOTCONN
        assert client.ping() == -errno.ENOTCONN
        assert client.error()[:2] == (CLIENT, 5)
    assert open_files() <= before + 1  # the server's own side of the connection
    with connected(server.socket) as client:
        assert client.ping() == 0


def honest(
    server: FakeDsp, request: Header, message: bytes, response: InferResponse | None = None, descs: bytes = b""
) -> bytes:
    """What a DSP with an empty module would say; ``response`` and ``descs`` replace what it says about outputs."""
    if request.type == Message.PING:
        return answer(request, PING)
    if request.type == Message.DYN_LOAD:
        return answer(request, DynLoadResponse(1, 0, 0, 0, 0, 0).pack())
    if request.type in (Message.INFER, Message.INFER_LARGE):
        fixed = response or InferResponse(0, 10, 0, 0, 0, 0, 0, 0, 0)
        return answer(request, fixed.pack() + (descs or bytes(WireDesc.size())))
    return answer(request)


def output(
    address: int = protocol.RESULT_ADDR, size: int = 24, ndim: int = 2, bits: int = 32, **changes: int
) -> WireDesc:
    shape = (changes.get("rows", 2), 3, 0, 0, 0, 0)
    return WireDesc(address, size, ndim, changes.get("code", 2), bits, 0, shape)


#: Answers to an inference by what is wrong with them: the response, descriptors in it, descriptors in the result region
#: at offset 256, and the error of the client.
BAD_OUTPUTS = {
    "many outputs": ({"num_outputs": 1000}, [output()], [], 2),
    "more outputs than bytes": ({"num_outputs": 5}, [output()], [], 2),
    "4 billion outputs": ({"num_outputs": 0xFFFFFFFF}, [output()], [], 2),
    "descriptors outside": ({"num_outputs": 1, "descs_addr": 0xC0000000, "descs_size": 80}, [], [], 2),
    "descriptors at the end": ({"num_outputs": 2, "descs_addr": 0xE0000000 - 80, "descs_size": 160}, [], [], 2),
    "descriptors wrap": ({"num_outputs": 2, "descs_addr": 0xFFFFFFFFFFFFFFC0, "descs_size": 160}, [], [], 2),
    "few descriptor bytes": ({"num_outputs": 2, "descs_addr": 0xDE000100, "descs_size": 80}, [], [output()] * 2, 2),
    "data outside": ({"num_outputs": 1}, [output(address=0x102000000)], [], 10),
    "data before": ({"num_outputs": 1}, [output(address=protocol.RESULT_ADDR - 64)], [], 10),
    "data past the end": ({"num_outputs": 1}, [output(address=0xE0000000 - 8)], [], 10),
    "data wraps": ({"num_outputs": 1}, [output(address=0xFFFFFFFFFFFFFFF0)], [], 10),
    "rank 7": ({"num_outputs": 1}, [output(ndim=7)], [], 10),
    "rank -1": ({"num_outputs": 1}, [output(ndim=-1)], [], 10),
    "size and shape differ": ({"num_outputs": 1}, [output(size=1 << 40)], [], 2),
    "negative size": ({"num_outputs": 1}, [output(rows=-2)], [], 2),
    "size overflows": ({"num_outputs": 1}, [output(rows=1 << 61, size=0)], [], 2),
    "dtype": ({"num_outputs": 1}, [output(code=-3)], [], 2),
    "bad one of many": ({"num_outputs": 2, "descs_addr": 0xDE000100, "descs_size": 160}, [], [output(), output(size=3)], 2),  # noqa: E501
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_OUTPUTS)
def test_outputs_are_not_believed(tmp_path: Path, fake: list[FakeDsp], name: str) -> None:
    changes, inline, far, code = BAD_OUTPUTS[name]
    fixed = InferResponse(**{
        "return_value": 0, "cycles": 1, "num_outputs": 0, "printf_size": 0, "descs_addr": 0, "descs_size": 0,
        "oom_requested": 0, "oom_free": 0, "oom_total": 0, **changes,
    })  # fmt: skip

    def reply(server: FakeDsp, request: Header, message: bytes) -> bytes:
        blob = b"".join(desc.pack() for desc in far)
        server.memory[protocol.RESULT_OFFSET + 256 : protocol.RESULT_OFFSET + 256 + len(blob)] = blob
        return honest(server, request, message, fixed, b"".join(desc.pack() for desc in inline))

    server = serve(tmp_path, fake, reply)
    with connected(server.socket) as client:
        _, handle = client.load(module())
        rc, outputs, _ = client.infer(handle, [X])
        assert rc in (-errno.EPROTO, -errno.EOVERFLOW)
        assert client.error()[:2] == (CLIENT, code), client.error()
        assert outputs == []
        assert client.ping() == 0


@pytest.mark.parametrize("size", [1, 65520, 65521, 0xFFFFFFFF])
def test_printf_size_is_not_believed(tmp_path: Path, fake: list[FakeDsp], size: int) -> None:
    def reply(server: FakeDsp, request: Header, message: bytes) -> bytes:
        header = struct.pack("<IIII", protocol.PRINTF_MAGIC, min(size, 65520), protocol.PRINTF_CAPACITY, 0)
        server.memory[protocol.PRINTF_OFFSET : protocol.PRINTF_OFFSET + 16] = header
        return honest(server, request, message, InferResponse(0, 1, 0, size, 0, 0, 0, 0, 0))

    texts: list[int] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    callback = kind(lambda text, length, user: texts.append(length))
    server = serve(tmp_path, fake, reply)
    with connected(server.socket) as client:
        client.lib.c7x_client_set_printf_callback(client.pointer, callback, None)
        _, handle = client.load(module())
        assert client.infer(handle, [X])[0] == 0
    assert texts == ([size] if size <= 65520 else [])


def test_refusals(tmp_path: Path, fake: list[FakeDsp]) -> None:
    def reply(server: FakeDsp, request: Header, message: bytes) -> bytes:
        if request.type == Message.INFER_LARGE:
            # A bare header, with the type that only a refusal has.
            return Header(0x1023, request.seq, 16, -2).pack()
        return honest(server, request, message)

    server = serve(tmp_path, fake, reply)
    with connected(server.socket) as client:
        _, handle = client.load(module())
        assert client.infer(handle, [X])[0] == -2
        assert client.error()[:2] == (DSP, -2)
        assert client.oom()[0] == 0


def test_requests_on_the_wire(tmp_path: Path, fake: list[FakeDsp]) -> None:
    seen: list[tuple[int, bytes]] = []

    def reply(server: FakeDsp, request: Header, message: bytes) -> bytes:
        seen.append((request.type, message))
        assert request.len == len(message) <= protocol.MAX_RPMSG_PAYLOAD
        return honest(server, request, message)

    server = serve(tmp_path, fake, reply)
    elf = module().read_bytes()
    with connected(server.socket) as client:
        _, handle = client.load(module())
        assert client.infer(handle, [X])[0] == 0
        kind, message = seen[-1]
        assert kind == Message.INFER_LARGE  # its answer holds any number of outputs
        large = InferLargeRequest.unpack(message, Header.size())
        descs = server.memory[large.descs_addr - protocol.CARVEOUT_ADDR :][: large.descs_size]
        desc = WireDesc.unpack(descs)
        assert desc.data_addr % 128 == 0
        assert desc.dims == X.shape
        assert server.memory[desc.data_addr - protocol.CARVEOUT_ADDR :][: X.nbytes] == X.tobytes()

        assert client.infer(handle, [X] * 128)[0] == 0
        assert server.memory[: len(elf)] == elf  # neither inputs nor descriptors lie over the module

        kv = describe(X)
        kv.data, kv.data_size = None, protocol.KV_SLOT_SIZE
        assert client.infer(handle, [X, kv, kv], flags=protocol.FLAG_KV_RESIDENT)[0] == 0
        large = InferLargeRequest.unpack(seen[-1][1], Header.size())
        assert large.flags == protocol.FLAG_KV_RESIDENT
        at = large.descs_addr - protocol.CARVEOUT_ADDR
        places = [WireDesc.unpack(server.memory[at + 80 * i : at + 80 * i + 80]).data_addr for i in (1, 2)]
        assert places == [protocol.KV_ADDR, protocol.KV_ADDR + protocol.KV_SLOT_SIZE]
        assert client.infer(handle, [kv] * 61, flags=protocol.FLAG_KV_RESIDENT)[0] == -errno.EFBIG

        assert client.infer(handle, [X] * 4, model_id=3)[0] == 0
        assert seen[-1][0] == Message.INFER  # INFER_LARGE would lose weights loaded by themselves
        assert client.infer(handle, [])[0] == 0
        assert len(seen[-1][1]) == 112


def test_a_shared_file_that_is_too_small(tmp_path: Path, fake: list[FakeDsp]) -> None:
    server = serve(tmp_path, fake, honest)
    os.truncate(server.shm, 4096)
    with environment(C7X_TRANSPORT="vdsp", C7X_VDSP_SOCKET=str(server.socket)):
        assert library().c7x_client_open() is None
    assert "4096 bytes" in Client(None).error()[2]


@pytest.mark.parametrize("when", ["before the load", "during it", "before an inference", "during it again"])
def test_a_shared_file_that_is_shortened(tmp_path: Path, fake: list[FakeDsp], when: str) -> None:
    """An error instead of SIGBUS, once and for all: what was cut off does not come back."""
    cut_at = {"during it": Message.DYN_LOAD, "during it again": Message.INFER_LARGE}.get(when)

    def reply(server: FakeDsp, request: Header, message: bytes) -> bytes:
        if request.type == cut_at:
            os.truncate(server.shm, 4096)
        refused = cut_at == Message.DYN_LOAD  # and the client looks for the reason in the memory
        return answer(request, bytes(24), status=-9) if refused else honest(server, request, message)

    server = serve(tmp_path, fake, reply)
    with connected(server.socket) as client:
        if when == "before the load":
            os.truncate(server.shm, 4096)
        rc, handle = client.load(module())
        assert (rc == 0) == (when in ("before an inference", "during it again"))
        if when == "before an inference":
            os.truncate(server.shm, 4096)
        assert client.infer(handle, [X])[0] == -errno.ENOTCONN
        os.truncate(server.shm, protocol.CARVEOUT_SIZE)
        assert client.infer(handle, [X])[0] == -errno.ENOTCONN
        assert client.load(module())[0] == -errno.ENOTCONN


def test_shared_memory_of_the_virtual_dsp_is_sealed(client: Client, dsp: Path) -> None:
    """Then there is nothing to look at in each request: the client holds no descriptor of it."""
    with pytest.raises(PermissionError):
        os.truncate(dsp.with_suffix(".shm"), 0)
    targets = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert not [target for target in targets if "memfd:c7x-vdsp" in target]
    assert client.ping() == 0


# ------------------------------------------------------------------------------------- the virtual DSP with faults


@pytest.mark.parametrize("fault", ["drop", "seq", "short", "die"])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_faults_of_the_virtual_dsp(fault: str, step: int) -> None:
    faults = [f"{fault}={step}"]
    with vdsp.private_server(faults=faults) as place, connected(place.socket, timeout_ms=500) as client:
        start = time.monotonic()
        rcs = [client.load(module())[0], client.infer(1, [X])[0], client.unload(1)]
        assert [rc == 0 for rc in rcs[:step]] == [True] * (step - 1) + [False]
        assert time.monotonic() - start < 5
        assert client.ping() == (0 if fault != "die" else -errno.ENOTCONN)


def session(client: Client, weights: Path) -> list[int]:
    """Every request that there is, in order; what the functions returned."""
    number = ctypes.c_uint32(1)
    status = (ctypes.c_uint32 * 4)()
    rcs = [client.ping(), int(client.lib.c7x_client_get_status(client.pointer, status))]
    rcs.append(int(client.lib.c7x_client_model_load(client.pointer, os.fsencode(weights), ctypes.byref(number))))
    rcs.append(int(client.lib.c7x_client_model_unload(client.pointer, number)))
    rc, handle = client.load(module())
    # After a load that failed the client knows no module, and says so before it asks the DSP.
    rcs += [rc, client.infer(handle, [X])[0], client.infer(handle, [])[0], client.unload(handle)]
    return rcs


STEPS = 8


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_killed_at_every_step(tmp_path: Path, step: int) -> None:
    """An error at once, and a session with the next virtual DSP at the same place."""
    weights = tmp_path / "weights.bin"
    weights.write_bytes(affine_weights())
    place = vdsp.Endpoint(socket=tmp_path / "vdsp.sock", shm=tmp_path / "vdsp.shm")
    before = open_files()
    for faults in ([f"die={step}"], []):
        process, _ = vdsp.start(vdsp.server_command(place, faults=faults), tmp_path / "log")
        try:
            with connected(place.socket, timeout_ms=20_000) as client:
                start = time.monotonic()
                rcs = session(client, weights)
                if faults:
                    assert rcs[: step - 1] == [0] * (step - 1)
                    assert rcs[step - 1] == -errno.ENOTCONN
                    assert all(rcs[step:])
                    assert time.monotonic() - start < 10
                else:
                    assert rcs == [0] * STEPS
        finally:
            process.kill()
            process.wait()
    assert open_files() == before


def test_a_module_that_hangs_times_out_and_a_kill_ends_it(tmp_path: Path) -> None:
    place = vdsp.Endpoint(socket=tmp_path / "vdsp.sock", shm=tmp_path / "vdsp.shm")
    process, _ = vdsp.start(vdsp.server_command(place), tmp_path / "log")
    try:
        with connected(place.socket, timeout_ms=300) as client:
            _, handle = client.load(module("-DHANG"))
            assert client.infer(handle, [X])[0] == -errno.ETIMEDOUT
            assert client.ping() == -errno.ETIMEDOUT  # it works still, and staging belongs to it
            timer = threading.Timer(0.2, process.kill)
            timer.start()
            client.set_timeout(20000)
            start = time.monotonic()
            assert client.ping() == -errno.ENOTCONN
            assert time.monotonic() - start < 5
            timer.join()
    finally:
        process.kill()
        process.wait()


SANITIZED = ("-DC7X_SANITIZE=address,undefined", "-DCMAKE_BUILD_TYPE=Debug", "-DC7X_ARM_TESTS=ON")


def test_rpmsg_against_a_kernel_of_our_own(tmp_path: Path) -> None:
    """tests/native/arm/test_rpmsg.cc: discovery in sysfs, the order of system calls, every failure."""
    command = ["ctest", "--test-dir", str(arm_build(*SANITIZED)), "--output-on-failure"]
    call(command, env={**os.environ, "TMPDIR": str(tmp_path)})


def test_under_address_sanitizer(dsp: Path) -> None:
    """The library's own memory: a session of the CLI with everything in it, and one against a DSP that vanishes."""
    folder = arm_build(*SANITIZED)
    tool = str(folder / "c7x_compute")
    variables = {**os.environ, "C7X_TRANSPORT": "vdsp", "C7X_VDSP_SOCKET": str(dsp)}
    good = b'{"op": "infer", "num_inputs": 2, "input_size": 32, "shape": "4;2,2", "dtype": "float32"}\n' + bytes(32)
    bad = b'{"op": "infer", "num_inputs": 2, "input_size": 8, "shape": "1,2,3,4,5,6,7", "dtype": "x"}\n' + bytes(8)
    text = good * 3 + bad + b"[1,2]\n{\n" + good + b'{"op": "exit"}\n'
    done = subprocess.run(
        [tool, "session-run", "--module", str(module("-DOUTPUTS=7"))],
        input=text, env=variables, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b'"status": "ok"') == 4
    assert done.stdout.count(b'"status": "error"') == 3
    with vdsp.private_server(faults=["die=2"]) as place:
        variables["C7X_VDSP_SOCKET"] = str(place.socket)
        done = subprocess.run(
            [tool, "run", "--module", str(module())], env=variables, capture_output=True, timeout=60, check=False
        )
    assert done.returncode == 1
    assert b"went away" in done.stdout
    assert b"Sanitizer" not in done.stderr


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_nothing_leaks_when_the_dsp_dies(step: int) -> None:
    """A session of the CLI, built with AddressSanitizer, that loses the DSP at its load, inferences or unload."""
    request = b'{"op": "infer", "num_inputs": 1, "input_size": 16, "shape": "4", "dtype": "float32"}\n' + bytes(16)
    with vdsp.private_server(faults=[f"die={step}"]) as place:
        variables = {**os.environ, "C7X_TRANSPORT": "vdsp", "C7X_VDSP_SOCKET": str(place.socket)}
        done = subprocess.run(
            [str(arm_build(*SANITIZED) / "c7x_compute"), "session-run", "--module", str(module())],
            input=request * 2 + b'{"op": "exit"}\n', env=variables, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
    # The load, two inferences, and the unload at its end, whose failure has no answer to go into.
    assert done.stdout.count(b'"status": "ok"') == (0, 0, 1, 2)[step - 1]
    assert (b"went away" in done.stdout) == (step < 4)
    assert b"Sanitizer" not in done.stderr, done.stderr
