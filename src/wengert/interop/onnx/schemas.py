"""Schemas: ONNX's rules for operators' operands and attributes, to which nodes are held."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from .errors import refuse, shown
from .values import package

_ANY = 1000  # inputs, and more


class Signature(NamedTuple):
    """The inputs and attributes of an operator in one version: at least and at most so many, the needed ones' names.

    From the place `rest` on there are any number of inputs of one name, all of which are needed. `kinds` are the
    attributes' kinds, as AttributeProto numbers them, `required` those without which there is no node.
    """

    least: int
    most: int
    needed: tuple[tuple[int, str], ...]
    rest: tuple[int, str] | None
    kinds: Mapping[str, int]
    required: frozenset[str]


@cache
def signature(domain: str, operator: str, version: int) -> Signature | None:
    """Return the signature that ONNX gives an operator; None if it is not one of ONNX's own."""
    defs = package().defs
    try:
        schema = defs.get_schema(operator, version, domain)
    except defs.SchemaError:
        return None
    single, variadic = defs.OpSchema.FormalParameterOption.Single, defs.OpSchema.FormalParameterOption.Variadic
    return Signature(
        schema.min_input,
        schema.max_input,
        tuple((i, p.name) for i, p in enumerate(schema.inputs) if p.option == single),
        next(((i, p.name) for i, p in enumerate(schema.inputs) if p.option == variadic), None),
        {name: int(a.type.value) for name, a in schema.attributes.items()},
        frozenset(name for name, a in schema.attributes.items() if a.required),
    )


@cache
def of_rule(function: Callable[..., Any]) -> Signature:
    """Return an operator's signature from its rule: operands without a default are needed, unless they may be None."""
    given = inspect.signature(function).parameters.values()
    places = [p for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p for p in given if p.kind is p.VAR_POSITIONAL), None)
    needed = [i for i, p in enumerate(places) if p.default is p.empty]
    named = tuple((i, places[i].name) for i in needed if not str(places[i].annotation).endswith("| None"))
    most = len(places) if rest is None else _ANY
    places_of_rest = None if rest is None else (len(places), rest.name)
    required = frozenset(p.name for p in given if p.kind is p.KEYWORD_ONLY and p.default is p.empty) - {"context"}
    return Signature(len(needed), most, named, places_of_rest, {}, required)


def check(
    node: Any, domain: str, version: int, attributes: Mapping[str, Any], what: str, rule: Callable[..., Any] | None
) -> None:
    """Refuse a node with too few or too many inputs, or an attribute that is missing or of another kind.

    What is none of ONNX's own is held to its rule.
    """
    known = signature(domain, node.op_type, version)
    if known is None:
        if rule is None:
            return
        known = of_rule(rule)
    names = list(node.input)
    while names and not names[-1]:
        names.pop()
    operator = shown(node.op_type)
    if not known.least <= len(names) <= known.most:
        refuse(f"{what} has {_inputs(len(names))}, and {operator} takes {_bound(known)}")
    rest = () if known.rest is None else ((i, known.rest[1]) for i in range(known.rest[0], len(names)))
    for i, name in (*known.needed, *rest):
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
    return f"at least {known.least}" if known.most >= _ANY else f"{known.least} to {known.most}"


@cache
def newest(domain: str) -> int | None:
    """Return the newest version of a domain that the package onnx knows, None of a domain that is not ONNX's."""
    onnx = package()
    row = max(onnx.helper.VERSION_TABLE, key=lambda r: r[2])
    found: int | None = {"": row[2], "ai.onnx.ml": row[3]}.get(domain)
    return found
