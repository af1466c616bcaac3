"""odeint: accuracy and order, stiff problems, derivatives by every adjoint, events, interpolation, refusals."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import wengert as wg
from wengert.solve import ConvergenceError, Event, Solution, odeint
from wengert.solve.ode.odeint import Method
from wengert.solve.ode.tableaux import TABLEAUX, Tableau

A = np.array([[-0.5, 2.0], [-2.0, -0.3]])
Y0 = np.array([1.0, 0.5])
TS = np.array([0.2, 0.5, 1.0, 2.5])
WEIGHTS = np.random.default_rng(0).normal(size=(4, 2))
ADJOINTS = ["discretise", "checkpointed", "continuous"]
ADAPTIVE = [n for n, t in TABLEAUX.items() if t.adaptive]
FIXED = [n for n, t in TABLEAUX.items() if not t.adaptive]


def forced(t: Any, y: Any, a: Any) -> Any:
    """y' = cos(0.3 t) A y, whose solution is an exponential."""
    return a @ y * wg.cos(0.3 * t)


def forced_solution(y0: np.ndarray, ts: np.ndarray, a: np.ndarray) -> np.ndarray:
    return np.stack([expm(a * (np.sin(0.3 * t) - np.sin(0.3 * ts[0])) / 0.3) @ y0 for t in ts])


def numerical(f: Callable[[np.ndarray], float], x: np.ndarray) -> np.ndarray:
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        e = np.zeros_like(x)
        e[i] = 1e-5
        out[i] = (f(x + e) - f(x - e)) / 2e-5
    return out


def expected_gradients() -> tuple[np.ndarray, ...]:
    def value(y0: np.ndarray, ts: np.ndarray, a: np.ndarray) -> float:
        return float((forced_solution(y0, ts, a) * WEIGHTS).sum())

    return (
        numerical(lambda v: value(v, TS, A), Y0),
        numerical(lambda v: value(Y0, v, A), TS),
        numerical(lambda v: value(Y0, TS, v), A),
    )


def f64(x: Any) -> wg.Tensor:
    return wg.asarray(np.asarray(x, np.float64))


# -- the methods


def conditions(t: Tableau, b: np.ndarray) -> dict[int, float]:
    """The largest residual among the order conditions (rooted trees) of each order up to 5."""
    n = len(t.b)
    a = np.zeros((n, n))
    for i, row in enumerate(t.a):
        a[i, : len(row)] = row
        a[i, i] += t.gamma if i else 0.0
    c = np.array(t.c)
    assert np.allclose(a.sum(1), c, atol=1e-14)
    trees = {
        1: [b.sum() - 1],
        2: [b @ c - 1 / 2],
        3: [b @ c**2 - 1 / 3, b @ a @ c - 1 / 6],
        4: [b @ c**3 - 1 / 4, (b * c) @ a @ c - 1 / 8, b @ a @ c**2 - 1 / 12, b @ a @ a @ c - 1 / 24],
        5: [
            b @ c**4 - 1 / 5,
            (b * c**2) @ a @ c - 1 / 10,
            (b * c) @ a @ c**2 - 1 / 15,
            b @ (a @ c) ** 2 - 1 / 20,
            (b * c) @ a @ a @ c - 1 / 30,
            b @ a @ c**3 - 1 / 20,
            b @ a @ (c * (a @ c)) - 1 / 40,
            b @ a @ a @ c**2 - 1 / 60,
            b @ a @ a @ a @ c - 1 / 120,
        ],
    }
    return {k: max(map(abs, v)) for k, v in trees.items()}


def test_every_method_is_named() -> None:
    assert get_args(Method) == tuple(TABLEAUX)


@pytest.mark.parametrize("name", TABLEAUX)
def test_order_conditions(name: str) -> None:
    t = TABLEAUX[name]
    found = conditions(t, np.array(t.b))
    assert all(found[k] < 1e-13 for k in range(1, t.order + 1))
    assert all(found[k] > 1e-4 for k in range(t.order + 1, 6))
    if t.error is not None:
        embedded = conditions(t, np.array(t.b) - np.array(t.error))
        assert all(embedded[k] < 1e-13 for k in range(1, t.order))
        assert embedded[t.order] > 1e-4
    if t.interpolant is not None:
        p = np.array(t.interpolant)
        assert np.allclose(p.sum(1), t.b, atol=1e-12)
        slopes = p * np.arange(1, p.shape[1] + 1)
        assert np.allclose(slopes.sum(1), np.eye(len(t.b))[-1], atol=1e-12)
        c, x = np.array(t.c), 0.37
        b = p @ x ** np.arange(1, p.shape[1] + 1)
        assert max(abs(b @ c ** (k - 1) - x**k / k) for k in range(1, 5)) < 1e-13


@pytest.mark.parametrize("name", TABLEAUX)
def test_order_of_convergence(name: str) -> None:
    def error(steps: int) -> float:
        ys = odeint(forced, f64(Y0), TS, f64(A), method=name, steps=steps, rtol=1e-12, atol=1e-14)
        return float(np.abs(ys.numpy() - forced_solution(Y0, TS, A)).max())

    order = np.log2(error(12) / error(24))
    assert abs(order - TABLEAUX[name].order) < 0.4


