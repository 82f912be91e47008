"""Import a PyTorch module, lower it with our graph passes, and run the result in TVM's VM with reference kernels."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from typing import Any

import numpy as np
import torch
import tvm
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program

from c7x.graph.pipeline import lower_graph
from tests import reference_ops


def import_torch(model: torch.nn.Module, *args: torch.Tensor) -> tvm.IRModule:
    """The model as a Relax module with its parameters bound as constants."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model.eval(), args)
        mod = from_exported_program(program, keep_params_as_input=True)
    mod, params = relax.frontend.detach_params(mod)
    names = [str(p.name) for p in mod["main"].params]
    values = params.get("main", [])
    bound = dict(zip(names[len(names) - len(values) :], values, strict=True))
    return relax.transform.BindParams("main", bound)(mod)


def run_vm(lowered: tvm.IRModule, *inputs: np.ndarray) -> list[np.ndarray]:
    """Run a module as ``lower_graph`` leaves it, on the CPU."""
    reference_ops.register()
    # TVM's VM wants the attributes of its own passes only.
    finish = tvm.transform.Sequential(
        [
            relax.transform.LowerAllocTensor(),
            relax.transform.KillAfterLastUse(),
            relax.transform.LowerRuntimeBuiltin(),
            relax.transform.ComputePrimValue(),
            relax.transform.VMShapeLower(),
            relax.transform.AttachGlobalSymbol(),
        ]
    )
    built = relax.build(lowered, target=tvm.target.Target({"kind": "llvm", "opt-level": 1}), relax_pipeline=finish)
    machine = relax.VirtualMachine(built, tvm.cpu())
    result = machine["main"](*[tvm.runtime.tensor(np.array(x, order="C")) for x in inputs])
    flat = [result] if hasattr(result, "numpy") else list(result)
    return [r.numpy() for r in flat]


def flatten(value: Any) -> list[np.ndarray]:
    return [t.detach().numpy() for t in torch.utils._pytree.tree_leaves(value) if t is not None]


def error(got: np.ndarray, want: np.ndarray) -> float:
    """Largest error relative to the output's largest magnitude; exact for integers; NaN and infinity in place."""
    assert got.shape == want.shape, (got.shape, want.shape)
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    if not np.issubdtype(want.dtype, np.floating):
        return 0.0 if np.array_equal(got, want) else float("inf")
    finite = np.isfinite(want)
    if not np.array_equal(np.isfinite(got), finite):
        return float("inf")
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    scale = max(float(np.abs(want[finite]).max()), 1e-30)
    return float(np.abs(got[finite].astype(np.float64) - want[finite]).max()) / scale


def check(model: torch.nn.Module, *args: torch.Tensor, tolerance: float = 1e-5) -> tvm.IRModule:
    """Lower the model, run it, compare with PyTorch; returns the lowered module."""
    lowered = lower_graph(import_torch(model, *args))
    with torch.no_grad():
        want = flatten(model(*args))
    got = run_vm(lowered, *[a.numpy() for a in args])
    assert len(got) == len(want), (len(got), len(want))
    errors = [error(g, w) for g, w in zip(got, want, strict=True)]
    assert max(errors) <= tolerance, errors
    return lowered


def calls(lowered: tvm.IRModule) -> Counter[str]:
    """How often every kernel op (``c7x.<op>``) and PrimFunc is called."""
    found: Counter[str] = Counter()
    for block in lowered["main"].body.blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, tvm.ir.Call):
                if isinstance(value.op, relax.ExternFunc):
                    found[str(value.op.global_symbol)] += 1
                elif isinstance(value.op, tvm.ir.GlobalVar):
                    found[str(value.op.name_hint)] += 1
    return found


def kernel_attrs(lowered: tvm.IRModule, op: str) -> list[dict[str, Any]]:
    """The attrs of every call of a kernel op, in order."""
    found = []
    for block in lowered["main"].body.blocks:
        for binding in block.bindings:
            value = binding.value
            if (
                isinstance(value, tvm.ir.Call)
                and isinstance(value.op, relax.ExternFunc)
                and str(value.op.global_symbol) == f"c7x.{op}"
            ):
                text = next(a for a in value.args if isinstance(a, tvm.ir.StringImm))
                found.append(json.loads(str(text.value)))
    return found
