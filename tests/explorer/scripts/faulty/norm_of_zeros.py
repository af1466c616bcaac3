"""A norm of a row of zeros."""  # finds: infinity-backward

import wengert as wg

w = wg.tensor([[0.0, 0.0], [1.0, 2.0]], requires_grad=True)
loss = wg.sqrt((w * w).sum(axis=-1)).sum()  # here
loss.backward()
