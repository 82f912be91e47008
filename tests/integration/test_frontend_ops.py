"""Operator by operator, the imported Relax module gives what PyTorch gives, or the operator is refused by name.

The modules run through TVM's own virtual machine, so this tests the frontend and not our code generator. Compilation
dominates, so modules are built in batches; every case still is a test of its own.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
tvm = pytest.importorskip("tvm")

from torch.utils import _pytree as pytree  # noqa: E402
from tvm import relax  # noqa: E402

from c7x.errors import UnsupportedError  # noqa: E402
from c7x.frontend.importer import import_exported_program  # noqa: E402
from tests.integration.frontend_cases import CASES, Case  # noqa: E402

#: Where public importers are known to be silently wrong; these run in every test run, the rest only among all tests.
TRAPS = (
    "select_last index_neg_list index_neg_mixed index_list_slice_list index_tensor_input index_put assign_last "
    "add_alpha add_scalar_float_to_int div_int_scalar div_floor_int floor_divide_rounds_up remainder_neg_scalar "
    "remainder_rounds_up pow_int clamp_int_float_bounds add_bool_bool act_selu cumsum_int32 any_float argmax_ties "
    "matmul_int matmul_double avg_pool2d_divisor avg_pool2d_ceil_pad max_pool2d_ceil_pad up_nearest_frac "
    "up_bilinear_frac_False grid_sample_bilinear_zeros_False group_norm_no_affine lstm_2_bidirectional sdpa_causal "
    "topk sort_stable_ties round_half nan_inf_literal pad_neg_inf none_in_output dict_output constant_output"
).split()
BATCH = len(TRAPS)
COMPILED = sorted((c for c in CASES if c.refused is None), key=lambda c: c.name not in TRAPS)
REFUSED = [c for c in CASES if c.refused is not None]


def exported(case: Case) -> tuple[Any, tuple[Any, ...], list[np.ndarray]]:
    module, inputs = case.make()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = module(*[i.clone() for i in inputs])
        program = torch.export.export(module, inputs, strict=False)
    return program, inputs, [leaf.numpy() for leaf in pytree.tree_leaves(answer) if isinstance(leaf, torch.Tensor)]


@lru_cache(maxsize=1)
def batch(number: int) -> tuple[Any, dict[str, Any]]:
    """The machine of one batch, and what each of its cases needs (an exception when its import failed)."""
    combined = tvm.IRModule()
    prepared: dict[str, Any] = {}
    for case in COMPILED[number * BATCH : (number + 1) * BATCH]:
        try:
            program, inputs, expected = exported(case)
            module = import_exported_program(program)
        except Exception as error:
            prepared[case.name] = error
            continue
        combined[f"case_{case.name}"] = module["main"].with_attr("global_symbol", f"case_{case.name}")
        prepared[case.name] = (inputs, expected)
    machine = relax.VirtualMachine(relax.build(combined, target=tvm.target.Target({"kind": "llvm"})), tvm.cpu())
    return machine, prepared


def assert_agrees(got: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.where(finite, 0, got), np.where(finite, 0, want))
    if finite.any():
        scale = max(float(np.abs(want[finite]).max()), 1e-30)
        assert float(np.abs(got[finite] - want[finite]).max()) <= tolerance * scale


@pytest.mark.parametrize(
    "index",
    [pytest.param(i, id=c.name, marks=[] if c.name in TRAPS else [pytest.mark.slow]) for i, c in enumerate(COMPILED)],
)
def test_agrees_with_pytorch(index: int) -> None:
    case = COMPILED[index]
    machine, prepared = batch(index // BATCH)
    if isinstance(prepared[case.name], Exception):
        raise prepared[case.name]
    inputs, expected = prepared[case.name]
    arguments = [tvm.runtime.tensor(np.ascontiguousarray(i.numpy()).reshape(tuple(i.shape))) for i in inputs]
    result = [tensor.numpy() for tensor in machine[f"case_{case.name}"](*arguments)]
    assert len(result) == len(expected)
    for got, want in zip(result, expected, strict=True):
        assert_agrees(got, want, case.tolerance)


@pytest.mark.parametrize("case", REFUSED, ids=[c.name for c in REFUSED])
def test_is_refused_by_name(case: Case) -> None:
    with pytest.raises(UnsupportedError) as caught:
        program, _, _ = exported(case)
        import_exported_program(program)
    assert case.refused is not None
    assert case.refused in str(caught.value)
    rows = caught.value.rows  # type: ignore[attr-defined]
    assert rows
    assert all(row["hint"] and row["reason"] and row["count"] >= 1 for row in rows)


def test_case_names_are_unique() -> None:
    assert set(TRAPS) <= {c.name for c in COMPILED}
    assert len({c.name for c in CASES}) == len(CASES)
