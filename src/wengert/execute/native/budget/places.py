"""Places of a plan's steps in the user's program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....core.errors import is_internal
from ....core.mode import Scope
from ....core.node import Node
from ....core.source import Source, resolve
from ..plan.plan import Step


def place_of(steps: Sequence[Step]) -> tuple[Source | None, str, str]:
    """Return the user's line of the largest result of some steps, the words for it, and the module that it is in."""
    nodes = [n for s in steps for n in s.nodes]
    if not nodes:
        return None, steps[0].label if steps else "its results", ""
    node = max(nodes, key=_nbytes)
    inside = f" in {node.path}" if node.path else ""
    is_backward = any(s.kind == "gradient" for s in _scopes(node))
    return line_of(node), f"{node.op.name}{inside}{', in the backward pass' if is_backward else ''}", node.path


def line_of(node: Node) -> Source | None:
    """Return the user's line that a node of a canonical graph comes from; of a gradient's, that in the forward pass.

    A composite was opened by the compiler, whose own line says nothing: its call counts.
    """
    scopes = list(_scopes(node))
    opened = [i for i, s in enumerate(scopes) if s.kind in ("composite", "gradient")]
    for scope in scopes[opened[-1] :] if opened else ():
        code = scope.code
        if isinstance(code, Source):
            return code
        if code is not None and not is_internal(code.co_filename):
            return resolve(code, scope.offset)
    return node.source


def _scopes(node: Node) -> Iterator[Scope]:
    scope = node.scope
    while scope is not None:
        yield scope
        scope = scope.parent


def _nbytes(node: Node) -> int:
    specs = node.spec if isinstance(node.spec, tuple) else (node.spec,)
    return int(sum(s.nbytes for s in specs))
