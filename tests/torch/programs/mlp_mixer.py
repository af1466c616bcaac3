"""Mixing over patches and over channels, with rearranged axes and global average."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import classes, fill, numbers


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token, self.channel = self.mlp(tokens), self.mlp(dim)

    @staticmethod
    def mlp(n):
        return nn.Sequential(nn.Linear(n, 2 * n), nn.Mish(), nn.Linear(2 * n, n))

    def forward(self, x):
        x = x + self.token(self.ln1(x).swapaxes(-1, -2)).swapaxes(-1, -2)
        return x + self.channel(self.ln2(x))


def main(compiled):
    stem, blocks, head = nn.Conv2d(1, 6, 4, 4), nn.Sequential(*[MixerBlock(4, 6) for _ in range(2)]), nn.Linear(6, 3)
    model = fill(torch, nn.ModuleDict({"stem": stem, "blocks": blocks, "head": head}))
    optimizer = torch.optim.Adam(
        [{"params": stem.parameters(), "lr": 1e-3}, {"params": [*blocks.parameters(), *head.parameters()]}], lr=1e-2
    )
    x, y = torch.tensor(numbers(6, 1, 8, 8)), torch.tensor(classes(6, 3))

    def step(x, y):
        h = stem(x).flatten(2).permute(0, 2, 1)
        loss = F.cross_entropy(head(blocks(h).mean(dim=1)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    return [step(x, y).item() for _ in range(12)]
