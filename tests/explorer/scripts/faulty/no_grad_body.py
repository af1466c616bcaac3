"""A body in no_grad() whose parameters the optimiser holds."""  # finds: missing-gradient

import wengert as wg
from wengert import nn

wg.manual_seed(0)
layers, head = [nn.Linear(8, 8) for _ in range(6)], nn.Linear(8, 1)
opt = wg.optim.SGD([p for layer in [*layers, head] for p in layer.parameters()], lr=0.1)
x, y = wg.randn((16, 8)), wg.randn((16, 1))
for _ in range(2):
    h = x
    with wg.no_grad():
        for layer in layers:
            h = wg.tanh(layer(h))  # here
    loss = ((head(2.0 * h) - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
