"""A loop without zero_grad, the loss never named."""  # finds: left-over-gradient

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(4):
    x = wg.randn((16, 3))
    (net(x)[:, 0] - x.sum(axis=1)).square().mean().backward()  # here
    opt.step()
