"""Transformers, attention, recurrent nets and embeddings."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.models.case import Made, generator, model_case, rand, randint, seeded


def _encoder_layer(name: str, norm_first: bool, activation: str) -> Made:
    layer = nn.TransformerEncoderLayer(
        32, 4, 64, dropout=0.1, activation=activation, batch_first=True, norm_first=norm_first
    )
    return seeded(layer, name), (rand(f"{name} input", 2, 9, 32),)


@model_case()
def encoder_layer_relu() -> Made:
    return _encoder_layer("encoder_layer_relu", False, "relu")


@model_case()
def encoder_layer_gelu() -> Made:
    return _encoder_layer("encoder_layer_gelu", False, "gelu")


@model_case()
def encoder_layer_norm_first_relu() -> Made:
    return _encoder_layer("encoder_layer_norm_first_relu", True, "relu")


@model_case()
def encoder_layer_norm_first_gelu() -> Made:
    return _encoder_layer("encoder_layer_norm_first_gelu", True, "gelu")


class PaddedEncoder(nn.Module):
    """A batch of sequences of different lengths; in evaluation mode PyTorch would pack it and zero the padding."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        return self.encoder(x, src_key_padding_mask=padding)


@model_case()
def encoder_padded() -> Made:
    padding = torch.zeros(2, 9, dtype=torch.bool)
    padding[0, 6:] = True
    return seeded(PaddedEncoder(), "encoder_padded"), (rand("encoder_padded input", 2, 9, 32), padding)


class Attention(nn.Module):
    """Multi-head attention written out with ``scaled_dot_product_attention``."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, t, c = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(n, t, c))


class VisionTransformer(nn.Module):
    """Patch embedding by a strided convolution, class token, positions, two blocks, head on the class token."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.token = nn.Parameter(torch.zeros(1, 1, 32))
        self.positions = nn.Parameter(torch.zeros(1, 17, 32))
        self.norms = nn.ModuleList([nn.LayerNorm(32) for _ in range(5)])
        self.attention = nn.ModuleList([nn.MultiheadAttention(32, 4, batch_first=True) for _ in range(2)])
        self.mlp = nn.ModuleList([nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(2)])
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.positions
        for i in range(2):
            y = self.norms[2 * i](x)
            x = x + self.attention[i](y, y, y, need_weights=False)[0]
            x = x + self.mlp[i](self.norms[2 * i + 1](x))
        return self.head(self.norms[4](x)[:, 0])


@model_case()
def vit_tiny() -> Made:
    return seeded(VisionTransformer(), "vit"), (rand("vit input", 1, 3, 32, 32),)


@model_case()
def attention_causal() -> Made:
    return seeded(Attention(24, 3, causal=True), "attention causal"), (rand("attention input", 2, 11, 24),)


