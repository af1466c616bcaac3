"""Equality of graphs: the same computation from the same inputs, under any names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..node import Node
from .snapshot import CONSTANT, LEAVES
from .values import digest, encode, identity, opaque, same_array

Signature = tuple[int, tuple[int, ...], tuple[Any, ...]]


def signature(nodes: Sequence[Node], inputs: int, outputs: Sequence[Node], index: Mapping[Node, int]) -> Signature:
    """Return the part of a graph that equality compares first: all but constants and objects without a text."""
    return inputs, tuple(index[n] for n in outputs), tuple(_row(n, index) for n in nodes)


def _row(node: Node, index: Mapping[Node, int]) -> tuple[Any, ...]:
    if node.op in LEAVES:
        return "constant" if node.op is CONSTANT else "input", repr(node.spec)
    inputs = tuple(index[e] if isinstance(e, Node) else encode(e) for e in node.inputs)
    attrs = tuple((k, identity(node.attrs[k])) for k in sorted(node.attrs))
    return node.op.name, inputs, attrs, repr(node.spec)


def same_values(a: Node, b: Node) -> bool:
    """Return whether nodes of equal signature agree in the values that the signature leaves out.

    That is constants' values, ops outside the table, and objects in attributes that only identity
    compares.
    """
    if a.op is CONSTANT:
        return same_array(a.attrs["value"], b.attrs["value"])
    if a is b or a.op in LEAVES:
        return True
    if a.op is not b.op:
        return False
    pairs = ((opaque(value), opaque(b.attrs[key])) for key, value in a.attrs.items())
    return all(x is y for mine, theirs in pairs for x, y in zip(mine, theirs))


def structural_hash(signature: Signature, nodes: Sequence[Node]) -> str:
    """Return a hash of the signature and the constants, the same in every process."""
    inputs, outputs, rows = signature
    # Importing hashlib loads OpenSSL: only when a hash is asked for.
    import hashlib

    out = hashlib.blake2b(f"{inputs} {outputs}".encode(), digest_size=16)
    for row, node in zip(rows, nodes):
        out.update(repr(row).encode())
        if node.op is CONSTANT:
            out.update(digest(node.attrs["value"]).encode())
    return out.hexdigest()
