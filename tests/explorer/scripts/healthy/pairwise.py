"""All distances between points: a difference of (n, 1, d) and (1, n, d), which is meant."""

import wengert as wg

wg.manual_seed(0)
points = wg.randn((12, 2))
points.requires_grad_()
squares = ((points[:, None] - points[None, :]) ** 2).sum(axis=-1)
loss = wg.exp(-squares).sum()
loss.backward()
