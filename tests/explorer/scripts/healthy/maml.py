"""A step through a step."""

import wengert as wg

wg.manual_seed(17)
w = wg.tensor([0.5, -0.3], requires_grad=True)
opt = wg.optim.SGD([w], lr=0.05)
x = wg.randn((10, 2))
y = x @ wg.asarray([1.0, 2.0], dtype="float32")
for _ in range(3):
    inner = ((x @ w - y) ** 2).mean()
    (g,) = wg.autograd.grad(inner, w, create_graph=True)
    outer = ((x @ (w - 0.1 * g) - y) ** 2).mean()
    opt.zero_grad()
    outer.backward()
    opt.step()
