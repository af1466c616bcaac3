"""Q-learning against a target network that is a copy."""

import wengert as wg
from wengert import nn

wg.manual_seed(4)


def net():
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))


q, target = net(), net()
target.load_state_dict(q.state_dict())
opt = wg.optim.Adam(q.parameters(), lr=1e-3)
for step in range(4):
    s, s2, r, a = wg.randn((32, 4)), wg.randn((32, 4)), wg.randn((32,)), wg.randint(0, 2, (32,))
    with wg.no_grad():
        y = r + 0.99 * target(s2).max(axis=1)
    loss = (q(s)[wg.arange(32), a] - y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 2:
        target.load_state_dict(q.state_dict())
