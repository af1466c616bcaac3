"""Operators of a program's own, under PyTorch's path: `torch.library`.

Such an operator is a Python function that is called as it stands, be it written with NumPy. Its derivative is
registered beside it, and for compiled functions one that gives tensors of the results' shapes and dtypes.

>>> import numpy as np
>>> import wengert.torch as torch
>>> @torch.library.custom_op("mine::cube", mutates_args=())
... def cube(x: torch.Tensor) -> torch.Tensor:
...     return torch.from_numpy(np.asarray(x) ** 3)
>>> _ = cube.register_fake(lambda x: torch.empty_like(x))
>>> cube.register_autograd(
...     lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g,
...     setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
... )
>>> x = torch.tensor([2.0], requires_grad=True)
>>> torch.ops.mine.cube(x).backward()
>>> x.grad
tensor([12.])
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import wengert as wg

from ...core import tree
from ...core.errors import GradientError, GraphError, fail
from ...core.tensor import Tensor as Plain
from ...core.tensor import asarray
from .._ops import OPERATORS, Unmade, unmade
from ..absent import names_of
from ..autograd.function import Function
from ..namespace import as_torch, tensor_of
from ..refusing import refused


class CustomOpDef:
    """An operator that :func:`custom_op` has made: called as its function is, it has what is registered for it."""

    def __init__(self, name: str, fn: Callable[..., Any], mutates_args: Iterable[str] | str) -> None:
        functools.update_wrapper(self, fn, updated=())
        self._name, self._fn, self._mutates = name, fn, tuple(mutates_args)
        self._signature = inspect.signature(fn)
        self._fake: Callable[..., Any] | None = None
        self._function: type[Function] | None = None
        self._is_composite = False

    @property
    def default(self) -> CustomOpDef:
        """The operator itself, as its only overload."""
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the operator. Raises GradientError where a gradient is asked for and none is registered."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.args
        if self._is_composite:
            return self._fn(*given)
        if not self._mutates and any(isinstance(a, Plain) and a.requires_grad for a in tree.flatten(given)[0]):
            return self._derived().apply(*given)
        with wg.no_grad():
            return self._run(given)

    def _run(self, given: tuple[Any, ...]) -> Any:
        leaves, structure = tree.flatten(given)
        at = [i for i, a in enumerate(leaves) if isinstance(a, Plain)]
        if self._fake is None or not any(leaves[i].is_abstract for i in at):
            return self._fn(*tree.map(lambda a: a.detach() if isinstance(a, Plain) and a.requires_grad else a, given))
        if self._mutates:
            fail(GraphError, f"{self._name}, which writes to its arguments, in a compiled function", "Call it outside.")
        specs = tree.map(lambda t: t.spec, self._fake(*given))

        def run(*arrays: Any) -> Any:
            filled = list(leaves)
            for i, a in zip(at, arrays, strict=True):
                filled[i] = tensor_of(asarray(a, copy=True))
            return tree.map(lambda t: t.detach().numpy(), self._fn(*tree.unflatten(structure, filled)))

        run.__name__ = self._name
        return as_torch(wg.callback(run, specs, *(leaves[i].detach() for i in at)))

    def _derived(self) -> type[Function]:
        if self._function is None:
            advice = f"Write {self.__name__}.register_autograd(backward)."  # type: ignore[attr-defined]
            self.register_autograd(refused(self._name, "no derivative is registered for it", advice, GradientError))
        return self._function  # type: ignore[return-value]

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Register the derivative: `backward(ctx, *grads)` gives a gradient, or None, for each argument.

        `setup_context(ctx, inputs, output)` leaves for it what it needs, by `ctx.save_for_backward`.
        """
        own: dict[str, Any] = {
            "forward": staticmethod(lambda *given: self._run(given)),
            "setup_context": staticmethod(setup_context or (lambda ctx, inputs, output: None)),
            "backward": staticmethod(backward),
            "__doc__": f"The operator {self._name} with its derivative.",
        }
        self._function = type(self._name.partition("::")[2], (Function,), own)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Register what gives tensors of the results' shapes and dtypes, for compiled functions. Returns it."""
        self._fake = fn
        return fn

    def register_kernel(self, device_types: Any, fn: Callable[..., Any] | None = None, /) -> Any:
        """Register the function for a device: on the processor it takes the place of the operator's."""
        if fn is None:
            return functools.partial(self.register_kernel, device_types)
        if device_types is None or "cpu" in ([device_types] if isinstance(device_types, str) else device_types):
            self.implement(fn)
        return fn

    def implement(self, fn: Callable[..., Any], composite: bool = False) -> None:
        """Have another function; a composite one is made of functions that have derivatives."""
        self._fn, self._signature, self._is_composite = fn, inspect.signature(fn), composite


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Iterable[str] | str,
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Return a function as an operator, which is also `torch.ops.<namespace>.<name>`; without one, a decorator.

    Parameters
    ----------
    name: "namespace::name".
    mutates_args: the names of the arguments that it writes to; such an operator has no derivative.
    device_types, schema, tags: not read: there is the processor, and the function's own signature.

    Raises GraphError for a name without a namespace.
    """
    if name.count("::") != 1:
        fail(GraphError, f"custom_op({name!r})", 'The name is "namespace::name".')
    if fn is None:
        return functools.partial(custom_op, name, mutates_args=mutates_args)
    made = OPERATORS[name] = CustomOpDef(name, fn, mutates_args)
    return made


def _found(op: Any) -> CustomOpDef:
    made = op if isinstance(op, CustomOpDef) else OPERATORS.get(op)
    if not isinstance(made, CustomOpDef):
        fail(GraphError, f"there is no operator {op!r}", "Make it with torch.library.custom_op.")
    return made


def register_fake(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None, _stacklevel: int = 1) -> Any:
    """Register what gives tensors of an operator's results' shapes and dtypes; see :class:`CustomOpDef`."""
    if func is None:
        return functools.partial(register_fake, op)
    return _found(op).register_fake(func)


def register_autograd(op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Any = None) -> None:
    """Register an operator's derivative; see :class:`CustomOpDef`. Raises GraphError for an unknown operator."""
    _found(op).register_autograd(backward, setup_context=setup_context)


