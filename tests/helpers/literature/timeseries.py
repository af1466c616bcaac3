"""Likelihoods of time series and filters."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import case, unpack


@case(
    "Kalman (1960), A new approach to linear filtering and prediction problems",
    lambda d: d.normal(6) * 0.4,
    lambda d: {"y": np.cumsum(d.normal(10)) * 0.5},
)
def kalman_filter(xp: Any, x: Any, y: Any) -> Any:
    """A local linear trend observed with noise."""
    transition = xp.stack([xp.stack([1 + 0.1 * x[0], 1 + 0.1 * x[1]]), xp.stack([0.1 * x[2], xp.tanh(x[3])])])
    process, noise = xp.exp(x[4]) * xp.eye(2), xp.exp(x[5])
    mean, covariance = xp.zeros(2), xp.eye(2)
    loss = 0.0
    for t in range(10):
        mean = transition @ mean
        covariance = transition @ covariance @ transition.T + process
        innovation, variance = y[t] - mean[0], covariance[0, 0] + noise
        gain = covariance[:, 0] / variance
        loss = loss - (xp.log(variance) + innovation**2 / variance) / 2
        mean = mean + gain * innovation
        covariance = covariance - xp.outer(gain, covariance[0])
    return loss


@case(
    "Baum and Petrie (1966); Rabiner (1989), A tutorial on hidden Markov models: the forward algorithm",
    lambda d: d.normal(3 + 9 + 12),
    lambda d: {"symbols": d.integers(4, 9)},
)
def hidden_markov_forward(xp: Any, x: Any, symbols: Any) -> Any:
    first, moves, emits = unpack(x, (3,), (3, 3), (3, 4))
    first, moves, emits = (xp.log_softmax(a, axis=-1) for a in (first, moves, emits))
    emitted = emits[:, symbols]
    alpha = first + emitted[:, 0]
    for t in range(1, 9):
        alpha = xp.logsumexp(alpha[:, None] + moves, axis=0) + emitted[:, t]
    return xp.logsumexp(alpha, axis=0)


@case(
    "Box and Jenkins (1970), Time Series Analysis: ARMA(2, 1), conditional likelihood",
    lambda d: d.normal(4) * 0.4,
    lambda d: {"y": d.normal(14)},
)
def arma(xp: Any, x: Any, y: Any) -> Any:
    error, loss = 0.0, 0.0
    for t in range(2, 14):
        error = y[t] - x[0] * y[t - 1] - x[1] * y[t - 2] - x[2] * error
        loss = loss - error**2 / (2 * xp.exp(2 * x[3])) - x[3]
    return loss


@case(
    "Bollerslev (1986), Generalized autoregressive conditional heteroskedasticity",
    lambda d: d.normal(4) * 0.5,
    lambda d: {"y": d.normal(15)},
)
def garch(xp: Any, x: Any, y: Any) -> Any:
    omega, parts = xp.exp(x[1]), xp.softmax(xp.concat([x[2:], xp.zeros(1)]), axis=0)
    residual = y - x[0]
    variance, loss = xp.mean(residual**2), 0.0
    for t in range(15):
        loss = loss - (xp.log(variance) + residual[t] ** 2 / variance) / 2
        variance = omega + parts[0] * residual[t] ** 2 + parts[1] * variance
    return loss


@case(
    "Holt (1957), Winters (1960), exponential smoothing; Hyndman et al. (2008)",
    lambda d: d.normal(2 + 2 + 3) * 0.5,
    lambda d: {"y": d.normal(12) + np.arange(12) * 0.3},
)
def holt_winters(xp: Any, x: Any, y: Any) -> Any:
    a, b = xp.sigmoid(x[0]), xp.sigmoid(x[1])
    level, trend = x[2], x[3]
    seasons = [x[4], x[5], x[6]]
    loss = 0.0
    for t in range(12):
        season = seasons[t % 3]
        error = y[t] - level - trend - season
        loss = loss + error**2
        level, trend = level + trend + a * error, trend + a * b * error
        seasons[t % 3] = season + 0.2 * (1 - a) * error
    return loss


@case(
    "Sakoe and Chiba (1978), dynamic time warping; Cuturi and Blondel (2017), Soft-DTW",
    lambda d: d.normal(6),
    lambda d: {"y": d.normal(5)},
)
def soft_dtw(xp: Any, x: Any, y: Any) -> Any:
    cost = (x[:, None] - y[None, :]) ** 2
    gamma, table = 0.5, {}
    for i in range(6):
        for j in range(5):
            before = [table[p] for p in ((i - 1, j), (i, j - 1), (i - 1, j - 1)) if p in table]
            soft = -gamma * xp.logsumexp(xp.stack(before) / -gamma, axis=0) if before else 0.0
            table[i, j] = cost[i, j] + soft
    return table[5, 4]


@case(
    "Graves et al. (2006), Connectionist temporal classification",
    lambda d: d.normal(6, 4),
)
def ctc_forward(xp: Any, x: Any) -> Any:
    """Labels 1, 2, 2 with blanks (0) between; probabilities in the log domain."""
    logs = xp.log_softmax(x, axis=1)
    labels = [0, 1, 0, 2, 0, 2, 0]
    alpha: list[Any] = [logs[0, 0], logs[0, 1]] + [None] * 5
    for t in range(1, 6):
        after: list[Any] = []
        for s, label in enumerate(labels):
            sources = [alpha[s]]
            if s >= 1:
                sources.append(alpha[s - 1])
            if s >= 2 and label and label != labels[s - 2]:
                sources.append(alpha[s - 2])
            live = [a for a in sources if a is not None]
            after.append(xp.logsumexp(xp.stack(live), axis=0) + logs[t, label] if live else None)
        alpha = after
    return -xp.logaddexp(alpha[-1], alpha[-2])


def _dft(n: int) -> Any:
    k = np.arange(n)
    return np.exp(-2j * np.pi * np.outer(k, k) / n)


@case(
    "Engel et al. (2020), DDSP: multi-scale spectral loss, here by the matrix of the discrete Fourier transform",
    lambda d: d.normal(16),
    lambda d: {"target": d.normal(16), "dft": _dft(8), "window": 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(8) / 8)},
)
def spectral_loss(xp: Any, x: Any, target: Any, dft: Any, window: Any) -> Any:
    def magnitudes(signal: Any) -> Any:
        frames = xp.stack([signal[i : i + 8] for i in (0, 4, 8)]) * window
        return xp.abs((frames + 0j) @ dft.T)

    a, b = magnitudes(x), magnitudes(target)
    return xp.sum((a - b) ** 2) + xp.sum((xp.log(a + 0.1) - xp.log(b + 0.1)) ** 2)


@case(
    "Oppenheim and Schafer (1975), Digital Signal Processing: an FIR filter fitted in the frequency domain",
    lambda d: d.normal(7),
)
def fir_design(xp: Any, x: Any) -> Any:
    omega = xp.asarray(np.linspace(0.0, np.pi, 21))
    response = xp.exp(-1j * omega[:, None] * xp.arange(7)) @ (x + 0j)
    wanted = xp.where(omega < 1.2, 1.0, 0.0)
    power = xp.real(response * xp.conj(response))
    return xp.sum((power - wanted) ** 2)


@case(
    "Widrow and Hoff (1960), Adaptive switching circuits: the LMS filter, as a function of its step and start",
    lambda d: np.r_[d.uniform(0.05, 0.2, 1), d.normal(3)],
    lambda d: {"signal": d.normal(12), "wanted": d.normal(12)},
)
def lms_filter(xp: Any, x: Any, signal: Any, wanted: Any) -> Any:
    weights, loss = x[1:], 0.0
    for t in range(3, 12):
        window = signal[t - 3 : t]
        error = wanted[t] - weights @ window
        weights = weights + x[0] * error * window
        loss = loss + error**2
    return loss


@case(
    "Daubechies (1988), orthonormal wavelets by their lattice angles; Vaidyanathan (1993)",
    lambda d: d.uniform(-3, 3, 3 + 8),
)
def wavelet_lattice(xp: Any, x: Any) -> Any:
    even, odd = x[3::2], x[4::2]
    for k in range(3):
        c, s = xp.cos(x[k]), xp.sin(x[k])
        even, odd = c * even + s * xp.roll(odd, k, 0), -s * even + c * odd
    return xp.sum(xp.sqrt(odd**2 + 0.01)) + xp.sum(even**3)
