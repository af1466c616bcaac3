"""Loaders with workers: the same batches as without, errors with their places, and an end without remains."""

from __future__ import annotations

import collections
import gc
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.core.errors import ShapeError, StateError
from wengert.torch.utils.data import (
    ChainDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    chance,
    default_collate,
    get_worker_info,
)

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="these datasets are only here: processes have to fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

# Seconds after which a test fails, rather than to wait for ever.
LONG = 120
Pair = collections.namedtuple("Pair", "left right")


def values(x: Any) -> Any:
    """Batches as plain lists, dicts and numbers."""
    if isinstance(x, wg.Tensor):
        return x.tolist()
    if isinstance(x, dict):
        return {k: values(v) for k, v in x.items()}
    return [values(v) for v in x] if isinstance(x, (list, tuple)) else x


def flat(batches: Any) -> Any:
    """The elements of all batches in one list."""
    return list(itertools.chain.from_iterable(values(list(batches))))


def fork(dataset: Any, batch_size: Any = 1, **given: Any) -> DataLoader[Any]:
    """A loader whose workers are forked, whatever this Python's default is."""
    return DataLoader(dataset, batch_size, multiprocessing_context="fork", **given)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


@pytest.fixture(autouse=True)
def nothing_remains(request: pytest.FixtureRequest) -> Any:
    """No process and no open file is left by a test."""
    if "compiled" in request.fixturenames:
        request.getfixturevalue("compiled")
    wg.manual_seed(0)
    list(fork(range(2), num_workers=1))  # what stays open is made once
    before = descriptors()
    yield
    gc.collect()  # an exception may hold its frames, and they the loader
    assert multiprocessing.active_children() == []
    if "method" not in request.fixturenames:  # Python's own helpers stay
        assert descriptors() == before


class Rich(Dataset[Any]):
    """Samples of every kind."""

    def __len__(self) -> int:
        return 25

    def __getitem__(self, i: int) -> Any:
        return {
            "row": torch.full((700,), float(i)),
            "pair": Pair(np.arange(i, i + 3), f"text {i}"),
            "numbers": (i, i / 2, np.float32(i), i % 2 == 0),
            "none": np.zeros((0, 4)),
        }


class Part(IterableDataset[int]):
    """Each worker gives hundreds of its own, as many as it has."""

    counts = (5, 2, 9)

    def __iter__(self) -> Any:
        info = get_worker_info()
        number = 0 if info is None else info.id
        return iter(range(100 * number, 100 * number + self.counts[number]))


class Does(Dataset[Any]):
    """Does something at one sample."""

    def __init__(self, do: Any, at: int = 5, count: int = 12) -> None:
        self.do, self.at, self.count = do, at, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> Any:
        if i == self.at:
            found = self.do()
            if found is not None:
                return found
        return torch.tensor(float(i))


# -- the same batches


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_batches_are_those_of_no_workers(workers: int) -> None:
    def loader(**given: Any) -> Any:
        return DataLoader(Rich(), 4, shuffle=True, generator=wg.random.Generator(3), **given)

    expected = [values(list(loader())) for _ in range(2)]
    for _ in range(2):
        batches = list(loader(num_workers=workers, multiprocessing_context="fork"))
        assert values(batches) == expected[0]
        assert type(batches[0]["pair"]) is Pair
        assert type(batches[0]["row"]) is torch.Tensor
        assert str(batches) == str(list(loader()))


def test_the_second_pass_has_the_same_order_too() -> None:
    orders = []
    for given in ({}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}):
        wg.manual_seed(11)
        make = fork if given else DataLoader
        loader = make(range(10), 3, shuffle=True, **given)
        orders.append([values(list(loader)) for _ in range(3)])
        del loader
    assert orders[0] == orders[1] == orders[2]
    assert orders[0][0] != orders[0][1]


