"""A recurrent network over a long sequence, its state detached between the chunks."""

import wengert as wg
from wengert import nn

wg.manual_seed(7)


class Net(nn.Module):
    def __init__(self, n, h):
        super().__init__()
        self.cell, self.back, self.out = nn.Linear(n, h), nn.Linear(h, h), nn.Linear(h, 1)

    def forward(self, x, h):
        h = wg.tanh(self.cell(x) + self.back(h))
        return self.out(h), h


net = Net(2, 16)
opt = wg.optim.Adam(net.parameters(), lr=1e-2)
series = wg.randn((8, 40, 2))
h = wg.zeros((8, 16))
for start in range(0, 40, 10):
    h = h.detach()
    loss = 0.0
    for t in range(start, start + 9):
        y, h = net(series[:, t], h)
        loss = loss + (y - series[:, t + 1, :1]).square().mean()
    opt.zero_grad()
    (loss / 9).backward()
    opt.step()
