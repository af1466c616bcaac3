"""A recurrent cell written by hand, with clipping."""

import wengert as wg
from wengert import nn

wg.manual_seed(2)


class LSTM(nn.Module):
    def __init__(self, n, h):
        super().__init__()
        self.h = h
        self.x2h, self.h2h = nn.Linear(n, 4 * h), nn.Linear(h, 4 * h)
        self.out = nn.Linear(h, 1)

    def forward(self, xs):
        h = c = wg.zeros((xs.shape[0], self.h))
        for t in range(xs.shape[1]):
            g = self.x2h(xs[:, t]) + self.h2h(h)
            i, f, o, u = wg.split(g, 8, axis=-1)
            c = wg.sigmoid(f + 1.0) * c + wg.sigmoid(i) * wg.tanh(u)
            h = wg.sigmoid(o) * wg.tanh(c)
        return self.out(h)


net = LSTM(3, 8)
opt = wg.optim.Adam(net.parameters(), lr=1e-2)
x = wg.randn((16, 12, 3))
y = x.sum(axis=(1, 2))[:, None]
for _ in range(3):
    loss = ((net(x) - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
