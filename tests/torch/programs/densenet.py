"""Dense blocks: features kept in a list and concatenated, transitions with average pooling."""

from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import classes, fill, numbers


class _DenseLayer(nn.Sequential):
    def __init__(self, num_input_features, growth_rate, bn_size):
        super(_DenseLayer, self).__init__()
        self.add_module("norm1", nn.BatchNorm2d(num_input_features))
        self.add_module("relu1", nn.ReLU(inplace=True))
        self.add_module(
            "conv1", nn.Conv2d(num_input_features, bn_size * growth_rate, kernel_size=1, stride=1, bias=False)
        )
        self.add_module("norm2", nn.BatchNorm2d(bn_size * growth_rate))
        self.add_module("relu2", nn.ReLU(inplace=True))
        self.add_module(
            "conv2", nn.Conv2d(bn_size * growth_rate, growth_rate, kernel_size=3, stride=1, padding=1, bias=False)
        )

    def forward(self, x):
        new_features = super(_DenseLayer, self).forward(x)
        return torch.cat([x, new_features], 1)


class DenseNet(nn.Module):
    def __init__(self):
        super(DenseNet, self).__init__()
        self.features = nn.Sequential(
            OrderedDict(
                [("conv0", nn.Conv2d(1, 4, kernel_size=3, padding=1, bias=False)), ("norm0", nn.BatchNorm2d(4))]
            )
        )
        n = 4
        for i in range(2):
            block = nn.Sequential()
            for k in range(2):
                block.add_module("denselayer%d" % (k + 1), _DenseLayer(n + k * 2, 2, 2))
            self.features.add_module("denseblock%d" % (i + 1), block)
            n += 4
            if i == 0:
                self.features.add_module(
                    "transition", nn.Sequential(nn.Conv2d(n, n // 2, 1), nn.AvgPool2d(kernel_size=2, stride=2))
                )
                n //= 2
        self.classifier = nn.Linear(n, 3)

    def forward(self, x):
        out = F.relu(self.features(x), inplace=True)
        out = F.adaptive_avg_pool2d(out, (1, 1)).view(out.size(0), -1)
        return self.classifier(out)


def main(compiled):
    model = fill(torch, DenseNet())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[4, 8], gamma=0.1)
    x, y = torch.tensor(numbers(4, 1, 8, 8)), torch.tensor(classes(4, 3))

    def step(x, y):
        loss = F.cross_entropy(model(x), y, reduction="none").mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    out = []
    for _ in range(10):
        out.append(step(x, y).item())
        scheduler.step()
    return out + [float(len(model.state_dict()))]
