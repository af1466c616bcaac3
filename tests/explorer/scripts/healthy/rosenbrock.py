"""A function of two numbers, by gradient descent."""

import wengert as wg

x, y = wg.tensor(-1.0, requires_grad=True), wg.tensor(1.5, requires_grad=True)
for _ in range(5):
    loss = (1 - x) ** 2 + 10 * (y - x**2) ** 2
    loss.backward()
    with wg.no_grad():
        x -= 0.005 * x.grad
        y -= 0.005 * y.grad
    x.grad = y.grad = None
