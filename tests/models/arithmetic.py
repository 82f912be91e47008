"""dtypes other than float32, integer corner cases, NaN and infinity."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.models.case import Made, generator, model_case, randint, seeded

NAN, INF = float("nan"), float("inf")


class Float64(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.linear(x)
        return y, torch.tanh(y) * 3.141592653589793, y.softmax(-1), x.sum(-1) / 3.0, y.float(), x.exp()


@model_case(tolerance=1e-13)
def float64_arithmetic() -> Made:
    x = torch.randn(3, 6, generator=generator("float64"), dtype=torch.float64)
    return seeded(Float64().double(), "float64"), (x,)


class FloatConstants(nn.Module):
    """Constants that need all their digits: 5592405.5, 2^24 + 1 in float64, the smallest and largest floats, 0.1."""

    def forward(self, x: Tensor, d: Tensor) -> tuple[Tensor, ...]:
        return (
            x + 5592405.5,
            x * 0.1,
            x * 1.1754943508222875e-38,
            x * 3.4028234663852886e38,
            x - 16777215.0,
            d + 16777217.0,
            d * 0.1,
            d * 2.718281828459045,
        )


@model_case("quick", "special", exact_outputs=tuple(range(8)))
def float_constants() -> Made:
    values = [0.0, 1.0, -1.0, 0.25, 3.0, 1e-3, 0.7]
    return FloatConstants().eval(), (torch.tensor(values), torch.tensor(values, dtype=torch.float64))


class Integers(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return (
            a + b,
            a - b * 3,
            a * b,
            torch.div(a, b, rounding_mode="floor"),
            torch.remainder(a, b),
            torch.div(a, b, rounding_mode="trunc"),
            torch.fmod(a, b),
            a // 3,
            a % 5,
            a // -4,
            a % -4,
            torch.maximum(a, b),
            torch.minimum(a, b),
            -a,
            a.abs(),
            a.clamp(-3, 4),
            a > b,
            a == b,
            a & b,
            a | b,
            a ^ b,
            ~a,
            a.sum(),
            a.float() / b.float(),
        )


def _integers(dtype: torch.dtype) -> Made:
    a = torch.tensor([-7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 100, -100, 12345, -12345, 8], dtype=dtype)
    b = torch.tensor([3, 3, -3, -2, 2, 2, 3, 5, -3, -4, -5, 2, 3, -2, 2, -7, 7, 100, 100, 8], dtype=dtype)
    return Integers().eval(), (a, b)


@model_case()
def int32_arithmetic() -> Made:
    return _integers(torch.int32)


@model_case()
def int64_arithmetic() -> Made:
    return _integers(torch.int64)


class TrueDivision(nn.Module):
    """Integers divided by ``/`` give floats; integers and Python floats mix as PyTorch promotes them."""

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return a / b, a / 4, a + 0.5, a * 0.1, torch.arange(20) + 0.5, a.float() + b


@model_case()
def integer_promotion() -> Made:
    return TrueDivision().eval(), _integers(torch.int32)[1]


class FloatDivision(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return (
            torch.div(a, b, rounding_mode="floor"),
            torch.remainder(a, b),
            torch.div(a, b, rounding_mode="trunc"),
            torch.fmod(a, b),
            torch.remainder(a, -1.5),
            torch.floor_divide(a, 0.75),
        )


@model_case(exact_outputs=(0, 1, 2, 3, 4, 5))
def float_floor_division() -> Made:
    a = torch.tensor([-7.5, -7.0, -0.5, 0.0, 0.5, 7.0, 7.5, 9.25, -9.25])
    b = torch.tensor([2.0, -2.0, 2.0, 3.0, -3.0, 2.5, -2.5, 0.25, 4.0])
    return FloatDivision().eval(), (a, b)


class Casts(nn.Module):
    def forward(self, x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        return (
            x.to(torch.int32),
            x.to(torch.int64),
            x.to(torch.float64),
            i.to(torch.float32),
            i.to(torch.int8),
            i.to(torch.uint8),
            i.to(torch.int16),
            x > 0,
            i.bool(),
            (x > 0).to(torch.float32),
            (x > 0) & i.bool(),
            torch.logical_not(x > 0.5),
        )


@model_case(exact_outputs=tuple(range(12)))
def dtype_casts() -> Made:
    x = torch.tensor([-2.7, -1.5, -0.5, 0.0, 0.5, 1.5, 2.7, 100.9])
    return Casts().eval(), (x, torch.tensor([0, 1, -1, 127, 130, -129, 300, 70000], dtype=torch.int32))


class SmallIntegers(nn.Module):
    """int8, uint8 and bool inputs, as sensors deliver them."""

    def forward(self, pixels: Tensor, signed: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        x = pixels.float() / 255.0
        return x, signed.to(torch.int32) * 2, torch.where(mask, x, -x), pixels.to(torch.int32).sum(), ~mask


@model_case()
def small_integers() -> Made:
    inputs = (
        randint("pixels", 0, 256, 3, 4, dtype=torch.uint8),
        randint("signed", -128, 128, 3, 4, dtype=torch.int8),
        randint("mask", 0, 2, 3, 4).bool(),
    )
    return SmallIntegers().eval(), inputs


class Int64Big(nn.Module):
    """Values beyond 32 bits, which index narrowing must not touch."""

    def forward(self, a: Tensor) -> tuple[Tensor, ...]:
        return a * 3 + 1, a // 7, a % 1000, a + 5000000000, a > 4294967296


@model_case()
def int64_beyond_32_bits() -> Made:
    return Int64Big().eval(), (torch.tensor([2**40 + 5, -(2**40) - 5, 2**33, -1, 0, 2**31, -(2**31)]),)


class SpecialValues(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return (
            torch.relu(x),
            torch.maximum(x, y),
            torch.minimum(x, y),
            x.clamp(-1.0, 2.0),
            nn.functional.relu6(x),
            x.clamp(min=0.5),
            x + y,
            x * 0.0,
            x > y,
            x != x,
            torch.where(x.isnan(), torch.zeros_like(x), x),
            x.isinf(),
            nn.functional.leaky_relu(x, 0.1),
            nn.functional.hardtanh(x),
        )


@model_case("quick", "special")
def nan_and_infinity() -> Made:
    x = torch.tensor([NAN, -1.0, 2.0, INF, -INF, 0.0, -0.0, 1.0, NAN, 7.0])
    y = torch.tensor([0.0, NAN, 1.0, 2.0, -3.0, -0.0, 0.0, NAN, NAN, INF])
    return SpecialValues().eval(), (x, y)


class SpecialSoftmax(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return x.softmax(-1), x.log_softmax(-1), torch.sigmoid(x), torch.tanh(x), x.exp(), nn.functional.silu(x)


@model_case("quick", "special")
def softmax_nan_and_infinity() -> Made:
    x = torch.tensor(
        [
            [1.0, 2.0, -INF, 0.5],
            [NAN, 1.0, 2.0, 3.0],
            [INF, 1.0, 2.0, 3.0],
            [1e4, -1e4, 0.0, 1e4],
            [80.0, 90.0, -90.0, -104.0],
        ]
    )
    return SpecialSoftmax().eval(), (x,)


class SpecialPool(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 9, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        pool = nn.functional.max_pool2d
        return pool(x, 2), pool(x, 3, 1, 1), nn.functional.relu(self.conv(x)), x.mean()


@model_case("quick", "special")
def pool_and_conv_nan_and_infinity() -> Made:
    """NaN goes through max pooling and through a fused convolution and ReLU; padding never wins over -inf."""
    x = torch.randn(1, 1, 8, 8, generator=generator("special pool"))
    x[0, 0, 1, 2] = NAN
    x[0, 0, 5:, 5:] = -INF
    x[0, 0, 6, 1] = INF
    return seeded(SpecialPool(), "special pool"), (x,)
