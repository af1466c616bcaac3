"""A training loop that never sets gradients to zero."""  # finds: left-over-gradient

import wengert as wg

wg.manual_seed(0)
x, y = wg.randn((32, 4)), wg.randn((32, 1))
model = wg.nn.Linear(4, 1)
optimizer = wg.optim.SGD(model.parameters(), lr=0.01)
for _ in range(5):
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()  # here
    optimizer.step()
