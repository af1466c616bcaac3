"""Functions of the literature: value, gradient and Hessian-vector product equal to PyTorch's and JAX's.

The peers' answers stand in literature/references.json, so that the comparison needs neither library;
where one is installed it is asked again. `python -m literature.make_references` writes the file.
"""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from literature import CASES, Case
from literature.finance import black_scholes_call
from literature.namespaces import jax_derivatives, torch_derivatives, wengert

XP = wengert()
TOLERANCE = 1e-9
# PyTorch 2.13's trigamma, against mpmath, is wrong by up to 4e-10 relative; these cases divide by little.
TOLERANCES = {("torch", "dirichlet_stationarity"): 1e-8}
PEERS = {"torch": torch_derivatives, "jax": jax_derivatives}


@cache
def references() -> Any:
    return json.loads((Path(__file__).parents[1] / "helpers" / "literature" / "references.json").read_text())


def differs(found: Any, expected: Any, tolerance: float = TOLERANCE) -> str:
    """Empty, or by how much two arrays differ relative to the largest element of the second."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape or found.dtype != np.float64:
        return f"{found.dtype}{found.shape} for {expected.dtype}{expected.shape}"
    scale, error = np.max(np.abs(expected)), np.max(np.abs(found - expected))
    return "" if error <= tolerance * scale else f"off by {error:.2e} at a scale of {scale:.2e}"


def peer_answers(case: Case) -> dict[str, list[tuple[float, Any, Any]]]:
    entry = references()["cases"][case.name]
    return {peer: [(v, np.asarray(g), np.asarray(p)) for v, g, p in entry[peer]] for peer in PEERS}


def by_backward(f: Any, x: wg.Tensor) -> wg.Tensor:
    leaf = wg.tensor(x, requires_grad=True)
    f(leaf).backward()
    assert leaf.grad is not None
    return leaf.grad


# Every way in which Wengert gives the gradient, and the Hessian-vector product.
GRADIENTS = {
    "backward": by_backward,
    "grad": lambda f, x: wg.grad(f)(x),
    "graph of grad": lambda f, x: wg.graph(wg.grad(f))(x)(x),
    "grad of graph": lambda f, x: wg.grad(wg.graph(f)(x))(x),
}
PRODUCTS = {
    "reverse over reverse": lambda f, x, v: wg.grad(lambda y: (wg.grad(f)(y) * v).sum())(x),
    "forward over reverse": lambda f, x, v: wg.jvp(wg.grad(f), (x,), (v,))[1],
    "reverse over forward": lambda f, x, v: wg.grad(lambda y: wg.jvp(f, (y,), (v,))[1])(x),
    "hvp": lambda f, x, v: wg.hvp(f, (x,), (v,)),
    "graph of forward over reverse": lambda f, x, v: wg.graph(lambda y: wg.jvp(wg.grad(f), (y,), (v,))[1])(x)(x),
}


def check(name: str, i: int, gradients: dict[str, Any], products: dict[str, Any]) -> None:
    """The value, and these ways to gradient and product, at a point of a case."""
    case = CASES[name]
    f, point, direction = case.on(XP), case.points()[i], case.directions()[i]
    x, v = wg.asarray(point), wg.asarray(direction)
    found = {("value", 0): f(x)}
    found |= {(k, 1): g(f, x) for k, g in gradients.items()}
    found |= {(k, 2): p(f, x, v) for k, p in products.items()}
    wrong = []
    for (what, which), value in found.items():
        for peer, points in peer_answers(case).items():
            note = differs(value, points[i][which], TOLERANCES.get((peer, name), TOLERANCE))
            wrong += [f"{what} at point {i} against {peer}: {note}"] * bool(note)
    assert not wrong, "\n".join([case.source, *wrong])


@pytest.mark.parametrize("name", CASES)
def test_equal_to_the_peers(name: str) -> None:
    """Every way at one point; at another, which may lie on another branch, one to the gradient, one to the product."""
    turn = [*CASES].index(name)
    (gradient, product) = ([*ways.items()][turn % len(ways)] for ways in (GRADIENTS, PRODUCTS))
    check(name, 0, GRADIENTS, PRODUCTS)
    check(name, 1, dict([gradient]), dict([product]))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_equal_to_the_peers_at_another_point(name: str) -> None:
    check(name, 1, GRADIENTS, PRODUCTS)


def in_turn(turn: int) -> list[Any]:
    """Every fifth case; the others are left to the slow tests."""
    return [pytest.param(name, marks=() if i % 5 == turn else pytest.mark.slow) for i, name in enumerate(CASES)]


@pytest.mark.parametrize("name", in_turn(0))
def test_equal_to_the_peers_when_batched(name: str) -> None:
    """Both points at once by vmap, and the gradient of a batched function."""
    case = CASES[name]
    f = case.on(XP)
    xs, vs = (wg.asarray(np.stack(a)) for a in (case.points(), case.directions()))
    value, gradient, product = (np.stack(part) for part in zip(*peer_answers(case)["jax"], strict=True))
    found = {
        "vmap": (wg.vmap(f)(xs), value),
        "vmap of grad": (wg.vmap(wg.grad(f))(xs), gradient),
        "grad of vmap": (wg.grad(lambda y: wg.vmap(f)(y).sum())(xs), gradient),
        "graph of vmap of grad": (wg.graph(wg.vmap(wg.grad(f)))(xs)(xs), gradient),
        "vmap of hvp": (wg.vmap(lambda x, v: PRODUCTS["forward over reverse"](f, x, v))(xs, vs), product),
        "vmap of reverse over reverse": (
            wg.vmap(lambda x, v: PRODUCTS["reverse over reverse"](f, x, v))(xs, vs),
            product,
        ),
    }
    notes = [f"{what}: {note}" for what, pair in found.items() if (note := differs(*pair))]
    assert not notes, "\n".join([case.source, *notes])


@pytest.mark.parametrize("name", in_turn(1))
def test_hessian_times_a_direction(name: str) -> None:
    case = CASES[name]
    x, v = case.points()[0], case.directions()[0]
    hessian = np.asarray(wg.hessian(case.on(XP))(wg.asarray(x))).reshape(x.size, x.size)
    assert not differs((hessian @ v.reshape(-1)).reshape(x.shape), peer_answers(case)["jax"][0][2])
    assert not np.any(np.abs(hessian - hessian.T) > 1e-9 * np.max(np.abs(hessian)))


@pytest.mark.parametrize("name", in_turn(2))
def test_third_order_is_one_in_every_nesting(name: str) -> None:
    case = CASES[name]
    f = case.on(XP)
    x, v = wg.asarray(case.points()[0]), wg.asarray(case.directions()[0])
    reverse, mixed = (PRODUCTS[k] for k in ("reverse over reverse", "forward over reverse"))
    expected = wg.grad(lambda y: (reverse(f, y, v) * v).sum())(x)
    found = wg.jvp(lambda y: mixed(f, y, v), (x,), (v,))[1]
    scale = float(np.max(np.abs(np.asarray(mixed(f, x, v)))))
    assert float(wg.max(wg.abs(found - expected))) <= 1e-9 * max(scale, float(wg.max(wg.abs(expected))))


def live() -> list[Any]:
    """Every case on every peer that is installed, and one skipped test for each that is not."""
    reason = "{} is not installed: pip install 'wengert[peers]' asks it again"
    return [
        pytest.param(peer, name, marks=marks)
        for peer in PEERS
        for names, marks in [
            (CASES, pytest.mark.slow)
            if importlib.util.find_spec(peer)
            else ([""], pytest.mark.skip(reason=reason.format(peer)))
        ]
        for name in names
    ]


@pytest.mark.parametrize(("peer", "name"), live())
@pytest.mark.filterwarnings("ignore")
def test_references_are_what_the_peers_say(peer: str, name: str) -> None:
    case = CASES[name]
    for found, expected in zip(PEERS[peer](case), peer_answers(case)[peer], strict=True):
        notes = [differs(f, e, TOLERANCES.get((peer, name), TOLERANCE)) for f, e in zip(found, expected, strict=True)]
        assert not any(notes), f"{case.source}: {notes}"


def test_the_references_are_complete_and_at_these_points() -> None:
    cases = references()["cases"]
    assert list(cases) == list(CASES)
    for name, case in CASES.items():
        np.testing.assert_allclose(case.points(), cases[name]["points"], rtol=1e-14, atol=0, err_msg=name)
        for points in peer_answers(case).values():
            assert all(np.all(np.isfinite(part)) for answer in points for part in answer), name


def test_there_are_enough_and_every_field_has_some() -> None:
    fields = {case.field for case in CASES.values()}
    assert len(CASES) - sum(case.field == "conventions" for case in CASES.values()) >= 180
    assert len(fields) == 13
    assert all(any(c.isdigit() for c in case.source) for case in CASES.values()), "a source names its year"


def test_the_comparison_sees_an_error() -> None:
    expected = np.array([1.0, -2.0, 0.0])
    assert not differs(expected * (1 + 5e-10), expected)
    assert "off by" in differs(expected + np.array([0, 0, 3e-9]), expected)
    assert "off by" in differs(np.array([1.0, np.nan, 0.0]), expected)
    assert "float32" in differs(expected.astype(np.float32), expected)
    assert differs(expected[:1], expected)


MINIMA = [
    ("rosenbrock", [1.0] * 6, 0.0),
    ("chained_rosenbrock", [1.0] * 10, 1.0),
    ("beale", [3.0, 0.5], 0.0),
    ("booth", [1.0, 3.0], 0.0),
    ("himmelblau", [3.0, 2.0], 0.0),
    ("powell_singular", [0.0] * 8, 0.0),
    ("wood", [1.0] * 4, 0.0),
    ("colville", [1.0] * 4, 0.0),
    ("styblinski_tang", [-2.903534027771] * 7, -39.16616570377 * 7),
    ("griewank", [0.0] * 6, 0.0),
    ("rastrigin", [0.0] * 6, 0.0),
    ("levy", [1.0] * 5, 0.0),
    ("branin", [np.pi, 2.275], 0.39788735773),
    ("goldstein_price", [0.0, -1.0], 3.0),
    ("six_hump_camel", [0.08984201, -0.71265640], -1.03162845349),
    ("mccormick", [-0.54719755, -1.54719755], -1.91322295498),
    ("dixon_price", [2 ** (2.0 ** (1 - i) - 1) for i in range(1, 7)], 0.0),
    ("zakharov", [0.0] * 5, 0.0),
    ("trigonometric", [0.0] * 6, 0.0),
    ("brown_almost_linear", [1.0] * 6, 0.0),
    ("helical_valley", [1.0, 0.0, 0.0], 0.0),
    ("biggs_exp6", [1.0, 10.0, 1.0, 5.0, 4.0, 3.0], 0.0),
    ("watson", [-0.015725, 1.012435, -0.232992, 1.260430, -1.513729, 0.992996], 2.28767005355e-3),
    ("easom_and_eggholder", [512.0, 404.2319], -959.6406627),
    ("enzyme_reaction", [0.192807, 0.191282, 0.123057, 0.136062], 3.0750560e-4),
]


@pytest.mark.parametrize(("name", "point", "value"), MINIMA, ids=[m[0] for m in MINIMA])
def test_published_minima(name: str, point: list[float], value: float) -> None:
    """The functions are those of the literature: the published minimum, and (inside) no slope there."""
    found, slope = wg.value_and_grad(CASES[name].on(XP))(wg.asarray(np.array(point)))
    assert float(found) == pytest.approx(value, rel=1e-6, abs=1e-12)
    if name != "easom_and_eggholder":  # its minimum lies on the border of the square
        assert float(wg.max(wg.abs(slope))) < 1e-4


SPOT, STRIKE, VOLATILITY, RATE, YEARS = range(5)


def greeks(s: float, k: float, v: float, r: float, t: float) -> dict[str, tuple[tuple[int, ...], float]]:
    """Closed forms of a call's derivatives in these arguments; Haug (2007), Option Pricing Formulas."""
    root = v * t**0.5
    d1 = (np.log(s / k) + (r + v**2 / 2) * t) / root
    d2 = d1 - root
    cdf = lambda x: float(wg.special.erfc(-x / 2**0.5)) / 2
    pdf = np.exp(-(d1**2) / 2) / (2 * np.pi) ** 0.5
    now = k * np.exp(-r * t)
    gamma, vega = pdf / (s * root), s * pdf * t**0.5
    drift = (2 * r * t - d2 * root) / (2 * t * root)
    return {
        "delta": ((SPOT,), cdf(d1)),
        "dual delta": ((STRIKE,), -now / k * cdf(d2)),
        "vega": ((VOLATILITY,), vega),
        "rho": ((RATE,), now * t * cdf(d2)),
        "theta": ((YEARS,), s * pdf * v / (2 * t**0.5) + r * now * cdf(d2)),
        "gamma": ((SPOT, SPOT), gamma),
        "dual gamma": ((STRIKE, STRIKE), gamma * s**2 / k**2),
        "vanna": ((SPOT, VOLATILITY), -pdf * d2 / v),
        "volga": ((VOLATILITY, VOLATILITY), vega * d1 * d2 / v),
        "charm": ((SPOT, YEARS), pdf * drift),
        "veta": ((VOLATILITY, YEARS), -vega * (r * d1 / root - (1 + d1 * d2) / (2 * t))),
        "speed": ((SPOT, SPOT, SPOT), -gamma / s * (d1 / root + 1)),
        "zomma": ((SPOT, SPOT, VOLATILITY), gamma * (d1 * d2 - 1) / v),
        "color": ((SPOT, SPOT, YEARS), -gamma * (1 / (2 * t) + d1 * drift)),
        "ultima": ((VOLATILITY,) * 3, -vega / v**2 * (d1 * d2 * (1 - d1 * d2) + d1**2 + d2**2)),
    }


