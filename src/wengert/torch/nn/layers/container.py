"""Containers with PyTorch's methods: `Sequential`, `ModuleList`, `ModuleDict`, `ParameterList`, `ParameterDict`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView, Mapping
from typing import Any

from ....core.errors import DTypeError, RangeError, fail
from ....core.tensor import Tensor as PlainTensor
from ....nn.layers import container as plain
from ..module import Module
from ..parameter import Parameter
from ..registry import Registry

__all__ = ["DataParallel", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class Sequential(Module, plain.Sequential):
    """A chain of modules, each run on the result of the one before.

    Takes modules in order, or one ordered dict of names to modules. `model[i]` is a module, `model[a:b]` a Sequential
    of the same modules under the same names.

    >>> import wengert.torch as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    >>> model[1:]
    Sequential(
      (1): ReLU()
    )
    """

    def __init__(self, *args: Any) -> None:
        plain.Sequential.__init__(self, *args)

    def insert(self, index: int, value: Any) -> Any:
        """Put a module before position `index`. Returns the container. Raises IndexError beyond its ends."""
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index} of {len(self)} modules")
        return super().insert(index, value)

    def _named_part(self, index: slice) -> list[tuple[str, Any]]:
        return list(self._own("_modules"))[index]

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            return plain.Sequential.__getitem__(self, index)
        part = type(self).__new__(type(self))
        for name, module in self._named_part(index):
            path = module._path
            part._register("_modules", name, module)
            module._set_path(path)  # the module stays where it is in the graph's paths
        return part

    def __add__(self, other: Any) -> Sequential:
        return self._joined(other)

    def _joined(self, other: Any) -> Sequential:
        if not isinstance(other, plain.Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Sequential:
        return self.extend(list(other))  # type: ignore[no-any-return]

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*[m for _ in range(_times(other)) for m in self])

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Sequential:
        modules = list(self)
        for _ in range(_times(other) - 1):
            self.extend(modules)
        return self

    def forward(self, input: Any) -> Any:
        """Run `input` through every module in turn."""
        state = self.__dict__
        for name in state["_modules"]:
            input = state[name](input)
        return input


def _times(count: Any) -> int:
    if not isinstance(count, int):
        fail(DTypeError, f"a Sequential times a {type(count).__name__}", "It is repeated a number of times, an int.")
    if count <= 0:
        raise ValueError(f"Non-positive multiplication factor {count} for Sequential")
    return count


class ModuleList(Module, plain.ModuleList):
    """A list of modules whose parameters are the owner's; None may stand where there is none.

    >>> import wengert.torch as torch
    >>> layers = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(3)])
    >>> len(list(layers.parameters()))
    6
    """

    def __init__(self, modules: Iterable[Any] | None = None) -> None:
        plain.ModuleList.__init__(self, () if modules is None else modules)

    def _checked(self, value: Any) -> Any:
        return None if value is None else super()._checked(value)

    def __add__(self, other: Iterable[Any]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, other: Iterable[Any]) -> ModuleList:
        return self.extend(other)  # type: ignore[no-any-return]


class ModuleDict(Module, plain.ModuleDict):
    """A dict of modules whose parameters are the owner's.

    >>> import wengert.torch as torch
    >>> list(torch.nn.ModuleDict({"a": torch.nn.ReLU(), "b": torch.nn.Tanh()}))
    ['a', 'b']
    """

    def __init__(self, modules: Any = None) -> None:
        plain.ModuleDict.__init__(self, () if modules is None else modules)

    def update(self, modules: Any) -> None:
        """Add or replace modules, those of a mapping, of another `ModuleDict` or of pairs."""
        super().update(modules.items() if isinstance(modules, plain.ModuleDict) else modules)

    def __getitem__(self, key: str) -> Any:
        return Registry(self, "_modules")[key]

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        """Return the names."""
        return Registry(self, "_modules").keys()

    def values(self) -> Any:
        """Return the modules."""
        return Registry(self, "_modules").values()

    def items(self) -> Any:
        """Return names and modules."""
        return Registry(self, "_modules").items()

    def clear(self) -> None:
        """Remove all modules."""
        for key in list(self):
            del self[key]


class DataParallel(Module):
    """A module as `module`, which it calls: there is one device, so nothing is spread over others.

    Its state dict's names begin with `module.`.
    """

    def __init__(self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.module(*inputs, **kwargs)


def _shown(value: Any) -> str:
    """Return what a container of parameters says of one."""
    if not isinstance(value, PlainTensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{kind} containing: [torch.{value.spec.dtype} of size {'x'.join(map(str, value.shape))}]"


def _kept(value: Any) -> Any:
    """Return a tensor as a parameter, anything else as it is."""
    return Parameter(value) if isinstance(value, PlainTensor) and not isinstance(value, Parameter) else value


class _Holder(Module):
    """A module that holds parameters and other values under keys, in order."""

    _keys: dict[str, None]

    def _hold(self, key: str, value: Any) -> None:
        self._keys[key] = None
        name, value = key, _kept(value)
        if isinstance(value, Parameter):
            self._register("_parameters", name, value)
        else:
            if name in self.__dict__:
                Module.__delattr__(self, name)
            self.__dict__[name] = value

    def _held(self, key: str) -> Any:
        return self.__dict__[key]

    def _drop(self, key: str) -> Any:
        value = self._held(key)
        Module.__delattr__(self, key)
        del self._keys[key]
        return value

    def extra_repr(self) -> str:
        """Return what is held for `repr`."""
        return "\n".join(f"  ({key}): {_shown(self._held(key))}" for key in self._keys)

    def __repr__(self) -> str:
        lines = [f"\n    ({key}): {_shown(self._held(key))}" for key in self._keys]
        return f"{type(self).__name__}({''.join(lines)}{chr(10) if lines else ''})"

    def __len__(self) -> int:
        return len(self._keys)


class ParameterList(_Holder):
    """A list of parameters that are the owner's. Tensors become parameters; other values stay what they are.

    >>> import wengert.torch as torch
    >>> len(torch.nn.ParameterList([torch.ones(2), torch.ones(3)]))
    2
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        Module.__init__(self)
        self.__dict__["_keys"] = {}
        if values is not None:
            self.extend(values)

    def _position(self, index: int) -> str:
        n, i = len(self), index.__index__()
        if not -n <= i < n:
            fail(RangeError, f"index {i} of a ParameterList with {n} elements")
        return str(i % n)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._held(self._position(index))

    def __setitem__(self, index: int, value: Any) -> None:
        self._hold(self._position(index), value)

    def __iter__(self) -> Iterator[Any]:
        return iter([self._held(key) for key in self._keys])

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Add a value at the end. Returns the list."""
        self._hold(str(len(self)), value)
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add values at the end. Returns the list. Raises DTypeError for a single tensor or module."""
        if not isinstance(values, Iterable) or isinstance(values, PlainTensor):
            fail(DTypeError, f"ParameterList.extend of a {type(values).__name__}", "It takes a sequence.")
        for value in list(values):
            self.append(value)
        return self


