"""A penalty on the weights."""

import wengert as wg

wg.manual_seed(0)
x, y = wg.randn((50, 6)), wg.randn((50,))
w = wg.zeros(6).requires_grad_()
opt = wg.optim.SGD([w], lr=0.05)
for _ in range(5):
    loss = ((x @ w - y) ** 2).mean() + 0.1 * (w**2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
