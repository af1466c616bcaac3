"""A chain of tensors: its start hardly matters to its end."""  # finds: vanishing-gradient

import wengert as wg

wg.manual_seed(0)
start = wg.randn((64,)).requires_grad_()
h = start
for _ in range(30):
    h = wg.sigmoid(h) * 0.9  # here
loss = h.sum()
loss.backward()
