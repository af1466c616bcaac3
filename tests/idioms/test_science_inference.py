"""Programs of statistics: filters, hidden states, Gaussian processes, samplers, likelihoods."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import scipy.stats

from both_namespaces import wg

from .driver import both, data, program, slopes


@program(peer=False, traces=2)
def kalman(jit: Any) -> Any:
    """A local linear trend: the likelihood by the filter, its gradient in the noises, states by the smoother."""
    f, h = wg.tensor([[1.0, 1.0], [0.0, 1.0]]), wg.tensor([[1.0, 0.0]])

    def matrices(log_noise):
        return wg.diag(wg.exp(log_noise[:2])), wg.exp(log_noise[2])

    def filtered(log_noise, ys):
        q, r = matrices(log_noise)

        def step(state, y):
            m, p = state
            m, p = f @ m, f @ p @ f.T + q
            s = (h @ p @ h.T)[0, 0] + r
            k = (p @ h.T)[:, 0] / s
            error = y - (h @ m)[0]
            predicted = (m, p)
            m, p = m + k * error, p - wg.outer(k, k) * s
            return (m, p), (-0.5 * (error**2 / s + wg.log(s) + math.log(2 * math.pi)), (m, p), predicted)

        _, (terms, after, before) = wg.scan(step, (wg.zeros(2), wg.eye(2)), ys)
        return terms.sum(), (after, before)

    @jit
    def likelihood(log_noise, ys):
        (value, _), grad = wg.value_and_grad(filtered, has_aux=True)(log_noise, ys)
        return value, grad

    @jit
    def smoothed(log_noise, ys):
        _, (after, before) = filtered(log_noise, ys)

        def back(following, row):
            m, p, m_next, p_next = row
            gain = wg.linalg.solve(p_next, f @ p).mT
            m = m + gain @ (following[0] - m_next)
            p = p + gain @ (following[1] - p_next) @ gain.mT
            return (m, p), m

        last = (after[0][-1], after[1][-1])
        rows = (after[0][:-1], after[1][:-1], before[0][1:], before[1][1:])
        _, means = wg.scan(back, last, rows, reverse=True)
        return wg.concat([means, last[0][None]])

    ys = data(40).cumsum(0)
    state = {"log_noise": wg.tensor([-1.0, -2.0, 0.0])}

    def call(i):
        rows = ys[4 * i : 4 * i + 6]
        value, grad = likelihood(state["log_noise"], rows)
        state["log_noise"] = state["log_noise"] + 0.05 * grad
        return value, grad, smoothed(state["log_noise"], rows)

    return call, {"ys": ys, "state": state}


def trend(log_noise: np.ndarray, n: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The joint covariance of a trend's observations, and theirs with all states."""
    f, q, r = np.array([[1.0, 1.0], [0.0, 1.0]]), np.diag(np.exp(log_noise[:2])), np.exp(log_noise[2])
    states = np.zeros((2 * n, 2 * n))
    p = np.eye(2)
    for t in range(n):
        p = f @ p @ f.T + q
        block = p
        for s in range(t, n):
            states[2 * s : 2 * s + 2, 2 * t : 2 * t + 2] = block
            states[2 * t : 2 * t + 2, 2 * s : 2 * s + 2] = block.T
            block = f @ block
    seen = np.kron(np.eye(n), [[1.0, 0.0]])
    return seen @ states @ seen.T + r * np.eye(n), states @ seen.T, states


def test_kalman() -> None:
    rows = both(kalman)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        ys = row["ys"][4 * i : 4 * i + 6]
        log_density = lambda a, ys=ys: scipy.stats.multivariate_normal(np.zeros(6), trend(a)[0]).logpdf(ys)
        noise = before["state.log_noise"]
        np.testing.assert_allclose(row["result.0"], log_density(noise), rtol=1e-10)
        np.testing.assert_allclose(row["result.1"], slopes(log_density, noise), rtol=1e-6, atol=1e-7)
        covariance, cross, _ = trend(row["state.log_noise"])
        means = cross @ np.linalg.solve(covariance, ys)
        np.testing.assert_allclose(row["result.2"], means.reshape(6, 2), rtol=1e-8, atol=1e-10)


