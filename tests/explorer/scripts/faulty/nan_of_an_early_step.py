"""A step too far: the square root of what became negative; later steps carry the NaN on."""  # finds: nan-forward

import wengert as wg

rate = wg.nn.Parameter(wg.tensor([0.5, 2.0]))
optimizer = wg.optim.SGD([rate], lr=0.5)
for _ in range(5):
    loss = (rate + rate.sqrt()).sum()  # here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
