"""The declarations of users' ops stand in documents beside the ops' names.

The name may be that of another function in another process. So a document says of such ops, and of those that they are
made of, how they were declared (`Op.facets["declaration"]`), and is read only where they are declared so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ..errors import GraphError, fail
from ..node import Node
from ..ops.op import Op, find_op
from .values import shortened


def declarations(nodes: Iterable[Node]) -> list[str]:
    """Return the declarations of the nodes' ops that are users', each after those of what it is made of."""
    found: dict[Op, str] = {}
    for op in {node.op: None for node in nodes}:
        _add(op, found)
    return list(found.values())


def _add(op: Op, found: dict[Op, str]) -> None:
    said = op.facets.get("declaration")
    if said is not None and op not in found:
        for part in _parts(op):
            _add(part, found)
        found[op] = said


def _parts(op: Op) -> Iterator[Op]:
    """Yield the users' ops that an op's formulas are made of."""
    for formula in op.formulas:
        for part in formula.read().parts:
            if "declaration" in part.op.facets:
                yield part.op


def declared_op(said: str) -> str:
    """Return the name of the op that a document says to be declared so. Raises GraphError where here it is not."""
    name = said.partition("(")[0]
    op = find_op(name)
    here = op.facets.get("declaration") if op is not None else None
    if here != said:
        known = (
            "not declared" if op is None else "an op of the library" if here is None else f"another function: {here}"
        )
        fail(GraphError, f"{shortened(said)} in the document; {shortened(name)} is {known} here")
    return name


def check_declared(op: Op, declared: Collection[str]) -> None:
    """Raise GraphError if a user's op stands in a document that does not say how it was declared."""
    if "declaration" not in op.facets:
        return
    for part in (op, *_parts(op)):
        if part.name not in declared or find_op(part.name) is not part:
            what = op.name if part is op else f"{op.name}, made of {part.name},"
            fail(GraphError, f"{what} is declared here as {part.facets['declaration']}, in the document not at all")
