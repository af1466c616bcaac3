"""Taylor mode: all derivatives of a function along a path, in one pass.

The function is recorded once. The Taylor coefficients of its nodes are then computed order by order:
an op that is linear in what varies is applied to the coefficients, a product convolves them, and any
other op obeys the differential equation y' = J(x) x' that its derivative rule states. That right side
is itself a small graph of ops, written once, whose coefficient k - 1 gives coefficient k of y. Equal
nodes are one (sin and cos name each other), so the cost is polynomial in the order. (Griewank and
Walther, *Evaluating Derivatives*, SIAM 2008, chapter 13; Bettencourt et al., "Taylor-mode automatic
differentiation for higher-order derivatives in JAX", 2019.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import factorial
from typing import Any

import numpy as np

from ..core import tree
from ..core.errors import GradientError, fail
from ..core.graph.graph import Graph
from ..core.graph.snapshot import CONSTANT, Given, close
from ..core.mode import get_mode, reset_mode, set_mode
from ..core.node import Node, make_node
from ..core.ops.op import ALIAS, LEAF, Linear, Op, Partial, Route, spec_of_input
from ..core.ops.record import OUTPUT, abstract_input, same_value
from ..core.spec import category
from ..core.standins import WeakTensor, weak
from ..core.state.capture import Writes
from ..core.tensor import Tensor, abstract, asarray, wrap
from ..ops.structure.shapes import as_operand
from .derivatives import squares
from .derivatives.arithmetic import Tensors
from .derivatives.custom_op import CustomOp
from .derivatives.forward import _linear_together, _push_facts, _push_linear, push_node
from .derivatives.reverse import reachable
from .derivatives.tangents import _fitting
from .derivatives.variables import Pytree, recorded, refuse_none
from .derivatives.variables import close as done_with
from .tracing.replay import plain_value, record_again


def taylor(
    fn: Callable[[Any], Any],
    x: Any,
    order: int,
    direction: Any = None,
    *,
    series: Sequence[Any] | None = None,
    scaled: bool = False,
) -> list[Any]:
    """Return the derivatives of `fn` along a path through `x`, from order 0 to `order`, in one pass.

    Parameters
    ----------
    fn: a function of one pytree of tensors that returns a pytree of tensors.
    x: its argument.
    order: the highest order.
    direction: a pytree like `x`: the path is x + t * direction (default: ones). None at a leaf stands for zeros.
    series: instead, the path's own derivatives at t = 0, from the first on, each a pytree like `x`.
    scaled: Taylor coefficients, in `series` and in what is returned, instead of derivatives: those
        of order k are divided by k!.

    Returns a list of `order` + 1 pytrees like the function's result: d^k/dt^k fn(path(t)) at t = 0. Results
    that are not floating have None for every order but 0. Time and memory grow polynomially with the
    order, unlike those of nested :func:`jvp`. It nests with every other transform.

    Raises GradientError, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.taylor(wg.exp, 0.0, 3)
    [tensor(1.), tensor(1.), tensor(1.), tensor(1.)]
    >>> wg.taylor(lambda x: x ** 3, 2.0, 4, scaled=True)
    [tensor(8.), tensor(12.), tensor(6.), tensor(1.), tensor(0.)]
    """
    name = getattr(fn, "__name__", type(fn).__name__)
    if isinstance(order, bool) or not isinstance(order, int) or order < 0:
        fail(GradientError, f"taylor of {name}: order {order!r}", "Give an int of at least 0.")
    if series is not None and direction is not None:
        fail(GradientError, f"taylor of {name} along a direction and a series", "Give one of them.")
    program = _Program(fn, x, name)
    paths = program.paths(direction, series, order, scaled)
    coefficients = program.run(paths, order)
    return [program.pytree(c, k, scaled) for k, c in enumerate(coefficients)]


class _Program:
    """A function recorded at a point, closed to a graph that runs on its inputs' series."""

    def __init__(self, fn: Callable[[Any], Any], x: Any, name: str) -> None:
        self.what = f"taylor of {name}"
        self.nest_in = Pytree(x, f"the argument of {name}")
        variables = self.nest_in.variables
        writes = Writes(is_trace=False)
        result = recorded(fn, [self.nest_in.tracked], {}, writes, x, variables)
        refuse_none(result, name)
        leaves, self.structure = tree.flatten(result)
        self.outs = [same_value(o) if isinstance(o, Tensor) else asarray(o) for o in leaves]
        self.moving = [i for i, o in enumerate(self.outs) if o.requires_grad]
        self.points = [as_operand(p) for _, p in self.nest_in.beside(x, self.what)]
        roots = [self.outs[i] for i in self.moving]
        others = _outer_variables([o.node for o in roots], {v.node for v in variables})  # type: ignore[misc]
        # As abstract tensors: a constant that is the same array as an input is no input.
        given = [Given(abstract(t.node), "", False) for t in (*variables, *others)]  # type: ignore[arg-type]
        closed = close(roots, given, {})
        found = Graph(closed.outputs, closed.inputs, "")
        whole = {past[0] for n in found.nodes if (past := squares.square_under(n)) is not None}
        self.graph = found.expand_where(lambda n: not (isinstance(n.op, CustomOp) or _by_partials(n.op) or n in whole))
        more = closed.inputs[len(given) :]
        self.rest = others + [_leaf_value(closed.bound.get(n), closed.leaves[n]) for n in more]
        done_with(variables, writes)

    def paths(self, direction: Any, series: Sequence[Any] | None, order: int, scaled: bool) -> list[list[Any]]:
        """Return the Taylor coefficients of the inputs, from order 1 on."""
        if series is None:
            if direction is None:
                return [[Tensors.ones(v.spec)] for v in self.nest_in.variables]
            series = [direction]
        rows: list[list[Any]] = [[] for _ in self.nest_in.variables]
        for k, term in enumerate(series[:order], 1):
            for row, (v, t) in zip(rows, self.nest_in.beside(term, f"{self.what}: order {k}")):
                c = None if t is None else _fitting(t, v.spec, f"{self.what}: order {k}")
                row.append(c if c is None or scaled else c / float(factorial(k)))
        return rows

    def run(self, paths: Sequence[Sequence[Any]], order: int) -> list[list[Any]]:
        """Return the results' coefficients, by order."""
        exprs = _Exprs()
        made: dict[Node, _Expr] = {}
        inputs = self.graph.inputs
        for node, point, path in zip(inputs, self.points, paths):
            made[node] = exprs.given(node, [point, *path], True)
        for node, value in zip(inputs[len(self.points) :], self.rest):
            made[node] = exprs.given(node, [value], False)
        steps = []
        for node in self.graph.nodes:
            if node not in made:
                past = squares.square_under(node)
                if past is None:
                    made[node] = exprs.expr(node, [made[e] if isinstance(e, Node) else e for e in node.inputs])
                else:
                    made[node] = exprs.even_power(*past, made)
                steps.append(made[node])
        roots = [made[n] for n in self.graph.outputs]
        found = []
        for k in range(order + 1):
            for step in steps:
                exprs.coefficient(step, k)
            found.append([exprs.coefficient(r, k) for r in roots])
        return found

    def pytree(self, coefficients: Sequence[Any], k: int, scaled: bool) -> Any:
        leaves: list[Any] = []
        for o in self.outs:
            inexact = category(o.dtype) >= 2
            leaves.append(o if k == 0 else Tensors.zeros(o.spec) if inexact else None)
        for i, c in zip(self.moving, coefficients, strict=True):
            if c is not None:
                leaves[i] = c if scaled or k < 2 else c * float(factorial(k))
            elif k == 0:
                leaves[i] = self.outs[i].detach()
        for i, o in enumerate(self.outs):
            if type(o) is WeakTensor and leaves[i] is not None:
                leaves[i] = weak(leaves[i])
        return tree.unflatten(self.structure, leaves)


