"""Random numbers from counter-based generators: `wg.random`.

A :class:`Generator` is a key and a position; the same seed gives the same numbers on every machine.
Functions take `generator=`; without one they draw from the process's default generator, which
:func:`manual_seed` seeds. How bits become numbers is part of the interface: see `wengert.ops.philox`.

>>> import wengert as wg
>>> g = wg.random.Generator(0)
>>> wg.random.uniform((2,), 0.0, 10.0, generator=g).shape
(2,)
"""

from __future__ import annotations

from .ops.generator import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from .ops.random import (
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

__all__ = [
    "Generator",
    "bernoulli",
    "categorical",
    "default_generator",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "multinomial",
    "normal",
    "permutation",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "seed",
    "set_rng_state",
    "uniform",
]
