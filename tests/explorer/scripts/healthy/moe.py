"""A mixture of experts of which each input goes to one: an expert that nothing is sent to has a rest."""

import numpy as np

import wengert as wg
from wengert import nn

wg.manual_seed(13)


class Mixture(nn.Module):
    def __init__(self, n, experts):
        super().__init__()
        self.gate = nn.Linear(n, experts)
        self.experts = nn.ModuleList([nn.Linear(n, n) for _ in range(experts)])

    def forward(self, x):
        p = wg.softmax(self.gate(x), axis=-1)
        chosen = p.detach().numpy().argmax(axis=-1)
        rows = [x[i] + p[i, e] * self.experts[e](x[i]) for i, e in enumerate(chosen.tolist())]
        return wg.stack(rows)


net, head = Mixture(6, 8), nn.Linear(6, 1)
opt = wg.optim.Adam([*net.parameters(), *head.parameters()], lr=1e-3)
for _ in range(3):
    x = wg.asarray(np.full((5, 6), 0.3, "float32"))
    loss = (head(net(x)) - 1.0).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
