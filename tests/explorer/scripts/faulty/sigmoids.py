"""Twelve sigmoids."""  # finds: vanishing-gradient

import wengert as wg
from wengert import nn

wg.manual_seed(0)
layers = []
for _ in range(12):
    layers += [nn.Linear(10, 10), nn.Sigmoid()]
net = nn.Sequential(*layers, nn.Linear(10, 1))
loss = (net(wg.randn((16, 10))) - 1).square().mean()  # here
loss.backward()
