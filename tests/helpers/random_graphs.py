"""Random programs over the op table, for the tests of graphs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import wengert as wg
from wengert.core.ops.op import TABLE
from wengert.core.tensor import Tensor

UNARY = ("exp", "sin", "tanh", "negative", "square", "isfinite")
BINARY = ("add", "multiply", "subtract", "divide", "maximum", "less")
DTYPES = (wg.float32, wg.float64, wg.float16, wg.int64, wg.int8, wg.uint8, wg.bool, wg.complex64, wg.complex128)
SHAPES = ((), (3,), (2, 3), (1, 3), (2, 1), (0, 3), (5, 2, 3))
SPECIAL = (math.nan, math.inf, -math.inf, -0.0, 0.1, 1e-30, 3.0e38)


def random_array(rng: np.random.Generator) -> Any:
    """Return an array of any dtype and shape, with the values that are hard to print among them."""
    dtype = DTYPES[rng.integers(len(DTYPES))]
    shape = SHAPES[rng.integers(len(SHAPES))]
    values = rng.normal(0, 100, shape)
    if dtype.kind in "fc":
        values = np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, shape), values)
    if dtype.kind == "c":
        real, values = values, np.zeros(shape, np.complex128)
        values.real, values.imag = real, rng.choice(SPECIAL, shape)
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(dtype)


def random_scalar(rng: np.random.Generator) -> Any:
    choices = (2, -1, True, 0.5, math.nan, math.inf, -0.0, 1e300, complex(-0.0, 2.5))
    return choices[rng.integers(len(choices))]


def step(rng: np.random.Generator, pool: list[Tensor]) -> Any:
    """Return one more operation on what there is; None where it does not fit."""
    x = pool[rng.integers(len(pool))]
    choice = rng.integers(8)
    if choice < 2:
        return getattr(wg, UNARY[rng.integers(len(UNARY))])(x)
    if choice < 5:
        y: Any = pool[rng.integers(len(pool))]
        if choice == 3:
            y = random_scalar(rng)
        elif choice == 4:
            y = random_array(rng)
        return getattr(wg, BINARY[rng.integers(len(BINARY))])(x, y)
    if choice == 5:
        return wg.reshape(x, (-1,)) if x.size else wg.reshape(x, x.shape)
    if choice == 6:
        return TABLE["cast"].front(x, dtype=DTYPES[rng.integers(len(DTYPES))])
    return wg.permute_dims(x, tuple(rng.permutation(x.ndim).tolist()))


def random_graph(seed: int) -> wg.Graph:
    """Return a graph of up to 40 operations with several inputs and outputs."""
    rng = np.random.default_rng(seed)

    def program(*args: Tensor) -> Any:
        pool = list(args)
        for _ in range(rng.integers(1, 40)):
            try:
                pool.append(step(rng, pool))
            except (wg.ShapeError, wg.DTypeError):
                continue
        return tuple(pool[-1 - i] for i in rng.integers(min(len(pool), 10), size=rng.integers(1, 6)))

    specs = [
        wg.spec(SHAPES[rng.integers(len(SHAPES))], DTYPES[rng.integers(len(DTYPES))]) for _ in range(rng.integers(1, 4))
    ]
    return wg.graph(program)(*specs)
