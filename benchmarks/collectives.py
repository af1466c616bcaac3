"""Sums over ranks beside mpi4py by hand and gloo, and how much of them hides behind a training step.

python benchmarks/collectives.py                 # two ranks, Markdown tables; gloo where PyTorch is installed
python benchmarks/collectives.py --ranks 4
sh benchmarks/two_hosts.sh 2gbit benchmarks/collectives.py --only step   # two hosts, by namespaces, as administrator
python benchmarks/collectives.py --above         # in short bursts before all other programs, as administrator
python benchmarks/collectives.py --smoke         # check the numbers alone, time nothing

Every way sums the same float32 numbers, checked against a float64 reference first. Ways take turns; figures are medians
of calls, each as long as its slowest rank takes. *Bucketed* is what a training step does with its gradients: it sends
tensors of many layers as one, by Wengert's engine, here as steps of a program; mpi4py and gloo are given one array of
that size.

The step is that of gpt_mini (see native/training.py), each rank with one thread and its part of the batch. *At once*
all gradients move in one message that is waited for where it starts, *overlapped* is what `jit` runs. Both are timed
beside the same program for a rank alone, in which nothing moves: what a step takes longer than that is what moving
costs it. What of that an overlapped step does not pay is hidden. On ranks of one host the processors that compute move
the bytes too, so little can hide; `two_hosts.sh` makes a link between two.
"""

from __future__ import annotations

import argparse
import io
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import predictions
import ranks as on_ranks

import wengert as wg
from wengert import distribute, nn
from wengert.core.graph.graph import Graph
from wengert.distribute.engines.mpi_native import Alone
from wengert.distribute.placing import buckets
from wengert.execute.jit.executor import executor
from wengert.ops.collective.definitions import all_reduce
from wengert.ops.collective.group import current, entered

SIZES = (1 << 10, 1 << 16, 1 << 20, 3_270_000, 1 << 24, 25_000_000, 1 << 26)
PORT = 29591
# So many sums a program does, one after the other.
CHAIN = 4


def compiled(graph: Graph, exchanges: Any, mesh: distribute.Mesh) -> Callable[[Sequence[Any]], list[Any]]:
    """A rank's graph as native code, as a step on a mesh runs it."""
    group: Any = current()
    on_mesh = group.on(mesh)
    ready = executor(graph, exchanges=exchanges)

    def run(feeds: Sequence[Any]) -> list[Any]:
        with entered(on_mesh), on_mesh.transport.trusting():
            return ready.run(feeds)

    for _ in range(5):
        run([np.zeros(n.spec.shape, n.spec.dtype) for n in graph.inputs])
    return run


def ways(x: np.ndarray) -> dict[str, Callable[[], np.ndarray]]:
    """The ways to sum an array over the ranks of this job, `CHAIN` times each, by name."""
    from mpi4py import MPI

    group: Any = current()
    ranks = distribute.size()
    mesh = distribute.Mesh(ranks=ranks)

    def chain(x: Any) -> Any:
        found = [x]
        for _ in range(CHAIN):  # each waits for the one before it
            found.append(distribute.all_reduce(found[-1], "ranks"))
        return found[1], found[-1]

    with group.on(mesh).mesh:
        graph = wg.graph(chain)(wg.spec(x.shape, "float32"))
    run = compiled(graph, group.transport.exchanges(mesh), mesh)

    def eager() -> np.ndarray:
        with group.transport.trusting():  # as inside a program that ranks have agreed on
            for _ in range(CHAIN):
                out = np.asarray(all_reduce.forward(x, over="ranks", ranks=ranks))
        return out

    # The memory that the program has: what is made of a sum lies elsewhere.
    places = [x, *(np.empty_like(x) for _ in range(CHAIN))]

    def by_hand() -> np.ndarray:
        for operand, out in itertools.pairwise(places):
            MPI.COMM_WORLD.Allreduce(operand, out)
        return places[1]

    found = {"wengert": lambda: run([x])[0], "eager": eager, "mpi4py": by_hand}
    try:
        import torch
        import torch.distributed as gloo
    except ImportError:
        return found
    torch.set_num_threads(1)
    if not gloo.is_initialized():
        gloo.init_process_group("gloo", f"tcp://127.0.0.1:{PORT}", rank=distribute.rank(), world_size=ranks)
    given = torch.from_numpy(x.copy())

    def by_gloo() -> np.ndarray:
        first = given.clone()  # it sums in place
        gloo.all_reduce(first)
        for _ in range(CHAIN - 1):
            gloo.all_reduce(given)
        return first.numpy()

    return {**found, "gloo": by_gloo}


