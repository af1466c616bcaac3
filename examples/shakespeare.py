"""Train a character-level transformer on a text and let it write.

python examples/shakespeare.py --data input.txt
python examples/shakespeare.py --data input.txt --steps 3000 --width 128 --jit
python examples/shakespeare.py --data input.txt --ranks 4 --shard fsdp
python examples/shakespeare.py --data input.txt --resume run
"""

from __future__ import annotations

import argparse
import io
import statistics
import sys
import time
import timeit
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert import nn


class Block(nn.Module):
    """Causal self-attention and a two-layer network, each behind a norm and beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        batch, length, width = x.shape
        heads = self.qkv(self.norm1(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        mixed = wg.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mix(mixed.permute(0, 2, 1, 3).reshape(batch, length, width))
        narrow: wg.Tensor = self.down(wg.nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return x + narrow


class Model(nn.Module):
    """Characters (batch, length) to logits of the next ones (batch, length, vocabulary)."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.length = length
        self.characters = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)
        for p in (self.characters.weight, self.positions.weight):
            nn.init.normal_(p, std=0.02)

    def forward(self, ids: wg.Tensor) -> wg.Tensor:
        x: wg.Tensor = self.characters(ids) + self.positions(wg.arange(ids.shape[1]))
        scores: wg.Tensor = self.head(self.norm(self.blocks(x)))
        return scores


def sample(model: Model, start: np.ndarray, count: int, temperature: float, rng: np.random.Generator) -> np.ndarray:
    """`count` more characters after `start`, drawn from the model."""
    ids = start
    with wg.no_grad():
        for _ in range(count):
            logits = np.asarray(model(wg.asarray(ids[None, -model.length :])))[0, -1] / temperature
            p = np.exp(logits - logits.max())
            ids = np.append(ids, rng.choice(len(p), p=p / p.sum()))
    return ids


