"""Files and messages that lie: the virtual DSP refuses them and goes on; neither its loader nor its server crashes."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from c7x.toolchain.vdsp import build_server
from tests.integration import vdsp_harness as v
from tests.integration.handwritten import affine_weights
from tests.integration.vdsp_harness import RawDsp, desc, header, make_module

ODD = [0, 1, 7, 127, 128, 255, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 32, 1 << 47, (1 << 63) - 1, (1 << 64) - 1,
       (1 << 64) - 8, 0xC0000000, 0xDD400000, 0xDE000000, 0xDFFF0000, 0xE0000000]  # fmt: skip
MUTATIONS = 15_000
MESSAGES = 15_000


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The virtual DSP with undefined behaviour turned into traps. Not with ASan, whose shadow memory and handlers stand
    in the way of its own; the loader's test under ASan is tests/native/test_elf_module.cc."""
    flags = ("-O1", "-g", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error", "-fstack-protector-all")
    return build_server(tmp_path_factory.mktemp("server"), flags=flags)


@pytest.fixture(scope="session")
def module(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make_module(tmp_path_factory.mktemp("module") / "m", weights=affine_weights())


@pytest.fixture
def dsp(program: Path, tmp_path: Path) -> Iterator[RawDsp]:
    with RawDsp(program, tmp_path / "d") as dsp:
        yield dsp


def survived(dsp: RawDsp) -> None:
    """Neither the server nor, by anything but a module's own fault, a child has died."""
    assert dsp.process.poll() is None
    log = dsp.log.read_text(errors="replace")
    assert "signal" not in log, log[-2000:]
    assert "ended its process" not in log, log[-2000:]


def _mutate(rng: random.Random, data: bytes, interesting: list[int]) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        width = rng.choice([1, 2, 4, 8])
        value = rng.choice(
            [rng.getrandbits(64), rng.choice(ODD), len(data) + rng.randint(-8, 8), rng.randrange(len(data))]
        )
        at = rng.choice(interesting) if rng.random() < 0.8 else rng.randrange(len(data))
        at = min(at // width * width, len(data) - width)
        changed[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    if rng.random() < 0.1:
        del changed[rng.randrange(len(changed)) :]
    return bytes(changed)


def test_modules_that_lie(dsp: RawDsp, module: bytes) -> None:
    """Mutations of a real module, most of them in its tables. Its code does not run, so every death is the loader's."""
    rng = random.Random(4)
    text = module.index(b"_binary_weights_bin_start")
    sections = struct.unpack_from("<Q", module, 40)[0]
    inner = module.index(b"\x7fELF", 4)
    dynamic = module.index(
        struct.pack("<QQ", 5, struct.unpack_from("<Q", module, module.index(struct.pack("<Q", 5)) + 8)[0])
    )
    interesting = [
        *range(0, 64 + 5 * 56),
        *range(64 + 5 * 56, text),
        *range(max(0, dynamic - 256), dynamic + 256),
        *range(sections, len(module)),
        *range(inner, inner + 64 + 6 * 56),
    ]
    loaded = 0
    for _ in range(MUTATIONS):
        status, handle, _ = dsp.load(_mutate(rng, module, interesting) or b"\0")
        assert status in (v.SUCCESS, v.LOAD, v.NOMEM)
        if status == v.SUCCESS:
            loaded += 1
            assert dsp.unload(handle) == v.SUCCESS
    assert 0 < loaded < MUTATIONS
    survived(dsp)
    handle = dsp.must_load(module)
    assert dsp.do(handle, v.OUTPUTS, 1).status == v.SUCCESS


def test_truncated_modules(dsp: RawDsp, module: bytes) -> None:
    for size in [*range(1, 1000, 7), *range(1000, len(module), 211)]:
        dsp.memory[: len(module)] = bytes(len(module))
        assert dsp.load(module[:size])[0] == v.LOAD
    survived(dsp)


def test_weights_that_lie(dsp: RawDsp) -> None:
    rng = random.Random(5)
    weights = affine_weights()
    for _ in range(MUTATIONS):
        data = _mutate(rng, weights, list(range(len(weights)))) or b"\0"
        dsp.memory[: len(data)] = data
        answer = dsp.ask(v.MODEL_LOAD, struct.pack("<IIII", len(data), 0, 0, 0))
        assert dsp.status(answer) in (v.SUCCESS, v.WEIGHTS, v.NOMEM)
        if dsp.status(answer) == v.SUCCESS:
            model = answer[16:20]
            assert dsp.status(dsp.ask(v.MODEL_UNLOAD, model)) == v.SUCCESS
    survived(dsp)


def test_messages_that_lie(dsp: RawDsp, module: bytes) -> None:
    """Random messages with plausible types and lengths while a module is loaded that ignores what it is given."""
    rng = random.Random(6)
    handle = dsp.must_load(module)
    dsp.stage(struct.pack("<ii", v.OUTPUTS, 1))
    ask = desc(dsp.base + len(module) // 128 * 128 + 128, 8, [2], 0, 32)
    kinds = [v.PING, v.GET_STATUS, v.MODEL_LOAD, v.INFER, v.MODEL_UNLOAD, v.INFER_LARGE, 0x21, 0x23, 0x1021, 0]
    for seq in range(MESSAGES):
        kind = rng.choice(kinds)
        words = [rng.choice([handle, 0, 1, 2, 4, 5, 128, 129, rng.choice(ODD), rng.getrandbits(32)]) for _ in range(4)]
        if kind in (v.INFER, v.INFER_LARGE):
            words[0] = rng.choice([handle, handle, handle, 0, 99])
            words[3] &= 0x10007
        body = struct.pack("<4I", *(w & 0xFFFFFFFF for w in words))
        if kind == v.INFER_LARGE:
            body += struct.pack(
                "<QII", rng.choice([dsp.base, *ODD, rng.getrandbits(64)]), rng.choice([80, 0, 2**32 - 1]), 0
            )
        # The first input is a good one, since the module reads it.
        body += ask
        for _ in range(rng.randint(0, 3)):
            body += desc(rng.choice(ODD), rng.choice(ODD), [rng.getrandbits(63)] * 6, ndim=rng.randint(-9, 9))
        if rng.random() < 0.2:
            body = body[: rng.randrange(len(body))]
        if kind == v.INFER_LARGE:
            # Whatever lies there are descriptors: only refusals are wanted, the module must not see them.
            body = (
                struct.pack("<I", rng.choice([0, handle]))
                + body[4:8]
                + struct.pack("<I", rng.choice([0, 129, 2**31]))
                + body[12:]
            )
        dsp.connection.send(header(kind, seq, rng.getrandbits(32), rng.getrandbits(31)) + body)
        answer = dsp.connection.recv(1 << 16)
        assert struct.unpack_from("<I", answer, 4)[0] == seq
        assert struct.unpack_from("<I", answer, 8)[0] == len(answer)
    assert dsp.process.poll() is None
    assert dsp.infer(handle, [ask]).type == 0x1021
