"""A last softmax before cross_entropy."""  # finds: squashed-twice

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 5), nn.Softmax(-1))
x, y = wg.randn((16, 3)), wg.randint(0, 5, (16,))
loss = nn.functional.cross_entropy(net(x), y)  # here
loss.backward()
