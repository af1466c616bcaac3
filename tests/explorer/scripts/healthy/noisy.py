"""Gradients with noise (differential privacy), and hooks that change them."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
net[0].weight.register_hook(lambda g: wg.clip(g, -0.01, 0.01))
opt = wg.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x = wg.randn((32, 6))
    loss = (net(x)[:, 0] - x.sum(axis=1)).square().mean()
    opt.zero_grad()
    loss.backward()
    for p in net.parameters():
        p.grad = p.grad + 0.1 * wg.randn(p.shape)
    opt.step()
