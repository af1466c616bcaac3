"""A logarithm of zeros that are not chosen: no harm is done."""

import wengert as wg

x = wg.tensor([0.0, 1.0, 2.0], requires_grad=True)
loss = wg.where(x > 0, wg.log(x), 0.0).sum()
loss.backward()
