"""A gradient's own gradient."""

import wengert as wg

x = wg.tensor([0.3, 0.7], requires_grad=True)
y = (wg.sin(x) * x).sum()
(gradient,) = wg.autograd.grad(y, x, create_graph=True)
(gradient**2).sum().backward()
