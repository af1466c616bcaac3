"""A small convolutional network."""

import wengert as wg

wg.manual_seed(0)
model = wg.nn.Sequential(
    wg.nn.Conv2d(1, 8, 3, padding=1), wg.nn.ReLU(), wg.nn.MaxPool2d(2), wg.nn.Flatten(), wg.nn.Linear(8 * 16, 10)
)
optimizer = wg.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
x, labels = wg.randn((20, 1, 8, 8)), wg.arange(20) % 10
for _ in range(3):
    loss = wg.nn.functional.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
