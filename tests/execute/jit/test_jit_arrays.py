"""NumPy arrays that a compiled function reads from outside: every change of one is seen by the next call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import wengert as wg


def close(found: Any, want: Any) -> None:
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-12)


ARRAYS: dict[str, Callable[[], Any]] = {
    "rows": lambda: np.arange(12.0).reshape(3, 4),
    "columns": lambda: np.arange(12.0).reshape(4, 3).T,
    "strided": lambda: np.arange(24.0).reshape(3, 8)[:, ::2],
    "reversed": lambda: np.arange(12.0)[::-1].reshape(3, 4),
    "float32": lambda: np.arange(12, dtype=np.float32).reshape(3, 4),
    "float16": lambda: np.arange(12, dtype=np.float16).reshape(3, 4),
    "bfloat16": lambda: np.arange(12).astype(ml_dtypes.bfloat16).reshape(3, 4),
    "swapped": lambda: np.arange(12.0).astype(">f8").reshape(3, 4),
    "masked": lambda: np.ma.masked_array(np.arange(12.0).reshape(3, 4), np.zeros((3, 4), bool)),
    "long": lambda: np.zeros((3, 4, 1000)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_a_change_of_any_element_is_seen(name: str) -> None:
    data = ARRAYS[name]()
    compiled = wg.jit(lambda x: wg.asarray(np.asarray(data, np.float64).sum()) * x)
    x = wg.tensor(1.0, dtype=wg.float64)
    for _ in range(2):
        close(compiled(x), np.asarray(data, np.float64).sum())
    assert compiled.cache_info().traces == 1
    for at in ((0, 0), (1, 2), (2, 3)):
        data[at] = 30 + data[at]
        for _ in range(2):
            close(compiled(x), np.asarray(data, np.float64).sum())


def test_elements_of_another_type_or_shape_are_seen() -> None:
    data = np.arange(6, dtype=np.int32)
    compiled = wg.jit(lambda x: wg.asarray(data.astype(np.float64)) * x)
    x = wg.tensor(1.0, dtype=wg.float64)
    for _ in range(2):
        close(compiled(x), [0, 1, 2, 3, 4, 5])
    other = data.view(np.float32)
    assert other.nbytes == data.nbytes
    data = other
    close(compiled(x), other.astype(np.float64))
    data = np.arange(6, dtype=np.int32).reshape(2, 3)
    close(compiled(x), [[0, 1, 2], [3, 4, 5]])


def test_large_ones_are_told() -> None:
    data = np.zeros(1 << 18)
    compiled = wg.jit(lambda x: x + data[0])
    with pytest.warns(RuntimeWarning, match=r"data is a NumPy array of 2.1 MB .* make it a tensor") as told:
        compiled(wg.ones(2))
    assert [w.filename for w in told] == [__file__]
    data[0] = 1.0
    with pytest.warns(RuntimeWarning, match="data is a NumPy array"):
        close(compiled(wg.ones(2)), [2, 2])
    small, held = data[:100].copy(), wg.tensor(data)
    close(wg.jit(lambda x: x + small[0] + held[0])(wg.ones(2)), [3, 3])
