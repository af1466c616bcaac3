"""Two heads on one body, trained in turns: in each step one of them has a rest."""

import wengert as wg
from wengert import nn

wg.manual_seed(12)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.left, self.right = nn.Linear(6, 24), nn.Linear(24, 1), nn.Linear(24, 3)

    def forward(self, x, task):
        h = wg.tanh(self.body(x))
        return self.left(h) if task == "left" else self.right(h)


net = Net()
opt = wg.optim.Adam(net.parameters(), lr=1e-3)
for step in range(4):
    x = wg.randn((32, 6))
    if step % 2:
        loss = (net(x, "left") - x[:, :1]).square().mean()
    else:
        loss = nn.functional.cross_entropy(net(x, "right"), wg.arange(32) % 3)
    opt.zero_grad()
    loss.backward()
    opt.step()
