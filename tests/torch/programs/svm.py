"""A linear support vector machine: hinge by clamp, a weight norm, shuffled by a given order, sign predictions."""

import torch
import torch.nn as nn
import torch.optim as optim

from common import fill, numbers


def main(compiled):
    X = torch.tensor(numbers(40, 2))
    Y = torch.sign(X[:, 0] + 0.5 * X[:, 1] + 0.1)
    X = (X - X.mean()) / X.std()
    model = fill(torch, nn.Linear(2, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        output = model(x).squeeze()
        weight = model.weight.squeeze()
        loss = torch.mean(torch.clamp(1 - y * output, min=0))
        loss += 0.01 * (weight.t() @ weight) / 2.0
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    out = []
    for epoch in range(3):
        perm = torch.arange(40) * 7 % 40
        for i in range(0, 40, 10):
            out.append(float(step(X[perm[i : i + 10]], Y[perm[i : i + 10]])))
    with torch.no_grad():
        accuracy = (torch.sign(model(X)).view_as(Y) == Y).float().mean()
    return out + [accuracy.item()]
