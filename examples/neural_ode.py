"""Fit a neural differential equation to a spiral.

A small network gives the velocity of a point in the plane; its paths are compared with pieces of a spiral
(Chen et al. 2018, Neural ordinary differential equations).

python examples/neural_ode.py
python examples/neural_ode.py --adjoint continuous --steps 400
python examples/neural_ode.py --jit
"""

from __future__ import annotations

import argparse
import statistics
import time
import timeit
from functools import partial

import numpy as np

import wengert as wg
from wengert import nn
from wengert.solve import odeint

TRUE = np.array([[-0.1, 2.0], [-2.0, -0.1]])


class Velocity(nn.Module):
    """The velocity at a point, from its cubes, as in the equation that the data come from."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inside = nn.Linear(2, width)
        self.outside = nn.Linear(width, 2)

    def forward(self, y: wg.Tensor) -> wg.Tensor:
        velocity: wg.Tensor = self.outside(wg.tanh(self.inside(y**3)))
        return velocity


def text_chart(paths: dict[str, np.ndarray], width: int = 60, height: int = 21) -> str:
    """Points of the plane as characters, the later names over the earlier ones."""
    points = np.concatenate(list(paths.values()))
    low, high = points.min(0), points.max(0)
    rows = [[" "] * width for _ in range(height)]
    for mark, path in paths.items():
        at = (path - low) / (high - low) * (width - 1, height - 1)
        for x, y in np.rint(at).astype(int):
            rows[height - 1 - y][x] = mark
    return "\n".join("".join(row).rstrip() for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit a neural differential equation to a spiral.")
    parser.add_argument("--steps", type=int, default=300, help="training steps (default %(default)s)")
    parser.add_argument("--batch", type=int, default=32, help="pieces of the spiral in a step (default %(default)s)")
    parser.add_argument("--width", type=int, default=32, help="hidden units (default %(default)s)")
    parser.add_argument("--lr", type=float, default=1e-2, help="step size of Adam (default %(default)s)")
    parser.add_argument(
        "--adjoint",
        choices=["discretise", "checkpointed", "continuous"],
        default="discretise",
        help="how gradients are computed (default %(default)s)",
    )
    parser.add_argument(
        "--method",
        choices=["tsit5", "rk4"],
        default="tsit5",
        help="tsit5 chooses its steps, rk4 takes one between any two points (default %(default)s)",
    )
    parser.add_argument("--jit", action="store_true", help="compile the training step")
    parser.add_argument("--seed", type=int, default=0, help="seed of start and order (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a short run")
    args = parser.parse_args()
    steps = 60 if args.quick else args.steps

    wg.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    ts = np.linspace(0, 10, 201)
    start = wg.tensor([2.0, 0.0])
    true = wg.asarray(TRUE.astype(np.float32))
    spiral = odeint(lambda t, y: (y**3) @ true, start, ts).numpy()

    model = Velocity(args.width)
    for layer in (model.inside, model.outside):
        nn.init.normal_(layer.weight, std=0.1)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    optimizer = wg.optim.Adam(model.parameters(), lr=args.lr)
    length = 10

    def whole() -> np.ndarray:
        with wg.no_grad():
            path: wg.Tensor = odeint(lambda t, y: model(y), start, ts, max_steps=100_000)
        return path.numpy()

    def distance() -> float:
        return float(np.abs(whole() - spiral).mean())

    how = {"method": args.method, "adjoint": args.adjoint}
    if args.method == "tsit5":
        how |= {"rtol": 1e-3, "atol": 1e-4}

    def step(pieces: wg.Tensor) -> wg.Tensor:
        path: wg.Tensor = odeint(lambda t, y: model(y), pieces[0], ts[:length], **how)
        loss = abs(path - pieces).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    train = wg.jit(step) if args.jit else step
    first = distance()
    print(f"mean distance to the spiral {first:.3f} before, {sum(p.size for p in model.parameters())} parameters")
    began = time.perf_counter()
    for i in (bar := wg.train.progress(range(steps), "training")):
        at = rng.integers(0, len(ts) - length, args.batch)
        pieces = spiral[at[:, None] + np.arange(length)].transpose(1, 0, 2)
        loss = train(wg.asarray(pieces)).item()
        bar.note(f"loss {loss:.4f}")
        if i % max(steps // 6, 1) == 0:
            print(f"step {i:4d}  loss {loss:.4f}")
    seconds = time.perf_counter() - began

    last = distance()
    print(text_chart({".": spiral, "o": whole()}))
    print(". the spiral   o the fitted equation's path")
    print(f"mean distance to the spiral {last:.3f} after {steps} steps, {seconds:.1f} s with adjoint {args.adjoint}")
    if args.jit:
        eager, compiled = (
            statistics.median(timeit.repeat(partial(lambda f: f(wg.asarray(pieces)), f), number=1, repeat=9))
            for f in (step, train)
        )
        ratio = f"{eager / compiled:.1f} times as long"
        print(f"a step takes {compiled * 1e3:.2f} ms, without --jit {eager * 1e3:.2f}: {ratio}")
    if not last < 0.7 * first:
        parser.exit(1, f"neural_ode: the fit failed: {first:.3f} became {last:.3f}\n")


if __name__ == "__main__":
    main()