@pytest.mark.parametrize("method", ["spawn", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_other_ways_to_start(method: str) -> None:
    x = torch.arange(40).reshape(10, 4)
    loader = DataLoader(Subset(TensorDataset(x), range(9, -1, -1)), 4, num_workers=1, multiprocessing_context=method)
    assert values(list(loader)) == [[x.tolist()[:5:-1]], [x.tolist()[5:1:-1]], [x.tolist()[1::-1]]]


@pytest.mark.parametrize(
    ("drop_last", "found"),
    [
        (
            False,
            [[0, 1], [100, 101], [200, 201], [2, 3], [202, 203], [4], [204, 205], [206, 207], [208]],
        ),
        (True, [[0, 1], [100, 101], [200, 201], [2, 3], [202, 203], [204, 205], [206, 207]]),
    ],
)
def test_iterable_datasets_take_turns_as_pytorchs_do(drop_last: bool, found: Any) -> None:
    loader = fork(Part(), 2, num_workers=3, drop_last=drop_last, persistent_workers=True)
    assert values(list(loader)) == found
    assert values(list(loader)) == found
    assert values(list(fork(Part(), None, num_workers=2))) == [0, 100, 1, 101, 2, 3, 4]
    assert len(list(fork(ChainDataset([Part(), Part()]), 4, num_workers=1))) == 3


@pytest.mark.parametrize("order", [True, False])
def test_without_order_every_batch_comes_once(order: bool) -> None:
    assert sorted(flat(fork(range(50), 3, num_workers=3, in_order=order, prefetch_factor=4))) == list(range(50))


def test_batches_that_are_kept_stay_as_they_are() -> None:
    """Also those that lie in memory which workers write to again, more of them than there is such memory."""
    x = torch.arange(90 * 1000).reshape(90, 1000)
    loader = fork(TensorDataset(x, torch.arange(90)), 1, num_workers=1)
    kept = []
    for i, (row, number) in enumerate(loader):
        if i % 2 == 0:
            kept.append((i, row, number))
    del loader, row, number
    for i, row, number in kept:
        assert number.tolist() == [i]
        assert np.array_equal(row.numpy()[0], x.numpy()[i])


def test_batches_of_growing_size() -> None:
    class Growing(Dataset[Any]):
        def __len__(self) -> int:
            return 14

        def __getitem__(self, i: int) -> Any:
            return np.full(2**i * 10, i, np.int32), f"{i}" * 2**i

    for _ in range(2):
        for i, (x, texts) in enumerate(fork(Growing(), 1, num_workers=2)):
            assert x.numpy().tolist() == [[i] * (2**i * 10)]
            assert list(texts) == [f"{i}" * 2**i]


def test_many_arrays_and_other_objects() -> None:
    class Many(Dataset[Any]):
        def __len__(self) -> int:
            return 6

        def __getitem__(self, i: int) -> Any:
            large = np.arange(12_000.0).reshape(100, 120) + i
            return [np.full(3, i + k) for k in range(300)], large.T, large[::2], {i}, large

    for i, sample in enumerate(fork(Many(), None, num_workers=2, collate_fn=lambda s: s)):
        small, turned, halved, found, large = sample
        assert [a.tolist() for a in small] == [[i + k] * 3 for k in range(300)]
        assert np.array_equal(turned, large.T)
        assert np.array_equal(halved, large[::2])
        assert large[0, 0] == i
        assert found == {i}
        large[0, 0] = 5  # arrays of the user's own can be written to, as without workers


def test_a_function_that_keeps_its_batches() -> None:
    kept: list[Any] = []

    def collate(batch: Any) -> Any:
        kept.append(default_collate(batch))
        return [k.sum() for k in kept], kept[-1]

    x = torch.ones(40, 600) * torch.arange(40).reshape(40, 1)
    for i, (sums, _) in enumerate(fork([*x], 1, num_workers=1, collate_fn=collate)):
        assert [s.item() for s in sums] == [600.0 * k for k in range(i + 1)]


@pytest.fixture
def compiled() -> Any:
    """A function that is compiled by now: that opens a file."""
    run = wg.jit(lambda w, x: (w * x).sum())
    for _ in range(3):
        run(torch.ones(700), torch.ones(5, 700))
    return run


def test_batches_take_part_in_what_follows(compiled: Any) -> None:
    w = torch.tensor([1.0] * 700, requires_grad=True)
    seen = 0.0
    for batch in fork(Rich(), 5, num_workers=2):
        loss = compiled(w, batch["row"])
        loss.backward()
        seen += loss.item()
        batch["row"].add_(1.0)
    assert seen == 700.0 * sum(range(25))
    assert w.grad.tolist() == [float(sum(range(25)))] * 700


# -- what workers know


def test_what_a_worker_is_told() -> None:
    begun: Any = multiprocessing.get_context("fork").SimpleQueue()

    class Told(Dataset[Any]):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, i: int) -> Any:
            info = get_worker_info()
            assert info is not None
            assert type(info.dataset) is Told
            return info.id, info.num_workers, info.seed, wg.random.initial_seed(), wg.get_num_threads()

    found = list(fork(Told(), None, num_workers=2, worker_init_fn=begun.put, collate_fn=lambda s: s))
    assert sorted(begun.get() for _ in range(2)) == [0, 1]
    begun.close()
    assert [f[:2] for f in found] == [(0, 2), (1, 2), (0, 2), (1, 2)]
    assert [f[2] - found[0][2] for f in found] == [0, 1, 0, 1]
    assert all(f[3] == f[2] and f[4] == 1 for f in found)


def test_seeds_of_numpys_generator_are_pytorchs() -> None:
    before = chance.now()
    try:
        chance.seed_everything(2**40 + 7, 1)
        found = np.random.rand()  # noqa: NPY002
    finally:
        chance.restore(before)
    # Recorded from PyTorch's worker 1 of that seed.
    words = np.array([1152389008, 3270329042, 2442107819, 4106971920], np.uint32)
    assert found == np.random.RandomState(words).rand()


def test_workers_that_stay_are_the_same() -> None:
    class Pids(Dataset[Any]):
        def __len__(self) -> int:
            return 12

        def __getitem__(self, i: int) -> Any:
            return i, os.getpid()

    loader = fork(Pids(), 2, num_workers=2, persistent_workers=True)
    pids = []
    for stop in (2, 6, 1, 6):
        for n, (numbers, who) in enumerate(loader):
            assert numbers.tolist() == [2 * n, 2 * n + 1]
            pids += who.tolist()
            if n + 1 == stop:
                break
    assert len(set(pids)) == 2
    assert len(multiprocessing.active_children()) == 2


# -- going on in the middle


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_goes_on_with_any_number_of_workers(workers: int) -> None:
    def loader(n: int) -> Any:
        make = fork if n else DataLoader
        return make(range(30), 4, shuffle=True, generator=wg.random.Generator(6), num_workers=n)

    first = loader(2)
    batches = iter(first)
    for _ in range(3):
        next(batches)
    state = first.state_dict()
    assert state["batches"] == 3
    second = loader(workers)
    second.load_state_dict(state)
    assert values([list(second), list(second)]) == values([list(batches), list(first)])


@pytest.mark.parametrize("taken", [1, 4, 6, 8])
def test_an_iterable_dataset_goes_on_with_as_many_workers(taken: int) -> None:
    first = fork(Part(), 2, num_workers=3)
    batches = iter(first)
    for _ in range(taken):
        next(batches)
    state = first.state_dict()
    second = fork(Part(), 2, num_workers=3)
    second.load_state_dict(state)
    assert values(list(second)) == values(list(batches))
    with pytest.raises(StateError, match="3 workers, for one with 2"):
        fork(Part(), 2, num_workers=2).load_state_dict(state)


def test_random_numbers_of_batches_do_not_depend_on_workers() -> None:
    class Noisy(Dataset[Any]):
        def __len__(self) -> int:
            return 10

        def __getitem__(self, i: int) -> Any:
            return torch.rand(2), float(np.random.rand())  # noqa: NPY002

    def loader(n: int) -> Any:
        make = fork if n else DataLoader
        return make(Noisy(), 2, generator=wg.random.Generator(2), num_workers=n, seed_batches=True)

    expected = values(list(loader(0)))
    assert values(list(loader(1))) == values(list(loader(3))) == expected
    first = loader(2)
    batches = iter(first)
    next(batches)
    second = loader(1)
    second.load_state_dict(first.state_dict())
    assert values(list(second)) == expected[1:]


# -- errors


class OddError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"odd {one} {two}")