@program(peer=False)
def hidden_markov(jit: Any) -> Any:
    """The forward algorithm by scan; the posterior of each state is a gradient of the log-likelihood."""
    state = {"start": wg.zeros(3), "move": data(3, 3), "emit": data(3, 4, seed=1)}

    def log_likelihood(p, observed, bias):
        move, emit = wg.log_softmax(p["move"], axis=1), wg.log_softmax(p["emit"], axis=1)
        scores = emit[:, observed].T + bias

        def step(alpha, score):
            return wg.logsumexp(alpha[:, None] + move, axis=0) + score, None

        alpha, _ = wg.scan(step, wg.log_softmax(p["start"], axis=0) + scores[0], scores[1:])
        return wg.logsumexp(alpha, axis=0)

    @jit
    def step(p, observed):
        value, (grads, posterior) = wg.value_and_grad(log_likelihood, argnums=(0, 2))(p, observed, wg.zeros(5, 3))
        return wg.tree.map(lambda a, g: a + 0.2 * g, p, grads), value, posterior

    words = wg.tensor(np.random.default_rng(3).integers(0, 4, 40))

    def call(i):
        observed = words[5 * i : 5 * i + 5]
        new, value, posterior = step(dict(state), observed)
        state.update(new)
        return value, posterior

    return call, {"state": state, "words": words}


def test_hidden_markov() -> None:
    rows = both(hidden_markov)

    def normal(a: np.ndarray, axis: int) -> np.ndarray:
        return np.exp(a) / np.exp(a).sum(axis, keepdims=True)

    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        start, move, emit = (normal(before[f"state.{k}"], a) for k, a in (("start", 0), ("move", 1), ("emit", 1)))
        observed, total, posterior = row["words"][5 * i : 5 * i + 5], 0.0, np.zeros((5, 3))
        for path in itertools.product(range(3), repeat=5):
            p = start[path[0]] * np.prod([move[a, b] for a, b in itertools.pairwise(path)])
            p *= np.prod([emit[k, o] for k, o in zip(path, observed)])
            total += p
            posterior[np.arange(5), path] += p
        np.testing.assert_allclose(row["result.0"], np.log(total), rtol=1e-11)
        np.testing.assert_allclose(row["result.1"], posterior / total, rtol=1e-9)


@program(peer=False)
def gaussian_process(jit: Any) -> Any:
    """The log marginal likelihood by Cholesky, climbed in the hyperparameters; then predictions."""
    x = wg.linspace(0.0, 3.0, 9)
    noise = 0.1 * data(8, 9)
    log_theta = wg.tensor([0.0, 0.0, -1.0], requires_grad=True)
    opt = wg.optim.Adam([log_theta], lr=0.1)

    def kernel(a, b):
        return wg.exp(log_theta[0] - 0.5 * ((a[:, None] - b[None, :]) / wg.exp(log_theta[1])) ** 2)

    @jit
    def step(y):
        opt.zero_grad()
        low = wg.linalg.cholesky(kernel(x, x) + wg.exp(log_theta[2]) * wg.eye(9))
        alpha = wg.linalg.cho_solve(low, y)
        loss = 0.5 * (y @ alpha) + wg.log(wg.diagonal(low)).sum() + 4.5 * math.log(2 * math.pi)
        loss.backward()
        opt.step()
        return loss

    @jit
    @wg.no_grad()
    def predict(at, y):
        gain = wg.linalg.solve(kernel(x, x) + wg.exp(log_theta[2]) * wg.eye(9), kernel(x, at))
        return gain.T @ y, wg.exp(log_theta[0]) - (gain * kernel(x, at)).sum(axis=0)

    def call(i):
        y = wg.sin(2 * x) + noise[i]
        return step(y), predict(wg.tensor([0.5, 2.5]), y)

    return call, {"log_theta": log_theta, "noise": noise, "opt": opt}


