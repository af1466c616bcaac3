"""Gradients of several small batches are added up on purpose before a step."""

import wengert as wg

wg.manual_seed(0)
model = wg.nn.Linear(4, 1)
optimizer = wg.optim.SGD(model.parameters(), lr=0.05)
x, y = wg.randn((32, 4)), wg.randn((32, 1))
for _ in range(2):
    optimizer.zero_grad()
    for start in range(0, 32, 8):
        loss = ((model(x[start : start + 8]) - y[start : start + 8]) ** 2).mean() / 4
        loss.backward()
    optimizer.step()
