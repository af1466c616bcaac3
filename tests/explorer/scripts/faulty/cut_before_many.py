"""One code, detached once, that twelve heads take."""  # finds: missing-gradient

import wengert as wg
from wengert import nn

wg.manual_seed(0)
enc, heads = nn.Linear(8, 8), [nn.Linear(8, 1) for _ in range(12)]
opt = wg.optim.SGD([p for layer in [enc, *heads] for p in layer.parameters()], lr=0.1)
x, y = wg.randn((16, 8)), wg.randn((16, 1))
for _ in range(2):
    h = wg.tanh(enc(x))
    print(h.detach().numpy().std())
    code = h.detach()  # here
    print(h.detach().numpy().mean())
    loss = sum(((head(code) - y) ** 2).mean() for head in heads)
    opt.zero_grad()
    loss.backward()
    opt.step()
