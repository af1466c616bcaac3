"""The agreement of ranks: before a program's first step all know that they run the same one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.errors import GraphError, fail
from ...core.graph.graph import Graph
from ...core.node import Node
from ...core.spec import show
from ...ops.collective.definitions import all_gather
from ...ops.collective.group import entered
from ..mesh import Mesh, OnMesh

_DIGEST = 32


def agree(group: OnMesh, graph: Graph) -> None:
    """Raise GraphError unless all ranks are about to run this graph: the first node that differs, and its line.

    Ranks exchange a hash; only where one differs do they exchange texts.
    """
    line = OnMesh(Mesh(ranks=group.transport.size), group.transport)
    attrs: dict[str, Any] = {"over": "ranks", "ranks": group.transport.size, "axis": -1, "replicated": True}
    with entered(line):
        own = np.frombuffer(hashlib.sha256(graph.structural_hash.encode()).digest(), np.uint8)
        all_own = all_gather.forward(own, **attrs).reshape(-1, _DIGEST)
        if (all_own == all_own[0]).all():
            return
        text = "\n".join(_lines(graph)).encode()
        longest = int(all_gather.forward(np.array([len(text)]), **attrs).max())
        padded = np.frombuffer(text.ljust(longest), np.uint8)
        texts = [bytes(row).decode().rstrip() for row in all_gather.forward(padded, **attrs).reshape(-1, longest)]
    other = next(i for i, row in enumerate(all_own) if (row != all_own[0]).any())
    a, b = texts[0].split("\n"), texts[other].split("\n")
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if _node(x) != _node(y)), min(len(a), len(b)))
    first, second = (rows[at] if at < len(rows) else "its end" for rows in (a, b))
    fail(
        GraphError,
        f"ranks 0 and {other} are to run different programs: rank 0 has {_shown(first)}, rank {other} has "
        f"{_shown(second)}",
        "All ranks run the same program on parts of one shape: what differs between them is no part of its code.",
    )


def agree_on_values(group: OnMesh, names: Sequence[str], arrays: Sequence[Any]) -> None:
    """Raise GraphError unless all ranks have the same whole values: the first one that differs.

    Each rank starts from its own copy of what is shared; ranks that started from others would train others.
    """
    attrs: dict[str, Any] = {"over": "ranks", "ranks": group.transport.size, "axis": -3, "replicated": True}
    rows = [hashlib.sha256(np.ascontiguousarray(a).tobytes()).digest() for a in map(np.asarray, arrays)]
    own = np.frombuffer(b"".join(rows), np.uint8).reshape(1, len(rows), _DIGEST)
    with entered(OnMesh(Mesh(ranks=group.transport.size), group.transport)):
        found = all_gather.forward(own, **attrs)
    for i, name in enumerate(names):
        for rank, row in enumerate(found):
            if (row[i] != found[0, i]).any():
                value = np.asarray(arrays[i])
                fail(
                    GraphError,
                    f"{name}, {show(value.shape, value.dtype)}, is another one on rank {rank} than on rank 0",
                    "Every rank starts from the same values, and is given the whole batch: seed the generators alike "
                    "(wg.manual_seed), or give each rank its part, as wg.distribute.place makes them.",
                )


def _lines(graph: Graph) -> list[str]:
    """Return a line for every node: what it is, and where the user wrote it."""
    found = []
    for node in graph.nodes:
        inputs = " ".join(graph.names[e] if isinstance(e, Node) else repr(e) for e in node.inputs)
        attrs = ", ".join(f"{k}={_short(v)}" for k, v in sorted(node.attrs.items()))
        place = node.source
        where = f"{place.file}:{place.line}" if place is not None else ""
        text = f"{graph.names[node]}: {node.spec} = {node.op.name}[{attrs}] {inputs}".replace("\n", " ")
        found.append(f"{text}\t{where}")
    return found


def _short(value: Any) -> str:
    """Return an attribute in a few words that differ where values do."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    if value.size <= 4:
        return repr(value.tolist())
    return f"array {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:12]}"


def _node(line: str) -> str:
    return line.partition("\t")[0]


def _shown(line: str) -> str:
    node, _, where = line.partition("\t")
    return f"{node} ({where})" if where else node
