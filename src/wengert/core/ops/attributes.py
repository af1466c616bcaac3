"""The kinds of ops' attributes and operands: the vocabulary by which the nodes of documents are checked.

A front door normalises what a user gives it, so that rules and lowerings may rely on the form: axes count from the
right, sizes are not negative, a flag is True or False, operands have one dtype. What comes from outside has no
front door. An attribute's *kind* says what form it has, an operand's *role* what its dtype is; most follow from what
the attribute or operand is called, the others stand in the op's signature: `"sum(x; axis: axes, keepdims)"`,
`"where(condition: boolean, x, y)"`. What is to be said of them beside one another (that a kernel fits, that parts
sum to the whole) is the shape rule's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dims import Dim
from ..errors import GraphError, fail
from ..graph.values import Subgraph
from ..spec import MOST_AXES, MOST_ELEMENTS, Spec, as_dtype, category, uint32, uint64

# A test whether a value is of a kind, for the op's first operand (None for an op without one).
Test = Callable[[Any, Spec | None], bool]

# Offsets and steps are added to sizes in 64 bits.
_MOST = 1 << 60


def _is_integer(value: Any) -> bool:
    return type(value) is int and -_MOST <= value <= _MOST


def _is_size(value: Any) -> bool:
    return isinstance(value, Dim) or (type(value) is int and 0 <= value <= MOST_ELEMENTS)


def _is_count(value: Any) -> bool:
    return isinstance(value, Dim) or (type(value) is int and 0 < value <= MOST_ELEMENTS)


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) < 1 << 53)


def _is_offset(value: Any) -> bool:
    return _is_integer(value) or isinstance(value, Dim)


def _is_text(value: Any) -> bool:
    return type(value) is str


def _all(test: Callable[[Any], bool]) -> Test:
    return lambda value, _: type(value) is tuple and all(map(test, value))


def _each(test: Callable[[Any], bool]) -> Test:
    return lambda value, _: test(value)


def _ndim(x: Spec | None) -> int:
    return len(x.shape) if isinstance(x, Spec) else 0


def _is_axis(value: Any, x: Spec | None) -> bool:
    return type(value) is int and -_ndim(x) <= value <= -1


def _is_new_axis(value: Any, x: Spec | None) -> bool:
    return type(value) is int and -_ndim(x) - 1 <= value <= -1


def _are_axes(value: Any, x: Spec | None) -> bool:
    """Return whether a tuple holds different axes, from left to right."""
    return _are_listed_axes(value, x) and all(a < b for a, b in zip(value, value[1:]))


def _are_listed_axes(value: Any, x: Spec | None) -> bool:
    return type(value) is tuple and all(_is_axis(a, x) for a in value)


def _is_permutation(value: Any, x: Spec | None) -> bool:
    return _are_listed_axes(value, x) and sorted(value) == list(range(-len(value), 0))


def _is_shape(value: Any, _: Spec | None = None) -> bool:
    """Return whether a tuple holds sizes of as many elements as memory can address."""
    if type(value) is not tuple or len(value) > MOST_AXES or not all(map(_is_size, value)):
        return False
    return bool(math.prod(n for n in value if not isinstance(n, Dim)) <= MOST_ELEMENTS)


def _is_pair(value: Any) -> bool:
    return type(value) is tuple and len(value) == 2 and all(map(_is_integer, value))


def _is_width(value: Any) -> bool:
    return type(value) is tuple and len(value) == 2 and all(map(_is_size, value))


def _is_entry(value: Any) -> bool:
    """Return whether an entry is an integer, (start, stop, step), or None for a new axis."""
    if type(value) is not tuple:
        return value is None or _is_offset(value)
    return len(value) == 3 and all(v is None or _is_offset(v) for v in value) and value[2] != 0


def _is_key(value: Any, _: Spec | None) -> bool:
    return type(value) is tuple and len(value) == 2 and all(type(v) is int and 0 <= v < 1 << 64 for v in value)


def _is_dtype(value: Any, _: Spec | None) -> bool:
    return isinstance(value, np.dtype) and as_dtype(value) is not None


# By kind: what the error calls it, and the test.
KINDS: dict[str, tuple[str, Test]] = {
    "bound": ("an integer of 64 bits", lambda value, _: type(value) is int and -(1 << 63) <= value <= 1 << 64),
    "anything": ("anything", lambda value, _: True),
    "flag": ("True or False", lambda value, _: type(value) is bool),
    "integer": ("an integer", _each(_is_integer)),
    "integers": ("a tuple of integers", _all(_is_integer)),
    "number": ("a number", _each(_is_number)),
    "probability": ("a number from 0 to 1", lambda value, _: _is_number(value) and 0 <= value <= 1),
    "text": ("a string", _each(_is_text)),
    "dtype": ("a dtype", _is_dtype),
    "floating_dtype": ("a real floating dtype", lambda value, _: _is_dtype(value, _) and category(value) == 2),
    "integer_dtype": ("an integer dtype", lambda value, _: _is_dtype(value, _) and category(value) == 1),
    "word_dtype": ("uint32 or uint64", lambda value, _: _is_dtype(value, _) and value in (uint32, uint64)),
    # Factorials of more are no numbers of a float.
    "order": ("an order of a derivative, from 0 to 170", lambda value, _: type(value) is int and 0 <= value <= 170),
    "size": ("a size", _each(_is_size)),
    "sizes": ("a tuple of sizes", _all(_is_size)),
    "offset": ("an integer", _each(_is_offset)),
    "count": ("a positive integer", _each(_is_count)),
    "counts": ("a tuple of positive integers", _all(_is_count)),
    "shape": ("a shape", _is_shape),
    "axis": ("an axis, counted from the right", _is_axis),
    "new_axis": ("the place of an axis, counted from the right", _is_new_axis),
    "last_axes": ("a number of the last axes", lambda value, x: type(value) is int and 0 < value <= _ndim(x)),
    "result_axis": ("an axis of the result, counted from the right", _each(lambda v: _is_integer(v) and v < 0)),
    "axes": ("a sorted tuple of axes, counted from the right", _are_axes),
    "listed_axes": ("a tuple of axes, counted from the right", _are_listed_axes),
    "permutation": ("an order of the last axes, counted from the right", _is_permutation),
    "pads": ("a tuple of pairs of integers", _all(_is_pair)),
    "widths": ("a tuple of pairs of sizes", _all(_is_width)),
    "entries": ("a tuple of integers, (start, stop, step) and None", _all(_is_entry)),
    "repeats": (
        "a positive integer or a tuple of sizes",
        lambda value, _: _is_count(value) or (type(value) is tuple and all(map(_is_size, value))),
    ),
    "key": ("a pair of 64-bit words", _is_key),
    "counter": ("a position in a stream", lambda value, _: type(value) is int and 0 <= value < 1 << 128),
    "graph": ("a graph", lambda value, _: isinstance(value, Subgraph)),
    "graphs": (
        "a tuple of graphs",
        lambda value, _: type(value) is tuple and len(value) > 0 and all(isinstance(g, Subgraph) for g in value),
    ),
}

# The kind of an attribute that is called so, unless its op's signature says another.
KIND_OF_NAME = {
    "alpha": "number",
    "axes": "axes",
    "axis": "axis",
    "beta": "number",
    "body": "graph",
    "branches": "graphs",
    "by": "integer",
    "carries": "size",
    "causal": "flag",
    "classes": "size",
    "columns": "size",
    "complete": "flag",
    "cond": "graph",
    "correction": "number",
    "counter": "counter",
    "delta": "number",
    "descending": "flag",
    "dilation": "counts",
    "dim": "offset",
    "domain": "size",
    "dtype": "dtype",
    "entries": "entries",
    "eps": "number",
    "exclusive": "flag",
    "full": "flag",
    "groups": "count",
    "high": "number",
    "i": "order",
    "ignore_index": "integer",
    "index": "size",
    "j": "order",
    "k": "integer",
    "keepdims": "flag",
    "keeps": "flag",
    "kernel": "counts",
    "key": "key",
    "largest": "flag",
    "length": "size",
    "low": "number",
    "max_steps": "size?",
    "mean": "flag",
    "n": "size",
    "name": "text",
    "norm": "number",
    "num_classes": "size",
    "of": "text",
    "offset": "integer",
    "ord": "number",
    "p": "probability",
    "padding": "pads",
    "repeats": "repeats",
    "repetitions": "sizes",
    "reverse": "flag",
    "right": "flag",
    "rows": "size",
    "rtol": "number?",
    "scale": "number",
    "sequences": "size",
    "shape": "shape",
    "shift": "integers",
    "size": "size",
    "sizes": "shape",
    "slope": "number",
    "smoothing": "probability",
    "stable": "flag",
    "stride": "counts",
    "unit": "flag",
    "upper": "flag",
    "value": "anything",
    "widths": "widths",
}

# The role of an operand that is called so, unless its op's signature says another; of all others it is "same": they
# have one dtype, which the op accepts. A "value" is of that dtype too, or a literal.
ROLE_OF_NAME = {
    "condition": "boolean",
    "counter": "integer",
    "indices": "integer",
    "key": "integer",
    "position": "integer",
    "winners": "integer",
}
# By role: what the error calls it, and the categories of dtypes (see `category`).
ROLES: dict[str, tuple[str, frozenset[int]]] = {
    "boolean": ("booleans", frozenset({0})),
    "integer": ("integers", frozenset({1})),
    "any": ("any dtype", frozenset({0, 1, 2, 3})),
}

_ANNOTATION = re.compile(r":\s*[^,;)]+")
_CHOICES = re.compile(r'"\w+"(\|"\w+")*')


def without_kinds(signature: str) -> str:
    """Return a signature as it is shown, without the kinds of its arguments and attributes."""
    return _ANNOTATION.sub("", signature)


def is_role(role: str) -> bool:
    """Return whether a signature may say that an operand has this role."""
    return role in ("same", "value") or role in ROLES


def is_kind(kind: str) -> bool:
    """Return whether a signature may say that an attribute is of this kind."""
    return kind.removesuffix("?") in KINDS or _CHOICES.fullmatch(kind) is not None


def check_attribute(op: str, name: str, kind: str, value: Any, x: Spec | None) -> None:
    """Raise GraphError unless a value may be the attribute `name` of an op whose first operand is `x`."""
    if kind.endswith("?") and value is None:
        return
    if _CHOICES.fullmatch(kind):
        choices = kind.replace('"', "").split("|")
        if value in choices:
            return
        wanted = " or ".join(map(repr, choices))
    else:
        wanted, test = KINDS[kind.removesuffix("?")]
        if test(value, x):
            return
    beside = "" if x is None else f", of {x}"
    fail(GraphError, f"{op}: {name}={_shown(value)}{beside}: it takes {wanted}")


def _shown(value: Any) -> str:
    text = f"a {type(value).__name__}" if isinstance(value, Subgraph) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
