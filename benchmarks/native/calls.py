"""Calls: values, gradients, Jacobians, inference; and states carried on by a sampler or an optimiser."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from problem import Data, Problem, Sizes
from training import network, network_params, perceptron, perceptron_params

Rng = np.random.Generator
Function = Callable[..., Any]


def _arguments(**arrays: Any) -> Data:
    return {"arguments": arrays}


# -- matrix products, a scalar function, elementwise and row-wise work


def _product_data(rng: Rng, s: Sizes) -> Data:
    return _arguments(a=rng.standard_normal((s["n"], s["n"])), b=rng.standard_normal((s["n"], s["n"])))


def _product(lib: Any, s: Sizes) -> Function:
    return lambda a, b: (a @ b,)


def _scalars(lib: Any, s: Sizes) -> Function:
    f = lib.fns

    def fn(x: Any, y: Any) -> Any:
        u = f.sin(x) * y + x
        v = f.exp(-u) / (1 + f.exp(-u))
        w = f.sqrt(f.tanh(v - y) ** 2 + 1)
        return (f.cos(f.log(w) * u) * v + u * y - f.sin(x)) / (w + x * x)

    return fn


def _plane_data(rng: Rng, s: Sizes) -> Data:
    return _arguments(x=rng.standard_normal(s["n"]), y=rng.standard_normal(s["n"]))


def _elementwise(lib: Any, s: Sizes) -> Function:
    return lambda x, y: (lib.gelu(x) * lib.sigmoid(y) + lib.fns.tanh(x * y)).sum()


def _rows_data(rng: Rng, s: Sizes) -> Data:
    rows, width = s["rows"], s["width"]
    return _arguments(
        x=rng.standard_normal((rows, width)),
        gain=1 + 0.1 * rng.standard_normal(width),
        bias=0.1 * rng.standard_normal(width),
        weights=rng.standard_normal((rows, width)),
    )


def _rows(lib: Any, s: Sizes) -> Function:
    return lambda x, gain, bias, weights: (lib.softmax(lib.layer_norm(x, gain, bias)) * weights).sum()


def _attention_data(rng: Rng, s: Sizes) -> Data:
    shape = (s["batch"], s["heads"], s["length"], s["width"])
    return _arguments(**{k: rng.standard_normal(shape) for k in ("q", "k", "v", "weights")})


def _attention(lib: Any, s: Sizes) -> Function:
    return lambda q, k, v, weights: (lib.attention(q, k, v) * weights).sum()


# -- models from statistics, vision and physics


def _logistic_data(rng: Rng, s: Sizes) -> Data:
    n, d = s["rows"], s["width"]
    x = rng.standard_normal((n, d))
    y = np.where(x @ rng.standard_normal(d) / math.sqrt(d) + rng.logistic(size=n) > 0, 1.0, -1.0)
    return _arguments(w=0.1 * rng.standard_normal(d), v=rng.standard_normal(d), x=x, y=y)


def _logistic_loss(lib: Any, x: Any, y: Any) -> Function:
    return lambda w: lib.softplus(-y * (x @ w)).mean() + 0.005 * (w * w).sum()


def _logistic_hvp(lib: Any, s: Sizes) -> Function:
    return lambda w, v, x, y: (lib.hvp(_logistic_loss(lib, x, y), w, v),)


def _mixture_data(rng: Rng, s: Sizes) -> Data:
    n, d, k = s["rows"], s["width"], s["parts"]
    lower = np.tril_indices(d, -1)
    # Where each entry of a factor stands in (0, exponentials of the diagonal, entries below it).
    place = np.zeros((d, d), np.int64)
    place[np.arange(d), np.arange(d)] = 1 + np.arange(d)
    place[lower] = 1 + d + np.arange(len(lower[0]))
    return _arguments(
        alphas=rng.standard_normal(k),
        means=rng.uniform(0, 1, (k, d)),
        factors=0.5 * rng.standard_normal((k, d + d * (d - 1) // 2)),
        x=rng.standard_normal((n, d)),
        place=place.reshape(-1),
    )


def _mixture(lib: Any, s: Sizes) -> Function:
    """Log-likelihood of a Gaussian mixture with a Wishart prior, by inverse Cholesky factors (ADBench's GMM)."""
    d, rows, f = s["width"], s["rows"], lib.fns

    def fn(alphas: Any, means: Any, factors: Any, x: Any, place: Any) -> Any:
        logs, below = factors[:, :d], factors[:, d:]
        diagonal = f.exp(logs)
        entries = lib.concat([f.zeros_like(alphas)[:, None], diagonal, below], 1)
        factor = entries[:, place].reshape(-1, d, d)
        scaled = f.einsum("nj,kij->kni", x, factor) - f.einsum("kij,kj->ki", factor, means)[:, None, :]
        inner = (alphas + logs.sum(1))[:, None] - 0.5 * (scaled * scaled).sum(2)
        fit = lib.logsumexp(inner, 0).sum() - rows * lib.logsumexp(alphas, 0)
        return fit + 0.5 * ((diagonal * diagonal).sum() + (below * below).sum())

    return fn


def _bundle_data(rng: Rng, s: Sizes) -> Data:
    n = s["rows"]
    # Rotation, position, focal length, principal point, two distortions; a point; a weight.
    camera = np.concatenate(
        [
            0.3 * rng.standard_normal((n, 3)),
            0.5 * rng.standard_normal((n, 3)),
            1 + rng.uniform(0, 1, (n, 1)),
            0.1 * rng.standard_normal((n, 2)),
            0.01 * rng.standard_normal((n, 2)),
        ],
        1,
    )
    point = rng.standard_normal((n, 3)) + [0, 0, 6]
    rows = np.concatenate([camera, point, rng.uniform(0.5, 1.5, (n, 1))], 1)
    return _arguments(rows=rows, seen=rng.standard_normal((n, 2)))


def _bundle(lib: Any, s: Sizes) -> Function:
    """Reprojection errors of bundle adjustment and their Jacobian blocks (ADBench's BA)."""
    f = lib.fns

    def project(z: Any) -> Any:
        rotation, offset = z[:, :3], z[:, 11:14] - z[:, 3:6]
        angle = f.sqrt((rotation * rotation).sum(-1))[:, None]
        axis, cos = rotation / angle, f.cos(angle)
        ax, ay, az, ox, oy, oz = (a[:, i] for a in (axis, offset) for i in range(3))
        cross = f.stack([ay * oz - az * oy, az * ox - ax * oz, ax * oy - ay * ox], 1)
        along = (axis * offset).sum(-1)[:, None]
        turned = offset * cos + cross * f.sin(angle) + axis * (along * (1 - cos))
        flat = turned[:, :2] / turned[:, 2:]
        r2 = (flat * flat).sum(-1)[:, None]
        return flat * (1 + r2 * (z[:, 9:10] + r2 * z[:, 10:11])) * z[:, 6:7] + z[:, 7:9]

    def fn(rows: Any, seen: Any) -> Any:
        return lib.row_jacobian(lambda z: z[:, 14:15] * (project(z) - seen), rows)

    return fn


def _path_data(rng: Rng, s: Sizes) -> Data:
    width, batch = s["width"], s["batch"]
    return _arguments(
        w1=0.5 * rng.standard_normal((2, width)),
        b1=0.1 * rng.standard_normal(width),
        w2=0.1 * rng.standard_normal((width, 2)),
        b2=0.1 * rng.standard_normal(2),
        start=rng.uniform(-1, 1, (batch, 2)),
        path=rng.uniform(-1, 1, (s["steps"], batch, 2)),
    )


def _path(lib: Any, s: Sizes) -> Function:
    """The distance of a neural differential equation's path, by the classical Runge-Kutta method, from a given one."""
    dt = 0.05

    def fn(w1: Any, b1: Any, w2: Any, b2: Any, start: Any, path: Any) -> Any:
        def velocity(y: Any) -> Any:
            return lib.fns.tanh(y @ w1 + b1) @ w2 + b2

        def step(y: Any, goal: Any) -> Any:
            k1 = velocity(y)
            k2 = velocity(y + dt / 2 * k1)
            k3 = velocity(y + dt / 2 * k2)
            k4 = velocity(y + dt * k3)
            y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return y, ((y - goal) ** 2).mean()

        return lib.scan(step, start, path)[1].mean()

    return fn


def _burgers_data(rng: Rng, s: Sizes) -> Data:
    sizes = [2, *([s["width"]] * 3), 1]
    layers = {}
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        layers[f"w{i}"] = rng.standard_normal((a, b)) / math.sqrt(a)
        layers[f"b{i}"] = 0.1 * rng.standard_normal(b)
    where = np.stack([rng.uniform(0, 1, s["rows"]), rng.uniform(-1, 1, s["rows"])], 1)
    ones, zeros = np.ones(s["rows"]), np.zeros(s["rows"])
    return _arguments(**layers, where=where, in_t=np.stack([ones, zeros], 1), in_x=np.stack([zeros, ones], 1))


def _burgers(lib: Any, s: Sizes) -> Function:
    """The mean squared residual of Burgers' equation at points, for a network that is to solve it."""

    def fn(*args: Any) -> Any:
        layers, (where, in_t, in_x) = args[:8], args[8:]

        def u(z: Any) -> Any:
            for w, b in zip(layers[0:6:2], layers[1:6:2]):
                z = lib.fns.tanh(z @ w + b)
            return z @ layers[6] + layers[7]

        value, ux, uxx = lib.along(u, where, in_x)
        _, ut, _ = lib.along(u, where, in_t)
        return ((ut + value * ux - 0.01 / math.pi * uxx) ** 2).mean()

    return fn


# -- inference, one example


def _infer_data(rng: Rng, s: Sizes) -> Data:
    return _arguments(**perceptron_params(rng, s), x=rng.standard_normal((1, s["layers"][0])))


def _infer(lib: Any, s: Sizes) -> Function:
    return lambda w1, b1, w2, b2, x: (perceptron(lib, {"w1": w1, "b1": b1, "w2": w2, "b2": b2}, x),)


# -- states carried on


def _groups_data(rng: Rng, s: Sizes) -> Data:
    """A hierarchical logistic model, and a start of a Hamiltonian path: position, momentum, gradient there."""
    rows, groups = s["rows"], s["groups"]
    group, x = np.arange(rows) % groups, rng.standard_normal((rows, 3))
    logits = 0.5 + 0.8 * rng.standard_normal(groups)[group] + x @ [0.5, -1, 0.3]
    y = (rng.uniform(size=rows) < 1 / (1 + np.exp(-logits))).astype(np.float64)
    q = 0.3 * rng.standard_normal(5 + groups)
    mean, tau, z, slopes = q[0], np.exp(q[1]), q[2 : 2 + groups], q[2 + groups :]
    left = 1 / (1 + np.exp(-(mean + tau * z[group] + x @ slopes))) - y
    in_groups = np.bincount(group, left, groups)
    gradient = np.concatenate(
        [[mean / 25 + left.sum(), tau**2 - 1 + tau * in_groups @ z], z + tau * in_groups, slopes / 4 + x.T @ left]
    )
    state = {"q": q, "p": rng.standard_normal(len(q)), "gradient": gradient}
    return {"state": state, "given": {"x": x, "y": y, "group": group}}


def _leapfrog(lib: Any, s: Sizes) -> Function:
    groups, eps = s["groups"], 0.01

    def fn(state: Any, given: Any) -> Any:
        def energy(q: Any) -> Any:
            mean, log_tau, z, slopes = q[0], q[1], q[2 : 2 + groups], q[2 + groups :]
            tau = lib.fns.exp(log_tau)
            logits = mean + tau * z[given["group"]] + given["x"] @ slopes
            prior = mean**2 / 50 + tau**2 / 2 - log_tau + (z * z).sum() / 2 + (slopes * slopes).sum() / 8
            return prior - (given["y"] * logits - lib.softplus(logits)).sum()

        p = state["p"] - eps / 2 * state["gradient"]
        q = state["q"] + eps * p
        gradient = lib.grad(energy)(q)
        return {"q": q, "p": p - eps / 2 * gradient, "gradient": gradient}

    return fn


def _quasi_newton_data(rng: Rng, s: Sizes) -> Data:
    given = _logistic_data(rng, s)["arguments"]
    x, y, w = given["x"], given["y"], given["w"]
    gradient = -(y / (1 + np.exp(y * (x @ w)))) @ x / len(x) + 0.01 * w
    past = np.zeros((s["memory"], s["width"]))
    state = {"w": w, "gradient": gradient, "moves": past, "changes": past.copy()}
    return {"state": state, "given": {"x": x, "y": y}}


def _quasi_newton(lib: Any, s: Sizes) -> Function:
    """A step of L-BFGS by the two-loop recursion (Nocedal 1980), of length one, for logistic regression."""
    memory, f = s["memory"], lib.fns

    def fn(state: Any, given: Any) -> Any:
        moves, changes = state["moves"], state["changes"]
        curvature = (moves * changes).sum(1)
        # Rows that no step has filled yet count for nothing.
        rho = f.where(curvature > 0, 1 / f.where(curvature > 0, curvature, 1.0), 0.0)
        direction = state["gradient"]
        weights: list[Any] = [None] * memory
        for i in reversed(range(memory)):
            weights[i] = rho[i] * (moves[i] * direction).sum()
            direction = direction - weights[i] * changes[i]
        size = (changes[-1] * changes[-1]).sum()
        direction = direction * f.where(size > 0, curvature[-1] / f.where(size > 0, size, 1.0), 1.0)
        for i in range(memory):
            direction = direction + moves[i] * (weights[i] - rho[i] * (changes[i] * direction).sum())
        w = state["w"] - direction
        gradient = lib.grad(_logistic_loss(lib, given["x"], given["y"]))(w)
        return {
            "w": w,
            "gradient": gradient,
            "moves": lib.concat([moves[1:], (w - state["w"])[None]], 0),
            "changes": lib.concat([changes[1:], (gradient - state["gradient"])[None]], 0),
        }

    return fn


def _network_infer_data(rng: Rng, s: Sizes) -> Data:
    side = s["side"]
    return _arguments(x=rng.uniform(0, 1, (1, 1, side, side)), **network_params(rng, s))


def _network_infer(lib: Any, s: Sizes) -> Function:
    def fn(x: Any, *weights: Any) -> Any:
        names = ("c1", "c1b", "c2", "c2b", "f1", "f1b", "f2", "f2b")
        return (network(lib, dict(zip(names, weights)), x),)

    return fn


_PATH = ("w1", "b1", "w2", "b2")
_BURGERS = tuple(f"{k}{i}" for i in range(4) for k in "wb")
_UNROLLED = {"torch.compile": "it unrolls the loop, and compiles for many minutes"}

PROBLEMS = [
    Problem("gemm_f32", "matrix product, 1024, float32", {"n": 1024}, {"n": 9}, _product_data, call=_product,
            results=("out",), tolerance=1e-4),
    Problem("gemm_f64", "matrix product, 1024, float64", {"n": 1024}, {"n": 9}, _product_data, call=_product,
            results=("out",), dtype="float64", tolerance=1e-10),
    Problem("scalar_chain", "value and gradient of 20 operations on two scalars", {}, {},
            lambda rng, s: _arguments(x=np.array(0.7), y=np.array(1.3)), call=_scalars, gradients=("x", "y")),
    Problem("logistic_hvp", "Hessian-vector product of logistic regression, 1000 x 100", {"rows": 1000, "width": 100},
            {"rows": 12, "width": 5}, _logistic_data, call=_logistic_hvp, results=("hvp",), dtype="float64",
            tolerance=1e-9),
    Problem("gmm", "log-likelihood and gradient of a Gaussian mixture, 1000 rows, 10 axes, 25 parts",
            {"rows": 1000, "width": 10, "parts": 25}, {"rows": 7, "width": 3, "parts": 2}, _mixture_data,
            call=_mixture, gradients=("alphas", "means", "factors"), dtype="float64", tolerance=1e-9),
    Problem("ba", "bundle adjustment, errors and 2 x 15 Jacobian blocks of 4000 observations", {"rows": 4000},
            {"rows": 5}, _bundle_data, call=_bundle, results=("errors", "jacobian"), dtype="float64", tolerance=1e-9),
    Problem("neural_ode", "gradient through 100 steps of RK4, 2-64-2, 16 paths",
            {"steps": 100, "width": 64, "batch": 16}, {"steps": 4, "width": 5, "batch": 3}, _path_data, call=_path,
            gradients=_PATH, without=_UNROLLED),
    Problem("elementwise_chain", "sum(gelu(x) sigmoid(y) + tanh(x y)) and gradients, 4 M elements", {"n": 1 << 22},
            {"n": 37}, _plane_data, call=_elementwise, gradients=("x", "y")),
    Problem("softmax_layernorm", "sum(softmax(layernorm(x)) c) and gradients, 4096 x 1024",
            {"rows": 4096, "width": 1024}, {"rows": 5, "width": 19}, _rows_data, call=_rows,
            gradients=("x", "gain", "bias")),
    Problem("attention", "causal attention and gradients, 4 x 8 heads, length 512, width 64",
            {"batch": 4, "heads": 8, "length": 512, "width": 64}, {"batch": 1, "heads": 2, "length": 9, "width": 4},
            _attention_data, call=_attention, gradients=("q", "k", "v")),
    Problem("pinn", "gradient of the residual of Burgers' equation, 2-32-32-32-1, 1000 points",
            {"rows": 1000, "width": 32}, {"rows": 6, "width": 4}, _burgers_data, call=_burgers, gradients=_BURGERS,
            tolerance=2e-3),
    Problem("infer_mlp_tiny", "perceptron 4-16-2, one example", {"layers": (4, 16, 2)}, {}, _infer_data, call=_infer,
            results=("out",)),
    Problem("infer_mlp_mnist", "perceptron 784-256-10, one example", {"layers": (784, 256, 10)},
            {"layers": (9, 8, 3)}, _infer_data, call=_infer, results=("out",)),
    Problem("infer_cnn", "two convolutions (8, 16) and two dense layers, one image of 28 x 28",
            {"side": 28, "channels": (8, 16), "hidden": 64}, {"side": 10, "channels": (3, 5), "hidden": 6},
            _network_infer_data, call=_network_infer, results=("out",),
            layouts={"x": "images", "c1": "filters", "c2": "filters"}),
    Problem("hmc_leapfrog", "a leapfrog step, hierarchical logistic model of 160 rows and 8 groups",
            {"rows": 160, "groups": 8}, {"rows": 9, "groups": 2}, _groups_data, step=_leapfrog, tolerance=5e-3),
    Problem("lbfgs", "a step of L-BFGS, logistic regression, 1000 x 100, memory 5",
            {"rows": 1000, "width": 100, "memory": 5}, {"rows": 12, "width": 5, "memory": 3}, _quasi_newton_data,
            step=_quasi_newton, dtype="float64", tolerance=1e-8),
]  # fmt: skip
