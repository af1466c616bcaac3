"""Vertex elimination: the Jacobian from local partials, and what it costs in several orders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wengert as wg
from elimination_cases import CASES, chebyquad, heart_dipole, helmholtz_gradient, hourglass, kowalik_osborne
from wengert.transforms.derivatives.tangents import Recording
from wengert.transforms.jacobians import elimination


def t(value):
    return wg.tensor(np.asarray(value, float))


def all_modes(fn, x, **options):
    return [wg.jacobian(fn, mode=mode, **options)(x).numpy() for mode in ("elimination", "forward", "reverse")]


@pytest.mark.parametrize("fn", CASES, ids=lambda f: f.__name__)
def test_literature(fn) -> None:
    x = t(CASES[fn])
    found, forward, reverse = all_modes(fn, x)
    np.testing.assert_allclose(found, forward, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found, reverse, rtol=1e-10, atol=1e-10)
    cost = wg.elimination_cost(fn, x)
    assert (cost.outputs, cost.inputs) == found.shape
    if fn is chebyquad:
        # The greedy rule is a heuristic: on this recurrence eliminating in order of time is cheaper.
        assert (cost.forward, cost.markowitz, cost.relative) == (104, 120, 112)
        assert cost.best == "forward"
    else:
        assert cost.markowitz <= min(cost.forward, cost.reverse)


@pytest.mark.parametrize("fn", [heart_dipole, kowalik_osborne, helmholtz_gradient], ids=lambda f: f.__name__)
def test_against_differences(fn) -> None:
    x = CASES[fn]
    found = wg.jacobian(fn, mode="elimination")(t(x)).numpy()
    for j, h in enumerate(np.eye(x.size) * 1e-6):
        difference = (fn(t(x + h)).numpy() - fn(t(x - h)).numpy()) / 2e-6
        np.testing.assert_allclose(found[:, j], difference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("order", elimination.ORDERS)
def test_every_order_gives_the_jacobian(order) -> None:
    for fn, x in CASES.items():
        x = t(x)
        graph = elimination.ScalarGraph(Recording(fn, (x,), False, "test", ()))
        state = elimination.eliminate(graph, order, numeric=True)
        np.testing.assert_allclose(state.matrix(graph), wg.jacobian(fn)(x).numpy(), rtol=1e-9, atol=1e-9)
        assert state.multiplications == elimination.eliminate(graph, order, numeric=False).multiplications


def test_counts_by_hand() -> None:
    """x -> a -> b -> 3 results: a chain of 1 x 1 partials, then a fan."""

    def fan(x):
        b = wg.sin(wg.exp(x))
        return wg.stack([b * 2.0, b * 3.0, wg.cos(b)])

    cost = wg.elimination_cost(fan, t(0.5))
    # Forward: a (1 * 1), b (1 * 3). Reverse: b (1 * 3), then a (1 * 3).
    assert (cost.vertices, cost.edges) == (2, 5)
    assert (cost.forward, cost.reverse, cost.markowitz, cost.relative) == (4, 6, 4, 4)

    # Two inputs meet in a (2 edges), which two results use through b: neither order is better at both.
    def both(x):
        b = wg.sin(x[0] * x[1])
        return wg.stack([wg.exp(b), wg.cos(b)])

    cost = wg.elimination_cost(both, t([0.5, 2.0]))
    assert (cost.forward, cost.reverse, cost.markowitz) == (2 + 4, 2 + 4, 6)


def test_the_middle_first_beats_both_ends() -> None:
    cost = wg.elimination_cost(hourglass, t(CASES[hourglass]))
    assert cost.markowitz < 0.6 * min(cost.forward, cost.reverse)
    assert cost.best == "markowitz"
    assert str(cost).splitlines()[0] == "4 inputs, 4 outputs, 11 intermediates, 23 partials"


def test_what_only_selects_makes_no_scalars() -> None:
    def moved(x):
        y = x.reshape(2, 3).mT
        return wg.sin(wg.broadcast_to(y[1], (2, 2))).sum(axis=0)

    cost = wg.elimination_cost(moved, t(np.arange(6.0)))
    assert (cost.inputs, cost.vertices, cost.outputs) == (6, 4, 2)
    np.testing.assert_allclose(*all_modes(moved, t(np.arange(6.0)))[:2])


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: wg.where(x > 0, wg.log(x), 0.0),  # nothing flows where log has an infinite partial
        lambda x: wg.max(wg.sqrt(x * x)),
        lambda x: wg.maximum(wg.sqrt(x + 1.0), 1.0),
        lambda x: wg.stack([wg.relu(x).sum(), wg.maximum(x, 2 * x).sum()]),
        lambda x: wg.nn.functional.layer_norm(x.reshape(1, 3), (3,)),
        lambda x: wg.softmax(x.reshape(3, 1), axis=-2) @ x[:1],
        lambda x: wg.linalg.inv(wg.outer(x, x) + wg.eye(3, dtype=x.dtype)),
        lambda x: wg.linalg.slogdet(wg.outer(x, x) + wg.eye(3, dtype=x.dtype))[1],
        lambda x: wg.sort(x),
        lambda x: wg.scan(lambda c, a: (c * a + 1.0, c), x[0], x)[1],
        lambda x: wg.stack([x[0], x[0], x[0] * x[1]]),
        lambda x: x,
        lambda x: wg.ones(2, dtype=x.dtype),
        lambda x: x[:0],
        lambda x: wg.sin(x.sum()),
    ],
)
def test_agrees_with_the_passes(fn) -> None:
    found, _, reverse = all_modes(fn, t([0.0, 2.0, -1.0]))
    assert found.shape == reverse.shape
    np.testing.assert_allclose(found, reverse, rtol=1e-12, atol=1e-12)


def test_a_nan_that_flows_stays_where_it_flows() -> None:
    """0 times an infinite partial; the passes spread it over the row, since 0 times NaN is NaN."""
    found = wg.jacobian(lambda x: wg.sqrt(x) * 0.0, mode="elimination")(t([0.0, 2.0])).numpy()
    np.testing.assert_array_equal(found, [[np.nan, 0.0], [0.0, 0.0]])


def test_nests_dtypes_and_complex_numbers() -> None:
    params = {"w": wg.tensor([[1.0, 2.0], [3.0, 4.0]]), "b": (wg.tensor(0.5),)}

    def model(p, x):
        return {"y": p["w"] @ x + p["b"][0], "norm": (x**2).sum()}, "aux"

    options = {"argnums": (0, 1), "has_aux": True}
    found, aux = wg.jacobian(model, mode="elimination", **options)(params, wg.tensor([1.0, -1.0]))
    expected, _ = wg.jacobian(model, mode="reverse", **options)(params, wg.tensor([1.0, -1.0]))
    assert aux == "aux"
    for a, b in zip(wg.tree.leaves(found), wg.tree.leaves(expected), strict=True):
        assert a.spec == b.spec
        np.testing.assert_allclose(a.numpy(), b.numpy())
    z = wg.tensor(np.array([1 + 2j, 0.3j]))
    a, b, _ = all_modes(lambda z: wg.exp(z * 1j) * z.sum(), z, holomorphic=True)
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_differentiated_or_traced_it_is_a_pass() -> None:
    def fn(x):
        return wg.sin(x) * x[0]

    def by(mode):
        return wg.grad(lambda x: (wg.jacobian(fn, mode=mode)(x) ** 2).sum())

    x = t([0.3, 1.0])
    np.testing.assert_allclose(by("elimination")(x).numpy(), by("reverse")(x).numpy(), rtol=1e-12)
    traced = wg.graph(wg.jacobian(fn, mode="elimination"))(x)(x)
    np.testing.assert_allclose(traced.numpy(), wg.jacobian(fn)(x).numpy())


def test_errors() -> None:
    with pytest.raises(wg.DTypeError, match="int"):
        wg.elimination_cost(lambda x: x * 1.0, 3)
    with pytest.raises(wg.GradientError, match="elimination"):
        wg.jacobian(wg.sin, mode="fastest")


def test_counts_in_the_page() -> None:
    """The table of docs/elimination.md."""
    page = (Path(__file__).parents[2] / "docs" / "elimination.md").read_text()
    for fn, x in CASES.items():
        cost = wg.elimination_cost(fn, t(x))
        row = f"| {cost.forward} | {cost.reverse} | {cost.markowitz} | {cost.relative} |"
        assert row in page, f"{fn.__name__}: {row}"
