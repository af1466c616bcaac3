"""`torch.utils.data` without workers: datasets, samplers, collating, loaders, and going on in the middle of a pass."""

from __future__ import annotations

import collections
import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.core.errors import DataError, DTypeError, RangeError, ShapeError, StateError
from wengert.data.rows import Arena, lending, rows_of, stacked
from wengert.torch.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    get_worker_info,
    random_split,
)

Point = collections.namedtuple("Point", "x y")


def values(batches: Any) -> Any:
    """Batches as plain lists."""
    if isinstance(batches, wg.Tensor):
        return batches.tolist()
    if isinstance(batches, (list, tuple)):
        return [values(b) for b in batches]
    return batches


class Squares(Dataset[Any]):
    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        return torch.tensor([float(i), float(i * i)]), i


class Count(IterableDataset[int]):
    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Any:
        return iter(range(self.n))

    def __len__(self) -> int:
        return self.n


class Noisy(Dataset[Any]):
    """Samples that draw from all three default generators."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> Any:
        import random

        return float(torch.rand(1)), random.random(), float(np.random.rand())  # noqa: NPY002


# -- collating


@pytest.mark.parametrize(
    ("batch", "dtype", "found"),
    [
        ([1.5, 2.5], "float64", [1.5, 2.5]),
        ([1, 2], "int64", [1, 2]),
        ([True, False], "bool", [True, False]),
        ([1, True], "int64", [1, 1]),
        ([1, 2.5], "float32", [1.0, 2.5]),
        ([2.5, 1], "float64", [2.5, 1.0]),
        ([np.float32(1.0)], "float32", [1.0]),
        ([np.float64(1.0)], "float64", [1.0]),
        ([np.int32(3), np.int32(4)], "int32", [3, 4]),
        ([np.bool_(True)], "bool", [True]),
        ([np.array(1.0, np.float32)] * 2, "float32", [1.0, 1.0]),
        ([np.ones(2, np.int16)] * 2, "int16", [[1, 1], [1, 1]]),
        ([np.zeros((0, 2))] * 2, "float64", [[], []]),
    ],
)
def test_numbers_and_arrays_become_tensors_of_pytorchs_dtypes(batch: Any, dtype: str, found: Any) -> None:
    out = default_collate(batch)
    assert type(out) is torch.Tensor
    assert (out.dtype.name, out.tolist()) == (dtype, found)


def test_structures_are_kept() -> None:
    out = default_collate([{"a": (1, "u"), "b": [2.0]}, {"a": (3, "v"), "b": [4.0]}])
    assert type(out) is dict
    assert values(out["a"]) == [[1, 3], ["u", "v"]]
    assert values(out["b"]) == [[2.0, 4.0]]
    point = default_collate([Point(1, 2), Point(3, 4)])
    assert type(point) is Point
    assert values(list(point)) == [[1, 3], [2, 4]]
    assert values(default_collate([range(2), range(2)])) == [[0, 0], [1, 1]]
    assert default_collate(["a", "b"]) == ["a", "b"]
    assert default_collate([b"a"]) == [b"a"]
    ordered = default_collate([collections.OrderedDict(z=1, a=2)])
    assert type(ordered) is collections.OrderedDict
    assert list(ordered) == ["z", "a"]
    kept = default_collate([collections.defaultdict(list, a=1)])
    assert kept["missing"] == []
    assert type(default_collate([collections.UserList([1, 2])])) is collections.UserList


def test_tensors_are_stacked() -> None:
    mixed = default_collate([torch.tensor([1]), torch.tensor([1.5])])
    assert mixed.dtype == torch.float32
    assert mixed.tolist() == [[1.0], [1.5]]
    assert default_collate([torch.tensor(1), torch.tensor(2)]).tolist() == [1, 2]
    assert default_collate([torch.zeros(0, 3)] * 2).shape == (2, 0, 3)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (default_collate([x * 2, x * 3])[1]).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert type(default_collate([wg.tensor([1.0])])) is torch.Tensor


def test_a_batch_does_not_share_memory_with_its_samples() -> None:
    array = np.ones(3, np.float32)
    out = default_collate([array])
    array[:] = 7
    assert out.tolist() == [[1.0, 1.0, 1.0]]


@pytest.mark.parametrize(
    ("batch", "kind", "says"),
    [
        ([None], DTypeError, "NoneType"),
        ([{1}], DTypeError, "set"),
        ([1j], DTypeError, "complex"),
        ([np.array(["a"])], DTypeError, "<U1"),
        ([np.array([None])], DTypeError, "object"),
        ([torch.zeros(2), torch.zeros(3)], ShapeError, r"\(2,\) is the first, \(3,\) that at 1"),
        ([(1,), (1, 2)], ShapeError, "the first has 1 parts, that at 1 has 2"),
    ],
)
def test_what_cannot_be_collated(batch: Any, kind: Any, says: str) -> None:
    with pytest.raises(kind, match=says):
        default_collate(batch)


def test_default_convert() -> None:
    assert default_convert(3) == 3
    assert default_convert("a") == "a"
    point = default_convert(Point(np.array([1]), {"k": np.float32(2)}))
    assert type(point) is Point
    assert type(point.x) is torch.Tensor
    assert point.y["k"].dtype == torch.float32
    assert values(default_convert((1, [np.array([2])]))) == [1, [[2]]]
    strings = np.array(["a"])
    assert default_convert(strings) is strings


# -- rows


def test_rows_are_placed_in_memory_that_is_lent() -> None:
    arena = Arena(np.zeros(1 << 16, np.uint8))
    table = np.arange(4000.0).reshape(40, 100)
    with lending(arena):
        inside = rows_of(table, [3, -1])
        side = stacked([table[0], table[1]])
        small = stacked([np.ones(2)])
        large = stacked([np.ones(10_000)])
    for found, within in ((inside, True), (side, True), (small, False), (large, False)):
        assert np.shares_memory(found, arena.memory) is within
    assert inside.tolist() == table[[3, -1]].tolist()
    assert side.tolist() == table[:2].tolist()
    assert arena.asked > 80_000
    assert not np.shares_memory(rows_of(table, [1] * 40), arena.memory)


@pytest.mark.parametrize("at", [[3], [-4], [0, 5]])
def test_rows_that_do_not_exist(at: list[int]) -> None:
    with pytest.raises(RangeError):
        rows_of(np.zeros((3, 2)), at)


# -- datasets


def test_tensor_dataset() -> None:
    x, y = torch.arange(6).reshape(3, 2), torch.tensor([5, 6, 7])
    data = TensorDataset(x, y)
    assert len(data) == 3
    assert values(data[-1]) == [[4, 5], 7]
    assert values(list(DataLoader(data, 2))) == [[[[0, 1], [2, 3]], [5, 6]], [[[4, 5]], [7]]]
    with pytest.raises(ShapeError):
        TensorDataset(x, torch.zeros(2))
    with pytest.raises(ShapeError):
        TensorDataset(torch.tensor(1))


def test_a_subclass_is_asked_for_its_own_samples() -> None:
    class Plus(TensorDataset):
        def __getitem__(self, index: Any) -> Any:
            return (super().__getitem__(index)[0] + 100,)

    class Together(TensorDataset):
        def __getitems__(self, indices: Any) -> Any:
            return [(torch.tensor(-i),) for i in indices]

    x = torch.arange(3)
    assert values(list(DataLoader(Plus(x), 2))) == [[[100, 101]], [[102]]]
    assert values(list(DataLoader(Subset(Plus(x), [2, 0]), 2))) == [[[102, 100]]]
    assert values(list(DataLoader(Together(x), 3))) == [[[0, -1, -2]]]


def test_tensors_with_history_keep_it() -> None:
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    for (x,) in DataLoader(TensorDataset(w * 2), 2):
        x.sum().backward(retain_graph=True)
    assert w.grad.tolist() == [2.0, 2.0, 2.0]


def test_stack_dataset() -> None:
    a, b = TensorDataset(torch.arange(3)), TensorDataset(torch.arange(3) * 10)
    for data in (StackDataset(a, b), StackDataset(x=a, y=b)):
        one_by_one = default_collate([data[i] for i in (2, 0)])
        (together,) = DataLoader(data, batch_sampler=[[2, 0]])
        assert str(together) == str(one_by_one)
    mixed = StackDataset(a, Squares(3))
    assert values(default_collate(mixed.__getitems__([1]))) == [[[1]], [[[1.0, 1.0]], [1]]]
    assert values(list(DataLoader(mixed, 3)))[0][0] == [[0, 1, 2]]
    for wrong in ((), (a, Squares(2))):
        with pytest.raises(ShapeError):
            StackDataset(*wrong)


def test_concatenated_and_chained() -> None:
    both = Squares(2) + Squares(3)
    assert isinstance(both, ConcatDataset)
    assert both.cumulative_sizes == [2, 5]
    assert [both[i][1] for i in range(-5, 5)] == [0, 1, 0, 1, 2] * 2
    for at in (5, -6):
        with pytest.raises(RangeError):
            both[at]
    chain = Count(2) + Count(3)
    assert isinstance(chain, ChainDataset)
    assert (list(chain), len(chain)) == ([0, 1, 0, 1, 2], 5)
    with pytest.raises(ShapeError):
        ConcatDataset([Count(1)])
    with pytest.raises(ShapeError):
        ConcatDataset([])
    with pytest.raises(ShapeError):
        list(ChainDataset([Squares(1)]))


def test_random_split() -> None:
    generator = wg.random.Generator(1)
    parts = random_split(range(11), [0.3, 0.3, 0.4], generator=generator)
    assert [len(p) for p in parts] == [4, 3, 4]
    assert sorted(itertools.chain(*parts)) == list(range(11))
    again = random_split(range(11), [4, 3, 4], generator=wg.random.Generator(1))
    assert [list(p) for p in again] == [list(p) for p in parts]
    with pytest.warns(UserWarning, match="part 1"):
        assert [len(p) for p in random_split(range(1), [0.5, 0.5])] == [1, 0]
    for wrong in ([3, 3], [0.5, 0.6], [-0.5, 1.5]):
        with pytest.raises((ShapeError, RangeError)):
            random_split(range(5), wrong)


# -- samplers


def test_random_sampler() -> None:
    assert sorted(RandomSampler(range(7))) == list(range(7))
    again = [list(RandomSampler(range(7), generator=wg.random.Generator(3))) for _ in range(2)]
    assert again[0] == again[1]
    long = list(RandomSampler(range(4), num_samples=10))
    assert sorted(long[:4]) == sorted(long[4:8]) == [0, 1, 2, 3]
    assert len(long) == 10
    drawn = list(RandomSampler(range(4), replacement=True, num_samples=70))
    assert len(drawn) == 70
    assert set(drawn) == {0, 1, 2, 3}
    wg.manual_seed(5)
    first = list(RandomSampler(range(50)))
    second = list(RandomSampler(range(50)))
    wg.manual_seed(5)
    assert list(RandomSampler(range(50))) == first != second
    for wrong in ({"num_samples": 0}, {"num_samples": 2.5}, {"replacement": 1}):
        with pytest.raises((RangeError, DTypeError)):
            RandomSampler(range(3), **wrong)


def test_other_samplers() -> None:
    assert list(SequentialSampler("abc")) == [0, 1, 2]
    assert sorted(SubsetRandomSampler([4, 7, 9])) == [4, 7, 9]
    weighted = WeightedRandomSampler([0.0, 1.0, 3.0], 200, generator=wg.random.Generator(0))
    counts = collections.Counter(weighted)
    assert counts[0] == 0
    assert counts[2] > counts[1] > 0
    assert sorted(WeightedRandomSampler([1.0, 2.0, 3.0], 3, replacement=False)) == [0, 1, 2]
    assert list(BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    assert [len(BatchSampler(range(5), 2, d)) for d in (False, True)] == [3, 2]
    for wrong in (lambda: BatchSampler([], 0, False), lambda: BatchSampler([], 1, None)):  # type: ignore[arg-type]
        with pytest.raises((RangeError, DTypeError)):
            wrong()
    with pytest.raises(NotImplementedError):
        iter(Sampler())


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ((10, 3, 0, False), [0, 3, 6, 9]),
        ((10, 3, 0, True), [0, 3, 6]),
        ((10, 3, 2, False), [2, 5, 8, 1]),
        ((10, 3, 2, True), [2, 5, 8]),
        ((2, 4, 3, False), [1]),
        ((2, 4, 3, True), []),
    ],
)
def test_distributed_sampler_gives_pytorchs_shares(given: Any, found: list[int]) -> None:
    count, replicas, rank, drop = given
    sampler = DistributedSampler(range(count), replicas, rank, shuffle=False, drop_last=drop)
    assert list(sampler) == found
    assert len(sampler) == len(found)


def test_distributed_samplers_agree_on_an_order_by_chance() -> None:
    samplers = [DistributedSampler(range(9), 3, rank, seed=4) for rank in range(3)]
    shares = [list(s) for s in samplers]
    assert sorted(itertools.chain(*shares)) == list(range(9))
    for s in samplers:
        s.set_epoch(1)
    assert [list(s) for s in samplers] != shares
    with pytest.raises(RuntimeError, match="process group"):
        DistributedSampler(range(3))
    with pytest.raises(ShapeError):
        DistributedSampler(range(3), 2, 2)


# -- loaders


def test_anything_with_a_length_and_items_is_a_dataset() -> None:
    assert values(list(DataLoader([3, 4, 5], 2))) == [[3, 4], [5]]
    assert values(list(DataLoader(["a", "b"], 2))) == [["a", "b"]]
    assert values(list(DataLoader(range(3), batch_size=None))) == [0, 1, 2]
    assert values(list(DataLoader([np.ones(2)], batch_size=None))) == [[1.0, 1.0]]


def test_lengths() -> None:
    assert [len(DataLoader(range(5), 2, drop_last=d)) for d in (False, True)] == [3, 2]
    assert [len(DataLoader(Count(5), 2, drop_last=d)) for d in (False, True)] == [3, 2]
    assert len(DataLoader(Count(5), None)) == 5
    assert len(list(DataLoader(range(5), 2, drop_last=True))) == 2
    assert len(DataLoader(range(5), batch_sampler=[[0], [1, 2]])) == 2


def test_iterable_datasets() -> None:
    assert values(list(DataLoader(Count(7), 2))) == [[0, 1], [2, 3], [4, 5], [6]]
    assert values(list(DataLoader(Count(7), 2, drop_last=True))) == [[0, 1], [2, 3], [4, 5]]
    assert list(DataLoader(Count(3), None)) == [0, 1, 2]
    loader = DataLoader(Count(4), 1, collate_fn=lambda batch: batch)
    assert (list(loader), list(loader)) == ([[0], [1], [2], [3]],) * 2


def test_an_iterable_that_is_longer_than_it_says() -> None:
    class Longer(Count):
        def __len__(self) -> int:
            return 2

    loader = DataLoader(Longer(4), None)
    len(loader)
    with pytest.warns(UserWarning, match="2 samples, and has given"):
        assert list(loader) == [0, 1, 2, 3]


def test_samplers_and_functions_of_the_users() -> None:
    assert values(list(DataLoader(range(9), 2, sampler=[4, 2, 8]))) == [[4, 2], [8]]
    assert list(DataLoader(range(9), batch_sampler=[[1, 2], [3]], collate_fn=sum)) == [3, 3]
    order = list(itertools.chain(*values(list(DataLoader(range(20), 3, shuffle=True)))))
    assert sorted(order) == list(range(20)) != order


@pytest.mark.parametrize(
    "given",
    [
        {"num_workers": -1},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"num_workers": 1, "prefetch_factor": 0},
        {"persistent_workers": True},
        {"multiprocessing_context": "fork"},
        {"sampler": [0], "shuffle": True},
        {"batch_sampler": [[0]], "batch_size": 2},
        {"batch_sampler": [[0]], "shuffle": True},
        {"batch_size": None, "drop_last": True},
        {"num_workers": 1, "multiprocessing_context": "thread"},
    ],
)
def test_parameters_that_exclude_each_other(given: Any) -> None:
    with pytest.raises(ValueError, match=r"Data|multiprocessing_context"):
        DataLoader(range(3), **given)


@pytest.mark.parametrize("given", [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}])
def test_iterable_datasets_have_no_indices(given: Any) -> None:
    with pytest.raises(DataError, match="IterableDataset"):
        DataLoader(Count(3), **given)


def test_what_a_loader_is_made_of_is_fixed() -> None:
    loader = DataLoader(range(3))
    for name in ("batch_size", "sampler", "batch_sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(ValueError, match=name):
            setattr(loader, name, None)
    loader.collate_fn = list
    assert list(loader) == [[0], [1], [2]]
    with pytest.raises(TypeError):
        loader.multiprocessing_context = 3


def test_an_endless_loader_as_programs_write_it() -> None:
    class Again:
        def __init__(self, sampler: Any) -> None:
            self.sampler = sampler

        def __iter__(self) -> Any:
            while True:
                yield from iter(self.sampler)

    class Endless(DataLoader[Any]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            object.__setattr__(self, "batch_sampler", Again(self.batch_sampler))
            self.iterator = super().__iter__()

        def __iter__(self) -> Any:
            for _ in range(2):
                yield next(self.iterator)

    loader = Endless(range(3), 1)
    assert [values(list(loader)) for _ in range(2)] == [[[0], [1]], [[2], [0]]]


def test_stop_iteration_of_a_dataset_does_not_end_the_loop() -> None:
    class Stops(Squares):
        def __getitem__(self, i: int) -> Any:
            return next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(DataLoader(Stops(3)))


def test_an_error_is_raised_as_it_is_and_the_pass_goes_on() -> None:
    class Bad(Squares):
        def __getitem__(self, i: int) -> Any:
            if i == 1:
                raise KeyError("bad")
            return i

    batches = iter(DataLoader(Bad(3)))
    assert next(batches).tolist() == [0]
    with pytest.raises(KeyError, match="bad"):
        next(batches)
    assert next(batches).tolist() == [2]


def test_main_process_is_no_worker() -> None:
    assert get_worker_info() is None


def test_a_dataset_may_keep_what_it_collates() -> None:
    class Keeps(Dataset[Any]):
        def __init__(self) -> None:
            self.kept: list[Any] = []

        def __len__(self) -> int:
            return 6

        def __getitem__(self, i: int) -> Any:
            self.kept.append(default_collate([torch.full((600,), float(i))] * 2))
            return self.kept[-1]

    data = Keeps()
    for x in DataLoader(data, 2):
        assert x.shape == (2, 2, 600)
    assert [k[0, 0].item() for k in data.kept] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


# -- going on in the middle of a pass


@pytest.mark.parametrize("seeded", [True, False], ids=["own generator", "default generator"])
@pytest.mark.parametrize("taken", [0, 1, 3, 4])
def test_goes_on_in_the_middle(taken: int, seeded: bool) -> None:
    def loader() -> DataLoader[Any]:
        own = wg.random.Generator(8) if seeded else None
        return DataLoader(range(10), 3, shuffle=True, generator=own)

    wg.manual_seed(4)
    first = loader()
    list(first)
    batches = iter(first)
    for _ in range(taken):
        next(batches)
    state = pickle.loads(pickle.dumps(first.state_dict()))
    at_that_time = wg.random.get_rng_state()
    expected = values([list(batches), list(first)])

    second = loader()
    wg.manual_seed(99)
    second.load_state_dict(state)
    assert second.state_dict()["batches"] == taken
    wg.random.set_rng_state(at_that_time)
    assert values([list(second), list(second)]) == expected


def test_the_state_of_a_pass_that_was_left() -> None:
    loader = DataLoader(range(10), 2, shuffle=True)
    seen = []
    for batch in loader:
        seen.append(batch)
        if len(seen) == 2:
            break
    other = DataLoader(range(10), 2, shuffle=True)
    other.load_state_dict(loader.state_dict())
    assert sorted(itertools.chain(*values(seen + list(other)))) == list(range(10))


def test_between_two_passes_a_state_is_that_of_the_generators() -> None:
    loader = DataLoader(range(10), 2, shuffle=True, generator=wg.random.Generator(2))
    list(loader)
    state = loader.state_dict()
    expected = values(list(loader))
    loader.load_state_dict(state)
    assert values(list(loader)) == expected


def test_samplers_that_draw_from_python_or_numpy() -> None:
    class Shuffled(Sampler[int]):
        def __iter__(self) -> Any:
            import random

            order = list(range(8))
            random.shuffle(order)
            np.random.shuffle(order)  # noqa: NPY002
            return iter(order)

    first = DataLoader(range(8), 1, sampler=Shuffled())
    batches = iter(first)
    next(batches)
    state = first.state_dict()
    expected = values(list(batches))
    second = DataLoader(range(8), 1, sampler=Shuffled())
    second.load_state_dict(state)
    assert values(list(second)) == expected


def test_the_epoch_of_a_sampler_belongs_to_it() -> None:
    def loader() -> DataLoader[Any]:
        return DataLoader(range(8), 1, sampler=DistributedSampler(range(8), 2, 0))

    first = loader()
    first.sampler.set_epoch(3)
    batches = iter(first)
    next(batches)
    second = loader()
    second.load_state_dict(first.state_dict())
    assert values(list(second)) == values(list(batches))
    assert second.sampler.epoch == 3


def test_an_iterable_dataset_goes_on() -> None:
    first = DataLoader(Count(9), 2)
    batches = iter(first)
    next(batches), next(batches)
    second = DataLoader(Count(9), 2)
    second.load_state_dict(first.state_dict())
    assert values(list(second)) == [[4, 5], [6, 7], [8]]
    assert values(list(second))[0] == [0, 1]


def test_batches_with_random_numbers_of_their_own() -> None:
    def loader(**more: Any) -> DataLoader[Any]:
        return DataLoader(Noisy(), 3, seed_batches=True, generator=wg.random.Generator(1), **more)

    wg.manual_seed(1)
    first = loader()
    batches = iter(first)
    before = wg.random.get_rng_state().tolist()
    found = [next(batches), next(batches)]
    assert wg.random.get_rng_state().tolist() == before
    second = loader()
    second.load_state_dict(first.state_dict())
    rest = values(list(second))
    assert rest == values(list(batches))
    assert values(list(loader())) == values(found) + rest
    assert len({str(v) for v in values(found) + rest}) == 4


def test_states_that_do_not_fit() -> None:
    loader = DataLoader(range(4), shuffle=True, generator=wg.random.Generator(0))
    with pytest.raises(StateError, match="not the state"):
        loader.load_state_dict({"a": 1})
    with pytest.raises(StateError, match="0 generators, for one with 1"):
        loader.load_state_dict(DataLoader(range(4)).state_dict())
    with pytest.raises(StateError, match="in_order"):
        DataLoader(range(4), num_workers=1, in_order=False).state_dict()


# -- readers


def test_numpy_files(tmp_path: Path) -> None:
    x, y = np.arange(12, dtype=np.float32).reshape(6, 2), np.arange(6)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    np.savez(tmp_path / "both.npz", x=x, y=y)
    one = wg.data.NumpyFiles(tmp_path / "x.npy")
    two = pickle.loads(pickle.dumps(wg.data.NumpyFiles(tmp_path / "x.npy", tmp_path / "y.npy")))
    named = wg.data.NumpyFiles(tmp_path / "both.npz")
    assert (len(one), len(two), len(named)) == (6, 6, 6)
    assert one[-1].tolist() == [10.0, 11.0]
    assert values(list(DataLoader(one, 4))) == [x[:4].tolist(), x[4:].tolist()]
    for data in (one, two, named):
        assert str(next(iter(DataLoader(data, 3)))) == str(default_collate([data[i] for i in range(3)]))
    with pytest.raises(RangeError):
        one[6]
    np.save(tmp_path / "z.npy", np.zeros(5))
    for wrong in ((), (tmp_path / "x.npy", tmp_path / "z.npy"), (tmp_path / "none.npy",)):
        with pytest.raises(DataError):
            wg.data.NumpyFiles(*wrong)


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b,name\n1,0.5,u\n-2,,v\n\n3,1e3,w\n")
    data = wg.data.Csv(path)
    assert data[0] == {"a": 1, "b": 0.5, "name": "u"}
    assert np.isnan(data[1]["b"])
    (batch,) = DataLoader(data, batch_sampler=[[2, 0]])
    assert (batch["a"].dtype, batch["a"].tolist(), batch["name"]) == (torch.int64, [3, 1], ["w", "u"])
    pairs = wg.data.Csv(path, target="a", columns=["b"])
    assert len(pairs) == 3
    assert (pairs[2][0].tolist(), pairs[2][1]) == ([1000.0], 3)
    (both,) = DataLoader(pairs, batch_sampler=[[2, 0]])
    assert values(both) == [[[1000.0], [0.5]], [3, 1]]
    for given in ({"target": "c"}, {"target": "a"}, {"columns": ["c"]}):
        with pytest.raises(DataError):
            wg.data.Csv(path, **given)  # type: ignore[arg-type]
    path.write_text("a,b\n1\n")
    with pytest.raises(DataError, match="row 1 has 1 fields"):
        wg.data.Csv(path)
    with pytest.raises(DataError, match="cannot be read"):
        wg.data.Csv(tmp_path / "none.csv")


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    table = pyarrow.table(
        {"a": list(range(10)), "s": [str(i) for i in range(10)], "v": [[i, i + 1] for i in range(10)]}
    )
    parquet.write_table(table, path, row_group_size=4)
    data = pickle.loads(pickle.dumps(wg.data.Parquet(path, path)))
    assert len(data) == 20
    assert [data[i]["a"] for i in (0, 3, 4, 9, 10, -1)] == [0, 3, 4, 9, 0, 9]
    assert data[13] == {"a": 3, "s": "3", "v": [3, 4]}
    (batch,) = DataLoader(wg.data.Parquet(path, columns=["a", "s"]), batch_sampler=[[8, 1]])
    assert (batch["a"].tolist(), batch["s"]) == ([8, 1], ["8", "1"])
    with pytest.raises(DataError, match="cannot be read"):
        wg.data.Parquet(tmp_path / "none.parquet")


def test_image_folder(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for name, colour in (("dog", (255, 0, 0)), ("cat", (0, 51, 0))):
        (tmp_path / name / "inner").mkdir(parents=True)
        image.new("RGB", (3, 2), colour).save(tmp_path / name / "inner" / "1.png")
        (tmp_path / name / "notes.txt").write_text("no image")
    data = wg.data.ImageFolder(tmp_path)
    assert (data.classes, data.targets, len(data)) == (["cat", "dog"], [0, 1], 2)
    pixels, label = data[0]
    assert (pixels.shape, pixels.dtype, label) == ((3, 2, 3), np.float32, 0)
    assert np.allclose(pixels[1], 0.2)
    (batch,) = DataLoader(data, 2)
    assert batch[0].shape == (2, 3, 2, 3)
    sizes = wg.data.ImageFolder(tmp_path, transform=lambda i: i.size[0], target_transform=lambda n: -n)
    assert [sizes[i] for i in range(2)] == [(3, 0), (3, -1)]
    (tmp_path / "cat" / "broken.png").write_text("no image")
    with pytest.raises(DataError, match=r"broken\.png"):
        wg.data.ImageFolder(tmp_path)[0]
    with pytest.raises(DataError, match="no images"):
        wg.data.ImageFolder(tmp_path / "cat" / "inner")


# -- checkpointing, TensorBoard


def twice(x: Any, factor: float = 1.0) -> Any:
    return (x.exp().sin() * factor).exp()


@pytest.mark.parametrize("reentrant", [True, False, None])
def test_checkpoint(reentrant: bool | None) -> None:
    checkpoint = torch.utils.checkpoint.checkpoint
    x = torch.tensor([0.5, 1.5], requires_grad=True)
    out = checkpoint(twice, x, use_reentrant=reentrant, preserve_rng_state=True)
    assert type(out) is torch.Tensor
    (found,) = torch.autograd.grad(out.sum(), x)
    (expected,) = torch.autograd.grad(twice(x).sum(), x)
    assert found.tolist() == expected.tolist()
    assert checkpoint(twice, x, factor=2.0, use_reentrant=False).tolist() == twice(x, 2.0).tolist()
    with pytest.raises(DTypeError):
        checkpoint(twice, x, factor=2.0, use_reentrant=True)


def test_checkpoint_sequential() -> None:
    layers = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(5)))
    x = torch.randn(2, 3)
    checkpoint_sequential = torch.utils.checkpoint.checkpoint_sequential
    for segments in (1, 2, 3, 5):
        out = checkpoint_sequential(layers, segments, x, use_reentrant=False)
        assert out.tolist() == layers(x).tolist()
    out.sum().backward()
    assert all(p.grad is not None for p in layers.parameters())
    assert checkpoint_sequential([torch.sin], 1, x).tolist() == torch.sin(x).tolist()
    for segments in (0, 6):
        with pytest.raises(ShapeError):
            checkpoint_sequential(layers, segments, x)


def test_summary_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    with torch.utils.tensorboard.SummaryWriter(comment="-mine") as writer:
        writer.add_scalar("loss", torch.tensor(1.0), 0, new_style=True)
        writer.add_histogram("w", torch.randn(10), 0, bins="auto")
    assert writer.get_logdir().endswith("-mine")
    assert list((tmp_path / writer.get_logdir()).iterdir())
