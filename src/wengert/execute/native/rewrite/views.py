"""Views in one form, so that what is computed twice of the same numbers is seen to be one value.

Where programs add and drop axes of length 1 (gradients of broadcasts do, and libraries that keep stacks of one), the
same value is computed of views that differ in these axes alone. Permutations of such axes and indices into them become
reshapes, of which several are one, and elementwise work on one number is done without axes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....core.graph.snapshot import CONSTANT, constant_node, located
from ....core.node import Node
from ....core.ops.op import TABLE
from ....core.spec import Shape, Spec
from ....passes.rewrite import Rule, RuleSet, build, is_op


def _reshaped(x: Node, shape: Shape, like: Node) -> Node:
    """Return the node's elements in another shape, by one reshape at most."""
    while is_op(x, "reshape") and isinstance(x.inputs[0], Node):
        x = x.inputs[0]
    if x.spec.shape == shape:
        return x
    if x.op is CONSTANT and x.spec.size == 1:
        return constant_node(x.attrs["value"].reshape(shape))
    return build("reshape", (x,), like, shape=shape)


def _permutation(node: Node) -> list[int]:
    """Return the operand's axis that each axis of a permutation is; `axes` may be of the last axes alone."""
    axes, ndim = node.attrs["axes"], node.spec.ndim
    lead = ndim - len(axes)
    return [*range(lead), *(lead + a % len(axes) for a in axes)]


def _permuted(x: Node, axes: Sequence[int], like: Node) -> Node:
    """Return a node's axes in another order, by one permutation at most, of the last axes that it moves."""
    if is_op(x, "permute") and isinstance(x.inputs[0], Node):
        first = _permutation(x)
        x, axes = x.inputs[0], [first[a] for a in axes]
    lead = next((i for i, a in enumerate(axes) if a != i), len(axes))
    if lead == len(axes):
        return x
    return build("permute", (x,), like, axes=tuple(a - len(axes) for a in axes[lead:]))


def _long_axes_alone(node: Node) -> Node | None:
    """Rewrite a permutation so that it is of axes longer than 1, and the only one of them."""
    x = node.inputs[0]
    if not isinstance(x, Node):
        return None
    axes = _permutation(node)
    if 1 not in x.spec.shape:
        return _permuted(x, axes, node) if is_op(x, "permute") else None
    long = [a for a, n in enumerate(x.spec.shape) if n != 1]
    core = _reshaped(x, tuple(x.spec.shape[a] for a in long), node)
    return _reshaped(_permuted(core, [long.index(a) for a in axes if a in long], node), node.spec.shape, node)


def _all_there(node: Node) -> Node | None:
    """Rewrite a slice that takes all elements in order, or its transpose, as a reshape."""
    x, entries = node.inputs[0], node.attrs["entries"]
    if not isinstance(x, Node) or x.spec.size != node.spec.size:
        return None
    shape = (x if node.op.name == "slice" else node).spec.shape
    # Entries are those of the last axes.
    sizes = iter(shape[len(shape) - sum(e is not None for e in entries) :])
    for entry in entries:
        if entry is None or (size := next(sizes)) == 1:
            continue
        if isinstance(entry, int) or range(size)[slice(*entry)] != range(size):
            return None
    return _reshaped(x, node.spec.shape, node)


def _no_leading_axes(node: Node) -> Node | None:
    """Rewrite a broadcast of a reshaped value so that its operand does not begin with axes of length 1."""
    x = node.inputs[0]
    if not is_op(x, "reshape"):
        return None
    shape: Shape = x.spec.shape
    lead = next((a for a, n in enumerate(shape) if n != 1), len(shape))
    return build("broadcast", (_reshaped(x, shape[lead:], node),), node, **node.attrs) if lead else None


def _one_number(node: Node) -> Node | None:
    """Rewrite elementwise work on one number of a view as work without axes."""
    spec = node.spec
    if not isinstance(spec, Spec) or spec.ndim == 0 or spec.size != 1:
        return None
    if not any(is_op(e, "reshape", "broadcast") for e in node.inputs):
        return None
    inputs = tuple([_number_of(e, node) if isinstance(e, Node) else e for e in node.inputs])
    made = located(node.op, inputs, node.attrs, spec.with_shape(()), node.code, node.offset, node.scope)
    return build("reshape", (made,), node, shape=spec.shape)


def _nothing(node: Node) -> Node | None:
    """Rewrite elementwise work on no elements as a constant without elements."""
    empty = isinstance(node.spec, Spec) and node.spec.size == 0
    return constant_node(np.zeros(node.spec.shape, node.spec.dtype)) if empty else None


def _once(node: Node) -> Node | None:
    """Rewrite elementwise work on numbers that are broadcast as work on the numbers, whose result is."""
    spec = node.spec
    if not isinstance(spec, Spec) or spec.size < 2 or not any(isinstance(e, Node) for e in node.inputs):
        return None
    if any(isinstance(e, Node) and not (is_op(e, "broadcast") and e.inputs[0].spec.size == 1) for e in node.inputs):
        return None
    inputs = tuple([_number_of(e, node) if isinstance(e, Node) else e for e in node.inputs])
    made = located(node.op, inputs, node.attrs, spec.with_shape(()), node.code, node.offset, node.scope)
    return build("broadcast", (made,), node, shape=spec.shape)


def _number_of(x: Node, like: Node) -> Node:
    while is_op(x, "broadcast") and isinstance(x.inputs[0], Node):
        x = x.inputs[0]
    return _reshaped(x, (), like)


def _overwritten(node: Node) -> Node | None:
    """Rewrite an update of all elements as the values that they get."""
    values = node.inputs[1]
    whole = node.attrs["entries"] == () and isinstance(values, Node) and values.spec == node.spec
    return values if whole else None


_ELEMENTWISE = frozenset(name for name, op in TABLE.items() if op.kind == "elementwise" and not op.draws) | {"cast"}

VIEWS = RuleSet(
    [
        Rule("axes of length 1 by reshaping", frozenset({"permute"}), _long_axes_alone),
        Rule("all elements by reshaping", frozenset({"slice", "slice_transpose"}), _all_there),
        Rule("broadcast without leading axes", frozenset({"broadcast"}), _no_leading_axes),
        Rule("no elements", _ELEMENTWISE, _nothing),
        Rule("one number without axes", _ELEMENTWISE, _one_number),
        Rule("broadcast numbers once", _ELEMENTWISE, _once),
        Rule("all elements overwritten", frozenset({"slice_update"}), _overwritten),
    ]
)
