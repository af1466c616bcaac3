"""Predictions of shape (n, 1) against targets of shape (n,)."""  # finds: spread-difference

import wengert as wg

wg.manual_seed(0)
x = wg.randn((50, 3))
y = x.sum(axis=-1)
model = wg.nn.Linear(3, 1)
loss = ((model(x) - y) ** 2).mean()  # here
loss.backward()
