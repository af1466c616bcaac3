"""The batches of a training run, from whatever gives some, and a position that a checkpoint keeps."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..core import tree
from ..core.errors import DataError, DTypeError, fail
from ..core.tensor import Tensor, asarray, like
from ..data import batches
from ..random import randint
from .checkpoints import random_states, set_random_states

SHARED = ("wengert", "python", "numpy")


class Feed:
    """The batches of epoch after epoch, and how many of the present one were taken.

    `data` is a loader or another iterable of batches, a function of the epoch that returns one, or a tuple of arrays
    of equal length, of which batches are made here.
    """

    def __init__(
        self,
        data: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        example: Tensor | None = None,
    ) -> None:
        self._example = example
        self._source, self._length = _source(data, batch_size, shuffle)
        # A loader knows its own position; of anything else the batches that were taken are passed by.
        self._loader = data if hasattr(data, "state_dict") and hasattr(data, "load_state_dict") else None
        # What the order of arrays is drawn from, epoch by epoch.
        self.seed = int(randint(0, 2**63 - 1, ()).item()) if shuffle and isinstance(data, tuple) else 0
        self.taken = 0
        self._is_done = False
        self._began: dict[str, Any] | None = None
        self._resumed: dict[str, Any] | None = None

    def __len__(self) -> int:
        """Return the number of batches of an epoch; 0 where it is not known."""
        return self._length()

    def epoch(self, number: int) -> Iterator[Any]:
        """Yield the batches of an epoch that are left: all, or those after the position that was loaded."""
        resumed, self._resumed = self._resumed, None
        if resumed is not None and resumed["done"]:
            return
        self._is_done = False
        if resumed is None:
            self.taken = 0
            self._began = random_states(SHARED)
            found: Iterator[Any] = iter(self._source(number, self.seed))
        elif self._loader is not None:
            found = iter(self._loader)
        else:
            # What the source draws at its beginning it draws again; what is drawn from now on is what was going on.
            now = random_states(SHARED)
            set_random_states(resumed["began"])
            found = iter(self._source(number, self.seed))
            passed = sum(1 for _ in itertools.islice(found, self.taken))
            set_random_states(now)
            if passed < self.taken:
                mend = "Give the same data to go on with."
                fail(DataError, f"data has {passed} batches, and {self.taken} of them were used before", mend)
        try:
            for batch in found:
                self.taken += 1
                yield tree.map(self._leaf, batch)
        finally:
            if hasattr(found, "close"):
                found.close()
        if not self.taken:
            self._fail_empty(number)
        self._is_done = True

    def groups(self, number: int, size: int) -> Iterator[list[Any]]:
        """Yield the batches of an epoch in lists of `size`, the last one maybe shorter."""
        left = self.epoch(number)
        while group := list(itertools.islice(left, size)):
            yield group

    def _leaf(self, leaf: Any) -> Any:
        if not isinstance(leaf, (np.ndarray, np.generic)):
            return leaf
        made = asarray(leaf)
        return made if self._example is None else like(self._example, made)

    def _fail_empty(self, number: int) -> None:
        if number:
            mend = "It is an iterator, which can be used once: give a list, a loader, or a function that returns one."
            fail(DataError, f"data has no batches in epoch {number + 1}", mend)
        fail(DataError, "data without batches", "Nothing can be learned from nothing: is a folder or filter empty?")

    def end_epoch(self) -> None:
        """Put the position at the beginning of the next epoch."""
        self.taken, self._is_done = 0, False

    def state_dict(self) -> dict[str, Any]:
        """Return the position: what was taken of the epoch, and what its order was drawn from."""
        found = {"taken": self.taken, "done": self._is_done, "seed": self.seed}
        return found | ({"began": self._began} if self._loader is None else {"loader": self._loader.state_dict()})

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Have the epoch that comes next begin at the position of a :meth:`state_dict`. Raises DataError."""
        if ("loader" in state_dict) != (self._loader is not None):
            kinds = "a loader with state_dict()", "data without state_dict()"
            had, has = kinds if "loader" in state_dict else kinds[::-1]
            fail(DataError, f"a run with {had} goes on with {has}", "Give the same kind of data, or resume=False.")
        self.taken, self._is_done, self.seed = (state_dict[name] for name in ("taken", "done", "seed"))
        if self._loader is not None:
            self._loader.load_state_dict(state_dict["loader"])
        self._resumed = dict(state_dict) if self.taken else None


Source = Callable[[int, int], Iterable[Any]]


def _source(data: Any, batch_size: int | None, shuffle: bool) -> tuple[Source, Callable[[], int]]:
    """Return a function of the epoch and a seed that gives the batches, and one that counts them."""
    if isinstance(data, tuple) and data and all(hasattr(a, "shape") for a in data):
        size = 32 if batch_size is None else batch_size
        rows = data[0].shape[0] if len(data[0].shape) else 0

        def arrays(epoch: int, seed: int) -> Iterable[Any]:
            order = int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0])
            return batches(*data, size=size, shuffle=shuffle, seed=order)

        return arrays, lambda: -(-rows // size)
    if batch_size is not None:
        fail(
            DataError,
            f"batch_size={batch_size} for data that is a {type(data).__name__}",
            "It is for a tuple of arrays; whatever else is given has batches of its own.",
        )
    if isinstance(data, (Tensor, np.ndarray, str, bytes, Mapping)):
        mend = "Give a tuple of arrays, (x, y), or an iterable of batches, such as a DataLoader or a list."
        fail(DTypeError, f"data is a {type(data).__name__}", mend)
    if hasattr(data, "__iter__"):
        return lambda epoch, seed: data, lambda: len(data) if hasattr(data, "__len__") else 0
    if callable(data):
        takes_epoch = _takes_an_argument(data)
        return lambda epoch, seed: data(epoch) if takes_epoch else data(), lambda: 0
    mend = "Give an iterable of batches, such as DataLoader(dataset, batch_size=32), or a tuple of arrays, (x, y)."
    fail(DTypeError, f"data is a {type(data).__name__}, which has no batches", mend)


def _takes_an_argument(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)


def rows_of(batch: Any) -> int:
    """Return the number of rows of a batch: the length of its first tensor that has one, else 1."""
    return next((int(x.shape[0]) for x in tree.leaves(batch) if getattr(x, "ndim", 0)), 1)


def inputs_and_target(batch: Any) -> tuple[Sequence[Any], Any]:
    """Return a batch's inputs and its target, which is the last part. Raises DTypeError for one without parts."""
    if not isinstance(batch, (tuple, list)) or len(batch) < 2:
        kind = f"a {type(batch).__name__}" + (f" of {len(batch)}" if isinstance(batch, (tuple, list, Mapping)) else "")
        fail(
            DTypeError,
            f"a batch is {kind}, not inputs and a target",
            "Say what the model makes of a batch: forward=lambda model, batch: (model(batch), batch). The loss and the "
            "metrics are given both.",
        )
    return batch[:-1], batch[-1]
