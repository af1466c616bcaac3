"""The names of `wengert.torch`: where functions with PyTorch's meaning are declared, and how they become methods.

A function takes PyTorch's parameters in PyTorch's order and under its names. `@function()` puts it at the top level and
makes it a method of :class:`wengert.torch.Tensor`; its tensors may be NumPy arrays and numbers where PyTorch takes
tensors only, and its results are tensors of this namespace.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any, Literal, NoReturn, TypeVar

import numpy as np

from ..core.errors import DTypeError, GradientError, ShapeError, fail, is_internal
from ..core.mode import get_mode
from ..core.ops.autocast import computed_in
from ..core.ops.facets import Autocast
from ..core.ops.op import compiled
from ..core.ops.record import caller
from ..core.spec import category
from ..core.standins import WeakTensor
from ..core.state.blocks import to_come
from ..core.storage import is_shared
from ..core.tensor import Tensor as Plain
from ..core.tensor import asarray, of_class
from ..ops.index.inplace import check_write, update, write
from .tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

# What `wengert.torch` has at its top level beside the names of `wengert`.
FUNCTIONS: dict[str, Any] = {}


def function(
    *names: str,
    method: bool = True,
    top: bool = True,
    out: bool = False,
    factors: tuple[str, ...] = (),
    autocast: Autocast | Literal["operands", "widest"] | None = None,
) -> Callable[[F], F]:
    """Return a decorator: offer a function under its name and these, at the top level and as a method.

    With `out` it takes the keyword `out`: a tensor (or as many as there are results) that is given the result. A
    parameter `dim` may also be called `axis`, and `keepdim` `keepdims`, as in NumPy. `factors` are keywords of numbers
    that old programs give before the tensors: `x.add(2, y)` is `x.add(y, alpha=2)`. `autocast` is the precision that
    PyTorch's autocast on CPUs gives it, where that of the ops that it is made of is another.
    """

    def declare(fn: F) -> F:
        made: Any = _fronted(fn, out, factors)
        if autocast is not None:
            made = computed_in(autocast, "torch")(made)
        for name in (fn.__name__, *names):
            if top:
                FUNCTIONS[name] = made
            if method:
                setattr(Tensor, name, made)
        return made  # type: ignore[no-any-return]

    return declare


def method(*names: str) -> Callable[[F], F]:
    """Return a decorator: make a function a method under its name and these."""
    return function(*names, top=False)


def tensor_of(x: Any) -> Tensor:
    """Return anything that PyTorch's functions or ours take as a tensor of this namespace."""
    if isinstance(x, Plain):
        if isinstance(x, Tensor):
            return x
        return of_class(Tensor, x.clone())  # type: ignore[no-any-return]
    return of_class(Tensor, asarray(x))  # type: ignore[no-any-return]


def as_torch(out: Any) -> Any:
    """Return what a function of Wengert's gave, with the new tensors in it as those of this namespace."""
    if isinstance(out, Plain):
        return of_class(Tensor, out)
    if isinstance(out, tuple):
        found = [as_torch(x) for x in out]
        return type(out)(*found) if hasattr(out, "_fields") else tuple(found)
    if isinstance(out, list):
        return [as_torch(x) for x in out]
    return out


def placed(out: Any) -> Tensor:
    """Return what a function gives as a tensor of this namespace, computed where the user's program called it.

    A number's function gave a number: it becomes a tensor of the default dtype, as PyTorch's are.
    """
    if not isinstance(out, Tensor):
        out = of_class(Tensor, out.strong() if isinstance(out, WeakTensor) else out.clone())
    if type(out) in to_come:
        return out  # type: ignore[no-any-return]
    node = out.node
    if node is not None and isinstance(node.code, CodeType) and is_internal(node.code.co_filename):
        node.code, node.offset = caller()
    return out  # type: ignore[no-any-return]


def all_placed(out: Any) -> Any:
    """Return several results, each `placed`."""
    found = [placed(x) for x in out]
    return type(out)(*found) if hasattr(out, "_fields") else tuple(found)


def give(out: Any, value: Any) -> Any:
    """Give `out` the value, as `out=` asks; it takes on another shape where it has to. Return `out`.

    Raises DTypeError for a value of a greater kind of number, GradientError for one that gradients flow through.
    """
    if isinstance(value, (tuple, list)):
        for o, v in zip(out, value, strict=True):
            give(o, v)
        return out
    check_out(out)
    if category(value.spec.dtype) > category(out.spec.dtype):
        fail(
            DTypeError,
            f"out= of {out.spec} for a result of {value.spec}",
            "A result is cast to a dtype of its kind of numbers or a greater one: give a tensor of its own dtype.",
        )
    if value.requires_grad and get_mode().grad:
        fail(GradientError, "out= where an argument requires gradients", "Assign the result to a name.")
    return fill_out(out, value.detach())


def check_out(out: Any) -> None:
    """Raise DTypeError where `out=` is no tensor, or one that requires gradients while operations are recorded."""
    if not isinstance(out, Plain):
        fail(DTypeError, f"out= is a {type(out).__name__}, not a tensor")
    if out.requires_grad and get_mode().grad:
        fail(DTypeError, "out= of a tensor that requires gradients", "Assign the result to a name.")


def fill_out(out: Any, value: Any) -> Any:
    """Give `out` the shape and the values of another tensor, in its own dtype. Return `out`.

    Raises ShapeError for another shape while other tensors share the memory of `out`.
    """
    check_write(out, "out=")
    if tuple(out.shape) != tuple(value.shape) and out.numel() and is_shared(out):
        fail(
            ShapeError,
            f"out= of {out.spec}, whose memory other tensors share, for a result of {value.spec}",
            "Give a tensor of the result's shape, or one of its own.",
        )
    write(out, value if value.spec.dtype == out.spec.dtype else value.astype(out.spec.dtype))
    return out


