"""A gated recurrent layer over ten steps."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net, out = nn.GRU(4, 8), nn.Linear(8, 1)
x, y = wg.randn((10, 16, 4)), wg.randn((16, 1))
opt = wg.optim.Adam([*net.parameters(), *out.parameters()], lr=1e-3)
for _ in range(3):
    loss = ((out(net(x)[0][-1]) - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
