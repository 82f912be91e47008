"""TVMT tensor files: ``input.bin`` and ``output.bin`` of ``cg_dsp`` (target attributes, section 8).

Little endian, no padding: magic, version and count, then for each tensor its rank, shape, dtype code and bits, size in
bytes, and data in C order. A bool tensor is written as dtype code 1 with 8 bits, bytes 0 or 1; readers take code 6 too.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from c7x.errors import FormatError

if TYPE_CHECKING:
    import numpy as np

MAGIC = 0x54564D54
VERSION = 1
#: Of a tensor object in the module ABI.
MAX_RANK = 8

#: (DLPack code, bits) -> dtype name, for reading. Code 6 is DLPack's bool.
_READ: dict[tuple[int, int], str] = {
    **{(0, bits): f"int{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)},
    (6, 8): "bool",
}
_WRITE: dict[str, tuple[int, int]] = {name: key for key, name in _READ.items()} | {"bool": (1, 8)}

_HEAD = struct.Struct("<III")
_RANK = struct.Struct("<i")
_TYPE = struct.Struct("<iiq")


def write_tensors(path: str | os.PathLike[str], tensors: Sequence[np.ndarray]) -> None:
    """Write arrays to a tensor file.

    Args:
        path: the file; an existing one is overwritten.
        tensors: arrays of rank 0 to 8, any memory order and byte order.

    Raises:
        FormatError: a dtype or rank that the format does not hold.
        OSError: the file cannot be written.
    """
    import numpy as np

    blocks: list[Any] = [_HEAD.pack(MAGIC, VERSION, len(tensors))]
    for index, tensor in enumerate(tensors):
        array = np.asarray(tensor)
        name = array.dtype.name
        if name not in _WRITE:
            raise FormatError(
                f"tensor {index} has dtype {name}, which a tensor file cannot hold",
                cause="the format knows signed and unsigned integers, bool, float16, float32 and float64",
                hint="convert the array, for example x.astype(np.float32)",
            )
        if array.ndim > MAX_RANK:
            raise FormatError(
                f"tensor {index} has rank {array.ndim}, a tensor file holds at most {MAX_RANK}",
                hint="reshape the array to fewer dimensions",
            )
        code, bits = _WRITE[name]
        # ascontiguousarray alone would turn a 0-d array into a 1-d one.
        data = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
        blocks.append(_RANK.pack(array.ndim) + struct.pack(f"<{array.ndim}q", *array.shape))
        blocks.append(_TYPE.pack(code, bits, data.nbytes))
        blocks.append(data.tobytes())
    with Path(path).open("wb") as file:
        file.writelines(blocks)


def read_tensors(path: str | os.PathLike[str]) -> list[np.ndarray]:
    """The arrays of a tensor file, writable and in native byte order; code 1 with 8 bits gives ``uint8``.

    Raises:
        FormatError: no tensor file, another version, an unknown dtype, or lengths that do not fit.
        OSError: the file cannot be read.
    """
    return parse_tensors(Path(path).read_bytes(), name=str(path))


def parse_tensors(data: bytes, *, name: str = "the tensor file") -> list[np.ndarray]:
    """As ``read_tensors``, from the bytes of a file; ``name`` is what errors call it."""
    reader = _Reader(data, name)
    (magic,) = reader.take(struct.Struct("<I"))
    if magic != MAGIC:
        raise reader.error("is not a tensor file", f"it starts with 0x{magic:08X} instead of 0x{MAGIC:08X}")
    (version,) = reader.take(struct.Struct("<I"))
    if version != VERSION:
        raise reader.error(f"has version {version}", f"this version of c7x reads version {VERSION}")
    (count,) = reader.take(struct.Struct("<I"))
    tensors = []
    for index in range(count):
        reader.where = f"tensor {index}"
        tensors.append(reader.tensor())
    if reader.offset != len(data):
        extra = len(data) - reader.offset
        raise reader.error(f"has {extra} bytes after its last tensor", "the count in the header is too small")
    return tensors


class _Reader:
    """Walks over the bytes of a file; every step is checked against what is left."""

    def __init__(self, data: bytes, name: str) -> None:
        self.data = data
        self.name = name
        self.offset = 0
        self.where = "the header"

    def error(self, fact: str, cause: str) -> FormatError:
        return FormatError(
            f"{self.name} {fact}",
            cause=cause,
            hint="write the file again with c7x.write_tensors_to_file, or give a .npy or .npz file",
        )

    def take(self, layout: struct.Struct) -> tuple[Any, ...]:
        return layout.unpack(self.block(layout.size))

    def block(self, size: int) -> bytes:
        left = len(self.data) - self.offset
        if size > left:
            raise self.error("is truncated", f"{self.where} needs {size} more bytes, {left} are left")
        self.offset += size
        return self.data[self.offset - size : self.offset]

    def tensor(self) -> np.ndarray:
        import numpy as np

        (rank,) = self.take(_RANK)
        if not 0 <= rank <= MAX_RANK:
            raise self.error(f"gives {self.where} rank {rank}", f"ranks are 0 to {MAX_RANK}; the file is damaged")
        shape = self.take(struct.Struct(f"<{rank}q"))
        code, bits, size = self.take(_TYPE)
        if (code, bits) not in _READ:
            raise self.error(
                f"gives {self.where} an unknown dtype (code {code}, {bits} bits)",
                "the file is damaged or written by a newer version",
            )
        expected = bits // 8
        for extent in shape:
            expected *= extent
        if min(shape, default=0) < 0 or size != expected:
            raise self.error(
                f"gives {self.where} shape {list(shape)} and {size} bytes of data",
                f"the shape and {bits} bits an element make {expected} bytes",
            )
        raw = self.block(size)
        dtype = np.dtype(_READ[code, bits])
        if dtype == np.bool_:
            array: np.ndarray = np.frombuffer(raw, np.uint8) != 0
        else:
            array = np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype)
        try:
            return array.reshape(shape)
        except ValueError as error:
            raise self.error(f"gives {self.where} shape {list(shape)}", str(error)) from error
