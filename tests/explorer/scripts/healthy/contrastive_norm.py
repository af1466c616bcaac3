"""Distances of all pairs."""

import wengert as wg
from wengert import nn

wg.manual_seed(9)
x, y = wg.randn((40, 5)), wg.randn((40, 5))
enc = nn.Linear(5, 3)
opt = wg.optim.SGD(enc.parameters(), lr=0.01)
for _ in range(2):
    d = enc(x)[:, None, :] - enc(y)[None, :, :]
    dist = wg.sqrt((d**2).sum(axis=-1) + 1e-12)
    loss = wg.relu(1.0 + wg.diagonal(dist)[:, None] - dist).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
