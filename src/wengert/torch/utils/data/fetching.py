"""From indices to a batch: in the main process, or in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ....data.rows import Arena, lending
from .collate import finished, is_default
from .dataset import gatherer, samples_at


class Fetcher:
    """Batches of a dataset: for indices, or for an iterable one for as many as there are indices.

    `together`: whether samples are collated, rather than given one by one.
    """

    def __init__(self, dataset: Any, together: bool, collate_fn: Callable[[Any], Any]) -> None:
        self.dataset, self.together, self.collate_fn = dataset, together, collate_fn

    def fetch(self, indices: Any, arena: Arena | None = None) -> Any:
        """Return a batch, its arrays in an arena where they can be. Raises StopIteration at an iterable's end."""
        samples = self._samples(indices)
        # Not while the dataset or a function of the user's is at work: these may keep what they make.
        with lending(arena if is_default(self.collate_fn) else None):
            return self.collate_fn(samples)

    def skip(self, indices: Any) -> None:
        """Pass a batch by. Raises StopIteration."""
        raise NotImplementedError

    def _samples(self, indices: Any) -> Any:
        raise NotImplementedError


class _ByNumber(Fetcher):
    def __init__(self, dataset: Any, together: bool, collate_fn: Callable[[Any], Any]) -> None:
        super().__init__(dataset, together, collate_fn)
        self._gather = gatherer(dataset) if together else None

    def fetch(self, indices: Any, arena: Arena | None = None) -> Any:
        try:
            if self._gather is not None and is_default(self.collate_fn):
                with lending(arena):
                    found = self._gather(indices)
                if found is not None:
                    return finished(found)
            return super().fetch(indices, arena)
        except StopIteration as e:
            # The loop over the loader would take it for the end.
            raise RuntimeError(f"the dataset raised StopIteration for {indices}") from e

    def _samples(self, indices: Any) -> Any:
        return samples_at(self.dataset, indices) if self.together else self.dataset[indices]

    def skip(self, indices: Any) -> None:
        pass


class _OneByOne(Fetcher):
    def __init__(self, dataset: Any, together: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> None:
        super().__init__(dataset, together, collate_fn)
        self.drop_last = drop_last
        self._left: Iterator[Any] = iter(dataset)

    def _samples(self, indices: Any) -> Any:
        if not self.together:
            return next(self._left)
        found = []
        for _ in indices:
            try:
                found.append(next(self._left))
            except StopIteration:
                self._left = iter(())
                break
        if not found or (self.drop_last and len(found) < len(indices)):
            raise StopIteration
        return found

    def skip(self, indices: Any) -> None:
        self._samples(indices)


def fetcher(
    dataset: Any, by_number: bool, together: bool, collate_fn: Callable[[Any], Any], drop_last: bool
) -> Fetcher:
    """Return what fetches batches of a dataset; one that has no numbers begins anew."""
    if by_number:
        return _ByNumber(dataset, together, collate_fn)
    return _OneByOne(dataset, together, collate_fn, drop_last)
