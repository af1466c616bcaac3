"""Programs of physics: fields, orbits, molecules, circuits, control."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import scipy.integrate
import scipy.linalg
from scipy.spatial.transform import Rotation

from both_namespaces import wg
from wengert import nn

from .driver import Row, both, data, fresh, program, slopes


@program(peer=False)
def heat_equation_network(jit: Any) -> Any:
    """A physics-informed network for u_t = u_xx, by derivatives of the network in each point of each batch."""
    net = fresh(nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)))
    opt = wg.optim.Adam(net.parameters(), lr=0.02)

    def u(x, t):
        return net(wg.stack([x, t]))[0]

    def residual(x, t):
        return wg.grad(u, argnums=1)(x, t) - wg.grad(wg.grad(u))(x, t)

    @jit
    def step(x, t):
        opt.zero_grad()
        inside = wg.vmap(residual)(x, t)
        start = wg.vmap(u, in_axes=(0, None))(x, wg.tensor(0.0)) - wg.sin(math.pi * x)
        ends = wg.stack([wg.vmap(u, in_axes=(None, 0))(wg.tensor(e), t) for e in (0.0, 1.0)])
        loss = (inside**2).mean() + (start**2).mean() + (ends**2).mean()
        loss.backward()
        opt.step()
        return loss, inside

    return lambda i: step(wg.rand(6), 0.1 * wg.rand(6)), {"net": net, "opt": opt}


@program
def heat_equation_by_autograd(jit: Any) -> Any:
    """The same in PyTorch's spelling: leaves made in the step, create_graph twice."""
    net = fresh(nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)))
    opt = wg.optim.Adam(net.parameters(), lr=0.02)

    @jit
    def step(x, t):
        x = x.clone().detach().requires_grad_(True)
        t = t.clone().detach().requires_grad_(True)
        u = net(wg.stack([x, t], dim=1))
        u_t = wg.autograd.grad(u, t, grad_outputs=wg.ones_like(u), create_graph=True)[0]
        u_x = wg.autograd.grad(u, x, grad_outputs=wg.ones_like(u), create_graph=True)[0]
        u_xx = wg.autograd.grad(u_x, x, grad_outputs=wg.ones_like(u_x), create_graph=True)[0]
        inside = u_t - u_xx
        zero = wg.zeros_like(x.detach())
        start = net(wg.stack([x.detach(), zero], dim=1))[:, 0] - wg.sin(math.pi * x.detach())
        ends = wg.stack([net(wg.stack([zero + e, t.detach()], dim=1))[:, 0] for e in (0.0, 1.0)])
        loss = (inside**2).mean() + (start**2).mean() + (ends**2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, inside.detach()

    return lambda i: step(wg.rand(6), 0.1 * wg.rand(6)), {"net": net, "opt": opt}


def test_heat_equation() -> None:
    rows = both(heat_equation_network)
    for row, other in zip(rows[1:], both(heat_equation_by_autograd)[1:]):
        np.testing.assert_allclose(other["result.0"], row["result.0"], rtol=1e-9)
        np.testing.assert_allclose(other["result.1"], row["result.1"], rtol=1e-8, atol=1e-10)
    with wg.set_default_dtype(wg.float64):
        wg.manual_seed(7)
        x, t = np.array(wg.rand(6)), np.array(0.1 * wg.rand(6))

    def u(x: float, t: float, row: Row = rows[0]) -> float:
        h = np.tanh(row["net.0.weight"] @ [x, t] + row["net.0.bias"])
        return float(row["net.2.weight"][0] @ h + row["net.2.bias"][0])

    e = 1e-4
    for k in range(6):
        u_t = (u(x[k], t[k] + e) - u(x[k], t[k] - e)) / (2 * e)
        u_xx = (u(x[k] + e, t[k]) - 2 * u(x[k], t[k]) + u(x[k] - e, t[k])) / e**2
        np.testing.assert_allclose(rows[1]["result.1"][k], u_t - u_xx, atol=1e-5)


@program(peer=False)
def bundle_adjustment(jit: Any) -> Any:
    """Two cameras, six points: Levenberg-Marquardt on reprojection errors, rotations by Rodrigues' formula."""
    truth = (wg.tensor([[0.0, 0.0, 0.0, 0.0, 0.0, 4.0], [0.1, -0.2, 0.05, 0.3, 0.0, 4.2]]), data(6, 3))
    camera, point = wg.tensor([0, 1] * 6), wg.arange(12) // 2

    def project(cam, p):
        w, t = cam[:3], cam[3:]
        angle = wg.sqrt(wg.dot(w, w) + 1e-12)
        k = w / angle
        turned = p * wg.cos(angle) + wg.linalg.cross(k, p) * wg.sin(angle) + k * wg.dot(k, p) * (1 - wg.cos(angle))
        q = turned + t
        return q[:2] / q[2]

    def residuals(unknowns, seen):
        cameras, points = unknowns[:12].reshape(2, 6), unknowns[12:].reshape(6, 3)
        return (wg.vmap(project)(cameras[camera], points[point]) - seen).ravel()

    @jit
    def step(unknowns, seen, damping):
        r = residuals(unknowns, seen)
        j = wg.jacobian(residuals)(unknowns, seen)
        normal = j.T @ j
        delta = wg.linalg.solve(normal + damping * (wg.diag(wg.diagonal(normal)) + wg.eye(30)), -(j.T @ r))
        better = (residuals(unknowns + delta, seen) ** 2).sum() < (r**2).sum()
        return wg.where(better, unknowns + delta, unknowns), wg.where(better, damping / 5, damping * 5), (r**2).sum(), j

    exact = wg.concat([t.ravel() for t in truth])
    seen = residuals(exact, 0.0).reshape(12, 2)
    state = {"unknowns": exact + 0.1 * data(30, seed=3), "damping": wg.tensor(1e-2)}

    def call(i):
        state["unknowns"], state["damping"], cost, j = step(state["unknowns"], seen, state["damping"])
        return cost, j

    return call, {"state": state, "seen": seen}


def test_bundle_adjustment() -> None:
    rows = both(bundle_adjustment)
    seen = rows[0]["seen"]

    def residuals(unknowns: np.ndarray) -> np.ndarray:
        found = []
        for k in range(12):
            cam, p = unknowns[6 * (k % 2) : 6 * (k % 2) + 6], unknowns[12 + 3 * (k // 2) : 15 + 3 * (k // 2)]
            q = Rotation.from_rotvec(cam[:3]).apply(p) + cam[3:]
            found.append(q[:2] / q[2] - seen[k])
        return np.ravel(found)

    for before, row in zip(rows[:3], rows[1:4]):
        at = before["state.unknowns"]
        np.testing.assert_allclose(row["result.0"], (residuals(at) ** 2).sum(), rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(row["result.1"], slopes(residuals, at), atol=1e-7)
    costs = [float(row["result.0"]) for row in rows[1:]]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < 1e-6 * costs[0]


@program(peer=False, rtol=1e-6)
def predator_and_prey(jit: Any) -> Any:
    """Lotka-Volterra, its rates fitted through odeint, whose own steps are other ones where it is traced."""
    times = wg.linspace(0.0, 2.0, 5)
    log_rates = wg.tensor([0.0, -0.5, -0.2, -0.8], requires_grad=True)
    opt = wg.optim.Adam([log_rates], lr=0.03)

    def field(t, z, rates):
        x, y = z
        return (x * (rates[0] - rates[1] * y), -y * (rates[2] - rates[3] * x))

    def solved(log_rates, start):
        path = wg.solve.odeint(field, (start[0], start[1]), times, wg.exp(log_rates), rtol=1e-7, atol=1e-8)
        return wg.stack(path, axis=1)

    @jit
    def step(start, target):
        opt.zero_grad()
        path = solved(log_rates, start)
        loss = ((path - target) ** 2).mean()
        loss.backward()
        opt.step()
        return loss, path

    start = wg.tensor([1.5, 1.0])
    with wg.no_grad():
        targets = [solved(wg.tensor([0.1, -0.4, -0.1, -0.9]), start * (1 + 0.1 * i)) for i in range(8)]
    return lambda i: step(start * (1 + 0.1 * i), targets[i]), {"log_rates": log_rates, "targets": targets}


def test_predator_and_prey() -> None:
    rows = both(predator_and_prey)

    def path(log_rates: np.ndarray, start: np.ndarray) -> np.ndarray:
        a, b, c, d = np.exp(log_rates)
        field = lambda t, z: [z[0] * (a - b * z[1]), -z[1] * (c - d * z[0])]
        times = np.linspace(0, 2, 5)
        found = scipy.integrate.solve_ivp(field, (0, 2), start, "DOP853", times, rtol=1e-11, atol=1e-12)
        return found.y.T

    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        start = np.array([1.5, 1.0]) * (1 + 0.1 * i)
        loss = lambda a, start=start, i=i: ((path(a, start) - rows[0][f"targets.{i}"]) ** 2).mean()
        np.testing.assert_allclose(row["result.1"], path(before["log_rates"], start), rtol=1e-5)
        np.testing.assert_allclose(row["log_rates.grad"], slopes(loss, before["log_rates"], 1e-4), rtol=1e-4, atol=1e-5)


@program(peer=False)
def double_pendulum(jit: Any) -> Any:
    """The accelerations from the Lagrangian alone, integrated by Runge-Kutta steps; the energy is watched."""

    def lagrangian(q, v):
        kinetic = v[0] ** 2 + 0.5 * v[1] ** 2 + v[0] * v[1] * wg.cos(q[0] - q[1])
        return kinetic + 9.81 * (2 * wg.cos(q[0]) + wg.cos(q[1]))

    def energy(q, v):
        return wg.dot(v, wg.grad(lagrangian, argnums=1)(q, v)) - lagrangian(q, v)

    def acceleration(q, v):
        mass = wg.hessian(lagrangian, argnums=1)(q, v)
        momentum = wg.grad(lagrangian, argnums=1)
        drift = wg.jvp(lambda q: momentum(q, v), (q,), (v,))[1]
        return wg.linalg.solve(mass, wg.grad(lagrangian)(q, v) - drift)

    @jit
    def step(z, h):
        f = lambda z: wg.concat([z[2:], acceleration(z[:2], z[2:])])
        k1 = f(z)
        k2 = f(z + h / 2 * k1)
        k3 = f(z + h / 2 * k2)
        k4 = f(z + h * k3)
        z = z + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return z, energy(z[:2], z[2:])

    state = {"z": wg.tensor([1.0, 2.0, 0.0, 0.5])}

    def call(i):
        state["z"], e = step(state["z"], 0.01 * (1 + i % 2))
        return e

    return call, {"state": state}


def test_double_pendulum() -> None:
    rows = both(double_pendulum)

    def field(z: np.ndarray) -> np.ndarray:
        """The textbook's equations for unit masses and lengths."""
        (a, b, u, v), g = z, 9.81
        d = a - b
        mass = np.array([[2.0, np.cos(d)], [np.cos(d), 1.0]])
        force = [-(v**2) * np.sin(d) - 2 * g * np.sin(a), u**2 * np.sin(d) - g * np.sin(b)]
        return np.array([u, v, *np.linalg.solve(mass, force)])

    z = rows[0]["state.z"]
    for i, row in enumerate(rows[1:]):
        h = 0.01 * (1 + i % 2)
        k1 = field(z)
        k2 = field(z + h / 2 * k1)
        k3 = field(z + h / 2 * k2)
        z = z + h / 6 * (k1 + 2 * k2 + 2 * k3 + field(z + h * k3))
        np.testing.assert_allclose(row["state.z"], z, rtol=1e-9)
    energies = [float(row["result"]) for row in rows[1:]]
    np.testing.assert_allclose(energies, energies[0], rtol=1e-6)


@program(peer=False)
def molecular_dynamics(jit: Any) -> Any:
    """Lennard-Jones atoms in a periodic box, forces as gradients, four Verlet steps in each call."""
    box = 4.0

    def potential(x):
        d = x[:, None] - x[None]
        d = d - box * wg.round(d / box)
        r2 = (d**2).sum(-1) + wg.eye(len(x))
        s6 = 1.0 / r2**3
        pair = wg.where(r2 < 2.25, 4.0 * (s6 * s6 - s6), 0.0)
        return 0.5 * (pair * (1 - wg.eye(len(x)))).sum()

    @jit
    def step(x, v, h):
        force = lambda x: -wg.grad(potential)(x)

        def verlet(state, _):
            x, v, f = state
            x = x + h * v + 0.5 * h * h * f
            new = force(x)
            return (x, v + 0.5 * h * (f + new), new), None

        (x, v, f), _ = wg.scan(verlet, (x, v, force(x)), None, length=4)
        return x, v, (potential(x) + 0.5 * (v**2).sum(), f)

    grid = np.stack(np.meshgrid([0.0, 1.2, 2.4], [0.0, 1.2]), -1).reshape(-1, 2)
    state = {"x": wg.tensor(grid) + 0.05 * data(6, 2), "v": 0.3 * data(6, 2, seed=1)}

    def call(i):
        state["x"], state["v"], found = step(state["x"], state["v"], 0.002 * (1 + i % 2))
        return found

    return call, {"state": state}


def test_molecular_dynamics() -> None:
    rows = both(molecular_dynamics)

    def force(x: np.ndarray) -> np.ndarray:
        total = np.zeros_like(x)
        for a in range(6):
            for b in range(6):
                d = x[a] - x[b]
                d = d - 4.0 * np.round(d / 4.0)
                if a != b and d @ d < 2.25:
                    r = np.sqrt(d @ d)
                    total[a] += (48 / r**13 - 24 / r**7) * d / r
        return total

    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        x, v, h = before["state.x"], before["state.v"], 0.002 * (1 + i % 2)
        for _ in range(4):
            f = force(x)
            x = x + h * v + h * h / 2 * f
            v = v + h / 2 * (f + force(x))
        np.testing.assert_allclose(row["state.x"], x, rtol=1e-10)
        np.testing.assert_allclose(row["result.1"], force(x), rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(row["state.v"].sum(0), before["state.v"].sum(0), atol=1e-12)


@program(peer=False)
def kepler(jit: Any) -> Any:
    """Kepler's equation by Newton's iteration to tolerance, its derivative by the implicit function theorem."""

    @wg.custom_jvp
    def anomaly(m, e):
        def body(state):
            x, _ = state
            change = (x - e * wg.sin(x) - m) / (1 - e * wg.cos(x))
            return x - change, wg.abs(change)

        return wg.while_loop(lambda s: s[1] > 1e-14, body, (m + e * wg.sin(m), 1.0))[0]

    @anomaly.defjvp
    def rule(primals, tangents):
        (m, e), (dm, de) = primals, tangents
        x = anomaly(m, e)
        return x, (dm + wg.sin(x) * de) / (1 - e * wg.cos(x))

    def position(t, elements):
        a, e, w = elements
        x = anomaly(t * a**-1.5, e)
        flat = wg.stack([a * (wg.cos(x) - e), a * wg.sqrt(1 - e**2) * wg.sin(x)])
        turn = wg.stack([wg.stack([wg.cos(w), -wg.sin(w)]), wg.stack([wg.sin(w), wg.cos(w)])])
        return turn @ flat

    @jit
    def observe(t, elements):
        where = position(t, elements)
        velocity = wg.jvp(lambda t: position(t, elements), (t,), (wg.ones_like(t),))[1]
        return where, velocity, wg.jacobian(position, argnums=1)(t, elements)

    elements = wg.tensor([1.3, 0.4, 0.7])
    return lambda i: observe(wg.tensor(0.3 + 0.9 * i), elements * (1 - 0.01 * i)), {"elements": elements}


def test_kepler() -> None:
    rows = both(kepler)
    for i, row in enumerate(rows[1:]):
        t, elements = 0.3 + 0.9 * i, row["elements"] * (1 - 0.01 * i)

        def position(p: np.ndarray, t: float = t) -> np.ndarray:
            a, e, w = p
            x = m = t * a**-1.5
            for _ in range(100):
                x = x - (x - e * np.sin(x) - m) / (1 - e * np.cos(x))
            flat = [a * (np.cos(x) - e), a * np.sqrt(1 - e * e) * np.sin(x)]
            return np.array([[np.cos(w), -np.sin(w)], [np.sin(w), np.cos(w)]]) @ flat

        np.testing.assert_allclose(row["result.0"], position(elements), rtol=1e-11)
        np.testing.assert_allclose(row["result.2"], slopes(position, elements), rtol=1e-6, atol=1e-8)
        # The energy of the orbit is -1/2a, wherever it is.
        energy = row["result.1"] @ row["result.1"] / 2 - 1 / np.linalg.norm(row["result.0"])
        np.testing.assert_allclose(energy, -0.5 / elements[0], rtol=1e-10)


@program(peer=False)
def shooting(jit: Any) -> Any:
    """Optimal control of a linear system: the gradient in all controls through the simulation, then Newton."""
    a, b = wg.tensor([[1.0, 0.1], [0.0, 1.0]]), wg.tensor([0.0, 0.1])

    def cost(u, start):
        def step(x, u):
            x = a @ x + b * u
            return x, 0.5 * (x @ x) + 0.05 * u * u

        return wg.scan(step, start, u)[1].sum()

    @jit
    def solve(u, start):
        value, g = wg.value_and_grad(cost)(u, start)
        h = wg.hessian(cost)(u, start)
        return u - wg.linalg.solve(h, g), value, g

    state = {"u": wg.zeros(8)}

    def call(i):
        start = wg.tensor([1.0, 0.0]) * (1 + i // 2)
        state["u"], value, g = solve(state["u"], start)
        return value, g

    return call, {"state": state}


def test_shooting() -> None:
    rows = both(shooting)
    a, b, p = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.0], [0.1]]), np.zeros((2, 2))
    gains = []
    for _ in range(8):
        q = p + np.eye(2)
        gains.insert(0, np.linalg.solve(0.1 + b.T @ q @ b, b.T @ q @ a))
        p = a.T @ q @ (a - b @ gains[0])
    for i, row in enumerate(rows[1:]):
        x, controls = np.array([1.0, 0.0]) * (1 + i // 2), []
        for gain in gains:
            controls.append((-gain @ x)[0])
            x = a @ x + b[:, 0] * controls[-1]
        np.testing.assert_allclose(row["state.u"], controls, rtol=1e-8)


@program(peer=False)
def quantum_circuit(jit: Any) -> Any:
    """Three qubits as a complex state vector: rotations and entangling gates, the energy of a spin chain lowered."""
    x, z = wg.tensor([[0.0, 1.0], [1.0, 0.0]]), wg.tensor([[1.0, 0.0], [0.0, -1.0]])

    def rotate(state, angle, axis):
        half = angle / 2
        y = wg.stack([wg.stack([wg.cos(half), -wg.sin(half)]), wg.stack([wg.sin(half), wg.cos(half)])])
        return wg.moveaxis(wg.tensordot(y + 0j, state, axes=([1], [axis])), 0, axis)

    def phase(state, angle, axis):
        gate = wg.exp(1j * angle * wg.tensor([-0.5, 0.5]))
        return state * gate.reshape([2 if k == axis else 1 for k in range(3)])

    def energy(angles):
        state = wg.zeros(2, 2, 2, dtype=wg.complex128)
        state[0, 0, 0] = 1.0
        for layer in angles:
            for k in range(3):
                state = phase(rotate(state, layer[k, 0], k), layer[k, 1], k)
            for k in range(2):
                index = [slice(None)] * 3
                index[k], index[k + 1] = 1, 1
                state[tuple(index)] = -state[tuple(index)]
        total = 0.0
        for k in range(3):
            flipped = wg.moveaxis(wg.tensordot(x + 0j, state, axes=([1], [k])), 0, k)
            total = total - wg.real((wg.conj(state) * flipped).sum())
        probability = wg.real(state * wg.conj(state))
        for k in range(2):
            signs = [z.diagonal().reshape([2 if j == m else 1 for j in range(3)]) for m in (k, k + 1)]
            total = total - (probability * signs[0] * signs[1]).sum()
        return total

    angles = wg.tensor(np.random.default_rng(5).normal(size=(2, 3, 2)), requires_grad=True)
    opt = wg.optim.SGD([angles], lr=0.1)

    @jit
    def step():
        opt.zero_grad()
        e = energy(angles)
        e.backward()
        opt.step()
        return e

    return lambda i: step(), {"angles": angles}


def test_quantum_circuit() -> None:
    rows = both(quantum_circuit)
    pauli = {"x": np.array([[0, 1], [1, 0]]), "y": np.array([[0, -1j], [1j, 0]]), "z": np.diag([1, -1])}
    on = lambda ops: functools.reduce(np.kron, [pauli[ops[k]] if k in ops else np.eye(2) for k in range(3)])
    h = -sum(on({k: "x"}) for k in range(3)) - sum(on({k: "z", k + 1: "z"}) for k in range(2))

    def energy(angles: np.ndarray) -> float:
        state = np.eye(8)[0].astype(complex)
        for layer in angles:
            for k in range(3):
                for angle, axis in zip(layer[k], "yz"):
                    state = scipy.linalg.expm(-0.5j * angle * on({k: axis})) @ state
            for k in range(2):
                both_up = (np.arange(8) >> (2 - k)) & (np.arange(8) >> (1 - k)) & 1
                state = np.where(both_up, -state, state)
        return float((state.conj() @ h @ state).real)

    for before, row in zip(rows, rows[1:]):
        angles = before["angles"]
        np.testing.assert_allclose(row["result"], energy(angles), rtol=1e-10)
        for at in ((0, 0, 0), (0, 2, 1), (1, 1, 0)):
            e = np.zeros_like(angles)
            e[at] = math.pi / 2  # the parameter-shift rule
            shifted = (energy(angles + e) - energy(angles - e)) / 2
            np.testing.assert_allclose(row["angles.grad"][at], shifted, rtol=1e-9, atol=1e-12)


@program(peer=False)
def thin_films(jit: Any) -> Any:
    """A stack of lossy layers by transfer matrices: reflection over colours, thicknesses designed by gradients."""
    colours = wg.linspace(0.4, 0.7, 5)
    indices = [1.38 - 0.001j, 2.3 - 0.002j]
    log_depth = wg.tensor([math.log(0.1), math.log(0.06)], requires_grad=True)
    opt = wg.optim.Adam([log_depth], lr=0.02)

    def spectrum(depths):
        m = wg.eye(2, dtype=wg.complex128).expand(5, 2, 2)
        for n, d in zip(indices, depths):
            delta = 2 * math.pi * n * d / colours
            c, s = wg.cos(delta), 1j * wg.sin(delta)
            layer = wg.stack([wg.stack([c, s / n], axis=-1), wg.stack([s * n, c], axis=-1)], axis=-2)
            m = m @ layer
        b, c = (m @ wg.tensor([1.0 + 0j, 1.52 + 0j])).unbind(-1)
        r = (b - c) / (b + c)
        return wg.abs(r) ** 2, 4 * 1.52 / wg.abs(b + c) ** 2

    @jit
    def step():
        opt.zero_grad()
        reflected, passed = spectrum(wg.exp(log_depth))
        loss = reflected.mean()
        loss.backward()
        opt.step()
        return loss, reflected, passed

    return lambda i: step(), {"log_depth": log_depth}


def test_thin_films() -> None:
    rows = both(thin_films)

    def reflected(log_depth: np.ndarray) -> np.ndarray:
        """By interfaces and what comes back through each layer (Airy), from the glass up."""
        found = []
        for colour in np.linspace(0.4, 0.7, 5):
            n = [1.0, 1.38 + 0.001j, 2.3 + 0.002j, 1.52]
            r = (n[2] - n[3]) / (n[2] + n[3])
            for k in (1, 0):
                phase = np.exp(-4j * np.pi * n[k + 1] * np.exp(log_depth[k]) / colour)
                edge = (n[k] - n[k + 1]) / (n[k] + n[k + 1])
                r = (edge + r / phase) / (1 + edge * r / phase)
            found.append(abs(r) ** 2)
        return np.array(found)

    for before, row in zip(rows, rows[1:]):
        np.testing.assert_allclose(row["result.1"], reflected(before["log_depth"]), rtol=1e-8)
        mean = lambda a: reflected(a).mean()
        np.testing.assert_allclose(row["log_depth.grad"], slopes(mean, before["log_depth"]), rtol=1e-5, atol=1e-8)
    assert rows[-1]["result.0"] < rows[1]["result.0"]
