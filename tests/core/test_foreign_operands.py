"""Operators with a right operand of a class of its own: its reflected method decides, as in Python."""

from fractions import Fraction

import pytest

import wengert as wg
from wengert.core.errors import DTypeError


class Scaled:
    """A multiple of the identity, kept as a number."""

    def __init__(self, factor):
        self.factor = factor

    def __radd__(self, x):
        return x + self.factor * wg.eye(x.shape[0])

    def __rmatmul__(self, x):
        return self.factor * x

    def __rmul__(self, x):
        return Scaled(self.factor * 2)


def test_the_reflected_method_computes():
    x = wg.ones((2, 2))
    assert (x + Scaled(3.0)).tolist() == [[4.0, 1.0], [1.0, 4.0]]
    assert (x @ Scaled(3.0)).tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert (x * Scaled(3.0)).factor == 6.0
    step = wg.jit(lambda x: (x @ Scaled(2.0) + Scaled(1.0)).sum())
    assert [step(x).item() for _ in range(3)] == [10.0] * 3


@pytest.mark.parametrize("other", [object(), Fraction(1, 2), Scaled(1.0)])
def test_others_are_refused_with_their_type(other):
    with pytest.raises((DTypeError, TypeError), match=type(other).__name__):
        wg.ones(2) - other
