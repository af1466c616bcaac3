"""One detach too many, behind twelve layers that each have one that is meant."""  # finds: missing-gradient

import wengert as wg
from wengert import nn

wg.manual_seed(0)


class Layer(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.lin = nn.Linear(n, n)

    def forward(self, x):
        h = self.lin(x)
        return x + wg.tanh(h / wg.abs(h).max().detach())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(8) for _ in range(12)])
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x.detach())  # here


net = Net()
opt = wg.optim.SGD(net.parameters(), lr=0.1)
x, y = wg.randn((16, 8)), wg.randn((16, 1))
for _ in range(2):
    loss = ((net(x) - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
