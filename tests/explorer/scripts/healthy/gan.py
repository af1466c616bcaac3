"""A generator and a discriminator in turns: each step's gradients go through both."""

import wengert as wg
from wengert import nn

wg.manual_seed(1)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
og, od = wg.optim.Adam(G.parameters(), lr=1e-3), wg.optim.Adam(D.parameters(), lr=1e-3)


def bce(logits, target):
    return (wg.nn.functional.softplus(logits) - logits * target).mean()


for _ in range(4):
    real, z = wg.randn((32, 2)) + 3, wg.randn((32, 4))
    fake = G(z)
    od.zero_grad()
    ld = bce(D(real), 1.0) + bce(D(fake.detach()), 0.0)
    ld.backward()
    od.step()
    og.zero_grad()
    lg = bce(D(fake), 1.0)
    lg.backward()
    og.step()
