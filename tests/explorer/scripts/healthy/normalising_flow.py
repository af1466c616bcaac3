"""An affine coupling: the density of data by a change of variables."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 2))
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
x = wg.randn((64, 2)) * 2.0 + 1.0
for _ in range(3):
    a, b = x[:, :1], x[:, 1:]
    shift, log_scale = wg.split(net(a), 1, axis=-1)
    z = (b - shift) * wg.exp(-wg.tanh(log_scale))
    loss = ((a**2 + z**2) / 2 + wg.tanh(log_scale)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
