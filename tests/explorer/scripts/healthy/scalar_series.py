"""A series of numbers in a loop, whose terms get small, as they should."""

import wengert as wg

x = wg.tensor(0.3, requires_grad=True)
total = term = wg.tensor(1.0)
for n in range(1, 20):
    term = term * x / n
    total = total + term
total.backward()
