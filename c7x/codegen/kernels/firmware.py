"""The compute kernels that c7x firmware exports: one record a symbol, for prototypes and for checks of calls.

The signatures are those of native/kernels/c7x_kernels.h and native/kernels/mmalib/mmalib_wrappers.h, which say what the
kernels compute (kernels.md sections 2 to 6); a unit test holds the two together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from c7x.codegen.program import DTYPES

Kind = Literal["in", "out", "int32", "float32"]
#: ``always``: in every firmware; ``mmalib``, ``tidl``: in firmware built with it (module-abi.md 8.7 to 8.9).
Availability = Literal["always", "mmalib", "tidl"]


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One argument of a firmware kernel.

    Attributes:
        name: as in the C header.
        kind: a pointer that is read or written, or a scalar passed by value.
        dtype: of the elements behind a pointer (a key of ``program.DTYPES``); the kind itself for a scalar.
        optional: NULL is allowed.
    """

    name: str
    kind: Kind
    dtype: str
    optional: bool = False

    @property
    def is_pointer(self) -> bool:
        return self.kind in ("in", "out")


@dataclass(frozen=True, kw_only=True)
class FirmwareKernel:
    """One exported kernel; it returns int32, 0 for success."""

    symbol: str
    arguments: tuple[Argument, ...]
    availability: Availability

    @property
    def inputs(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.kind == "in")

    @property
    def outputs(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.kind == "out")

    @property
    def scalars(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if not a.is_pointer)

    @property
    def prototype(self) -> str:
        """The C declaration, without a semicolon. Input pointers are const but for the MMALIB wrappers (section 1)."""
        words = []
        for a in self.arguments:
            const = "const " if a.kind == "in" and self.availability != "mmalib" else ""
            words.append(f"{const}void *{a.name}" if a.is_pointer else f"{DTYPES[a.dtype][3]} {a.name}")
        return f"int32_t {self.symbol}({', '.join(words)})"

    def mismatch(
        self, inputs: Sequence[str | None], outputs: Sequence[str | None], scalars: Sequence[str]
    ) -> str | None:
        """Why a call does not fit, as a phrase; None when it does.

        Args:
            inputs, outputs: dtypes of the tensors in the order of the signature, None for NULL.
            scalars: ``int32`` or ``float32`` for each scalar, in order.
        """
        for what, expected, given in (("inputs", self.inputs, inputs), ("outputs", self.outputs, outputs)):
            if len(expected) != len(given):
                return f"{self.symbol} takes {len(expected)} {what}, not {len(given)}"
            for a, dtype in zip(expected, given, strict=True):
                if dtype is None and not a.optional:
                    return f"{a.name} of {self.symbol} may not be NULL"
                if dtype is not None and dtype != a.dtype:
                    return f"{a.name} of {self.symbol} is {a.dtype}, not {dtype}"
        if len(self.scalars) != len(scalars):
            return f"{self.symbol} takes {len(self.scalars)} scalars, not {len(scalars)}"
        for a, dtype in zip(self.scalars, scalars, strict=True):
            if dtype != a.dtype:
                return f"{a.name} of {self.symbol} is {a.dtype}, not {dtype}"
        return None

    def arrange(self, inputs: Sequence[str], outputs: Sequence[str], scalars: Sequence[str]) -> tuple[str, ...]:
        """The C expressions of a call in the order of the signature, where pointers and scalars alternate.

        Raises:
            ValueError: a count differs from the signature's.
        """
        rest = {"in": list(inputs), "out": list(outputs), "scalar": list(scalars)}
        counts = (len(self.inputs), len(self.outputs), len(self.scalars))
        if counts != tuple(map(len, rest.values())):
            raise ValueError(f"{self.symbol} takes {counts} inputs, outputs and scalars")
        return tuple(rest[a.kind if a.is_pointer else "scalar"].pop(0) for a in self.arguments)


_ARGUMENT = re.compile(r"(?P<name>\w+)(?P<mark>[<>:])(?P<type>\w+)(?P<optional>\??)")
_SCALARS: Mapping[str, Kind] = {"i": "int32", "f": "float32"}


def _argument(text: str) -> Argument:
    match = _ARGUMENT.fullmatch(text)
    assert match is not None, text
    if match["mark"] == ":":
        return Argument(name=match["name"], kind=_SCALARS[match["type"]], dtype=_SCALARS[match["type"]])
    kind: Kind = "in" if match["mark"] == "<" else "out"
    return Argument(name=match["name"], kind=kind, dtype=match["type"], optional=bool(match["optional"]))


# name<dtype is read, name>dtype is written, a question mark allows NULL; name:i is an int32, name:f a float.
_MAP = "in<int8 out>int8 n:i zx:i sx:f zy:i sy:f"
_POOL = "in<int8 out>int8 N:i C:i H_in:i W_in:i H_out:i W_out:i kH:i kW:i sH:i sW:i pH:i pW:i"
_FPN = "in1<int8 C1:i H:i W:i z1:i s1:f in2<int8 C2:i z2:i s2:f out>int8 s_out:f z_out:i"
_CHANNELS = " ".join(f"in{k}<int8? C{k}:i s{k}:f z{k}:i" for k in range(1, 5))
_COLUMNS = " ".join(f"in{k}<int8? n{k}:i s{k}:f z{k}:i" for k in range(1, 5))
_QR8 = "bias<int32? scale<uint8? shift<uint8? output>int8"
_QR16 = "bias<int64? scale<uint8? shift<uint8? output>int16"
_WINDOW = "KH:i KW:i stride_h:i stride_w:i pad_top:i pad_bottom:i pad_left:i pad_right:i"
_CONV = f"C_in:i H_in:i W_in:i C_out:i {_WINDOW}"
_TILE = f"C_in:i H_in:i W_in:i C_out_tile:i {_WINDOW} oc_start:i"
_DEPTHWISE = f"channels:i H_in:i W_in:i {_WINDOW} num_groups:i"

