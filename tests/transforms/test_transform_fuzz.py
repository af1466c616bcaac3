"""Programs with transforms inside transforms, on Wengert and on nilpotent numbers.

`WENGERT_PROGRAMS=5000 pytest tests/transforms/test_transform_fuzz.py` runs that many instead of 100.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest

import wengert as wg
from jets import Jet, Oracle, jet
from transform_programs import Fn, Library, Maker, bound

MANY = int(os.environ.get("WENGERT_PROGRAMS", "100"))
OUTSIDE = [(2,), (), (2, 3)]  # constants and, last, a leaf that gradients are asked for
ARGUMENTS = [(3,), (2, 2)]


def program(seed: int, **limits: Any) -> tuple[Fn, list[Any], list[Any]]:
    """A program, what it sees from outside and its arguments."""
    maker = Maker(seed, **limits)
    fn = maker.function(list(OUTSIDE), ARGUMENTS, depth=4, factor=1.0, order=0)
    return fn, [maker.array(s) for s in OUTSIDE], [maker.array(s) for s in ARGUMENTS]


def expected(fn: Fn, outside: list[Any], args: list[Any]) -> tuple[Any, Any]:
    """The value, and the gradient of its sum in the last value from outside."""
    oracle = Oracle()

    def total(leaf: Jet) -> Jet:
        return bound(oracle, fn, [*map(jet, outside[:-1]), leaf])(*map(jet, args))

    with np.errstate(all="ignore"):
        value = total(jet(outside[-1])).value
        return value, oracle.grad(lambda leaf: oracle.sum(total(leaf)), [jet(outside[-1])], 0).value


def check(fn: Fn, outside: list[Any], args: list[Any]) -> bool:
    """Compare every way to run a program; False where its values say nothing."""
    value, slope = expected(fn, outside, args)
    if not (np.isfinite(value).all() and np.isfinite(slope).all()) or max(abs(value).max(), abs(slope).max()) > 1e8:
        return False
    tensors = [wg.tensor(a) for a in outside]
    leaf = tensors[-1].requires_grad_()
    inputs = [wg.tensor(a) for a in args]
    run = bound(Library(), fn, tensors)
    eager = run(*inputs)
    close(eager, value, "value")
    if eager.requires_grad:
        eager.sum().backward()
    close(wg.zeros_like(leaf) if leaf.grad is None else leaf.grad, slope, "gradient of a leaf from outside")
    leaf.grad = None
    traced = wg.graph(run)(*inputs)
    close(traced(*inputs), value, "value of the traced program")
    return True


def close(found: Any, wanted: Any, what: str) -> None:
    assert found.shape == wanted.shape, what
    np.testing.assert_allclose(
        found.detach().numpy(), wanted, rtol=1e-8, atol=1e-9 * (1 + abs(wanted).max()), err_msg=what
    )


@pytest.mark.parametrize("seed", range(MANY))
def test_programs_agree_with_nilpotent_numbers(seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if not check(*program(seed)):
            pytest.skip("a value of this program is too large to compare")