class ParameterDict(_Holder):
    """A dict of parameters that are the owner's. Tensors become parameters; other values stay what they are.

    >>> import wengert.torch as torch
    >>> list(torch.nn.ParameterDict({"left": torch.ones(2), "right": torch.ones(3)}))
    ['left', 'right']
    """

    def __init__(self, parameters: Any = None) -> None:
        Module.__init__(self)
        self.__dict__["_keys"] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return self._held(key)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            fail(DTypeError, f"a key of a ParameterDict that is a {type(key).__name__}", "It is a string.")
        self._hold(key, value)

    def __delitem__(self, key: str) -> None:
        self.pop(key)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._keys))

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def keys(self) -> KeysView[str]:
        """Return the keys."""
        return self._keys.keys()

    def values(self) -> list[Any]:
        """Return the values."""
        return [self._held(key) for key in self._keys]

    def items(self) -> list[tuple[str, Any]]:
        """Return keys and values."""
        return [(key, self._held(key)) for key in self._keys]

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or `default`."""
        return self._held(key) if key in self._keys else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, which is given `default` where it has none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Remove a key and return its value. Raises KeyError."""
        if key not in self:
            raise KeyError(key)
        return self._drop(key)

    def popitem(self) -> tuple[str, Any]:
        """Remove the last key and return it with its value. Raises KeyError."""
        if not self._keys:
            raise KeyError("popitem(): the ParameterDict is empty")
        key = next(reversed(self._keys))
        return key, self._drop(key)

    def clear(self) -> None:
        """Remove all keys."""
        for key in list(self._keys):
            self._drop(key)

    def copy(self) -> ParameterDict:
        """Return another ParameterDict of the same values."""
        return ParameterDict(dict(self.items()))

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a ParameterDict with one value for all keys."""
        return ParameterDict(dict.fromkeys(keys, default))

    def update(self, parameters: Any) -> None:
        """Add or replace values, from a mapping or from pairs."""
        pairs = parameters.items() if isinstance(parameters, (Mapping, ParameterDict)) else parameters
        for key, value in pairs:
            self[key] = value

    def __or__(self, other: Any) -> ParameterDict:
        found = self.copy()
        found.update(other)
        return found

    def __ror__(self, other: Any) -> ParameterDict:
        found = ParameterDict(other)
        found.update(self)
        return found

    def __ior__(self, other: Any) -> ParameterDict:
        self.update(other)
        return self
