"""Four small batches make one step; the loss of each is logged."""

import wengert as wg
from wengert import nn

wg.manual_seed(8)
net = nn.Sequential(nn.Linear(10, 40), nn.SiLU(), nn.Linear(40, 1))
opt = wg.optim.AdamW(net.parameters(), lr=1e-3)
for _ in range(2):
    opt.zero_grad()
    total = 0.0
    for _ in range(4):
        x = wg.randn((8, 10))
        loss = (net(x) - x.sum(axis=1, keepdims=True)).square().mean() / 4
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
