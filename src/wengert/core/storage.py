"""Storage: the memory that tensors share, and who they are.

In NumPy and PyTorch a slice or a transpose shares its array's memory, and a write to one of them is seen by all. In a
namespace whose tensors have `writes_through`, a tensor and the views that are taken of it hold one storage. It knows
its members, so nobody has to be looked for, and it holds the memory, so an owner may be gone.

A member is in one of three states:

- it has its array in the slot `_data`, as every other tensor. Anyone may have kept that array: a recorded node, a
  constant of a graph, another tensor. A write therefore begins with one copy of the memory.
- after that copy the memory is the storage's alone (`memory`). Members have their arrays in `_window`, and the slot
  `_data` is empty: a write costs what it writes. Whoever reads `_data` gets a copy of a small part; else the storage
  gives its memory out, and the next write copies again (`read`).
- it has no value, in a trace (`_data` is None).

So a value that was read never changes, whoever reads it, and the bytes that are copied are at most a small multiple
of the bytes that were written and read.

With `WENGERT_POISON=1`, for tests, each write moves the memory, and the memory before is filled with ones (NaN where
elements are floating numbers): whoever kept an array of it for longer than a read at once computes with these.
"""

from __future__ import annotations

import math
import os
import weakref
from typing import Any

import numpy as np

from .state.at_once import Call, at_once

Array = np.ndarray[Any, Any]

_POISONS = os.environ.get("WENGERT_POISON", "0") not in ("", "0")


class Storage:
    """The memory that tensors share.

    `members` has weak references to the tensors, the first of which is that to the root. Beyond `limit` of them those
    that are gone are forgotten. `whole` is the array in which
    all of them lie, None in a trace; `memory` is what keeps it where nobody else can have it, else None. `home` is the
    array that was made for this storage (not set before): others have values of it, and none has it for memory. `node`
    is what computed the root's value when a view was last taken of it or written. `read` counts the bytes that were
    copied for readers since the last write. `given` has weak references to the arrays outside that share the memory. It
    is True where these are not known, and None where there are none. `version` counts the writes.
    """

    __slots__ = ("members", "limit", "whole", "memory", "home", "node", "read", "given", "version")

    members: list[weakref.ref[Any]]
    limit: int
    whole: Any
    memory: Any
    home: Any
    node: Any
    read: int
    given: Any
    version: int

    @property
    def storage(self) -> Storage:
        """The storage itself: a branch has its storage under the same name."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        whole = self.whole
        low, high = bounds(whole)
        flat = np.zeros(high - low, np.uint8)
        np.ndarray(whole.shape, whole.dtype, flat, address(whole) - low, whole.strides)[...] = whole
        return _unpickled, (flat, whole.dtype, whole.shape, whole.strides, address(whole) - low)


class Branch:
    """A tensor that shares memory with others and not their gradients (`detach`), and the views of it.

    `node` is what computed the value of the storage's whole, as far as this branch knows.
    """

    __slots__ = ("storage", "node")

    storage: Storage
    node: Any


def over(whole: Array) -> Storage:
    """Return a storage of the memory that an array lies in, without members yet; see `place`."""
    s = Storage()
    s.members, s.limit = [_GONE], _FEW
    s.whole, s.node = whole, None
    s.memory = s.given = None
    s.read = s.version = 0
    return s


def _unpickled(flat: Array, dtype: Any, shape: Any, strides: Any, offset: int) -> Storage:
    return over(np.ndarray(shape, dtype, flat, offset, strides))


class _Gone:
    """A tensor that is gone."""


_GONE: weakref.ref[Any] = weakref.ref(_Gone())


def place(x: Any, s: Storage) -> None:
    """Make a new tensor, whose value lies in the memory of a storage, a member."""
    x._share, x._window = s, None
    if s.memory is not None:
        x._window = x._data
        del x._data
    s.members.append(weakref.ref(x))
    if len(s.members) > s.limit:
        prune(s)


def laid(x: Any, s: Storage) -> tuple[Any, ...]:
    """Return the dtype, the shape, the strides and the offset in bytes of a member in the memory of its storage."""
    window = window_of(x)
    return window.dtype, window.shape, window.strides, address(window) - address(s.whole) if window.size else 0


def laid_in(s: Storage, dtype: Any, shape: Any, strides: Any, offset: int) -> Array:
    """Return the array that lies so in the memory of a storage."""
    low, high = bounds(s.whole)
    if not math.prod(shape):
        return np.empty(shape, dtype)
    memory = np.asarray(_Bytes(s.whole, low, high - low))
    return np.ndarray(shape, dtype, memory, address(s.whole) - low + offset, strides)


def laid_like(new: Array, old: Array) -> Array:
    """Return an array with the strides of another one of its shape, in memory of its own where it has others."""
    if new.strides == old.strides or 0 in old.strides or new.itemsize != old.itemsize:
        return new
    low, high = bounds(old)
    made: Array = np.ndarray(old.shape, new.dtype, np.empty(high - low, np.uint8), address(old) - low, old.strides)
    made[...] = new
    return made


class _Bytes:
    """The bytes between two addresses in memory that an array keeps alive."""

    def __init__(self, array: Array, low: int, count: int) -> None:
        self._array = array
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (count,), "data": (low, False)}


def storage_of(x: Any) -> Storage | None:
    """Return the storage of a tensor; None for one that shares memory with no other."""
    base = x._share
    return None if base is None or type(base) is tuple else base.storage


def window_of(x: Any) -> Any:
    """Return a tensor's array for a read or write at once: nobody may keep it, since writes change it."""
    base = x._share
    if base is None or type(base) is tuple or x._window is None:
        return x._data
    return x._window


