"""Causal attention with a mask of infinities."""

import math

import wengert as wg
from wengert import nn

wg.manual_seed(7)
qkv, out = nn.Linear(16, 48), nn.Linear(16, 16)
opt = wg.optim.AdamW([*qkv.parameters(), *out.parameters()], lr=1e-3)
x = wg.randn((4, 6, 16))
mask = wg.tril(wg.ones((6, 6))) == 0
for _ in range(2):
    q, k, v = wg.split(qkv(x), 16, axis=-1)
    s = (q @ k.mT) / math.sqrt(16)
    s = wg.where(mask, -math.inf, s)
    loss = (out(wg.softmax(s, axis=-1) @ v) - x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
