"""A network that learns in which direction noise lies."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 32), nn.SiLU(), nn.Linear(32, 2))
x = wg.randn((64, 2))
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    noise = wg.randn((64, 2))
    loss = ((net(x + 0.5 * noise) * 0.5 + noise) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
