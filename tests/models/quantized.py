"""Quantised models of the zoo: the imported Relax module, and what PT2E says its integers compute."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from tests.models import MODELS
from tests.models.case import Made


@dataclass(frozen=True, kw_only=True)
class QuantizedCase:
    """``program``: with integers; ``simulation`` and ``floats``: outputs on ``inputs``; ``report``: quantize.json."""

    program: torch.export.ExportedProgram
    inputs: list[np.ndarray]
    simulation: list[np.ndarray]
    floats: list[np.ndarray]
    report: dict[str, Any]

    @cached_property
    def module(self) -> Any:
        """The program in Relax, parameters bound as constants."""
        from c7x.frontend.importer import import_exported_program

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_exported_program(self.program)


def quantize_model(
    made: Made,
    dtype: str = "int8",
    *,
    scale: str = "mse",
    symmetric: bool = True,
    bias_int32: bool | None = None,
    keep_float: Collection[str] = (),
    samples: Collection[tuple[torch.Tensor, ...]] | None = None,
) -> QuantizedCase:
    """Quantise (model, example inputs), calibrated on ``samples`` (default: the example inputs)."""
    from c7x.quantize.calibrate import InputSpec, deterministic
    from c7x.quantize.quantizer import C7xMMAQuantizer
    from c7x.quantize.stage import quantize_program

    model, inputs = made
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model.eval(), inputs, strict=False)
        quantizer = C7xMMAQuantizer(
            dtype,
            symmetric,
            bias_int32=bias_int32,
            scale=scale,  # type: ignore[arg-type]
            keep_float=keep_float,
        )
        specs = [InputSpec(name=f"input_{i}", example=x) for i, x in enumerate(inputs)]
        quantized = quantize_program(program, list(samples or [inputs]), quantizer, specs=specs)
        with deterministic():
            simulation = _arrays(quantized.module(*inputs))
            floats = _arrays(model(*inputs))
    return QuantizedCase(
        program=quantized.program,
        inputs=[x.numpy() for x in inputs],
        simulation=simulation,
        floats=floats,
        report=quantized.report,
    )


def quantized_case(name: str, dtype: str = "int8", **options: Any) -> QuantizedCase:
    """``quantize_model`` of a zoo model by name."""
    return quantize_model(MODELS[name].make(), dtype, **options)


def sqnr(value: np.ndarray, reference: np.ndarray) -> float:
    """Signal to noise in decibels; infinite without noise."""
    wanted = reference.astype(np.float64)
    noise = float(np.square(value.astype(np.float64) - wanted).sum())
    signal = float(np.square(wanted).sum())
    return float("inf") if noise == 0.0 else 10.0 * float(np.log10(signal / noise)) if signal else -float("inf")


def _arrays(value: Any) -> list[np.ndarray]:
    return [t.detach().numpy() for t in torch.utils._pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]
