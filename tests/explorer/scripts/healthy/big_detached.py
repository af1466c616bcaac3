"""A discriminator's step in one line: what the generator makes is large, and detached."""

import wengert as wg
from wengert import nn

wg.manual_seed(25)
G = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 64))
D = nn.Sequential(nn.Linear(64, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
opt = wg.optim.Adam(D.parameters(), lr=1e-4)
for _ in range(2):
    real = wg.nn.functional.softplus(-D(wg.randn((1024, 64)))).mean()
    loss = real + wg.nn.functional.softplus(D(G(wg.randn((1024, 32))).detach())).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
