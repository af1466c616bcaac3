"""A validation loss with its graph."""  # finds: unread-saved

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(200, 600), nn.Tanh(), nn.Linear(600, 1))
opt = wg.optim.SGD(net.parameters(), lr=0.01)
big, x = wg.randn((2000, 200)), wg.randn((16, 200))
for _ in range(2):
    val = net(big).square().mean()  # here
    loss = net(x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
