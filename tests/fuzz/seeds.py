"""The seeds of the fuzz corpus: ``python -m tests.fuzz.seeds [FOLDER]`` writes them into ``tests/fuzz/corpus``.

They are what the product itself writes: weights, tensor files, messages, and modules built by its tool chain, with a
few symbols instead of a board's two hundred so that they stay small. All but the modules are the same on every machine
(tests/integration/test_fuzz.py); a module has the bytes of the compiler that made it, so modules are only written where
there is none. Files without ``seed-`` in their names come from fuzzing; ``crash-`` marks a finding that was mended.
"""

from __future__ import annotations

import shutil
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np

from c7x.run import protocol
from c7x.run.protocol import Message, WireDesc
from c7x.tensorfile import write_tensors
from tests.integration.handwritten import affine_weights

CORPUS = Path(__file__).resolve().parent / "corpus"

# ------------------------------------------------------------------------------------------- weights, tensor files


def weights() -> dict[str, bytes]:
    """Inputs of fuzz_weights: place and change of a byte, then the file."""
    unchanged = bytes(3)
    return {
        "affine": unchanged + affine_weights(),
        "changed": struct.pack("<HB", 12, 1) + affine_weights(),
        "scalars": unchanged + struct.pack("<Qiqidi4B", 3, 1, -5, 3, 0.5, 5, 2, 32, 1, 0),
        "string-and-shape": unchanged + struct.pack("<QiQ5s3xiQ2q", 2, 65, 5, b"hello", 69, 2, 3, 4),
        "none": unchanged + struct.pack("<Q", 0),
    }


def tensorfiles() -> dict[str, bytes]:
    """Inputs of fuzz_tensorfile: TVMT files."""
    arrays = {
        "float": [np.arange(6, dtype=np.float32).reshape(2, 3)],
        "kinds": [np.array(1, "i8"), np.array([True, False]), np.array([[1], [2]], "u1"), np.array([], "f2")],
        "rank-8": [np.zeros((1,) * 8, np.int16)],
        "none": [],
    }  # fmt: skip
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, tensors in arrays.items():
            path = Path(folder) / name
            write_tensors(path, tensors)
            result[name] = path.read_bytes()
    return result


# -------------------------------------------------------------------------------------------------------- protocol


def _message(kind: Message, body: bytes = b"") -> bytes:
    message = protocol.message(kind, 1, body)
    return b"\0" + struct.pack("<H", len(message)) + message


