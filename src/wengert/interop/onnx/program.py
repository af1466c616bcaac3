"""Programs: a graph or a function of a document as a list of steps over slots, and what runs them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import wengert as wg

from ...core.dims import Dim
from ...core.errors import WengertError, first_line
from ...core.mode import Scope, get_mode, reset_mode, set_mode
from ...core.state.refusals import probing
from ...core.tensor import Tensor
from .errors import OnnxError, refuse
from .registry import Rule
from .told import NOWHERE, Place, Told, told
from .values import as_known, as_sizes, has_sizes, is_known, known, nbytes, package, tensor

# What may go wrong in a rule whose operands are not what the operator takes. Anything else is not caught: a compiler's
# trace, a keyboard.
FAULTS = (
    WengertError,
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    ArithmeticError,
    AttributeError,
    AssertionError,
    MemoryError,
    NotImplementedError,
)

# A node whose results cannot have more elements than this is run without looking at its specs first.
_HARMLESS = 1 << 24
_ABSENT = -1


@dataclass(slots=True)
class Body:
    """A graph among a node's attributes: its program, and the slots outside that it reads."""

    program: Program
    captured: tuple[int, ...]


@dataclass(slots=True)
class Step:
    """One node: what computes it, the slots of its operands and results, and the slots that nothing reads after it.

    `document` is the node as it was read, `place` where among the exporting program's modules it stood.
    """

    title: str
    operator: str
    rule: Rule | None
    function: Program | None
    generic: Callable[[Context, tuple[Any, ...]], Any] | None
    operands: tuple[int, ...]
    results: tuple[int, ...]
    attributes: dict[str, Any]
    bodies: dict[str, Body]
    opset: int
    free: tuple[int, ...] = ()
    reach: int = 1
    seen: set[Any] = field(default_factory=set)
    document: bytes = b""
    place: Place = NOWHERE

    def told(self) -> Told:
        """Return the node's description in the document."""
        return told(package().NodeProto.FromString(self.document))


class Run:
    """One run of a model: its weights, the bytes that it may use, and how deep calls of functions are nested.

    `tell` is given each node of the document's graph with its operands and results. Without `zipmap` classifiers give
    tensors alone, no dictionaries and texts.
    """

    __slots__ = ("weights", "limit", "live", "depth", "tell", "zipmap", "_scopes")

    def __init__(
        self,
        weights: Mapping[str, Any],
        limit: int,
        tell: Callable[[Step, Sequence[Any], Sequence[Any]], None] | None = None,
        zipmap: bool = True,
    ) -> None:
        self.weights = weights
        self.limit = limit
        self.live = 0
        self.depth = 0
        self.tell = tell
        self.zipmap = zipmap
        self._scopes: dict[tuple[Scope | None, Place], Scope | None] = {}

    def scope(self, outer: Scope | None, step: Step) -> Scope:
        """Return the scope of a node: inside its module, and the call there that it is a part of."""
        key = outer, step.place
        found = self._scopes.get(key)
        if found is None:
            found = outer
            if step.place.module:
                found = Scope("module", step.place.module, found)
            if step.place.call:
                found = Scope("node", step.place.call, found)
            self._scopes[key] = found
        return Scope("node", step.operator, found, attrs={"node": step})

    def room(self, count: Any, itemsize: int = 8) -> None:
        """Refuse an array of so many elements where it does not fit in what the run may use."""
        if not isinstance(count, Dim) and count * itemsize > self.limit:
            refuse(
                f"a value of {int(count):,} elements takes more than the {self.limit:,} bytes that the model may use",
                "load(..., memory=) sets the limit.",
            )


class Context:
    """The run as a rule sees it: the node's results, its version, and its bodies."""

    __slots__ = ("run", "step", "slots")

    def __init__(self, run: Run, step: Step, slots: list[Any]) -> None:
        self.run = run
        self.step = step
        self.slots = slots

    @property
    def results(self) -> int:
        """The number of results up to the last that something reads or that has a name."""
        return len(self.step.results)

    def wants(self, index: int) -> bool:
        """Return whether the node has a result of this number."""
        return index < len(self.step.results) and self.step.results[index] != _ABSENT

    @property
    def opset(self) -> int:
        """The version of the node's domain."""
        return self.step.opset

    def body(self, name: str) -> Callable[..., list[Any]]:
        """Return a graph among the attributes as a function of its inputs."""
        found = self.step.bodies.get(name)
        if found is None:
            refuse(f"the attribute {name} is missing")
        captured = [self.slots[i] for i in found.captured]
        run, program = self.run, found.program

        def call(*inputs: Any) -> list[Any]:
            return program.run(list(inputs), captured, run)

        return call

    def body_of(self, name: str) -> Program:
        """Return the program of a graph among the attributes."""
        return self.step.bodies[name].program


