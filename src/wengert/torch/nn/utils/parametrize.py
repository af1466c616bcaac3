"""Parameters that are computed from others each time they are read.

A module with such a parameter is of a class of its own, made from the module's: its parameter is a property there.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import wengert as wg

from ....core.errors import DTypeError, GraphError, ShapeError, StateError, fail
from ...absent import names_of
from ..layers.container import ModuleDict, ModuleList
from ..module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

# Blocks of `cached` that are open, and what they have computed so far.
_BLOCKS: list[None] = []
_CACHE: dict[tuple[int, str], Any] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrised tensor once within the block, however often it is read.

    >>> import wengert.torch as torch
    >>> from wengert.torch.nn.utils import parametrize
    >>> with parametrize.cached():
    ...     out = torch.nn.Linear(2, 3)(torch.ones(2))
    """
    _BLOCKS.append(None)
    try:
        yield
    finally:
        _BLOCKS.pop()
        if not _BLOCKS:
            _CACHE.clear()


def _keep(module: Any, name: str, value: Any) -> None:
    """Give a module a tensor under a name: as a parameter where it is one, else as a buffer."""
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


class ParametrizationList(ModuleList):
    """The modules that a tensor goes through, one after the other, and what goes in.

    That is `original`, or `original0`, `original1` and so on where the first module takes several tensors.

    Parameters
    ----------
    modules: the modules, with a `forward` and perhaps a `right_inverse` each.
    original: the tensor that is parametrised: what comes out at first, where every module has a `right_inverse`.
    unsafe: allow that shape or dtype change.
    """

    def __init__(self, modules: Sequence[Any], original: Any, unsafe: bool = False) -> None:
        if not modules:
            fail(GraphError, "ParametrizationList of no modules")
        super().__init__(modules)
        self.unsafe = unsafe
        value: Any = original.detach()
        with wg.no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with suppress(NotImplementedError):
                        value = module.right_inverse(value)
        self.is_tensor = isinstance(value, wg.Tensor)
        if not self.is_tensor and not (isinstance(value, Sequence) and all(isinstance(v, wg.Tensor) for v in value)):
            fail(
                DTypeError,
                f"a right_inverse gives a {type(value).__name__}",
                "It gives a Tensor or a Sequence of such.",
            )
        learned = isinstance(original, Parameter)
        if self.is_tensor:
            if not unsafe and value.dtype != original.dtype:
                fail(ShapeError, f"a right_inverse gives {value.dtype} for {original.dtype}", "Or give unsafe=True.")
            if learned and tuple(value.shape) == tuple(original.shape):
                original.assign_(value)
                _keep(self, "original", original)
            else:
                _keep(self, "original", Parameter(value, original.requires_grad) if learned else value)
            self.ntensors = 1
        else:
            self.ntensors = len(value)
            for i, part in enumerate(value):
                kept = Parameter(part, original.requires_grad and part.dtype.kind in "fc") if learned else part
                _keep(self, f"original{i}", kept)
        if not unsafe:
            self._check(original)

    def _check(self, original: Any) -> None:
        with wg.no_grad():
            found = self()
        _check_tensor(found)
        if tuple(found.shape) != tuple(original.shape) or found.dtype != original.dtype:
            fail(
                ShapeError,
                f"a parametrization gives {found.spec} in the place of {original.spec}",
                "Give unsafe=True, where shape and dtype may change.",
            )

    def _originals(self) -> list[Any]:
        names = ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    def right_inverse(self, value: Any) -> None:
        """Set the originals so that the given value comes out, by the modules' inverses."""
        with wg.no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    fail(GraphError, f"{type(module).__name__} has no right_inverse", "It says how to assign a value.")
                value = module.right_inverse(value)
            for held, given in zip(self._originals(), (value,) if self.is_tensor else value, strict=True):
                held.assign_(given)

    def forward(self) -> Any:
        """Return the tensor that comes out."""
        first, *others = list(self)
        value = first(*self._originals())
        for module in others:
            value = module(value)
        return value


def _check_tensor(found: Any) -> None:
    if not isinstance(found, wg.Tensor):
        fail(DTypeError, f"a parametrization gives a {type(found).__name__}", "It must return a tensor.")


