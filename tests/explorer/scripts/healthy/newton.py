"""Newton's method by transforms of functions."""

import wengert as wg

w = wg.tensor([1.0, 2.0, 3.0], requires_grad=True)
for _ in range(4):
    g = wg.grad(lambda v: ((v - 1) ** 4).sum())(w)
    H = wg.hessian(lambda v: ((v - 1) ** 4).sum())(w) + 1e-6 * wg.eye(3)
    w = w - wg.linalg.solve(H, g)
