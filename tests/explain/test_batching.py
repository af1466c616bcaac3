"""What ran together, and what did not."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg
from wengert.explain.batching import CellOf, LeftOut


def test_a_function_of_examples() -> None:
    double = wg.cell(lambda x: x * 2)

    def run(n: int) -> Any:
        x = wg.ones(2)
        for _ in range(n):
            x = double(x)
        return x

    found = wg.explain.batching(wg.autobatch(run), [1, 3, 2])
    assert found.cells == (CellOf("<lambda>", 6, 3, 3),)
    assert (found.calls, found.kernels, len(found.runs), found.left) == (6, 3, 1, ())
    assert [g.calls for g in found.runs[0].groups] == [3, 2, 1]
    assert str(found).splitlines()[0] == "6 calls in 3 kernels, in 1 run (by depth)"
    assert "<table" in found._repr_html_()


def test_a_function_without_a_block_runs_in_one() -> None:
    layer = wg.nn.Linear(2, 2)
    assert wg.explain.batching(lambda: [layer(wg.ones(2)) for _ in range(3)]).cells == (CellOf("Linear", 3, 1, 3),)


def test_a_block_and_what_was_left_out() -> None:
    branch = wg.cell(lambda x: x if x > 0 else -x)
    layer = wg.nn.Linear(2, 2)
    with wg.batching() as block:
        for i in range(3):
            branch(wg.tensor(float(i)))
        layer(np.ones(2, np.float32))
    found = wg.explain.batching(block)
    assert [(e.name, e.calls) for e in found.left] == [("<lambda>", 3)]
    assert isinstance(found.left[0], LeftOut)
    assert "needs the value" in found.left[0].why
    assert "not batched\n  <lambda>, 3 calls: " in str(found)


def test_a_table_of_many_reasons_is_short() -> None:
    with wg.batching() as block:
        for k in range(15):
            branch = wg.cell(lambda x: x if x > 0 else -x)
            branch.__wrapped__.__name__ = f"f{k}"  # type: ignore[attr-defined]
            branch(wg.tensor(1.0))
    assert str(wg.explain.batching(block)).splitlines()[-1] == "  and 3 more"
