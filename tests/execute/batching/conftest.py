"""What every test of batching begins with."""

from __future__ import annotations

import pytest

from wengert.execute.batching.cells import cell_of_op


@pytest.fixture(autouse=True)
def no_operations_are_known() -> None:
    """An operation that was called with many kinds of inputs waits for further calls: not for those of other tests."""
    cell_of_op.cache_clear()