def fails(error: BaseException) -> Any:
    def do() -> Any:
        raise error

    return do


@pytest.mark.parametrize(
    ("do", "kind", "says"),
    [
        (fails(ValueError("bad sample")), ValueError, "bad sample"),
        (fails(KeyError("a")), KeyError, "'a'"),
        (fails(OddError(1, 2)), RuntimeError, "odd 1 2"),
        (fails(SystemExit(3)), RuntimeError, "3"),
        (lambda: b"\xff".decode(), RuntimeError, "'utf-8' codec"),
        (lambda: torch.ones(3) @ torch.ones(4), ShapeError, "matmul"),
    ],
)
def test_an_error_has_the_users_line_first_and_the_workers_trace(do: Any, kind: Any, says: str) -> None:
    batches = iter(fork(Does(do), 3, num_workers=2))
    assert next(batches).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(kind) as caught:
        next(batches)
    first, *rest = str(caught.value).splitlines()
    assert first.startswith(says)
    assert f"{__file__}:" in first
    text = "\n".join(rest)
    assert "in DataLoader worker process 1.\nOriginal Traceback (most recent call last):" in text
    assert "self.do()" in text
    assert "samples_at" not in text  # from the user's first line on
    # As in PyTorch the pass goes on behind it.
    assert [b.tolist() for b in batches] == [[6.0, 7.0, 8.0], [9.0, 10.0, 11.0]]


