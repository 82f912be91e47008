"""Normalisations, activations and operators that move data."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.models.case import Made, model_case, rand, randint, seeded


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.group = nn.GroupNorm(3, 12)
        self.instance = nn.InstanceNorm2d(12, affine=True)
        self.instance_running = nn.InstanceNorm2d(12, affine=True, track_running_stats=True)
        self.layer = nn.LayerNorm((12, 6, 5))
        self.layer_last = nn.LayerNorm(5, elementwise_affine=False)
        self.local = nn.LocalResponseNorm(3)

    def forward(self, x: Tensor) -> list[Tensor]:
        return [
            self.group(x),
            self.instance(x),
            self.instance_running(x),
            self.layer(x),
            self.layer_last(x),
            self.local(x),
            F.normalize(x, dim=1),
        ]


@model_case()
def norms() -> Made:
    return seeded(Norms(), "norms"), (rand("norms input", 2, 12, 6, 5),)


@model_case()
def group_norm_no_affine() -> Made:
    return nn.Sequential(nn.GroupNorm(1, 12, affine=False), nn.ReLU()).eval(), (rand("norms input", 2, 12, 6, 5),)


@model_case()
def batch_norm_1d() -> Made:
    net = nn.Sequential(
        nn.Linear(9, 14), nn.BatchNorm1d(14), nn.ReLU(), nn.Linear(14, 3, bias=False), nn.BatchNorm1d(3)
    )
    return seeded(net, "bn1d"), (rand("bn1d input", 4, 9),)


class Activations(nn.Module):
    def __init__(self, activations: list[nn.Module]) -> None:
        super().__init__()
        self.activations = nn.ModuleList(activations)

    def forward(self, x: Tensor) -> list[Tensor]:
        return [f(x) for f in self.activations]


@model_case()
def activations_rectifiers() -> Made:
    functions: list[nn.Module] = [
        nn.ReLU(),
        nn.ReLU6(),
        nn.LeakyReLU(0.2),
        nn.PReLU(4),
        nn.PReLU(),
        nn.ELU(0.7),
        nn.CELU(1.3),
        nn.Hardtanh(-0.5, 2.0),
        nn.Threshold(0.1, -2.0),
        nn.Hardshrink(0.4),
        nn.Softshrink(0.4),
        nn.Hardswish(),
        nn.Hardsigmoid(),
    ]
    return seeded(Activations(functions), "rectifiers"), (rand("rectifiers input", 2, 4, 5, 3, scale=3.0),)


@model_case()
def selu() -> Made:
    return nn.Sequential(nn.SELU()).eval(), (rand("rectifiers input", 2, 4, 5, 3, scale=3.0),)


@model_case()
def activations_smooth() -> Made:
    functions: list[nn.Module] = [
        nn.GELU(),
        nn.GELU(approximate="tanh"),
        nn.SiLU(),
        nn.Mish(),
        nn.Softplus(),
        nn.Softplus(beta=2.0, threshold=3.0),
        nn.Softsign(),
        nn.Sigmoid(),
        nn.LogSigmoid(),
        nn.Tanh(),
        nn.Tanhshrink(),
        nn.GLU(dim=1),
        nn.Softmin(dim=1),
        nn.Softmax(dim=1),
        nn.LogSoftmax(dim=2),
    ]
    return Activations(functions).eval(), (rand("smooth input", 2, 4, 5, 3, scale=3.0),)


@model_case()
def pixel_shuffle() -> Made:
    net = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(3, 3, 1), nn.PixelUnshuffle(4))
    return seeded(net, "pixel shuffle"), (rand("pixel shuffle input", 1, 3, 8, 6),)


class TopK(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        largest = x.topk(5, dim=-1)
        smallest = x.topk(3, dim=1, largest=False)
        return largest.values, largest.indices, smallest.values, smallest.indices


@model_case(exact_outputs=(0, 2))
def topk() -> Made:
    return TopK().eval(), (rand("topk", 3, 4, 17),)


class TopKTies(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values, indices = x.topk(4)
        return values, indices[1:]


@model_case("quick", "special", exact_outputs=(0,))
def topk_ties_and_nan() -> Made:
    """Equal values and NaN, which counts as the largest. PyTorch leaves the order of equal values open, so only the
    indices of rows without any are compared."""
    nan = float("nan")
    x = torch.tensor([[1.0, 3.0, 3.0, 2.0, 3.0], [nan, 1.0, 5.0, float("inf"), 2.0], [4.0, -1.0, -2.0, nan, 0.0]])
    return TopKTies().eval(), (x,)


class Sorted(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        up, order = x.sort(dim=-1)
        down = x.sort(dim=-1, descending=True)
        return up, order, down.values, x.argsort(dim=-1)


@model_case(exact_outputs=(0, 2))
def sorting() -> Made:
    return Sorted().eval(), (rand("sort", 2, 3, 9),)


class ArgMax(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return x.argmax(dim=1), x.argmin(dim=-1), x.argmax(dim=2, keepdim=True), x.argmax(), x.argmin(dim=0)


class MaxWithIndices(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        best, where = x.max(dim=1)
        least = x.min(dim=2, keepdim=True)
        return best, where, least.values, least.indices


def _ties_and_nan() -> Tensor:
    """Zeros with a few ones, among them equal ones in a row and in a column, and two NaN."""
    x = torch.zeros(2, 5, 7)
    x[0, 2, 3] = x[0, 3, 3] = x[0, 3, 5] = 1.0
    x[1, 1, 1] = x[1, 4, 6] = float("nan")
    return x


@model_case()
def argmax_argmin() -> Made:
    return ArgMax().eval(), (rand("argmax", 2, 5, 7),)


@model_case()
def argmax_ties_and_nan() -> Made:
    """The first of equal values wins; NaN wins over everything."""
    return ArgMax().eval(), (_ties_and_nan(),)


@model_case(exact_outputs=(0, 2))
def max_min_with_indices() -> Made:
    return MaxWithIndices().eval(), (rand("argmax", 2, 5, 7),)


@model_case("quick", "special", exact_outputs=(0, 2))
def max_min_with_indices_ties_and_nan() -> Made:
    return MaxWithIndices().eval(), (_ties_and_nan(),)


class Reductions(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return (
            x.sum(),
            x.mean(dim=(0, 2)),
            x.var(dim=1),
            x.std(dim=-1, unbiased=False),
            x.norm(dim=1),
            x.logsumexp(dim=1),
            (x > 0).any(dim=1),
            (x > -2).all(dim=2),
            x.abs().max(),
        )


@model_case()
def reductions() -> Made:
    return Reductions().eval(), (rand("reductions", 3, 4, 5),)


class Extremes(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return x.amax(dim=1), x.amin(dim=(1, 2), keepdim=True), x.amax(), torch.aminmax(x, dim=0).min, x.prod(dim=2)


@model_case(exact_outputs=(0, 1, 2, 3))
def reductions_amax_amin_prod() -> Made:
    return Extremes().eval(), (rand("reductions", 3, 4, 5),)


@model_case("quick", "special", exact_outputs=(0, 1, 2, 3))
def amax_amin_nan() -> Made:
    x = rand("reductions", 3, 4, 5)
    x[0, 1, 2], x[2, 3, 4], x[2, 0, 0] = float("nan"), float("inf"), -float("inf")
    return Extremes().eval(), (x,)


class Shapes(nn.Module):
    """Squeeze, unsqueeze, flatten, unflatten, stack, tile, roll, flip and friends."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        s = x.squeeze(1).squeeze(-1)
        return (
            s,
            s.unsqueeze(0).unsqueeze(-1) * 2.0,
            torch.stack((s, -s), dim=1),
            s.repeat(2, 3),
            s.roll(1, dims=1),
            s.flip(0),
            s.unflatten(1, (2, 3)).permute(2, 0, 1),
            s.repeat_interleave(2, dim=0),
            torch.tril(s) + torch.triu(s, diagonal=1) * 0.5,
            s.narrow(1, 1, 3),
            s[1:, ::2],
            torch.cat(s.split([1, 3, 2], dim=1)[::-1], dim=1),
            s.t().contiguous().view(-1),
            F.one_hot(s.argmax(1), 6),
        )