def _stage(offset: int, data: bytes) -> bytes:
    return b"\1" + struct.pack("<HH", offset // 16, len(data)) + data


def _script(*pairs: int) -> bytes:
    return b"\3" + bytes([len(pairs), *pairs])


def _load(which: int = 0) -> bytes:
    # The module of tests/native/elf_builder.h, whose size a larger one covers.
    return bytes([2, which]) + _message(Message.DYN_LOAD, protocol.DynLoadRequest(0x2000).pack())


def _infer(count: int = 1, flags: int = 0) -> bytes:
    descs = [WireDesc(protocol.STAGING_ADDR + 0x4000, 16, 1, 2, 32, 0, (4,))] * count
    return _message(Message.INFER, protocol.infer_body(protocol.InferRequest(1, 0, count, flags), descs))


def _infer_large(count: int = 1, flags: int = 0) -> bytes:
    desc = WireDesc(protocol.STAGING_ADDR + 0x4000, 16, 1, 2, 32, 0, (4,)).pack()
    at = 0x5000
    body = protocol.InferLargeRequest(1, 0, count, flags, protocol.STAGING_ADDR + at, 80 * count).pack()
    return _stage(at, desc * count) + _message(Message.INFER_LARGE, body)


def protocols() -> dict[str, bytes]:
    """Inputs of fuzz_protocol; its head says what the bytes mean."""
    unload = _message(Message.DYN_UNLOAD, struct.pack("<I", 1))
    output = (4, 0, 0x51, 2, 3, 0, 0, 0, 0, 0, 0, 0)
    model = _stage(0, affine_weights()) + _message(
        Message.MODEL_LOAD, protocol.ModelLoadRequest(len(affine_weights())).pack()
    )
    builtins = b""
    for which, arguments in (
        (2, (0x40, 0x02)), (3, (0x40, 0x01, 0x00, 0x04)), (0, (0x40, 0x04, 0x00, 0x28)), (1, (0x82, 0x00, 0x81, 0x28)),
        (5, (0x83, 0x01, 0x28)), (4, (0x83, 0x80, 0x01, 0x01, 0x00)), (9, (0x83, 0x81)), (7, (0x83,)),
        (8, (0x83, 0x40)), (6, ()),
    ):  # fmt: skip
        builtins += bytes([6, which, len(arguments), *arguments])
    failures = _script(0, 1) + _infer() + _script(11, 9) + _infer() + _script(10, 3, 1) + _infer()
    return {
        "status": b"\0" + _message(Message.PING) + _message(Message.GET_STATUS) + _message(Message.DYN_LOAD),
        "session": b"\0" + _load() + _infer() + _infer_large(3, protocol.FLAG_KV_RESIDENT | 2) + unload,
        "not-strict": b"\1" + _load() + _script(*output) + _infer(2) + _infer_large() + unload,
        "outputs": b"\0" + _load() + _script(*output) + _infer() + _script(5, 7, *output[2:] * 7) + _infer_large(),
        "weights": b"\0" + _load(1) + _infer() + model + _message(Message.MODEL_UNLOAD, struct.pack("<I", 2)) + unload,
        "memory": b"\0" + _load() + _script(1, 8, 1, 9, 1, 0, 2, 1, 3, 5, 9, 1, 0, 0) + _infer(1, 2) + _infer_large(),
        "no-memory": b"\4" + _load() + _script(1, 23, 1, 9, 0, 253) + _infer(4) + _infer_large(),
        "builtins": b"\0" + _load() + b"\3" + bytes([len(builtins)]) + builtins + _infer() + _infer_large(),
        "registers": b"\0" + _load() + _script(7, 4, 7, 0x42, 8, 0) + _infer() + _infer_large() + unload,
        "five-modules": b"\2" + _load() * 5 + _message(Message.DYN_UNLOAD, struct.pack("<I", 2)) + _infer() + unload,
        "failures": b"\0" + _load() + failures,
    }


# ------------------------------------------------------------------------------------------------------- modules

SOURCE = """
#include <string.h>
static int calls;
extern int printf(const char *, ...);
__attribute__((visibility("default"))) int cg_main_dsp(void *a, int n, void *c, void *r);
static int (*const print)(const char *, ...) = printf;
int (*volatile print_it)(const char *, ...);
int cg_main_dsp(void *a, int n, void *c, void *r) {
  (void)a; (void)c;
  print_it = print;
  memset(r, 0, 16);
  return print_it("%d", n + ++calls);
}
"""
COMPILERS = {"x86-64": "gcc", "aarch64": "aarch64-linux-gnu-gcc"}


def modules() -> Iterator[tuple[str, bytes]]:
    """Inputs of fuzz_elf: modules with and without weights, for every machine whose compiler is here."""
    from c7x.toolchain.exports import stub_exports
    from c7x.toolchain.gnu import BuildOptions, find_compiler
    from c7x.toolchain.vdsp import build_module

    every = stub_exports("j722s-evm")
    few = {name: every[name] for name in ("printf", "memset", "memcpy")}
    for machine, program in COMPILERS.items():
        if shutil.which(program) is None:
            continue
        for name, data in (("plain", None), ("weights", affine_weights())):
            patch = mock.patch("c7x.toolchain.vdsp.stub_exports", lambda board: few)
            with tempfile.TemporaryDirectory() as scratch, patch:
                folder = Path(scratch)
                (folder / "m.c").write_text(SOURCE)
                path = None
                if data is not None:
                    path = folder / "given.bin"
                    path.write_bytes(data)
                (folder / "out").mkdir()
                module, _ = build_module(
                    [folder / "m.c"], weights=path, folder=folder / "out", board="j722s-evm",
                    options=BuildOptions(cflags=("-O1",)), compiler=find_compiler(program),
                )  # fmt: skip
                yield f"{machine}-{name}", module.read_bytes()


def seeds() -> dict[str, dict[str, bytes]]:
    """Every seed that does not depend on a compiler: target, name, bytes."""
    return {"weights": weights(), "tensorfile": tensorfiles(), "protocol": protocols()}


def main(folder: Path) -> None:
    """Writes all seeds; modules only where ``folder`` has none."""
    for target, files in seeds().items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / target / f"seed-{name}").write_bytes(data)
    elf = folder / "elf"
    elf.mkdir(parents=True, exist_ok=True)
    if not any(elf.glob("seed-*")):
        for name, data in modules():
            (elf / f"seed-{name}").write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else CORPUS)
