"""Derivatives in complex numbers over the whole table."""

from __future__ import annotations

import pytest

import complexchecks
from opchecks import OPS, calls

COMPLEX = [
    name
    for name, op in OPS.items()
    if op.differentiable and any(complexchecks.takes_complex(op, call) for call in calls(op))
]


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_derivatives(name: str) -> None:
    for call in calls(OPS[name]):
        if complexchecks.takes_complex(OPS[name], call):
            complexchecks.check_complex(OPS[name], call)


def test_most_of_what_could_take_complex_numbers_does() -> None:
    assert len(COMPLEX) > 100