def register_kernel(op: Any, device_types: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """Register an operator's function for a device; see :class:`CustomOpDef`."""
    return _found(op).register_kernel(device_types, func) if func else _found(op).register_kernel(device_types)


def _name_of(op: Any) -> str:
    return op._name if isinstance(op, CustomOpDef) else op.name if isinstance(op, Unmade) else str(op)


class Library:
    """Operators of a namespace that are declared by schemas, and functions for them.

    >>> import wengert.torch as torch
    >>> mine = torch.library.Library("docs", "DEF")
    >>> mine.define("twice(Tensor x) -> Tensor")
    'docs::twice'
    >>> mine.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
    >>> torch.ops.docs.twice(torch.tensor(3.0))
    tensor(6.)

    Parameters
    ----------
    ns: the namespace. kind: "DEF", "FRAGMENT" or "IMPL".
    dispatch_key: for what :meth:`impl` gives functions, unless told otherwise.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Declare an operator by the name that a schema begins with, and return "namespace::name".

        Raises GraphError where it is called before a function for the processor is there.
        """
        return _declared(f"{self.ns}::{schema.partition('(')[0].partition('.')[0].strip()}")

    def impl(
        self, op_name: Any, fn: Any, dispatch_key: str = "", *, with_keyset: bool = False, allow_override: bool = False
    ) -> None:
        """Give an operator a function: for the processor, for shapes alone ("Meta"), or one made of other functions.

        Those for other devices, for autocast and for tracing are not used.
        """
        name = _name_of(op_name)
        name = name if "::" in name else f"{self.ns}::{name}"
        key = dispatch_key or self.dispatch_key
        made = _found(_declared(name))
        if key == "Meta":
            made.register_fake(fn)
        elif key in ("", "CPU", "CompositeExplicitAutograd"):
            made.implement(fn)
        elif key in ("CompositeImplicitAutograd", "Autograd", "AutogradCPU"):
            made.implement(fn, composite=True)

    def _destroy(self) -> None:
        for name in [n for n in OPERATORS if n.startswith(f"{self.ns}::")]:
            del OPERATORS[name]


def _declared(name: str) -> str:
    if name not in OPERATORS:
        OPERATORS[name] = CustomOpDef(name, unmade(name), ())
    return name


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Declare an operator, "namespace::name", by a schema; see :class:`Library`."""
    _declared(qualname)


def impl(qualname: str, types: Any, func: Callable[..., Any] | None = None, *, lib: Any = None) -> Any:
    """Give a declared operator a function for devices, "cpu" or "default"; without one, a decorator."""
    if func is None:
        return functools.partial(_implemented, qualname, types)
    return _implemented(qualname, types, func)


def _implemented(qualname: str, types: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    named = {t.lower() for t in ([types] if isinstance(types, str) else types)}
    if named & {"cpu", "default", "compositeexplicitautograd"}:
        _found(qualname).implement(func)
    elif named & {"compositeimplicitautograd", "autograd"}:
        _found(qualname).implement(func, composite=True)
    return func


impl_abstract = register_fake

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "impl",
    "impl_abstract",
    "register_autograd",
    "register_fake",
    "register_kernel",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
