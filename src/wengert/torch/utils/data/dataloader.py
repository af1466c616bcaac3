"""`DataLoader`: a dataset's samples as batches, made here or by workers; a state dict goes on in their midst."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

from ....core.errors import DataError, DTypeError, StateError, fail
from ...absent import names_of
from . import chance
from .collate import default_collate, default_convert
from .crew import Crew, WorkerError
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler
from .worker import BATCH, Job, get_worker_info

T_co = TypeVar("T_co", covariant=True)
State = dict[str, Any]

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_FIXED = frozenset({"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"})


class _Endless:
    """The indices of a dataset without numbers: None, as often as one likes."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class DataLoader(Generic[T_co]):
    """The batches of a dataset, in an order that the seed decides, whatever the number of workers.

    Parameters
    ----------
    dataset: anything with `__len__` and `__getitem__`, or an :class:`IterableDataset`.
    batch_size: samples of a batch; None gives the samples one by one.
    shuffle: in a new order by chance each time.
    sampler: indices in the order in which samples are taken, in place of `shuffle`.
    batch_sampler: lists of indices, in place of `batch_size`, `shuffle`, `sampler` and `drop_last`.
    num_workers: processes that make batches; 0 makes them here.
    collate_fn: makes a batch of a list of samples; :func:`default_collate` by default.
    pin_memory, pin_memory_device: taken, and of no effect: there is no other device.
    drop_last: leave out a last batch that is not full.
    timeout: seconds that a batch of a worker may take; 0 is any time.
    worker_init_fn: called with its number in each worker.
    multiprocessing_context: how workers start: "fork", "spawn", "forkserver" or a context.
    generator: what the order and the workers' seeds are drawn from (None: the default generator).
    prefetch_factor: batches that each worker is ahead; 2 by default.
    persistent_workers: keep the workers from one pass to the next.
    in_order: False gives batches as they come.
    seed_batches: seed the default generators of Wengert, Python and NumPy for each batch anew while it is made, so that
        what a dataset draws is the same for any number of workers, and after :meth:`load_state_dict`. Else worker `i`
        is seeded once, with a seed drawn for the pass plus `i`.

    :meth:`state_dict` and :meth:`load_state_dict` go on in the middle of a pass. An exception in a worker is raised
    here, its text with the user's line first and the worker's traceback after it; a worker that the system ended is a
    RuntimeError.

    Raises DataError for parameters that exclude each other.

    >>> import wengert.torch as torch
    >>> data = torch.utils.data.TensorDataset(torch.arange(5), torch.arange(5) * 2)
    >>> for x, y in torch.utils.data.DataLoader(data, batch_size=2):
    ...     print(x.tolist(), y.tolist())
    [0, 1] [0, 2]
    [2, 3] [4, 6]
    [4] [8]
    """

    _initialized = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        seed_batches: bool = False,
    ) -> None:
        by_number = not isinstance(dataset, IterableDataset)
        wrong = [
            (num_workers < 0, f"num_workers={num_workers}: there are 0 or more"),
            (timeout < 0, f"timeout={timeout}: seconds are 0 or more"),
            (num_workers == 0 and prefetch_factor is not None, "prefetch_factor without workers"),
            (
                prefetch_factor is not None and prefetch_factor < 1,
                f"prefetch_factor={prefetch_factor}: it is at least 1",
            ),
            (num_workers == 0 and persistent_workers, "persistent_workers without workers"),
            (num_workers == 0 and multiprocessing_context is not None, "multiprocessing_context without workers"),
            (num_workers == 0 and timeout > 0, "timeout without workers"),
            (
                not by_number and bool(shuffle),
                f"shuffle={shuffle} of an IterableDataset, which has an order of its own",
            ),
            (not by_number and sampler is not None, "a sampler for an IterableDataset, which has no indices"),
            (
                not by_number and batch_sampler is not None,
                "a batch_sampler for an IterableDataset, which has no indices",
            ),
            (sampler is not None and bool(shuffle), "shuffle beside a sampler, which is the order"),
            (
                batch_sampler is not None and (batch_size != 1 or bool(shuffle) or sampler is not None or drop_last),
                "batch_size, shuffle, sampler or drop_last beside a batch_sampler, which decides all of them",
            ),
            (batch_size is None and batch_sampler is None and drop_last, "drop_last without batches (batch_size=None)"),
        ]
        for is_wrong, what in wrong:
            if is_wrong:
                fail(DataError, f"a DataLoader with {what}")
        if batch_sampler is not None:
            batch_size = None
        self.dataset, self.num_workers = dataset, num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device, self.timeout = pin_memory, pin_memory_device, timeout
        self.worker_init_fn, self.generator, self.in_order = worker_init_fn, generator, in_order
        self.seed_batches = seed_batches
        self.multiprocessing_context = multiprocessing_context
        if sampler is None and by_number:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        elif sampler is None:
            sampler = _Endless()
        if batch_size is not None:
            order: Any = sampler
            batch_sampler = BatchSampler(order, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.persistent_workers = persistent_workers
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None else default_collate
        self.collate_fn = collate_fn
        self._by_number = by_number
        self._crew: Crew | None = None
        self._progress: _Progress | None = None
        self._resumed: State | None = None
        self._told_length: int | None = None
        self._initialized = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in _FIXED:
            fail(DataError, f"{name} of a DataLoader that is made", "Make another one.")
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_crew": None, "_progress": None}

    @property
    def multiprocessing_context(self) -> BaseContext | None:
        """The way workers start; None is Python's default. Raises DataError or DTypeError for what is no context."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, value: Any) -> None:
        if isinstance(value, str):
            known = multiprocessing.get_all_start_methods()
            if value not in known:
                fail(DataError, f"multiprocessing_context={value!r}", f"This system has {', '.join(known)}.")
            value = multiprocessing.get_context(value)
        if value is not None and not isinstance(value, BaseContext):
            fail(DTypeError, f"multiprocessing_context={value!r} is neither a context nor the name of a start method")
        self._context = value

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __len__(self) -> int:
        if self._by_number:
            return len(self._index_sampler)
        count = self._told_length = len(self.dataset)
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        return _Pass(self)

    # -- going on in the middle of a pass

    def state_dict(self) -> State:
        """Return where the loader is: what :meth:`load_state_dict` needs to give the batches that come next.

        It is small whatever the dataset: the states of the generators at the beginning of the pass, and the number of
        batches since. The model's random numbers are no part of it.

        Raises StateError with `in_order=False`, where the batches so far are not the first ones.
        """
        if not self.in_order:
            fail(
                StateError,
                "state_dict() of a DataLoader with in_order=False",
                "Its batches have no order to go on with.",
            )
        if self._resumed is not None:
            return dict(self._resumed)
        now = self._progress
        if now is None or now.is_done:
            begin: State = {"generators": [g.get_state() for g in self._generators()]}
            return {"batches": 0, "begin": begin, "workers": self.num_workers}
        return {"batches": now.position, "begin": now.begin, "workers": self.num_workers}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Have the next pass begin where another loader of the same dataset and parameters was.

        The number of workers may be another one, unless the dataset is iterable: there each worker has its own samples.

        Raises StateError.
        """
        state = dict(state_dict)
        if set(state) != {"batches", "begin", "workers"}:
            fail(StateError, f"entries {', '.join(map(str, state))}: not the state of a DataLoader")
        own = self._generators()
        given = state["begin"]["generators"]
        if len(given) != len(own):
            fail(
                StateError,
                f"the state of a DataLoader with {len(given)} generators, for one with {len(own)}",
                "Give generator= (or the samplers' own) as it was given there.",
            )
        if not self._by_number and state["batches"] and state["workers"] != self.num_workers:
            fail(
                StateError,
                f"the state of a DataLoader with {state['workers']} workers, for one with {self.num_workers}",
                "Of an iterable dataset each worker has samples of its own: go on with as many workers.",
            )
        for generator, at in zip(own, given):
            generator.set_state(at)
        self._progress = None
        self._resumed = state if "defaults" in state["begin"] else None

    def _generators(self) -> list[Any]:
        return chance.generators_of([self, *self._samplers()])

    def _samplers(self) -> list[Any]:
        return [self.sampler, self.batch_sampler, getattr(self.batch_sampler, "sampler", None)]

    def _begun(self) -> State:
        """Return what a pass that begins now depends on."""
        found: State = {"defaults": chance.now(), "generators": [g.get_state() for g in self._generators()]}
        for sampler in self._samplers():
            if hasattr(sampler, "set_epoch") and hasattr(sampler, "epoch"):
                found["epoch"] = sampler.epoch
        return found

    def _begin_again(self, begin: State) -> None:
        for sampler in self._samplers():
            if "epoch" in begin and hasattr(sampler, "set_epoch"):
                sampler.set_epoch(begin["epoch"])
        for generator, at in zip(self._generators(), begin["generators"]):
            generator.set_state(at)
        chance.restore(begin["defaults"])

    # -- workers

    def _job(self, seed: int) -> Job:
        return Job(
            self.dataset,
            self._by_number,
            self._auto_collation,
            self.collate_fn,
            self.drop_last,
            self.worker_init_fn,
            self.num_workers,
            seed,
            self.seed_batches,
        )

    def _crew_for(self, seed: int) -> Crew:
        """Return workers for a pass that begins: those of the last one, if they stayed, else new ones."""
        crew = self._crew
        if crew is not None and crew.is_open:
            crew.begin(seed)
            return crew
        crew = Crew(self._job(seed), self._context or multiprocessing.get_context(), self.timeout, self.in_order)
        self._crew = crew if self.persistent_workers else None
        return crew


class _Progress:
    """The position of a pass: apart from it, so that a loader knows it when the pass is no more."""

    def __init__(self, begin: State, position: int) -> None:
        # The number after that of the last batch that was given, in the pass that this one goes on with, too.
        self.begin, self.position = begin, position
        self.is_done = False


class _Pass:
    """The batches of a loader, once: an iterator."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        resumed, loader._resumed = loader._resumed, None
        begin: State = loader._begun() if resumed is None else resumed["begin"]
        self._given = 0
        self._skipped = int(resumed["batches"]) if resumed is not None else 0
        self._progress = _Progress(begin, self._skipped)
        self._crew: Crew | None = None
        if loader.persistent_workers and loader._progress is not None:
            loader._progress.is_done = True  # the workers are this pass's now
        loader._progress = self._progress
        with self._from_the_beginning(resumed):
            self._indices = enumerate(iter(loader._index_sampler))
            self._seed = chance.drawn_seed(loader.generator)
            if self._skipped and loader._by_number:
                next(itertools.islice(self._indices, self._skipped - 1, None), None)
        if loader.num_workers:
            self._crew = loader._crew_for(self._seed)
            for _ in range(loader.num_workers * (loader.prefetch_factor or 2)):
                self._give(self._crew)
            return
        self._fetcher = loader._job(self._seed).fetcher()
        if not loader._by_number:
            with contextlib.suppress(StopIteration):
                for number, indices in itertools.islice(self._indices, self._skipped):
                    self._seeded(number, self._fetcher.skip, indices)

    @contextlib.contextmanager
    def _from_the_beginning(self, resumed: State | None) -> Iterator[None]:
        """Have what is drawn be what was drawn when the pass first began; leave the default generators as they are."""
        if resumed is None:
            yield
            return
        now = chance.now()
        self._loader._begin_again(resumed["begin"])
        try:
            yield
        finally:
            chance.restore(now)

    def __iter__(self) -> _Pass:
        return self

    def __len__(self) -> int:
        return len(self._loader._index_sampler)

    def __next__(self) -> Any:
        if self._progress.is_done:
            raise StopIteration
        try:
            batch = self._made_here() if self._crew is None else self._from_workers(self._crew)
        except StopIteration:
            self._end()
            raise
        self._given += 1
        told = self._loader._told_length
        if told is not None and self._given > told and not self._loader._by_number:
            warnings.warn(
                f"the dataset said that it has {told} samples, and has given {self._given} batches: each worker gives "
                "all of it, unless its __iter__ asks get_worker_info() for a part",
                stacklevel=2,
            )
        return batch

    def _made_here(self) -> Any:
        number, indices = next(self._indices)
        self._progress.position = number + 1
        return self._seeded(number, self._fetcher.fetch, indices)

    def _seeded(self, number: int, make: Callable[[Any], Any], indices: Any) -> Any:
        """Return what is made of indices, with the batch's own random numbers where the loader gives it such."""
        if not self._loader.seed_batches:
            return make(indices)
        before = chance.now()
        chance.seed_everything(self._seed, number, 1)
        try:
            return make(indices)
        finally:
            chance.restore(before)

    def _give(self, crew: Crew) -> None:
        """Have the next batch made, if there is one."""
        for number, indices in self._indices:
            crew.give(number, indices, number < self._skipped and not self._loader._by_number)
            return

    def _from_workers(self, crew: Crew) -> Any:
        try:
            while True:
                found = crew.take()
                if found is None:
                    raise StopIteration
                number, kind, content = found
                self._give(crew)
                if kind == BATCH:
                    self._progress.position = number + 1
                    return content
        except StopIteration:
            raise
        except WorkerError as e:
            self._progress.position = e.number + 1
            self._give(crew)
            raise e.error from None
        except BaseException:
            # Ctrl-C, or a worker that is gone: it may have stopped in the midst of a message.
            crew.close(at_once=True)
            self._end()
            raise

    def _end(self) -> None:
        self._progress.is_done = True
        crew, self._crew = self._crew, None
        if crew is not None and not self._loader.persistent_workers:
            crew.close()


__getattr__ = names_of(__name__)
