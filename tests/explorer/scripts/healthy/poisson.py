"""Counts, by a regression of their logarithm."""

import wengert as wg

wg.manual_seed(0)
x = wg.randn((60, 3))
y = wg.floor(wg.exp(0.5 * x[:, 0]))
w, b = wg.zeros(3).requires_grad_(), wg.tensor(0.0, requires_grad=True)
for _ in range(3):
    rate = x @ w + b
    loss = (wg.exp(rate) - y * rate).mean()
    loss.backward()
    with wg.no_grad():
        w -= 0.1 * w.grad
        b -= 0.1 * b.grad
    w.grad = b.grad = None
