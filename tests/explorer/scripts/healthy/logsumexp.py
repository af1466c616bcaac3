"""Logarithms of probabilities with a floor, and of a sigmoid that is clipped."""

import wengert as wg

wg.manual_seed(21)
w = wg.randn((5, 3), requires_grad=True)
x, y = wg.randn((20, 5)), wg.arange(20) % 3
p = wg.softmax(x @ w, axis=-1)
loss = -wg.log(p[wg.arange(20), y] + 1e-9).mean()
entropy = -(p * wg.log_softmax(x @ w, axis=-1)).sum(axis=-1).mean()
(loss - 0.01 * entropy).backward()
