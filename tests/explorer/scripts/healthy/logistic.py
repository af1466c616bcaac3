"""Logistic regression, its update by hand."""

import numpy as np

import wengert as wg

rng = np.random.default_rng(0)
X = rng.normal(size=(100, 3))
t = (X @ [1.0, -2.0, 0.5] > 0).astype(float)
w, b = wg.tensor(np.zeros(3), requires_grad=True), wg.tensor(0.0, requires_grad=True)
for _i in range(5):
    p = wg.sigmoid(wg.asarray(X) @ w + b)
    loss = -(t * wg.log(p) + (1 - t) * wg.log(1 - p)).mean()
    loss.backward()
    with wg.no_grad():
        w -= 0.1 * w.grad
        b -= 0.1 * b.grad
    w.grad = b.grad = None
