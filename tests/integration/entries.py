"""Calls ``cg_main`` and ``cg_main_dsp`` of a compiled model through ctypes, every buffer at the edge of its memory.

``python tests/integration/entries.py LIBRARY BUILD`` runs as a process of its own, since a wild pointer ends it. Each
input, output, the weights and the arena end where an unmapped page begins, inputs and weights are read-only, and
the arena is full of other rubbish at every call. It checks that all calls of both entries give the same bits and return
0, that wrong calls give -1, and writes the outputs of ``cg_main`` to ``BUILD/entries/output_N.npy``.

Offsets and type numbers are those of the module ABI, sections 1 to 3.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

PAGE = mmap.PAGESIZE
PROT_NONE = 0
ANY_BYTES, TENSOR_BYTES, ARRAY_BYTES = 16, 208, 2072
TYPE_TENSOR, TYPE_ARRAY, TYPE_STRING = 70, 71, 65
DTYPE_CODES = {"i": 0, "u": 1, "f": 2, "b": 1}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Region:
    """``size`` bytes that end (to within ``align``) at an unmapped page; ``address`` is a multiple of ``align``."""

    def __init__(self, size: int, align: int, content: bytes | None = None) -> None:
        whole = -(-max(size, 1) // PAGE) * PAGE
        self._map = mmap.mmap(-1, whole + PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        offset = (whole - size) // align * align
        self.address = base + offset
        self.array = np.frombuffer(self._map, np.uint8, size, offset)
        if content is not None:
            self.array[:] = np.frombuffer(content, np.uint8)
        protect(base + whole, PAGE, PROT_NONE)
        if content is not None:
            protect(base, whole, mmap.PROT_READ)


def protect(address: int, size: int, protection: int) -> None:
    if _libc.mprotect(address, size, protection) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")


def any_cell(type_index: int, pointer: int) -> bytes:
    return struct.pack("<iIQ", type_index, 0, pointer)


def tensor_object(array: np.ndarray, address: int) -> ctypes.Array[ctypes.c_char]:
    """A tensor object (section 3.2) for ``array``'s type over the bytes at ``address``."""
    memory = ctypes.create_string_buffer(TENSOR_BYTES)
    shape = struct.pack(f"<{array.ndim}q", *array.shape)
    code, bits = DTYPE_CODES[array.dtype.kind], array.dtype.itemsize * 8
    head = struct.pack("<iiQ", TYPE_TENSOR, 1, 0) + struct.pack(
        "<QiiiBBHQQQ", address, 0, 0, array.ndim, code, bits, 1, ctypes.addressof(memory) + 64, 0, 0
    )
    ctypes.memmove(memory, head.ljust(64, b"\0") + shape, 64 + len(shape))
    return memory


def read_tensor(address: int, like: np.ndarray) -> np.ndarray:
    """The content of a tensor object; ValueError when its type is not that of ``like``."""
    type_index = ctypes.c_int32.from_address(address).value
    data, _, _, ndim, code, bits, lanes, shape, strides, offset = struct.unpack(
        "<QiiiBBHQQQ", ctypes.string_at(address + 16, 48)
    )
    dims = struct.unpack(f"<{ndim}q", ctypes.string_at(shape, 8 * ndim)) if ndim else ()
    found = (type_index, dims, code, bits, lanes, strides, offset)
    wanted = (TYPE_TENSOR, like.shape, DTYPE_CODES[like.dtype.kind], like.dtype.itemsize * 8, 1, 0, 0)
    if found != wanted:
        raise ValueError(
            f"an output tensor has (type, shape, code, bits, lanes, strides, offset) {found}, not {wanted}"
        )
    return np.frombuffer(ctypes.string_at(data, like.nbytes), like.dtype).reshape(like.shape)


def constant_cells(data: bytes, address: int) -> list[tuple[bytes, object]]:
    """The constants array of weights.bin: cells, each with what must stay alive; tensors point into ``address``.

    Written from the format's description, not with the compiler's reader.
    """
    (count,) = struct.unpack_from("<Q", data)
    position = 8
    cells: list[tuple[bytes, object]] = []
    for _ in range(count):
        while data[position] == 0:
            position += 1
        (kind,) = struct.unpack_from("<i", data, position)
        if kind == TYPE_STRING:
            (length,) = struct.unpack_from("<Q", data, position + 4)
            position += 12 + length
            cells.append((any_cell(0, 0), None))
            continue
        assert kind == TYPE_TENSOR, f"entry of kind {kind} at byte {position}"
        ndim, code, bits, _ = struct.unpack_from("<iBBH", data, position + 28)
        shape = struct.unpack_from(f"<{ndim}q", data, position + 36)
        (size,) = struct.unpack_from("<q", data, position + 36 + 8 * ndim)
        position += 44 + 8 * ndim
        letter = {0: "i", 1: "u", 2: "f"}[code]
        memory = tensor_object(np.empty(shape, np.dtype(f"{letter}{bits // 8}")), address + position)
        cells.append((any_cell(TYPE_TENSOR, ctypes.addressof(memory)), memory))
        position += size
    assert position == len(data), "bytes follow the last constant"
    return cells


