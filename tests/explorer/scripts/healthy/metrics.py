"""Accuracy and a confusion matrix without gradients, between forward and backward."""

import wengert as wg
from wengert import nn

wg.manual_seed(9)
net = nn.Sequential(nn.Linear(5, 30), nn.ReLU(), nn.Linear(30, 4))
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
x, y = wg.randn((80, 5)), wg.arange(80) % 4
for _ in range(3):
    logits = net(x)
    with wg.no_grad():
        guess = wg.argmax(logits, axis=-1)
        accuracy = (guess == y).mean(dtype=wg.float32)
        confusion = (wg.eye(4)[y].T @ wg.eye(4)[guess]).sum(axis=0)
    loss = nn.functional.cross_entropy(logits, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
