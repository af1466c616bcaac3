"""Thirty sigmoids of a single number, one in the other."""  # finds: vanishing-gradient

import wengert as wg

x = wg.tensor(0.5, requires_grad=True)
h = x
for _ in range(30):
    h = wg.sigmoid(0.5 * h)  # here
h.backward()
