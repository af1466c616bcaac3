"""A last layer that starts at zero, under momentum."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
with wg.no_grad():
    net[2].weight.assign_(wg.zeros((1, 16)))
opt = wg.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
for _ in range(2):
    x = wg.randn((32, 6))
    loss = (net(x)[:, 0] - x.sum(axis=1)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
