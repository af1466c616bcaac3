"""Eight layers whose weights begin far too large."""  # finds: exploding-activation

import wengert as wg
from wengert import nn

wg.manual_seed(0)
layers = [nn.Linear(32, 32, bias=False) for _ in range(8)]
for layer in layers:
    with wg.no_grad():
        layer.weight *= 60.0
h = wg.randn((64, 32))
for layer in layers:
    h = nn.functional.leaky_relu(layer(h), 0.5)  # here
loss = h.mean()
loss.backward()
