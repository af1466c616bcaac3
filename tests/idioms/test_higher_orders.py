"""Derivatives of derivatives in training: inner loops, curvature, solvers, functional gradients."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

import wengert.nn.functional as F
from both_namespaces import wg
from wengert import nn, optim

from .driver import Row, both, data, fresh, program


def mlp(seed: int = 0) -> Any:
    return fresh(nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1)), seed)


def waves(i: int) -> tuple[Any, Any]:
    """A task: a sine of another phase in every call."""
    x = data(8, 1, seed=i)
    return x, wg.sin(2 * x + i)


@program
def maml(jit: Any) -> Any:
    """Two inner steps of gradient descent, differentiated through (Finn, Abbeel and Levine 2017)."""
    w1, b1 = nn.Parameter(data(1, 4) * 0.5), nn.Parameter(wg.zeros(4))
    w2, b2 = nn.Parameter(data(4, 1, seed=1) * 0.5), nn.Parameter(wg.zeros(1))
    opt = optim.Adam([w1, b1, w2, b2], lr=0.01)

    def forward(params, x):
        return wg.tanh(x @ params[0] + params[1]) @ params[2] + params[3]

    @jit
    def step(x, y, inner_lr):
        fast = [w1, b1, w2, b2]
        for _ in range(2):
            loss = F.mse_loss(forward(fast, x[:4]), y[:4])
            grads = wg.autograd.grad(loss, fast, create_graph=True)
            fast = [p - inner_lr * g for p, g in zip(fast, grads)]
        loss = F.mse_loss(forward(fast, x[4:]), y[4:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(*waves(i), 0.1 * 0.9**i), {"params": [w1, b1, w2, b2], "opt": opt}


def test_maml() -> None:
    rows = both(maml)

    def adapted(params: list[np.ndarray], x: np.ndarray, y: np.ndarray, lr: float) -> float:
        w1, b1, w2, b2 = params
        for _ in range(2):
            h = np.tanh(x[:4] @ w1 + b1)
            d = 2 * (h @ w2 + b2 - y[:4]) / 4
            dh = d @ w2.T * (1 - h * h)
            w1, b1, w2, b2 = w1 - lr * x[:4].T @ dh, b1 - lr * dh.sum(0), w2 - lr * h.T @ d, b2 - lr * d.sum(0)
        return float(((np.tanh(x[4:] @ w1 + b1) @ w2 + b2 - y[4:]) ** 2).mean())

    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        x = np.random.default_rng(i).normal(size=(8, 1))
        params, lr = [before[f"params.{k}"] for k in range(4)], 0.1 * 0.9**i
        y = np.sin(2 * x + i)
        np.testing.assert_allclose(row["result"], adapted(params, x, y, lr), rtol=1e-11)
        for k, p in enumerate(params):
            for at in list(np.ndindex(p.shape))[:2]:
                ends = []
                for e in (1e-5, -1e-5):
                    moved = [q.copy() for q in params]
                    moved[k][at] += e
                    ends.append(adapted(moved, x, y, lr))
                numeric = (ends[0] - ends[1]) / 2e-5
                np.testing.assert_allclose(row[f"params.{k}.grad"][at], numeric, rtol=1e-5, atol=1e-9)


@program
def reptile(jit: Any) -> Any:
    """A copy learns the task, the model goes part of the way to it (Nichol, Achiam and Schulman 2018)."""
    model = mlp()
    fast = copy.deepcopy(model)
    opt = optim.SGD(fast.parameters(), lr=0.1)

    @jit
    def adapt(x, y):
        fast.load_state_dict(model.state_dict())
        for _ in range(3):
            loss = F.mse_loss(fast(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        with wg.no_grad():
            for p, q in zip(model.parameters(), fast.parameters()):
                p += 0.5 * (q - p)
        return loss

    return lambda i: adapt(*waves(i)), {"model": model, "fast": fast}


def test_reptile() -> None:
    rows = both(reptile)
    for before, row in zip(rows, rows[1:]):
        for name in ("0.weight", "2.bias"):
            expected = (before[f"model.{name}"] + row[f"fast.{name}"]) / 2
            np.testing.assert_allclose(row[f"model.{name}"], expected, rtol=1e-12)


@program(peer=False)
def neural_ode(jit: Any) -> Any:
    """A field that odeint integrates, fitted to a spiral; the solver is a function of its own in each library."""
    times = wg.linspace(0.0, 1.0, 5)
    field = fresh(nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2)))
    opt = optim.Adam(field.parameters(), lr=0.02)

    @jit
    def step(start, target):
        path = wg.solve.odeint(lambda t, z: field(z), start, times, method="rk4", steps=2)
        loss = ((path - target) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, path

    def call(i):
        angle = times + 0.1 * i
        target = wg.stack([wg.exp(-times) * wg.cos(angle), wg.exp(-times) * wg.sin(angle)], dim=1)
        return step(target[0], target)

    return call, {"field": field, "opt": opt}


def test_neural_ode() -> None:
    rows = both(neural_ode)
    for before, row in zip(rows, rows[1:]):

        def field(z: np.ndarray, w: Row = before) -> np.ndarray:
            return w["field.2.weight"] @ np.tanh(w["field.0.weight"] @ z + w["field.0.bias"]) + w["field.2.bias"]

        z = row["result.1"][0]
        for k in range(8):
            a = field(z)
            b = field(z + a / 16)
            c = field(z + b / 16)
            z = z + (a + 2 * b + 2 * c + field(z + c / 8)) / 48
            if k % 2:
                np.testing.assert_allclose(row["result.1"][k // 2 + 1], z, rtol=1e-9)


@program(peer=False)
def per_example_gradients(jit: Any) -> Any:
    """Private training: each example's gradient is clipped before they are added, and noise comes on top."""
    x, y = data(48, 3), data(48, 1, seed=1)
    params = {"w": data(3, 1, seed=2), "b": wg.zeros(1)}

    def loss_of(params, x, y):
        return ((wg.tanh(x @ params["w"] + params["b"]) - y) ** 2).sum()

    @jit
    def step(params, x, y, noise):
        grads = wg.vmap(wg.grad(loss_of), in_axes=(None, 0, 0))(params, x, y)
        norms = wg.sqrt(sum((g.reshape(len(x), -1) ** 2).sum(1) for g in grads.values()))
        factor = wg.clamp(1.0 / norms, max=1.0)
        new = {}
        for name, g in grads.items():
            total = (g * factor.reshape(-1, *[1] * (g.ndim - 1))).sum(0)
            new[name] = params[name] - 0.1 * (total + noise * wg.randn_like(total)) / len(x)
        return new, norms

    def call(i):
        nonlocal params
        params, norms = step(params, x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6], 0.0 if i < 4 else 0.5)
        return params, norms

    return call, {"x": x, "y": y, "start": dict(params)}


