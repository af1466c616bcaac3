"""Training steps of the four examples against PyTorch eager: same weights, same batch, same optimiser."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import Case
from peers import torch_module

import wengert as wg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import mnist
import shakespeare


def torch_mnist(kind: str) -> Any:
    """The networks of examples/mnist.py, in PyTorch."""
    nn = torch_module().nn
    if kind == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
    )  # fmt: skip


def torch_digits() -> Any:
    """The network of examples/digits.py and of the demo, in PyTorch."""
    nn = torch_module().nn
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def torch_shakespeare(vocabulary: int, length: int, width: int, heads: int, depth: int) -> Any:
    """The model of examples/shakespeare.py, in PyTorch."""
    torch = torch_module()
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1 = nn.LayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width)
            self.mix = nn.Linear(width, width)
            self.norm2 = nn.LayerNorm(width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            q, k, v = self.qkv(self.norm1(x)).reshape(b, t, 3, heads, c // heads).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.mix(mixed.permute(0, 2, 1, 3).reshape(b, t, c))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.characters = nn.Embedding(vocabulary, width)
            self.positions = nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(depth)))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary)

        def forward(self, ids: Any) -> Any:
            x = self.characters(ids) + self.positions(torch.arange(ids.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    return Model()


def case(name: str, model: Any, peer: Callable[[], Any], x: np.ndarray, y: np.ndarray, classes: int) -> Case:
    """Forward, loss, backward and AdamW on one batch."""
    start = {k: np.asarray(v).copy() for k, v in model.state_dict().items()}
    double = {k: v.astype(np.float64) for k, v in start.items()}
    torch = torch_module()
    contenders: dict[str, Callable[[], Any]] = {}
    results: dict[str, Callable[[], list[np.ndarray]]] = {}

    def gradient(m: Any, inputs: Any) -> list[np.ndarray]:
        m.zero_grad()
        loss = wg.nn.functional.cross_entropy(m(wg.asarray(inputs)).reshape(-1, classes), wg.asarray(y.reshape(-1)))
        loss.backward()
        return [np.asarray(loss.detach()), *(np.asarray(p.grad) for p in m.parameters())]

    optimizer = wg.optim.AdamW(model.parameters(), lr=1e-4)
    xw, yw = wg.asarray(x), wg.asarray(y.reshape(-1))

    def step() -> None:
        loss = wg.nn.functional.cross_entropy(model(xw).reshape(-1, classes), yw)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    contenders["wengert"] = step
    results["wengert"] = lambda: gradient(model, x)
    model.to(wg.float64)
    model.load_state_dict({k: wg.tensor(v) for k, v in double.items()})
    reference = gradient(model, x.astype(np.float64) if x.dtype.kind == "f" else x)
    model.to(wg.float32)
    model.load_state_dict({k: wg.tensor(v) for k, v in start.items()})
    if torch is not None:
        other = peer()
        other.load_state_dict({k: torch.tensor(v) for k, v in start.items()})
        peer_optimizer = torch.optim.AdamW(other.parameters(), lr=1e-4)
        xt, yt = torch.tensor(x), torch.tensor(y.reshape(-1))
        cross_entropy = torch.nn.functional.cross_entropy

        def peer_step() -> None:
            loss = cross_entropy(other(xt).reshape(-1, classes), yt)
            peer_optimizer.zero_grad()
            loss.backward()
            peer_optimizer.step()

        def peer_gradient() -> list[np.ndarray]:
            other.zero_grad()
            loss = cross_entropy(other(xt).reshape(-1, classes), yt)
            loss.backward()
            return [loss.detach().numpy(), *(p.grad.numpy() for p in other.parameters())]

        contenders["torch"] = peer_step
        results["torch"] = peer_gradient
    return Case(name, contenders, results, [np.asarray(r, np.float64) for r in reference], tolerance=1e-3)


def line_case() -> Case:
    """The step of examples/linear.py: 100 points, gradient descent by hand."""
    x64 = np.linspace(-2, 2, 100)
    x, y = x64.astype(np.float32), (3 * x64 + 7).astype(np.float32)
    contenders: dict[str, Callable[[], Any]] = {}
    results: dict[str, Callable[[], list[np.ndarray]]] = {}
    for name, lib in (("wengert", wg), ("torch", torch_module())):
        if lib is None:
            continue
        state = {"w": lib.zeros((), requires_grad=True), "b": lib.zeros((), requires_grad=True)}

        def step(
            lib: Any = lib, state: Any = state, xs: Any = lib.tensor(x), ys: Any = lib.tensor(y)
        ) -> list[np.ndarray]:
            w, b = state["w"], state["b"]
            loss = ((w * xs + b - ys) ** 2).mean()
            loss.backward()
            found = [np.asarray(loss.detach()), np.asarray(w.grad), np.asarray(b.grad)]
            with lib.no_grad():
                w -= 1e-3 * w.grad
                b -= 1e-3 * b.grad
                w.grad = b.grad = None
            return found

        contenders[name] = step
        # The first step starts at zero for all, so that it can be checked.
        first = step()
        results[name] = lambda first=first: first
    residual = -(3 * x64 + 7)
    reference = [np.mean(residual**2), np.mean(2 * residual * x64), np.mean(2 * residual)]
    return Case("linear", contenders, results, [np.asarray(r) for r in reference])


def cases() -> list[Case]:
    """The four examples' steps, on data of their shapes."""
    rng = np.random.default_rng(0)
    wg.manual_seed(0)
    images, labels = wg.data.load_digits()
    out = [line_case()]
    digits = wg.nn.Sequential(wg.nn.Linear(64, 64), wg.nn.ReLU(), wg.nn.Linear(64, 10))
    out.append(case("digits, batch 32", digits, torch_digits, images[:32].reshape(-1, 64), labels[:32], 10))
    pixels = rng.random((64, 1, 28, 28), np.float32)
    classes = rng.integers(0, 10, 64)
    mlp = mnist.make_model("mlp")
    out.append(case("mnist mlp, batch 64", mlp, lambda: torch_mnist("mlp"), pixels, classes, 10))
    out.append(case("mnist cnn, batch 64", mnist.make_model("cnn"), lambda: torch_mnist("cnn"), pixels, classes, 10))
    ids = rng.integers(0, 65, (16, 65))
    sizes = (65, 64, 96, 4, 2)
    out.append(
        case(
            "shakespeare, batch 16 x 64",
            shakespeare.Model(*sizes),
            lambda: torch_shakespeare(*sizes),
            ids[:, :-1].copy(),
            ids[:, 1:].copy(),
            65,
        )
    )
    return out
