"""Double Q-learning: the target's branch is detached, not frozen."""

import wengert as wg
from wengert import nn

wg.manual_seed(3)


def make():
    return nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3))


online, target = make(), make()
opt = wg.optim.Adam(online.parameters(), lr=1e-3)
for _ in range(4):
    s, s2 = wg.randn((64, 4)), wg.randn((64, 4))
    r, a = wg.randn((64,)), wg.randint(0, 3, (64,))
    best = wg.argmax(online(s2), axis=1)
    y = (r + 0.9 * target(s2)[wg.arange(64), best]).detach()
    td = online(s)[wg.arange(64), a] - y
    loss = wg.where(wg.abs(td) < 1.0, 0.5 * td * td, wg.abs(td) - 0.5).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
