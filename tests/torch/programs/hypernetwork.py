"""A network whose weights another one gives; functional calls, per-sample layers by baddbmm."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import fill, numbers


def main(compiled):
    hyper = fill(torch, nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 3 * 4 + 4 + 4 + 1)))
    optimizer = torch.optim.ASGD(hyper.parameters(), lr=0.05)

    def net(x, theta):
        w1, b1, w2, b2 = theta.split([12, 4, 4, 1], dim=-1)
        h = torch.tanh(torch.baddbmm(b1.unsqueeze(1), x, w1.view(-1, 3, 4)))
        return torch.baddbmm(b2.unsqueeze(1), h, w2.view(-1, 4, 1)).squeeze(-1)

    def step(z, x):
        target = torch.sin(x.sum(-1)) * z[:, :1] + z[:, 1:]
        loss = F.mse_loss(net(x, hyper(z)), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if compiled else step
    return [
        step(torch.tensor(numbers(5, 2, seed=i)), torch.tensor(numbers(5, 7, 3, seed=50 + i))).item() for i in range(15)
    ]
