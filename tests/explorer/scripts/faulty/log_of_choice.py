"""The logarithm of an element of a softmax."""  # notes: unstable-form

import wengert as wg

wg.manual_seed(0)
w = wg.randn((4, 3), requires_grad=True)
x = wg.randn((4,))
p = wg.softmax(x @ w)
loss = -wg.log(p[1])  # here
loss.backward()
