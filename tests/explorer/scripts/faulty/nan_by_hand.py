"""Weights that a program updates itself, until a square root has no value."""  # finds: nan-forward

import wengert as wg

w = wg.tensor([0.3, 1.0], requires_grad=True)
for _ in range(6):
    loss = (1.0 + w).square().sum() + w.sqrt().sum()  # here
    w.grad = None
    loss.backward()
    with wg.no_grad():
        w -= 0.2 * w.grad