_SIGNATURES: Mapping[Availability, Mapping[str, str]] = {
    "always": {
        "c7x_int8_gelu": _MAP,
        "c7x_int8_silu": _MAP,
        "c7x_int8_hardswish": _MAP,
        "c7x_int8_hardsigmoid": _MAP,
        "c7x_int8_silu_f32out": "in<int8 out>float32 n:i zx:i sx:f",
        "c7x_int8_relu": "in<int8 out>int8 n:i clip_lo:i",
        "c7x_int8_clamp": "in<int8 out>int8 n:i lo:i hi:i",
        "c7x_int8_requantize_clamp": "in<int8 out>int8 n:i combined_scale:f lo:i hi:i",
        "c7x_int8_rescale": _MAP,
        "c7x_int8_quantize": "in<float32 out>int8 n:i inv_scale:f zp:i",
        "c7x_int8_quantize_rgb": ("in<float32 out>int8 N:i HW:i inv_0:f off_0:f inv_1:f off_1:f inv_2:f off_2:f"),
        "c7x_int8_channel_scale_multiply": (
            "excitation<int8 feature_map<int8 out>int8 C:i HW:i s_exc:f z_exc:i s_feat:f z_feat:i s_out:f z_out:i"
        ),
        "c7x_int8_max_pool": _POOL,
        "c7x_int8_global_avg_pool": "in<int8 out>int8 N:i C:i H:i W:i zx:i sx:f zy:i sy:f",
        "c7x_int8_avg_pool": f"{_POOL} zx:i sx:f zy:i sy:f",
        "c7x_int8_layer_norm": (
            "in<int8 weight<float32 bias<float32 out>int8 outer:i norm:i eps:f zx:i sx:f zy:i sy:f"
        ),
        "c7x_int8_resize2d_nearest2x": "in<int8 out>int8 C:i H:i W:i",
        "c7x_int8_fpn_upsample_concat": _FPN,
        "c7x_int8_fpn_upsample_concat_ex": f"{_FPN} out1_presize>float32",
        "c7x_int8_concat_rescale": f"{_CHANNELS} out>int8 HW:i s_out:f z_out:i",
        "c7x_int8_concat_sigmoid": f"{_COLUMNS} out>float32 C:i",
        "c7x_int8_dfl_softmax": "in<int8 out>int8 B:i A:i K:i N:i zx:i sx:f zy:i sy:f",
        "c7x_int8_residual_add_relu": "x<int8 skip<int8 params<uint8 output>int8 num_elements:i has_relu:i",
        "c7x_int16_residual_add_relu": "x<int16 skip<int16 params<uint8 output>int16 num_elements:i has_relu:i",
        "c7x_dequantize_vecmatmul": "activation<float32 weights<int8 scale<float32 output>float32 M:i K:i N:i",
        "c7x_sdpa_decode": (
            "Q<float32 K_cache<float32 V_cache<float32 mask<float32 output>float32 "
            "num_q_heads:i num_kv_heads:i head_dim:i max_cache_len:i"
        ),
        "c7x_topk": "data<float32 out_val>float32 out_idx>int64 batch:i n:i k:i",
    },
    "mmalib": {
        "mmalib_matmul_i8": "A<int8 B<int8 C>int8 M:i K:i N:i shift:i",
        "mmalib_matmul_i16": "A<int16 B<int16 C>int16 M:i K:i N:i shift:i",
        "mmalib_conv2d_i8": f"input<int8 kernel<int8 {_QR8} {_CONV}",
        "mmalib_conv2d_i8_sliced": f"input<int8 kernel<int8 {_QR8} {_TILE}",
        "mmalib_conv2d_i8_grouped_loop": f"input<int8 kernel<int8 {_QR8.replace('?', '')} {_CONV} groups:i",
        "mmalib_conv2d_i16": f"input<int16 kernel<int16 {_QR16} {_CONV}",
        "mmalib_depthwise_conv2d_i8": f"input<int8 weights<int8 {_QR8} {_DEPTHWISE}",
        "mmalib_depthwise_conv2d_i16": f"input<int16 weights<int16 {_QR16} {_DEPTHWISE}",
        "mmalib_matmul_bias_i8": f"input<int8 weights<int8 {_QR8} M:i K:i N:i",
        "mmalib_matmul_bias_i16": f"input<int16 weights<int16 {_QR16} M:i K:i N:i",
    },
    "tidl": {"c7x_int8_max_pool_tidl": _POOL},
}

#: Every firmware kernel by its symbol.
FIRMWARE: Mapping[str, FirmwareKernel] = {
    symbol: FirmwareKernel(
        symbol=symbol, arguments=tuple(map(_argument, signature.split())), availability=availability
    )
    for availability, signatures in _SIGNATURES.items()
    for symbol, signature in signatures.items()
}  # fmt: skip
