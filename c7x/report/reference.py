"""PyTorch's side of a comparison: its recorded outputs for the example inputs, and the exported program to run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from c7x.errors import FormatError
from c7x.workspace import Workspace


def expected_outputs(ws: Workspace, count: int, folder: str = "expected") -> list[np.ndarray]:
    """The outputs recorded for the example inputs: by export, or by quantize in ``expected_quantized``.

    Raises:
        WorkspaceError: one is missing.
        FormatError: one is damaged.
    """
    arrays = []
    for index in range(count):
        path = ws.require(f"{folder}/output_{index}.npy")
        try:
            arrays.append(np.asarray(np.load(path, allow_pickle=False)))
        except (ValueError, EOFError, OSError) as error:
            raise FormatError(f"cannot read {path}", cause=str(error), hint="run c7x export again") from error
    return arrays


class Reference:
    """An exported program of a build directory, ``model.pt2`` or a quantised one; needs torch.

    Raises:
        FormatError: the file is damaged.
    """

    def __init__(self, ws: Workspace, name: str = "model.pt2") -> None:
        import torch
        import torch.ao.quantization.fx._decomposed  # registers the operators of quantised programs

        path = ws.require(name)
        try:
            self.program = torch.export.load(path)
        except Exception as error:
            first = str(error).strip().split("\n", 1)[0]
            raise FormatError(f"cannot load {path}", cause=first, hint="run c7x export again") from error
        self.module = self.program.module()

    def arguments(self, arrays: Sequence[np.ndarray]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments of the module: tensors for ``arrays``, the exported values for the rest."""
        import torch
        from torch.utils import _pytree as pytree

        leaves, spec = pytree.tree_flatten(self.program.example_inputs)
        tensors = iter([torch.from_numpy(np.array(array)) for array in arrays])
        leaves = [next(tensors) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        return tuple(args), dict(kwargs)

    def outputs(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """PyTorch's outputs in tree order, ``None`` left out."""
        import torch
        from torch.utils import _pytree as pytree

        args, kwargs = self.arguments(arrays)
        with torch.no_grad():
            result = self.module(*args, **kwargs)
        return [leaf.detach().numpy() for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
