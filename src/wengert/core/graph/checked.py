"""The checks on nodes that come from outside: each is one that its op could have recorded, or it is refused.

A document (a text, a JSON file, a pickled graph) says of every node what it is given and what it gives. Nothing of
that is taken on trust: compiled code reads and writes memory by it. The same questions are asked of a
graph whose sizes were unknown when they are filled in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np

from ..dtypes import is_foreign
from ..errors import DTypeError, GraphError, ShapeError, WengertError, fail, first_line
from ..mode import Scope
from ..node import Node
from ..ops.attributes import ROLES, check_attribute
from ..ops.op import Op, find_op
from ..ops.record import OUTPUT, SCALARS
from ..source import Source
from ..spec import Spec, category, check_size, scalar_category
from .declared import check_declared
from .snapshot import located
from .values import shortened


def checked_node(
    name: str,
    inputs: tuple[Any, ...],
    attrs: dict[str, Any],
    spec: Any,
    source: Source | None = None,
    scope: Scope | None = None,
    declared: Collection[str] = (),
) -> Node:
    """Return a computation node from outside, of an op of the library or of one that is `declared` in the document.

    Raises GraphError where it cannot be one.
    """
    op = find_op(name)
    if op is None or op.kind == "leaf":
        fail(GraphError, f"{name!r} is not an op of the table")
    check_declared(op, declared)
    try:
        found = inferred(op, [e.spec if isinstance(e, Node) else e for e in inputs], attrs)
    except WengertError as e:
        fail(GraphError, first_line(e))
    except Exception as e:  # a rule that fails in any other way has not said what the node gives
        fail(GraphError, f"{name} does not take these inputs and attributes: {type(e).__name__}: {shortened(e)}")
    if found != spec:
        fail(GraphError, f"{name} gives {shortened(found)}, not {shortened(spec)}")
    return located(op, _with_literals(op, inputs), attrs, spec, source, 0, scope)


def _with_literals(op: Op, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return inputs with literals in the category that a front door gives them: 2 is 2.0 among floats."""
    if op.kind != "elementwise" or all(isinstance(e, Node) for e in inputs):
        return inputs
    operands = [e.spec if isinstance(e, Node) else e for e in inputs]
    dtype = next(x.dtype for x, role in zip(operands, _roles(op)) if isinstance(x, Spec) and role == "same")
    return tuple(e if isinstance(e, Node) else _NUMBERS[category(dtype)](e) for e in inputs)


_NUMBERS: tuple[Callable[[Any], Any], ...] = (bool, int, float, complex)


def _roles(op: Op) -> Iterator[str]:
    """Return the role of each operand; the last role repeats."""
    roles = [op.roles[p] for p in op.params]
    return chain(roles, repeat(roles[-1]))


def inferred(op: Op, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Return the spec of a node's result (a tuple of specs for several). Raises where there can be no such node.

    `operands` are specs (a tuple of them for a node with several results) and literals.
    """
    if set(attrs) != set(op.attr_names):
        fail(GraphError, f"{op.name} takes the attributes {list(op.attr_names)}, not {list(attrs)}")
    fixed = len(op.params) - op.variadic
    if len(operands) < fixed or (len(operands) > fixed and not op.variadic):
        fail(GraphError, f"{op.name} takes {fixed}{' or more' if op.variadic else ''} inputs, not {len(operands)}")
    if operands and not any(isinstance(x, (Spec, tuple)) for x in operands):
        fail(GraphError, f"{op.name} takes at least one node among its inputs")
    if op is not OUTPUT:
        _check_operands(op, operands)
    elif not isinstance(operands[0], tuple):
        fail(GraphError, f"output takes a node with several results, not {operands[0]}")
    check_attributes(op, attrs, operands[0] if operands and isinstance(operands[0], Spec) else None)
    found = op.infer(*operands, **attrs)
    for spec in found if isinstance(found, tuple) else (found,):
        check_size(spec.shape, f"{op.name}: the result's shape")
    return found


def check_attributes(op: Op, attrs: Mapping[str, Any], first: Spec | None) -> None:
    """Raise GraphError unless each attribute is of its kind, for an op whose first operand is `first`."""
    for key, kind in op.kinds.items():
        check_attribute(op.name, key, kind, attrs[key], first)


def _check_operands(op: Op, operands: Sequence[Any]) -> None:
    """Raise unless each operand is one result of a dtype that the op takes, or a literal of such a dtype."""
    common: Spec | None = None
    shape = next((x.shape for x in operands if isinstance(x, Spec)), ())
    for i, (x, role) in enumerate(zip(operands, _roles(op) if op.params else ())):
        if isinstance(x, tuple):
            fail(GraphError, f"{op.name} takes one of several results, which `output` picks, not {x}")
        if not isinstance(x, Spec):
            if type(x) not in SCALARS or not (role == "value" or op.kind == "elementwise"):
                fail(GraphError, f"{op.name} does not take the literal {x!r}")
            continue
        if op.kind == "elementwise" and x.shape != shape:
            fail(ShapeError, f"{op.name} of {shape} and {x.shape}: a broadcast is a node of its own")
        if role in ("same", "value"):
            if common is not None and x.dtype != common.dtype:
                fail(DTypeError, f"{op.name} of {common} and {x}: cast one of them")
            common = x
        elif category(x.dtype) not in ROLES[role][1]:
            fail(DTypeError, f"{op.name}: input {i} has {ROLES[role][0]}, not {x}")
    if common is not None and not getattr(common, op.accepts):
        fail(DTypeError, f"{op.name} does not take {common}")
    for x in operands:
        if not isinstance(x, Spec):
            _check_literal(op, x, common)


def _check_literal(op: Op, value: Any, beside: Spec | None) -> None:
    """Raise unless a literal stands for a number of the dtype that the operands beside it have."""
    if beside is None:
        fail(GraphError, f"{op.name} takes no literal here: nothing beside it has a dtype")
    dtype = beside.dtype
    if scalar_category(value) > category(dtype) or (op.kind == "elementwise" and is_foreign(dtype)):
        fail(DTypeError, f"{op.name} of {beside} and the literal {value!r}: make it a constant, or cast")
    if type(value) is int:
        if dtype.kind in "iu" and op.result != "boolean":
            info = np.iinfo(dtype)
            fits = info.min <= value <= info.max
        else:
            fits = dtype.kind in "iu" or not math.isinf(_as_float(value))
        if not fits:
            fail(DTypeError, f"the number {shortened(value)} does not fit {dtype}")


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
