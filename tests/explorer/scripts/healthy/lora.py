"""Adapters whose second factor starts at zero."""

import wengert as wg
from wengert import nn

wg.manual_seed(0)


class LoRA(nn.Module):
    def __init__(self, n, r):
        super().__init__()
        self.base = nn.Linear(n, n)
        for p in self.base.parameters():
            p.requires_grad_(False)
        self.a, self.b = nn.Linear(n, r, bias=False), nn.Linear(r, n, bias=False)
        with wg.no_grad():
            self.b.weight.assign_(wg.zeros((n, r)))

    def forward(self, x):
        return self.base(x) + self.b(self.a(x))


net = nn.Sequential(LoRA(8, 2), nn.Tanh(), LoRA(8, 2))
((net(wg.randn((16, 8))) - 1) ** 2).mean().backward()
