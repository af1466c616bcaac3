"""A penalty on sizes, which has a corner at zero."""

import wengert as wg

wg.manual_seed(0)
x, y = wg.randn((50, 6)), wg.randn((50,))
w = (0.1 * wg.randn(6)).requires_grad_()
for _ in range(3):
    loss = ((x @ w - y) ** 2).mean() + 0.01 * wg.abs(w).sum()
    loss.backward()
    with wg.no_grad():
        w -= 0.05 * w.grad
    w.grad = None
