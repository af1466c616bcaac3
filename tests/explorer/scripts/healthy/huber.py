"""A loss that outliers pull less."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
x = wg.randn((64, 4))
y = x.sum(axis=1, keepdims=True)
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    loss = nn.functional.huber_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
