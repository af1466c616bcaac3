"""Two thin matrices whose product is a given one."""

import wengert as wg

wg.manual_seed(0)
a = wg.randn((20, 3)) @ wg.randn((3, 15))
u, v = (0.3 * wg.randn((20, 3))).requires_grad_(), (0.3 * wg.randn((3, 15))).requires_grad_()
opt = wg.optim.SGD([u, v], lr=0.01)
for _ in range(4):
    loss = ((u @ v - a) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
