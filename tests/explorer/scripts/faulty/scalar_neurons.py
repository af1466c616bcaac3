"""A neuron to a layer, each weight a tensor of its own, and twelve layers of tanh that are saturated."""
# finds: vanishing-gradient

import wengert as wg

weights = [wg.tensor(2.0 + 0.1 * i, requires_grad=True) for i in range(12)]
h = wg.tensor(1.0)
for w in weights:
    h = wg.tanh(w * h)  # here
loss = (h - 0.5) ** 2
loss.backward()
