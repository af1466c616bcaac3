"""Train the model of examples/shakespeare.py in PyTorch: the same start, batches, optimiser and schedule.

The start and the batches come from Wengert's and NumPy's generators with the example's seed, so the losses can be
laid beside those that the example prints.

python examples/shakespeare.py --data input.txt --jit
python benchmarks/characters.py --data input.txt
python benchmarks/characters.py --data input.txt --compile
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import models
import numpy as np
import shakespeare
import torch

import wengert as wg


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the model of examples/shakespeare.py in PyTorch.")
    parser.add_argument("--data", type=Path, required=True, help="a text file")
    parser.add_argument("--steps", type=int, default=1500, help="training steps (default %(default)s)")
    parser.add_argument("--batch", type=int, default=16, help="sequences in a step (default %(default)s)")
    parser.add_argument("--length", type=int, default=64, help="characters in a sequence (default %(default)s)")
    parser.add_argument("--width", type=int, default=96, help="width of the model (default %(default)s)")
    parser.add_argument("--heads", type=int, default=4, help="attention heads (default %(default)s)")
    parser.add_argument("--depth", type=int, default=2, help="blocks (default %(default)s)")
    parser.add_argument("--lr", type=float, default=3e-3, help="peak learning rate of AdamW (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of start and order (default %(default)s)")
    parser.add_argument("--compile", action="store_true", help="compile model and loss by torch.compile")
    args = parser.parse_args()

    wg.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    text = args.data.read_text(encoding="utf-8")
    letters = sorted(set(text))
    ids = np.searchsorted(letters, list(text))
    cut = len(ids) * 9 // 10
    train, held_out = ids[:cut], ids[cut:]
    windows = np.arange(args.length + 1)

    sizes = (len(letters), args.length, args.width, args.heads, args.depth)
    start = shakespeare.Model(*sizes).state_dict()
    model = models.torch_shakespeare(*sizes)
    model.load_state_dict({k: torch.tensor(np.asarray(v)) for k, v in start.items()})
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.1, betas=(0.9, 0.99), fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.steps, pct_start=0.1)

    def loss_of(rows: Any) -> Any:
        logits = model(rows[:, :-1]).reshape(-1, len(letters))
        return torch.nn.functional.cross_entropy(logits, rows[:, 1:].reshape(-1))

    run = torch.compile(loss_of) if args.compile else loss_of
    loss = torch.zeros(())
    began = time.perf_counter()
    for _ in range(args.steps):
        starts = rng.integers(0, len(train) - args.length - 1, args.batch)
        loss = run(torch.tensor(train[starts[:, None] + windows]))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    last = loss.item()
    seconds = time.perf_counter() - began

    starts = np.arange(0, len(held_out) - args.length - 1, args.length)
    with torch.no_grad():
        pieces = [
            (loss_of(torch.tensor(held_out[s[:, None] + windows])).item(), len(s))
            for s in np.array_split(starts, -(-len(starts) // 64))
        ]
    held = sum(loss * n for loss, n in pieces) / sum(n for _, n in pieces)
    print(f"last loss {last:.4f}; held-out loss {held:.3f} nats a character")
    print(f"{seconds:.0f} s, {seconds / args.steps * 1e3:.1f} ms a step")


if __name__ == "__main__":
    main()
