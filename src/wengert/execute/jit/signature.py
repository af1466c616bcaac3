"""Signatures of calls: the arguments' leaves, which of them are inputs, and the key of the program that fits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core import tree
from ...core.arrays import refuse_subclass
from ...core.elsewhere import Elsewhere, as_data
from ...core.errors import DTypeError, FeedError, GraphError, WengertError, fail, warn
from ...core.node import Hooked
from ...core.ops.op import LEAF
from ...core.spec import Spec, as_dtype
from ...core.state.cached import cached_property
from ...core.state.capture import open_variables
from ...core.storage import strides_of, window_of
from ...core.tensor import Tensor, depends_on_open, wrap
from ...core.tree import Structure
from .capture.captured import FUNCTIONS, SCALARS, exact

_PYTHON = {float: np.dtype(np.float64), int: np.dtype(np.int64), complex: np.dtype(np.complex128)}


# NumPy's flags: elements in C order, at addresses that suit them.
PLAIN = 0x0001 | 0x0100


def as_array(leaf: Any) -> Any:
    """Return an argument as an aligned array of a native dtype; a Python number in Python's own dtype.

    What is on a device is brought here; what is not here as a whole is left to whoever can compute with it.
    """
    dtype = _PYTHON.get(type(leaf))
    if dtype is not None:
        return np.asarray(leaf, dtype)
    a = as_data(leaf)
    if isinstance(a, Elsewhere) and a.place is not None:
        a = a.fetched("a program of the host's")
    if not a.dtype.isnative:
        return a.astype(a.dtype.newbyteorder("="))
    return a if a.flags.num & PLAIN == PLAIN else np.array(a, order="C")


def as_fed(x: Any) -> Any:
    """Return what a program is fed for a tensor's value: an array, or what stands for one that is elsewhere."""
    return x if isinstance(x, Elsewhere) else as_array(x)


class Call(NamedTuple):
    """The arguments of a call, taken apart.

    `key` tells calls apart that need different programs, but for what is in objects with state
    (modules, optimisers, functions): those are the `owners`, by their positions. `positions` are the leaves that
    become inputs.
    """

    leaves: list[Any]
    structure: Structure
    key: tuple[Any, ...]
    positions: tuple[int, ...]
    owners: tuple[tuple[int, Any], ...]

    @property
    def outline(self) -> Call:
        """The call without what its arguments hold: of them, a program keeps only the numbers."""
        leaves = [x if isinstance(x, (int, float, complex)) else None for x in self.leaves]
        return self._replace(leaves=leaves, owners=())


class CallAgain(BaseException):
    """A signal: what is known of the function changed, so that the call is examined again from the beginning.

    No error: what catches errors in the traced function lets it pass.
    """


class Raised(CallAgain):
    """A signal: the function raised an error while it was traced, and its effects before that are to be made."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Fix(CallAgain):
    """A signal: shapes depend on values of tensors from outside the function, which become constants."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors = tensors


def is_owner(x: Any) -> bool:
    """Return whether an argument is an object that the function reads and writes, not a pytree of values."""
    kind = type(x)
    return hasattr(kind, "named_parameters") or hasattr(kind, "__jit_cells__")


def is_searched(x: Any) -> bool:
    """Return whether an argument is an object equal only to itself: what it reaches is what it is."""
    own = getattr(type(x), "__hash__", None)
    return isinstance(x, FUNCTIONS) or (own == object.__hash__ and not isinstance(x, SCALARS))


