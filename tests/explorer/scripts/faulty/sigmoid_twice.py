"""Probabilities for a loss that wants logits."""  # finds: squashed-twice

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Linear(4, 1)
x, y = wg.randn((32, 4)), wg.rand((32, 1))
loss = nn.functional.binary_cross_entropy_with_logits(wg.sigmoid(net(x)), y)  # here
loss.backward()
