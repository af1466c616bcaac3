"""Even powers of what has a kink: |x|**2 and norm(x)**2 are smooth where |x| and norm(x) are not.

By the chain rule their second derivative at 0 would be made of slopes that do not exist there. So a derivative that is
itself differentiated goes past the inner result: to what it is made of, of which its square is a form x A x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.node import Mixed, Node, Recomputed
from ...core.ops.op import TABLE
from ...core.ops.record import SCALARS

# The ops that an even power is.
POWERS = frozenset({"pow", "square", "multiply"})


def square_under(node: Node) -> tuple[Node, int] | None:
    """Return the (base, exponent) of a node that is an even power of a base with a smooth square; else None."""
    name, inputs = node.op.name, node.inputs
    if name == "pow":
        power = _even(inputs[1])
    elif name == "square" or (name == "multiply" and inputs[0] is inputs[1]):
        power = 2
    else:
        return None
    base = inputs[0]
    return (base, power) if power and isinstance(base, Node) and "square" in base.op.facets else None


def _even(p: Any) -> int:
    """Return a constant exponent if it is even and positive, else 0."""
    if isinstance(p, Node):
        p = p.attrs["value"] if p.op.name == "constant" else None
    if isinstance(p, (np.ndarray, np.generic)):
        p = p.reshape(-1)[0].item() if p.size and (p == p.reshape(-1)[0]).all() else None
    return int(p) if type(p) in SCALARS and not isinstance(p, complex) and p > 0 and p % 2 == 0 else 0


def squared(node: Node, targets: Any) -> tuple[Node, int] | None:
    """Return the (base, power) that a recorded pass skips at a node; None if the base is a target or has hooks."""
    found = square_under(node)
    if found is None or (targets is not None and found[0] in targets):
        return None
    saved = found[0].saved
    return found if type(saved) in (tuple, Mixed) or isinstance(saved, Recomputed) else None


def pull(lib: Any, node: Node, saved: Any, base: Node, power: int, ct: Any) -> list[Any]:
    """Return the cotangents of the arguments of `base` for that of an even power of it; None where there is none."""
    *arguments, _ = lib.saved(base, _kept(base))
    scaled = _scaled(lib, node, saved, power, ct)
    form = base.op.facets["square"]
    return [
        form.pull(scaled, x, **base.attrs) if isinstance(entry, Node) and entry.requires_grad else None
        for entry, x in zip(base.inputs, arguments, strict=True)
    ]


def push(lib: Any, node: Node, saved: Any, base: Node, power: int, tangents: dict[Node, Any]) -> Any:
    """Return the tangent of an even power of `base` for those of its arguments; None where there is none."""
    *arguments, _ = lib.saved(base, _kept(base))
    form, total = base.op.facets["square"], None
    for entry, x in zip(base.inputs, arguments, strict=True):
        if isinstance(entry, Node) and entry in tangents:
            part = form.product(x, tangents[entry], **base.attrs)
            total = part if total is None else total + part
    return None if total is None else _scaled(lib, node, saved, power, total)


def _kept(base: Node) -> Any:
    """Return the values that a node saved; if they are recomputed, the current pass computes them."""
    saved = base.saved
    return saved.take(base) if isinstance(saved, Recomputed) else saved


def _scaled(lib: Any, node: Node, saved: Any, power: int, change: Any) -> Any:
    """Return a change of half the square, times what the even power's is over it: power base**(power - 2)."""
    scaled = change * float(power)
    return scaled if power == 2 else scaled * TABLE["pow"].front(lib.saved(node, saved)[0], power - 2)


def value(base: Node, power: int, arguments: list[Any]) -> Any:
    """Return an even power of `base` without its kink, of tensors that stand for its arguments."""
    form = base.op.facets["square"]
    total: Any = None
    for x in arguments:
        part = form.product(x, x, **base.attrs)
        total = part if total is None else total + part
    return total if power == 2 else TABLE["pow"].front(total, power // 2)
