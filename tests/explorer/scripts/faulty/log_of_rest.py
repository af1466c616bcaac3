"""Binary cross entropy written out: the logarithm of what a sigmoid leaves."""  # notes: unstable-form

import wengert as wg

wg.manual_seed(0)
w = wg.randn((4,), requires_grad=True)
x = wg.randn((6, 4))
loss = -wg.log(1.0 - wg.sigmoid(x @ w)).mean()  # here
loss.backward()
