"""Half of the units are left out."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 1))
x, y = wg.randn((64, 8)), wg.randn((64, 1))
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    loss = ((net(x) - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
