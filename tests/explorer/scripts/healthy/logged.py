"""Numbers for a log: item(), float(), a running mean, histograms by NumPy."""

import numpy as np

import wengert as wg
from wengert import nn

wg.manual_seed(6)
net = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 2))
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
x, y = wg.randn((50, 6)), wg.arange(50) % 2
mean, log = 0.0, []
for step in range(4):
    hidden = net[1](net[0](x))
    logits = net[2](hidden)
    loss = nn.functional.cross_entropy(logits, y)
    mean = 0.9 * mean + 0.1 * loss.item()
    log.append((step, float(loss), np.histogram(hidden.detach().numpy(), bins=8)[0].tolist()))
    opt.zero_grad()
    loss.backward()
    norm = sum(float((p.grad * p.grad).sum()) for p in net.parameters()) ** 0.5
    opt.step()
    print(f"{step} {mean:.4f} {norm:.3f}")
