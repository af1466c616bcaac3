"""Evaluate expressions like `max(3, min(7, 2))` with a network that has their shape (Tai, Socher & Manning 2015).

Every operation has its two arguments' states from below and gives its own to the one above. The program runs through
one expression after the other; `wg.autobatch` computes what is alike in a batch together (Looks et al. 2017, Neubig
et al. 2017). The expressions are made here; trained on at most four levels, the network is asked for seven.

    python examples/tree_lstm.py
    python examples/tree_lstm.py --levels 5 --steps 3000

Where `import torch` stands in place of `import wengert.torch as torch`, PyTorch runs this program.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
import wengert.torch as torch

nn, F = torch.nn, torch.nn.functional
OPERATIONS = {"max": max, "min": min, "first": lambda a, b: a, "not equal": lambda a, b: int(a != b)}
NAMES, FUNCTIONS = list(OPERATIONS), list(OPERATIONS.values())
Tree = int | tuple[int, "Tree", "Tree"]  # a digit, or the number of an operation with its arguments
State = tuple[torch.Tensor, torch.Tensor]  # and memory
Run = Callable[[list[Tree]], torch.Tensor]  # from expressions to logits (n, 10)
# PyTorch has no automatic batching: it runs this program one expression after the other.
HAS_BATCHES = issubclass(torch.Tensor, wg.Tensor)
cell = wg.cell if HAS_BATCHES else lambda fn: fn


def make_tree(levels: int, rng: np.random.Generator) -> Tree:
    """An expression of just so many levels: one argument of each operation may have fewer."""
    if levels == 0:
        return int(rng.integers(10))
    arguments = [make_tree(levels - 1, rng), make_tree(int(rng.integers(levels)), rng)]
    if rng.random() < 0.5:
        arguments.reverse()
    return int(rng.integers(len(FUNCTIONS))), arguments[0], arguments[1]


def value(tree: Tree) -> int:
    """What an expression is worth: a digit."""
    return tree if isinstance(tree, int) else FUNCTIONS[tree[0]](value(tree[1]), value(tree[2]))


def text(tree: Tree) -> str:
    return str(tree) if isinstance(tree, int) else f"{NAMES[tree[0]]}({text(tree[1])}, {text(tree[2])})"


class TreeLSTM(nn.Module):
    """An expression to logits of its value (10)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.digits = nn.Embedding(10, 2 * width)  # state and memory of each
        self.operations = nn.Embedding(len(FUNCTIONS), 2 * width)
        self.gates = nn.Sequential(nn.Linear(4 * width, 4 * width), nn.ReLU(), nn.Linear(4 * width, 5 * width))
        self.out = nn.Linear(width, 10)

    @cell
    def leaf(self, digit: torch.Tensor) -> State:
        return self.digits(digit).chunk(2, dim=-1)

    @cell
    def combine(self, operation: torch.Tensor, left: State, right: State) -> State:
        gates = self.gates(torch.cat([self.operations(operation), left[0], right[0]], dim=-1))
        update, *openings = gates.chunk(5, dim=-1)
        enter, leave, keep_left, keep_right = (torch.sigmoid(x) for x in openings)
        memory = enter * torch.tanh(update) + keep_left * left[1] + keep_right * right[1]
        return leave * torch.tanh(memory), memory

    def state(self, tree: Tree) -> State:
        if isinstance(tree, int):
            return self.leaf(torch.tensor(tree))
        return self.combine(torch.tensor(tree[0]), self.state(tree[1]), self.state(tree[2]))

    def forward(self, tree: Tree) -> torch.Tensor:
        return self.out(self.state(tree)[0])


def each(model: TreeLSTM, batched: bool) -> Run:
    """Return what gives the logits of many expressions (n, 10)."""
    run = wg.autobatch(model) if batched else lambda trees: [model(tree) for tree in trees]
    return lambda trees: torch.stack(run(trees))


def step(run: Run, model: TreeLSTM, optimizer: Any, trees: list[Tree], values: torch.Tensor) -> torch.Tensor:
    """Make a training step; return the loss before it."""
    optimizer.zero_grad()
    loss = F.cross_entropy(run(trees), values)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


def accuracy(run: Callable[[list[Tree]], torch.Tensor], levels: int, count: int, rng: np.random.Generator) -> float:
    """The part of new expressions of so many levels that the network evaluates rightly."""
    trees = [make_tree(levels, rng) for _ in range(count)]
    with torch.no_grad():
        found = run(trees).argmax(dim=1).numpy()
    return float((found == [value(t) for t in trees]).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description="Evaluate expressions with a network that has their shape.")
    parser.add_argument("--steps", type=int, default=1500, help="training steps (default %(default)s)")
    parser.add_argument("--batch", type=int, default=64, help="expressions in a step (default %(default)s)")
    parser.add_argument("--levels", type=int, default=4, help="levels to train on (default %(default)s)")
    parser.add_argument("--width", type=int, default=32, help="units of a state (default %(default)s)")
    parser.add_argument("--lr", type=float, default=5e-3, help="peak learning rate of Adam (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of expressions and start (default %(default)s)")
    parser.add_argument("--eager", action="store_true", help="run one expression after the other")
    parser.add_argument("--smoke", action="store_true", help="a short run")
    parser.add_argument("--out", type=Path, default=Path("tree_lstm.svg"), help="picture of accuracy by levels")
    args = parser.parse_args()
    if args.smoke:
        args.steps, args.levels = 120, 2

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    model = TreeLSTM(args.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.steps, pct_start=0.1)

    run = each(model, HAS_BATCHES and not args.eager)

    curves: dict[str, list[tuple[float, float]]] = {}
    started = time.perf_counter()
    for done in (bar := wg.train.progress(range(1, args.steps + 1), "training")):
        trees = [make_tree(int(rng.integers(1, args.levels + 1)), rng) for _ in range(args.batch)]
        loss = step(run, model, optimizer, trees, torch.tensor([value(t) for t in trees]))
        schedule.step()
        bar.note(f"loss {loss.item():.3f}")
        if done in (args.steps // 10, args.steps // 4, args.steps):
            curves[f"{done} steps"] = [(n, accuracy(run, n, 200, rng)) for n in range(1, args.levels + 4)]
    seconds = time.perf_counter() - started

    for levels, right in curves[f"{args.steps} steps"]:
        seen = "" if levels <= args.levels else ", none of which were in training"
        print(f"{right:.1%} of 200 new expressions of {levels} levels right{seen}")
    print(f"{seconds:.1f} s, {seconds / args.steps * 1e3:.1f} ms a step")
    tree = make_tree(args.levels, rng)
    print(f"for example {text(tree)} = {value(tree)}")
    picture = wg.train.line_chart(curves, title="Expressions", x_label="levels", y_label="share right")
    args.out.write_text(picture)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
