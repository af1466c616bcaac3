"""The collector of cycles while much is made that stays: its thresholds are the process's, and given back."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

import wengert as wg
from wengert.core.state.collector import seldom


@pytest.fixture(autouse=True)
def _kept() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 5)
    yield
    gc.set_threshold(*before)


def test_blocks_in_blocks_end_with_the_first_one() -> None:
    with seldom():
        inside = gc.get_threshold()
        assert inside[0] > 10_000
        assert inside[1:] == (10, 5)
        with seldom():
            assert gc.get_threshold() == inside
        assert gc.get_threshold() == inside
    assert gc.get_threshold() == (700, 10, 5)


def test_an_error_ends_a_block() -> None:
    with pytest.raises(ValueError, match="mine"), seldom():
        raise ValueError("mine")
    assert gc.get_threshold() == (700, 10, 5)


@pytest.mark.parametrize("own", [(0, 10, 5), (1_000_000, 10, 5)])
def test_a_collector_that_is_off_or_seldom_stays_so(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with seldom():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_what_is_set_meanwhile_stays() -> None:
    with seldom():
        gc.set_threshold(500, 9, 4)
    assert gc.get_threshold() == (500, 9, 4)


def test_traces_are_such_blocks_and_calls_are_not() -> None:
    seen = []

    @wg.jit
    def f(x: wg.Tensor) -> wg.Tensor:
        seen.append(gc.get_threshold()[0])
        return x * 2

    for _ in range(3):
        f(wg.ones(3))
    assert set(seen) == {seen[0]}  # what was found while it was traced
    assert seen[0] > 10_000
    assert gc.get_threshold() == (700, 10, 5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_has_the_process_s_thresholds_again() -> None:
    with seldom():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.get_threshold() == (700, 10, 5) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
