"""A norm as a root of a sum of squares; one row is padding."""  # finds: nan-backward

import wengert as wg

wg.manual_seed(0)
x = wg.randn((4, 3))
x[2] = 0.0
model = wg.nn.Linear(3, 3, bias=False)
q = model(x)
length = (q * q).sum(axis=-1).sqrt() + 1e-6  # here
loss = (q / length[:, None]).sum()
loss.backward()
