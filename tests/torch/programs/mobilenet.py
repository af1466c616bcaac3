"""Inverted residuals: depthwise convolutions, squeeze and excitation, relu6, hard swish."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import classes, fill, numbers


def _make_divisible(v, divisor, min_value=None):
    min_value = divisor if min_value is None else min_value
    new_v = max(min_value, int(v + divisor / 2) // divisor * divisor)
    return new_v + divisor if new_v < 0.9 * v else new_v


class SELayer(nn.Module):
    def __init__(self, channel, reduction=2):
        super(SELayer, self).__init__()
        self.avg_pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Sequential(
            nn.Linear(channel, _make_divisible(channel // reduction, 2)),
            nn.ReLU(inplace=True),
            nn.Linear(_make_divisible(channel // reduction, 2), channel),
            nn.Hardsigmoid(),
        )

    def forward(self, x):
        b, c, _, _ = x.size()
        y = self.avg_pool(x).view(b, c)
        return x * self.fc(y).view(b, c, 1, 1)


class InvertedResidual(nn.Module):
    def __init__(self, inp, oup, stride, expand_ratio):
        super(InvertedResidual, self).__init__()
        hidden = round(inp * expand_ratio)
        self.identity = stride == 1 and inp == oup
        self.conv = nn.Sequential(
            nn.Conv2d(inp, hidden, 1, 1, 0, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.Hardswish(),
            SELayer(hidden),
            nn.Conv2d(hidden, oup, 1, 1, 0, bias=False),
            nn.BatchNorm2d(oup),
        )

    def forward(self, x):
        return x + self.conv(x) if self.identity else self.conv(x)


def main(compiled):
    model = fill(
        torch,
        nn.Sequential(
            nn.Conv2d(3, 4, 3, 2, 1),
            InvertedResidual(4, 4, 1, 2),
            InvertedResidual(4, 6, 2, 2),
            nn.AdaptiveMaxPool2d((1, 1)),
            nn.Flatten(),
            nn.Linear(6, 3),
        ),
    )
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-3, alpha=0.9, eps=1e-3, momentum=0.9, centered=True)
    x, y = torch.tensor(numbers(4, 3, 10, 10)), torch.tensor(classes(4, 3))

    def step(x, y):
        optimizer.zero_grad()
        loss = F.multi_margin_loss(model(x), y) + F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    return [step(x, y).item() for _ in range(10)]
