"""Sums over ranks beside mpi4py by hand and gloo: bucketed gradients as one message, by size.

python benchmarks/collectives.py                 # two ranks, a Markdown table; gloo where PyTorch is installed
python benchmarks/collectives.py --ranks 4
python benchmarks/collectives.py --smoke         # check the sums alone, time nothing

Every way sums the same float32 numbers, checked against a float64 reference first. Ways take turns, in rounds; figures
are medians of what rank 0 sees. *Bucketed* is what a training step does with its gradients: it sends tensors of all
layers as one, by Wengert's engine; mpi4py and gloo are given one array of that size.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert import distribute
from wengert.ops.collective.definitions import all_reduce
from wengert.ops.collective.group import current

SIZES = (1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 26)
PORT = 29591


def ways(x: np.ndarray) -> dict[str, Callable[[], np.ndarray]]:
    """The ways to sum an array over the ranks of this job, by name."""
    from mpi4py import MPI

    group: Any = current()
    ranks = distribute.size()

    def ours() -> np.ndarray:
        with group.transport.trusting():  # as inside a program that ranks have agreed on
            return np.asarray(all_reduce.forward(x, over="ranks", ranks=ranks))

    out = np.empty_like(x)

    def by_hand() -> np.ndarray:
        MPI.COMM_WORLD.Allreduce(x, out)
        return out

    found = {"wengert": ours, "mpi4py": by_hand}
    try:
        import torch
        import torch.distributed as gloo
    except ImportError:
        return found
    if not gloo.is_initialized():
        gloo.init_process_group("gloo", f"tcp://127.0.0.1:{PORT}", rank=distribute.rank(), world_size=ranks)
    given = torch.from_numpy(x.copy())

    def by_gloo() -> np.ndarray:
        total = given.clone()  # it sums in place
        gloo.all_reduce(total)
        return total.numpy()

    return {**found, "gloo": by_gloo}


def on_a_rank(nbytes: int, seconds: float) -> dict[str, float]:
    """The median microseconds of each way, for a message of so many bytes; checked first."""
    from mpi4py import MPI

    numbers = [np.random.default_rng(r).normal(size=nbytes // 4).astype(np.float32) for r in range(distribute.size())]
    reference = np.sum(numbers, axis=0, dtype=np.float64)
    found = ways(numbers[distribute.rank()])
    for name, way in found.items():
        error = float(np.abs(way() - reference).max() / np.abs(reference).max())
        assert error < 1e-6, f"{name}: {error}"
    times: dict[str, list[float]] = {name: [] for name in found}
    end = time.perf_counter() + seconds
    repeats = max(1, min(50, (1 << 20) // nbytes))
    while MPI.COMM_WORLD.bcast(time.perf_counter() < end and len(times["mpi4py"]) < 200):
        for name, way in found.items():
            MPI.COMM_WORLD.Barrier()
            start = time.perf_counter()
            for _ in range(repeats):
                way()
            times[name].append((time.perf_counter() - start) / repeats * 1e6)
    if "gloo" in found:
        import torch.distributed

        torch.distributed.destroy_process_group()  # its threads are not to outlive Python
    return {name: statistics.median(t) if t else 0.0 for name, t in times.items()}


def main(arguments: list[str] | None = None) -> None:
    """Print a table of microseconds, and how many times as long as Wengert's each other way takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8.0, help="for each size")
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args(arguments)
    os.environ.setdefault("WENGERT_WATCHDOG", "120")
    if args.smoke:
        distribute.run(on_a_rank, args.ranks, 1 << 12, 0.0, engine="mpi")
        print("all ways give the same sums")
        return
    print("| bytes | wengert, us | mpi4py / wengert | gloo / wengert |\n| --- | --- | --- | --- |")
    for nbytes in SIZES:
        found = distribute.run(on_a_rank, args.ranks, nbytes, args.seconds, engine="mpi")[0]
        own = found["wengert"]
        ratios = [f"{found[n] / own:.2f}" if n in found else "-" for n in ("mpi4py", "gloo")]
        print(f"| {nbytes:,} | {own:,.1f} | {' | '.join(ratios)} |", flush=True)


if __name__ == "__main__":
    main()