def on_ranks(step: Callable[[wg.Tensor], wg.Tensor], model: Model, ranks: int, shard: str) -> Any:
    """The step as a program for so many ranks: the batch, and whatever else `shard` says, in parts."""
    dist = wg.distribute
    if shard == "pipeline":
        return dist.jit(step, mesh=dist.Mesh(pipe=ranks), in_specs=(None,), pipeline=dist.Pipeline("pipe", 2 * ranks))
    mesh = dist.Mesh(data=ranks)
    if shard == "fsdp":
        dist.shard(model, mesh, fsdp="data")
    return dist.jit(step, mesh=mesh, in_specs=("data",), zero="data" if shard == "zero" else None)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a character-level transformer on a text.")
    parser.add_argument("--data", type=Path, required=True, help="a text file")
    parser.add_argument("--steps", type=int, default=1500, help="training steps (default %(default)s)")
    parser.add_argument("--batch", type=int, default=16, help="sequences in a step (default %(default)s)")
    parser.add_argument("--length", type=int, default=64, help="characters in a sequence (default %(default)s)")
    parser.add_argument("--width", type=int, default=96, help="width of the model (default %(default)s)")
    parser.add_argument("--heads", type=int, default=4, help="attention heads (default %(default)s)")
    parser.add_argument("--depth", type=int, default=2, help="blocks (default %(default)s)")
    parser.add_argument("--lr", type=float, default=3e-3, help="peak learning rate of AdamW (default %(default)s)")
    parser.add_argument("--jit", action="store_true", help="compile the training step")
    parser.add_argument("--ranks", type=int, default=1, help="processes that train, by MPI (default %(default)s)")
    parser.add_argument(
        "--shard",
        choices=["data", "zero", "fsdp", "pipeline"],
        default="data",
        help="what ranks have parts of: the batch; optimiser state, parameters too; the layers (default %(default)s)",
    )
    parser.add_argument("--resume", type=Path, metavar="DIR", help="folder to keep the run in, and to go on from")
    parser.add_argument("--seed", type=int, default=0, help="seed of start and order (default %(default)s)")
    parser.add_argument("--sample", type=int, default=300, help="characters to write (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("shakespeare.svg"), help="picture of the loss")
    args = parser.parse_args()
    if args.ranks > wg.distribute.size():
        # This script again, on as many ranks.
        sys.exit(wg.distribute.launch(args.ranks, __file__, sys.argv[1:]))
    is_first = wg.distribute.rank() == 0
    if not is_first:  # the first rank tells and writes
        sys.stdout = sys.stderr = io.StringIO()

    wg.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    try:
        text = args.data.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        parser.exit(1, f"shakespeare: {args.data} cannot be read as text: {e}\n")
    if len(text) < 20 * args.length:
        parser.exit(1, f"shakespeare: {args.data} has {len(text)} characters: too few for --length {args.length}\n")
    letters = sorted(set(text))
    ids = np.searchsorted(letters, list(text))
    cut = len(ids) * 9 // 10
    train, held_out = ids[:cut], ids[cut:]
    windows = np.arange(args.length + 1)

    model = Model(len(letters), args.length, args.width, args.heads, args.depth)
    optimizer = wg.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.1, betas=(0.9, 0.99))
    schedule = wg.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.steps, pct_start=0.1)
    print(
        f"{len(train):,} characters, {len(letters)} different; {sum(p.size for p in model.parameters()):,} parameters"
    )

    def loss_of(model: nn.Module, rows: wg.Tensor) -> wg.Tensor:
        x, y = rows[:, :-1], rows[:, 1:]
        return wg.nn.functional.cross_entropy(model(x).reshape(-1, len(letters)), y.reshape(-1))

    def step(rows: wg.Tensor) -> wg.Tensor:
        loss = loss_of(model, rows)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    def draw() -> wg.Tensor:
        starts = rng.integers(0, len(train) - args.length - 1, args.batch)
        return wg.asarray(train[starts[:, None] + windows])

    def held_out_loss(trained: nn.Module) -> float:
        starts = np.arange(0, len(held_out) - args.length - 1, args.length)
        with wg.no_grad():
            pieces = [
                (loss_of(trained, wg.asarray(held_out[s[:, None] + windows])).item(), len(s))
                for s in np.array_split(starts, -(-len(starts) // 64))
            ]
        return float(sum(loss * n for loss, n in pieces) / sum(n for _, n in pieces))

    run = wg.jit(step) if args.jit else step
    if args.ranks > 1:
        run = on_ranks(step, model, args.ranks, args.shard)
    state = {"model": model, "optimizer": optimizer, "draws": rng}
    settings = {name: getattr(args, name) for name in ("length", "width", "heads", "depth")}
    made_of = {"settings": settings, "letters": letters}
    # All ranks save and load together; a process alone does so too.
    found = wg.distribute.load_checkpoint(args.resume) if args.resume else None
    if found:
        other = [f"--{name} {value}" for name, value in found["settings"].items() if value != settings[name]]
        other += ["another text"] * (found["letters"] != letters)
        if other:
            parser.exit(1, f"shakespeare: {args.resume} has a run with {', '.join(other)}: name another folder\n")
        wg.distribute.load_checkpoint(args.resume, **state)
    curve: list[float] = list(found["curve"]) if found else []
    # The rates go by --steps, which may be others than before.
    schedule.restart()
    for _ in curve[: args.steps]:
        schedule.step()
    begun = len(curve)
    started = time.perf_counter()
    for i in (bar := wg.train.progress(range(len(curve), args.steps), "training")):
        curve.append(run(draw()).item())
        schedule.step()
        bar.note(f"loss {curve[-1]:.3f}")
        if args.resume and ((i + 1) % 100 == 0 or i + 1 == args.steps):
            wg.distribute.save_checkpoint(args.resume, step=i + 1, keep=2, curve=curve, **made_of, **state)
    seconds = time.perf_counter() - started

    trained = wg.distribute.whole(model)
    print(f"last loss {curve[-1]:.4f}; held-out loss {held_out_loss(trained):.3f} nats a character")
    print(f"{seconds:.0f} s, {seconds / max(1, len(curve) - begun) * 1e3:.1f} ms a step\n")
    start = np.searchsorted(letters, list("\n")) if "\n" in letters else train[:1]
    print("".join(letters[i] for i in sample(trained, start, args.sample, 0.8, rng)).strip())
    picture = wg.train.line_chart({"loss": curve}, title="Characters", y_label="nats a character")
    if is_first:
        args.out.write_text(picture)
    print(f"\nwrote {args.out}")
    if args.jit and args.ranks == 1:
        eager, compiled = (
            statistics.median(timeit.repeat(partial(lambda f: f(draw()), f), number=1, repeat=9)) for f in (step, run)
        )
        ratio = f"{eager / compiled:.1f} times as long"
        print(f"a step takes {compiled * 1e3:.2f} ms, without --jit {eager * 1e3:.2f}: {ratio}")


if __name__ == "__main__":
    main()