class MaskedAttention(nn.Module):
    """Attention weights returned, a boolean mask and an additive mask (with -inf) in one model."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x: Tensor, memory: Tensor, keep: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, weights = self.attention(x, memory, memory, need_weights=True)
        z = F.scaled_dot_product_attention(x, memory, memory, attn_mask=keep)
        return y, weights, z


@model_case()
def attention_masked() -> Made:
    keep = randint("keep", 0, 2, 5, 7).bool()
    keep[:, 0] = True
    inputs = (rand("masked x", 2, 5, 16), rand("masked m", 2, 7, 16), keep)
    return seeded(MaskedAttention(), "masked"), inputs


class TinyGpt(nn.Module):
    """Token and position embeddings, a causal block, logits of the last position."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(50, 24)
        self.positions = nn.Embedding(12, 24)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(24), nn.LayerNorm(24), nn.LayerNorm(24)
        self.attention = Attention(24, 4, causal=True)
        self.mlp = nn.Sequential(nn.Linear(24, 96), nn.GELU(approximate="tanh"), nn.Linear(96, 24))
        self.head = nn.Linear(24, 50, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        x = x + self.attention(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return self.head(self.norm3(x)[:, -1])


@model_case()
def gpt_tiny() -> Made:
    return seeded(TinyGpt(), "gpt"), (randint("gpt ids", 0, 50, 1, 12),)


@model_case()
def embedding_linear() -> Made:
    net = nn.Sequential(nn.Embedding(40, 12, padding_idx=0), nn.Flatten(), nn.Linear(12 * 6, 5))
    return seeded(net, "embedding"), (randint("embedding ids", 0, 40, 2, 6),)


class Rope(nn.Module):
    """Rotary positions and RMS normalisation, as in current language models."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(16))
        angles = torch.outer(torch.arange(9.0), 10000.0 ** (-torch.arange(0, 16, 2.0) / 16))
        self.register_buffer("cos", angles.cos().repeat(1, 2))
        self.register_buffer("sin", angles.sin().repeat(1, 2))

    def forward(self, x: Tensor) -> Tensor:
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale
        left, right = x[..., :8], x[..., 8:]
        return x * self.cos + torch.cat((-right, left), -1) * self.sin


@model_case()
def rope_rmsnorm() -> Made:
    return seeded(Rope(), "rope"), (rand("rope input", 2, 9, 16),)


class Recurrent(nn.Module):
    """A recurrent layer with its states handed in and out."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, *states: Tensor) -> object:
        return self.layer(x, states if len(states) > 1 else states[0])


def _lstm(name: str, layers: int, bidirectional: bool, batch_first: bool) -> Made:
    lstm = nn.LSTM(7, 10, layers, bidirectional=bidirectional, batch_first=batch_first)
    return seeded(lstm, name), (rand(f"{name} input", 2, 5, 7),)


@model_case()
def lstm_1_layer() -> Made:
    return _lstm("lstm_1_layer", 1, False, False)


@model_case()
def lstm_2_layers_batch_first() -> Made:
    return _lstm("lstm_2_layers_batch_first", 2, False, True)


@model_case()
def lstm_bidirectional() -> Made:
    return _lstm("lstm_bidirectional", 1, True, True)


@model_case()
def lstm_2_layers_bidirectional() -> Made:
    return _lstm("lstm_2_layers_bidirectional", 2, True, False)


@model_case()
def lstm_with_state() -> Made:
    states = (rand("lstm h", 1, 2, 10), rand("lstm c", 1, 2, 10))
    return seeded(Recurrent(nn.LSTM(7, 10)), "lstm state"), (rand("lstm state input", 4, 2, 7), *states)


@model_case()
def lstm_same_tensor_as_both_states() -> Made:
    """One zero tensor given as h and as c: they are two inputs all the same."""
    zero = torch.zeros(1, 2, 10)
    return seeded(Recurrent(nn.LSTM(7, 10)), "lstm zero"), (rand("lstm zero input", 4, 2, 7), zero, zero)


class LastStep(nn.Module):
    """What classifiers do with a recurrent net: ``[:, -1]`` of its outputs, then a linear layer."""

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0][:, -1])


@model_case()
def lstm_last_step() -> Made:
    net = LastStep(nn.LSTM(7, 10, batch_first=True), 10)
    return seeded(net, "lstm last"), (rand("lstm last input", 2, 6, 7),)


@model_case()
def gru_1_layer() -> Made:
    return seeded(nn.GRU(7, 10, batch_first=True), "gru"), (rand("gru input", 2, 5, 7),)


@model_case()
def gru_2_layers_bidirectional() -> Made:
    return seeded(nn.GRU(6, 8, 2, bidirectional=True), "gru 2"), (rand("gru 2 input", 5, 1, 6),)


class Cells(nn.Module):
    """Cells stepped by hand, as streaming models do."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTMCell(5, 6)
        self.gru = nn.GRUCell(6, 6)
        self.rnn = nn.RNNCell(6, 4)

    def forward(self, x: Tensor, h: Tensor, c: Tensor, g: Tensor, r: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        h, c = self.lstm(x, (h, c))
        g = self.gru(h, g)
        return h, c, g, self.rnn(g, r)


@model_case()
def recurrent_cells() -> Made:
    sizes = (5, 6, 6, 6, 4)
    return seeded(Cells(), "cells"), tuple(rand(f"cells {i}", 3, n) for i, n in enumerate(sizes))


class Sampling(nn.Module):
    """Log-probabilities, the most likely token and cumulative probabilities."""

    def forward(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return logits.log_softmax(-1), logits.argmax(-1), logits.softmax(-1).cumsum(-1)


@model_case()
def sampling_head() -> Made:
    return Sampling().eval(), (torch.randn(2, 13, generator=generator("sampling")) * 3,)
