"""The logarithm of one element of each row of a softmax."""  # notes: unstable-form

import wengert as wg

wg.manual_seed(0)
w = wg.randn((4, 3), requires_grad=True)
x, y = wg.randn((6, 4)), wg.tensor([0, 1, 2, 0, 1, 2])
p = wg.softmax(x @ w, axis=-1)
loss = -wg.log(p[wg.arange(6), y]).mean()  # here
loss.backward()
