"""`Tensor`: a value, the node that produced it, and its gradient."""

from __future__ import annotations

import copy
import sys
import weakref
from collections.abc import Iterable, Iterator
from itertools import repeat, starmap
from types import CodeType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from . import tree
from .arrays import Array, converted, dtype_for, format_tensor, is_frozen, to_numpy
from .dims import Dim
from .dtypes import NATIVE, DType, is_inexact
from .elsewhere import CPU, Elsewhere, as_data, device_name, here, moved, place_of
from .errors import DTypeError, GradientError, ShapeError, fail, user_frame
from .mode import get_mode
from .node import EMPTY_ATTRS, Freed, Hooked, Node, RemovableHandle, Unread, hooked, make_node
from .ops.op import LEAF, TABLE, Meaning
from .source import Source
from .spec import Shape, Spec, as_dtype, category, default_float, promote, promote_scalar, spec_of
from .state.capture import fresh_leaves, get_capture, note_gradient, open_variables
from .state.observer import observer, observers
from .state.refusals import is_for_looking, refuse
from .storage import Storage, is_shared, join, laid, laid_in, lend, place, read, storage_of, viewed, window_of

Scalar = bool | int | float | complex

new = object.__new__
ndarray = np.ndarray


# Arithmetic, comparisons, indexing and the methods named after functions are attached where the ops are declared;
# a generated stub has their types.
if TYPE_CHECKING:
    from ._methods import Methods
else:
    Methods = object


