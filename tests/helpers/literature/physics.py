"""Physics, chemistry and biology."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .cases import case


def runge_kutta(slope: Callable[[Any], Any], y: Any, step: Any, steps: int) -> Any:
    for _ in range(steps):
        a = slope(y)
        b = slope(y + step / 2 * a)
        c = slope(y + step / 2 * b)
        d = slope(y + step * c)
        y = y + step / 6 * (a + 2 * b + 2 * c + d)
    return y


@case("Kepler (1609), M = E - e sin E, by Newton's method; Danby (1988)", lambda d: d.uniform(0.2, 0.6, 3))
def kepler(xp: Any, x: Any) -> Any:
    anomaly, eccentricity, axis = 3 * x[0], x[1], x[2]
    e = anomaly
    for _ in range(8):
        e = e - (e - eccentricity * xp.sin(e) - anomaly) / (1 - eccentricity * xp.cos(e))
    return axis * (xp.cos(e) - eccentricity) + 2 * axis * xp.sqrt(1 - eccentricity**2) * xp.sin(e)


def _pendulum(xp: Any, y: Any, ratio: Any) -> Any:
    a, b, va, vb = y[0], y[1], y[2], y[3]
    delta, g = a - b, 9.81
    s, c = xp.sin(delta), xp.cos(delta)
    below = 1 + ratio * s**2
    first = (-s * ratio * (va**2 * c + vb**2) - g * ((1 + ratio) * xp.sin(a) - ratio * xp.sin(b) * c)) / below
    second = (s * ((1 + ratio) * va**2 + ratio * vb**2 * c) + g * (1 + ratio) * (xp.sin(a) * c - xp.sin(b))) / below
    return xp.stack([va, vb, first, second])


@case("Shinbrot et al. (1992), Chaos in a double pendulum; RK4", lambda d: d.uniform(-1, 1, 5) * 0.8 + 1)
def double_pendulum(xp: Any, x: Any) -> Any:
    end = runge_kutta(lambda y: _pendulum(xp, y, x[4]), x[:4], 0.05, 6)
    kinetic = end[2] ** 2 / 2 + x[4] / 2 * (end[2] ** 2 + end[3] ** 2 + 2 * end[2] * end[3] * xp.cos(end[0] - end[1]))
    return kinetic - 9.81 * ((1 + x[4]) * xp.cos(end[0]) + x[4] * xp.cos(end[1])) + end[0] * end[3]


@case(
    "Aarseth (1963), N-body; softened gravity, leapfrog",
    lambda d: d.normal(2, 4, 2),
    lambda d: {"mass": d.uniform(0.5, 2, 4)},
)
def n_body(xp: Any, x: Any, mass: Any) -> Any:
    position, velocity = x[0], x[1]

    def acceleration(r: Any) -> Any:
        apart = r[None, :, :] - r[:, None, :]
        cube = (xp.sum(apart**2, axis=-1) + 0.05) ** -1.5
        return xp.sum(mass[None, :, None] * cube[:, :, None] * apart, axis=1)

    for _ in range(3):
        velocity = velocity + 0.025 * acceleration(position)
        position = position + 0.05 * velocity
        velocity = velocity + 0.025 * acceleration(position)
    return xp.sum(mass[:, None] * velocity**2) / 2 + xp.sum(position[0] * position[1])


@case(
    "Lennard-Jones (1924), On the determination of molecular fields; a cluster",
    lambda d: np.indices((2, 2, 2)).reshape(3, 8).T[:6] * 1.2 + d.normal(6, 3) * 0.1,
)
def lennard_jones(xp: Any, x: Any) -> Any:
    i, j = np.triu_indices(6, 1)
    squared = xp.sum((x[xp.asarray(i)] - x[xp.asarray(j)]) ** 2, axis=1)
    sixth = 1 / squared**3
    return 4 * xp.sum(sixth**2 - sixth)


@case(
    "Ewald (1921): a screened real-space sum with erfc and a reciprocal sum",
    lambda d: np.indices((2, 2)).reshape(2, 4).T * 2.0 + d.normal(4, 2) * 0.2,
)
def ewald(xp: Any, x: Any) -> Any:
    charge = xp.asarray(np.array([1.0, -1.0, -1.0, 1.0]))
    i, j = np.triu_indices(4, 1)
    i, j = xp.asarray(i), xp.asarray(j)
    apart = xp.sqrt(xp.sum((x[i] - x[j]) ** 2, axis=1))
    real = xp.sum(charge[i] * charge[j] * xp.erfc(0.7 * apart) / apart)
    waves = np.array([[a, b] for a in range(-2, 3) for b in range(-2, 3) if a or b]) * (2 * np.pi / 4)
    phase = x @ xp.asarray(waves).T
    structure = charge @ xp.exp(1j * phase).real + 1j * (charge @ xp.sin(phase))
    squared = np.sum(waves**2, axis=1)
    weight = xp.asarray(np.exp(-squared / (4 * 0.49)) / squared)
    return real + xp.sum(weight * xp.abs(structure) ** 2)


@case(
    "Bragg and Williams (1934), Weiss (1907): mean-field Ising free energy by fixed-point iteration",
    lambda d: np.r_[d.normal(5) * 0.5, d.uniform(0.5, 1, 1)],
    lambda d: {"coupling": d.normal(5, 5) * 0.4},
)
def ising_mean_field(xp: Any, x: Any, coupling: Any) -> Any:
    field, beta = x[:5], x[5]
    j = (coupling + coupling.T) / 2
    m = xp.zeros(5)
    for _ in range(12):
        m = xp.tanh(beta * (field + j @ m))
    up = (1 + m) / 2
    entropy = -xp.sum(up * xp.log(up) + (1 - up) * xp.log(1 - up))
    return -m @ j @ m / 2 - field @ m - entropy / beta


@case("Kramers and Wannier (1941): Ising chain by its transfer matrix", lambda d: d.normal(4) * 0.5)
def ising_transfer_matrix(xp: Any, x: Any) -> Any:
    spins = xp.asarray(np.array([1.0, -1.0]))
    product = xp.eye(2)
    for k in range(2):
        product = product @ xp.exp(x[k] * xp.outer(spins, spins) + x[2 + k] * (spins[:, None] + spins[None, :]) / 2)
    return xp.log(xp.trace(product @ product @ product))


@case(
    "Lorenz (1963), Deterministic nonperiodic flow; RK4",
    lambda d: d.uniform(0.5, 1.5, 6) * np.array([10, 28, 8 / 3, 1, 1, 20]),
)
def lorenz(xp: Any, x: Any) -> Any:
    s, r, b = x[0], x[1], x[2]

    def slope(y: Any) -> Any:
        return xp.stack([s * (y[1] - y[0]), y[0] * (r - y[2]) - y[1], y[0] * y[1] - b * y[2]])

    return xp.sum(runge_kutta(slope, x[3:], 0.02, 10) ** 2)


def _thomas(lower: Any, diagonal: Any, upper: Any, right: Any) -> list[Any]:
    """A tridiagonal system by elimination (Thomas, 1949)."""
    n = len(diagonal)
    c, d = [upper[0] / diagonal[0]], [right[0] / diagonal[0]]
    for i in range(1, n):
        below = diagonal[i] - lower[i] * c[i - 1]
        c.append(upper[i] / below)
        d.append((right[i] - lower[i] * d[i - 1]) / below)
    out = [d[-1]]
    for i in range(n - 2, -1, -1):
        out.append(d[i] - c[i] * out[-1])
    return out[::-1]


@case(
    "Crank and Nicolson (1947): the heat equation, an implicit step with unknown conductivities",
    lambda d: d.normal(7) * 0.3,
    lambda d: {"u": d.normal(6), "observed": d.normal(6)},
)
def heat_implicit(xp: Any, x: Any, u: Any, observed: Any) -> Any:
    k = xp.exp(x)
    values = [u[i] for i in range(6)]
    for _ in range(2):
        diagonal = [1 + 0.5 * (k[i] + k[i + 1]) for i in range(6)]
        values = _thomas([-0.5 * k[i] for i in range(6)], diagonal, [-0.5 * k[i + 1] for i in range(6)], values)
    return xp.sum((xp.stack(values) - observed) ** 2)


@case(
    "Burgers (1948), A mathematical model illustrating the theory of turbulence",
    lambda d: np.r_[d.normal(10), d.uniform(0.05, 0.2, 1)],
)
def burgers(xp: Any, x: Any) -> Any:
    u, viscosity = x[:10], x[10]
    h, dt = 0.6, 0.05
    for _ in range(4):
        flux = u**2 / 2
        advection = (xp.roll(flux, -1, 0) - xp.roll(flux, 1, 0)) / (2 * h)
        diffusion = (xp.roll(u, -1, 0) - 2 * u + xp.roll(u, 1, 0)) / h**2
        u = u + dt * (viscosity * diffusion - advection)
    return xp.sum(u**4)


@case(
    "Kuramoto (1975), Self-entrainment of coupled oscillators",
    lambda d: np.r_[d.uniform(-3, 3, 6), d.normal(6), d.uniform(0.5, 2, 1)],
)
def kuramoto(xp: Any, x: Any) -> Any:
    speed, coupling = x[6:12], x[12]

    def slope(theta: Any) -> Any:
        return speed + coupling * xp.mean(xp.sin(theta[None, :] - theta[:, None]), axis=1)

    theta = runge_kutta(slope, x[:6], 0.1, 4)
    return xp.abs(xp.mean(xp.exp(1j * theta))) ** 2


@case(
    "Thomas (1927), Fermi (1927), with Dirac's exchange (1930): energy of a radial density",
    lambda d: d.uniform(0.5, 1.5, 8),
)
def thomas_fermi(xp: Any, x: Any) -> Any:
    r = 0.25 * (xp.arange(8) + 1)
    shell = 4 * np.pi * r**2 * 0.25
    density = x**2
    kinetic = 2.871 * xp.sum(shell * density ** (5 / 3))
    exchange = -0.7386 * xp.sum(shell * density ** (4 / 3))
    nucleus = -2 * xp.sum(shell * density / r)
    charge = shell * density
    hartree = xp.sum(charge[:, None] * charge[None, :] / xp.maximum(r[:, None], r[None, :])) / 2
    return kinetic + exchange + nucleus + hartree


@case(
    "Michaelis and Menten (1913), Die Kinetik der Invertinwirkung",
    lambda d: d.uniform(0.5, 1.5, 4),
    lambda d: {"observed": d.uniform(0, 1, 5)},
)
def michaelis_menten(xp: Any, x: Any, observed: Any) -> Any:
    s, path = x[2], []
    for _ in range(5):
        s = runge_kutta(lambda y: -x[0] * y / (x[1] + y), s, 0.2 * x[3], 1)
        path.append(s)
    return xp.sum((xp.stack(path) - observed) ** 2)


@case(
    "Robertson (1966), The solution of a set of reaction rate equations: an implicit Euler step by Newton",
    lambda d: d.uniform(0.5, 1.5, 3),
)
def robertson(xp: Any, x: Any) -> Any:
    k1, k2, k3 = 0.04 * x[0], 3e7 * x[1], 1e4 * x[2]
    h, a0, b0, c0 = 0.1, 1.0, 0.0, 0.0
    a, b, c = a0, 3e-5, 0.0
    for _ in range(6):
        f = a - a0 - h * (-k1 * a + k3 * b * c)
        g = b - b0 - h * (k1 * a - k3 * b * c - k2 * b**2)
        e = c - c0 - h * k2 * b**2
        # Newton's matrix, solved by elimination of c (dc = 2 h k2 b db - e).
        m11, m12 = 1 + h * k1, -h * k3 * (c + 2 * h * k2 * b**2)
        m21, m22 = -h * k1, 1 + h * (k3 * c + 2 * k2 * b) + h * k3 * b * 2 * h * k2 * b
        r1, r2 = -f - h * k3 * b * e, -g + h * k3 * b * e
        below = m11 * m22 - m12 * m21
        da, db = (r1 * m22 - m12 * r2) / below, (m11 * r2 - m21 * r1) / below
        a, c, b = a + da, c + 2 * h * k2 * b * db - e, b + db
    return a + 1e4 * b + 100 * c


@case("FitzHugh (1961), Nagumo et al. (1962): the excitable nerve", lambda d: d.uniform(0.2, 1, 6))
def fitzhugh_nagumo(xp: Any, x: Any) -> Any:
    def slope(y: Any) -> Any:
        v, w = y[0], y[1]
        return xp.stack([v - v**3 / 3 - w + x[3], x[2] * (v + x[4] - x[5] * w)])

    return xp.sum(runge_kutta(slope, x[:2], 0.3, 6) ** 2)


@case(
    "Hodgkin and Huxley (1952), A quantitative description of membrane current: the rates",
    lambda d: d.uniform(-20, 40, 4) + np.array([0.3, 0.7, 0.2, 0.4]),
)
def hodgkin_huxley_rates(xp: Any, x: Any) -> Any:
    """0.1 (25 - v) / (exp((25 - v) / 10) - 1) and its companions, at several voltages."""
    m = (25 - x) / 10
    rate_m = m / xp.expm1(m)
    close_m = 4 * xp.exp(-x / 18)
    n = (10 - x) / 10
    rate_n = 0.1 * n / xp.expm1(n)
    close_n = 0.125 * xp.exp(-x / 80)
    steady_m, steady_n = rate_m / (rate_m + close_m), rate_n / (rate_n + close_n)
    return xp.sum(120 * steady_m**3 * (x - 115) / 100 + 36 * steady_n**4 * (x + 12) / 100)


@case("van der Waals (1873): free energy, pressure and Maxwell's construction", lambda d: d.uniform(0.6, 1.4, 3))
def van_der_waals(xp: Any, x: Any) -> Any:
    temperature, v1, v2 = x[0], x[1], x[2] + 2

    def energy(v: Any) -> Any:
        return -8 / 3 * temperature * xp.log(3 * v - 1) - 3 / v

    def pressure(v: Any) -> Any:
        return 8 * temperature / (3 * v - 1) - 3 / v**2

    return (pressure(v1) - pressure(v2)) ** 2 + (energy(v1) - energy(v2) - pressure(v1) * (v2 - v1)) ** 2


@case("van der Waals (1873), pressure as an inner derivative of the free energy", lambda d: d.uniform(0.6, 1.4, 2))
def pressure_as_derivative(xp: Any, x: Any) -> Any:
    def energy(v: Any, temperature: Any) -> Any:
        return -8 / 3 * temperature * xp.log(3 * v - 1) - 3 / v

    volume = xp.asarray(np.array([0.8, 1.0, 1.7])) * x[0]
    pressure = xp.grad(lambda v: -xp.sum(energy(v, x[1])))(volume)
    return xp.sum(pressure**2)


@case(
    "Verhulst (1838), Lotka (1925), Volterra (1926): predators and prey, observed in the logarithm",
    lambda d: d.uniform(0.5, 1.5, 6),
    lambda d: {"observed": d.normal(2) * 0.3},
)
def lotka_volterra(xp: Any, x: Any, observed: Any) -> Any:
    def slope(y: Any) -> Any:
        return xp.stack([x[0] - x[1] * xp.exp(y[1]), -x[2] + x[3] * xp.exp(y[0])])

    return xp.sum((runge_kutta(slope, xp.log(x[4:]), 0.2, 5) - observed) ** 2)


@case(
    "Kermack and McKendrick (1927): epidemic with births, Euler steps, Poisson counts",
    lambda d: d.uniform(0.3, 0.9, 3),
    lambda d: {"cases": d.integers(9, 8).astype(np.float64)},
)
def epidemic(xp: Any, x: Any, cases: Any) -> Any:
    s, i, loss = 100.0, 2.0 * x[2], 0.0
    for t in range(8):
        new = s * -xp.expm1(-x[0] * i / 50)
        s, i = s - new, i + new - x[1] * i
        loss = loss + cases[t] * xp.log(new) - new
    return loss


@case(
    "Toda (1967), Vibration of a chain with nonlinear interaction; steps by derivatives of the potential",
    lambda d: d.normal(10) * 0.5,
)
def toda_lattice(xp: Any, x: Any) -> Any:
    def potential(q: Any) -> Any:
        return xp.sum(xp.exp(-(xp.roll(q, -1, 0) - q)))

    force = xp.grad(potential)
    q, p = x[:5], x[5:]
    for _ in range(3):
        p = p - 0.05 * force(q)
        q = q + 0.1 * p
        p = p - 0.05 * force(q)
    return xp.sum(p**3) + xp.sum(xp.sin(q))


@case(
    "Greydanus, Dzamba and Yosinski (2019), Hamiltonian neural networks",
    lambda d: d.normal(2 * 6 + 6 + 6) * 0.7,
    lambda d: {"states": d.normal(5, 2), "slopes": d.normal(5, 2)},
)
def hamiltonian_network(xp: Any, x: Any, states: Any, slopes: Any) -> Any:
    weight, bias, out = x[:12].reshape(2, 6), x[12:18], x[18:]
    gradient = xp.grad(lambda s: xp.sum(xp.tanh(s @ weight + bias) @ out))(states)
    symplectic = xp.stack([gradient[:, 1], -gradient[:, 0]], axis=1)
    return xp.mean((symplectic - slopes) ** 2)
