"""Twenty layers that each make values thirty times as large."""  # finds: exploding-activation

import wengert as wg
from wengert import nn

wg.manual_seed(0)
layers = [nn.Linear(64, 64, bias=False) for _ in range(16)]
h = wg.randn((32, 64))
for layer in layers:
    h = wg.nn.functional.leaky_relu(30.0 * layer(h), 0.3)  # here
loss = h.mean()
loss.backward()
