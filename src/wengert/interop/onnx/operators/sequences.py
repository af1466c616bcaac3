"""Sequences, which are lists, and optionals, of which the empty one is None."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg

from ..errors import refuse
from ..registry import operator
from ..values import Known, ints
from .structure import array_or_tensor, axis_of, parts_of


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        refuse(f"the operand is {'missing' if value is None else 'a tensor'}, where a sequence is needed")
    return value


def _position(at: Known, count: int) -> int:
    found = int(at.reshape(()))
    if not -count <= found < count:
        refuse(f"position {found} does not exist in a sequence of {count}")
    return found % count


@operator("SequenceConstruct", raw=True)
def _construct(*xs: Any) -> Any:
    return list(xs)


@operator("SequenceEmpty", raw=True)
def _empty(*, dtype: int = 1) -> Any:
    return []


@operator("SequenceAt", raw=True, static=(1,))
def _at(xs: Any, position: Known) -> Any:
    return _list(xs)[_position(position, len(xs))]


@operator("SequenceErase", raw=True, static=(1,))
def _erase(xs: Any, position: Any = None) -> Any:
    i = _position(np.array(-1) if position is None else position, len(_list(xs)))
    return xs[:i] + xs[i + 1 :]


@operator("SequenceInsert", raw=True, static=(2,))
def _insert(xs: Any, x: Any, position: Any = None) -> Any:
    count = len(_list(xs))
    i = count if position is None else int(position.reshape(()))
    if not -count <= i <= count:
        refuse(f"position {i} does not exist in a sequence of {count}")
    i = i + count if i < 0 else i
    return [*xs[:i], x, *xs[i:]]


@operator("SequenceLength", raw=True, spec_only=True)
def _length(xs: Any) -> Any:
    return np.array(len(_list(xs)), dtype=np.int64)


@operator("SplitToSequence", raw=True, static=(1,))
def _split(x: Any, parts: Any = None, *, axis: int = 0, keepdims: int = 1) -> Any:
    x = array_or_tensor(x)
    axis = axis_of(axis, x.ndim)
    whole = int(x.shape[axis])
    if parts is None:
        given = [1] * whole
    elif parts.ndim == 0:
        each = int(parts)
        if each < 1:
            refuse(f"parts have {each} elements")
        given = parts_of(whole, -(-whole // each), f"axis {axis}") if whole else []
        given = [min(each, whole - i * each) for i in range(len(given))]
    else:
        given = [int(n) for n in ints(parts)]
        if sum(given) != whole or any(n < 0 for n in given):
            refuse(f"parts of {given[:20]} do not make up axis {axis} of shape {tuple(x.shape)}")
    out, start = [], 0
    for n in given:
        index: tuple[Any, ...] = (slice(None),) * axis
        out.append(x[(*index, start if parts is None and not keepdims else slice(start, start + n))])
        start += n
    return out


@operator("ConcatFromSequence", raw=True)
def _concat(xs: Any, *, axis: int, new_axis: int = 0) -> Any:
    values = [array_or_tensor(x) for x in _list(xs)]
    if not values:
        refuse("an empty sequence cannot be joined")
    if all(isinstance(v, np.ndarray) for v in values):
        return np.stack(values, axis) if new_axis else np.concatenate(values, axis)
    along = axis_of(axis, values[0].ndim + bool(new_axis))
    return wg.stack(values, along) if new_axis else wg.concat(values, along)


@operator("Optional", raw=True)
def _optional(x: Any = None, *, type: Any = None) -> Any:
    return x


@operator("OptionalHasElement", raw=True)
def _has_element(x: Any = None) -> Any:
    return np.array(x is not None)


@operator("OptionalGetElement", raw=True)
def _get_element(x: Any = None) -> Any:
    if x is None:
        refuse("the optional is empty")
    return x
