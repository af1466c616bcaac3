"""The mean of the elements that a mask leaves, where it leaves none."""  # finds: nan-forward

import wengert as wg

x = wg.tensor([1.0, 2.0], requires_grad=True)
mask = (x > 5.0).astype("float32")
loss = (x * mask).sum() / mask.sum()  # here
loss.backward()
