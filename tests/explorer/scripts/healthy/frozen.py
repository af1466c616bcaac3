"""A frozen body under a head."""

import wengert as wg
from wengert import nn

wg.manual_seed(11)
base = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16))
for p in base.parameters():
    p.requires_grad_(False)
head = nn.Linear(16, 2)
opt = wg.optim.Adam(head.parameters(), lr=1e-3)
x, y = wg.randn((32, 8)), wg.randn((32, 2))
for _ in range(3):
    loss = (head(base(x)) - y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