def test_per_example_gradients() -> None:
    rows = both(per_example_gradients)
    w, b = rows[0]["start.w"], rows[0]["start.b"]
    for i, row in enumerate(rows[1:5]):
        total_w, total_b = 0.0, 0.0
        for k in range(6):
            x, y = row["x"][6 * i + k], row["y"][6 * i + k]
            h = np.tanh(x @ w + b)
            g = 2 * (h - y) * (1 - h * h)
            norm = np.sqrt((g**2).sum() * (1 + (x**2).sum()))
            np.testing.assert_allclose(row["result.1"][k], norm, rtol=1e-11)
            total_w, total_b = total_w + np.outer(x, g) * min(1, 1 / norm), total_b + g * min(1, 1 / norm)
        w, b = w - 0.1 * total_w / 6, b - 0.1 * total_b / 6
        np.testing.assert_allclose(row["result.0.w"], w, rtol=1e-11)
        np.testing.assert_allclose(row["result.0.b"], b, rtol=1e-11)


@program
def curvature_along_the_gradient(jit: Any) -> Any:
    """A Hessian-vector product by a second backward pass chooses the step's length."""
    model = mlp()

    @jit
    def step(x, y):
        params = list(model.parameters())
        loss = F.mse_loss(model(x), y)
        grads = wg.autograd.grad(loss, params, create_graph=True)
        dot = sum((g * g.detach()).sum() for g in grads)
        products = wg.autograd.grad(dot, params)
        curvature = sum((g.detach() * h).sum() for g, h in zip(grads, products))
        rate = (dot.detach() / curvature.abs()).clamp(max=1.0)
        with wg.no_grad():
            for p, g in zip(params, grads):
                p -= rate * g
        return loss.detach(), curvature, rate

    return lambda i: step(*waves(i)), {"model": model}


