"""Inputs moved along their own gradients."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
opt = wg.optim.Adam(net.parameters(), lr=1e-3)


def main():
    for _ in range(3):
        x, y = wg.tensor(wg.randn((32, 4)).numpy(), requires_grad=True), wg.randint(0, 3, (32,))
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        adv = (x + 0.1 * wg.sign(x.grad)).detach()
        loss = nn.functional.cross_entropy(net(adv), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
