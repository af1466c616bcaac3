"""The rules: value-safe ones, and ones for finite numbers.

A value-safe rule keeps every bit of every result, for NaN, infinities and zeros of both signs too;
only which of several NaN payloads results is not kept. What is known of an op is read off its
`Algebra`; rules that NumPy's arithmetic fulfils for integers alone look at the dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.graph.snapshot import constant_node
from ..core.node import Node
from ..core.ops.op import TABLE
from ..core.spec import Spec
from .rewrite import Rewrite, Rule, RuleSet, build, is_op, number

_safe: list[Rule] = []
_finite: list[Rule] = []


def _rule(name: str, *ops: str, finite: bool = False) -> Callable[[Rewrite], Rewrite]:
    def register(apply: Rewrite) -> Rewrite:
        (_finite if finite else _safe).append(Rule(name, frozenset(ops), apply))
        return apply

    return register


def _named(fact: str) -> tuple[str, ...]:
    """Return the elementwise ops whose `Algebra` states a fact."""
    return tuple(name for name, op in TABLE.items() if op.kind == "elementwise" and getattr(op.algebra, fact))


def _replacement(node: Node, entry: Any) -> Node | None:
    """Return an input as the node's replacement; None where it is of another shape or dtype."""
    return entry if isinstance(entry, Node) and entry.spec == node.spec else None


def _exact(node: Node) -> bool:
    return isinstance(node.spec, Spec) and node.spec.dtype.kind in "biu"


def _full(node: Node, value: float) -> Node:
    spec = node.spec
    assert isinstance(spec, Spec)
    filled = constant_node(np.asarray(value, spec.dtype))
    return filled if spec.shape == () else build("broadcast", (filled,), node, shape=spec.shape)


# -- units


@_rule("unit", "multiply", "divide", "subtract", "add", "maximum", "minimum", "bitwise_or", "bitwise_xor")
def _unit(node: Node) -> Node | None:
    """Rewrite x * 1, x / 1, x - 0, x + (-0.0) to x. x + 0.0 stays: it changes a zero's sign."""
    unit = node.op.algebra.unit
    if unit is None or node.spec.dtype.kind == "c":
        return None  # as a complex number 1.0 has an imaginary part, 0.0, that infinities meet
    if node.op.name == "add" and not _exact(node):
        unit = -0.0
    left, right = node.inputs
    if _is(number(right), unit):
        return _replacement(node, left)
    if node.op.algebra.commutes and _is(number(left), unit):
        return _replacement(node, right)
    return None


def _is(value: Any, wanted: float) -> bool:
    """Return whether a number is the one wanted, its sign included where it is a zero."""
    if value is None or isinstance(value, complex) or value != wanted:
        return False
    return value != 0 or math.copysign(1.0, value) == math.copysign(1.0, wanted)


@_rule("power of one", "pow")
def _power_of_one(node: Node) -> Node | None:
    return _replacement(node, node.inputs[0]) if _is(number(node.inputs[1]), 1) else None


@_rule("times zero", "multiply", "bitwise_and")
def _integer_zero(node: Node) -> Node | None:
    """Rewrite x * 0 to 0 where x is an integer: there are no NaN and infinities."""
    if _exact(node) and any(_is(number(e), 0) for e in node.inputs):
        return _full(node, 0)
    return None


@_rule("difference of equals", "subtract", "bitwise_xor")
def _integer_difference(node: Node) -> Node | None:
    return _full(node, 0) if _exact(node) and node.inputs[0] is node.inputs[1] else None


# -- what the table's algebra says


@_rule("double negation", *_named("involution"))
def _involution(node: Node) -> Node | None:
    """Rewrite op(op(x)) to x; not so for `reciprocal`, which rounds twice."""
    inner = node.inputs[0]
    if node.op.name == "reciprocal" or not is_op(inner, node.op.name):
        return None
    return _replacement(node, inner.inputs[0])


@_rule("done twice", *_named("idempotent"))
def _idempotent(node: Node) -> Node | None:
    """Rewrite op(op(x)) to op(x), and op(x, x) to x for two arguments."""
    if len(node.inputs) == 2:
        same = node.inputs[0] is node.inputs[1] and node.op.result == "same"
        return _replacement(node, node.inputs[0]) if same else None
    inner = node.inputs[0]
    return _replacement(node, inner) if len(node.inputs) == 1 and is_op(inner, node.op.name) else None


@_rule("even of negative", *_named("even"))
def _even(node: Node) -> Node | None:
    """Rewrite cos(-x) to cos(x), and other even functions likewise."""
    inner = node.inputs[0]
    if not is_op(inner, "negative") or node.spec.dtype.kind != "f":
        return None
    return build(node.op.name, inner.inputs, node)


@_rule("identity", "positive", "copy", "stop_gradient", "alias", "conj", "real")
def _identity(node: Node) -> Node | None:
    """Rewrite ops that compute nothing to their input: a graph's values are never written to."""
    inner = node.inputs[0]
    if node.op.name == "conj" and node.spec.dtype.kind == "c":
        return None
    # A node that stops gradients must stay in a graph that may still be differentiated.
    return None if node.op.name == "stop_gradient" else _replacement(node, inner)


# -- signs


@_rule("negative operand", "add", "subtract", "multiply", "divide")
def _negative_operand(node: Node) -> Node | None:
    """Rewrite x + (-y) to x - y, x - (-y) to x + y, (-x) * (-y) to x * y."""
    left, right = node.inputs
    if node.spec.dtype.kind == "c":
        return None
    is_sum = node.op.name == "add"
    if is_sum or node.op.name == "subtract":
        if is_op(right, "negative"):
            return build("subtract" if is_sum else "add", (left, right.inputs[0]), node)
        return build("subtract", (right, left.inputs[0]), node) if is_sum and is_op(left, "negative") else None
    if is_op(left, "negative") and is_op(right, "negative"):
        return build(node.op.name, (left.inputs[0], right.inputs[0]), node)
    return None


