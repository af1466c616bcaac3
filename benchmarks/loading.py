"""Data loading beside PyTorch's: the same datasets, the same order, the same batches, checked before they are timed.

    python benchmarks/loading.py [--rounds N] [--rows N]

A contender goes through the whole dataset once; the table gives the time of a batch. Workers are processes, whose start
and end belong to the time, unless they stay from one pass to the next.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Case, table
from peers import torch_module

import wengert.torch as wt

BATCH = 64
WIDTH = 784


def transformed(base: type, x: Any, y: Any, lib: Any) -> Any:
    """A dataset in Python, with a small transform of each sample in the library's own operations."""

    class Transformed(base):  # type: ignore[misc, valid-type]
        def __len__(self) -> int:
            return len(y)

        def __getitem__(self, i: int) -> Any:
            return (lib.from_numpy(x[i]) - 0.5) / 0.25, int(y[i])

    return Transformed()


def arrays(base: type, x: Any, y: Any) -> Any:
    """A dataset in Python over arrays, of which each sample is scaled by NumPy."""

    class Arrays(base):  # type: ignore[misc, valid-type]
        def __len__(self) -> int:
            return len(y)

        def __getitem__(self, i: int) -> Any:
            return (x[i] - np.float32(0.5)) / np.float32(0.25), int(y[i])

    return Arrays()


def mapped(base: type, path: str, y: Any) -> Any:
    """A dataset over a memory-mapped file."""
    rows = np.load(path, mmap_mode="r")

    class Mapped(base):  # type: ignore[misc, valid-type]
        def __len__(self) -> int:
            return len(rows)

        def __getitem__(self, i: int) -> Any:
            return np.array(rows[i]), int(y[i])

    return Mapped()


def cases(rows: int, folder: str) -> list[Case]:
    """Each dataset with no workers, with two, and with two that stay."""
    torch = torch_module()
    rng = np.random.default_rng(0)
    x = rng.random((rows, WIDTH), np.float32)
    y = rng.integers(0, 10, rows)
    order = rng.permutation(rows).tolist()
    path = os.path.join(folder, "rows.npy")
    np.save(path, x)
    libraries: dict[str, Any] = {"wengert": wt}
    if torch is not None:
        libraries["torch"] = torch
    datasets: dict[str, Callable[[Any], Any]] = {
        "tensors": lambda lib: lib.utils.data.TensorDataset(lib.from_numpy(x), lib.from_numpy(y)),
        "transform": lambda lib: transformed(lib.utils.data.Dataset, x, y, lib),
        "NumPy transform": lambda lib: arrays(lib.utils.data.Dataset, x, y),
        "memory map": lambda lib: mapped(lib.utils.data.Dataset, path, y),
    }
    scaled = (x - np.float32(0.5)) / np.float32(0.25)
    found = []
    for name, dataset in datasets.items():
        values = scaled if "transform" in name else x
        reference = [values[order].astype(np.float64), y[order].astype(np.float64)]
        for title, more in {
            "0 workers": {},
            "2 workers": {"num_workers": 2},
            "2 workers that stay": {"num_workers": 2, "persistent_workers": True},
        }.items():
            loaders = {
                n: lib.utils.data.DataLoader(dataset(lib), BATCH, sampler=order, **more) for n, lib in libraries.items()
            }
            found.append(
                Case(
                    f"{name}, {title}",
                    {n: lambda loader=loader: passed(loader) for n, loader in loaders.items()},
                    {n: lambda loader=loader: joined(loader) for n, loader in loaders.items()},
                    reference,
                    per=-(-rows // BATCH),
                    tolerance=1e-6,
                )
            )
    return found


def passed(loader: Any) -> None:
    """Go through the batches, and look at each."""
    for x, y in loader:
        assert x.shape[0] == y.shape[0]


def joined(loader: Any) -> list[np.ndarray]:
    """All batches as two arrays."""
    batches = [(np.array(x), np.array(y)) for x, y in loader]
    return [np.concatenate(parts) for parts in zip(*batches)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        chosen = [c for c in cases(given.rows, folder) if given.only in c.name]
        for case in chosen:
            case.check()
            case.measure(given.rounds, 0.0)
        print(table(chosen, 1e-6, "µs"))


if __name__ == "__main__":
    main()
