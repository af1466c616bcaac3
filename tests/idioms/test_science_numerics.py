"""Programs of numerical analysis: finance, optimisation, equations in space, fits, spectra, networks."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import scipy.integrate
import scipy.linalg
import scipy.optimize
import scipy.sparse
from scipy.stats import norm

import wengert.nn.functional as F
from both_namespaces import wg

from .driver import both, data, program, slopes


@program(peer=False)
def black_scholes(jit: Any) -> Any:
    """Prices of calls and all Greeks, the implied volatility by Newton's method."""

    def price(s, k, t, r, sigma):
        d1 = (wg.log(s / k) + (r + 0.5 * sigma**2) * t) / (sigma * wg.sqrt(t))
        d2 = d1 - sigma * wg.sqrt(t)
        cdf = lambda z: 0.5 * (1 + wg.erf(z / math.sqrt(2)))
        return s * cdf(d1) - k * wg.exp(-r * t) * cdf(d2)

    @jit
    def greeks(s, k, t, r, sigma):
        first = wg.vmap(wg.grad(price, argnums=(0, 2, 3, 4)), in_axes=(0, 0, None, None, None))(s, k, t, r, sigma)
        gamma = wg.vmap(wg.grad(wg.grad(price)), in_axes=(0, 0, None, None, None))(s, k, t, r, sigma)
        return price(s, k, t, r, sigma), first, gamma

    @jit
    def implied(target, s, k, t, r):
        sigma = wg.full_like(target, 0.5)
        for _ in range(8):
            value, push = wg.linearize(lambda v: price(s, k, t, r, v), sigma)
            sigma = sigma - (value - target) / push(wg.ones_like(sigma))
        return sigma

    spots = wg.linspace(80.0, 120.0, 16)

    def call(i):
        s, k = spots[2 * i : 2 * i + 2], wg.tensor([100.0, 95.0])
        found = greeks(s, k, 0.5 + 0.1 * i, 0.03, 0.2 + 0.01 * i)
        return found, implied(found[0], s, k, 0.5 + 0.1 * i, 0.03)

    return call, {"spots": spots}


def test_black_scholes() -> None:
    for i, row in enumerate(both(black_scholes)[1:]):
        s, k, t, r, v = row["spots"][2 * i : 2 * i + 2], np.array([100.0, 95.0]), 0.5 + 0.1 * i, 0.03, 0.2 + 0.01 * i
        d1 = (np.log(s / k) + (r + v * v / 2) * t) / (v * np.sqrt(t))
        d2 = d1 - v * np.sqrt(t)
        price = s * norm.cdf(d1) - k * np.exp(-r * t) * norm.cdf(d2)
        theta = s * norm.pdf(d1) * v / (2 * np.sqrt(t)) + r * k * np.exp(-r * t) * norm.cdf(d2)
        greeks = [norm.cdf(d1), theta, k * t * np.exp(-r * t) * norm.cdf(d2), s * norm.pdf(d1) * np.sqrt(t)]
        np.testing.assert_allclose(row["result.0.0"], price, rtol=1e-11)
        for n, expected in enumerate(greeks):
            np.testing.assert_allclose(row[f"result.0.1.{n}"], expected, rtol=1e-10)
        np.testing.assert_allclose(row["result.0.2"], norm.pdf(d1) / (s * v * np.sqrt(t)), rtol=1e-9)
        np.testing.assert_allclose(row["result.1"], v, rtol=1e-9)


@program(peer=False, calls=20)
def rosenbrock(jit: Any) -> Any:
    """Newton's method with the Hessian, a Python `if` for where it is not positive definite, halved steps."""

    def f(x):
        return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    @jit
    def step(x):
        value, g = wg.value_and_grad(f)(x)
        h = wg.hessian(f)(x)
        smallest = wg.linalg.eigvalsh(h)[0]
        if smallest < 1e-3:
            h = h + (1.0 - smallest) * wg.eye(len(x))
        direction = wg.linalg.solve(h, g)
        t = wg.while_loop(lambda t: f(x - t * direction) > value, lambda t: t / 2, 1.0)
        return x - t * direction, value

    state = {"x": wg.tensor([-1.2, 1.0, -0.5, 0.8])}

    def call(i):
        state["x"], value = step(state["x"])
        return value

    return call, {"state": state}


def test_rosenbrock() -> None:
    rows = both(rosenbrock)
    x = rows[0]["state.x"]
    f = scipy.optimize.rosen
    for row in rows[1:]:
        g, h = scipy.optimize.rosen_der(x), scipy.optimize.rosen_hess(x)
        smallest = np.linalg.eigvalsh(h)[0]
        if smallest < 1e-3:
            h = h + (1 - smallest) * np.eye(4)
        direction, t = np.linalg.solve(h, g), 1.0
        while f(x - t * direction) > f(x):
            t /= 2
        x = x - t * direction
        np.testing.assert_allclose(row["state.x"], x, rtol=1e-7)
        x = row["state.x"]
    values = [float(row["result"]) for row in rows[1:]]
    assert values == sorted(values, reverse=True)


