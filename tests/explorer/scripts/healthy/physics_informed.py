"""A network that solves y' = -y: the derivative by its input stands in the loss."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(2):
    t = wg.linspace(0, 2, 20)[:, None].requires_grad_()
    y = net(t)
    (slope,) = wg.autograd.grad(y.sum(), [t], create_graph=True)
    loss = ((slope + y) ** 2).mean() + ((net(wg.zeros((1, 1))) - 1.0) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
