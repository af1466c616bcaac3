"""A model that holds its own target: a copy that runs without gradients and follows slowly."""

import copy

import wengert as wg
from wengert import nn

wg.manual_seed(23)


class Bootstrap(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.online = nn.Sequential(nn.Linear(n, 24), nn.ReLU(), nn.Linear(24, 8))
        self.target = copy.deepcopy(self.online)
        self.predict = nn.Linear(8, 8)

    def forward(self, a, b):
        with wg.no_grad():
            wanted = self.target(b)
        return (self.predict(self.online(a)) - wanted).square().mean()

    def follow(self, rate):
        with wg.no_grad():
            for t, o in zip(self.target.parameters(), self.online.parameters()):
                t.assign_(t + rate * (o - t))


model = Bootstrap(6)
opt = wg.optim.Adam([*model.online.parameters(), *model.predict.parameters()], lr=1e-3)
for _ in range(3):
    x = wg.randn((40, 6))
    loss = model(x + 0.1 * wg.randn((40, 6)), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
    model.follow(0.05)
