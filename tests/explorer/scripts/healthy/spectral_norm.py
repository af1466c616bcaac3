"""A matrix divided by its largest singular value, which power iteration finds outside of the graph."""

import wengert as wg

wg.manual_seed(0)
w = (wg.randn((8, 8)) / 3).requires_grad_()
x = wg.randn((16, 8))
u = wg.randn((8,))
for _ in range(3):
    with wg.no_grad():
        v = w.T @ u
        v = v / wg.sqrt((v * v).sum())
        u = w @ v
        u = u / wg.sqrt((u * u).sum())
    loss = ((x @ (w / (u @ w @ v))) ** 2).mean()
    loss.backward()
    with wg.no_grad():
        w -= 0.01 * w.grad
    w.grad = None
