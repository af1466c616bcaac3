"""An older model beside the one that is trained: its error is printed in every step."""

import wengert as wg
from wengert import nn

wg.manual_seed(26)
old, new = nn.Linear(6, 1), nn.Linear(6, 1)
x, y = wg.randn((32, 6)), wg.randn((32, 1))
for _ in range(2):
    before = (old(x) - y).square().mean()
    loss = (new(x) - y).square().mean()
    loss.backward()
    with wg.no_grad():
        for p in new.parameters():
            p -= 0.1 * p.grad
            p.grad = None
    print(f"{before.item():.3f} {loss.item():.3f}")
