"""Random numbers from counter-based generators: `wg.random`.

A :class:`Generator` is a key and a position; the same seed gives the same numbers on every machine.
Functions take `generator=`; without one they draw from the process's default generator, which
:func:`manual_seed` seeds. Or they take `key=`, an immutable key: functional code that passes keys
down, made by :func:`split` and :func:`fold_in`, gives the same numbers whatever else is drawn. How
bits become numbers is part of the interface: see `wengert.ops.random.philox` and `wengert.ops.random.rejection`.

>>> import wengert as wg
>>> g = wg.random.Generator(0)
>>> wg.random.uniform((2,), 0.0, 10.0, generator=g).shape
(2,)
"""

from __future__ import annotations

from .ops.random.functions import (
    bernoulli,
    categorical,
    multinomial,
    normal,
    permutation,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
    uniform,
)
from .ops.random.generator import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from .ops.random.keys import RandomKey, fold_in, key, split
from .ops.random.rejection import binomial, gamma, loggamma, poisson

__all__ = [
    "Generator",
    "RandomKey",
    "bernoulli",
    "binomial",
    "categorical",
    "default_generator",
    "fold_in",
    "gamma",
    "get_rng_state",
    "initial_seed",
    "key",
    "loggamma",
    "manual_seed",
    "multinomial",
    "normal",
    "permutation",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "seed",
    "set_rng_state",
    "split",
    "uniform",
]


def __dir__() -> list[str]:
    return sorted(__all__)
