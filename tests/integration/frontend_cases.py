"""The operators the frontend is held to: one small module each, with inputs chosen where importers go wrong.

A case is a name, a function of a fresh ``torch.Generator``-seeded world that returns ``(module, example inputs)``,
and, when c7x refuses it, the word its message must hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Fn(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    make: Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]
    refused: str | None = None
    tolerance: float = 1e-5


CASES: list[Case] = []


def case(name: str, module: Callable[[], nn.Module], *inputs: Callable[[], Tensor], **options: Any) -> None:
    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        torch.manual_seed(7)
        built = module().eval()
        return built, tuple(i() for i in inputs)

    CASES.append(Case(name=name, make=make, **options))


def fn(name: str, function: Callable[..., Any], *inputs: Callable[[], Tensor], **options: Any) -> None:
    case(name, lambda: Fn(function), *inputs, **options)


def f(*shape: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(*shape)


def d(*shape: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(*shape, dtype=torch.float64)


def pos(*shape: int) -> Callable[[], Tensor]:
    return lambda: torch.rand(*shape) + 0.1


def ints(*shape: int, low: int = -9, high: int = 10, dtype: torch.dtype = torch.int64) -> Callable[[], Tensor]:
    return lambda: torch.randint(low, high, shape, dtype=dtype)


def nonzero(*shape: int, dtype: torch.dtype = torch.int64) -> Callable[[], Tensor]:
    return lambda: torch.randint(1, 5, shape, dtype=dtype) * (torch.randint(0, 2, shape, dtype=dtype) * 2 - 1)


def bools(*shape: int) -> Callable[[], Tensor]:
    return lambda: torch.rand(*shape) > 0.5


def lit(values: Any, dtype: torch.dtype = torch.float32) -> Callable[[], Tensor]:
    return lambda: torch.tensor(values, dtype=dtype)


HALVES = lit([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.49, -7.51])
I32 = torch.int32
I64 = torch.int64

# --- indexing -------------------------------------------------------------------------------------------------
fn("select_last", lambda x: x[:, -1], f(2, 5, 3))
fn("select_last_first_dim", lambda x: x[-1], f(4, 3))
fn("select_neg_dim", lambda x: x.select(-1, -2), f(2, 5, 3))
fn("select_int64", lambda x: x[:, -2], ints(3, 4))
fn("index_neg_list", lambda x: x[:, [-1]], f(2, 5))
fn("index_neg_mixed", lambda x: x[:, [0, -1, -2, 1]], f(2, 5))
fn("index_two_lists", lambda x: x[[0, -1], [-1, 2]], f(3, 5))
fn("index_list_slice_list", lambda x: x[[0, -1], :, [-1, 2]], f(3, 4, 5))
fn("index_tensor_input", lambda x, i: x[i], f(6, 3), lit([-1, 0, 5, -6], I64))
fn("index_tensor_input_dim1", lambda x, i: x[:, i], f(2, 6), lit([[-1, 0], [5, -6]], I64))
fn("index_tensor_input_i32", lambda x, i: x[i], f(6, 3), lit([-1, 0, 5, -6], I32))
fn("index_two_tensors_broadcast", lambda x, i, j: x[i[:, None], j], f(4, 5), lit([0, -1], I64), lit([1, -2, 3], I64))
fn("index_bool_mask_const", lambda x: x[:, torch.tensor([True, False, True])], f(2, 3), refused="data-dependent")
fn("index_step", lambda x: x[:, 1::2], f(2, 7))
fn("index_neg_slice", lambda x: x[:, -3:-1], f(2, 7))
fn("index_slice_beyond", lambda x: x[:, 2:100], f(2, 7))
fn("index_slice_empty_start", lambda x: x[:, :-2], f(2, 7))
fn("index_none_ellipsis", lambda x: x[..., None, 1], f(2, 3, 4))
fn("index_select", lambda x, i: torch.index_select(x, 1, i), f(2, 5), lit([0, 4, 2], I64))
fn("index_select_const", lambda x: torch.index_select(x, -1, torch.tensor([3, 1])), f(2, 5))
fn("gather", lambda x, i: torch.gather(x, 1, i), f(3, 5), ints(3, 2, low=0, high=5))
fn("gather_dim0_smaller", lambda x, i: torch.gather(x, 0, i), f(5, 4), ints(2, 3, low=0, high=5))
fn("gather_neg_dim", lambda x, i: torch.gather(x, -1, i), f(2, 3, 4), ints(2, 3, 2, low=0, high=4))
fn("take", lambda x, i: torch.take(x, i), f(3, 4), lit([[0, 11], [-1, 5]], I64))
fn("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 1), f(3, 5), ints(3, 2, low=0, high=5))
fn("scatter_src", lambda x, i, s: x.scatter(1, i, s), f(3, 5), lit([[0, 1], [2, 3], [4, 0]], I64), f(3, 2))
fn("scatter_value", lambda x, i: x.scatter(1, i, 9.0), f(3, 5), lit([[0, 1], [2, 3], [4, 0]], I64))
fn("scatter_dim0", lambda x, i, s: x.scatter(0, i, s), f(4, 3), lit([[0, 1, 2], [3, 0, 1]], I64), f(3, 3))
fn("scatter_add", lambda x, i, s: x.scatter_add(1, i, s), f(3, 5), ints(3, 4, low=0, high=5), f(3, 4))
fn("scatter_reduce_sum", lambda x, i, s: x.scatter_reduce(1, i, s, "sum"), f(3, 5), ints(3, 4, low=0, high=5), f(3, 4))
fn(
    "scatter_reduce_amax",
    lambda x, i, s: x.scatter_reduce(1, i, s, "amax"),
    f(3, 5),
    ints(3, 4, low=0, high=5),
    f(3, 4),
)
fn("index_add", lambda x, i, s: x.index_add(0, i, s), f(4, 3), lit([0, 2, 2], I64), f(3, 3))
fn("index_copy", lambda x, i, s: x.index_copy(0, i, s), f(4, 3), lit([0, 2], I64), f(2, 3))
fn("index_fill", lambda x, i: x.index_fill(1, i, -1.0), f(4, 3), lit([0, 2], I64))
fn("index_put", lambda x, i, v: torch.index_put(x, (i,), v), f(4, 3), lit([1, -1], I64), f(2, 3))
fn(
    "index_put_accumulate",
    lambda x, i, v: torch.index_put(x, (i,), v, accumulate=True),
    f(4, 3),
    lit([1, 1], I64),
    f(2, 3),
)


def _assign(x: Tensor, v: Tensor) -> Tensor:
    y = x.clone()
    y[:, -1] = v
    return y


def _assign_slice(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 1:-1] = 3.0
    y[0] += 1
    return y


fn("assign_last", _assign, f(2, 4), f(2))
fn("assign_slice", _assign_slice, f(3, 5))
fn("slice_scatter", lambda x, s: torch.slice_scatter(x, s, 1, 1, 5, 2), f(2, 6), f(2, 2))
fn("select_scatter", lambda x, s: torch.select_scatter(x, s, 1, -1), f(2, 6), f(2))
fn("diagonal", lambda x: torch.diagonal(x, 0), f(4, 4))
fn("diagonal_offset", lambda x: torch.diagonal(x, -1, 1, 2), f(2, 4, 5))
fn("diag_embed", lambda x: torch.diag_embed(x), f(2, 3))
fn("diag", lambda x: torch.diag(x), f(3))
fn("trace", lambda x: torch.trace(x), f(4, 4))
fn("masked_fill", lambda x, m: x.masked_fill(m, -1e9), f(2, 3), bools(2, 3))
fn("masked_fill_inf", lambda x, m: x.masked_fill(m, float("-inf")), f(2, 3), bools(2, 3))
fn("masked_fill_broadcast", lambda x, m: x.masked_fill(m, 2.0), f(2, 3), bools(3))
fn("masked_fill_tensor", lambda x, m, v: x.masked_fill(m, v), f(2, 3), bools(2, 3), lit(4.5))
fn("masked_fill_int", lambda x, m: x.masked_fill(m, 7), ints(2, 3), bools(2, 3))
fn("where", lambda m, x, y: torch.where(m, x, y), bools(2, 3), f(2, 3), f(3))
fn("where_scalar", lambda x: torch.where(x > 0, x, 0.5), f(2, 3))
fn("where_two_scalars", lambda x: torch.where(x > 0, 1.0, -1.0), f(2, 3))
fn("where_mixed_dtype", lambda m, x, y: torch.where(m, x, y), bools(2, 3), f(2, 3), ints(2, 3))
fn("unbind", lambda x: x.unbind(1), f(2, 3, 4))
fn("narrow", lambda x: x.narrow(1, -3, 2), f(2, 5))
fn("unfold_tensor", lambda x: x.unfold(1, 3, 2), f(2, 8))
fn("as_strided", lambda x: x.as_strided((2, 3), (4, 1), 1), f(3, 4))

# --- shape ----------------------------------------------------------------------------------------------------
fn("reshape", lambda x: x.reshape(3, -1), f(2, 3, 4))
fn("view_neg", lambda x: x.view(-1, 2), f(2, 3, 4))
fn("flatten", lambda x: x.flatten(1), f(2, 3, 4))
fn("flatten_neg", lambda x: x.flatten(-2), f(2, 3, 4))
fn("unflatten", lambda x: x.unflatten(-1, (2, -1)), f(2, 6))
fn("squeeze", lambda x: x.squeeze(), f(1, 3, 1))
fn("squeeze_dim", lambda x: x.squeeze(-1), f(1, 3, 1))
fn("squeeze_dim_not_one", lambda x: x.squeeze(1), f(1, 3, 1))
fn("squeeze_dims", lambda x: x.squeeze((0, 1)), f(1, 3, 1))
fn("unsqueeze_neg", lambda x: x.unsqueeze(-2), f(2, 3))
fn("transpose", lambda x: x.transpose(-1, 0), f(2, 3, 4))
fn("permute_neg", lambda x: x.permute(0, -1, 1), f(2, 3, 4))
fn("movedim", lambda x: x.movedim(0, -1), f(2, 3, 4))
fn("t", lambda x: x.t(), f(2, 3))
fn("mT", lambda x: x.mT, f(2, 3, 4))
fn("expand", lambda x: x.expand(4, -1, 3), f(2, 1))
fn("expand_as", lambda x, y: x.expand_as(y), f(1, 3), f(4, 3))
fn("broadcast_to", lambda x: torch.broadcast_to(x, (2, 4, 3)), f(4, 1))
fn("broadcast_tensors", lambda x, y: torch.broadcast_tensors(x, y), f(4, 1), f(3))
fn("repeat", lambda x: x.repeat(2, 1, 3), f(2, 3))
fn("repeat_interleave", lambda x: x.repeat_interleave(2, 1), f(2, 3))
fn("tile", lambda x: x.tile(2), f(2, 3))
fn("cat", lambda x, y: torch.cat((x, y), -1), f(2, 3), f(2, 2))
fn("cat_mixed_dtype", lambda x, y: torch.cat((x, y), 0), f(2, 3), ints(2, 3))
fn("stack", lambda x, y: torch.stack((x, y), -1), f(2, 3), f(2, 3))
fn("hstack", lambda x, y: torch.hstack((x, y)), f(2, 3), f(2, 2))
fn("split", lambda x: x.split(2, 1), f(2, 5))
fn("split_sizes", lambda x: x.split([1, 3, 1], -1), f(2, 5))
fn("chunk", lambda x: x.chunk(3, 1), f(2, 7))
fn("tensor_split", lambda x: torch.tensor_split(x, 3, 1), f(2, 7))
fn("flip", lambda x: x.flip(0, -1), f(2, 3, 4))
fn("fliplr", lambda x: torch.fliplr(x), f(2, 3))
fn("rot90", lambda x: torch.rot90(x, 1, (1, 2)), f(2, 3, 4))
fn("roll", lambda x: x.roll(1, 1), f(2, 5))
fn("roll_neg", lambda x: x.roll((-2, 1), (1, 0)), f(3, 5))
fn("roll_flat", lambda x: x.roll(2), f(3, 5))
fn("roll_beyond", lambda x: x.roll(12, 1), f(3, 5))
fn("tril", lambda x: x.tril(), f(4, 5))
fn("triu_diag", lambda x: x.triu(1), f(4, 5))
fn("tril_neg", lambda x: x.tril(-1), f(2, 4, 4))
fn("tril_bool", lambda x: x.tril(), bools(4, 4))
fn("triu_int", lambda x: x.triu(-1), ints(4, 4))
fn("meshgrid_ij", lambda x, y: torch.meshgrid(x, y, indexing="ij"), f(3), f(4))
fn("meshgrid_xy", lambda x, y: torch.meshgrid(x, y, indexing="xy"), f(3), f(4))
fn("one_hot", lambda x: F.one_hot(x, 5), ints(2, 3, low=0, high=5))
fn("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), f(1, 8, 3, 3))
fn("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), f(1, 2, 4, 6))
fn("channel_shuffle", lambda x: F.channel_shuffle(x, 2), f(1, 4, 3, 3))
fn("unfold_im2col", lambda x: F.unfold(x, 3, padding=1, stride=2), f(1, 2, 6, 6))
fn("fold_col2im", lambda x: F.fold(x, (4, 4), 2, stride=1), f(1, 8, 9))
fn("cdist", lambda x, y: torch.cdist(x, y), f(3, 4), f(5, 4))
fn("tensordot", lambda x, y: torch.tensordot(x, y, dims=([1], [0])), f(3, 4), f(4, 5))

# --- creation -------------------------------------------------------------------------------------------------
fn("arange_add", lambda x: x + torch.arange(5), f(2, 5))
fn("arange_step", lambda x: x + torch.arange(1, 10, 2), f(2, 5))
fn("arange_float", lambda x: x + torch.arange(0.0, 1.0, 0.2), f(2, 5))
fn("arange_down", lambda x: x + torch.arange(5, 0, -1), f(2, 5))
fn("linspace", lambda x: x + torch.linspace(-1, 1, 5), f(2, 5))
fn("linspace_one", lambda x: x + torch.linspace(3, 4, 1), f(2, 5))
fn("eye", lambda x: x + torch.eye(4), f(4, 4))
fn("eye_rect", lambda x: x + torch.eye(3, 5), f(3, 5))
fn("full", lambda x: x + torch.full((3,), 0.1), f(2, 3))
fn("full_int", lambda x: x + torch.full((3,), 3), f(2, 3))
fn("full_like_inf", lambda x: torch.full_like(x, float("-inf")), f(2, 3))
fn("zeros_like_int", lambda x: torch.zeros_like(x, dtype=torch.int64), f(2, 3))
fn("ones_like", lambda x: torch.ones_like(x) * 3, ints(2, 3))
fn("new_full", lambda x: x.new_full((2,), 1.5), f(2, 3))
fn(
    "tri_mask",
    lambda x: x.masked_fill(torch.ones(4, 4, dtype=torch.bool).triu(1), float("-inf")).softmax(-1),
    f(2, 4, 4),
)
fn("constant_output", lambda x: (x + 1, torch.arange(3)), f(2))
fn("tensor_literal", lambda x: x * torch.tensor([1.5, -2.0, 5592405.5]), f(2, 3))
fn("nan_inf_literal", lambda x: x + torch.tensor([float("nan"), float("inf"), float("-inf")]), f(2, 3))
fn("logspace", lambda x: x + torch.logspace(0, 1, 5), f(5))

# --- elementwise ----------------------------------------------------------------------------------------------
for _name in (
    "abs acos asin asinh atan ceil cos cosh erf erfc exp exp2 expm1 floor neg reciprocal relu round sigmoid sign sin "
    "sinh square tan tanh trunc frac sgn positive deg2rad rad2deg sinc logit"
).split():
    _low, _high = (-0.95, 0.95) if _name in ("acos", "asin") else (0.05, 0.95) if _name == "logit" else (-3.0, 3.0)
    fn(
        f"unary_{_name}",
        lambda x, _n=_name: getattr(torch, _n)(x),
        lambda lo=_low, hi=_high: torch.linspace(lo, hi, 24).reshape(2, 12),  # type: ignore[misc]
    )
for _name in "sqrt rsqrt log log2 log10 log1p acosh".split():
    fn(f"unary_{_name}", lambda x, _n=_name: getattr(torch, _n)(x), lambda: torch.linspace(1.0, 9.0, 24).reshape(2, 12))
fn("expm1_small", lambda x: torch.expm1(x), lit([1e-7, -3e-6, 1e-4, 0.0]), tolerance=1e-6)
fn("log1p_small", lambda x: torch.log1p(x), lit([1e-7, -3e-6, 1e-4, 0.0]), tolerance=1e-6)
for _name in ("lgamma", "digamma"):
    fn(_name, lambda x, _n=_name: getattr(torch, _n)(x), pos(4), refused=_name)
fn("atanh", lambda x: torch.atanh(x), lambda: torch.linspace(-0.9, 0.9, 9))
fn("erfinv", lambda x: torch.erfinv(x), lambda: torch.linspace(-0.9, 0.9, 9), refused="erfinv")
fn("erf_double", lambda x: torch.erf(x), d(2, 3))
fn("round_half", lambda x: torch.round(x), HALVES)
fn("round_decimals", lambda x: torch.round(x, decimals=2), f(3, 4))
fn("round_neg_decimals", lambda x: torch.round(x, decimals=-1), lambda: torch.randn(9) * 100)
fn("trunc_ints", lambda x: torch.trunc(x), HALVES)
fn("sign_zero_nan", lambda x: torch.sign(x), lit([-0.0, 0.0, -3.0, 4.0]))
fn("abs_int", lambda x: torch.abs(x), ints(2, 3))
fn("neg_int32", lambda x: -x, ints(2, 3, dtype=I32))
fn("sqrt_int", lambda x: torch.sqrt(x), ints(2, 3, low=0))
fn("exp_int", lambda x: torch.exp(x), ints(2, 3, low=-3, high=4))
fn("sin_int", lambda x: torch.sin(x), ints(2, 3, low=-3, high=4))
fn("sigmoid_int", lambda x: torch.sigmoid(x), ints(2, 3, low=-3, high=4))
fn("floor_int", lambda x: torch.floor(x), ints(2, 3))
fn("isnan", lambda x: torch.isnan(x), lit([float("nan"), 1.0, float("inf")]))
fn("isinf", lambda x: torch.isinf(x), lit([float("nan"), 1.0, float("-inf")]))
fn("isfinite", lambda x: torch.isfinite(x), lit([float("nan"), 1.0, float("-inf")]))
fn("nan_to_num", lambda x: torch.nan_to_num(x), lit([float("nan"), 1.0, float("-inf"), float("inf")]))
fn("clamp", lambda x: x.clamp(-0.5, 0.5), f(2, 5))
fn("clamp_min_only", lambda x: x.clamp(min=0.1), f(2, 5))
fn("clamp_max_only", lambda x: x.clamp(max=0.1), f(2, 5))
fn("clamp_tensor", lambda x, lo, hi: torch.clamp(x, lo, hi), f(2, 5), lambda: -torch.rand(5), lambda: torch.rand(5))
fn("clamp_tensor_min_only", lambda x, lo: torch.clamp(x, min=lo), f(2, 5), f(2, 5))
fn(
    "clamp_tensor_crossed",
    lambda x, lo, hi: torch.clamp(x, lo, hi),
    f(2, 5),
    lambda: torch.ones(5),
    lambda: -torch.ones(5),
)
fn("clamp_int", lambda x: x.clamp(-2, 3), ints(2, 5))
fn("clamp_int_float_bounds", lambda x: x.clamp(-2.5, 3.5), ints(2, 5))
fn("clamp_int32_min", lambda x: x.clamp_min(0), ints(2, 5, dtype=I32))
fn("clamp_inf", lambda x: x.clamp(0, float("inf")), f(2, 5))
fn("clamp_big_int64", lambda x: x.clamp(-(2**40), 2**40), lambda: torch.tensor([2**50, -(2**50), 7]))
fn("add_alpha", lambda x, y: torch.add(x, y, alpha=2.5), f(2, 3), f(2, 3))
fn("sub_alpha", lambda x, y: torch.sub(x, y, alpha=3), f(2, 3), f(2, 3))
fn("sub_alpha_scalar", lambda x: torch.sub(x, 2.0, alpha=3), f(2, 3))
fn("rsub", lambda x: 2 - x, f(2, 3))
fn("rsub_alpha", lambda x: torch.rsub(x, 2.0, alpha=3), f(2, 3))
fn("rsub_int", lambda x: 2 - x, ints(2, 3))
fn("add_scalar_float_to_int", lambda x: x + 1.5, ints(2, 3))
fn("mul_scalar_float_int32", lambda x: x * 0.5, ints(2, 3, dtype=I32))
fn("mul_int_float", lambda x, y: x * y, ints(2, 3), f(2, 3))
fn("mul_bool_float", lambda x, y: x * y, bools(2, 3), f(2, 3))
fn("add_bool_bool", lambda x, y: x + y, bools(2, 3), bools(2, 3))
fn("add_bool_int_scalar", lambda x: x + 1, bools(2, 3))
fn("add_zero_dim_double", lambda x, y: x + y, f(2, 3), lit(1.5, torch.float64))
fn("add_double", lambda x, y: x + y * 3.3, d(2, 3), d(2, 3))
fn("scalar_double", lambda x: x * 0.1 + 3.141592653589793, d(2, 3), tolerance=1e-15)
fn("add_int32_int64", lambda x, y: x + y, ints(2, 3, dtype=I32), ints(2, 3))
fn("int64_large", lambda x: x * 3 + 2**40, lambda: torch.tensor([2**50 + 1, -(2**50) - 3]))
fn("int32_wrap", lambda x: x * 3, lambda: torch.tensor([2**30 + 1, -(2**30) - 3], dtype=I32))
fn("int8_add", lambda x, y: x + y, ints(2, 3, dtype=torch.int8), ints(2, 3, dtype=torch.int8))
fn("uint8_to_float", lambda x: x.float() / 255, ints(2, 3, low=0, high=255, dtype=torch.uint8))
fn("uint8_sub", lambda x: x - 3, ints(2, 3, low=0, high=5, dtype=torch.uint8))
fn("div", lambda x, y: x / y, f(2, 3), pos(2, 3))
fn("div_int_int", lambda x, y: x / y, ints(2, 3), nonzero(2, 3))
fn("div_int_scalar", lambda x: x / 2, ints(2, 3))
fn("div_int32_scalar_float", lambda x: x / 2.5, ints(2, 3, dtype=I32))
fn("div_floor_int", lambda x, y: torch.div(x, y, rounding_mode="floor"), ints(4, 5), nonzero(4, 5))
fn("div_trunc_int", lambda x, y: torch.div(x, y, rounding_mode="trunc"), ints(4, 5), nonzero(4, 5))
fn(
    "div_trunc_int_large",
    lambda x: torch.div(x, 3, rounding_mode="trunc"),
    lambda: torch.tensor([2**60 + 1, -(2**60) - 1]),
)
fn("div_floor_float", lambda x, y: torch.div(x, y, rounding_mode="floor"), f(4, 5), f(4, 5))
fn("div_trunc_float", lambda x, y: torch.div(x, y, rounding_mode="trunc"), f(4, 5), f(4, 5))
fn("div_floor_scalar_float", lambda x: torch.div(x, -0.7, rounding_mode="floor"), f(4, 5))
fn("div_trunc_scalar", lambda x: torch.div(x, 2, rounding_mode="trunc"), ints(4, 5))
fn("floor_divide", lambda x, y: x // y, ints(4, 5), nonzero(4, 5))
fn("floor_divide_scalar", lambda x: x // -3, ints(4, 5))
fn("floor_divide_int32", lambda x, y: x // y, ints(4, 5, dtype=I32), nonzero(4, 5, dtype=I32))
fn("floor_divide_float", lambda x: x // 0.7, f(4, 5))
fn("remainder_int", lambda x, y: x % y, ints(4, 5), nonzero(4, 5))
fn("remainder_scalar", lambda x: x % 3, ints(4, 5))
fn("remainder_neg_scalar", lambda x: x % -3, ints(4, 5))
fn("remainder_float", lambda x, y: torch.remainder(x, y), f(4, 5), f(4, 5))
fn("floor_divide_rounds_up", lambda x, y: x // y, lit([1.0, 0.3, -1.0, 6.0]), lit([0.1, 0.1, 0.1, -0.7]))
fn("remainder_rounds_up", lambda x, y: x % y, lit([1.0, 0.3, -1.0, 6.0]), lit([0.1, 0.1, 0.1, -0.7]))
fn("remainder_scalar_tensor", lambda x: torch.remainder(7, x), nonzero(4, 5))
fn("fmod_int", lambda x, y: torch.fmod(x, y), ints(4, 5), nonzero(4, 5))
fn("fmod_float", lambda x, y: torch.fmod(x, y), f(4, 5), f(4, 5))
fn("fmod_scalar", lambda x: torch.fmod(x, 0.7), f(4, 5))
fn("pow_two", lambda x: x**2, f(2, 3))
fn("pow_three_neg", lambda x: x**3, f(2, 3))
fn("pow_half", lambda x: x**0.5, pos(2, 3))
fn("pow_neg_one", lambda x: x**-1, pos(2, 3))
fn("pow_int", lambda x: x**3, ints(2, 3))
fn("pow_int_zero", lambda x: x**0, ints(2, 3))
fn("pow_int_float", lambda x: x**2.0, ints(2, 3))
fn("pow_int_tensor", lambda x, y: x**y, ints(2, 3, low=-3, high=4), ints(2, 3, low=0, high=5), refused="integer power")
fn("pow_tensor", lambda x, y: x**y, pos(2, 3), f(2, 3))
fn("pow_neg_base_tensor", lambda x, y: x**y, f(2, 3), lit([[2.0, 3.0, -1.0], [0.0, 1.0, 4.0]]))
fn("pow_scalar_base", lambda x: 2**x, f(2, 3))
fn("pow_scalar_base_int", lambda x: 2**x, ints(2, 3, low=0, high=8), refused="integer power")
fn("float_power", lambda x: torch.float_power(x, 2), f(2, 3))
fn("sqrt_zero", lambda x: torch.sqrt(x), lit([0.0, 4.0]))
fn("atan2", lambda x, y: torch.atan2(x, y), f(4, 5), f(4, 5))
fn(
    "atan2_quadrants",
    lambda x, y: torch.atan2(x, y),
    lit([0.0, 1.0, 0.0, -1.0, -0.0]),
    lit([-1.0, 0.0, 1.0, 0.0, -1.0]),
)
fn("hypot", lambda x, y: torch.hypot(x, y), f(4, 5), f(4, 5))
fn("logaddexp", lambda x, y: torch.logaddexp(x, y), f(4, 5), f(4, 5))
fn("lerp", lambda x, y: torch.lerp(x, y, 0.3), f(4, 5), f(4, 5))
fn("lerp_tensor", lambda x, y, w: torch.lerp(x, y, w), f(4, 5), f(4, 5), f(5))
fn("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), f(4, 5), f(4, 5), f(4, 5))
fn("addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), f(4, 5), f(4, 5), pos(4, 5))
fn("maximum", lambda x, y: torch.maximum(x, y), f(4, 5), f(5))
fn("minimum_int", lambda x, y: torch.minimum(x, y), ints(4, 5), ints(4, 5))
fn("fmax", lambda x, y: torch.fmax(x, y), f(4, 5), f(4, 5))
fn("max_other_int_float", lambda x, y: torch.maximum(x, y), ints(4, 5), f(4, 5))
fn("copysign", lambda x, y: torch.copysign(x, y), f(4, 5), f(4, 5))
fn("heaviside", lambda x, y: torch.heaviside(x, y), lit([-1.0, 0.0, 2.0]), lit([0.5, 0.5, 0.5]))
fn("xlogy", lambda x, y: torch.xlogy(x, y), pos(2, 3), pos(2, 3))
fn("bitwise_and", lambda x, y: x & y, ints(4, 5), ints(4, 5))
fn("bitwise_or_scalar", lambda x: x | 5, ints(4, 5))
fn("bitwise_xor", lambda x, y: x ^ y, ints(4, 5), ints(4, 5))
fn("bitwise_not", lambda x: ~x, ints(4, 5))
fn("bool_not", lambda x: ~x, bools(4, 5))
fn("bool_and_or_xor", lambda x, y: ((x & y) | x) ^ y, bools(4, 5), bools(4, 5))
fn("bitwise_left_shift", lambda x: x << 3, ints(4, 5))
fn("bitwise_right_shift", lambda x: x >> 1, ints(4, 5))
fn("logical_and", lambda x, y: torch.logical_and(x, y), bools(4, 5), bools(4, 5))
fn("logical_and_float", lambda x, y: torch.logical_and(x, y), lit([0.0, 0.5, 2.0, -0.0]), lit([1.0, 0.25, 0.0, 3.0]))
fn("logical_or_int", lambda x, y: torch.logical_or(x, y), ints(4, 5, low=0, high=3), ints(4, 5, low=0, high=3))
fn("logical_xor_int", lambda x, y: torch.logical_xor(x, y), ints(4, 5, low=0, high=3), ints(4, 5, low=0, high=3))
fn("logical_not_float", lambda x: torch.logical_not(x), lit([0.0, 0.5, 2.0]))
fn("logical_not_int", lambda x: torch.logical_not(x), ints(4, 5, low=-2, high=3))
fn("compare_chain", lambda x, y: ((x > y), (x >= y), (x < 0.5), (x <= y), (x == y), (x != 0)), f(4, 5), f(4, 5))
fn("compare_int_float_scalar", lambda x: x > 0.5, ints(4, 5))
fn("compare_int_float", lambda x, y: x < y, ints(4, 5), f(4, 5))
fn("eq_bool", lambda x, y: x == y, bools(4, 5), bools(4, 5))
fn("isclose", lambda x, y: torch.isclose(x, y), f(4), f(4))
fn("isin", lambda x: torch.isin(x, torch.tensor([1, 2, 3])), ints(4, 5))
fn("to_int_trunc", lambda x: x.to(torch.int64), HALVES)
fn("to_int32", lambda x: x.int(), HALVES)
fn("to_bool", lambda x: x.bool(), lit([0.0, 0.25, -3.0]))
fn("to_uint8", lambda x: x.to(torch.uint8), lit([0.0, 2.75, 255.0]))
fn("bool_to_float", lambda x: x.float(), bools(4))
fn("to_double_and_back", lambda x: (x.double() / 3).float(), f(4))
fn("type_as", lambda x, y: x.type_as(y), ints(2, 3), f(2))
fn("int_mean_of_float", lambda x: x.to(torch.int32).float().mean(), lambda: torch.randn(9) * 10)

# --- activations ----------------------------------------------------------------------------------------------
for _act in (
    nn.ReLU, nn.ReLU6, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Sigmoid, nn.Tanh, nn.Hardswish,
    nn.Hardsigmoid, nn.Hardtanh, nn.LeakyReLU, nn.Softplus, nn.Softsign, nn.Softshrink, nn.Hardshrink, nn.Tanhshrink,
    nn.LogSigmoid, nn.PReLU,
):  # fmt: skip
    case(f"act_{_act.__name__.lower()}", _act, lambda: torch.linspace(-7, 7, 30).reshape(2, 3, 5))
fn("act_gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), lambda: torch.linspace(-5, 5, 24))
case("act_prelu_channels", lambda: nn.PReLU(3, init=0.3), f(2, 3, 4))
fn("act_prelu_weights", lambda x, w: F.prelu(x, w), f(2, 3, 4), lit([0.1, -0.5, 2.0]))
case("act_prelu_2d", lambda: nn.PReLU(3), f(2, 3))
fn("act_elu_alpha", lambda x: F.elu(x, 0.5), f(2, 9))
fn("act_celu_alpha", lambda x: F.celu(x, 0.5), f(2, 9))
fn("act_leaky", lambda x: F.leaky_relu(x, 0.3), f(2, 9))
fn("act_hardtanh_bounds", lambda x: F.hardtanh(x, -0.3, 2.0), f(2, 9))
fn("act_softplus_beta", lambda x: F.softplus(x, beta=2.0, threshold=1.0), lambda: torch.linspace(-3, 30, 24))
fn("act_softplus_large", lambda x: F.softplus(x), lit([-100.0, 0.0, 19.0, 25.0, 200.0]))
fn("act_threshold", lambda x: F.threshold(x, 0.1, 20.0), f(2, 9))
fn("act_softshrink_lambda", lambda x: F.softshrink(x, 0.3), f(2, 9))
fn("act_hardshrink_lambda", lambda x: F.hardshrink(x, 0.3), f(2, 9))
fn("act_glu", lambda x: F.glu(x, 1), f(2, 6))
fn("act_rrelu", lambda x: F.rrelu(x, training=False), f(2, 9))
fn("softmax", lambda x: x.softmax(1), f(2, 5, 3))
fn("softmax_neg", lambda x: x.softmax(-1), f(2, 5))
fn("softmax_double_dtype", lambda x: F.softmax(x, -1, dtype=torch.float64), f(2, 5))
fn("softmax_masked", lambda x: x.softmax(-1), lit([[1.0, float("-inf"), 2.0]]))
fn("log_softmax", lambda x: x.log_softmax(1), f(2, 5, 3))
fn("softmin", lambda x: F.softmin(x, 1), f(2, 5))
fn("normalize", lambda x: F.normalize(x, dim=1), f(2, 5))
fn("normalize_l1", lambda x: F.normalize(x, p=1.0, dim=-1), f(2, 5))
fn("cosine_similarity", lambda x, y: F.cosine_similarity(x, y), f(2, 5), f(2, 5))
fn("pairwise_distance", lambda x, y: F.pairwise_distance(x, y), f(2, 5), f(2, 5))
fn("dropout_eval", lambda x: F.dropout(x, 0.5, training=False), f(2, 5))

# --- reductions -----------------------------------------------------------------------------------------------
fn("sum", lambda x: x.sum(), f(3, 4))
fn("sum_dim_keep", lambda x: x.sum(-1, keepdim=True), f(3, 4))
fn("sum_dims", lambda x: x.sum((0, -1)), f(2, 3, 4))
fn("sum_int", lambda x: x.sum(1), ints(3, 4))
fn("sum_int32", lambda x: x.sum(1), ints(3, 4, dtype=I32))
fn("sum_bool", lambda x: x.sum(), bools(3, 4))
fn("sum_bool_dim", lambda x: x.sum(1), bools(3, 4))
fn("sum_dtype", lambda x: x.sum(1, dtype=torch.float64), f(3, 4))
fn("mean", lambda x: x.mean(), f(3, 4))
fn("mean_dims", lambda x: x.mean((2, 3), keepdim=True), f(2, 3, 4, 5))
fn("mean_dtype", lambda x: x.mean(dtype=torch.float64), f(3, 4))
fn("mean_int_dtype", lambda x: x.mean(1, dtype=torch.float32), ints(3, 4))
fn("var", lambda x: x.var(), f(3, 4))
fn("var_dim_biased", lambda x: x.var(1, unbiased=False), f(3, 4))
fn("var_correction", lambda x: x.var(1, correction=2, keepdim=True), f(3, 4))
fn("std", lambda x: x.std(1), f(3, 4))
fn("std_all", lambda x: x.std(), f(3, 4))
fn("std_biased", lambda x: x.std(0, unbiased=False, keepdim=True), f(3, 4))
fn("var_mean", lambda x: torch.var_mean(x, 1), f(3, 4))
fn("std_mean", lambda x: torch.std_mean(x, (0, 1), correction=0), f(3, 4))
fn("prod", lambda x: x.prod(), f(3, 4))
fn("prod_dim", lambda x: x.prod(1), f(3, 4))
fn("prod_int", lambda x: x.prod(1, keepdim=True), nonzero(3, 4))
fn("max_all", lambda x: x.max(), f(3, 4))
fn("max_dim", lambda x: x.max(1), f(3, 4))
fn("min_dim_keep", lambda x: x.min(-1, keepdim=True), f(3, 4))
fn("min_all_int", lambda x: x.min(), ints(3, 4))
fn("amax", lambda x: x.amax((0, 2), keepdim=True), f(2, 3, 4))
fn("amin", lambda x: x.amin(1), f(2, 3, 4))
fn("aminmax", lambda x: torch.aminmax(x, dim=1), f(2, 3))
fn("argmax", lambda x: x.argmax(), f(3, 4))
fn("argmax_dim", lambda x: x.argmax(1, keepdim=True), f(3, 4))
fn("argmin_dim", lambda x: x.argmin(-1), f(3, 4))
fn("argmax_ties", lambda x: x.argmax(1), lit([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0]]))
fn("argmin_ties_int", lambda x: x.argmin(1), lit([[1, 0, 0, 3], [2, 2, 2, 2]], I64))
fn("max_dim_ties", lambda x: x.max(1), lit([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0]]))
fn("all", lambda x: x.all(), bools(3, 4))
fn("any", lambda x: x.any(), bools(3, 4))
fn("all_dim", lambda x: x.all(1), bools(3, 2))
fn("any_dim_keep", lambda x: x.any(-1, keepdim=True), bools(3, 2))
fn("any_float", lambda x: x.any(1), lit([[0.0, 0.5], [0.0, 0.0]]))
fn("all_int", lambda x: x.all(1), lit([[1, 2], [0, 5]], I64))
fn("any_int", lambda x: x.any(), lit([[0, 2], [0, 0]], I64))
fn("any_dims", lambda x: torch.any(x, dim=(0, 1)), bools(3, 2, 2))
fn("count_nonzero", lambda x: torch.count_nonzero(x, 1), lit([[0, 2, 1], [0, 0, 3]], I64))
fn("logsumexp", lambda x: x.logsumexp(1), f(3, 4))
fn("logsumexp_keep", lambda x: torch.logsumexp(x, (0, 1), keepdim=True), f(3, 4))
fn("norm", lambda x: x.norm(), f(3, 4))
fn("norm_dim", lambda x: x.norm(dim=1, keepdim=True), f(3, 4))
fn("norm_p1", lambda x: x.norm(p=1, dim=1), f(3, 4))
fn("vector_norm_inf", lambda x: torch.linalg.vector_norm(x, float("inf"), dim=1), f(3, 4))
fn("vector_norm_neg_inf", lambda x: torch.linalg.vector_norm(x, float("-inf"), dim=1), f(3, 4))
fn("vector_norm_p3", lambda x: torch.linalg.vector_norm(x, 3, dim=1), f(3, 4))
fn("vector_norm_0", lambda x: torch.linalg.vector_norm(x, 0, dim=1), lit([[0.0, 1.0, 2.0]]))
fn("matrix_norm", lambda x: torch.linalg.matrix_norm(x), f(3, 4))
fn("cumsum", lambda x: x.cumsum(1), f(3, 4))
fn("cumsum_neg_dim", lambda x: x.cumsum(-2), f(3, 4))
fn("cumsum_int32", lambda x: x.cumsum(0), ints(3, 4, dtype=I32))
fn("cumsum_bool", lambda x: x.cumsum(1), bools(3, 4))
fn("cumsum_dtype", lambda x: x.cumsum(1, dtype=torch.float64), f(3, 4))
fn("cumprod", lambda x: x.cumprod(1), f(3, 4))
fn("cummax", lambda x: x.cummax(1), f(3, 4), refused="cummax")
fn("cummin", lambda x: x.cummin(1), f(3, 4), refused="cummin")
fn("logcumsumexp", lambda x: torch.logcumsumexp(x, 1), f(3, 4), refused="logcumsumexp")
fn("diff", lambda x: torch.diff(x), f(3, 4))
fn("median", lambda x: x.median(), f(3, 5))
fn("median_dim", lambda x: x.median(1), f(3, 4))
fn("topk", lambda x: x.topk(3), f(3, 9))
fn("topk_smallest", lambda x: x.topk(2, largest=False), f(3, 9))
fn("topk_dim0", lambda x: x.topk(2, dim=0), f(5, 3))
fn("topk_mid_dim", lambda x: x.topk(2, dim=1), f(2, 5, 3))
fn("topk_int", lambda x: x.topk(2)[0], ints(3, 9))
fn("sort", lambda x: x.sort(), f(3, 9))
fn("sort_desc", lambda x: x.sort(dim=0, descending=True), f(5, 3))
fn("sort_stable_ties", lambda x: x.sort(stable=True), lit([[2.0, 1.0, 2.0, 1.0, 0.0]]))
fn("argsort", lambda x: x.argsort(), f(3, 9))
fn("argsort_desc", lambda x: x.argsort(1, descending=True), f(3, 9))
fn("median_nan", lambda x: (x.median(), x.median(1)), lit([[1.0, float("nan"), 3.0], [3.0, 1.0, 2.0]]))
fn("kthvalue", lambda x: x.kthvalue(2, 1), f(3, 9))
fn("bucketize", lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), f(3, 4))
fn(
    "bucketize_right",
    lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]), right=True),
    lit([-1.0, 0.0, 0.5, 1.0]),
)
fn("searchsorted", lambda x: torch.searchsorted(torch.tensor([-1.0, 0.0, 1.0]), x), f(3, 4))

# --- linear algebra -------------------------------------------------------------------------------------------
case("linear", lambda: nn.Linear(5, 3), f(2, 5))
case("linear_nobias", lambda: nn.Linear(5, 3, bias=False), f(2, 5))
case("linear_3d", lambda: nn.Linear(5, 3), f(2, 4, 5))
case("linear_1d", lambda: nn.Linear(5, 3), f(5))
case("linear_double", lambda: nn.Linear(5, 3).double(), d(2, 5), tolerance=1e-13)
case("bilinear", lambda: nn.Bilinear(3, 4, 2), f(2, 3), f(2, 4))
fn("matmul_2d", lambda x, y: x @ y, f(3, 4), f(4, 5))
fn("matmul_batch", lambda x, y: x @ y, f(2, 3, 4), f(2, 4, 5))
fn("matmul_broadcast", lambda x, y: x @ y, f(2, 6, 3, 4), f(4, 5))
fn("matmul_broadcast_lead", lambda x, y: x @ y, f(2, 1, 3, 4), f(6, 4, 5))
fn("matmul_vec", lambda x, y: x @ y, f(3, 4), f(4))
fn("matmul_vec_vec", lambda x, y: x @ y, f(4), f(4))
fn("matmul_vec_mat", lambda x, y: x @ y, f(4), f(2, 4, 3))
fn("matmul_double", lambda x, y: x @ y, d(3, 4), d(4, 5), tolerance=1e-13)
fn("matmul_int", lambda x, y: x @ y, ints(3, 4), ints(4, 5))
fn("matmul_int_batch", lambda x, y: x @ y, ints(2, 3, 4), ints(2, 4, 5))
fn("mm", lambda x, y: torch.mm(x, y), f(3, 4), f(4, 5))
fn("bmm", lambda x, y: torch.bmm(x, y), f(2, 3, 4), f(2, 4, 5))
fn("bmm_double", lambda x, y: torch.bmm(x, y), d(2, 3, 4), d(2, 4, 5), tolerance=1e-13)
fn("mv_dot", lambda x, y: torch.dot(torch.mv(x, y), torch.mv(x, y)), f(4, 4), f(4))
fn("addmm_beta", lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2.0), f(3, 5), f(3, 4), f(4, 5))
fn("addmm_beta_zero", lambda b, x, y: torch.addmm(b, x, y, beta=0), f(5), f(3, 4), f(4, 5))
fn("baddbmm", lambda b, x, y: torch.baddbmm(b, x, y, beta=0.5, alpha=2.0), f(2, 3, 5), f(2, 3, 4), f(2, 4, 5))
fn("addbmm", lambda b, x, y: torch.addbmm(b, x, y), f(3, 5), f(2, 3, 4), f(2, 4, 5))
fn("outer", lambda x, y: torch.outer(x, y), f(3), f(4))
fn("kron", lambda x, y: torch.kron(x, y), f(2, 3), f(2, 2))
fn("cross", lambda x, y: torch.cross(x, y, dim=1), f(2, 3), f(2, 3))
fn("einsum_mm", lambda x, y: torch.einsum("ij,jk->ik", x, y), f(3, 4), f(4, 5))
fn("einsum_attention", lambda x, y: torch.einsum("bhid,bhjd->bhij", x, y), f(2, 2, 3, 4), f(2, 2, 5, 4))
fn("einsum_trace", lambda x: torch.einsum("ii->i", x), f(4, 4))
fn("einsum_ellipsis", lambda x, y: torch.einsum("...i,ij->...j", x, y), f(2, 3, 4), f(4, 5))
fn("einsum_outer_sum", lambda x, y: torch.einsum("bi,bj->bij", x, y), f(2, 3), f(2, 4))
fn("einsum_three", lambda x, y, z: torch.einsum("ij,jk,kl->il", x, y, z), f(2, 3), f(3, 4), f(4, 5))
fn("linalg_inv", lambda x: torch.linalg.inv(x), lambda: torch.eye(3) * 2, refused="linalg_inv")

# --- convolutions ---------------------------------------------------------------------------------------------
case("conv1d", lambda: nn.Conv1d(3, 4, 3, padding=1), f(2, 3, 9))
case("conv1d_dilated_groups", lambda: nn.Conv1d(4, 8, 3, dilation=2, groups=2, stride=2), f(2, 4, 15))
case("conv1d_same", lambda: nn.Conv1d(3, 4, 4, padding="same"), f(2, 3, 9))
case("conv2d", lambda: nn.Conv2d(3, 4, 3), f(2, 3, 7, 8))
case("conv2d_stride_pad", lambda: nn.Conv2d(3, 4, (3, 5), stride=(2, 1), padding=(1, 2)), f(2, 3, 7, 8))
case("conv2d_dilation", lambda: nn.Conv2d(3, 4, 3, dilation=2, bias=False), f(1, 3, 9, 9))
case("conv2d_groups", lambda: nn.Conv2d(4, 8, 3, groups=2), f(1, 4, 7, 7))
case("conv2d_depthwise", lambda: nn.Conv2d(4, 4, 3, groups=4, padding=1), f(1, 4, 7, 7))
case("conv2d_depthwise_multiplier", lambda: nn.Conv2d(4, 8, 3, groups=4), f(1, 4, 7, 7))
case("conv2d_same", lambda: nn.Conv2d(3, 4, 3, padding="same"), f(1, 3, 7, 7))
case("conv2d_same_even", lambda: nn.Conv2d(3, 4, (2, 4), padding="same"), f(1, 3, 7, 7))
case("conv2d_valid", lambda: nn.Conv2d(3, 4, 3, padding="valid"), f(1, 3, 7, 7))
case("conv2d_unbatched", lambda: nn.Conv2d(3, 4, 3), f(3, 7, 7))
for _mode in ("zeros", "reflect", "replicate", "circular"):
    case(f"conv2d_pad_{_mode}", lambda m=_mode: nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode=m), f(1, 2, 6, 7))  # type: ignore[misc]
fn("conv2d_functional_weight", lambda x, w: F.conv2d(x, w, stride=2), f(1, 3, 7, 7), f(4, 3, 3, 3))
case("conv2d_double", lambda: nn.Conv2d(3, 4, 3).double(), d(1, 3, 7, 7), tolerance=1e-13)
case("conv3d", lambda: nn.Conv3d(2, 3, 3, padding=1, stride=(1, 2, 1)), f(1, 2, 5, 6, 7))
case("conv_transpose1d", lambda: nn.ConvTranspose1d(3, 4, 4, stride=2, padding=1), f(2, 3, 9))
case("conv_transpose1d_groups", lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, groups=2, output_padding=1), f(2, 4, 9))
case("conv_transpose1d_dilation", lambda: nn.ConvTranspose1d(3, 4, 3, stride=2, dilation=2), f(2, 3, 9))
case("conv_transpose2d", lambda: nn.ConvTranspose2d(3, 4, 2, stride=2), f(1, 3, 5, 6))
case(
    "conv_transpose2d_out_pad",
    lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1),
    f(1, 3, 5, 6),
)
case("conv_transpose2d_groups", lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2), f(1, 4, 5, 6))
case(
    "conv_transpose2d_dilation",
    lambda: nn.ConvTranspose2d(3, 4, 3, dilation=2, stride=(2, 1), padding=(1, 0)),
    f(1, 3, 5, 6),
)
case("conv_transpose2d_depthwise", lambda: nn.ConvTranspose2d(4, 4, 3, groups=4, bias=False), f(1, 4, 5, 6))
case(
    "conv_transpose2d_groups_dilation",
    lambda: nn.ConvTranspose2d(4, 4, 3, groups=2, dilation=2, stride=3, output_padding=2),
    f(1, 4, 4, 4),
)
case("conv_transpose3d", lambda: nn.ConvTranspose3d(2, 3, 2, stride=2), f(1, 2, 3, 3, 3), refused="three-dimensional")

# --- pooling --------------------------------------------------------------------------------------------------
case("max_pool1d", lambda: nn.MaxPool1d(3, 2), f(2, 3, 10))
case("max_pool2d", lambda: nn.MaxPool2d(2), f(1, 3, 7, 8))
case("max_pool2d_pad", lambda: nn.MaxPool2d(3, 2, padding=1), lambda: -torch.rand(1, 3, 7, 8))
case("max_pool2d_ceil", lambda: nn.MaxPool2d(3, 2, ceil_mode=True), f(1, 3, 8, 8))
case("max_pool2d_ceil_pad", lambda: nn.MaxPool2d(2, 2, padding=1, ceil_mode=True), f(1, 3, 7, 6))
case("max_pool2d_dilation", lambda: nn.MaxPool2d(2, 1, dilation=2), f(1, 3, 7, 8))
case("max_pool2d_indices", lambda: nn.MaxPool2d(2, return_indices=True), f(1, 3, 6, 6), refused="return_indices")
case("max_pool2d_unbatched", lambda: nn.MaxPool2d(2), f(3, 6, 6))
case("max_pool3d", lambda: nn.MaxPool3d(2), f(1, 2, 4, 5, 6))
case("avg_pool1d", lambda: nn.AvgPool1d(3, 2, padding=1), f(2, 3, 9))
case("avg_pool1d_ceil", lambda: nn.AvgPool1d(3, 2, ceil_mode=True), f(2, 3, 10))
case("avg_pool2d", lambda: nn.AvgPool2d(2), f(1, 3, 7, 8))
case("avg_pool2d_pad_include", lambda: nn.AvgPool2d(3, 2, padding=1), f(1, 3, 7, 8))
case("avg_pool2d_pad_exclude", lambda: nn.AvgPool2d(3, 2, padding=1, count_include_pad=False), f(1, 3, 7, 8))
case("avg_pool2d_ceil", lambda: nn.AvgPool2d(3, 2, ceil_mode=True), f(1, 3, 8, 8))
case("avg_pool2d_ceil_pad", lambda: nn.AvgPool2d(3, 2, padding=1, ceil_mode=True), f(1, 3, 8, 7))
case(
    "avg_pool2d_ceil_pad_exclude",
    lambda: nn.AvgPool2d(3, 2, padding=1, ceil_mode=True, count_include_pad=False),
    f(1, 3, 8, 8),
)
case("avg_pool2d_ceil_wide", lambda: nn.AvgPool2d(2, 3, padding=1, ceil_mode=True), f(1, 2, 6, 7))
case("avg_pool2d_divisor", lambda: nn.AvgPool2d(2, divisor_override=1), lambda: torch.ones(1, 2, 2, 2))
case("avg_pool2d_divisor_pad", lambda: nn.AvgPool2d(3, 2, padding=1, divisor_override=5), f(1, 2, 6, 6))
case("avg_pool2d_divisor_ceil", lambda: nn.AvgPool2d(3, 2, ceil_mode=True, divisor_override=3), f(1, 2, 6, 6))
case("avg_pool2d_unbatched", lambda: nn.AvgPool2d(2), f(3, 6, 6))
case("avg_pool3d", lambda: nn.AvgPool3d(2), f(1, 2, 4, 5, 6))
case("avg_pool3d_divisor", lambda: nn.AvgPool3d(2, divisor_override=3), f(1, 2, 4, 4, 4))
case("lp_pool2d", lambda: nn.LPPool2d(2, 2), pos(1, 2, 4, 4))
case("adaptive_avg_1", lambda: nn.AdaptiveAvgPool2d(1), f(1, 3, 7, 8))
case("adaptive_avg_even", lambda: nn.AdaptiveAvgPool2d((2, 4)), f(1, 3, 6, 8))
case("adaptive_avg_uneven", lambda: nn.AdaptiveAvgPool2d((3, 5)), f(1, 3, 7, 8))
case("adaptive_avg_none", lambda: nn.AdaptiveAvgPool2d((None, 2)), f(1, 3, 7, 8))
case("adaptive_avg_up", lambda: nn.AdaptiveAvgPool2d((9, 9)), f(1, 3, 7, 7))
case("adaptive_avg_1d", lambda: nn.AdaptiveAvgPool1d(4), f(1, 3, 7))
case("adaptive_avg_3d", lambda: nn.AdaptiveAvgPool3d(2), f(1, 2, 4, 4, 4))
case("adaptive_max_1", lambda: nn.AdaptiveMaxPool2d(1), f(1, 3, 7, 8))
case("adaptive_max_uneven", lambda: nn.AdaptiveMaxPool2d((3, 5)), f(1, 3, 7, 8))
case("adaptive_max_1d", lambda: nn.AdaptiveMaxPool1d(2), f(1, 3, 8))

# --- padding and resizing -------------------------------------------------------------------------------------
fn("pad_constant", lambda x: F.pad(x, (1, 2, 3, 0), value=0.5), f(1, 2, 3, 4))
fn("pad_negative", lambda x: F.pad(x, (-1, 2)), f(1, 2, 5))
fn("pad_neg_inf", lambda x: F.pad(x, (1, 1), value=float("-inf")), f(1, 2, 5))
fn("pad_int", lambda x: F.pad(x, (1, 1), value=7), ints(2, 5))
fn("pad_reflect_1d", lambda x: F.pad(x, (2, 1), mode="reflect"), f(1, 2, 5))
fn("pad_reflect_2d", lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), f(1, 2, 4, 5))
fn("pad_replicate_2d", lambda x: F.pad(x, (1, 2, 3, 1), mode="replicate"), f(1, 2, 4, 5))
fn("pad_circular_2d", lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"), f(1, 2, 4, 5))
case("zero_pad2d", lambda: nn.ZeroPad2d((1, 0, 2, 1)), f(1, 2, 4, 5))
fn("up_nearest_2", lambda x: F.interpolate(x, scale_factor=2), f(1, 2, 4, 5))
fn("up_nearest_size", lambda x: F.interpolate(x, size=(7, 9)), f(1, 2, 4, 5))
fn("up_nearest_down", lambda x: F.interpolate(x, size=(3, 3)), f(1, 2, 7, 8))
fn("up_nearest_frac", lambda x: F.interpolate(x, scale_factor=1.7), f(1, 2, 5, 6))
fn("up_nearest_exact", lambda x: F.interpolate(x, size=(7, 3), mode="nearest-exact"), f(1, 2, 4, 5))
fn("up_nearest_1d", lambda x: F.interpolate(x, scale_factor=3), f(1, 2, 5))
fn("up_nearest_3d", lambda x: F.interpolate(x, scale_factor=2), f(1, 2, 2, 3, 2))
fn("up_linear_1d", lambda x: F.interpolate(x, scale_factor=2, mode="linear"), f(1, 2, 5))
for _align in (False, True):
    fn(
        f"up_bilinear_2_{_align}",
        lambda x, a=_align: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=a),
        f(1, 2, 4, 5),
    )
    fn(
        f"up_bilinear_size_{_align}",
        lambda x, a=_align: F.interpolate(x, size=(7, 3), mode="bilinear", align_corners=a),
        f(1, 2, 4, 5),
    )
    fn(
        f"up_bilinear_frac_{_align}",
        lambda x, a=_align: F.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=a),
        f(1, 2, 5, 6),
    )
    fn(
        f"up_bicubic_{_align}",
        lambda x, a=_align: F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=a),
        f(1, 2, 5, 6),
    )
    fn(
        f"up_bicubic_down_{_align}",
        lambda x, a=_align: F.interpolate(x, size=(4, 3), mode="bicubic", align_corners=a),
        f(1, 2, 7, 8),
    )
    fn(
        f"up_trilinear_{_align}",
        lambda x, a=_align: F.interpolate(x, scale_factor=2, mode="trilinear", align_corners=a),
        f(1, 1, 2, 3, 2),
    )
fn(
    "up_bilinear_recompute",
    lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True),
    f(1, 2, 5, 6),
)
fn(
    "up_bilinear_one_to_many",
    lambda x: F.interpolate(x, size=(4, 4), mode="bilinear", align_corners=True),
    f(1, 2, 1, 1),
)
fn(
    "up_antialias",
    lambda x: F.interpolate(x, size=(3, 3), mode="bilinear", antialias=True),
    f(1, 2, 8, 8),
    refused="antialias",
)
fn("up_area", lambda x: F.interpolate(x, size=(3, 3), mode="area"), f(1, 2, 8, 8))
case("upsample_module", lambda: nn.Upsample(scale_factor=(2, 3), mode="nearest"), f(1, 2, 4, 5))


def _grid() -> Tensor:
    return torch.rand(1, 4, 5, 2) * 2.4 - 1.2


for _mode in ("bilinear", "nearest", "bicubic"):
    for _pad in ("zeros", "border", "reflection"):
        for _align in (False, True):
            fn(
                f"grid_sample_{_mode}_{_pad}_{_align}",
                lambda x, g, m=_mode, p=_pad, a=_align: F.grid_sample(x, g, mode=m, padding_mode=p, align_corners=a),
                f(1, 2, 6, 7),
                _grid,
            )
fn(
    "affine_grid",
    lambda t: F.affine_grid(t, [1, 2, 4, 5], align_corners=False),
    lit([[[1.0, 0.2, 0.1], [-0.1, 0.9, 0.0]]]),
)

# --- normalisation --------------------------------------------------------------------------------------------


def _stats(module: nn.Module) -> nn.Module:
    for name, buffer in module.named_buffers():
        if name.endswith("running_mean"):
            buffer.uniform_(-1, 1)
        if name.endswith("running_var"):
            buffer.uniform_(0.5, 2)
    for parameter in module.parameters():
        parameter.data.uniform_(-1, 1)
    return module


case("batch_norm1d", lambda: _stats(nn.BatchNorm1d(3)), f(4, 3))
case("batch_norm1d_3d", lambda: _stats(nn.BatchNorm1d(3)), f(4, 3, 5))
case("batch_norm2d", lambda: _stats(nn.BatchNorm2d(3, eps=1e-3)), f(2, 3, 4, 5))
case("batch_norm2d_no_affine", lambda: _stats(nn.BatchNorm2d(3, affine=False)), f(2, 3, 4, 5))
case("batch_norm2d_no_stats", lambda: _stats(nn.BatchNorm2d(3, track_running_stats=False)), f(2, 3, 4, 5))
case("batch_norm3d", lambda: _stats(nn.BatchNorm3d(2)), f(1, 2, 3, 4, 5))
case("layer_norm", lambda: _stats(nn.LayerNorm(5)), f(2, 3, 5))
case("layer_norm_2dims", lambda: _stats(nn.LayerNorm((3, 5))), f(2, 3, 5))
case("layer_norm_no_affine", lambda: nn.LayerNorm(5, elementwise_affine=False), f(2, 5))
case("layer_norm_no_bias", lambda: _stats(nn.LayerNorm(5, bias=False)), f(2, 5))
case("layer_norm_eps", lambda: _stats(nn.LayerNorm(5, eps=0.1)), f(2, 5))
case("rms_norm", lambda: _stats(nn.RMSNorm(5, eps=1e-3)), f(2, 5))
case("group_norm", lambda: _stats(nn.GroupNorm(2, 6)), f(2, 6, 4, 5))
case("group_norm_no_affine", lambda: nn.GroupNorm(3, 6, affine=False), f(2, 6, 4))
case("group_norm_2d", lambda: _stats(nn.GroupNorm(2, 6)), f(4, 6))
case("instance_norm2d", lambda: nn.InstanceNorm2d(3), f(2, 3, 4, 5))
case("instance_norm2d_affine", lambda: _stats(nn.InstanceNorm2d(3, affine=True)), f(2, 3, 4, 5))
case("instance_norm1d", lambda: _stats(nn.InstanceNorm1d(3, affine=True)), f(2, 3, 9))
case("instance_norm_stats", lambda: _stats(nn.InstanceNorm2d(3, track_running_stats=True, affine=True)), f(2, 3, 4, 5))
case("local_response_norm", lambda: nn.LocalResponseNorm(3), f(1, 5, 4, 4))
case("weight_norm", lambda: torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), f(2, 4))

# --- recurrent and attention ----------------------------------------------------------------------------------
case("lstm", lambda: nn.LSTM(4, 5), f(6, 2, 4))
case("lstm_batch_first", lambda: nn.LSTM(4, 5, batch_first=True), f(2, 6, 4))
case("lstm_2_layers", lambda: nn.LSTM(4, 5, 2, batch_first=True), f(2, 6, 4))
case("lstm_bidirectional", lambda: nn.LSTM(4, 5, bidirectional=True, batch_first=True), f(2, 6, 4))
case("lstm_2_bidirectional", lambda: nn.LSTM(4, 5, 2, bidirectional=True), f(6, 2, 4))
case("lstm_no_bias", lambda: nn.LSTM(4, 5, bias=False), f(6, 2, 4))
case("lstm_proj", lambda: nn.LSTM(4, 5, proj_size=3), f(6, 2, 4))
case("lstm_unbatched", lambda: nn.LSTM(4, 5), f(6, 4))


class _State(nn.Module):
    def __init__(self, rnn: nn.Module, pair: bool) -> None:
        super().__init__()
        self.rnn, self.pair = rnn, pair

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Any:
        return self.rnn(x, (h, c) if self.pair else h)


case("lstm_state", lambda: _State(nn.LSTM(4, 5), True), f(6, 2, 4), f(1, 2, 5), f(1, 2, 5))
case("gru", lambda: nn.GRU(4, 5), f(6, 2, 4))
case("gru_batch_first_2", lambda: nn.GRU(4, 5, 2, batch_first=True), f(2, 6, 4))
case("gru_bidirectional", lambda: nn.GRU(4, 5, bidirectional=True), f(6, 2, 4))
case("gru_no_bias", lambda: nn.GRU(4, 5, bias=False), f(6, 2, 4))
case("gru_state", lambda: _State(nn.GRU(4, 5), False), f(6, 2, 4), f(1, 2, 5), f(1))
case("rnn_tanh", lambda: nn.RNN(4, 5), f(6, 2, 4))
case("rnn_relu", lambda: nn.RNN(4, 5, nonlinearity="relu"), f(6, 2, 4))
case("lstm_cell", lambda: nn.LSTMCell(4, 5), f(2, 4))
case("gru_cell", lambda: nn.GRUCell(4, 5), f(2, 4))
case("embedding", lambda: nn.Embedding(9, 4), ints(2, 3, low=0, high=9))
case("embedding_padding", lambda: nn.Embedding(9, 4, padding_idx=0), lit([[0, 1, 8]], I64))
case("embedding_int32", lambda: nn.Embedding(9, 4), ints(2, 3, low=0, high=9, dtype=I32))
case("embedding_scalar", lambda: nn.Embedding(9, 4), lit(3, I64))
fn("sdpa", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), f(1, 2, 4, 8), f(1, 2, 5, 8), f(1, 2, 5, 8))
fn(
    "sdpa_causal",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    f(1, 2, 5, 8),
    f(1, 2, 5, 8),
    f(1, 2, 5, 8),
)
fn(
    "sdpa_causal_rect",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    f(1, 2, 3, 8),
    f(1, 2, 5, 8),
    f(1, 2, 5, 8),
)
fn(
    "sdpa_scale",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.5),
    f(1, 2, 4, 8),
    f(1, 2, 5, 8),
    f(1, 2, 5, 8),
)
fn(
    "sdpa_bool_mask",
    lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
    f(1, 2, 3, 8),
    f(1, 2, 4, 8),
    f(1, 2, 4, 8),
    lit([[True, False, True, True]] * 3, torch.bool),
)
fn(
    "sdpa_float_mask",
    lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
    f(1, 2, 3, 8),
    f(1, 2, 4, 8),
    f(1, 2, 4, 8),
    f(3, 4),
)
fn(
    "sdpa_gqa",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    f(1, 4, 3, 8),
    f(1, 2, 4, 8),
    f(1, 2, 4, 8),
)
fn("sdpa_3d", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), f(2, 4, 8), f(2, 5, 8), f(2, 5, 8))


class _SelfAttention(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True, **options)
        self.weights = bool(options)

    def forward(self, x: Tensor) -> Any:
        return self.attention(x, x, x, need_weights=self.weights)


case("mha", _SelfAttention, f(2, 5, 8))
case("mha_weights", lambda: _SelfAttention(bias=False), f(2, 5, 8))
case("mha_bias_kv", lambda: _SelfAttention(add_bias_kv=True), f(2, 5, 8))
case("transformer_encoder", lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), f(2, 5, 8))
case(
    "transformer_encoder_gelu_prenorm",
    lambda: nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", norm_first=True),
    f(5, 2, 8),
)
case("transformer_decoder", lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), f(2, 5, 8), f(2, 4, 8))

# --- losses that sit in models --------------------------------------------------------------------------------
fn("mse_loss", lambda x, y: F.mse_loss(x, y), f(2, 3), f(2, 3))
fn("l1_loss", lambda x, y: F.l1_loss(x, y, reduction="none"), f(2, 3), f(2, 3))
fn("smooth_l1", lambda x, y: F.smooth_l1_loss(x, y), f(2, 3), f(2, 3))
fn("cross_entropy", lambda x, y: F.cross_entropy(x, y), f(4, 3), ints(4, low=0, high=3))
fn("bce_logits", lambda x, y: F.binary_cross_entropy_with_logits(x, y), f(2, 3), pos(2, 3))
fn("kl_div", lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"), f(2, 3), f(2, 3))

# --- model plumbing -------------------------------------------------------------------------------------------
fn("identity_output", lambda x: (x, x + 1), f(2, 3))
fn("same_output_twice", lambda x: (lambda y: (y, y))(x * 2), f(2, 3))
fn("zero_dim_output", lambda x: x.sum(), f(2, 3))
fn("unused_input", lambda x, y: x + 1, f(2, 3), f(4))
fn("none_in_output", lambda x: (x + 1, None, x * 2), f(2, 3))
fn("dict_output", lambda x: {"b": x + 1, "a": [x * 2, (x, x - 1)]}, f(2, 3))
fn("noncontiguous", lambda x: x.reshape(-1) * 2, lambda: torch.randn(3, 4).t())
fn("channels_last", lambda x: x * 2, lambda: torch.randn(1, 3, 4, 5).to(memory_format=torch.channels_last))
fn("inplace", lambda x: (x + 1).relu_().mul_(2).add_(1), f(2, 3))
fn("zero_dim_input", lambda x: x * 2 + 1, lit(1.5))

# --- refused --------------------------------------------------------------------------------------------------
fn("boolean_mask", lambda x: x[x > 0], f(2, 3), refused="data-dependent")
fn("nonzero", lambda x: torch.nonzero(x), f(2, 3), refused="data-dependent")
fn("unique", lambda x: torch.unique(x), ints(5), refused="data-dependent")
case("embedding_bag", lambda: nn.EmbeddingBag(9, 4), ints(2, 3, low=0, high=9), refused="embedding_bag")
fn("stft", lambda x: torch.view_as_real(torch.stft(x, 8, return_complex=True)), f(32), refused="stft")
fn("fft", lambda x: torch.fft.rfft(x).abs(), f(8), refused="fft")


class _Unpool(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y, i = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(y, i, 2)


case("max_unpool2d", _Unpool, f(1, 1, 4, 4), refused="max_unpool2d")
fn("random", lambda x: x + torch.randn_like(x), f(2, 3), refused="random")
fn("bernoulli", lambda x: torch.bernoulli(x), pos(2), refused="random")


class _Quantized(nn.Module):
    """A convolution between quantisers, as PT2E leaves it."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        # Registers the operators.
        import torch.ao.quantization.fx._decomposed

        limits = torch.iinfo(dtype)
        self.activation = (limits.min, limits.max, dtype)
        self.register_buffer("weight", torch.randint(-127, 128, (4, 3, 3, 3), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(4) * 0.01 + 0.001)
        self.register_buffer("zeros", torch.zeros(4, dtype=torch.int64))

    def forward(self, x: Tensor) -> Any:
        q = torch.ops.quantized_decomposed
        x = q.dequantize_per_tensor(q.quantize_per_tensor(x, 0.0625, 3, *self.activation), 0.0625, 3, *self.activation)
        weight = q.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
        return x, torch.conv2d(x, weight)


case("quantized_int8", lambda: _Quantized(torch.int8), f(1, 3, 6, 6))
case("quantized_int16", lambda: _Quantized(torch.int16), f(1, 3, 6, 6))
