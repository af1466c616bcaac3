"""From samples to a batch: tensors and numbers side by side, in the structure that the samples have."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any, NoReturn

import numpy as np

from ....core.arrays import Array
from ....core.errors import DTypeError, ShapeError, fail
from ....core.tensor import Tensor as Plain
from ....core.tensor import asarray, of_class
from ....data.rows import stacked
from ....ops.structure.assemble import stack
from ...functions.creation import as_tensor, tensor
from ...tensor import Tensor

Collate = Callable[..., Any]
Table = dict[type | tuple[type, ...], Collate]


def tensor_over(array: Array) -> Tensor:
    """Return an array that nobody else writes to as a tensor, without a copy."""
    return of_class(Tensor, asarray(array, copy=False))  # type: ignore[no-any-return]


def collate(batch: Sequence[Any], *, collate_fn_map: Table | None = None) -> Any:
    """Return samples as a batch, those of a class in the table by its function, mappings and sequences part by part.

    Raises ShapeError for sequences of different lengths, DTypeError for what no function is for.
    """
    elem = batch[0]
    kind = type(elem)
    if collate_fn_map is not None:
        known = collate_fn_map.get(kind)
        if known is None:
            known = next((fn for cls, fn in collate_fn_map.items() if isinstance(elem, cls)), None)
        if known is not None:
            return known(batch, collate_fn_map=collate_fn_map)
    if isinstance(elem, Mapping):
        merged = {key: collate([d[key] for d in batch], collate_fn_map=collate_fn_map) for key in elem}
        return _refilled(elem, merged)
    if isinstance(elem, Sequence):
        length = len(elem)
        for i, sample in enumerate(batch):
            if len(sample) != length:
                fail(
                    ShapeError,
                    f"samples of different lengths: the first has {length} parts, that at {i} has {len(sample)}",
                    "Make them alike in the dataset, or give a collate_fn that pads them.",
                )
        parts = [collate(samples, collate_fn_map=collate_fn_map) for samples in zip(*batch)]
        if isinstance(elem, tuple):
            return kind(*parts) if hasattr(elem, "_fields") else parts
        return _refilled(elem, parts)
    _refuse(kind)


def _refuse(kind: Any) -> NoReturn:
    fail(
        DTypeError,
        f"samples of {kind} in a batch",
        "They may be tensors, NumPy arrays, numbers, texts, and dicts, tuples and lists of these; for others give the "
        "loader a collate_fn.",
    )


def _refilled(elem: Any, parts: Any) -> Any:
    """Return the parts in a container like a sample's: a mutable one may have more to it than they."""
    kind = type(elem)
    if kind is dict or kind is list:
        return parts
    try:
        if isinstance(elem, MutableMapping):
            made: Any = copy.copy(elem)
            made.update(parts)
        elif isinstance(elem, MutableSequence):
            made = copy.copy(elem)
            for i, part in enumerate(parts):
                made[i] = part
        else:
            made = kind(parts)
    except TypeError:  # it cannot be made, or written to, so
        return parts
    return made


def collate_tensor_fn(batch: Sequence[Any], *, collate_fn_map: Table | None = None) -> Any:
    """Return tensors of one shape along a new first axis. Raises ShapeError."""
    if any(x.node is not None for x in batch):
        return stack(batch)
    return tensor_over(stacked([x._array for x in batch]))


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: Table | None = None) -> Any:
    """Return NumPy arrays of one shape as a tensor, along a new first axis. Raises ShapeError, DTypeError."""
    if batch[0].dtype.kind in "SUOV":
        _refuse(batch[0].dtype)
    arrays = [a if type(a) is np.ndarray else np.asarray(a) for a in batch]
    return tensor_over(stacked(arrays))


def collate_numpy_scalar_fn(batch: Sequence[Any], *, collate_fn_map: Table | None = None) -> Any:
    """Return NumPy's scalars as a tensor of their dtype."""
    return tensor_over(np.array(batch))


def collate_float_fn(batch: Sequence[Any], *, collate_fn_map: Table | None = None) -> Any:
    """Return floats as a tensor of float64."""
    return tensor_over(np.array(batch, np.float64))


def collate_int_fn(batch: Sequence[Any], *, collate_fn_map: Table | None = None) -> Any:
    """Return integers as a tensor of int64; booleans as one of bool."""
    return tensor(batch)


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: Table | None = None) -> Any:
    """Return texts, or bytes, as they are."""
    return batch


# What `default_collate` does with each class of samples; programs add their own.
default_collate_fn_map: Table = {
    Plain: collate_tensor_fn,
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
_PLAIN = dict(default_collate_fn_map)


def is_default(collate_fn: Any) -> bool:
    """Return whether a batch is collated by `default_collate`, and nothing was added to its table."""
    return collate_fn is default_collate and default_collate_fn_map == _PLAIN


def default_collate(batch: Sequence[Any]) -> Any:
    """Return samples as a batch: tensors, arrays and numbers as tensors with a new first axis.

    Dicts, tuples and lists keep their structure (a tuple becomes a list, a named tuple stays one), texts are in a
    list or tuple as they come.

    Raises ShapeError for samples of different shapes or lengths, DTypeError for other kinds of samples.

    >>> import wengert.torch as torch
    >>> torch.utils.data.default_collate([{"x": 1.5, "name": "a"}, {"x": 2.5, "name": "b"}])
    {'x': tensor([1.5, 2.5], dtype=torch.float64), 'name': ['a', 'b']}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def default_convert(data: Any) -> Any:
    """Return a sample with its NumPy arrays and scalars as tensors, in the structure that it has.

    >>> import numpy as np, wengert.torch as torch
    >>> torch.utils.data.default_convert((np.array([0, 1]), "text"))
    [tensor([0, 1]), 'text']
    """
    if isinstance(data, Plain):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUOV" else as_tensor(data)
    if isinstance(data, Mapping):
        return _refilled(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(d) for d in data))
    if isinstance(data, tuple):
        return [default_convert(d) for d in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _refilled(data, [default_convert(d) for d in data])
    return data


def finished(gathered: Any) -> Any:
    """Return what a dataset gathered as `default_collate` gives batches: tensors for arrays, lists for tuples."""
    if isinstance(gathered, np.ndarray):
        return gathered.tolist() if gathered.dtype.kind in "SU" else tensor_over(gathered)
    if isinstance(gathered, Mapping):
        return {key: finished(value) for key, value in gathered.items()}
    return [finished(g) for g in gathered] if isinstance(gathered, tuple) else gathered
