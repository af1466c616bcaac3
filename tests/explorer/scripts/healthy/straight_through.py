"""Rounding with the gradient of the identity."""

import wengert as wg
from wengert import nn

wg.manual_seed(14)
enc, dec = nn.Linear(6, 4), nn.Linear(4, 6)
opt = wg.optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-3)
x = wg.randn((16, 6))
for _ in range(2):
    z = enc(x)
    q = z + (wg.round(z) - z).detach()
    loss = (dec(q) - x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
