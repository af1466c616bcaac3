"""The checks of `vmap` that every op of the table must pass: against a Python loop."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

import wengert as wg
from forwardchecks import directions, function, moving
from opchecks import run
from wengert.core.ops.op import Call, Op
from wengert.core.tensor import wrap

SIZE = 3


def mappings(op: Op, call: Call) -> Iterator[tuple[int, ...]]:
    """Yield the choices of arguments that are mapped: each alone, and all together."""
    arrays = [i for i, a in enumerate(call.args) if isinstance(a, np.ndarray)]
    yield from ((i,) for i in arrays)
    if len(arrays) > 1:
        yield tuple(arrays)
    if len(arrays) > 2:
        yield from itertools.combinations(arrays, 2)


def examples(value: np.ndarray, seed: int) -> np.ndarray:
    """Return `SIZE` arrays like a sample: the sample itself, and ones whose elements stand elsewhere.

    The rows and columns of square matrices move together, so that what is symmetric, positive
    definite or orthogonal stays so.
    """
    rng = np.random.default_rng(seed)
    out = [value]
    for _ in range(SIZE - 1):
        if value.ndim > 1 and value.shape[-1] == value.shape[-2] and value.dtype.kind in "fc":
            order = rng.permutation(value.shape[-1])
            out.append(value[..., order, :][..., order])
        else:
            flat = value.ravel().copy()
            rng.shuffle(flat)
            out.append(flat.reshape(value.shape))
    return np.stack(out)


def randomness(op: Op) -> Any:
    return "same" if op.draws else "error"


def batched(op: Op, call: Call, mapped: tuple[int, ...]) -> dict[int, np.ndarray]:
    sorted_first = op.name == "searchsorted"
    out = {}
    for i in mapped:
        value = call.args[i]
        found = examples(value, i)
        out[i] = np.sort(found, axis=-1) if sorted_first and i == 0 else found
    return out


def check_vmap(op: Op, call: Call) -> None:
    for mapped in mappings(op, call):
        values = batched(op, call, mapped)

        def one(*moved: Any, mapped: tuple[int, ...] = mapped) -> Any:
            args = [wrap(a) if isinstance(a, np.ndarray) else a for a in call.args]
            for i, v in zip(mapped, moved, strict=True):
                args[i] = v
            return list(run(op, call, args))

        found = wg.vmap(one, randomness=randomness(op))(*(wrap(values[i]) for i in mapped))
        for k, out in enumerate(found):
            expected = [one(*(wrap(values[i][n]) for i in mapped))[k] for n in range(SIZE)]
            assert out.shape == (SIZE, *expected[0].shape), f"{op.name} mapped {mapped}: shape {out.shape}"
            assert out.dtype == expected[0].dtype
            np.testing.assert_allclose(
                np.asarray(out._array),
                np.stack([np.asarray(e._array) for e in expected]),
                rtol=1e-10,
                atol=1e-12,
                err_msg=f"{op.name} mapped {mapped}",
            )


def check_vmap_of_vjp(op: Op, call: Call) -> None:
    """Check per-example gradients, and the gradient through a vmap."""
    positions = moving(op, call)
    if not positions or call.order < 1:
        return
    fn = function(op, call, positions)
    values = [examples(call.args[i], i) for i in positions]
    cts = directions(5, fn(*(wrap(v[0]) for v in values)))

    def gradient(*moved: Any) -> Any:
        return list(wg.vjp(fn, *moved)[1](cts))

    found = wg.vmap(gradient, randomness=randomness(op))(*map(wrap, values))
    expected = [gradient(*(wrap(v[n]) for v in values)) for n in range(SIZE)]
    _, pull = wg.vjp(wg.vmap(fn, randomness=randomness(op)), *map(wrap, values))
    through = pull([wrap(np.stack([np.asarray(c._array)] * SIZE)) for c in cts])
    for k, (out, other) in enumerate(zip(found, through, strict=True)):
        stacked = np.stack([np.asarray(e[k]._array) for e in expected])
        np.testing.assert_allclose(np.asarray(out._array), stacked, rtol=1e-9, atol=1e-11, err_msg=op.name)
        np.testing.assert_allclose(
            np.asarray(other._array), stacked, rtol=1e-9, atol=1e-11, err_msg=f"{op.name} through vmap"
        )