class _NoAxes(tuple[int, ...]):
    """The axes of a reduction of nothing: `axis=()`, as NumPy and Wengert mean it; PyTorch's `dim=()` is all."""

    __slots__ = ()


NO_AXES = _NoAxes()
# NumPy's names of parameters, which PyTorch takes too, and Wengert's own functions call tensors' methods with.
_NUMPY_NAMES = {"dim": "axis", "keepdim": "keepdims"}
_ABSENT: Any = type("Absent", (), {"__slots__": (), "__repr__": lambda self: "..."})()


def _numpy_axis(axis: Any) -> Any:
    return NO_AXES if type(axis) is tuple and not axis else axis


def _in_order(name: str, given: tuple[Any, ...], *factors: Any) -> tuple[Any, ...]:
    """Return the tensors of a call that gives numbers before tensors, then the factors that those numbers are.

    Raises TypeError for another number of tensors than the function takes.
    """
    tensors = tuple(x for x in given if isinstance(x, (Plain, np.ndarray)))
    numbers = tuple(x for x in given if not isinstance(x, (Plain, np.ndarray)))
    if len(numbers) > len(factors) or given[-1] is not tensors[-1]:
        raise TypeError(f"{name}() is given {len(given)} arguments: numbers stand before the tensor that they scale")
    return (*tensors, *numbers, *factors[len(numbers) :])


def _missing(function: str, parameter: str) -> NoReturn:
    raise TypeError(f"{function}() missing a required argument: {parameter!r}")


def _fronted(fn: Callable[..., Any], out: bool, factors: tuple[str, ...]) -> Callable[..., Any]:
    """Return the function with NumPy's names of its parameters, and with `out` where asked for, as keywords more.

    With `factors` it takes one argument more for each, in the order of :func:`_in_order`.

    The front is generated, so that nothing is packed on the way; one that adds nothing is the function itself.
    """
    # Of the function itself, not of what it wraps: one with other names for its parameters has more of them.
    signature = inspect.signature(fn, follow_wrapped=False)
    aliases = {
        name: also
        for name, also in _NUMPY_NAMES.items()
        if name in signature.parameters and also not in signature.parameters
    }
    if not out and not aliases:
        return fn
    given: list[str] = []
    passed: list[str] = []
    required: list[str] = []
    values: dict[str, Any] = {}
    star = absent = False
    for name, p in signature.parameters.items():
        if p.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        if p.kind is inspect.Parameter.VAR_POSITIONAL:
            given.append(f"*{name}")
            passed.append(f"*{name}")
            star = True
            continue
        if p.kind is inspect.Parameter.KEYWORD_ONLY and not star:
            given.append("*more" if factors else "*")
            star = True
        if p.default is not inspect.Parameter.empty:
            values[f"default_{name}"] = p.default
            given.append(f"{name}=default_{name}")
        elif name in aliases or (absent and not star):  # it may come under its other name, or follows one that may
            absent = True
            required.append(name)
            given.append(f"{name}=absent")
        else:
            given.append(name)
        passed.append(f"{name}={name}" if star else name)
    given += [] if star else ["*"]
    given += [f"{also}=absent" for also in aliases.values()] + (["out=None"] if out else [])
    given += [f"**{p.name}" for p in signature.parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD]
    passed += [f"**{p.name}" for p in signature.parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD]
    lines = [
        f"if {also} is not absent: {name} = {f'numpy_axis({also})' if also == 'axis' else also}"
        for name, also in aliases.items()
    ]
    lines += [f"if {name} is absent: missing({fn.__name__!r}, {name!r})" for name in required]
    if factors:
        tensors = [name for name in passed if "=" not in name]
        named = ", ".join((*tensors, *factors))
        lines.append(
            f"if more: {named} = in_order({fn.__name__!r}, ({', '.join(tensors)}, *more), {', '.join(factors)})"
        )
    lines += [f"if out is not None: return give(out, fn({', '.join(passed)}))"] if out else []
    lines += [f"return fn({', '.join(passed)})"]
    values |= {"fn": fn, "give": give, "absent": _ABSENT, "numpy_axis": _numpy_axis, "missing": _missing}
    values |= {"in_order": _in_order}
    text = "\n        ".join(lines)
    source = f"def make({', '.join(values)}):\n    def front({', '.join(given)}):\n        {text}\n    return front\n"
    namespace: dict[str, Any] = {}
    exec(compiled(source), fn.__globals__, namespace)
    front: Callable[..., Any] = namespace["make"](**values)
    functools.update_wrapper(front, fn)
    signature = inspect.signature(fn)
    shown = list(signature.parameters.values())
    if out:
        extra = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
        at = len(shown) - (bool(shown) and shown[-1].kind is inspect.Parameter.VAR_KEYWORD)
        shown.insert(at, extra)
    front.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    return front


def in_place(name: str, *aliases: str) -> None:
    """Make `name_` a method: the tensor takes the value of the function `name` of it, and is returned."""
    compute = getattr(Tensor, name)

    def run(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return update(self, f"{name}_", lambda old: placed(compute(old, *args, **kwargs)))  # type: ignore[return-value]

    run.__doc__ = f"Give the tensor the value of `{name}` of it, and return it. Raises WriteError, GradientError."
    for each in (name, *aliases):
        made = run
        made.__name__ = made.__qualname__ = f"{name}_"
        setattr(Tensor, f"{each}_", made)
