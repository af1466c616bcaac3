"""A GAN with a generator large enough to notice: the fake batch is used twice, first detached."""

import wengert as wg
from wengert import nn

wg.manual_seed(10)
G = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64))
D = nn.Sequential(nn.Linear(64, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
og, od = wg.optim.Adam(G.parameters(), lr=1e-4), wg.optim.Adam(D.parameters(), lr=1e-4)
for _ in range(2):
    fake = G(wg.randn((512, 32)))
    d = wg.nn.functional.softplus(-D(wg.randn((512, 64)))).mean() + wg.nn.functional.softplus(D(fake.detach())).mean()
    od.zero_grad()
    d.backward()
    od.step()
    g = wg.nn.functional.softplus(-D(fake)).mean()
    og.zero_grad()
    g.backward()
    og.step()