def partial_derivative(f: Any, i: int) -> Any:
    return lambda *args: wg.jvp(f, args, [1.0 if i == j else None for j in range(len(args))])[1]


MARKETS = [(100.0, 105.0, 0.2, 0.03, 0.75), (90.0, 70.0, 0.45, -0.01, 2.0)]


@pytest.mark.parametrize("market", MARKETS)
@pytest.mark.parametrize("greek", greeks(*MARKETS[0]))
def test_greeks(greek: str, market: tuple[float, ...]) -> None:
    order, expected = greeks(*market)[greek]
    price: Any = lambda *args: black_scholes_call(XP, *args)
    args = [wg.asarray(np.float64(a)) for a in market]
    reverse = forward = price
    for i in order:
        reverse = wg.grad(reverse, i)
        forward = partial_derivative(forward, i)
    for found in (reverse(*args), forward(*args), wg.graph(reverse)(*args)(*args)):
        assert float(found) == pytest.approx(expected, rel=1e-9)


def test_heston_with_little_noise_is_black_scholes() -> None:
    heston = CASES["heston"].on(XP)
    found = heston(wg.asarray(np.array([100.0, 0.09, 1.0, 0.09, 1e-3, 0.0])))
    expected = black_scholes_call(XP, *(wg.asarray(np.float64(a)) for a in (100.0, 95.0, 0.3, 0.02, 1.0)))
    assert float(found) == pytest.approx(float(expected), rel=1e-5)