def test_gaussian_process() -> None:
    rows = both(gaussian_process)
    x = np.linspace(0, 3, 9)

    def covariance(t: np.ndarray, a: np.ndarray = x, b: np.ndarray = x) -> np.ndarray:
        return np.exp(t[0] - 0.5 * ((a[:, None] - b) / np.exp(t[1])) ** 2)

    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        y = np.sin(2 * x) + row["noise"][i]
        density = lambda t, y=y: (
            -scipy.stats.multivariate_normal(np.zeros(9), covariance(t) + np.exp(t[2]) * np.eye(9)).logpdf(y)
        )
        np.testing.assert_allclose(row["result.0"], density(before["log_theta"]), rtol=1e-9)
        np.testing.assert_allclose(row["log_theta.grad"], slopes(density, before["log_theta"]), rtol=1e-5, atol=1e-6)
        t, at = row["log_theta"], np.array([0.5, 2.5])
        inverse = np.linalg.inv(covariance(t) + np.exp(t[2]) * np.eye(9))
        cross = covariance(t, x, at)
        np.testing.assert_allclose(row["result.1.0"], cross.T @ inverse @ y, rtol=1e-8)
        np.testing.assert_allclose(row["result.1.1"], np.exp(t[0]) - np.diag(cross.T @ inverse @ cross), rtol=1e-7)


@program(peer=False)
def reweighted_least_squares(jit: Any) -> Any:
    """Logistic regression by Newton's method, and the errors of its coefficients by the delta method."""
    x = wg.concat([wg.ones(30, 1), data(30, 2)], axis=1)
    y = (data(30, seed=3) + x[:, 1] > 0).astype(wg.float64)

    def deviance(w):
        z = x @ w
        return (wg.logaddexp(z, 0.0) - y * z).sum() + 0.005 * (w @ w)

    @jit
    def step(w):
        h = wg.hessian(deviance)(w)
        g = wg.grad(deviance)(w)
        return w - wg.linalg.solve(h, g), wg.sqrt(wg.diagonal(wg.linalg.inv(h))), (g**2).sum()

    state = {"w": wg.zeros(3)}

    def call(i):
        state["w"], errors, size = step(state["w"])
        return errors, size

    return call, {"x": x, "y": y, "state": state}


def test_reweighted_least_squares() -> None:
    rows = both(reweighted_least_squares)
    x, y, w = rows[0]["x"], rows[0]["y"], np.zeros(3)
    for row in rows[1:]:
        p = 1 / (1 + np.exp(-x @ w))
        h = (x * (p * (1 - p))[:, None]).T @ x + 0.01 * np.eye(3)
        np.testing.assert_allclose(row["result.0"], np.sqrt(np.diag(np.linalg.inv(h))), rtol=1e-9)
        w = w - np.linalg.solve(h, x.T @ (p - y) + 0.01 * w)
        np.testing.assert_allclose(row["state.w"], w, rtol=1e-9, atol=1e-12)
    assert rows[-1]["result.1"] < 1e-20


@program(peer=False)
def hamiltonian_monte_carlo(jit: Any) -> Any:
    """Leapfrog steps along a banana, momenta and acceptance drawn inside."""

    def potential(q):
        return 0.5 * q[0] ** 2 + 2.0 * (q[1] - q[0] ** 2) ** 2

    @jit
    def step(q, epsilon):
        p0 = wg.randn(2)
        force = wg.grad(potential)
        z, p = q, p0 - 0.5 * epsilon * force(q)
        for k in range(5):
            z = z + epsilon * p
            p = p - (0.5 if k == 4 else 1.0) * epsilon * force(z)
        change = potential(z) + 0.5 * (p @ p) - potential(q) - 0.5 * (p0 @ p0)
        u = wg.rand(())
        accept = wg.log(u) < -change
        return wg.where(accept, z, q), (p0, u, change, accept)

    state = {"q": wg.tensor([1.0, 0.5])}

    def call(i):
        state["q"], found = step(state["q"], 0.1 + 0.05 * i)
        return found

    return call, {"state": state}


