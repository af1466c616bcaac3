"""A Gaussian process's marginal likelihood."""

import math

import numpy as np

import wengert as wg

rng = np.random.default_rng(0)
x = wg.asarray(np.linspace(0, 1, 20))
y = wg.asarray(np.sin(6 * np.linspace(0, 1, 20)) + 0.1 * rng.normal(size=20))
raw = wg.tensor(np.log([1.0, 0.2, 0.1]), requires_grad=True)
opt = wg.optim.Adam([raw], lr=0.05)
for _ in range(3):
    var, length, noise = wg.exp(raw)
    d = x[:, None] - x[None, :]
    K = var * wg.exp(-0.5 * (d / length) ** 2) + (noise**2 + 1e-6) * wg.eye(20)
    L = wg.linalg.cholesky(K)
    alpha = wg.linalg.solve(K, y)
    nll = 0.5 * (y * alpha).sum() + wg.log(wg.diagonal(L)).sum() + 10 * math.log(2 * math.pi)
    opt.zero_grad()
    nll.backward()
    opt.step()