def viewed(x: Any) -> Any:
    """Return the array that a view of `x` lies in, or that one taken of it shows while it is not written to."""
    try:
        return x._data
    except AttributeError:
        return x._array if x.writes_through is None else x._window


def strides_of(x: Any) -> tuple[int, ...] | None:
    """Return how a tensor of a namespace with views lies in memory, in elements; None where it lies in C order."""
    window = window_of(x) if x.writes_through is not None else None
    if type(window) is not np.ndarray or window.flags.c_contiguous:
        return None
    return tuple(step // window.itemsize for step in window.strides)


# -- members


def share(x: Any) -> Any:
    """Return the base that a view of `x` refers to: its storage, which is made if there is none."""
    x = x.owner if x.is_name else x
    base = x._share
    if base is not None and type(base) is not tuple:
        return base
    s = Storage()
    s.members, s.limit = [weakref.ref(x)], _FEW
    s.whole, s.node = x._data, x.node
    s.memory = s.given = None
    s.read = s.version = 0
    x._window = None
    x._share = s
    return s


# What the list of members may always grow to.
_FEW = 64


def enter(out: Any, x: Any) -> None:
    """Make a new tensor a view of `x`, in whose memory its value lies."""
    base = x._share
    if base is None or type(base) is tuple:
        base = share(x)
    out._share = base
    s = base if type(base) is Storage else base.storage
    if s.memory is None:
        out._window = None
    else:
        window = out._data
        if not window.flags.writeable:  # as NumPy gives diagonals
            window = laid_in(s, window.dtype, window.shape, window.strides, address(window) - address(s.whole))
        out._window = window
        del out._data
    members = s.members
    members.append(weakref.ref(out))
    if len(members) > s.limit:
        prune(s)


def join(out: Any, x: Any, keeps_gradients: bool = True) -> None:
    """Make a new tensor a view of `x`, if both have no value or `out` has its value in the memory of `x`."""
    if x.is_name:
        x, keeps_gradients = x.owner, False
    share(x)
    data, window = out._data, x._data if x._window is None else x._window
    if type(data) is np.ndarray and type(window) is np.ndarray and not lies_in(data, window):
        out._share = None
        return
    if keeps_gradients or data is None:
        enter(out, x)
    else:
        branch_off(out, x)


def branch_off(out: Any, x: Any) -> None:
    """Make a new tensor with a value a view of `x` that has no part in its gradients."""
    enter(out, x)
    branch = Branch()
    branch.storage, branch.node = out._share.storage, None
    out._share = branch


def lies_in(part: Array, whole: Array) -> bool:
    """Return whether the elements of one array lie in the memory of another."""
    base = part.base
    if base is whole or part is whole or (base is not None and base is whole.base):
        return True
    return base is not None and np.may_share_memory(part, whole)


def prune(s: Storage) -> None:
    """Forget members that are gone. The first reference stays, which tells whether the root lives."""
    first, *others = s.members
    s.members[:] = [first, *(m for m in others if (x := m()) is not None and storage_of(x) is s)]
    s.limit = 2 * len(s.members) + _FEW


def living(s: Storage) -> list[Any]:
    """Return the members that live."""
    return [x for m in s.members if (x := m()) is not None and storage_of(x) is s]


def root_of(s: Storage) -> Any:
    """Return the tensor whose memory it was first; None where that is gone."""
    root = s.members[0]()
    return root if root is not None and storage_of(root) is s else None


def is_shared(x: Any) -> bool:
    """Return whether other tensors live that share memory with `x`, or an array outside does.

    A tensor that is alone with its storage gives it up.
    """
    x = x.owner if x.is_name else x
    s = storage_of(x)
    if s is None:
        return False
    for m in s.members:
        t = m()
        if t is not None and t is not x and storage_of(t) is s:
            return True
    if is_given(s):
        return True
    leave(x)
    return False


def leave(x: Any) -> None:
    """Give a tensor its value as its own, in no storage; what shared memory with it does so no longer."""
    if storage_of(x) is not None:
        data, x._window = x._array, None
        x._data, x._share = data, None


def move(x: Any, array: Array, source: Any) -> None:
    """Give a tensor without gradients an array in the memory of another one (None: of its own) in place of its own."""
    s = storage_of(x)
    if s is not None:
        leave(x)
        first, *others = s.members
        s.members[:] = [_GONE if first() is x else first, *(m for m in others if m() is not x)]
    x._data, x._share, x.node = array, None, None
    if source is not None:
        join(x, source, keeps_gradients=False)


# -- reading and writing


def is_given(s: Storage) -> bool:
    """Return whether an array outside shares the memory."""
    if type(s.given) is list:
        s.given = [ref for ref in s.given if ref() is not None] or None
    return s.given is not None


def read(x: Any) -> Any:
    """Return an array with the value of a member whose memory is the storage's alone, which may be kept."""
    x = x.owner if x.is_name else x
    window, s = x._window, x._share.storage
    if s.memory is not None:
        size = window.nbytes
        if is_given(s):
            return _kept(window)
        if s.read + size <= s.whole.nbytes >> 1:
            s.read += size
            return _kept(window)
        s.memory = None
    x._data, x._window = window, None
    return window


def _kept(window: Array) -> Array:
    copied = window.copy(order="K")
    copied.flags.writeable = False
    return copied


def lent_window(x: Any) -> Any:
    """Return the array of a pinned tensor that lies in the memory of an array outside; None for every other one."""
    return None if storage_of(x) is None else x._window


def pin(x: Any) -> None:
    """Give the memory of a tensor out as it is: the next write leaves it alone, and copies."""
    s = storage_of(x)
    if s is None or s.memory is None or is_given(s):
        return
    s.memory = None
    for t in living(s):
        if t._window is not None:
            t._data, t._window = t._window, None


def own(s: Storage) -> None:
    """Make the memory the storage's alone: copy it, and lay all members over the copy."""
    whole = s.whole
    if whole.flags.c_contiguous:
        start, fresh = address(whole), whole.copy()
        flat = fresh.reshape((-1,)).view(np.uint8)  # not every dtype of ours is one of the buffer protocol's
    else:
        start, high = bounds(whole)
        flat = np.empty(high - start, np.uint8)
        fresh = np.ndarray(whole.shape, whole.dtype, flat, address(whole) - start, whole.strides)
        fresh[...] = whole
    laid = []
    for t in living(s):
        window = t._data if t._window is None else t._window
        if window is whole:
            laid.append((t, fresh))
        elif not window.size:
            laid.append((t, np.empty(window.shape, window.dtype)))
        else:
            laid.append((t, np.ndarray(window.shape, window.dtype, flat, address(window) - start, window.strides)))
    put, drop = object.__setattr__, object.__delattr__
    calls: list[Call] = [
        (put, s, "whole", fresh),
        (put, s, "memory", flat),
        (put, s, "read", 0),
        (put, s, "home", fresh),
    ]
    for t, window in laid:
        calls += [(put, t, "_window", window), (put, t, "_data", None), (drop, t, "_data")]
    at_once(calls)()


def alone(x: Any) -> Array:
    """Return the array of a tensor with a value, in memory that may be written to: all that shares it follows."""
    x = x.owner if x.is_name else x
    base = x._share
    if base is None or type(base) is tuple:
        x._share = None
        if not x._data.flags.c_contiguous and overlaps_itself(x._data):
            x._data = np.array(x._data, order="C")  # a value of its own that was expanded
        base = share(x)
    s = base if type(base) is Storage else base.storage
    if s.memory is None:
        own(s)
    elif _POISONS and not is_given(s):
        before = s.memory
        own(s)
        before.fill(0xFF)
    s.read = 0
    s.version += 1
    window: Array = x._window
    return window


def placed_alone(x: Any) -> Array:
    """Return the array of a tensor with a value, in memory that no other tensor has but what shares it with this one.

    It stays there until it is written to after the value was read.
    """
    base = share(x)
    s: Storage = base if type(base) is Storage else base.storage
    if s.memory is None and getattr(s, "home", None) is not s.whole:
        own(s)
    window: Array = x._data if x._window is None else x._window
    return window


def assign_data(x: Any, data: Any) -> None:
    """Give a tensor with a value another one of its shape and dtype, and all that shares its memory, past any graph.

    The array is the tensor's own from then on.
    """
    if not is_shared(x):
        x._data = data
    elif type(data) is np.ndarray and type(window_of(x)) is np.ndarray:
        alone(x)[...] = data
    else:  # where that is, values share no memory: these are names of one
        old = x._data
        for t in living(x._share.storage):
            if t._data is old:
                t._data = data


def lend(x: Any) -> Array:
    """Return the memory of a tensor as an array that may be written to, and that is written to with the tensor."""
    window = alone(x)
    s: Storage = x._share.storage
    # The holder is no array: NumPy then names this very array as the base of all that is taken of it.
    lent: Array = np.asarray(_Holder(window))
    if s.given is not True:
        s.given = [*(s.given or ()), weakref.ref(lent)]
    return lent if lent.dtype == window.dtype else lent.view(window.dtype)  # which the interface has no name for


class _Holder:
    """An array under NumPy's array interface."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self.__array_interface__ = array.__array_interface__


def borrow(x: Any, array: Array) -> None:
    """Make a new tensor one whose memory is that of an array of somebody else's, who may write to it."""
    base = share(x)
    base.whole = base.memory = array
    base.given = True
    x._window = array
    del x._data


# -- memory


def address(x: Array) -> int:
    """Return the address of an array's first element."""
    return int(x.__array_interface__["data"][0])


def laid_as(x: Array) -> tuple[int, ...]:
    """Return the strides in bytes of an array; an axis of size 1 that NumPy added has that of what follows it.

    NumPy gives such an axis the stride 0.
    """
    if 0 not in x.strides:
        return x.strides
    found, following = [], x.itemsize
    for n, step in zip(reversed(x.shape), reversed(x.strides)):
        found.append(following if n == 1 and not step else step)
        following = max(n, 1) * found[-1]
    return tuple(reversed(found))


def overlaps_itself(x: Array) -> bool:
    """Return whether elements may share bytes, as in what is expanded, or in windows one step apart."""
    if type(x) is not np.ndarray:
        return False
    reach = x.itemsize
    for step, n in sorted((abs(step), n) for n, step in zip(x.shape, x.strides) if n > 1):
        if step < reach:
            return x.size > 0
        reach += step * (n - 1)
    return False


def bounds(x: Array) -> tuple[int, int]:
    """Return the addresses between which an array's elements lie."""
    low = high = address(x)
    if not x.size:
        return low, high
    for n, step in zip(x.shape, x.strides):
        low, high = low + min(0, step * (n - 1)), high + max(0, step * (n - 1))
    return low, high + x.itemsize
