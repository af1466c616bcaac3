"""A recurrence without a bound, whose matrix makes its state grow."""  # finds: exploding-activation

import wengert as wg

wg.manual_seed(0)
w = (0.6 * wg.randn((16, 16))).requires_grad_()
h = wg.randn((4, 16))
for _ in range(20):
    h = h @ w + 0.1  # here
loss = h.square().mean()
loss.backward()
