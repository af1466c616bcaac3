"""Two passes make a step, but what an earlier step left is never cleared."""  # finds: left-over-gradient

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Linear(3, 1)
opt = wg.optim.SGD(net.parameters(), lr=1e-3)
for _ in range(3):
    for _ in range(2):
        x = wg.randn((16, 3))
        ((net(x)[:, 0] - x.sum(axis=1)).square().mean() / 2).backward()  # here
    opt.step()
