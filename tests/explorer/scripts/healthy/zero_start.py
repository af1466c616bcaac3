"""A start from zero weights, and a validation loss read as a number."""

import wengert as wg
from wengert import nn

wg.manual_seed(19)
net = nn.Linear(3, 1)
with wg.no_grad():
    net.weight.assign_(wg.zeros(net.weight.shape))
opt = wg.optim.SGD(net.parameters(), lr=0.1)
x = wg.randn((30, 3))
y = x.sum(axis=1, keepdims=True)
best = float("inf")
for _ in range(20):
    loss = (net(x[:20]) - y[:20]).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    val = (net(x[20:]) - y[20:]).square().mean().item()
    if val > best:
        break
    best = val
