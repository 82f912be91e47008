"""Numpy implementations of our kernel ops, by the definition that graph and codegen share.

``register()`` makes them known to TVM as packed functions ``c7x.<op>``, so that a lowered module runs in TVM's VM and
can be compared with PyTorch without any C. Sums are taken in float64: what they show is the exact result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Attrs = Mapping[str, Any]


def activate(x: np.ndarray, activation: str | None) -> np.ndarray:
    """None, relu or relu6; NaN passes."""
    if activation is None:
        return x
    if activation == "relu":
        return np.maximum(x, 0)
    if activation == "relu6":
        return np.minimum(np.maximum(x, 0), 6)
    raise ValueError(f"unknown activation {activation!r}")


def _epilogue(y: np.ndarray, rest: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    rest = list(rest)
    if attrs["has_bias"]:
        y = y + rest.pop(0)
    if attrs["has_residual"]:
        residual = rest.pop(0)
        assert residual.shape == y.shape, (residual.shape, y.shape)
        y = y + residual
    assert not rest
    return activate(y, attrs["activation"]).astype(np.float32)


def conv2d(attrs: Attrs, data: np.ndarray, weight: np.ndarray, *rest: np.ndarray) -> tuple[np.ndarray, ...]:
    """data [N,H,W,C], weight [O,C/g,KH,KW], bias [O], residual [N,OH,OW,O] -> [N,OH,OW,O]."""
    top, left, bottom, right = attrs["padding"]
    (sh, sw), (dh, dw), groups = attrs["strides"], attrs["dilation"], attrs["groups"]
    o, cg, kh, kw = weight.shape
    x = np.pad(data.astype(np.float64), ((0, 0), (top, bottom), (left, right), (0, 0)))
    n, h, w, c = x.shape
    assert c == cg * groups and o % groups == 0
    oh, ow = (h - dh * (kh - 1) - 1) // sh + 1, (w - dw * (kw - 1) - 1) // sw + 1
    y = np.zeros((n, oh, ow, groups, o // groups))
    taps = weight.astype(np.float64).reshape(groups, o // groups, cg, kh, kw)
    for i in range(kh):
        for j in range(kw):
            part = x[:, i * dh : i * dh + sh * (oh - 1) + 1 : sh, j * dw : j * dw + sw * (ow - 1) + 1 : sw, :]
            part = part.reshape(n, oh, ow, groups, cg).transpose(3, 0, 1, 2, 4).reshape(groups, -1, cg)
            out = part @ taps[:, :, :, i, j].transpose(0, 2, 1)
            y += out.reshape(groups, n, oh, ow, -1).transpose(1, 2, 3, 0, 4)
    return (_epilogue(y.reshape(n, oh, ow, o), rest, attrs),)


def matmul(attrs: Attrs, a: np.ndarray, b: np.ndarray, *rest: np.ndarray) -> tuple[np.ndarray, ...]:
    """a [M,K], b [K,N] or [N,K], bias [N], residual [M,N] -> [M,N]."""
    assert a.ndim == 2 and b.ndim == 2
    right = b.T if attrs["transpose_b"] else b
    return (_epilogue(a.astype(np.float64) @ right.astype(np.float64), rest, attrs),)


def batch_matmul(attrs: Attrs, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    """a [B,M,K], b [B or 1,K,N] or [B or 1,N,K] -> [B,M,N]."""
    assert a.ndim == 3 and b.ndim == 3 and b.shape[0] in (1, a.shape[0])
    right = b.transpose(0, 2, 1) if attrs["transpose_b"] else b
    return ((a.astype(np.float64) @ right.astype(np.float64)).astype(np.float32),)


def _softmax(attrs: Attrs, x: np.ndarray, log: bool) -> tuple[np.ndarray, ...]:
    y = x.reshape(attrs["outer"], attrs["axis"], attrs["inner"]).astype(np.float64)
    y = y - y.max(axis=1, keepdims=True)
    total = np.exp(y).sum(axis=1, keepdims=True)
    y = y - np.log(total) if log else np.exp(y) / total
    return (y.astype(np.float32).reshape(x.shape),)


def softmax(attrs: Attrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return _softmax(attrs, x, log=False)


def log_softmax(attrs: Attrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return _softmax(attrs, x, log=True)


def layer_norm(attrs: Attrs, x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, ...]:
    assert weight.shape == bias.shape == (attrs["norm"],)
    y = x.reshape(attrs["outer"], attrs["norm"]).astype(np.float64)
    mean = y.mean(axis=1, keepdims=True)
    variance = ((y - mean) ** 2).mean(axis=1, keepdims=True)
    y = (y - mean) / np.sqrt(variance + attrs["epsilon"]) * weight + bias
    return (y.astype(np.float32).reshape(x.shape),)


def topk(attrs: Attrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
    rows = x.reshape(attrs["outer"], attrs["n"]).astype(np.float64)
    key = np.where(np.isnan(rows), np.inf, rows)
    nan = np.isnan(rows)
    # lexsort: last key first. NaN counts as larger than infinity; ties keep the lowest index.
    if attrs["largest"]:
        order = np.stack([np.lexsort((-k, ~n)) for k, n in zip(key, nan, strict=True)])
    else:
        order = np.stack([np.lexsort((k, n)) for k, n in zip(key, nan, strict=True)])
    order = order[:, : attrs["k"]].astype(np.int64)
    return np.take_along_axis(x.reshape(rows.shape), order, axis=1), order


def argmax(attrs: Attrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
    assert str(x.dtype) == attrs["dtype_in"]
    y = x.reshape(attrs["outer"], attrs["axis"], attrs["inner"])
    # numpy agrees with PyTorch: the first index wins, and NaN beats everything.
    return ((y.argmin(axis=1) if attrs["select_min"] else y.argmax(axis=1)).astype(np.int64),)


OPS: dict[str, Callable[..., tuple[np.ndarray, ...]]] = {
    "conv2d": conv2d,
    "matmul": matmul,
    "batch_matmul": batch_matmul,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "layer_norm": layer_norm,
    "topk": topk,
    "argmax": argmax,
}


def register() -> None:
    """Make every op callable from TVM: (input tensors..., JSON attrs, output tensors...)."""
    import tvm_ffi

    for name, function in OPS.items():

        def packed(*args: Any, _function: Callable[..., tuple[np.ndarray, ...]] = function) -> None:
            at = next(i for i, a in enumerate(args) if isinstance(a, str))
            inputs = [a.numpy() for a in args[:at]]
            with np.errstate(all="ignore"):
                results = _function(json.loads(str(args[at])), *inputs)
            for target, value in zip(args[at + 1 :], results, strict=True):
                assert str(target.dtype) == str(value.dtype), (target.dtype, value.dtype)
                target.copyfrom(np.ascontiguousarray(value).reshape(tuple(target.shape)))

        tvm_ffi.register_global_func(f"c7x.{name}", packed, override=True)
