"""The values of a program that have to be known, or had better be, beforehand: its weights there are constants.

What decides shapes has to be known, with all that it is computed from; an operator may prefer to know other values (the
condition of an If). No constant helps where a value depends on what varies from run to run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .program import Demands, Program, Step


def demands(
    steps: Sequence[Step], outputs: Sequence[int], entered: Iterable[int], floating: Iterable[int] = ()
) -> Demands:
    """Return the demands of a program of these steps.

    The slots that are `entered` have other values in every run. A need may be met by all but the `floating` ones: exact
    values of inputs are known where a shape depends on them.
    """
    return Demands(
        _spread(steps, False),
        _spread(steps, True),
        _used(steps, outputs),
        _groups(steps, set(floating), False),
        _groups(steps, set(entered), True),
    )


def _follows_from_specs(step: Step) -> bool:
    return step.rule is not None and step.rule.spec_only


def _spread(steps: Sequence[Step], prefers: bool) -> frozenset[int]:
    """Return the slots that have to be known, or had better be, from the end to the beginning."""
    found: set[int] = set()
    for step in reversed(steps):
        rule = step.rule
        if rule is not None:
            at = rule.static | rule.prefers if prefers else rule.static
            found.update(s for i, s in enumerate(step.operands) if i in at)
        if step.function is not None:
            inner = step.function.demands.wanted if prefers else step.function.demands.needed
            found.update(s for s, i in zip(step.operands, step.function.inputs) if i in inner)
        for body in step.bodies.values():
            inner = body.program.demands.wanted if prefers else body.program.demands.needed
            found.update(s for s, i in zip(body.captured, body.program.captured) if i in inner)
        if not found.isdisjoint(step.results) and not _follows_from_specs(step):
            found.update(step.operands)
    return frozenset(s for s in found if s >= 0)


def _used(steps: Sequence[Step], outputs: Sequence[int]) -> frozenset[int]:
    """Return the slots from which outputs are computed, other than as what decides how."""
    found = set(outputs)
    for step in reversed(steps):
        if found.isdisjoint(step.results) or _follows_from_specs(step):
            continue
        if step.function is not None:
            inner = step.function.demands.used
            found.update(s for s, i in zip(step.operands, step.function.inputs) if i in inner)
        else:
            decides = frozenset[int]() if step.rule is None else step.rule.static | step.rule.prefers
            found.update(s for i, s in enumerate(step.operands) if i not in decides)
        for body in step.bodies.values():
            inner = body.program.demands.used
            found.update(s for s, i in zip(body.captured, body.program.captured) if i in inner)
    return frozenset(s for s in found if s >= 0)


def _groups(steps: Sequence[Step], varies: set[int], prefers: bool) -> tuple[frozenset[int], ...]:
    """Return the values from which each needed or preferred value is computed, except those that vary."""
    makers: dict[int, Step] = {}
    asked: list[set[int]] = []
    for step in steps:
        rule = step.rule
        if rule is not None:
            at = rule.prefers if prefers else rule.static
            asked += [{s} for i, s in enumerate(step.operands) if i in at]
        if step.function is not None:
            asked += _outside(step.function, step.function.inputs, step.operands, prefers)
        for body in step.bodies.values():
            asked += _outside(body.program, body.program.captured, body.captured, prefers)
        makers.update(dict.fromkeys(step.results, step))
        draws = rule is not None and rule.draws
        if draws or not (_follows_from_specs(step) or varies.isdisjoint(_read(step))):
            varies.update(step.results)
    found = {_upstream(ends, makers) for ends in asked if varies.isdisjoint(ends)}
    return tuple(group for group in found if group)


def _outside(program: Program, inside: Sequence[int], slots: Sequence[int], prefers: bool) -> list[set[int]]:
    """Return the outside values from which a program computes the values that it needs."""
    at = dict(zip(inside, slots))
    inner = program.demands.preferences if prefers else program.demands.needs
    return [{at[s] for s in group if s in at} for group in inner]


def _upstream(ends: set[int], makers: Mapping[int, Step]) -> frozenset[int]:
    found: set[int] = set()
    pending = [s for s in ends if s >= 0]
    while pending:
        slot = pending.pop()
        if slot in found:
            continue
        found.add(slot)
        step = makers.get(slot)
        if step is not None and not _follows_from_specs(step):
            pending += [s for s in _read(step) if s >= 0]
    return frozenset(found)


def _read(step: Step) -> set[int]:
    return {*step.operands, *(s for body in step.bodies.values() for s in body.captured)}