class Tensor(Methods):
    """An n-dimensional array of one dtype that remembers how it was computed.

    Make one with :func:`wengert.tensor`, :func:`wengert.asarray` or a creation function such as
    :func:`wengert.zeros`; `Tensor(data)` is :func:`wengert.tensor`.

    Tensors are values: no operation changes another tensor's numbers, slices and reshapes never
    alias. `x[i] = v` gives `x` a new version; whatever was computed from the old one keeps it.

    >>> import wengert as wg
    >>> x = wg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> x.shape, x.dtype.name
    ((3,), 'float32')
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4., 6.])
    """

    # `_spec` is set where there is a buffer: its absence sends an operation on abstract tensors
    # from the fast path to the general one at no cost to the others.
    __slots__ = ("_data", "_spec", "node", "_grad", "_share", "_window", "__weakref__")

    # An array, exactly an ndarray, also where it has no axes: native code reads it as one. None: abstract.
    # Whoever reads it may keep it: see :mod:`wengert.core.storage` for where it is while it is written in place.
    _data: Any
    _spec: Spec
    node: Node | None
    _grad: Any  # a tensor, None, or what is Unread
    # A `Storage` or a `Branch` in a namespace with views, and of a tensor that is written to part by part; else `Base`.
    _share: Any
    _window: Any  # the array of a member in memory that its storage has alone

    __array_priority__ = 1000.0

    # True for a module's parameter: in a functional transform it is a plain value.
    is_parameter = False

    # True for a weak tensor, a Python number that takes the dtype of its other operand.
    is_weak = False

    # True for another name of a tensor, its `owner`.
    is_name = False

    # In a namespace where writes to what was taken from a tensor reach it, what carries them there, and where indices
    # mean something else, what reads them. None: such writes are refused, and indices are NumPy's.
    writes_through: ClassVar[Any] = None
    read_index: ClassVar[Any] = None

    # The class of what operations on such a tensor give: a namespace with other methods has its own (see `of_class`).
    result_class: ClassVar[type[Tensor]]
    # That of `.data`, where writes do not reach what a value was taken from.
    data_class: ClassVar[Any]
    # Whether a tensor without axes decides the dtype as one with axes does, and a NumPy scalar as its dtype says. In a
    # namespace where they do not, they change the category only, as a Python number does.
    scalars_promote: ClassVar[bool] = True
    # What elementwise ops mean of booleans and of Python numbers.
    meaning: ClassVar[Meaning] = Meaning()
    # What two dtypes promote to, one and a Python number, and the floating dtype in which an op takes integers.
    promote: ClassVar[Any] = staticmethod(promote)
    promote_scalar: ClassVar[Any] = staticmethod(promote_scalar)
    floats: ClassVar[Any] = staticmethod(lambda op, dtype: default_float())

    def __init_subclass__(cls, names: type[Tensor] | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if names is not None:  # the class of other names of its tensors
            names.data_class = cls

    def __init__(self, data: Any, dtype: Any = None, requires_grad: bool = False) -> None:
        made = tensor(data, dtype, requires_grad=False)
        held = made._value("a tensor of its own") if made._array is None else made._array
        self._data, self._spec, self.node, self._share = held, made.spec, made.node, None
        if requires_grad:
            self.requires_grad_()

    @property
    def _array(self) -> Any:
        """The array, which may be kept: no write changes it. None for an abstract tensor."""
        try:
            return self._data
        except AttributeError:
            return read(self)

    # -- what it is

    @property
    def spec(self) -> Spec:
        """The shape and dtype."""
        base = self._share
        if (base is None or type(base) is tuple or self._window is None) and self._data is None:
            assert self.node is not None
            return self.node.spec
        return self._spec

    @property
    def shape(self) -> Shape:
        """The size of each dimension, a tuple of ints."""
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        return self.spec.dtype

    @property
    def ndim(self) -> int:
        return len(self.spec.shape)

    @property
    def size(self) -> int:
        """The number of elements (Array API). PyTorch's `size()` is `shape` here."""
        return self.spec.size

    @property
    def nbytes(self) -> int:
        """The size of the tensor's buffer in bytes."""
        return self.spec.nbytes

    @property
    def itemsize(self) -> int:
        return self.spec.dtype.itemsize

    @property
    def device(self) -> str:
        """The name of the device that the value is on: "cpu", or the one that it was placed on, "xla:1" say."""
        return place_of(self)

    def numel(self) -> int:
        """Return the number of elements."""
        return self.spec.size

    def dim(self) -> int:
        """Return the number of dimensions."""
        return len(self.spec.shape)

    def is_floating_point(self) -> bool:
        """Return whether the dtype is real floating."""
        return category(self.dtype) == 2

    def is_complex(self) -> bool:
        """Return whether the dtype is complex."""
        return category(self.dtype) == 3

    @property
    def is_abstract(self) -> bool:
        """True where the tensor has a shape and a dtype but no value (while a function is being traced)."""
        return window_of(self) is None

    # -- its value

    def numpy(self) -> Array:
        """Return the value as a read-only NumPy array that shares memory; `np.array(t)` copies.

        Raises TraceError for an abstract tensor, GradientError where gradients would be lost
        silently (a tensor that requires gradients, unless a backward pass has freed its graph: `t.detach().numpy()`).
        """
        if observers:
            _note_leak(self, "numpy")
        if self._carries_gradients:
            what = f"numpy() of a tensor that requires gradients, {self.spec}"
            refuse(what, "The array would not carry gradients on. Write t.detach().numpy().", self, GradientError)
        return self._view("numpy()")

    def _view(self, what: str) -> Array:
        view: Array = self._value(what).view()
        view.flags.writeable = False
        return view

    def _value(self, what: str) -> Any:
        if self._array is None:
            capture = get_capture()
            if capture is not None:
                capture.refuse(self, what)
            refuse(
                f"{what} needs the value of an abstract tensor {self.spec}",
                "While a function is traced its tensors have shapes but no values. "
                "Move this out of the traced function, or write wg.where for a choice between values, wg.cond for one "
                "between computations, wg.while_loop for a loop that ends on a value.",
                self,
            )
        return here(self._array, what)

    def _decided(self, what: str) -> Any:
        """Return the value for a decision of the program; a compiler's trace notes it."""
        if self._array is None:
            capture = get_capture()
            if capture is not None:
                return capture.decide(self, what)
        return self._value(what)

    def _fixed(self, what: str) -> Any:
        """Return the value, on which shapes depend; None for an abstract tensor.

        A compiler's trace begins anew with what was found outside of the function as a constant, where it depends on
        nothing else.
        """
        if self._array is None and (capture := get_capture()) is not None:
            capture.fix(self, what)
        return here(self._array, what)

    @property
    def _carries_gradients(self) -> bool:
        node = self.node
        return node is not None and node.requires_grad and type(node.saved) is not Freed

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if observers:
            _note_leak(self, "__array__")
        if self._carries_gradients and get_mode().grad:
            what = f"conversion to a NumPy array of a tensor that requires gradients, {self.spec}"
            mend = "The array would not carry gradients on. Write t.detach(), or convert under wg.no_grad()."
            refuse(what, mend, self, GradientError)
        value = self._view("conversion to a NumPy array")
        if dtype is not None and np.dtype(dtype) != value.dtype:
            if copy is False:
                raise ValueError(f"a copy is needed to convert {self.dtype} to {np.dtype(dtype)}")
            return value.astype(dtype)
        return value.copy() if copy else value

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        value = self._value("__dlpack__")
        # Consumers may write into what they get, so they get a copy. With copy=False they get the memory: read-only,
        # or, where a DLPack before 1.0 cannot say so, as what both may write to.
        if copy is False and (max_version or (0,))[0] < 1 and not self.is_weak:
            value = lend(self)
        else:
            value = value.view() if copy is False else value.copy()
            value.flags.writeable = copy is not False
        return value.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ValueError(f"unsupported Array API version {api_version!r}")
        return sys.modules["wengert"]

    def item(self) -> Any:
        """Return the value of a tensor with one element, as a Python scalar.

        Raises ShapeError when it has more or fewer.
        """
        if observers:
            _note_leak(self, "item")
        refuse_cut(self, "item()")
        if self.size != 1:
            fail(
                ShapeError,
                f"item() of a tensor with {self.size} elements, {self.spec}",
                "Only a tensor with one element is a scalar. Reduce or index it first, or use tolist().",
            )
        return self._value("item()").item()

    def tolist(self) -> Any:
        """Return the value as a Python scalar or nested lists of them."""
        if observers:
            _note_leak(self, "tolist")
        refuse_cut(self, "tolist()")
        return self._value("tolist()").tolist()

    def __bool__(self) -> bool:
        if observers:
            _note_leak(self, "__bool__")
        if self.size != 1:
            fail(
                ShapeError,
                f"the truth of a tensor with {self.size} elements is ambiguous, {self.spec}",
                "Write wg.any(x) or wg.all(x).",
            )
        return bool(self._decided("a branch on its truth"))

    def __float__(self) -> float:
        if observers:
            _note_leak(self, "__float__")
        return float(self._scalar("float()"))

    def __int__(self) -> int:
        if observers:
            _note_leak(self, "__int__")
        return int(self._scalar("int()"))

    def __complex__(self) -> complex:
        if observers:
            _note_leak(self, "__complex__")
        return complex(self._scalar("complex()"))

    def _scalar(self, what: str) -> Any:
        if what != "int()":  # which is constant but for its steps
            refuse_cut(self, what)
        if self._array is not None and self.size == 1:
            return self._value(what).item()
        return self.item() if self.size != 1 else np.asarray(self._decided(what)).item()

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.shape != ():
            fail(DTypeError, f"only a 0-d integer tensor is an index, not {self.spec}")
        return int(self._decided("an index"))

    def __format__(self, spec: str) -> str:
        if observers:
            _note_leak(self, "__format__")
        return format(self._value("format()").item(), spec) if spec and self.size == 1 else format(str(self), spec)

    def __len__(self) -> int:
        if not self.shape:
            fail(DTypeError, "len() of a 0-d tensor")  # a TypeError, by which Python tells what has no length
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            fail(DTypeError, "iteration over a 0-d tensor", "Use item() for its value.")
        frame = user_frame(1)
        place = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
        return (_at(self[i], self, place) for i in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        return bool(np.any(np.asarray(self._value("`in`")) == np.asarray(value)))

    __hash__ = object.__hash__

    # -- gradients

    @property
    def requires_grad(self) -> bool:
        """True where gradients are computed with respect to the tensor. Assign to change it on a leaf."""
        return self.node is not None and self.node.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Make a leaf collect gradients (or no longer). Returns the tensor.

        Inside a transform, what depends on its variables has gradients in any case: it collects them in `.grad` too.

        Raises DTypeError for integer and boolean tensors, GradientError for a non-leaf.
        """
        if observers:
            _note_leak(self, "requires_grad_")
        node = self.node
        if not requires_grad:
            if not self.is_leaf:
                fail(
                    GradientError,
                    f"requires_grad_(False) of a tensor computed by {self.node}, {self.spec}",
                    "Only leaves can be switched off. Use t.detach() for a copy without history.",
                )
            if node is not None and node.requires_grad:
                if type(node.saved) is Hooked and node.saved.hooks:
                    _hooks_of_frozen[id(self)] = node.saved.saved, node.saved.hooks
                self.node = node.inputs[0] if self._array is None else None
        elif node is None or not node.requires_grad:
            if not is_inexact(self.spec.dtype):
                fail(
                    DTypeError,
                    f"a tensor of dtype {self.dtype} cannot require gradients",
                    "Only floating and complex tensors have derivatives: "
                    "x.astype(wg.float32), or write the numbers with a decimal point.",
                )
            self.node = leaf_node(self, node if self._array is None else self._array)
            owner, hooks = _hooks_of_frozen.pop(id(self), (None, None))
            if owner is not None and owner() is self:
                self.node.saved = Hooked(self.node.saved, hooks)
        elif node.op is not LEAF and depends_on_open(self):
            self.retain_grad()
        return self

    @property
    def is_leaf(self) -> bool:
        """True where the user made the tensor, rather than a recorded operation."""
        return self.node is None or not self.node.requires_grad or self.node.op is LEAF

    @property
    def grad_fn(self) -> Node | None:
        """The node that computed the tensor; None for a leaf and for a value computed without recording."""
        return None if self.is_leaf else self.node

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward()` accumulated for this leaf, or None."""
        try:
            found = self._grad
        except AttributeError:
            return None
        if type(found) is Unread:
            found = self._grad = found.read()
        return found  # type: ignore[no-any-return]

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and not isinstance(value, Tensor):
            fail(DTypeError, f".grad must be a tensor or None, not {type(value).__name__}")
        if value is not None and value.shape != self.shape:
            fail(ShapeError, f".grad of shape {value.shape} for a tensor of shape {self.shape}")
        note_gradient(self)
        self._grad = value

    @property
    def source(self) -> Source | None:
        """The place in the user's program that computed the tensor."""
        return self.node.source if self.node is not None else None

    def detach(self) -> Tensor:
        """Return the same value without history: gradients do not flow through it."""
        if observers:
            _note_leak(self, "detach")
        data = viewed(self)
        out = bind_detach(self) if data is None else like(self, wrap(data, self._spec))
        if self.writes_through is not None:
            join(out, self, False)
        else:
            frame = user_frame(1)
            out._share = base_of(self, *((None, 0) if frame is None else (frame.f_code, frame.f_lasti)))
        return out

    @property
    def data(self) -> Tensor:
        """The value without history: a write to it is seen by the tensor, and the other way round.

        `w.data = v`, `w.data[i] = v` and `w.data.add_(v)` change `w` without recording.
        """
        if observers:
            _note_leak(self, "data")
        if self.is_weak or self.writes_through is not None:
            return self.detach()
        return self.data_class.of(self)  # type: ignore[no-any-return]

    @data.setter
    def data(self, value: Any) -> None:
        through = self.writes_through
        self.assign_(value) if through is None else through.set_data(self, value)

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf in `.grad` when `backward()` passes through it.

        Raises GradientError for a tensor that does not require gradients.
        """
        if not self.requires_grad:
            fail(GradientError, "retain_grad() of a tensor that does not require gradients")
        if not self.is_leaf:
            self._hooked().retain = weakref.ref(self)

    def register_hook(self, hook: Any) -> RemovableHandle:
        """Call `hook(gradient)` when this tensor's gradient is computed.

        What it returns, unless None, takes the gradient's place. Returns a handle whose
        `remove()` ends it.

        Raises GradientError for a tensor that does not require gradients.
        """
        if not self.requires_grad:
            fail(GradientError, "register_hook() on a tensor that does not require gradients")
        return RemovableHandle(self._hooked().hooks, hook, self.is_leaf)

    def _hooked(self) -> Hooked:
        node = self.node
        assert node is not None
        return hooked(node)

    # -- showing, copying

    def __repr__(self) -> str:
        if self._array is None and (capture := get_capture()) is not None and not is_for_looking(2):
            capture.refuse(self, "showing a tensor")
        return format_tensor(self)

    def __str__(self) -> str:
        if self._array is None and (capture := get_capture()) is not None:
            capture.refuse(self, "showing a tensor")
        return format_tensor(self)

    def __reduce__(self) -> tuple[Any, ...]:
        if _is_member(self) and self.is_leaf:
            s: Any = storage_of(self)
            return _rebuild_member, (type(self), s, laid(self, s), self.requires_grad, self.grad)
        return self._reduced(self._value("pickling") if self.is_leaf else None)

    def _reduced(self, value: Any) -> tuple[Any, ...]:
        """Return the (callable, args) pair that rebuilds this tensor with the given value when it is unpickled."""
        if not self.is_leaf:
            mend = "Only leaves can: use t.detach()."
            refuse(f"a tensor with history cannot be pickled or deep-copied, {self.spec}", mend, self, GradientError)
        return _rebuild, (type(self), value, self.requires_grad, self.grad, *({place_of(self)} - {CPU}))

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        is_apart = isinstance(self._array, Elsewhere) and self._array.place is None  # then it is copied by parts
        value = self._array if is_apart or not self.is_leaf else self._value("deepcopy()")
        _, (cls, value, requires_grad, grad, *place) = self._reduced(value)
        copied = grad.__deepcopy__(memo) if grad is not None else None
        s = storage_of(self)
        if s is not None and not self.is_parameter and _is_member(self):  # a parameter is copied alone, as in PyTorch
            memo[id(self)] = out = _rebuild_member(cls, copy.deepcopy(s, memo), laid(self, s), requires_grad, copied)
            return out
        data = value.copy() if is_apart else value.copy("C" if 0 in value.strides else "K")
        memo[id(self)] = out = _rebuild(cls, data, requires_grad, copied, *place)
        return out

    def __copy__(self) -> Tensor:
        out = like(self, wrap(self._array, self._spec)) if self._array is not None else abstract_like(self)
        out.node = self.node
        return out

    def clone(self) -> Tensor:
        """Return a copy through which gradients flow."""
        from_table: Tensor = _table("copy")(self)
        return from_table


Tensor.result_class = Tensor
tree.known_leaves.add(Tensor)


def result_class(args: Iterable[Any]) -> type[Tensor]:
    """Return the class of what an operation on these gives: that of a namespace with other methods, if one has it."""
    for a in args:
        if type(a) is not Tensor and isinstance(a, Tensor) and a.result_class is not Tensor:
            return a.result_class
    return Tensor


def of_class(cls: type[Tensor], out: Any) -> Any:
    """Return a new tensor, or a tuple of them, as of another class: tensors of all namespaces are laid out alike."""
    for x in out if isinstance(out, tuple) else (out,):
        if type(x) is Tensor:
            x.__class__ = cls
    return out


def like(x: Tensor, out: Tensor) -> Tensor:
    """Return a new tensor that stands for `x`, in the class of what operations on `x` give."""
    if x.result_class is not Tensor and type(out) is Tensor:
        out.__class__ = x.result_class
    return out


def as_like(x: Tensor, given: Tensor) -> Tensor:
    """Return a tensor that may be somebody's as `like` does a new one: by another object, which leaves theirs alone."""
    if x.result_class is Tensor or type(given) is not Tensor:
        return given
    return of_class(x.result_class, given.__copy__())  # type: ignore[no-any-return]


def _note_leak(x: Tensor, what: str) -> None:
    """Tell whoever observes this thread that a tensor's value is about to leave the graph, or to be another."""
    seen = observer()
    if seen is not None:
        seen.leak(what, x._array, x.node)


# -- values that were taken from tensors

# A weak reference to the tensor, the place in the user's program, and the same for where the tensor itself is from.
Base = tuple[Any, CodeType | None, int, Any]


def base_of(x: Tensor, code: CodeType | None, offset: int) -> Base:
    """Return the entry `_share` of a value that is taken from `x` at a place, where writes do not reach `x`."""
    x = x.owner if x.is_name else x  # type: ignore[attr-defined]
    before = x._share
    return (weakref.ref(x), code, offset, before if type(before) is tuple else None)


def take(out: Tensor, x: Tensor, code: CodeType | None, offset: int) -> Tensor:
    """Note that a new tensor was taken from `x` at a place: a view of it where writes reach `x`."""
    if x.writes_through is not None:
        join(out, x)
    else:
        out._share = base_of(x, code, offset)
    return out


def taken_from(x: Tensor) -> Base | None:
    """Return how `x` was taken from a tensor that still lives: elsewhere a write to `x` would change that one too."""
    base = None if x.is_name or type(x._share) is not tuple else x._share
    while base is not None and base[0]() is None:
        base = base[3]
    return base


def _at(part: Tensor, whole: Tensor, place: tuple[CodeType | None, int]) -> Tensor:
    """Return a value taken from a tensor, with the user's place where that is not the caller's."""
    if whole.writes_through is None:
        part._share = base_of(whole, *place)
    return part


def _table(name: str) -> Any:
    return TABLE[name]


def bind_detach(x: Tensor) -> Tensor:
    """Return an abstract tensor's `stop_gradient` node."""
    out: Tensor = _table("stop_gradient").front(x)
    return out


NUMBER_CUT = (
    "As a Python number it would be a constant, and its derivative lost: write wg.sin(x) for math.sin(x), and "
    "wg.stack([a, b]) for an array that is filled number by number. Where only the value is meant (to print, to "
    "log), write x.detach().item()."
)


def refuse_cut(x: Tensor, what: str, instead: str = NUMBER_CUT) -> None:
    """Raise GradientError where a value would leave a computation that a transform is differentiating."""
    if depends_on_open(x):
        refuse(f"{what} of a value that is being differentiated, {x.spec}", instead, x, GradientError)


def depends_on_open(x: Tensor) -> bool:
    """Return whether a value depends on a variable of a transform at work."""
    root = x.node
    if not open_variables or root is None or not root.requires_grad:
        return False
    seen, stack = {root}, [root]
    while stack:
        node = stack.pop()
        if node in open_variables:
            return True
        for entry in node.inputs:
            source = entry.node if isinstance(entry, Tensor) else entry
            if isinstance(source, Node) and source.requires_grad and source not in seen:
                seen.add(source)
                stack.append(source)
    return False


# By identity, leaves that collect no gradients for now: a weak reference, and the hooks that they had.
_hooks_of_frozen: dict[int, tuple[Any, dict[int, Any]]] = {}


def leaf_node(owner: Tensor, value: Any) -> Node:
    """Return a node at which gradients for `owner` are collected, with the hooks of the one that it has.

    `value` is what it stands for: an array, or in a trace a node, through which a graph looks as it does through the
    array of a leaf that is made while a whole program is traced.
    """
    old = owner.node
    fresh = None if isinstance(value, Node) else fresh_leaves()
    inputs = () if fresh is None and not isinstance(value, Node) else (value,)
    node = make_node(LEAF, inputs, EMPTY_ATTRS, weakref.ref(owner), owner.spec, None, 0, get_mode().scope)
    if fresh is not None:
        fresh.append(node)
    if old is not None and old.op is LEAF and type(old.saved) is Hooked:
        node.saved = Hooked(node.saved, old.saved.hooks)
    return node


# Tensors with nothing in them yet, without end: `next(blanks)` is `new(Tensor)`, for which no arguments are packed.
blanks: Iterator[Tensor] = starmap(new, repeat((Tensor,)))


def wrap(data: Any, spec: Spec | None = None) -> Tensor:
    """Return an untracked tensor over `data`, native-endian values of a supported dtype, without a copy."""
    out = next(blanks)
    if type(data) is not ndarray:  # NumPy's functions give scalars where there are no axes
        data = as_data(data)
        spec = data.spec if isinstance(data, Elsewhere) else spec
    out._data = data
    out._spec = spec if spec is not None else spec_of(data.shape, data.dtype)
    out.node = out._share = None
    return out


def abstract(node: Node) -> Tensor:
    """Return the abstract tensor that `node` computes."""
    out = next(blanks)
    out._data = out._share = None
    out.node = node
    return out


def abstract_like(x: Tensor) -> Tensor:
    """Return another abstract tensor of the same node."""
    assert x.node is not None
    return like(x, abstract(x.node))


def _rebuild(
    cls: type[Tensor], value: Array, requires_grad: bool, grad: Tensor | None, place: str | None = None
) -> Tensor:
    made = wrap(value if place is None else moved(value, device_name(place)))
    out = new(cls)
    out._data, out._spec = made._array, made._spec
    out.node = out._share = None
    if requires_grad:
        out.requires_grad_()
    if grad is not None:
        out._grad = grad
    return out


def _is_member(x: Tensor) -> bool:
    """Return whether copies of a tensor go on sharing memory with copies of others."""
    return x.writes_through is not None and not x.is_name and type(window_of(x)) is ndarray and is_shared(x)


def _rebuild_member(cls: type[Tensor], s: Storage, lies: Any, requires_grad: bool, grad: Tensor | None) -> Tensor:
    out = _rebuild(cls, laid_in(s, *lies), False, grad)
    place(out, s)
    return out.requires_grad_() if requires_grad else out


# -- from Python and NumPy values


def tensor(data: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Return a tensor with a copy of `data`: a new leaf, unless it is made of tensors that require gradients.

    Parameters
    ----------
    data: a Python scalar, nested sequences of scalars, a NumPy array, a tensor, or anything with
        `__array__` or `__dlpack__`.
    dtype: the dtype; else Python floats become float32, ints int64, complex numbers complex64,
        and NumPy arrays and scalars keep their own.
    requires_grad: collect gradients for it.
    device: where to place it; see :meth:`Tensor.to`. None: where `data` is.

    Gradients flow to tensors in `data`, as to those in :func:`wengert.stack`; `x.detach()` gives the value alone.

    Raises ShapeError for ragged nested lists, DTypeError for data that is not numeric, GradientError where
    `requires_grad` would make a leaf of what a transform differentiates.

    >>> import wengert as wg
    >>> wg.tensor([1.0, 2.0])
    tensor([1., 2.])
    """
    out = asarray(data, dtype=dtype, copy=True, device=device)
    if requires_grad:
        if not out.is_leaf:
            refuse_cut(out, "a leaf, tensor(..., requires_grad=True),")
            out = out.detach()
        out.requires_grad_()
    return out


def _holds_tensor(pytree: Any) -> bool:
    """Return whether a pytree of lists and tuples holds tensors."""
    stack = [pytree]
    while stack:
        items = stack.pop()
        kinds = set(map(type, items))
        if any(issubclass(kind, Tensor) for kind in kinds):
            return True
        if not kinds.isdisjoint((list, tuple)):
            stack += [item for item in items if type(item) in (list, tuple)]
    return False


def _leaves(pytree: Any) -> Iterator[Any]:
    stack = [pytree]
    while stack:
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            stack += item
        else:
            yield item


def _dtype_of_nested(pytree: Any) -> DType:
    """Return the common dtype of the tensors in a pytree, and of the numbers among them."""
    found: DType | None = None
    numbers = []
    for leaf in _leaves(pytree):
        if isinstance(leaf, (Tensor, np.ndarray, np.generic)) and not getattr(leaf, "is_weak", False):
            dtype = as_dtype(leaf.dtype)
            found = dtype if found is None else promote(found, dtype)
        else:
            numbers.append((False, 0, 0.0, 0j)[category(leaf.dtype)] if isinstance(leaf, Tensor) else leaf)
    for number in numbers:
        if type(number) not in (bool, int, float, complex):
            fail(DTypeError, f"a {type(number).__name__} among tensors", "Tensors hold numbers.")
        found = promote_scalar(found if found is not None else np.dtype(bool), number)
    assert found is not None
    return found


def _stacked(pytree: Any, dtype: DType) -> Tensor:
    """Return the tensors and numbers in nested lists side by side, as one tensor."""
    parts = [_stacked(x, dtype) if isinstance(x, (list, tuple)) else asarray(x, dtype=dtype) for x in pytree]
    if not parts:
        return wrap(np.zeros((0,), dtype))
    for i, part in enumerate(parts):
        if part.shape != parts[0].shape:
            fail(
                ShapeError,
                f"a ragged nested list: element 0 has shape {parts[0].shape}, element {i} has shape {part.shape}",
                "Every list at one depth must have the same length. Pad the short ones, or keep a list of tensors.",
            )
    out: Tensor = _table("stack").front(*parts, axis=-1 - parts[0].ndim)
    return out


def asarray(data: Any, dtype: Any = None, copy: bool | None = None, device: Any = None) -> Tensor:
    """Return a tensor of `data` (Array API).

    A tensor is returned as it is where nothing has to change. Tensors in nested lists are put side by
    side as :func:`wengert.stack` does, so gradients flow to them; numbers among them take their dtype.

    A NumPy array is copied unless nobody can write to its memory (it is read-only, and not a view of
    what is not) or `copy=False`: a tensor is a value, and a writeable array could change it behind its
    back. With `copy=False` you promise not to write to it any more.

    `device` is where to place it; see :meth:`Tensor.to`. None: where `data` is.

    Raises ShapeError, DTypeError; ValueError where `copy=False` cannot be held.

    >>> import wengert as wg
    >>> wg.asarray([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if device is not None:
        placed: Tensor = asarray(data, dtype, copy).to_device(str(device))
        return placed
    if dtype is None and type(data) is ndarray and data.dtype in NATIVE:
        array = data if copy is False or (copy is None and is_frozen(data)) else data.copy()
        own = NATIVE[data.dtype]
        return wrap(array if array.dtype is own else array.view(own))
    want = None if dtype is None else as_dtype(dtype)
    if isinstance(data, (Tensor, Dim)):
        given: Tensor = data if isinstance(data, Tensor) else _table("size").front(dim=data)
        if given.is_weak:
            number: Any = given
            given = number.strong() if want is None else number.wide()
        if want is None or want == given.dtype:
            if not copy:
                return given
            is_there = isinstance(given._array, Elsewhere) and not given.requires_grad
            copied: Tensor = like(given, wrap(given._array.copy())) if is_there else _table("copy")(given)
            return copied
        if copy is False:
            raise ValueError(f"a copy is needed to convert {given.dtype} to {want}")
        out: Tensor = _table("cast").front(given, dtype=want)
        return out
    if isinstance(data, (list, tuple)) and _holds_tensor(data):
        if copy is False:
            raise ValueError("a copy is needed to put tensors side by side")
        return _stacked(data, want if want is not None else _dtype_of_nested(data))
    value = to_numpy(data)
    native = want if want is not None else dtype_for(data, value)
    if value.dtype != native:
        if copy is False:
            raise ValueError(f"a copy is needed to convert {value.dtype} to {native}")
        value = converted(value, native)
    elif (value is data or value.base is not None) and (copy or (copy is None and not is_frozen(value))):
        value = value.copy()
    if value.dtype is not native:  # one of equal dtypes, such as unpickling makes
        value = value.view(native)
    return wrap(value)
