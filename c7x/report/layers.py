"""layers.json and memory.json as the reports read them: every kernel call, its origin and its operands."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from c7x.errors import WorkspaceError
from c7x.report.offload import operator_text
from c7x.workspace import Workspace

Place = Literal["arena", "input", "output", "constant"]


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """One operand of a call.

    Attributes:
        buffer: the storage's name; two operands with the same name share their bytes.
        place: whose memory it is: the arena's, that of an input or output of the model, or a constant's.
        offset: bytes from the arena's start; the number of the input or output; None for a constant.
    """

    buffer: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    place: Place
    offset: int | None

    @property
    def numel(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One kernel call; the attributes are the keys of its record (docs/formats.md)."""

    index: int
    kernel: str
    name: str
    backend: str
    relax_ops: tuple[str, ...]
    nodes: tuple[str, ...]
    source: tuple[str, ...]
    modules: tuple[str, ...]
    macs: int
    bytes_in: int
    bytes_out: int
    dtype: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    @property
    def where(self) -> str:
        """The user's lines, or the paths of the modules where no line of the user's is known."""
        return ", ".join(self.source or self.modules)

    @property
    def operators(self) -> str:
        """What it computes, in short."""
        return operator_text(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """What reports repeat of a layer."""
        return {
            "index": self.index,
            "kernel": self.kernel,
            "name": self.name,
            "backend": self.backend,
            "relax_ops": list(self.relax_ops),
            "nodes": list(self.nodes),
            "source": list(self.source),
            "modules": list(self.modules),
            "macs": self.macs,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "dtype": self.dtype,
        }


def short_name(name: str) -> str:
    """A layer's name for tables: PyTorch's longest one, that of batch normalisation, cut short."""
    return name.replace("_native_batch_norm_legit_no_training", "batch_norm")


def read_layers(ws: Workspace) -> list[Layer]:
    """The layers of a build directory in call order.

    Raises:
        WorkspaceError: layers.json or memory.json is missing or damaged, or they are of different builds.
    """
    records, memory = ws.read_json("layers.json"), ws.read_json("memory.json")
    try:
        return [_layer(record, call) for record, call in zip(records, memory["calls"], strict=True)]
    except (KeyError, TypeError, ValueError) as error:
        raise WorkspaceError(
            f"layers.json and memory.json of {ws.root} do not describe the model's layers ({error})",
            cause="they were edited, or written by another version of c7x",
            hint="run c7x codegen and c7x build again",
        ) from error


_PLAIN = ("index", "kernel", "name", "backend", "macs", "bytes_in", "bytes_out", "dtype")
_LISTS = ("relax_ops", "nodes", "source", "modules")


def _layer(record: dict[str, Any], call: dict[str, Any]) -> Layer:
    fields: dict[str, Any] = {key: record[key] for key in _PLAIN}
    fields |= {key: tuple(record[key]) for key in _LISTS}
    return Layer(
        **fields,
        inputs=tuple(_tensor(t) for t in call["inputs"]),
        outputs=tuple(_tensor(t) for t in call["outputs"]),
    )


def _tensor(record: dict[str, Any]) -> Tensor:
    fields = {key: record[key] for key in ("buffer", "dtype", "bytes", "place", "offset")}
    return Tensor(**fields, shape=tuple(record["shape"]))