@_rule("times minus one", "multiply", "divide")
def _minus_one(node: Node) -> Node | None:
    """Rewrite x * -1 to -x."""
    if node.spec.dtype.kind not in "if":
        return None
    left, right = node.inputs
    if _is(number(right), -1):
        return build("negative", (left,), node) if _replacement(node, left) else None
    if node.op.name == "multiply" and _is(number(left), -1):
        return build("negative", (right,), node) if _replacement(node, right) else None
    return None


# -- choice


@_rule("choice of equals", "where")
def _where_same(node: Node) -> Node | None:
    """Rewrite where(c, x, x) to x, where(True, x, y) to x, where(not c, x, y) to where(c, y, x)."""
    condition, x, y = node.inputs
    if x is y:
        return _replacement(node, x)
    known = number(condition)
    if known is not None:
        return _replacement(node, x if known else y)
    if is_op(condition, "logical_not") and condition.inputs[0].spec.dtype.kind == "b":
        return build("where", (condition.inputs[0], y, x), node)
    return None


@_rule("choice made before", "where")
def _where_again(node: Node) -> Node | None:
    """Rewrite where(c, where(c, x, y), z) to where(c, x, z), where(c, x, where(c, y, z)) to where(c, x, z)."""
    condition, x, y = node.inputs
    if is_op(x, "where") and x.inputs[0] is condition and _replacement(node, x):
        x = x.inputs[1]
    elif is_op(y, "where") and y.inputs[0] is condition and _replacement(node, y):
        y = y.inputs[2]
    else:
        return None
    # Numbers alone do not say of what dtype the choice is.
    return build("where", (condition, x, y), node) if isinstance(x, Node) or isinstance(y, Node) else None


@_rule("truth of a truth", "not_equal")
def _truth(node: Node) -> Node | None:
    """Rewrite whether a bool that became a number is other than 0 as the bool."""
    x, zero = node.inputs
    known = _is(number(zero), 0) and is_op(x, "cast") and isinstance(x.inputs[0], Node)
    return _replacement(node, x.inputs[0]) if known else None


# -- structure


@_rule("no change of form", "reshape", "broadcast", "cast", "permute", "expand_dims", "squeeze", "flip")
def _same_form(node: Node) -> Node | None:
    """Remove a reshape to the same shape, a cast to the same dtype, a permutation that changes nothing."""
    inner = node.inputs[0]
    name, attrs = node.op.name, node.attrs
    if name == "permute":
        return _replacement(node, inner) if tuple(attrs["axes"]) == _in_order(attrs["axes"]) else None
    if name == "flip":
        return _replacement(node, inner) if attrs["axis"] == () else None
    return _replacement(node, inner)


def _in_order(axes: Any) -> tuple[int, ...]:
    first = -len(axes) if any(a < 0 for a in axes) else 0
    return tuple(range(first, first + len(axes)))


@_rule("one after another", "reshape", "broadcast")
def _merged(node: Node) -> Node | None:
    """Rewrite a reshape of a reshape, a broadcast of a broadcast, to the last one alone."""
    inner = node.inputs[0]
    if not is_op(inner, node.op.name):
        return None
    return build(node.op.name, inner.inputs, node, **node.attrs)


@_rule("there and back", "cast")
def _cast_back(node: Node) -> Node | None:
    """Remove a cast to a wider dtype and back."""
    inner = node.inputs[0]
    if not is_op(inner, "cast"):
        return None
    source = inner.inputs[0].spec.dtype
    if source.kind in "biufc" and np.can_cast(source, inner.spec.dtype, "safe"):
        return _replacement(node, inner.inputs[0])
    return None


@_rule("flipped twice", "flip")
def _flip_back(node: Node) -> Node | None:
    inner = node.inputs[0]
    same = is_op(inner, "flip") and inner.attrs == node.attrs
    return _replacement(node, inner.inputs[0]) if same else None


VALUE_SAFE = RuleSet(_safe)


# -- right for finite numbers


@_rule("plus zero", "add", "subtract", finite=True)
def _plus_zero(node: Node) -> Node | None:
    """Rewrite x + 0.0 to x, which may change the sign of a zero, and 0 - x to -x likewise."""
    left, right = node.inputs
    if number(right) == 0:
        return _replacement(node, left)
    if number(left) == 0 and _replacement(node, right):
        return right if node.op.name == "add" else build("negative", (right,), node)
    return None


@_rule("times zero", "multiply", finite=True)
def _times_zero(node: Node) -> Node | None:
    """Rewrite x * 0 to 0, which is wrong for an infinite x or NaN."""
    return _full(node, 0) if any(number(e) == 0 for e in node.inputs) else None


@_rule("difference of equals", "subtract", finite=True)
def _difference(node: Node) -> Node | None:
    return _full(node, 0) if node.inputs[0] is node.inputs[1] else None


@_rule("quotient of equals", "divide", finite=True)
def _quotient(node: Node) -> Node | None:
    """Rewrite x / x to 1, which is wrong for 0, an infinite x or NaN."""
    return _full(node, 1) if node.inputs[0] is node.inputs[1] else None


@_rule("inverse functions", *_named("undoes"), finite=True)
def _inverse(node: Node) -> Node | None:
    """Rewrite log(exp(x)) to x while exp(x) is finite, exp(log(x)) to x for positive x, and so for other inverses."""
    inner = node.inputs[0]
    real = node.spec.dtype.kind != "c"
    return _replacement(node, inner.inputs[0]) if real and is_op(inner, node.op.algebra.undoes) else None


FINITE = RuleSet(_finite)
