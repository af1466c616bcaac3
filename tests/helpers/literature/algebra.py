"""Factorizations, matrix functions and Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import case, unpack

GILES = "Giles (2008), Collected matrix derivative results"


@case(
    "Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, eq. 5.8, by Cholesky",
    lambda d: d.normal(4) * 0.3,
    lambda d: {"inputs": d.normal(8, 2), "y": d.normal(8)},
)
def gaussian_process_cholesky(xp: Any, x: Any, inputs: Any, y: Any) -> Any:
    scaled = inputs * xp.exp(x[:2])
    squared = xp.sum((scaled[:, None, :] - scaled[None, :, :]) ** 2, axis=-1)
    distance = xp.sqrt(5 * squared + xp.eye(8)) * (1 - xp.eye(8))
    kernel = xp.exp(x[2]) * (1 + distance + 5 / 3 * squared) * xp.exp(-distance) + xp.exp(x[3]) * xp.eye(8)
    factor = xp.linalg.cholesky(kernel)
    z = xp.triangular(factor, y[:, None])
    return -xp.sum(z**2) / 2 - xp.sum(xp.log(xp.diagonal(factor))) - 4 * np.log(2 * np.pi)


@case(
    "Titsias (2009), Variational learning of inducing variables in sparse Gaussian processes",
    lambda d: d.normal(3 + 3) * 0.7,
    lambda d: {"inputs": d.uniform(-2, 2, 9), "y": d.normal(9)},
)
def sparse_gaussian_process(xp: Any, x: Any, inputs: Any, y: Any) -> Any:
    inducing, length, height, noise = x[:3], xp.exp(x[3]), xp.exp(x[4]), xp.exp(x[5]) + 0.1
    kernel = lambda a, b: height * xp.exp(-((a[:, None] - b[None, :]) ** 2) / (2 * length**2))
    factor = xp.linalg.cholesky(kernel(inducing, inducing) + 0.01 * xp.eye(3))
    a = xp.triangular(factor, kernel(inducing, inputs))
    q = a.T @ a + noise * xp.eye(9)
    _, log_det = xp.linalg.slogdet(q)
    fit = y @ xp.linalg.solve(q, y[:, None])[:, 0]
    return -(log_det + fit) / 2 - (9 * height - xp.sum(a**2)) / (2 * noise)


@case(
    "Boyd and Vandenberghe (2004), Convex Optimization, 8.4: the analytic centre's log det barrier",
    lambda d: d.normal(6) * 0.3,
    lambda d: {"basis": d.normal(6, 4, 4)},
)
def log_det_barrier(xp: Any, x: Any, basis: Any) -> Any:
    matrix = 8 * xp.eye(4) + xp.tensordot(x, basis + xp.moveaxis(basis, 1, 2), axes=1)
    sign, log_det = xp.linalg.slogdet(matrix)
    return -log_det + 0.1 * xp.log(xp.linalg.det(matrix) + 100.0) + 0 * sign


@case(f"Inverses and solutions; {GILES}", lambda d: d.normal(4, 4) + 3 * np.eye(4), lambda d: {"b": d.normal(4, 2)})
def inverse_and_solve(xp: Any, x: Any, b: Any) -> Any:
    return xp.sum(xp.linalg.solve(x, b) ** 2) + xp.sum(xp.linalg.inv(x) * x.T**2) + xp.linalg.det(x)


@case(f"A batch of systems; {GILES}", lambda d: d.normal(3, 2, 2) + 3 * np.eye(2), lambda d: {"b": d.normal(3, 2, 1)})
def batched_algebra(xp: Any, x: Any, b: Any) -> Any:
    spd = x @ x.mT + xp.eye(2)
    return xp.sum(xp.linalg.solve(x, b) ** 3) + xp.sum(xp.linalg.cholesky(spd)) + xp.sum(xp.log(xp.linalg.det(spd)))


@case(
    "Pearson (1901), Hotelling (1933): principal components, variance and direction of the first two",
    lambda d: d.normal(7, 4) * np.array([2.0, 1.4, 0.8, 0.4]),
)
def principal_components(xp: Any, x: Any) -> Any:
    centred = x - xp.mean(x, axis=0)
    values, vectors = xp.linalg.eigh(centred.T @ centred / 6)
    return xp.sum(xp.log(values[2:])) + xp.sum(vectors[:, -1] ** 4) + xp.sum(vectors[:, -2] ** 2 * xp.arange(4))


@case("von Neumann (1927): the entropy of a density matrix, by its eigenvalues", lambda d: d.normal(2, 3, 3))
def von_neumann_entropy(xp: Any, x: Any) -> Any:
    a = x[0] + 1j * x[1]
    rho = a @ xp.conj(a).T
    rho = rho / xp.real(xp.trace(rho))
    p = xp.linalg.eigvalsh(rho)
    return -xp.sum(p * xp.log(p))


@case(
    "Fazel, Hindi and Boyd (2001), A rank minimization heuristic: the nuclear norm",
    lambda d: d.normal(5, 3),
    lambda d: {"seen": (d.uniform(0, 1, 5, 3) < 0.6).astype(np.float64), "values": d.normal(5, 3)},
)
def nuclear_norm(xp: Any, x: Any, seen: Any, values: Any) -> Any:
    return xp.sum(xp.linalg.svdvals(x)) / 2 + xp.sum(seen * (x - values) ** 2)


@case(
    "Kabsch (1976), A solution for the best rotation to relate two sets of vectors; Schoenemann (1966)",
    lambda d: d.normal(6, 3),
    lambda d: {"target": d.normal(6, 3)},
)
def orthogonal_procrustes(xp: Any, x: Any, target: Any) -> Any:
    u, _, vh = xp.linalg.svd(x.T @ target)
    rotation = u @ vh
    return xp.sum((x @ rotation - target) ** 3) + xp.sum(rotation[0] * xp.arange(3))


@case(
    "Golub (1965), Numerical methods for solving linear least squares problems: by QR",
    lambda d: d.normal(6, 3),
    lambda d: {"b": d.normal(6, 1)},
)
def least_squares_qr(xp: Any, x: Any, b: Any) -> Any:
    q, r = xp.linalg.qr(x)
    solution = xp.linalg.solve(r, q.T @ b)
    return xp.sum(solution**2) + xp.sum((x @ solution - b) ** 4)


@case(
    "Golub, Heath and Wahba (1979), Generalized cross-validation as a method for choosing a ridge parameter",
    lambda d: d.normal(3),
    lambda d: {"design": d.normal(8, 3), "y": d.normal(8)},
)
def generalized_cross_validation(xp: Any, x: Any, design: Any, y: Any) -> Any:
    scaled = design * xp.exp(x)
    hat = scaled @ xp.linalg.inv(scaled.T @ scaled + xp.eye(3)) @ scaled.T
    return 8 * xp.sum((y - hat @ y) ** 2) / (8 - xp.trace(hat)) ** 2


@case(
    "Felsenstein (1981), Evolutionary trees from DNA sequences; Tavare (1986): the general reversible model",
    lambda d: d.normal(5 + 4 + 2) * 0.4,
    lambda d: {"counts": d.integers(6, 4, 4).astype(np.float64)},
)
def phylogenetic_pair(xp: Any, x: Any, counts: Any) -> Any:
    exchange, frequencies, times = xp.exp(xp.concat([x[:5], xp.zeros(1)])), xp.softmax(x[5:9], axis=0), xp.exp(x[9:])
    rates = xp.zeros(4, 4)
    for k, (i, j) in enumerate(zip(*np.triu_indices(4, 1), strict=True)):
        rates = xp.put(rates, (int(i), int(j)), exchange[k] * frequencies[j])
        rates = xp.put(rates, (int(j), int(i)), exchange[k] * frequencies[i])
    generator = rates - xp.eye(4) * xp.sum(rates, axis=1)
    joint = frequencies[:, None] * (xp.expm(generator * times[0]) @ xp.expm(generator * times[1] / 2))
    return xp.sum(counts * xp.log(joint))


@case(
    "Rodrigues (1840), Euler: a rotation as the exponential of a skew matrix",
    lambda d: d.normal(3),
    lambda d: {"points": d.normal(4, 3), "target": d.normal(4, 3)},
)
def rotation_by_exponential(xp: Any, x: Any, points: Any, target: Any) -> Any:
    generators = np.zeros((3, 3, 3))
    for k in range(3):
        generators[k, (k + 2) % 3, (k + 1) % 3], generators[k, (k + 1) % 3, (k + 2) % 3] = 1.0, -1.0
    return xp.sum((points @ xp.expm(xp.tensordot(x, xp.asarray(generators), axes=1)).T - target) ** 2)


@case(
    "Kalman (1960), Contributions to the theory of optimal control: the Riccati recursion",
    lambda d: d.normal(9 + 3) * 0.4,
)
def riccati_recursion(xp: Any, x: Any) -> Any:
    a, b = unpack(x, (3, 3), (3, 1))
    p = xp.eye(3)
    for _ in range(5):
        gain = xp.linalg.solve(1 + b.T @ p @ b, b.T @ p @ a)
        p = xp.eye(3) + a.T @ p @ (a - b @ gain)
    return xp.trace(p) + xp.sum(gain**2)


@case(
    "Fisher (1936), The use of multiple measurements: discriminants by a symmetric eigenproblem",
    lambda d: d.normal(3, 5, 3),
)
def discriminant_analysis(xp: Any, x: Any) -> Any:
    means = xp.mean(x, axis=1)
    centred = (x - means[:, None, :]).reshape(15, 3)
    factor = xp.linalg.cholesky(centred.T @ centred / 12 + 0.1 * xp.eye(3))
    between = xp.triangular(factor, (means - xp.mean(means, axis=0)).T)
    return xp.linalg.eigvalsh(between @ between.T)[-1]


@case("Hotelling (1936), Relations between two sets of variates: canonical correlations", lambda d: d.normal(9, 4))
def canonical_correlations(xp: Any, x: Any) -> Any:
    centred = x - xp.mean(x, axis=0)
    a, b = centred[:, :2], centred[:, 2:]
    left, right = xp.linalg.cholesky(a.T @ a), xp.linalg.cholesky(b.T @ b)
    whitened = xp.triangular(right, xp.triangular(left, a.T @ b).T)
    rho = xp.linalg.svdvals(whitened)
    return -xp.sum(xp.log1p(-(rho**2))) / 2


@case(
    "Kirchhoff (1847): spanning trees by a minor of the Laplacian; resistance by its pseudoinverse",
    lambda d: d.normal(5, 5) * 0.5,
)
def weighted_laplacian(xp: Any, x: Any) -> Any:
    weights = xp.exp(x + x.T) * (1 - xp.eye(5))
    laplacian = xp.eye(5) * xp.sum(weights, axis=1) - weights
    trees = xp.log(xp.linalg.det(laplacian[1:, 1:]))
    green = xp.linalg.inv(laplacian + xp.ones(5, 5) / 5)
    return trees + green[0, 0] + green[4, 4] - 2 * green[0, 4]


@case(
    "Bishop (2006), Pattern Recognition and Machine Learning, 3.5: the evidence of Bayesian linear regression",
    lambda d: d.normal(5),
    lambda d: {"design": d.normal(8, 3), "y": d.normal(8)},
)
def bayesian_evidence(xp: Any, x: Any, design: Any, y: Any) -> Any:
    scaled, alpha, beta = design * xp.exp(x[:3]), xp.exp(x[3]), xp.exp(x[4])
    precision = alpha * xp.eye(3) + beta * (scaled.T @ scaled)
    mean = beta * xp.linalg.solve(precision, (scaled.T @ y)[:, None])[:, 0]
    error = beta / 2 * xp.sum((y - scaled @ mean) ** 2) + alpha / 2 * xp.sum(mean**2)
    return 1.5 * x[3] + 4 * x[4] - error - xp.linalg.slogdet(precision)[1] / 2


# -- Fourier transforms


@case(
    "Wiener (1949), Extrapolation, Interpolation and Smoothing: deconvolution in the frequency domain",
    lambda d: d.normal(8 + 3) * 0.6,
    lambda d: {"seen": d.normal(8)},
)
def wiener_deconvolution(xp: Any, x: Any, seen: Any) -> Any:
    signal, kernel = x[:8], xp.concat([x[8:], xp.zeros(5)])
    blurred = xp.fft.irfft(xp.fft.rfft(signal) * xp.fft.rfft(kernel), n=8)
    spectrum = xp.fft.rfft(kernel)
    restored = xp.fft.irfft(xp.fft.rfft(seen) * xp.conj(spectrum) / (xp.abs(spectrum) ** 2 + 0.1), n=8)
    return xp.sum((blurred - seen) ** 2) + xp.sum(restored**2 * signal)


@case(
    "Khinchin (1934): autocorrelation by the power spectrum; Whittle (1953), likelihood of an AR(2)",
    lambda d: d.normal(3) * 0.4,
    lambda d: {"y": d.normal(12)},
)
def whittle_likelihood(xp: Any, x: Any, y: Any) -> Any:
    periodogram = xp.abs(xp.fft.fft(y + 0j)) ** 2 / 12
    response = xp.fft.fft(xp.concat([xp.ones(1), -x[:2], xp.zeros(9)]) + 0j)
    density = xp.exp(x[2]) / (xp.real(response) ** 2 + xp.imag(response) ** 2)
    smooth = xp.real(xp.fft.ifft(density + 0j))
    return xp.sum(xp.log(density) + periodogram / density) + smooth[1] ** 2


@case(
    "Hardin and Tappert (1973), the split-step Fourier method for the nonlinear Schroedinger equation",
    lambda d: d.normal(2, 8) * 0.7,
)
def split_step_schroedinger(xp: Any, x: Any) -> Any:
    psi = x[0] + 1j * x[1]
    wave = xp.asarray(2 * np.pi * np.fft.fftfreq(8, 0.5))
    for _ in range(3):
        psi = psi * xp.exp(0.05j * xp.abs(psi) ** 2)
        psi = xp.fft.ifft(xp.fft.fft(psi) * xp.exp(-0.05j * wave**2))
    return xp.sum(xp.abs(psi[:4]) ** 2) + xp.abs(xp.sum(psi**3))


@case(
    "Li et al. (2021), Fourier neural operator for parametric partial differential equations",
    lambda d: d.normal(2 * 3 + 2) * 0.6,
    lambda d: {"u": d.normal(4, 10), "v": d.normal(4, 10)},
)
def fourier_neural_operator(xp: Any, x: Any, u: Any, v: Any) -> Any:
    weight = x[:3] + 1j * x[3:6]
    modes = xp.fft.rfft(u)[:, :3] * weight
    padded = xp.concat([modes, xp.zeros(4, 3) + 0j], axis=1)
    return xp.mean((xp.gelu(xp.fft.irfft(padded, n=10) + x[6] * u + x[7]) - v) ** 2)


@case("Gabor (1946), Theory of communication: the analytic signal's envelope and phase", lambda d: d.normal(10))
def analytic_signal(xp: Any, x: Any) -> Any:
    half = xp.asarray(np.r_[1.0, 2 * np.ones(4), 1.0, np.zeros(4)])
    analytic = xp.fft.ifft(xp.fft.fft(x + 0j) * half)
    phase = xp.atan2(xp.imag(analytic), xp.real(analytic))
    return xp.sum(xp.log(xp.abs(analytic))) + xp.sum(xp.sin(phase) ** 2 * xp.arange(10))


@case(
    "Cooley and Tukey (1965): Poisson's equation on a periodic grid by a two-dimensional transform",
    lambda d: d.normal(4, 6),
)
def spectral_poisson(xp: Any, x: Any) -> Any:
    k = np.fft.fftfreq(4, 1 / 4)[:, None] ** 2 + np.fft.fftfreq(6, 1 / 6)[None, :] ** 2
    inverse = xp.asarray(np.where(k > 0, 1 / np.where(k > 0, k, 1.0), 0.0))
    potential = xp.real(xp.fft.ifft2(xp.fft.fft2(x + 0j) * inverse))
    return xp.sum(x * potential) / 2 + xp.sum(potential**4)
