"""A learning rate of 10."""  # finds: great-step

import wengert as wg
from wengert import nn

wg.manual_seed(0)
body, head = nn.Linear(4, 32), nn.Linear(32, 1)
opt = wg.optim.Adam([*body.parameters(), *head.parameters()], lr=10.0)
loss = head(wg.tanh(body(wg.randn((32, 4))))).square().mean()
opt.zero_grad()
loss.backward()
opt.step()  # here
