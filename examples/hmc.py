"""Draw from posteriors by Hamiltonian Monte Carlo, with gradients of the log density.

Two models: a Gaussian of known mean and covariance, and a logistic regression, whose posterior mean is
checked by importance sampling. (Neal 2011, MCMC using Hamiltonian dynamics; step sizes by dual averaging,
Hoffman & Gelman 2014; effective sample sizes after Geyer 1992.)

python examples/hmc.py
python examples/hmc.py --draws 5000 --leaps 20
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import wengert as wg

LogDensity = Callable[[wg.Tensor], wg.Tensor]  # of many chains at once: (chains, n) to (chains,)


@dataclass
class Chains:
    """Draws (draws, chains, n), the share of proposals accepted, and the step size."""

    draws: np.ndarray
    acceptance: float
    step: float


def leapfrog(
    gradient: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    x: np.ndarray,
    p: np.ndarray,
    step: float,
    leaps: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Position, momentum and log density after `leaps` steps of Hamilton's equations."""
    value, g = gradient(x)
    for _ in range(leaps):
        p = p + 0.5 * step * g
        x = x + step * p
        value, g = gradient(x)
        p = p + 0.5 * step * g
    return x, p, value


def sample(log_density: LogDensity, start: np.ndarray, draws: int, leaps: int, rng: np.random.Generator) -> Chains:
    """Draws from a density, after as many again to find the step size (aim: 80 % accepted)."""

    def summed(x: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
        values = log_density(x)
        return values.sum(), values

    both = wg.value_and_grad(summed, has_aux=True)

    def gradient(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        (_, values), g = both(wg.asarray(x))
        return values.numpy(), g.numpy()

    x, (value, _) = start, gradient(start)
    log_step = centre = math.log(0.1)
    mean_error, averaged = 0.0, log_step
    kept, accepted = [], []
    for i in range(1, 2 * draws + 1):
        tuning = i <= draws
        step = math.exp(log_step if tuning else averaged) * rng.uniform(0.8, 1.2)
        p = rng.normal(size=x.shape)
        new_x, new_p, new_value = leapfrog(gradient, x, p, step, leaps)
        with np.errstate(over="ignore", invalid="ignore"):
            change = new_value - value + 0.5 * (p**2 - new_p**2).sum(-1)
            chance = np.where(np.isfinite(change), np.exp(np.minimum(change, 0.0)), 0.0)
        take = rng.uniform(size=len(x)) < chance
        x, value = np.where(take[:, None], new_x, x), np.where(take, new_value, value)
        if tuning:
            mean_error += (0.8 - chance.mean() - mean_error) / (i + 10)
            log_step = centre + math.log(10) - math.sqrt(i) / 0.05 * mean_error
            averaged += i**-0.75 * (log_step - averaged)
        else:
            kept.append(x)
            accepted.append(take.mean())
    return Chains(np.stack(kept), float(np.mean(accepted)), math.exp(averaged))


def effective_size(draws: np.ndarray) -> float:
    """How many independent draws (draws, chains) are worth, by Geyer's initial positive sequence."""
    n, chains = draws.shape
    centred = draws - draws.mean()
    spectrum = np.fft.rfft(centred, 2 * n, axis=0)
    covariance = np.fft.irfft(abs(spectrum) ** 2, axis=0)[:n].mean(1) / n
    pairs = covariance[: n // 2 * 2].reshape(-1, 2).sum(1)
    negative = np.flatnonzero(pairs <= 0)
    pairs = np.minimum.accumulate(pairs[: negative[0]] if len(negative) else pairs)
    return float(n * chains * covariance[0] / max(2 * pairs.sum() - covariance[0], 1e-300))


def report(name: str, chains: Chains, mean: np.ndarray, spread: np.ndarray, mean_error: np.ndarray) -> float:
    """Print means and standard deviations beside the known ones; returns the largest error in standard errors."""
    print(f"{name}: {chains.acceptance:.0%} accepted, step size {chains.step:.3f}")
    worst = 0.0
    for k in range(len(mean)):
        draws = chains.draws[:, :, k]
        size = min(effective_size(draws), effective_size((draws - draws.mean()) ** 2))
        error = math.hypot(draws.std() / math.sqrt(size), mean_error[k])
        deviation = abs(draws.mean() - mean[k]) / error
        # The standard error of a standard deviation.
        spread_error = math.hypot(draws.std() / math.sqrt(2 * size), mean_error[k])
        worst = max(worst, deviation, abs(draws.std() - spread[k]) / spread_error)
        print(
            f"  x[{k}]  mean {draws.mean():7.3f} +- {error:.3f} (known {mean[k]:7.3f})"
            f"  sd {draws.std():6.3f} +- {spread_error:.3f} (known {spread[k]:6.3f})  effective draws {size:8.0f}"
        )
    return worst


def gaussian() -> tuple[LogDensity, np.ndarray, np.ndarray]:
    """A correlated Gaussian: its log density, mean and covariance."""
    mean = np.array([1.0, -2.0, 0.5])
    root = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.5, 0.3, 0.4]])
    covariance = root @ root.T
    precision = wg.asarray(np.linalg.inv(covariance))

    def log_density(x: wg.Tensor) -> wg.Tensor:
        d = x - mean
        return -0.5 * ((d @ precision) * d).sum(axis=-1)

    return log_density, mean, covariance