def sums(nbytes: int, seconds: float, is_above: bool) -> dict[str, float]:
    """The median microseconds of a sum by each way, for a message of so many bytes; checked first."""
    on_ranks.pin(distribute.rank())
    numbers = [np.random.default_rng(r).normal(size=nbytes // 4).astype(np.float32) for r in range(distribute.size())]
    reference = np.sum(numbers, axis=0, dtype=np.float64)
    found = ways(numbers[distribute.rank()])
    for name, way in found.items():
        error = float(np.abs(way() - reference).max() / np.abs(reference).max())
        assert error < 1e-6, f"{name}: {error}"
    medians = on_ranks.medians(found, seconds, is_above)
    if "gloo" in found:
        import torch.distributed

        torch.distributed.destroy_process_group()  # its threads are not to outlive Python
    return {name: t / CHAIN * 1e6 for name, t in medians.items()}


class AtOnce:
    """Collectives that are waited for where they start."""

    def __init__(self, flights: Any) -> None:
        self.flights = flights
        self.kept: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.flights, name)

    def bind(self, moved: Any) -> Any:
        import ctypes

        flight = self.flights.bind(moved)
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 5)
        start, wait, state = kind(flight.start), kind(flight.wait), np.zeros(1, np.int64)
        table = np.array([state.__array_interface__["data"][0]], np.int64)

        def both(own: int, record: int, *units: int) -> None:
            start(own, record, *units)
            words = np.array([flight.env, 0, 0], np.int64)
            wait(table.__array_interface__["data"][0], words.__array_interface__["data"][0], *units)
            assert not state[0]

        function = kind(both)
        self.kept += [function, flight, state, table]
        address = ctypes.cast(function, ctypes.c_void_p).value
        return type("Bound", (), {"start": address, "look": flight.look, "wait": flight.wait, "env": flight.env})()


def gpt_mini() -> tuple[Any, Any, Any]:
    """A training step of gpt_mini, and a batch."""
    wg.manual_seed(0)
    model = predictions.GPT(65, 128, 4, 64)
    optimizer = wg.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    rng = np.random.default_rng(0)
    return step, wg.tensor(rng.integers(0, 65, (12, 64))), wg.tensor(rng.integers(0, 65, 12 * 64))


def hidden(seconds: float, is_above: bool) -> dict[str, float]:
    """The median milliseconds of a step alone, at once and overlapped; checked first."""
    ranks = distribute.size()
    on_ranks.pin(distribute.rank())
    group: Any = current()
    mesh = distribute.Mesh(data=ranks)
    step, x, y = gpt_mini()
    alone = [float(wg.jit(step)(x, y)) for _ in range(3)]
    step, x, y = gpt_mini()
    on_mesh = distribute.jit(step, mesh=mesh, in_specs=("data", "data"))
    np.testing.assert_allclose([float(on_mesh(x, y)) for _ in range(3)], alone, rtol=1e-4)
    usual = buckets.PARTS
    graphs = {"overlapped": on_mesh.lowered(x, y).graph}
    try:
        buckets.PARTS = 1
        step, x, y = gpt_mini()
        graphs["at once"] = distribute.jit(step, mesh=mesh, in_specs=("data", "data")).lowered(x, y).graph
    finally:
        buckets.PARTS = usual
    rng = np.random.default_rng(0)
    feeds = [
        (rng.uniform(0.1, 1, n.spec.shape) if n.spec.inexact else np.zeros(n.spec.shape)).astype(n.spec.dtype)
        for n in graphs["at once"].inputs
    ]
    flights = group.transport.exchanges(mesh)
    engines = {"at once": AtOnce(flights), "overlapped": flights}
    runs = {name: compiled(graph, engines[name], mesh) for name, graph in graphs.items()}
    for a, b in zip(runs["at once"](feeds), runs["overlapped"](feeds), strict=True):
        np.testing.assert_array_equal(a, b)
    alone = Alone(mesh.coordinates(distribute.rank()))
    runs |= {f"alone, {name}": compiled(graph, alone, mesh) for name, graph in graphs.items()}
    found = on_ranks.medians({name: lambda run=run: run(feeds) for name, run in runs.items()}, seconds, is_above)
    return {name: t * 1e3 for name, t in found.items()}


def on_all(fn: Callable[..., dict[str, float]], ranks: int, *args: Any) -> dict[str, float]:
    """What a function finds on rank 0: of the job that this is, else of one of so many ranks."""
    return fn(*args) if distribute.size() > 1 else distribute.run(fn, ranks, *args, engine="mpi")[0]


def main(arguments: list[str] | None = None) -> None:
    """Print a table of microseconds, how many times as long as Wengert's each other way takes, and what is hidden."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4.0, help="for each way and size")
    parser.add_argument("--only", choices=("sums", "step"), default="")
    parser.add_argument("--above", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args(arguments)
    os.environ.setdefault("WENGERT_WATCHDOG", "120")
    os.environ.setdefault("WENGERT_NUM_THREADS", "1")
    if distribute.rank():
        sys.stdout = io.StringIO()
    if args.smoke:
        on_all(sums, args.ranks, 1 << 12, 0.0, False)
        on_all(hidden, args.ranks, 0.0, False)
        print("all ways give the same sums")
        return
    if args.only != "step":
        print("| bytes | bucketed, us | called alone | mpi4py | gloo |\n| --- | --- | --- | --- | --- |")
        for nbytes in SIZES:
            found = on_all(sums, args.ranks, nbytes, args.seconds, args.above)
            own = found["wengert"]
            ratios = [f"{found[n] / own:.2f}" if n in found else "-" for n in ("eager", "mpi4py", "gloo")]
            print(f"| {nbytes:,} | {own:,.1f} | {' | '.join(ratios)} |", flush=True)
        print()
    if args.only != "sums":
        found = on_all(hidden, args.ranks, args.seconds, args.above)
        print("| gpt_mini | ms a step | of them for moving |\n| --- | --- | --- |")
        costs = {name: found[name] - found[f"alone, {name}"] for name in ("at once", "overlapped")}
        for name, cost in costs.items():
            print(f"| {name} | {found[name]:.2f} | {cost:.2f} |")
        print(f"\n{1 - costs['overlapped'] / costs['at once']:.0%} hidden")


if __name__ == "__main__":
    main()