@pytest.mark.parametrize("name", ADAPTIVE)
@pytest.mark.parametrize("rtol", [1e-4, 1e-7])
def test_errors_follow_the_tolerance(name: str, rtol: float) -> None:
    found = odeint(forced, f64(Y0), TS, f64(A), method=name, rtol=rtol, atol=rtol, return_info=True)
    error = np.abs(found.ys.numpy() - forced_solution(Y0, TS, A)).max()
    assert error < 10 * rtol
    tight = odeint(forced, f64(Y0), TS, f64(A), method=name, rtol=rtol / 10, atol=rtol / 10, return_info=True)
    assert found.info.accepted < tight.info.accepted


@pytest.mark.parametrize("name", ADAPTIVE)
def test_backwards_returns_to_the_start(name: str) -> None:
    there = odeint(forced, f64(Y0), TS, f64(A), method=name, rtol=1e-8, atol=1e-10)
    back = odeint(forced, there[-1], TS[::-1].copy(), f64(A), method=name, rtol=1e-8, atol=1e-10)
    assert np.allclose(back.numpy()[::-1], there.numpy(), atol=1e-7)


def test_many_outputs_take_no_more_steps() -> None:
    few = odeint(forced, f64(Y0), [0.0, 5.0], f64(A), return_info=True)
    many = odeint(forced, f64(Y0), np.linspace(0, 5, 400), f64(A), return_info=True)
    assert few.info == many.info
    exact = forced_solution(Y0, np.linspace(0, 5, 400), A)
    assert np.abs(many.ys.numpy() - exact).max() < 1e-5


def test_against_scipy_on_a_nonlinear_system() -> None:
    def lorenz(t: Any, y: Any) -> Any:
        return wg.stack([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])

    start = np.array([1.0, 1.0, 1.0])
    ts = [0.0, 1.0, 3.0]
    exact = solve_ivp(
        lambda t, y: lorenz(t, wg.asarray(y)).numpy(), (0, 3), start, "DOP853", ts, rtol=1e-12, atol=1e-12
    ).y.T
    for name in ("tsit5", "dopri5", "kvaerno5"):
        found = odeint(lorenz, f64(start), ts, method=name, rtol=1e-9, atol=1e-9)
        assert np.abs(found.numpy() - exact).max() < 2e-5  # errors grow by about e^(0.9 t)


# -- states of every kind


def test_nests_dtypes_and_numbers() -> None:
    ys = odeint(
        lambda t, s: {"q": s["p"].astype(wg.float32), "p": -s["q"]},
        {"q": wg.ones(2), "p": f64([0.0, 0.0])},
        [0.0, 1.0, 2.0],
    )
    assert ys["q"].dtype == wg.float32
    assert ys["p"].dtype == wg.float64
    assert np.allclose(ys["q"].numpy()[:, 0], np.cos([0, 1, 2]), atol=1e-5)
    assert odeint(lambda t, y: -y, 1, [0.0, 1.0]).dtype == wg.float32
    assert odeint(lambda t, y, k: -k * y, 1.0, [0.0, 1.0], f64(1.0)).dtype == wg.float64
    assert odeint(lambda t, y: -y, wg.zeros(0), [0.0, 1.0]).shape == (2, 0)
    assert odeint(lambda t, y: -y, wg.ones(3), [0.0]).shape == (1, 3)


@pytest.mark.parametrize("name", ["tsit5", "kvaerno5", "rk4"])
def test_complex_states(name: str) -> None:
    def turned(w: Any) -> Any:
        steps = 40 if name == "rk4" else None
        start = wg.asarray(np.array([1.0 + 0j]))
        return odeint(lambda t, y: 1j * w * y, start, [0.0, 2.0], method=name, steps=steps, rtol=1e-9, atol=1e-9)

    assert np.allclose(turned(f64(1.5)).numpy()[-1], np.exp(3j), atol=1e-6)
    slope = wg.grad(lambda w: turned(w)[-1, 0].real)(f64(1.5))
    assert float(slope) == pytest.approx(-2 * np.sin(3.0), abs=1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-3), ("float16", 3e-2), ("bfloat16", 1e-1)])
def test_low_precision(dtype: str, tolerance: float) -> None:
    found = odeint(lambda t, y: -y, wg.ones(2, dtype=getattr(wg, dtype)), [0.0, 1.0, 2.0])
    assert found.dtype == getattr(wg, dtype)
    assert np.allclose(found.astype(wg.float64).numpy()[:, 0], np.exp([0, -1, -2]), atol=tolerance)


# -- stiff problems


def robertson(y: Any) -> list[Any]:
    a, b, c = y[0], y[1], y[2]
    slow, fast = 0.04 * a - 1e4 * b * c, 3e7 * b * b
    return [-slow, slow - fast, fast]


def van_der_pol(y: Any) -> list[Any]:
    return [y[1], 1000 * (1 - y[0] ** 2) * y[1] - y[0]]