def logistic(rng: np.random.Generator) -> LogDensity:
    """Logistic regression on 100 points, with a standard normal prior."""
    features = np.concatenate([np.ones((100, 1)), rng.normal(size=(100, 2))], axis=1)
    labels = (rng.uniform(size=100) < 1 / (1 + np.exp(-features @ [0.5, 1.5, -1.0]))).astype(float)
    inputs, targets = wg.asarray(features), wg.asarray(labels)

    def log_density(w: wg.Tensor) -> wg.Tensor:
        scores = w @ inputs.mT
        return (targets * scores - wg.nn.functional.softplus(scores)).sum(axis=-1) - 0.5 * (w**2).sum(axis=-1)

    return log_density


def by_importance(log_density: LogDensity, n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Posterior means and standard deviations from weighted draws around the mode, and the means' errors."""
    one = lambda w: log_density(w.reshape(1, -1)).sum()
    mode = np.zeros(n)
    for _ in range(20):
        mode = mode - np.linalg.solve(wg.hessian(one)(wg.asarray(mode)).numpy(), wg.grad(one)(wg.asarray(mode)).numpy())
    covariance = -np.linalg.inv(wg.hessian(one)(wg.asarray(mode)).numpy())
    root = np.linalg.cholesky(1.3 * covariance)
    z = rng.normal(size=(100_000, n))
    w = mode + z @ root.T
    logs = log_density(wg.asarray(w)).numpy() + 0.5 * (z**2).sum(1)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ w
    spread = np.sqrt(weights @ (w - mean) ** 2)
    return mean, spread, np.sqrt(weights**2 @ (w - mean) ** 2)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw from posteriors by Hamiltonian Monte Carlo.")
    parser.add_argument("--draws", type=int, default=1500, help="draws of each chain (default %(default)s)")
    parser.add_argument("--chains", type=int, default=8, help="chains side by side (default %(default)s)")
    parser.add_argument("--leaps", type=int, default=10, help="leapfrog steps to a draw (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of data and draws (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a short run")
    args = parser.parse_args()
    draws = 250 if args.quick else args.draws

    rng = np.random.default_rng(args.seed)
    log_density, mean, covariance = gaussian()
    start = rng.normal(size=(args.chains, len(mean)))
    chains = sample(log_density, start, draws, args.leaps, rng)
    worst = report("Gaussian", chains, mean, np.sqrt(np.diag(covariance)), np.zeros(len(mean)))

    log_density = logistic(rng)
    known, spread, error = by_importance(log_density, 3, rng)
    chains = sample(log_density, rng.normal(size=(args.chains, 3)), draws, args.leaps, rng)
    worst = max(worst, report("Logistic regression", chains, known, spread, error))
    print(f"largest deviation: {worst:.1f} standard errors")
    if worst > 4.5:
        parser.exit(1, "hmc: the draws do not have the known moments\n")


if __name__ == "__main__":
    main()
