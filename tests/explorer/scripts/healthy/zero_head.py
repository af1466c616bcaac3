"""A last layer that starts at zero, before its first step."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
with wg.no_grad():
    net[4].weight.assign_(wg.zeros((1, 16)))
((net(wg.randn((16, 4))) - 1) ** 2).mean().backward()