def test_parameters_in_a_nest() -> None:
    """A dict of layers instead of one vector: the same numbers, in value, gradient and product."""
    case = CASES["variational_autoencoder"]
    f, x, v = case.on(XP), wg.asarray(case.points()[0]), wg.asarray(case.directions()[0])
    split = lambda a: {"encoder": [a[:12], (a[12:18], a[18:24])], "decoder": a[24:]}
    joined = lambda p: wg.concat([p["encoder"][0], *p["encoder"][1], p["decoder"]])
    nested = lambda p: f(joined(p))
    gradient, product = wg.jvp(wg.grad(nested), (split(x),), (split(v),))
    value, expected, expected_product = peer_answers(case)["jax"][0]
    assert not differs(nested(split(x)), value)
    assert not differs(joined(gradient), expected)
    assert not differs(joined(product), expected_product)


# Where one of the peers gives NaN or another point's value, and mathematics is clear.
EXACT = {
    "powers of a vector with 0": (
        lambda x: wg.sum(x[:, None] ** wg.arange(5)),
        [0.0, 0.5, -1.0],
        lambda x: 1 + 2 * x + 3 * x**2 + 4 * x**3,
        lambda x: 2 + 6 * x + 12 * x**2,
    ),
    "power 3.0 of 0": (lambda x: wg.sum(x**3.0), [0.0, 1.0, -2.0], lambda x: 3 * x**2, lambda x: 6 * x),
    "linear part of relu": (lambda x: wg.sum(wg.relu(x)), [1.0, -2.0], lambda x: (x > 0) * 1.0, lambda x: 0 * x),
    "logarithm beside 0": (
        lambda x: wg.sum(wg.where(x > 0, wg.log(x), x)),
        [2.0, 0.0, -1.0],
        lambda x: np.array([0.5, 1.0, 1.0]),
        lambda x: np.array([-0.25, 0.0, 0.0]),
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_where_the_peers_are_not(name: str) -> None:
    f, point, slope, curve = EXACT[name]
    values = np.array(point)
    x, v = wg.asarray(values), wg.asarray(np.arange(1.0, values.size + 1))
    for gradient in GRADIENTS.values():
        np.testing.assert_allclose(np.asarray(gradient(f, x)), slope(values), rtol=1e-14)
    for product in PRODUCTS.values():
        np.testing.assert_allclose(np.asarray(product(f, x, v)), curve(values) * np.asarray(v), rtol=1e-14)
