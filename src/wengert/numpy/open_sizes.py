"""NumPy's functions that make arrays by sizes, where a size is not known until a graph is fed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.dims import has_dims
from ..ops.structure import creation
from ..ops.structure.diagonals import tril
from .namespace import run


def _of_shape(make: Callable[..., Any]) -> Callable[..., Any]:
    return lambda shape, dtype=None, order="C": make(shape=shape, dtype=dtype)


def _arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    return creation.arange(start, stop, step, dtype=dtype)


def _linspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None) -> Any:
    return creation.linspace(start, stop, num, endpoint=endpoint, dtype=dtype)


def _logspace(start: Any, stop: Any, num: Any = 50, base: Any = 10.0, dtype: Any = None) -> Any:
    return creation.logspace(start, stop, num, base, dtype=dtype)


def _eye(N: Any, M: Any = None, k: int = 0, dtype: Any = None) -> Any:
    return creation.eye(N, M, k=k, dtype=dtype)


def _tri(N: Any, M: Any = None, k: int = 0, dtype: Any = None) -> Any:
    return tril(creation.ones(N, N if M is None else M, dtype=dtype), k)


def _full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    return creation.full(shape, fill_value, dtype=dtype)


# Wengert's own, with the parameters of NumPy's.
_OURS: dict[str, Callable[..., Any]] = {
    "arange": _arange,
    "empty": _of_shape(creation.empty),
    "eye": _eye,
    "full": _full,
    "identity": lambda n, dtype=None: creation.eye(n, dtype=dtype),
    "linspace": _linspace,
    "logspace": _logspace,
    "ones": _of_shape(creation.ones),
    "tri": _tri,
    "zeros": _of_shape(creation.zeros),
}


def of_open_sizes(known: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Return the functions that make arrays by sizes, which take sizes that are not known yet, too."""

    def either(name: str, whole: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **kwargs: Any) -> Any:
            given = tuple(tuple(v) if isinstance(v, list) else v for v in (*args, *kwargs.values()))
            return run(_OURS[name], args, kwargs) if has_dims(given) else whole(*args, **kwargs)

        made.__name__ = made.__qualname__ = name
        made.__doc__ = whole.__doc__
        return made

    return {name: either(name, known[name]) for name in _OURS}
