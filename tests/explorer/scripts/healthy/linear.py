"""A line is fitted."""

import wengert as wg

wg.manual_seed(0)
x = wg.linspace(-2, 2, 50)
y = 3 * x + 7 + 0.1 * wg.randn(50)
w, b = wg.tensor(0.0, requires_grad=True), wg.tensor(0.0, requires_grad=True)
for _ in range(20):
    loss = ((w * x + b - y) ** 2).mean()
    loss.backward()
    with wg.no_grad():
        w -= 0.1 * w.grad
        b -= 0.1 * b.grad
        w.grad = b.grad = None
