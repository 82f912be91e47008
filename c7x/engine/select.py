"""Which engine runs a chain of stages."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from c7x.engine.docker import ContainerOptions, DockerEngine
from c7x.engine.events import Listener, StageOutcome
from c7x.engine.local import LocalEngine
from c7x.errors import EngineError, ImageError
from c7x.stages import STAGES, Stage, StageRequest
from c7x.workspace import Workspace

EngineName = Literal["auto", "local", "docker"]

#: What the extra ``compile`` brings; without it the stages from model to executable run in a container.
_COMPILE_MODULES = ("torch", "tvm")


class Engine(Protocol):
    """Where stages run."""

    def run(
        self, workspace: Workspace, requests: Sequence[StageRequest], listener: Listener | None = None
    ) -> list[StageOutcome]:
        """As ``LocalEngine.run``."""


class FallbackEngine(DockerEngine):
    """The container engine for who did not ask for it: its errors also say how to do without."""

    def run(
        self, workspace: Workspace, requests: Sequence[StageRequest], listener: Listener | None = None
    ) -> list[StageOutcome]:
        try:
            return super().run(workspace, requests, listener)
        except (EngineError, ImageError) as error:
            extra = _extra(self.table, requests)
            packages = "torch and TVM are" if extra == "compile" else "NumPy is"
            error.hint = (
                f"install what runs the stages on this machine: pip install 'c7x[{extra}]'; or for a container: "
                f"{(error.hint or '').removesuffix('; or use --engine local')}"
            )
            error.cause = "; ".join(
                text for text in (f"{packages} not installed, so the stages run in a container", error.cause) if text
            )
            raise


def _extra(table: Mapping[str, Stage], requests: Sequence[StageRequest]) -> str:
    return "compile" if any(table[request.name].extra == "compile" for request in requests) else "run"


def _missing(modules: Sequence[str]) -> bool:
    return any(importlib.util.find_spec(module) is None for module in modules)


def runs_here(table: Mapping[str, Stage], requests: Sequence[StageRequest]) -> bool:
    """Whether ``auto`` is this machine: it has what the stages need, or they need its network."""
    if any(table[request.name].needs_host(request.options) for request in requests):
        return True
    if _extra(table, requests) == "compile":
        return not _missing(_COMPILE_MODULES)
    return not _missing([module for request in requests for module in table[request.name].modules(request.options)])


def select_engine(
    name: EngineName,
    requests: Sequence[StageRequest],
    options: ContainerOptions | None = None,
    *,
    table: Mapping[str, Stage] = STAGES,
) -> Engine:
    """The engine for ``--engine`` and what is to run.

    ``auto`` is this machine when the packages are there that the stages need: torch and TVM for export to build, NumPy
    (and what was asked for besides) for run, compare and bench. Otherwise it is a container.
    """
    match name:
        case "local":
            return LocalEngine(table=table)
        case "docker":
            return DockerEngine(options, table=table)
        case "auto":
            return LocalEngine(table=table) if runs_here(table, requests) else FallbackEngine(options, table=table)
