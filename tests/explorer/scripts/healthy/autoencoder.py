"""Narrow ReLU layers of an autoencoder, on data that are all positive."""

import wengert as wg
from wengert import nn

wg.manual_seed(17)
x = wg.rand((100, 12))
net = nn.Sequential(
    nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 12), nn.Sigmoid()
)
opt = wg.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(3):
    loss = (net(x) - x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
