"""One encoder layer of a transformer."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0)
x, y = wg.randn((4, 6, 16)), wg.randn((4, 6, 16))
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    loss = ((net(x) - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
