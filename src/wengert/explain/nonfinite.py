"""The origin of the first NaN or infinity, in the forward pass or in a backward pass of any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..core.errors import DTypeError, GradientError, fail
from ..core.mode import get_mode, reset_mode, set_mode
from ..core.node import Node
from ..core.ops.facets import Cause
from ..core.ops.op import find_op
from ..core.source import Source
from ..core.spec import spec_of
from ..core.tensor import Tensor
from ..transforms.derivatives.reverse import backward_pass
from .causes import INPUT, UPDATE, diagnose
from .finite import Index, aligned, alike, all_finite, finite, first_bad, is_number, number_at, replaced
from .observing.arguments import arguments, tensors_of
from .observing.events import Events, Pull, Step, observed
from .observing.replayed import is_freed, opened, replay, restored

Phase = Literal["input", "update", "forward", "backward"]


@dataclass(frozen=True)
class Operand:
    """A number that took part: `name[index] = number`, or the range of a whole array where no one number did it."""

    name: str
    spec: str
    index: Index | None
    number: Any
    low: float
    high: float

    def __str__(self) -> str:
        if self.number is not None:
            at = f"[{', '.join(map(str, self.index))}]" if self.index else ""
            return f"{self.name}{at} = {_shown(self.number)}   ({self.spec})"
        return f"{self.name} in [{_shown(self.low)}, {_shown(self.high)}]   ({self.spec})"


@dataclass(frozen=True)
class Stop:
    """A node that the NaN or infinity passed on its way."""

    op: str
    source: Source | None
    number: Any

    def __str__(self) -> str:
        return f"{self.op}{_at(self.source)} -> {_shown(self.number)}"


@dataclass(frozen=True)
class Nonfinite:
    """The origin of a NaN or an infinity. False where there is none.

    `op`, `source` and `path` (module) name the node, `phase` says whether it was born in the forward or
    in a backward pass (`order` 1, or more for derivatives of derivatives), came with an input, or with
    an optimiser's update of a leaf. `number` is what was born, at `index` of the result (of the gradient
    in a backward pass), from `operands`. `way` is how it went on to the loss or the gradient, `because`
    an earlier infinity that did no harm by itself. `cause` and `rewrite` say it in words.

    >>> import wengert as wg
    >>> found = wg.explain.nonfinite(lambda x: 1.0 / x, wg.tensor([1.0, 0.0]))
    >>> bool(found), found.op, found.index, found.phase
    (True, 'divide', (1,), 'forward')
    """

    found: bool
    op: str = ""
    phase: Phase = "forward"
    order: int = 0
    number: Any = None
    index: Index = ()
    operands: tuple[Operand, ...] = ()
    source: Source | None = None
    path: str = ""
    cause: str = ""
    rewrite: str = ""
    way: tuple[Stop, ...] = ()
    because: Nonfinite | None = None

    def __bool__(self) -> bool:
        return self.found

    @property
    def line(self) -> int | None:
        """The line of the user's program."""
        return self.source.line if self.source is not None else None

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if not self.found:
            yield "every value and every gradient is finite"
            return
        when = {"forward": " in the forward pass", "backward": f" in the backward pass of {self.op}"}
        if self.phase == "input":
            yield f"{_shown(self.number)} came with {self.op}{_index(self.index)}: {self.cause}"
        elif self.phase == "update":
            yield f"{_shown(self.number)} came with an update of a leaf, first used{_at(self.source)}: {self.cause}"
        else:
            order = f" (order {self.order})" if self.order > 1 else ""
            module = f", in module {self.path}" if self.path else ""
            yield f"{_shown(self.number)} was born{when[self.phase]}{order}: {self.cause}"
            yield f"  {self.op}{_at(self.source)}{module}{': ' + self.source.text if self.source else ''}"
        for operand in self.operands:
            yield f"    {operand}"
        if self.because is not None:
            yield f"  after {next(self.because._lines())}{_at(self.because.source)}"
        if self.way:
            yield f"  then {'; '.join(map(str, self.way[:_SHOWN_WAY]))}{' ...' if len(self.way) > _SHOWN_WAY else ''}"
        if self.rewrite:
            yield f"  instead: {self.rewrite}"