@program(peer=False)
def finite_volumes(jit: Any) -> Any:
    """Heat through a rod of several materials, implicit steps by scan, conductivities found from one thermometer."""
    n = 8
    log_k = wg.zeros(n + 1, requires_grad=True)
    opt = wg.optim.Adam([log_k], lr=0.1)

    def simulated(log_k, start):
        k = wg.exp(log_k)
        k = wg.concat([wg.zeros(1), k[1:-1], wg.zeros(1)])
        matrix = wg.diag(k[1:] + k[:-1]) - wg.diag(k[1:-1], 1) - wg.diag(k[1:-1], -1)
        step = lambda u, _: (wg.linalg.solve(wg.eye(n) + 0.1 * matrix, u),) * 2
        return wg.scan(step, start, None, length=6)[1]

    @jit
    def fit(start, seen):
        opt.zero_grad()
        path = simulated(log_k, start)
        loss = ((path[:, -2] - seen) ** 2).mean()
        loss.backward()
        opt.step()
        return loss, path

    start = wg.exp(-((wg.arange(n) - 2.0) ** 2))
    return lambda i: fit(start * (1 + 0.1 * i), 0.05 * wg.arange(6) * (1 + 0.1 * i)), {"log_k": log_k, "start": start}


def test_finite_volumes() -> None:
    rows = both(finite_volumes)

    def path(log_k: np.ndarray, start: np.ndarray) -> np.ndarray:
        matrix = np.zeros((8, 8))
        for face in range(1, 8):
            matrix[face - 1 : face + 1, face - 1 : face + 1] += np.exp(log_k[face]) * np.array([[1, -1], [-1, 1]])
        forward = np.linalg.inv(np.eye(8) + 0.1 * matrix)
        return np.stack([np.linalg.matrix_power(forward, k) @ start for k in range(1, 7)])

    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        start = row["start"] * (1 + 0.1 * i)
        np.testing.assert_allclose(row["result.1"], path(before["log_k"], start), rtol=1e-10)
        np.testing.assert_allclose(row["result.1"].sum(1), start.sum(), rtol=1e-12)
        seen = 0.05 * np.arange(6) * (1 + 0.1 * i)
        loss = lambda a, start=start, seen=seen: ((path(a, start)[:, -2] - seen) ** 2).mean()
        np.testing.assert_allclose(row["log_k.grad"], slopes(loss, before["log_k"]), rtol=1e-5, atol=1e-9)


@program(peer=False)
def deconvolution(jit: Any) -> Any:
    """A blurred signal restored by conjugate gradients; how much to smooth is learned through the solution."""
    truth = wg.sin(wg.linspace(0.0, 6.0, 16)) + (wg.arange(16) > 8).astype(wg.float64)
    kernel = wg.tensor([0.25, 0.5, 0.25])
    log_weight = wg.tensor(-2.0, requires_grad=True)
    opt = wg.optim.SGD([log_weight], lr=2.0)

    def blur(x):
        return wg.conv1d(x[None, None], kernel[None, None], padding=1)[0, 0]

    def restored(y, weight):
        def normal(x):
            rough = wg.diff(x)
            return blur(blur(x)) + weight * (wg.pad(-rough, (0, 1)) + wg.pad(rough, (1, 0)))

        return wg.solve.linear_solve(normal, blur(y), "cg", symmetric=True, tol=1e-12)

    @jit
    def step(y):
        opt.zero_grad()
        x = restored(y, wg.exp(log_weight))
        loss = ((x - truth) ** 2).mean()
        loss.backward()
        opt.step()
        return loss, x

    noise = 0.05 * data(8, 16)
    return lambda i: step(blur(truth) + noise[i]), {"log_weight": log_weight, "noise": noise, "truth": truth}


def test_deconvolution() -> None:
    rows = both(deconvolution)
    blur = scipy.linalg.toeplitz([0.5, 0.25] + [0.0] * 14)
    rough = np.diff(np.eye(16), axis=0)
    truth = rows[0]["truth"]
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        y = blur @ truth + row["noise"][i]
        restored = lambda a, y=y: np.linalg.solve(blur @ blur + np.exp(a) * rough.T @ rough, blur @ y)
        np.testing.assert_allclose(row["result.1"], restored(before["log_weight"]), rtol=1e-8, atol=1e-9)
        loss = lambda a, restored=restored: ((restored(a) - truth) ** 2).mean()
        np.testing.assert_allclose(row["log_weight.grad"], slopes(loss, before["log_weight"]), rtol=1e-5, atol=1e-8)


