"""Twelve sigmoids, one on the other."""  # finds: vanishing-gradient

import wengert as wg

wg.manual_seed(0)
layers = []
for _ in range(12):
    layers += [wg.nn.Linear(16, 16), wg.nn.Sigmoid()]
model = wg.nn.Sequential(*layers, wg.nn.Linear(16, 1))
x, y = wg.randn((32, 16)), wg.randn((32, 1))
loss = ((model(x) - y) ** 2).mean()  # here
loss.backward()
