"""Pixels between 0 and 1 into a small network with ReLU."""

import wengert as wg
from wengert import nn

wg.manual_seed(16)
pixels = wg.rand((64, 64))
net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    loss = nn.functional.cross_entropy(net(pixels), wg.arange(64) % 10)
    opt.zero_grad()
    loss.backward()
    opt.step()
