"""Five networks, each with a loss of its own, in one sum."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
nets = nn.ModuleList([nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)) for _ in range(5)])
opt = wg.optim.Adam(nets.parameters(), lr=1e-3)
x, y = wg.randn((32, 4)), wg.randn((32, 1))
for _ in range(2):
    loss = sum(((net(x) - y) ** 2).mean() for net in nets)
    opt.zero_grad()
    loss.backward()
    opt.step()
