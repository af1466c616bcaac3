"""Balance a pole on a cart by REINFORCE (Williams 1992) and by an actor with a critic (Mnih et al. 2016).

Both draw actions from a policy and make those likelier that went well. REINFORCE waits for the end of the episode and
takes what came of it; the other has a second network guess what will, and learns every few steps.

    python examples/cartpole.py
    python examples/cartpole.py --method reinforce --steps 200000

Where `import torch` stands in place of `import wengert.torch as torch`, PyTorch runs this program.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import wengert as wg
import wengert.torch as torch

nn, F = torch.nn, torch.nn.functional


class CartPoles:
    """Many poles on carts at once (Barto, Sutton & Anderson 1983): a reward of 1 for each step that they stand.

    A state is position, velocity, angle and its velocity, in metres, radians and seconds. Who leaves 2.4 m or
    12 degrees, or has stood for `limit` steps, begins anew.
    """

    def __init__(self, count: int, rng: np.random.Generator, limit: int = 200) -> None:
        self.rng, self.limit = rng, limit
        self.states, self.ages = rng.uniform(-0.05, 0.05, (count, 4)), np.zeros(count, int)

    def step(self, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Push the carts to the right or left by 10 N for 0.02 s; return which fell and which were stopped."""
        _, speed, angle, turn = self.states.T
        sin, cos = np.sin(angle), np.cos(angle)
        push = (np.where(right, 10.0, -10.0) + 0.05 * turn**2 * sin) / 1.1
        angular = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        linear = push - 0.05 * angular * cos / 1.1
        self.states = self.states + 0.02 * np.stack([speed, linear, turn, angular], axis=1)
        self.ages += 1
        fallen = (abs(self.states[:, 0]) > 2.4) | (abs(self.states[:, 2]) > np.radians(12))
        return fallen, ~fallen & (self.ages >= self.limit)

    def begin(self, which: np.ndarray) -> None:
        """Begin anew where told to."""
        self.states[which] = self.rng.uniform(-0.05, 0.05, (int(which.sum()), 4))
        self.ages[which] = 0


class Network(nn.Module):
    """States (..., 4) to the log-odds of pushing right and the guess of what is to come, (...) each."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 1))
        self.critic = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.actor(states).squeeze(-1), self.critic(states).squeeze(-1)


@dataclass
class Played:
    """What happened in (steps, poles): what was seen and done, what came of it, and how long those stood that ended."""

    states: np.ndarray
    right: np.ndarray
    after: np.ndarray
    fallen: np.ndarray
    stopped: np.ndarray
    stood: list[int]


def play(poles: CartPoles, act: Callable[[np.ndarray], np.ndarray], steps: int) -> Played:
    """Let the poles be pushed to the right as likely as `act` says; what ends begins anew."""
    rows, stood = [], []
    for _ in range(steps):
        states = poles.states
        right = poles.rng.random(len(states)) < act(states)
        fallen, stopped = poles.step(right)
        rows.append((states, right, poles.states, fallen, stopped))
        stood += poles.ages[fallen | stopped].tolist()
        poles.begin(fallen | stopped)
    return Played(*(np.stack(column) for column in zip(*rows, strict=True)), stood)


def episodes(played: Played, discount: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns, advantages and which steps count: the first episode of each pole, all the way to its end."""
    ended = np.cumsum(played.fallen | played.stopped, axis=0)
    counted = np.concatenate([np.ones_like(ended[:1]), ended[:-1] == 0])
    returns = counted * (1.0 - discount)
    for t in reversed(range(len(returns) - 1)):
        returns[t] += discount * returns[t + 1]
    # Beside the others at that time: a baseline takes variance away, and no bias is added by what was not done here.
    advantages = returns - (returns * counted).sum(1, keepdims=True) / counted.sum(1, keepdims=True).clip(1)
    return returns, advantages, counted