@program(peer=False)
def hessian_products_of_functions(jit: Any) -> Any:
    """The same by `wg.hvp`, in the functional style."""
    model = mlp()
    names = list(model.state_dict())
    params = [p.detach().clone() for p in model.parameters()]

    def loss_of(params, x, y):
        return F.mse_loss(wg.tanh(x @ params[0].T + params[1]) @ params[2].T + params[3], y)

    @jit
    def step(params, x, y):
        loss, grads = wg.value_and_grad(loss_of)(params, x, y)
        products = wg.hvp(lambda p: loss_of(p, x, y), (params,), (grads,))
        dot = sum((g * g).sum() for g in grads)
        curvature = sum((g * h).sum() for g, h in zip(grads, products))
        rate = (dot / curvature.abs()).clamp(max=1.0)
        return [p - rate * g for p, g in zip(params, grads)], (loss, curvature, rate)

    def call(i):
        nonlocal params
        params, found = step(params, *waves(i))
        return dict(zip(names, params)), found

    return call, {}


def test_curvature() -> None:
    rows = both(curvature_along_the_gradient)
    for row, other in zip(rows[1:], both(hessian_products_of_functions)[1:]):
        for k in range(3):
            np.testing.assert_allclose(other[f"result.1.{k}"], row[f"result.{k}"], rtol=1e-9)
        np.testing.assert_allclose(other["result.0.0.weight"], row["model.0.weight"], rtol=1e-9)


@program(peer=False)
def natural_gradient(jit: Any) -> Any:
    """The Fisher matrix from each example's score, damped, and a linear solve (Amari 1998)."""
    x = data(64, 3)
    y = (x @ wg.tensor([1.0, -1.0, 0.5]) > 0).double()
    w = wg.zeros(3)

    def log_likelihood(w, x, y):
        z = x @ w
        return y * z - wg.logaddexp(z, 0.0)

    @jit
    def step(w, x, y):
        scores = wg.vmap(wg.grad(log_likelihood), in_axes=(None, 0, 0))(w, x, y)
        fisher = scores.T @ scores / len(x) + 0.1 * wg.eye(3)
        return w + 0.5 * wg.linalg.solve(fisher, scores.mean(dim=0)), fisher

    def call(i):
        nonlocal w
        w, fisher = step(w, x[8 * i : 8 * i + 8], y[8 * i : 8 * i + 8])
        return w, fisher

    return call, {"x": x, "y": y}


@program(peer=False)
def gauss_newton_step(jit: Any) -> Any:
    """Curvature products J'J v inside conjugate gradients, no matrix formed."""
    x = wg.linspace(-1.0, 1.0, 12)
    p = wg.tensor([1.0, 0.5, 0.2])

    def model(p):
        return p[0] * wg.exp(-p[1] * x) + wg.sin(p[2] * x)

    @jit
    def step(p, y):
        residual, pull = wg.vjp(lambda p: model(p) - y, p)
        (gradient,) = pull(residual)

        def product(v):
            return wg.vjp(model, p)[1](wg.jvp(model, (p,), (v,))[1])[0] + 1e-3 * v

        d, r = wg.zeros_like(p), -gradient
        q = r
        for _ in range(3):
            aq = product(q)
            alpha = (r @ r) / (q @ aq)
            d, new = d + alpha * q, r - alpha * aq
            q = new + (new @ new) / (r @ r) * q
            r = new
        return p + d, (residual**2).sum()

    def call(i):
        nonlocal p
        p, loss = step(p, wg.exp(-x) * (1.5 + 0.01 * i) + wg.sin(0.5 * x))
        return p, loss

    return call, {}