@program(peer=False, calls=12)
def curve_fit(jit: Any) -> Any:
    """A sum of exponentials by Levenberg and Marquardt, and a cubic spline by linear least squares beside it."""
    x = wg.linspace(0.0, 2.0, 15)
    y = 2.0 * wg.exp(-1.5 * x) + 0.5 * wg.exp(0.3 * x) + 0.02 * data(15)
    knots = wg.tensor([0.5, 1.0, 1.5])

    def residuals(p):
        return p[0] * wg.exp(-p[1] * x) + p[2] * wg.exp(p[3] * x) - y

    @jit
    def step(p, damping):
        r, j = residuals(p), wg.jacobian(residuals)(p)
        a = j.T @ j
        new = p - wg.linalg.solve(a + damping * wg.diag(wg.diagonal(a)), j.T @ r)
        # By more than rounding, which at the end would decide otherwise in each way of computing.
        better = (residuals(new) ** 2).sum() < (r**2).sum() * (1 - 1e-9)
        return wg.where(better, new, p), wg.where(better, damping * 0.3, damping * 4.0), (r**2).sum()

    @jit
    def spline(y):
        basis = wg.concat([x[:, None] ** wg.arange(4), wg.relu(x[:, None] - knots) ** 3], axis=1)
        return basis @ wg.linalg.lstsq(basis, y).solution

    state = {"p": wg.tensor([1.0, 1.0, 1.0, 0.0]), "damping": wg.tensor(1e-2)}

    def call(i):
        state["p"], state["damping"], cost = step(state["p"], state["damping"])
        return cost, spline(y * (1 + 0.1 * i))

    return call, {"state": state, "x": x, "y": y}


def test_curve_fit() -> None:
    rows = both(curve_fit)
    x, y = rows[0]["x"], rows[0]["y"]
    residuals = lambda p: p[0] * np.exp(-p[1] * x) + p[2] * np.exp(p[3] * x) - y
    best = scipy.optimize.least_squares(residuals, [1.0, 1.0, 1.0, 0.0], method="lm", xtol=1e-14, ftol=1e-14)
    np.testing.assert_allclose(rows[-1]["state.p"], best.x, rtol=1e-4)
    np.testing.assert_allclose(rows[-1]["result.0"], 2 * best.cost, rtol=1e-6)
    basis = np.stack([*(x**k for k in range(4)), *(np.maximum(x - k, 0) ** 3 for k in (0.5, 1.0, 1.5))], axis=1)
    for i, row in enumerate(rows[1:]):
        fitted = basis @ np.linalg.lstsq(basis, y * (1 + 0.1 * i), rcond=None)[0]
        np.testing.assert_allclose(row["result.1"], fitted, rtol=1e-8)


@program(peer=False)
def spectral_burgers(jit: Any) -> Any:
    """Burgers' equation by a Fourier method, and how the end depends on the viscosity, forward and backward."""
    n = 16
    wave = wg.fft.fftfreq(n, d=1.0 / n)
    start = wg.sin(2 * math.pi * wg.arange(n) / n)

    def solve(nu, u):
        decay = wg.exp(-nu * wave**2 * 0.02)
        keep = wg.abs(wave) < n / 3

        def step(u, _):
            slope = wg.real(wg.fft.ifft(1j * wave * wg.fft.fft(u)))
            new = wg.fft.fft(u - 0.02 * u * slope) * keep
            return wg.real(wg.fft.ifft(new * decay)), None

        return wg.scan(step, u, None, length=5)[0]

    @jit
    def run(nu, u):
        end, tangent = wg.jvp(lambda nu: solve(nu, u), (nu,), (wg.ones_like(nu),))
        gradient = wg.grad(lambda nu, u: (solve(nu, u) ** 2).sum(), argnums=(0, 1))(nu, u)
        return end, tangent, gradient

    return lambda i: run(wg.tensor(0.1 + 0.05 * i), start * (1 + 0.1 * i)), {"start": start}


