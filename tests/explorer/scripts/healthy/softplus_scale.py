"""A normal distribution whose scale is kept above zero by softplus."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
data = 2.0 + 3.0 * wg.randn((100,))
mean, raw = wg.tensor(0.0, requires_grad=True), wg.tensor(0.0, requires_grad=True)
opt = wg.optim.Adam([mean, raw], lr=0.05)
for _ in range(4):
    scale = nn.functional.softplus(raw) + 1e-4
    loss = (((data - mean) / scale) ** 2 / 2 + wg.log(scale)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