def test_samples_that_do_not_fit_together() -> None:
    with pytest.raises(ShapeError, match="test_data_workers") as caught:
        list(fork(Does(lambda: torch.ones(2)), 3, num_workers=1))
    assert "(2,) that at 2" in str(caught.value).splitlines()[0]


def test_a_batch_that_cannot_be_sent() -> None:
    batches = iter(fork(Does(lambda: lambda: 0), None, num_workers=1, collate_fn=lambda s: s))
    assert [next(batches).item() for _ in range(5)] == [0.0, 1.0, 2.0, 3.0, 4.0]
    with pytest.raises(Exception, match="pickle"):
        next(batches)
    assert next(batches).item() == 6.0


def test_errors_before_the_first_batch() -> None:
    class Unready(IterableDataset[Any]):
        def __iter__(self) -> Any:
            raise ValueError("not ready")

    with pytest.raises(ValueError, match="no luck"):
        next(iter(fork(range(3), num_workers=2, worker_init_fn=lambda i: fails(ValueError("no luck"))())))
    batches = iter(fork(Unready(), num_workers=1))
    for _ in range(2):
        with pytest.raises(ValueError, match="not ready"):
            next(batches)


@pytest.mark.parametrize(
    ("do", "how"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was killed by SIGKILL"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), "was killed by SIGTERM"),
        (lambda: os._exit(3), "exited with status 3"),
    ],
)
def test_a_worker_that_is_gone_is_an_error(do: Any, how: str) -> None:
    batches = iter(fork(Does(do, at=8, count=40), 2, num_workers=2))
    with pytest.raises(RuntimeError, match=how) as caught:
        collections.deque(batches, 0)
    assert "DataLoader worker 0 (pid(s)" in str(caught.value)
    assert __file__ in str(caught.value).splitlines()[0]
    assert list(batches) == []
    assert multiprocessing.active_children() == []


def test_a_worker_killed_from_outside() -> None:
    loader = fork(range(100), 2, num_workers=2, persistent_workers=True)
    batches = iter(loader)
    next(batches)
    victim = multiprocessing.active_children()[0]
    os.kill(victim.pid or 0, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(batches)
    assert flat(loader) == list(range(100))  # by new workers


def test_time_runs_out() -> None:
    with pytest.raises(RuntimeError, match=r"timed out after 0\.2 seconds"):
        list(fork(Does(lambda: time.sleep(LONG), at=0), 3, num_workers=1, timeout=0.2))


# -- ends


def test_leaving_a_loop_ends_the_workers() -> None:
    for _ in range(2):
        for _ in fork(range(10_000), 2, num_workers=2):
            assert len(multiprocessing.active_children()) == 2
            break
        assert multiprocessing.active_children() == []


def test_an_exception_in_the_loop_ends_the_workers() -> None:
    def run() -> None:
        for _ in fork(range(10_000), 2, num_workers=2):
            raise KeyError

    with pytest.raises(KeyError) as caught:
        run()
    caught.value.__traceback__ = None
    del caught
    assert multiprocessing.active_children() == []


def test_two_loaders_at_once() -> None:
    pairs = zip(fork(range(40), 2, num_workers=2), fork(range(40), 2, num_workers=2, shuffle=True), strict=True)
    first, second = zip(*pairs, strict=True)
    assert flat(first) == sorted(flat(second)) == list(range(40))


def test_a_forked_process_leaves_the_workers_alone() -> None:
    batches = iter(fork(range(60), 2, num_workers=2))
    found = next(batches).tolist()
    child = os.fork()
    if child == 0:
        try:
            del batches
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert found + flat(batches) == list(range(60))


def apart(code: str) -> subprocess.Popen[str]:
    """A process that runs a program, in a group of its own."""
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=settings,
        start_new_session=True,
    )


