"""A compiled training step."""

import wengert as wg
from wengert import nn

wg.manual_seed(18)
net = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
opt = wg.optim.Adam(net.parameters(), lr=1e-3)


@wg.jit
def step(x, y):
    opt.zero_grad()
    loss = (net(x) - y).square().mean()
    loss.backward()
    opt.step()
    return loss


for _ in range(5):
    x = wg.randn((32, 6))
    print(step(x, x[:, :1]).item())
