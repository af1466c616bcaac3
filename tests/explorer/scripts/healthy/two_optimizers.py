"""One backward pass, two optimisers."""

import wengert as wg
from wengert import nn

wg.manual_seed(15)
a, b = nn.Linear(6, 8), nn.Linear(8, 1)
oa, ob = wg.optim.SGD(a.parameters(), lr=0.01), wg.optim.Adam(b.parameters(), lr=0.001)
x = wg.randn((20, 6))
for _ in range(3):
    loss = (b(wg.tanh(a(x)))[:, 0] - x[:, 0]).square().mean()
    oa.zero_grad()
    ob.zero_grad()
    loss.backward()
    oa.step()
    ob.step()
