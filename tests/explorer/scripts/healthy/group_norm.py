"""Convolution, group norm, SiLU."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.Flatten(), nn.Linear(8 * 36, 5))
x, y = wg.randn((4, 3, 8, 8)), wg.randint(0, 5, (4,))
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
