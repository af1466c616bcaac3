"""Wrong facts are planted into the op table, one at a time: the generated checks must catch them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import opchecks
import wengert as wg
from opchecks import calls, checked_ops
from wengert.core.ops.op import Joint, Op, Route

CHECKS = (opchecks.check_adjoint, opchecks.check_derivatives, opchecks.check_recorded)

Mutation = Callable[[Any], Any]
MUTATIONS: dict[str, Mutation] = {
    "scaled": lambda value: value * 1.1,
    "negated": lambda value: -value,
    "dropped": lambda value: value * 0.0,
}


@contextmanager
def planted(holder: Any, pull: Callable[..., Any]) -> Iterator[None]:
    original = holder.pull
    holder.pull = pull
    try:
        yield
    finally:
        holder.pull = original


def mutants() -> Iterator[tuple[str, Any, Callable[..., Any], Op]]:
    """Every fact of every checked op, in every wrong version."""
    for op in checked_ops():
        if not op.differentiable:
            continue
        if op.joint is not None:
            joint = op.joint
            for i, param in enumerate(op.params):
                for kind, change in MUTATIONS.items():
                    yield f"{op.name}.{param} {kind}", joint, _joint(joint, i, change), op
            continue
        for fact, param in zip(op.facts, op.params, strict=True):
            if not fact.differentiable:
                continue
            if isinstance(fact, Route):
                yield f"{op.name}.{param} inverted", fact, _inverted(fact.pull), op
                continue
            for kind, change in MUTATIONS.items():
                yield f"{op.name}.{param} {kind}", fact, _changed(fact.pull, change), op


def _changed(pull: Callable[..., Any], change: Mutation) -> Callable[..., Any]:
    return lambda *args: change(pull(*args))


def _inverted(pull: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: pull(*args) == False  # noqa: E712  (an array or a tensor)


def _joint(joint: Joint, index: int, change: Mutation) -> Callable[..., Any]:
    pull = joint.pull

    def wrong(*args: Any) -> tuple[Any, ...]:
        found = list(pull(*args))
        if index < len(found) and found[index] is not None:
            found[index] = change(found[index])
        return tuple(found)

    return wrong


def is_caught(op: Op) -> bool:
    for call in calls(op):
        for check in CHECKS:
            try:
                check(op, call)
            except (AssertionError, wg.WengertError, Warning):
                return True
    return False


@pytest.mark.slow
def test_planted_facts_are_caught() -> None:
    missed, total = [], 0
    for name, holder, pull, op in mutants():
        total += 1
        with planted(holder, pull):
            if not is_caught(op):
                missed.append(name)
    caught = total - len(missed)
    print(f"caught {caught} of {total} planted facts; missed: {', '.join(missed) or 'none'}")
    assert total > 300
    assert caught >= 0.95 * total, missed


def test_nothing_planted_nothing_caught() -> None:
    """The checks say nothing about an op that is right: what they catch is the plant."""
    for op in checked_ops()[:20]:
        if op.differentiable:
            assert not is_caught(op)
