"""What the Arm side adds to an inference, over the virtual DSP: ``python -m bench.arm``.

An empty model is run through a bare socket, the C API (called by ctypes, whose cost is in the figure) and
``C7xVirtualMachine``; then 32 MB of input and output, copied and in place. Medians of many short runs in turns, in host
time, which says nothing about a DSP.

Exit code 1 when the C API takes more than 1.5 times, or Python more than 3 times, as long as the bare socket, or when
tensors in place are not faster than copied ones.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from c7x.run import protocol, vdsp
from c7x.run.protocol import DynLoadRequest, DynLoadResponse, DynUnloadRequest, InferLargeRequest, Message, WireDesc
from tests.integration import arm_harness

ROUNDS = 5
RUNS = 400
LARGE = 8_000_000  # floats: 32 MB; the result region has 32 MiB, the last 64 KiB of them for text

#: Prints the seconds of runs of an empty model, and of a large one by copy and in place, as JSON.
PYTHON = """
import json, sys, time
import numpy as np
from tvm.contrib.c7x import C7xVirtualMachine

def seconds(function, runs):
    result = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        result.append(time.perf_counter() - start)
    return result

module, runs, large = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
x = np.zeros(4, np.float32)
with C7xVirtualMachine(module) as vm:
    run = vm["main"]
    seconds(lambda: run(x), runs // 4)
    small = seconds(lambda: run(x), runs)
    y = np.ones(large, np.float32)
    copied = seconds(lambda: run(y), 5)
    staged = vm.create_input((large,), "float32")
    staged.copyfrom(y)
    view = vm.run_nocopy(staged)
    assert view[-1] == 1
    in_place = seconds(lambda: vm.run_nocopy(staged), 5)
print(json.dumps({"small": small, "copied": copied, "in_place": in_place}))
"""


def timed(function: Callable[[], object]) -> list[float]:
    """Seconds of each of many runs, after some to warm up."""
    for _ in range(RUNS // 4):
        function()
    result = []
    for _ in range(RUNS):
        start = time.perf_counter()
        function()
        result.append(time.perf_counter() - start)
    return result


def bare(place: vdsp.Endpoint, module: Path) -> list[float]:
    """Requests and answers over the socket with nothing around them."""
    elf = module.read_bytes()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection, place.shm.open("r+b") as file:
        connection.connect(str(place.socket))
        memory = mmap.mmap(file.fileno(), protocol.CARVEOUT_SIZE)
        memory[: len(elf)] = elf

        def ask(kind: Message, body: bytes) -> bytes:
            connection.send(protocol.message(kind, 1, body))
            return connection.recv(protocol.MAX_MESSAGE)

        handle = DynLoadResponse.unpack(ask(Message.DYN_LOAD, DynLoadRequest(len(elf)).pack()), 16).module_handle
        at = -(-len(elf) // 128) * 128
        desc = WireDesc(protocol.STAGING_ADDR + at + 128, 16, 1, 2, 32, 0, (4,))
        memory[at : at + WireDesc.size()] = desc.pack()
        request = protocol.message(
            Message.INFER_LARGE, 2, InferLargeRequest(handle, 0, 1, 0, protocol.STAGING_ADDR + at, 80).pack()
        )

        def infer() -> None:
            connection.send(request)
            connection.recv(protocol.MAX_MESSAGE)

        result = timed(infer)
        ask(Message.DYN_UNLOAD, DynUnloadRequest(handle).pack())
    return result


def c_api(place: vdsp.Endpoint, module: Path) -> list[float]:
    x = np.zeros(4, np.float32)
    with arm_harness.connected(place.socket) as client:
        rc, handle = client.load(module)
        if rc != 0:
            raise SystemExit(str(client.error()))
        inputs, outputs = (arm_harness.Desc * 1)(arm_harness.describe(x)), (arm_harness.Desc * 64)()
        count, cycles = ctypes.c_int(), ctypes.c_uint64()
        arguments = (
            client.pointer, ctypes.c_uint32(handle), ctypes.c_uint32(0), inputs, ctypes.c_int(1), outputs,
            ctypes.byref(count), ctypes.byref(cycles),
        )  # fmt: skip
        infer = client.lib.c7x_client_infer
        result = timed(lambda: infer(*arguments))
        client.unload(handle)
    return result


def python(place: vdsp.Endpoint, module: Path, *, with_tvm: bool) -> dict[str, list[float]]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(arm_harness.site(with_tvm=with_tvm)),
        "C7X_TRANSPORT": "vdsp",
        "C7X_VDSP_SOCKET": str(place.socket),
    }
    command = [sys.executable, "-S", "-c", PYTHON, str(module), str(RUNS), str(LARGE)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    result: dict[str, list[float]] = json.loads(done.stdout)
    return result


def main() -> int:
    module = arm_harness.module()
    times: dict[str, list[float]] = {}

    def add(name: str, seconds: list[float]) -> None:
        times.setdefault(name, []).append(statistics.median(seconds))

    with vdsp.private_server() as place:
        for _ in range(ROUNDS):
            add("bare socket", bare(place, module))
            add("C API", c_api(place, module))
            for name, with_tvm in (("Python", False), ("Python beside TVM", True)):
                found = python(place, module, with_tvm=with_tvm)
                add(name, found["small"])
                add(f"{name}, 32 MB copied", found["copied"])
                add(f"{name}, 32 MB in place", found["in_place"])
    best = {name: min(values) for name, values in times.items()}
    for name, seconds in best.items():
        ratio = "" if "MB" in name else f"{seconds / best['bare socket']:6.2f} x the bare socket"
        print(f"{name:32} {seconds * 1e6:10.1f} us {ratio}")
    good = (
        best["C API"] <= 1.5 * best["bare socket"]
        and max(best["Python"], best["Python beside TVM"]) <= 3 * best["bare socket"]
        and best["Python, 32 MB in place"] < best["Python, 32 MB copied"]
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
