"""Translate dates as people write them into ISO 8601, letter by letter, with attention (Bahdanau, Cho & Bengio 2015).

A recurrent encoder reads `the 3rd of march 1987`; a decoder writes `1987-03-03`, and before each letter looks at
those places of the text whose states answer its own. The picture shows where it looks. The pairs are made here.

    python examples/dates.py
    python examples/dates.py --steps 2000 --write "7 jul 2026"
    python examples/dates.py --data pairs.tsv      (lines of two texts with a tab between)

Where `import torch` stands in place of `import wengert.torch as torch`, PyTorch runs this program.
"""

from __future__ import annotations

import argparse
import datetime
import time
from pathlib import Path

import numpy as np

import wengert as wg
import wengert.torch as torch

nn, F = torch.nn, torch.nn.functional
MONTHS = [datetime.date(2000, month, 1).strftime("%B").lower() for month in range(1, 13)]
PAD, START = "_", "<"  # what fills up a row, and what stands before a translation
Pair = tuple[str, str]


def make_pair(rng: np.random.Generator) -> Pair:
    """A date between 1900 and 2099 in one of seven ways, and in ISO 8601."""
    day = datetime.date.fromordinal(int(rng.integers(693596, 766645)))
    month = MONTHS[day.month - 1]
    end = "th" if 10 < day.day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    ways = [
        f"{day.day} {month} {day.year}",
        f"{day.day} {month[:3]} {day.year}",
        f"{month} {day.day}, {day.year}",
        f"{month[:3]} {day.day}{end} {day.year}",
        f"the {day.day}{end} of {month} {day.year}",
        f"{day.day}.{day.month}.{day.year}",
        f"{day.month}/{day.day}/{day.year}",
    ]
    return ways[rng.integers(len(ways))], day.isoformat()


def encode(texts: list[str], letters: str, length: int) -> np.ndarray:
    """Texts as numbers of letters (n, length), filled up with those of PAD."""
    return np.array([[letters.index(c) for c in text.ljust(length, PAD)] for text in texts])


class Translator(nn.Module):
    """Letters of texts (n, s) and of what is written so far (n, t) to logits of its next letters (n, t, letters)."""

    def __init__(self, letters: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(letters, width)
        self.encoder = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.first = nn.Linear(2 * width, width)
        self.keys = nn.Linear(2 * width, width)
        self.query, self.energy = nn.Linear(width, width), nn.Linear(width, 1, bias=False)
        self.decoder = nn.GRUCell(3 * width, width)
        self.out = nn.Linear(3 * width, letters)

    def read(self, texts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return states of all places (n, s, 2 width), where there is text, and the decoder's first state."""
        states, last = self.encoder(self.embedding(texts))
        return states, texts != 0, torch.tanh(self.first(torch.cat([last[0], last[1]], dim=1)))

    def write(
        self, letter: torch.Tensor, state: torch.Tensor, states: torch.Tensor, keys: torch.Tensor, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the logits after one more letter, the decoder's new state, and where it looked (n, s)."""
        energy = self.energy(torch.tanh(keys + self.query(state)[:, None])).squeeze(2)
        weights = F.softmax(energy.masked_fill(~mask, -1e9), dim=1)
        seen = torch.bmm(weights[:, None], states).squeeze(1)
        state = self.decoder(torch.cat([self.embedding(letter), seen], dim=1), state)
        return self.out(torch.cat([state, seen], dim=1)), state, weights

    def forward(self, texts: torch.Tensor, written: torch.Tensor) -> torch.Tensor:
        states, mask, state = self.read(texts)
        keys, logits = self.keys(states), []
        for letter in written.unbind(1):
            scores, state, _ = self.write(letter, state, states, keys, mask)
            logits.append(scores)
        return torch.stack(logits, dim=1)

    @torch.no_grad()
    def translate(self, texts: torch.Tensor, length: int, start: int) -> tuple[np.ndarray, np.ndarray]:
        """The likeliest letters one after the other (n, length), and where each was looked for (n, length, s)."""
        states, mask, state = self.read(texts)
        keys, letter = self.keys(states), torch.full((len(texts),), start)
        letters, looks = [], []
        for _ in range(length):
            scores, state, weights = self.write(letter, state, states, keys, mask)
            letter = scores.argmax(dim=1)
            letters.append(letter)
            looks.append(weights)
        return torch.stack(letters, dim=1).numpy(), torch.stack(looks, dim=1).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description="Translate dates into ISO 8601 with attention.")
    parser.add_argument("--data", type=Path, help="lines of two texts with a tab between (default: dates made here)")
    parser.add_argument("--steps", type=int, default=700, help="training steps (default %(default)s)")
    parser.add_argument("--batch", type=int, default=64, help="pairs in a step (default %(default)s)")
    parser.add_argument("--width", type=int, default=48, help="units of a layer (default %(default)s)")
    parser.add_argument("--lr", type=float, default=5e-3, help="peak learning rate of Adam (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of pairs, start and order (default %(default)s)")
    parser.add_argument("--write", default="the 23rd of november 1961", help="the text of the picture")
    parser.add_argument("--eager", action="store_true", help="leave the training step uncompiled")
    parser.add_argument("--smoke", action="store_true", help="a short run")
    parser.add_argument("--out", type=Path, default=Path("dates.svg"), help="picture of attention")
    args = parser.parse_args()
    if args.smoke:
        args.steps, args.width = 30, 16

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    if args.data:
        pairs = [tuple(line.split("\t")[:2]) for line in args.data.read_text(encoding="utf-8").splitlines()]
    else:
        pairs = list({make_pair(rng): None for _ in range(6000)})
    sources, targets = [p[0] for p in pairs] + [args.write], [p[1] for p in pairs]
    letters = PAD + START + "".join(sorted(set("".join(sources + targets)) - {PAD, START}))
    longest, length = max(map(len, sources)), max(map(len, targets))
    texts = torch.tensor(encode(sources, letters, longest))
    rows = torch.tensor(encode([START + t for t in targets], letters, length + 1))
    held_out = min(500, len(pairs) // 10)
    model = Translator(len(letters), args.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.steps, pct_start=0.1)

    def step(text: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(text, row[:, :-1]).flatten(0, 1), row[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    run = step if args.eager else torch.compile(step)
    started = time.perf_counter()
    for _ in (bar := wg.train.progress(range(args.steps), "training")):
        chosen = torch.randint(held_out, len(pairs), (args.batch,))
        loss = run(texts[chosen], rows[chosen])
        schedule.step()
        bar.note(f"loss {loss.item():.3f}")
    seconds = time.perf_counter() - started

    written, _ = model.translate(texts[:held_out], length, letters.index(START))
    wanted = rows[:held_out, 1:].numpy()
    print(f"{(written == wanted).mean():.1%} of the letters of {held_out} held-out translations right")
    print(f"{(written == wanted).all(1).mean():.1%} of {held_out} held-out translations right")
    print(f"{seconds:.1f} s, {seconds / args.steps * 1e3:.1f} ms a step")
    (written,), (looks,) = model.translate(texts[-1:], length, letters.index(START))
    translation = "".join(letters[i] for i in written)
    print(f"{args.write!r} is {translation!r}")
    looks = looks[:, : len(args.write)]
    title = f"Where the decoder looks for {translation}"
    args.out.write_text(wg.train.heat_map(looks, rows=list(translation), columns=list(args.write), title=title))
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
