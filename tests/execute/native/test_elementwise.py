"""Every elementwise op in every dtype that it takes, at special values: compiled as eager.

NaN where eager code has NaN, the same infinities, the same signs of zeros, the same integers, and the same floats
within a few units in the last place. What is compiled is a program as users compile it, at several calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("llvmlite")

import wengert as wg
from wengert.core.ops.op import TABLE, Op
from wengert.core.spec import spec_of

from .test_scalars import ALL, HALVES, INTS, operands

# Units in the last place between the two; what is not named: 8. Of what has a large condition number far out
# (the error of the argument alone makes so many units), and near zeros between which terms cancel.
# Incomplete functions are powers of large numbers: one bit of an exponent is as many bits of the result as it is large.
BOUNDS = {"gelu": 600.0, "log1p_ratio": 1000.0, "gammainc": 1000.0, "gammaincc": 1000.0, "betainc": 1000.0}
CANCELLING = {"digamma", "lgamma", "betaln"}


def attributes(op: Op) -> list[dict[str, Any]]:
    """What an op that takes every element by itself is called with; nothing for other ops."""
    if op.kind == "elementwise":
        return [{}] if not op.attr_names else []
    if op.kind != "composite" or op.samples is None or op.variadic or {"axis", "key"} & set(op.attr_names):
        return []
    calls = list(op.samples(np.random.default_rng(0)))
    if not all(isinstance(a, np.ndarray) and a.shape == c.args[0].shape for c in calls for a in c.args):
        return []
    for call in calls:
        spec = op.infer(*(spec_of(a.shape, a.dtype) for a in call.args), **call.attrs)
        if isinstance(spec, tuple) or spec.shape != call.args[0].shape or op.layout not in ("", *_BY_ELEMENT):
            return []
    return [dict(t) for t in sorted({tuple(sorted(c.attrs.items())) for c in calls})]


_BY_ELEMENT = ("()->()", "(),()->()", "(),(),()->()")
NAMES = sorted(name for name, op in TABLE.items() if op.samples is not None and attributes(op))


def arrays(op: Op, dtype: np.dtype) -> list[np.ndarray]:
    """Every pair of special values, and ordinary numbers."""
    found = operands(dtype, min(2, len(op.params)))
    if len(op.params) == 3:
        found = [*found, np.resize(found[0][::-1], found[0].shape)]
    if op.name == "where":
        found[0] = np.arange(found[1].size) % 3 == 1
    if op.name.startswith("binary_cross_entropy"):
        # Probabilities; logits of every kind.
        for i in (0, 1) if op.name == "binary_cross_entropy" else (1,):
            with np.errstate(all="ignore"):
                found[i] = np.clip(np.abs(found[i].astype(np.float64)), 0.0, 1.0).astype(dtype)
    return found


def cases(op: Op, dtypes: list[np.dtype]) -> Iterator[tuple[np.dtype, dict[str, Any]]]:
    for dtype in dtypes:
        if getattr(spec_of((3,), dtype), op.accepts):
            for attrs in attributes(op):
                yield dtype, attrs


def apart(got: np.ndarray, want: np.ndarray, name: str) -> np.ndarray:
    """Where two results differ in more than rounding."""
    if want.dtype.kind in "biu":
        return np.asarray(got != want)
    info = ml_dtypes.finfo(want.dtype)
    x, y = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        step = float(info.eps) * np.maximum(np.abs(y), float(info.smallest_normal))
        # A result below the normal numbers may be flushed.
        bound = BOUNDS.get(name, 8.0) * step + float(info.smallest_normal) * (np.abs(y) < info.smallest_normal)
        if name in CANCELLING:
            bound = bound + 16 * float(info.eps)
        near = (x == y) | (np.abs(x - y) <= bound) | (np.isnan(x) & np.isnan(y))
    zeros = (x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))
    return ~near | zeros


def asked_of() -> Iterator[Any]:
    """Every op in all dtypes but integers, of which it takes a signed and an unsigned one, in turn.

    The others are for the slow tests: `test_scalars` has the arithmetic of all of them.
    """
    for turn, name in enumerate(NAMES):
        taken = (INTS[turn % 4], INTS[4 + (turn + 1) % 4])
        usual = [d for d in ALL if d not in INTS or d in taken]
        yield pytest.param(name, usual, id=name)
        if others := [d for d in ALL if d not in usual and getattr(spec_of((3,), d), TABLE[name].accepts)]:
            yield pytest.param(name, others, marks=pytest.mark.slow, id=f"{name} of other integers")


@pytest.mark.parametrize(("name", "dtypes"), list(asked_of()))
def test_compiled_as_eager_at_special_values(name: str, dtypes: list[np.dtype]) -> None:
    op = TABLE[name]
    asked = []
    for dtype, attrs in cases(op, dtypes):
        # Each of a length of its own, so that no two share a loop.
        given = [a[len(asked) :] for a in arrays(op, dtype)]
        tensors = [wg.tensor(a) for a in given]
        try:
            eager = op.front(*tensors, **attrs)
        except wg.WengertError as e:
            with pytest.raises(type(e)):
                wg.jit(partial(op.front, **attrs))(*tensors)
            continue
        asked.append((given, attrs, eager.numpy()))

    def all_of(tensors: Any) -> Any:
        return [op.front(*ts, **attrs) for ts, (_, attrs, _) in zip(tensors, asked, strict=True)]

    compiled = wg.jit(all_of)
    plain = [[wg.tensor(a) for a in given] for given, _, _ in asked]
    sliced = [[wg.tensor(np.repeat(a, 2))[::2] for a in given] for given, _, _ in asked]
    computed = [[wg.where(wg.tensor(True), t, t) for t in ts] for ts in plain]
    for tensors in (plain, sliced, computed, plain, sliced, computed):
        for result, (given, attrs, want) in zip(compiled(tensors), asked, strict=True):
            got = result.numpy()
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            wrong = apart(got, want, name)
            shown = [a[wrong][:4].tolist() for a in (*given, want, got)]
            assert not wrong.any(), (name, str(given[0].dtype), attrs, "inputs, eager, compiled:", shown)


@pytest.mark.parametrize("name", ["relu", "maximum", "minimum", "nextafter", "sign", "clip"])
def test_signs_of_zeros_in_half_precision(name: str) -> None:
    """They are NumPy's (of float16) and ml_dtypes' (of bfloat16), which choose differently between two zeros."""
    zeros = np.array([0.0, -0.0])
    for dtype in HALVES:
        op = TABLE[name]
        given = [g.ravel().astype(dtype) for g in np.meshgrid(*[zeros] * len(op.params))]
        want = op.forward(*given)
        for f in (op.front, wg.jit(op.front)):
            found = f(*(wg.tensor(a) for a in given)).numpy()
            assert np.signbit(found.astype(np.float32)).tolist() == np.signbit(want.astype(np.float32)).tolist()
