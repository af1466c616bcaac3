"""If, Loop and Scan: by values where they are known, as conditions and loops of the graph where they are traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import wengert as wg

from ....core.errors import WengertError
from ....core.state.refusals import probing
from ....core.tensor import Tensor
from ..errors import refuse
from ..program import Program
from ..registry import operator
from ..values import is_known, tensor
from .structure import array_or_tensor, axis_of

# A traced loop of no more turns is written out turn by turn.
_UNROLLED = 16
# A loop that is not traced, and runs longer, is taken for one that never ends.
_MOST_TURNS = 10_000_000

Call = Callable[..., list[Any]]


def _is_traced(values: Sequence[Any]) -> bool:
    return any(v.is_abstract if isinstance(v, Tensor) else isinstance(v, list) and _is_traced(v) for v in values)


def _truth(value: Any) -> bool | None:
    """Return a condition's truth, or None if it is not known."""
    if isinstance(value, Tensor):
        return None if value.is_abstract else bool(value.detach().numpy().reshape(()))
    return bool(np.asarray(value).reshape(()))


@operator("If", raw=True, prefers=(0,))
def _choose(condition: Any, *, context: Any) -> Any:
    yes, no = context.body("then_branch"), context.body("else_branch")
    truth = _truth(condition)
    if truth is None:
        try:
            with probing():
                return tuple(wg.cond(condition.reshape(()), lambda: _tensors(yes()), lambda: _tensors(no())))
        except WengertError:
            # Branches of two shapes: a compiled function decides, anything else cannot be traced.
            truth = bool(condition.reshape(()))
    return tuple(yes() if truth else no())


def _tensors(values: Sequence[Any]) -> tuple[Tensor, ...]:
    if any(not isinstance(v, (Tensor, np.ndarray)) for v in values):
        refuse("a traced body gives what is no tensor")
    return tuple(tensor(v) for v in values)


# -- Loop


@operator("Loop", raw=True, prefers=(0, 1))
def _loop(count: Any = None, condition: Any = None, *states: Any, context: Any) -> Any:
    body: Call = context.body("body")
    program = context.body_of("body")
    kept = len(states)
    rows = len(program.outputs) - 1 - kept
    if rows < 0 or len(program.inputs) != kept + 2:
        refuse(
            f"the body takes {len(program.inputs)} inputs and gives {len(program.outputs)} outputs for {kept} states"
        )
    turns = None
    if count is not None and not (isinstance(count, Tensor) and count.is_abstract):
        turns = max(int(np.asarray(count.detach().numpy() if isinstance(count, Tensor) else count).reshape(())), 0)
    going = True if condition is None else _truth(condition)
    traced = _is_traced((count, condition, *states))
    if going is None or (count is not None and turns is None):
        return _while(body, count if turns is None else turns, condition, states, rows)
    if traced and turns is not None and turns > _UNROLLED:
        if condition is not None and _ends_by_value(context):
            return _while(body, turns, condition, states, rows)
        return _counted(body, turns, states, condition is not None)
    if turns is not None and turns > _MOST_TURNS and not (condition is not None and _ends_by_value(context)):
        refuse(f"the loop asks for {turns:,} turns")
    collected: list[list[Any]] = [[] for _ in range(rows)]
    current: Sequence[Any] = states
    i = 0
    while going and (turns is None or i < turns):
        after, *given = body(np.array(i, dtype=np.int64), np.array(True), *current)
        current = given[:kept]
        for into, value in zip(collected, given[kept:]):
            into.append(value)
            context.run.room(len(into) * max(1, getattr(value, "size", 1)))
        i += 1
        if condition is not None or turns is None:
            going = _truth(after)
            if going is None:
                return _while(body, turns, True if condition is None else condition, states, rows)
        if i > _MOST_TURNS:
            refuse(f"the loop has not ended after {_MOST_TURNS:,} turns")
    if not i and any(context.wants(kept + j) for j in range(rows)):
        return (*states, *_no_rows(body, states))
    return (*current, *map(_stacked, collected))


def _stacked(values: list[Any]) -> Any:
    if all(is_known(v) for v in values):
        return np.stack(values) if values else None
    return wg.stack([tensor(v) for v in values], 0)


def _no_rows(body: Call, states: Sequence[Any]) -> tuple[Tensor, ...]:
    """Return the rows of a loop that ends before it begins: of what the body would give, none."""

    def turn(state: Any, _: Any) -> Any:
        given = body(np.array(0, dtype=np.int64), np.array(True), *state)
        return state, _tensors(given[1 + len(states) :])

    _, collected = wg.scan(turn, _tensors(states), wg.zeros((0,)))
    return tuple(collected)


def _ends_by_value(context: Any) -> bool:
    """Return whether a body's condition depends on more than what is known and the condition that it is given."""
    found = context.step.bodies["body"]
    program: Program = found.program
    wanted = {program.outputs[0]}
    for step in reversed(program.steps):
        if not wanted.isdisjoint(step.results):
            wanted |= {*step.operands, *(s for b in step.bodies.values() for s in b.captured)}
    outside = {i for o, i in zip(found.captured, program.captured) if not is_known(context.slots[o])}
    given = {*program.inputs, *outside, *(slot for slot, _ in program.weights)}
    return not wanted.isdisjoint(given - {program.inputs[1]})


