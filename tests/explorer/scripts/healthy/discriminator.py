"""A discriminator's step on what the generator made, detached."""

import wengert as wg
from wengert import nn

wg.manual_seed(1)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
og, od = wg.optim.Adam(G.parameters(), lr=1e-3), wg.optim.Adam(D.parameters(), lr=1e-3)
for _ in range(4):
    z = wg.randn((32, 4))
    lg = wg.nn.functional.softplus(-D(G(z))).mean()
    og.zero_grad()
    lg.backward()
    og.step()
    with wg.no_grad():
        fake = G(wg.randn((32, 4)))
    ld = wg.nn.functional.softplus(-D(wg.randn((32, 2)) + 3)).mean() + wg.nn.functional.softplus(D(fake)).mean()
    od.zero_grad()
    ld.backward()
    od.step()
    ld2 = (
        wg.nn.functional.softplus(-D(wg.randn((32, 2)) + 3)).mean() + wg.nn.functional.softplus(D(G(z).detach())).mean()
    )
    od.zero_grad()
    ld2.backward()
    od.step()
