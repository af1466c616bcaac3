"""Gradients clipped element by element."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
opt = wg.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x = wg.randn((32, 6))
    loss = (10 * net(x)[:, 0] - x.sum(axis=1)).square().mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(net.parameters(), 0.05)
    opt.step()
