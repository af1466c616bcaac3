"""Forty residual blocks: gradients keep their size."""

import wengert as wg
from wengert import nn

wg.manual_seed(20)


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(n), nn.Linear(n, 2 * n), nn.Linear(2 * n, n)

    def forward(self, x):
        return x + self.down(wg.nn.functional.gelu(self.up(self.norm(x))))


net = nn.Sequential(nn.Linear(6, 16), *[Block(16) for _ in range(40)], nn.LayerNorm(16), nn.Linear(16, 2))
loss = nn.functional.cross_entropy(net(wg.randn((32, 6))), wg.arange(32) % 2)
loss.backward()
