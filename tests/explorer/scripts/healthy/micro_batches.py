"""Micro-batches, one clipped update."""

import wengert as wg
from wengert import nn

wg.manual_seed(12)
net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 1))
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    opt.zero_grad()
    for _ in range(4):
        x = wg.randn((8, 8))
        loss = (net(x).squeeze(-1) - x.sum(axis=1)).square().mean() / 4
        loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    opt.step()
