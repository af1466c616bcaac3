"""Classify the embedded handwritten digits with a network written as plain functions.

The parameters are a dict, the gradient a function of a function: no modules, no optimiser object.

    python examples/digits.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import wengert as wg


def init(sizes: list[int]) -> dict[str, wg.Tensor]:
    """He-scaled weights and zero biases for layers of the given sizes."""
    params = {}
    for i, (n, m) in enumerate(zip(sizes, sizes[1:], strict=False)):
        params[f"w{i}"] = wg.randn(n, m) * (2 / n) ** 0.5
        params[f"b{i}"] = wg.zeros(m)
    return params


def logits(params: dict[str, wg.Tensor], x: wg.Tensor) -> wg.Tensor:
    """The network: affine maps with ReLU between."""
    layers = len(params) // 2
    for i in range(layers):
        x = x @ params[f"w{i}"] + params[f"b{i}"]
        if i < layers - 1:
            x = wg.relu(x)
    return x


def loss(params: dict[str, wg.Tensor], x: wg.Tensor, y: wg.Tensor) -> wg.Tensor:
    """Mean cross-entropy, with a little weight decay."""
    decay = sum((p**2).sum() for name, p in params.items() if name.startswith("w"))
    return wg.nn.functional.cross_entropy(logits(params, x), y) + 1e-4 * decay


def main() -> None:
    parser = argparse.ArgumentParser(description="Classify handwritten digits with plain functions.")
    parser.add_argument("--epochs", type=int, default=60, help="passes over the training images (default %(default)s)")
    parser.add_argument("--lr", type=float, default=0.1, help="step size (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of split, start and order (default %(default)s)")
    parser.add_argument(
        "--out", type=Path, default=Path("digits.svg"), help="picture of the loss (default %(default)s)"
    )
    args = parser.parse_args()

    wg.manual_seed(args.seed)
    images, labels = wg.data.load_digits()
    order = np.random.default_rng(args.seed).permutation(len(images))
    x, y = images.reshape(-1, 64)[order], labels[order]
    train, test = slice(360, None), slice(0, 360)

    params = init([64, 64, 10])
    velocity = wg.tree.map(wg.zeros_like, params)
    value_and_grad = wg.value_and_grad(loss)
    curve = []
    for epoch in (bar := wg.train.progress(range(args.epochs), "training")):
        for xb, yb in wg.data.batches(x[train], y[train], size=32, shuffle=True, seed=args.seed + epoch):
            value, grads = value_and_grad(params, xb, yb)
            velocity = wg.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
            params = wg.tree.map(lambda p, v: p - args.lr * 0.2 * v, params, velocity)
            curve.append(value.item())
        bar.note(f"loss {curve[-1]:.3f}")

    right = (wg.argmax(logits(params, wg.asarray(x[test])), axis=-1) == wg.asarray(y[test])).tolist()
    print(f"{sum(right) / len(right):.2%} of {len(right)} held-out images right")
    args.out.write_text(wg.train.line_chart({"loss": curve}, title="Digits", y_label="loss (nats)", log_y=True))
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
