"""A bias so low that no unit of the layer ever fires for some of them."""  # finds: dead-units

import wengert as wg

wg.manual_seed(0)
x = wg.randn((64, 4))
first, second = wg.nn.Linear(4, 32), wg.nn.Linear(32, 1)
with wg.no_grad():
    first.bias -= wg.where(wg.arange(32) % 2 == 0, 8.0, 0.0)
loss = (second(wg.relu(first(x))) ** 2).mean()  # here
loss.backward()
