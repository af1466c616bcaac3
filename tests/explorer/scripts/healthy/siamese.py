"""One network for both of a pair."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
a, b = wg.randn((32, 6)), wg.randn((32, 6))
same = (wg.rand(32) > 0.5).astype("float32")
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    far = ((net(a) - net(b)) ** 2).sum(axis=1)
    loss = (same * far + (1 - same) * nn.functional.relu(1.0 - wg.sqrt(far + 1e-6)) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
