"""The logarithm of a probability of 0."""  # finds: infinity-forward

import wengert as wg

p = wg.tensor([0.0, 0.4, 0.6], requires_grad=True)
entropy = -wg.log(p).sum()  # here
entropy.backward()
