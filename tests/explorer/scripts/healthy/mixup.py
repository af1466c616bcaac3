"""Two samples in one."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
x, y = wg.randn((40, 5)), wg.randn((40, 1))
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    order = wg.random.randperm(40)
    loss = ((net(0.7 * x + 0.3 * x[order]) - (0.7 * y + 0.3 * y[order])) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
