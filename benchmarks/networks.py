"""The networks of the inference race, written for PyTorch, with random weights, and their exports to ONNX.

Shapes are those of the papers; `small` makes each little enough to check in a moment. Batch norms have statistics of
what passes through them, so that numbers stay of one size through a deep network.
"""

from __future__ import annotations

import io
import logging
import math
import sys
import warnings
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Network(NamedTuple):
    """A network by name: what makes it, and what makes inputs for it from a batch size."""

    name: str
    make: Callable[[bool], nn.Module]
    inputs: Callable[[bool, int], tuple[Tensor, ...]]


# -- convolutional networks


def _conv(inner: int, outer: int, size: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    return [
        nn.Conv2d(inner, outer, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outer),
    ]


class Basic(nn.Module):
    """A residual block of two 3x3 convolutions (He et al. 2016)."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*_conv(inner, outer, 3, stride), nn.ReLU(), *_conv(outer, outer, 3))
        same = inner == outer and stride == 1
        self.short = nn.Identity() if same else nn.Sequential(*_conv(inner, outer, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.short(x))


def resnet(small: bool) -> nn.Module:
    """Return ResNet-18 (He et al. 2016)."""
    widths = (8, 16, 16, 24) if small else (64, 128, 256, 512)
    blocks: list[nn.Module] = []
    inner = widths[0]
    for i, width in enumerate(widths):
        blocks += [Basic(inner, width, 2 if i else 1), Basic(width, width, 1)]
        inner = width
    stem = [*_conv(3, widths[0], 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, 1000)]
    return nn.Sequential(*stem, *blocks, *head)


class Squeeze(nn.Module):
    """A gate for each channel, from the mean of all channels (Hu et al. 2018)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(width, inner, 1), nn.Conv2d(inner, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        gate = F.silu(self.first(F.adaptive_avg_pool2d(x, 1)))
        return x * torch.sigmoid(self.second(gate))


class Inverted(nn.Module):
    """An inverted residual: wider by a 1x1 convolution, a depthwise one, narrower again (Sandler et al. 2018)."""

    def __init__(
        self, inner: int, outer: int, size: int, stride: int, wider: int, activation: type[nn.Module], gated: bool
    ) -> None:
        super().__init__()
        wide = inner * wider
        layers = [*_conv(inner, wide, 1), activation()] if wider > 1 else []
        layers += [*_conv(wide, wide, size, stride, groups=wide), activation()]
        if gated:
            layers.append(Squeeze(wide, max(1, inner // 4)))
        self.body = nn.Sequential(*layers, *_conv(wide, outer, 1))
        self.is_residual = stride == 1 and inner == outer

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.is_residual else self.body(x)


def _inverted(
    rows: list[tuple[int, int, int, int, int]], stem: int, last: int, activation: type[nn.Module], gated: bool
) -> nn.Module:
    """Return a network of inverted residuals: rows of factor, size, stride, channels, repetitions."""
    layers: list[nn.Module] = [*_conv(3, stem, 3, 2), activation()]
    inner = stem
    for wider, size, stride, outer, count in rows:
        for i in range(count):
            layers.append(Inverted(inner, outer, size, stride if i == 0 else 1, wider, activation, gated))
            inner = outer
    layers += [*_conv(inner, last, 1), activation(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, 1000)]
    return nn.Sequential(*layers)


def mobilenet(small: bool) -> nn.Module:
    """Return MobileNetV2 (Sandler et al. 2018)."""
    rows = [(1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 3, 2, 32, 3), (6, 3, 2, 64, 4), (6, 3, 1, 96, 3)]
    rows += [(6, 3, 2, 160, 3), (6, 3, 1, 320, 1)]
    return _inverted(rows[:3] if small else rows, 32, 64 if small else 1280, nn.ReLU6, False)


def efficientnet(small: bool) -> nn.Module:
    """Return EfficientNet-B0 (Tan and Le 2019)."""
    rows = [(1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3)]
    rows += [(6, 5, 2, 192, 4), (6, 3, 1, 320, 1)]
    return _inverted(rows[:3] if small else rows, 32, 64 if small else 1280, nn.SiLU, True)


class UNet(nn.Module):
    """A U-Net (Ronneberger et al. 2015) with padded convolutions, on four levels."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()

        def twice(inner: int, outer: int) -> nn.Module:
            return nn.Sequential(*_conv(inner, outer, 3), nn.ReLU(), *_conv(outer, outer, 3), nn.ReLU())

        self.down = nn.ModuleList(twice(a, b) for a, b in zip((3, *widths), widths))
        upward = widths[::-1]
        self.larger = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in zip(upward, upward[1:]))
        self.up = nn.ModuleList(twice(2 * b, b) for b in upward[1:])
        self.last = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for larger, block, before in zip(self.larger, self.up, kept[-2::-1]):
            x = block(torch.cat([before, larger(x)], dim=1))
        return self.last(x)


def unet(small: bool) -> nn.Module:
    """Return a U-Net of a quarter of the paper's channels."""
    return UNet((4, 8, 12) if small else (16, 32, 64, 128, 256))


def images(small: bool, batch: int, large: int = 224) -> tuple[Tensor, ...]:
    """Return a batch of square images."""
    return (torch.randn(batch, 3, *(2 * [32 if small else large])),)


# -- sequences


class Attention(nn.Module):
    """Attention of several heads."""

    def __init__(self, width: int, heads: int, is_causal: bool) -> None:
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.inner, self.outer = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            y.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for y in self.inner(x).chunk(3, dim=-1)
        )
        found = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        return self.outer(found.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    """A transformer's layer, with norms before (as GPT-2 has them) or after (as BERT)."""

    def __init__(self, width: int, heads: int, is_causal: bool, before: bool) -> None:
        super().__init__()
        self.before = before
        self.attention = Attention(width, heads, is_causal)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        gelu = nn.GELU(approximate="tanh" if is_causal else "none")
        self.body = nn.Sequential(nn.Linear(width, 4 * width), gelu, nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        if self.before:
            x = x + self.attention(self.norms[0](x))
            return x + self.body(self.norms[1](x))
        x = self.norms[0](x + self.attention(x))
        return self.norms[1](x + self.body(x))


class Transformer(nn.Module):
    """Embeddings of tokens and places, layers, and logits where there is a vocabulary to predict."""

    def __init__(self, words: int, length: int, width: int, heads: int, layers: int, is_causal: bool) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width, heads, is_causal, is_causal) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.logits = nn.Linear(width, words, bias=False) if is_causal else nn.Identity()
        for p in self.parameters():
            if p.ndim > 1:
                nn.init.normal_(p, std=0.3 / math.sqrt(p.shape[-1]) if p.shape[0] != words else 0.3)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        if not self.layers[0].before:
            x = self.norm(x)
        for layer in self.layers:
            x = layer(x)
        return self.logits(self.norm(x) if self.layers[0].before else x)


def bert(small: bool) -> nn.Module:
    """Return an encoder of the shape of BERT-base (Devlin et al. 2019), on 128 tokens."""
    return Transformer(100, 16, 32, 2, 2, False) if small else Transformer(30522, 128, 768, 12, 12, False)


def gpt(small: bool) -> nn.Module:
    """Return a decoder of the shape of GPT-2 small (Radford et al. 2019), on 64 tokens."""
    return Transformer(100, 16, 32, 2, 2, True) if small else Transformer(50257, 64, 768, 12, 12, True)


class Tagger(nn.Module):
    """A tagger: embeddings, a bidirectional LSTM of two layers, a tag for each word (Huang et al. 2015)."""

    def __init__(self, words: int, width: int, hidden: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(2 * hidden, 17)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.tags(self.lstm(self.words(tokens))[0])


def tagger(small: bool) -> nn.Module:
    """Return the tagger."""
    return Tagger(100, 16, 16) if small else Tagger(10000, 128, 256)


def tokens(small: bool, batch: int, length: int = 64) -> tuple[Tensor, ...]:
    """Return a batch of sequences of words."""
    return (torch.randint(0, 100, (batch, 16 if small else length)),)


def mlp(small: bool) -> nn.Module:
    """Return a network of three layers."""
    sizes = (20, 16, 16, 10) if small else (784, 512, 256, 10)
    a, b, c, d = sizes
    return nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, c), nn.ReLU(), nn.Linear(c, d))


def rows(small: bool, batch: int) -> tuple[Tensor, ...]:
    """Return a batch of rows."""
    return (torch.randn(batch, 20 if small else 784),)


NETWORKS = [
    Network("ResNet-18", resnet, images),
    Network("MobileNetV2", mobilenet, images),
    Network("EfficientNet-B0", efficientnet, images),
    Network("U-Net", unet, lambda small, batch: images(small, batch, 128)),
    Network("BERT-base, 128 tokens", bert, lambda small, batch: tokens(small, batch, 128)),
    Network("GPT-2 small, 64 tokens", gpt, tokens),
    Network("LSTM tagger, 64 words", tagger, tokens),
    Network("MLP", mlp, rows),
]


def made(network: Network, small: bool) -> nn.Module:
    """Return a network with random weights from a fixed seed, its batch norms with statistics of random images."""
    torch.manual_seed(0)
    module = network.make(small)
    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.normal_(norm.bias, std=0.1)
    if norms:
        module.train()
        with torch.no_grad():
            module(*network.inputs(small, 4))
    return module.eval()


def exported(module: nn.Module, inputs: tuple[Tensor, ...]) -> bytes:
    """Return the ONNX document that PyTorch's exporter makes of a network at the inputs' shapes."""
    # The exporter asks for torchvision's operators, where that can be imported: none of them is in these networks, and
    # a torchvision of another PyTorch fails otherwise than by being absent.
    sys.modules.setdefault("torchvision", None)  # type: ignore[arg-type]
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    file = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(module, inputs, dynamo=True, verbose=False)
        assert program is not None
        program.save(file)
    return file.getvalue()
