"""Convolutions, batch normalisation, dropout, and an accuracy without gradients."""

import wengert as wg
from wengert import nn

wg.manual_seed(3)
net = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1, bias=False),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(8, 16, 3, padding=1, bias=False),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.Flatten(),
    nn.Dropout(0.3),
    nn.Linear(16 * 16, 10),
)
opt = wg.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
x, y = wg.randn((16, 1, 8, 8)), wg.randint(0, 10, (16,))
for _ in range(3):
    net.train()
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    net.eval()
    with wg.no_grad():
        acc = (net(x).argmax(axis=1) == y).astype("float32").mean()
