"""Datasets: samples by number, or one after the other, and what is made of other datasets.

A dataset may have a method `gathered(indices)`, which gives the samples at indices as they are after
`default_collate`, but with arrays for tensors, or None where it cannot: the loader asks it first. It counts only
where it stands in the class that has `__getitem__`, so that a subclass with samples of its own is asked for these.
"""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ....core.errors import RangeError, ShapeError, fail
from ....data.rows import rows_of
from ...absent import names_of
from . import chance

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """The base of datasets: a subclass has `__getitem__(index)`, and mostly `__len__`.

    A loader takes anything that has both, subclass or not.

    >>> import wengert.torch as torch
    >>> class Squares(torch.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, i):
    ...         return i * i
    >>> [batch.tolist() for batch in torch.utils.data.DataLoader(Squares(), batch_size=3)]
    [[0, 1, 4], [9]]
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")

    def __add__(self, other: Any) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """The base of datasets that give one sample after the other: a subclass has `__iter__`.

    Each worker of a loader iterates over the whole of it, unless its `__iter__` asks :func:`get_worker_info` which part
    is its own.
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")

    def __add__(self, other: Any) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


def gatherer(dataset: Any) -> Any:
    """Return the dataset's method `gathered`, where it speaks for the samples that `dataset[i]` gives, else None."""
    for cls in type(dataset).__mro__:
        if "__getitem__" in cls.__dict__ or "__getitems__" in cls.__dict__ or "gathered" in cls.__dict__:
            return dataset.gathered if "gathered" in cls.__dict__ else None
    return None


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Tensors with one first size, of which sample `i` is the tuple of their rows `i`. Raises ShapeError.

    >>> import wengert.torch as torch
    >>> torch.utils.data.TensorDataset(torch.eye(2), torch.tensor([3, 4]))[1]
    (tensor([0., 1.]), tensor(4))
    """

    def __init__(self, *tensors: Any) -> None:
        if not tensors:
            fail(ShapeError, "a TensorDataset of no tensors")
        if len({t.shape[0] if t.shape else None for t in tensors}) != 1 or not tensors[0].shape:
            fail(ShapeError, f"tensors of different first sizes: {', '.join(str(tuple(t.shape)) for t in tensors)}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]  # type: ignore[no-any-return]

    def gathered(self, indices: Any) -> Any:
        """Return the rows at indices of all tensors; None where one of them has a history."""
        if any(t.node is not None for t in self.tensors):
            return None
        return tuple(rows_of(t._array, indices) for t in self.tensors)


class StackDataset(Dataset[Any]):
    """Datasets of one length side by side: a sample is the tuple of theirs, or with names a dict. Raises ShapeError."""

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            fail(
                ShapeError, "a StackDataset of both, or of neither", "Give datasets in their order, or all with names."
            )
        self.datasets = args or kwargs
        lengths = {len(d) for d in self._each()}
        if len(lengths) != 1:
            fail(ShapeError, f"datasets of different lengths: {', '.join(str(len(d)) for d in self._each())}")
        self._length = lengths.pop()

    def _each(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _with(self, parts: Iterable[Any]) -> Any:
        return dict(zip(self.datasets, parts)) if isinstance(self.datasets, dict) else tuple(parts)

    def __getitem__(self, index: Any) -> Any:
        return self._with(d[index] for d in self._each())

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        columns = [samples_at(d, indices) for d in self._each()]
        return [self._with(parts) for parts in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length

    def gathered(self, indices: Any) -> Any:
        """Return what the datasets give for indices; None where one of them is asked for samples one by one."""
        found = []
        for dataset in self._each():
            gather = gatherer(dataset)
            part = None if gather is None else gather(indices)
            if part is None:
                return None
            found.append(part)
        return self._with(found)


def samples_at(dataset: Any, indices: Sequence[Any]) -> Sequence[Any]:
    """Return the samples at indices, all at once from a dataset that can.

    Raises ShapeError where it gives another number of them.
    """
    together = getattr(dataset, "__getitems__", None)
    if not callable(together):
        return [dataset[i] for i in indices]
    found: Sequence[Any] = together(indices)
    if len(found) != len(indices):
        fail(ShapeError, f"{type(dataset).__name__}.__getitems__ gave {len(found)} samples for {len(indices)} indices")
    return found


class ConcatDataset(Dataset[Any]):
    """Datasets one after the other. Raises ShapeError for none, or for one without numbers."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            fail(ShapeError, "a ConcatDataset of no datasets")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            fail(ShapeError, "a ConcatDataset of an IterableDataset", "ChainDataset puts these one after the other.")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Return the sums of the lengths so far."""
        return list(itertools.accumulate(len(d) for d in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> Any:
        at = idx + len(self) if idx < 0 else idx
        if not 0 <= at < len(self):
            fail(RangeError, f"sample {idx} of {len(self)}")
        which = bisect.bisect_right(self.cumulative_sizes, at)
        return self.datasets[which][at - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one after the other. Raises ShapeError for one that is not."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _each(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                fail(ShapeError, f"a ChainDataset of a {type(dataset).__name__}", "It chains IterableDatasets.")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._each():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(d) for d in self._each())


class Subset(Dataset[T_co]):
    """The samples of a dataset at given indices."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Any]:
        if type(self).__getitem__ is not Subset.__getitem__:
            return [self[i] for i in indices]
        return samples_at(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)

    def gathered(self, indices: Any) -> Any:
        """Return what the dataset gives for the indices at these places; None where it is asked one by one."""
        gather = gatherer(self.dataset)
        return None if gather is None else gather([self.indices[i] for i in indices])


def random_split(dataset: Any, lengths: Sequence[int | float], generator: Any = None) -> list[Subset[Any]]:
    """Return disjoint subsets of these lengths, or of these fractions, which sum to 1, drawn by chance.

    Of fractions, what rounding down leaves goes one by one to the first subsets. Raises ShapeError for lengths that
    do not sum to the dataset's.

    >>> import wengert.torch as torch
    >>> [len(part) for part in torch.utils.data.random_split(range(10), [0.5, 0.25, 0.25])]
    [6, 2, 2]
    """
    count = len(dataset)
    sizes = [int(n) for n in lengths]
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        if any(not 0 <= f <= 1 for f in lengths):
            fail(RangeError, f"fractions {list(lengths)} of a dataset, not all from 0 to 1")
        sizes = [math.floor(count * f) for f in lengths]
        for i in range(count - sum(sizes)):
            sizes[i % len(sizes)] += 1
        for i, n in enumerate(sizes):
            if n == 0:
                warnings.warn(f"part {i} of the split is empty", stacklevel=2)
    if sum(sizes) != count:
        fail(ShapeError, f"parts of {', '.join(map(str, sizes))} samples of a dataset of {count}")
    order = chance.permutation(count, generator)
    ends = itertools.accumulate(sizes)
    return [Subset(dataset, order[end - n : end]) for end, n in zip(ends, sizes)]


__getattr__ = names_of(__name__)
