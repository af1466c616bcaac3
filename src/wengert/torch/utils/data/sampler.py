"""Samplers: the order in which a dataset's samples are taken."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from ....core.errors import DTypeError, RangeError, ShapeError, fail
from ...absent import names_of
from ...functions.creation import as_tensor
from . import chance

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """The base of samplers: a subclass has `__iter__`, which gives indices or lists of them, and mostly `__len__`."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")


class SequentialSampler(Sampler[int]):
    """The indices of a dataset in their order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


def _positive(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value <= 0:
        fail(RangeError, f"{what} must be an int of at least 1, not {value!r}")
    return int(value)


class RandomSampler(Sampler[int]):
    """The indices of a dataset in an order by chance.

    Parameters
    ----------
    data_source: the dataset, of which the length is asked.
    replacement: whether an index may come again before all have come.
    num_samples: how many to draw; all by default. Beyond the dataset's length it goes through it again.
    generator: what to draw from. Without one, a generator is seeded from the default one for each pass.

    Raises ShapeError for a number that is not positive, DTypeError.

    >>> import wengert.torch as torch
    >>> sampler = torch.utils.data.RandomSampler(range(5), generator=torch.Generator().manual_seed(0))
    >>> sorted(sampler)
    [0, 1, 2, 3, 4]
    """

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        if not isinstance(replacement, bool):
            fail(DTypeError, f"replacement={replacement!r} is no bool")
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples
        _positive(self.num_samples, "num_samples")

    @property
    def num_samples(self) -> int:
        """The number of indices of a pass."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, count = len(self.data_source), self.num_samples
        generator = chance.seeded(chance.drawn_seed()) if self.generator is None else self.generator
        if self.replacement:
            for start in range(0, count, 32):
                yield from chance.integers(n, min(32, count - start), generator)
            return
        for _ in range(count // n):
            yield from chance.permutation(n, generator)
        # A generator of the user's is left where PyTorch leaves it.
        if count % n or self.generator is not None:
            yield from chance.permutation(n, generator)[: count % n]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given indices in an order by chance."""

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for i in chance.permutation(len(self.indices), self.generator):
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn by weights, which need not sum to 1.

    Parameters
    ----------
    weights: one for each sample.
    num_samples: how many to draw.
    replacement: whether an index may come again.
    generator: what to draw from (None: the default generator).

    Raises ShapeError, DTypeError.
    """

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True, generator: Any = None) -> None:
        if not isinstance(replacement, bool):
            fail(DTypeError, f"replacement={replacement!r} is no bool")
        self.num_samples, self.replacement = _positive(num_samples, "num_samples"), replacement
        self.generator = generator
        self.weights = as_tensor(weights, dtype=np.dtype(np.float64))
        if self.weights.ndim != 1:
            fail(ShapeError, f"weights of shape {tuple(self.weights.shape)}, not one for each sample")

    def __iter__(self) -> Iterator[int]:
        yield from chance.weighted(self.weights, self.num_samples, self.replacement, self.generator)

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of another sampler, or of any iterable.

    The last one may be shorter, or with `drop_last` is left out. Raises ShapeError, DTypeError.

    >>> import wengert.torch as torch
    >>> list(torch.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(drop_last, bool):
            fail(DTypeError, f"drop_last={drop_last!r} is no bool")
        self.sampler, self.drop_last = sampler, drop_last
        self.batch_size = _positive(batch_size, "batch_size")

    def __iter__(self) -> Iterator[list[int]]:
        left = iter(self.sampler)
        while batch := list(itertools.islice(left, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


__getattr__ = names_of(__name__)
