"""Fit a line to points of 3x + 7, by gradient descent written out.

python examples/linear.py
python examples/linear.py --steps 500 --lr 0.05 --noise 0.5
"""

from __future__ import annotations

import argparse
from pathlib import Path

import wengert as wg


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit a line to points of 3x + 7.")
    parser.add_argument("--steps", type=int, default=200, help="steps of gradient descent (default %(default)s)")
    parser.add_argument("--lr", type=float, default=0.1, help="step size (default %(default)s)")
    parser.add_argument(
        "--noise", type=float, default=0.1, help="standard deviation of the noise (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the data and the start (default %(default)s)")
    parser.add_argument(
        "--out", type=Path, default=Path("linear.svg"), help="picture of the loss (default %(default)s)"
    )
    args = parser.parse_args()

    wg.manual_seed(args.seed)
    x = wg.linspace(-2, 2, 100)
    y = 3 * x + 7 + args.noise * wg.randn(100)

    w = wg.randn((), requires_grad=True)
    b = wg.zeros((), requires_grad=True)
    losses = []
    for _ in (bar := wg.train.progress(range(args.steps), "fitting")):
        loss = ((w * x + b - y) ** 2).mean()
        loss.backward()
        with wg.no_grad():
            w -= args.lr * w.grad
            b -= args.lr * b.grad
            w.grad = b.grad = None
        losses.append(loss.item())
        bar.note(f"loss {losses[-1]:.4f}")

    print(f"y = {w.item():.3f} x + {b.item():.3f}   (loss {losses[-1]:.5f})")
    args.out.write_text(
        wg.train.line_chart({"loss": losses}, title="Fitting 3x + 7", y_label="mean square", log_y=True)
    )
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
