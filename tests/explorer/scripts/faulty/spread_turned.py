"""Targets of shape (n,) minus predictions of shape (n, 1)."""  # finds: spread-difference

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Linear(3, 1)
opt = wg.optim.SGD(net.parameters(), lr=0.01)
x = wg.randn((24, 3))
y = x.sum(axis=1)
for _ in range(2):
    loss = wg.abs(y - net(x)).mean()  # here
    opt.zero_grad()
    loss.backward()
    opt.step()