@pytest.mark.parametrize(
    ("changes", "start", "ts", "most"),
    [
        (robertson, [1.0, 0.0, 0.0], [0.0, 0.4, 40.0, 4e4, 1e8], 400),
        pytest.param(van_der_pol, [2.0, 0.0], [0.0, 500.0, 1000.0, 2000.0], 1000, marks=pytest.mark.slow),
    ],
    ids=["Robertson", "Van der Pol"],
)
def test_stiff_against_radau(changes: Any, start: list[float], ts: list[float], most: int) -> None:
    def f(t: Any, y: Any) -> Any:
        return wg.stack(changes(y))

    exact = solve_ivp(lambda t, y: changes(y.tolist()), (ts[0], ts[-1]), start, "Radau", ts, rtol=1e-9, atol=1e-13).y.T
    found = odeint(f, f64(start), ts, method="kvaerno5", rtol=1e-6, atol=1e-10, return_info=True)
    assert np.abs(found.ys.numpy() - exact).max() < 1e-5
    assert found.info.accepted + found.info.rejected < most
    assert 0 < found.info.jacobians < found.info.accepted + found.info.rejected
    with pytest.raises(ConvergenceError, match="kvaerno5"):
        odeint(f, f64(start), ts, max_steps=most)


@pytest.mark.parametrize("name", ["kvaerno3", "kvaerno5"])
@pytest.mark.parametrize("rate", [1e3, 1e6, 1e9])
def test_prothero_robinson(name: str, rate: float) -> None:
    """As stiff as one likes, the solution stays cos(t)."""
    found = odeint(
        lambda t, y: -rate * (y - wg.cos(t)) - wg.sin(t), f64(1.0), [0.0, 1.0, 5.0], method=name, return_info=True
    )
    assert np.allclose(found.ys.numpy(), np.cos([0, 1, 5]), atol=1e-4)
    assert found.info.accepted < 200


def test_gradient_of_a_stiff_problem() -> None:
    """Prothero-Robinson in its target's frequency: y follows cos(w t), so dy/dw = -t sin(w t)."""

    def last(w: Any) -> Any:
        f = lambda t, y: -1e5 * (y - wg.cos(w * t)) - w * wg.sin(w * t)
        return odeint(f, f64(1.0), [0.0, 2.0], method="kvaerno5", rtol=1e-8, atol=1e-8)[-1]

    assert float(wg.grad(last)(f64(0.7))) == pytest.approx(-2 * np.sin(1.4), abs=1e-5)


@pytest.mark.parametrize("rtol", [1e-4, 1e-8])
def test_stages_are_solved_for(rtol: float) -> None:
    """A step of the trapezoidal rule satisfies its equation, far below the tolerance."""
    f = lambda t, y: -(y**3) + wg.sin(t)
    h = 0.5
    y0, y1 = odeint(f, f64(2.0), [0.0, h], method="trapezoid", rtol=rtol, atol=rtol)
    residual = float(y1 - y0 - h / 2 * (f(f64(0.0), y0) + f(f64(h), y1)))
    assert abs(residual) < 0.1 * rtol


# -- derivatives


@pytest.mark.parametrize("adjoint", ADJOINTS)
@pytest.mark.parametrize(
    "name", ["tsit5", pytest.param("dopri5", marks=pytest.mark.slow), "kvaerno5", "rk4", "trapezoid"]
)
def test_gradients_in_everything(name: str, adjoint: str) -> None:
    steps, rtol = {"rk4": 60, "trapezoid": 60}.get(name), {"kvaerno5": 1e-8}.get(name, 1e-9)
    options: dict[str, Any] = {"method": name, "adjoint": adjoint, "steps": steps, "rtol": rtol, "atol": rtol / 100}

    def loss(y0: Any, ts: Any, a: Any) -> Any:
        # The matrix is taken from around the function, not as an argument.
        return (odeint(lambda t, y: forced(t, y, a), y0, ts, **options) * WEIGHTS).sum()

    found = wg.grad(loss, argnums=(0, 1, 2))(f64(Y0), f64(TS), f64(A))
    for g, exact in zip(found, expected_gradients(), strict=True):
        assert np.abs(g.numpy() - exact).max() < {"trapezoid": 2e-3, "rk4": 2e-6}.get(name, 2e-7)


@pytest.mark.parametrize("adjoint", ADJOINTS)
@pytest.mark.parametrize("name", ["tsit5", pytest.param("kvaerno5", marks=pytest.mark.slow), "rk4"])
def test_second_derivatives(name: str, adjoint: str) -> None:
    """y' = -p y^2 has the solution y0 / (1 + p y0 t)."""
    options: dict[str, Any] = {"method": name, "adjoint": adjoint, "steps": 50 if name == "rk4" else None}

    def solved(y0: Any, p: Any, t: Any) -> Any:
        ts = wg.stack([0.0 * t, t])
        return odeint(lambda t, y, p: -p * y**2, y0, ts, p, rtol=1e-8, atol=1e-10, **options)[-1]

    def exact(y0: Any, p: Any, t: Any) -> Any:
        return y0 / (1 + p * y0 * t)

    point = (f64(1.3), f64(0.7), f64(2.0))
    for i, j in [(0, 0), (0, 1), (1, 1), (2, 2)]:
        found = wg.grad(wg.grad(solved, argnums=i), argnums=j)(*point)
        wanted = wg.grad(wg.grad(exact, argnums=i), argnums=j)(*point)
        assert float(found) == pytest.approx(float(wanted), abs=1e-6), (i, j)