_SHOWN_WAY = 8


def nonfinite(loss: Any, *args: Any) -> Nonfinite:
    """Find where the first NaN or infinity was born that reached a result or a gradient.

    Parameters
    ----------
    loss: a tensor already computed (its recorded graph is asked), or a function, run once with every
        operation observed: then values that no gradient flows through are seen too, loops and the
        backward passes and optimiser steps inside it, and gradients of its result. A compiled
        function runs as it is written.
    args: the function's arguments. Floating ones are differentiated in.

    Returns a :class:`Nonfinite`, false where all is finite. Infinities that come to nothing (masked by
    `where`, an exponential of -inf) are not reported. Where the function raises (a factorisation refuses
    NaN), what it had computed is asked about; if that was finite, the error is passed on.

    Raises DTypeError for anything else, GradientError for a tensor without a recorded graph.

    >>> import wengert as wg
    >>> born = wg.explain.nonfinite(lambda p: (p * wg.log(p)).sum(), wg.tensor([0.5, 0.0]))
    >>> born.op, born.index, born.cause
    ('log', (1,), 'the logarithm of 0')
    >>> born.operands[0].number
    0.0
    """
    if isinstance(loss, Tensor):
        return _of_tensor(loss)
    if not callable(loss):
        fail(
            DTypeError, f"nonfinite of a {type(loss).__name__}", "Give a tensor, or a function that computes the loss."
        )
    given = arguments(loss, args)
    with observed() as seen, np.errstate(all="ignore"):
        token = set_mode(get_mode().with_grad(True))
        try:
            result = loss(*given.args)
        except Exception:
            # An operation may refuse what is not finite: what it was given is asked about instead.
            born = _Trace(seen, given.name_of, set()).answer(None)
            if born:
                return born
            raise
        finally:
            reset_mode(token)
        returned = tensors_of(result)
        _differentiate([t for t in returned if t.node is not None and t.requires_grad and not is_freed(t.node)])
    wanted = {t.node for _, t in given.tensors if t.node is not None}
    return _Trace(seen, given.name_of, wanted).answer([t._array for t in returned] if returned else None)


def _of_tensor(loss: Tensor) -> Nonfinite:
    if loss.node is None or loss._array is None:
        if loss._array is not None and first_bad(loss._array) is None:
            return Nonfinite(False)
        fail(
            GradientError,
            f"nonfinite of a tensor without a recorded graph, {loss.spec}",
            "Nothing that it was computed from requires gradients. Give the function that computes it: "
            "wg.explain.nonfinite(f, *args).",
        )
    loss = opened(loss, "nonfinite")
    assert loss.node is not None
    steps = replay([loss.node])
    with restored(steps, loss, "nonfinite"), observed() as seen, np.errstate(all="ignore"):
        _differentiate([loss])
    # The backward pass comes after all that was replayed.
    for step in seen.steps:
        step.order += len(steps)
    for pull in seen.pulls:
        pull.order += len(steps)
    seen.count += len(steps)
    seen.steps = [*steps, *seen.steps]
    trace = _Trace(seen, lambda array: "", set())
    own = next((s.out for s in reversed(steps) if s.node is loss.node), loss._array)
    return trace.answer([own])


def _differentiate(results: Sequence[Tensor]) -> None:
    for t in results:
        assert t.node is not None
        backward_pass([(t.node, np.ones(t.shape, t.dtype))], None, create_graph=False, retain_graph=True)


# -- following a number back


@dataclass(frozen=True)
class _Trail:
    """A stop on the way, and what comes after it towards the loss."""

    stop: Stop
    step: Step | None
    inputs: tuple[tuple[int, Index], ...]
    after: _Trail | None


