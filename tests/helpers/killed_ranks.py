"""Jobs of which a rank is killed or frozen, in any phase: `python killed_ranks.py FOLDER KILLS SEED` runs many.

Runs of several seeds may share a folder: they take each run that nobody disturbs from there.

Each job trains on two ranks and saves a checkpoint after every step; by the plan "blocks", which has the same bits on
any number of ranks, it is on one, two or four. One rank is sent SIGKILL or SIGSTOP somewhere
between the start and the exit. The job must end by itself, in bounded time, with a status that is not 0, and leave no
process. The next job goes on from the last checkpoint. When training is done, its losses must be, bit for bit, those of
a run that nobody disturbed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import small_networks
import wengert as wg
from wengert import distribute as dist
from wengert.train import checkpoints

STEPS = 6
PHASES = ("start", "restore", "compile", "collective", "save", "commit", "exit")
# How long a rank of a disturbed job may say nothing, and how long a job may take in all.
WATCHDOG, LIMIT = 4, 300
SIGNALS = {"KILL": signal.SIGKILL, "STOP": signal.SIGSTOP}


def reached(phase: str, step: int = 0) -> None:
    """Send this rank the signal that is meant for it here, at once or while it goes on."""
    told = os.environ.get("KILLED_RANK", "")
    if not told:
        return
    rank, where, at, kind, delay = told.split(":")
    if (int(rank), where, int(at)) != (dist.rank(), phase, step):
        return

    def send() -> None:
        Path(os.environ["KILLED_MARK"]).touch()
        os.kill(os.getpid(), SIGNALS[kind])

    if float(delay):
        threading.Timer(float(delay), send).start()
    else:
        send()


def trained(folder: str, stop: int, plan: str) -> list[float]:
    """Train from the last checkpoint on; return the losses from the first step on."""
    wg.manual_seed(0)
    reached("start")
    mesh = dist.Mesh(data=dist.size())
    model = small_networks.chain(6, 8, 4)
    optimizer = wg.optim.Adam(model.parameters(), lr=0.1)
    dist.shard(model, mesh, fsdp="data" if plan in ("fsdp", "blocks") else None)

    step = small_networks.training(model, optimizer)

    compiled = dist.jit(
        step,
        mesh=mesh,
        in_specs=("data",),
        zero="data" if plan == "zero" else None,
        blocks={"data": 4} if plan == "blocks" else None,
    )
    reached("restore")
    found = dist.load_checkpoint(folder, model=model, optimizer=optimizer)
    losses: list[float] = list(found["losses"]) if found is not None else []
    for i in range(len(losses), stop):
        reached("compile" if compiled.cache_info().traces == 0 else "collective", i)
        losses.append(float(compiled(wg.tensor(np.random.default_rng(i).normal(size=(8, 6)).astype(np.float32)))))
        reached("save", i)
        dist.save_checkpoint(folder, step=i + 1, model=model, optimizer=optimizer, losses=losses)
    reached("exit")
    return losses


def mark(folder: Path) -> Path:
    """Return the file that tells that a signal was sent in the last job of a folder."""
    return folder.with_suffix(".sent")


def job(folder: Path, plan: str, kill: str, ranks: int = 2) -> tuple[int | None, str]:
    """Run a job on so many ranks; return its exit status, None where it had to be ended, and what it printed of errors.

    The short watchdog is that of jobs which a signal may freeze: on a busy machine it may end any.
    """
    mark(folder).unlink(missing_ok=True)
    env = {**os.environ, "KILLED_RANK": kill, "KILLED_MARK": str(mark(folder))}
    if kill:
        env["WENGERT_WATCHDOG"] = str(WATCHDOG)
    command = [sys.executable, "-m", "wengert", "launch", "-n", str(ranks), __file__, "rank", str(folder), plan]
    started = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    try:
        _, errors = started.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        started.terminate()
        return None, ""
    return started.returncode, errors


def left(folder: Path) -> list[str]:
    """Return the command lines of processes that belong to a job's folder, after a moment for them to end."""
    for _ in range(50):
        listed = subprocess.run(["ps", "-eo", "stat,args"], capture_output=True, text=True).stdout.splitlines()
        found = [line for line in listed if f"wengert.distribute script {__file__} rank {folder}" in line]
        found = [line for line in found if not line.startswith("Z")]
        if not found:
            break
        time.sleep(0.1)
    return found


def losses_in(folder: Path) -> list[float]:
    """Return the losses that the last checkpoint has."""
    found = checkpoints.load_checkpoint(folder)
    return [] if found is None else list(found["losses"])


def main(folder: str, kills: int, seed: int) -> Counter[str]:
    """Kill ranks of jobs until so many signals were sent; return how many by signal and phase."""
    rng, where, counts = random.Random(seed), Path(folder), Counter[str]()
    plans = ("", "zero", "fsdp", "blocks")
    expected = {}
    for plan in plans:
        alone = where / f"alone{plan}"
        if len(losses_in(alone)) < STEPS:
            status, errors = job(alone, plan, "", 1 if plan == "blocks" else 2)
            assert status == 0, errors
        expected[plan] = losses_in(alone)
        assert len(expected[plan]) == STEPS
    sent, run = 0, 0
    while sent < kills:
        plan, run = rng.choice(plans), run + 1
        disturbed = where / f"run-{seed}-{run}"
        while sent < kills and len(losses_in(disturbed)) < STEPS:
            done = len(losses_in(disturbed))
            ranks = rng.choice((1, 2, 2, 4)) if plan == "blocks" else 2
            # Nobody misses a rank that is frozen alone.
            phase, kind = rng.choice(PHASES), rng.choice(tuple(SIGNALS)) if ranks > 1 else "KILL"
            at = 0 if phase in ("start", "restore", "exit") else rng.randrange(done, STEPS)
            delay = rng.choice((0.0, 0.0, rng.random() * 0.02, rng.random() * 0.3))
            start = time.monotonic()
            status, errors = job(disturbed, plan, f"{rng.randrange(ranks)}:{phase}:{at}:{kind}:{delay}", ranks)
            taken = time.monotonic() - start
            told = f"{kind} in {phase} {at} after {delay:.3f} s, plan {plan!r} on {ranks} ranks"
            assert status is not None, f"{told}: the job did not end in {LIMIT} s"
            assert not (orphans := left(disturbed)), f"{told}: {orphans}"
            if status == 0:  # the phase was not reached, or the rank had ended before its signal
                assert losses_in(disturbed) == expected[plan], told
                counts["not reached"] += 1
                continue
            now = losses_in(disturbed)
            assert now == expected[plan][: len(now)], told
            assert len(now) >= done, told
            if not mark(disturbed).exists():  # the machine is too busy for so short a watchdog
                counts["ended before its signal"] += 1
                continue
            sent += 1
            counts[f"{kind} {phase}"] += 1
            print(f"{sent}: {told}: status {status} after {taken:.1f} s, {len(now)} steps saved", flush=True)
        status, errors = job(disturbed, plan, "")
        assert status == 0, errors
        assert losses_in(disturbed) == expected[plan]
        shutil.rmtree(disturbed)
    return counts


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        whole = checkpoints.commit

        def committed(*given: Any) -> str:
            reached("commit", given[2]["step"] - 1)
            return whole(*given)

        checkpoints.commit = committed  # type: ignore[assignment]
        trained(sys.argv[2], STEPS, sys.argv[3] if len(sys.argv) > 3 else "")
    else:
        print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])), indent=1))
