"""Indexing: `x[...]` and `x[...] = v`.

An index expression is taken apart into at most three ops: `slice` for its static part (integers,
slices, new axes), a permutation where NumPy would move separated index arrays to the front, and
`index` for its arrays, which then stand on neighbouring axes.
"""

from __future__ import annotations

import operator
from sys import _getframe as getframe
from time import perf_counter
from typing import Any, NamedTuple, NoReturn
from weakref import ref

import numpy as np

from ...core.dims import Dim
from ...core.errors import DTypeError, GraphError, RangeError, ShapeError, WengertError, fail
from ...core.mode import get_mode
from ...core.node import EMPTY_ATTRS, make_node
from ...core.ops.declare import METHODS
from ...core.ops.op import Op
from ...core.ops.record import bind, caller, graph_input
from ...core.spec import Shape, broadcast_shapes, category, int64, show, spec_of, uint64
from ...core.standins import WeakTensor
from ...core.state.blocks import to_come
from ...core.state.observer import Observer, observer, observers
from ...core.state.refusals import refuse
from ...core.storage import enter, viewed, window_of
from ...core.tensor import Tensor, asarray, like, ndarray, new, take, wrap
from ..pointwise.selection import where
from ..structure.axes import permute_op
from ..structure.shapes import broadcast, cast, reshaped
from .formats import as_picked
from .indices import check_range, index_op, index_update
from .inplace import NUMBERS, can_overwrite, check_write, old_version, overwrite, value_for, write
from .slices import ALL, Entries, Entry, slice_op, slice_update

# Index entries that NumPy takes as they are, to the same effect.
_BASIC = frozenset({int, slice, type(None), type(Ellipsis), np.int64, np.int32})
_TAKES = "An index is made of integers, slices, None, ..., and integer or boolean tensors."


# -- reading an index expression


class _Parsed(NamedTuple):
    """An index expression, read against one shape.

    `entries` is its static part; `arrays` the integer arrays, which index the axes `places` of
    the sliced tensor and `axes` of the original one. NumPy puts the arrays' own axes where the
    arrays stand if they are `adjacent`, else first.
    """

    entries: Entries
    arrays: tuple[Tensor, ...]
    places: tuple[int, ...]
    axes: tuple[int, ...]
    adjacent: bool


def _item(e: Any, x: Tensor) -> Any:
    """Return one entry of an index: None, Ellipsis, a slice, an int, or a tensor of integers or booleans."""
    if e is None or e is Ellipsis or isinstance(e, slice):
        return e
    if isinstance(e, (int, np.integer)) and not isinstance(e, bool):
        return int(e)
    if isinstance(e, Dim):
        return asarray(e)
    if isinstance(e, (Tensor, bool, np.bool_, np.ndarray, list, tuple, range)) or hasattr(e, "__array__"):
        found = asarray(list(e) if isinstance(e, range) else e)
        if found.size == 0 and not isinstance(e, (Tensor, np.ndarray)):
            found = wrap(np.zeros(found.shape, int64))  # an empty list has no dtype of its own
        if category(found.dtype) <= 1:
            return cast.front(found, dtype=int64) if found.dtype == uint64 else found
        fail(
            DTypeError,
            f"an index of dtype {found.dtype}, shape {found.shape}, into {show(x.shape, x.dtype)}",
            "Indices are integers or booleans: write i.astype(wg.int64).",
        )
    return fail(DTypeError, f"an index of type {type(e).__name__} into {show(x.shape, x.dtype)}", _TAKES)


def _is_mask(item: Any) -> bool:
    return isinstance(item, Tensor) and category(item.dtype) == 0