@pytest.mark.parametrize(("name", "order"), [("tsit5", 3), ("trapezoid", 3), ("implicit_euler", 2)])
def test_higher_derivatives_of_what_was_computed(name: Any, order: int) -> None:
    """Few steps, far from the exact solution: a step multiplies by a rational function (tsit5: differences)."""
    z = {"trapezoid": lambda p: (1 - p / 6) / (1 + p / 6), "implicit_euler": lambda p: 1 / (1 + p / 3)}
    f = lambda p: odeint(lambda t, y: -p * y, f64(1.0), [0.0, 1.0], method=name, steps=3, rtol=1e-12)[-1]
    exact = (lambda p: z[name](p) ** 3) if name in z else (lambda p: wg.exp(-p))
    for _ in range(order):
        f, exact = wg.grad(f), wg.grad(exact)
    assert float(f(f64(0.5))) == pytest.approx(float(exact(f64(0.5))), abs=1e-5 if name == "tsit5" else 1e-10)


@pytest.mark.parametrize("adjoint", ["discretise", "checkpointed"])
@pytest.mark.parametrize("name", ["tsit5", "kvaerno5", "heun"])
def test_forward_mode_agrees_with_reverse(name: str, adjoint: str) -> None:
    def f(y0: Any, ts: Any, a: Any) -> Any:
        options: dict[str, Any] = {"method": name, "steps": 10 if name == "heun" else None, "adjoint": adjoint}
        return odeint(forced, y0, ts, a, **options)

    point = (f64(Y0), f64(TS), f64(A))
    rng = np.random.default_rng(1)
    tangents = tuple(f64(rng.normal(size=x.shape)) for x in point)
    _, pushed = wg.jvp(f, point, tangents)
    _, pull = wg.vjp(f, *point)
    pulled = pull(f64(WEIGHTS))
    assert float((pushed * WEIGHTS).sum()) == pytest.approx(
        sum(float((g * t).sum()) for g, t in zip(pulled, tangents, strict=True)), rel=1e-9
    )


def test_checkpointed_is_discretised() -> None:
    def loss(a: Any, adjoint: Any) -> Any:
        return (odeint(forced, f64(Y0), TS, a, adjoint=adjoint) ** 2).sum()

    one, two = (wg.grad(lambda a, x=x: loss(a, x))(f64(A)) for x in ("discretise", "checkpointed"))
    assert np.allclose(one.numpy(), two.numpy(), rtol=1e-13)


def test_modules_and_backward() -> None:
    wg.manual_seed(0)
    grads = []
    for adjoint in ADJOINTS:
        wg.manual_seed(0)
        net = wg.nn.Sequential(wg.nn.Linear(2, 8), wg.nn.Tanh(), wg.nn.Linear(8, 2)).to(wg.float64)
        f = lambda t, y, net=net: net(y)
        (odeint(f, f64(Y0), TS, adjoint=adjoint, rtol=1e-8, atol=1e-10) ** 2).sum().backward()
        grads.append([p.grad.numpy() for p in net.parameters()])
    assert any(np.abs(g).max() > 0.1 for g in grads[0])
    for other in grads[1:]:
        for g, h in zip(grads[0], other, strict=True):
            assert np.allclose(g, h, atol=1e-6)


def test_memory_of_the_adjoints() -> None:
    """A wide state over many steps: what a backward pass needs in all, by adjoint."""

    def peak(adjoint: Any) -> int:
        y0 = wg.ones(20_000, requires_grad=True)
        tracemalloc.start()
        try:
            odeint(lambda t, y: wg.sin(y), y0, [0.0, 1.0], method="rk4", steps=144, adjoint=adjoint)[
                -1
            ].sum().backward()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    recorded, checkpoints, adjoint = map(peak, ADJOINTS)
    assert checkpoints < 0.4 * recorded
    assert adjoint < 0.1 * recorded


def test_no_gradient_where_none_is_asked_for() -> None:
    assert not odeint(forced, f64(Y0), TS, f64(A)).requires_grad
    with wg.no_grad():
        y = odeint(forced, wg.tensor(Y0, requires_grad=True), TS, f64(A), adjoint="continuous")
    assert not y.requires_grad


# -- traced and mapped


def test_fixed_steps_are_one_scan() -> None:
    f = lambda y: odeint(lambda t, y: -t * y, y, [0.0, 1.0, 2.0], method="rk4", steps=7)
    g = wg.graph(f)(wg.ones(3))
    assert [n.op.name for n in g.nodes].count("scan") == 1
    assert len(g.nodes) < 15
    assert np.allclose(g(wg.ones(3)).numpy(), f(wg.ones(3)).numpy(), rtol=1e-6)


