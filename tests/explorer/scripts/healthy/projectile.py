"""A ball that is thrown so that it lands where it should: gradients through fifty steps of time."""

import wengert as wg

speed = wg.tensor([5.0, 5.0], requires_grad=True)
for _ in range(3):
    place, v = wg.zeros(2), speed
    for _ in range(50):
        v = v + 0.02 * wg.tensor([0.0, -9.81])
        place = place + 0.02 * v
    loss = ((place - wg.tensor([6.0, 0.0])) ** 2).sum()
    loss.backward()
    with wg.no_grad():
        speed -= 0.1 * speed.grad
    speed.grad = None
