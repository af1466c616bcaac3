"""A layer that forward() forgot, in a main()."""  # finds: unused-parameter

import wengert as wg
from wengert import nn

wg.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.skip = nn.Linear(3, 8), nn.Linear(8, 1), nn.Linear(3, 1)

    def forward(self, x):
        return self.b(wg.tanh(self.a(x)))


def main():
    net = Net()
    opt = wg.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(2):
        loss = net(wg.randn((16, 3))).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