def _outer_variables(roots: Sequence[Node], own: set[Node]) -> list[Tensor]:
    """Return the variables of other transforms at work, as tensors."""
    found = []
    for node in reachable(roots):
        if node.op is ALIAS and isinstance(node.inputs[0], Tensor) and node not in own:
            source = node.inputs[0]
            t = abstract(node) if source._array is None else wrap(source._array)
            t.node = node
            found.append(t)
    return found


def _leaf_value(bound: Tensor | None, leaf: Node) -> Tensor:
    if bound is not None:
        return bound
    if leaf.op is LEAF:
        fail(GradientError, f"a tensor {leaf.spec} that is used no longer exists", "Pass it as an argument.")
    return abstract(leaf)


class _Expr:
    """A value along the path: a node on other such values, and the coefficients known so far."""

    __slots__ = ("node", "args", "active", "coefficients", "derivative", "slope", "rule", "key")

    def __init__(self, node: Node | None, args: Sequence[Any], active: bool) -> None:
        self.node, self.args, self.active = node, args, active
        self.coefficients: list[Any] = []
        self.derivative: _Expr | None = None  # the value whose derivative this is
        self.slope: _Expr | None = None  # the derivative of this value, where it was asked for
        self.rule: Any = None  # what this value's derivative is, by the op's rule
        self.key: Any = id(self)