def test_spectral_burgers() -> None:
    for i, row in enumerate(both(spectral_burgers)[1:]):
        nu, start = 0.1 + 0.05 * i, row["start"] * (1 + 0.1 * i)
        wave = np.fft.fftfreq(16, 1 / 16)

        def solve(nu: Any, u: np.ndarray, wave: np.ndarray = wave) -> np.ndarray:
            for _ in range(5):
                slope = np.fft.ifft(1j * wave * np.fft.fft(u)).real
                new = np.fft.fft(u - 0.02 * u * slope) * (np.abs(wave) < 16 / 3)
                u = np.fft.ifft(new * np.exp(-nu * wave**2 * 0.02)).real
            return u

        np.testing.assert_allclose(row["result.0"], solve(nu, start), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(row["result.1"], slopes(functools.partial(solve, u=start), nu), atol=1e-8)
        energy = lambda u, nu=nu, solve=solve: (solve(nu, u) ** 2).sum()
        np.testing.assert_allclose(row["result.2.1"], slopes(energy, start), atol=1e-7)
        chain = 2 * (row["result.0"] * row["result.1"]).sum()
        np.testing.assert_allclose(row["result.2.0"], chain, rtol=1e-9)


@program(peer=False)
def page_rank(jit: Any) -> Any:
    """The stationary distribution by power iteration; what the weights of links do to a page, by its fixed point."""
    links = (data(6, 6) > 0.2).astype(wg.float64) + wg.eye(6)

    def ranks(weights, damping):
        chain = links * wg.exp(weights)
        chain = chain / chain.sum(1, keepdims=True)
        return wg.solve.fixed_point(lambda p: damping * (p @ chain) + (1 - damping) / 6, wg.full(6, 1 / 6), tol=1e-13)

    @jit
    def step(weights, damping):
        p, pull = wg.vjp(lambda w: ranks(w, damping), weights)
        gradient = pull(wg.tensor([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]))[0]
        by_hand = wg.while_loop(
            lambda s: wg.abs(s[0] - s[1]).max() > 1e-13,
            lambda s: (damping * (s[0] @ normal(weights)) + (1 - damping) / 6, s[0]),
            (wg.full(6, 1 / 6), wg.zeros(6)),
        )[0]
        return p, by_hand, gradient

    def normal(weights):
        chain = links * wg.exp(weights)
        return chain / chain.sum(1, keepdims=True)

    state = {"weights": wg.zeros(6, 6)}

    def call(i):
        p, by_hand, gradient = step(state["weights"], 0.85 - 0.02 * i)
        state["weights"] = state["weights"] + 2.0 * gradient
        return p, by_hand, gradient

    return call, {"links": links, "state": state}


def test_page_rank() -> None:
    rows = both(page_rank)
    links = rows[0]["links"]
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        damping = 0.85 - 0.02 * i

        def ranks(weights: np.ndarray, damping: float = damping) -> np.ndarray:
            chain = links * np.exp(weights)
            chain = chain / chain.sum(1, keepdims=True)
            return np.linalg.solve(np.eye(6) - damping * chain.T, np.full(6, (1 - damping) / 6))

        at = before["state.weights"]
        np.testing.assert_allclose(row["result.0"], ranks(at), rtol=1e-10)
        np.testing.assert_allclose(row["result.1"], ranks(at), rtol=1e-10)
        np.testing.assert_allclose(row["result.2"], slopes(lambda w: ranks(w)[0], at), rtol=1e-5, atol=1e-9)


@program(peer=False, traces=3)
def sparse_newton(jit: Any) -> Any:
    """Implicit steps of a reaction with diffusion: compiled residuals, coloured sparse Jacobians, SuperLU."""
    n = 5

    @jit
    def residual(u, old, h):
        grid = F.pad(u.reshape(n, n), (1, 1, 1, 1))
        laplacian = grid[2:, 1:-1] + grid[:-2, 1:-1] + grid[1:-1, 2:] + grid[1:-1, :-2] - 4 * grid[1:-1, 1:-1]
        return u - old - h * (laplacian.ravel() * 4.0 + u * (1 - u**2))

    jacobian = wg.sparse.jacobian(residual)
    state = {"u": 0.5 * data(n * n)}

    def call(i):
        old = u = state["u"]
        h = wg.tensor(0.02 * (1 + i % 3))
        for _ in range(3):
            matrix = wg.sparse.SparseMatrix.from_scipy(jacobian(u, old, h).tocsr())
            u = u - wg.solve.linear_solve(matrix, residual(u, old, h), "sparse")
        state["u"] = u
        return residual(u, old, h), jacobian.evaluations, jacobian(u, old, h).toarray()

    return call, {"state": state}


def test_sparse_newton() -> None:
    rows = both(sparse_newton)
    line = scipy.sparse.diags([1.0, -2.0, 1.0], [-1, 0, 1], (5, 5)).toarray()
    laplacian = np.kron(line, np.eye(5)) + np.kron(np.eye(5), line)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        h, old = 0.02 * (1 + i % 3), before["state.u"]
        f = lambda u, old=old, h=h: u - old - h * (4 * laplacian @ u + u * (1 - u**2))
        u = scipy.optimize.fsolve(f, old, xtol=1e-13)
        np.testing.assert_allclose(row["state.u"], u, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(row["result.2"], np.eye(25) - h * (4 * laplacian + np.diag(1 - 3 * u**2)), atol=1e-8)
        assert row["result.1"] <= 7