def _span(item: Any) -> int:
    """Return the number of the tensor's axes that an entry indexes."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if _is_mask(item) else 1


def _items(index: Any, x: Tensor) -> list[Any]:
    """Return the entries of an index with exactly one Ellipsis."""
    items = [_item(e, x) for e in (index if type(index) is tuple else (index,))]
    dots = sum(i is Ellipsis for i in items)
    if dots > 1:
        fail(RangeError, f"an index with {dots} ellipses into {show(x.shape, x.dtype)}", "Only one `...` is possible.")
    used = sum(map(_span, items))
    if used > x.ndim:
        fail(
            RangeError,
            f"too many indices: {used} for a tensor with {x.ndim} dimensions, {show(x.shape, x.dtype)}",
            "Use at most one for each dimension." if x.ndim else "A 0-d tensor has nothing to index: use x.item().",
        )
    return items if dots else [*items, Ellipsis]


def _mask_indices(mask: Tensor, x: Tensor, axis: int) -> list[Tensor]:
    """Return the integer arrays that a mask over the axes from `axis` stands for."""
    want = x.shape[axis : axis + mask.ndim]
    if mask.shape != want:
        fail(
            RangeError,
            f"a mask of shape {mask.shape} over axes of shape {want}, tensor {show(x.shape, x.dtype)}",
            "A mask has the shape of the axes that it picks from.",
        )
    value = mask._fixed("a mask")
    if value is None:
        refuse(
            f"an abstract mask of shape {mask.shape} as an index into {show(x.shape, x.dtype)}",
            "The result's shape would depend on the mask's values. "
            "Keep the shape and choose values instead: wg.where(mask, x, other).",
            mask,
        )
    return [wrap(i) for i in np.nonzero(value)]


def _static_int(i: int, n: int, axis: int, x: Tensor) -> int:
    if not -n <= i < n:
        fail(
            RangeError,
            f"index {i} is out of range for axis {axis} of size {n}, tensor {show(x.shape, x.dtype)}",
            f"Valid indices are {-n} to {n - 1}." if n else "The axis is empty: no index is valid.",
        )
    return i + n if i < 0 else i


def _static_slice(s: slice, n: int) -> Entry:
    """Return the one encoding of all slices that pick the same elements of an axis of size n."""
    try:
        start, stop, step = s.indices(n)
    except GraphError:  # one of the sizes is not known yet
        return _open_slice(s, n)
    if step == 1 and start == 0 and stop == n:
        return ALL
    if stop <= start if step > 0 else start <= stop:  # nothing is picked
        return (0, 0, None)
    return (start, None if stop < 0 else stop, None if step == 1 else step)


def _open_slice(s: slice, n: int) -> Entry:
    """Return a slice where a size is not known: its bounds are taken to lie inside the axis.

    Filling the sizes in shows whether they do.
    """
    step = 1 if s.step is None else operator.index(s.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    bounds: list[Any] = [i if i is None or isinstance(i, Dim) else operator.index(i) for i in (s.start, s.stop)]
    ends: tuple[Any, Any] = (0, n) if step > 0 else (n - 1, None)
    start, stop = (end if i is None else i + n if isinstance(i, int) and i < 0 else i for i, end in zip(bounds, ends))
    if step == 1 and start == 0 and stop == n:
        return ALL
    if all(isinstance(i, int) for i in bounds) and isinstance(stop - start, int) and (stop - start) * step <= 0:
        return (0, 0, None)  # both bounds are counted from one end: they stand like that in an axis of any size
    return (start, stop, None if step == 1 else step)


def _checked_slice(s: slice, n: int, x: Tensor) -> Entry:
    try:
        return _static_slice(s, n)
    except (TypeError, ValueError) as e:
        kind = RangeError if isinstance(e, ValueError) else DTypeError
        return fail(kind, f"{s} into {show(x.shape, x.dtype)}: {e}", "Slices take integers, and a step other than 0.")


def _parse(x: Tensor, index: Any) -> _Parsed:
    items = _items(index, x)
    hidden = x.ndim - sum(map(_span, items))
    entries: list[Entry] = []
    arrays: list[Tensor] = []
    places: list[int] = []
    axes: list[int] = []
    axis = place = 0
    groups: list[bool] = []  # alternating runs of advanced (True) and other entries
    for item in items:
        advanced = isinstance(item, (int, Tensor))
        if not groups or groups[-1] != advanced:
            groups.append(advanced)
        if isinstance(item, int):
            entries.append(_static_int(item, x.shape[axis], axis, x))
            axis += 1
            continue
        if item is Ellipsis:
            new: list[Entry] = [ALL] * hidden
        elif item is None:
            new = [None]
        elif isinstance(item, slice):
            new = [_checked_slice(item, x.shape[axis], x)]
        else:
            if not _is_mask(item):
                found, new = [item], [ALL]
            elif item.ndim:
                found, new = _mask_indices(item, x, axis), [ALL] * item.ndim
            else:  # a 0-d mask keeps all of a new axis, or nothing of it
                found, new = [wrap(np.zeros(int(bool(item)), int64))], [None]
            arrays += found
            places += range(place, place + len(found))
            axes += range(axis, axis + len(found))
        entries += new
        place += len(new)
        axis += sum(e is not None for e in new)
    while entries and entries[0] == ALL:
        del entries[0]
    if len(arrays) > 1 and broadcast_shapes(*(a.shape for a in arrays)) is None:
        shapes = " and ".join(str(a.shape) for a in arrays)
        fail(RangeError, f"index arrays of shapes {shapes} do not broadcast together, tensor {show(x.shape, x.dtype)}")
    return _Parsed(tuple(entries), tuple(arrays), tuple(places), tuple(axes), sum(groups) <= 1)


def _to_front(ndim: int, places: tuple[int, ...]) -> tuple[int, ...]:
    """Return the permutation that brings the axes `places` to the front."""
    return tuple(p - ndim for p in (*places, *(i for i in range(ndim) if i not in places)))


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    out = [0] * len(axes)
    for i, a in enumerate(axes):
        out[a] = i - len(axes)
    return tuple(out)


def _check_arrays(x: Tensor, parsed: _Parsed) -> None:
    """Raise RangeError, in the words of the whole expression, for an array that leaves its axis."""
    for a, axis in zip(parsed.arrays, parsed.axes, strict=True):
        if a._array is not None:
            check_range(f"indexing {show(x.shape, x.dtype)}", (a._array,), (x.shape[axis],), axis)


def _not_indexable(x: Tensor, index: Any, e: Exception) -> NoReturn:
    """Raise the error for an index that NumPy refused; what is no array refuses in its own words."""
    if isinstance(e, WengertError):
        raise e
    _check_arrays(x, _parse(x, index))
    fail(RangeError, f"indexing {show(x.shape, x.dtype)}: {e}", _TAKES)


# -- x[...]


def _plain(index: Any, x: Tensor) -> Any:
    """Return an index as NumPy takes it where all its values are known; None where one is abstract."""
    if type(index) in _BASIC:
        return (index,)
    if type(index) is tuple and _BASIC.issuperset(map(type, index)):
        return index
    if isinstance(index, Tensor) and not index.is_weak and index._array is not None and index._spec.dtype.kind in "ib":
        return (index._array,)
    items = [_item(e, x) for e in (index if type(index) is tuple else (index,))]
    for i, item in enumerate(items):
        if isinstance(item, Tensor):
            if item._array is None:
                return None
            items[i] = item._array
    return tuple(items)


def _pick(data: Any, plain: tuple[Any, ...]) -> Any:
    if _takes(plain):
        return data.take(plain[-1], axis=len(plain) - 1)  # several times faster than data[..., i]
    return data[plain]


def _takes(plain: tuple[Any, ...]) -> bool:
    """Return whether an index is one array of whole numbers, behind slices that take all."""
    *before, last = plain
    return type(last) is ndarray and last.dtype.kind != "b" and all(type(i) is slice and i == _ALL for i in before)


_ALL = slice(None)


def _picks_in_order(data: Any, plain: tuple[Any, ...]) -> bool:
    """Return whether NumPy gives the elements in the order in memory that PyTorch does."""
    arrays = [type(i) is ndarray for i in plain]
    return not any(arrays) or (data.flags.c_contiguous and (arrays[0] or _takes(plain)))


def getitem(x: Tensor, index: Any) -> Tensor:
    """Return `x[index]` with NumPy's rules. The result is a value: it never aliases `x`.

    Parameters
    ----------
    index: an int, a slice, None, `...`, an integer or boolean tensor (array, list), or a tuple of
        those. Integer arrays broadcast together; a boolean one picks where it is True.

    Raises RangeError (out of range, too many indices, a mask of another shape), DTypeError (a
    float index), TraceError (a mask without values, while tracing).

    >>> import wengert as wg
    >>> x = wg.arange(6).reshape(2, 3)
    >>> x[1, ::-1]
    tensor([5, 4, 3])
    >>> x[[0, 1, 1], [2, 0, 0]]
    tensor([2, 3, 3])
    """
    if x.read_index is not None:
        x, index = x.read_index(x, index)
    try:
        data = x._data
    except AttributeError:
        data = None if type(x) in to_come else viewed(x)
    if observers and data is not None and (seen := observer()) is not None:
        return _observed_getitem(seen, x, index)
    if data is not None and type(x) is not WeakTensor:
        if x.node is None or not (mode := get_mode()).grad:
            kind = type(index)
            if kind in _BASIC or (kind is tuple and _BASIC.issuperset(map(type, index))):
                try:
                    found = data[index]
                except (IndexError, ValueError, TypeError) as e:
                    _not_indexable(x, index, e)
                if type(found) is not ndarray:
                    found = np.asarray(found) if x.writes_through is None else _shared(data, index)
                out = new(Tensor if type(x) is Tensor else x.result_class)
                out._data = found
                shape = found.shape
                out._spec = x._spec.family.get(shape) or spec_of(shape, found.dtype)
                out.node = None
                if x.is_name:
                    frame = getframe(1)
                    take(out, x, frame.f_code, frame.f_lasti)
                elif x.writes_through is None:
                    frame, before = getframe(1), x._share
                    taken = before if type(before) is tuple else None
                    out._share = (ref(x), frame.f_code, frame.f_lasti, taken)
                else:
                    enter(out, x)
                return out
            plain = _plain(index, x)
            if plain is not None and (not x.meaning.keeps_formats or _picks_in_order(data, plain)):
                try:
                    out = like(x, wrap(_pick(data, plain)))
                    if not any(type(i) is ndarray for i in plain):
                        frame = getframe(1)
                        take(out, x, frame.f_code, frame.f_lasti)
                    return out
                except (IndexError, ValueError, TypeError) as e:
                    _not_indexable(x, index, e)
        elif x._spec.inexact:
            found = _recorded(x, index)
            if found is not None:
                out, op, inputs, attrs, saved = found
                if type(x) is not Tensor:
                    out = like(x, out)
                frame = getframe(1)
                code, offset = frame.f_code, frame.f_lasti
                out.node = make_node(op, inputs, attrs, saved, out._spec, code, offset, mode.scope)
                if op.view:
                    take(out, x, code, offset)
                return out
    out = _indexed(x, _parse(x, index))
    if x.writes_through is not None and type(x) not in to_come and out._share is None and _is_traced_window(x, index):
        # A view, whose place is known when a program runs: a write to it is refused, as it could not be carried.
        frame = getframe(1)
        take(out, x, frame.f_code, frame.f_lasti)
    return out


def _is_traced_window(x: Tensor, index: Any) -> bool:
    """Return whether an index of whole numbers, some of them without a value yet, takes a view in a namespace of views.

    In PyTorch's a tensor of no dimensions is such a number, in NumPy's an array of none is not.
    """
    items = index if type(index) is tuple else (index,)
    numbers = [i for i in items if isinstance(i, Tensor)]
    return (
        any(i._array is None for i in numbers)
        and all(type(i) in _BASIC for i in items if not isinstance(i, Tensor))
        and all(i.ndim == 0 and i.dtype.kind in "iu" and (i.is_weak or x.read_index is not None) for i in numbers)
    )


def _shared(data: Any, index: Any) -> Any:
    """Return the elements at a static index as a view, also where it is one element."""
    if type(index) is int:
        return data[index, ...]
    items = index if type(index) is tuple else (index,)
    return data[items if any(i is Ellipsis for i in items) else (*items, ...)]


def _observed_getitem(seen: Observer, x: Tensor, index: Any) -> Tensor:
    """Return `x[index]`, reported as one step, whichever ops it took."""
    start = perf_counter()
    code, offset = caller()
    seen.quiet += 1
    try:
        out = getitem(x, index)
    finally:
        seen.quiet -= 1
    node = out.node
    if node is not None and node.code is _observed_getitem.__code__:  # it took this function for its caller
        node.code, node.offset = code, offset
    if type(out._share) is tuple and out._share[1] is _observed_getitem.__code__:
        out._share = (out._share[0], code, offset, out._share[3])
    if out._array is not None:
        op, attrs = (slice_op, EMPTY_ATTRS) if node is None else (node.op, node.attrs)
        picks = [i._array for i in (index if type(index) is tuple else (index,)) if isinstance(i, Tensor)]
        run = lambda value, *_: getitem(wrap(np.asarray(value)), index)._array
        seen.step(op, (x._array, *picks), out._array, run, attrs, start, node)
    return out


def _recorded(x: Tensor, index: Any) -> tuple[Tensor, Op, tuple[Any, ...], dict[str, Any], tuple[Any, ...]] | None:
    """Return the result and node of an index that one op serves without preparation; None for any other.

    These are integers and slices within bounds, and one integer tensor.
    """
    spec = x._spec
    if type(index) not in _BASIC and isinstance(index, Tensor):
        if index.is_weak or index._array is None or index._spec.dtype.kind != "i":
            return None
        if x.meaning.keeps_formats and not x._array.flags.c_contiguous:
            return None
        try:
            out = wrap(x._array.take(index._array, axis=0))
        except (IndexError, ValueError):
            return None
        return out, index_op, (x.node, graph_input(index)), {"axis": -len(spec.shape)}, (None, index._array, None)
    entries = _simple_entries(index, spec.shape)
    if entries is None:
        return None
    data = x._array[index] if x.writes_through is None else _shared(viewed(x), index)
    return wrap(data, spec.family.get(data.shape)), slice_op, (x.node,), {"entries": entries}, ()


def _simple_entries(index: Any, shape: Shape) -> Entries | None:
    """Return the canonical form of an index of integers and slices within bounds; None for any other."""
    if type(index) is int and shape and -shape[0] <= index < shape[0]:
        return (index if index >= 0 else index + shape[0], *[ALL] * (len(shape) - 1))
    if type(index) is slice and shape and index.step != 0:
        try:
            entry = _static_slice(index, shape[0])
        except TypeError:
            return None
        return () if entry is ALL else (entry, *[ALL] * (len(shape) - 1))
    items = index if type(index) is tuple else (index,)
    if len(items) > len(shape):
        return None
    entries: list[Entry] = []
    for item, n in zip(items, shape):
        if type(item) is int:
            if not -n <= item < n:
                return None
            entries.append(item if item >= 0 else item + n)
        elif type(item) is slice and item.step != 0:
            try:
                entries.append(_static_slice(item, n))
            except TypeError:
                return None
        else:
            return None
    del entries[: next((i for i, e in enumerate(entries) if e is not ALL), len(entries))]
    if entries:
        entries += [ALL] * (len(shape) - len(items))
    return tuple(entries)


def _indexed(x: Tensor, parsed: _Parsed) -> Tensor:
    """Return the result of an index expression, recorded as the ops that it is made of."""
    if type(x) not in to_come and x._array is None:
        _check_arrays(x, parsed)
    y: Tensor = x
    if parsed.entries or not parsed.arrays:
        y = bind(slice_op, (x,), {"entries": parsed.entries})
    if not parsed.arrays:
        return y
    first = parsed.places[0]
    if not parsed.adjacent:
        y = permute_op.front(y, axes=_to_front(y.ndim, parsed.places))
        first = 0
    try:
        out: Tensor = bind(index_op, (y, *parsed.arrays), {"axis": first - y.ndim})
    except RangeError:
        _check_arrays(x, parsed)
        raise
    return as_picked(out, y, parsed.arrays, first)  # type: ignore[no-any-return]


# -- x[...] = v


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """Give `x` a new version by `x[index] = value`, in which the elements at `index` are `value`'s.

    Whatever was computed from the old version keeps it, and gradients flow to both `x`'s old
    version and `value`. Where an integer array names one place twice the last write stays.

    Raises GradientError for a leaf that requires gradients (unless under `no_grad`), ShapeError
    for a value that does not broadcast to `x[index]`, and what reading `x[index]` raises.

    >>> import wengert as wg
    >>> x = wg.zeros(3)
    >>> x[1] = 5.0
    >>> x
    tensor([0., 5., 0.])
    """
    if x.read_index is not None:
        x, index = x.read_index(x, index)
    data = window_of(x)
    if observers and data is not None and (seen := observer()) is not None:
        _observed_setitem(seen, x, index, value)
        return
    check_write(x, "x[...] = v")
    if can_overwrite(x):
        plain = _plain(index, x)
        if plain is not None:
            if type(value) in NUMBERS and data.dtype.kind == "f":
                v, written = None, value
            else:
                v = value_for(x, value, "x[...] = v")
                written = v._array if v.node is None or not get_mode().grad else None
                if type(written) is ndarray and written.size == 1:
                    # An element takes what has one too, which NumPy refuses where it has axes.
                    written = written.reshape(())
            if v is None or type(written) is ndarray:
                try:
                    overwrite(x, plain, written)
                except (IndexError, ValueError, TypeError) as e:
                    _not_writable(x, index, value_for(x, value, "x[...] = v"), e)
                return
    write(x, _updated(old_version(x), index, value_for(x, value, "x[...] = v")))


def _observed_setitem(seen: Observer, x: Tensor, index: Any, value: Any) -> None:
    """Write `x[index] = value`, reported as one step."""
    before, given = x._array, value._array if isinstance(value, Tensor) else value
    seen.leak("x[...] = v", before, x.node)
    start = perf_counter()
    seen.quiet += 1
    try:
        setitem(x, index, value)
    finally:
        seen.quiet -= 1

    def run(old: Any, new: Any) -> Any:
        again = wrap(np.array(old))
        setitem(again, index, new)
        return again._array

    seen.step(slice_update, (before, given), x._array, run, EMPTY_ATTRS, start, x.node)


def _not_writable(x: Tensor, index: Any, v: Tensor, e: Exception) -> NoReturn:
    _check_value(v, getitem(x.detach(), index).shape, x)
    _not_indexable(x, index, e)


def _check_value(v: Tensor, shape: Shape, x: Tensor) -> None:
    extra = max(v.ndim - len(shape), 0)  # NumPy takes a value with more axes if they have size 1
    if any(n != 1 for n in v.shape[:extra]) or broadcast_shapes(v.shape[extra:], shape) != shape:
        fail(
            ShapeError,
            f"a value of shape {v.shape} written to x[...] of shape {shape}, x {show(x.shape, x.dtype)}",
            "The value must broadcast to the shape of what it replaces.",
        )


def _aligned(v: Tensor, shape: Shape, x: Tensor) -> Tensor:
    """Return the value broadcast to the shape of what it replaces."""
    _check_value(v, shape, x)
    if v.ndim > len(shape):
        v = reshaped(v, v.shape[v.ndim - len(shape) :])
    return v if v.shape == shape else broadcast.front(v, shape=shape)


def _updated(x: Tensor, index: Any, v: Tensor) -> Tensor:
    """Return `x` with the elements at `index` replaced, recorded."""
    mask = _sole_mask(x, index)
    if mask is not None and v.ndim <= x.ndim - mask.ndim:
        return _masked_update(x, mask, v)
    parsed = _parse(x, index)
    if x._array is None or v._array is None:
        _check_arrays(x, parsed)
    entries, arrays = parsed.entries, parsed.arrays
    y: Tensor = bind(slice_op, (x,), {"entries": entries}) if entries else x
    if arrays:
        axes = None if parsed.adjacent else _to_front(y.ndim, parsed.places)
        z = y if axes is None else permute_op.front(y, axes=axes)
        attrs = {"axis": (parsed.places[0] if axes is None else 0) - z.ndim}
        target = index_op.infer(z.spec, *(a.spec for a in arrays), **attrs).shape
        try:
            z = bind(index_update, (z, _aligned(v, target, x), *arrays), attrs)
        except RangeError:
            _check_arrays(x, parsed)
            raise
        y = z if axes is None else permute_op.front(z, axes=_inverse(axes))
        v = y
    if entries or not arrays:
        y = bind(slice_update, (x, _aligned(v, y.shape, x)), {"entries": entries})
    return y


def _sole_mask(x: Tensor, index: Any) -> Tensor | None:
    """Return the mask that is all of an index, checked; None for any other index."""
    mask = None if isinstance(index, (tuple, slice)) else _item(index, x)
    if not isinstance(mask, Tensor) or not _is_mask(mask):
        return None
    if mask.shape != x.shape[: mask.ndim]:
        _items(mask, x)
        _mask_indices(mask, x, 0)
    return mask


def _masked_update(x: Tensor, mask: Tensor, v: Tensor) -> Tensor:
    """Return a masked write as a choice between values, which needs no values of the mask."""
    tail = x.shape[mask.ndim :]
    if broadcast_shapes(v.shape, tail) != tail:
        fail(
            ShapeError,
            f"a value of shape {v.shape} written where a mask of shape {mask.shape} holds, x {show(x.shape, x.dtype)}",
            "The value must broadcast to the shape of what it replaces.",
        )
    if tail:
        mask = reshaped(mask, mask.shape + (1,) * len(tail))
    return where(mask, v, x)


METHODS["__getitem__"] = getitem
METHODS["__setitem__"] = setitem
