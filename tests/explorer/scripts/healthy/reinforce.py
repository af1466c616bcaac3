"""A policy gradient over episodes."""

import numpy as np

import wengert as wg
from wengert import nn

wg.manual_seed(4)
rng = np.random.default_rng(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
opt = wg.optim.Adam(policy.parameters(), lr=1e-2)
for _ in range(3):
    logps, rewards, s = [], [], rng.normal(size=4).astype("float32")
    for _ in range(10):
        logp = wg.log_softmax(policy(wg.asarray(s)), axis=-1)
        a = int(
            rng.choice(
                2, p=np.exp(logp.detach().numpy().astype(float)) / np.exp(logp.detach().numpy().astype(float)).sum()
            )
        )
        logps.append(logp[a])
        rewards.append(float(s[0] * (2 * a - 1)))
        s = rng.normal(size=4).astype("float32")
    returns = np.cumsum(rewards[::-1])[::-1].copy()
    returns = (returns - returns.mean()) / (returns.std() + 1e-8)
    loss = -(wg.stack(logps) * wg.asarray(returns.astype("float32"))).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
