"""Predict the energy of small molecules with a graph network, atom by atom (Gilmer et al. 2017).

A molecule is a list of atoms, each with its neighbours; no two need have the same shape. The program runs through one
molecule after the other, and `wg.autobatch` computes what is alike in a batch together. Molecules and energies are made
here: of the sizes of QM9's, with an energy for each bond and for each pair of bonds at one atom.

    python examples/molecules.py
    python examples/molecules.py --one-by-one --steps 50
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import wengert as wg

KINDS = "HCNOF"
VALENCES = {"H": 1, "C": 4, "N": 3, "O": 2, "F": 1}


@dataclass
class Molecule:
    """Atoms by their kinds, the neighbours of each by their places, and the energy."""

    kinds: np.ndarray
    neighbours: list[list[int]]
    energy: float


class Energies:
    """The made-up energies: of a bond by the kinds of its atoms, of two bonds at an atom by all three kinds."""

    def __init__(self, rng: np.random.Generator) -> None:
        bonds, angles = rng.normal(size=(5, 5)), rng.normal(size=(5, 5, 5))
        self.bonds = (bonds + bonds.T) / 2
        self.angles = (angles + angles.transpose(0, 2, 1)) / 2

    def of(self, kinds: np.ndarray, neighbours: list[list[int]]) -> float:
        total = 0.0
        for atom, near in enumerate(neighbours):
            total += sum(self.bonds[kinds[atom], kinds[j]] for j in near) / 2
            total += sum(self.angles[kinds[atom], kinds[i], kinds[j]] for i in near for j in near if i < j) / 2
        return float(total)


def make_molecule(energies: Energies, rng: np.random.Generator) -> Molecule:
    """One to nine heavy atoms, some of them in rings, and hydrogens where valences are left."""
    heavy = int(rng.integers(1, 10))
    letters = [str(rng.choice(list("CCCNOF"))) if i else "C" for i in range(heavy)]
    neighbours: list[list[int]] = [[] for _ in range(heavy)]

    def free(i: int) -> int:
        return VALENCES[letters[i]] - len(neighbours[i])

    def bond(i: int, j: int) -> None:
        neighbours[i].append(j)
        neighbours[j].append(i)

    for i in range(1, heavy):
        open_ = [j for j in range(i) if free(j) > 0]
        if not open_:
            letters, neighbours = letters[:i], neighbours[:i]
            break
        bond(i, int(rng.choice(open_)))
    for i in range(len(letters)):
        for j in range(i):
            if free(i) > 0 and free(j) > 0 and j not in neighbours[i] and rng.random() < 0.05:
                bond(i, j)
    for i in range(len(letters)):
        for _ in range(free(i)):
            letters.append("H")
            neighbours.append([])
            bond(i, len(letters) - 1)
    kinds = np.array([KINDS.index(x) for x in letters])
    return Molecule(kinds, neighbours, energies.of(kinds, neighbours))


class Message(wg.nn.Module):
    """An atom's next state, of its own and those of its neighbours, however many there are."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.own, self.others = wg.nn.Linear(width, width), wg.nn.Linear(width, width, bias=False)
        self.next = wg.nn.Linear(width, width)

    def forward(self, atom: wg.Tensor, neighbours: tuple[wg.Tensor, ...]) -> wg.Tensor:
        total = wg.stack(neighbours).sum(0)
        return atom + self.next(wg.nn.functional.relu(self.own(atom) + self.others(total)))


class Network(wg.nn.Module):
    """A molecule to its energy, a number."""

    def __init__(self, width: int, rounds: int) -> None:
        super().__init__()
        self.kinds = wg.nn.Embedding(len(KINDS), width)
        self.rounds = wg.nn.ModuleList([Message(width) for _ in range(rounds)])
        self.out = wg.nn.Sequential(wg.nn.Linear(width, width), wg.nn.ReLU(), wg.nn.Linear(width, 1))

    def forward(self, molecule: Molecule) -> wg.Tensor:
        states = [self.kinds(kind) for kind in molecule.kinds]
        for message in self.rounds:
            states = [
                message(h, tuple(states[j] for j in near)) for h, near in zip(states, molecule.neighbours, strict=True)
            ]
        return wg.stack([self.out(h) for h in states]).sum()


def main() -> None:
    parser = argparse.ArgumentParser(description="Predict the energy of small molecules with a graph network.")
    parser.add_argument("--steps", type=int, default=600, help="training steps (default %(default)s)")
    parser.add_argument("--batch", type=int, default=32, help="molecules in a step (default %(default)s)")
    parser.add_argument("--width", type=int, default=32, help="units of an atom's state (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of messages (default %(default)s)")
    parser.add_argument("--lr", type=float, default=5e-3, help="learning rate of Adam (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of molecules and start (default %(default)s)")
    parser.add_argument("--one-by-one", action="store_true", help="run one molecule after the other")
    parser.add_argument("--smoke", action="store_true", help="a short run")
    parser.add_argument("--out", type=Path, default=Path("molecules.svg"), help="picture of the error by steps")
    args = parser.parse_args()
    if args.smoke:
        args.steps, args.width = 40, 8

    wg.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    energies = Energies(rng)
    held_out = [make_molecule(energies, rng) for _ in range(50 if args.smoke else 200)]
    spread = float(np.std([m.energy for m in held_out]))
    model = Network(args.width, args.rounds)
    optimizer = wg.optim.Adam(model.parameters(), lr=args.lr)
    run = (lambda batch: [model(m) for m in batch]) if args.one_by_one else wg.autobatch(model)

    def errors(batch: list[Molecule]) -> wg.Tensor:
        return (wg.stack(run(batch)) - wg.tensor(np.array([m.energy for m in batch], np.float32))) / spread

    curve = []
    started = time.perf_counter()
    for done in (bar := wg.train.progress(range(1, args.steps + 1), "training")):
        batch = [make_molecule(energies, rng) for _ in range(args.batch)]
        optimizer.zero_grad()
        loss = errors(batch).square().mean()
        loss.backward()
        optimizer.step()
        bar.note(f"loss {loss.item():.4f}")
        if done % max(args.steps // 10, 1) == 0:
            with wg.no_grad():
                curve.append((done, float(wg.abs(errors(held_out)).mean())))
    seconds = time.perf_counter() - started

    print(f"mean error {curve[-1][1]:.3f} of the standard deviation, over {len(held_out)} new molecules")
    print(f"{seconds:.1f} s, {seconds / args.steps * 1e3:.1f} ms a step")
    if not args.one_by_one:
        print(wg.explain.batching(run, held_out[: args.batch]))
    picture = wg.train.line_chart({"held out": curve}, title="Molecules", x_label="steps", y_label="mean error")
    args.out.write_text(picture)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
