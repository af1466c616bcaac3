"""An optimiser that knows only the head."""  # finds: not-updated

import wengert as wg
from wengert import nn

wg.manual_seed(0)
body, head = nn.Linear(4, 32), nn.Linear(32, 1)
opt = wg.optim.Adam(head.parameters(), lr=1e-3)  # here
for _ in range(3):
    loss = head(wg.tanh(body(wg.randn((32, 4))))).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