def test_hamiltonian_monte_carlo() -> None:
    rows = both(hamiltonian_monte_carlo)
    potential = lambda q: 0.5 * q[0] ** 2 + 2.0 * (q[1] - q[0] ** 2) ** 2
    force = lambda q: np.array([q[0] - 8 * q[0] * (q[1] - q[0] ** 2), 4 * (q[1] - q[0] ** 2)])
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        q, e, p0, u = before["state.q"], 0.1 + 0.05 * i, row["result.0"], row["result.1"]
        z, p = q, p0 - 0.5 * e * force(q)
        for k in range(5):
            z = z + e * p
            p = p - (0.5 if k == 4 else 1.0) * e * force(z)
        change = potential(z) + p @ p / 2 - potential(q) - p0 @ p0 / 2
        np.testing.assert_allclose(row["result.2"], change, rtol=1e-8, atol=1e-10)
        assert row["result.3"] == (np.log(u) < -change)
        np.testing.assert_allclose(row["state.q"], z if np.log(u) < -change else q, rtol=1e-10)


@program(peer=False)
def expectation_maximisation(jit: Any) -> Any:
    """A mixture of two Gaussians in the plane, full covariances."""
    points = wg.concat([data(12, 2) * 0.5 + 1.5, data(12, 2, seed=1) - 1.0])

    @jit
    def step(weights, means, covariances):
        low = wg.linalg.cholesky(covariances)
        z = wg.linalg.solve_triangular(low, (points[None] - means[:, None]).mT, upper=False)
        log_det = wg.log(wg.diagonal(low, dim1=-2, dim2=-1)).sum(-1)
        log_p = wg.log(weights)[:, None] - 0.5 * (z**2).sum(1) - log_det[:, None] - math.log(2 * math.pi)
        total = wg.logsumexp(log_p, axis=0)
        r = wg.exp(log_p - total)
        n = r.sum(1)
        means = r @ points / n[:, None]
        d = points[None] - means[:, None]
        covariances = wg.einsum("kn,kni,knj->kij", r, d, d) / n[:, None, None] + 1e-6 * wg.eye(2)
        return n / n.sum(), means, covariances, total.sum()

    state = [wg.tensor([0.5, 0.5]), wg.tensor([[1.0, 0.0], [0.0, -1.0]]), wg.stack([wg.eye(2)] * 2)]

    def call(i):
        *state[:], value = step(*state)
        return value

    return call, {"points": points, "state": state}


def test_expectation_maximisation() -> None:
    rows = both(expectation_maximisation)
    points = rows[0]["points"]
    for before, row in zip(rows, rows[1:]):
        density = np.stack(
            [
                before["state.0"][k]
                * scipy.stats.multivariate_normal(before["state.1"][k], before["state.2"][k]).pdf(points)
                for k in range(2)
            ]
        )
        np.testing.assert_allclose(row["result"], np.log(density.sum(0)).sum(), rtol=1e-10)
        r = density / density.sum(0)
        np.testing.assert_allclose(row["state.1"], r @ points / r.sum(1)[:, None], rtol=1e-9)
    values = [float(row["result"]) for row in rows[1:]]
    assert values == sorted(values)


@program(peer=False)
def proportional_hazards(jit: Any) -> Any:
    """Cox's partial likelihood with censoring, risk sets by a running log-sum-exp (Cox 1972)."""
    x = data(20, 3)
    order = np.argsort(np.random.default_rng(1).exponential(size=20))[::-1].copy()
    event = wg.tensor(np.random.default_rng(2).random(20) < 0.7)
    beta = wg.nn.Parameter(wg.zeros(3))
    opt = wg.optim.SGD([beta], lr=0.05)

    @jit
    def step(x, penalty):
        eta = (x @ beta)[wg.tensor(order)]
        top = eta.max().detach()
        risk = wg.log(wg.cumsum(wg.exp(eta - top), axis=0)) + top
        loss = -((eta - risk) * event).sum() + penalty * (beta**2).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(x * (1 + 0.05 * i), 0.1 * i), {"x": x, "event": event, "beta": beta, "order": order}


