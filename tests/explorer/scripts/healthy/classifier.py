"""A network with ReLUs learns to tell three classes apart."""

import wengert as wg

wg.manual_seed(0)
x = wg.randn((90, 2)) + wg.tensor([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])[wg.arange(90) % 3]
labels = wg.arange(90) % 3
model = wg.nn.Sequential(wg.nn.Linear(2, 32), wg.nn.ReLU(), wg.nn.Linear(32, 3))
optimizer = wg.optim.Adam(model.parameters(), lr=0.01)
for _ in range(30):
    loss = wg.nn.functional.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
