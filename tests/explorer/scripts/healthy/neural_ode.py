"""A Runge-Kutta solver around a network."""

import wengert as wg
from wengert import nn

wg.manual_seed(5)
f = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
opt = wg.optim.Adam(f.parameters(), lr=1e-3)
y0 = wg.randn((8, 2))
for _ in range(2):
    y, h = y0, 0.1
    for _ in range(10):
        k1 = f(y)
        k2 = f(y + 0.5 * h * k1)
        k3 = f(y + 0.5 * h * k2)
        k4 = f(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    loss = (y - 1.0).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