def test_natural_gradient() -> None:
    rows = both(natural_gradient)
    w = np.zeros(3)
    for i, row in enumerate(rows[1:]):
        x, y = row["x"][8 * i : 8 * i + 8], row["y"][8 * i : 8 * i + 8]
        scores = (y - 1 / (1 + np.exp(-x @ w)))[:, None] * x
        fisher = scores.T @ scores / 8 + 0.1 * np.eye(3)
        np.testing.assert_allclose(row["result.1"], fisher, rtol=1e-11)
        w = w + 0.5 * np.linalg.solve(fisher, scores.mean(0))
        np.testing.assert_allclose(row["result.0"], w, rtol=1e-10)


def test_gauss_newton() -> None:
    rows = both(gauss_newton_step)
    x, p = np.linspace(-1, 1, 12), np.array([1.0, 0.5, 0.2])
    for i, row in enumerate(rows[1:]):
        y = np.exp(-x) * (1.5 + 0.01 * i) + np.sin(0.5 * x)
        e = np.exp(-p[1] * x)
        residual = p[0] * e + np.sin(p[2] * x) - y
        j = np.stack([e, -p[0] * x * e, x * np.cos(p[2] * x)], axis=1)
        np.testing.assert_allclose(row["result.1"], (residual**2).sum(), rtol=1e-8)
        p = p - np.linalg.solve(j.T @ j + 1e-3 * np.eye(3), j.T @ residual)
        np.testing.assert_allclose(row["result.0"], p, rtol=1e-6)
        p = row["result.0"]
    assert rows[-1]["result.1"] < 0.1 * rows[1]["result.1"]


@program(peer=False)
def deep_ensemble(jit: Any) -> Any:
    """Five networks at once: their parameters stacked, gradients and momentum mapped over the stack."""
    x = data(48, 2)
    y = wg.sin(x.sum(dim=1))
    params = {"w": data(5, 2, 4, seed=1), "b": data(5, 4, seed=2), "v": data(5, 4, seed=3)}
    momentum = {k: wg.zeros_like(v) for k, v in params.items()}

    def loss_of(p, x, y):
        return ((wg.tanh(x @ p["w"] + p["b"]) @ p["v"] - y) ** 2).mean()

    @jit(donate_argnums=(0, 1))
    def step(params, momentum, x, y):
        losses, grads = wg.vmap(wg.value_and_grad(loss_of), in_axes=(0, None, None))(params, x, y)
        momentum = wg.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        return wg.tree.map(lambda p, m: p - 0.05 * m, params, momentum), momentum, losses

    def call(i):
        nonlocal params, momentum
        params, momentum, losses = step(params, momentum, x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6])
        return losses, params["v"].clone()

    return call, {"x": x, "y": y}


def test_deep_ensemble() -> None:
    rows = both(deep_ensemble)
    rng = [np.random.default_rng(seed) for seed in (1, 2, 3)]
    stack = [r.normal(size=s) for r, s in zip(rng, ((5, 2, 4), (5, 4), (5, 4)))]
    for member in range(5):
        w, b, v = (s[member] for s in stack)
        mw, mb, mv = np.zeros_like(w), np.zeros_like(b), np.zeros_like(v)
        for i, row in enumerate(rows[1:]):
            x, y = row["x"][6 * i : 6 * i + 6], row["y"][6 * i : 6 * i + 6]
            h = np.tanh(x @ w + b)
            error = h @ v - y
            np.testing.assert_allclose(row["result.0"][member], (error**2).mean(), rtol=1e-9)
            d = 2 * error / 6
            dh = np.outer(d, v) * (1 - h * h)
            mw, mb, mv = 0.9 * mw + x.T @ dh, 0.9 * mb + dh.sum(0), 0.9 * mv + h.T @ d
            w, b, v = w - 0.05 * mw, b - 0.05 * mb, v - 0.05 * mv
        np.testing.assert_allclose(rows[-1]["result.1"][member], v, rtol=1e-8)


