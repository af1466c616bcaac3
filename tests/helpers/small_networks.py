"""Small networks and their training steps, for tests of many ranks and for the ranks themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wengert as wg
from wengert import nn


def squares(y: Any) -> Any:
    """The mean of squares, a loss that needs no labels."""
    return (y**2).mean()


def training(model: Any, optimizer: Any, loss_of: Callable[..., Any] = squares) -> Callable[..., Any]:
    """A step of training: the loss of what the model gives for a batch, gradients, an update."""

    def step(x: Any, *labels: Any) -> Any:
        loss = loss_of(model(x), *labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def chain(*sizes: int) -> nn.Sequential:
    """Linear maps with a tanh between two of them."""
    maps = [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:], strict=False)]
    return nn.Sequential(*[m for linear in maps for m in (linear, nn.Tanh())][:-1])


def tower(blocks: int, width: int) -> nn.Sequential:
    """Blocks of one width, each a linear map and a tanh: stages of a pipeline."""
    return nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(blocks)))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Dropout(0.3), nn.Linear(8, 4))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Flatten(),
        nn.Linear(8 * 9, 4),
    )


class Block(nn.Module):
    """A small transformer for sequences of tokens: embedding, causal attention, classes for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.norm = nn.LayerNorm(8)
        self.query, self.key, self.value = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.out = nn.Linear(8, 8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(8, 4)

    def forward(self, tokens: Any) -> Any:
        x = self.embed(tokens)
        h = self.norm(x)
        heads = [f(h).reshape(*h.shape[:2], 4, 2) for f in (self.query, self.key, self.value)]
        heads = [wg.permute_dims(x, (0, 2, 1, 3)) for x in heads]
        seen = wg.permute_dims(nn.functional.scaled_dot_product_attention(*heads, is_causal=True), (0, 2, 1, 3))
        x = x + self.drop(self.out(seen.reshape(*h.shape)))
        x = x + self.down(nn.functional.gelu(self.up(x)))
        return self.head(x).reshape(-1, 4)


class Experts(nn.Module):
    """A layer of four experts, one for each token by its gate, between two others."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.gate, self.outer = nn.Linear(6, 8), nn.Linear(8, 4), nn.Linear(8, 4)
        self.experts = nn.Parameter(wg.randn(4, 8, 8) / 3)

    def forward(self, x: Any) -> Any:
        h = wg.tanh(self.inner(x))
        weights = wg.softmax(self.gate(h), axis=-1)
        chosen = nn.functional.one_hot(wg.argmax(weights, axis=-1), 4).astype(h.dtype)
        sent = wg.einsum("te,td->etd", chosen, h)
        given = wg.einsum("te,etd->td", chosen * weights, wg.tanh(sent @ self.experts))
        return self.outer(h + given)


class Layer(nn.Module):
    """A layer of a GPT: causal attention by one projection, and two linear maps."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(8), nn.LayerNorm(8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        heads = wg.permute_dims(self.qkv(self.before(x)).reshape(*x.shape[:2], 3, 2, 4), (2, 0, 3, 1, 4))
        seen = nn.functional.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        x = x + self.drop(self.out(wg.permute_dims(seen, (0, 2, 1, 3)).reshape(*x.shape)))
        return x + self.drop(self.down(nn.functional.gelu(self.up(self.after(x)))))


class GPT(nn.Module):
    """A small GPT as nanoGPT has it: two layers, places of tokens, the embedding as the last layer's weights too."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place, self.drop = nn.Embedding(12, 8), nn.Embedding(8, 8), nn.Dropout(0.1)
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.norm = nn.LayerNorm(8)

    def forward(self, tokens: Any) -> Any:
        x = self.drop(self.embed(tokens) + self.place(wg.arange(tokens.shape[1])))
        for layer in self.layers:
            x = layer(x)
        return (self.norm(x) @ self.embed.weight.T).reshape(-1, 12)