def gone(pid: int) -> bool:
    """Whether a process is no more, or only its entry is."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def wait_until_gone(pids: list[int]) -> None:
    end = time.monotonic() + LONG
    while not all(gone(p) for p in pids):
        assert time.monotonic() < end, "a worker is left"
        time.sleep(0.02)


_ENDLESS = """
import multiprocessing, os, sys, time
import wengert.torch as torch

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 1_000_000
    def __getitem__(self, i):
        if i > 20:
            time.sleep({seconds})
        return torch.full((1000,), float(i))

loader = torch.utils.data.DataLoader(
    Slow(), 2, num_workers=2, multiprocessing_context="fork", persistent_workers={persistent}
)
for n, batch in enumerate(loader):
    if n == 2:
        print(*[p.pid for p in multiprocessing.active_children()], flush=True)
"""


def running(seconds: float, persistent: bool, more: str = "") -> tuple[subprocess.Popen[str], list[int]]:
    """A program in the midst of a loop over a loader, and its workers."""
    program = apart(_ENDLESS.format(seconds=seconds, persistent=persistent) + more)
    assert program.stdout is not None
    workers = [int(p) for p in program.stdout.readline().split()]
    assert len(workers) == 2
    return program, workers


in_proc = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are looked up in /proc")


@in_proc
@pytest.mark.parametrize(
    ("to", "persistent", "seconds"),
    [
        ("group", False, 0),
        ("main", True, LONG),
        pytest.param("group", True, LONG, marks=pytest.mark.slow),
        pytest.param("main", False, 0, marks=pytest.mark.slow),
    ],
)
def test_an_interrupt_ends_everything(to: str, persistent: bool, seconds: float) -> None:
    program, workers = running(seconds, persistent)
    (os.killpg if to == "group" else os.kill)(program.pid, signal.SIGINT)
    _, err = program.communicate(timeout=LONG)
    assert program.returncode in (1, -signal.SIGINT, 130)
    assert err.count("Traceback") == 1
    assert "KeyboardInterrupt" in err
    assert "resource_tracker" not in err
    wait_until_gone(workers)


@in_proc
@pytest.mark.parametrize("by", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_workers_do_not_outlive_the_main_process(by: signal.Signals) -> None:
    program, workers = running(0.01, False)
    os.kill(program.pid, by)
    program.communicate(timeout=LONG)
    wait_until_gone(workers)


def test_a_program_ends_with_workers_at_work() -> None:
    program, workers = running(0, True, "        break\n")
    _, err = program.communicate(timeout=LONG)
    assert (program.returncode, err) == (0, "")
    wait_until_gone(workers)


def test_a_program_without_a_guard_is_told_so(tmp_path: Any) -> None:
    """Spawned workers run the program's text: they end at once, and the main process says so."""
    path = tmp_path / "unguarded.py"
    path.write_text(
        "import wengert.torch as torch\n"
        "data = torch.utils.data.TensorDataset(torch.zeros(200, 1000))\n"
        "next(iter(torch.utils.data.DataLoader(data, num_workers=1, multiprocessing_context='spawn')))\n"
    )
    program = apart(f"import os, sys; os.execv(sys.executable, [sys.executable, {str(path)!r}])")
    _, err = program.communicate(timeout=LONG)
    assert program.returncode == 1
    assert "if __name__ == '__main__'" in err
    assert "exited unexpectedly: it exited with status 1" in err


def test_workers_fork_while_other_threads_compute() -> None:
    program = apart("""
        import threading, warnings
        import numpy as np
        import wengert as wg, wengert.torch as torch

        wg.set_num_threads(2)
        w = wg.ones((120, 120))
        run = wg.jit(lambda a: wg.softmax(a @ w, -1).sum())
        run(w)
        stop = threading.Event()

        def compute():
            while not stop.is_set():
                run(w)

        class Computes(torch.utils.data.Dataset):
            def __len__(self):
                return 12
            def __getitem__(self, i):
                return run(w) + i, wg.jit(lambda a: a * 2)(torch.ones(3))

        threads = [threading.Thread(target=compute) for _ in range(2)]
        for t in threads:
            t.start()
        try:
            for _ in range(2):
                loader = torch.utils.data.DataLoader(Computes(), 4, num_workers=2, multiprocessing_context="fork")
                found = [x.tolist() for x, _ in loader]
                assert np.allclose(sum(found, []), [120 + i for i in range(12)], rtol=1e-4), found
        finally:
            stop.set()
            for t in threads:
                t.join()
        print("done")
    """)
    out, err = program.communicate(timeout=LONG)
    assert out == "done\n", err
