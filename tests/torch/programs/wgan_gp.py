"""A critic with a gradient penalty: create_graph=True, interpolation, norms of gradients."""

import torch
import torch.nn as nn
from torch import autograd

from common import fill, numbers


def calc_gradient_penalty(netD, real_data, fake_data, alpha, LAMBDA=10.0):
    alpha = alpha.expand(real_data.size())
    interpolates = alpha * real_data + ((1 - alpha) * fake_data)
    interpolates = autograd.Variable(interpolates, requires_grad=True)
    disc_interpolates = netD(interpolates)
    gradients = autograd.grad(
        outputs=disc_interpolates,
        inputs=interpolates,
        grad_outputs=torch.ones(disc_interpolates.size(), dtype=torch.float64),
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean() * LAMBDA


def main(compiled):
    netD = fill(torch, nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 16), nn.Softplus(), nn.Linear(16, 1)))
    optimizer = torch.optim.RMSprop(netD.parameters(), lr=5e-3)

    def step(real, fake, alpha):
        netD.zero_grad()
        penalty = calc_gradient_penalty(netD, real, fake, alpha)
        cost = netD(fake).mean() - netD(real).mean() + penalty
        cost.backward()
        optimizer.step()
        return cost, penalty

    step = torch.compile(step) if compiled else step
    out = []
    for i in range(20):
        a, b, c = (torch.tensor(numbers(8, n, seed=3 * i + k)) for k, n in enumerate((4, 4, 1)))
        cost, penalty = step(a + 1.0, b, torch.sigmoid(c))
        out += [cost.item(), penalty.item()]
    return out