@pytest.mark.parametrize("options", [{"method": "midpoint", "steps": 30}, {"max_steps": 60}])
def test_vmap_over_starts(options: dict[str, Any]) -> None:
    def last(y0: Any) -> Any:
        return odeint(lambda t, y: -0.7 * y**2, y0, [0.0, 1.0, 2.0], rtol=1e-7, atol=1e-9, **options)[-1]

    # With a step size of its own for each: the last one needs smaller steps.
    y0 = f64([0.5, 1.0, 40.0 if "max_steps" in options else 2.0])
    assert np.allclose(wg.vmap(last)(y0).numpy(), (y0 / (1 + 1.4 * y0)).numpy(), rtol=1e-3, atol=1e-6)
    assert np.allclose(wg.vmap(wg.grad(last))(y0).numpy(), (1 / (1 + 1.4 * y0) ** 2).numpy(), rtol=5e-3, atol=1e-6)


def test_a_traced_loop_that_does_not_arrive_is_nan() -> None:
    f = lambda y: odeint(lambda t, y: -50 * y, y, [0.0, 0.01, 10.0], max_steps=16)
    found = wg.vmap(f)(f64([1.0])).numpy()[0]
    assert np.isfinite(found[:2]).all()
    assert np.isnan(found[2])


def test_a_traced_loop_rejects_a_step_that_is_too_long() -> None:
    f = lambda y: odeint(lambda t, y: -y * y, y, [0.0, 3.0], max_steps=60, first_step=3.0, rtol=1e-6)
    y0 = f64([1.0, 5.0])
    assert np.allclose(wg.vmap(f)(y0).numpy()[:, 1], (y0 / (1 + 3 * y0)).numpy(), rtol=1e-4)


def test_adaptive_traced_agrees_with_eager() -> None:
    f = lambda y, ts: odeint(forced, y, ts, f64(A), rtol=1e-8, atol=1e-10, max_steps=100)
    g = wg.graph(f)(f64(Y0), f64(TS))
    for ts in (TS, TS[::-1].copy()):
        assert np.allclose(g(f64(Y0), f64(ts)).numpy(), f(f64(Y0), f64(ts)).numpy(), atol=1e-7)


def tuned(a: Any, y: Any) -> Any:
    """A number that depends on the parameters and the start of an adaptive solution."""
    return (odeint(forced, y, TS, a, rtol=1e-9, atol=1e-11) * f64(WEIGHTS)).sum()


