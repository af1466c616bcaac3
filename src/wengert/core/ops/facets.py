"""Facets: the knowledge that single concerns of the library have of an op, given beside its declaration.

`Op.facets` holds what a declaration says by keyword. Most ops say nothing about most concerns: the module that reads a
facet has one accessor with the default for each kind of op, so that what is not said is known all the same.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal, NamedTuple, TypedDict


class Role(Enum):
    """The use that an op makes of its operands' elements, for whoever treats all ops of a role alike.

    `PASS`: its value is its first operand's; it is there for derivatives, for names, or to pick one of several results.
    `RESHAPE`: the first operand's elements in the same order, in another shape.
    `STRIDE`: some of the first operand's elements in other places, where strides lead to them.
    `REINTERPRET`: the first operand's bytes as numbers of another dtype.
    `PICK`: those of the first operand's elements that indices name.
    `JOIN`: the operands side by side.
    `PRODUCT`: sums of products of the elements of two operands.
    `BY_ELEMENT`: every element of the result is computed of the operands' elements in its place.
    `OTHER`: anything else.

    What an op does not say follows from its kind: elementwise ops are `BY_ELEMENT`, others `OTHER`.
    """

    PASS = "pass"
    RESHAPE = "reshape"
    STRIDE = "stride"
    REINTERPRET = "reinterpret"
    PICK = "pick"
    JOIN = "join"
    PRODUCT = "product"
    BY_ELEMENT = "by element"
    OTHER = "other"


# What NumPy gives a view for, wherever the elements lie as they must.
VIEWS = frozenset({Role.PASS, Role.RESHAPE, Role.STRIDE, Role.REINTERPRET})

Dependence = Literal[
    "broadcast", "axes", "rows", "running", "windows", "convolution", "subscripts", "indices", "columns",
    "substitution", "imaginary",
]  # fmt: skip


class Reduction(NamedTuple):
    """A reduction: the op that combines two elements, and the result for none (None: an error)."""

    combine: str
    empty: float | None


class Facets(TypedDict, total=False):
    """The statements about an op that its declaration may make beside its facts.

    `role`: see :class:`Role`; read as `Op.role`.
    `inserted`: whether it comes into graphs by itself, between an operand and the op that takes it.
    `reduction`: of a reduction along `axis` that loops compute element by element, how it combines them.
    `bound`: of an op that takes an index first, the attribute or argument that says how many places there are.
    `dependence`: which elements of the result depend on which of an argument, where this follows from no fact:
    "broadcast", on the one that is broadcast there; "axes", on all along them, kept or not; "rows", on all along them,
    kept; "running", on those before; "windows" of a pool; "convolution"; "subscripts" of a sum of products; "indices"
    over neighbouring axes; "columns" of a system; "substitution", row after row; "imaginary", on the same place of
    complex numbers (see :mod:`wengert.transforms.jacobians.dependence`).
    `batching`: how `vmap` runs it where the rule for its kind would not do: "body", through the graph inside, where a
    leading axis changes what the composite is; "alone", for one example after the other, which bring keys of their
    own or get the same random numbers.
    """

    role: Role
    inserted: bool
    reduction: Reduction
    bound: str
    dependence: Dependence
    batching: Literal["body", "alone"]