class Demands(NamedTuple):
    """The demands of a program on the values in its slots.

    `needed` are those that decide shapes, with all that they are computed from, `wanted` also what an operator prefers
    to know, with all of that. `used` are those that outputs are computed from otherwise. `needs` and `preferences` are
    the same by groups: for each value that may be known beforehand the slots that it is computed from. Those of them
    that are given from outside say whether it is.
    """

    needed: frozenset[int] = frozenset()
    wanted: frozenset[int] = frozenset()
    used: frozenset[int] = frozenset()
    needs: tuple[frozenset[int], ...] = ()
    preferences: tuple[frozenset[int], ...] = ()

    def fixes(self, slot: int, given: frozenset[int], is_floating: bool) -> bool:
        """Return whether a weight is a constant, of a program that is `given` these slots from outside.

        A floating one may be trained: it is one only where that makes a value known, and not for a mere preference
        where it goes on to the outputs as well.
        """
        if not is_floating:
            return slot in self.wanted
        if any(slot in group for group in self.needs):
            return True
        return slot not in self.used and any(slot in group and given.isdisjoint(group) for group in self.preferences)


@dataclass(slots=True)
class Program:
    """Steps over slots. `inputs` and `captured` are filled first, then the weights and constants."""

    name: str
    count: int
    inputs: tuple[int, ...]
    input_names: tuple[str, ...]
    captured: tuple[int, ...]
    outputs: tuple[int, ...]
    output_names: tuple[str, ...]
    constants: list[tuple[int, Any]]
    weights: list[tuple[int, str]]
    steps: list[Step]
    demands: Demands
    # The nodes that a run goes through, those of functions for each call, those of bodies once.
    nodes: int
    # The weights that have become constants, and a slot of each.
    fixed: dict[str, int] = field(default_factory=dict)

    def fix(self, arrays: Mapping[str, Any]) -> None:
        """Make constants of weights, here and in all that this calls, by their names."""
        for program in walk(self):
            for slot, key in program.weights:
                if key in arrays:
                    program.constants.append((slot, arrays[key]))
                    program.fixed[key] = slot
            program.weights = [(slot, key) for slot, key in program.weights if key not in arrays]

    def constants_by_name(self) -> dict[str, Any]:
        """Return the weights that `fix` made constants."""
        found = {}
        for program in walk(self):
            values = dict(program.constants)
            found.update({key: values[slot] for key, slot in program.fixed.items()})
        return found

    def run(self, inputs: Sequence[Any], captured: Sequence[Any], run: Run) -> list[Any]:
        """Return the outputs for inputs, by order."""
        if len(inputs) != len(self.inputs):
            refuse(f"{self.name} takes {len(self.inputs)} inputs and is given {len(inputs)}")
        run.depth += 1
        if run.depth > 64:
            refuse(f"{self.name}: functions and bodies are nested more than 64 deep")
        slots: list[Any] = [None] * self.count
        for slot, value in zip(self.inputs, inputs):
            slots[slot] = value
        for slot, value in zip(self.captured, captured):
            slots[slot] = value
        for slot, value in self.constants:
            slots[slot] = value
        for slot, key in self.weights:
            slots[slot] = run.weights[key]
        before = run.live
        outer = get_mode()
        for step in self.steps:
            token = set_mode(outer.within(run.scope(outer.scope, step)))
            try:
                results = _run_step(step, slots, run)
            finally:
                reset_mode(token)
            if run.tell is not None and run.depth == 1:
                run.tell(step, [None if i == _ABSENT else slots[i] for i in step.operands], results)
            for slot, value in zip(step.results, results):
                if slot != _ABSENT:
                    slots[slot] = value
                    run.live += nbytes(value)
            if run.live > run.limit:
                refuse(
                    f"{step.title}: the values would take more than the {run.limit:,} bytes that the model may use",
                    "load(..., memory=) sets the limit.",
                )
            for slot in step.free:
                run.live -= nbytes(slots[slot])
                slots[slot] = None
        run.depth -= 1
        run.live = max(before, 0)
        return [slots[i] for i in self.outputs]


