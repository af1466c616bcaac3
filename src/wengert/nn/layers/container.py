"""Containers: `Sequential`, `ModuleList`, `ModuleDict`, `ParameterList`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from reprlib import recursive_repr
from typing import Any, Generic, TypeVar, cast, overload

from ...core.errors import DTypeError, RangeError, StateError, fail
from ..module import Module, _render
from ..parameter import Parameter

T = TypeVar("T")


class _Indexed(Module, Generic[T]):
    """A module whose parts are named `0`, `1`, ... and indexed like a list."""

    _registry = "_modules"
    _kind: type = Module

    def _values(self) -> list[T]:
        state = self.__dict__
        return [state[name] for name in state[self._registry]]

    def _rename(self, values: Iterable[Any]) -> None:
        """Hold exactly these parts, named by position."""
        values = [self._checked(v) for v in values]
        for name in tuple(self.__dict__[self._registry]):
            delattr(self, name)
        for i, value in enumerate(values):
            self._register(self._registry, str(i), value)

    def _checked(self, value: Any) -> T:
        if not isinstance(value, self._kind):
            fail(
                DTypeError,
                f"{type(self).__name__} holds {self._kind.__name__.lower()}s, not {type(value).__name__}",
                "Wrap a tensor: wg.nn.Parameter(tensor)."
                if self._kind is Parameter
                else "Pass modules, such as wg.nn.ReLU() with its parentheses; a list is unpacked with *.",
            )
        return cast(T, value)

    def _position(self, index: int) -> int:
        n = len(self)
        i = index.__index__()
        if not -n <= i < n:
            fail(RangeError, f"index {i} of {type(self).__name__} with {n} elements")
        return i % n

    def __len__(self) -> int:
        return len(self.__dict__[self._registry])

    def __iter__(self) -> Iterator[T]:
        return iter(self._values())

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Any: ...
    def __getitem__(self, index: int | slice) -> Any:
        values = self._values()
        if isinstance(index, slice):
            part = type(self).__new__(type(self))
            paths = [(v, v._path) for v in values if isinstance(v, Module)]
            part._rename(values[index])
            # A slice shows some of the parts; they stay where they are in the graph's paths.
            for module, path in paths:
                module._set_path(path)
            return part
        return values[self._position(index)]

    def __setitem__(self, index: int, value: T) -> None:
        name = list(self.__dict__[self._registry])[self._position(index)]
        self._register(self._registry, name, self._checked(value))

    def __delitem__(self, index: int | slice) -> None:
        values = self._values()
        del values[index if isinstance(index, slice) else self._position(index)]
        self._rename(values)

    def append(self, value: T) -> Any:
        """Add a part at the end. Returns the container."""
        self._register(self._registry, str(len(self)), self._checked(value))
        return self

    def extend(self, values: Iterable[T]) -> Any:
        """Add parts at the end. Returns the container."""
        for value in list(values):
            self.append(value)
        return self

    def insert(self, index: int, value: T) -> Any:
        """Put a part before position `index`. Returns the container."""
        values = self._values()
        values.insert(index, self._checked(value))
        self._rename(values)
        return self

    def pop(self, index: int = -1) -> T:
        """Remove a part and return it."""
        value: T = self[index]
        del self[index]
        return value


class Sequential(_Indexed[Module]):
    """A chain of modules, each run on the result of the one before.

    Takes modules in order, or one ordered dict of names to modules. `model[i]` is a module,
    `model[a:b]` a Sequential of the same modules.

    >>> import wengert as wg
    >>> model = wg.nn.Sequential(wg.nn.Linear(3, 4), wg.nn.ReLU())
    >>> model
    Sequential(
      (0): Linear(in_features=3, out_features=4, bias=True)
      (1): ReLU()
    )
    >>> model(wg.zeros((2, 3))).shape
    (2, 4)
    """

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.register_module(name, self._checked(module))
        else:
            self._rename(modules)

    def forward(self, x: Any) -> Any:
        """Run `x` through every module in turn."""
        state = self.__dict__
        for name in self._modules:
            x = state[name](x)
        return x


class ModuleList(_Indexed[Module]):
    """A list of modules whose parameters are the owner's.

    >>> import wengert as wg
    >>> layers = wg.nn.ModuleList(wg.nn.Linear(2, 2) for _ in range(3))
    >>> len(list(layers.parameters()))
    6
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self._rename(modules)

    @recursive_repr("...")
    def __repr__(self) -> str:
        # Equal neighbours are shown once, as (0-3): 4 x Block(...).
        runs: list[tuple[int, int, str]] = []
        for i, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        return _render(
            self, [(str(a), text) if a == b else (f"{a}-{b}", f"{b - a + 1} x {text}") for a, b, text in runs]
        )


class ParameterList(_Indexed[Parameter]):
    """A list of parameters that are the owner's.

    >>> import wengert as wg
    >>> [p.shape for p in wg.nn.ParameterList([wg.nn.Parameter([1.0]), wg.nn.Parameter([1.0, 2.0])])]
    [(1,), (2,)]
    """

    _registry = "_parameters"
    _kind = Parameter

    def __init__(self, parameters: Iterable[Parameter] = ()) -> None:
        super().__init__()
        self._rename(parameters)

    def extra_repr(self) -> str:
        """Return the parameters' shapes for `repr`."""
        return ", ".join(str(p.spec) for p in self)


class ModuleDict(Module):
    """A dict of modules whose parameters are the owner's.

    >>> import wengert as wg
    >>> heads = wg.nn.ModuleDict({"a": wg.nn.Linear(2, 1), "b": wg.nn.Linear(2, 3)})
    >>> list(heads)
    ['a', 'b']
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] = ()) -> None:
        super().__init__()
        if modules != ():  # a subclass may have an `update` for which it is not ready yet
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        if key not in self._modules:
            fail(StateError, f"{type(self).__name__} has no module {key!r}", f"It has: {', '.join(self._modules)}.")
        module: Module = self.__dict__[key]
        return module

    def __setitem__(self, key: str, module: Module) -> None:
        self.register_module(key, module)

    def __delitem__(self, key: str) -> None:
        self[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._modules))

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def keys(self) -> Iterator[str]:
        """Return the names."""
        return iter(self)

    def values(self) -> Iterator[Module]:
        """Return the modules."""
        return (self[k] for k in self)

    def items(self) -> Iterator[tuple[str, Module]]:
        """Return names and modules."""
        return ((k, self[k]) for k in self)

    def pop(self, key: str) -> Module:
        """Remove a module and return it."""
        module = self[key]
        del self[key]
        return module

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add or replace modules, those of a dict or in pairs of a name and a module. Raises TypeError, ValueError."""
        if isinstance(modules, (Mapping, ModuleDict)):
            modules = modules.items()
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleDict.update of a {type(modules).__name__}: give a dict, or pairs")
        for i, pair in enumerate(modules):
            if not isinstance(pair, Iterable):
                raise TypeError(f"ModuleDict.update: element {i} is a {type(pair).__name__}, not a pair")
            entries = tuple(pair)
            if len(entries) != 2:
                raise ValueError(f"ModuleDict.update: element {i} has {len(entries)} entries, not a name and a module")
            self[entries[0]] = entries[1]