def test_proportional_hazards() -> None:
    rows = both(proportional_hazards)
    order, event = rows[0]["order"], rows[0]["event"]
    for i, (before, row) in enumerate(zip(rows, rows[1:])):

        def loss(beta: np.ndarray, x: np.ndarray = row["x"] * (1 + 0.05 * i), i: int = i) -> float:
            eta, total = (x @ beta)[order], 0.1 * i * (beta**2).sum()
            for k in range(20):
                if event[k]:
                    total -= eta[k] - np.log(sum(np.exp(eta[: k + 1])))
            return float(total)

        np.testing.assert_allclose(row["result"], loss(before["beta"]), rtol=1e-10)
        np.testing.assert_allclose(row["beta.grad"], slopes(loss, before["beta"]), rtol=1e-6, atol=1e-7)


@program(peer=False)
def epidemic(jit: Any) -> Any:
    """An SIR model by scan, and how uncertain its peak is: parameter covariance through the Jacobian."""

    def infected(theta):
        beta, gamma = wg.exp(theta)

        def step(state, _):
            s, i, r = state
            new, gone = 0.25 * beta * s * i, 0.25 * gamma * i
            return (s - new, i + new - gone, r + gone), i

        (s, i, r), path = wg.scan(step, (0.99, 0.01, 0.0), None, length=60)
        return wg.concat([path[::10], wg.stack([path.max(), s + i + r])])

    @jit
    def step(theta, covariance):
        j = wg.jacobian(infected)(theta)
        return infected(theta), j, j @ covariance @ j.T

    start = wg.tensor([0.3, -1.5])
    return lambda i: step(start + 0.05 * i, 0.01 * wg.eye(2) * (1 + i)), {"start": start}


def test_epidemic() -> None:
    rows = both(epidemic)

    def infected(theta: np.ndarray) -> np.ndarray:
        beta, gamma = np.exp(theta)
        s, i, r, path = 0.99, 0.01, 0.0, []
        for _ in range(60):
            path.append(i)
            new, gone = 0.25 * beta * s * i, 0.25 * gamma * i
            s, i, r = s - new, i + new - gone, r + gone
        return np.array([*path[::10], max(path), s + i + r])

    for k, row in enumerate(rows[1:]):
        theta = row["start"] + 0.05 * k
        np.testing.assert_allclose(row["result.0"], infected(theta), rtol=1e-10)
        j = slopes(infected, theta)
        np.testing.assert_allclose(row["result.1"], j, rtol=1e-5, atol=1e-8)
        np.testing.assert_allclose(row["result.2"], 0.01 * (1 + k) * j @ j.T, rtol=1e-5, atol=1e-9)


@program(peer=False)
def ising(jit: Any) -> Any:
    """Metropolis sweeps over a periodic lattice, one colour of the checkerboard after the other."""
    colour = (wg.arange(6)[:, None] + wg.arange(6)[None]) % 2

    @jit
    def sweep(spins, beta):
        us = []
        for c in (0, 1):
            near = sum(wg.roll(spins, shift, axis) for shift in (1, -1) for axis in (0, 1))
            u = wg.rand(6, 6)
            flip = (u < wg.exp(-2.0 * beta * spins * near)) & (colour == c)
            spins = wg.where(flip, -spins, spins)
            us.append(u)
        energy = -(spins * (wg.roll(spins, 1, 0) + wg.roll(spins, 1, 1))).sum()
        return spins, (energy, spins.mean(), us)

    state = {"spins": wg.where(data(6, 6) > 0, 1, -1)}

    def call(i):
        state["spins"], found = sweep(state["spins"], 0.1 * (i + 1))
        return found

    return call, {"state": state}


def test_ising() -> None:
    rows = both(ising)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        spins = before["state.spins"].copy()
        for c, u in enumerate((row["result.2.0"], row["result.2.1"])):
            for a, b in np.ndindex(6, 6):
                if (a + b) % 2 == c:
                    near = sum(spins[(a + da) % 6, (b + db) % 6] for da, db in ((0, 1), (1, 0), (0, -1), (-1, 0)))
                    if u[a, b] < np.exp(-0.2 * (i + 1) * spins[a, b] * near):
                        spins[a, b] *= -1
        assert (row["state.spins"] == spins).all()
        energy = -sum(spins[a, b] * (spins[a - 1, b] + spins[a, b - 1]) for a, b in np.ndindex(6, 6))
        assert row["result.0"] == energy