def _run_step(step: Step, slots: list[Any], run: Run) -> Sequence[Any]:
    operands = tuple([None if i == _ABSENT else slots[i] for i in step.operands])
    try:
        if step.function is not None:
            return step.function.run([*operands, *[None] * (len(step.function.inputs) - len(operands))], (), run)
        context = Context(run, step, slots)
        if step.generic is not None:
            out = step.generic(context, operands)
        else:
            out = _call(step, operands, context)
    except OnnxError as e:
        if " (" in str(e) and str(e).startswith(("node ", "function ")):
            raise
        refuse(f"{step.title}: {first_line(e)}", _rest(e))
    except FAULTS as e:
        said = first_line(e) if isinstance(e, WengertError) else f"{type(e).__name__}: {str(e)[:300]}"
        refuse(f"{step.title}: {said}", _rest(e))
    results = out if isinstance(out, tuple) else (out,)
    if len(results) < len(step.results):
        refuse(f"{step.title}: the operator gives {len(results)} results, and the node names {len(step.results)}")
    return results


def _rest(e: BaseException) -> str:
    return str(e).partition("\n")[2] if isinstance(e, WengertError) else ""


def _call(step: Step, operands: tuple[Any, ...], context: Context) -> Any:
    rule = step.rule
    assert rule is not None
    given: list[Any] = []
    for i, value in enumerate(operands):
        if value is None:
            given.append(None)
        elif i in rule.static:
            given.append(known(value, f"operand {i + 1}"))
        else:
            given.append(value)
    if any(has_sizes(v) for v in given):  # beside sizes numbers that are known are sizes, too
        given = [as_known(v) for v in given]
    call = rule.function
    sized = False
    all_known = not rule.draws and all(is_known(v) for v in given) and bool(given)
    is_whole = not any(isinstance(v, np.ndarray) and v.dtype.kind not in "iubO" for v in given)
    if (all_known or rule.static) and is_whole and any(has_sizes(v) for v in given) and rule.symbolic is not None:
        call, sized = rule.symbolic, True
    elif not rule.raw:
        given = [
            v if v is None or i in rule.static else tensor(v) if not isinstance(v, list) else v
            for i, v in enumerate(given)
        ]
    attributes = step.attributes
    if rule.wants_context:
        attributes = {**attributes, "context": context}
    while given and given[-1] is None:
        given.pop()
    if step.reach > 1 or rule.static or len(given) > 1:
        _check_room(step, call, given, attributes, context.run)
    out = call(*given, **attributes)
    if sized:
        return tuple(map(as_sizes, out)) if isinstance(out, tuple) else as_sizes(out)
    if all_known:
        return tuple(as_known(v) for v in out) if isinstance(out, tuple) else as_known(out)
    return out


def _check_room(
    step: Step, call: Callable[..., Any], given: list[Any], attributes: Mapping[str, Any], run: Run
) -> None:
    """Refuse a node whose results would not fit, before it runs: where they may be large, on specs alone."""
    rule = step.rule
    assert rule is not None
    reach: Any = step.reach
    for i, value in enumerate(given):
        if isinstance(value, Tensor):
            if value.is_abstract:
                return
            reach *= max(1, value.size)
        elif isinstance(value, np.ndarray):
            reach *= max(1, value.size)
            if i in rule.static and value.dtype.kind in "iuf" and value.size <= 64:
                reach *= math.prod(max(1.0, abs(float(v))) for v in value.ravel() if math.isfinite(v))
    if reach <= _HARMLESS or rule.raw or step.bodies:
        return
    key = tuple(
        (v.shape, v.dtype) if isinstance(v, Tensor) else v.tobytes() if isinstance(v, np.ndarray) else None
        for v in given
    )
    if key in step.seen:
        return
    where = [i for i, v in enumerate(given) if isinstance(v, Tensor)]

    def of_specs(*tensors: Any) -> Any:
        operands = list(given)
        for i, t in zip(where, tensors):
            operands[i] = t
        return call(*operands, **attributes)

    if where:
        try:
            with probing():
                graph = wg.graph(of_specs)(*[given[i].spec for i in where])
        except WengertError:
            return  # what it needs of values it says when it runs
        largest = max((nbytes_of(n.spec) for n in (*graph.nodes, *graph.outputs)), default=0)
        run.room(largest, 1)
    step.seen.add(key)


def nbytes_of(spec: Any) -> int:
    """Return the bytes of a spec, or of several."""
    if isinstance(spec, (tuple, list)):
        return max((nbytes_of(s) for s in spec), default=0)
    try:
        return int(math.prod(spec.shape)) * int(spec.dtype.itemsize)
    except (AttributeError, TypeError):
        return 0


def walk(program: Program) -> Iterator[Program]:
    """Yield a program and all that it calls, each once."""
    pending, seen = [program], set()
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        for step in one.steps:
            if step.function is not None:
                pending.append(step.function)
            pending += [b.program for b in step.bodies.values()]