def _while(body: Call, count: Any, condition: Any, states: Sequence[Any], rows: int) -> Any:
    limit = None if count is None else tensor(np.asarray(count) if isinstance(count, int) else count)
    limit = None if limit is None else limit.reshape(()).astype(wg.int64)
    start = wg.asarray(True) if condition is None or condition is True else tensor(condition).reshape(())

    def goes(state: Any) -> Any:
        i, going, *_ = state
        return going if limit is None else wg.logical_and(going, i < limit)

    def turn(state: Any) -> Any:
        i, going, *current = state
        after, *given = body(i, going, *current)
        going = tensor(after).reshape(()) if condition is not None else going
        return (i + 1, going, *_tensors(given[: len(states)]))

    # A loop whose length has a bound has a gradient. The largest integer is how exporters say that there is none.
    most = count if isinstance(count, int) and count <= _MOST_TURNS else None
    turns, _, *end = wg.while_loop(goes, turn, (wg.zeros((), dtype=wg.int64), start, *_tensors(states)), max_steps=most)
    if not rows:
        return tuple(end)
    try:
        decided = int(turns)
    except WengertError:
        refuse(
            "the loop gives a row for each turn, and how many it takes is not known while this is traced",
            "A compiled function can decide it: wg.jit.",
        )
    return _counted(body, decided, states, False)


def _counted(body: Call, turns: int, states: Sequence[Any], asks: bool) -> Any:
    """Return the results of a loop of `turns` turns. If it `asks` whether to continue, the answer must be yes."""
    kept = len(states)

    def turn(state: Any, i: Any) -> Any:
        after, *given = body(i, np.array(True), *state)
        if asks and not (is_known(after) and _truth(after)):
            refuse(f"a traced loop of {turns:,} turns ends before")
        out = _tensors(given)
        return out[:kept], out[kept:]

    end, collected = wg.scan(turn, _tensors(states), wg.arange(turns))
    return (*end, *collected)


# -- Scan


def _directions(given: Any, count: int, what: str) -> tuple[int, ...]:
    if given is None:
        return (0,) * count
    if len(given) != count:
        refuse(f"{what} has {len(given)} elements for {count}")
    return tuple(given)


# In version 8 the first axis of everything is a batch.
@operator("Scan", raw=True)
def _scan_of_batches(
    lengths: Any = None, *values: Any, num_scan_inputs: int, directions: Any = None, body: Any = None, context: Any
) -> Any:
    program = context.body_of("body")
    kept = len(values) - num_scan_inputs
    batch = values[0].shape[0]
    ends = None if lengths is None else np.asarray(lengths.detach().numpy() if isinstance(lengths, Tensor) else lengths)
    outs = []
    for i in range(batch):
        one = [array_or_tensor(v)[i] for v in values]
        longest = one[kept].shape[0]
        if ends is not None:
            one[kept:] = [v[: int(ends[i])] for v in one[kept:]]
        done = _scanned(context.body("body"), program, one, num_scan_inputs, directions, None, None, None)
        rows = []
        for v in done[kept:]:
            v = tensor(v)
            rows.append(wg.pad(v, [(0, longest - v.shape[0])] + [(0, 0)] * (v.ndim - 1)))
        outs.append([*done[:kept], *rows])
    return tuple(wg.stack([tensor(v) for v in column], 0) for column in zip(*outs))


@operator("Scan", since=9, raw=True)
def _scan(
    *values: Any,
    num_scan_inputs: int,
    scan_input_axes: Any = None,
    scan_input_directions: Any = None,
    scan_output_axes: Any = None,
    scan_output_directions: Any = None,
    context: Any,
) -> Any:
    return _scanned(
        context.body("body"),
        context.body_of("body"),
        values,
        num_scan_inputs,
        scan_input_directions,
        scan_input_axes,
        scan_output_directions,
        scan_output_axes,
    )


def _scanned(
    body: Call,
    program: Any,
    values: Sequence[Any],
    count: int,
    directions: Any,
    axes: Any,
    out_directions: Any,
    out_axes: Any,
) -> Any:
    kept = len(values) - count
    rows = len(program.outputs) - kept
    if count < 1 or kept < 0 or rows < 0 or len(program.inputs) != len(values):
        refuse(
            f"the body takes {len(program.inputs)} inputs and gives {len(program.outputs)} outputs for {kept} states"
        )
    backward = _directions(directions, count, "scan_input_directions")
    along = _directions(axes, count, "scan_input_axes")
    prepended = _directions(out_directions, rows, "scan_output_directions")
    out_along = _directions(out_axes, rows, "scan_output_axes")
    states = tuple(tensor(v) for v in values[:kept])
    inputs = []
    for value, axis, back in zip(values[kept:], along, backward):
        x = wg.moveaxis(tensor(value), axis_of(axis, value.ndim), 0)
        inputs.append(wg.flip(x, 0) if back else x)
    lengths = {x.shape[0] for x in inputs}
    if len(lengths) != 1:
        refuse(f"the scanned inputs have {sorted(lengths)} rows")

    def turn(state: Any, row: Any) -> Any:
        out = _tensors(body(*state, *row))
        return out[:kept], out[kept:]

    end, collected = wg.scan(turn, states, tuple(inputs))
    out = []
    for value, axis, first in zip(collected, out_along, prepended):
        value = wg.flip(value, 0) if first else value
        out.append(wg.moveaxis(value, 0, axis_of(axis, value.ndim)))
    return (*end, *out)
