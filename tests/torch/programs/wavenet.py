"""Dilated causal convolutions with gates, weight norm, skip sums; a one-step-ahead model of a series."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import weight_norm

from common import fill, numbers


class CausalConv1d(nn.Conv1d):
    def __init__(self, i, o, k, dilation):
        super().__init__(i, o, k, padding=(k - 1) * dilation, dilation=dilation)

    def forward(self, x):
        out = super().forward(x)
        return out[:, :, : -self.padding[0]]


class Block(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.filter, self.gate = CausalConv1d(c, c, 2, dilation), CausalConv1d(c, c, 2, dilation)
        self.skip, self.res = nn.Conv1d(c, c, 1), weight_norm(nn.Conv1d(c, c, 1))

    def forward(self, x):
        z = torch.tanh(self.filter(x)) * torch.sigmoid(self.gate(x))
        return self.res(z) + x, self.skip(z)


def main(compiled):
    front, blocks, back = nn.Conv1d(1, 5, 1), nn.ModuleList(Block(5, 2**i) for i in range(3)), nn.Conv1d(5, 1, 1)
    model = fill(torch, nn.ModuleList([front, blocks, back]))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    series = torch.cumsum(torch.tensor(numbers(2, 1, 20)) * 0.3, -1)

    def step(x):
        h, skips = front(x[:, :, :-1]), 0
        for block in blocks:
            h, skip = block(h)
            skips = skips + skip
        loss = F.mse_loss(back(F.relu(skips)), x[:, :, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    return [step(series).item() for _ in range(12)]
