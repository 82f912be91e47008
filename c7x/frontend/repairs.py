"""Rewrites of an exported graph into operators whose import into Relax is known to be right.

Everything is a decomposition in the sense of ``ExportedProgram.run_decompositions``: a Python function of the same
tensors, written with other ATen operators, traced in place of the operator. PyTorch's own core decompositions are the
base; ``KEPT`` names the operators taken out of them because the back end wants them whole, ``OWN`` adds what they lack
or what public TVM 0.27 is known to import wrongly. Index arithmetic on constants written here costs nothing at run
time: the importer evaluates constant sub-graphs with PyTorch itself.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from c7x.frontend.quiet import quiet
from c7x.frontend.support import NotCompiled

aten = torch.ops.aten

#: Left whole, because a kernel or a fused loop covers them, or because the pieces would be slower or less exact.
KEPT: tuple[Any, ...] = (
    aten.linear.default,
    aten.matmul.default,
    aten.silu.default,
    aten.max_pool1d.default,
    aten.max_pool2d.default,
    aten.max_pool3d.default,
    aten.upsample_nearest1d.vec,
    aten.upsample_nearest2d.vec,
    aten.upsample_nearest3d.vec,
    aten.embedding_bag.default,
    aten.embedding_bag.padding_idx,
    aten.stft.default,
    aten.stft.center,
    aten.max_unpool2d.default,
    aten.max_unpool3d.default,
    aten.prelu.default,
)

Decomposition = Callable[..., Any]
OWN: dict[Any, Decomposition] = {}


def _repair(*ops: Any) -> Callable[[Decomposition], Decomposition]:
    def register(function: Decomposition) -> Decomposition:
        for op in ops:
            OWN[op] = _located(op, function)
        return function

    return register


def _located(op: Any, function: Decomposition) -> Decomposition:
    """The decomposition, its refusals carrying the operator and the user's stack, which only the tracer knows."""

    @functools.wraps(function)
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except NotCompiled as error:
            error.op = error.op or str(op)
            error.stack_trace = error.stack_trace or torch.fx.traceback.get_current_meta().get("stack_trace", "")
            raise

    return decomposition


