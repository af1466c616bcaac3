"""Near and far, with a margin."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Linear(6, 4)
a, p, n = wg.randn((32, 6)), wg.randn((32, 6)), wg.randn((32, 6))
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    loss = nn.functional.relu(((net(a) - net(p)) ** 2).sum(1) - ((net(a) - net(n)) ** 2).sum(1) + 0.5).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
