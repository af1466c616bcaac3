"""Forty steps of a recurrence whose weights are too small."""  # notes: vanishing-gradient

import wengert as wg

wg.manual_seed(0)
w = (0.1 * wg.eye(16)).requires_grad_()
first = wg.randn((8, 16)).requires_grad_()
h = first
for _ in range(40):
    h = wg.tanh(h @ w)  # here
loss = h.sum()
loss.backward()
