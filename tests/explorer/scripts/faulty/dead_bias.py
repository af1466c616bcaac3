"""A bias far below zero."""  # finds: dead-units

import wengert as wg
from wengert import nn

wg.manual_seed(0)
lin, out = nn.Linear(4, 32), nn.Linear(32, 1)
with wg.no_grad():
    lin.bias.assign_(wg.full((32,), -50.0))
loss = out(wg.relu(lin(wg.randn((32, 4))))).square().mean()  # here
loss.backward()
