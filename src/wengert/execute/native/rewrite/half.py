"""Half precision where kernels have none: operands become float32, and results are rounded once, at the end.

Loops widen in registers what they read and round what each op gives, and so do products, convolutions, attention,
reductions, pools and gathers. What is left are ops whose facet says that they are best computed in float32: their NumPy
forwards widen inside too, so both round alike.
"""

from __future__ import annotations

from typing import Any

from ....core.graph.snapshot import located
from ....core.node import Node
from ....core.ops.autocast import is_half
from ....core.ops.op import Op
from ....core.ops.record import OUTPUT
from ....core.spec import float32
from ....passes.rewrite import Rule, RuleSet, build


def _is_for_float32(op: Op) -> bool:
    # Reductions that loops have widen what they read, element by element.
    in_loops = op.kind == "elementwise" or "reduction" in op.facets
    return op.facets.get("autocast") == "float32" and not in_loops


def _is_narrow(entry: Any) -> bool:
    return isinstance(entry, Node) and not isinstance(entry.spec, tuple) and is_half(entry.spec.dtype)


def _widened(node: Node) -> Node | None:
    """Return a node computed of float32 operands; None where it is to stay as it is."""
    if not _is_for_float32(node.op) or not any(map(_is_narrow, node.inputs)):
        return None
    inputs = tuple(build("cast", (e,), node, dtype=float32) if _is_narrow(e) else e for e in node.inputs)
    return build(node.op.name, inputs, node, **node.attrs)


def _in_float32(node: Node) -> Node | None:
    source = node.inputs[0] if node.op is OUTPUT else None
    if isinstance(source, Node):
        wide = _widened(source)
        if wide is None:
            return None
        spec = wide.spec[node.attrs["index"]]  # type: ignore[index]
        found: Node | None = located(OUTPUT, (wide,), node.attrs, spec, node.code, node.offset, node.scope)
    else:
        found = None if isinstance(node.spec, tuple) else _widened(node)
    if found is None or found.spec.dtype == node.spec.dtype:
        return found
    return build("cast", (found,), node, dtype=node.spec.dtype)


HALF = RuleSet([Rule("half precision in float32", frozenset(), _in_float32)])
