"""A clipped policy gradient: old log-probabilities and advantages are data."""

import wengert as wg
from wengert import nn

wg.manual_seed(14)
policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
value = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
opt = wg.optim.Adam([*policy.parameters(), *value.parameters()], lr=1e-3)
s, a, ret = wg.randn((64, 4)), wg.randint(0, 3, (64,)), wg.randn((64,))
rows = wg.arange(64)
old = wg.log_softmax(policy(s), axis=-1)[rows, a].detach()
for _ in range(4):
    v = value(s)[:, 0]
    adv = (ret - v).detach()
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    logp = wg.log_softmax(policy(s), axis=-1)
    ratio = wg.exp(logp[rows, a] - old)
    gain = wg.minimum(ratio * adv, wg.clip(ratio, 0.8, 1.2) * adv).mean()
    entropy = -(wg.exp(logp) * logp).sum(axis=-1).mean()
    loss = -gain + 0.5 * (v - ret).square().mean() - 0.01 * entropy
    opt.zero_grad()
    loss.backward()
    opt.step()