class _Exprs:
    """The values of a program and of the rules that it needs, each once."""

    def __init__(self) -> None:
        self.known: dict[Any, _Expr] = {}

    def given(self, node: Node, coefficients: list[Any], active: bool) -> _Expr:
        made = _Expr(node, (), active)
        made.coefficients = coefficients
        made.node = None
        return made

    def constant(self, value: Any) -> _Expr:
        key: Any = ("constant", id(value))
        if value.size <= 64:
            key = ("constant", value.shape, str(value.dtype), value.tobytes())
        if key not in self.known:
            made = self.known[key] = _Expr(None, (value,), False)  # the array stays alive, and its id with it
            made.coefficients = [wrap(value)]
        return self.known[key]

    def expr(self, node: Node, args: Sequence[Any]) -> _Expr:
        """Return the value of a node on these arguments."""
        if node.op is CONSTANT:
            return self.constant(node.attrs["value"])
        parts = tuple(a.key if isinstance(a, _Expr) else (type(a), repr(a)) for a in args)
        try:
            key: Any = (node.op, parts, tuple(sorted(node.attrs.items())))
            found = self.known.get(key)
        except TypeError:
            key, found = None, None
        if found is None:
            found = _Expr(node, args, any(isinstance(a, _Expr) and a.active for a in args))
            if key is not None:
                self.known[key] = found
        return found

    def even_power(self, base: Node, power: int, made: Mapping[Node, _Expr]) -> _Expr:
        """Return an even power of a node that has a kink itself, by what is smooth."""
        places: dict[Node, Any] = {}
        arguments = []
        for entry in base.inputs:
            stand_in = abstract_input(spec_of_input(entry))
            assert stand_in.node is not None
            arguments.append(stand_in)
            places[stand_in.node] = made[entry] if isinstance(entry, Node) else self.constant(entry)
        token = set_mode(get_mode().as_recorded(True))
        try:
            found = squares.value(base, power, arguments)
        finally:
            reset_mode(token)
        return self._read(found, places)

    def slope(self, x: _Expr) -> _Expr:
        if x.slope is None:
            made = x.slope = _Expr(None, (), True)
            made.derivative = x
        return x.slope

    # -- coefficients

    def coefficient(self, x: Any, k: int) -> Any:
        """Return coefficient `k`; None is zero. Those of a node's arguments exist before its own."""
        if not isinstance(x, _Expr):
            return x if k == 0 else None
        if x.derivative is not None:
            c = self.coefficient(x.derivative, k + 1)
            return c if c is None or k == 0 else c * float(k + 1)
        while len(x.coefficients) <= k:
            if x.node is None or (not x.active and x.coefficients):
                return None
            x.coefficients.append(self._next(x, x.node, len(x.coefficients)))
        return x.coefficients[k]

    def _next(self, x: _Expr, node: Node, k: int) -> Any:
        if k == 0:
            found = record_again(node, [self._value(a) for a in x.args])
            return tuple(map(plain_value, found)) if isinstance(found, tuple) else plain_value(found)
        op = node.op
        active = [i for i, a in enumerate(x.args) if isinstance(a, _Expr) and a.active]
        if op is OUTPUT:
            parts = self.coefficient(x.args[0], k)
            return None if parts is None else parts[node.attrs["index"]]
        if op.name == "multiply" and len(active) == 2:
            return self._product(op, node, [active[0]], [active[1]], x, k)
        if op.name == "divide" and 1 in active:
            return self._quotient(x, k)
        if op.joint is None:
            moving = [i for i in active if op.fact(i).differentiable]
            if all(_constant_slope(op.fact(i), i, moving) for i in moving):
                return self._affine(op, node, moving, x, k)
            if all(type(op.fact(i)) is Linear for i in moving):
                groups = _groups(op, moving)
                if len(groups) == 2:
                    return self._product(op, node, groups[0], groups[1], x, k)
        return self._by_rule(x, node, active, k)

    def _values(self, x: _Expr) -> list[Any]:
        return [self._value(a) for a in (*x.args, x)]

    def _value(self, x: Any) -> Any:
        c = self.coefficient(x, 0)
        return Tensors.zeros(_spec(x)) if c is None else c

    def _affine(self, op: Any, node: Node, moving: Sequence[int], x: _Expr, k: int) -> Any:
        ts = {i: c for i in moving if (c := self.coefficient(x.args[i], k)) is not None}
        return _push_facts(Tensors, op, ts, {}, self._values(x), node)[0] if ts else None

    def _product(self, op: Any, node: Node, first: Sequence[int], second: Sequence[int], x: _Expr, k: int) -> Any:
        """Return the convolution of two arguments' coefficients, or of two groups' of them."""
        total: Any = None
        values = self._values(x)
        for j in range(k + 1):
            ts = {i: c for i in first if (c := self.coefficient(x.args[i], j)) is not None}
            others = {i: self.coefficient(x.args[i], k - j) for i in second}
            if not ts or all(c is None for c in others.values()):
                continue
            if op.name == "multiply":
                part = ts[first[0]] * others[second[0]]
            else:
                for i, c in others.items():
                    values[i] = Tensors.zeros(spec_of_input(node.inputs[i])) if c is None else c
                part = _push_linear(Tensors, op, ts, values, node)
            total = part if total is None else _plus(total, part)
        return total

    def _quotient(self, x: _Expr, k: int) -> Any:
        """Return the coefficients of c = a / b from c b = a."""
        a, b = x.args
        total = self.coefficient(a, k)
        for j in range(1, k + 1):
            c, d = self.coefficient(x, k - j), self.coefficient(b, j)
            if c is not None and d is not None:
                total = -(c * d) if total is None else total - c * d
        return None if total is None else total / self.coefficient(b, 0)

    # -- differential equations

    def _by_rule(self, x: _Expr, node: Node, active: Sequence[int], k: int) -> Any:
        if x.rule is None:
            x.rule = self._derivative(x, node, active)
        found = [None if d is None else self.coefficient(d, k - 1) for d in x.rule]
        scaled = [c if c is None or k == 1 else c / float(k) for c in found]
        if node.op.results == 1:
            return scaled[0]
        return None if all(c is None for c in scaled) else tuple(scaled)

    def _derivative(self, x: _Expr, node: Node, active: Sequence[int]) -> list[Any]:
        """Return J(x) x' as values: the op's rule, run on abstract tensors."""
        inputs = []
        places: dict[Node, Any] = {}
        tangents: dict[Node, Any] = {}
        for i, a in enumerate(x.args):
            if not isinstance(a, _Expr):
                inputs.append(a)
                continue
            stand_in = abstract_input(spec_of_input(node.inputs[i]), requires_grad=i in active)
            assert stand_in.node is not None
            inputs.append(stand_in.node)
            places[stand_in.node] = a
            if i in active and stand_in.spec.inexact:
                t = abstract_input(stand_in.spec)
                tangents[stand_in.node] = t
                places[t.node] = self.slope(a)  # type: ignore[index]
        twin = make_node(node.op, tuple(inputs), node.attrs, (), node.spec, None, 0, None, True)
        places[twin] = x
        token = set_mode(get_mode().as_recorded(True))
        try:
            push_node(Tensors, twin, (), tangents, {})
        finally:
            reset_mode(token)
        found = tangents.get(twin)
        parts = found if isinstance(found, tuple) else (found,)
        if found is None:
            parts = (None,) * node.op.results
        return [None if t is None else self._read(t, places) for t in parts]

    def _read(self, t: Tensor, places: dict[Node, Any]) -> _Expr:
        """Return a recorded tensor as a value."""
        if t.node is None:
            return self.constant(t._array)
        stack = [t.node]
        while stack:
            node = stack[-1]
            if node in places:
                stack.pop()
                continue
            waiting = [e for e in node.inputs if isinstance(e, Node) and e not in places]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            args = [
                places[e] if isinstance(e, Node) else self.constant(e) if isinstance(e, (np.ndarray, np.generic)) else e
                for e in node.inputs
            ]
            places[node] = args[0] if node.op is ALIAS else self.expr(node, args)
        found: _Expr = places[t.node]
        return found


def _plus(a: Any, b: Any) -> Any:
    if isinstance(a, tuple):
        return tuple(y if x is None else x if y is None else x + y for x, y in zip(a, b, strict=True))
    return a + b


def _by_partials(op: Op) -> bool:
    """Return whether an op declares its slopes, element by element: its body may have a kink that it has not."""
    slopes = [f for f in op.facts if f.differentiable]
    return bool(slopes) and all(type(f) is Partial for f in slopes)


def _spec(x: _Expr) -> Any:
    while x.derivative is not None:
        x = x.derivative
    return x.node.spec if x.node is not None else x.coefficients[0].spec


def _constant_slope(fact: Any, i: int, moving: Sequence[int]) -> bool:
    """Return whether the derivative in argument `i` does not change along the path."""
    if type(fact) is Route:
        return True
    return type(fact) in (Linear, Partial) and not fact.needs_out and not any(j in fact.needs for j in moving)


def _groups(op: Any, moving: Sequence[int]) -> list[list[int]]:
    """Return the arguments in groups that the op is jointly linear in."""
    left = dict.fromkeys(moving)
    groups = []
    while left:
        group = _linear_together(op, left)
        groups.append(group)
        for i in group:
            del left[i]
    return groups
