"""Half of the model by way of NumPy."""  # finds: missing-gradient

import wengert as wg
from wengert import nn

enc, dec = nn.Linear(4, 8), nn.Linear(8, 1)
opt = wg.optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-3)
x = wg.randn((20, 4))
for _ in range(2):
    h = wg.asarray(enc(x).detach().numpy() * 2.0)  # here
    loss = dec(wg.tanh(h)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