@dataclass
class _Birth:
    order: int
    make: Callable[[], Nonfinite]


class _Trace:
    def __init__(self, seen: Events, name_of: Callable[[Any], str], wanted: set[Node]) -> None:
        self.seen, self.name_of, self.wanted = seen, name_of, wanted
        self.made: dict[int, tuple[Step, int | None]] = {}
        for step in seen.steps:
            if isinstance(step.out, (tuple, list)):
                self.made |= {id(part): (step, i) for i, part in enumerate(step.out)}
            else:
                self.made.setdefault(id(step.out), (step, None))
        # Results that are views of a buffer which nobody sees: what shows it again is a view of them.
        self.buffers: dict[int, Any] = {}
        for step in seen.steps:
            for part in step.out if isinstance(step.out, (tuple, list)) else (step.out,):
                base = getattr(part, "base", None)
                if isinstance(base, np.ndarray) and id(base) not in self.made and part.size == base.size:
                    self.buffers.setdefault(id(base), part)
        self.onto: dict[Node, list[Pull]] = {}
        for pull in seen.pulls:
            for entry in pull.grads:
                self.onto.setdefault(entry, []).append(pull)

    # -- which of the births is the answer

    def answer(self, results: Sequence[Any] | None) -> Nonfinite:
        """Return the first birth that reaches the results (those that nothing consumed if None), else a gradient."""
        if results is None:
            results = self._unused()
        for values in (results, self._gradients()):
            births: list[_Birth] = []
            for value in values:
                if isinstance(value, tuple):
                    births += self._from_pull(value[0], value[1], None)
                else:
                    index = first_bad(value)
                    if index is not None:
                        births += self._from_value(self._seen_as(value), index, self.seen.count + 1, None)
            if births:
                return min(births, key=lambda b: b.order).make()
        return Nonfinite(False)

    def _seen_as(self, value: Any) -> Any:
        """Return a result, or the value that it is a copy of: functions of graphs hand out copies."""
        if self._producer(value, (0,) * np.ndim(value))[0] is not None or self.name_of(value):
            return value
        for step in reversed(self.seen.steps):
            for part in step.out if isinstance(step.out, (tuple, list)) else (step.out,):
                if np.shape(part) == value.shape and part.dtype == value.dtype and alike(part, value):
                    return part
        return value

    def _unused(self) -> list[Any]:
        used = {id(v) for step in self.seen.steps for v in step.inputs}
        return [s.out for s in self.seen.steps if not isinstance(s.out, (tuple, list)) and id(s.out) not in used]

    def _gradients(self) -> list[Any]:
        """Return gradients that are not finite: pairs of a pull and the leaf it reaches, or recorded arrays."""
        found: list[Any] = []
        for pull in self.seen.pulls:
            for entry, g in pull.grads.items():
                if (entry.op.kind == "leaf" or entry in self.wanted) and not all_finite(g):
                    found.append((pull, entry))
        return found + [g for _, g, _ in self.seen.gradients if id(g) in self.made and not all_finite(g)]

    # -- values

    def _from_value(self, value: Any, index: Index, before: int, trail: _Trail | None) -> list[_Birth]:
        births: list[_Birth] = []
        visited: set[int] = set()
        stack: list[tuple[Any, Index, int, _Trail | None]] = [(value, index, before, trail)]
        while stack:
            array, at, order, after = stack.pop()
            step, part, array, at = self._producer(array, at)
            if step is None:
                births += self._from_outside(array, at, order, after)
                continue
            if id(step) in visited:
                continue
            visited.add(id(step))
            number = np.asarray(array)[at].item()
            culprits = _culprits(step, part, at)
            here = _Trail(Stop(step.name, step.source, number), step, tuple(culprits), after)
            if not culprits:
                births.append(_Birth(step.order, lambda s=step, a=at, n=number, w=after: _born(s, a, n, w, None)))  # type: ignore[misc]
            stack += [(step.inputs[i], where, step.order, here) for i, where in culprits]
        return births

    def _producer(self, array: Any, at: Index) -> tuple[Step | None, int | None, Any, Index]:
        """Return the step that made an array or, of a view, the array that it shows."""
        while id(array) not in self.made:
            base = getattr(array, "base", None)
            if not isinstance(base, np.ndarray) or base.dtype != array.dtype or not base.flags.c_contiguous:
                return None, None, array, at
            offset = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
            offset += sum(i * s for i, s in zip(at, array.strides, strict=True))
            shown = self.buffers.get(id(base), base)
            array = shown if shown.flags.c_contiguous and shown.dtype == base.dtype else base
            at = tuple(int(i) for i in np.unravel_index(offset // base.itemsize, array.shape))
        return (*self.made[id(array)], array, at)

    def _from_outside(self, array: Any, at: Index, order: int, after: _Trail | None) -> list[_Birth]:
        """Return the births of an array that no operation made: an argument, a constant, an optimiser's update."""
        name = self.name_of(array)
        number = np.asarray(array)[at].item()
        written = after.step if after is not None and not name and isinstance(array, (float, complex)) else None
        if written is not None and _turn(after) is None:
            assert after is not None
            where, got, rest = first_bad(written.out) or (), after.stop.number, after.after
            return [_Birth(written.order, lambda: _born(written, where, got, rest, None))]
        if not name and any(pull.order < order for pull in self.seen.pulls):
            use = min(order, self._first_use())
            for pull in self.seen.pulls:
                for entry, g in pull.grads.items():
                    if pull.order < use and entry.op.kind == "leaf" and not all_finite(g):
                        return self._from_pull(pull, entry, after)
            if any(pull.order < use for pull in self.seen.pulls):
                return [_Birth(use, lambda: _updated(array, at, number, after))]
        turned = _turn(after) if not np.isnan(number) else None
        came = _came_with(name or _what(array), array, at, number, after)
        if turned is not None:
            # Infinities among the data are meant; what made NaN of them is the place.
            step, where = turned.step, _first_bad(turned)
            assert step is not None
            return [
                _Birth(step.order, lambda: _born(step, where, turned.stop.number, turned.after, came)),
            ]
        return [_Birth(0, lambda: came)]

    def _first_use(self) -> int:
        """Return when a number that no operation made, and that is not finite, was first computed with."""
        for step in self.seen.steps:
            for value in step.inputs:
                if isinstance(value, (np.ndarray, np.generic)) and id(value) not in self.made and not all_finite(value):
                    return step.order
        return self.seen.count + 1

    # -- backward passes on arrays

    def _from_pull(self, pull: Pull, entry: Node, after: _Trail | None) -> list[_Birth]:
        births: list[_Birth] = []
        visited: set[tuple[Pull, Node]] = set()
        stack: list[tuple[Pull, Node, _Trail | None]] = [(pull, entry, after)]
        while stack:
            pull, entry, after = stack.pop()
            if (pull, entry) in visited:
                continue
            visited.add((pull, entry))
            g = pull.grads[entry]
            number = number_at(g, first_bad(g))
            if all_finite(pull.ct):
                inside = first_bad(g) if not isinstance(g, tuple) and id(g) in self.made else None
                if inside is not None:  # a user's own rule, made of operations
                    births += self._from_value(g, inside, pull.order, after)
                    continue
                births.append(
                    _Birth(pull.order, lambda p=pull, e=entry, w=after: self._born_backward(p, e, w))  # type: ignore[misc]
                )
                continue
            here = _Trail(Stop(f"backward of {pull.name}", pull.source, number), None, (), after)
            before = [p for p in self.onto.get(pull.node, ()) if p.order < pull.order]
            worse = [p for p in before if not all_finite(p.grads[pull.node])]
            stack += [(p, pull.node, here) for p in worse]
            if not worse:
                births.append(_Birth(pull.order, lambda p=pull, w=here: _summed(p, w)))  # type: ignore[misc]
        return births

    def _born_backward(self, pull: Pull, entry: Node, after: _Trail | None) -> Nonfinite:
        node, g = pull.node, pull.grads[entry]
        at = first_bad(g)
        number = number_at(g, at)
        at = at if at is not None else ()
        because = None
        values = pull.saved if isinstance(pull.saved, tuple) else ()
        for value in values:
            bad = first_bad(value) if isinstance(value, (np.ndarray, np.generic)) else None
            if bad is not None and because is None:
                births = self._from_value(value, bad, pull.order, None)
                because = min(births, key=lambda b: b.order).make() if births else None
        operands = [_operand("slope of the result", pull.ct, at)] if not isinstance(pull.ct, tuple) else []
        names = [*_argument_names(node.op, len(values) - 1), "result"] if len(values) == len(node.inputs) + 1 else []
        operands += [_operand(n, v, at) for n, v in zip(names, values) if is_number(v)]
        cause = diagnose(node.op, [o.number for o in operands[1:]], number, True)
        return Nonfinite(
            True, pull.name, "backward", pull.depth, number, at, tuple(operands), pull.source, node.path,
            cause.text, cause.rewrite, _stops(after), because,
        )  # fmt: skip


def _summed(pull: Pull, after: _Trail) -> Nonfinite:
    node = pull.node
    at = first_bad(pull.ct) or ()
    number = number_at(pull.ct, at)
    return Nonfinite(
        True, pull.name, "backward", pull.depth, number, at, (), pull.source, node.path,
        "the gradients that arrive at its result overflow when they are added", "", _stops(after),
    )  # fmt: skip


# -- what did it


def _culprits(step: Step, part: int | None, at: Index) -> list[tuple[int, Index]]:
    """Return the elements of the step's inputs, not finite, without which its result at `at` would be finite."""
    bad = [i for i, v in enumerate(step.inputs) if is_number(v) and not all_finite(v)]
    if not bad:
        return []

    def is_bad(inputs: Sequence[Any]) -> bool:
        with np.errstate(all="ignore"):
            out = step.run(*inputs)
        value = out[part] if part is not None else out
        return not all_finite(np.asarray(value)[at])

    # Two replacements: 0.5 lies outside some functions' domains, 2.0 outside others'.
    for substitute in (0.5, 2.0):
        clean = [replaced(v, substitute) if i in bad else v for i, v in enumerate(step.inputs)]
        if not is_bad(clean):
            break
    else:
        return []
    found: list[tuple[int, Index]] = []
    for i in bad:
        others = list(clean)
        others[i] = step.inputs[i]
        if is_bad(others):
            found.append((i, _culprit_element(step, i, clean, at, is_bad)))
    return found or [(i, first_bad(step.inputs[i]) or ()) for i in bad]


def _culprit_element(
    step: Step, i: int, clean: Sequence[Any], at: Index, is_bad: Callable[[Sequence[Any]], bool]
) -> Index:
    value = np.asarray(step.inputs[i])
    if step.op.kind == "elementwise":
        return aligned(value.shape, at)
    left = np.flatnonzero(~finite(value))
    while len(left) > 1:
        half = left[: len(left) // 2]
        for some in (half, left[len(half) :]):
            tried = list(clean)
            part = np.array(clean[i])
            part.reshape(-1)[some] = value.reshape(-1)[some]
            tried[i] = part
            if is_bad(tried):
                left = some
                break
        else:  # it takes several, such as infinities of both signs
            left = left[:1]
    return tuple(int(k) for k in np.unravel_index(left[0], value.shape))


def _born(step: Step, at: Index, number: Any, after: _Trail | None, because: Nonfinite | None) -> Nonfinite:
    elementwise = step.op.kind == "elementwise"
    names = _argument_names(step.op, len(step.inputs))
    operands = tuple(
        _operand(n, v, at if elementwise or step.op.name == "cast" else None)
        for n, v in zip(names, step.inputs) if is_number(v)
    )  # fmt: skip
    infinite = any(is_number(v) and not all_finite(v) for v in step.inputs)
    numbers = [o.number for o in operands]
    cause = diagnose(find_op(step.name), numbers, number, step.derived, infinite)
    if step.depth > 1 and step.derived:
        # What is known of an op's slope is not true of the slope's slope: say what happened in it.
        inner = diagnose(step.op, numbers, number, False, infinite).text
        cause = Cause(f"in a derivative of its slope, {step.op.name}: {inner}", cause.rewrite)
    return Nonfinite(
        True, step.name, "backward" if step.depth else "forward", step.depth, number, at, operands,
        step.source, step.path, cause.text, cause.rewrite, _stops(after), because,
    )  # fmt: skip


def _came_with(name: str, array: Any, at: Index, number: Any, after: _Trail | None) -> Nonfinite:
    source = after.stop.source if after is not None else None
    return Nonfinite(
        True, name, "input", 0, number, at, (_operand(name, array, at),), source, "", INPUT.text, INPUT.rewrite,
        _stops(after),
    )  # fmt: skip


def _updated(array: Any, at: Index, number: Any, after: _Trail | None) -> Nonfinite:
    source = after.stop.source if after is not None else None
    what = _what(array)
    return Nonfinite(
        True, "update", "update", 0, number, at, (_operand(what, array, at),), source, "", UPDATE.text, UPDATE.rewrite,
        _stops(after),
    )  # fmt: skip


def _turn(trail: _Trail | None) -> _Trail | None:
    """Return the first stop after the infinity at which it became NaN."""
    while trail is not None:
        if trail.step is not None and np.isnan(trail.stop.number):
            return trail
        trail = trail.after
    return None


def _first_bad(trail: _Trail) -> Index:
    assert trail.step is not None
    out = trail.step.out
    parts = out if isinstance(out, (tuple, list)) else (out,)
    return next(
        (tuple(int(k) for k in np.argwhere(np.isnan(np.asarray(p)))[0]) for p in parts if np.isnan(p).any()), ()
    )


def _stops(trail: _Trail | None) -> tuple[Stop, ...]:
    out = []
    while trail is not None:
        out.append(trail.stop)
        trail = trail.after
    return tuple(out)


# -- words


def _operand(name: str, value: Any, at: Index | None) -> Operand:
    array = np.asarray(value)
    shown = str(spec_of(array.shape, array.dtype)) if isinstance(value, (np.ndarray, np.generic)) else "a number"
    number, index = None, None
    if at is not None and array.ndim <= len(at):
        index = aligned(array.shape, at)
        if all(i < n for i, n in zip(index, array.shape, strict=True)):
            number = array[index].item()
    if number is None and array.size == 1:
        number, index = array.reshape(()).item(), (0,) * array.ndim
    plain = array[finite(array)].astype(complex).real if array.size else array
    low, high = (float(plain.min()), float(plain.max())) if plain.size else (float("nan"), float("nan"))
    return Operand(name, shown, index if number is not None else None, number, low, high)


def _argument_names(op: Any, count: int) -> list[str]:
    if not op.variadic:
        return list(op.params)[:count]
    fixed = list(op.params[:-1])
    return fixed + [f"{op.params[-1]}[{i}]" for i in range(count - len(fixed))]


def _what(array: Any) -> str:
    return f"a constant or leaf {spec_of(np.shape(array), np.asarray(array).dtype)}"


def _shown(number: Any) -> str:
    return "nothing" if number is None else f"{number:.8g}" if isinstance(number, (float, complex)) else str(number)


def _index(at: Index) -> str:
    return f"[{', '.join(map(str, at))}]" if at else ""


def _at(source: Source | None) -> str:
    return f" at {source}" if source is not None else ""
