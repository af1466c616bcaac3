"""Functions of lists of tensors: `torch._foreach_add` and the like, which PyTorch's optimisers are written with.

Each is the function of its name of every tensor in turn: the other operands are lists of as many tensors or numbers, or
one number, or one tensor without axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import wengert as wg

from ...core.errors import ShapeError, fail
from ...core.tensor import Tensor as Plain
from ..namespace import FUNCTIONS
from ..tensor import Tensor
from .products import mm

# The names of the functions of one tensor; those in `_foreach_name_` write.
_OF_ONE = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round "
    "rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
)
_OF_TWO = "add clamp_max clamp_min div maximum minimum mul pow sub"


def _several(name: str, tensors: Any) -> list[Any]:
    found = list(tensors)
    if not found:
        fail(ShapeError, f"{name} of no tensors", "Give at least one.")
    return found


def _each(name: str, operand: Any, count: int) -> Sequence[Any]:
    """Return an operand for each of several tensors. Raises ShapeError for another number of them."""
    if isinstance(operand, (list, tuple)):
        found: Sequence[Any] = operand
    elif isinstance(operand, Plain) and operand.ndim == 1 and name.startswith("_foreach_addc"):
        found = list(operand.unbind())  # a vector of factors
    else:
        return [operand] * count
    if len(found) != count:
        fail(ShapeError, f"{name} of {count} tensors with {len(found)} operands", "There is one for each.")
    return found


def _declare(name: str, compute: Callable[..., Any], operands: str, writes: bool = True) -> None:
    """Declare `_foreach_name`, and `_foreach_name_`, which gives the tensors the results and returns them."""
    label = f"_foreach_{name}"

    def run(self: Any, *others: Any, **named: Any) -> tuple[Any, ...]:
        if operands == "self" and not isinstance(self, (list, tuple)) and others:  # a number to powers of tensors
            tensors = _several(label, others[0])
            return tuple(compute(base, t) for base, t in zip(_each(label, self, len(tensors)), tensors))
        tensors = _several(label, self)
        columns = [_each(label, o, len(tensors)) for o in others]
        words = {word: _each(label, value, len(tensors)) for word, value in named.items()}
        return tuple(
            compute(t, *(c[i] for c in columns), **{word: values[i] for word, values in words.items()})
            for i, t in enumerate(tensors)
        )

    def write(self: Any, *others: Any, **named: Any) -> Any:
        for t, new in zip(self, run(self, *others, **named), strict=True):
            t.copy_(new)
        return self

    given = f"self, {operands}" if operands else "self"
    run.__doc__ = f"Return `{name}` of each of several tensors, a tuple. Operands are `{given}`."
    write.__doc__ = f"Give each of several tensors its `{name}`, and return them. Raises GradientError, ShapeError."
    for suffix, made in (("", run), ("_", write)) if writes else (("", run),):
        made.__name__ = made.__qualname__ = f"{label}{suffix}"
        FUNCTIONS[made.__name__] = made


def _factored(name: str) -> Callable[..., Any]:
    compute = FUNCTIONS[name]

    def run(t: Any, a: Any, b: Any, scalars: Any = None, *, value: Any = 1) -> Any:
        return compute(t, a, b, value=value if scalars is None else scalars)

    return run


for _name in _OF_ONE.split():
    _declare(_name, FUNCTIONS[_name], "")
for _name in _OF_TWO.split():
    _declare(_name, FUNCTIONS[_name], "self" if _name == "pow" else "other")
for _name in ("addcdiv", "addcmul"):
    _declare(_name, _factored(_name), "tensor1, tensor2, scalars")
_declare("lerp", FUNCTIONS["lerp"], "end, weight")
_declare("max", lambda t: t.max(), "", writes=False)
_declare("clone", lambda t: t.clone(), "", writes=False)
_declare("mm", mm, "other", writes=False)
_declare("powsum", lambda t, ord=2, dtype=None: (abs(t) ** ord).sum(dtype=dtype), "ord", writes=False)


def _norm(t: Any, ord: float = 2, dtype: Any = None) -> Any:
    return wg.linalg.vector_norm(t if dtype is None else t.to(dtype), ord=ord)


_declare("norm", _norm, "ord", writes=False)


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Give each of several tensors the values of its source, and return them."""
    for t, given in zip(self, src, strict=True):
        t.copy_(given)
    return self


def _foreach_zero_(self: Any) -> Any:
    """Fill each of several tensors with 0, and return them."""
    for t in self:
        Tensor.zero_(t)
    return self


FUNCTIONS.update(_foreach_copy_=_foreach_copy_, _foreach_zero_=_foreach_zero_)