def _property(name: str) -> property:
    def read(self: Any) -> Any:
        held = self.parametrizations[name]
        if not _BLOCKS:
            return held()
        key = (id(self), name)
        if key not in _CACHE:
            _CACHE[key] = held()
        return _CACHE[key]

    def assign(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(read, assign)


def _own_class(module: Any) -> None:
    """Give a module a class of its own, in which parametrised tensors are properties."""
    cls: Any = type(module)

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if isinstance(getattr(type(self), name, None), property):
            object.__setattr__(self, name, value)
        else:
            cls.__setattr__(self, name, value)

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        fail(
            StateError,
            f"pickling of a parametrised {cls.__name__}",
            "Its class is made as the program runs. Save its state_dict(), and parametrise a module before loading it.",
        )

    def __deepcopy__(self: Any, memo: Any) -> Any:
        out = memo[id(self)] = cls.__new__(cls)
        out.__dict__.update(copy.deepcopy(self.__dict__, memo))
        _own_class(out)  # another one: taking a parametrization away changes the class
        for name in out.parametrizations:
            setattr(type(out), name, _property(name))
        return out

    own = {"__setattr__": __setattr__, "__reduce_ex__": __reduce_ex__, "__deepcopy__": __deepcopy__}
    made = type(f"Parametrized{cls.__name__}", (cls,), {**own, "__doc__": cls.__doc__})
    object.__setattr__(module, "__class__", made)


def register_parametrization(module: Any, tensor_name: str, parametrization: Any, *, unsafe: bool = False) -> Any:
    """Let a parameter or buffer be what a module makes of another each time it is read; return the module.

    Parameters
    ----------
    module: the module that has the tensor.
    tensor_name: its name.
    parametrization: a module whose `forward` gives the tensor. With a `right_inverse` the tensor can be assigned, and
        the first starts as it is; the others take what the one before gives.
    unsafe: allow that shape or dtype change.

    Raises GraphError where there is no such tensor, ShapeError.

    >>> import wengert.torch as torch
    >>> class Symmetric(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = torch.nn.utils.parametrize.register_parametrization(torch.nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        held = module.parametrizations[tensor_name]
        if unsafe:
            held.unsafe = True
        elif not held.unsafe:
            with wg.no_grad():
                before = getattr(module, tensor_name)
                after = parametrization(before)
            _check_tensor(after)
            if tuple(after.shape) != tuple(before.shape) or after.dtype != before.dtype:
                fail(ShapeError, f"a parametrization gives {after.spec} in the place of {before.spec}")
            if hasattr(parametrization, "right_inverse"):
                with wg.no_grad():
                    back = parametrization.right_inverse(after)
                if not isinstance(back, wg.Tensor):
                    fail(ShapeError, f"right_inverse must return a tensor, not a {type(back).__name__}")
                if tuple(back.shape) != tuple(before.shape) or back.dtype != before.dtype:
                    fail(ShapeError, f"a right_inverse gives {back.spec} in the place of {before.spec}")
        held.append(parametrization)
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        fail(GraphError, f"{type(module).__name__} has no parameter or buffer {tensor_name!r}")
    original = getattr(module, tensor_name)
    held = ParametrizationList([parametrization], original, unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _own_class(module)
        module.parametrizations = ModuleDict()
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = held
    return module


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Return whether a module has parametrised tensors, or one of that name."""
    held = module.__dict__.get("parametrizations")
    if not isinstance(held, ModuleDict):
        return False
    return len(held) > 0 if tensor_name is None else tensor_name in held


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Let a tensor be an ordinary one again: as it was computed last, or with `leave_parametrized=False` its original.

    Returns the module. Raises GraphError for a tensor that is not parametrised, and for several originals.
    """
    if not is_parametrized(module, tensor_name):
        fail(GraphError, f"{type(module).__name__} has no parametrised {tensor_name!r}")
    held = module.parametrizations[tensor_name]
    if leave_parametrized:
        value = getattr(module, tensor_name).detach()
        original = held.original if held.is_tensor else None
        if original is not None and tuple(original.shape) == tuple(value.shape) and original.dtype == value.dtype:
            original.assign_(value)
        elif any(isinstance(o, Parameter) for o in held._originals()):
            original = Parameter(value, any(o.requires_grad for o in held._originals()))
        else:
            original = value
    elif held.is_tensor:
        original = held.original
    else:
        fail(GraphError, f"{tensor_name!r} has {held.ntensors} originals", "Give leave_parametrized=True.")
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if not len(module.parametrizations):
        del module.parametrizations
        object.__setattr__(module, "__class__", type_before_parametrizations(module, made=True))
    _keep(module, tensor_name, original)
    return module


def type_before_parametrizations(module: Any, *, made: bool | None = None) -> type:
    """Return the class that a module had before tensors of it were parametrised."""
    is_made = is_parametrized(module) if made is None else made
    return type(module).__bases__[0] if is_made else type(module)


def transfer_parametrizations_and_params(from_module: Any, to_module: Any, tensor_name: str | None = None) -> Any:
    """Give a module the parametrizations of another, and their originals; return it. Raises GraphError."""
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        held = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            value = getattr(from_module, name).detach()
            _keep(to_module, name, Parameter(value) if isinstance(held._originals()[0], Parameter) else value)
        for parametrization in held:
            register_parametrization(to_module, name, parametrization, unsafe=held.unsafe)
        for mine, theirs in zip(to_module.parametrizations[name]._originals(), held._originals()):
            mine.assign_(theirs.detach())
    return to_module


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