class Numbers:
    """The Python numbers among the arguments that are inputs, by the leaf's index in a structure.

    Floats and complex numbers are, unless tracing with them failed; an int is once it was seen to change.
    """

    def __init__(self) -> None:
        self.fixed: set[tuple[str, int]] = set()
        self.moving: set[tuple[str, int]] = set()
        self._trial: set[tuple[str, int]] = set()

    def is_input(self, kind: type, where: tuple[str, int]) -> bool:
        if kind is int:
            return where in self.moving and where not in self.fixed
        return (kind is float or kind is complex) and where not in self.fixed

    def notice(self, call: Call, others: Sequence[Call]) -> bool:
        """Record ints that are not what they were in another call; return whether any became an input."""
        text = call.key[0]
        found = False
        for i, leaf in enumerate(call.leaves):
            where = (text, i)
            if type(leaf) is not int or where in self.moving or where in self.fixed:
                continue
            if any(o.key[0] == text and type(o.leaves[i]) is int and o.leaves[i] != leaf for o in others):
                self.moving.add(where)
                found = True
        return found

    def failed(self, call: Call) -> bool:
        """Record that tracing failed; return whether to try again with those numbers as parts of the program."""
        inputs = {(call.key[0], i) for i in call.positions if type(call.leaves[i]) in (int, float, complex)}
        if not inputs:  # they are not to blame
            self.fixed -= self._trial
        self._trial = inputs
        self.fixed |= inputs
        return bool(inputs)

    def succeeded(self) -> None:
        """Record that tracing went well: what was tried stays."""
        self._trial = set()


def take_apart(args: tuple[Any, ...], kwargs: dict[str, Any], static: Statics, numbers: Numbers, name: str) -> Call:
    """Return a call's leaves and key. Raises DTypeError."""
    args, kwargs = static.split(args, kwargs)
    leaves, structure = tree.flatten((args, kwargs), is_owner)
    if any(isinstance(x, Elsewhere) for x in leaves):
        leaves = [wrap(x) if isinstance(x, Elsewhere) else x for x in leaves]
    text = repr(structure)
    key: list[Any] = [text]
    positions: list[int] = []
    owners: list[tuple[int, Any]] = []
    seen: dict[int, int] = {}
    for i, leaf in enumerate(leaves):
        kind = type(leaf)
        if isinstance(leaf, Tensor):
            first = seen.setdefault(id(leaf), i)
            node = leaf.node
            # What depends on a transform's variables must not be cut off from them inside.
            own = 2 if open_variables and depends_on_open(leaf) else 3
            tracked = 0 if node is None or not node.requires_grad else 1 if node.op is LEAF else own
            value = window_of(leaf)
            place = None if type(value) is np.ndarray or value is None else value.place
            same, lies = first if first != i else -1, strides_of(leaf)
            key.append((kind, leaf.spec.shape, leaf.spec.dtype, tracked, same, place, lies))
            positions.append(i)
            if tracked == 1 and type(node.saved) is Hooked:  # type: ignore[union-attr]
                owners += [(i, hook) for hook in node.saved.hooks.values()]  # type: ignore[union-attr]
        elif isinstance(leaf, (np.ndarray, np.generic)):
            if kind is not np.ndarray:
                refuse_subclass(leaf, "a compiled function")
            key.append((Tensor, leaf.shape, as_dtype(leaf.dtype), 0, -1, None, None))
            positions.append(i)
        elif isinstance(leaf, Spec):  # what a tensor will be
            key.append((Tensor, leaf.shape, leaf.dtype, 0, -1, None, None))
            positions.append(i)
        elif kind in (float, int, complex) and numbers.is_input(kind, (text, i)):
            key.append(kind)
            positions.append(i)
        elif is_owner(leaf) or is_searched(leaf):
            key.append(kind)  # what is in it is found by the search around the function
            owners.append((i, leaf))
        else:
            try:
                hash(leaf)
            except TypeError:
                fail(
                    DTypeError,
                    f"{name}: an argument of type {kind.__name__} is neither a tensor, an array, a number nor hashable",
                    "Programs are told apart by what is no tensor among the arguments. Pass a tensor, give the class "
                    "__hash__ and __eq__, or register it as a pytree (wg.tree.register); a hashable argument that "
                    "holds tensors is named by static_argnums or static_argnames.",
                )
            key.append((kind, exact(leaf)))
    return Call(leaves, structure, tuple(key), tuple(positions), tuple(owners))


