"""Composites outside `wg.jit` as compiled programs: one for the forward pass, one for the derivative.

A program is made for an op with its attributes, for the shapes and dtypes of its arguments, and for
how they lie in memory. It replaces what NumPy would compute, nothing else: nodes, and what they save,
are the same, so whatever reads, replays or differentiates the recorded graph sees no difference. The
derivative's graph is what the op's facts record on tensors; it takes the saved values and gives the
cotangents of all arguments that want one at once.

Making a program takes some milliseconds, so each is rented before it is bought (see :mod:`wengert.core.ops.kernels`).
"""

from __future__ import annotations

import contextvars
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.errors import WengertError
from ...core.graph.graph import Graph
from ...core.node import Node
from ...core.ops.kernels import Kernels, Off, price
from ...core.ops.op import Linear, Op, Partial, Vjp
from ...core.ops.record import SCALARS
from ...core.spec import spec_of
from ...core.tensor import Tensor
from ...ops.structure.axes import permute_op
from ...ops.structure.shapes import broadcast
from ...transforms.derivatives.arithmetic import Tensors
from ...transforms.tracing.trace import trace
from .codegen.machine import is_supported
from .compile import compile_graph
from .plan.plan import HostCall
from .run.runtime import Program

Array = np.ndarray[Any, np.dtype[Any]]

# The cost of a program, in the nanoseconds that `price` reckons in: tracing and planning, and part of
# the time for kernels, most of which other programs have made or left in the cache on disk.
PROGRAM = 10_000_000
# The most combinations of op and shapes that are known at a time; the oldest is forgotten first.
MOST_KNOWN = 1024
# The multiplications of a matrix product up to which kernels are not slower than NumPy's BLAS in transposed products.
MOST_MULTIPLICATIONS = 4_000_000
# The dtypes that NumPy computes in as kernels do; half precision is left to the ops' own forwards.
FLOATS, OTHERS = frozenset("fd"), frozenset("?bBhHiIlLqQ")
# NumPy's flags: elements in C order, at addresses that suit them.
PLAIN = 0x0001 | 0x0100


class _Entry:
    """A compiled program, or what was spent without one. `fit` is False where there can be none.

    `places` are the arguments, by number, whose cotangents a derivative's program computes.
    """

    __slots__ = ("program", "spent", "fit", "places")

    def __init__(self, fit: bool) -> None:
        self.program: Program | None = None
        self.spent = 0
        self.fit = fit
        self.places: list[int] = []


