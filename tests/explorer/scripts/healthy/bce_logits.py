"""Logistic regression from logits."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Linear(5, 1)
x = wg.randn((40, 5))
y = (x[:, :1] > 0).astype("float32")
opt = wg.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = nn.functional.binary_cross_entropy_with_logits(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