DERIVATIVES: dict[str, Callable[[Any, Any], Any]] = {
    "gradient": wg.grad(tuned, (0, 1)),
    "tangent": lambda a, y: wg.jvp(tuned, (a, y), (a, y))[1],
    "reverse over reverse": lambda a, y: wg.grad(lambda y: wg.grad(tuned)(a, y).sum())(y),
    "forward over reverse": lambda a, y: wg.jvp(lambda y: wg.grad(tuned)(a, y), (y,), (y,))[1],
    "reverse over forward": lambda a, y: wg.grad(lambda a: wg.jvp(lambda y: tuned(a, y), (y,), (y,))[1])(a),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_of_a_traced_solution_are_those_of_an_eager_one(name: str) -> None:
    """With room for ten thousand steps between two times: they cost the few that are taken."""
    derivative = DERIVATIVES[name]
    args = f64(A), f64(Y0)
    expected = wg.tree.leaves(derivative(*args))
    for got, want in zip(wg.tree.leaves(wg.graph(derivative)(*args)(*args)), expected, strict=True):
        assert np.allclose(got.numpy(), want.numpy(), rtol=1e-6, atol=1e-7)


def test_gradients_of_examples_have_steps_of_their_own() -> None:
    starts = wg.stack([f64(Y0), f64(-3 * Y0), f64([0.0, 1e-3])])
    found = wg.vmap(wg.grad(tuned, 1), in_axes=(None, 0))(f64(A), starts)
    expected = wg.stack([wg.grad(tuned, 1)(f64(A), y) for y in starts])
    assert np.allclose(found.numpy(), expected.numpy(), rtol=1e-6, atol=1e-7)


# -- events


def fall(t: Any, s: Any, gravity: Any) -> Any:
    return wg.stack([s[1], -gravity])


def landing(height: Any, gravity: Any) -> Any:
    start = wg.stack([height, 0.0 * height])
    ground = Event(lambda t, s, g: s[0], direction=-1)
    return odeint(fall, start, [0.0, 1.0, 5.0], gravity, event=ground)


def test_event_time_and_its_derivatives() -> None:
    """A body falls for sqrt(2 h / g)."""
    h, g = f64(10.0), f64(9.81)
    time = lambda h, g: landing(h, g).event_t[0]
    exact = lambda h, g: wg.sqrt(2 * h / g)
    assert float(time(h, g)) == pytest.approx(float(exact(h, g)), rel=1e-12)
    for i in (0, 1):
        first, wanted = wg.grad(time, argnums=i), wg.grad(exact, argnums=i)
        assert float(first(h, g)) == pytest.approx(float(wanted(h, g)), rel=1e-9)
        second, wanted2 = wg.grad(first, argnums=i), wg.grad(wanted, argnums=i)
        assert float(second(h, g)) == pytest.approx(float(wanted2(h, g)), rel=1e-9)
    third = wg.grad(wg.grad(wg.grad(time)))(h, g)
    assert float(third) == pytest.approx(float(wg.grad(wg.grad(wg.grad(exact)))(h, g)), rel=1e-9)
    speed = wg.grad(lambda h: landing(h, g).event_y[0, 1])(h)  # -sqrt(2 g h)
    assert float(speed) == pytest.approx(-np.sqrt(9.81 / 20), rel=1e-9)


def test_a_terminal_event_ends_the_solution() -> None:
    found = landing(f64(10.0), f64(9.81))
    assert isinstance(found, Solution)
    assert found.ts.tolist() == [0.0, 1.0]
    assert found.ys.shape == (2, 2)
    assert found.event_t.shape == (1,)
    never = odeint(fall, f64([10.0, 0.0]), [0.0, 1.0], 9.81, event=lambda t, s, g: s[0])
    assert never.event_t.shape == (0,)
    assert never.event_y.shape == (0, 2)
    assert never.ys.shape == (2, 2)


@pytest.mark.parametrize(("direction", "times"), [(0, [0.5, 1.5, 2.5]), (1, [1.5]), (-1, [0.5, 2.5])])
def test_events_that_go_on(direction: int, times: list[float]) -> None:
    event = Event(lambda t, y: y[0], terminal=False, direction=direction)
    turning = lambda t, y: wg.stack([y[1], -y[0]])
    found = odeint(turning, f64([1.0, 0.0]), [0.0, 9.0], event=event, rtol=1e-10, atol=1e-10)
    assert np.allclose(found.event_t.numpy() / np.pi, times, atol=1e-9)
    assert found.ys.shape == (2, 2)


@pytest.mark.parametrize("options", [{}, {"method": "rk4", "steps": 40}, {"method": "kvaerno5"}])
def test_event_moves_with_the_times(options: dict[str, Any]) -> None:
    """Let go a second later, a body lands a second later."""

    def time(ts: Any) -> Any:
        start = f64([10.0, 0.0])
        return odeint(fall, start, ts, 9.81, event=lambda t, s, g: s[0], **options).event_t[0]

    ts = f64([0.0, 1.0, 2.0])
    assert float(time(ts)) == pytest.approx(np.sqrt(20 / 9.81), rel=1e-7)
    assert np.allclose(wg.grad(time)(ts).numpy(), [1.0, 0.0, 0.0], atol=1e-7)


# -- interpolation


@pytest.mark.parametrize(
    ("name", "tolerance"), [("tsit5", 1e-6), ("dopri5", 1e-6), ("bosh3", 1e-5), ("kvaerno5", 1e-4)]
)
def test_dense_output(name: Any, tolerance: float) -> None:
    turning = lambda t, y: wg.stack([y[1], -y[0]])
    found = odeint(turning, f64([1.0, 0.0]), [0.0, 10.0], dense=True, method=name, rtol=1e-7, atol=1e-7)
    t = np.linspace(0, 10, 57)
    assert np.abs(found.interpolate(t).numpy()[:, 0] - np.cos(t)).max() < tolerance
    slope = wg.grad(lambda t: found.interpolate(t)[0])(f64(3.3))
    assert float(slope) == pytest.approx(-np.sin(3.3), abs=50 * tolerance)
    with pytest.raises(wg.RangeError, match="outside"):
        found.interpolate(10.5)


def test_gradient_through_the_interpolation() -> None:
    f = lambda k: odeint(lambda t, y: -k * y, f64(1.0), [0.0, 3.0], dense=True, rtol=1e-8).interpolate(1.7)
    assert float(wg.grad(f)(f64(0.6))) == pytest.approx(-1.7 * np.exp(-1.7 * 0.6), abs=1e-7)


# -- refusals


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: odeint(lambda t, y: y * y, f64(1.0), [0.0, 2.0]), ConvergenceError, "underflows at t = 1"),
        (lambda: odeint(lambda t, y: wg.sqrt(y), f64(-1.0), [0.0, 2.0]), ConvergenceError, "not finite at the first"),
        (lambda: odeint(lambda t, y: -y, f64(1.0), [0.0, 99.0], max_steps=3), ConvergenceError, "3 steps of tsit5"),
        (lambda: odeint(lambda t, y: wg.stack([y, y]), 1.0, [0.0, 2.0]), wg.ShapeError, r"shape \(2,\) for a state"),
        (lambda: odeint(lambda t, y: (y,), 1.0, [0.0, 2.0]), wg.ShapeError, r"tuple\(\*\) for a state \*"),
        (lambda: odeint(lambda t, y: y * f64([1.0]), wg.ones(1), [0.0, 2.0]), wg.DTypeError, "float64 for a state"),
        (lambda: odeint(lambda t, y: 1j * y, wg.ones(1), [0.0, 2.0]), wg.DTypeError, "complex64 for a state"),
        (lambda: odeint(lambda t, y: y, "a", [0.0, 2.0]), wg.DTypeError, "a str in y0"),
        (lambda: odeint(lambda t, y: y, (), [0.0, 2.0]), wg.ShapeError, "no tensors"),
        (lambda: odeint(lambda t, y: y, 1.0, [0.0, 2.0, 1.0]), wg.ShapeError, "neither increasing"),
        (lambda: odeint(lambda t, y: y, 1.0, [0.0, float("nan")]), wg.ShapeError, "neither increasing"),
        (lambda: odeint(lambda t, y: y, 1.0, 2.0), wg.ShapeError, r"ts of shape \(\)"),
        (lambda: odeint(lambda t, y: y, 1.0, [0.0, 1.0], method="rk5"), wg.GraphError, "method 'rk5'"),  # type: ignore[arg-type]
        (lambda: odeint(lambda t, y: y, 1.0, [0.0, 1.0], adjoint="x"), wg.GraphError, "adjoint 'x'"),  # type: ignore[arg-type]
        (lambda: odeint(lambda t, y: y, 1.0, [0.0, 1.0], rtol=-1.0), wg.GraphError, "rtol -1.0"),
        (lambda: odeint(lambda t, y: y, 1.0, [0.0, 1.0], steps=0), wg.GraphError, "steps 0"),
        (lambda: odeint(lambda t, y: y, 1.0, [0.0, 1.0], first_step=0.0), wg.GraphError, "first_step 0.0"),
        (lambda: odeint(lambda t, y: y, 1.0, [0.0, 1.0], event=lambda t, y: y > 2), wg.DTypeError, "bool"),
        (
            lambda: odeint(lambda t, y: y, 1.0, [0.0, 1.0], dense=True, adjoint="continuous"),
            wg.GradientError,
            "adjoint='continuous'",
        ),
        (
            lambda: wg.jvp(lambda y: odeint(lambda t, y: y, y, [0.0, 1.0], adjoint="continuous"), (1.0,), (1.0,)),
            wg.GradientError,
            "forward mode",
        ),
        (
            lambda: wg.vmap(lambda y: odeint(lambda t, y: y, y, [0.0, 1.0], method="kvaerno5"))(wg.ones(2)),
            wg.TraceError,
            "kvaerno5 in a traced program",
        ),
    ],
)
def test_refusals(call: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        call()
    assert "test_odeint.py:" in str(caught.value).splitlines()[0]


# -- a right-hand side that writes

METHODS = list(get_args(Method))


def _decay_in_place(t: Any, y: Any, p: Any) -> Any:
    p *= 2.0
    t += 1.0
    y[1] = wg.clip(y[1], 0.0, 1.0)
    y *= -(p - 2.0) * wg.cos(t - 1.0)
    return y


def _decay(t: Any, y: Any, p: Any) -> Any:
    y = wg.stack([y[0], wg.clip(y[1], 0.0, 1.0)])
    return -(2.0 * p - 2.0) * wg.cos(t) * y


def _both(value: Callable[[Any, Any], Any]) -> None:
    """The function of a right-hand side and its arguments is the same of one that writes and of one that does not."""
    y0, p = f64([1.0, 0.5]), f64(1.5)
    found, wanted = value(_decay_in_place, (y0, p)), value(_decay, (y0, p))
    for a, b in zip(wg.tree.leaves(found), wg.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(np.asarray(a.detach()), np.asarray(b.detach()), rtol=1e-12)
    assert (y0.tolist(), p.tolist()) == ([1.0, 0.5], 1.5)


def _writing_options(name: str, adjoint: str) -> dict[str, Any]:
    steps = 4 if name in FIXED else None
    return {"method": name, "adjoint": adjoint, "steps": steps, "rtol": 1e-4, "atol": 1e-4}


@pytest.mark.parametrize("adjoint", ADJOINTS)
@pytest.mark.parametrize("name", METHODS)
def test_f_may_write_to_its_arguments(name: str, adjoint: str) -> None:
    ts = [0.0, 0.4, 1.0]
    options = _writing_options(name, adjoint)

    def last(f: Any) -> Any:
        return lambda y0, p: odeint(f, y0, ts, p, **options)[-1].sum()

    def backward(f: Any, at: Any) -> Any:
        leaves = [wg.tensor(x, requires_grad=True) for x in at]
        last(f)(*leaves).backward()
        return [x.grad for x in leaves]

    _both(lambda f, at: odeint(f, at[0], ts, at[1], **options))
    _both(lambda f, at: wg.grad(last(f), argnums=(0, 1))(*at))
    _both(backward)


@pytest.mark.parametrize(
    "name",
    [
        # One stage, several stages, steps that may be rejected: explicit methods differ in numbers otherwise.
        n if n in ("euler", "rk4", "tsit5") else pytest.param(n, marks=pytest.mark.slow)
        for n in METHODS
        if not TABLEAUX[n].implicit
    ],
)
def test_f_may_write_to_its_arguments_where_it_is_traced(name: str) -> None:
    ts = [0.0, 0.4, 1.0]
    options = _writing_options(name, "discretise")

    def last(f: Any) -> Any:
        return lambda y0, p: odeint(f, y0, ts, p, **options)[-1].sum()

    _both(lambda f, at: wg.jit(lambda y0, p: odeint(f, y0, ts, p, **options))(*at))
    _both(lambda f, at: wg.jit(wg.grad(last(f), argnums=(0, 1)))(*at))
    _both(lambda f, at: wg.vmap(lambda y0: odeint(f, y0, ts, at[1], **options))(wg.stack([at[0], 0.9 * at[0]])))


def test_events_and_interpolations_give_values_of_their_own() -> None:
    def passes(t: Any, y: Any) -> Any:
        t *= 0.0
        y -= 0.5
        return y[0]

    f = lambda t, y: -y
    options: dict[str, Any] = {"dense": True, "method": "dopri5", "rtol": 1e-9}
    found = odeint(f, f64([1.0]), [0.0, 1.0], event=Event(passes), **options)
    assert found.event_t.tolist() == pytest.approx([np.log(2.0)])
    exact = [np.exp(-0.3)]
    for _ in range(2):
        assert found.interpolate(0.3).tolist() == pytest.approx(exact)
        start = found.interpolate(0.0)
        assert start.tolist() == [1.0]
        start *= 5.0
    alone = odeint(f, f64([1.0]), [0.0], dense=True)
    for _ in range(2):
        start = alone.interpolate(0.0)
        assert start.tolist() == [1.0]
        start *= 5.0


@pytest.mark.parametrize("name", METHODS)
def test_f_may_return_one_object_every_time(name: str) -> None:
    kept, array = wg.zeros(1, dtype=wg.float64), np.zeros(1)

    def into_tensor(t: Any, y: Any) -> Any:
        kept[...] = -y
        return kept

    def into_array(t: Any, y: Any) -> Any:
        array[...] = -np.asarray(y)
        return array

    wanted = odeint(lambda t, y: -y, f64([1.0]), [0.0, 1.0], method=name)
    for f in (into_tensor, into_array)[: 1 if TABLEAUX[name].implicit else 2]:
        assert odeint(f, f64([1.0]), [0.0, 1.0], method=name).tolist() == wanted.tolist()


def test_f_may_write_to_the_first_state_around_it() -> None:
    y0 = f64([1.0])

    def f(t: Any, y: Any) -> Any:
        y0[...] = 0.0
        return -y

    assert odeint(f, y0, [0.0, 1.0])[-1].tolist() == pytest.approx([np.exp(-1.0)], rel=1e-5)


# -- times without values


@pytest.mark.parametrize(
    "times", [[0, 2, 1], [0, np.nan, 1], [0, 1, np.inf], [0, 1, 1], [0, 2, -1], [1, 0, 2], [0, 0, 1]]
)
@pytest.mark.parametrize("name", ["tsit5", "rk4"])
def test_traced_results_are_nan_from_a_time_that_does_not_go_onward(name: Any, times: list[float]) -> None:
    f = lambda ts: odeint(lambda t, y: -y, 1.0, ts, method=name, steps=20 if name == "rk4" else None)
    ts = np.array(times, np.float64)
    good = next(i for i in range(1, 3) if not (np.isfinite(ts[i]) and (ts[i] - ts[i - 1]) * (ts[1] - ts[0]) > 0))
    expected = np.where(np.arange(3) < good, np.exp(ts[0] - ts), np.nan)
    with pytest.raises(wg.ShapeError, match="neither increasing nor decreasing"):
        f(f64(ts))
    fine = f64([0.0, 1.0, 2.0])
    for traced in (wg.jit(f), wg.graph(f)(fine)):
        np.testing.assert_allclose(traced(f64(ts)).numpy(), expected, rtol=1e-4)
    both = wg.vmap(f)(wg.stack([f64(ts), fine])).numpy()
    np.testing.assert_allclose(both, [expected, np.exp(-fine.numpy())], rtol=1e-4)
    # Nor is a derivative of them a number.
    assert np.isnan(wg.jit(wg.grad(lambda ts: f(ts).sum()))(f64(ts)).numpy()).any()


@pytest.mark.parametrize("name", ["tsit5", "rk4"])
def test_a_traced_first_time_that_is_nan(name: Any) -> None:
    f = wg.jit(lambda ts: odeint(lambda t, y: -y, 1.0, ts, method=name))
    assert np.isnan(f(f64([np.nan, 1.0, 2.0])).numpy()).all()
    assert np.isnan(f(f64([np.nan])).numpy()).all()


def test_traced_derivatives_are_nan_where_the_steps_run_out() -> None:
    last = lambda y0: odeint(lambda t, y: -y, y0, [0.0, 100.0], max_steps=3)[-1]
    value, slope = wg.jit(wg.value_and_grad(last))(f64(1.0))
    assert np.isnan(value.item())
    assert np.isnan(slope.item())


def test_a_derivative_in_another_nest_than_the_state() -> None:
    turning = lambda t, y: wg.stack([y[1], -y[0]])
    with pytest.raises(wg.ShapeError, match=r"y0=wg\.tensor\(\[1\.0, 0\.5\]\)"):
        odeint(turning, [1.0, 0.5], [0.0, 1.0])
    with pytest.raises(wg.ShapeError, match=r"y0=wg\.stack\(\[\.\.\.\]\)"):
        odeint(turning, [f64(1.0), f64(0.5)], [0.0, 1.0])
    with pytest.raises(wg.ShapeError, match=r"return wg\.stack\(\[\.\.\.\]\)"):
        odeint(lambda t, y: [y[1], -y[0]], f64([1.0, 0.5]), [0.0, 1.0])
    with pytest.raises(wg.ShapeError, match="f returned None"):
        odeint(lambda t, y: None, f64(1.0), [0.0, 1.0])
