"""Targets that are not quite sure."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 4))
x, y = wg.randn((40, 5)), wg.randint(0, 4, (40,))
target = 0.9 * nn.functional.one_hot(y, 4) + 0.1 / 4
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    loss = -(target * nn.functional.log_softmax(net(x), -1)).sum(axis=-1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
