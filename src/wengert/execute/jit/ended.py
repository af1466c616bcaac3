"""Results whose graph a backward pass inside the function has freed, as it is freed outside of compiled functions.

A gradient that comes to such a result meets an error, never a history that ends without a word. What no pass has freed
is recorded on (`recorded`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from ...core.node import EMPTY_ATTRS, Freed, Node, make_node
from ...core.ops.op import Op
from ...transforms.derivatives.reverse import reachable


def _unrun() -> NoReturn:
    raise NotImplementedError("what a compiled function returns is made by the function")


# The operation that such a result comes from, as errors and `grad_fn` name it.
COMPILED = Op("compiled()", "general", _unrun, infer=_unrun, doc="A compiled program.", listed=False)


def freed_at(root: Node, consumed: Mapping[Node, str]) -> str | None:
    """Return where what a gradient from `root` needs was freed, if it was.

    `consumed` has the nodes that backward passes went through, with the line of each pass: freed is what they kept.
    """
    for node in reachable([root]):
        if node in consumed and any(node.op.save_plan(tuple(type(e) is Node for e in node.inputs))):
            return consumed[node]
    return None


def ended(node: Node, where: str) -> Node:
    """Return the node that such a result has in every call, for `node` in the trace."""
    return make_node(COMPILED, (), EMPTY_ATTRS, Freed(where), node.spec, node.code, node.offset, None)
