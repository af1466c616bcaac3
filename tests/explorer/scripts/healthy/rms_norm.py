"""A normalisation by the root mean square."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.RMSNorm(16), nn.GELU(), nn.Linear(16, 2))
x, y = wg.randn((32, 8)), wg.randn((32, 2))
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    loss = ((net(x) - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
