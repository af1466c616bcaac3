"""Derivatives of every kind beside HIPS autograd, JAX (not jitted) and PyTorch, all eager, float32.

Each function is written once, against a namespace of array functions; a peer is an adapter. The
references are complex-step derivatives of the same functions in NumPy, in float64: they share no
differentiation code with any contender.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from harness import Case
from peers import autograd_module, jax_module, torch_module

import wengert as wg

Array = np.ndarray


# -- the functions: of a list of parameters, with data from outside


@dataclass
class Problem:
    """A function `make(xp, data)` of a list of parameters, its parameters, data, and examples to map over."""

    name: str
    make: Callable[[Any, dict[str, Any]], Callable[..., Any]]
    params: list[Array]
    data: dict[str, Array]
    examples: tuple[Array, ...] = ()


def logistic(xp: Any, d: dict[str, Any]) -> Any:
    def loss(w: Any) -> Any:
        margin = d["y"] * (d["x"] @ w[0])
        return xp.sum(xp.log(1 + xp.exp(-margin))) + 0.5 * xp.sum(w[0] * w[0])

    return loss


def mixture(xp: Any, d: dict[str, Any]) -> Any:
    """Log-likelihood of a Gaussian mixture with diagonal covariances."""

    def loss(p: Any) -> Any:
        weights, means, scales = p
        z = (d["x"][:, None, :] - means[None, :, :]) * xp.exp(scales)[None, :, :]
        score = weights[None, :] + xp.sum(scales, 1)[None, :] - 0.5 * xp.sum(z * z, 2)
        return xp.sum(xp.log(xp.sum(xp.exp(score), 1))) - d["x"].shape[0] * xp.log(xp.sum(xp.exp(weights)))

    return loss


def rosenbrock(xp: Any, d: dict[str, Any]) -> Any:
    def loss(p: Any) -> Any:
        a, b = p[0][:-1], p[0][1:]
        return xp.sum(100 * (b - a * a) * (b - a * a) + (1 - a) * (1 - a))

    return loss


def perceptron(xp: Any, d: dict[str, Any]) -> Any:
    """The squared error of a two-layer network, of all examples or of one."""

    def loss(p: Any, x: Any = None, y: Any = None) -> Any:
        x, y = (d["x"], d["y"]) if x is None else (x, y)
        out = xp.tanh(x @ p[0] + p[1]) @ p[2] + p[3]
        return xp.sum((out - y) * (out - y))

    return loss


def node(xp: Any, d: dict[str, Any]) -> Any:
    """Runge-Kutta steps of a small neural differential equation, written as a Python loop."""

    def loss(p: Any) -> Any:
        def f(h: Any) -> Any:
            return xp.tanh(h @ p[0] + p[1]) @ p[2]

        h, dt = d["x"], 0.1
        for _ in range(10):
            k1 = f(h)
            k2 = f(h + 0.5 * dt * k1)
            k3 = f(h + 0.5 * dt * k2)
            k4 = f(h + dt * k3)
            h = h + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return xp.sum(h * h)

    return loss


def camera(xp: Any, d: dict[str, Any]) -> Any:
    """Reprojection residuals of points seen by one camera with radial distortion: a Jacobian of 40 x 9."""

    def residuals(p: Any) -> Any:
        c = p[0]
        x, y, z = d["points"][:, 0] + c[0], d["points"][:, 1] + c[1], d["points"][:, 2] + c[2]
        u, v = x / z + c[3] * y, y / z - c[4] * x
        r2 = u * u + v * v
        scale = c[5] * (1 + c[6] * r2 + c[7] * r2 * r2)
        return xp.concat([scale * u + c[8], scale * v - c[8]])

    return residuals


CAMERA = np.array([0.1, -0.2, 5.0, 0.1, 0.2, 1.0, 0.01, 0.001, 0.3])


def problems() -> dict[str, Problem]:
    rng = np.random.default_rng(0)
    n = lambda *s: rng.normal(size=s)
    layers = [n(16, 32) / 4, n(32) / 4, n(32, 1) / 6, n(1)]
    return {
        p.name: p
        for p in [
            Problem("logistic 500x20", logistic, [n(20)], {"x": n(500, 20), "y": np.sign(n(500))}),
            Problem("gmm 200x4, 5 parts", mixture, [n(5), n(5, 4), n(5, 4) / 3], {"x": n(200, 4)}),
            Problem("rosenbrock 50", rosenbrock, [n(50)], {}),
            Problem("mlp 16-32-1", perceptron, layers, {"x": n(64, 16), "y": n(64, 1)}, examples=(n(64, 16), n(64, 1))),
            Problem("neural ode, 40 stages", node, [n(2, 16) / 2, n(16) / 2, n(16, 2) / 4], {"x": n(32, 2)}),
            Problem(
                "camera residuals",
                camera,
                [np.array([0.1, -0.2, 5, 0.1, 0.2, 1, 0.01, 0.001, 0.3])],
                {"points": n(20, 3)},
            ),
        ]
    }


# -- references: complex steps in float64

_NUMPY = SimpleNamespace(sum=np.sum, exp=np.exp, log=np.log, tanh=np.tanh, concat=np.concatenate)


def _columns(p: Problem, fn: Callable[..., Any]) -> list[Array]:
    """d fn / d parameter for every parameter element, along a last axis."""
    found = []
    for k, value in enumerate(p.params):
        columns = []
        for i in range(value.size):
            moved = [v.astype(complex) for v in p.params]
            moved[k].reshape(-1)[i] += 1e-30j
            columns.append(np.imag(fn(moved)) / 1e-30)
        found.append(np.stack(columns, -1).reshape((*np.shape(columns[0]), *value.shape)))
    return found


def reference_gradient(p: Problem) -> list[Array]:
    return _columns(p, p.make(_NUMPY, p.data))


def reference_hvp(p: Problem) -> list[Array]:
    """Central differences of complex-step gradients along the parameters themselves."""
    step = 1e-6
    ends = []
    for sign in (1, -1):
        moved = Problem(p.name, p.make, [v * (1 + sign * step) for v in p.params], p.data)
        ends.append(reference_gradient(moved))
    return [(a - b) / (2 * step) for a, b in zip(*ends, strict=True)]


def reference_examples(p: Problem) -> list[Array]:
    loss = p.make(_NUMPY, p.data)
    rows = [_columns(p, lambda q, i=i: loss(q, *(e[i] for e in p.examples))) for i in range(len(p.examples[0]))]
    return [np.stack(column) for column in zip(*rows, strict=True)]


# -- the peers: an array namespace, and four derivatives


@dataclass
class Peer:
    """`xp`, a way to make arrays, and the derivatives; `done` waits for a result and gives its arrays."""

    xp: Any
    array: Callable[[Array], Any]
    gradient: Callable[[Any, Any], Any]
    hvp: Callable[[Any, Any], Any]
    jacobian: Callable[[Any, Any], Any]
    examples: Callable[[Any, Any, Any], Any] | None
    done: Callable[[Any], list[Array]] = lambda found: [np.asarray(f) for f in found]
    wait: Callable[[Any], Any] = lambda found: found


def peers() -> dict[str, Peer]:
    found = {"wengert": _wengert()}
    for name, module, make in (
        ("autograd", autograd_module(), _autograd),
        ("jax", jax_module(), _jax),
        ("torch", torch_module(), _torch),
    ):
        if module is not None:
            found[name] = make(module)
    return found


def _wengert() -> Peer:
    return Peer(
        SimpleNamespace(
            sum=lambda x, a=None: wg.sum(x, axis=a), exp=wg.exp, log=wg.log, tanh=wg.tanh, concat=wg.concat
        ),
        lambda a: wg.asarray(np.asarray(a, np.float32)),
        lambda f, p: wg.grad(f)(p),
        lambda f, p: wg.hvp(f, (p,), (p,)),
        lambda f, p: wg.jacobian(f)(p),
        lambda f, p, e: wg.vmap(wg.grad(f), (None, *(0 for _ in e)))(p, *e),
        done=lambda found: [np.asarray(f.detach()) for f in found],
    )


def _autograd(ag: Any) -> Peer:
    anp = ag.numpy
    return Peer(
        SimpleNamespace(sum=anp.sum, exp=anp.exp, log=anp.log, tanh=anp.tanh, concat=anp.concatenate),
        lambda a: np.asarray(a, np.float32),
        lambda f, p: ag.grad(f)(p),
        lambda f, p: ag.make_hvp(f)(p)[0](p),
        lambda f, p: [ag.jacobian(lambda x: f([x]))(p[0])],
        None,
    )


def _jax(jax: Any) -> Peer:
    jnp = jax.numpy

    def hvp(f: Any, p: Any) -> Any:
        return jax.jvp(jax.grad(f), (p,), (p,))[1]

    return Peer(
        SimpleNamespace(sum=jnp.sum, exp=jnp.exp, log=jnp.log, tanh=jnp.tanh, concat=jnp.concatenate),
        lambda a: jnp.asarray(np.asarray(a, np.float32)),
        lambda f, p: jax.grad(f)(p),
        hvp,
        lambda f, p: jax.jacfwd(f)(p),
        lambda f, p, e: jax.vmap(jax.grad(f), (None, *(0 for _ in e)))(p, *e),
        wait=jax.block_until_ready,
    )


def _torch(torch: Any) -> Peer:
    func = torch.func

    def total(x: Any, axis: Any = None) -> Any:
        return x.sum() if axis is None else x.sum(axis)

    def gradient(f: Any, p: Any) -> Any:
        leaves = [t.detach().requires_grad_() for t in p]
        return torch.autograd.grad(f(leaves), leaves)

    return Peer(
        SimpleNamespace(sum=total, exp=torch.exp, log=torch.log, tanh=torch.tanh, concat=torch.cat),
        lambda a: torch.from_numpy(np.asarray(a, np.float32)),
        gradient,
        lambda f, p: func.jvp(func.grad(f), (p,), (p,))[1],
        lambda f, p: func.jacfwd(f)(p),
        lambda f, p, e: func.vmap(func.grad(f), (None, *(0 for _ in e)))(p, *e),
    )


# -- cases

WHAT = {
    "gradient": (
        ("logistic 500x20", "gmm 200x4, 5 parts", "rosenbrock 50", "mlp 16-32-1", "neural ode, 40 stages"),
        reference_gradient,
    ),
    "hvp": (("logistic 500x20", "gmm 200x4, 5 parts", "rosenbrock 50", "mlp 16-32-1"), reference_hvp),
    "jacobian": (("camera residuals",), reference_gradient),
    "examples": (("mlp 16-32-1",), reference_examples),
}


def cases() -> list[Case]:
    """Every derivative of every function that it is measured on."""
    known, contenders = problems(), peers()
    made = []
    for what, (names, reference) in WHAT.items():
        for name in names:
            p = known[name]
            runs, results = {}, {}
            for peer_name, peer in contenders.items():
                derivative = getattr(peer, what)
                if derivative is None:
                    continue
                runs[peer_name] = run = _run(p, peer, derivative, what == "examples")
                results[peer_name] = lambda peer=peer, run=run: peer.done(run())
            title = {"examples": "per-example gradients", "hvp": "HVP", "jacobian": "Jacobian"}.get(what, what)
            made.append(Case(f"{title}, {name}", runs, results, reference(p), tolerance=2e-3))
    return made


def _run(p: Problem, peer: Peer, derivative: Any, mapped: bool) -> Callable[[], Any]:
    params = [peer.array(v) for v in p.params]
    fn = p.make(peer.xp, {k: peer.array(v) for k, v in p.data.items()})
    if mapped:
        examples = [peer.array(e) for e in p.examples]
        return lambda: peer.wait(derivative(fn, params, examples))
    return lambda: peer.wait(derivative(fn, params))
