"""Functions of several operands broadcast in traces as they do on values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.ops.declare import PUBLIC

X = np.array([1.25, 1.5])
BESIDE = {"a number": 0.5, "0-d": np.array(0.5), "one": np.array([0.5]), "a column": np.array([[0.5], [0.75]])}
# Their second argument is no operand: a size, an axis, an order, or a spread of random numbers.
# Parameters that take no operands: a truth that a call is given there is another function's.
FLAGS = {"inplace", "size_average", "reduce", "reduction"}
NO_OPERAND = {"polygamma", "dropout", "randn_like", "rand_like", "randint_like", "bernoulli", "pad", "asarray"}


def _functions() -> dict[str, Callable[..., Any]]:
    found = {f"special.{n}": getattr(wg.special, n) for n in wg.special.__all__}
    found |= {n: getattr(wg, n) for n in wg.__all__ if inspect.isroutine(getattr(wg, n))} | PUBLIC
    return {n: f for n, f in found.items() if n.split(".")[-1] not in NO_OPERAND}


def _calls(fn: Callable[..., Any], count: int) -> list[tuple[str, Callable[..., Any], list[Any]]]:
    """The places of X among the operands, and those operands beside it, that the function takes on values."""
    found: list[tuple[str, Callable[..., Any], list[Any]]] = []
    try:
        if FLAGS & set([*inspect.signature(fn).parameters][:count]):
            return found
    except ValueError:
        pass
    for place in range(count):
        for name, beside in BESIDE.items():
            others = [wg.asarray(beside) if isinstance(beside, np.ndarray) else beside] * (count - 1)

            def call(x: Any, *rest: Any, place: int = place) -> Any:
                return fn(*rest[:place], x, *rest[place:])

            try:
                out = call(wg.asarray(X), *others)
            except Exception:
                continue
            if isinstance(out, wg.Tensor) and out.dtype.kind in "fb" and not out.requires_grad:
                found.append((f"x as operand {place} beside {name}", call, others))
    return found


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", _functions())
@pytest.mark.filterwarnings("ignore")
def test_operands_of_other_shapes(name: str, count: int) -> None:
    wrong = []
    x = wg.asarray(X)
    for what, call, others in _calls(_functions()[name], count):
        one = lambda x, call=call, others=others: call(x, *others)
        slope = lambda x, one=one: wg.grad(lambda x: one(x).sum())(x)
        ways = {"captured": (lambda x, one=one: one(x), one), "all": (lambda x, call=call, o=others: call(x, *o), one)}
        try:
            slope(x)
            ways["gradient"] = (slope, slope)
        except wg.WengertError:
            pass  # nothing to differentiate, or a derivative that nobody has
        for way, (traced, eager) in ways.items():
            given = (x, *others) if way == "all" else (x,)
            run = (lambda x, *o, call=call: call(x, *o)) if way == "all" else traced
            wanted = eager(x)
            try:
                found = wg.graph(run)(*given)(*given)
            except wg.TraceError as e:
                # An option (a slope, a bound) that the function checks, and so has to have a value.
                if way == "all" and "needs the value of an abstract tensor" in str(e):
                    continue
                raise
            same = found.shape == wanted.shape and found.dtype == wanted.dtype
            if not (same and np.allclose(found.numpy(), wanted.numpy(), equal_nan=True, rtol=1e-5)):
                wrong.append(f"{what}, {way}: {found} for {wanted}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("second", [1.5, np.array(1.5), np.array([1.5]), np.array([[1.5], [2.5]])])
def test_zeta_compiled(second: Any) -> None:
    x = wg.asarray(np.array([2.5, 3.5]))
    for f in (lambda x: wg.special.zeta(x, second), lambda x: wg.special.zeta(second, x)):
        np.testing.assert_allclose(wg.jit(f)(x).numpy(), f(x).numpy(), rtol=1e-14)
        slope = wg.grad(lambda x, f=f: f(x).sum())
        np.testing.assert_allclose(wg.jit(slope)(x).numpy(), slope(x).numpy(), rtol=1e-12)


def test_shapes_of_zeta_that_do_not_broadcast() -> None:
    with pytest.raises(wg.ShapeError, match="do not broadcast"):
        wg.graph(lambda a, b: wg.special.zeta(a, b))(wg.ones(2), wg.ones(3))
