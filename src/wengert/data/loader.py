"""Batches of arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.errors import RangeError, ShapeError, fail
from ..core.tensor import Tensor, asarray


def batches(
    *arrays: Any, size: int, shuffle: bool = False, seed: int | None = None, drop_last: bool = False
) -> Iterator[tuple[Tensor, ...]]:
    """Yield batches of `size` rows of arrays of equal length, as tuples of tensors.

    Parameters
    ----------
    arrays: arrays or tensors of shape (n, ...).
    size: the rows of a batch; the last one may be shorter unless `drop_last`.
    shuffle: in a random order, drawn from `seed` (None: a new order every time).

    Raises ShapeError when the lengths differ, RangeError when `size` is below 1.

    >>> import numpy as np, wengert as wg
    >>> [x.tolist() for (x,) in wg.data.batches(np.arange(5), size=2)]
    [[0, 1], [2, 3], [4]]
    """
    columns = [np.asarray(a._array if isinstance(a, Tensor) else a) for a in arrays]
    lengths = {len(c) for c in columns}
    if len(lengths) > 1:
        fail(ShapeError, f"arrays of different lengths: {', '.join(str(c.shape) for c in columns)}")
    if size < 1:
        fail(RangeError, f"a batch size of {size}", "It must be at least 1.")
    count = lengths.pop() if lengths else 0
    order = np.random.default_rng(seed).permutation(count) if shuffle else None

    def pieces() -> Iterator[tuple[Tensor, ...]]:
        stop = count - count % size if drop_last else count
        for start in range(0, stop, size):
            rows = slice(start, start + size) if order is None else order[start : start + size]
            yield tuple(asarray(c[rows]) for c in columns)

    return pieces()
