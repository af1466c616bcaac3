"""A few layers frozen in the middle of a network: gradients go through them."""

import wengert as wg
from wengert import nn

wg.manual_seed(1)
net = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
for p in net[2].parameters():
    p.requires_grad_(False)
opt = wg.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.05, momentum=0.9)
x = wg.randn((40, 6))
for _ in range(3):
    loss = (net(x) - x.sum(axis=1, keepdims=True)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
