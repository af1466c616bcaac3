"""A factor read as a number."""  # finds: missing-gradient

import wengert as wg

a = wg.tensor(2.0, requires_grad=True)
b = wg.tensor(3.0, requires_grad=True)
opt = wg.optim.SGD([a, b], lr=0.1)
for _ in range(2):
    s = (a * a).item()  # here
    loss = (b * s - 1) ** 2
    opt.zero_grad()
    loss.backward()
    opt.step()