class Model:
    """A compiled model in a shared library, with its build directory's inputs, weights and sizes."""

    def __init__(self, library: Path, build: Path) -> None:
        self.library = ctypes.CDLL(str(library))
        self.description = json.loads((build / "io.json").read_text())
        ports = self.description["inputs"]
        arrays = [np.load(build / "inputs" / f"input_{i}.npy") for i in range(len(ports))]
        self.inputs = [np.ascontiguousarray(a).reshape(a.shape) for a in arrays]
        self.input_regions = [Region(a.nbytes, a.itemsize, a.tobytes()) for a in self.inputs]
        self.outputs = [np.empty(p["shape"], p["dtype"]) for p in self.description["outputs"]]
        self.weights = (build / "weights.bin").read_bytes()
        self.weights_region = Region(len(self.weights), 128, self.weights)

    def cg_main(self, rubbish: int) -> list[np.ndarray]:
        arena = Region(self.description["arena_bytes"], 128)
        arena.array[:] = rubbish
        regions = [Region(a.nbytes, a.itemsize) for a in self.outputs]
        for region in regions:
            region.array[:] = rubbish
        pointers = [ctypes.c_void_p * max(len(r), 1) for r in (self.input_regions, regions)]
        status = self.library.cg_main(
            pointers[0](*[r.address for r in self.input_regions]),
            pointers[1](*[r.address for r in regions]),
            ctypes.c_void_p(self.weights_region.address),
            ctypes.c_void_p(arena.address),
        )
        assert status == 0, f"cg_main returned {status}"
        return [r.array.view(a.dtype).reshape(a.shape).copy() for r, a in zip(regions, self.outputs, strict=True)]

    def cg_main_dsp(self) -> list[np.ndarray]:
        objects = [tensor_object(a, r.address) for a, r in zip(self.inputs, self.input_regions, strict=True)]
        cells = b"".join(any_cell(TYPE_TENSOR, ctypes.addressof(o)) for o in objects)
        constants = constant_cells(self.weights, self.weights_region.address)
        table = ctypes.create_string_buffer(b"".join(cell for cell, _ in constants) or bytes(ANY_BYTES))
        result = ctypes.create_string_buffer(ANY_BYTES)
        arguments = ctypes.create_string_buffer(cells or bytes(ANY_BYTES))
        wrong = self.library.cg_main_dsp(arguments, len(objects) + 1, table if constants else None, result)
        assert wrong == -1, f"cg_main_dsp with an input too many returned {wrong}"
        status = self.library.cg_main_dsp(arguments, len(objects), table if constants else None, result)
        assert status == 0, f"cg_main_dsp returned {status}"
        type_index, _, pointer = struct.unpack("<iIQ", result.raw[:ANY_BYTES])
        if len(self.outputs) == 1:
            assert type_index == TYPE_TENSOR, f"the result is of type {type_index}"
            return [read_tensor(pointer, self.outputs[0])]
        assert type_index == TYPE_ARRAY, f"the result is of type {type_index}"
        (size,) = struct.unpack("<i", ctypes.string_at(pointer + 16, 4))
        assert size == len(self.outputs), f"the result holds {size} tensors"
        raw = ctypes.string_at(pointer + 24, ANY_BYTES * size)
        found = [struct.unpack_from("<iIQ", raw, ANY_BYTES * i) for i in range(size)]
        assert all(kind == TYPE_TENSOR for kind, _, _ in found)
        return [read_tensor(p, like) for (_, _, p), like in zip(found, self.outputs, strict=True)]


def same_bits(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> bool:
    return all(x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True))


def main(library: Path, build: Path) -> int:
    model = Model(library, build)
    first = model.cg_main(0xFF)
    assert same_bits(first, model.cg_main(0x5A)), "cg_main gives other bits when its arena and outputs held other bytes"
    assert same_bits(first, model.cg_main_dsp()), "cg_main_dsp gives other bits than cg_main"
    assert same_bits(first, model.cg_main_dsp()), "cg_main_dsp gives other bits at its second call"
    folder = build / "entries"
    folder.mkdir(exist_ok=True)
    for i, array in enumerate(first):
        np.save(folder / f"output_{i}.npy", array)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
