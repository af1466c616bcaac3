"""Train a word-level transformer on a text and let it write.

Words and signs are the units, the commonest of them the vocabulary; the others are `<rare>`. The layers are PyTorch's
own encoder layers under a causal mask; the words' vectors are the last layer's weights too (Press & Wolf 2017).

    python examples/words.py --data input.txt
    python examples/words.py --data input.txt --steps 3000 --width 128 --vocabulary 4000

Where `import torch` stands in place of `import wengert.torch as torch`, PyTorch runs this program.
"""

from __future__ import annotations

import argparse
import math
import re
import time
from collections import Counter
from pathlib import Path

import numpy as np

import wengert as wg
import wengert.torch as torch

nn, F = torch.nn, torch.nn.functional
RARE = "<rare>"


class Model(nn.Module):
    """Words (batch, length) to logits of the next ones (batch, length, vocabulary)."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, depth: int, dropout: float) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, depth, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.dropout, self.head = nn.Dropout(dropout), nn.Linear(width, vocabulary)
        self.head.weight = self.words.weight
        for table in (self.words.weight, self.places.weight):
            nn.init.normal_(table, std=0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        length = ids.size(1)
        mask = nn.Transformer.generate_square_subsequent_mask(length, dtype=self.head.bias.dtype)
        x = self.dropout(self.words(ids) + self.places(torch.arange(length)))
        return self.head(self.layers(x, mask=mask, is_causal=True))


def read_words(file: Path, vocabulary: int) -> tuple[np.ndarray, list[str]]:
    """The text as numbers of words, and the words; ends of lines are words too."""
    words = re.findall(r"[A-Za-z]+(?:'[a-z]+)?|[^\sA-Za-z]|\n", file.read_text(encoding="utf-8"))
    known = [word for word, _ in Counter(words).most_common(vocabulary - 1)]
    place = {word: i for i, word in enumerate([RARE, *known])}
    return np.array([place.get(word, 0) for word in words]), [RARE, *known]


@torch.no_grad()
def write(model: Model, ids: list[int], count: int, length: int, rng: np.random.Generator) -> list[int]:
    """`count` more words, each drawn from the ten likeliest that are not rare."""
    for _ in range(count):
        scores = model(torch.tensor([ids[-length:]]))[0, -1]
        scores[0] = -math.inf
        best = scores.topk(10)
        p = F.softmax(best.values.double(), dim=0).numpy()
        ids = [*ids, int(best.indices[rng.choice(10, p=p / p.sum())])]
    return ids


def spell(words: list[str]) -> str:
    """Words as text: no space before signs and at the beginnings of lines."""
    return re.sub(r" ([,.;:!?'\n])", r"\1", " ".join(words)).replace("\n ", "\n").strip()


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a word-level transformer on a text.")
    parser.add_argument("--data", type=Path, required=True, help="a text file")
    parser.add_argument("--steps", type=int, default=1200, help="training steps (default %(default)s)")
    parser.add_argument("--batch", type=int, default=16, help="sequences in a step (default %(default)s)")
    parser.add_argument("--length", type=int, default=32, help="words in a sequence (default %(default)s)")
    parser.add_argument("--vocabulary", type=int, default=2500, help="different words (default %(default)s)")
    parser.add_argument("--width", type=int, default=96, help="width of the model (default %(default)s)")
    parser.add_argument("--heads", type=int, default=4, help="attention heads (default %(default)s)")
    parser.add_argument("--depth", type=int, default=2, help="layers (default %(default)s)")
    parser.add_argument(
        "--dropout", type=float, default=0.1, help="part of the features left out (default %(default)s)"
    )
    parser.add_argument("--lr", type=float, default=3e-3, help="peak learning rate of AdamW (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of start and order (default %(default)s)")
    parser.add_argument("--sample", type=int, default=100, help="words to write (default %(default)s)")
    parser.add_argument("--eager", action="store_true", help="leave the training step uncompiled")
    parser.add_argument("--smoke", action="store_true", help="a short run")
    parser.add_argument("--out", type=Path, default=Path("words.svg"), help="picture of the loss")
    args = parser.parse_args()
    if args.smoke:
        args.steps, args.width, args.length, args.sample = 60, 32, 16, 10

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    try:
        ids, words = read_words(args.data, args.vocabulary)
    except (OSError, UnicodeDecodeError) as e:
        parser.exit(1, f"words: {args.data} cannot be read as text: {e}\n")
    if len(ids) < 20 * args.length:
        parser.exit(1, f"words: {args.data} has {len(ids)} words: too few for --length {args.length}\n")
    cut = len(ids) * 9 // 10
    train, held_out = ids[:cut], ids[cut:]
    model = Model(len(words), args.length, args.width, args.heads, args.depth, args.dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.1, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.steps, pct_start=0.1)
    count = sum(p.numel() for p in model.parameters())
    print(f"{len(train):,} words, {len(words):,} different, {(ids == 0).mean():.1%} rare; {count:,} parameters")

    def windows(of: np.ndarray, starts: np.ndarray) -> torch.Tensor:
        return torch.tensor(of[starts[:, None] + np.arange(args.length + 1)])

    def loss_of(rows: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())

    def step(rows: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(rows)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    run = step if args.eager else torch.compile(step)
    curve = []
    started = time.perf_counter()
    for _ in (bar := wg.train.progress(range(args.steps), "training")):
        curve.append(run(windows(train, rng.integers(0, len(train) - args.length, args.batch))).item())
        schedule.step()
        bar.note(f"loss {curve[-1]:.3f}")
    seconds = time.perf_counter() - started

    model.eval()
    starts = np.arange(0, len(held_out) - args.length, args.length)
    with torch.no_grad():
        batches = (windows(held_out, s) for s in np.array_split(starts, -(-len(starts) // 32)))
        loss = sum(loss_of(rows).item() * len(rows) for rows in batches) / len(starts)
    share = (np.bincount(train, minlength=len(words)) + 1) / (len(train) + len(words))
    alone = -np.log(share[held_out]).mean()
    print(f"held-out loss {loss:.3f} nats a word, perplexity {math.exp(loss):.0f}")
    print(f"words by their shares alone: {alone:.3f} nats, perplexity {math.exp(alone):.0f}")
    print(f"{seconds:.0f} s, {seconds / args.steps * 1e3:.1f} ms a step\n")
    print(spell([words[i] for i in write(model, train[:1].tolist(), args.sample, args.length, rng)]))
    smooth = np.convolve(curve, np.ones(20) / 20, "valid") if len(curve) >= 20 else np.array(curve)
    lines = {"loss": list(enumerate(smooth.tolist())), "shares alone": [(0.0, alone), (len(smooth) - 1.0, alone)]}
    args.out.write_text(wg.train.line_chart(lines, title="Words", y_label="nats a word"))
    print(f"\nwrote {args.out}")


if __name__ == "__main__":
    main()
