"""A student that learns the distribution of a teacher."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
teacher, net = nn.Linear(6, 4), nn.Linear(6, 4)
x = wg.randn((32, 6))
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    with wg.no_grad():
        target = nn.functional.softmax(teacher(x), -1)
    loss = nn.functional.kl_div(nn.functional.log_softmax(net(x), -1), target, reduction="batchmean")
    opt.zero_grad()
    loss.backward()
    opt.step()
