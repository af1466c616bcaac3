"""Random keys: an explicit, immutable source of random numbers for functional code."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ...core import tree
from ...core.errors import DTypeError, ShapeError, fail
from ...core.tensor import Tensor
from .draws import as_key, derived_key, key_words
from .philox import WORD, Key

R = TypeVar("R")

# The counters of the cipher that make keys of keys; generators split with 1, vmap with 2.
_SPLIT, _FOLD = 3, 4


class RandomKey:
    """A key of random numbers. It has no position: the same key gives the same numbers every time.

    Make one with :func:`key`, more of them with :func:`split` and :func:`fold_in`. Keys compare and
    hash by value. A key is not a tensor: nodes carry its words as a static attribute. It is a pytree of one,
    though: where a compiled function takes a key, or a loop carries one, its words are a tensor.

    >>> import wengert as wg
    >>> key = wg.random.key(0)
    >>> a, b = wg.random.randn(key=key), wg.random.randn(key=key)
    >>> bool(a == b)
    True
    """

    __slots__ = ("words",)

    words: Key | Tensor

    def __init__(self, words: Key | Tensor) -> None:
        object.__setattr__(self, "words", words)

    def __setattr__(self, name: str, value: Any) -> None:
        fail(DTypeError, "a random key cannot be changed", "Make another with wg.random.split(key) or fold_in.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RandomKey) or isinstance(self.words, Tensor) or isinstance(other.words, Tensor):
            return self is other
        return self.words == other.words

    def __hash__(self) -> int:
        return hash(self.words)

    def __reduce__(self) -> tuple[Any, ...]:
        return RandomKey, (self.words,)

    def __repr__(self) -> str:
        if isinstance(self.words, Tensor):
            return f"RandomKey({self.words.spec})"
        return f"RandomKey({self.words[0]:#x}, {self.words[1]:#x})"


def is_key(x: Any) -> bool:
    """Return whether `x` is a random key, which pytrees keep whole as a leaf."""
    return isinstance(x, RandomKey)


def _words(key: RandomKey) -> tuple[list[Tensor], tuple[str]]:
    return [as_key(key.words)], ("words",)


def _of_words(_: tuple[str], leaves: Sequence[Any]) -> RandomKey:
    (words,) = leaves
    value = words._array if isinstance(words, Tensor) else words
    # Anything may stand in a pytree: what is no key's words shows where numbers are drawn with it.
    return RandomKey(key_words(value) if isinstance(value, np.ndarray) and value.shape == (2,) else words)


# Functions of pytrees of tensors (a compiled function, a loop's state) take a key as its words.
tree.register(RandomKey, _words, _of_words)


def key(seed: int) -> RandomKey:
    """Return the key of a seed: any int. It draws what a new `Generator(seed)` draws first.

    Raises DTypeError.

    >>> import wengert as wg
    >>> key = wg.random.key(0)
    >>> bool((wg.rand(3, key=key) == wg.rand(3, key=key)).all())
    True
    """
    seed = _integer(seed, "a seed")
    return RandomKey((seed & WORD, seed >> 64 & WORD))


def split(key: RandomKey, n: int = 2) -> tuple[RandomKey, ...]:
    """Return `n` keys, independent of each other and of the numbers drawn with `key` itself.

    Raises DTypeError, ShapeError. Source: Salmon et al. 2011: child i is the cipher of (i, 0, 0, 3).

    >>> import wengert as wg
    >>> a, b = wg.random.split(wg.random.key(0))
    >>> a == b
    False
    """
    _check(key)
    if _integer(n, "the number of keys") < 0:
        fail(ShapeError, f"split(key, {n}): the number of keys is negative")
    return tuple(_child(key, i, _SPLIT) for i in range(n))


def fold_in(key: RandomKey, data: Any) -> RandomKey:
    """Return the key that belongs to `key` and an int, such as the number of a step: another for each.

    In a traced function the int may be a 0-d integer tensor.

    Raises DTypeError.

    >>> import wengert as wg
    >>> key = wg.random.key(0)
    >>> wg.random.fold_in(key, 3) == wg.random.fold_in(key, 3)
    True
    """
    _check(key)
    if isinstance(data, Tensor) and data.is_abstract:
        return _child(key, data, _FOLD)
    data = data.item() if isinstance(data, Tensor) else data
    return _child(key, _integer(data, "what is folded in") & ((1 << 128) - 1), _FOLD)


def _child(key: RandomKey, position: int | Tensor, domain: int) -> RandomKey:
    return RandomKey(derived_key(key.words, position, domain))


def _integer(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        fail(DTypeError, f"{what} must be an int, not {value!r}")
    return int(value)


def _check(key: Any) -> None:
    if not isinstance(key, RandomKey):
        fail(DTypeError, f"key={key!r} is a {type(key).__name__}", "Make a key with wg.random.key(seed).")


def keyed(fn: Callable[..., R]) -> Callable[..., R]:
    """Return a sampler that takes `key=` in place of `generator=`."""

    @functools.wraps(fn)
    def sampler(*args: Any, key: RandomKey | None = None, **kwargs: Any) -> R:
        if key is not None:
            _check(key)
            if kwargs.get("generator") is not None:
                fail(DTypeError, f"{fn.__name__}: both key= and generator= are given", "Pass one of them.")
            kwargs["generator"] = key
        return fn(*args, **kwargs)

    signature = inspect.signature(fn)
    parameters = list(signature.parameters.values())
    last = len(parameters) - any(p.kind is p.VAR_KEYWORD for p in parameters)
    parameters.insert(last, inspect.Parameter("key", inspect.Parameter.KEYWORD_ONLY, default=None))
    sampler.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return sampler
