"""Forward mode over the whole table."""

from __future__ import annotations

import pytest

import forwardchecks
from opchecks import OPS, calls

DIFFERENTIABLE = [n for n, op in OPS.items() if op.differentiable]
CHECKS = [
    forwardchecks.check_dot_product,
    forwardchecks.check_recorded,
    forwardchecks.check_forward_over_reverse,
    forwardchecks.check_reverse_over_forward,
]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_forward_mode(check, name: str) -> None:
    for call in calls(OPS[name]):
        check(OPS[name], call)