class Statics:
    """The arguments that `static_argnums` and `static_argnames` name: part of the program, by value."""

    def __init__(self, fn: Callable[..., Any], numbers: Any, names: Any) -> None:
        self.numbers = frozenset(as_tuple(numbers))
        self.names = frozenset(as_tuple(names))
        self._fn = fn
        known = self._signature if self.numbers or self.names else None
        if known is None:
            return
        unknown = self.names - known.keys()
        open_keywords = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values())
        if unknown and not open_keywords:
            fail(
                GraphError,
                f"jit: static_argnames names {', '.join(sorted(map(repr, unknown)))}, which {_name(fn)} does not take",
                f"Its parameters are: {', '.join(known)}.",
            )
        # A name given by number may be passed by keyword, and the other way round.
        self.names |= {self.parameters[n] for n in self.numbers if 0 <= n < len(self.parameters)}
        self.numbers |= {self.parameters.index(n) for n in self.names if n in self.parameters}

    @cached_property
    def _signature(self) -> Mapping[str, inspect.Parameter] | None:
        """The function's parameters, or None where it does not tell; most functions are never asked."""
        try:
            return inspect.signature(self._fn).parameters
        except (TypeError, ValueError):
            return None

    @cached_property
    def parameters(self) -> list[str]:
        """The names of those that may be given by position."""
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [p.name for p in (self._signature or {}).values() if p.kind in kinds]

    def split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with the static ones wrapped."""
        if not self.numbers and not self.names:
            return args, kwargs
        numbers = {n % len(args) if args and n < 0 else n for n in self.numbers}
        args = tuple(Static(a) if i in numbers else a for i, a in enumerate(args))
        kwargs = {k: Static(v) if k in self.names else v for k, v in kwargs.items()}
        return args, kwargs


class Static:
    """A static argument: a leaf whatever it holds, known by its value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value
        try:
            hash(value)
        except TypeError:
            fail(
                DTypeError,
                f"jit: a static argument of type {type(value).__name__} is not hashable",
                "The programs of different static values are told apart by their hash: pass a tuple for a list.",
            )

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and type(self.value) is type(other.value) and self.value == other.value


def argument_numbers(structure: Structure, parameters: Sequence[str]) -> list[int]:
    """Return for every leaf of a call the number of its argument; -1 for keywords without a number."""
    positional, keywords = structure.children
    numbers = {name: i for i, name in enumerate(parameters)}
    found = [i for i, child in enumerate(positional.children) for _ in range(child.count)]
    for name, child in zip(keywords.aux, keywords.children, strict=True):
        found += [numbers.get(name, -1)] * child.count
    return found


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Return an index or name, several of them, or None, as a tuple."""
    if value is None:
        return ()
    return (value,) if isinstance(value, (int, str)) else tuple(value)


def _name(fn: Any) -> str:
    return getattr(fn, "__name__", type(fn).__name__)


def arrangement(call: Call) -> Callable[[dict[int, Any]], tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return the function that arranges the call's arguments again, with some leaves replaced."""

    def arrange(found: dict[int, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        filled: Sequence[Any] = [
            found[i] if i in found else leaf.value if isinstance(leaf, Static) else leaf
            for i, leaf in enumerate(call.leaves)
        ]
        args, kwargs = tree.unflatten(call.structure, filled)
        return args, kwargs

    return arrange


# -- calls without a program


def run_as_written(
    fn: Callable[..., Any], name: str, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a call without a program, after its trace raised: what it does before the error is done.

    Raises what the trace raised where the function cannot run so: its values are elsewhere. Raises FeedError, a
    TypeError, for arguments that the function does not take.
    """
    try:
        result = fn(*args, **kwargs)
    except WengertError as e:
        if e.is_elsewhere:
            raise error from None
        raise
    except TypeError:
        _refuse_unfit(fn, name, args, kwargs)
        raise
    warn(
        f"{name} raised {type(error).__name__} while it was traced, and nothing when it ran: {error}\n"
        "It runs without being compiled in such calls."
    )
    return result


def _refuse_unfit(fn: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise FeedError if a function does not take these arguments; it says which it takes."""
    try:
        takes = inspect.signature(fn)
    except (TypeError, ValueError):
        return  # a function of C that does not tell
    try:
        takes.bind(*args, **kwargs)
    except TypeError as e:
        fail(FeedError, f"{name}: {e}", f"It takes {takes}.")
