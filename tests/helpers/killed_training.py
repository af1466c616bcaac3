"""A training run that is killed at any moment, in processes forked from this one: `main(folder, kills, seed)`.

The run writes a checkpoint after every step. After each kill the last good checkpoint is compared, bit for bit, with
the same step of a run that nobody disturbed; then the run goes on from it.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.train import load_checkpoint, save_checkpoint

STEPS = 40


class Loader:
    """Batches in a random order, with a position that can be saved."""

    def __init__(self, rows: int, size: int) -> None:
        self.rows, self.size = rows, size
        self.epoch, self.at = 0, 0

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch, self.at = state["epoch"], state["at"]

    def __next__(self) -> np.ndarray:
        order = np.random.default_rng(self.epoch).permutation(self.rows)
        part = order[self.at : self.at + self.size]
        self.at += self.size
        if self.at >= self.rows:
            self.epoch, self.at = self.epoch + 1, 0
        return part


class Run:
    """Everything that a training run changes."""

    def __init__(self) -> None:
        wg.manual_seed(0)
        random.seed(0)
        self.model = wg.nn.Sequential(wg.nn.Linear(4, 8), wg.nn.BatchNorm1d(8), wg.nn.Dropout(0.3), wg.nn.Linear(8, 1))
        self.optimizer = wg.optim.AdamW(self.model.parameters(), lr=0.01)
        self.scheduler = wg.optim.lr_scheduler.StepLR(self.optimizer, 5, gamma=0.7)
        self.generator = wg.random.Generator(1)
        self.numpy = np.random.default_rng(2)
        self.loader = Loader(24, 8)
        self.losses: list[float] = []

    def parts(self) -> dict[str, Any]:
        names = ("model", "optimizer", "scheduler", "generator", "numpy", "loader")
        return {name: getattr(self, name) for name in names}

    def step(self) -> None:
        x = wg.asarray(np.arange(96.0, dtype=np.float32).reshape(24, 4)[next(self.loader)] / 96)
        noise = wg.randn(*x.shape, generator=self.generator) * random.random()
        loss = ((self.model(x + noise) - float(self.numpy.random())) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        self.losses.append(loss.item())

    def digest(self) -> str:
        state = {
            "model": {k: v.numpy().tobytes().hex() for k, v in self.model.state_dict().items()},
            "optimizer": [
                {k: v.numpy().tobytes().hex() if isinstance(v, wg.Tensor) else repr(v) for k, v in s.items()}
                for s in self.optimizer.state_dict()["state"].values()
            ],
            "rates": [g["lr"] for g in self.optimizer.param_groups],
            "scheduler": self.scheduler.state_dict(),
            "loader": self.loader.state_dict(),
            "random": [self.generator.get_state().tolist(), wg.random.get_rng_state().tolist(), random.getstate()],
            "numpy": str(self.numpy.bit_generator.state),
            "losses": [x.hex() for x in self.losses],
        }
        return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def resumed(folder: str) -> tuple[Run, int]:
    run = Run()
    found = load_checkpoint(folder, **run.parts())
    if found is None:
        return run, 0
    run.losses = list(found["losses"])
    assert found.step is not None
    return run, found.step


def train(folder: str, steps: int) -> None:
    run, start = resumed(folder)
    for step in range(start + 1, steps + 1):
        run.step()
        save_checkpoint(folder, step=step, random=("wengert", "python"), losses=run.losses, **run.parts())


def reference() -> list[str]:
    """The digest after every step of a run that nobody disturbs."""
    run, found = Run(), []
    for _ in range(STEPS):
        found.append(run.digest())
        run.step()
    return [*found, run.digest()]


def forked(do: Any, *args: Any) -> int:
    """Run a function in a process of its own, and return the process."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        do(*args)
        status = 0
    except BaseException as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr, flush=True)
    finally:
        os._exit(status)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check(folder: str, expected: list[str]) -> int:
    """Return the step of the last good checkpoint, which is that of the undisturbed run in every bit."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is passed over: a kill leaves no damaged checkpoint
        run, step = resumed(folder)
    assert run.digest() == expected[step], f"step {step} differs"
    return step


def kill_again_and_again(folder: str, kills: int, seed: int) -> None:
    expected = reference()
    r = random.Random(seed)
    start = time.monotonic()
    train(os.path.join(folder, "timed"), 4)
    each = (time.monotonic() - start) / 4
    done, runs, in_staging = 0, 0, 0
    while done < kills:
        runs += 1
        where = os.path.join(folder, f"run{runs}")
        last = 0
        while True:
            child = forked(train, where, STEPS)
            time.sleep(r.uniform(0, 8 * each))
            os.kill(child, signal.SIGKILL)
            status = ended(child)
            assert status in (0, -signal.SIGKILL), status
            in_staging += os.path.isdir(where) and any(n.startswith(".staged") for n in os.listdir(where))
            step = check(where, expected)
            assert step >= last, f"step {step} after step {last}"
            last = step
            if status == 0:
                break
            done += 1
            if done >= kills:
                break
        assert ended(forked(train, where, STEPS)) == 0
        assert check(where, expected) == STEPS
        # The next one that is written cleans up after those that were killed.
        save_checkpoint(where, step=STEPS, value=0)
        left = sorted(n for n in os.listdir(where) if not n.startswith("checkpoint-"))
        assert left == ["latest"], left
        shutil.rmtree(where)
    print(f"{done} kills in {runs} runs, {in_staging} while a checkpoint was written: all as undisturbed")


def write_at_once(folder: str) -> None:
    """Two processes write to one folder; whatever they leave is good."""

    def write(number: int) -> None:
        model = wg.nn.Linear(3, 3)
        for i in range(12):
            for p in model.parameters():
                p.assign_(wg.full(p.shape, float(number * 100 + i)))
            save_checkpoint(folder, step=number * 100 + i, model=model, keep=3)

    children = [forked(write, n) for n in (1, 2)]
    assert [ended(c) for c in children] == [0, 0]
    model = wg.nn.Linear(3, 3)
    found = load_checkpoint(folder, model=model)
    assert found is not None
    assert found.step in (111, 211), found.step
    assert not found.skipped
    assert {float(v) for p in model.parameters() for v in p.detach().numpy().ravel()} == {float(found.step)}
    kept = [n for n in os.listdir(folder) if n.startswith("checkpoint-")]
    assert 3 <= len(kept) <= 4, kept
    print("two processes at once: good")


def no_space(folder: str) -> None:
    """A file may grow to so many bytes and no further, as on a full disk."""
    save_checkpoint(folder, step=1, model=wg.nn.Linear(40, 40), values=[1])

    def write(limit: int) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        told = ""
        try:
            save_checkpoint(folder, step=2, model=wg.nn.Linear(40, 40), values=[2])
        except wg.DataError as e:
            told = str(e)
        assert "was not written" in told, told

    for limit in (0, 1, 100, 500, 3000, 6000):
        assert ended(forked(write, limit)) == 0
        found = load_checkpoint(folder, model=wg.nn.Linear(40, 40))
        assert found is not None
        assert (found.step, found["values"]) == (1, [1])
        assert sorted(os.listdir(folder)) == ["checkpoint-000001", "latest"]
    print("no space left: good")


def main(folder: str, kills: int, seed: int) -> None:
    kill_again_and_again(os.path.join(folder, "kills"), kills, seed)
    write_at_once(os.path.join(folder, "both"))
    no_space(os.path.join(folder, "full"))


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
