"""Inputs and outputs: their number, nesting, aliasing and layout."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.models.case import Made, model_case, rand, randint, seeded


class ManyToMany(nn.Module):
    """A nest of tuples, lists, dicts and None; outputs come in PyTorch's tree order, None left out."""

    def forward(self, a: Tensor, pair: tuple[Tensor, Tensor], named: dict[str, Tensor]) -> dict[str, object]:
        b, c = pair
        return {
            "sum": a + b,
            "nested": [c * 2.0, None, (named["x"] - a, [named["y"].relu()])],
            "nothing": None,
            "last": (a * named["x"]).sum(-1),
        }


@model_case()
def nested_inputs_and_outputs() -> Made:
    inputs = (
        rand("nest a", 2, 3),
        (rand("nest b", 2, 3), rand("nest c", 4)),
        {"x": rand("nest x", 2, 3), "y": rand("nest y", 5)},
    )
    return ManyToMany().eval(), inputs


class DictOutput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 4)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y = self.linear(x)
        return {"scores": y.softmax(-1), "best": y.argmax(-1), "logits": y}


@model_case()
def dict_output() -> Made:
    return seeded(DictOutput(), "dict"), (rand("dict input", 3, 5),)


class ReturnsInput(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x, x + y


@model_case(exact_outputs=(0,))
def returns_an_input() -> Made:
    return ReturnsInput().eval(), (rand("returns x", 2, 3), rand("returns y", 2, 3))


class OnlyIdentity(nn.Module):
    """Nothing to compute at all."""

    def forward(self, x: Tensor) -> Tensor:
        return x


@model_case(exact_outputs=(0,))
def only_identity() -> Made:
    return OnlyIdentity().eval(), (rand("identity", 2, 3),)


class ReturnsReshapedInput(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.view(3, 4), x.view(12)


@model_case(exact_outputs=(0, 1))
def returns_a_view_of_the_input() -> Made:
    return ReturnsReshapedInput().eval(), (rand("view", 2, 6),)


class SameTwice(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = torch.relu(x) * 2.0
        return y, y, y.view(-1)


@model_case()
def same_tensor_twice() -> Made:
    return SameTwice().eval(), (rand("twice", 3, 4),)


class UsedInsideAndOut(nn.Module):
    """An output that later steps still read."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.tanh(x)
        return y, torch.relu(y - 0.25) @ y.t()


@model_case()
def output_read_again() -> Made:
    return UsedInsideAndOut().eval(), (rand("read again", 3, 4),)


class ConstantOutput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.tensor([[1.5, -2.5], [0.1, 7.0]]))
        self.weight = nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.table, x + self.weight, self.weight, torch.arange(4)


@model_case(exact_outputs=(0, 2))
def constant_outputs() -> Made:
    return seeded(ConstantOutput(), "constant"), (rand("constant input", 2, 3),)


class UnusedInput(nn.Module):
    def forward(self, x: Tensor, unused: Tensor, y: Tensor) -> Tensor:
        return x - y


@model_case()
def unused_input() -> Made:
    return UnusedInput().eval(), (rand("unused x", 4), rand("unused", 7, 7), rand("unused y", 4))


class ZeroDim(nn.Module):
    def forward(self, x: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x.sum(), s * 2.0, x.argmax() + 1


@model_case()
def zero_dimensional() -> Made:
    return ZeroDim().eval(), (rand("zero dim", 3, 5), torch.tensor(1.25))


@model_case()
def non_contiguous_input() -> Made:
    net = seeded(nn.Sequential(nn.Conv2d(4, 3, 3, padding=1), nn.ReLU()), "non contiguous")
    return net, (rand("non contiguous input", 1, 8, 10, 4).permute(0, 3, 1, 2)[..., ::2],)


class Linear1(nn.Module):
    """The batch dimension left out."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).relu()


@model_case()
def linear_on_a_vector() -> Made:
    return seeded(Linear1(), "vector"), (rand("vector input", 6),)


@model_case()
def mlp() -> Made:
    net = nn.Sequential(nn.Linear(37, 65), nn.ReLU(), nn.Linear(65, 33), nn.ReLU6(), nn.Linear(33, 10), nn.Softmax(-1))
    return seeded(net, "mlp"), (rand("mlp input", 5, 37),)


class SharedWeights(nn.Module):
    """One layer used twice: its weights must be stored once, and folding for one use must not leak into the other."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(torch.relu(self.bn(self.conv(x))))


@model_case()
def shared_weights() -> Made:
    return seeded(SharedWeights(), "shared"), (rand("shared input", 1, 4, 6, 6),)


class InPlace(nn.Module):
    """In-place operators, which export turns into functional ones."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y.mul_(2.0).add_(1.0)
        y[:, 0] = 0.0
        return y.relu_()


@model_case()
def in_place_operators() -> Made:
    return InPlace().eval(), (rand("in place", 3, 4),)


class ManyOutputs(nn.Module):
    def forward(self, x: Tensor, i: Tensor) -> list[Tensor]:
        return [*x.unbind(0), i + 1, *torch.split(x, 2, dim=1)]


@model_case()
def many_outputs() -> Made:
    return ManyOutputs().eval(), (rand("many", 4, 6), randint("many i", 0, 9, 3))


class EmptySlice(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x[:, :0], x + 1.0


@model_case()
def empty_output() -> Made:
    """An output with no elements."""
    return EmptySlice().eval(), (rand("empty", 2, 3),)


class NamedTupleOutput(nn.Module):
    """The named tuple of torch.topk as part of the result: a .pt2 knows no name for its type."""

    def forward(self, x: Tensor) -> tuple[Tensor, object]:
        return x * 2.0, torch.topk(x, 3)


@model_case(exact_outputs=(2,))
def returns_a_named_tuple() -> Made:
    return NamedTupleOutput().eval(), (rand("named tuple", 2, 7),)
