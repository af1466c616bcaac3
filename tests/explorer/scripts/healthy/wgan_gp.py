"""A penalty on the gradient of an input."""

import wengert as wg
from wengert import nn

wg.manual_seed(18)
D = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
opt = wg.optim.Adam(D.parameters(), lr=1e-3)
for _ in range(2):
    real, fake, e = wg.randn((16, 2)), wg.randn((16, 2)), wg.rand((16, 1))
    x = (e * real + (1 - e) * fake).requires_grad_()
    (g,) = wg.autograd.grad(D(x).sum(), x, create_graph=True)
    gp = (wg.sqrt((g * g).sum(axis=1) + 1e-12) - 1).square().mean()
    loss = D(fake).mean() - D(real).mean() + 10 * gp
    opt.zero_grad()
    loss.backward()
    opt.step()
