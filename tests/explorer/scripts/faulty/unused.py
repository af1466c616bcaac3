"""A layer that forward() forgets."""  # finds: unused-parameter

import wengert as wg


class Net(wg.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = wg.nn.Linear(4, 8)
        self.second = wg.nn.Linear(8, 8)
        self.last = wg.nn.Linear(8, 2)

    def forward(self, x):
        return self.last(wg.relu(self.first(x)))


wg.manual_seed(0)
model = Net()
loss = wg.nn.functional.cross_entropy(model(wg.randn((16, 4))), wg.arange(16) % 2)
loss.backward()