class Programs:
    """The table of compiled composites. `cost` is what making one costs: 0 makes them at the first call."""

    def __init__(self, cost: int) -> None:
        self._cost = cost
        self._known: dict[tuple[Any, ...], _Entry] = {}

    def forward(self, op: Op, values: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """Return the result of a composite for arrays; None to have NumPy do it."""
        key: list[Any] = [op]
        for name in op.attr_names:
            value = attrs[name]
            key.append(value or repr(value))  # 0.0 and -0.0 are equal, and not the same
        arrays, layouts = _taken(values, key)
        known = tuple(key)
        entry = self._known.get(known)
        if entry is None or entry.program is None:
            entry = self._entry(known, arrays)
            if self._pays(entry, arrays):
                self._buy(entry, arrays, layouts, lambda *tensors: op.front(*tensors, **attrs))
        found = _run(entry, arrays)
        if found is None:
            return None
        return found[0] if op.results == 1 else tuple(found)

    def pull(self, node: Node, ct: Any, saved: Sequence[Any], wanted: Sequence[bool]) -> Sequence[Any] | None:
        """Return the cotangents of a composite's wanted arguments; None to have NumPy do it."""
        op, attrs = node.op, node.attrs
        count = op.facets.get("multiplications")
        if count is not None and count([_shape(n) for n in node.inputs]) > MOST_MULTIPLICATIONS:
            return None
        key: list[Any] = [op, "pull", *wanted]
        for name in op.attr_names:
            value = attrs[name]
            key.append(value or repr(value))
        for n in node.inputs:  # what facts may ask of arguments that are not saved
            if type(n) is Node:
                key.append(n.spec.shape)
                key.append(n.spec.dtype.char)
            else:
                key.append(None)
        values = (ct, *saved) if op.results == 1 else _flat(ct, saved)
        arrays, layouts = _taken(values, key)
        known = tuple(key)
        entry = self._known.get(known)
        if entry is None or entry.program is None:
            entry = self._entry(known, arrays, _has_rules(node, wanted, values))
            if self._pays(entry, arrays):
                self._buy(entry, arrays, layouts, _derivative(node, values, wanted, entry.places))
        found = _run(entry, arrays)
        if found is None or len(found) == len(wanted):
            return found
        cotangents: list[Any] = [None] * len(wanted)
        for i, g in zip(entry.places, found):
            cotangents[i] = g
        return cotangents

    def pays(self, price: int, spent: int, cost: int) -> bool:
        """Return whether other code that repeats is worth a program of this cost, on which NumPy has spent so much."""
        return self._cost == 0 or spent >= cost

    def _entry(self, key: tuple[Any, ...], arrays: Sequence[Array], fit: bool = True) -> _Entry:
        entry = self._known.get(key)
        if entry is None:
            while len(self._known) >= MOST_KNOWN:
                self._known.pop(next(iter(self._known)), None)
            entry = self._known[key] = _Entry(fit and _has_kernels(arrays))
        return entry

    def _pays(self, entry: _Entry, arrays: Sequence[Array]) -> bool:
        """Return whether the next call is worth a program, counting what it would cost without."""
        entry.spent += price(arrays)
        return entry.fit and entry.spent >= self._cost

    @staticmethod
    def _buy(
        entry: _Entry, arrays: Sequence[Array], layouts: Sequence[_Layout | None], compute: Callable[..., Any]
    ) -> None:
        try:
            entry.program = _program(compute, arrays, layouts)
        except WengertError:
            pass  # what does not fit: NumPy meets it too, and says so in the op's words
        except Exception as e:  # whoever calls a composite has not asked for a compiler
            warnings.warn(f"NumPy computes a composite of which no kernel could be made: {e!r}", RuntimeWarning, 2)
        entry.fit = entry.program is not None


def _run(entry: _Entry, arrays: Sequence[Array]) -> Sequence[Any] | None:
    program = entry.program
    if program is None:
        return None
    try:
        return program.run(arrays)
    except WengertError:
        return None  # a value that the op refuses: NumPy meets it too, and says so in the op's words


def _shape(entry: Any) -> tuple[int, ...]:
    """Return the shape of a node's input."""
    shape: tuple[int, ...] = (entry.spec if type(entry) is Node else entry).shape
    return shape


def _flat(ct: Any, saved: Sequence[Any]) -> tuple[Any, ...]:
    """Return the cotangents of several results and the saved values, one after another: arguments, then results."""
    if saved and saved[-1] is not None:
        return (*ct, *saved[:-1], *saved[-1])
    return (*ct, *saved)


def _has_rules(node: Node, wanted: Sequence[bool], values: Sequence[Any]) -> bool:
    """Return whether the facts about the wanted arguments give their cotangents for arrays alone."""
    op = node.op
    facts = [op.fact(i) for i, w in enumerate(wanted) if w and op.joint is None]
    return all(isinstance(f, (Partial, Linear, Vjp)) for f in facts) and all(type(v) not in SCALARS for v in values)


def _derivative(node: Node, values: Sequence[Any], wanted: Sequence[bool], places: list[int]) -> Callable[..., Any]:
    """Return the function from the tensors among `values` to the cotangents of the wanted arguments.

    When it runs it notes in `places` which these are: to some nothing flows.
    """
    op = node.op
    given = [v is not None for v in values]
    several, count = op.results != 1, len(node.inputs)

    def compute(*tensors: Tensor) -> tuple[Any, ...]:
        left = iter(tensors)
        all_values = [next(left) if there else None for there in given]
        ct: Any = tuple(all_values[: op.results]) if several else all_values[0]
        saved: tuple[Any, ...] = tuple(all_values[op.results :])
        if several and len(saved) > count:
            saved = (*saved[:count], saved[count:])
        if op.joint is not None:
            found = op.joint.pull(ct, saved, node, 0)
        else:
            found = [_product(op.fact(i), ct, saved, node, i) if w else None for i, w in enumerate(wanted)]
        places[:] = [i for i, (g, w) in enumerate(zip(found, wanted)) if w and g is not None]
        return tuple(found[i] for i in places)

    return compute


def provider(at_once: bool) -> Kernels:
    """Return the object that computes composites from now on."""
    return Programs(0 if at_once else PROGRAM) if is_supported() else Off()


def _product(fact: Any, ct: Any, saved: tuple[Any, ...], node: Node, index: int) -> Any:
    """Return an argument's cotangent, by the op's fact about it."""
    found = fact.pull(ct, saved, node, index)
    return Tensors.scale(ct, found) if isinstance(fact, Partial) else found


def _has_kernels(arrays: Sequence[Array]) -> bool:
    """Return whether kernels compute what NumPy does; arrays without elements have none."""
    chars = {a.dtype.char for a in arrays}
    return bool(chars & FLOATS) and chars <= FLOATS | OTHERS and all(a.size for a in arrays)


# -- how arguments lie in memory


class _Layout:
    """An array's layout in memory: `order` are the axes from the outermost, `shape` the array's.

    Axes along which it is repeated have size 1 in memory.
    """

    __slots__ = ("order", "shape")

    def __init__(self, order: tuple[int, ...], shape: tuple[int, ...]) -> None:
        self.order = order
        self.shape = shape

    def restored(self, x: Tensor) -> Tensor:
        """Return the array, from a tensor of its elements in the order of memory."""
        n = len(self.order)
        out: Tensor = permute_op.front(x, axes=tuple(self.order.index(i) - n for i in range(n)))
        return out if out.shape == self.shape else broadcast.front(out, shape=self.shape)


def _taken(values: Sequence[Any], key: list[Any]) -> tuple[list[Array], list[_Layout | None]]:
    """Return the values that are arrays for programs, with their layouts, and append what identifies them to `key`."""
    arrays: list[Array] = []
    layouts: list[_Layout | None] = []
    for v in values:
        layout = None
        if type(v) is np.ndarray:
            key.append(v.shape)
            if v.flags.num & PLAIN != PLAIN:
                v, layout = _as_it_lies(v)
                if layout is not None:
                    key.append((layout.order, v.shape))
        elif v is None:
            key.append(None)
            continue
        else:
            v = np.asarray(v)
            key.append(v.shape)
        key.append(v.dtype.char)
        arrays.append(v)
        layouts.append(layout)
    return arrays, layouts


def _as_it_lies(a: Array) -> tuple[Array, _Layout | None]:
    """Return an array dense in another order of its axes, or repeated along some, as its memory; else a copy."""
    once = a[tuple([slice(0, 1) if s == 0 and n > 1 else slice(None) for n, s in zip(a.shape, a.strides)])]
    order = tuple(sorted(range(a.ndim), key=lambda i: -once.strides[i]))
    dense = once.transpose(order)
    if dense.flags.num & PLAIN == PLAIN:
        return dense, _Layout(order, a.shape)
    return np.array(a, order="C"), None


# -- programs


def _program(compute: Callable[..., Any], arrays: Sequence[Array], layouts: Sequence[_Layout | None]) -> Program | None:
    """Return the program of a function of arrays with these layouts; None where it would come back to NumPy."""

    def fn(*tensors: Tensor) -> Any:
        return compute(*(t if how is None else how.restored(t) for t, how in zip(tensors, layouts)))

    specs = tuple(spec_of(a.shape, a.dtype) for a in arrays)
    # In a context of its own: no trace, capture or mode around the call has to do with the program.
    graph: Graph = contextvars.Context().run(trace, fn, specs, {})
    compiled = contextvars.Context().run(compile_graph, graph)
    steps = compiled.program.plan.steps
    if any(isinstance(s.kernel, HostCall) and s.kernel.when is None for s in steps):
        return None
    return compiled.program