@program
def lipschitz_penalty(jit: Any) -> Any:
    """The input gradient's norm at the data beside the loss (double backpropagation, Drucker and LeCun 1992)."""
    x, y = data(48, 2), data(48, 1, seed=1)
    model = fresh(nn.Sequential(nn.Linear(2, 4), nn.Softplus(), nn.Linear(4, 1)))
    opt = optim.Adam(model.parameters(), lr=0.02)

    @jit
    def step(x, y):
        x.requires_grad_(True)
        out = model(x)
        (slope,) = wg.autograd.grad(out.sum(), x, create_graph=True)
        loss = F.mse_loss(out, y) + 0.1 * F.relu(slope.norm(dim=1) - 0.5).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, slope.detach()

    return lambda i: step(x[6 * i : 6 * i + 6].clone(), y[6 * i : 6 * i + 6]), {"model": model, "x": x}


def test_lipschitz_penalty() -> None:
    rows = both(lipschitz_penalty)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        z = row["x"][6 * i : 6 * i + 6] @ before["model.0.weight"].T + before["model.0.bias"]
        slope = (before["model.2.weight"] / (1 + np.exp(-z))) @ before["model.0.weight"]
        np.testing.assert_allclose(row["result.1"], slope, rtol=1e-11)


@program
def hutchinson_trace(jit: Any) -> Any:
    """The divergence of a vector field by random signs, regularised (Hutchinson 1990)."""
    x = data(48, 3)
    field = fresh(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)))
    opt = optim.SGD(field.parameters(), lr=0.05)

    @jit
    def step(x):
        x = x.clone().requires_grad_()
        signs = wg.randint(0, 2, x.shape).double() * 2 - 1
        out = field(x)
        (product,) = wg.autograd.grad(out, x, grad_outputs=signs, create_graph=True)
        divergence = (product * signs).sum(dim=1)
        loss = (out**2).mean() + divergence.square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, divergence.detach(), signs

    return lambda i: step(x[6 * i : 6 * i + 6]), {"field": field, "x": x}


def test_hutchinson_trace() -> None:
    rows = both(hutchinson_trace)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        h = np.tanh(row["x"][6 * i : 6 * i + 6] @ before["field.0.weight"].T + before["field.0.bias"])
        for k in range(6):
            jacobian = before["field.2.weight"] @ np.diag(1 - h[k] ** 2) @ before["field.0.weight"]
            e = row["result.2"][k]
            np.testing.assert_allclose(row["result.1"][k], e @ jacobian @ e, rtol=1e-10)


@program(peer=False)
def limited_memory_closure(jit: Any) -> Any:
    """L-BFGS around a compiled closure: SciPy asks for value and gradient (there is no optim.LBFGS)."""
    from scipy.optimize import fmin_l_bfgs_b

    x, y = waves(0)
    model = mlp()

    @jit
    def closure(x, y):
        for p in model.parameters():
            p.grad = None
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    def value_and_grad(flat):
        nn.utils.vector_to_parameters(wg.tensor(flat), model.parameters())
        loss = closure(x, y)
        return loss.item(), nn.utils.parameters_to_vector(p.grad for p in model.parameters()).numpy().copy()

    def call(i):
        start = nn.utils.parameters_to_vector(model.parameters()).detach().numpy().copy()
        found, value, _ = fmin_l_bfgs_b(value_and_grad, start, maxiter=3)
        nn.utils.vector_to_parameters(wg.tensor(found), model.parameters())
        return value

    return call, {"model": model}


def test_limited_memory_closure() -> None:
    losses = [float(row["result"]) for row in both(limited_memory_closure)[1:]]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.3 * losses[0]


@program
def step_with_closure(jit: Any) -> Any:
    """The optimiser calls for the loss itself."""
    model = mlp()
    opt = optim.RMSprop(model.parameters(), lr=0.01, momentum=0.5, centered=True)

    @jit
    def step(x, y):
        def closure():
            opt.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            return loss

        return opt.step(closure)

    return lambda i: step(*waves(i)), {"model": model, "opt": opt}


def test_step_with_closure() -> None:
    rows = both(step_with_closure)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        x = np.random.default_rng(i).normal(size=(8, 1))
        h = np.tanh(x @ before["model.0.weight"].T + before["model.0.bias"])
        error = h @ before["model.2.weight"].T + before["model.2.bias"] - np.sin(2 * x + i)
        np.testing.assert_allclose(row["result"], (error**2).mean(), rtol=1e-11)