def pieces(
    played: Played, discount: float, guess: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of a few steps of every pole: what is to come after them, or after the limit, is guessed."""
    ahead = guess(played.after)
    returns = np.empty_like(ahead)
    following = ahead[-1]
    for t in reversed(range(len(returns))):
        following = np.where(played.fallen[t], 0.0, np.where(played.stopped[t], ahead[t], following))
        following = returns[t] = 1 - discount + discount * following
    return returns, returns - guess(played.states), np.ones_like(returns)


def as_tensor(array: np.ndarray) -> torch.Tensor:
    return torch.tensor(array, dtype=torch.get_default_dtype())


def train(method: str, args: argparse.Namespace) -> list[tuple[float, float]]:
    """Train by a method; return how long poles stood of late, after how many thousand steps."""
    torch.manual_seed(args.seed)
    poles, model = CartPoles(args.poles, np.random.default_rng(args.seed)), Network(args.width)
    has_critic = method == "actor-critic"
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    def step(
        states: torch.Tensor, right: torch.Tensor, returns: torch.Tensor, gains: torch.Tensor, counted: torch.Tensor
    ) -> torch.Tensor:
        odds, guesses = model(states)
        surprise = F.binary_cross_entropy_with_logits(odds, right, reduction="none")  # minus log of the likelihood
        entropy = F.binary_cross_entropy_with_logits(odds, torch.sigmoid(odds), reduction="none")
        loss = surprise * gains - 0.01 * entropy
        if has_critic:
            loss = loss + 10 * (guesses - returns) ** 2
        loss = (loss * counted).sum() / counted.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def look(states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            odds, guesses = model(states)
            return torch.sigmoid(odds), guesses

    run, see = (step, look) if args.eager else (torch.compile(step), torch.compile(look))
    taken, stood, curve = 0, [], []

    def rounds() -> Iterator[int]:
        while taken < args.steps:
            yield taken

    started = time.perf_counter()
    for _ in (bar := wg.train.progress(rounds(), method)):
        if not has_critic:
            poles.begin(np.ones(args.poles, bool))
        played = play(poles, lambda s: see(as_tensor(s))[0].numpy(), args.rows if has_critic else poles.limit)
        if has_critic:
            found = pieces(played, args.discount, lambda s: see(as_tensor(s))[1].numpy())
        else:
            found = episodes(played, args.discount)
        returns, gains, counted = found
        gains = gains / np.sqrt((gains**2 * counted).sum() / counted.sum() + 1e-8)
        for group in optimizer.param_groups:  # ever smaller steps: a policy that balances shall not be unlearnt
            group["lr"] = args.lr * (1 - taken / args.steps)
        run(*map(as_tensor, (played.states, played.right, returns, gains, counted)))
        taken += int(counted.sum())
        stood = (stood + played.stood)[-50:]
        curve.append((taken / 1000, float(np.mean(stood or [0]))))
        bar.note(f"{taken:,} steps taken, poles stand {curve[-1][1]:.0f}")
    seconds = time.perf_counter() - started
    print(f"{method}: the last 50 poles stood {curve[-1][1]:.0f} steps, the first {curve[0][1]:.0f}; {seconds:.1f} s")
    return curve


def main() -> None:
    parser = argparse.ArgumentParser(description="Balance a pole on a cart by policy gradients.")
    parser.add_argument("--method", choices=["both", "reinforce", "actor-critic"], default="both", help="who learns")
    parser.add_argument("--steps", type=int, default=150_000, help="steps of all poles (default %(default)s)")
    parser.add_argument("--poles", type=int, default=16, help="poles at once (default %(default)s)")
    parser.add_argument("--rows", type=int, default=20, help="steps between the critic's lessons (default %(default)s)")
    parser.add_argument("--width", type=int, default=32, help="hidden units (default %(default)s)")
    parser.add_argument(
        "--discount", type=float, default=0.99, help="worth of what is a step later (default %(default)s)"
    )
    parser.add_argument("--lr", type=float, default=1e-2, help="learning rate of Adam (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of poles and start (default %(default)s)")
    parser.add_argument("--eager", action="store_true", help="leave the training step uncompiled")
    parser.add_argument("--smoke", action="store_true", help="a short run")
    parser.add_argument("--out", type=Path, default=Path("cartpole.svg"), help="picture of both (default %(default)s)")
    args = parser.parse_args()
    if args.smoke:
        args.steps = 8_000
    methods = ["reinforce", "actor-critic"] if args.method == "both" else [args.method]
    curves = {method: train(method, args) for method in methods}
    picture = wg.train.line_chart(
        curves, title="Poles on carts", x_label="steps taken, in thousands", y_label="steps that poles stand"
    )
    args.out.write_text(picture)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
