"""A root of squares written as a power."""  # finds: infinity-backward

import wengert as wg

x = wg.tensor([0.0, 3.0], requires_grad=True)
loss = ((x**2) ** 0.5).sum()  # here
loss.backward()
