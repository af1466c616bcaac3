"""A training run by `wg.train.fit` that is killed at one step after another: `python resumed_training.py folder`.

Each part is a process of its own, which kills itself in the midst of a step; the next one goes on from the last
checkpoint. In the end history, weights and logs are compared, bit for bit, with those of a run that nobody disturbed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.train import Callback, JSONLLogger, ModelCheckpoint, Run, fit


class Kill(Callback):
    """The end of the process in the midst of a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_start(self, run: Run) -> None:
        if run.step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


def train(folder: Path, kill: int = -1) -> Any:
    wg.manual_seed(0)
    x = np.random.default_rng(0).standard_normal((24, 3)).astype(np.float32)
    model = wg.nn.Sequential(wg.nn.Linear(3, 8), wg.nn.BatchNorm1d(8), wg.nn.Dropout(0.3), wg.nn.Linear(8, 1))
    optimizer = wg.optim.AdamW(model.parameters(), lr=0.01)
    history = fit(
        model,
        optimizer,
        wg.nn.functional.mse_loss,
        (x, x[:, :1]),
        batch_size=5,
        epochs=4,
        schedule=wg.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20),
        schedule_by="step",
        callbacks=[ModelCheckpoint(folder, every_steps=2), JSONLLogger(folder / "log.jsonl"), Kill(kill)],
        progress=False,
        compile=False,
    )
    weights = [value.numpy().tobytes() for value in model.state_dict().values()]
    return history.to_csv(), history.to_csv(by="step"), weights, (folder / "log.jsonl").read_text()


def main(folder: Path) -> None:
    kills = 0
    for step in (1, 5, 8, 13):
        child = os.fork()
        if not child:
            (folder / "killed").mkdir(exist_ok=True)
            train(folder / "killed", step)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        kills += os.WIFSIGNALED(status)
    for name in ("killed", "whole"):
        (folder / name).mkdir(exist_ok=True)
    assert train(folder / "killed") == train(folder / "whole")
    print(f"{kills} kills")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