@model_case()
def shape_operators() -> Made:
    return Shapes().eval(), (rand("shapes", 4, 1, 6, 1),)


class Indexing(nn.Module):
    """Negative and fancy indices."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.tensor([3, 0, -1, 1]))

    def forward(self, x: Tensor, where: Tensor) -> tuple[Tensor, ...]:
        return (
            x[:, -1],
            x[-2],
            x[:, [-1, 0]],
            x[self.rows],
            x[..., -3:-1],
            x.gather(2, where),
            x.index_select(1, torch.tensor([2, 0])),
            torch.where(x > 0, x, x * 0.1),
            x.masked_fill(x < -1, 0.0),
            x[self.rows, :, -1],
        )


@model_case(exact_outputs=(0, 1, 2, 3, 4, 5, 6, 9))
def indexing() -> Made:
    return Indexing().eval(), (rand("indexing", 4, 3, 6), randint("indexing where", 0, 6, 4, 3, 2))


class Broadcasting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(1, 4, 1))

    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        return (
            a + b,
            a * self.scale - c,
            torch.maximum(a, c),
            a / (b.abs() + 1.0),
            torch.addcmul(a, b, c, value=0.5),
            torch.einsum("nct,cs->nst", a, torch.ones(4, 2)),
            a @ torch.ones(5, 3),
            torch.bmm(a, a.transpose(1, 2)),
            torch.lerp(a, b.expand_as(a), 0.3),
            c.expand(2, 4, 5).reshape(2, 20) ** 2,
        )


@model_case()
def broadcasting() -> Made:
    inputs = (rand("broadcast a", 2, 4, 5), rand("broadcast b", 4, 1), rand("broadcast c", 1))
    return seeded(Broadcasting(), "broadcast"), inputs


class Unary(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        p = x.abs() + 0.1
        return (
            x.exp(),
            p.log(),
            p.sqrt(),
            p.rsqrt(),
            x.sin(),
            x.cos(),
            x.tan(),
            x.atan(),
            torch.asin(x / 10),
            torch.acos(x / 10),
            x.sinh(),
            x.cosh(),
            x.erf(),
            p.log2(),
            p.log10(),
            p.log1p(),
            x.expm1(),
            x.floor(),
            x.ceil(),
            x.round(),
            x.trunc(),
            x.sign(),
            x.frac(),
            p.reciprocal(),
            p.pow(1.7),
            torch.atan2(x, p),
            x.square(),
            -x,
        )


@model_case()
def unary_math() -> Made:
    x = rand("unary", 4, 11, scale=2.0)
    x[0, :6] = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 0.0])
    return Unary().eval(), (x,)
