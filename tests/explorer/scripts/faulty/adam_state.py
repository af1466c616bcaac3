"""Two numbers are kept for every weight of a wide layer."""  # notes: optimizer-state

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Linear(512, 512, bias=False)
opt = wg.optim.Adam(net.parameters(), lr=1e-4)
x = wg.randn((8, 512))
for _ in range(2):
    loss = (net(x) ** 2).mean()  # here
    opt.zero_grad()
    loss.backward()
    opt.step()
