"""A choice that gradients pass, by added noise."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Linear(6, 4)
values = wg.tensor([0.0, 1.0, 2.0, 3.0])
x, y = wg.randn((32, 6)), wg.rand(32)
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    noise = -wg.log(-wg.log(wg.rand((32, 4)) * 0.98 + 0.01))
    loss = ((wg.softmax((net(x) + noise) / 0.5, axis=-1) @ values - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
