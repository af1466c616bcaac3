"""A mixture density network."""

import math

import wengert as wg
from wengert import nn

wg.manual_seed(8)
net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 9))
opt = wg.optim.Adam(net.parameters(), lr=1e-2)
x = wg.randn((64, 1))
y = wg.sin(3 * x) + 0.1 * wg.randn((64, 1))
for _ in range(3):
    pi, mu, ls = wg.split(net(x), 3, axis=-1)
    logp = wg.log_softmax(pi, axis=-1) - ls - 0.5 * ((y - mu) / wg.exp(ls)) ** 2 - 0.5 * math.log(2 * math.pi)
    loss = -wg.logsumexp(logp, axis=-1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
