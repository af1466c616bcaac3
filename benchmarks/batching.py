"""Programs with a graph for each example: automatic batching beside one-by-one execution, PyTorch and DyNet.

A program is written once, in PyTorch's names. It runs with `wengert.torch`, one example after the other and in
`wg.autobatch`, and with PyTorch one after the other. DyNet runs the tree program, with and without its automatic
batching, if it is installed (the wheel `dyNET38`). Every batch has fresh structures. A figure is the median processor
time of a step (forward, backward and SGD) on one thread. Before that, losses and gradients of each contender are held
to a float64 reference.

python benchmarks/batching.py                       # all programs
python benchmarks/batching.py --only tree-64 molecules
python benchmarks/batching.py --growth              # from 10 to 10,000 cells in a batch
python benchmarks/batching.py --smoke               # small sizes, checks alone
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import wengert as wg
import wengert.torch as wtorch

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]
try:
    import dynet_config

    dynet_config.set(autobatch=1, mem=2048)
    import dynet as dy
except ImportError:
    dy = None

Batch = list[Any]


def programs(t: Any) -> dict[str, Any]:
    """Return the programs' models, by name, in a library with PyTorch's names."""
    nn = t.nn

    class Leaf(nn.Module):
        def __init__(self, words: int, width: int) -> None:
            super().__init__()
            self.words, self.gates = nn.Embedding(words, width), nn.Linear(width, 3 * width)

        def forward(self, word: Any) -> Any:
            i, o, u = self.gates(self.words(word)).chunk(3)
            c = t.sigmoid(i) * t.tanh(u)
            return t.sigmoid(o) * t.tanh(c), c

    class Node(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.gates = nn.Linear(2 * width, 5 * width)

        def forward(self, left: Any, right: Any) -> Any:
            i, o, u, f, g = self.gates(t.cat([left[0], right[0]])).chunk(5)
            c = t.sigmoid(i) * t.tanh(u) + t.sigmoid(f) * left[1] + t.sigmoid(g) * right[1]
            return t.sigmoid(o) * t.tanh(c), c

    class Tree(nn.Module):
        """A binary Tree-LSTM (Tai, Socher and Manning 2015)."""

        def __init__(self, width: int) -> None:
            super().__init__()
            self.leaf, self.node, self.out = Leaf(100, width), Node(width), nn.Linear(width, 5)

        def encode(self, tree: Any) -> Any:
            if not isinstance(tree, tuple):
                return self.leaf(tree)
            return self.node(self.encode(tree[0]), self.encode(tree[1]))

        def forward(self, example: Any) -> Any:
            return self.out(self.encode(example[0])[0])

    class Update(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.own, self.others = nn.Linear(width, width), nn.Linear(width, width)

        def forward(self, atom: Any, neighbours: Any) -> Any:
            total = neighbours[0]
            for other in neighbours[1:]:
                total = total + other
            return t.relu(self.own(atom) + self.others(total)) + atom

    class Molecules(nn.Module):
        """A graph network, atom by atom: each takes the sum of its neighbours' states, three times."""

        def __init__(self, width: int) -> None:
            super().__init__()
            self.atoms, self.out = nn.Embedding(5, width), nn.Linear(width, 1)
            self.rounds = nn.ModuleList([getattr(t, "cell", lambda m: m)(Update(width)) for _ in range(3)])

        def forward(self, example: Any) -> Any:
            kinds, neighbours, _ = example
            states = [self.atoms(kind) for kind in kinds]
            for update in self.rounds:
                states = [update(h, tuple(states[j] for j in near)) for h, near in zip(states, neighbours)]
            return self.out(t.stack(states).sum(0))

    class Layer(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.own, self.others = nn.Linear(width, width), nn.Linear(width, width)

        def forward(self, states: Any, bonds: Any) -> Any:
            return t.relu(self.own(states) + bonds @ self.others(states)) + states

    class Matrices(nn.Module):
        """The same network, a matrix of states for each molecule."""

        def __init__(self, width: int) -> None:
            super().__init__()
            self.atoms, self.out = nn.Embedding(5, width), nn.Linear(width, 1)
            self.rounds = nn.ModuleList([Layer(width) for _ in range(3)])

        def forward(self, example: Any) -> Any:
            kinds, bonds, _ = example
            states = self.atoms(kinds)
            for layer in self.rounds:
                states = layer(states, bonds)
            return self.out(states.sum(0))

    class Recurrent(nn.Module):
        """A loop over a sequence's steps."""

        def __init__(self, width: int) -> None:
            super().__init__()
            self.cell, self.out = nn.LSTMCell(16, width), nn.Linear(width, 5)
            self.width = width

        def forward(self, example: Any) -> Any:
            h = c = t.zeros(self.width)
            for x in example[0]:
                h, c = self.cell(x, (h, c))
            return self.out(h)

    class Tagger(nn.Module):
        """A sentence's tags from a bidirectional LSTM."""

        def __init__(self, width: int) -> None:
            super().__init__()
            self.words = nn.Embedding(100, width)
            self.forwards, self.backwards = nn.LSTMCell(width, width), nn.LSTMCell(width, width)
            self.out = nn.Linear(2 * width, 10)
            self.width = width

        def forward(self, example: Any) -> Any:
            words = [self.words(w) for w in example[0]]
            ahead, behind = [], []
            for cell, order, found in ((self.forwards, words, ahead), (self.backwards, words[::-1], behind)):
                h = c = t.zeros(self.width)
                for x in order:
                    h, c = cell(x, (h, c))
                    found.append(h)
            return [self.out(t.cat([a, b])) for a, b in zip(ahead, behind[::-1])]

    return {
        "tree": Tree,
        "molecules": Molecules,
        "matrices": Matrices,
        "recurrent": Recurrent,
        "tagger": Tagger,
    }


# -- data: each example ends in its target


def tree(leaves: int, rng: np.random.Generator) -> Any:
    if leaves == 1:
        return int(rng.integers(100))
    cut = int(rng.integers(1, leaves))
    return tree(cut, rng), tree(leaves - cut, rng)


def molecule(rng: np.random.Generator) -> tuple[list[int], list[list[int]]]:
    """A made-up molecule of the sizes of QM9's: up to nine heavy atoms in a tree, with hydrogens around them."""
    heavy = int(rng.integers(1, 10))
    kinds = [int(rng.integers(1, 5)) for _ in range(heavy)]
    near: list[list[int]] = [[] for _ in range(heavy)]

    def bond(a: int, b: int) -> None:
        near[a].append(b)
        near[b].append(a)

    for i in range(1, heavy):
        free = [j for j in range(i) if len(near[j]) < 3]
        bond(i, free[int(rng.integers(len(free)))])
    for i in range(heavy):
        for _ in range(int(rng.integers(0 if near[i] else 1, 5 - len(near[i])))):
            near.append([])
            kinds.append(0)
            bond(i, len(near) - 1)
    return kinds, near


def examples(name: str, count: int, rng: np.random.Generator) -> Batch:
    """A batch of examples, in NumPy's and Python's terms."""
    found = []
    for _ in range(count):
        if name == "tree":
            found.append((tree(int(rng.integers(10, 29)), rng), int(rng.integers(5))))
        elif name in ("molecules", "matrices"):
            found.append((*molecule(rng), float(rng.normal())))
        elif name == "recurrent":
            length = int(rng.integers(5, 41))
            found.append((rng.normal(size=(length, 16)).astype(np.float32), int(rng.integers(5))))
        else:
            length = int(rng.integers(5, 41))
            found.append((rng.integers(0, 100, length), rng.integers(0, 10, length)))
    return found


def fed(name: str, t: Any, batch: Batch, dtype: Any) -> Batch:
    """The batch as a library's tensors."""

    def words(x: Any) -> Any:
        return tuple(map(words, x)) if isinstance(x, tuple) else t.tensor(x)

    out: Batch = []
    for example in batch:
        if name == "tree":
            out.append((words(example[0]), example[1]))
        elif name == "molecules":
            out.append(([t.tensor(k) for k in example[0]], *example[1:]))
        elif name == "matrices":
            kinds, near, target = example
            bonds = np.zeros((len(kinds), len(kinds)))
            for i, others in enumerate(near):
                bonds[i, others] = 1.0
            out.append((t.tensor(kinds), t.tensor(bonds, dtype=dtype), target))
        elif name == "recurrent":
            out.append((list(t.tensor(example[0], dtype=dtype).unbind(0)), example[1]))
        else:
            out.append(([t.tensor(int(w)) for w in example[0]], example[1]))
    return out


def loss_of(name: str, t: Any, outs: list[Any], batch: Batch, dtype: Any) -> Any:
    targets = [example[-1] for example in batch]
    if name in ("molecules", "matrices"):
        return (t.stack(outs)[:, 0] - t.tensor(targets, dtype=dtype)).pow(2).mean()
    if name == "tagger":
        return t.nn.functional.cross_entropy(
            t.stack([o for out in outs for o in out]), t.tensor(np.concatenate(targets))
        )
    return t.nn.functional.cross_entropy(t.stack(outs), t.tensor(targets))


@dataclass
class Contender:
    """A way to train a model: the library, and whether it batches."""

    name: str
    lib: Any
    batches: bool
    program: str
    width: int
    start: dict[str, np.ndarray]
    double: bool = False

    def __post_init__(self) -> None:
        t = self.lib
        self.dtype = t.float64 if self.double else t.float32
        self.model = programs(t)[self.program](self.width)
        if self.double:
            self.model.double()
        self.model.load_state_dict({k: t.tensor(v, dtype=self.dtype) for k, v in self.start.items()})
        self.optimizer = t.optim.SGD(self.model.parameters(), lr=0.01)
        self.run: Callable[[Batch], list[Any]] = (
            t.autobatch(self.model) if self.batches else lambda batch: [self.model(x) for x in batch]
        )

    def loss(self, batch: Batch) -> Any:
        self.optimizer.zero_grad()
        loss = loss_of(self.program, self.lib, self.run(batch), batch, self.dtype)
        loss.backward()
        return loss

    def feed(self, batch: Batch) -> Batch:
        return fed(self.program, self.lib, batch, self.dtype)

    def step(self, batch: Batch) -> float:
        loss = self.loss(batch)
        self.optimizer.step()
        return float(loss.detach())

    def gradients(self, batch: Batch) -> list[np.ndarray]:
        loss = self.loss(self.feed(batch))
        return [np.asarray(float(loss.detach())), *(np.asarray(p.grad, np.float64) for p in self.model.parameters())]


class DyNet:
    """The tree program in DyNet."""

    def __init__(self, width: int, start: dict[str, np.ndarray], batches: bool) -> None:
        self.name = "DyNet, batched" if batches else "DyNet"
        self.width, self.batches = width, batches
        self.collection = dy.ParameterCollection()
        self.words = self.collection.lookup_parameters_from_numpy(start["leaf.words.weight"])
        self.of = {k: self.collection.parameters_from_numpy(v) for k, v in start.items() if k != "leaf.words.weight"}
        self.trainer = dy.SimpleSGDTrainer(self.collection, 0.01)
        self.trainer.set_clip_threshold(-1.0)

    def feed(self, batch: Batch) -> Batch:
        return batch

    def affine(self, name: str, x: Any) -> Any:
        return dy.affine_transform([self.of[f"{name}.bias"], self.of[f"{name}.weight"], x])

    def encode(self, t: Any) -> Any:
        w = self.width

        def parts(x: Any, count: int) -> list[Any]:
            return [dy.pick_range(x, k * w, (k + 1) * w) for k in range(count)]

        if not isinstance(t, tuple):
            i, o, u = parts(self.affine("leaf.gates", self.words[t]), 3)
            c = dy.cmult(dy.logistic(i), dy.tanh(u))
        else:
            (left, before), (right, other) = self.encode(t[0]), self.encode(t[1])
            i, o, u, f, g = parts(self.affine("node.gates", dy.concatenate([left, right])), 5)
            c = dy.cmult(dy.logistic(i), dy.tanh(u))
            c = c + dy.cmult(dy.logistic(f), before) + dy.cmult(dy.logistic(g), other)
        return dy.cmult(dy.logistic(o), dy.tanh(c)), c

    def loss(self, batch: Batch) -> Any:
        dy.renew_cg(autobatching=self.batches)
        parts = [dy.pickneglogsoftmax(self.affine("out", self.encode(t)[0]), y) for t, y in batch]
        return dy.esum(parts) / len(batch)

    def step(self, batch: Batch) -> float:
        loss = self.loss(batch)
        value = loss.value()
        loss.backward()
        self.trainer.update()
        return float(value)

    def gradients(self, batch: Batch) -> list[np.ndarray]:
        loss = self.loss(batch)
        value = loss.value()
        loss.backward()
        order = ["leaf.gates", "node.gates", "out"]
        grads = [self.of[f"{n}.{k}"].grad_as_array() for n in order for k in ("weight", "bias")]
        found = [np.asarray(value), self.words.grad_as_array(), *(np.array(g, np.float64) for g in grads)]
        self.trainer.update()
        return found


def check(contender: Any, expected: list[np.ndarray], batch: Batch) -> None:
    """Hold a contender's loss and gradients to the float64 reference."""
    for found, reference in zip(contender.gradients(batch), expected, strict=True):
        error = np.linalg.norm(found - reference) / max(float(np.linalg.norm(reference)), 1e-12)
        assert error < 2e-5, f"{contender.name}: off by {error:.1e}"


def race(program: str, width: int, count: int, rounds: int, smoke: bool) -> None:
    """Print a row for each contender."""
    start = {k: np.asarray(v) for k, v in programs(wtorch)[program](width).state_dict().items()}
    contenders: list[Any] = [
        Contender("Wengert, batched", wtorch, True, program, width, start),
        Contender("Wengert", wtorch, False, program, width, start),
    ]
    if torch is not None:
        contenders.append(Contender("PyTorch", torch, False, program, width, start))
    if dy is not None and program == "tree":
        contenders += [DyNet(width, start, True), DyNet(width, start, False)]
    rng = np.random.default_rng(0)
    first = examples(program, count, rng)
    expected = Contender("reference", wtorch, False, program, width, start, double=True).gradients(first)
    for contender in contenders:
        check(contender, expected, first)
    if smoke:
        print(f"{program}-{width}: {len(contenders)} contenders agree")
        return
    times: dict[str, list[float]] = {c.name: [] for c in contenders}
    warm = [examples(program, count, rng) for _ in range(40)]
    for batch in warm:
        contenders[0].step(contenders[0].feed(batch))
    for _ in range(rounds):
        batch = examples(program, count, rng)
        for contender in contenders:
            given = contender.feed(batch)
            gc.collect()
            begin = time.process_time()
            contender.step(given)
            times[contender.name].append(time.process_time() - begin)
    own = statistics.median(times["Wengert, batched"])
    for name, found in times.items():
        median = statistics.median(found)
        print(f"{program}-{width:<6} {name:18} {1e3 * median:8.1f} ms {median / own:6.1f} times", flush=True)


def growth() -> None:
    """Print the time for a cell, from few to many cells in a batch."""
    start = {k: np.asarray(v) for k, v in programs(wtorch)["tree"](64).state_dict().items()}
    contender = Contender("Wengert, batched", wtorch, True, "tree", 64, start)
    rng = np.random.default_rng(0)
    for cells in (10, 100, 1000, 10_000):
        times = []
        for k in range(12):
            batch: Batch = []
            done = 0
            while done < cells:
                leaves = int(rng.integers(3, 8)) if cells < 50 else int(rng.integers(10, 29))
                batch.append((tree(leaves, rng), int(rng.integers(5))))
                done += 2 * leaves
            given = contender.feed(batch)
            begin = time.process_time()
            contender.step(given)
            if k >= 6:
                times.append((time.process_time() - begin) / done)
        print(f"{cells:6} cells {1e6 * statistics.median(times):8.1f} us for each", flush=True)


RACES = {
    "tree-64": ("tree", 64),
    "tree-256": ("tree", 256),
    "molecules": ("molecules", 64),
    "matrices": ("matrices", 64),
    "recurrent": ("recurrent", 64),
    "tagger": ("tagger", 64),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time automatic batching.")
    parser.add_argument("--only", nargs="+", choices=list(RACES), default=list(RACES), help="these races")
    parser.add_argument("--batch", type=int, default=64, help="examples in a batch (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="steps of each contender (default %(default)s)")
    parser.add_argument("--growth", action="store_true", help="time a cell, from 10 to 10,000 cells in a batch")
    parser.add_argument("--smoke", action="store_true", help="small batches, checks alone")
    args = parser.parse_args()
    wg.manual_seed(0)
    wg.set_num_threads(1)
    if torch is not None:
        torch.set_num_threads(1)
    for name, there in (("PyTorch", torch), ("DyNet", dy)):
        if there is None:
            print(f"{name} is not installed")
    if args.growth:
        growth()
        return
    for name in args.only:
        race(*RACES[name], 4 if args.smoke else args.batch, args.rounds, args.smoke)


if __name__ == "__main__":
    main()
