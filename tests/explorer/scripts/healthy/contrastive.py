"""Pairs of views, and a temperature that is learnt."""

import wengert as wg
from wengert import nn

wg.manual_seed(9)
enc = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8))
temp = wg.tensor(0.0, requires_grad=True, dtype="float32")
opt = wg.optim.Adam([*enc.parameters(), temp], lr=1e-3)


def unit(z):
    return z / wg.sqrt((z * z).sum(axis=-1, keepdims=True) + 1e-8)


x = wg.randn((32, 10))
for _ in range(3):
    a, b = unit(enc(x + 0.1 * wg.randn(x.shape))), unit(enc(x + 0.1 * wg.randn(x.shape)))
    sim = a @ b.mT * wg.exp(temp) * 10
    n = wg.arange(32)
    loss = -0.5 * (wg.log_softmax(sim, axis=1)[n, n].mean() + wg.log_softmax(sim, axis=0)[n, n].mean())
    opt.zero_grad()
    loss.backward()
    opt.step()
