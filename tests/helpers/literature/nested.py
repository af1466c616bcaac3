"""Functions that hold derivatives, batches and loops inside: transforms within what is differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import case, unpack


@case(
    "Laplace (1774), Tierney and Kadane (1986): a marginal likelihood with the log det of a Hessian",
    lambda d: d.normal(4) * 0.5,
    lambda d: {"design": d.normal(9, 3), "y": d.integers(5, 9).astype(np.float64)},
)
def laplace_approximation(xp: Any, x: Any, design: Any, y: Any) -> Any:
    """Two Newton steps to the mode; the Hessian-vector product is of order four."""
    precision = xp.exp(x[3])
    negative = lambda w: xp.sum(xp.exp(design @ w) - y * (design @ w)) + precision / 2 * xp.sum((w - x[:3]) ** 2)
    w = x[:3]
    for _ in range(2):
        w = w - xp.linalg.solve(xp.hessian(negative)(w), xp.grad(negative)(w)[:, None])[:, 0]
    return -negative(w) + 1.5 * x[3] - xp.linalg.slogdet(xp.hessian(negative)(w))[1] / 2


@case(
    "Abadi et al. (2016), Deep learning with differential privacy: clipped gradients of each example",
    lambda d: d.normal(4),
    lambda d: {"inputs": d.normal(6, 4), "y": d.normal(6)},
)
def clipped_gradients(xp: Any, x: Any, inputs: Any, y: Any) -> Any:
    loss = lambda w, a, b: (xp.tanh(xp.sum(a * w)) - b) ** 2
    each = xp.vmap(lambda a, b: xp.grad(loss)(x, a, b))(inputs, y)
    norms = xp.sqrt(xp.sum(each**2, axis=1, keepdims=True))
    return xp.sum(xp.mean(each / xp.maximum(norms / 0.5, 1.0), axis=0) ** 2)


@case(
    "Rifai et al. (2011), Contractive auto-encoders: the norm of the encoder's Jacobian",
    lambda d: d.normal(3 * 4 + 4) * 0.7,
    lambda d: {"inputs": d.normal(5, 3)},
)
def contractive_autoencoder(xp: Any, x: Any, inputs: Any) -> Any:
    w, b = unpack(x, (3, 4), (4,))
    encode = lambda a: xp.sigmoid(a @ w + b)
    jacobians = xp.vmap(xp.jacobian(encode))(inputs)
    return xp.mean((encode(inputs) @ w.T - inputs) ** 2) + 0.1 * xp.mean(jacobians**2)


@case(
    "Behrmann et al. (2019), Invertible residual networks: the log det of a Jacobian",
    lambda d: d.normal(9 + 3) * 0.3,
    lambda d: {"samples": d.normal(4, 3)},
)
def residual_flow(xp: Any, x: Any, samples: Any) -> Any:
    w, b = unpack(x, (3, 3), (3,))
    flow = lambda s: s + 0.5 * xp.tanh(s @ w + b)
    log_det = xp.vmap(lambda s: xp.linalg.slogdet(xp.jacobian(flow)(s))[1])(samples)
    return xp.mean(xp.sum(flow(samples) ** 2, axis=1) / 2 - log_det)


@case("Christoffel (1869): a geodesic step in a metric, by derivatives of the metric", lambda d: d.uniform(0.5, 1.5, 4))
def geodesic(xp: Any, x: Any) -> Any:
    def metric(p: Any) -> Any:
        a, b = p[0] ** 2 + 1, xp.sin(p[0] * p[1])
        return xp.stack([xp.stack([a, b / 2]), xp.stack([b / 2, 1 + p[1] ** 2])])

    p, v = x[:2], x[2:]
    for _ in range(2):
        d = xp.jacobian(metric)(p)
        lowered = (d + xp.moveaxis(d, 1, 2) - xp.moveaxis(xp.moveaxis(d, 2, 0), 1, 2)) / 2
        force = xp.einsum("ijk,j,k->i", xp.moveaxis(lowered, 0, 0), v, v)
        v = v - 0.1 * xp.linalg.solve(metric(p), force[:, None])[:, 0]
        p = p + 0.1 * v
    return v @ metric(p) @ v


@case(
    "Amari (1998), Natural gradient works efficiently in learning: one step",
    lambda d: d.normal(3) * 0.7,
    lambda d: {"inputs": d.normal(7, 3), "y": (d.uniform(0, 1, 7) < 0.5).astype(np.float64)},
)
def natural_gradient(xp: Any, x: Any, inputs: Any, y: Any) -> Any:
    loss = lambda w, a, b: xp.softplus(xp.sum(a * w)) - b * xp.sum(a * w)
    scores = xp.vmap(lambda a, b: xp.grad(loss)(x, a, b))(inputs, y)
    fisher = scores.T @ scores / 7 + 0.1 * xp.eye(3)
    moved = x - 0.5 * xp.linalg.solve(fisher, xp.mean(scores, axis=0)[:, None])[:, 0]
    return xp.mean(xp.vmap(lambda a, b: loss(moved, a, b))(inputs, y))


@case(
    "Pearlmutter (1994), Fast exact multiplication by the Hessian: curvature along the gradient",
    lambda d: d.normal(5) * 0.6,
    lambda d: {"inputs": d.normal(8, 5), "y": d.normal(8)},
)
def curvature_along_gradient(xp: Any, x: Any, inputs: Any, y: Any) -> Any:
    slope = xp.grad(lambda w: xp.mean((xp.tanh(inputs @ w) - y) ** 2))
    g, product = xp.jvp(slope, (x,), (slope(x),))
    return xp.sum(g * product) / xp.sum(g * g)


@case("Taylor (1715): the fourth derivative along a line, by nested forward mode", lambda d: d.uniform(0.3, 1, 3))
def nested_forward(xp: Any, x: Any) -> Any:
    f = lambda t: xp.exp(xp.sin(t * x[0])) / (x[1] + t**2)
    for _ in range(3):
        f = lambda t, f=f: xp.jvp(f, (t,), (t * 0 + 1,))[1]
    return f(x[2])


@case(
    "Hutchinson (1990), A stochastic estimator of the trace; Song et al. (2020), Sliced score matching",
    lambda d: d.normal(2 * 4 + 4 + 4 * 2) * 0.6,
    lambda d: {"samples": d.normal(5, 2), "signs": np.sign(d.normal(5, 2))},
)
def sliced_score_matching(xp: Any, x: Any, samples: Any, signs: Any) -> Any:
    w, b, out = unpack(x, (2, 4), (4,), (4, 2))
    score = lambda s: xp.tanh(s @ w + b) @ out
    value, along = xp.jvp(score, (samples,), (signs,))
    return xp.mean(xp.sum(along * signs, axis=1) + xp.sum(value**2, axis=1) / 2)


@case(
    "Jordan (1986), Serial order: a recurrent network in a scan",
    lambda d: d.normal(2 * 3 + 3 * 3 + 3) * 0.6,
    lambda d: {"sequence": d.normal(9, 2)},
)
def recurrent_scan(xp: Any, x: Any, sequence: Any) -> Any:
    w, u, b = unpack(x, (2, 3), (3, 3), (3,))

    def step(h: Any, inputs: Any) -> Any:
        h = xp.tanh(inputs @ w + h @ u + b)
        return h, xp.sum(h**2)

    last, energies = xp.scan(step, xp.zeros(3), sequence)
    return xp.sum(energies * xp.arange(9)) + xp.sum(last**3)


@case(
    "Baum and Petrie (1966): the forward algorithm in a scan",
    lambda d: d.normal(3 + 9 + 12),
    lambda d: {"symbols": d.integers(4, 12)},
)
def hidden_markov_scan(xp: Any, x: Any, symbols: Any) -> Any:
    first, moves, emits = (xp.log_softmax(a, axis=-1) for a in unpack(x, (3,), (3, 3), (3, 4)))

    def step(alpha: Any, emitted: Any) -> Any:
        alpha = xp.logsumexp(alpha[:, None] + moves, axis=0) + emitted
        return alpha, alpha[0]

    last, seen = xp.scan(step, first, emits.T[symbols])
    return xp.logsumexp(last, axis=0) + xp.mean(seen)


@case(
    "Roessler (1976), An equation for continuous chaos: a scan of Runge-Kutta steps",
    lambda d: d.uniform(0.1, 0.4, 3) * np.array([1, 1, 10]),
)
def roessler_scan(xp: Any, x: Any) -> Any:
    def slope(y: Any) -> Any:
        return xp.stack([-y[1] - y[2], y[0] + x[0] * y[1], x[1] + y[2] * (y[0] - x[2])])

    def step(y: Any, h: Any) -> Any:
        k = slope(y)
        k = slope(y + h / 2 * k)
        return y + h * k, y[0]

    last, path = xp.scan(step, xp.ones(3), 0.05 * xp.ones(20))
    return xp.sum(last**2) + xp.mean(path**2)


@case("Broyden, Fletcher, Goldfarb and Shanno (1970): two steps of BFGS on a quartic", lambda d: d.normal(4) * 0.5 + 1)
def quasi_newton_steps(xp: Any, x: Any) -> Any:
    slope = xp.grad(lambda w: xp.sum(w**4) / 4 + xp.sum(w[1:] * w[:-1]) + xp.sum(w**2))
    h, w = 0.1 * xp.eye(4), x
    for _ in range(3):
        g = slope(w)
        s = -(h @ g)
        y = slope(w + s) - g
        rho = 1 / (s @ y)
        left = xp.eye(4) - rho * xp.outer(s, y)
        h, w = left @ h @ left.T + rho * xp.outer(s, s), w + s
    return xp.sum(slope(w) ** 2)


@case("Armijo (1966), Minimization of functions: a branch on values within the function", lambda d: d.normal(3))
def branch_on_values(xp: Any, x: Any) -> Any:
    f = lambda w: xp.sum(w**4) + xp.sum(w) ** 2
    g = xp.grad(f)(x)
    long = f(x - 0.2 * g) < f(x) - 0.02 * xp.sum(g**2)
    return xp.cond(long, lambda w, d: f(w - 0.2 * d), lambda w, d: f(w - 0.02 * d), x, g)


@case("Lagrange (1788), Euler: accelerations from a Lagrangian; Cranmer et al. (2020)", lambda d: d.uniform(0.2, 1, 6))
def lagrangian_mechanics(xp: Any, x: Any) -> Any:
    def lagrangian(q: Any, v: Any) -> Any:
        a, b = x[4], x[5]
        kinetic = (a + b) * v[0] ** 2 / 2 + b * v[1] ** 2 / 2 + b * v[0] * v[1] * xp.cos(q[0] - q[1])
        return kinetic + (a + b) * 9.81 * xp.cos(q[0]) + b * 9.81 * xp.cos(q[1])

    q, v = x[:2], x[2:4]
    mass = xp.hessian(lambda w: lagrangian(q, w))(v)
    force = xp.grad(lambda p: lagrangian(p, v))(q)
    _, mixed = xp.jvp(lambda p: xp.grad(lambda w: lagrangian(p, w))(v), (q,), (v,))
    return xp.sum(xp.linalg.solve(mass, (force - mixed)[:, None]) ** 2)