def decompose(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with every operator rewritten as above; parameters and signature are unchanged.

    Raises:
        NotCompiled: an operator's arguments have no right lowering (the importer turns it into a support report row).
    """
    table = torch.export.default_decompositions()
    for op in KEPT:
        table.pop(op, None)
    table.update(OWN)
    with quiet():
        return program.run_decompositions(table)


# --- indexing -------------------------------------------------------------------------------------------------


def _wrapped(index: Tensor, size: int) -> Tensor:
    """Indices with the negative ones counted from the end; TVM reads ``-1`` as an address before the tensor."""
    index = index.to(torch.int64)
    return torch.where(index < 0, index + size, index)


def _gathered_dims(x: Tensor, indices: Sequence[Tensor | None]) -> tuple[list[int], list[Tensor]]:
    dims = [d for d, i in enumerate(indices) if i is not None]
    tensors = [i for i in indices if i is not None]
    for tensor in tensors:
        if tensor.dtype in (torch.bool, torch.uint8):
            raise NotCompiled("a boolean mask as index makes the output's shape data-dependent", DATA_DEPENDENT_HINT)
    return dims, tensors


DATA_DEPENDENT_HINT = "keep the shape fixed: torch.where(mask, x, 0), masked_fill, or topk with a fixed k"


def _linear_index(x: Tensor, dims: Sequence[int], tensors: Sequence[Tensor]) -> Tensor:
    """One index into the product of ``dims``, broadcast over all index tensors (int64)."""
    total: Tensor | None = None
    for dim, tensor in zip(dims, tensors, strict=True):
        wrapped = _wrapped(tensor, x.shape[dim])
        total = wrapped if total is None else total * x.shape[dim] + wrapped
    assert total is not None
    return total


def _front(x: Tensor, dims: Sequence[int]) -> tuple[list[int], list[int]]:
    rest = [d for d in range(x.dim()) if d not in dims]
    return [*dims, *rest], rest


@_repair(aten.index.Tensor)
def _index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    dims, tensors = _gathered_dims(x, indices)
    linear = _linear_index(x, dims, tensors)
    order, rest = _front(x, dims)
    if len(dims) == 1:
        taken = x.index_select(dims[0], linear.reshape(-1))
        return taken.reshape(*x.shape[: dims[0]], *linear.shape, *x.shape[dims[0] + 1 :])
    kept = [x.shape[d] for d in rest]
    flat = x.permute(order).reshape(math.prod(x.shape[d] for d in dims), *kept)
    taken = flat.index_select(0, linear.reshape(-1)).reshape(*linear.shape, *kept)
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    if not adjacent or dims[0] == 0:
        return taken
    lead, width = dims[0], linear.dim()
    return taken.permute(*range(width, width + lead), *range(width), *range(width + lead, taken.dim()))


@_repair(aten.index_put.default)
def _index_put(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype == torch.bool:
        mask = indices[0]
        if values.numel() != 1 or accumulate:
            raise NotCompiled("assignment through a boolean mask with more than one value", DATA_DEPENDENT_HINT)
        mask = mask.reshape(*mask.shape, *([1] * (x.dim() - mask.dim())))
        return torch.where(mask, values.reshape([1] * x.dim()).to(x.dtype), x)
    dims, tensors = _gathered_dims(x, indices)
    linear = _linear_index(x, dims, tensors)
    order, rest = _front(x, dims)
    kept = [x.shape[d] for d in rest]
    flat = x.permute(order).reshape(-1, *kept)
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    lead = dims[0] if adjacent else 0
    result_shape = [*kept[:lead], *linear.shape, *kept[lead:]]
    source = values.expand(result_shape)
    if lead:
        width = linear.dim()
        source = source.permute(*range(lead, lead + width), *range(lead), *range(lead + width, source.dim()))
    source = source.reshape(-1, *kept)
    where = linear.reshape(-1, *([1] * len(kept))).expand(source.shape)
    put = flat.scatter_add(0, where, source) if accumulate else flat.scatter(0, where, source)
    shaped = put.reshape([x.shape[d] for d in order])
    return shaped.permute([order.index(d) for d in range(x.dim())])


@_repair(aten.index_add.default)
def _index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    scaled = source if alpha == 1 else source * alpha
    return x.scatter_add(dim, _along(index, dim % x.dim(), source), scaled)


@_repair(aten.index_copy.default)
def _index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return x.scatter(dim, _along(index, dim % x.dim(), source), source)


@_repair(aten.index_fill.int_Scalar)
def _index_fill(x: Tensor, dim: int, index: Tensor, value: float) -> Tensor:
    dim = dim % x.dim()
    hit = (torch.arange(x.shape[dim]).unsqueeze(-1) == _wrapped(index, x.shape[dim])).any(-1)
    shape = [1] * x.dim()
    shape[dim] = x.shape[dim]
    return torch.where(hit.reshape(shape), torch.full((), value, dtype=x.dtype), x)


def _along(index: Tensor, dim: int, source: Tensor) -> Tensor:
    shape = [1] * source.dim()
    shape[dim] = -1
    return index.to(torch.int64).reshape(shape).expand(source.shape)


@_repair(aten.take.default)
def _take(x: Tensor, index: Tensor) -> Tensor:
    return x.reshape(-1).index_select(0, _wrapped(index, x.numel()).reshape(-1)).reshape(index.shape)


@_repair(aten.unfold.default)
def _unfold(x: Tensor, dim: int, size: int, step: int) -> Tensor:
    if x.dim() == 0:
        raise NotCompiled("unfold of a 0-d tensor", "use reshape")
    dim = dim % x.dim()
    windows = (x.shape[dim] - size) // step + 1
    index = torch.arange(windows).unsqueeze(1) * step + torch.arange(size)
    taken = x.index_select(dim, index.reshape(-1))
    return taken.reshape(*x.shape[:dim], windows, size, *x.shape[dim + 1 :]).movedim(dim + 1, -1)


@_repair(aten.as_strided.default, aten.as_strided_copy.default)
def _as_strided(x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    if not x.is_contiguous():
        raise NotCompiled("as_strided of a tensor that is not contiguous", "call .contiguous() first, or use reshape")
    index = torch.full((), storage_offset or 0, dtype=torch.int64)
    for extent, step in zip(size, stride, strict=True):
        index = index.unsqueeze(-1) + torch.arange(extent) * step
    return x.reshape(-1).index_select(0, index.reshape(-1)).reshape(list(size))


@_repair(aten.diagonal.default, aten.diagonal_copy.default)
def _diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    moved = x.movedim((dim1, dim2), (-2, -1))
    rows, columns = moved.shape[-2], moved.shape[-1]
    first, skipped = max(-offset, 0), max(offset, 0)
    length = max(min(rows - first, columns - skipped), 0)
    index = (torch.arange(length) + first) * columns + torch.arange(length) + skipped
    return moved.reshape(*moved.shape[:-2], rows * columns).index_select(-1, index)


@_repair(aten.bucketize.Tensor)
def _bucketize(x: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    value = x.unsqueeze(-1)
    below = boundaries <= value if right else boundaries < value
    return below.sum(-1).to(torch.int32 if out_int32 else torch.int64)


@_repair(aten.searchsorted.Tensor)
def _searchsorted(
    sorted_sequence: Tensor,
    x: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    if sorter is not None:
        raise NotCompiled("searchsorted with a sorter", "sort the sequence before the call")
    rows = sorted_sequence if sorted_sequence.dim() == 1 else sorted_sequence.unsqueeze(-2)
    return _bucketize(x, rows, out_int32=out_int32, right=right or side == "right")


# --- arithmetic -----------------------------------------------------------------------------------------------


def _log1p_exact(x: Tensor) -> Tensor:
    """log(1+x) to full precision near zero: the rounding of 1+x cancels in x / (u-1)."""
    u = x + 1
    close = u == 1
    exact = torch.log(u) * (x / torch.where(close, torch.ones_like(u), u - 1))
    return torch.where(close, x, torch.where(torch.isinf(u), torch.log(u), exact))


def _expm1_exact(x: Tensor) -> Tensor:
    """exp(x)-1 to full precision near zero, by the same cancellation; the plain form where nothing cancels."""
    u = torch.exp(x)
    near = torch.abs(x) < 0.5
    log_u = torch.where(near, torch.log(u), torch.ones_like(u))
    safe = torch.where(log_u == 0, torch.ones_like(u), log_u)
    return torch.where(near, torch.where(u == 1, x, (u - 1) * (x / safe)), u - 1)


def _floating(x: Tensor) -> Tensor:
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


@_repair(aten.log1p.default)
def _log1p(x: Tensor) -> Tensor:
    return _log1p_exact(_floating(x))


@_repair(aten.expm1.default)
def _expm1(x: Tensor) -> Tensor:
    return _expm1_exact(_floating(x))


@_repair(aten.erfc.default)
def _erfc(x: Tensor) -> Tensor:
    return 1 - torch.erf(_floating(x))


@_repair(aten.exp2.default)
def _exp2(x: Tensor) -> Tensor:
    return torch.pow(2.0, _floating(x))


@_repair(aten.hypot.default)
def _hypot(x: Tensor, y: Tensor) -> Tensor:
    largest = torch.maximum(x.abs(), y.abs())
    smallest = torch.minimum(x.abs(), y.abs())
    ratio = smallest / torch.where(largest == 0, torch.ones_like(largest), largest)
    ratio = torch.where(torch.isinf(largest), torch.zeros_like(ratio), ratio)
    return largest * torch.sqrt(1 + ratio * ratio)


@_repair(aten.fmax.default)
def _fmax(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(torch.isnan(y), x, torch.where(torch.isnan(x), y, torch.maximum(x, y)))


@_repair(aten.fmin.default)
def _fmin(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(torch.isnan(y), x, torch.where(torch.isnan(x), y, torch.minimum(x, y)))


@_repair(aten.copysign.Tensor)
def _copysign(x: Tensor, y: Tensor) -> Tensor:
    negative = (y < 0) | ((y == 0) & (torch.reciprocal(_floating(y)) < 0))
    return torch.where(negative, -x.abs(), x.abs())


@_repair(aten.isfinite.default)
def _isfinite(x: Tensor) -> Tensor:
    if not x.is_floating_point():
        return torch.ones_like(x, dtype=torch.bool)
    return x.abs() < math.inf


@_repair(aten.isinf.default)
def _isinf(x: Tensor) -> Tensor:
    if not x.is_floating_point():
        return torch.zeros_like(x, dtype=torch.bool)
    return x.abs() == math.inf


@_repair(aten.logaddexp.default)
def _logaddexp(x: Tensor, y: Tensor) -> Tensor:
    largest = torch.maximum(x, y)
    gap = torch.where(x == y, torch.zeros_like(largest), (x - y).abs())
    return largest + torch.log1p(torch.exp(-gap))


@_repair(aten.elu.default)
def _elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    # TVM's importer reads alpha only, so SELU (alpha and scale) comes out wrong.
    inner = x if input_scale == 1 else x * input_scale
    negative = torch.expm1(torch.where(x > 0, torch.zeros_like(inner), inner)) * (alpha * scale)
    return torch.where(x > 0, x if scale == 1 else x * scale, negative)


@_repair(aten.rrelu_with_noise_functional.default, aten.rrelu_with_noise.default)
def _rrelu(
    x: Tensor,
    noise: Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: torch.Generator | None = None,
) -> Any:
    if training:
        raise NotCompiled("rrelu in training mode draws random slopes", "call model.eval() before the export")
    return torch.ops.aten.leaky_relu.default(x, (lower + upper) / 2), noise


def _divided(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    dtype = torch.result_type(x, y)
    tensors = [t if isinstance(t, Tensor) else torch.full((), t, dtype=dtype) for t in (x, y)]
    return tensors[0].to(dtype), tensors[1].to(dtype)


def _floor_divide_float(x: Tensor, y: Tensor) -> Tensor:
    """Python's floor division on floats, by the exact remainder: floor(x / y) is too high where x / y rounds up."""
    remainder = torch.fmod(x, y)
    quotient = (x - remainder) / y
    crosses = (remainder != 0) & ((y < 0) != (remainder < 0))
    quotient = torch.where(crosses, quotient - 1, quotient)
    floor = torch.floor(quotient)
    floor = torch.where(quotient - floor > 0.5, floor + 1, floor)
    return torch.where(y == 0, x / y, torch.where(quotient != 0, floor, torch.zeros_like(floor)))


@_repair(aten.div.Tensor_mode, aten.div.Scalar_mode)
def _div_mode(x: Tensor, y: Any, *, rounding_mode: str | None = None) -> Any:
    a, b = _divided(x, y)
    if rounding_mode is None:
        return a / b
    if rounding_mode == "trunc":
        return torch.trunc(a / b) if a.is_floating_point() else NotImplemented
    return _floor_divide_float(a, b) if a.is_floating_point() else aten.floor_divide.default(a, b)


@_repair(aten.floor_divide.default, aten.floor_divide.Scalar)
def _floor_divide(x: Tensor, y: Any) -> Any:
    a, b = _divided(x, y)
    return _floor_divide_float(a, b) if a.is_floating_point() else NotImplemented


@_repair(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor)
def _remainder(x: Any, y: Any) -> Any:
    a, b = _divided(x, y)
    if not a.is_floating_point():
        return NotImplemented if isinstance(x, Tensor) else aten.remainder.Tensor(a, b)
    remainder = torch.fmod(a, b)
    return torch.where((remainder != 0) & ((b < 0) != (remainder < 0)), remainder + b, remainder)


# --- reductions and order -------------------------------------------------------------------------------------


@_repair(aten.var_mean.correction)
def _var_mean(
    x: Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    return _var(x, dim, correction=correction, keepdim=keepdim), _mean_over(x, dim, keepdim)


def _mean_over(x: Tensor, dim: Sequence[int] | None, keepdim: bool) -> Tensor:
    return x.mean(list(dim) if dim else list(range(x.dim())), keepdim=keepdim)


@_repair(aten.var.correction)
def _var(
    x: Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> Tensor:
    dims = [d % x.dim() for d in dim] if dim else list(range(x.dim()))
    count = math.prod(x.shape[d] for d in dims)
    centred = x - x.mean(dims, keepdim=True)
    free = count - (1 if correction is None else correction)
    total = (centred * centred).sum(dims, keepdim=keepdim)
    return total / free if free > 0 else total * math.nan if count <= 1 else total * math.inf


@_repair(aten.linalg_vector_norm.default)
def _vector_norm(
    x: Tensor,
    order: float = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    x = x if dtype is None else x.to(dtype)
    dims = list(dim) if dim else list(range(x.dim()))
    if order == 0:
        return (x != 0).to(x.dtype).sum(dims, keepdim=keepdim)
    if order == math.inf:
        return x.abs().amax(dims, keepdim=keepdim)
    if order == -math.inf:
        return x.abs().amin(dims, keepdim=keepdim)
    if order == 1:
        return x.abs().sum(dims, keepdim=keepdim)
    if order == 2:
        return torch.sqrt((x * x).sum(dims, keepdim=keepdim))
    return torch.pow(torch.pow(x.abs(), order).sum(dims, keepdim=keepdim), 1.0 / order)


@_repair(aten.kthvalue.default)
def _kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, indices = torch.sort(x, dim=dim, stable=True)
    picked = values.narrow(dim, k - 1, 1), indices.narrow(dim, k - 1, 1)
    return picked if keepdim else (picked[0].squeeze(dim), picked[1].squeeze(dim))


@_repair(aten.median.default)
def _median(x: Tensor) -> Tensor:
    value, _ = _median_dim(x.reshape(-1), 0)
    return value


@_repair(aten.median.dim)
def _median_dim(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, indices = torch.sort(x, dim=dim, stable=True)
    place = (x.shape[dim] - 1) // 2
    middle, index = values.narrow(dim, place, 1), indices.narrow(dim, place, 1)
    if x.is_floating_point():
        # NaN wins, and its own place is reported, wherever a sort would put it.
        nan = torch.isnan(x)
        some = nan.any(dim, keepdim=True)
        middle = torch.where(some, torch.full((), math.nan, dtype=x.dtype), middle)
        index = torch.where(some, nan.to(torch.int8).argmax(dim, keepdim=True), index)
    return (middle, index) if keepdim else (middle.squeeze(dim), index.squeeze(dim))


@_repair(aten.aminmax.default)
def _aminmax(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    dims = [] if dim is None else [dim]
    return x.amin(dims, keepdim=keepdim), x.amax(dims, keepdim=keepdim)


@_repair(aten._cdist_forward.default)
def _cdist(x: Tensor, y: Tensor, p: float, compute_mode: int | None) -> Tensor:
    return _vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, [-1])


# --- linear algebra -------------------------------------------------------------------------------------------


@_repair(aten.bilinear.default)
def _bilinear(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    outputs, left, right = weight.shape
    lead = x.shape[:-1]
    pairs = (x.reshape(-1, left, 1) * y.reshape(-1, 1, right)).reshape(-1, left * right)
    result = torch.nn.functional.linear(pairs, weight.reshape(outputs, left * right), bias)
    return result.reshape(*lead, outputs)


@_repair(aten.addbmm.default)
def _addbmm(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    product = torch.bmm(a, b).sum(0)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (x if beta == 1 else x * beta)


@_repair(aten.baddbmm.default)
def _baddbmm(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    product = torch.bmm(a, b)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (x if beta == 1 else x * beta)


@_repair(aten.addmm.default)
def _addmm(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    product = torch.mm(a, b)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (x if beta == 1 else x * beta)


@_repair(aten.scaled_dot_product_attention.default)
def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if dropout_p:
        raise NotCompiled("attention with dropout draws random numbers", "call model.eval() before the export")
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    scores = torch.matmul(query, key.transpose(-2, -1)) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores + torch.zeros(allowed.shape, dtype=scores.dtype).masked_fill(~allowed, -math.inf)
    if attn_mask is None:
        return torch.matmul(torch.softmax(scores, -1), value)
    boolean = attn_mask.dtype == torch.bool
    scores = scores.masked_fill(~attn_mask, -math.inf) if boolean else scores + attn_mask
    # A row that sees nothing gives zeros, not NaN.
    blind = scores.amax(-1, keepdim=True) == -math.inf
    return torch.matmul(torch.softmax(scores, -1).masked_fill(blind, 0.0), value)


# --- pooling, padding, resizing -------------------------------------------------------------------------------


def _pool_arguments(rank: int, *values: Sequence[int]) -> list[list[int]]:
    return [list(v) * rank if len(v) == 1 else list(v) for v in values]


def _divided_pool(
    x: Tensor, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, divisor: int, pool: Any
) -> Tensor:
    rank = len(kernel) if len(kernel) > 1 else x.dim() - 2
    kernel, stride, padding = _pool_arguments(rank, kernel, stride or kernel, padding or [0])
    pads: list[int] = []
    for axis in range(rank):
        extent = x.shape[x.dim() - rank + axis]
        room = extent + 2 * padding[axis] - kernel[axis]
        windows = (-(-room // stride[axis]) if ceil_mode else room // stride[axis]) + 1
        if ceil_mode and (windows - 1) * stride[axis] >= extent + padding[axis]:
            windows -= 1
        after = (windows - 1) * stride[axis] + kernel[axis] - extent - padding[axis]
        pads = [padding[axis], max(after, 0), *pads]
    padded = torch.nn.functional.pad(x, pads) if any(pads) else x
    # Every window is full now, so the mean times the window is the sum, whatever the divisor.
    return pool(padded, kernel, stride) * (math.prod(kernel) / divisor)


@_repair(aten.avg_pool2d.default)
def _avg_pool2d(
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    if divisor_override is None:
        return NotImplemented
    return _divided_pool(x, kernel_size, stride, padding, ceil_mode, divisor_override, aten.avg_pool2d.default)


@_repair(aten.avg_pool3d.default)
def _avg_pool3d(
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    if divisor_override is None:
        return NotImplemented
    return _divided_pool(x, kernel_size, stride, padding, ceil_mode, divisor_override, aten.avg_pool3d.default)


def _adaptive_windows(extent: int, outputs: int) -> Tensor:
    """Row o lists the input indices of output o, its last index repeated up to the longest window (int64)."""
    spans = [(o * extent // outputs, -(-(o + 1) * extent // outputs)) for o in range(outputs)]
    longest = max(end - start for start, end in spans)
    row = torch.arange(outputs)
    starts = torch.div(row * extent, outputs, rounding_mode="floor").unsqueeze(1)
    ends = torch.div((row + 1) * extent + outputs - 1, outputs, rounding_mode="floor").unsqueeze(1)
    return torch.minimum(starts + torch.arange(longest), ends - 1)


def _adaptive_max(x: Tensor, output_size: Sequence[int]) -> Tensor:
    rank = len(output_size)
    for axis, outputs in enumerate(output_size):
        dim = x.dim() - rank + axis
        if x.shape[dim] == outputs:
            continue
        extent = x.shape[dim]
        if outputs == 1:
            x = x.amax([dim], keepdim=True)
        elif extent % outputs == 0:
            x = x.reshape(*x.shape[:dim], outputs, extent // outputs, *x.shape[dim + 1 :]).amax([dim + 1])
        else:
            windows = _adaptive_windows(extent, outputs)
            x = aten.index.Tensor(x, [*([None] * dim), windows]).amax([dim + 1])
    return x


@_repair(aten.adaptive_max_pool1d.default, aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def _adaptive_max_pool(x: Tensor, output_size: Sequence[int]) -> tuple[Tensor, Tensor]:
    values = _adaptive_max(x, output_size)
    return values, aten.empty_like.default(values, dtype=torch.int64)


def _linear_taps(size: int, outputs: int, scale: float | None, align: bool) -> list[tuple[Tensor, Tensor]]:
    position = _source_positions(size, outputs, scale, align).clamp(min=0)
    low = position.to(torch.int64).clamp(max=size - 1)
    weight = (position - low).clamp(0, 1)
    return [(low, 1 - weight), ((low + 1).clamp(max=size - 1), weight)]


def _cubic_taps(size: int, outputs: int, scale: float | None, align: bool) -> list[tuple[Tensor, Tensor]]:
    a = -0.75
    position = _source_positions(size, outputs, scale, align)
    floor = torch.floor(position)
    t = position - floor
    base = floor.to(torch.int64)

    def near(v: Tensor) -> Tensor:
        return ((a + 2) * v - (a + 3)) * v * v + 1

    def far(v: Tensor) -> Tensor:
        return ((a * v - 5 * a) * v + 8 * a) * v - 4 * a

    weights = [far(t + 1), near(t), near(1 - t), far(2 - t)]
    return [((base + k - 1).clamp(0, size - 1), w) for k, w in enumerate(weights)]


def _source_positions(size: int, outputs: int, scale: float | None, align: bool) -> Tensor:
    """Where each output sample lies on the input axis (float32 [outputs], as PyTorch computes it)."""
    index = torch.arange(outputs, dtype=torch.float32)
    if align:
        step = torch.full((), (size - 1) / (outputs - 1) if outputs > 1 else 0.0, dtype=torch.float32)
        return index * step
    step = torch.full((), 1.0 / scale if scale is not None and scale > 0 else size / outputs, dtype=torch.float32)
    return (index + 0.5) * step - 0.5


def _resized(
    x: Tensor, size: Any, scales: Any, align: bool, taps: Callable[..., list[tuple[Tensor, Tensor]]]
) -> Tensor:
    rank = x.dim() - 2
    for axis in reversed(range(rank)):
        dim = 2 + axis
        extent = x.shape[dim]
        scale = None if scales is None else scales[axis]
        outputs = size[axis] if size is not None else math.floor(extent * scale)
        if outputs == extent and scale in (None, 1.0):
            continue
        shape = [1] * x.dim()
        shape[dim] = outputs
        parts = [
            x.index_select(dim, index) * weight.to(x.dtype).reshape(shape)
            for index, weight in taps(extent, outputs, scale, align)
        ]
        x = sum(parts[1:], parts[0])
    return x


@_repair(aten.upsample_linear1d.vec, aten.upsample_bilinear2d.vec, aten.upsample_trilinear3d.vec)
def _upsample_linear(x: Tensor, output_size: Any, align_corners: bool, scale_factors: Any) -> Tensor:
    return _resized(x, output_size, scale_factors, align_corners, _linear_taps)


@_repair(aten.upsample_bicubic2d.vec)
def _upsample_cubic(x: Tensor, output_size: Any, align_corners: bool, scale_factors: Any) -> Tensor:
    return _resized(x, output_size, scale_factors, align_corners, _cubic_taps)


@_repair(
    aten._upsample_bilinear2d_aa.default,
    aten._upsample_bilinear2d_aa.vec,
    aten._upsample_bicubic2d_aa.default,
    aten._upsample_bicubic2d_aa.vec,
)
def _upsample_aa(*args: Any, **kwargs: Any) -> Tensor:
    raise NotCompiled("interpolate with antialias=True", "pass antialias=False, or resize before the model")


def _nearest(x: Tensor, size: Any, scales: Any, shift: float) -> Tensor:
    for axis in range(x.dim() - 2):
        dim = 2 + axis
        extent = x.shape[dim]
        scale = None if scales is None else scales[axis]
        outputs = size[axis] if size is not None else math.floor(extent * scale)
        step = torch.full((), 1.0 / scale if scale else extent / outputs, dtype=torch.float32)
        position = (torch.arange(outputs, dtype=torch.float32) + shift) * step
        x = x.index_select(dim, torch.floor(position).to(torch.int64).clamp(max=extent - 1))
    return x


@_repair(aten.upsample_nearest1d.vec, aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec)
def _upsample_nearest(x: Tensor, output_size: Any, scale_factors: Any) -> Any:
    rank = x.dim() - 2
    sizes = output_size or [math.floor(x.shape[2 + a] * scale_factors[a]) for a in range(rank)]
    whole = all(o % x.shape[2 + a] == 0 for a, o in enumerate(sizes))
    matching = scale_factors is None or all(float(s).is_integer() for s in scale_factors)
    if whole and matching:
        return NotImplemented
    return _nearest(x, output_size, scale_factors, 0.0)


@_repair(aten._upsample_nearest_exact1d.vec, aten._upsample_nearest_exact2d.vec, aten._upsample_nearest_exact3d.vec)
def _upsample_nearest_exact(x: Tensor, output_size: Any, scale_factors: Any) -> Tensor:
    return _nearest(x, output_size, scale_factors, 0.5)


@_repair(aten.grid_sampler_2d.default)
def _grid_sampler(x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
    from torch._decomp.decompositions import grid_sampler_2d

    return grid_sampler_2d(x, grid, interpolation_mode, padding_mode, align_corners)


@_repair(aten.grid_sampler_3d.default)
def _grid_sampler_3d(*args: Any, **kwargs: Any) -> Tensor:
    raise NotCompiled("grid_sample of a 5-D input", "only 4-D inputs (N, C, H, W) are compiled")
