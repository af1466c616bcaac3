"""Schemas: ONNX's rules for operators' operands and attributes, to which nodes are held."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from .errors import refuse, shown
from .values import package


class Signature(NamedTuple):
    """The inputs and attributes of an operator in one version: at least and at most so many, the needed ones' names.

    `kinds` are the attributes' kinds, as AttributeProto numbers them, `required` those without which there is no node.
    """

    least: int
    most: int
    needed: tuple[tuple[int, str], ...]
    kinds: Mapping[str, int]
    required: frozenset[str]


@cache
def signature(domain: str, operator: str, version: int) -> Signature | None:
    """Return what ONNX says of an operator; None where it is none of ONNX's own."""
    defs = package().defs
    try:
        schema = defs.get_schema(operator, version, domain)
    except defs.SchemaError:
        return None
    single = defs.OpSchema.FormalParameterOption.Single
    return Signature(
        schema.min_input,
        schema.max_input,
        tuple((i, p.name) for i, p in enumerate(schema.inputs) if p.option == single),
        {name: int(a.type.value) for name, a in schema.attributes.items()},
        frozenset(name for name, a in schema.attributes.items() if a.required),
    )


def check(node: Any, domain: str, version: int, attributes: Mapping[str, Any], what: str) -> None:
    """Refuse a node with too few or too many inputs, or an attribute that is missing or of another kind."""
    known = signature(domain, node.op_type, version)
    if known is None:
        return
    names = list(node.input)
    while names and not names[-1]:
        names.pop()
    operator = shown(node.op_type)
    if not known.least <= len(names) <= known.most:
        refuse(f"{what} has {_inputs(len(names))}, and {operator} takes {_bound(known)}")
    for i, name in known.needed:
        if i < len(names) and not names[i]:
            refuse(f"{what} leaves out input {i + 1} ({name}), without which {operator} means nothing")
    for name in known.required - attributes.keys():
        refuse(f"{what} has no attribute {name!r}, without which {operator} means nothing")
    kinds = package().AttributeProto.AttributeType
    for name, proto in attributes.items():
        wanted = known.kinds.get(name)
        if wanted is not None and proto.type != wanted:
            found = kinds.Name(proto.type) if proto.type in kinds.values() else proto.type
            refuse(f"{what}, attribute {name!r}: it is of the kind {found}, and {operator} takes {kinds.Name(wanted)}")


def _inputs(count: int) -> str:
    return f"{count} input" if count == 1 else f"{count} inputs"


def _bound(known: Signature) -> str:
    if known.least == known.most:
        return str(known.least)
    return f"at least {known.least}" if known.most > 1000 else f"{known.least} to {known.most}"
