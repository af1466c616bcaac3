"""Log-probabilities, and the loss that wants them."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 4), nn.LogSoftmax(-1))
x, y = wg.randn((40, 5)), wg.randint(0, 4, (40,))
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    loss = nn.functional.nll_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
