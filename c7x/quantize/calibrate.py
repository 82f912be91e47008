"""Calibration data: from model.py, from a file, or drawn at random; checked against the model's inputs."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from c7x.errors import C7xError, FormatError, ModelError, UsageError
from c7x.frontend.load import load_source
from c7x.reporter import Reporter

Sample = tuple[Tensor, ...]

WORTH = (
    "the ranges of all activations are taken from this data, so without data like the model will see, "
    "the accuracy of the result is a guess"
)


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """One input of the model: its name and an example."""

    name: str
    example: Tensor


@contextmanager
def deterministic() -> Iterator[None]:
    """One thread, so that sums are added in the same order every time; no gradients."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_num_threads(threads)


def arguments(program: torch.export.ExportedProgram, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    """The positional arguments of the program's module with ``tensors`` in the places of its example tensors."""
    args, _ = program.example_inputs
    leaves, spec = pytree.tree_flatten(args)
    given = iter(tensors)
    return tuple(pytree.tree_unflatten([next(given) if isinstance(v, Tensor) else v for v in leaves], spec))


def _text(tensor: Tensor | np.ndarray) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _fitted(given: Sequence[Tensor], specs: Sequence[InputSpec], what: str, error: type[C7xError]) -> Iterator[Sample]:
    """One or more samples from tensors that are samples, or that hold several along the first axis."""
    if len(given) != len(specs):
        raise error(
            f"{what} has {len(given)} tensors, the model {len(specs)} inputs",
            hint=f"give a tensor for each of {', '.join(s.name for s in specs)}",
        )
    counts, tensors = [], []
    for tensor, spec in zip(given, specs, strict=True):
        want = spec.example
        if tensor.is_floating_point() != want.is_floating_point() or (tensor.dtype == torch.bool) != (
            want.dtype == torch.bool
        ):
            raise error(
                f"{what}: input {spec.name} is {_text(tensor)}, the model takes {_text(want)}",
                hint=f"convert it to {str(want.dtype).removeprefix('torch.')}",
            )
        many = tensor.dim() == want.dim() + 1 and tensor.shape[1:] == want.shape
        longer = tensor.dim() == want.dim() > 1 and tensor.shape[1:] == want.shape[1:] and len(tensor) > 0
        if not many and not longer and tensor.shape != want.shape:
            raise error(
                f"{what}: input {spec.name} is {_text(tensor)}, the model takes {_text(want)}",
                cause="the data has another shape than the example inputs that the model was exported with",
                hint=f"give {list(want.shape)} for one sample, or [samples, {', '.join(map(str, want.shape))}]",
            )
        if not many and tensor.shape != want.shape:
            # Whole batches: the last one is filled up from the start, which changes no range.
            batch = len(want)
            whole = -(-len(tensor) // batch)
            tensor = tensor[torch.arange(whole * batch) % len(tensor)].reshape(whole, *want.shape)
        elif not many:
            tensor = tensor.unsqueeze(0)
        counts.append(len(tensor))
        tensors.append(tensor.to(want.dtype).contiguous())
    if len(set(counts)) > 1:
        listed = ", ".join(f"{s.name}: {n}" for s, n in zip(specs, counts, strict=True))
        raise error(f"{what}: the inputs have different numbers of samples ({listed})", hint="give as many of each")
    yield from (tuple(t[i] for t in tensors) for i in range(counts[0]))


def source_samples(path: Path, specs: Sequence[InputSpec], reporter: Reporter) -> list[Sample] | None:
    """What ``calibration_inputs()`` of a model.py yields; None when it has no such function, or is a .pt2.

    Raises:
        ModelError: the function fails, or yields something that does not fit the model's inputs.
    """
    if path.suffix != ".py":
        return None
    loaded = load_source(path, reporter=reporter)
    if loaded.calibration is None:
        return None
    samples: list[Sample] = []
    for index, given in enumerate(loaded.calibration()):
        samples += _fitted(given, specs, f"calibration input {index} of {path.name}", ModelError)
    if not samples:
        raise ModelError(
            f"calibration_inputs() in {path.name} yields nothing",
            cause="an empty data set, or a generator that is used up",
            hint="yield some tens of typical inputs, each as a tuple of tensors",
        )
    return samples


def file_samples(path: Path, specs: Sequence[InputSpec]) -> list[Sample]:
    """The samples of a ``.npz`` (arrays by input name, or unnamed in the inputs' order) or, for one input, a ``.npy``.

    An array is one sample, or several along a new first axis, or along the batch axis.

    Raises:
        UsageError: there is no such file. FormatError: it is damaged, or does not fit the model's inputs.
    """
    if not path.is_file():
        raise UsageError(f"there is no calibration file {path}", hint="--calibrate data.npz")
    try:
        arrays: Mapping[str, np.ndarray]
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            arrays = {"arr_0": loaded} if isinstance(loaded, np.ndarray) else {k: loaded[k] for k in loaded.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise FormatError(
            f"{path} is no .npz or .npy file of plain arrays", cause=str(error), hint="write it with numpy.savez"
        ) from error
    names = [spec.name for spec in specs]
    unnamed = [f"arr_{i}" for i in range(len(specs))]
    keys = names if set(names) == set(arrays) else unnamed if set(unnamed) == set(arrays) else None
    if keys is None:
        raise FormatError(
            f"{path.name} holds {', '.join(sorted(arrays)) or 'nothing'}, the model's inputs are {', '.join(names)}",
            hint=f"numpy.savez('data.npz', {', '.join(f'{n}=...' for n in names)})",
        )
    for key in keys:
        if arrays[key].dtype.kind not in "fiub":
            raise FormatError(f"{path.name}: {key} has dtype {arrays[key].dtype}", hint="give numbers")
    tensors = [torch.from_numpy(np.array(arrays[key])) for key in keys]
    samples = list(_fitted(tensors, specs, path.name, FormatError))
    if not samples:
        raise FormatError(f"{path.name} holds no samples", hint="give some tens of typical inputs")
    return samples


def random_samples(specs: Sequence[InputSpec], count: int) -> list[Sample]:
    """The example inputs, then ``count`` draws: normal with their mean and deviation; whole numbers are shuffled."""
    generator = torch.Generator().manual_seed(0)

    def draw(example: Tensor) -> Tensor:
        if example.numel() == 0:
            return example
        if example.is_floating_point():
            finite = example[torch.isfinite(example)]
            mean, deviation = (finite.mean(), finite.std(correction=0)) if finite.numel() else (0.0, 1.0)
            return torch.randn(example.shape, generator=generator, dtype=example.dtype) * deviation + mean
        return example.reshape(-1)[torch.randperm(example.numel(), generator=generator)].reshape(example.shape)

    return [tuple(s.example for s in specs), *(tuple(draw(s.example) for s in specs) for _ in range(count))]


def check_samples(samples: Iterable[Sample], specs: Sequence[InputSpec], observed: Sequence[bool]) -> None:
    """Refuses data that no range can be taken from (UsageError): NaN, infinity, or a zero input throughout.

    Args:
        observed: for each input, whether its range becomes a scale.
    """
    peaks = [0.0] * len(specs)
    for index, sample in enumerate(samples):
        for place, (tensor, spec) in enumerate(zip(sample, specs, strict=True)):
            if not tensor.is_floating_point() or tensor.numel() == 0:
                continue
            if observed[place] and not bool(torch.isfinite(tensor).all()):
                raise UsageError(
                    f"calibration sample {index} has NaN or infinity in input {spec.name}",
                    cause="a fault in the data or in how it is prepared",
                    hint="leave this sample out",
                )
            peaks[place] = max(peaks[place], float(tensor.abs().max()))
    for peak, spec, seen in zip(peaks, specs, observed, strict=True):
        if seen and spec.example.is_floating_point() and spec.example.numel() and peak == 0.0:
            raise UsageError(
                f"input {spec.name} is zero in all calibration samples, so its scale would be zero",
                cause="placeholder data instead of real inputs",
                hint="calibrate with inputs like those the model will see",
            )
