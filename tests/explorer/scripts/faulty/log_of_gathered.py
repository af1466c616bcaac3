"""The logarithm of the probabilities of the right classes."""  # notes: unstable-form

import wengert as wg

wg.manual_seed(0)
w = wg.randn((4, 3), requires_grad=True)
x, y = wg.randn((10, 4)), wg.randint(0, 3, (10,))
p = wg.softmax(x @ w, axis=-1)
loss = -wg.log(wg.take_along_axis(p, y[:, None], axis=1)).mean()  # here
loss.backward()
