"""Classify a graph's nodes, few of them labelled, with graph convolutions (Kipf & Welling 2017).

The graph is made here, like one of papers that cite each other: papers of a subject cite each other more often than
others (a stochastic block model) and use its words more often. Twenty papers of each subject are labelled. The same
network without the graph, which sees each paper's words alone, shows what citations are worth.

    python examples/gcn.py
    python examples/gcn.py --papers 5000 --seed 3
    python examples/gcn.py --data cora      (a folder with cora.content and cora.cites)

Where `import torch` stands in place of `import wengert.torch as torch`, PyTorch runs this program.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import wengert as wg
import wengert.torch as torch

nn, F = torch.nn, torch.nn.functional
Graph = tuple[np.ndarray, np.ndarray, np.ndarray]  # words (n, vocabulary), edges (2, m), labels (n,)


def make_papers(count: int, subjects: int, vocabulary: int, rng: np.random.Generator) -> Graph:
    """Papers with four citations each on average, three of four within the subject, and some words of it."""
    labels = rng.integers(0, subjects, count)
    same = labels[:, None] == labels
    chance = np.where(same, 3.0 * subjects / count, 1.0 * subjects / (subjects - 1) / count)
    edges = np.stack(np.nonzero(np.triu(rng.random((count, count)) < chance, 1)))
    of_subject = rng.integers(0, subjects, vocabulary) == labels[:, None]
    words = rng.random((count, vocabulary)) < np.where(of_subject, 0.055, 0.013)
    return words.astype(np.float64), edges, labels


def read_papers(folder: Path) -> Graph:
    """Cora's two files: a line `id word word ... subject` for each paper, a line `cited citing` for each citation."""
    rows = [line.split() for line in (folder / "cora.content").read_text().splitlines()]
    place = {row[0]: i for i, row in enumerate(rows)}
    cites = [line.split() for line in (folder / "cora.cites").read_text().splitlines()]
    edges = np.array([(place[a], place[b]) for a, b in cites if a in place and b in place]).T
    _, labels = np.unique([row[-1] for row in rows], return_inverse=True)
    return np.array([row[1:-1] for row in rows], np.float64), edges, labels


class Convolution(nn.Module):
    """An affine map of every node, then the mean of its neighbours and itself, weighted by their degrees."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.linear = nn.Linear(before, after, bias=False)
        self.bias = nn.Parameter(torch.zeros(after))

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        source, target = edges
        h = self.linear(x)
        degree = torch.zeros(len(x), dtype=h.dtype).index_add(0, target, torch.ones(len(target), dtype=h.dtype))
        weight = (degree[source] * degree[target]).rsqrt()
        return torch.zeros_like(h).index_add(0, target, h[source] * weight[:, None]) + self.bias


class GCN(nn.Module):
    """Nodes' features (n, words) and edges (2, m) to logits (n, classes)."""

    def __init__(self, words: int, width: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.first, self.second = Convolution(words, width), Convolution(width, classes)
        self.dropout = dropout

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        x = F.dropout(x, self.dropout, self.training)
        h = F.relu(self.first(x, edges))
        return self.second(F.dropout(h, self.dropout, self.training), edges)


def main() -> None:
    parser = argparse.ArgumentParser(description="Classify the nodes of a graph, few of them labelled.")
    parser.add_argument(
        "--data", type=Path, help="folder with cora.content and cora.cites (default: a graph made here)"
    )
    parser.add_argument("--papers", type=int, default=2000, help="nodes of the graph made here (default %(default)s)")
    parser.add_argument("--epochs", type=int, default=150, help="training steps (default %(default)s)")
    parser.add_argument("--width", type=int, default=16, help="hidden features (default %(default)s)")
    parser.add_argument(
        "--dropout", type=float, default=0.5, help="part of the features left out (default %(default)s)"
    )
    parser.add_argument("--lr", type=float, default=1e-2, help="learning rate of Adam (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of graph, split and start (default %(default)s)")
    parser.add_argument("--eager", action="store_true", help="leave the training step uncompiled")
    parser.add_argument("--smoke", action="store_true", help="a short run")
    parser.add_argument("--out", type=Path, default=Path("gcn.svg"), help="picture of accuracy (default %(default)s)")
    args = parser.parse_args()
    if args.smoke:
        args.papers, args.epochs = 500, 30

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    words, edges, labels = read_papers(args.data) if args.data else make_papers(args.papers, 7, 700, rng)
    classes = int(labels.max()) + 1
    order = rng.permutation(len(labels))
    labelled = np.concatenate([order[labels[order] == c][:20] for c in range(classes)])
    held_out = np.setdiff1d(order, labelled)

    x = torch.tensor(words / words.sum(1, keepdims=True).clip(1), dtype=torch.get_default_dtype())
    y = torch.tensor(labels)
    loops = np.stack([np.arange(len(labels))] * 2)
    graphs = {
        "with citations": torch.tensor(np.concatenate([edges, edges[::-1], loops], axis=1)),
        "words alone": torch.tensor(loops),
    }
    print(f"{len(labels)} papers, {edges.shape[1]} citations, {words.shape[1]} words; {len(labelled)} are labelled")

    curves: dict[str, list[float]] = {}
    for name, graph in graphs.items():
        model = GCN(words.shape[1], args.width, classes, args.dropout)
        optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)

        def step(
            model: GCN = model, optimizer: torch.optim.Adam = optimizer, graph: torch.Tensor = graph
        ) -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x, graph)[labelled], y[labelled])
            loss.backward()
            optimizer.step()
            return loss

        run = step if args.eager else torch.compile(step)
        curves[name] = []
        started = time.perf_counter()
        for _ in (bar := wg.train.progress(range(args.epochs), name)):
            loss = run()
            model.eval()
            with torch.no_grad():
                right = (model(x, graph).argmax(dim=1) == y)[held_out]
            model.train()
            curves[name].append(right.double().mean().item())
            bar.note(f"loss {loss.item():.3f}, {curves[name][-1]:.1%} right")
        seconds = time.perf_counter() - started
        print(f"{name}: {curves[name][-1]:.1%} of {len(held_out)} unlabelled papers right")
        print(f"{seconds:.1f} s, {seconds / args.epochs * 1e3:.1f} ms an epoch")

    args.out.write_text(wg.train.line_chart(curves, title="Papers' subjects", x_label="epoch", y_label="share right"))
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
