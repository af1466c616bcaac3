"""An actor and a critic with an optimiser each; the advantage is a number."""

import wengert as wg
from wengert import nn

wg.manual_seed(4)
actor, critic = (
    nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)),
    nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)),
)
oa, oc = wg.optim.Adam(actor.parameters(), lr=1e-3), wg.optim.Adam(critic.parameters(), lr=1e-3)
for _ in range(3):
    s, r, a = wg.randn((32, 4)), wg.randn((32,)), wg.randint(0, 3, (32,))
    v = critic(s).squeeze(-1)
    adv = (r - v).detach()
    logp = wg.log_softmax(actor(s), axis=-1)[wg.arange(32), a]
    la = -(logp * adv).mean()
    lc = (r - v).square().mean()
    oc.zero_grad()
    lc.backward()
    oc.step()
    oa.zero_grad()
    la.backward()
    oa.step()
