"""A kernel's width, by the likelihood of left-out points."""

import wengert as wg

wg.manual_seed(0)
x = wg.linspace(0, 3, 20)
y = wg.sin(x)
log_width = wg.tensor(0.0, requires_grad=True)
d = (x[:, None] - x[None, :]) ** 2
k = wg.exp(-d / wg.exp(log_width)) + 0.1 * wg.eye(20)
inverse = wg.linalg.inv(k)
residual = (inverse @ y) / wg.diag(inverse)
loss = (residual**2).mean()
loss.backward()
